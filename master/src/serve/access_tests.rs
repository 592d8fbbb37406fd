//! Who may do what: every route of every kind, for identities with the roles of every cluster.

use super::Serve;
use super::tests::routes;
use crate::authorize::{Attributes, Authorizer, Chain, Decision, Masters, NodeAuthorizer, Rbac};
use crate::commit::Registry;
use crate::commit::tests::in_memory;
use bytes::Bytes;
use coracle_api::meta::Resource;
use coracle_http::{Body, Caller, HeaderMap, HeaderValue, Identity, Method, Request, header};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const GROUP: &str = "rbac.authorization.k8s.io";
/// Said in the place of each answer that would be allowed: nothing is carried out.
const MAY: &str = "this is allowed";
/// A line a route that others than the administrators may take, and who they are. `CORACLE_ACCESS=write` makes it anew.
const TABLE: &str = include_str!("access.txt");

/// What any kubelet asks its master for.
const ASKED_BY_NODES: [&str; 20] = [
    "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn",
    "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn&watch=true",
    "GET /api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Dq,spec.nodeName%3Dn",
    "GET /api/v1/nodes/n",
    "GET /api/v1/nodes?fieldSelector=metadata.name%3Dn",
    "GET /api/v1/services?watch=true",
    "GET /apis/node.k8s.io/v1/runtimeclasses?fieldSelector=metadata.name%3Dr",
    "GET /api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Ds",
    "GET /api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Ds&watch=true",
    "GET /api/v1/namespaces/a/configmaps?fieldSelector=metadata.name%3Dm&watch=true",
    "GET /api/v1/namespaces/a/persistentvolumeclaims?fieldSelector=metadata.name%3Dc",
    "POST /api/v1/namespaces/a/serviceaccounts/sa/token",
    "POST /api/v1/nodes",
    "PUT /api/v1/nodes/n",
    "PATCH /api/v1/nodes/n/status",
    "PATCH /api/v1/namespaces/a/pods/p/status",
    "DELETE /api/v1/namespaces/a/pods/p",
    "POST /api/v1/namespaces/a/pods",
    "POST /api/v1/namespaces/a/events",
    "PUT /api/v1/namespaces/a/events/e",
];
/// What coracle's own agent does beside a kubelet.
const ASKED_BY_AGENTS: [&str; 8] = [
    "GET /api/v1/nodes?fieldSelector=metadata.name%3Dformer&watch=true",
    "GET /api/v1/namespaces/kube-system",
    "GET /api/v1/persistentvolumes",
    "GET /api/v1/persistentvolumes?watch=true",
    "GET /api/v1/persistentvolumes/v",
    "PATCH /api/v1/persistentvolumes/v",
    "GET /apis/discovery.k8s.io/v1/endpointslices",
    "GET /apis/discovery.k8s.io/v1/endpointslices?watch=true",
];
/// What is no business of a node.
const NOT_FOR_NODES: [&str; 15] = [
    "GET /api/v1/namespaces/a/secrets",
    "GET /api/v1/namespaces/a/secrets/other",
    "GET /api/v1/namespaces/b/secrets/s",
    "GET /api/v1/secrets",
    "GET /api/v1/pods",
    "GET /api/v1/namespaces/a",
    "DELETE /api/v1/nodes/n",
    "DELETE /api/v1/persistentvolumes/v",
    "PUT /api/v1/persistentvolumes/v",
    "POST /api/v1/namespaces/a/pods/p/exec",
    "PUT /api/v1/namespaces/a/pods/p",
    "POST /api/v1/namespaces/a/services",
    "GET /coracle/backup",
    "POST /coracle/flush",
    "GET /metrics",
];

/// A master with the roles of every cluster, as the authorizer sees it.
pub(super) fn governed() -> (Arc<Registry>, Arc<dyn Authorizer>) {
    let registry = in_memory();
    let rbac: Arc<dyn Authorizer> = Arc::new(Rbac::new(registry.store.clone()));
    let of_nodes: Arc<dyn Authorizer> = Arc::new(NodeAuthorizer::new(registry.store.clone()));
    let chain = Arc::new(Chain(vec![Arc::new(Masters), of_nodes, rbac]));
    let registry = Registry::new(registry.kinds(), registry.store.clone(), registry.maker.clone());
    let registry = Arc::new(registry.authorized_by(chain.clone()));
    for name in ["a", "b", "kube-system", "kube-public"] {
        registry.ensure_namespace(name).expect("a namespace");
    }
    registry.ensure_access_rules(true).expect("roles");
    (registry, chain)
}

