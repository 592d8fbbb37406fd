//! Files of the agent's own that could not be written: the log says so once, `status` shows them, and they are written
//! again later. The old file stays whole meanwhile.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// Before the second attempt; each further pause is twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// By path: the sentence that says what is not written, and why.
pub type Failures = BTreeMap<String, String>;

/// Shared by all that keep a file.
#[derive(Clone, Debug)]
pub struct Unkept {
    failures: watch::Sender<Failures>,
}

impl Default for Unkept {
    fn default() -> Unkept {
        Unkept { failures: watch::channel(Failures::new()).0 }
    }
}

impl Unkept {
    /// How a write of the file at `path` went. `content`: its content in words. True: the file is written.
    pub fn note(&self, path: &Path, content: &str, written: io::Result<()>) -> bool {
        let key = path.display().to_string();
        let failure = written.err().map(|error| format!("{key}: cannot write {content}: {error}"));
        let is_new = self.failures.send_if_modified(|failures| {
            let before = match &failure {
                Some(text) => failures.insert(key.clone(), text.clone()),
                None => failures.remove(&key),
            };
            before != failure
        });
        match &failure {
            Some(text) if is_new => log::error!("{text}; it is tried again"),
            None if is_new => log::info!("{key}: {content} can be written again"),
            _ => {}
        }
        failure.is_none()
    }

    /// Tells each change of `texts`.
    pub fn changes(&self) -> watch::Receiver<Failures> {
        self.failures.subscribe()
    }

    pub fn texts(&self) -> Vec<String> {
        self.failures.borrow().values().cloned().collect()
    }

    /// Returns when the file at `path` is to be written again. Pending for ever while its last write succeeded.
    /// `attempts`: the number of consecutive failed writes, updated by this function.
    pub async fn due(&self, path: &Path, attempts: &mut u32) {
        let key = path.display().to_string();
        let mut failures = self.failures.subscribe();
        if !failures.borrow().contains_key(&key) {
            *attempts = 0;
            // The sender is `self`: the channel is open.
            drop(failures.wait_for(|failures| failures.contains_key(&key)).await);
        }
        sleep(pause(*attempts)).await;
        *attempts = attempts.saturating_add(1);
    }
}

fn pause(attempts: u32) -> Duration {
    PAUSE_FIRST.saturating_mul(1_u32.checked_shl(attempts).unwrap_or(u32::MAX)).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, timeout};

    #[test]
    fn pauses_double_up_to_a_bound() {
        let seconds: Vec<u64> = [0, 1, 2, 3, 4, 40].map(|attempts| pause(attempts).as_secs()).into();
        assert_eq!(seconds, [5, 10, 20, 40, 60, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_due_while_its_last_write_failed() {
        let (unkept, path) = (Unkept::default(), Path::new("/d/x.json"));
        let failed = || Err(io::Error::other("no space"));
        let mut attempts = 0;
        let a_day = Duration::from_secs(86_400);
        assert!(timeout(a_day, unkept.due(path, &mut attempts)).await.is_err());
        assert!(!unkept.note(path, "the ends of pods", failed()));
        unkept.note(Path::new("/d/y.json"), "the services", Ok(()));
        assert_eq!(unkept.texts(), ["/d/x.json: cannot write the ends of pods: no space"]);
        for seconds in [5, 10, 20] {
            let begun = Instant::now();
            unkept.due(path, &mut attempts).await;
            assert_eq!(begun.elapsed().as_secs(), seconds);
            unkept.note(path, "the ends of pods", failed());
        }
        assert!(unkept.note(path, "the ends of pods", Ok(())));
        assert!(unkept.texts().is_empty());
        assert!(timeout(a_day, unkept.due(path, &mut attempts)).await.is_err());
        assert_eq!(attempts, 0);
    }
}
