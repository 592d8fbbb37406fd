//! Requests of tests against a store in memory, from the call to the answer.

use super::*;
use crate::authorize::Decision;
use crate::commit::tests::in_memory;
use crate::page;
use crate::render::discovery;
use crate::store::{Store, Write};
use coracle_api::kinds;
use coracle_api::meta::{Durable, Key, Resource};
use coracle_http::{HeaderValue, Method};
use serde_json::json;
use std::sync::Arc;

/// Serves a store in memory.
pub fn serve() -> (Serve, Arc<dyn Store>) {
    let registry = in_memory();
    (Serve::new(registry.clone(), None), registry.store.clone())
}

fn get(target: &str, headers: &[(header::HeaderName, &'static str)]) -> Request {
    let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
    let target = target.parse().expect("a path");
    Request {
        method: Method::GET,
        target,
        headers,
        body: Bytes::new(),
        caller: Caller::Local,
        identity: Arc::default(),
    }
}

#[test]
fn what_people_read_takes_its_room() {
    let (serve, store) = serve();
    let key = Key { resource: Resource::core("configmaps"), namespace: "a".to_owned(), name: "b".to_owned() };
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "a"},
        "data": {"x": "x".repeat(600_000)},
    });
    store.write(Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() }).expect("it is new");
    let asked =
        |agent: &'static str| serve.answer(&get("/api/v1/configmaps", &[(header::USER_AGENT, agent)])).status.as_u16();
    let check = |taken: usize, machine: u16, person: u16| {
        let _room = serve.lists.room_for(Party::Local, taken);
        assert_eq!((asked("kubectl/v1.36.0"), asked("curl/8.0")), (machine, person), "{taken}");
    };
    check(0, 200, 200);
    // Three quarters are one client's.
    check(lists::LISTS_BYTES_MAX / 4 * 3 - 1_000_000, 200, 429);
    check(lists::LISTS_BYTES_MAX, 429, 429);
    check(0, 200, 200);
}

#[test]
fn a_node_does_not_leave_a_final_phase() {
    let check = |agent: &'static str, groups: &[&str], says: &str, phase: &str, warned: bool| {
        let (serve, store) = serve();
        let key = Key { resource: Resource::core("pods"), namespace: "a".to_owned(), name: "b".to_owned() };
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "namespace": "a", "uid": "u"},
            "spec": {
                "nodeName": "n", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
                "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler", "securityContext": {},
                "enableServiceLinks": true, "containers": [{
                    "name": "c", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
                    "terminationMessagePath": "/dev/termination-log", "resources": {},
                }],
            },
            "status": {"phase": "Failed", "reason": "NodeLost"},
        });
        store.write(Write::Create { key, object, durable: Durable::Whole, claims: Vec::new() }).expect("it is new");
        let identity =
            Identity { groups: groups.iter().map(|group| (*group).to_owned()).collect(), ..Identity::none() };
        let language = (header::CONTENT_TYPE, "application/strategic-merge-patch+json");
        let patch = json!({"metadata": {"uid": "u"}, "status": {"phase": says, "podIP": "10.0.0.1"}});
        for _ in 0..2 {
            let request = Request {
                method: Method::PATCH,
                body: patch.to_string().into(),
                identity: Arc::new(identity.clone()),
                ..get("/api/v1/namespaces/a/pods/b/status", &[(header::USER_AGENT, agent), language.clone()])
            };
            let answer = serve.answer(&request);
            let Body::Whole(text) = answer.body else { panic!("{:?}", answer.body) };
            let pod: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
            let found = (&pod["status"]["phase"], &pod["status"]["podIP"]);
            assert_eq!(
                (answer.status.as_u16(), found),
                (200, (&json!(phase), &json!("10.0.0.1"))),
                "{agent} {says}: {pod}"
            );
            assert_eq!(answer.headers.contains_key(header::WARNING), warned, "{agent} {says}");
        }
        // Only one line in the log, even after several tries.
        assert_eq!(serve.ends.count(), usize::from(warned));
    };
    check("coracle-agent/0.1.0", &[], "Running", "Failed", true);
    check("coracle-agent/0.1.0", &[], "Succeeded", "Failed", true);
    check("coracle-agent/0.1.0", &[], "Failed", "Failed", false);
    check("kubelet/v1.36", &["system:nodes"], "Running", "Failed", true);
    // Whoever else may write statuses changes what he likes, as in Kubernetes.
    check("kubectl/v1.36", &[], "Running", "Running", false);
}

