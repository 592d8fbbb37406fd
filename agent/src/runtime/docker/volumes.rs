//! The directories of pods on this host's disk, `DATA/pods/UID/...`, and the engine's volumes of exports.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{ListVolumesOptions, RemoveVolumeOptions};

use super::claim_directory::ClaimDirectories;
use super::connection::{Docker, Settings};
use super::{content, memory, owner, subpath};
use crate::facts::engine::{Belongings, ContainerConfig, Failure, HostFile, NamedVolume, Seccomp, Volume};
use crate::facts::naming::{LABEL_KIND, LABEL_POD_UID, VOLUMES, volatile_dir};
use crate::host::{disks, tree};
use crate::spec::hosts;

/// The index of the directory in memory, in `pods_dirs`.
const VOLATILE: usize = 1;
/// A list of all system calls has some ten thousand bytes.
const SECCOMP_BYTES_MAX: u64 = 256 * 1024;
/// Then a removal lets the next one have its turn.
const REMOVAL_TURN: Duration = Duration::from_secs(5);
/// How much of a pod's /etc/hosts is read back: where nothing is left to complete in its head, no more.
const HOSTS_HEAD_BYTES: u64 = 64 * 1024;
/// And where something is: more than all aliases that a pod can have.
const HOSTS_BYTES_MAX: u64 = 4 << 20;

