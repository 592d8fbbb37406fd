//! What the audit log is told of a request while the request is answered.

use super::Serve;
use crate::audit::{AuditEvent, Outcome};
use crate::authorize::Attributes;
use crate::call::{self, Route, RouteError, Told};
use crate::fault::Fault;
use crate::making;
use coracle_http::network::RefusedRequest;
use coracle_http::{Answer, Body, HeaderMap, HeaderName, HeaderValue, Identity, Request, header};
use std::sync::Arc;

/// The header by which an answer names its line.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// A client may choose the id, so that it finds the line of its request.
const ID_BYTES_MAX: usize = 64;

/// Of a request, gathered on its way.
#[derive(Default)]
pub struct Trail {
    /// When the request came. None: nothing is recorded.
    received: Option<String>,
    pub attributes: Option<Attributes>,
    pub version: String,
    pub acting: Option<Arc<Identity>>,
    pub decision: Option<(bool, String)>,
    pub told: Told,
    reason: String,
    message: String,
}

impl Trail {
    pub fn begin(serve: &Serve) -> Trail {
        let received = serve.audit.is_on().then(making::precise_time);
        Trail { received, ..Trail::default() }
    }

    pub fn is_kept(&self) -> bool {
        self.received.is_some()
    }

    /// The version of the API that a route belongs to.
    pub fn goes_to(&mut self, route: &Result<Route<'_>, RouteError>) {
        let (kind, version) = match route {
            Ok(Route::Object(call)) => (call.shown, call.version),
            Ok(Route::ProxyRequest(through)) => (through.kind, through.version),
            Ok(Route::Page(_) | Route::Upkeep(_)) | Err(_) => return,
        };
        let named = if version == call::Version::V1 { &*kind.version } else { version.name() };
        self.version = named.to_owned();
    }

    /// The message of a refusal of the identity. The messages of other refusals may repeat values of a document.
    pub fn failed(&mut self, fault: &Fault) {
        if !self.is_kept() {
            return;
        }
        self.reason = fault.status.reason.map(|reason| format!("{reason:?}")).unwrap_or_default();
        if matches!(fault.status.code, 401 | 403) {
            self.message.clone_from(&fault.status.message);
        }
    }
}

impl Serve {
    /// Records a request that was answered, and names the line in the answer.
    pub(super) fn record(&self, request: &Request, trail: Trail, answer: &mut Answer) {
        let (Some(received), Some(attributes)) = (&trail.received, &trail.attributes) else { return };
        let streams = matches!(answer.body, Body::Stream(_) | Body::Forward(_) | Body::Upgrade(_));
        let (reason, message) = (trail.reason, trail.message);
        let (code, is_dry_run) = (answer.status.as_u16(), trail.told.is_rehearsal());
        let outcome = Outcome { code, reason, message, streams, is_dry_run };
        let client = &*request.identity;
        let Some(left_out) = self.audit.records(attributes, client, &outcome) else { return };
        let id = chosen_id(&request.headers).unwrap_or_else(|| self.registry.maker.uuid());
        self.audit.record(&AuditEvent {
            id: &id,
            method: request.method.as_str(),
            path: request.target.path(),
            user_agent: text(&request.headers, &header::USER_AGENT),
            caller: &request.caller,
            client: Some(client),
            acting: trail.acting.as_deref(),
            attributes: Some(attributes),
            version: &trail.version,
            name: &trail.told.name,
            outcome: &outcome,
            decision: trail.decision.as_ref().map(|(allowed, why)| (*allowed, why.as_str())),
            notes: &trail.told.notes,
            left_out,
            received,
            answered: &making::precise_time(),
        });
        if let Ok(id) = HeaderValue::from_str(&id) {
            answer.headers.insert(AUDIT_ID, id);
        }
    }

    /// Records a request that a port refused.
    pub fn refused(&self, refused: &RefusedRequest<'_>) {
        if !self.audit.is_on() {
            return;
        }
        let RefusedRequest { caller, method, path, code, why } = *refused;
        let reason = if code == 401 { "Unauthorized" } else { "Forbidden" };
        let outcome = Outcome { code, reason: reason.to_owned(), message: why.to_owned(), ..Outcome::default() };
        let verb = method.to_ascii_lowercase();
        let attributes = Attributes::Path { verb, path: path.to_owned() };
        let nobody = Identity::none();
        let Some(left_out) = self.audit.records(&attributes, &nobody, &outcome) else { return };
        let now = making::precise_time();
        self.audit.record(&AuditEvent {
            id: &self.registry.maker.uuid(),
            method,
            path,
            user_agent: "",
            caller,
            client: None,
            acting: None,
            attributes: None,
            version: "",
            name: "",
            outcome: &outcome,
            decision: None,
            notes: &[],
            left_out,
            received: &now,
            answered: &now,
        });
    }
}

