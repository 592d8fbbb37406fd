//! Lines on their way to the log: whoever answers a request hands a line over, and waits for no disk.
//!
//!     put -> lines that wait, of `WAITING_BYTES_MAX` together -> one thread -> AuditLog

use super::lines::AuditLog;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Some thousand lines. Where the disk does not take them, more are lost.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// The lines that wait. The thread ends with its last line, once this has gone.
pub(super) struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A line waits, or no more will come.
    came: Condvar,
    /// The lines that waited are in the log, or lost.
    gone: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<String>,
    bytes: usize,
    /// The thread has taken lines and is not done with them.
    writes: bool,
    is_over: bool,
    /// What the log has written and lost.
    done: (u64, u64),
    /// Lines for which there was no room.
    lost: u64,
    /// The same since the thread took lines.
    lost_now: u64,
}

impl Queue {
    pub(super) fn start(log: AuditLog) -> io::Result<Queue> {
        let queue = Queue(Arc::default());
        let theirs = queue.0.clone();
        thread::Builder::new().name("audit".to_owned()).spawn(move || theirs.write_to(log))?;
        Ok(queue)
    }

    pub(super) fn put(&self, line: String) {
        let mut state = self.0.state();
        if state.bytes + line.len() > WAITING_BYTES_MAX {
            state.lost += 1;
            state.lost_now += 1;
            let is_first = state.lost_now == 1;
            drop(state);
            if is_first {
                log::error!("audit: lines come faster than they can be written; until that ends, lines are lost");
            }
            return;
        }
        state.bytes += line.len();
        state.waiting.push(line);
        drop(state);
        self.0.came.notify_one();
    }

    /// Waits until the lines that were put are in the log, or lost, or until the time is over.
    pub(super) fn flush(&self, patience: Duration) {
        let state = self.0.state();
        let waited = self.0.gone.wait_timeout_while(state, patience, |state| state.writes || !state.waiting.is_empty());
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            let waiting = state.waiting.len();
            drop(state);
            log::error!("audit: {waiting} lines and more could not be written in time");
        }
    }

    /// Lines that were written, and lines that were lost.
    pub(super) fn written(&self) -> (u64, u64) {
        let state = self.0.state();
        (state.done.0, state.done.1 + state.lost)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.came.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut log: AuditLog) {
        while let Some((lines, lost)) = self.next() {
            if lost > 0 {
                log::info!("audit: lines are written again; {lost} lines were lost");
            }
            lines.iter().for_each(|line| log.write(line));
            let mut state = self.state();
            (state.writes, state.done) = (false, log.written());
            drop(state);
            self.gone.notify_all();
        }
    }

    /// Waits for lines. None: no more will come.
    fn next(&self) -> Option<(Vec<String>, u64)> {
        let waits = |state: &mut State| state.waiting.is_empty() && !state.is_over;
        let waited = self.came.wait_while(self.state(), waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.waiting.is_empty() {
            return None;
        }
        (state.writes, state.bytes) = (true, 0);
        let lost = std::mem::take(&mut state.lost_now);
        Some((std::mem::take(&mut state.waiting), lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::path::PathBuf;
    use std::process::Command;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn path(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("coracle-audit-{name}-{}", std::process::id()));
        fs::remove_file(&path).ok();
        path
    }

    #[test]
    fn lines_are_written_in_their_order() {
        let path = path("order");
        let queue = Queue::start(AuditLog::to(Some(path.clone()))).expect("a thread");
        (0..1000).for_each(|n| queue.put(n.to_string()));
        queue.flush(PATIENCE);
        let expected: String = (0..1000).map(|n| format!("{n}\n")).collect();
        assert_eq!(fs::read_to_string(&path).expect("a file"), expected);
        assert_eq!(queue.written(), (1000, 0));
        fs::remove_file(path).expect("it goes");
    }

    /// A pipe that nobody reads is a disk that hangs.
    #[test]
    fn a_log_that_hangs_holds_nobody_up() {
        let path = path("hangs");
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        // Both ends: opening the pipe waits for neither.
        let reader = OpenOptions::new().read(true).write(true).open(&path).expect("a pipe");
        let queue = Queue::start(AuditLog::to(Some(path.clone()))).expect("a thread");
        let line = "x".repeat(1023);
        // More than wait, are being written, and fit into the pipe.
        (0..4096).for_each(|_| queue.put(line.clone()));
        let (written, lost) = queue.written();
        assert!(lost > 1000, "{written} {lost}");
        fs::remove_file(&path).expect("it goes");
        // The line that is being written fails; the next line makes a file.
        drop(reader);
        queue.flush(PATIENCE);
        let (written, lost) = queue.written();
        assert_eq!(written + lost, 4096, "each line is counted");
        assert!(fs::read_to_string(&path).expect("a file").contains(&line), "lines are written again");
        fs::remove_file(path).expect("it goes");
    }
}
