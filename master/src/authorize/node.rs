//! The node authorizer: a node reads what its pods need, and reports about itself. PURE.
//!
//! It allows, or it has no opinion and says why. Whose a new or a changed object is, NodeRestriction judges in
//! admission.

use super::{Attributes, Decision};
use coracle_api::meta::Resource;
use coracle_api::references;
use coracle_api::strategy::doc::text;
use coracle_http::Identity;
use serde_json::Value;
use std::sync::Arc;

const PREFIX: &str = "system:node:";
const GROUP: &str = "system:nodes";
const LEASES: &str = "kube-node-lease";

/// What every node may do, whatever its pods are: group, resource, verbs.
const RULES: &[(&str, &str, &[&str])] = &[
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("authorization.k8s.io", "subjectaccessreviews", &["create"]),
    ("authorization.k8s.io", "localsubjectaccessreviews", &["create"]),
    ("", "services", &["get", "list", "watch"]),
    ("", "events", &["create", "update", "patch"]),
    ("events.k8s.io", "events", &["create", "update", "patch"]),
    ("", "endpoints", &["get"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["create", "get", "list", "watch"]),
    ("storage.k8s.io", "csidrivers", &["get", "list", "watch"]),
    ("node.k8s.io", "runtimeclasses", &["get", "list", "watch"]),
];

/// The names that a pod on a node gives its node the right to read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PodReferences {
    pub namespace: Box<str>,
    account: Box<str>,
    secrets: Box<[Box<str>]>,
    config_maps: Box<[Box<str>]>,
    claims: Box<[Box<str>]>,
    resource_claims: Box<[Box<str>]>,
}

/// The stored objects that the authorizer looks at.
pub trait NodeObjects {
    /// The pods that are bound to a node.
    fn pods(&self, node: &str) -> Arc<Vec<Arc<PodReferences>>>;

    /// None: the object is absent or damaged.
    fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value>;
}

/// The node that an identity is. None: it is no node. Empty: it is a node without a name.
pub fn node_of(identity: &Identity) -> Option<&str> {
    let name = identity.user.strip_prefix(PREFIX)?;
    identity.groups.iter().any(|group| group == GROUP).then_some(name)
}

impl PodReferences {
    /// None: no node runs the pod yet.
    pub fn of(namespace: &str, pod: &Value) -> Option<(String, PodReferences)> {
        let node = text(&pod["spec"], "nodeName");
        if node.is_empty() {
            return None;
        }
        let namespace = namespace.into();
        // A node makes the copies of its own pods itself: they give it no right.
        if pod["metadata"]["annotations"][coracle_api::annotations::MIRROR].is_string() {
            return Some((node.to_owned(), PodReferences { namespace, ..PodReferences::default() }));
        }
        let references = PodReferences {
            namespace,
            account: text(&pod["spec"], "serviceAccountName").into(),
            secrets: unique(references::secrets(pod)),
            config_maps: unique(references::config_maps(pod)),
            claims: unique(references::claims(pod)),
            resource_claims: unique(references::resource_claims(pod)),
        };
        Some((node.to_owned(), references))
    }
}

fn unique<T: AsRef<str>>(names: Vec<T>) -> Box<[Box<str>]> {
    let mut names: Vec<Box<str>> = names.iter().map(|name| name.as_ref().into()).collect();
    names.sort_unstable();
    names.dedup();
    names.into()
}

/// An object that a node asks for.
struct AskedObject<'a> {
    node: &'a str,
    verb: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

