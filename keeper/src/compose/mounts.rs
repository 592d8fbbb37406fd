//! `volumes`, `tmpfs`, `secrets`, `configs` and `shm_size` of a service -> volumes and mounts of a pod. PURE.

use super::desk::Desk;
use super::duration::quantity;
use super::values::{file_key, label, text, truth};
use serde_json::{Value, json};

/// The volumes of a pod and the mounts of its container, at the same places of their lists unless a volume is shared.
#[derive(Default)]
pub struct Mounts {
    pub volumes: Vec<Value>,
    pub mounts: Vec<Value>,
}

impl Mounts {
    fn add(&mut self, source: Value, path: &str, read_only: bool) -> &mut Value {
        let mut volume = source;
        let same = self.volumes.iter().find(|known| {
            let mut known = (*known).clone();
            known.as_object_mut().map(|known| known.remove("name"));
            known == volume && volume.get("emptyDir").is_none()
        });
        let name = match same {
            Some(known) => known["name"].clone(),
            None => {
                let name = json!(format!("volume-{}", self.volumes.len()));
                volume["name"] = name.clone();
                self.volumes.push(volume);
                name
            }
        };
        let mut mount = json!({"name": name, "mountPath": path});
        if read_only {
            mount["readOnly"] = json!(true);
        }
        self.mounts.push(mount);
        let last = self.mounts.len() - 1;
        &mut self.mounts[last]
    }
}

/// Everything that a service mounts.
pub fn convert(desk: &mut Desk<'_>, name: &str, of: &Value) -> Mounts {
    let mut mounts = Mounts::default();
    for volume in of["volumes"].as_array().into_iter().flatten() {
        let done = match volume {
            Value::Object(_) => long(desk, &mut mounts, volume),
            short => short_form(desk, &mut mounts, &text(short).unwrap_or_default()),
        };
        if let Err(why) = done {
            desk.remark(name, format!("volumes: {why}"));
        }
    }
    for path in super::values::texts(&of["tmpfs"]) {
        let (path, options) = path.split_once(':').unwrap_or((&path, ""));
        let size = options.split(',').find_map(|option| option.strip_prefix("size=")).and_then(quantity);
        memory(&mut mounts, path, size);
    }
    if let Some(size) = text(&of["shm_size"]) {
        match quantity(&size) {
            Some(size) => memory(&mut mounts, "/dev/shm", Some(size)),
            None => desk.remark(name, format!("shm_size {size}: no size")),
        }
    }
    for (list, kind) in [("secrets", "secret"), ("configs", "configMap")] {
        for one in of[list].as_array().into_iter().flatten() {
            if let Err(why) = given(desk, &mut mounts, (list, kind), one) {
                desk.remark(name, format!("{list}: {why}"));
            }
        }
    }
    mounts
}

fn memory(mounts: &mut Mounts, path: &str, size: Option<String>) {
    let mut source = json!({"emptyDir": {"medium": "Memory"}});
    if let Some(size) = size {
        source["emptyDir"]["sizeLimit"] = json!(size);
    }
    mounts.add(source, path, false);
}

fn short_form(desk: &mut Desk<'_>, mounts: &mut Mounts, line: &str) -> Result<(), String> {
    let parts: Vec<&str> = line.split(':').collect();
    let (source, path, options) = match parts[..] {
        [path] => ("", path, ""),
        [source, path] => (source, path, ""),
        [source, path, options] => (source, path, options),
        _ => return Err(format!("{line}: this form is not known")),
    };
    let read_only = options.split(',').any(|option| option == "ro");
    if options.split(',').any(|option| ["shared", "rshared", "slave", "rslave"].contains(&option)) {
        return Err(format!("{line}: propagation has to be written by hand (mountPropagation)"));
    }
    if source.is_empty() {
        mounts.add(json!({"emptyDir": {}}), path, read_only);
        return Err(format!("{line}: an anonymous volume is an emptyDir here, which ends with its pod"));
    }
    bind_or_volume(desk, mounts, (source, path), read_only);
    Ok(())
}

fn bind_or_volume(desk: &mut Desk<'_>, mounts: &mut Mounts, (source, path): (&str, &str), read_only: bool) {
    if source.starts_with(['/', '.', '~']) {
        let at = from_folder(desk, source);
        mounts.add(json!({"hostPath": {"path": at}}), path, read_only);
    } else {
        desk.used.insert(source.to_owned());
        mounts.add(json!({"persistentVolumeClaim": {"claimName": label(source)}}), path, read_only);
    }
}

/// A path of the host, absolute and without its dots.
pub fn from_folder(desk: &Desk<'_>, path: &str) -> String {
    let whole = match path.strip_prefix('~') {
        Some(rest) => format!("{}{rest}", desk.around.home),
        None if path.starts_with('/') => path.to_owned(),
        None => format!("{}/{path}", desk.around.folder),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

fn long(desk: &mut Desk<'_>, mounts: &mut Mounts, volume: &Value) -> Result<(), String> {
    let path = volume["target"].as_str().ok_or("a mount without target")?.to_owned();
    let source = text(&volume["source"]).unwrap_or_default();
    let read_only = truth(&volume["read_only"]);
    match volume["type"].as_str().unwrap_or("volume") {
        "bind" => {
            let at = from_folder(desk, &source);
            let mut bind = json!({"hostPath": {"path": at}});
            if truth(&volume["bind"]["create_host_path"]) {
                bind["hostPath"]["type"] = json!("DirectoryOrCreate");
            }
            mounts.add(bind, &path, read_only);
        }
        "volume" if source.is_empty() => {
            mounts.add(json!({"emptyDir": {}}), &path, read_only);
            return Err(format!("{path}: an anonymous volume is an emptyDir here, which ends with its pod"));
        }
        "volume" => {
            desk.used.insert(source.clone());
            let claim = json!({"persistentVolumeClaim": {"claimName": label(&source)}});
            let mount = mounts.add(claim, &path, read_only);
            if let Some(part) = volume["volume"]["subpath"].as_str() {
                mount["subPath"] = json!(part);
            }
        }
        "tmpfs" => memory(mounts, &path, text(&volume["tmpfs"]["size"]).as_deref().and_then(quantity)),
        other => return Err(format!("{path}: type {other} has no counterpart")),
    }
    Ok(())
}

/// A secret or a config: one file.
fn given(
    desk: &mut Desk<'_>,
    mounts: &mut Mounts,
    (list, kind): (&'static str, &str),
    one: &Value,
) -> Result<(), String> {
    let name = text(one).or_else(|| text(&one["source"])).ok_or("an entry without source")?;
    let default = if list == "secrets" { format!("/run/secrets/{name}") } else { format!("/{name}") };
    let target = match text(&one["target"]) {
        Some(target) if target.starts_with('/') => target,
        Some(target) if list == "secrets" => format!("/run/secrets/{target}"),
        Some(target) => format!("/{target}"),
        None => default,
    };
    let naming = if list == "secrets" { "secretName" } else { "name" };
    let mut source = json!({kind: {naming: label(&name)}});
    if let Some(mode) = one["mode"].as_u64() {
        source[kind]["defaultMode"] = json!(mode);
    }
    mounts.add(source, &target, true)["subPath"] = json!(file_key(&name));
    if desk.given.contains_key(&(list, name.clone())) {
        Ok(())
    } else {
        Err(format!("{name}: it is not made here, and the pod waits for it"))
    }
}
