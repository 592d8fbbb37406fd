//! Trees that containers have filled: removed, and measured. However deep a tree is, a few descriptors do; no link is
//! followed, and nothing is entered that is mounted in it, bind mounts of the same disk included.
//!
//! Others may change a tree meanwhile: everything is reached by the descriptor of the folder above it.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat, openat2, renameat, statx,
    unlinkat,
};
use rustix::io::Errno;
use rustix::path::Arg;

/// Levels that a removal holds open at once, a descriptor each. A folder that lies deeper is lifted to the top first.
const HELD_LEVELS_MAX: usize = 16;
/// Names that are tried for a folder that is lifted: a tree may hold such names.
const LIFT_TRIES_MAX: usize = 100;
/// Mount points that a message names.
const PLACES_MAX: usize = 3;
/// While somebody renames folders the kernel asks to try again.
const TRIES_MAX: usize = 16;
/// Folders in each other that are measured, a descriptor each: people's programs make some twenty.
const MEASURED_LEVELS_MAX: usize = 128;
/// Files that are measured: so many take a minute on a slow card.
const MEASURED_FILES_MAX: u64 = 4_000_000;
/// Files with several names that are told apart; of more, each name counts.
const LINKED_FILES_MAX: usize = 100_000;

/// Removes a folder with its content, however long the removal takes. A missing folder is fine.
///
/// Mounts inside stay, with the folders above them, and are reported as the error. Everything else is removed.
pub fn remove(path: &Path) -> io::Result<()> {
    while !remove_for(path, Duration::MAX)? {}
    Ok(())
}