#[test]
fn what_nobody_would_read_is_not_indented() {
    let (serve, store) = serve();
    for (at, is_indented) in [(1, true), (2, true), (3, true), (4, false)] {
        let key = Key { resource: Resource::core("configmaps"), namespace: "a".to_owned(), name: format!("b{at}") };
        let metadata = json!({"name": key.name, "namespace": "a"});
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"x": "x".repeat(INDENTED_BYTES_MAX / 4)},
        });
        store.write(Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() }).expect("it is new");
        let answer = serve.answer(&get("/api/v1/configmaps", &[(header::USER_AGENT, "curl/8.0")]));
        let text = match answer.body {
            Body::Whole(text) => text,
            Body::Long(long) => long.whole(),
            body => panic!("{body:?}"),
        };
        assert_eq!(text.starts_with(b"{\n"), is_indented, "{at}: {} bytes", text.len());
    }
}

#[test]
fn what_an_answer_differs_by() {
    let (serve, _) = serve();
    let check = |path: &str, accepted: &'static str, vary: &[&str], encoding: Option<&str>| {
        let answer = serve.answer(&get(path, &[(header::ACCEPT_ENCODING, accepted)]));
        let said: Vec<&str> =
            answer.headers.get_all(header::VARY).iter().filter_map(|value| value.to_str().ok()).collect();
        let encoded = answer.headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        assert_eq!((&*said, encoded), (vary, encoding), "{path} {accepted}");
    };
    check("/openapi/v2", "gzip", &["Accept", "Accept-Encoding"], Some("gzip"));
    check("/openapi/v2", "", &["Accept", "Accept-Encoding"], None);
    check("/api", "gzip", &["Accept"], None);
    check("/api/v1/pods", "gzip", &[], None);
}

/// Every route there is, by the discovery: each resource and subresource with each of its verbs, and what is no
/// resource.
pub fn routes(serve: &Serve) -> Vec<(Method, String)> {
    let mut routes = Vec::new();
    for kind in serve.registry.kinds().iter() {
        let root =
            if kind.resource.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", kind.api_version()) };
        let all = format!("{root}{}/{}", if kind.namespaced { "/namespaces/a" } else { "" }, kind.resource.plural);
        let at = |verb: &kinds::Verb, named: &str| match verb {
            kinds::Verb::Create => vec![(Method::POST, all.clone())],
            kinds::Verb::Get => vec![(Method::GET, named.to_owned()), (Method::HEAD, named.to_owned())],
            kinds::Verb::List => vec![(Method::GET, all.clone())],
            kinds::Verb::Watch => vec![(Method::GET, format!("{all}?watch=1"))],
            kinds::Verb::Update => vec![(Method::PUT, named.to_owned())],
            kinds::Verb::Patch => vec![(Method::PATCH, named.to_owned())],
            kinds::Verb::Delete => vec![(Method::DELETE, named.to_owned())],
            kinds::Verb::DeleteCollection => vec![(Method::DELETE, all.clone())],
        };
        routes.extend(kind.verbs.iter().flat_map(|verb| at(verb, &format!("{all}/b"))));
        for part in &kind.subresources {
            let named = format!("{all}/b/{}", part.name);
            let posted = |routes: Vec<(Method, String)>| routes.into_iter().map(|(method, _)| (method, named.clone()));
            routes.extend(part.verbs.iter().flat_map(|verb| posted(at(verb, &named))));
        }
    }
    let pages = discovery::root(&serve.registry.kinds(), &[]);
    let pages = pages["paths"].as_array().expect("paths").iter().filter_map(serde_json::Value::as_str);
    routes.extend(pages.map(|path| (Method::GET, path.to_owned())));
    for (method, path) in [
        (Method::GET, "/"),
        (Method::GET, "/nowhere"),
        (Method::POST, "/api/v1/pods"),
        (Method::GET, "/api/v1/namespaces/a/pods/%zz"),
        (Method::GET, "/api/v1beta1/pods"),
        (Method::GET, "/api/v1beta1/operations/1"),
        (Method::GET, "/api/v1/nodes/b/proxy/pods"),
        (Method::POST, "/api/v1/proxy/namespaces/a/services/b/c"),
        (Method::GET, "/proxy/minion/b/pods"),
        (Method::GET, "/openapi/v3/apis/apps/v1"),
        (Method::GET, page::BACKUP),
        (Method::POST, page::FLUSH),
        (Method::POST, page::RESEAL),
        (Method::GET, page::ADOPTION),
        (Method::POST, page::ADOPTION),
        (Method::GET, page::PROBLEMS),
        (Method::GET, "/apis/example.com/v1/namespaces/a/things/b"),
        (Method::GET, "/api/v1/nodes/b/stats/summary"),
        (Method::OPTIONS, "/api/v1/namespaces/a/pods"),
        (Method::GET, "/readyz/store"),
    ] {
        routes.push((method, path.to_owned()));
    }
    routes
}

