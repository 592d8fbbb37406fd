//! A disk in memory that a test can look into: one file over FUSE, for a loop device to lie on. It writes down every
//! write, every flush and every mark of the test in one order, and can be as slow as an SD card.
//!
//! It is served by a process of its own: a process that is killed while it waits for a disk that it serves itself waits
//! for ever. That process ends with the one that started it, because its standard input ends.

use super::log::{Recorder, Sparse};
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

/// The first argument of the process that serves.
const SERVE: &str = "serve-card";
/// What the kernel may remember of the two files, whose size never changes.
const REMEMBER: Duration = Duration::from_secs(3600);
const IMAGE: INodeNo = INodeNo(2);
const MARK: INodeNo = INodeNo(3);

/// Marks that decide over what comes after them.
const FAILS: &str = "fails";
const WELL: &str = "well";
const HURRIES: &str = "hurries";
const PACED: &str = "paced";
/// What a file system cuts files into.
const BLOCK: usize = 4096;

/// How long the disk takes, in microseconds and nanoseconds.
#[derive(Clone, Copy, Default)]
pub struct Pace {
    pub write_us: u64,
    /// On top where a write does not follow the one before.
    pub seek_us: u64,
    pub byte_ns: u64,
    /// Where there is something to flush.
    pub flush_us: u64,
    /// A read that does not follow the one before.
    pub read_us: u64,
}

impl Pace {
    /// A slow SD card: 0.4 ms a write, 1.2 ms more where it is not sequential, 20 MB/s, 8 ms a flush, 0.5 ms a random
    /// read.
    pub const CARD: Pace = Pace { write_us: 400, seek_us: 1200, byte_ns: 50, flush_us: 8000, read_us: 500 };
    /// As fast as memory.
    pub const NONE: Pace = Pace { write_us: 0, seek_us: 0, byte_ns: 0, flush_us: 0, read_us: 0 };
}

/// A running disk. Dropped, it is gone with all it held.
pub struct Card {
    folder: PathBuf,
    serving: Child,
    mark: File,
}

impl Card {
    /// `record`: the file to write everything down in. `content`: a file with what it holds at first.
    pub fn start(
        folder: &Path,
        megabytes: u64,
        pace: Pace,
        record: Option<&Path>,
        content: Option<&Path>,
    ) -> Result<Card, String> {
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let me = std::env::current_exe().map_err(|e| format!("find this program: {e}"))?;
        let numbers =
            [megabytes, pace.write_us, pace.seek_us, pace.byte_ns, pace.flush_us, pace.read_us].map(|n| n.to_string());
        let mut serving = Command::new(me)
            .arg(SERVE)
            .arg(folder)
            .arg(record.unwrap_or(Path::new("-")))
            .arg(content.unwrap_or(Path::new("-")))
            .args(numbers)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("start the disk: {e}"))?;
        let mut line = String::new();
        let said = serving.stdout.as_mut().map(|out| BufReader::new(out).read_line(&mut line));
        let opened = OpenOptions::new().write(true).open(folder.join("mark"));
        match opened {
            Ok(mark) if line == "ready\n" => Ok(Card { folder: folder.to_owned(), serving, mark }),
            other => {
                serving.kill().ok();
                serving.wait().ok();
                Err(format!(
                    "the disk over FUSE does not start ({said:?}, {line:?}, {:?}); is there /dev/fuse?",
                    other.err()
                ))
            }
        }
    }

    /// The file that the loop device lies on.
    pub fn image(&self) -> PathBuf {
        self.folder.join("disk.img")
    }

    /// Writes of what the store writes fail with EIO from now on, or do again: a file system's own go through, so that
    /// it lives.
    pub fn fail(&self, fails: bool) -> Result<(), String> {
        let fate = if fails { FAILS } else { WELL };
        self.mark(fate)
    }

    /// It takes no time from now on, or its own again.
    pub fn hurry(&self, hurries: bool) -> Result<(), String> {
        self.mark(if hurries { HURRIES } else { PACED })
    }

    /// Stands in the record between what reached the disk before and what comes after.
    pub fn mark(&self, text: &str) -> Result<(), String> {
        self.mark.write_all_at(text.as_bytes(), 0).map_err(|e| format!("mark {text}: {e}"))
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        // Its end of the pipe ends, and so does it.
        drop(self.serving.stdin.take());
        self.serving.wait().ok();
        let _ = nix::mount::umount2(&self.folder, nix::mount::MntFlags::MNT_DETACH);
    }
}

/// To be called first of all by a program that starts cards; true: this process was one.
pub fn serve_if_asked() -> bool {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_none_or(|first| first != SERVE) {
        return false;
    }
    if let Err(why) = serve(&arguments[2..]) {
        eprintln!("the disk over FUSE: {why}");
        std::process::exit(1);
    }
    true
}

