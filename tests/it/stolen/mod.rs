//! Credentials in the wrong hands: the certificate of a node, the token of a pod, a token for joining. A thief tries
//! every verb of every kind and subresource that discovery names, in every version, on objects of its own node and of
//! the other node, and may do what the lists here say, and nothing else.

mod scene;
mod walk;

use crate::tls::Asker;
use crate::transcript;
use scene::Scene;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Read;
use std::time::{Duration, Instant};
use walk::{Try, allowed, walk};

/// What whoever is known may do, as Kubernetes has it.
const KNOWN: &[&str] = &[
    "create selfsubjectaccessreviews.authorization.k8s.io",
    "create selfsubjectreviews.authentication.k8s.io",
    "create selfsubjectrulesreviews.authorization.k8s.io",
];

/// And the pages that whoever is known may read; `/*`: with all below.
const KNOWN_PAGES: &[&str] = &["/api/*", "/apis/*", "/healthz", "/livez", "/openapi/*", "/readyz", "/version"];

/// Of a pod whose account has no role: the keys that verify tokens, in addition.
const POD_PAGES: &[&str] = &["/.well-known/openid-configuration", "/openid/v1/jwks"];

/// Of a node; `own`: of itself and its pods alone; `list one`: with the name in a field selector.
const NODE: &[&str] = &[
    "create certificatesigningrequests.certificates.k8s.io",
    "create csinodes.storage.k8s.io own",
    "create events",
    "create events.events.k8s.io",
    "create leases.coordination.k8s.io own",
    "create localsubjectaccessreviews.authorization.k8s.io",
    "create nodes own",
    "create pods/eviction own",
    "create subjectaccessreviews.authorization.k8s.io",
    "create tokenreviews.authentication.k8s.io",
    "delete csinodes.storage.k8s.io own",
    "delete leases.coordination.k8s.io own",
    "delete pods own",
    "get certificatesigningrequests.certificates.k8s.io",
    "get configmaps own",
    "get csidrivers.storage.k8s.io",
    "get csinodes.storage.k8s.io own",
    "get endpoints",
    "get leases.coordination.k8s.io own",
    "get nodes own",
    "get persistentvolumeclaims own",
    "get pods own",
    "get runtimeclasses.node.k8s.io",
    "get secrets own",
    "get serviceaccounts own",
    "get services",
    "list certificatesigningrequests.certificates.k8s.io",
    "list csidrivers.storage.k8s.io",
    "list one certificatesigningrequests.certificates.k8s.io",
    "list one configmaps own",
    "list one csidrivers.storage.k8s.io",
    "list one nodes own",
    "list one persistentvolumeclaims own",
    "list one pods own",
    "list one runtimeclasses.node.k8s.io",
    "list one secrets own",
    "list one services",
    "list runtimeclasses.node.k8s.io",
    "list services",
    "patch csinodes.storage.k8s.io own",
    "patch events",
    "patch events.events.k8s.io",
    "patch leases.coordination.k8s.io own",
    "patch nodes own",
    "patch nodes/status own",
    "patch persistentvolumeclaims/status own",
    "patch pods/status own",
    "update csinodes.storage.k8s.io own",
    "update events",
    "update events.events.k8s.io",
    "update leases.coordination.k8s.io own",
    "update nodes own",
    "update nodes/status own",
    "update persistentvolumeclaims/status own",
    "update pods/status own",
    "watch certificatesigningrequests.certificates.k8s.io",
    "watch csidrivers.storage.k8s.io",
    "watch one certificatesigningrequests.certificates.k8s.io",
    "watch one configmaps own",
    "watch one csidrivers.storage.k8s.io",
    "watch one nodes own",
    "watch one persistentvolumeclaims own",
    "watch one pods own",
    "watch one runtimeclasses.node.k8s.io",
    "watch one secrets own",
    "watch one services",
    "watch runtimeclasses.node.k8s.io",
    "watch services",
];