#[test]
fn nothing_is_answered_before_who_asks_is_known_and_may() {
    let (serve, store) = serve();
    let serve = serve.authorized_by(|_: &Attributes, identity: &Identity| {
        Decision::NoOpinion(format!("{} may nothing", identity.groups.join(",")))
    });
    let before = store.revision();
    let ask = |method: Method, path: &str| {
        let identity =
            Arc::new(coracle_http::Identity { user: "eve".into(), groups: vec!["g".into()], ..Default::default() });
        let target = path.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
        let (headers, body) = (HeaderMap::new(), Bytes::from_static(b"{no JSON"));
        let answer = serve.answer(&Request { method, target, headers, body, caller: Caller::Local, identity });
        let Body::Whole(body) = answer.body else { panic!("{path}: a refusal is whole") };
        (answer.status.as_u16(), String::from_utf8_lossy(&body).into_owned())
    };
    let routes = routes(&serve);
    assert!(routes.len() > 500, "{}", routes.len());
    for (method, path) in routes {
        let (code, body) = ask(method.clone(), &path);
        assert!(
            code == 403 && body.contains("eve") && body.contains("g may nothing"),
            "{method} {path}: {code} {body}"
        );
    }
    assert_eq!(store.revision(), before);
    for path in ["/healthz", "/livez", "/readyz?verbose"] {
        assert_eq!(ask(Method::GET, path), (200, "ok".to_owned()), "{path}");
    }
}

