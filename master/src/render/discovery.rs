//! Documents about the server: what is served, and by what version. PURE.
//!
//! Which resources there are is told in two forms: as lists by group and version, and for those who ask, as one
//! document (`aggregated`).

use coracle_api::KUBERNETES_MINOR;
use coracle_api::kinds::{Kind, Kinds, Subresource, Verb};
use coracle_api::old::Version;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// In this order clients look for a kind that several groups have. Groups that are not here come after, by name.
const GROUPS: [&str; 20] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];
/// A group, and its versions, the preferred one first.
pub struct Group<'k> {
    pub name: &'k str,
    pub versions: Vec<&'k str>,
}

/// All but the core group.
pub fn groups(kinds: &Kinds) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for kind in kinds.iter().filter(|kind| !kind.resource.group.is_empty()) {
        let at = match groups.iter().position(|group| group.name == kind.resource.group) {
            Some(at) => at,
            None => {
                groups.push(Group { name: &kind.resource.group, versions: Vec::new() });
                groups.len() - 1
            }
        };
        if !groups[at].versions.contains(&&*kind.version) {
            groups[at].versions.push(&kind.version);
        }
    }
    let rank = |name: &str| GROUPS.iter().position(|known| *known == name).unwrap_or(GROUPS.len());
    groups.sort_by_key(|group| (rank(group.name), group.name));
    // `v2` before `v1`; there are no others yet.
    groups.iter_mut().for_each(|group| group.versions.sort_by(|a, b| b.cmp(a)));
    groups
}

/// Rows of a group and version, by name.
pub fn rows<'k>(kinds: &'k Kinds, group: &str, version: &str) -> Vec<&'k Kind> {
    let mut rows: Vec<&Kind> =
        kinds.iter().filter(|kind| kind.resource.group == group && kind.version == version).collect();
    rows.sort_by(|a, b| a.resource.plural.cmp(&b.resource.plural));
    rows
}

/// `/`.
pub fn root(kinds: &Kinds, checks: &[String]) -> Value {
    let mut paths: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/api/v1",
        "/api/v1beta1",
        "/api/v1beta2",
        "/api/v1beta3",
        "/apis",
        "/metrics",
        "/metrics/state",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/openid/v1/jwks",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for group in groups(kinds) {
        paths.push(format!("/apis/{}", group.name));
        for version in group.versions {
            paths.push(format!("/apis/{}/{version}", group.name));
            paths.push(format!("/openapi/v3/apis/{}/{version}", group.name));
        }
    }
    paths.extend_from_slice(checks);
    paths.sort();
    json!({ "paths": paths })
}

pub fn version() -> Value {
    json!({
        "major": "1",
        "minor": KUBERNETES_MINOR.to_string(),
        "emulationMajor": "1",
        "emulationMinor": KUBERNETES_MINOR.to_string(),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": (KUBERNETES_MINOR - 1).to_string(),
        "gitVersion": format!("v1.{KUBERNETES_MINOR}.0+coracle.{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": platform(),
    })
}

/// The platform in Go's spelling, which clients know.
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

/// `/api`. kubectl of 2015 looks for its own version here. `address` is where the client has reached this server.
pub fn versions(address: &str) -> Value {
    let versions: Vec<&str> = std::iter::once("v1").chain(Version::ALL.map(Version::name)).collect();
    let addresses = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]);
    json!({"kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": addresses})
}

/// `/api/v1beta1` and the like. Their clients knew the resources and never asked; a resource of two versions would look
/// like two.
pub fn old_resources(version: Version) -> Value {
    json!({"kind": "APIResourceList", "groupVersion": version.name(), "resources": []})
}

/// Writes that go on: there are none, each is answered when it is done.
pub fn operations(version: Version) -> Value {
    json!({"kind": "ServerOpList", "apiVersion": version.name(), "creationTimestamp": null, "items": []})
}

