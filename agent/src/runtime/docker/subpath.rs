//! A part of a volume, as a container mounts it. Who writes to the volume may put a link in the way at any moment, so
//! the part is looked for once, held by its descriptor, and bound to a place that no container can reach: what is
//! mounted is what was found.
//!
//!     VOLATILE_DIR/subpaths/UID/VOLUME/CONTAINER/INDEX: in /run, where neither a mount nor its place outlives the
//!         other

use std::borrow::Cow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};

use super::connection::Docker;
use crate::facts::engine::{ContainerConfig, Failure, Mount, MountSource, ReadOnlyBelow, SubPath};
use crate::facts::naming::volatile_dir;
use crate::host::{disks, tree};

/// What this process sees mounted.
const MOUNTS: &str = "/proc/self/mountinfo";
/// While somebody renames folders the kernel asks to try again.
const TRIES_MAX: usize = 16;

impl Docker {
    /// The same with every part of a volume where it is bound.
    pub(super) async fn with_parts_bound<'a>(
        &self,
        config: &'a ContainerConfig,
        recursive: bool,
    ) -> Result<Cow<'a, ContainerConfig>, Failure> {
        for mount in &config.mounts {
            if let (ReadOnlyBelow::Yes { volume }, false) = (&mount.below, recursive) {
                let text = format!(
                    "volume \"{volume}\" requested recursive read-only mode, but it is not supported by the runtime"
                );
                return Err(Failure::Config(format!("failed to resolve recursive read-only mode: {text}")));
            }
        }
        if config.mounts.iter().all(|mount| mount.sub_path.is_none()) {
            return Ok(Cow::Borrowed(config));
        }
        let mut bound = config.clone();
        for mount in &mut bound.mounts {
            if let Some(part) = mount.sub_path.take() {
                mount.source = MountSource::Path(self.bind_part(mount, part).await?);
            }
        }
        Ok(Cow::Owned(bound))
    }

    async fn bind_part(&self, mount: &Mount, part: SubPath) -> Result<String, Failure> {
        let root = self.root_of(&mount.source).await?;
        self.make_volatile();
        let places = self.places();
        // A network that hangs is not to hang the thread that answers probes.
        let of = root.clone();
        let bound = disks::work(Path::new(&of), move || prepare(Path::new(&root), &part, &places)).await;
        let bound = bound.unwrap_or_else(|why| Err(Failure::Refused(format!("bind a subPath: {why}"))))?;
        bound.into_os_string().into_string().map_err(|path| Failure::Refused(format!("{} is no UTF-8", path.display())))
    }

    /// Where a volume is on this host.
    pub(super) async fn root_of(&self, source: &MountSource) -> Result<String, Failure> {
        match source {
            MountSource::Path(path) => Ok(path.clone()),
            // It is mounted there as long as the sandbox runs.
            MountSource::Volume(name) => {
                let client = self.client().await?;
                Ok(self.ask("inspect a volume", client.inspect_volume(name)).await?.mountpoint)
            }
        }
    }

    /// Below it there is a folder for each pod.
    pub(super) fn places(&self) -> PathBuf {
        Path::new(&volatile_dir(&self.settings.run_dir, &self.settings.node_name)).join("subpaths")
    }
}

/// Finds or makes the part, and bind-mounts the part. `root`: the volume. Returns the place of the mount.
pub fn prepare(root: &Path, part: &SubPath, places: &Path) -> Result<PathBuf, Failure> {
    let place = places.join(&part.uid).join(&part.volume).join(&part.container).join(part.index.to_string());
    let fail = |what: &str, error: io::Error| {
        // What is on this host is not for the pod's eyes: the log alone says what went wrong.
        log::warn!("subPath {:?} of {}: {what}: {error}", part.path, root.display());
        Failure::Config(format!(
            "failed to {what} for volumeMount \"{}\" of container \"{}\"",
            part.volume, part.container
        ))
    };
    let found = find_or_make(root, Path::new(&part.path)).map_err(|(what, error)| fail(what, error.into()))?;
    bind(&found, &place).map_err(|error| fail(PREPARE, error))?;
    Ok(place)
}