/// The same. False: the time is over, and the next call goes on.
pub fn remove_for(path: &Path, time: Duration) -> io::Result<bool> {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("it is no folder in another one"));
    };
    let above = match openat(CWD, above, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(true),
        opened => opened?,
    };
    let top = match enter(above.as_fd(), name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(true),
        Err(Errno::XDEV) => return Err(mounted(&[path.to_owned()])),
        // No folder, or a link: the name goes, and what it leads to stays.
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(unlinkat(&above, name, AtFlags::empty()).map(|()| true)?),
        Err(error) => return Err(error.into()),
    };
    let mut removal = Removal::of(&top, time);
    loop {
        let before = removal.gone;
        removal.empty(Dir::read_from(&top)?, 1);
        match unlinkat(&above, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            _ if removal.is_late() => return Ok(false),
            Err(Errno::BUSY) => return Err(mounted(&[path.to_owned()])),
            Err(Errno::NOTEMPTY | Errno::EXIST) if removal.gone > before => removal.forget(),
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Err(removal.left()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A folder, but no other file system and no link.
fn enter<P: Arg + Copy>(above: BorrowedFd<'_>, name: P) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    let mut entered = Err(Errno::AGAIN);
    for _ in 0..TRIES_MAX {
        entered = openat2(above, name, flags, Mode::empty(), resolve);
        if !matches!(entered, Err(Errno::AGAIN)) {
            break;
        }
    }
    entered
}

/// A single call of `remove_for`.
struct Removal<'a> {
    top: &'a OwnedFd,
    begun: Instant,
    time: Duration,
    /// Names that were removed or lifted.
    gone: u64,
    /// Part of the names of lifted folders. No earlier call used the same stamp.
    stamp: u128,
    mounted: Vec<PathBuf>,
    /// The first failure.
    trouble: Option<io::Error>,
}

impl Removal<'_> {
    fn of(top: &OwnedFd, time: Duration) -> Removal<'_> {
        let stamp = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        Removal { top, begun: Instant::now(), time, gone: 0, stamp, mounted: Vec::new(), trouble: None }
    }

    fn is_late(&self) -> bool {
        self.begun.elapsed() >= self.time
    }

    /// The next pass finds again what is still so.
    fn forget(&mut self) {
        self.mounted.clear();
        self.trouble = None;
    }

    fn left(mut self) -> io::Error {
        match self.trouble.take() {
            Some(error) if self.mounted.is_empty() => error,
            None if self.mounted.is_empty() => io::Error::other("others write in it"),
            _ => mounted(&self.mounted),
        }
    }

    fn empty(&mut self, mut folder: Dir, level: usize) {
        while let Some(entry) = folder.read() {
            let found = entry.and_then(|entry| Ok((entry, folder.fd()?)));
            match found {
                _ if self.is_late() => return,
                Ok((entry, _)) if [c".", c".."].contains(&entry.file_name()) => {}
                Ok((entry, folder)) => self.one(folder, entry.file_name(), entry.file_type(), level),
                Err(error) => return self.fail(None, error),
            }
        }
    }

    fn one(&mut self, folder: BorrowedFd<'_>, name: &CStr, kind: FileType, level: usize) {
        if kind != FileType::Directory {
            match unlinkat(folder, name, AtFlags::empty()) {
                // Not every file system tells folders from files when it lists them.
                Err(Errno::ISDIR | Errno::PERM) if kind == FileType::Unknown => {}
                removed => return self.note(folder, name, removed),
            }
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            removed => return self.note(folder, name, removed),
        }
        if level >= HELD_LEVELS_MAX {
            return self.lift(folder, name);
        }
        match enter(folder, name).and_then(Dir::new) {
            Ok(below) => self.empty(below, level + 1),
            Err(error) => return self.note(folder, name, Err(error)),
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            // Something is mounted below, or cannot be removed, or has come meanwhile.
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            removed => self.note(folder, name, removed),
        }
    }

    /// A folder that lies deep goes on at the top.
    fn lift(&mut self, folder: BorrowedFd<'_>, name: &CStr) {
        for tried in 0..LIFT_TRIES_MAX {
            let new = format!(".{:x}-{:x}-{tried}", self.stamp, self.gone);
            match renameat(folder, name, self.top, &new) {
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::ISDIR) => {}
                lifted => return self.note(folder, name, lifted),
            }
        }
    }

    fn note(&mut self, folder: BorrowedFd<'_>, name: &CStr, outcome: rustix::io::Result<()>) {
        match outcome {
            Ok(()) => self.gone += 1,
            // The entry is gone or was replaced meanwhile: the next pass sees the new state.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(Errno::XDEV | Errno::BUSY) if self.mounted.len() < PLACES_MAX => {
                self.mounted.push(place(folder).join(name.to_string_lossy().as_ref()));
            }
            Err(Errno::XDEV | Errno::BUSY) => {}
            Err(error) => self.fail(Some(&place(folder).join(name.to_string_lossy().as_ref())), error),
        }
    }

    fn fail(&mut self, path: Option<&Path>, error: Errno) {
        let error = io::Error::from(error);
        let text = path.map_or_else(|| error.to_string(), |path| format!("{}: {error}", path.display()));
        self.trouble.get_or_insert_with(|| io::Error::new(error.kind(), text));
    }
}

/// For people: where a folder is now.
fn place(folder: BorrowedFd<'_>) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).unwrap_or_else(|_| PathBuf::from("..."))
}

fn mounted(places: &[PathBuf]) -> io::Error {
    let shown: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
    let (what, it) = (shown.join(", "), if shown.len() == 1 { "it" } else { "them" });
    io::Error::new(io::ErrorKind::ResourceBusy, format!("{what} is mounted, and stays: unmount {it} (umount)"))
}

/// The disk space and the number of files of a tree. A tree that cannot be measured to its end takes `u64::MAX`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSize {
    pub bytes: u64,
    pub files: u64,
}

impl TreeSize {
    const BEYOND: TreeSize = TreeSize { bytes: u64::MAX, files: u64::MAX };

    pub fn and(self, other: TreeSize) -> TreeSize {
        let (bytes, files) = (self.bytes.saturating_add(other.bytes), self.files.saturating_add(other.files));
        TreeSize { bytes, files }
    }
}

/// Leaves out mounts inside the tree. A file with several names counts once. A folder that is not there takes nothing.
pub fn measure(path: &Path) -> TreeSize {
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return TreeSize::default() };
    let above = openat(CWD, above, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let top = above.and_then(|above| enter(above.as_fd(), name)).and_then(Dir::new);
    let mut measure = Measure::default();
    let measured = top.map(|top| {
        let found = top.fd().and_then(|top| about(top, c"", AtFlags::EMPTY_PATH));
        measure.mount = found.ok().as_ref().and_then(mount_of);
        measure.below(top, 1)
    });
    match measured {
        Ok(true) => measure.sum,
        Ok(false) => TreeSize::BEYOND,
        Err(_) => TreeSize::default(),
    }
}

