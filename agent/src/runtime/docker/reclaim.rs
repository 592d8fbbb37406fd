//! Removes the directory of an unused volume with the class `local`.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use bollard::models::MountPoint;
use coracle_api::strategy::claim::LOCAL_VOLUMES;

use super::connection::Docker;
use crate::facts::engine::Failure;

impl Docker {
    /// `name` is one step below the folder of such volumes. A missing directory is fine.
    pub async fn remove_directory(&self, name: &str) -> Result<(), Failure> {
        let path = format!("{LOCAL_VOLUMES}{name}");
        let client = self.client().await?;
        // Foreign containers and ended containers count, too: they may start again.
        for container in self.summaries(&client, None).await? {
            if let Some(why) = holds(container.mounts.as_deref(), &path) {
                let id = container.id.unwrap_or_default();
                let called = container.names.unwrap_or_default().pop().unwrap_or(id);
                return Err(Failure::Conflict(format!("container {} {why}", called.trim_start_matches('/'))));
            }
        }
        no_link(Path::new(LOCAL_VOLUMES))?;
        check(Path::new(&path))?;
        self.remove_trees(vec![path.clone().into()]).await?;
        self.claims().forget(Path::new(&path))
    }
}

/// Why a container keeps a directory: the container mounts the directory or a path inside. A container without a list
/// of mounts may have some.
fn holds(mounts: Option<&[MountPoint]>, path: &str) -> Option<String> {
    let Some(mounts) = mounts else { return Some("has mounts of which the engine does not tell".to_owned()) };
    let mut sources = mounts.iter().filter_map(|mount| mount.source.as_deref());
    sources.any(|source| Path::new(source).starts_with(path)).then(|| format!("has {path}"))
}

/// Refuses a folder that is reached through a link: a container that mounts a volume by the real path would not be
/// recognized.
fn no_link(folder: &Path) -> Result<(), Failure> {
    match fs::canonicalize(folder) {
        Ok(real) if real != folder => {
            let text =
                format!("{} leads over a link to {}: remove the directory yourself", folder.display(), real.display());
            Err(Failure::Refused(text))
        }
        Ok(_) => Ok(()),
        // None has been made yet; but a link that leads nowhere hides a disk that is away.
        Err(error) if error.kind() == ErrorKind::NotFound && !folder.ancestors().any(Path::is_symlink) => Ok(()),
        Err(error) => Err(Failure::Refused(format!("look at {}: {error}", folder.display()))),
    }
}

/// Refuses a directory with a mount on, below or from it, and everything that is no directory: a link may lead
/// anywhere.
fn check(path: &Path) -> Result<(), Failure> {
    let wrong = |what: &str, why: &dyn std::fmt::Display| Failure::Refused(format!("{what} {}: {why}", path.display()));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(wrong("look at", &error)),
        Ok(found) if !found.is_dir() => {
            return Err(wrong("remove", &"it is no directory; see what it is, and remove it yourself"));
        }
        Ok(_) => {}
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|error| wrong("see what is mounted on", &error))?;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match mounted(&mounts, name) {
        Some(place) => Err(wrong("remove", &format!("{place} is a mount of it"))),
        None => Ok(()),
    }
}

/// The first mount point with this name in its path, or in the path of the mounted directory. The name is unique.
fn mounted<'a>(mounts: &'a str, name: &str) -> Option<&'a str> {
    let within = |path: &&str| path.split('/').any(|step| step == name);
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        [root, place].iter().any(within).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_and_a_link_stays() {
        let folder = std::env::temp_dir().join(format!("coracle-reclaim-{}", std::process::id()));
        let (data, kept) = (folder.join("n_c_pvc-1"), folder.join("kept"));
        check(&data).unwrap();
        fs::create_dir_all(&data).unwrap();
        fs::create_dir_all(&kept).unwrap();
        check(&data).unwrap();
        fs::remove_dir(&data).unwrap();
        std::os::unix::fs::symlink(&kept, &data).unwrap();
        assert!(check(&data).unwrap_err().text().contains("it is no directory"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_behind_a_link_is_left_alone() {
        let temporary = fs::canonicalize(std::env::temp_dir()).unwrap();
        let own = |name: &str| temporary.join(format!("coracle-{name}-{}", std::process::id()));
        let (folder, link) = (own("volumes"), own("link"));
        fs::create_dir_all(folder.join("below")).unwrap();
        std::os::unix::fs::symlink(&folder, &link).unwrap();
        no_link(&folder).unwrap();
        no_link(&folder.join("absent")).unwrap();
        for behind in [link.clone(), link.join("below")] {
            assert!(no_link(&behind).unwrap_err().text().contains("leads over a link"), "{}", behind.display());
        }
        fs::remove_dir_all(&folder).unwrap();
        assert!(no_link(&link).is_err(), "it leads nowhere");
        fs::remove_file(&link).unwrap();
    }

    #[test]
    fn a_container_keeps_what_it_has() {
        let path = "/var/lib/coracle/volumes/n_c_pvc-1";
        let has =
            |source: &str| holds(Some(&[MountPoint { source: Some(source.to_owned()), ..Default::default() }]), path);
        assert_eq!(has(path), Some(format!("has {path}")));
        assert_eq!(has("/var/lib/coracle/volumes/n_c_pvc-1/below"), Some(format!("has {path}")));
        assert_eq!(has("/var/lib/coracle/volumes/n_c_pvc-12"), None);
        assert_eq!(holds(Some(&[MountPoint::default()]), path), None, "in memory");
        assert_eq!(holds(Some(&[]), path), None);
        assert!(holds(None, path).is_some(), "unknown");
    }

    #[test]
    fn what_is_mounted_is_found() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(mounted(line, "n_c_pvc-1"), expected, "{line}");
        check("36 35 98:0 / / rw,noatime master:1 - ext4 /dev/root rw", None);
        check(
            "36 35 98:0 /volumes/n_c_pvc-1/sub /run/c/subpaths/u/v/c/0 rw - ext4 /dev/sda rw",
            Some("/run/c/subpaths/u/v/c/0"),
        );
        check(
            "36 35 98:0 / /var/lib/coracle/volumes/n_c_pvc-1/disk rw - ext4 /dev/sdb rw",
            Some("/var/lib/coracle/volumes/n_c_pvc-1/disk"),
        );
        check("36 35 98:0 /volumes/n_c_pvc-12 /mnt rw - ext4 /dev/sda rw", None);
    }
}
