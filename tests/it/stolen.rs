//! Credentials in the wrong hands: the certificate of a node, the token of a pod, a token for joining. Each tries every
//! verb of every kind and subresource that discovery names, in every version, on what is its own and on what is others',
//! and may do what the lists here say, and nothing else.

use crate::tls::{self, Asker, HTTP_1, Leaf};
use crate::transcript::{self, Bed};
use coracle_master::cluster_keys::{ClusterKeys, KeyOptions};
use coracle_master::config::SecureClients;
use coracle_schema::base64;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::SocketAddr;
use std::time::Instant;

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

/// Of a node; `own`: of itself and its pods alone.
const NODE: &[&str] = &[
    "create certificatesigningrequests.certificates.k8s.io",
    "get certificatesigningrequests.certificates.k8s.io",
    "list certificatesigningrequests.certificates.k8s.io",
    "watch certificatesigningrequests.certificates.k8s.io",
];

/// Of a token for joining.
const JOINING: &[&str] = &[
    "create certificatesigningrequests.certificates.k8s.io",
    "get certificatesigningrequests.certificates.k8s.io",
    "list certificatesigningrequests.certificates.k8s.io",
    "watch certificatesigningrequests.certificates.k8s.io",
];

const GROUP: &str = "rbac.authorization.k8s.io";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BOOTSTRAP: &str = "abcdef.0123456789abcdef";
const LATE: &str = "fedcba.0123456789abcdef";

/// A master with two nodes, each with a pod and what the pod uses.
struct Scene {
    bed: Bed,
    secure: SocketAddr,
    keys: ClusterKeys,
}

