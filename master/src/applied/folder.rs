//! Reads `apply-dir`: which files are there, whether they may be taken, and what they say. A file that has not changed
//! is not read again.
//!
//! Files are applied with every right. So files and folders belong to root or to the master's own user, down from the
//! directory itself, and no other user may write them. A link leads elsewhere and is not followed.

use super::hearing::Hearing;
use super::inventory::digest;
use super::manifest::{self, Document};
use super::tree::{FileState, ReadFile, Tree, Trouble};
use nix::fcntl::OFlag;
use nix::unistd::{Group, User, getegid, geteuid};
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of all files together: they are in memory while they are applied for the first time.
const ALL_BYTES_MAX: u64 = 64 << 20;
/// Manifest files, and folders that are followed.
const FILES_MAX: usize = 2_000;
const FOLDERS_MAX: usize = 500;
/// Levels of folders.
const DEPTH_MAX: usize = 16;
/// Entries of one folder, of whatever name.
const ENTRIES_MAX: usize = 10_000;
/// A file of which nobody heard that its writer closed it is read once it has been as it is for so long.
const SETTLE: Duration = Duration::from_secs(2);
/// The mark of the directory, and its longest text.
pub const MARK: &str = ".coracle-apply";
const MARK_BYTES_MAX: u64 = 4 << 10;
/// Files with these endings are manifests; others are passed over.
const ENDINGS: [&str; 3] = [".yaml", ".yml", ".json"];

pub fn is_manifest(name: &str) -> bool {
    !name.starts_with('.') && ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The uid in a mark.
pub fn mark_in(text: &str) -> Option<String> {
    text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
}

/// By what a file is known to be the same.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

fn stamp(meta: &Metadata) -> Stamp {
    (meta.dev(), meta.ino(), meta.len(), (meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()))
}

struct Cached {
    stamp: Stamp,
    state: FileState,
    /// None: all of them were applied, and their text is not kept.
    documents: Option<Vec<Document>>,
}

pub struct Folder {
    directory: PathBuf,
    files: BTreeMap<String, Cached>,
}

/// One look at the directory.
pub struct FolderLook {
    pub tree: Tree,
    /// When the youngest file will have settled.
    pub settles_in: Option<Duration>,
}

struct Walk<'h> {
    hearing: &'h mut Hearing,
    look: FolderLook,
    before: BTreeMap<String, Cached>,
    files: BTreeMap<String, Cached>,
    bytes: u64,
}

impl Folder {
    pub fn new(directory: &Path) -> Folder {
        Folder { directory: directory.to_owned(), files: BTreeMap::new() }
    }

    pub fn look(&mut self, hearing: &mut Hearing) -> FolderLook {
        hearing.begin(&self.directory);
        let look = FolderLook { tree: Tree::default(), settles_in: None };
        let before = std::mem::take(&mut self.files);
        let mut walk = Walk { hearing, look, before, files: BTreeMap::new(), bytes: 0 };
        match walk.folder(&self.directory, "", 0) {
            Ok(()) => walk.look.tree.mark = mark(&self.directory),
            Err(trouble) => walk.look.tree.trouble = Some(trouble),
        }
        let Walk { hearing, mut look, before, mut files, .. } = walk;
        hearing.end();
        if look.tree.trouble.is_some() {
            // The directory may come back as it was, and a mount tells nobody.
            files = before;
            hearing.is_deaf = true;
        }
        // Somebody may have begun to write a file while it was read.
        hearing.drain();
        for path in hearing.being_written() {
            files.remove(path);
            if let Some(state) = look.tree.files.get_mut(path) {
                *state = FileState::Writing;
            }
        }
        self.files = files;
        look
    }

    /// The object of a file at its place. None: the file has changed since, or its text is not kept: `reread`.
    pub fn document(&self, file: &str, at: usize) -> Option<&Document> {
        self.files.get(file)?.documents.as_ref()?.get(at)
    }

    /// Whether the documents of a file are at hand.
    pub fn has(&self, file: &str) -> bool {
        self.files.get(file).is_some_and(|cached| cached.documents.is_some())
    }

    /// Reads a file again whose documents are not kept. `false`: it has changed since.
    pub fn reread(&mut self, file: &str) -> bool {
        let Some(cached) = self.files.get_mut(file) else { return false };
        let FileState::Read(known) = &cached.state else { return false };
        match read_file(&self.directory.join(file)) {
            Ok((bytes, found)) if stamp(&found) == cached.stamp && digest(&bytes) == known.digest => {
                cached.documents = manifest::read(&bytes).ok().map(|manifest| manifest.documents);
                cached.documents.is_some()
            }
            _ => false,
        }
    }

