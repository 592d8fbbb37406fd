//! A running master takes rights away from requests in progress, records who asked for what, and counts refusals.

use crate::transcript::{Bed, Reply, ask};
use coracle_master::audit::{AuditLevel, AuditOptions};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Rights that ended are noticed after some seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

fn bed(deny: bool) -> (Bed, SocketAddr) {
    let bed = Bed::set_up(|config| {
        let file = Some(config.data_dir.with_file_name("audit.log"));
        config.audit = AuditOptions { level: AuditLevel::Writes, file };
        config.deny_service_external_ips = deny;
        config.workloads = false;
    });
    let address = bed.address();
    (bed, address)
}

fn sent(address: SocketAddr, method: &str, path: &str, token: Option<&str>, body: &Value) -> Reply {
    let stream = TcpStream::connect(address).expect("a connection");
    let mut headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
    headers.extend(token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}"))));
    let body = if body.is_null() { String::new() } else { body.to_string() };
    ask(Box::new(stream), method, path, &headers, &body)
}

fn made(address: SocketAddr, path: &str, body: &Value) -> Value {
    let reply = sent(address, "POST", path, None, body);
    assert_eq!(reply.code, 201, "{path}: {}", String::from_utf8_lossy(&reply.body));
    serde_json::from_slice(&reply.body).expect("JSON")
}

/// The token of an account that may watch ConfigMaps.
fn account(address: SocketAddr) -> String {
    let core = "/api/v1/namespaces/default";
    made(address, &format!("{core}/serviceaccounts"), &json!({"metadata": {"name": "watcher"}}));
    let token = made(address, &format!("{core}/serviceaccounts/watcher/token"), &json!({"spec": {}}));
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    made(address, &format!("{RBAC}/roles"), &json!({"metadata": {"name": "watch"}, "rules": rules}));
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "watch"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "watch"},
        "subjects": [{"kind": "ServiceAccount", "name": "watcher", "namespace": "default"}],
    });
    made(address, &format!("{RBAC}/rolebindings"), &binding);
    token["status"]["token"].as_str().expect("a token").to_owned()
}

/// A watch whose answer has begun.
fn watch(address: SocketAddr, token: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0";
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{shown}\r\n").expect("it is taken");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
    stream
}

#[test]
fn a_watch_ends_with_the_right_to_it() {
    let (bed, address) = bed(false);
    let token = account(address);
    let (mut theirs, mut other) = (watch(address, Some(&token)), watch(address, None));
    assert_eq!(sent(address, "DELETE", &format!("{RBAC}/rolebindings/watch"), None, &Value::Null).code, 200);
    let mut rest = Vec::new();
    let ended = theirs.read_to_end(&mut rest).map_err(|error| error.kind());
    assert!(!matches!(ended, Err(std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)), "{ended:?}");
    let configmap = json!({"metadata": {"name": "seen"}});
    made(address, "/api/v1/namespaces/default/configmaps", &configmap);
    let mut seen = Vec::new();
    let mut bytes = [0; 1024];
    while !String::from_utf8_lossy(&seen).contains("\"seen\"") {
        let read = other.read(&mut bytes).expect("the watch of another user goes on");
        assert!(read > 0, "the watch of another user goes on");
        seen.extend_from_slice(&bytes[..read]);
    }
    drop(bed);
}

#[test]
fn who_asked_for_what_is_recorded_and_refusals_are_counted() {
    let (bed, address) = bed(true);
    let token = account(address);
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(sent(address, "GET", secrets, Some(&token), &Value::Null).code, 403);
    assert_eq!(sent(address, "GET", secrets, Some("nobodys"), &Value::Null).code, 401);
    let spec = json!({"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]});
    let service = json!({"metadata": {"name": "taker"}, "spec": spec});
    let refused = sent(address, "POST", "/api/v1/namespaces/default/services", None, &service);
    assert_eq!(refused.code, 403, "{}", String::from_utf8_lossy(&refused.body));
    let id = refused.headers.iter().find(|(name, _)| name == "audit-id").map(|(_, id)| id.clone());
    // Lines are written by a thread of their own.
    let asked = Instant::now();
    let metrics = loop {
        let metrics = String::from_utf8(sent(address, "GET", "/metrics", None, &Value::Null).body).expect("text");
        if metrics.contains("apiserver_audit_event_total 7") || asked.elapsed() > PATIENCE {
            break metrics;
        }
    };
    let written = fs::read_to_string(bed.folder.join("audit.log")).expect("an audit log");
    let lines: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: Vec<Value> = lines
        .iter()
        .map(|line| {
            json!([
                line["user"]["username"],
                line["verb"],
                line["objectRef"]["resource"],
                line["responseStatus"]["code"]
            ])
        })
        .collect();
    let account = "system:serviceaccount:default:watcher";
    assert_eq!(
        told,
        [
            json!(["system:admin", "create", "serviceaccounts", 201]),
            json!(["system:admin", "create", "serviceaccounts", 201]),
            json!(["system:admin", "create", "roles", 201]),
            json!(["system:admin", "create", "rolebindings", 201]),
            json!([account, "list", "secrets", 403]),
            json!([null, "get", null, 401]),
            json!(["system:admin", "create", "services", 403]),
        ]
    );
    assert_eq!(lines.last().map(|line| line["auditID"].clone()), id.map(Value::from));
    assert!(!written.contains(&token) && !written.contains("nobodys"));
    for line in
        ["coracle_refused_requests_total{code=\"401\",reason=\"unidentified\"} ", "apiserver_audit_event_total 7"]
    {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}