impl Scene {
    fn new() -> Scene {
        let bed = Bed::set_up(|config| {
            config.workloads = false;
            config.secure_listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
            config.secure_clients = SecureClients::Network;
        });
        let secure = bed.secure_address();
        let data_dir = bed.folder.join("data");
        let keys = ClusterKeys::of_directory(KeyOptions { data_dir, ..KeyOptions::default() }).expect("keys");
        let scene = Scene { bed, secure, keys };
        let core = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
        for (name, node) in [("own", "n"), ("theirs", "m")] {
            let taint = json!({"key": "keeper", "effect": "NoSchedule"});
            scene.make("/api/v1/nodes", json!({"metadata": {"name": node}, "spec": {"taints": [taint]}}));
            for plural in ["serviceaccounts", "secrets", "configmaps"] {
                scene.make(&core(plural), json!({"metadata": {"name": name}}));
            }
            let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
            scene.make(&core("persistentvolumeclaims"), json!({"metadata": {"name": name}, "spec": claim}));
            let volumes = json!([
                {"name": "a", "secret": {"secretName": name}},
                {"name": "b", "configMap": {"name": name}},
                {"name": "c", "persistentVolumeClaim": {"claimName": name}},
            ]);
            let spec = json!({
                "nodeName": node, "serviceAccountName": name, "volumes": volumes,
                "containers": [{"name": "c", "image": "i"}],
            });
            scene.make(PODS, json!({"metadata": {"name": name}, "spec": spec}));
            let lease = json!({"metadata": {"name": node}, "spec": {"holderIdentity": node}});
            scene.make("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease);
        }
        scene
    }

    fn make(&self, path: &str, object: Value) -> Value {
        let (code, answer) = self.admin("POST", path, &object.to_string());
        assert_eq!(code, 201, "{path} {object}: {answer}");
        answer
    }

    /// As the administrator, on the plain port.
    fn admin(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let headers = [("Content-Type".to_owned(), "application/json".to_owned())];
        let reply = transcript::ask(self.bed.network(), method, path, &headers, body);
        (reply.code, serde_json::from_slice(&reply.body).unwrap_or_default())
    }

    fn with_token(&self, token: &str) -> Asker {
        let config = tls::config(self.keys.authority(), None, HTTP_1);
        Asker::new(self.secure, config, format!("Authorization: Bearer {token}\r\n"))
    }

    fn node(&self, name: &str) -> Asker {
        let (user, groups) = (format!("system:node:{name}"), ["system:nodes".to_owned()]);
        let (chain, key) = self.keys.sign_client(&user, &groups, None).expect("a certificate");
        Asker::new(self.secure, tls::config(self.keys.authority(), Some(&Leaf { chain, key }), HTTP_1), String::new())
    }

    /// As the pod has it in its file.
    fn pod_token(&self, name: &str) -> String {
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": name});
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{name}/token");
        let answer = self.make(&path, json!({"spec": {"boundObjectRef": bound}}));
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }

    /// `expiration`: of a time's form.
    fn bootstrap_token(&self, token: &str, expiration: &str) {
        let (id, secret) = token.split_once('.').expect("an id and a secret");
        let fields = [
            ("token-id", id),
            ("token-secret", secret),
            ("expiration", expiration),
            ("usage-bootstrap-authentication", "true"),
            ("auth-extra-groups", "system:bootstrappers:kubeadm:default-node-token"),
        ];
        let data: BTreeMap<&str, String> =
            fields.iter().map(|(name, value)| (*name, base64::encode(value.as_bytes()))).collect();
        let name = format!("bootstrap-token-{id}");
        let secret = json!({"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "data": data});
        self.make("/api/v1/namespaces/kube-system/secrets", secret);
    }
}

/// A request of the walk.
struct Try {
    method: &'static str,
    path: String,
    body: String,
    /// The verb, the resource with its group, the subresource.
    what: String,
    whose: &'static str,
}

/// Every verb of every resource of every version, on objects of both nodes.
fn walk(scene: &Scene) -> Vec<Try> {
    let mut tries = Vec::new();
    let versions = scene.admin("GET", "/api", "").1;
    for version in versions["versions"].as_array().expect("versions") {
        let version = version.as_str().expect("a version");
        add(scene, ("", version), &format!("/api/{version}"), &mut tries);
    }
    let groups = scene.admin("GET", "/apis", "").1;
    for group in groups["groups"].as_array().expect("groups") {
        let name = group["name"].as_str().expect("a name");
        for version in group["versions"].as_array().expect("versions") {
            let version = version["version"].as_str().expect("a version");
            add(scene, (name, version), &format!("/apis/{name}/{version}"), &mut tries);
        }
    }
    assert!(tries.len() > 1000, "only {} requests", tries.len());
    tries
}

fn add(scene: &Scene, (group, version): (&str, &str), root: &str, tries: &mut Vec<Try>) {
    let list = scene.admin("GET", root, "").1;
    let is_old = ["v1beta1", "v1beta2"].contains(&version) && group.is_empty();
    for resource in list["resources"].as_array().unwrap_or_else(|| panic!("{root}: {list}")) {
        let name = resource["name"].as_str().expect("a name");
        let (plural, part) = name.split_once('/').unwrap_or((name, ""));
        // The words of 2014.
        let known = match plural.to_lowercase().as_str() {
            "minions" => "nodes".to_owned(),
            known => known.to_owned(),
        };
        let noun = if group.is_empty() { known.clone() } else { format!("{known}.{group}") };
        let noun = if part.is_empty() { noun } else { format!("{noun}/{part}") };
        let of_nodes = ["nodes", "leases", "csinodes"].contains(&&*known);
        let namespace = if known == "leases" { "kube-node-lease" } else { "default" };
        let is_namespaced = resource["namespaced"] == true;
        let all = match is_namespaced && !is_old {
            true => format!("{root}/namespaces/{namespace}/{plural}"),
            false => format!("{root}/{plural}"),
        };
        let query = if is_old { "namespace=default&" } else { "" };
        for (whose, of_node) in [("own", "n"), ("theirs", "m")] {
            let object = if of_nodes { of_node } else { whose };
            let object = if known == "namespaces" && whose == "own" { "default" } else { object };
            let one = if part.is_empty() { format!("{all}/{object}") } else { format!("{all}/{object}/{part}") };
            let body = body(scene, (group, version), resource["kind"].as_str().unwrap_or_default(), &one, object);
            let collection = if part.is_empty() { &all } else { &one };
            for (verb, method, path) in [
                ("get", "GET", format!("{one}?{query}")),
                ("list", "GET", format!("{all}?{query}")),
                ("watch", "GET", format!("{all}?{query}watch=1")),
                ("create", "POST", format!("{collection}?{query}dryRun=All")),
                ("update", "PUT", format!("{one}?{query}dryRun=All")),
                ("patch", "PATCH", format!("{one}?{query}dryRun=All")),
                ("delete", "DELETE", format!("{one}?{query}dryRun=All")),
                ("deletecollection", "DELETE", format!("{all}?{query}dryRun=All")),
            ] {
                let of_all = ["list", "watch", "deletecollection"].contains(&verb);
                let has = resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|has| has == verb));
                // Of what is not whole, also what no verb names: connections into pods and nodes.
                if (has || (!part.is_empty() && !of_all)) && !(of_all && !part.is_empty()) {
                    let body = if ["GET", "DELETE"].contains(&method) { String::new() } else { body.clone() };
                    tries.push(Try { method, path, body, what: format!("{verb} {noun}"), whose });
                }
            }
        }
    }
}

/// The object as it is, or the beginning of one.
fn body(scene: &Scene, (group, version): (&str, &str), kind: &str, path: &str, name: &str) -> String {
    let (code, found) = match path.split('/').count() {
        // A connection into a pod is not made for this.
        _ if ["exec", "attach", "portforward", "proxy", "log"].iter().any(|part| path.ends_with(part)) => {
            (0, json!({}))
        }
        _ => scene.admin("GET", path, ""),
    };
    if code == 200 && found.is_object() {
        return found.to_string();
    }
    let version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({"apiVersion": version, "kind": kind, "id": name, "metadata": {"name": name}}).to_string()
}

/// What of the walk is not refused, as the lists have it.
fn allowed(asker: &mut Asker, tries: &[Try]) -> BTreeSet<String> {
    let mut may: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in tries {
        let code = match one.what.starts_with("watch ") {
            true => asker.open(&one.path).0,
            false => asker.ask(one.method, &one.path, &one.body).0,
        };
        if ![401, 403].contains(&code) {
            may.entry(&one.what).or_default().insert(one.whose);
        }
    }
    may.into_iter()
        .map(|(what, whose)| match whose.len() {
            2 => what.to_owned(),
            _ => format!("{what} {}", whose.first().expect("one")),
        })
        .collect()
}

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
    let volume = |volume: Value| json!({"volumes": [{"name": "v", "secret": volume["secret"], "configMap": volume["configMap"]}]});
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
        (
            "POST",
            PODS.to_owned(),
            mirror("n", volume(json!({"secret": {"secretName": "theirs"}}))),
            "a Secret by a copy",
        ),
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
    assert_eq!(node.ask("GET", services, "").0, 401, "at once");
    ends("a revoked certificate", watch);
    assert_eq!(scene.node("n").ask("GET", services, "").0, 200, "a new certificate of the same name counts");
    assert_eq!(node.ask("GET", services, "").0, 401, "and the old does not");

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
