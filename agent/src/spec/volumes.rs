//! The table of volume sources: what each has to have on the host before the sandbox starts, and what containers mount
//! of it. PURE.
//!
//! A new source is a row here, and where it needs something new of the host, a variant of `runtime::Volume`.

use coracle_api::pod::{NfsVolumeSource, Volume as PodVolume};

use crate::facts::engine::{HostFile, MountSource, NamedVolume, Volume};
use crate::facts::huge_pages;
use crate::facts::naming::{memory_volume_name, volume_dir};
use crate::facts::wanted::Wanted;
use crate::facts::world::Node;
use crate::spec::projection;

/// The location and ownership of a pod's volumes.
#[derive(Clone, Copy, Debug)]
pub struct Home<'a> {
    pub data_dir: &'a str,
    /// On no disk.
    pub volatile_dir: &'a str,
    pub uid: &'a str,
    /// `fsGroup`: whom the pod's own volumes belong to.
    pub group: Option<u32>,
    /// `fsGroupChangePolicy` is OnRootMismatch.
    pub unless_fits: bool,
}

impl<'a> Home<'a> {
    pub fn of(node: &'a Node, wanted: &'a Wanted) -> Home<'a> {
        let group = wanted.pod.spec.security_context.fs_group.and_then(|group| u32::try_from(group).ok());
        let unless_fits = wanted.pod.spec.security_context.fs_group_change_policy == "OnRootMismatch";
        Home { data_dir: &node.data_dir, volatile_dir: &node.volatile_dir, uid: &wanted.name.uid, group, unless_fits }
    }
}

/// One volume on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSource {
    /// None: the agent prepares nothing. The engine reports a missing source.
    pub needs: Option<Volume>,
    pub mount: MountSource,
}

