//! A lock that stays good though a thread has panicked under it.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
