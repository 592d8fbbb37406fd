//! The disk below the store, as few calls as it needs, so that tests can fail and cut each of them.

use nix::fcntl::OFlag;
use nix::unistd::Uid;
use rustix::fs::{CWD, RenameFlags, XattrFlags, renameat_with};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, DirEntryExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Paths are relative to the store's directory, with `/`; the empty one is the directory itself.
pub trait Disk: Send + Sync {
    /// Creates or truncates a file of mode 0600, writes it and makes its content durable: its name is not, before
    /// `sync_dir`. After an error nothing is known of the file.
    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<()>;
    /// As `create`, with so many times the same byte.
    fn create_filled(&self, path: &str, byte: u8, bytes: usize) -> io::Result<()> {
        self.create(path, &vec![byte; bytes])
    }
    /// As `create`, but always a new file, and nothing is durable before `sync_all`. `stamp` is the checksum of the
    /// bytes, kept beside the file for `stamp`, best effort.
    fn put(&self, path: &str, bytes: &[u8], stamp: Option<u32>) -> io::Result<()>;
    /// Keeps a checksum beside an existing file, as `put` does, and leaves its content alone.
    fn mark(&self, path: &str, stamp: u32) -> io::Result<()>;
    /// The stamp of a file: bytes kept beside the content.
    fn stamp(&self, path: &str) -> io::Result<Stamp>;
    /// Everything that came before is durable: contents and names.
    fn sync_all(&self) -> io::Result<()>;
    /// An existing file, to be written in place.
    fn open(&self, path: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Atomic, also over an existing file; durable after `sync_dir` of both folders.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// The same for a file whose content need not be durable before its name is.
    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename(from, to)
    }
    fn unlink(&self, path: &str) -> io::Result<()>;
    /// One level, of mode 0700.
    fn make_dir(&self, path: &str) -> io::Result<()>;
    fn sync_dir(&self, path: &str) -> io::Result<()>;
    /// At most `bytes_max` bytes; a longer file is an error of kind FileTooLarge.
    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>>;
    /// The same piece by piece, for who keeps none of it.
    fn reader(&self, path: &str) -> io::Result<Box<dyn Read>>;
    /// The same from the medium and not from what the kernel remembers of it, as far as it lets itself be asked for.
    fn read_medium(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        self.read(path, bytes_max)
    }
    fn length(&self, path: &str) -> io::Result<u64> {
        self.read(path, usize::MAX).map(|bytes| bytes.len() as u64)
    }
    fn list(&self, path: &str) -> io::Result<Vec<FolderEntry>>;
    /// Bytes of the file system that may still be had; None: it does not say.
    fn room(&self) -> Option<u64> {
        None
    }
    /// Why nobody would find what is written here: the directory's path leads to another one, or to none.
    fn gone(&self) -> Option<String> {
        None
    }
}

/// A file that is written in place.
pub trait DiskFile: Send {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was written durable. After an error nothing is known of the file, and a later success proves nothing.
    fn sync(&self) -> io::Result<()>;
    /// The path leads to another file or to no file: no reader of the path finds the data written here.
    fn is_gone(&self) -> bool {
        false
    }
}

/// The metadata of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// Nothing: it was not put by a store, was replaced, or this file system keeps no such thing.
    None,
    /// Nobody has written to it since it was put with this checksum.
    Intact(u32),
    /// Somebody has.
    Touched(u32),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    pub name: String,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    File,
    Folder,
    /// A symbolic link, a pipe, a socket: never opened.
    Other,
    /// Its name is not UTF-8 or would break a line: it cannot be spelled here, so nothing is done to it.
    Nameless,
}

/// The extended attribute of the stamp, and the form of its value: `1 CRC MTIME`. It fits in the inode of ext4 and xfs.
const STAMP: &str = "user.coracle";
const STAMP_FORM: &str = "1";

/// Opens files alone: a pipe is not waited for, and a link is not followed out of the directory.
pub const UNFOLLOWED: OFlag = OFlag::O_NONBLOCK.union(OFlag::O_NOFOLLOW);

/// The size of one write when a file is filled: few calls, and little memory.
const PIECE_BYTES: usize = 64 << 10;

/// Kernels before this one may keep to themselves what a sync of everything could not write.
const TELLS_SYNC_ERRORS: (u32, u32) = (5, 8);

pub struct RealDisk {
    root: PathBuf,
    /// Any file of the file system that the directory lies on.
    top: File,
    /// Which directory it is.
    identity: (u64, u64),
    /// The kernel says what a sync of everything could not write.
    syncs_all: bool,
}

/// A file that is written in place, and where its name is.
struct RealFile {
    file: File,
    path: PathBuf,
    identity: (u64, u64),
}

