//! Both clocks: that of the loop, and the wall clock as the API shows it.

use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coracle_api::meta::Time;
use tokio::time::Instant;

use crate::facts::backoff::Now;

/// The monotonic clock since the loop began, and a wall clock beside it.
#[derive(Clone)]
pub struct Clock {
    started: Instant,
    wall_ms: Rc<dyn Fn() -> i64>,
}

impl Clock {
    pub fn start(wall_ms: Rc<dyn Fn() -> i64>) -> Clock {
        Clock { started: Instant::now(), wall_ms }
    }

    pub fn now(&self) -> Now {
        let mono_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        Now { wall_ms: (self.wall_ms)(), mono_ms }
    }

    pub fn at(&self, mono_ms: i64) -> Instant {
        self.started + Duration::from_millis(u64::try_from(mono_ms).unwrap_or(0))
    }
}

/// This program was written later: a clock that shows less was never set.
pub const CLOCK_MS_MIN: i64 = 1_767_225_600_000;

/// The wall clock, in milliseconds since 1970.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The wall clock in whole seconds, as documents show it.
pub fn now() -> Time {
    Time::from_seconds(wall_ms().div_euclid(1000)).expect("the clock shows a year that can be written")
}
