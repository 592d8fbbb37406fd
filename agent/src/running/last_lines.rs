//! Reads the last line of the log of each container that has failed, once, and keeps it for `status`.
//!
//!     Shown -> the containers that failed and have no line here -> the engine's log -> LastLines
//!
//! A container that runs, and a container whose line is here, cost nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use coracle_http::channel::channel;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::facts::engine::State;
use crate::facts::members::MemberKind;
use crate::facts::seen;
use crate::facts::shown::{LastLines, Shown};
use crate::runtime::docker::Docker;
use crate::runtime::docker::logs::Wish;

/// Containers of one host that have a line here: two of each container of 110 pods with some containers each. A
/// further container has none, and `logs` shows its log.
const CONTAINERS_MAX: usize = 512;
/// Characters of a line: some screens. The log has the rest.
const LINE_CHARS_MAX: usize = 2000;
/// Lines that are read: the last ones may be empty.
const LINES_READ: u64 = 5;
/// Bytes of log lines in memory.
const BYTES_MAX: usize = 64 * 1024;
/// An engine that takes longer has no line to give.
const READ_FOR: Duration = Duration::from_secs(10);
/// Pieces of a log under way.
const PIECES: usize = 4;

/// Ends with the loop.
pub async fn run(docker: Arc<Docker>, mut shown: watch::Receiver<Arc<Shown>>, out: watch::Sender<Arc<LastLines>>) {
    loop {
        let seen = shown.borrow_and_update().clone();
        let here: BTreeSet<&String> = seen.world.containers.iter().map(|seen| &seen.id).collect();
        let mut lines = (**out.borrow()).clone();
        lines.retain(|id, _| here.contains(id));
        for id in failed(&seen) {
            if !lines.contains_key(&id) && lines.len() < CONTAINERS_MAX {
                let line = timeout(READ_FOR, read(&docker, &id)).await.unwrap_or_default();
                lines.insert(id, line);
            }
        }
        out.send_if_modified(|was| {
            let differs = **was != lines;
            if differs {
                *was = Arc::new(lines);
            }
            differs
        });
        if shown.changed().await.is_err() {
            return;
        }
    }
}

/// The containers, by the engine's id, whose last line says why something of a wanted pod is not there.
fn failed(shown: &Shown) -> Vec<String> {
    let mut found = Vec::new();
    let pods = seen::group(&shown.world.containers);
    for (uid, wanted) in &shown.desired.pods {
        let Some(pod) = pods.get(uid) else { continue };
        for member in wanted.members() {
            let mut runs = seen::of(&pod.runs, &member.spec.name);
            let Some(newest) = runs.next() else { continue };
            // A container that was started again after a failure: the one before it failed.
            let last = if newest.seen.lives() { runs.next().filter(|_| newest.tag.step > 0) } else { Some(newest) };
            let Some(State::Exited { exit_code, .. }) = last.map(|run| &run.seen.state) else { continue };
            let goes_on = member.kind != MemberKind::Init && wanted.starts_again(&member, 0);
            if *exit_code != 0 || goes_on {
                found.extend(last.map(|run| run.seen.id.clone()));
            }
        }
    }
    found
}

async fn read(docker: &Docker, id: &str) -> String {
    let (out, mut lines) = channel(PIECES);
    let wish = Wish { tail_lines: Some(LINES_READ), ..Wish::default() };
    let send = async {
        if let Err(failure) = docker.send_log(id, &wish, &out).await {
            log::debug!("the last line of {id}: {failure}");
        }
        drop(out);
    };
    let receive = async {
        let mut bytes = Vec::new();
        while let Some(piece) = lines.recv().await {
            bytes.extend_from_slice(&piece);
            let more = bytes.len().saturating_sub(BYTES_MAX);
            bytes.drain(..more);
        }
        last_line(&bytes)
    };
    tokio::join!(send, receive).1
}

/// The last line that is not blank.
fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    coracle_keeper::problem::cut(line, LINE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_says_something() {
        assert_eq!(last_line(b"a\nno database\r\n\n  \n"), "no database");
        assert_eq!(last_line(b""), "");
        assert_eq!(last_line(b"\xff tail"), "\u{fffd} tail");
        let long = last_line("x".repeat(LINE_CHARS_MAX + 1).as_bytes());
        assert!(long.len() == LINE_CHARS_MAX && long.ends_with("x..."), "{}", long.len());
    }
}