impl RealDisk {
    /// Makes the directory where it is missing.
    pub fn new(root: &Path) -> io::Result<RealDisk> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let syncs_all =
            fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| tells_sync_errors(&release));
        let top = File::open(root)?;
        Ok(RealDisk { root: root.to_owned(), identity: which(&top.metadata()?), top, syncs_all })
    }

    /// A folder and all that is in it, where it is.
    pub fn remove_tree(&self, path: &str) -> io::Result<()> {
        let done = fs::remove_dir_all(self.at(path));
        let is_gone =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        done.or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })
    }

    fn at(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    fn existing(&self, path: &str) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(UNFOLLOWED.bits()).open(self.at(path))
    }

    fn written(&self, path: &str, bytes: &[u8]) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(UNFOLLOWED.bits());
        let mut file = options.open(self.at(path))?;
        file.write_all(bytes)?;
        Ok(file)
    }
}

impl Disk for RealDisk {
    fn create(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.written(path, bytes)?.sync_all()
    }

    /// In pieces: memory that was asked for once, for a whole segment, would stay with the process.
    fn create_filled(&self, path: &str, byte: u8, bytes: usize) -> io::Result<()> {
        let mut file = self.written(path, b"")?;
        let piece = vec![byte; bytes.min(PIECE_BYTES)];
        for from in (0..bytes).step_by(PIECE_BYTES) {
            file.write_all(&piece[..piece.len().min(bytes - from)])?;
        }
        file.sync_all()
    }

    fn put(&self, path: &str, bytes: &[u8], stamp: Option<u32>) -> io::Result<()> {
        // A file that is written over may be left as a mixture of both by a cut.
        let mut options = OpenOptions::new();
        let new = options.write(true).create_new(true).mode(0o600);
        let mut file = match new.open(self.at(path)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(self.at(path)).and_then(|()| new.open(self.at(path)))?
            }
            opened => opened?,
        };
        file.write_all(bytes)?;
        if let Some(crc) = stamp {
            let value = stamp_value(crc, &file.metadata()?);
            // Not every file system keeps attributes; without one the file's content speaks for itself.
            rustix::fs::fsetxattr(&file, STAMP, value.as_bytes(), XattrFlags::empty()).ok();
        }
        Ok(())
    }

    fn mark(&self, path: &str, stamp: u32) -> io::Result<()> {
        let file = self.existing(path)?;
        Ok(rustix::fs::fsetxattr(&file, STAMP, stamp_value(stamp, &file.metadata()?).as_bytes(), XattrFlags::empty())?)
    }

    fn stamp(&self, path: &str) -> io::Result<Stamp> {
        let path = self.at(path);
        let mut value = [0; 64];
        // Absent, too long for one of ours, or not kept by this file system: all the same.
        let Ok(length) = rustix::fs::lgetxattr(&path, STAMP, &mut value[..]) else { return Ok(Stamp::None) };
        let Ok(value) = std::str::from_utf8(&value[..length]) else { return Ok(Stamp::None) };
        let Some(crc) = value.split(' ').nth(1).and_then(|crc| u32::from_str_radix(crc, 16).ok()) else {
            return Ok(Stamp::None);
        };
        let as_left = value == stamp_value(crc, &fs::symlink_metadata(path)?);
        Ok(if as_left { Stamp::Intact(crc) } else { Stamp::Touched(crc) })
    }

    fn sync_all(&self) -> io::Result<()> {
        if !self.syncs_all {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a kernel before 5.8 does not say what it could not write",
            ));
        }
        Ok(rustix::fs::syncfs(&self.top)?)
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.at(path);
        let file = OpenOptions::new().write(true).custom_flags(UNFOLLOWED.bits()).open(&path)?;
        Ok(Box::new(RealFile { identity: which(&file.metadata()?), file, path }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    /// Both change places, and the old one goes: a rename over it would make ext4 write the new one out at once, each
    /// by itself.
    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.at(from), self.at(to));
        let exchange = || renameat_with(CWD, &from, CWD, &to, RenameFlags::EXCHANGE);
        if exchange().is_ok() {
            if fs::remove_file(&from).is_ok() {
                return Ok(());
            }
            // The target was no file: the exchange is undone.
            exchange()?;
        }
        fs::rename(from, to)
    }

    fn unlink(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn make_dir(&self, path: &str) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(self.at(path))
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        File::open(self.at(path))?.sync_all()
    }

    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        let file = self.existing(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        if length > bytes_max {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        // No further than that, which saves a call that would only say that this is the end: nobody writes to it now.
        let mut bytes = Vec::with_capacity(length);
        file.take(length as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn length(&self, path: &str) -> io::Result<u64> {
        Ok(fs::symlink_metadata(self.at(path))?.len())
    }

    fn reader(&self, path: &str) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(self.existing(path)?))
    }

    fn read_medium(&self, path: &str, bytes_max: usize) -> io::Result<Vec<u8>> {
        // Best effort: what is on its way to the disk stays.
        rustix::fs::fadvise(self.existing(path)?, 0, None, rustix::fs::Advice::DontNeed).ok();
        self.read(path, bytes_max)
    }

    /// In the order of inodes: that is how a cold card reads fastest.
    fn list(&self, path: &str) -> io::Result<Vec<FolderEntry>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.at(path))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let (name, is_whole) = spelled(entry.file_name());
            let what = match () {
                () if !is_whole => What::Nameless,
                () if kind.is_file() => What::File,
                () if kind.is_dir() => What::Folder,
                () => What::Other,
            };
            found.push((entry.ino(), FolderEntry { name, what }));
        }
        found.sort();
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    fn room(&self) -> Option<u64> {
        let found = rustix::fs::fstatvfs(&self.top).ok()?;
        // Of what is kept for root ext4 gives the last part to nobody: a fiftieth of the disk, or 4096 blocks.
        let for_root = found.f_bfree.saturating_sub((found.f_blocks / 50).min(4096));
        let free = if Uid::effective().is_root() { found.f_bavail.max(for_root) } else { found.f_bavail };
        Some(free * found.f_frsize)
    }

    fn gone(&self) -> Option<String> {
        leads_elsewhere(&self.root, self.identity).then(|| {
            format!(
                "{0} is not the directory any more that the master opened: it was removed or moved, or something is \
                 mounted over it; put it back, or save everything from memory by `coracle-master backup FILE \
                 --data-dir {0}` while this master runs",
                self.root.display()
            )
        })
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn is_gone(&self) -> bool {
        leads_elsewhere(&self.path, self.identity)
    }
}

