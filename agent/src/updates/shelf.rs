//! The updates that have not ended well, on this host's own disk.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::record::Records;
use crate::facts::update::Updates;
use crate::host::private;

const NAME: &str = "updates.json";
/// A thousand records take less.
const FILE_BYTES_MAX: u64 = 4 << 20;

pub struct Shelf {
    folder: PathBuf,
    path: PathBuf,
}

impl Shelf {
    pub fn new(data_dir: &str) -> Shelf {
        Shelf { folder: data_dir.into(), path: Path::new(data_dir).join(NAME) }
    }

    pub fn read(&self) -> Records {
        let read = || -> io::Result<Records> {
            if fs::metadata(&self.path)?.len() > FILE_BYTES_MAX {
                return Err(io::Error::other("it is too big"));
            }
            serde_json::from_slice(&fs::read(&self.path)?).map_err(io::Error::other)
        };
        read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                log::error!("{}: {error}; pods that went back start from the newer images", self.path.display());
            }
            Records::default()
        })
    }

    /// Durable when it returns.
    pub fn write(&self, records: &Records) -> io::Result<()> {
        if records.is_empty() && !self.path.exists() {
            return Ok(());
        }
        let text = serde_json::to_vec(records).map_err(io::Error::other)?;
        private::replace_files(&self.folder, [(NAME.into(), text)].into_iter())
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))
    }
}

/// What an agent that starts now asks of pods.
pub fn kept(data_dir: &str) -> Updates {
    Shelf::new(data_dir).read().iter().map(|(uid, record)| (uid.clone(), record.asks())).collect()
}