    /// The documents of a file have been applied: their text is not needed any more.
    pub fn forget(&mut self, is_needed: impl Fn(&str) -> bool) {
        for (path, cached) in &mut self.files {
            if !is_needed(path) {
                cached.documents = None;
            }
        }
    }
}

impl Walk<'_> {
    fn folder(&mut self, path: &Path, below: &str, depth: usize) -> Result<(), Trouble> {
        // The directory itself may be a link: the configuration names it.
        let meta = if below.is_empty() { fs::metadata(path) } else { fs::symlink_metadata(path) };
        let meta = meta.map_err(|error| unreadable(path, &error, true))?;
        if !meta.is_dir() {
            return Err(Trouble::new("NoDirectory", "it is no directory", "make apply-dir lead to a directory"));
        }
        untrusted(path, &meta)?;
        if depth > DEPTH_MAX || self.look.tree.folders.len() >= FOLDERS_MAX {
            let what = format!("it is not read: at most {FOLDERS_MAX} folders in {DEPTH_MAX} levels are");
            return Err(Trouble::new("TooManyFolders", what, "move manifests together, others away"));
        }
        // First, so that no change goes unheard between the listing and the watch.
        self.hearing.follow(path, below);
        let mut entries = BTreeMap::new();
        for entry in fs::read_dir(path).map_err(|error| unreadable(path, &error, true))? {
            let entry = entry.map_err(|error| unreadable(path, &error, true))?;
            if entries.len() >= ENTRIES_MAX {
                let what = format!("it is not read: it has more than {ENTRIES_MAX} entries");
                return Err(Trouble::new("TooManyFiles", what, "move files away that are no manifests"));
            }
            let kind = entry.file_type().map_err(|error| unreadable(path, &error, true))?;
            entries.insert(entry.file_name().to_string_lossy().into_owned(), (entry.path(), kind));
        }
        let mut has_any = false;
        for (name, (path, kind)) in entries.into_iter().filter(|(name, _)| !name.starts_with('.')) {
            let inner = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            let is_file = is_manifest(&name);
            if kind.is_dir() || is_file {
                has_any = true;
            }
            if kind.is_symlink() && !is_file && fs::metadata(&path).is_ok_and(|meta| meta.is_dir()) {
                self.look.tree.unknown.push((inner, link()));
            } else if kind.is_dir() {
                if let Err(trouble) = self.folder(&path, &inner, depth + 1) {
                    self.look.tree.unknown.push((inner, trouble));
                }
            } else if is_file {
                self.file(&path, inner)?;
            }
        }
        self.look.tree.folders.insert(below.to_owned(), has_any);
        Ok(())
    }

    fn file(&mut self, path: &Path, below: String) -> Result<(), Trouble> {
        if self.look.tree.files.len() >= FILES_MAX {
            let what = format!("it is not read: at most {FILES_MAX} manifest files are");
            return Err(Trouble::new("TooManyFiles", what, "move manifests together into fewer files"));
        }
        let cached = match self.cached(path, &below) {
            Ok(Some(cached)) => cached,
            Ok(None) => {
                self.look.tree.files.insert(below, FileState::Writing);
                return Ok(());
            }
            Err(trouble) => {
                self.look.tree.files.insert(below, FileState::Refused(trouble));
                return Ok(());
            }
        };
        self.bytes += cached.stamp.2;
        if self.bytes > ALL_BYTES_MAX {
            let what = format!("it is not read: all files together have at most {} MiB", ALL_BYTES_MAX >> 20);
            return Err(Trouble::new("TooLarge", what, "move files away that are no manifests"));
        }
        self.look.tree.files.insert(below.clone(), cached.state.clone());
        self.files.insert(below, cached);
        Ok(())
    }

    /// The file as it is, read if it has changed. None: it is being written.
    fn cached(&mut self, path: &Path, below: &str) -> Result<Option<Cached>, Trouble> {
        if self.hearing.is_written(below) {
            return Ok(None);
        }
        let meta = fs::symlink_metadata(path).map_err(|error| unreadable(path, &error, false))?;
        if meta.is_symlink() {
            return Err(link());
        }
        let was_closed = self.hearing.was_closed(below);
        if let Some(cached) = self.before.remove(below).filter(|cached| cached.stamp == stamp(&meta)) {
            return Ok(Some(cached));
        }
        if let Some(left) = unsettled(&meta).filter(|_| !was_closed) {
            self.look.settles_in = Some(self.look.settles_in.map_or(left, |other| other.min(left)));
            return Ok(None);
        }
        let (bytes, meta) = read_file(path)?;
        let (state, documents) = match manifest::read(&bytes) {
            Ok(manifest) => {
                let named = manifest.documents.iter().map(|document| document.named.clone()).collect();
                let read = ReadFile { digest: digest(&bytes), ends: manifest.ends, named };
                (FileState::Read(read), Some(manifest.documents))
            }
            Err(why) => {
                let what = format!("nothing of it is taken: {why}");
                (FileState::Refused(Trouble::new("FileUnreadable", what, "mend it")), None)
            }
        };
        Ok(Some(Cached { stamp: stamp(&meta), state, documents }))
    }
}

