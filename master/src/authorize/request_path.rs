//! The attributes of a request whose path leads nowhere. The path alone names the resource, as in Kubernetes: a refusal
//! then does not tell which resources exist. PURE.

use super::Attributes;
use crate::query::decode;
use coracle_api::meta::Resource;

/// Path segments that belong to the namespace itself.
const OF_NAMESPACE: [&str; 2] = ["status", "finalize"];

pub fn read(method: &str, path: &str) -> Attributes {
    let other = || Attributes::Path { verb: method.to_ascii_lowercase(), path: path.to_owned() };
    let Ok(decoded) = decode(path.trim_matches('/'), false) else { return other() };
    let segments: Vec<&str> = decoded.split('/').collect();
    let (group, parts) = match &*segments {
        ["api", _, parts @ ..] => ("", parts),
        ["apis", group, _, parts @ ..] => (*group, parts),
        _ => return other(),
    };
    let (verb, parts) = match parts {
        ["watch", parts @ ..] => ("watch", parts),
        // A verb of old.
        ["proxy", parts @ ..] => ("proxy", parts),
        parts => (verb(method), parts),
    };
    let (namespace, parts) = match parts {
        ["namespaces", namespace, next, ..] if !OF_NAMESPACE.contains(next) => (*namespace, &parts[2..]),
        ["namespaces", namespace, ..] => (*namespace, parts),
        parts => ("", parts),
    };
    let at = |n: usize| parts.get(n).copied().unwrap_or_default();
    let verb = match (verb, at(1)) {
        ("get", "") => "list",
        ("delete", "") => "deletecollection",
        (verb, _) => verb,
    };
    if at(0).is_empty() {
        return other();
    }
    let subresource = if verb == "proxy" { "" } else { at(2) };
    let resource = Resource { group: group.to_owned().into(), plural: at(0).to_owned().into() };
    Attributes::resource(verb, &resource, subresource, (namespace, at(1)))
}

fn verb(method: &str) -> &'static str {
    match method {
        "GET" | "HEAD" => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}
