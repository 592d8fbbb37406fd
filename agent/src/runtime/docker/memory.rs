//! Volumes in memory: file systems that the agent mounts itself, where Secrets are, too. With volumes from the engine,
//! an engine restarted under running containers forgets its mounts, and mounts an empty file system over each.
//!
//!     VOLATILE_DIR/pods/UID/volumes/NAME: in /run, where neither a mount nor its place outlives the other
//!
//! Earlier releases used volumes of the engine. A running pod with such a volume keeps the volume until it gets a new
//! sandbox.

use std::borrow::Cow;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::mount::{MsFlags, mount};

use super::connection::Docker;
use super::subpath;
use crate::facts::engine::{ContainerConfig, Failure, MountSource};
use crate::facts::naming::{memory_volume_name, volatile_dir};

/// Mounts a file system at `path`. An existing mount stays as it is, with its content.
pub(super) fn make(path: &Path, kind: &str, options: &str) -> Result<(), Failure> {
    let made = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let place = path.canonicalize()?;
        if subpath::mounts_below(&place)?.contains(&place) {
            return Ok(());
        }
        subpath::check_propagation(&place)?;
        Ok(mount(Some(kind), &place, Some(kind), MsFlags::empty(), Some(options))?)
    };
    made().map_err(|error: io::Error| Failure::Refused(format!("mount a {kind} at {}: {error}", path.display())))
}

/// Unmounts a pod's volumes. Running containers keep their mounts until they end.
pub(super) fn release(folder: &Path) -> io::Result<()> {
    subpath::unmount_below(folder).map(drop)
}

impl Docker {
    /// With the engine's volume for each that a pod of a release before has in its place.
    pub(super) async fn with_volumes_of_before<'a>(
        &self,
        config: &'a ContainerConfig,
    ) -> Result<Cow<'a, ContainerConfig>, Failure> {
        let pods = Path::new(&volatile_dir(&self.settings.run_dir, &self.settings.node_name)).join("pods");
        let mut found = Cow::Borrowed(config);
        for at in 0..config.mounts.len() {
            if let Some(name) = self.volume_of_before(&pods, &config.mounts[at].source).await? {
                found.to_mut().mounts[at].source = MountSource::Volume(name);
            }
        }
        for at in 0..config.file_variables.len() {
            if let Some(name) = self.volume_of_before(&pods, &config.file_variables[at].volume).await? {
                found.to_mut().file_variables[at].volume = MountSource::Volume(name);
            }
        }
        Ok(found)
    }

    async fn volume_of_before(&self, pods: &Path, source: &MountSource) -> Result<Option<String>, Failure> {
        let MountSource::Path(path) = source else { return Ok(None) };
        let Some(name) = volume_name(pods, path).filter(|_| !Path::new(path).exists()) else { return Ok(None) };
        let client = self.client().await?;
        match self.ask("inspect a volume", client.inspect_volume(&name)).await {
            Ok(_) => Ok(Some(name)),
            Err(Failure::NotFound(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }
}

/// The name that the engine's volume had in the place of that directory.
fn volume_name(pods: &Path, path: &str) -> Option<String> {
    let below: PathBuf = Path::new(path).strip_prefix(pods).ok()?.to_owned();
    let parts: Vec<&str> = below.to_str()?.split('/').collect();
    match parts.as_slice() {
        [uid, "volumes", volume] => Some(memory_volume_name(uid, volume)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_of_the_release_before_are_found_by_their_place() {
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(volume_name(Path::new("/run/c/volumes/n/pods"), path).as_deref(), expected, "{path}");
        };
        check("/run/c/volumes/n/pods/u-1/volumes/cache", Some("coracle_u-1_cache"));
        check("/run/c/volumes/n/pods/u-1/volumes/cache/below", None);
        check("/run/c/volumes/other/pods/u-1/volumes/cache", None);
        check("/var/lib/c/pods/u-1/volumes/cache", None);
    }

    /// Needs the right to mount; where this process has it not, there is nothing to see.
    #[test]
    fn what_is_mounted_keeps_its_content_until_it_is_released() {
        let folder = std::env::temp_dir().join(format!("coracle-memory-{}", std::process::id()));
        let place = folder.join("volumes/v");
        if make(&place, "tmpfs", "mode=0777,size=65536").is_err() {
            return;
        }
        let too_big = fs::write(place.join("big"), vec![0; 128 * 1024]).is_err();
        fs::remove_file(place.join("big")).unwrap();
        let kept = fs::write(place.join("kept"), "x").is_err() || make(&place, "tmpfs", "mode=0777").is_err();
        let there = place.join("kept").exists();
        release(&folder).unwrap();
        assert_eq!((too_big, kept, there, place.join("kept").exists()), (true, false, true, false));
        release(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        release(&folder).unwrap();
    }
}
