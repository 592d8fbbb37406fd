//! The table of volume sources: what each has to have on the host before the sandbox starts, and what containers mount
//! of it. PURE.
//!
//! A new source is a row here, and where it needs something new of the host, a variant of `runtime::Volume`.

use coracle_api::pod::{PodSpec, Volume as Asked};

use crate::naming::{memory_volume_name, volume_dir};
use crate::runtime::{HostFile, MountSource, Volume};

/// Where the volumes of one pod are.
#[derive(Clone, Copy, Debug)]
pub struct Home<'a> {
    pub data_dir: &'a str,
    pub uid: &'a str,
}

/// One volume on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// None: it is there or it is not, and the engine says so.
    pub needs: Option<Volume>,
    pub mount: MountSource,
}

/// None: the volume asks for another source.
type Row = fn(&Asked, &Home<'_>) -> Option<Source>;

const SOURCES: &[Row] = &[host_path, memory, empty_dir];

/// The first row that applies. A volume that names no source is an empty directory, as in 2014; one that names another
/// source is refused before it comes here (`api::fields`).
pub fn source(volume: &Asked, home: &Home<'_>) -> Source {
    SOURCES.iter().find_map(|row| row(volume, home)).unwrap_or_else(|| directory(volume, home))
}

/// All that has to be there before the sandbox starts.
pub fn needed(spec: &PodSpec, home: &Home<'_>) -> Vec<Volume> {
    spec.volumes.iter().filter_map(|volume| source(volume, home).needs).collect()
}

fn host_path(volume: &Asked, _: &Home<'_>) -> Option<Source> {
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
        _ => None,
    };
    Some(Source { needs, mount: MountSource::Path(host.path.clone()) })
}

fn memory(volume: &Asked, home: &Home<'_>) -> Option<Source> {
    let empty = volume.empty_dir.as_ref().filter(|empty| empty.medium == "Memory")?;
    let name = memory_volume_name(home.uid, &volume.name);
    let size_bytes = empty.size_limit.and_then(|size| u64::try_from(size.value()).ok());
    Some(Source { needs: Some(Volume::Memory { name: name.clone(), size_bytes }), mount: MountSource::Volume(name) })
}

fn empty_dir(volume: &Asked, home: &Home<'_>) -> Option<Source> {
    volume.empty_dir.as_ref().map(|_| directory(volume, home))
}

fn directory(volume: &Asked, home: &Home<'_>) -> Source {
    let path = volume_dir(home.data_dir, home.uid, &volume.name);
    Source { needs: Some(Volume::Directory { path: path.clone() }), mount: MountSource::Path(path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn each_source_has_its_row() {
        let check = |asked: Value, needs: Option<Volume>, mount: MountSource| {
            let mut document = asked.clone();
            document["name"] = json!("v");
            let volume: Asked = serde_json::from_value(document).unwrap();
            assert_eq!(source(&volume, &Home { data_dir: "/data", uid: "u" }), Source { needs, mount }, "{asked}");
        };
        let path = |path: &str| MountSource::Path(path.to_owned());
        let host = |kind: &str| json!({"hostPath": {"path": "/srv", "type": kind}});
        let host_directory = |create| Some(Volume::HostDirectory { path: "/srv".to_owned(), create });
        check(host(""), None, path("/srv"));
        check(host("Directory"), host_directory(false), path("/srv"));
        check(host("DirectoryOrCreate"), host_directory(true), path("/srv"));
        let host_file = |kind, create| Some(Volume::HostFile { path: "/srv".to_owned(), kind, create });
        check(host("FileOrCreate"), host_file(HostFile::Regular, true), path("/srv"));
        check(host("File"), host_file(HostFile::Regular, false), path("/srv"));
        check(host("Socket"), host_file(HostFile::Socket, false), path("/srv"));
        check(host("CharDevice"), host_file(HostFile::CharDevice, false), path("/srv"));
        check(host("BlockDevice"), host_file(HostFile::BlockDevice, false), path("/srv"));
        let directory = || Some(Volume::Directory { path: "/data/pods/u/volumes/v".to_owned() });
        check(json!({}), directory(), path("/data/pods/u/volumes/v"));
        check(json!({"emptyDir": {}}), directory(), path("/data/pods/u/volumes/v"));
        let memory = |size_bytes| Some(Volume::Memory { name: "coracle_u_v".to_owned(), size_bytes });
        let mounted = || MountSource::Volume("coracle_u_v".to_owned());
        check(json!({"emptyDir": {"medium": "Memory"}}), memory(None), mounted());
        check(json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}), memory(Some(1 << 20)), mounted());
    }
}