fn about(folder: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> rustix::io::Result<Statx> {
    statx(folder, name, flags | AtFlags::NO_AUTOMOUNT, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)
}

/// Since Linux 5.8.
fn mount_of(found: &Statx) -> Option<u64> {
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

#[derive(Default)]
struct Measure {
    sum: TreeSize,
    /// The mount that the tree is of, where the kernel tells.
    mount: Option<u64>,
    linked: BTreeSet<u64>,
}

impl Measure {
    /// False: the tree is deeper or has more files than are measured.
    fn below(&mut self, mut folder: Dir, level: usize) -> bool {
        while let Some(Ok(entry)) = folder.read() {
            let name = entry.file_name();
            let Ok(fd) = folder.fd() else { return true };
            if [c".", c".."].contains(&name) {
                continue;
            }
            let below = match entry.file_type() {
                FileType::Directory | FileType::Unknown => enter(fd, name),
                _ => Err(Errno::NOTDIR),
            };
            let found = match &below {
                Ok(below) => about(below.as_fd(), c"", AtFlags::EMPTY_PATH),
                Err(Errno::NOTDIR | Errno::LOOP) => about(fd, name, AtFlags::SYMLINK_NOFOLLOW),
                // Another file system, or gone meanwhile.
                Err(error) => Err(*error),
            };
            let Ok(found) = found.map(|found| (mount_of(&found), found)) else { continue };
            let (mount, found) = found;
            let elsewhere = self.mount.is_some() && mount != self.mount;
            if elsewhere || (below.is_err() && found.stx_nlink > 1 && !self.is_new(found.stx_ino)) {
                continue;
            }
            self.sum = self.sum.and(TreeSize { bytes: found.stx_blocks.saturating_mul(512), files: 1 });
            if self.sum.files > MEASURED_FILES_MAX {
                return false;
            }
            if let Ok(Ok(below)) = below.map(Dir::new)
                && (level >= MEASURED_LEVELS_MAX || !self.below(below, level + 1))
            {
                return false;
            }
        }
        true
    }

    fn is_new(&mut self, file: u64) -> bool {
        self.linked.len() >= LINKED_FILES_MAX || self.linked.insert(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("coracle-tree-{name}-{}", std::process::id()));
        let _ = remove(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// Whole paths are bounded, so by steps.
    fn dig(top: &Path, thousands: usize, then: &str) {
        let step = ["d"; 1000].join("/");
        let dug = (0..thousands).map(|_| format!("mkdir -p {step} && cd -P {step} || exit 1; ")).collect::<String>();
        let made = Command::new("sh").args(["-c", &format!("{dug}{then}")]).current_dir(top).status().unwrap();
        assert!(made.success());
    }

    fn open_files() -> usize {
        fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test]
    fn a_folder_goes_whole_and_what_links_lead_to_stays() {
        let top = folder("whole");
        let (data, kept) = (top.join("data"), top.join("kept"));
        for name in ["a/b/c", "empty", "dark"] {
            fs::create_dir_all(data.join(name)).unwrap();
        }
        fs::create_dir_all(&kept).unwrap();
        fs::write(kept.join("file"), "gold").unwrap();
        fs::write(data.join("a/b/file"), "x").unwrap();
        symlink(&kept, data.join("a/link")).unwrap();
        symlink("nowhere", data.join("loose")).unwrap();
        fs::set_permissions(data.join("dark"), std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        remove(&data).unwrap();
        assert!(!data.exists());
        // One that is a link itself goes as a link.
        symlink(&kept, &data).unwrap();
        remove(&data).unwrap();
        assert!(data.symlink_metadata().is_err());
        assert_eq!(fs::read_to_string(kept.join("file")).unwrap(), "gold");
        remove(&data).unwrap();
        remove(&top.join("absent/below")).unwrap();
        assert!(remove(Path::new("/")).is_err() && remove(Path::new("..")).is_err());
        remove(&top).unwrap();
    }

    #[test]
    fn a_tree_that_is_deeper_than_descriptors_and_paths_reach() {
        let data = folder("deep");
        dig(&data, 3, "seq 1 100 | xargs touch");
        let before = open_files();
        assert_eq!(measure(&data).bytes, u64::MAX, "it counts as full");
        // Each turn is too short for the whole tree.
        let mut turns = 0;
        while !remove_for(&data, Duration::from_millis(1)).unwrap() {
            turns += 1;
        }
        assert!(turns > 0 && !data.exists(), "{turns}");
        // Other tests open files, too.
        assert!(open_files() < before + 100);
    }

    /// Needs the right to mount; where this process has it not, there is nothing to see.
    #[test]
    fn what_is_mounted_stays() {
        let top = folder("mounted");
        let (data, precious) = (top.join("data"), top.join("precious"));
        fs::create_dir_all(data.join("v/in")).unwrap();
        fs::create_dir_all(data.join("v/memory")).unwrap();
        fs::create_dir_all(data.join("v/other/deep")).unwrap();
        fs::create_dir_all(&precious).unwrap();
        fs::write(precious.join("file"), vec![1; 64 << 10]).unwrap();
        fs::write(data.join("v/socket"), "").unwrap();
        let run = |program: &str, arguments: &[&str]| {
            Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
        };
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let (here, file) = (text(precious.clone()), text(precious.join("file")));
        let (inside, memory, socket) =
            (text(data.join("v/in")), text(data.join("v/memory")), text(data.join("v/socket")));
        if !run("mount", &["--bind", &here, &inside]) {
            return remove(&top).unwrap();
        }
        assert!(run("mount", &["--bind", &file, &socket]) && run("mount", &["-t", "tmpfs", "none", &memory]));
        fs::write(data.join("v/memory/file"), "x").unwrap();
        assert!(measure(&data).bytes < 64 << 10, "what is mounted is not its own");
        for _ in 0..2 {
            let failure = remove(&data).unwrap_err().to_string();
            for place in [&inside, &memory, &socket] {
                assert!(failure.contains(String::as_str(place)), "{failure}");
            }
        }
        assert_eq!(fs::read(precious.join("file")).unwrap().len(), 64 << 10);
        assert!(data.join("v/memory/file").exists() && !data.join("v/other").exists(), "all else is gone");
        // The folder itself is a mount.
        assert!(remove(Path::new(&inside)).unwrap_err().to_string().contains(&inside));
        assert!([&inside, &memory, &socket].iter().all(|place| run("umount", &[String::as_str(place)])));
        remove(&data).unwrap();
        assert!(!data.exists() && precious.join("file").exists());
        remove(&top).unwrap();
    }

    #[test]
    fn a_tree_is_what_its_files_take() {
        let data = folder("measured");
        fs::create_dir_all(data.join("below")).unwrap();
        fs::write(data.join("one"), vec![1; 64 << 10]).unwrap();
        fs::write(data.join("below/two"), vec![1; 64 << 10]).unwrap();
        fs::hard_link(data.join("one"), data.join("same")).unwrap();
        symlink("/etc", data.join("link")).unwrap();
        fs::File::open(&data).unwrap().sync_all().unwrap();
        let TreeSize { bytes, files } = measure(&data);
        assert!((128 << 10..256 << 10).contains(&bytes), "{bytes}");
        assert_eq!(files, 4, "a file with two names is one");
        assert_eq!(measure(Path::new("/nowhere/at/all")), TreeSize::default());
        // What lies behind a path that is too long counts: 100 folders with names of 100 letters.
        let name = "n".repeat(100);
        let line = format!(
            "i=0; while [ $i -lt 100 ]; do mkdir {name} && cd -P {name} || exit 1; i=$((i+1)); done; \
            head -c 1000000 /dev/zero >file; sync file"
        );
        assert!(Command::new("sh").args(["-c", &line]).current_dir(&data).status().unwrap().success());
        assert!(measure(&data).bytes > bytes + 1_000_000 && measure(&data).bytes < 10_000_000);
        remove(&data).unwrap();
    }
}
