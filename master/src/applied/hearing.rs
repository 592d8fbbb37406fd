//! Hears from the kernel that files of `apply-dir` have changed, and from other threads that there is something to do.

use super::folder::{MARK, is_manifest};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where the kernel tells nothing, the directory is looked at again after so long.
const DEAF: Duration = Duration::from_secs(30);

/// Wakes the thread that waits; it never blocks.
pub struct Wake(EventFd);

impl Wake {
    pub fn new() -> io::Result<Wake> {
        Ok(Wake(EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?))
    }

    pub fn wake(&self) {
        // A full counter wakes as well.
        let _ = self.0.write(1);
    }
}

pub struct Hearing {
    wake: Arc<Wake>,
    /// None: the kernel has none left.
    inotify: Option<Inotify>,
    directory: PathBuf,
    above: Option<WatchDescriptor>,
    folders: BTreeMap<WatchDescriptor, String>,
    /// Of this look.
    seen: BTreeSet<WatchDescriptor>,
    /// Files that somebody has opened and not closed yet.
    writing: BTreeSet<String>,
    /// Files whose writers closed them, or that came whole.
    closed: BTreeSet<String>,
    /// Something is waited for of which the kernel does not tell.
    pub is_deaf: bool,
    /// When the directory changed last.
    pub stirred: Instant,
    has_stirred: bool,
}

impl Hearing {
    pub fn new(wake: Arc<Wake>, directory: &Path) -> Hearing {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .inspect_err(|error| log::warn!("apply-dir is looked at every {} s: inotify: {error}", DEAF.as_secs()))
            .ok();
        Hearing {
            wake,
            inotify,
            directory: directory.to_owned(),
            above: None,
            folders: BTreeMap::new(),
            seen: BTreeSet::new(),
            writing: BTreeSet::new(),
            closed: BTreeSet::new(),
            is_deaf: false,
            stirred: Instant::now(),
            has_stirred: false,
        }
    }

    /// A look begins: folders that it does not name any more are let go of.
    pub fn begin(&mut self, directory: &Path) {
        self.seen.clear();
        self.is_deaf = self.inotify.is_none();
        self.has_stirred = false;
        let flags = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_ONLYDIR;
        // The directory may be made, or come back, later.
        let above = directory.parent().zip(self.inotify.as_ref());
        self.above = above.and_then(|(above, inotify)| inotify.add_watch(above, flags).ok());
    }

    pub fn follow(&mut self, path: &Path, below: &str) {
        let Some(inotify) = &self.inotify else { return };
        let flags = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        match inotify.add_watch(path, flags) {
            Ok(watch) => {
                self.folders.insert(watch, below.to_owned());
                self.seen.insert(watch);
            }
            Err(error) => {
                log::debug!("watch {}: {error}", path.display());
                self.is_deaf = true;
            }
        }
    }

    pub fn end(&mut self) {
        let gone: Vec<WatchDescriptor> =
            self.folders.keys().filter(|watch| !self.seen.contains(watch)).copied().collect();
        for watch in gone {
            self.folders.remove(&watch);
            if let Some(inotify) = &self.inotify {
                // The kernel has let go of a folder that was removed.
                let _ = inotify.rm_watch(watch);
            }
        }
        self.closed.clear();
    }

    pub fn is_written(&self, below: &str) -> bool {
        self.writing.contains(below)
    }

    pub fn was_closed(&self, below: &str) -> bool {
        self.closed.contains(below)
    }

    pub fn being_written(&self) -> impl Iterator<Item = &str> {
        self.writing.iter().map(String::as_str)
    }

    /// Takes what the kernel has to tell by now.
    pub fn drain(&mut self) {
        loop {
            let Some(inotify) = &self.inotify else { return };
            match inotify.read_events() {
                Ok(events) => events.into_iter().for_each(|event| self.hear(&event)),
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn hear(&mut self, event: &InotifyEvent) {
        let mask = event.mask;
        let Some(folder) = self.folders.get(&event.wd) else {
            let is_directory = event.name.as_deref() == self.directory.file_name() && Some(event.wd) == self.above;
            if mask.contains(AddWatchFlags::IN_Q_OVERFLOW) || is_directory {
                self.writing.clear();
                self.stir();
            }
            return;
        };
        let Some(name) = event.name.as_ref().map(OsString::as_os_str) else { return self.stir() };
        let name = name.to_string_lossy();
        let below = if folder.is_empty() { name.clone().into_owned() } else { format!("{folder}/{name}") };
        let is_folder = mask.contains(AddWatchFlags::IN_ISDIR);
        if name.starts_with('.') && below != MARK || !is_folder && !is_manifest(&name) && below != MARK {
            // A link to a folder is told of, too.
            if mask.intersects(AddWatchFlags::IN_CREATE | AddWatchFlags::IN_DELETE) && !name.starts_with('.') {
                self.stir();
            }
            return;
        }
        if mask.intersects(AddWatchFlags::IN_MODIFY) || mask.contains(AddWatchFlags::IN_CREATE) && self.is_new(&below) {
            self.writing.insert(below);
            self.stirred = Instant::now();
            return;
        }
        if mask.intersects(AddWatchFlags::IN_ATTRIB) && self.writing.contains(&below) {
            return;
        }
        self.writing.remove(&below);
        if mask.intersects(AddWatchFlags::IN_CLOSE_WRITE | AddWatchFlags::IN_MOVED_TO) {
            self.closed.insert(below);
        }
        self.stir();
    }

    /// A file that was created by who writes it now; a link comes whole.
    fn is_new(&self, below: &str) -> bool {
        fs::symlink_metadata(self.directory.join(below)).is_ok_and(|meta| meta.is_file() && meta.nlink() == 1)
    }

    fn stir(&mut self) {
        self.stirred = Instant::now();
        self.has_stirred = true;
    }

    /// Waits until something has changed, somebody wakes this thread, or the time is over. Writing a file wakes nobody
    /// before the file is closed.
    pub fn wait(&mut self, at_most: Option<Duration>) {
        let at_most = if self.is_deaf { Some(at_most.map_or(DEAF, |time| time.min(DEAF))) } else { at_most };
        let until = at_most.map(|time| Instant::now() + time);
        loop {
            self.drain();
            if self.has_stirred {
                return;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            // Up to the next whole millisecond, so that the time is over afterwards.
            let timeout = left.map_or(PollTimeout::NONE, |left| {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            let mut fds = vec![PollFd::new(self.wake.0.as_fd(), PollFlags::POLLIN)];
            fds.extend(self.inotify.as_ref().map(|inotify| PollFd::new(inotify.as_fd(), PollFlags::POLLIN)));
            let polled = poll(&mut fds, timeout);
            let woken = fds[0].any().unwrap_or_default();
            if woken {
                let _ = self.wake.0.read();
                return;
            }
            if polled == Ok(0) && until.is_some_and(|until| Instant::now() >= until) {
                return;
            }
        }
    }
}
