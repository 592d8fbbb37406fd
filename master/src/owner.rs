//! The owner of a data directory. A master serves only a directory that its user owns and that other users may not
//! enter; a command that root runs changes to the owner before it touches the directory, so that no file in it is
//! root's.

use nix::unistd::{Gid, Uid, User, getgroups, setegid, seteuid, setgid, setgroups, setuid};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Everybody but the owner.
const OTHERS: u32 = 0o077;

/// Why a directory is not one to serve, and the line that mends it. What is not there yet is made as it should be.
pub fn refuse(dir: &Path) -> Result<(), String> {
    let shown = dir.display();
    let found = match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| format!("{shown}: {error}"))?,
    };
    let us = Uid::effective();
    if found.uid() != us.as_raw() {
        let (owner, name) = (name(Uid::from_raw(found.uid())), name(us));
        return Err(format!(
            "{shown} belongs to {owner}, and this is {name}: start the master as {owner}, or run `chown -R {name}: \
             {shown}`"
        ));
    }
    let mode = found.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(format!(
            "{shown} is open to others (mode {mode:04o}), and every secret lies in it: run `chmod 0700 {shown}`"
        ));
    }
    Ok(())
}

/// If this process is root, becomes the owner of a directory for good. A missing directory counts as owned by the owner
/// of the nearest existing parent.
pub fn become_owner(dir: &Path) -> Result<(), String> {
    let Some((uid, gid)) = other_owner(dir) else { return Ok(()) };
    all_readable(dir, uid)?;
    let done = setgroups(&[]).and_then(|()| setgid(gid)).and_then(|()| setuid(uid));
    done.map_err(|error| format!("{}: cannot become {}, whose it is: {error}", dir.display(), name(uid)))?;
    match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let (shown, owner) = (dir.display(), name(uid));
            Err(format!(
                "{shown} is {owner}'s, who may not enter a directory above it: run `chown -R root: {shown}` to look at \
                 it as root"
            ))
        }
        _ => Ok(()),
    }
}

/// What its owner cannot read must not be taken for damaged.
fn all_readable(dir: &Path, owner: Uid) -> Result<(), String> {
    let Some(closed) = closed_to(dir, owner) else { return Ok(()) };
    let (shown, owner) = (dir.display(), name(owner));
    Err(format!(
        "{} is not {owner}'s, who could not read it and whose {shown} is: run `chown -R {owner}: {shown}` first",
        closed.display()
    ))
}

/// A file or folder below `dir` that belongs to a different user and that the owner may not read. Folders that cannot
/// be listed are left to a later reader.
fn closed_to(dir: &Path, owner: Uid) -> Option<PathBuf> {
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            let needed = if found.is_dir() { 0o005 } else { 0o004 };
            let counts = found.is_dir() || found.is_file();
            if counts && found.uid() != owner.as_raw() && found.mode() & needed != needed {
                return Some(path);
            }
            if found.is_dir() {
                folders.push(path);
            }
        }
    }
    None
}

/// The same for as long as something is done: what was opened before stays open, and root goes on with that afterwards.
pub fn as_owner<T>(dir: &Path, done: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let Some((uid, gid)) = other_owner(dir) else { return done() };
    all_readable(dir, uid)?;
    let failed =
        |error| format!("{}: cannot become {}, whose it is, and root again: {error}", dir.display(), name(uid));
    let (groups, group) = (getgroups().map_err(failed)?, Gid::effective());
    setgroups(&[]).and_then(|()| setegid(gid)).and_then(|()| seteuid(uid)).map_err(failed)?;
    let outcome = done();
    seteuid(Uid::from_raw(0)).and_then(|()| setegid(group)).and_then(|()| setgroups(&groups)).map_err(failed)?;
    outcome
}

/// The owner and group of a directory. A directory that is missing would have the owner of its nearest parent. `None`:
/// this process cannot give files away.
pub fn of(dir: &Path) -> Option<(u32, u32)> {
    other_owner(dir).map(|(uid, gid)| (uid.as_raw(), gid.as_raw()))
}

/// None: the directory belongs to root, or this process is not root and cannot change users.
fn other_owner(dir: &Path) -> Option<(Uid, Gid)> {
    let nearest = dir.ancestors().find_map(|folder| fs::metadata(folder).ok())?;
    (Uid::effective().is_root() && nearest.uid() != 0)
        .then(|| (Uid::from_raw(nearest.uid()), Gid::from_raw(nearest.gid())))
}

fn name(uid: Uid) -> String {
    User::from_uid(uid).ok().flatten().map_or_else(|| uid.to_string(), |user| user.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn what_others_may_enter_or_somebody_else_owns_is_refused_with_the_line_that_mends_it() {
        let dir = std::env::temp_dir().join(format!("coracle-owner-{}", std::process::id()));
        let shown = dir.display().to_string();
        refuse(&dir).expect("it is made as it should be");
        fs::create_dir(&dir).expect("ours");
        for mode in [0o755, 0o777, 0o750, 0o701] {
            fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).expect("ours");
            let why = refuse(&dir).expect_err("it is open");
            assert!(
                why.contains(&format!("(mode {mode:04o})")) && why.ends_with(&format!("run `chmod 0700 {shown}`")),
                "{why}"
            );
        }
        fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).expect("ours");
        refuse(&dir).expect("it is as it should be");
        if Uid::effective().is_root() {
            chown(&dir, Some(65_534), None).expect("root may");
            let why = refuse(&dir).expect_err("it is not ours");
            assert!(
                why.starts_with(&format!("{shown} belongs to ")) && why.ends_with(&format!("`chown -R root: {shown}`")),
                "{why}"
            );
            let file = dir.join("edited");
            fs::write(&file, "{}").expect("root may");
            fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("ours");
            assert_eq!(closed_to(&dir, Uid::from_raw(65_534)), None);
            fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("ours");
            assert_eq!(closed_to(&dir, Uid::from_raw(65_534)), Some(file.clone()));
            assert_eq!(closed_to(&dir, Uid::from_raw(0)), None);
            fs::remove_file(&file).expect("ours");
            assert_eq!(other_owner(&dir.join("new/one")).map(|(uid, _)| uid.as_raw()), Some(65_534));
        }
        fs::remove_dir(&dir).expect("ours");
    }
}
