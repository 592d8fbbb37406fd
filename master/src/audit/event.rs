//! The line of a request: an Event of `audit.k8s.io/v1` at level Metadata. PURE.

use crate::authorize::Attributes;
use coracle_http::{Caller, Identity};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// How it was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub code: u16,
    /// `Forbidden`; empty where it is no failure.
    pub reason: String,
    /// Why, of a refusal alone: other messages may repeat values of the request's document.
    pub message: String,
    /// The answer goes on: a watch, a log, a command in a pod.
    pub streams: bool,
    /// Every step was taken but the writing.
    pub is_dry_run: bool,
}

impl Outcome {
    /// Whoever asks for it may ask for it without end.
    pub(super) fn changed_nothing(&self) -> bool {
        self.code >= 400 || self.is_dry_run
    }
}

/// A request and its outcome.
pub struct AuditEvent<'a> {
    pub id: &'a str,
    pub method: &'a str,
    /// Without its query, where a command may stand that is run in a pod.
    pub path: &'a str,
    pub user_agent: &'a str,
    pub caller: &'a Caller,
    /// Whose credentials were shown. None: wrong credentials.
    pub client: Option<&'a Identity>,
    /// As whom the client acts, if it acts as another user.
    pub acting: Option<&'a Identity>,
    /// None: nobody came to look what is asked for.
    pub attributes: Option<&'a Attributes>,
    /// The version of the API in the path; empty of a page.
    pub version: &'a str,
    /// The name of the object where the path has none, as of a create.
    pub name: &'a str,
    pub outcome: &'a Outcome,
    /// Whether it is allowed, and why.
    pub decision: Option<(bool, &'a str)>,
    /// Of admission.
    pub notes: &'a [(&'static str, String)],
    /// Requests of this client that changed nothing and were left out before this one.
    pub left_out: u64,
    /// RFC 3339, with microseconds.
    pub received: &'a str,
    pub answered: &'a str,
}

/// Bytes of a text that a client chooses, as of a path.
const TEXT_BYTES_MAX: usize = 1024;
/// Bytes of a client's name for itself. Every line has it.
const USER_AGENT_BYTES_MAX: usize = 256;

impl AuditEvent<'_> {
    pub(super) fn line(&self) -> String {
        let uri = match self.outcome.is_dry_run {
            true => format!("{}?dryRun=All", clipped(self.path)),
            false => clipped(self.path).to_owned(),
        };
        let mut event = json!({
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": "Metadata",
            "auditID": self.id,
            "stage": if self.outcome.streams { "ResponseStarted" } else { "ResponseComplete" },
            "requestURI": uri,
            "verb": self.verb(),
            "user": self.client.map_or(json!({}), user),
            "responseStatus": self.status(),
            "requestReceivedTimestamp": self.received,
            "stageTimestamp": self.answered,
        });
        if let Some(acting) = self.acting {
            event["impersonatedUser"] = user(acting);
        }
        if let Caller::Network { address } = self.caller {
            event["sourceIPs"] = json!([address.ip().to_canonical().to_string()]);
        }
        if !self.user_agent.is_empty() {
            event["userAgent"] = clipped_to(self.user_agent, USER_AGENT_BYTES_MAX).into();
        }
        if let Some(Attributes::Resource { .. }) = self.attributes {
            event["objectRef"] = self.reference();
        }
        let annotations = self.annotations();
        if !annotations.is_empty() {
            event["annotations"] = json!(annotations);
        }
        event.to_string()
    }

    fn verb(&self) -> String {
        match self.attributes {
            Some(Attributes::Resource { verb, .. } | Attributes::Path { verb, .. }) if !verb.is_empty() => verb.clone(),
            _ => clipped(self.method).to_ascii_lowercase(),
        }
    }

    fn status(&self) -> Value {
        let Outcome { code, reason, message, .. } = self.outcome;
        let mut status = json!({"metadata": {}, "code": code});
        if *code >= 400 {
            status["status"] = "Failure".into();
        }
        for (field, text) in [("reason", reason), ("message", message)] {
            if !text.is_empty() {
                status[field] = text.as_str().into();
            }
        }
        status
    }

    fn reference(&self) -> Value {
        let Some(Attributes::Resource { resource, subresource, namespace, name, .. }) = self.attributes else {
            return Value::Null;
        };
        let name = if name.is_empty() { self.name } else { name };
        let said = [
            ("resource", &*resource.plural),
            ("namespace", namespace),
            ("name", name),
            ("apiGroup", &*resource.group),
            ("apiVersion", self.version),
            ("subresource", subresource),
        ];
        let fields = said.into_iter().filter(|(_, value)| !value.is_empty());
        fields.map(|(field, value)| (field.to_owned(), clipped(value).into())).collect::<Map<String, Value>>().into()
    }

    fn annotations(&self) -> BTreeMap<&str, String> {
        let mut all: BTreeMap<&str, String> = self.notes.iter().map(|(key, value)| (*key, value.clone())).collect();
        if let Some((allowed, reason)) = self.decision {
            let word = if allowed { "allow" } else { "forbid" };
            all.insert("authorization.k8s.io/decision", word.to_owned());
            all.insert("authorization.k8s.io/reason", reason.to_owned());
        }
        if self.left_out > 0 {
            all.insert("coracle.io/refusals-left-out", self.left_out.to_string());
        }
        all
    }
}