/// Whether the pods of a node, or its own name, allow what it asks for.
pub fn decide(objects: &dyn NodeObjects, node: &str, attributes: &Attributes) -> Decision {
    let Attributes::Resource { verb, resource, subresource, namespace, name, fields } = attributes else {
        return Decision::NoOpinion(String::new());
    };
    let asked = AskedObject { node, verb, subresource, namespace, name };
    // A list or a watch of this node's objects alone.
    let selects = |field: &str| fields.iter().any(|term| term.equal && term.field == field && term.value == node);
    let decided = match (&*resource.group, &*resource.plural) {
        ("", "secrets") => asked.read(|| has_secret(objects, &asked)),
        ("", "configmaps") => asked.read(|| any_pod(objects, &asked, |pod| holds(&pod.config_maps, name))),
        ("", "persistentvolumeclaims") if subresource == "status" => asked.update_status(|| has_claim(objects, &asked)),
        ("", "persistentvolumeclaims") => asked.get_one(|| has_claim(objects, &asked)),
        ("", "persistentvolumes") => asked.get_one(|| has_volume(objects, node, name)),
        ("", "serviceaccounts") => account(objects, &asked),
        ("", "nodes") => own_node(&asked),
        ("", "pods") => pods(objects, &asked, selects("spec.nodeName")),
        ("resource.k8s.io", "resourceclaims") => {
            asked.get_one(|| any_pod(objects, &asked, |pod| holds(&pod.resource_claims, name)))
        }
        ("resource.k8s.io", "resourceslices") => slices(objects, resource, &asked, selects("spec.nodeName")),
        ("storage.k8s.io", "volumeattachments") => asked.get_one(|| names_node(objects, resource, &asked)),
        ("storage.k8s.io", "csinodes") => csi_node(&asked),
        ("coordination.k8s.io", "leases") => lease(&asked),
        (group, plural) => {
            let allows = |(of_group, of, verbs): &(&str, &str, &[&str])| {
                *of_group == group && *of == plural && subresource.is_empty() && verbs.contains(&verb.as_str())
            };
            if RULES.iter().any(allows) { Ok(()) } else { Err(String::new()) }
        }
    };
    match decided {
        Ok(()) => Decision::Allowed(String::new()),
        Err(why) => Decision::NoOpinion(why),
    }
}

type Decided = Result<(), String>;

fn no(why: &str) -> Decided {
    Err(why.to_owned())
}

impl AskedObject<'_> {
    /// Whether the object is one that the node has to do with.
    fn related(&self, is_related: impl FnOnce() -> bool) -> Decided {
        if self.name.is_empty() {
            return no("No Object name found");
        }
        match is_related() {
            true => Ok(()),
            false => Err(format!("no relationship found between node '{}' and this object", self.node)),
        }
    }

    fn read(&self, is_related: impl FnOnce() -> bool) -> Decided {
        if !matches!(self.verb, "get" | "list" | "watch") {
            return no("can only read resources of this type");
        }
        if !self.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if self.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(is_related)
    }

    /// A list or a watch that names one object gives no more than a get. (To Kubernetes it is a list.)
    fn get_one(&self, is_related: impl FnOnce() -> bool) -> Decided {
        let one = self.verb == "get" || matches!(self.verb, "list" | "watch") && !self.name.is_empty();
        if !one {
            return no("can only get individual resources of this type");
        }
        if !self.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(is_related)
    }

    fn update_status(&self, is_related: impl FnOnce() -> bool) -> Decided {
        match self.verb {
            "update" | "patch" => self.related(is_related),
            _ => no("can only get/update/patch this type"),
        }
    }
}

fn holds(names: &[Box<str>], name: &str) -> bool {
    names.binary_search_by(|known| (**known).cmp(name)).is_ok()
}

/// Whether a pod of the node in the namespace of the object is like this.
fn any_pod(objects: &dyn NodeObjects, asked: &AskedObject<'_>, like: impl Fn(&PodReferences) -> bool) -> bool {
    objects.pods(asked.node).iter().any(|pod| *pod.namespace == *asked.namespace && like(pod))
}

fn has_claim(objects: &dyn NodeObjects, asked: &AskedObject<'_>) -> bool {
    any_pod(objects, asked, |pod| holds(&pod.claims, asked.name))
}

