//! The addresses of the Services of files on this host's own disk. The file is written when a new name comes, and at no
//! other time.

use std::path::PathBuf;
use std::{fs, io};

use super::addresses::AddressBook;
use crate::desired::unkept::Unkept;
use crate::host::private;

const NAME: &str = "file-services.json";
/// A thousand names take less.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone)]
pub struct AddressFile {
    folder: PathBuf,
    unkept: Unkept,
}

impl AddressFile {
    pub fn new(data_dir: &str, unkept: Unkept) -> AddressFile {
        AddressFile { folder: data_dir.into(), unkept }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// A file that cannot be read counts as empty: addresses follow from the names mostly.
    pub fn read(&self) -> AddressBook {
        let path = self.path();
        let read = || -> io::Result<AddressBook> {
            if fs::metadata(&path)?.len() > FILE_BYTES_MAX {
                return Err(io::Error::other("it is too big"));
            }
            serde_json::from_slice(&fs::read(&path)?).map_err(io::Error::other)
        };
        read().unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                log::error!("{}: {error}; Services of files may get other addresses", path.display());
            }
            AddressBook::default()
        })
    }

    /// Whole and durable, or the old file stays. False: it could not be written.
    pub fn keep(&self, book: &AddressBook) -> bool {
        let text = serde_json::to_vec(book).map_err(io::Error::other);
        let write = |text| private::replace_files(&self.folder, [(NAME.into(), text)].into_iter());
        self.unkept.note(&self.path(), "the addresses of Services of files", text.and_then(write))
    }

    /// Returns when the file is to be written again after a write that failed.
    pub async fn due(&self, attempts: &mut u32) {
        self.unkept.due(&self.path(), attempts).await;
    }
}