fn user(identity: &Identity) -> Value {
    let Identity { user, uid, groups, extra, .. } = identity;
    let mut said = json!({"username": user});
    if !uid.is_empty() {
        said["uid"] = uid.as_str().into();
    }
    if !groups.is_empty() {
        said["groups"] = json!(groups);
    }
    if !extra.is_empty() {
        said["extra"] = json!(extra);
    }
    said
}

fn clipped(text: &str) -> &str {
    clipped_to(text, TEXT_BYTES_MAX)
}

fn clipped_to(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::meta::Resource;

    fn event<'a>(outcome: &'a Outcome, client: &'a Identity, attributes: Option<&'a Attributes>) -> AuditEvent<'a> {
        AuditEvent {
            id: "i",
            method: "POST",
            path: "/api/v1/namespaces/a/pods",
            user_agent: "kubectl/v1.36.0",
            caller: &Caller::Local,
            client: Some(client),
            acting: None,
            attributes,
            version: "v1",
            name: "p",
            outcome,
            decision: Some((true, "RBAC: allowed")),
            notes: &[],
            left_out: 0,
            received: "2026-01-01T00:00:00.000001Z",
            answered: "2026-01-01T00:00:00.000002Z",
        }
    }

    #[test]
    fn a_line_is_an_event_of_kubernetes() {
        let (client, acting) = (Identity::administrator(), Identity { user: "bob".to_owned(), ..Identity::none() });
        let attributes = Attributes::resource("create", &Resource::core("pods"), "", ("a", ""));
        let caller = Caller::Network { address: ([10, 0, 0, 1], 999).into() };
        let outcome = Outcome { code: 201, ..Outcome::default() };
        let notes = [("pod-security.kubernetes.io/enforce-policy", "baseline:latest".to_owned())];
        let line = AuditEvent {
            caller: &caller,
            acting: Some(&acting),
            notes: &notes,
            ..event(&outcome, &client, Some(&attributes))
        }
        .line();
        let said: Value = serde_json::from_str(&line).expect("JSON");
        assert!(!line.contains('\n'));
        assert_eq!(
            said,
            json!({
                "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "i",
                "stage": "ResponseComplete", "requestURI": "/api/v1/namespaces/a/pods", "verb": "create",
                "user": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]},
                "impersonatedUser": {"username": "bob"}, "sourceIPs": ["10.0.0.1"], "userAgent": "kubectl/v1.36.0",
                "objectRef": {"resource": "pods", "namespace": "a", "name": "p", "apiVersion": "v1"},
                "responseStatus": {"metadata": {}, "code": 201},
                "requestReceivedTimestamp": "2026-01-01T00:00:00.000001Z",
                "stageTimestamp": "2026-01-01T00:00:00.000002Z",
                "annotations": {
                    "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "RBAC: allowed",
                    "pod-security.kubernetes.io/enforce-policy": "baseline:latest",
                },
            })
        );
    }

    #[test]
    fn a_client_has_few_words_for_itself() {
        let (outcome, client, name) = (Outcome::default(), Identity::administrator(), "n".repeat(5000));
        let event = AuditEvent { user_agent: &name, ..event(&outcome, &client, None) };
        let said: Value = serde_json::from_str(&event.line()).expect("JSON");
        assert_eq!(said["userAgent"].as_str().map(str::len), Some(USER_AGENT_BYTES_MAX));
    }

    #[test]
    fn of_wrong_credentials_nobody_is_named() {
        let client = Identity::none();
        let (code, reason) = (401, "Unauthorized".to_owned());
        let outcome = Outcome { code, reason: reason.clone(), message: reason, ..Outcome::default() };
        let event = AuditEvent { client: None, decision: None, left_out: 3, ..event(&outcome, &client, None) };
        let said: Value = serde_json::from_str(&event.line()).expect("JSON");
        assert_eq!(said["user"], json!({}));
        assert_eq!(said["objectRef"], Value::Null);
        assert_eq!(said["verb"], "post");
        assert_eq!(said["annotations"], json!({"coracle.io/refusals-left-out": "3"}));
        assert_eq!(said["responseStatus"]["status"], "Failure");
    }
}
