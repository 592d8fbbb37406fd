//! A lock that a panic under it leaves usable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Nothing panics half-way through a change, so a lock that a panic left behind guards something whole.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
