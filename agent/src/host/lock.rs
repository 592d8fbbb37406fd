//! One live agent to an engine: a lock on a file that is named by the engine's own id, whatever socket it is reached
//! through.
//!
//! The kernel drops the lock with the process, so a killed agent leaves nothing that the next one would have to judge.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;

use crate::facts::hash::hash_text;

/// Held as long as this value lives.
#[derive(Debug)]
pub struct EngineLock {
    _file: File,
}

#[derive(Clone, Debug)]
pub enum LockError {
    /// The holder's description of itself.
    Held {
        engine: String,
        holder: String,
    },
    File {
        path: PathBuf,
        what: &'static str,
        cause: String,
    },
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::Held { engine, holder } => {
                write!(
                    f,
                    "the engine at {engine} is run by another agent ({holder}): stop that one first, or give this one \
                     an engine of its own"
                )
            }
            LockError::File { path, what, cause } => write!(f, "{what} the lock {}: {cause}", path.display()),
        }
    }
}

impl std::error::Error for LockError {}

impl EngineLock {
    pub fn take(
        run_dir: &str,
        engine_id: &str,
        engine: &str,
        node_name: &str,
        data_dir: &str,
    ) -> Result<EngineLock, LockError> {
        let path = PathBuf::from(run_dir).join(format!("engine-{}.lock", &hash_text(engine_id)[..16]));
        let failed = |what| {
            let path = path.clone();
            move |error: io::Error| LockError::File { path, what, cause: error.to_string() }
        };
        fs::create_dir_all(run_dir).map_err(failed("make the folder of"))?;
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = opened.map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(failed("read"))?;
                return Err(LockError::Held { engine: engine.to_owned(), holder: holder.trim().to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(failed("take")(error)),
        }
        let text = format!("pid {}, node {node_name}, data in {data_dir}\n", std::process::id());
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(failed("write"))?;
        Ok(EngineLock { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is() {
        let dir = std::env::temp_dir().join(format!("coracle-lock-{}", std::process::id()));
        let dir = dir.to_str().unwrap();
        let take = |engine: &str, node: &str| EngineLock::take(dir, engine, "unix:///e.sock", node, "/data");
        let first = take("A:B/../C", "one").unwrap();
        let refused = take("A:B/../C", "two").unwrap_err().to_string();
        assert!(refused.contains(&format!("pid {}, node one, data in /data", std::process::id())), "{refused}");
        let other = take("other", "two").unwrap();
        drop(first);
        take("A:B/../C", "two").unwrap();
        drop(other);
        fs::remove_dir_all(dir).unwrap();
    }
}