impl Docker {
    pub(super) async fn list_volumes(&self) -> Result<Belongings, Failure> {
        let mut belongings = Belongings::default();
        let mut add = |pods: PathBuf, holds: &dyn Fn(&Path) -> bool| -> Result<(), Failure> {
            match fs::read_dir(&pods) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(disk("read", &pods, &error)),
                Ok(entries) => {
                    for uid in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
                        if holds(&pods.join(&uid)) {
                            belongings.volumes.insert(uid.clone());
                        }
                        belongings.all.insert(uid);
                    }
                }
            }
            Ok(())
        };
        let [on_disk, in_memory] = self.pods_dirs();
        add(on_disk, &|pod| pod.join(VOLUMES).is_dir())?;
        add(in_memory, &|_| true)?;
        add(self.places(), &|_| true)?;
        belongings.all.extend(self.engine_volumes(None).await?.into_iter().map(|(_, uid)| uid));
        Ok(belongings)
    }

    /// Names and pods of the agent's volumes in the engine, or only the volumes of a single pod.
    async fn engine_volumes(&self, uid: Option<&str>) -> Result<Vec<(String, String)>, Failure> {
        let client = self.client().await?;
        let label = uid.map_or_else(|| LABEL_KIND.to_owned(), |uid| format!("{LABEL_POD_UID}={uid}"));
        let filters = HashMap::from([("label".to_owned(), vec![LABEL_KIND.to_owned(), label])]);
        let listed =
            self.ask("list volumes", client.list_volumes(Some(ListVolumesOptions { filters: Some(filters) }))).await?;
        let volumes = listed.volumes.unwrap_or_default();
        Ok(volumes
            .into_iter()
            .filter_map(|volume| Some((volume.name, volume.labels.get(LABEL_POD_UID)?.clone())))
            .collect())
    }

    pub(super) async fn create_volumes(&self, uid: &str, volumes: &[NamedVolume]) -> Result<(), Failure> {
        self.make_volatile();
        for NamedVolume { name, volume } in volumes {
            self.create_volume(uid, volume).await.map_err(|failure| of_volume(name, failure))?;
        }
        Ok(())
    }

    async fn create_volume(&self, uid: &str, volume: &Volume) -> Result<(), Failure> {
        match volume {
            Volume::Directory { path, group } => make_directory(Path::new(path), *group)?,
            Volume::HostPath { path } => on_disk(path, host_path).await?,
            Volume::HostDirectory { path, create } => {
                let create = *create;
                on_disk(path, move |path| host_directory(path, create)).await?;
            }
            Volume::Local { path, create, group, unless_fits } => {
                local(self.claims(), path, *create, *group, *unless_fits).await?
            }
            Volume::Nfs { name, server, path, options } => {
                let options =
                    [("type", "nfs"), ("device", &format!(":{path}")), ("o", &format!("addr={server},{options}"))];
                self.create_engine_volume(uid, name, &options).await?;
            }
            Volume::HostFile { path, kind, create } => {
                let (kind, create) = (*kind, *create);
                on_disk(path, move |path| host_file(path, kind, create)).await?;
            }
            Volume::Content { path, content } => {
                let path = Path::new(path);
                content::write(path, content, SystemTime::now()).map_err(|error| disk("write", path, &error))?;
            }
            Volume::HugePages { path, page_bytes, size_bytes, group } => {
                let options = format!("{},pagesize={page_bytes},size={size_bytes}", open_to(*group));
                memory::make(Path::new(path), "hugetlbfs", &options)?;
            }
            Volume::Memory { path, size_bytes, group } => {
                let mut options = open_to(*group);
                options.extend(size_bytes.map(|size| format!(",size={size}")));
                memory::make(Path::new(path), "tmpfs", &options)?;
            }
        }
        Ok(())
    }

    async fn create_engine_volume(&self, uid: &str, name: &str, options: &[(&str, &str)]) -> Result<(), Failure> {
        let client = self.client().await?;
        let pairs = |list: &[(&str, &str)]| {
            Some(list.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
        };
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            driver: Some("local".to_owned()),
            driver_opts: pairs(options),
            labels: pairs(&[(LABEL_KIND, "volume"), (LABEL_POD_UID, uid)]),
            ..Default::default()
        };
        self.change("create a volume", client.create_volume(request)).await.map(|_| ())
    }

    pub(super) async fn delete_volumes(&self, uid: &str) -> Result<(), Failure> {
        for (name, _) in self.engine_volumes(Some(uid)).await? {
            let client = self.client().await?;
            match self.change("remove a volume", client.remove_volume(&name, None::<RemoveVolumeOptions>)).await {
                Ok(()) | Err(Failure::NotFound(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        let [on_disk, in_memory] = self.pods_dirs();
        self.remove_of(uid, vec![on_disk.join(uid), in_memory.join(uid)]).await?;
        self.remove_of_former_names(uid).await
    }

    /// Removes the volumes of a pod. Termination messages of remaining containers stay. The engine frees its own mounts
    /// when the last container ends.
    pub(super) async fn free_volumes(&self, uid: &str) -> Result<(), Failure> {
        let [on_disk, in_memory] = self.pods_dirs();
        self.remove_of(uid, vec![on_disk.join(uid).join(VOLUMES), in_memory.join(uid)]).await
    }

    async fn remove_of(&self, uid: &str, folders: Vec<PathBuf>) -> Result<(), Failure> {
        // A valid uid is a single path element.
        if uid.is_empty() || uid == "." || uid == ".." || uid.contains('/') {
            return Err(Failure::Refused(format!("{uid:?} is no uid, so there is no directory to remove")));
        }
        let places = self.places().join(uid);
        let in_memory = self.pods_dirs()[VOLATILE].join(uid);
        blocking(move || {
            subpath::release(&places).map_err(|error| disk("release", &places, &error))?;
            memory::release(&in_memory).map_err(|error| disk("release", &in_memory, &error))
        })
        .await?;
        self.remove_trees(folders).await
    }

    /// The removal of large trees takes long, so it does not run on the thread that answers probes, and pods take
    /// turns.
    pub(super) async fn remove_trees(&self, folders: Vec<PathBuf>) -> Result<(), Failure> {
        let mut failed = Ok(());
        for folder in folders {
            loop {
                let _turn = self.removing.lock().await;
                let tree = folder.clone();
                let removed = blocking(move || {
                    tree::remove_for(&tree, REMOVAL_TURN).map_err(|error| disk("remove", &tree, &error))
                });
                match removed.await {
                    Ok(true) => break,
                    Ok(false) => {}
                    // The others go all the same.
                    Err(failure) => {
                        failed = failed.and(Err(failure));
                        break;
                    }
                }
            }
        }
        failed
    }

    pub(super) fn claims(&self) -> ClaimDirectories {
        ClaimDirectories::new(&self.settings.data_dir)
    }

    /// Before a container begins: what its sandbox began with may be away by now.
    pub(super) async fn check_claims(&self, config: &ContainerConfig) -> Result<(), Failure> {
        for path in self.claims().among(config) {
            let claims = self.claims();
            let checked = on_disk(path, move |path| claims.check(path)).await;
            checked.map_err(|failure| Failure::Config(failure.text().to_owned()))?;
        }
        Ok(())
    }

    /// On the disk, and (`VOLATILE`) in memory.
    fn pods_dirs(&self) -> [PathBuf; 2] {
        let Settings { data_dir, run_dir, node_name, .. } = &self.settings;
        [Path::new(data_dir).join("pods"), Path::new(&volatile_dir(run_dir, node_name)).join("pods")]
    }
}

/// Empty and writable for all, whoever the container runs as, and whatever umask this process has. What is there is
/// kept.
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

/// Removes existing files. Missing files are fine.
pub fn remove_files(paths: &[String]) -> Result<(), Failure> {
    paths.iter().map(Path::new).try_for_each(|path| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(disk("remove", path, &error)),
        _ => Ok(()),
    })
}

/// Writes each file anew: no running container has mounted it yet.
pub fn write_texts(texts: &[(String, String)]) -> Result<(), Failure> {
    for (path, text) in texts {
        let path = Path::new(path);
        if let Some(folder) = path.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| disk("make", folder, &error))?;
        }
        fs::write(path, text).map_err(|error| disk("write", path, &error))?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o644))
            .map_err(|error| disk("open to all", path, &error))?;
    }
    Ok(())
}

