//! Hears from the kernel that manifest files have changed.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::unix::AsyncFd;

/// A change of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Files were written or came, each whole.
    Written,
    /// At least one file was taken away.
    Taken,
    /// This watch hears nothing any more.
    Lost,
}

/// inotify on one directory.
pub(super) struct Watch {
    inotify: Inotify,
    readable: AsyncFd<OwnedFd>,
    path: PathBuf,
}

impl Watch {
    pub(super) fn open(path: &Path) -> Option<Watch> {
        let opened = || -> io::Result<Watch> {
            let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
            // A file that is being written is read when it is closed; links appear whole.
            let flags = AddWatchFlags::IN_CLOSE_WRITE
                | AddWatchFlags::IN_MOVED_FROM
                | AddWatchFlags::IN_MOVED_TO
                | AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_DELETE
                | AddWatchFlags::IN_DELETE_SELF
                | AddWatchFlags::IN_MOVE_SELF
                | AddWatchFlags::IN_ONLYDIR;
            inotify.add_watch(path, flags)?;
            #[expect(
                deprecated,
                reason = "its replacement is unsafe; what is wrong with it cannot happen with an OwnedFd"
            )]
            let readable = AsyncFd::new(inotify.as_fd().try_clone_to_owned()?)?;
            Ok(Watch { inotify, readable, path: path.to_owned() })
        };
        match opened() {
            Ok(watch) => Some(watch),
            Err(error) => {
                log::debug!("watch {}: {error}", path.display());
                None
            }
        }
    }

    /// Returns when something worth a reading happened.
    pub(super) async fn changed(&mut self) -> Change {
        loop {
            let Ok(mut ready) = self.readable.readable().await else { return Change::Lost };
            let events = match self.inotify.read_events() {
                Ok(events) => events,
                Err(nix::errno::Errno::EAGAIN) => {
                    ready.clear_ready();
                    continue;
                }
                Err(_) => return Change::Lost,
            };
            let lost = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_IGNORED;
            if events.iter().any(|event| event.mask.intersects(lost)) {
                return Change::Lost;
            }
            let created_plain = |name: &OsString| {
                fs::symlink_metadata(self.path.join(name)).is_ok_and(|meta| {
                    use std::os::unix::fs::MetadataExt;
                    meta.is_file() && meta.nlink() == 1
                })
            };
            let counts = events.iter().any(|event| {
                let created = event.mask.contains(AddWatchFlags::IN_CREATE);
                event.name.as_ref().is_none_or(|name| !(hidden(name) || created && created_plain(name)))
            });
            if counts {
                let taken = AddWatchFlags::IN_MOVED_FROM | AddWatchFlags::IN_DELETE;
                let taken = events.iter().any(|event| event.mask.intersects(taken));
                return if taken { Change::Taken } else { Change::Written };
            }
        }
    }
}

/// Files whose names begin with a dot are no manifests.
pub(super) fn hidden(name: &OsString) -> bool {
    name.to_string_lossy().starts_with('.')
}
