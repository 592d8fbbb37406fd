//! Listeners: a TCP port, or a Unix socket that asks the kernel who the peer is.
//!
//! The file of a Unix socket is made under a temporary name and renamed, so that clients find only a complete file. A
//! socket file that a killed process left is replaced; anything else in its place is left alone and reported.
use super::socket::{Peer, Socket};
use crate::socket_file::{SocketFile, as_it_lies, is_trusted, through};
use nix::fcntl::OFlag;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Everybody may connect, and is then asked for who he is: a mode would have to know the group of those who are let in.
const SOCKET_MODE: u32 = 0o666;
/// The mode of a directory that is made here: others may find a socket, but not make one.
const FOLDER_MODE: u32 = 0o755;
/// Write permission of anybody but the owner.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Whether a user of this host is let in, by his number.
pub type Admits = Arc<dyn Fn(u32) -> bool + Send + Sync>;

/// Bound, and not yet served.
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixDoor),
}

/// A Unix socket, and who may come in.
pub struct UnixDoor {
    listener: UnixListener,
    file: Bound,
    admits: Admits,
}

/// The file of a socket that this process has bound; removed when this value is dropped, unless a new file has taken
/// its place.
pub(super) struct Bound {
    path: PathBuf,
    inode: (u64, u64),
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Listener {
        Listener::Tcp(listener)
    }
}

impl From<UnixDoor> for Listener {
    fn from(door: UnixDoor) -> Listener {
        Listener::Unix(door)
    }
}

/// Binds only; whoever connects waits for `serve`. The folder is made where it is missing.
pub fn listen_unix(path: &Path, admits: Admits) -> io::Result<UnixDoor> {
    let invalid = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
    let folder = path
        .parent()
        .filter(|folder| folder.is_absolute())
        .ok_or_else(|| invalid("the path of a socket must be absolute"))?;
    let name = path.file_name().ok_or_else(|| invalid("the path of a socket names a file"))?;
    make(folder)?;
    let opened = guarded(folder)?;
    let inside = through(&opened);
    vacant(&inside.join(name))?;
    // An address of a socket is short; a name that it is renamed to is not counted.
    let fresh = inside.join(format!(".{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let listener = UnixListener::bind(&fresh)?;
    let settled = || {
        fs::set_permissions(&fresh, Permissions::from_mode(SOCKET_MODE))?;
        listener.set_nonblocking(true)?;
        let found = fs::symlink_metadata(&fresh)?;
        fs::rename(&fresh, inside.join(name))?;
        Ok((found.dev(), found.ino()))
    };
    let inode = settled().inspect_err(|_: &io::Error| drop(fs::remove_file(&fresh)))?;
    Ok(UnixDoor { listener, file: Bound { path: path.to_owned(), inode }, admits })
}

/// Whatever the umask, others find the way.
fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    folder.parent().map_or(Ok(()), make)?;
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens the folder, and fails if other users can create a socket in the folder. The mode is not corrected: the folder
/// may be /tmp.
fn guarded(folder: &Path) -> io::Result<File> {
    let opened = as_it_lies(folder, OFlag::O_DIRECTORY)?;
    let found = opened.metadata()?;
    if !is_trusted(found.uid()) || found.mode() & WRITABLE_BY_OTHERS != 0 {
        let folder = folder.display();
        let why = format!(
            "others can write the directory {folder}: `chown root {folder} && chmod 0755 {folder}`, or choose another"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(opened)
}

/// Succeeds if the path is free, or holds a socket whose process has ended.
fn vacant(path: &Path) -> io::Result<()> {
    let found = match SocketFile::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("{error}: take it away, or choose another place")));
        }
        Ok(found) => found,
    };
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    // One that is hung has a full backlog, and is not waited for.
    socket.set_nonblocking(true)?;
    match socket.connect(&socket2::SockAddr::unix(found.address())?) {
        Err(error) if matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Ok(()),
        Ok(()) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process serves this socket")),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::Error::new(io::ErrorKind::AddrInUse, "another process serves this socket, and is busy"))
        }
        Err(error) => Err(error),
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A listener that is served.
pub(super) enum Door {
    Tcp(tokio::net::TcpListener),
    Unix { listener: tokio::net::UnixListener, admits: Admits, _file: Bound },
}

impl Door {
    pub(super) fn open(listener: Listener) -> io::Result<Door> {
        Ok(match listener {
            Listener::Tcp(listener) => Door::Tcp(tokio::net::TcpListener::from_std(listener)?),
            Listener::Unix(UnixDoor { listener, file, admits }) => {
                Door::Unix { listener: tokio::net::UnixListener::from_std(listener)?, admits, _file: file }
            }
        })
    }

    pub(super) async fn accept(&self) -> io::Result<(Socket, Peer)> {
        match self {
            Door::Tcp(listener) => {
                listener.accept().await.map(|(socket, address)| (Socket::Tcp(socket), Peer::Address(address)))
            }
            Door::Unix { listener, .. } => {
                let (socket, _) = listener.accept().await?;
                let peer = Peer::User(socket.peer_cred()?.uid());
                Ok((Socket::Unix(socket), peer))
            }
        }
    }

    pub(super) fn admits(&self, peer: Peer) -> bool {
        match (self, peer) {
            (Door::Unix { admits, .. }, Peer::User(uid)) => admits(uid),
            _ => true,
        }
    }
}