/// The id that a client gives its request.
fn chosen_id(headers: &HeaderMap) -> Option<String> {
    let chosen = text(headers, &AUDIT_ID);
    let fits = !chosen.is_empty() && chosen.len() <= ID_BYTES_MAX;
    fits.then(|| chosen.to_owned())
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::access_tests::{bind, governed, identity};
    use super::*;
    use crate::audit::{Audit, AuditLevel, AuditOptions};
    use bytes::Bytes;
    use coracle_http::Method;
    use serde_json::{Value, json};
    use std::path::PathBuf;

    /// A master that records into a file.
    struct Recorded {
        serve: Serve,
        path: PathBuf,
    }

    impl Recorded {
        fn new(name: &str, level: AuditLevel) -> Recorded {
            let path = std::env::temp_dir().join(format!("coracle-audited-{name}-{}", std::process::id()));
            std::fs::remove_file(&path).ok();
            let (registry, _) = governed();
            bind(&registry, ("a", "ann"), "edit");
            let options = AuditOptions { level, file: Some(path.clone()) };
            let audit = Arc::new(Audit::start(options).expect("a thread"));
            Recorded { serve: Serve::new(registry, None).recorded_by(audit), path }
        }

        /// The code, and the id of its line.
        fn ask(&self, user: &str, request: &str, body: &Value, fields: &[(&'static str, &str)]) -> (u16, String) {
            let (method, target) = request.split_once(' ').expect("a method");
            let groups = if user == "root" { "system:masters" } else { "system:authenticated" };
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"));
            }
            let answer = self.serve.answer(&Request {
                method: Method::from_bytes(method.as_bytes()).expect("a method"),
                target: target.parse().expect("a path"),
                headers,
                body: Bytes::from(body.to_string()),
                caller: coracle_http::Caller::Network { address: ([10, 0, 0, 9], 1234).into() },
                identity: identity(user, &[groups]),
            });
            (answer.status.as_u16(), text(&answer.headers, &AUDIT_ID).to_owned())
        }

        fn lines(&self) -> Vec<Value> {
            self.serve.audit.flush();
            let written = std::fs::read_to_string(&self.path).unwrap_or_default();
            written.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
        }
    }

    impl Drop for Recorded {
        fn drop(&mut self) {
            std::fs::remove_file(&self.path).ok();
        }
    }

    const SECRET: &str = "c3dvcmRmaXNo";

    #[test]
    fn writes_and_refusals_have_a_line_and_no_secret() {
        let recorded = Recorded::new("writes", AuditLevel::Writes);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "s-"},
            "data": {"key": SECRET}});
        let secrets = "/api/v1/namespaces/a/secrets";
        let (code, id) = recorded.ask("ann", &format!("POST {secrets}"), &secret, &[("audit-id", "chosen")]);
        assert_eq!((code, id.as_str()), (201, "chosen"));
        let wrong = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "data": {"key": "%%"}});
        assert!(recorded.ask("ann", &format!("POST {secrets}"), &wrong, &[]).0 >= 400);
        assert_eq!(recorded.ask("ann", &format!("GET {secrets}"), &Value::Null, &[]), (200, String::new()));
        assert_eq!(recorded.ask("bob", &format!("GET {secrets}"), &Value::Null, &[]).0, 403);
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}});
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
        let account = "system:serviceaccount:kube-system:x";
        bind(&recorded.serve.registry, ("kube-system", account), "admin");
        assert!(recorded.ask(account, &format!("POST {leases}"), &lease, &[]).0 < 500);
        let acts = [("impersonate-user", "ann")];
        let removal = format!("DELETE {secrets}?dryRun=All");
        recorded.ask("root", &removal, &Value::Null, &acts);
        let lines = recorded.lines();
        let told: Vec<Value> = lines
            .iter()
            .map(|line| {
                json!([
                    line["user"]["username"],
                    line["verb"],
                    line["responseStatus"]["code"],
                    line["annotations"]["authorization.k8s.io/decision"]
                ])
            })
            .collect();
        let refused_lease = lines.iter().any(|line| line["objectRef"]["resource"] == "leases");
        assert!(!refused_lease, "{lines:#?}");
        assert_eq!(told.len(), 4, "{lines:#?}");
        assert_eq!(told[0], json!(["ann", "create", 201, "allow"]));
        assert_eq!((&told[1][1], &told[1][3]), (&json!("create"), &json!("allow")));
        assert_eq!(told[2], json!(["bob", "list", 403, "forbid"]));
        assert_eq!((&told[3][0], &told[3][1]), (&json!("root"), &json!("deletecollection")));
        assert_eq!(lines[0]["auditID"], "chosen");
        assert!(lines[0]["objectRef"]["name"].as_str().is_some_and(|name| name.starts_with("s-")), "{:#}", lines[0]);
        assert_eq!(lines[0]["sourceIPs"], json!(["10.0.0.9"]));
        assert!(lines[0]["annotations"]["authorization.k8s.io/reason"].as_str().is_some_and(|why| why.contains("ann")));
        assert!(lines[2]["responseStatus"]["message"].as_str().is_some_and(|why| why.contains("cannot list")));
        assert_eq!(lines[3]["impersonatedUser"]["username"], "ann");
        assert_eq!(lines[3]["requestURI"], format!("{secrets}?dryRun=All"));
        let written = std::fs::read_to_string(&recorded.path).expect("a file");
        assert!(!written.contains(SECRET) && !written.contains("%%"), "{written}");
    }

    #[test]
    fn what_was_rehearsed_is_marked_whatever_the_client_says() {
        let recorded = Recorded::new("rehearsed", AuditLevel::Writes);
        let (secrets, accounts) = ("/api/v1/namespaces/a/secrets", "/api/v1/namespaces/a/serviceaccounts");
        let named = |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        recorded.ask("root", &format!("POST {accounts}"), &named("ServiceAccount", "x"), &[]);
        let (secret, options) = (named("Secret", "s"), json!({"dryRun": ["All"]}));
        for (request, body, marked) in [
            (format!("POST {secrets}?dryRun=All"), &secret, true),
            (format!("POST {secrets}?dryRun=%41ll"), &secret, true),
            (format!("POST {secrets}"), &secret, false),
            (format!("DELETE {secrets}/s"), &options, true),
            (format!("DELETE {secrets}"), &options, true),
            (format!("DELETE {secrets}/s?x&dryRun=All"), &Value::Null, true),
            // They know no rehearsal.
            (format!("POST {accounts}/x/token?dryRun=All"), &json!({}), false),
            ("POST /api/v1/namespaces/a/pods/p/exec?command=x&dryRun=All".to_owned(), &Value::Null, false),
        ] {
            let code = recorded.ask("root", &request, body, &[]).0;
            let line = recorded.lines().pop().expect("a line");
            let is_marked = line["requestURI"].as_str().is_some_and(|uri| uri.ends_with("?dryRun=All"));
            assert_eq!(is_marked, marked, "{request} {code}: {line:#}");
        }
    }

    #[test]
    fn who_changes_nothing_pushes_out_no_line_of_others() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        for (user, request, body, code) in [
            ("ann", "POST /api/v1/namespaces/a/configmaps?dryRun=All", &map, 201),
            ("ann", "DELETE /api/v1/namespaces/a/configmaps/none", &Value::Null, 404),
            ("root", "DELETE /api/v1/namespaces/a/configmaps/none", &Value::Null, 404),
        ] {
            let recorded = Recorded::new("nothing", AuditLevel::Writes);
            (0..150).for_each(|_| assert_eq!(recorded.ask(user, request, body, &[]).0, code, "{request}"));
            let count = recorded.lines().len();
            assert!((60..120).contains(&count), "{user} {request}: {count}");
            assert_eq!(recorded.ask(user, "POST /api/v1/namespaces/a/configmaps", &map, &[]).0, 201);
            assert_eq!(recorded.lines().len(), count + 1, "a change is never left out");
        }
    }

    #[test]
    fn admission_has_its_notes() {
        let recorded = Recorded::new("notes", AuditLevel::Writes);
        let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/audit": "restricted"}}});
        let patch = [("content-type", "application/merge-patch+json")];
        assert_eq!(recorded.ask("root", "PATCH /api/v1/namespaces/a", &labels, &patch).0, 200);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        assert_eq!(recorded.ask("ann", "POST /api/v1/namespaces/a/pods", &pod, &[]).0, 201);
        let lines = recorded.lines();
        let notes = lines[1]["annotations"].as_object().expect("annotations");
        assert!(notes.contains_key("pod-security.kubernetes.io/audit-violations"), "{notes:?}");
    }

    #[test]
    fn all_has_reads_too() {
        let recorded = Recorded::new("all", AuditLevel::All);
        assert_ne!(recorded.ask("ann", "GET /api/v1/namespaces/a/pods?watch=1", &Value::Null, &[]).1, "");
        recorded.ask("ann", "GET /healthz", &Value::Null, &[]);
        let lines = recorded.lines();
        assert_eq!(lines.len(), 1);
        assert_eq!((&lines[0]["verb"], &lines[0]["stage"]), (&json!("watch"), &json!("ResponseStarted")));
    }

    #[test]
    fn a_port_tells_of_wrong_credentials() {
        let recorded = Recorded::new("port", AuditLevel::Writes);
        let caller = coracle_http::Caller::Network { address: ([10, 0, 0, 9], 1).into() };
        let refused =
            RefusedRequest { caller: &caller, method: "GET", path: "/api/v1", code: 401, why: "Unauthorized" };
        recorded.serve.refused(&refused);
        let lines = recorded.lines();
        assert_eq!((&lines[0]["user"], &lines[0]["responseStatus"]["code"]), (&json!({}), &json!(401)));
        assert_eq!(recorded.serve.audit.figures().recorded, 1);
    }
}
