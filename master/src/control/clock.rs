//! Hears when somebody sets the clock of this host, or the host has slept: what waits for a time of day looks at the
//! clock again.

use super::wakes::Wakes;
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A time that does not come, in seconds since 1970: the year 2200.
const NEVER_S: i64 = 7_258_118_400;

/// Dropping it ends its thread.
pub struct ClockWatch {
    watch: Arc<Watch>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Watch {
    timer: TimerFd,
    stopped: AtomicBool,
}

impl ClockWatch {
    pub fn start(wakes: Wakes) -> io::Result<ClockWatch> {
        let timer = TimerFd::new(ClockId::CLOCK_REALTIME, TimerFlags::TFD_CLOEXEC)?;
        let watch = Arc::new(Watch { timer, stopped: AtomicBool::new(false) });
        let theirs = watch.clone();
        let thread =
            thread::Builder::new().name("clock".into()).stack_size(128 << 10).spawn(move || theirs.run(&wakes))?;
        Ok(ClockWatch { watch, thread: Some(thread) })
    }
}

impl Watch {
    fn run(&self, wakes: &Wakes) {
        let (never, cancel_on_set) =
            (Expiration::OneShot(TimeSpec::new(NEVER_S, 0)), TimerSetTimeFlags::TFD_TIMER_CANCEL_ON_SET);
        loop {
            let waited = self.timer.set(never, TimerSetTimeFlags::TFD_TIMER_ABSTIME | cancel_on_set).and_then(|()| {
                // Who stops it may have done so before the timer was set.
                if self.stopped.load(Ordering::Acquire) { Ok(()) } else { self.timer.wait() }
            });
            match waited {
                _ if self.stopped.load(Ordering::Acquire) => return,
                Ok(()) | Err(Errno::ECANCELED) => wakes.clock_was_set(),
                Err(error) => {
                    log::warn!(
                        "cron jobs wait as long as they thought, whatever the clock says: it cannot be watched: {error}"
                    );
                    return;
                }
            }
        }
    }
}

impl Drop for ClockWatch {
    fn drop(&mut self) {
        self.watch.stopped.store(true, Ordering::Release);
        // At once: the wait ends.
        let _ = self.watch.timer.set(Expiration::OneShot(TimeSpec::new(0, 1)), TimerSetTimeFlags::empty());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wakes::wakes;
    use super::*;

    #[test]
    fn it_ends_when_it_is_dropped() {
        let (wakes, inbox) = wakes();
        for _ in 0..100 {
            drop(ClockWatch::start(wakes.clone()).unwrap());
        }
        assert!(inbox.queue.try_recv().is_err(), "nobody set the clock");
    }
}
