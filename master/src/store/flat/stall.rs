//! Measures for how long the disk has left a commit unanswered. A card that stalls reports no error: without this
//! nobody would be told why writes get no answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When the commit that waits began, in milliseconds of uptime and one more; zero: none does.
#[derive(Default)]
pub struct Silence(AtomicU64);

impl Silence {
    /// A commit begins; what comes back ends it.
    pub fn begin(&self, uptime: Duration) -> u64 {
        let since = millis(uptime) + 1;
        self.0.store(since, Ordering::Relaxed);
        since
    }

    /// The next commit may have begun.
    pub fn end(&self, since: u64) {
        self.0.compare_exchange(since, 0, Ordering::Relaxed, Ordering::Relaxed).ok();
    }

    /// None: nobody has waited for `bearable`.
    pub fn complaint(&self, uptime: Duration, bearable: Duration) -> Option<String> {
        let since = self.0.load(Ordering::Relaxed).checked_sub(1)?;
        let waited = Duration::from_millis(millis(uptime).saturating_sub(since));
        (waited >= bearable).then(|| {
            format!(
                "the disk has not answered for {} s: writes wait for it, and will be answered when it does",
                waited.as_secs()
            )
        })
    }
}

fn millis(uptime: Duration) -> u64 {
    u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_waits_is_told_of() {
        let (silence, bearable, at) = (Silence::default(), Duration::from_secs(5), Duration::from_millis);
        assert_eq!(silence.complaint(at(90_000), bearable), None);
        let first = silence.begin(at(0));
        assert_eq!(silence.complaint(at(4_999), bearable), None);
        assert!(silence.complaint(at(7_500), bearable).is_some_and(|complaint| complaint.contains("for 7 s")));
        let second = silence.begin(at(8_000));
        silence.end(first);
        assert!(silence.complaint(at(13_000), bearable).is_some(), "another commit waits");
        silence.end(second);
        assert_eq!(silence.complaint(at(90_000), bearable), None);
    }
}