/// Of a token for joining.
const JOINING: &[&str] = &[
    "create certificatesigningrequests.certificates.k8s.io",
    "get certificatesigningrequests.certificates.k8s.io",
    "list certificatesigningrequests.certificates.k8s.io",
    "list one certificatesigningrequests.certificates.k8s.io",
    "watch certificatesigningrequests.certificates.k8s.io",
    "watch one certificatesigningrequests.certificates.k8s.io",
];

const GROUP: &str = "rbac.authorization.k8s.io";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BOOTSTRAP: &str = "abcdef.0123456789abcdef";
const LATE: &str = "fedcba.0123456789abcdef";

/// Pages of the server that are no resources.
fn pages(scene: &Scene) -> Vec<String> {
    let root = scene.admin("GET", "/", "").1;
    let mut pages: Vec<String> =
        root["paths"].as_array().expect("paths").iter().map(|path| path.as_str().expect("a path").to_owned()).collect();
    let more = [
        "/",
        "/metrics",
        "/coracle/store/backup",
        "/coracle/rbac/adoption",
        "/logs",
        "/debug/pprof/",
        "/nowhere",
        "/openapi/v3/api/v1",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/version",
        "/livez",
    ];
    pages.extend(more.map(str::to_owned));
    pages
}

/// One credential, and what differs from its lists.
struct Thief {
    name: &'static str,
    asker: Asker,
    faults: Vec<String>,
}

impl Thief {
    fn new(name: &'static str, asker: Asker) -> Thief {
        Thief { name, asker, faults: Vec::new() }
    }

    fn walks(&mut self, tries: &[Try], lists: &[&[&str]]) {
        let listed: BTreeSet<String> =
            lists.iter().flat_map(|list| list.iter()).map(|line| (*line).to_owned()).collect();
        let found = allowed(&mut self.asker, tries);
        self.faults.extend(found.difference(&listed).map(|line| format!("{} may {line}", self.name)));
        self.faults.extend(listed.difference(&found).map(|line| format!("{} may not {line}", self.name)));
    }

    fn reads_pages(&mut self, scene: &Scene, lists: &[&[&str]]) {
        for page in pages(scene) {
            let listed = |entry: &str| match entry.strip_suffix("/*") {
                Some(root) => page == root || page.starts_with(&format!("{root}/")),
                None => page == entry,
            };
            let expected = lists.iter().any(|list| list.iter().any(|entry| listed(entry)));
            let (code, _) = self.asker.ask("GET", &page, "");
            if ![401, 403].contains(&code) != expected {
                self.faults.push(format!("{} reads {page}: {code}", self.name));
            }
        }
    }

    /// Nobody is taken for somebody else.
    fn poses(&mut self) {
        let own = self.asker.fields.clone();
        for (user, group) in [("system:admin", "system:masters"), ("system:node:m", "system:nodes"), ("ann", "team")] {
            self.asker.fields = format!("{own}Impersonate-User: {user}\r\nImpersonate-Group: {group}\r\n");
            let (code, _) = self.asker.ask("GET", PODS, "");
            self.faults.extend((code != 403).then(|| format!("{} as {user}: {code}", self.name)));
        }
        self.asker.fields = own;
    }
}