/// None: the volume asks for another source.
type Row = fn(&PodVolume, &Home<'_>) -> Option<VolumeSource>;

const SOURCES: &[Row] = &[host_path, memory, huge_pages, empty_dir, filled, local, nfs];

/// The first row that applies. Claims are already replaced by their bound volumes (`claims`). A volume without a source
/// is an empty directory, as in 2014. A pod with any other volume source was refused before (`api::fields`).
pub fn source(volume: &PodVolume, home: &Home<'_>) -> VolumeSource {
    SOURCES.iter().find_map(|row| row(volume, home)).unwrap_or_else(|| directory(volume, home))
}

/// All that has to be there before the sandbox starts.
pub fn needed(volumes: &[PodVolume], home: &Home<'_>) -> Vec<NamedVolume> {
    let named = |volume: &PodVolume, needs| NamedVolume { name: volume.name.clone(), volume: needs };
    volumes.iter().filter_map(|volume| source(volume, home).needs.map(|needs| named(volume, needs))).collect()
}

fn host_path(volume: &PodVolume, _: &Home<'_>) -> Option<VolumeSource> {
    let host = volume.host_path.as_ref()?;
    let directory = |create| Some(Volume::HostDirectory { path: host.path.clone(), create });
    let file = |kind, create| Some(Volume::HostFile { path: host.path.clone(), kind, create });
    let needs = match host.kind.as_str() {
        "DirectoryOrCreate" => directory(true),
        "Directory" => directory(false),
        "FileOrCreate" => file(HostFile::Regular, true),
        "File" => file(HostFile::Regular, false),
        "Socket" => file(HostFile::Socket, false),
        "CharDevice" => file(HostFile::CharDevice, false),
        "BlockDevice" => file(HostFile::BlockDevice, false),
        // Without a type anything may be there; where nothing is, a kubelet's runtime makes a directory.
        _ => Some(Volume::HostPath { path: host.path.clone() }),
    };
    Some(VolumeSource { needs, mount: MountSource::Path(host.path.clone()) })
}

fn memory(volume: &PodVolume, home: &Home<'_>) -> Option<VolumeSource> {
    let empty = volume.empty_dir.as_ref().filter(|empty| empty.medium == "Memory")?;
    let path = volume_dir(home.volatile_dir, home.uid, &volume.name);
    let size_bytes = empty.size_limit.and_then(|size| u64::try_from(size.value()).ok());
    Some(VolumeSource {
        needs: Some(Volume::Memory { path: path.clone(), size_bytes, group: home.group }),
        mount: MountSource::Path(path),
    })
}

/// `claims::resolve` has said how large pages and directory are.
fn huge_pages(volume: &PodVolume, home: &Home<'_>) -> Option<VolumeSource> {
    let empty = volume.empty_dir.as_ref()?;
    let page_bytes = huge_pages::page_bytes(&empty.medium)?;
    let path = volume_dir(home.volatile_dir, home.uid, &volume.name);
    let size_bytes = empty.size_limit.and_then(|size| u64::try_from(size.value()).ok()).unwrap_or(page_bytes);
    let needs = Volume::HugePages { path: path.clone(), page_bytes, size_bytes, group: home.group };
    Some(VolumeSource { needs: Some(needs), mount: MountSource::Path(path) })
}

fn empty_dir(volume: &PodVolume, home: &Home<'_>) -> Option<VolumeSource> {
    volume.empty_dir.as_ref().map(|_| directory(volume, home))
}

/// A volume that is only read keeps its owner.
fn local(volume: &PodVolume, home: &Home<'_>) -> Option<VolumeSource> {
    let whole = |kept: &String| if kept.starts_with('/') { kept.clone() } else { format!("{}/{kept}", home.data_dir) };
    let kept = volume.kept_directory.as_ref().map(whole);
    let create = kept.is_some();
    let path = kept.or_else(|| Some(volume.local.as_ref()?.path.clone()))?;
    let group = home.group.filter(|_| !volume.read_only);
    let needs = Volume::Local { path: path.clone(), create, group, unless_fits: home.unless_fits };
    Some(VolumeSource { needs: Some(needs), mount: MountSource::Path(path) })
}

/// The kernel mounts the export itself, and no user-space helper negotiates a version: NFSv4, unless the mount options
/// name a version.
fn nfs(volume: &PodVolume, home: &Home<'_>) -> Option<VolumeSource> {
    let NfsVolumeSource { server, path, read_only } = volume.nfs.as_ref()?;
    let name = memory_volume_name(home.uid, &volume.name);
    let mut options = volume.mount_options.clone();
    if !options.iter().any(|option| option.starts_with("vers=") || option.starts_with("nfsvers=")) {
        options.push("nfsvers=4".to_owned());
    }
    if *read_only || volume.read_only {
        options.push("ro".to_owned());
    }
    let needs =
        Volume::Nfs { name: name.clone(), server: server.clone(), path: path.clone(), options: options.join(",") };
    Some(VolumeSource { needs: Some(needs), mount: MountSource::Volume(name) })
}

/// The volumes that the agent fills itself; `plan::contents` makes them.
fn filled(volume: &PodVolume, home: &Home<'_>) -> Option<VolumeSource> {
    projection::is_one(volume)
        .then(|| VolumeSource { needs: None, mount: MountSource::Path(content_dir(volume, home)) })
}

pub fn content_dir(volume: &PodVolume, home: &Home<'_>) -> String {
    volume_dir(if projection::is_volatile(volume) { home.volatile_dir } else { home.data_dir }, home.uid, &volume.name)
}

fn directory(volume: &PodVolume, home: &Home<'_>) -> VolumeSource {
    let path = volume_dir(home.data_dir, home.uid, &volume.name);
    VolumeSource {
        needs: Some(Volume::Directory { path: path.clone(), group: home.group }),
        mount: MountSource::Path(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::pod::LocalVolumeSource;
    use serde_json::{Value, json};

    #[test]
    fn each_source_has_its_row() {
        let check = |asked: Value, needs: Option<Volume>, mount: MountSource| {
            let mut document = asked.clone();
            document["name"] = json!("v");
            let volume: PodVolume = serde_json::from_value(document).unwrap();
            let home = Home { data_dir: "/data", volatile_dir: "/run/v", uid: "u", group: Some(7), unless_fits: false };
            assert_eq!(source(&volume, &home), VolumeSource { needs, mount }, "{asked}");
        };
        let path = |path: &str| MountSource::Path(path.to_owned());
        let host = |kind: &str| json!({"hostPath": {"path": "/srv", "type": kind}});
        let host_directory = |create| Some(Volume::HostDirectory { path: "/srv".to_owned(), create });
        check(host(""), Some(Volume::HostPath { path: "/srv".to_owned() }), path("/srv"));
        check(host("Directory"), host_directory(false), path("/srv"));
        check(host("DirectoryOrCreate"), host_directory(true), path("/srv"));
        let host_file = |kind, create| Some(Volume::HostFile { path: "/srv".to_owned(), kind, create });
        check(host("FileOrCreate"), host_file(HostFile::Regular, true), path("/srv"));
        check(host("File"), host_file(HostFile::Regular, false), path("/srv"));
        check(host("Socket"), host_file(HostFile::Socket, false), path("/srv"));
        check(host("CharDevice"), host_file(HostFile::CharDevice, false), path("/srv"));
        check(host("BlockDevice"), host_file(HostFile::BlockDevice, false), path("/srv"));
        let directory = || Some(Volume::Directory { path: "/data/pods/u/volumes/v".to_owned(), group: Some(7) });
        check(json!({}), directory(), path("/data/pods/u/volumes/v"));
        check(json!({"emptyDir": {}}), directory(), path("/data/pods/u/volumes/v"));
        check(json!({"configMap": {"name": "x"}}), None, path("/data/pods/u/volumes/v"));
        check(json!({"secret": {"secretName": "x"}}), None, path("/run/v/pods/u/volumes/v"));
        let nfs = |options: &str| {
            let (name, server, path) = ("coracle_u_v".to_owned(), "nas".to_owned(), "/x".to_owned());
            Some(Volume::Nfs { name, server, path, options: options.to_owned() })
        };
        let engines = || MountSource::Volume("coracle_u_v".to_owned());
        check(json!({"nfs": {"server": "nas", "path": "/x"}}), nfs("nfsvers=4"), engines());
        check(json!({"nfs": {"server": "nas", "path": "/x", "readOnly": true}}), nfs("nfsvers=4,ro"), engines());
        let place = || "/run/v/pods/u/volumes/v".to_owned();
        let (page_bytes, size_bytes) = (2 << 20, 4 << 20);
        let pages = Volume::HugePages { path: place(), page_bytes, size_bytes, group: Some(7) };
        check(json!({"emptyDir": {"medium": "HugePages-2Mi", "sizeLimit": "4Mi"}}), Some(pages), path(&place()));
        let memory = |size_bytes| Some(Volume::Memory { path: place(), size_bytes, group: Some(7) });
        let mounted = || path(&place());
        check(json!({"emptyDir": {"medium": "Memory"}}), memory(None), mounted());
        check(json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}), memory(Some(1 << 20)), mounted());
    }

    #[test]
    fn what_claims_are_bound_to() {
        let home = Home { data_dir: "/data", volatile_dir: "/run/v", uid: "u", group: Some(7), unless_fits: true };
        let local = |read_only| PodVolume {
            name: "v".into(),
            local: Some(LocalVolumeSource { path: "/mnt".into() }),
            read_only,
            ..PodVolume::default()
        };
        let needs = |group| Some(Volume::Local { path: "/mnt".into(), create: false, group, unless_fits: true });
        assert_eq!(
            source(&local(false), &home),
            VolumeSource { needs: needs(Some(7)), mount: MountSource::Path("/mnt".into()) }
        );
        assert_eq!(source(&local(true), &home).needs, needs(None));
        let kept = PodVolume { name: "v".into(), kept_directory: Some("claims/n/c".into()), ..PodVolume::default() };
        let path = "/data/claims/n/c".to_owned();
        let needs = Some(Volume::Local { path: path.clone(), create: true, group: Some(7), unless_fits: true });
        assert_eq!(source(&kept, &home), VolumeSource { needs, mount: MountSource::Path(path) });
        let export = NfsVolumeSource { server: "nas".into(), path: "/x".into(), read_only: false };
        let mount_options = vec!["hard".into(), "vers=3".into()];
        let found =
            source(&PodVolume { name: "v".into(), nfs: Some(export), mount_options, ..PodVolume::default() }, &home)
                .needs;
        assert!(matches!(&found, Some(Volume::Nfs { options, .. }) if options == "hard,vers=3"), "{found:?}");
    }
}
