//! The parts of its host that a service of a Compose file uses: memory and processors, devices, rights. PURE.

use super::desk::Desk;
use super::duration;
use super::values::{label, set, text, texts, truth};
use serde_json::{Map, Value, json};

pub(super) fn resources(desk: &mut Desk<'_>, at: &str, of: &Value) -> Value {
    let mut resources = json!({});
    let deploy = &of["deploy"]["resources"];
    let places = [
        ("limits", "memory", text(&deploy["limits"]["memory"]).or_else(|| text(&of["mem_limit"]))),
        ("requests", "memory", text(&deploy["reservations"]["memory"]).or_else(|| text(&of["mem_reservation"]))),
    ];
    for (list, field, size) in places {
        match size.as_deref().map(|size| (size, duration::quantity(size))) {
            Some((_, Some(quantity))) => resources[list][field] = json!(quantity),
            Some((size, None)) => desk.remark(at, format!("{field} {size}: no size")),
            None => {}
        }
    }
    let cpus = [
        ("limits", text(&deploy["limits"]["cpus"]).or_else(|| text(&of["cpus"]))),
        ("requests", text(&deploy["reservations"]["cpus"])),
    ];
    for (list, cpus) in cpus {
        if let Some(cpus) = cpus {
            resources[list]["cpu"] = json!(cpus);
        }
    }
    if !deploy["reservations"]["devices"].is_null() {
        desk.remark(
            at,
            "deploy.resources.reservations.devices: name the devices in agent.conf (devices) and ask in limits",
        );
    }
    resources
}

/// Devices are asked for by a name that agent.conf gives them.
pub(super) fn devices(desk: &mut Desk<'_>, at: &str, of: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for line in texts(&of["devices"]) {
        let parts: Vec<&str> = line.split(':').collect();
        let path = parts[0];
        let inside = parts.get(1).copied().unwrap_or(path);
        let name = format!("compose/{}", label(path.rsplit('/').next().unwrap_or(path)));
        desk.remark(at, format!("devices: add to /etc/coracle/agent.conf: devices = {name}=1:{path}"));
        if inside != path {
            desk.remark(
                at,
                format!("devices: in the container it is {path}, not {inside}: change the program's setting"),
            );
        }
        names.push(name);
    }
    names
}

pub(super) fn security(desk: &mut Desk<'_>, at: &str, of: &Value) -> Value {
    let mut context = Map::new();
    if truth(&of["privileged"]) {
        context.insert("privileged".to_owned(), json!(true));
    }
    if truth(&of["read_only"]) {
        context.insert("readOnlyRootFilesystem".to_owned(), json!(true));
    }
    let bare = |list: &str| -> Vec<String> {
        texts(&of[list]).iter().map(|name| name.trim_start_matches("CAP_").to_owned()).collect()
    };
    let mut capabilities = Map::new();
    set(&mut capabilities, "add", json!(bare("cap_add")));
    set(&mut capabilities, "drop", json!(bare("cap_drop")));
    set(&mut context, "capabilities", Value::Object(capabilities));
    if let Some(user) = text(&of["user"]) {
        let (user, group) = user.split_once(':').map_or((user.as_str(), None), |(user, group)| (user, Some(group)));
        for (field, id) in [("runAsUser", Some(user)), ("runAsGroup", group)] {
            match id.map(|id| (id, id.parse::<u32>())) {
                Some((_, Ok(number))) => drop(context.insert(field.to_owned(), json!(number))),
                Some((name, Err(_))) => {
                    desk.remark(at, format!("user {name}: write its number (id {name} in the image)"))
                }
                None => {}
            }
        }
    }
    for option in texts(&of["security_opt"]) {
        match option.as_str() {
            "no-new-privileges:true" | "no-new-privileges" | "no-new-privileges=true" => {
                context.insert("allowPrivilegeEscalation".to_owned(), json!(false));
            }
            "seccomp:unconfined" | "seccomp=unconfined" => {
                context.insert("seccompProfile".to_owned(), json!({"type": "Unconfined"}));
            }
            "apparmor:unconfined" | "apparmor=unconfined" => {
                context.insert("appArmorProfile".to_owned(), json!({"type": "Unconfined"}));
            }
            other => desk.remark(at, format!("security_opt {other}: it has no counterpart here")),
        }
    }
    Value::Object(context)
}