/// `/apis`.
pub fn group_list(kinds: &Kinds) -> Value {
    let groups: Vec<Value> = groups(kinds).iter().map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/G`.
pub fn one_group(kinds: &Kinds, name: &str) -> Value {
    let found = groups(kinds);
    let mut shown = found.iter().find(|group| group.name == name).map(group).unwrap_or_default();
    shown["kind"] = json!("APIGroup");
    shown["apiVersion"] = json!("v1");
    shown
}

fn group(group: &Group) -> Value {
    let version = |version: &&str| json!({"groupVersion": format!("{}/{version}", group.name), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(version).collect();
    json!({"name": group.name, "preferredVersion": versions.first(), "versions": versions})
}

/// `/api/v1`, `/apis/G/V`.
pub fn resources(kinds: &Kinds, group: &str, version: &str) -> Value {
    let rows = rows(kinds, group, version);
    let resources: Vec<Value> = rows
        .iter()
        .flat_map(|kind| std::iter::once(resource(kind)).chain(subresources(kind).map(|sub| subresource(kind, sub))))
        .collect();
    let mut list =
        json!({"kind": "APIResourceList", "groupVersion": group_version(group, version), "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    list
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// By name.
fn subresources(kind: &Kind) -> impl Iterator<Item = &Subresource> {
    let mut subs: Vec<&Subresource> = kind.subresources.iter().collect();
    subs.sort_by(|a, b| a.name.cmp(&b.name));
    subs.into_iter()
}

fn resource(kind: &Kind) -> Value {
    let mut shown = json!({
        "name": kind.resource.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs(&kind.verbs),
    });
    called(kind, &mut shown);
    // Only of what is stored: a review is not.
    if kind.offers(Verb::Get) && kind.offers(Verb::Create) {
        shown["storageVersionHash"] = json!(storage_hash(kind));
    }
    shown
}

fn called(kind: &Kind, shown: &mut Value) {
    if !kind.short_names.is_empty() {
        shown["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        shown["categories"] = json!(kind.categories);
    }
}

fn subresource(kind: &Kind, sub: &Subresource) -> Value {
    let mut shown = json!({
        "name": format!("{}/{}", kind.resource.plural, sub.name),
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": sub.kind,
        "verbs": verbs(&sub.verbs),
    });
    if let Some((group, version)) = sub.group_version {
        shown["group"] = json!(group);
        shown["version"] = json!(version);
    }
    shown
}

fn verbs(verbs: &[Verb]) -> Vec<&'static str> {
    let mut verbs: Vec<&str> = verbs.iter().map(|verb| verb.wire()).collect();
    verbs.sort_unstable();
    verbs
}

/// The hash of the stored version, as in Kubernetes: eight bytes of a hash over its name.
fn storage_hash(kind: &Kind) -> String {
    let own = kind.api_version();
    let stored = kind.alias.map_or(own.as_str(), |alias| alias.of.0);
    let slash = if stored.contains('/') { "" } else { "/" };
    coracle_schema::base64::encode(&Sha256::digest(format!("{slash}{stored}/{}", kind.kind))[..8])
}

/// `/api` and `/apis` as one document: all resources of the core group, or of all other groups. `version` is the
/// version of the document.
pub fn aggregated(kinds: &Kinds, core: bool, version: &str) -> Value {
    let items: Vec<Value> = if core {
        let versions = [whole_version(kinds, "", "v1")];
        vec![json!({"metadata": {}, "versions": versions})]
    } else {
        let shown = |group: &Group| {
            let versions: Vec<Value> =
                group.versions.iter().map(|version| whole_version(kinds, group.name, version)).collect();
            json!({"metadata": {"name": group.name}, "versions": versions})
        };
        groups(kinds).iter().map(shown).collect()
    };
    let api_version = format!("apidiscovery.k8s.io/{version}");
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "metadata": {}, "items": items})
}

fn whole_version(kinds: &Kinds, group: &str, version: &str) -> Value {
    let resources: Vec<Value> = rows(kinds, group, version).into_iter().map(whole_resource).collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

fn whole_resource(kind: &Kind) -> Value {
    let mut shown = json!({
        "resource": kind.resource.plural,
        // Empty group and version: those of the list.
        "responseKind": {"group": "", "version": "", "kind": kind.kind},
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(&kind.verbs),
    });
    called(kind, &mut shown);
    let subresources: Vec<Value> = subresources(kind)
        .map(|sub| {
            let (group, version) = sub.group_version.unwrap_or_default();
            let mut shown = Map::new();
            shown.insert("subresource".to_owned(), json!(sub.name));
            shown.insert("responseKind".to_owned(), json!({"group": group, "version": version, "kind": sub.kind}));
            shown.insert("verbs".to_owned(), json!(verbs(&sub.verbs)));
            shown.into()
        })
        .collect();
    if !subresources.is_empty() {
        shown["subresources"] = subresources.into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_kubernetes() {
        let kinds = Kinds::builtin();
        for (plural, expected) in [("endpoints", "fWeeMqaN/OA="), ("events", "r2yiGXH7wu8="), ("pods", "xPOwRZ+Yhw8=")]
        {
            assert_eq!(storage_hash(kinds.by_path("", "v1", plural).unwrap()), expected);
        }
    }
}
