//! A volume of files that is exchanged whole, as a kubelet makes it: a reader sees either the complete old or the
//! complete new content.
//!
//!     VOLUME/..2026_01_02_15_04_05.STAMP/a/b     the content
//!     VOLUME/..data -> ..2026_01_02_15_04_05.STAMP, exchanged by a rename
//!     VOLUME/a -> ..data/a

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use coracle_api::meta::Time;

use crate::facts::content::{Content, stamp_of};
use crate::host::tree;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";
/// Anybody in the container may enter; it is mounted read-only.
const ROOT_MODE: u32 = 0o777;
const FOLDER_MODE: u32 = 0o755;
/// The mode of folders in a volume with fsGroup: the group may enter and read, and new files belong to the group.
const GROUP_FOLDER_MODE: u32 = 0o2550;
/// Names tried until one is free: one a second is the rule.
const NAMES_MAX: usize = 1000;

/// The stamps of the existing paths.
pub fn stamps(paths: &BTreeSet<String>) -> BTreeMap<String, String> {
    let stamp = |path: &String| {
        let target = fs::read_link(Path::new(path).join(DATA)).ok()?;
        Some((path.clone(), stamp_of(target.to_str()?)?.to_owned()))
    };
    paths.iter().filter_map(stamp).collect()
}

pub fn write(volume: &Path, content: &Content, now: SystemTime) -> io::Result<()> {
    if !volume.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(volume)?;
    }
    give(volume, ROOT_MODE, content.group)?;
    let (name, folder) = make_folder(volume, &content.stamp, now)?;
    let written = fill(&folder, content).and_then(|()| exchange(volume, &name));
    if written.is_err() {
        // The old content stays as it is.
        let _ = tree::remove(&folder);
        return written;
    }
    links(volume, content)?;
    for folder in &content.folders {
        make_folders(volume, folder, None)?;
    }
    tidy(volume, &name)
}

/// Its name in the volume, and where it is.
fn make_folder(volume: &Path, stamp: &str, now: SystemTime) -> io::Result<(String, PathBuf)> {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(0));
    let time = Time::from_seconds(seconds).map_or_else(String::new, |time| time.to_string());
    let time = time.trim_end_matches('Z').replace(['-', ':', 'T'], "_");
    for count in 0..NAMES_MAX {
        let more = if count == 0 { String::new() } else { count.to_string() };
        let name = format!("..{time}.{stamp}{more}");
        let folder = volume.join(&name);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| (name, folder)),
        }
    }
    Err(io::Error::other(format!("{NAMES_MAX} directories of this second are there already")))
}

fn fill(folder: &Path, content: &Content) -> io::Result<()> {
    give(folder, FOLDER_MODE, content.group)?;
    for file in &content.files {
        if let Some((above, _)) = file.path.rsplit_once('/') {
            make_folders(folder, above, content.group)?;
        }
        let path = folder.join(&file.path);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?.write_all(&file.bytes)?;
        if file.user.is_some() || content.group.is_some() {
            chown(&path, file.user, content.group)?;
        }
        fs::set_permissions(&path, Permissions::from_mode(file.mode))?;
    }
    Ok(())
}

/// Makes `path` and its parents below `root`. No foreign link can be on the way: only the agent writes in these
/// volumes.
fn make_folders(root: &Path, path: &str, group: Option<u32>) -> io::Result<()> {
    let mut folder = root.to_owned();
    for part in path.split('/') {
        folder.push(part);
        if !folder.is_dir() {
            fs::create_dir(&folder)?;
            give(&folder, FOLDER_MODE, group)?;
        }
    }
    Ok(())
}

/// Whatever umask this process has.
fn give(folder: &Path, mode: u32, group: Option<u32>) -> io::Result<()> {
    if group.is_some() {
        chown(folder, None, group)?;
    }
    fs::set_permissions(folder, Permissions::from_mode(if group.is_some() { mode | GROUP_FOLDER_MODE } else { mode }))
}

fn exchange(volume: &Path, name: &str) -> io::Result<()> {
    let new = volume.join(NEW_DATA);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink(name, &new)?;
    fs::rename(&new, volume.join(DATA))
}