/// A pod names the Secret, or the volume of a claim of a pod does.
fn has_secret(objects: &dyn NodeObjects, asked: &AskedObject<'_>) -> bool {
    if any_pod(objects, asked, |pod| holds(&pod.secrets, asked.name)) {
        return true;
    }
    let pods = objects.pods(asked.node);
    let claims = pods.iter().flat_map(|pod| pod.claims.iter().map(|claim| (&*pod.namespace, &**claim)));
    claims.into_iter().any(|(namespace, claim)| {
        let found = objects.get(&Resource::core("persistentvolumeclaims"), namespace, claim).unwrap_or_default();
        let volume = objects.get(&Resource::core("persistentvolumes"), "", text(&found["spec"], "volumeName"));
        let volume = volume.unwrap_or_default();
        is_of_claim(&volume, namespace, claim)
            && references::secrets_of_volume(&volume).contains(&(asked.namespace, asked.name))
    })
}

fn is_of_claim(volume: &Value, namespace: &str, name: &str) -> bool {
    let claim = &volume["spec"]["claimRef"];
    claim["namespace"] == *namespace && claim["name"] == *name
}

fn has_volume(objects: &dyn NodeObjects, node: &str, name: &str) -> bool {
    let volume = objects.get(&Resource::core("persistentvolumes"), "", name).unwrap_or_default();
    let claim = &volume["spec"]["claimRef"];
    let (namespace, claim) = (text(claim, "namespace"), text(claim, "name"));
    objects.pods(node).iter().any(|pod| *pod.namespace == *namespace && holds(&pod.claims, claim))
}

/// Whether the object itself names the node.
fn names_node(objects: &dyn NodeObjects, resource: &Resource, asked: &AskedObject<'_>) -> bool {
    objects.get(resource, asked.namespace, asked.name).is_some_and(|object| object["spec"]["nodeName"] == *asked.node)
}

fn account(objects: &dyn NodeObjects, asked: &AskedObject<'_>) -> Decided {
    let is_related = || any_pod(objects, asked, |pod| *pod.account == *asked.name);
    if asked.verb == "get" && asked.subresource.is_empty() {
        return asked.read(is_related);
    }
    if asked.verb != "create" || asked.name.is_empty() {
        return no("can only create tokens for individual service accounts");
    }
    if asked.subresource != "token" {
        return no("can only create token subresource of serviceaccount");
    }
    asked.related(is_related)
}

fn own_node(asked: &AskedObject<'_>) -> Decided {
    let AskedObject { node, name, .. } = asked;
    match (asked.subresource, asked.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") if name == node => Ok(()),
        ("", "get" | "list" | "watch") if name.is_empty() => {
            Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
        }
        ("", "get" | "list" | "watch") => Err(format!("node '{node}' cannot read '{name}', only its own Node object")),
        _ => no(""),
    }
}

fn pods(objects: &dyn NodeObjects, asked: &AskedObject<'_>, selects_node: bool) -> Decided {
    let is_own = || names_node(objects, &Resource::core("pods"), asked);
    match (asked.subresource, asked.verb) {
        ("", "get") => asked.related(is_own),
        ("", "list" | "watch") if selects_node => Ok(()),
        ("", "list" | "watch") if !asked.name.is_empty() => asked.related(is_own),
        ("", "list" | "watch") => no("can only list/watch pods with spec.nodeName field selector"),
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
        _ => no(""),
    }
}

fn slices(objects: &dyn NodeObjects, resource: &Resource, asked: &AskedObject<'_>, selects_node: bool) -> Decided {
    if !asked.subresource.is_empty() {
        return no("cannot authorize ResourceSlice subresources");
    }
    match asked.verb {
        "create" => Ok(()),
        "get" | "update" | "patch" | "delete" => asked.related(|| names_node(objects, resource, asked)),
        "list" | "watch" | "deletecollection" if selects_node => Ok(()),
        "list" | "watch" | "deletecollection" => {
            no("can only list/watch/deletecollection resourceslices with nodeName field selector")
        }
        _ => no("only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection"),
    }
}

