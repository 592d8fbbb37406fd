//! The clock and the buckets of the limits for events. Admission decides on them.

use crate::admit::{EventBuckets, EventCount, EventKeys};
use crate::store::locked;
use std::sync::Mutex;
use std::time::Instant;

/// Counts events since now.
pub(super) fn event_rate() -> Box<EventCount> {
    let (start, buckets) = (Instant::now(), Mutex::new(EventBuckets::default()));
    Box::new(move |keys: &EventKeys| locked(&buckets).take(keys, start.elapsed()))
}