/// A link for each name at the top of the volume.
fn links(volume: &Path, content: &Content) -> io::Result<()> {
    for file in &content.files {
        let top = file.path.split('/').next().unwrap_or_default();
        let link = volume.join(top);
        if link.symlink_metadata().is_err() {
            symlink(Path::new(DATA).join(top), &link)?;
            if file.user.is_some() || content.group.is_some() {
                lchown(&link, file.user, content.group)?;
            }
        }
    }
    Ok(())
}

/// Takes away what leads nowhere by now, and earlier content.
fn tidy(volume: &Path, current: &str) -> io::Result<()> {
    for entry in fs::read_dir(volume)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or_default();
        if name.starts_with("..") {
            if ![DATA, current].contains(&name) {
                tree::remove(&entry.path())?;
            }
        } else if entry.file_type()?.is_symlink() && !entry.path().exists() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::content::VolumeFile;
    use std::os::unix::fs::MetadataExt;

    fn content(stamp: &str, files: &[(&str, &str, u32)]) -> Content {
        let file = |(path, text, mode): &(&str, &str, u32)| VolumeFile {
            path: (*path).into(),
            bytes: text.as_bytes().into(),
            mode: *mode,
            user: None,
        };
        Content {
            stamp: format!("{stamp:0>16}"),
            files: files.iter().map(file).collect(),
            folders: Vec::new(),
            group: None,
        }
    }

    #[test]
    fn what_is_written_is_exchanged_whole() {
        let volume = std::env::temp_dir().join(format!("coracle-content-{}", std::process::id()));
        let _ = fs::remove_dir_all(&volume);
        let now = UNIX_EPOCH + std::time::Duration::from_secs(1_767_366_245);
        let paths = BTreeSet::from([volume.to_str().unwrap().to_owned()]);
        assert!(stamps(&paths).is_empty());
        let there = || {
            let mut names: Vec<String> =
                fs::read_dir(&volume).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        let mode = |path: &str| fs::metadata(volume.join(path)).unwrap().mode() & 0o7777;
        let mut first = content("a", &[("k", "one", 0o644), ("sub/deep/x", "two", 0o400)]);
        first.folders.push("nested/more".into());
        write(&volume, &first, now).unwrap();
        assert_eq!(there(), ["..2026_01_02_15_04_05.000000000000000a", "..data", "k", "nested", "sub"]);
        assert_eq!(fs::read_link(volume.join("k")).unwrap(), Path::new("..data/k"));
        assert_eq!(fs::read_to_string(volume.join("sub/deep/x")).unwrap(), "two");
        assert_eq!(
            (mode("k"), mode("sub/deep/x"), mode("sub/deep"), mode("nested/more")),
            (0o644, 0o400, 0o755, 0o755)
        );
        assert_eq!(stamps(&paths).into_values().collect::<Vec<_>>(), ["000000000000000a"]);
        // The same once more, within its second.
        write(&volume, &first, now).unwrap();
        assert_eq!(there(), ["..2026_01_02_15_04_05.000000000000000a1", "..data", "k", "nested", "sub"]);
        assert_eq!(stamps(&paths).into_values().collect::<Vec<_>>(), ["000000000000000a"]);
        write(&volume, &content("b", &[("other", "three", 0o644)]), now).unwrap();
        assert_eq!(there(), ["..2026_01_02_15_04_05.000000000000000b", "..data", "nested", "other"]);
        // What cannot be written changes nothing.
        write(&volume, &content("c", &[("x", "", 0o644), ("x/y", "", 0o644)]), now).unwrap_err();
        assert_eq!(there(), ["..2026_01_02_15_04_05.000000000000000b", "..data", "nested", "other"]);
        let mut grouped = content("d", &[("x", "", 0o440)]);
        grouped.group = Some(nix::unistd::getegid().as_raw());
        write(&volume, &grouped, now).unwrap();
        assert_eq!((mode("x"), mode(""), mode("..data")), (0o440, 0o2777, 0o2755));
        fs::remove_dir_all(volume).unwrap();
    }
}
