//! Hears from the kernel that archives of images come: files that were closed after a write or moved into a folder,
//! folders that appear, and disks that are mounted, such as a USB stick.
//!
//! A folder that is missing is waited for in its nearest parent. What the kernel cannot tell is found by the look that
//! comes once a minute.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::files::{is_archive, stamp};

/// Becomes ready when something is mounted or unmounted.
const MOUNTS: &str = "/proc/self/mountinfo";
/// Files that are remembered as being written, or as closed: of more the size alone tells when they are whole.
const WRITTEN_MAX: usize = 1000;

/// inotify on some folders.
pub(super) struct Heard {
    inotify: Option<(Inotify, AsyncFd<OwnedFd>)>,
    mounts: Option<AsyncFd<File>>,
    folders: Vec<PathBuf>,
    watched: Vec<Watched>,
    /// Files that were made and not closed yet.
    written: BTreeSet<PathBuf>,
    /// Archives that were closed or moved in, each with its stamp of that moment.
    closed: BTreeMap<PathBuf, String>,
}

/// A folder, or the parent that it is waited for in.
struct Watched {
    path: PathBuf,
    descriptor: WatchDescriptor,
    /// Device and inode: another disk may be mounted there later.
    place: (u64, u64),
    is_folder: bool,
}

impl Heard {
    pub(super) fn open(folders: &[PathBuf]) -> Heard {
        let inotify = if folders.is_empty() { None } else { inotify().ok() };
        let mounts = inotify.as_ref().and_then(|_| {
            let file = File::open(MOUNTS).ok()?;
            #[expect(deprecated, reason = "its replacement is unsafe; what is wrong with it cannot happen with a File")]
            AsyncFd::with_interest(file, Interest::PRIORITY | Interest::ERROR).ok()
        });
        let mut heard = Heard {
            inotify,
            mounts,
            folders: folders.to_vec(),
            watched: Vec::new(),
            written: BTreeSet::new(),
            closed: BTreeMap::new(),
        };
        heard.follow();
        heard
    }

    /// Whether the file was made and is not closed yet.
    pub(super) fn is_being_written(&self, path: &Path) -> bool {
        self.written.contains(path)
    }

    /// Whether the file was closed or moved in, and has not changed since.
    pub(super) fn was_closed(&self, path: &Path, stamp: &str) -> bool {
        self.closed.get(path).is_some_and(|closed| closed == stamp)
    }

    /// Returns when archives may have come.
    pub(super) async fn changed(&mut self) {
        loop {
            let mounted = async {
                match &self.mounts {
                    Some(mounts) => match mounts.ready(Interest::PRIORITY | Interest::ERROR).await {
                        Ok(mut ready) => ready.clear_ready(),
                        Err(_) => std::future::pending().await,
                    },
                    None => std::future::pending().await,
                }
            };
            let Some((inotify, readable)) = &self.inotify else { return std::future::pending().await };
            let events = tokio::select! {
                () = mounted => Vec::new(),
                ready = readable.readable() => match (ready, inotify.read_events()) {
                    (Ok(_), Ok(events)) => events,
                    (Ok(mut ready), Err(nix::errno::Errno::EAGAIN)) => {
                        ready.clear_ready();
                        continue;
                    }
                    // This watch hears nothing any more.
                    (_, Err(_)) | (Err(_), _) => return std::future::pending().await,
                },
            };
            let came = events.iter().fold(false, |came, event| self.take(event) || came);
            if self.follow() || came {
                return;
            }
        }
    }