/// How long a file that changed a moment ago is waited for.
fn unsettled(meta: &Metadata) -> Option<Duration> {
    let written = UNIX_EPOCH + Duration::from_secs(u64::try_from(meta.mtime()).ok()?);
    let written = written + Duration::from_nanos(u64::try_from(meta.mtime_nsec()).unwrap_or_default());
    // A time to come is that of a clock that was set back: nobody can say how long ago it was.
    SETTLE.checked_sub(SystemTime::now().duration_since(written).ok()?).filter(|left| !left.is_zero())
}

/// The bytes of a file, and what is known of it from its descriptor.
fn read_file(path: &Path) -> Result<(Vec<u8>, Metadata), Trouble> {
    let failed = |error: io::Error| unreadable(path, &error, false);
    // A pipe without a writer would hold the reader up.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
    let mut file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    if !meta.is_file() {
        return Err(Trouble::new("NoFile", "it is no regular file", "take it away, or put a file there"));
    }
    untrusted(path, &meta)?;
    if meta.len() > FILE_BYTES_MAX {
        let what = format!("it is not read: it has more than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(Trouble::new("FileTooLarge", what, "cut it into several files"));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    let after = file.metadata().map_err(failed)?;
    if stamp(&after) != stamp(&meta) || bytes.len() as u64 != meta.len() {
        return Err(Trouble::new("FileChanging", "it changed while it was read", "it is read again when it is closed"));
    }
    Ok((bytes, meta))
}

/// The master's own user may do everything with the store anyway.
fn untrusted(path: &Path, meta: &Metadata) -> Result<(), Trouble> {
    let shown = path.display();
    if meta.uid() != 0 && meta.uid() != geteuid().as_raw() {
        let what = "it is not taken: it does not belong to root, and what lies here is applied with every right";
        return Err(Trouble::new("NotRoots", what, format!("chown root {shown}")));
    }
    if meta.mode() & 0o022 != 0 {
        let what =
            "it is not taken: others than its owner may write it, and what lies here is applied with every right";
        return Err(Trouble::new("WritableByOthers", what, format!("chmod go-w {shown}")));
    }
    Ok(())
}

fn link() -> Trouble {
    let what = "it is a symbolic link, and none is followed here: its target may be anybody's";
    Trouble::new("SymbolicLink", what, "put the file itself here, or make apply-dir lead to the directory")
}

fn unreadable(path: &Path, error: &io::Error, is_folder: bool) -> Trouble {
    let shown = path.display();
    let what = if is_folder { format!("it cannot be listed: {error}") } else { format!("it cannot be read: {error}") };
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let user = User::from_uid(geteuid()).ok().flatten().map_or_else(|| geteuid().to_string(), |user| user.name);
            let group = Group::from_gid(getegid()).ok().flatten();
            let group = group.map_or_else(|| getegid().to_string(), |group| group.name);
            let mode = if is_folder { "g+rx" } else { "g+r" };
            format!("the master runs as {user}: chgrp {group} {shown} && chmod {mode} {shown}")
        }
        io::ErrorKind::NotFound if is_folder => {
            format!("mount or make it; if it is not wanted, take apply-dir out of the master's configuration ({shown})")
        }
        _ => format!("see whether its disk is well: ls -l {shown}"),
    };
    Trouble::new(if is_folder { "FolderUnreadable" } else { "FileUnreadable" }, what, advice)
}

/// None: it has none that anybody could read.
fn mark(directory: &Path) -> Option<String> {
    let path = directory.join(MARK);
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok().filter(Metadata::is_file)?;
    untrusted(directory, &meta).ok()?;
    let mut text = String::new();
    file.take(MARK_BYTES_MAX).read_to_string(&mut text).ok()?;
    mark_in(&text)
}