fn make(registry: &Registry, plural: &'static str, namespace: &str, object: &Value) {
    let kind = registry.kind(&Resource { group: GROUP.into(), plural: plural.into() }).expect("a row");
    registry.make_own(&kind, namespace, object).unwrap_or_else(|why| panic!("{object}: {why}"));
}

pub(super) fn bind(registry: &Registry, (namespace, user): (&str, &str), role: &str) {
    let plural = if namespace.is_empty() { "clusterrolebindings" } else { "rolebindings" };
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    });
    make(registry, plural, namespace, &binding);
}

pub(super) fn identity(user: &str, groups: &[&str]) -> Arc<Identity> {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Arc::new(Identity { user: user.to_owned(), groups, ..Identity::none() })
}

/// Everybody whose rights the table shows, and the letter of each.
fn everybody() -> [(char, Arc<Identity>); 7] {
    let known = "system:authenticated";
    [
        ('-', identity("system:anonymous", &["system:unauthenticated"])),
        ('u', identity("user", &[known])),
        ('n', identity("system:node:n", &["system:nodes", known])),
        ('v', identity("viewer", &[known])),
        ('e', identity("editor", &[known])),
        ('a', identity("admin", &[known])),
        ('r', identity("root", &[known])),
    ]
}

fn answered(serve: &Serve, (method, path): (&Method, &str), identity: &Arc<Identity>, body: &str) -> (u16, String) {
    let content_type = match *method {
        Method::PATCH if path.contains("fieldManager=") => "application/apply-patch+yaml",
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let headers: HeaderMap = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))].into_iter().collect();
    let answer = serve.answer(&Request {
        method: method.clone(),
        target: path.parse().unwrap_or_else(|error| panic!("{path}: {error}")),
        headers,
        body: Bytes::copy_from_slice(body.as_bytes()),
        caller: Caller::Local,
        identity: identity.clone(),
    });
    let Body::Whole(text) = answer.body else { panic!("{path}: it is whole") };
    (answer.status.as_u16(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn who_may_take_which_route() {
    let (registry, chain) = governed();
    bind(&registry, ("a", "viewer"), "view");
    bind(&registry, ("a", "editor"), "edit");
    bind(&registry, ("a", "admin"), "admin");
    bind(&registry, ("", "root"), "cluster-admin");
    let serve = Serve::new(registry, None);
    let all = routes(&serve);
    let serve = serve.authorized_by(move |attributes: &Attributes, identity: &Identity| {
        match chain.authorize(attributes, identity) {
            Decision::Allowed(_) => Decision::Denied(MAY.to_owned()),
            decision => decision,
        }
    });
    let mut lines = BTreeSet::new();
    for (method, path) in &all {
        let health = ["/healthz", "/livez", "/readyz"].contains(&&**path);
        let mut who = String::new();
        for (letter, identity) in everybody() {
            let (code, text) = answered(&serve, (method, path), &identity, "{no JSON");
            if health {
                assert_eq!(code, 200, "{method} {path}: {text}");
                continue;
            }
            assert_eq!(code, 403, "{method} {path} is answered without a question: {text}");
            assert!(text.contains(&format!("User \\\"{}\\\" cannot ", identity.user)), "{method} {path}: {text}");
            who.extend(text.contains(MAY).then_some(letter));
        }
        assert!(health || who.ends_with('r'), "{method} {path}: an administrator may not");
        let (mut others, wider) = (who.chars().filter(|letter| *letter != 'r').peekable(), ["v", "e", "a"]);
        if others.peek().is_some() {
            lines.insert(format!("{method} {path} {}", others.collect::<String>()));
        }
        let first = wider.iter().position(|letter| who.contains(letter)).unwrap_or(wider.len());
        assert!(wider[first..].iter().all(|letter| who.contains(letter)), "{method} {path}: {who} is no ladder");
    }
    let table: String = lines.iter().map(|line| format!("{line}\n")).collect();
    if std::env::var_os("CORACLE_ACCESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/serve/access.txt"), &table).expect("a file");
    }
    let known: BTreeSet<&str> = TABLE.lines().collect();
    let more: Vec<&str> = table.lines().filter(|line| !known.contains(line)).collect();
    let less: Vec<&&str> = known.iter().filter(|line| !lines.contains(**line)).collect();
    assert!(more.is_empty() && less.is_empty(), "access.txt lacks:\n{more:#?}\nand has:\n{less:#?}");
}