fn csi_node(asked: &AskedObject<'_>) -> Decided {
    match asked.verb {
        "get" | "create" | "update" | "patch" | "delete" => {}
        _ => return no("can only get, create, update, patch, or delete a CSINode"),
    }
    if !asked.subresource.is_empty() {
        return no("cannot authorize CSINode subresources");
    }
    match asked.verb == "create" || asked.name == asked.node {
        true => Ok(()),
        false => no("can only access CSINode with the same name as the requesting node"),
    }
}

fn lease(asked: &AskedObject<'_>) -> Decided {
    match asked.verb {
        "get" | "create" | "update" | "patch" | "delete" => {}
        _ => return no("can only get, create, update, patch, or delete a node lease"),
    }
    if asked.namespace != LEASES {
        return Err(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    match asked.verb == "create" || asked.name == asked.node {
        true => Ok(()),
        false => no("can only access node lease with the same name as the requesting node"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::selector::field_terms;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// Objects by `resource/namespace/name`, and the pods of each node.
    #[derive(Default)]
    struct Objects {
        objects: BTreeMap<String, Value>,
        pods: BTreeMap<String, Vec<Arc<PodReferences>>>,
    }

    impl Objects {
        fn with(mut self, place: &str, object: Value) -> Objects {
            let namespace = place.split('/').nth(1).unwrap_or_default();
            if place.starts_with("pods/")
                && let Some((node, references)) = PodReferences::of(namespace, &object)
            {
                self.pods.entry(node).or_default().push(Arc::new(references));
            }
            self.objects.insert(place.to_owned(), object);
            self
        }
    }

    impl NodeObjects for Objects {
        fn pods(&self, node: &str) -> Arc<Vec<Arc<PodReferences>>> {
            Arc::new(self.pods.get(node).cloned().unwrap_or_default())
        }

        fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Value> {
            self.objects.get(&format!("{}/{namespace}/{name}", resource.plural)).cloned()
        }
    }

    fn objects() -> Objects {
        let bound = |node: &str, more: Value| {
            let mut spec = json!({"nodeName": node, "serviceAccountName": "default"});
            more.as_object().into_iter().flatten().for_each(|(field, value)| spec[field] = value.clone());
            json!({"metadata": {"name": "p"}, "spec": spec})
        };
        let volumes = |secret: &str, claim: &str| {
            json!({"volumes": [{"name": "s", "secret": {"secretName": secret}},
                {"name": "c", "persistentVolumeClaim": {"claimName": claim}},
                {"name": "t", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}]})
        };
        let mut mirror = bound("n1", volumes("of-mirror", "of-mirror"));
        mirror["metadata"]["annotations"] = json!({coracle_api::annotations::MIRROR: "x"});
        let volume = |claim: &str| {
            json!({"spec": {"claimRef": {"namespace": "ns", "name": claim},
            "csi": {"nodeStageSecretRef": {"namespace": "drivers", "name": format!("key-{claim}")}}}})
        };
        Objects::default()
            .with("pods/ns/a", bound("n1", volumes("s1", "c1")))
            .with("pods/ns/b", bound("n2", volumes("s2", "c2")))
            .with("pods/ns/waits", bound("", volumes("s3", "c3")))
            .with("pods/ns/mirror", mirror)
            .with("persistentvolumeclaims/ns/c1", json!({"spec": {"volumeName": "v1"}}))
            .with("persistentvolumeclaims/ns/c2", json!({"spec": {"volumeName": "v2"}}))
            .with("persistentvolumes//v1", volume("c1"))
            .with("persistentvolumes//v2", volume("c2"))
            .with("volumeattachments//own", json!({"spec": {"nodeName": "n1"}}))
            .with("volumeattachments//other", json!({"spec": {"nodeName": "n2"}}))
    }

    /// `get core/secrets ns s1 spec.nodeName=n1`: verb, group and resource, namespace, name, field selector; a dash is
    /// nothing.
    fn asked(text: &str) -> Attributes {
        let mut words = text.split(' ').map(|word| if word == "-" { "" } else { word });
        let mut next = || words.next().unwrap_or_default();
        let (verb, resource, namespace, name, fields) = (next(), next(), next(), next(), next());
        let (group, plural) = resource.split_once(':').unwrap_or(("", resource));
        let (plural, subresource) = plural.split_once('/').unwrap_or((plural, ""));
        Attributes::Resource {
            verb: verb.to_owned(),
            resource: Resource { group: group.to_owned().into(), plural: plural.to_owned().into() },
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            fields: field_terms(fields).expect("a selector"),
        }
    }

    #[test]
    fn what_a_node_may_do() {
        let objects = objects();
        for text in [
            "get secrets ns s1",
            "list secrets ns s1",
            "watch secrets ns s1",
            "get configmaps ns kube-root-ca.crt",
            "get secrets drivers key-c1",
            "get persistentvolumeclaims ns c1",
            "watch persistentvolumeclaims ns c1",
            "patch persistentvolumeclaims/status ns c1",
            "get persistentvolumes - v1",
            "get serviceaccounts ns default",
            "create serviceaccounts/token ns default",
            "get nodes - n1",
            "watch nodes - n1",
            "create nodes - -",
            "patch nodes/status - n2",
            "get pods ns a",
            "get pods ns mirror",
            "list pods - - spec.nodeName=n1",
            "watch pods ns - spec.nodeName=n1,metadata.namespace=ns",
            "list pods ns a metadata.name=a",
            "create pods ns -",
            "delete pods ns b",
            "patch pods/status ns b",
            "create pods/eviction ns b",
            "get coordination.k8s.io:leases kube-node-lease n1",
            "create coordination.k8s.io:leases kube-node-lease -",
            "get storage.k8s.io:csinodes - n1",
            "get storage.k8s.io:volumeattachments - own",
            "list resource.k8s.io:resourceslices - - spec.nodeName=n1",
            "list services - -",
            "update events ns e",
            "create events.k8s.io:events ns -",
            "list node.k8s.io:runtimeclasses - -",
            "list certificates.k8s.io:certificatesigningrequests - -",
        ] {
            assert_eq!(decide(&objects, "n1", &asked(text)), Decision::Allowed(String::new()), "{text}");
        }
    }

    #[test]
    fn what_a_node_may_not() {
        const STRANGE: &str = "no relationship found between node 'n1' and this object";
        let objects = objects();
        for (text, why) in [
            ("get secrets ns s2", STRANGE),
            ("get secrets ns s3", STRANGE),
            ("get secrets ns of-mirror", STRANGE),
            ("get secrets other s1", STRANGE),
            ("get secrets drivers key-c2", STRANGE),
            ("list secrets ns -", "No Object name found"),
            ("list secrets - -", "can only read namespaced object of this type"),
            ("delete secrets ns s1", "can only read resources of this type"),
            ("get configmaps ns other", STRANGE),
            ("get persistentvolumeclaims ns c2", STRANGE),
            ("get persistentvolumeclaims ns of-mirror", STRANGE),
            ("list persistentvolumeclaims ns -", "can only get individual resources of this type"),
            ("patch persistentvolumeclaims ns c1", "can only get individual resources of this type"),
            ("patch persistentvolumeclaims/status ns c2", STRANGE),
            ("get persistentvolumeclaims/status ns c1", "can only get/update/patch this type"),
            ("get persistentvolumes - v2", STRANGE),
            ("get persistentvolumes - nowhere", STRANGE),
            ("list persistentvolumes - -", "can only get individual resources of this type"),
            ("patch persistentvolumes - v1", "can only get individual resources of this type"),
            ("get serviceaccounts ns other", STRANGE),
            ("list serviceaccounts ns -", "can only create tokens for individual service accounts"),
            ("create serviceaccounts/token ns other", STRANGE),
            ("create serviceaccounts/other ns default", "can only create token subresource of serviceaccount"),
        ] {
            assert_eq!(decide(&objects, "n1", &asked(text)), Decision::NoOpinion(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_nodes_business() {
        const STRANGE: &str = "no relationship found between node 'n1' and this object";
        let objects = objects();
        for (text, why) in [
            ("list nodes - -", "node 'n1' cannot read all nodes, only its own Node object"),
            ("get nodes - n2", "node 'n1' cannot read 'n2', only its own Node object"),
            ("delete nodes - n1", ""),
            ("get nodes/proxy - n1", ""),
            ("get pods ns b", STRANGE),
            ("get pods ns waits", STRANGE),
            ("get pods ns nowhere", STRANGE),
            ("list pods - - spec.nodeName=n2", "can only list/watch pods with spec.nodeName field selector"),
            ("list pods - - spec.nodeName!=n1", "can only list/watch pods with spec.nodeName field selector"),
            ("list pods ns -", "can only list/watch pods with spec.nodeName field selector"),
            ("patch pods ns a", ""),
            ("create pods/binding ns a", ""),
            ("get pods/log ns a", ""),
            ("get pods/exec ns a", ""),
            ("deletecollection pods ns - spec.nodeName=n1", ""),
            (
                "list coordination.k8s.io:leases kube-node-lease -",
                "can only get, create, update, patch, or delete a node lease",
            ),
            (
                "get coordination.k8s.io:leases kube-node-lease n2",
                "can only access node lease with the same name as the requesting node",
            ),
            (
                "get coordination.k8s.io:leases ns n1",
                "can only access leases in the \"kube-node-lease\" system namespace",
            ),
            ("get storage.k8s.io:csinodes - n2", "can only access CSINode with the same name as the requesting node"),
            ("list storage.k8s.io:csinodes - -", "can only get, create, update, patch, or delete a CSINode"),
            ("get storage.k8s.io:volumeattachments - other", STRANGE),
            ("list storage.k8s.io:volumeattachments - -", "can only get individual resources of this type"),
            ("list storage.k8s.io:storageclasses - -", ""),
            (
                "list resource.k8s.io:resourceslices - -",
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            ("list resource.k8s.io:resourceclaims ns -", "can only get individual resources of this type"),
            ("get events ns e", ""),
            ("list namespaces - -", ""),
            ("get namespaces ns ns", ""),
            ("list endpoints - -", ""),
            ("list discovery.k8s.io:endpointslices - -", ""),
            ("get services/status ns s", ""),
            ("list apps:daemonsets ns -", ""),
            ("create rbac.authorization.k8s.io:clusterrolebindings - -", ""),
        ] {
            assert_eq!(decide(&objects, "n1", &asked(text)), Decision::NoOpinion(why.to_owned()), "{text}");
        }
        let path = Attributes::Path { verb: "get".to_owned(), path: "/metrics".to_owned() };
        assert_eq!(decide(&objects, "n1", &path), Decision::NoOpinion(String::new()));
    }

    #[test]
    fn who_is_a_node() {
        let check = |user: &str, groups: &[&str], expected: Option<&str>| {
            let groups = groups.iter().map(|group| (*group).to_owned()).collect();
            let identity = Identity { user: user.to_owned(), groups, ..Identity::default() };
            assert_eq!(node_of(&identity), expected, "{user} {groups:?}", groups = identity.groups);
        };
        check("system:node:n1", &["system:authenticated", "system:nodes"], Some("n1"));
        check("system:node:n1", &["system:authenticated"], None);
        check("someone", &["system:nodes"], None);
        check("system:node:", &["system:nodes"], Some(""));
    }
}
