//! The layer that the store had before its journal: one file an object, `tmp` + fsync + rename + fsync of the folder,
//! one writer at a time. It stays here for comparison. Its rules can be switched off: that is what the crash tests must
//! notice.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Copy)]
pub struct Rules {
    /// The file's content is durable before it gets its name.
    pub sync_content: bool,
    /// A name is durable before anybody is told.
    pub sync_folder: bool,
}

impl Rules {
    pub const ALL: Rules = Rules { sync_content: true, sync_folder: true };
}

pub struct Plain {
    root: PathBuf,
    rules: Rules,
    /// The last that was used.
    revision: Arc<Mutex<u64>>,
}

impl Plain {
    pub fn open(root: &Path, rules: Rules, revision: Arc<Mutex<u64>>) -> io::Result<Plain> {
        for folder in ["objects", "tmp"] {
            fs::create_dir_all(root.join(folder))?;
        }
        File::open(root)?.sync_all()?;
        if let Some(above) = root.parent() {
            File::open(above)?.sync_all()?;
        }
        Ok(Plain { root: root.to_owned(), rules, revision })
    }

    /// `text`: the object at a revision; None: it is removed. The revision, once it is durable.
    pub fn write(&self, name: &str, text: impl FnOnce(u64) -> Option<String>) -> io::Result<u64> {
        let mut last = self.revision.lock().unwrap_or_else(PoisonError::into_inner);
        let revision = *last + 1;
        let path = self.root.join("objects").join(name);
        match text(revision) {
            Some(text) => {
                let tmp = self.root.join("tmp").join(revision.to_string());
                let mut file = File::create(&tmp)?;
                file.write_all(text.as_bytes())?;
                if self.rules.sync_content {
                    file.sync_all()?;
                }
                fs::rename(&tmp, &path)?;
            }
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => done?,
            },
        }
        if self.rules.sync_folder {
            File::open(self.root.join("objects"))?.sync_all()?;
        }
        *last = revision;
        Ok(revision)
    }

    /// The objects of a directory by their files' names.
    pub fn read(root: &Path) -> io::Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        let entries = match fs::read_dir(root.join("objects")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            found.insert(
                entry.file_name().to_string_lossy().into_owned(),
                String::from_utf8_lossy(&fs::read(entry.path())?).into_owned(),
            );
        }
        Ok(found)
    }
}
