//! The steps from a wish to a running container, each with its time: `RUST_LOG=start=debug` shows them in the log.

use std::fmt::Display;
use std::sync::LazyLock;
use std::time::Instant;

/// The target of these lines in the log.
const TARGET: &str = "start";

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A step of this pod, file or call is over. The number is the time since the first step of this process, in
/// milliseconds.
pub fn step(subject: &str, step: &dyn Display) {
    if log::log_enabled!(target: TARGET, log::Level::Debug) {
        log::debug!(target: TARGET, "{:.1} ms: {subject}: {step}", BEGUN.elapsed().as_secs_f64() * 1e3);
    }
}

/// A call that has begun. Its end logs the duration.
pub struct TracedCall<'a> {
    what: &'a str,
    begun: Instant,
}

impl TracedCall<'_> {
    pub fn begins(what: &str) -> TracedCall<'_> {
        TracedCall { what, begun: Instant::now() }
    }

    pub fn ends(self) {
        let took_ms = self.begun.elapsed().as_secs_f64() * 1e3;
        step(self.what, &format_args!("answered after {took_ms:.1} ms"));
    }
}
