//! Where audit lines go: the journal, by standard output, or a file of bounded size and the one before it.

use std::fs::{File, OpenOptions, rename};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of the file; then it becomes `FILE.1`, in the place of the one before. Some ten thousand lines.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// The file tells who uses the cluster.
const FILE_MODE: u32 = 0o600;

pub(super) struct AuditLog {
    /// None: the journal.
    path: Option<PathBuf>,
    open: Option<File>,
    bytes_max: u64,
    recorded: u64,
    lost: u64,
    /// Lines lost since the last one that was written.
    lost_now: u64,
    /// The last line was written in part.
    is_torn: bool,
}

impl AuditLog {
    pub(super) fn to(path: Option<PathBuf>) -> AuditLog {
        let bytes_max = FILE_BYTES_MAX;
        AuditLog { path, open: None, bytes_max, recorded: 0, lost: 0, lost_now: 0, is_torn: false }
    }

    /// Lines that were written, and lines that were lost.
    pub(super) fn written(&self) -> (u64, u64) {
        (self.recorded, self.lost)
    }

    pub(super) fn write(&mut self, line: &str) {
        match self.try_write(line) {
            Ok(()) => {
                self.recorded += 1;
                if self.lost_now > 0 {
                    log::info!("audit: {} is written again; {} lines were lost", self.place(), self.lost_now);
                }
                self.lost_now = 0;
            }
            Err(error) => {
                if self.lost_now == 0 {
                    log::error!("audit: {} cannot be written: {error}; until it can, its lines are lost", self.place());
                }
                self.open = None;
                self.lost += 1;
                self.lost_now += 1;
            }
        }
    }

    fn place(&self) -> String {
        self.path.as_ref().map_or_else(|| "standard output".to_owned(), |path| path.display().to_string())
    }

    fn try_write(&mut self, line: &str) -> io::Result<()> {
        let Some(path) = &self.path else {
            let mut out = io::stdout().lock();
            return out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
        };
        let text = format!("{}{line}\n", if self.is_torn { "\n" } else { "" });
        let size = self.open.as_ref().and_then(|file| file.metadata().ok()).filter(|found| found.nlink() > 0);
        let mut size = size.map(|found| found.len());
        if size.is_none() {
            let file = open(path)?;
            size = Some(file.metadata()?.len());
            self.open = Some(file);
        }
        if size.is_some_and(|size| size > 0 && size + text.len() as u64 > self.bytes_max) {
            rename(path, before(path))?;
            self.open = Some(open(path)?);
        }
        let Some(file) = &mut self.open else { return Ok(()) };
        self.is_torn = true;
        file.write_all(text.as_bytes())?;
        self.is_torn = false;
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)
}

/// `audit.log.1`.
fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("coracle-audit-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn two_files_have_a_bound() {
        let folder = folder("bound");
        let path = folder.join("audit.log");
        let mut log = AuditLog { bytes_max: 20, ..AuditLog::to(Some(path.clone())) };
        for line in ["first--", "second-", "third--", "fourth-", "fifth--"] {
            log.write(line);
        }
        let read = |path: &Path| fs::read_to_string(path).expect("a file");
        assert_eq!((read(&path), read(&before(&path))), ("fifth--\n".to_owned(), "third--\nfourth-\n".to_owned()));
        assert_eq!(log.written(), (5, 0));
        assert_eq!(fs::metadata(&path).expect("a file").mode() & 0o777, FILE_MODE);
        fs::remove_dir_all(folder).expect("it goes");
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let folder = folder("lost");
        let path = folder.join("later").join("audit.log");
        let mut log = AuditLog::to(Some(path.clone()));
        log.write("lost");
        log.write("lost, too");
        assert_eq!(log.written(), (0, 2));
        fs::create_dir(folder.join("later")).expect("a folder");
        log.write("kept");
        assert_eq!(log.written(), (1, 2));
        fs::remove_file(&path).expect("it goes");
        log.write("in a file of its own, after somebody took the first away");
        assert_eq!(fs::read_to_string(&path).expect("a file").lines().count(), 1);
        fs::remove_dir_all(folder).expect("it goes");
    }
}