#[test]
fn everything_is_tried_with_credentials_of_others() {
    let scene = Scene::new();
    let tries = walk(&scene);
    scene.bootstrap_token(BOOTSTRAP, "2999-01-01T00:00:00Z");
    scene.bootstrap_token(LATE, "2001-01-01T00:00:00Z");

    // As kubeadm binds it.
    let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "system:node-bootstrapper"});
    let subject = json!({"apiGroup": GROUP, "kind": "Group", "name": "system:bootstrappers"});
    let binding = json!({"metadata": {"name": "joining"}, "roleRef": role, "subjects": [subject]});
    scene.make(&format!("/apis/{GROUP}/v1/clusterrolebindings"), binding);

    let mut pod = Thief::new("the pod", scene.with_token(&scene.pod_token("own")));
    pod.walks(&tries, &[KNOWN]);
    pod.reads_pages(&scene, &[KNOWN_PAGES, POD_PAGES]);
    let mut node = Thief::new("the node", scene.node("n"));
    node.walks(&tries, &[KNOWN, NODE]);
    node.reads_pages(&scene, &[KNOWN_PAGES]);
    let mut joining = Thief::new("the token for joining", scene.with_token(BOOTSTRAP));
    joining.walks(&tries, &[KNOWN, JOINING]);
    joining.reads_pages(&scene, &[KNOWN_PAGES]);
    the_node_reaches_out(&scene, &mut node);
    let faults: Vec<String> = [pod, node, joining]
        .into_iter()
        .flat_map(|mut thief| {
            thief.poses();
            thief.faults
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    nobody_is_let_in_late(&scene, &tries);
}

/// A token that has expired is nobody's, on every path and on the open port too.
fn nobody_is_let_in_late(scene: &Scene, tries: &[Try]) {
    let mut late = scene.with_token(LATE);
    for one in tries {
        assert_eq!(late.ask(one.method, &one.path, &one.body).0, 401, "{} {}", one.method, one.path);
    }
    pages(scene).iter().for_each(|page| assert_eq!(late.ask("GET", page, "").0, 401, "{page}"));
    let plain = [("Authorization".to_owned(), format!("Bearer {LATE}"))];
    assert_eq!(transcript::ask(scene.bed.network(), "GET", PODS, &plain, "").code, 401);
}

/// What only the content of a document shows.
fn the_node_reaches_out(scene: &Scene, node: &mut Thief) {
    let mirror = |on: &str, more: Value| {
        let mut spec = json!({"nodeName": on, "containers": [{"name": "c", "image": "i"}]});
        more.as_object().into_iter().flatten().for_each(|(field, value)| spec[field] = value.clone());
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "mirror", "annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": spec,
        })
    };
    let bound = |pod: &str| {
        let uid = scene.admin("GET", &format!("{PODS}/{pod}"), "").1["metadata"]["uid"].take();
        json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}}})
    };
    let token = |account: &str| format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
    let secret = json!({"volumes": [{"name": "v", "secret": {"secretName": "theirs"}}]});
    let own = |field: &str, value: Value| {
        let mut node = json!({"metadata": {"labels": {}}, "spec": {}});
        let (part, field) = field.split_once('/').expect("a part and a field");
        node[part][field] = value;
        node
    };
    let (_, mut status) = scene.admin("GET", &format!("{PODS}/theirs"), "");
    status["status"]["phase"] = "Failed".into();
    let tries = [
        ("POST", PODS.to_owned(), mirror("m", json!({})), "a copy of a pod of another node"),
        ("POST", PODS.to_owned(), mirror("n", secret), "a Secret by a copy"),
        ("POST", PODS.to_owned(), mirror("n", json!({"serviceAccountName": "theirs"})), "an account by a copy"),
        ("POST", token("own"), bound("theirs"), "a token of its account for the pod of another node"),
        ("POST", token("own"), json!({"spec": {}}), "a token that is bound to nothing"),
        ("POST", token("theirs"), bound("theirs"), "a token of another's pod"),
        ("POST", token("theirs"), bound("own"), "a token of an account that its pod does not have"),
        ("PATCH", "/api/v1/nodes/n".into(), own("spec/taints", json!([])), "no taints for itself"),
        (
            "PATCH",
            "/api/v1/nodes/n".into(),
            own("metadata/labels", json!({"node-restriction.kubernetes.io/a": "b"})),
            "a label that keepers alone give",
        ),
        ("PUT", format!("{PODS}/theirs/status"), status, "the status of another's pod"),
        ("POST", format!("{PODS}/theirs/eviction"), json!({"metadata": {"name": "theirs"}}), "an eviction elsewhere"),
    ];
    for (method, path, body, what) in tries {
        let (code, text) = node.asker.ask(method, &path, &body.to_string());
        node.faults.extend((code != 403).then(|| format!("{what}: {code} {}", String::from_utf8_lossy(&text))));
    }
    for (selector, expected) in [("spec.nodeName%3Dm", 403), ("spec.nodeName!%3Dm", 403), ("spec.nodeName%3Dn", 200)] {
        let (code, _) = node.asker.ask("GET", &format!("/api/v1/pods?fieldSelector={selector}"), "");
        node.faults.extend((code != expected).then(|| format!("pods by {selector}: {code}")));
    }
    let (code, text) = node.asker.ask("POST", &token("own"), &bound("own").to_string());
    node.faults
        .extend((code != 201).then(|| format!("its own pod's token: {code} {}", String::from_utf8_lossy(&text))));
}