/// Verbs that other verbs bring along, and rights that only the stored objects show to be needed.
#[test]
fn questions_beside_the_first() {
    let (registry, _) = governed();
    let grant = |name: &str, namespace: &str, rules: Value| {
        let (role, binding) = match namespace {
            "" => ("clusterroles", "clusterrolebindings"),
            _ => ("roles", "rolebindings"),
        };
        make(&registry, role, namespace, &json!({"metadata": {"name": name}, "rules": rules}));
        let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
        make(
            &registry,
            binding,
            namespace,
            &json!({
                "metadata": {"name": name},
                "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
                "subjects": [{"apiGroup": GROUP, "kind": "User", "name": name}],
            }),
        );
    };
    let all = json!(["*"]);
    grant("patcher", "a", json!([{"apiGroups": all, "resources": all, "verbs": ["patch", "update", "get"]}]));
    grant(
        "maker",
        "",
        json!([{"apiGroups": [""], "resources": ["configmaps", "pods/exec"], "verbs": ["create", "get"]}]),
    );
    grant("reader", "a", json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get"]}]));
    grant(
        "named",
        "a",
        json!([{
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["c"], "verbs": ["get", "list", "watch"],
        }]),
    );
    let serve = Serve::new(registry.clone(), None);
    let check = |user: &str, method: Method, path: &str, body: Value, code: u16, words: &str| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (answered, text) = answered(&serve, (&method, path), &identity(user, &["system:authenticated"]), &body);
        assert!(answered == code && text.contains(words), "{user} {method} {path}: {answered} {text}");
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    let maps = "/api/v1/namespaces/a/configmaps";
    let cannot = r#"configmaps \"c\" is forbidden: User \"patcher\" cannot create resource \"configmaps\""#;
    let apply = format!("{maps}/c?fieldManager=m");
    check("patcher", Method::PATCH, &apply, map.clone(), 403, cannot);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/a/leases/l";
    check("patcher", Method::PUT, leases, lease, 403, r#"cannot create resource \"leases\""#);
    check("maker", Method::POST, maps, map.clone(), 201, "");
    check("patcher", Method::PATCH, &apply, map.clone(), 200, "");
    // A namespace on first use.
    let pod = "/api/v1beta1/pods?namespace=fresh";
    grant("podder", "", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]));
    let manifest = json!({
        "kind": "Pod", "apiVersion": "v1beta1", "id": "p",
        "desiredState": {"manifest": {"version": "v1beta1", "id": "p", "containers": [{"name": "c", "image": "i"}]}},
    });
    let made = r#"User \"podder\" cannot create resource \"namespaces\""#;
    check("podder", Method::POST, pod, manifest.clone(), 403, made);
    check("podder", Method::POST, &format!("{pod}&dryRun=All"), manifest, 403, "");
    // A GET that gives access into a pod.
    let exec = "/api/v1/namespaces/a/pods/p/exec?command=c";
    check("reader", Method::GET, exec, Value::Null, 403, r#"cannot create resource \"pods/exec\""#);
    check("maker", Method::GET, exec, Value::Null, 404, "");
    // A name in a field selector.
    check("named", Method::GET, &format!("{maps}?fieldSelector=metadata.name%3Dc"), Value::Null, 200, "");
    check("named", Method::GET, &format!("{maps}?fieldSelector=metadata.name%3Dd"), Value::Null, 403, "");
    check("named", Method::GET, maps, Value::Null, 403, "");
    let watched = format!("{maps}?watch=1&fieldSelector=metadata.name!%3Dc");
    check("named", Method::GET, &watched, Value::Null, 403, "");
}

#[test]
fn nobody_grants_more_than_they_hold() {
    let (registry, _) = governed();
    bind(&registry, ("a", "admin"), "admin");
    let serve = Serve::new(registry, None);
    let check = |method: Method, path: &str, body: Value, code: u16, words: &str| {
        let path = format!("/apis/{GROUP}/v1/namespaces/{path}");
        let admin = identity("admin", &["system:authenticated"]);
        let (answered, text) = answered(&serve, (&method, &path), &admin, &body.to_string());
        assert!(answered == code && text.contains(words), "{method} {path}: {answered} {text}");
    };
    let role = |resource: &str| {
        let rule = json!({"apiGroups": [""], "resources": [resource], "verbs": ["get"]});
        json!({"metadata": {"name": "r"}, "rules": [rule]})
    };
    let binds = |name: &str, kind: &str, role: &str| {
        let role = json!({"apiGroup": GROUP, "kind": kind, "name": role});
        json!({"metadata": {"name": name}, "roleRef": role})
    };
    check(Method::POST, "a/roles", role("secrets"), 201, "");
    let more = r#"attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"]"#;
    check(Method::PUT, "a/roles/r", role("nodes"), 403, more);
    check(Method::PATCH, "a/roles/r", json!({"rules": role("nodes")["rules"]}), 403, more);
    check(
        Method::PATCH,
        "a/roles/r?fieldManager=m&force=true",
        {
            let mut role = role("nodes");
            role["apiVersion"] = format!("{GROUP}/v1").into();
            role["kind"] = "Role".into();
            role
        },
        403,
        more,
    );
    check(Method::PATCH, "a/roles/r", json!({"rules": role("pods")["rules"]}), 200, "");
    check(Method::POST, "b/roles", role("pods"), 403, r#"cannot create resource \"roles\""#);
    check(Method::POST, "a/rolebindings", binds("x", "ClusterRole", "edit"), 201, "");
    check(Method::POST, "a/rolebindings", binds("y", "Role", "r"), 201, "");
    check(Method::POST, "a/rolebindings", binds("z", "ClusterRole", "cluster-admin"), 403, "attempting to grant");
    let gone = r#"rolebindings.rbac.authorization.k8s.io \"gone\" not found"#;
    check(Method::POST, "a/rolebindings", binds("z", "Role", "gone"), 404, gone);
}

/// All that an agent asks its master for, and what it must not have.
#[test]
fn what_the_agent_of_a_node_may() {
    let (registry, chain) = governed();
    let serve = Serve::new(registry.clone(), None);
    let root = Arc::new(Identity::administrator());
    let put = |path: &str, object: Value| {
        let (code, text) = answered(&serve, (&Method::POST, path), &root, &object.to_string());
        assert_eq!(code, 201, "{path}: {text}");
    };
    put("/api/v1/nodes", json!({"metadata": {"name": "n"}}));
    let volumes = json!([
        {"name": "s", "secret": {"secretName": "s"}}, {"name": "m", "configMap": {"name": "m"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "c"}},
    ]);
    put("/api/v1/namespaces/a/serviceaccounts", json!({"metadata": {"name": "sa"}}));
    let spec = json!({"nodeName": "n", "serviceAccountName": "sa", "volumes": volumes,
        "containers": [{"name": "c", "image": "i"}]});
    put("/api/v1/namespaces/a/pods", json!({"metadata": {"name": "p"}, "spec": spec}));
    let of_nodes = identity("system:node:n", &["system:nodes", "system:authenticated"]);
    let agent = Arc::new(Identity::agent("n"));
    let serve = Serve::new(registry, None);
    let serve = serve.authorized_by(move |attributes: &Attributes, identity: &Identity| {
        match chain.authorize(attributes, identity) {
            Decision::Allowed(_) => Decision::Denied(MAY.to_owned()),
            decision => decision,
        }
    });
    let may = |identity: &Arc<Identity>, line: &str| {
        let (method, path) = line.split_once(' ').expect("a method and a path");
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        answered(&serve, (&method, path), identity, "{no JSON").1.contains(MAY)
    };
    for line in ASKED_BY_NODES {
        assert!(may(&of_nodes, line) && may(&agent, line), "{line}");
    }
    for line in ASKED_BY_AGENTS {
        assert!(!may(&of_nodes, line) && may(&agent, line), "{line}");
    }
    for line in NOT_FOR_NODES {
        assert!(!may(&agent, line), "{line}");
    }
}