/// A file's name as one line of text, and whether the text is the exact name.
fn spelled(name: OsString) -> (String, bool) {
    match name.into_string() {
        Ok(name) if !name.contains(char::is_control) => (name, true),
        Ok(name) => (name.replace(char::is_control, "\u{fffd}"), false),
        Err(name) => (name.to_string_lossy().replace(char::is_control, "\u{fffd}"), false),
    }
}

/// A path that cannot be looked up now may lead there still.
fn leads_elsewhere(path: &Path, to: (u64, u64)) -> bool {
    match fs::metadata(path) {
        Ok(found) => which(&found) != to,
        Err(error) => matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

fn which(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}

/// `release`: as uname(2) has it.
fn tells_sync_errors(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()),
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= TELLS_SYNC_ERRORS)
}

fn stamp_value(crc: u32, metadata: &Metadata) -> String {
    format!("{STAMP_FORM} {crc:08x} {}.{:09}", metadata.mtime(), metadata.mtime_nsec())
}

/// A fresh identity from the kernel.
pub fn random_uuid() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

/// Which run of the host this is: what lies on tmpfs belongs to it alone.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Which directory somebody means: the same one has several paths, above all in a container. None: there is nothing.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|there| which(&there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_not_believed_a_sync_of_everything() {
        let check = |release: &str, tells: bool| assert_eq!(tells_sync_errors(release), tells, "{release:?}");
        for release in ["5.8.0", "5.10.0-8-amd64\n", "6.18.5", "10.0"] {
            check(release, true);
        }
        for release in ["5.7.19", "4.19.0-27-amd64", "2.6.32", "6", "", "unknown"] {
            check(release, false);
        }
    }

    #[test]
    fn a_name_that_is_no_line_of_text_is_known_for_one() {
        use std::os::unix::ffi::OsStringExt;
        let check = |name: &[u8], text: &str, whole: bool| {
            assert_eq!(spelled(OsString::from_vec(name.to_vec())), (text.to_owned(), whole));
        };
        check(b"web.json", "web.json", true);
        check(b"caf\xc3\xa9", "caf\u{e9}", true);
        check(b"caf\xe9\n", "caf\u{fffd}\u{fffd}", false);
        check(b"two\nlines", "two\u{fffd}lines", false);
    }

    #[test]
    fn where_everything_cannot_be_synced_at_once_it_says_so() {
        let dir = std::env::temp_dir().join(format!("coracle-disk-{}", std::process::id()));
        let mut disk = RealDisk::new(&dir).expect("it can be made");
        disk.syncs_all = false;
        assert_eq!(disk.sync_all().map_err(|error| error.kind()), Err(io::ErrorKind::Unsupported));
        disk.syncs_all = true;
        disk.sync_all().expect("the disk is well");
        fs::remove_dir_all(&dir).expect("it is ours");
    }
}