    /// Whether the event is about a file that may be an archive.
    fn take(&mut self, event: &InotifyEvent) -> bool {
        // The kernel has dropped events.
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            self.written.clear();
            return true;
        }
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.watched.retain(|watched| watched.descriptor != event.wd);
            return false;
        }
        let Some(watched) = self.watched.iter().find(|watched| watched.descriptor == event.wd) else { return false };
        let Some(name) = event.name.as_ref().filter(|_| watched.is_folder) else { return false };
        let path = watched.path.join(name);
        if event.mask.contains(AddWatchFlags::IN_CREATE) && is_made_empty(&path) {
            if self.written.len() < WRITTEN_MAX {
                self.written.insert(path);
            }
            return false;
        }
        self.written.remove(&path);
        self.closed.remove(&path);
        let counts = is_archive(&path);
        if counts
            && self.closed.len() < WRITTEN_MAX
            && let Some(stamp) = stamp(&path)
        {
            self.closed.insert(path, stamp);
        }
        counts
    }

    /// Watches the folders that are there now. True: one has come, or another disk is mounted there.
    fn follow(&mut self) -> bool {
        let Some((inotify, _)) = &self.inotify else { return false };
        let mut came = false;
        let mut wanted = BTreeSet::new();
        for folder in &self.folders {
            let Some((path, place)) = nearest(folder) else { continue };
            let is_folder = path == *folder;
            wanted.insert(path.clone());
            if self.watched.iter().any(|watched| watched.path == path && watched.place == place) {
                continue;
            }
            if let Some(at) = self.watched.iter().position(|watched| watched.path == path) {
                // It fails where the kernel has ended it already.
                let _ = inotify.rm_watch(self.watched.remove(at).descriptor);
            }
            match inotify.add_watch(&path, flags(is_folder)) {
                Ok(descriptor) => {
                    self.watched.push(Watched { path, descriptor, place, is_folder });
                    came |= is_folder;
                }
                Err(error) => log::debug!("watch {}: {error}", path.display()),
            }
        }
        let (kept, left) = std::mem::take(&mut self.watched).into_iter().partition(|one| wanted.contains(&one.path));
        self.watched = kept;
        for watched in left {
            let _ = inotify.rm_watch(watched.descriptor);
        }
        came
    }
}

fn inotify() -> io::Result<(Inotify, AsyncFd<OwnedFd>)> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    #[expect(deprecated, reason = "its replacement is unsafe; what is wrong with it cannot happen with an OwnedFd")]
    let readable = AsyncFd::new(inotify.as_fd().try_clone_to_owned()?)?;
    Ok((inotify, readable))
}

fn flags(is_folder: bool) -> AddWatchFlags {
    let of_both = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    let of_folder = AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_FROM | AddWatchFlags::IN_DELETE;
    if is_folder { of_both | of_folder } else { of_both }
}

/// The folder, or its nearest parent that is there, with device and inode.
fn nearest(folder: &Path) -> Option<(PathBuf, (u64, u64))> {
    folder.ancestors().find_map(|path| {
        let found = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
        Some((path.to_owned(), (found.dev(), found.ino())))
    })
}

/// A link of either kind appears whole; any other file is written after it was made.
fn is_made_empty(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.nlink() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;
    use tokio::time::timeout;

    async fn hears(heard: &mut Heard, what: &str) {
        timeout(Duration::from_secs(5), heard.changed()).await.unwrap_or_else(|_| panic!("nothing was heard: {what}"));
    }

    #[tokio::test]
    async fn archives_are_heard_when_they_are_whole_also_in_folders_that_appear() {
        let base = std::env::temp_dir().join(format!("coracle-heard-{}", std::process::id()));
        fs::create_dir_all(&base).unwrap();
        let folder = base.join("stick/images");
        let mut heard = Heard::open(std::slice::from_ref(&folder));
        fs::create_dir_all(&folder).unwrap();
        hears(&mut heard, "a folder that appears").await;
        let path = folder.join("a.tar");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        fs::write(folder.join("notes.txt"), "no archive").unwrap();
        let quiet = timeout(Duration::from_millis(300), heard.changed()).await;
        assert!(quiet.is_err() && heard.is_being_written(&path), "it is not closed");
        drop(file);
        hears(&mut heard, "a file that is closed").await;
        assert!(!heard.is_being_written(&path));
        assert!(heard.was_closed(&path, &stamp(&path).unwrap()));
        fs::write(base.join("b.new"), "whole").unwrap();
        fs::rename(base.join("b.new"), folder.join("b.tar")).unwrap();
        hears(&mut heard, "a file that is moved in").await;
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir_all(&folder).unwrap();
        hears(&mut heard, "a folder that was replaced").await;
        fs::write(folder.join("c.tar"), "x").unwrap();
        hears(&mut heard, "a file in the folder that was replaced").await;
        fs::remove_dir_all(&base).unwrap();
    }
}