fn serve(arguments: &[String]) -> Result<(), String> {
    let [folder, record, content, numbers @ ..] = arguments else { return Err("which folder?".to_owned()) };
    let numbers: Vec<u64> = numbers.iter().filter_map(|n| n.parse().ok()).collect();
    let [megabytes, write_us, seek_us, byte_ns, flush_us, read_us] = numbers[..] else {
        return Err("six numbers".to_owned());
    };
    let recorder = match record.as_str() {
        "-" => None,
        file => Some(Recorder::create(Path::new(file)).map_err(|e| format!("{file}: {e}"))?),
    };
    let mut image = Sparse::new(megabytes << 20);
    if content != "-" {
        File::open(content).and_then(|file| image.load(&file)).map_err(|e| format!("{content}: {e}"))?;
    }
    let medium = Medium {
        image,
        recorder,
        pace: Pace { write_us, seek_us, byte_ns, flush_us, read_us },
        written_to: 0,
        read_to: 0,
        dirty: false,
        fails: false,
        hurries: false,
    };
    let session = fuser::spawn_mount(Served { medium: Mutex::new(medium) }, folder, &Config::default())
        .map_err(|e| format!("mount: {e}"))?;
    println!("ready");
    // Until the one who wants the disk is gone.
    io::stdin().read_to_end(&mut Vec::new()).ok();
    drop(session);
    Ok(())
}

struct Medium {
    image: Sparse,
    recorder: Option<Recorder>,
    pace: Pace,
    /// Where the last write, the last read ended.
    written_to: u64,
    read_to: u64,
    dirty: bool,
    fails: bool,
    hurries: bool,
}

/// How the blocks begin that the store writes: records, prefilled segments, objects.
fn is_of_the_store(bytes: &[u8]) -> bool {
    bytes
        .chunks(BLOCK)
        .any(|block| block.starts_with(b"{\"") || block.starts_with(b"\n\n") || block.starts_with(b"{\n"))
}

impl Medium {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if self.fails && is_of_the_store(bytes) {
            return Err(io::Error::from_raw_os_error(nix::libc::EIO));
        }
        self.image.write(at, bytes);
        let pace = self.pace;
        let seek_us = if at == self.written_to { 0 } else { pace.seek_us };
        self.take(pace.write_us + seek_us + bytes.len() as u64 * pace.byte_ns / 1000);
        self.written_to = at + bytes.len() as u64;
        self.dirty = true;
        self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.write(at, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) {
            self.take(self.pace.flush_us);
        }
        self.recorder.as_mut().map_or(Ok(()), Recorder::flush)
    }

    fn read(&mut self, at: u64, length: u64) -> Vec<u8> {
        let seek_us = if at == self.read_to { 0 } else { self.pace.read_us };
        self.take(seek_us + length * self.pace.byte_ns / 1000);
        self.read_to = at + length;
        self.image.read(at, length)
    }

    fn take(&self, time_us: u64) {
        if time_us > 0 && !self.hurries {
            std::thread::sleep(Duration::from_micros(time_us));
        }
    }

    /// What a mark decides over what comes after it; false: it decides nothing.
    fn obey(&mut self, mark: &[u8]) -> bool {
        match std::str::from_utf8(mark) {
            Ok(word @ (FAILS | WELL)) => self.fails = word == FAILS,
            Ok(word @ (HURRIES | PACED)) => self.hurries = word == HURRIES,
            _ => return false,
        }
        true
    }
}

struct Served {
    medium: Mutex<Medium>,
}

impl Served {
    fn medium(&self) -> std::sync::MutexGuard<'_, Medium> {
        self.medium.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let size = match ino {
            IMAGE => self.medium().image.size(),
            MARK => 4096,
            _ => 0,
        };
        FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if ino == INodeNo::ROOT { FileType::Directory } else { FileType::RegularFile },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: 0,
            blksize: 4096,
        }
    }
}

fn done(outcome: io::Result<()>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

impl Filesystem for Served {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel's own default is kept where it allows no more.
        config.set_max_write(1 << 20).ok();
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = match name.to_str() {
            Some("disk.img") => IMAGE,
            Some("mark") => MARK,
            _ => return reply.error(Errno::ENOENT),
        };
        reply.entry(&REMEMBER, &self.attributes(ino), Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&REMEMBER, &self.attributes(ino));
    }

    /// The page cache is passed by: what is written arrives at once, what is flushed was here before.
    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if ino == IMAGE { reply.data(&self.medium().read(offset, u64::from(size))) } else { reply.data(&[]) }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut medium = self.medium();
        let outcome = if ino == MARK && medium.obey(data) {
            Ok(())
        } else if ino == MARK {
            medium.recorder.as_mut().map_or(Ok(()), |recorder| recorder.mark(data))
        } else if offset + data.len() as u64 > medium.image.size() {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            medium.write(offset, data)
        };
        match outcome {
            Ok(()) => reply.written(u32::try_from(data.len()).expect("a request is at most a megabyte")),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(if ino == IMAGE { self.medium().flush() } else { Ok(()) }, reply);
    }

    /// Called when a file is closed.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}