/// A request that is allowed and has this body.
fn send(serve: &Serve, method: Method, path: &str, content_type: &'static str, body: Vec<u8>) -> (u16, String) {
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))].into_iter().collect();
    let target = path.parse().unwrap_or_else(|error| panic!("{path}: {error}"));
    let identity = Arc::default();
    let answer = serve.answer(&Request { method, target, headers, body: body.into(), caller: Caller::Local, identity });
    let Body::Whole(body) = answer.body else { panic!("{path}: it is whole") };
    (answer.status.as_u16(), String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn a_body_in_protobuf_may_leave_its_kind_unsaid() {
    use coracle_schema::protobuf::{encode, seal};
    let (serve, _) = serve();
    let kinds = serve.registry.kinds();
    let kind = kinds.by_resource(&Resource::core("namespaces")).expect("a row");
    for (api_version, said, code) in
        [("v1", "Namespace", 201), ("", "", 201), ("", "Namespace", 201), ("v1", "Pod", 400)]
    {
        let name = format!("n{}{}", api_version, said.to_lowercase());
        let raw = encode(&kind.types, &kind.type_name, &json!({"metadata": {"name": name}}));
        let body = seal(api_version, said, |out| out.extend_from_slice(&raw));
        let (answered, text) =
            send(&serve, Method::POST, "/api/v1/namespaces", "application/vnd.kubernetes.protobuf", body);
        assert_eq!(answered, code, "{api_version:?} {said:?}: {text}");
        assert!(code != 201 || text.contains(&format!("\"name\":\"{name}\"")), "{text}");
    }
}

/// A PUT with a different uid means a different object, which is a conflict; a patch would give this object the
/// uid.
#[test]
fn no_patch_changes_a_uid() {
    let (serve, store) = serve();
    let kinds = serve.registry.kinds();
    let patched = kinds.stored().filter(|kind| kind.verbs.contains(&kinds::Verb::Patch));
    let (mut count, mut wrong) = (0, Vec::new());
    for kind in patched {
        let namespace = if kind.namespaced { "a" } else { "" };
        let key = Key { resource: kind.resource.clone(), namespace: namespace.to_owned(), name: "b".to_owned() };
        let mut object =
            json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "b", "uid": "u1"}});
        if kind.namespaced {
            object["metadata"]["namespace"] = namespace.into();
        }
        // Without this field, no other field of a slice is checked.
        if kind.resource.plural == "endpointslices" {
            object["addressType"] = "IPv4".into();
        }
        store.write(Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() }).expect("it is new");
        let root =
            if kind.resource.group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{}", kind.api_version()) };
        let path = format!("{root}{}/{}/b", if kind.namespaced { "/namespaces/a" } else { "" }, kind.resource.plural);
        let patch = br#"{"metadata": {"uid": "u2"}}"#.to_vec();
        let (code, text) = send(&serve, Method::PATCH, &path, "application/merge-patch+json", patch);
        if code != 422 || !text.contains("metadata.uid") {
            wrong.push(format!("{path}: {code} {text}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 30, "{count} kinds");
}

#[test]
fn reviews_tell_who_asks() {
    let (serve, _) = serve();
    let serve = serve.authorized_by(|attributes: &Attributes, identity: &Identity| match attributes {
        Attributes::Resource { verb, .. } if identity.user == "eve" && verb == "delete" => {
            Decision::NoOpinion("she may not".to_owned())
        }
        _ => Decision::Allowed(String::new()),
    });
    let ask = |group: &str, plural: &str, spec: serde_json::Value| {
        let identity =
            Arc::new(coracle_http::Identity { user: "eve".into(), groups: vec!["g".into()], ..Default::default() });
        let body = json!({"spec": spec}).to_string().into();
        let target = format!("/apis/{group}/v1/{plural}").parse().expect("a path");
        let request =
            Request { method: Method::POST, target, headers: HeaderMap::new(), body, caller: Caller::Local, identity };
        let Body::Whole(body) = serve.answer(&request).body else { panic!("it is whole") };
        serde_json::from_slice::<serde_json::Value>(&body).expect("JSON")["status"].take()
    };
    let (authentication, authorization) = ("authentication.k8s.io", "authorization.k8s.io");
    let whoever = json!({"userInfo": {"username": "eve", "groups": ["g"]}});
    assert_eq!(ask(authentication, "selfsubjectreviews", json!({})), whoever);
    let delete = json!({"verb": "delete", "resource": "pods", "namespace": "a"});
    let refused = json!({"allowed": false, "reason": "she may not"});
    assert_eq!(ask(authorization, "selfsubjectaccessreviews", json!({"resourceAttributes": delete})), refused);
    assert_eq!(
        ask(authorization, "subjectaccessreviews", json!({"resourceAttributes": delete, "user": "adam"})),
        json!({"allowed": true})
    );
    assert_eq!(
        ask(authorization, "subjectaccessreviews", json!({"resourceAttributes": delete, "user": "eve"})),
        refused
    );
}

/// The code, the message and the warnings of the answer to an identity.
fn by(
    serve: &Serve,
    identity: &Identity,
    (method, path): (Method, &str),
    body: &serde_json::Value,
) -> (u16, String, String) {
    let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let headers = [(header::CONTENT_TYPE, HeaderValue::from_static(content_type))].into_iter().collect();
    let (target, body) = (path.parse().expect("a path"), body.to_string().into());
    let identity = Arc::new(identity.clone());
    let answer = serve.answer(&Request { method, target, headers, body, caller: Caller::Local, identity });
    let warnings = answer.headers.get_all(header::WARNING).iter().filter_map(|value| value.to_str().ok());
    let warnings = warnings.collect::<Vec<_>>().join("\n");
    let Body::Whole(whole) = answer.body else { panic!("{path}: the answer is whole") };
    let whole: serde_json::Value = serde_json::from_slice(&whole).expect("JSON");
    (answer.status.as_u16(), whole["message"].as_str().unwrap_or_default().to_owned(), warnings)
}

#[test]
fn levels_of_pod_security_reach_clients() {
    let (serve, _) = serve();
    let admin = Identity::administrator();
    let ask = |method: Method, path: &str, body: serde_json::Value| by(&serve, &admin, (method, path), &body);
    let level =
        |level: &str| json!({"metadata": {"name": "n", "labels": {"pod-security.kubernetes.io/enforce": level}}});
    let pod = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"automountServiceAccountToken": false, "containers": [
            {"name": "c", "image": "i", "securityContext": {"privileged": true}}]}})
    };
    let (code, why, _) = ask(Method::POST, "/api/v1/namespaces", level("nope"));
    assert_eq!(code, 422, "{why}");
    assert!(why.ends_with("Invalid value: \"nope\": must be one of privileged, baseline, restricted"), "{why}");
    assert_eq!(ask(Method::POST, "/api/v1/namespaces", level("privileged")).0, 201);
    assert_eq!(ask(Method::POST, "/api/v1/namespaces/n/pods", pod("before")).0, 201);
    let (code, _, warnings) = ask(Method::PATCH, "/api/v1/namespaces/n", level("baseline"));
    let told = "299 - \"existing pods in namespace \\\"n\\\" violate the new PodSecurity enforce level \
                \\\"baseline:latest\\\"\"\n299 - \"before: privileged\"";
    assert_eq!((code, warnings.as_str()), (200, told));
    let (code, why, _) = ask(Method::POST, "/api/v1/namespaces/n/pods", pod("after"));
    assert_eq!(code, 403);
    assert_eq!(
        why,
        "pods \"after\" is forbidden: violates PodSecurity \"baseline:latest\": privileged (container \"c\" must \
         not set securityContext.privileged=true)"
    );
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": template}});
    let (code, why, warnings) = ask(Method::POST, "/apis/apps/v1/namespaces/n/deployments", deployment);
    assert_eq!(code, 201, "{why}");
    assert!(warnings.contains("would violate PodSecurity"), "{warnings}");
}