/// Opens a file in a volume for reading. A container may have made a device there, and to open a device is to use it.
/// So the type is checked first.
pub(super) fn open_file(root: &Path, path: &Path) -> io::Result<fs::File> {
    let root = open(root, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?;
    let found = find(&root, path)?;
    if SFlag::from_bits_truncate(fstat(&found)?.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFREG {
        return Err(io::Error::other("it is not a file"));
    }
    fs::File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// As a kubelet has it.
const MAKE: &str = "create subPath directory";
const PREPARE: &str = "prepare subPath";

fn find_or_make(root: &Path, path: &Path) -> Result<OwnedFd, (&'static str, Errno)> {
    let root = open(root, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(|error| (PREPARE, error))?;
    match find(&root, path) {
        Err(Errno::ENOENT) => make(&root, path).map_err(|error| (MAKE, error)),
        found => found.map_err(|error| (PREPARE, error)),
    }
}

/// Links are followed as long as they stay in the volume.
fn find(root: &OwnedFd, path: &Path) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let mut found = Err(Errno::EAGAIN);
    for _ in 0..TRIES_MAX {
        found = openat2(root, path, how);
        if !matches!(found, Err(Errno::EAGAIN)) {
            break;
        }
    }
    found
}

/// Makes the missing directories of the path, with the mode of the volume.
fn make(root: &OwnedFd, path: &Path) -> nix::Result<OwnedFd> {
    let parts: Vec<&Path> = path
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .map(|part| Path::new(part.as_os_str()))
        .collect();
    let mode = fstat(root)?.st_mode & 0o7777;
    let begin = |known: usize| match known {
        0 => find(root, Path::new(".")),
        known => find(root, &parts[..known].iter().collect::<PathBuf>()),
    };
    let mut known = parts.len();
    let mut folder = loop {
        match begin(known) {
            Err(Errno::ENOENT) if known > 0 => known -= 1,
            found => break found?,
        }
    };
    for part in &parts[known..] {
        let made = match mkdirat(&folder, *part, Mode::from_bits_truncate(mode)) {
            Err(Errno::EEXIST) => false,
            made => made.map(|()| true)?,
        };
        let next = openat(&folder, *part, OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())?;
        if made {
            // Whatever this process's umask is.
            let next = fs::File::from(next);
            next.set_permissions(fs::Permissions::from_mode(mode))
                .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(0)))?;
            folder = next.into();
        } else {
            folder = next;
        }
    }
    Ok(folder)
}

fn bind(found: &OwnedFd, place: &Path) -> io::Result<()> {
    unmount(place)?;
    let is_dir = SFlag::from_bits_truncate(fstat(found)?.st_mode & SFlag::S_IFMT.bits()) == SFlag::S_IFDIR;
    if let Some(folder) = place.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    match fs::symlink_metadata(place) {
        Ok(there) if there.is_dir() == is_dir => {}
        Ok(there) if there.is_dir() => fs::remove_dir(place)?,
        Ok(_) => fs::remove_file(place)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if is_dir {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(place)?;
    } else {
        fs::OpenOptions::new().write(true).create(true).truncate(true).open(place)?;
    }
    check_propagation(place)?;
    let source = format!("/proc/self/fd/{}", found.as_raw_fd());
    Ok(mount(Some(source.as_str()), place, None::<&str>, MsFlags::MS_BIND, None::<&str>)?)
}

pub(super) fn check_propagation(place: &Path) -> io::Result<()> {
    if propagates(&fs::read(MOUNTS)?, place) {
        return Ok(());
    }
    let text = "the engine would not see it: no option of the agent's unit may give it mounts of its own";
    Err(io::Error::other(text))
}

/// Detaches a mount. Containers that have mounted it keep their mount.
fn unmount(place: &Path) -> io::Result<()> {
    loop {
        match umount2(place, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW) {
            Ok(()) => {}
            Err(Errno::EINVAL | Errno::ENOENT) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes away all that was bound for a pod. Nothing is removed below which something is still mounted: it would be a
/// volume's content.
pub fn release(folder: &Path) -> io::Result<()> {
    unmount_below(folder)?.map_or(Ok(()), |folder| tree::remove(&folder))
}

/// The folder itself, without links; None: it is not there.
pub(super) fn unmount_below(folder: &Path) -> io::Result<Option<PathBuf>> {
    let folder = match folder.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        folder => folder?,
    };
    for place in mounts_below(&folder)?.iter().rev() {
        unmount(place)?;
    }
    match mounts_below(&folder)?.first() {
        Some(left) => Err(io::Error::other(format!("{} is still mounted", left.display()))),
        None => Ok(Some(folder)),
    }
}

/// The mount points below a folder, and the folder where it is one, in the order in which they were mounted.
pub(super) fn mounts_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(mounted_below(&fs::read(MOUNTS)?, folder))
}

/// Whether the host sees mounts made here. A process with its own mount namespace may receive the host's mounts while
/// the host sees none of the process's mounts.
pub(super) fn propagates(mountinfo: &[u8], place: &Path) -> bool {
    let mut around = (PathBuf::new(), true);
    for line in mountinfo.split(|byte| *byte == b'\n') {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let Some(point) = fields.get(4).map(|point| PathBuf::from(unescaped(point))) else { continue };
        if place.starts_with(&point) && point.as_os_str().len() >= around.0.as_os_str().len() {
            let tags = fields[5..].iter().take_while(|field| **field != b"-");
            let (mut shared, mut receives) = (false, false);
            for tag in tags {
                shared |= tag.starts_with(b"shared:");
                receives |= tag.starts_with(b"master:");
            }
            around = (point, shared || !receives);
        }
    }
    around.1
}

/// The mount points below a folder, in the order in which they were mounted.
fn mounted_below(mountinfo: &[u8], folder: &Path) -> Vec<PathBuf> {
    let lines = mountinfo.split(|byte| *byte == b'\n');
    let points =
        lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(|point| PathBuf::from(unescaped(point)));
    points.filter(|point| point.starts_with(folder)).collect()
}

/// The kernel writes a blank as `\040`.
fn unescaped(text: &[u8]) -> std::ffi::OsString {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let code = || std::str::from_utf8(after.get(..3)?).ok().and_then(|digits| u8::from_str_radix(digits, 8).ok());
        rest = match (*byte == b'\\').then(code).flatten() {
            Some(code) => {
                out.push(code);
                &after[3..]
            }
            None => {
                out.push(*byte);
                after
            }
        };
    }
    std::ffi::OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("coracle-subpath-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A socket that is opened answers with another error.
    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = folder("nofile");
        fs::write(folder.join("file"), "A=1").unwrap();
        fs::create_dir(folder.join("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        for (name, expected) in
            [("file", None), ("folder", Some("it is not a file")), ("socket", Some("it is not a file"))]
        {
            let error = open_file(&folder, Path::new(name)).err().map(|error| error.to_string());
            assert_eq!(error.as_deref(), expected, "{name}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn no_link_leaves_the_volume() {
        let folder = folder("links");
        let root = folder.join("volume");
        fs::create_dir_all(root.join("data/deep")).unwrap();
        fs::write(root.join("data/file"), "inside").unwrap();
        fs::create_dir_all(folder.join("outside")).unwrap();
        for (link, target) in [
            ("up", ".."),
            ("out", "../outside"),
            ("root", "/"),
            ("in", "data"),
            ("dangling", "nowhere"),
            ("loop", "loop"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let check = |path: &str, expected: Result<&str, (&'static str, Errno)>| {
            let found = find_or_make(&root, Path::new(path))
                .map(|fd| fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap());
            assert_eq!(found, expected.map(|below| root.join(below)), "{path}");
        };
        check("data/file", Ok("data/file"));
        check("in/file", Ok("data/file"));
        check("in/new/newer", Ok("data/new/newer"));
        check("up", Err((PREPARE, Errno::EXDEV)));
        check("out/x", Err((PREPARE, Errno::EXDEV)));
        check("root/etc", Err((PREPARE, Errno::EXDEV)));
        check("data/deep/../../../outside", Err((PREPARE, Errno::EXDEV)));
        check("dangling", Err((MAKE, Errno::ENOTDIR)));
        check("dangling/x", Err((MAKE, Errno::ENOTDIR)));
        check("loop", Err((PREPARE, Errno::ELOOP)));
        check("data/file/x", Err((PREPARE, Errno::ENOTDIR)));
        assert!(!folder.join("outside/x").exists() && !root.join("nowhere").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_is_made_has_the_mode_of_the_volume() {
        let root = folder("mode");
        fs::set_permissions(&root, fs::Permissions::from_mode(0o2775)).unwrap();
        find_or_make(&root, Path::new("a/b")).unwrap();
        for made in ["a", "a/b"] {
            assert_eq!(fs::metadata(root.join(made)).unwrap().mode() & 0o7777, 0o2775, "{made}");
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn mount_points_are_read() {
        let text = b"21 1 8:1 / / rw - ext4 /dev/sda rw\n30 21 8:1 /x /run/c/u\\0401/v rw - ext4 /dev/sda rw\n\
                     31 21 8:1 /x /run/c2 rw - ext4 d rw\n";
        assert_eq!(mounted_below(text, Path::new("/run/c")), [PathBuf::from("/run/c/u 1/v")]);
        assert_eq!(unescaped(b"a\\134\\0b"), "a\\\\0b");
        let check = |tags: &str, expected: bool| {
            let text =
                format!("21 1 8:1 / / rw master:1 - ext4 /dev/sda rw\n30 21 0:5 / /run rw{tags} - tmpfs tmpfs rw\n");
            assert_eq!(propagates(text.as_bytes(), Path::new("/run/c/x")), expected, "{tags}");
        };
        check(" shared:2", true);
        check("", true);
        check(" master:2", false);
        check(" shared:3 master:2", true);
    }

    /// Needs the right to mount; where this process has it not, there is nothing to see.
    #[test]
    fn what_was_found_is_what_is_bound() {
        let folder = folder("bind");
        let root = folder.join("volume");
        fs::create_dir_all(root.join("data")).unwrap();
        fs::write(root.join("data/file"), "inside").unwrap();
        let places = folder.join("places");
        let part = |path: &str, index| SubPath {
            path: path.into(),
            uid: "u".into(),
            volume: "v".into(),
            container: "c".into(),
            index,
        };
        if let Err(failure) = prepare(&root, &part("data/file", 0), &places) {
            assert_eq!(failure.text(), "failed to prepare subPath for volumeMount \"v\" of container \"c\"");
            return;
        }
        // Whoever has the volume takes the folder away, and puts a link in its place.
        fs::rename(root.join("data"), root.join("moved")).unwrap();
        symlink("/etc", root.join("data")).unwrap();
        assert_eq!(fs::read_to_string(places.join("u/v/c/0")).unwrap(), "inside");
        assert!(prepare(&root, &part("data/hostname", 1), &places).is_err());
        let made = prepare(&root, &part("new", 0), &places).unwrap();
        assert!(made.is_dir(), "a file gives way to a directory");
        fs::write(made.join("x"), "kept").unwrap();
        release(&places.join("u")).unwrap();
        assert_eq!(
            (fs::read_to_string(root.join("new/x")).unwrap().as_str(), places.join("u").exists()),
            ("kept", false)
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
