//! What pods have on this host's disk: `DATA/pods/UID/...`, and the engine's volumes in memory.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{ListVolumesOptions, RemoveVolumeOptions};

use super::super::{Failure, HostFile, Volume};
use super::connection::Docker;
use crate::naming::{LABEL_KIND, LABEL_POD_UID};

impl Docker {
    pub(super) async fn list_volumes(&self) -> Result<BTreeSet<String>, Failure> {
        let pods = self.pods_dir();
        let mut uids = match fs::read_dir(&pods) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
            Err(error) => return Err(disk("read", &pods, &error)),
            Ok(entries) => entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect(),
        };
        uids.extend(self.memory_volumes(None).await?.into_iter().map(|(_, uid)| uid));
        Ok(uids)
    }

    /// Names and pods of the engine's volumes of ours, or of those of one pod.
    async fn memory_volumes(&self, uid: Option<&str>) -> Result<Vec<(String, String)>, Failure> {
        let client = self.client().await?;
        let label = uid.map_or_else(|| LABEL_KIND.to_owned(), |uid| format!("{LABEL_POD_UID}={uid}"));
        let filters = HashMap::from([("label".to_owned(), vec![LABEL_KIND.to_owned(), label])]);
        let listed = self.ask("list volumes", client.list_volumes(Some(ListVolumesOptions { filters: Some(filters) }))).await?;
        let volumes = listed.volumes.unwrap_or_default();
        Ok(volumes.into_iter().filter_map(|volume| Some((volume.name, volume.labels.get(LABEL_POD_UID)?.clone()))).collect())
    }

    pub(super) async fn create_volumes(&self, uid: &str, volumes: &[Volume]) -> Result<(), Failure> {
        for volume in volumes {
            match volume {
                Volume::Directory { path } => make_directory(Path::new(path))?,
                Volume::HostDirectory { path, create } => host_directory(Path::new(path), *create)?,
                Volume::HostFile { path, kind, create } => host_file(Path::new(path), *kind, *create)?,
                Volume::Memory { name, size_bytes } => self.create_memory(uid, name, *size_bytes).await?,
            }
        }
        Ok(())
    }

    async fn create_memory(&self, uid: &str, name: &str, size_bytes: Option<u64>) -> Result<(), Failure> {
        let client = self.client().await?;
        let options = size_bytes.map_or_else(|| "mode=1777".to_owned(), |size| format!("mode=1777,size={size}"));
        let pairs = |list: &[(&str, &str)]| Some(list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect());
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            driver: Some("local".to_owned()),
            driver_opts: pairs(&[("type", "tmpfs"), ("device", "tmpfs"), ("o", &options)]),
            labels: pairs(&[(LABEL_KIND, "volume"), (LABEL_POD_UID, uid)]),
            ..Default::default()
        };
        self.change("create a volume", client.create_volume(request)).await.map(|_| ())
    }

    pub(super) async fn delete_volumes(&self, uid: &str) -> Result<(), Failure> {
        for (name, _) in self.memory_volumes(Some(uid)).await? {
            let client = self.client().await?;
            match self.change("remove a volume", client.remove_volume(&name, None::<RemoveVolumeOptions>)).await {
                Ok(()) | Err(Failure::NotFound(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        // A uid is one path element, or it is not one of ours.
        if uid.is_empty() || uid == "." || uid == ".." || uid.contains('/') {
            return Err(Failure::Refused(format!("{uid:?} is no uid, so there is no directory to remove")));
        }
        let folder = self.pods_dir().join(uid);
        // Large trees take their time: not on the thread that answers probes.
        let removed = tokio::task::spawn_blocking(move || match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk("remove", &folder, &error)),
            _ => Ok(()),
        });
        removed.await.unwrap_or_else(|error| Err(Failure::Refused(format!("remove the volumes of {uid}: {error}"))))
    }

    fn pods_dir(&self) -> PathBuf {
        Path::new(&self.settings.data_dir).join("pods")
    }
}

/// Empty and writable for all, whoever the container runs as, and whatever umask this process has. What is there is kept.
pub fn make_files(paths: &[String]) -> Result<(), Failure> {
    for path in paths.iter().map(Path::new) {
        if let Some(folder) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| disk("make", folder, &error))?;
        }
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o666).open(path);
        let file = file.map_err(|error| disk("make", path, &error))?;
        file.set_permissions(fs::Permissions::from_mode(0o666)).map_err(|error| disk("open to all", path, &error))?;
    }
    Ok(())
}

fn host_directory(path: &Path, create: bool) -> Result<(), Failure> {
    if !path.exists() && create {
        fs::create_dir_all(path).map_err(|error| disk("make", path, &error))?;
        return fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(|error| disk("open to all", path, &error));
    }
    if path.is_dir() { Ok(()) } else { Err(Failure::Refused(format!("hostPath type check failed: {} is not a directory", path.display()))) }
}

/// Links are followed, as the engine does when it mounts.
fn host_file(path: &Path, kind: HostFile, create: bool) -> Result<(), Failure> {
    if !path.exists() && create {
        let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
        return made.map(|_| ()).map_err(|error| disk("make", path, &error));
    }
    let found = fs::metadata(path).ok().map(|found| found.file_type());
    let (fits, words) = match kind {
        HostFile::Regular => (found.is_some_and(|found| found.is_file()), "a file"),
        HostFile::Socket => (found.is_some_and(|found| found.is_socket()), "a socket file"),
        HostFile::CharDevice => (found.is_some_and(|found| found.is_char_device()), "a character device"),
        HostFile::BlockDevice => (found.is_some_and(|found| found.is_block_device()), "a block device"),
    };
    if fits { Ok(()) } else { Err(Failure::Refused(format!("hostPath type check failed: {} is not {words}", path.display()))) }
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| disk("make", path, &error))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).map_err(|error| disk("open to all", path, &error))
}

fn disk(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("{what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_path_is_of_its_kind() {
        let folder = std::env::temp_dir().join(format!("coracle-host-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        let check = |path: &Path, kind: HostFile, create: bool, expected: Result<(), &str>| {
            let found = host_file(path, kind, create).map_err(|failure| failure.text().to_owned());
            let wrong = expected.map_err(|words| format!("hostPath type check failed: {} is not {words}", path.display()));
            assert_eq!(found, wrong, "{} {kind:?}", path.display());
        };
        let file = folder.join("file");
        check(&file, HostFile::Regular, false, Err("a file"));
        check(&file, HostFile::Regular, true, Ok(()));
        check(&file, HostFile::Regular, false, Ok(()));
        check(&file, HostFile::Socket, false, Err("a socket file"));
        check(&folder.join("socket"), HostFile::Socket, false, Ok(()));
        check(&folder, HostFile::Regular, true, Err("a file"));
        check(Path::new("/dev/null"), HostFile::CharDevice, false, Ok(()));
        check(Path::new("/dev/null"), HostFile::BlockDevice, false, Err("a block device"));
        drop(socket);
        fs::remove_dir_all(&folder).unwrap();
    }
}
