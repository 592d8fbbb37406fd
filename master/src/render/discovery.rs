//! Documents about the server: what is served, and by what version. PURE.

use coracle_api::kinds::{Kind, Kinds, Subresource, Verb};
use serde_json::{Value, json};

/// The version of Kubernetes whose API this is; clients warn when theirs is far away.
const KUBERNETES_MINOR: &str = "33";

pub fn root() -> Value {
    json!({"paths": ["/api", "/api/v1", "/api/v1beta1", "/apis", "/healthz", "/livez", "/readyz", "/version"]})
}

pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": KUBERNETES_MINOR,
        "gitVersion": format!("v1.{KUBERNETES_MINOR}.0+coracle.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform(),
    })
}

/// As Go names it, which is what clients know.
fn platform() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "linux/amd64"
    } else if cfg!(target_arch = "aarch64") {
        "linux/arm64"
    } else if cfg!(target_arch = "arm") {
        "linux/arm"
    } else {
        "linux/unknown"
    }
}

/// `/api`. kubectl of 2015 looks for its v1beta1 here. Those who know aggregated discovery would look for every version
/// but v1 under /apis and complain: they are told of v1.
pub fn versions(aggregated: bool) -> Value {
    let versions: &[&str] = if aggregated { &["v1"] } else { &["v1", "v1beta1"] };
    json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": []})
}

/// `/api/v1beta1`. Its clients knew the resources and never asked; a resource of two versions would look like two.
pub fn old_resources() -> Value {
    json!({"kind": "APIResourceList", "groupVersion": "v1beta1", "resources": []})
}

/// `/apis`: there are no other groups.
pub fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
}

/// `/api/v1`.
pub fn resources(kinds: &Kinds) -> Value {
    let resources: Vec<Value> = kinds
        .iter()
        .filter(|kind| kind.resource.group.is_empty())
        .flat_map(|kind| std::iter::once(resource(kind)).chain(kind.subresources.iter().map(|sub| subresource(kind, sub))))
        .collect();
    json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources})
}

fn resource(kind: &Kind) -> Value {
    let mut shown = json!({
        "name": kind.resource.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs(&kind.verbs),
    });
    if !kind.short_names.is_empty() {
        shown["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        shown["categories"] = json!(kind.categories);
    }
    shown
}

fn subresource(kind: &Kind, sub: &Subresource) -> Value {
    json!({
        "name": format!("{}/{}", kind.resource.plural, sub.name),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": sub.kind,
        "verbs": verbs(&sub.verbs),
    })
}

fn verbs(verbs: &[Verb]) -> Vec<&'static str> {
    verbs.iter().map(|verb| verb.wire()).collect()
}