#[test]
fn a_loud_source_of_events_is_told_to_wait() {
    let (serve, _) = serve();
    serve.registry.ensure_namespace("default").expect("a namespace");
    let event = |name: &str, about: &str| {
        json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default",
            "name": about}, "reason": "r", "type": "Normal"})
    };
    let ask = |name: &str, about: &str| {
        let path = (Method::POST, "/api/v1/namespaces/default/events");
        by(&serve, &Identity::administrator(), path, &event(name, about))
    };
    for n in 0..50 {
        assert_eq!(ask(&n.to_string(), "loud").0, 201, "{n}");
    }
    // The clock may let one more through.
    let refused = (50..60).map(|n| ask(&n.to_string(), "loud")).find(|(code, ..)| *code == 429);
    let why = refused.map(|(_, why, _)| why).unwrap_or_default();
    assert!(why.starts_with("Too many requests: limit reached on type SourceAndObject for key Pod"), "{why}");
    assert_eq!(ask("other", "quiet").0, 201);
}

#[test]
fn a_node_evicts_and_deletes_its_own_pods_only() {
    let (serve, _) = serve();
    serve.registry.ensure_namespace("default").expect("a namespace");
    let node =
        Identity { user: "system:node:n1".to_owned(), groups: vec!["system:nodes".to_owned()], ..Identity::default() };
    let pods = "/api/v1/namespaces/default/pods";
    for (name, node) in [("a", "n1"), ("b", "n2")] {
        let pod = json!({"metadata": {"name": name}, "spec": {
            "nodeName": node, "automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(by(&serve, &Identity::administrator(), (Method::POST, pods), &pod).0, 201, "{name}");
    }
    let evict = |pod: &str, named: &str| {
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": named}});
        by(&serve, &node, (Method::POST, &format!("{pods}/{pod}/eviction")), &body)
    };
    let (code, why, _) = evict("b", "b");
    let words = "pods \"b\" is forbidden: node n1 can only evict pods with spec.nodeName set to itself";
    assert_eq!((code, why.as_str()), (403, words));
    assert_eq!(evict("a", "other").0, 400);
    let delete = |pod: &str| {
        by(
            &serve,
            &node,
            (Method::DELETE, &format!("{pods}/{pod}")),
            &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
        )
    };
    let (code, why, _) = delete("b");
    let words = "pods \"b\" is forbidden: node \"n1\" can only delete pods with spec.nodeName set to itself";
    assert_eq!((code, why.as_str()), (403, words));
    assert_eq!(delete("a").0, 200);
}