/// Writes in place, so that containers that mount the file see the change. A missing file is fine. Containers may write
/// to the file: a file larger than any hosts file from the agent stays as it is.
pub fn complete_hosts(path: &str, address: &str) -> Result<(), Failure> {
    let path = Path::new(path);
    let Some(text) = unfinished(path) else { return Ok(()) };
    let Some(text) = hosts::complete(&text, address) else { return Ok(()) };
    fs::write(path, text).map_err(|error| disk("write", path, &error))
}

/// None: nothing is to be completed in it.
fn unfinished(path: &Path) -> Option<String> {
    let file = fs::File::open(path).ok()?;
    let mut text = Vec::new();
    (&file).take(HOSTS_HEAD_BYTES).read_to_end(&mut text).ok()?;
    if !hosts::is_unfinished(&String::from_utf8_lossy(&text)) {
        return None;
    }
    (&file).take(HOSTS_BYTES_MAX).read_to_end(&mut text).ok()?;
    String::from_utf8(text).ok().filter(|text| text.len() as u64 <= HOSTS_BYTES_MAX)
}

/// As the option of a mount.
fn open_to(group: Option<u32>) -> String {
    group.map_or_else(|| "mode=0777".to_owned(), |group| format!("mode=2777,gid={group}"))
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(Failure::Refused(format!("look after a pod's directories: {error}"))))
}

/// As a kubelet says that a volume cannot be mounted.
fn of_volume(name: &str, failure: Failure) -> Failure {
    match failure {
        Failure::Refused(text) => Failure::Refused(format!("MountVolume.SetUp failed for volume \"{name}\" : {text}")),
        other => other,
    }
}

/// What a pod names may be on a share whose server is away, which is to hang nobody else.
async fn on_disk(path: &str, work: impl FnOnce(&Path) -> Result<(), Failure> + Send + 'static) -> Result<(), Failure> {
    let own = PathBuf::from(path);
    disks::work(Path::new(path), move || work(&own)).await.unwrap_or_else(|why| Err(Failure::Refused(why)))
}

/// A dangling link counts as existing: the engine reports the error.
fn host_path(path: &Path) -> Result<(), Failure> {
    if path.symlink_metadata().is_ok() { Ok(()) } else { host_directory(path, true) }
}

fn host_directory(path: &Path, create: bool) -> Result<(), Failure> {
    if !path.exists() && create {
        fs::create_dir_all(path).map_err(|error| disk("make", path, &error))?;
        return fs::set_permissions(path, fs::Permissions::from_mode(0o755))
            .map_err(|error| disk("open to all", path, &error));
    }
    if path.is_dir() {
        Ok(())
    } else {
        Err(Failure::Refused(format!("hostPath type check failed: {} is not a directory", path.display())))
    }
}