/// Reads a stream until the server ends it, whichever way.
fn ends(what: &str, mut stream: impl Read) {
    let begun = Instant::now();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                let waits = [std::io::ErrorKind::WouldBlock, std::io::ErrorKind::TimedOut].contains(&error.kind());
                assert!(!waits, "{what}: it goes on");
                break;
            }
        }
    }
    eprintln!("{what}: the watch ended after {:.1} s", begun.elapsed().as_secs_f64());
}

fn bind(scene: &Scene, user: &str) {
    let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"});
    let subject = json!({"apiGroup": GROUP, "kind": "User", "name": user});
    let binding = json!({"metadata": {"name": "viewers"}, "roleRef": role, "subjects": [subject]});
    scene.make(&format!("/apis/{GROUP}/v1/namespaces/default/rolebindings"), binding);
}

#[test]
fn credentials_that_end_end_what_is_open() {
    let scene = Scene::new();
    let maps = "/api/v1/namespaces/default/configmaps";
    bind(&scene, "system:serviceaccount:default:own");
    let mut pod = scene.with_token(&scene.pod_token("own"));
    assert_eq!(pod.ask("GET", maps, "").0, 200);
    let (code, watch) = pod.open(&format!("{maps}?watch=1"));
    assert_eq!(code, 200);
    assert_eq!(scene.admin("DELETE", &format!("{PODS}/own?gracePeriodSeconds=0"), "").0, 200);
    assert_eq!(pod.ask("GET", maps, "").0, 401, "at once");
    ends("a deleted pod", watch);
    // Another pod of the name does not make it count again.
    let spec = json!({"nodeName": "n", "serviceAccountName": "own", "containers": [{"name": "c", "image": "i"}]});
    scene.make(PODS, json!({"metadata": {"name": "own"}, "spec": spec}));
    assert_eq!(pod.ask("GET", maps, "").0, 401);

    let services = "/api/v1/services";
    let mut node = scene.node("n");
    let (code, watch) = node.open(&format!("{services}?watch=1"));
    assert_eq!(code, 200);
    assert_eq!(scene.keys.revoke_user("system:node:n"), Ok(1));
    // Nobody tells the master: it looks by itself.
    ends("a revoked certificate", watch);
    assert_eq!(node.ask("GET", services, "").0, 401);
    assert_eq!(scene.node("n").ask("GET", services, "").0, 200, "a new certificate of the same name counts");
    assert_eq!(node.ask("GET", services, "").0, 401, "and the old does not");

    let mut ending = scene.node_for("n", Some(Duration::from_secs(10)));
    let (code, watch) = ending.open(&format!("{services}?watch=1"));
    assert_eq!(code, 200);
    ends("a certificate with an end", watch);

    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(3);
    scene.bootstrap_token(BOOTSTRAP, &soon.to_string());
    let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"});
    let subject = json!({"apiGroup": GROUP, "kind": "Group", "name": "system:bootstrappers"});
    let binding = json!({"metadata": {"name": "joining"}, "roleRef": role, "subjects": [subject]});
    scene.make(&format!("/apis/{GROUP}/v1/clusterrolebindings"), binding);
    let mut joining = scene.with_token(BOOTSTRAP);
    let (code, watch) = joining.open(&format!("{maps}?watch=1"));
    assert_eq!(code, 200);
    ends("an expired token", watch);
    assert_eq!(joining.ask("GET", maps, "").0, 401);
}