/// Large ones take their time: not on the thread that answers probes.
async fn local(
    claims: ClaimDirectories,
    path: &str,
    create: bool,
    group: Option<u32>,
    unless_fits: bool,
) -> Result<(), Failure> {
    on_disk(path, move |path| {
        if create {
            claims.prepare(path)?;
        }
        if !path.is_dir() {
            return Err(Failure::Refused(format!("path \"{}\" does not exist", path.display())));
        }
        group.map_or(Ok(()), |group| {
            owner::give(path, group, unless_fits).map_err(|error| disk("give to its group", path, &error))
        })
    })
    .await
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
    if fits {
        Ok(())
    } else {
        Err(Failure::Refused(format!("hostPath type check failed: {} is not {words}", path.display())))
    }
}

/// Makes the directory under a temporary name and renames it when its owner and mode are set.
pub(super) fn make_directory(path: &Path, group: Option<u32>) -> Result<(), Failure> {
    if path.is_dir() {
        return Ok(());
    }
    let mut making = path.as_os_str().to_owned();
    making.push(".making");
    let making = PathBuf::from(making);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&making).map_err(|error| disk("make", &making, &error))?;
    if group.is_some() {
        chown(&making, None, group).map_err(|error| disk("give to its group", &making, &error))?;
    }
    let mode = if group.is_some() { 0o2777 } else { 0o777 };
    fs::set_permissions(&making, fs::Permissions::from_mode(mode))
        .map_err(|error| disk("open to all", &making, &error))?;
    fs::rename(&making, path).map_err(|error| disk("make", path, &error))
}

/// The content of the profile that a container names.
pub fn seccomp_profile(config: &ContainerConfig) -> Result<Option<String>, Failure> {
    let Some(Seccomp::File(path)) = &config.seccomp else { return Ok(None) };
    let refuse = |why: String| Failure::Refused(format!("cannot load seccomp profile \"{path}\": {why}"));
    let length = fs::metadata(path).map_err(|error| refuse(error.to_string()))?.len();
    if length > SECCOMP_BYTES_MAX {
        return Err(refuse(format!("it has {length} bytes, and at most {SECCOMP_BYTES_MAX} are read")));
    }
    fs::read_to_string(path).map(Some).map_err(|error| refuse(error.to_string()))
}

pub(super) fn disk(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Refused(format!("{what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_file_that_a_container_made_large_is_not_read() {
        let path = std::env::temp_dir().join(format!("coracle-hosts-{}", std::process::id()));
        let name = path.to_str().unwrap();
        fs::write(&path, "#POD-ADDRESS\tweb\n").unwrap();
        // Sparse: gigabytes that take no room on the disk.
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(64 << 30).unwrap();
        complete_hosts(name, "10.0.0.1").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 64 << 30);
        file.set_len(17).unwrap();
        complete_hosts(name, "10.0.0.1").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "10.0.0.1\tweb\n");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_host_path_is_of_its_kind() {
        let folder = std::env::temp_dir().join(format!("coracle-host-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        let check = |path: &Path, kind: HostFile, create: bool, expected: Result<(), &str>| {
            let found = host_file(path, kind, create).map_err(|failure| failure.text().to_owned());
            let wrong =
                expected.map_err(|words| format!("hostPath type check failed: {} is not {words}", path.display()));
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
        // Without a type: an existing path of any kind stays, and a missing path becomes a directory.
        host_path(&folder.join("socket")).unwrap();
        std::os::unix::fs::symlink("nowhere", folder.join("link")).unwrap();
        host_path(&folder.join("link")).unwrap();
        host_path(&folder.join("new/below")).unwrap();
        assert!(folder.join("new/below").is_dir() && !folder.join("nowhere").exists());
        assert!(host_path(&file.join("below")).is_err_and(|failure| failure.text().contains("file/below")));
        drop(socket);
        fs::remove_dir_all(&folder).unwrap();
    }
}
