//! Which requests are recorded. PURE.

use crate::authorize::Attributes;
use coracle_api::meta::Resource;
use coracle_http::Identity;

/// What the configuration asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditLevel {
    #[default]
    Off,
    /// Writes and refusals, without what nodes and programs write all the time.
    Writes,
    /// Every request but those for health.
    All,
}

/// A request that was answered.
pub(super) struct Asked<'a> {
    pub(super) attributes: &'a Attributes,
    pub(super) client: &'a Identity,
    pub(super) code: u16,
}

const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
/// Whatever their method, they act inside a pod.
const ENTRIES: [&str; 3] = ["exec", "attach", "portforward"];
/// Questions that are asked by a create, and change nothing.
const QUESTIONS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];
/// A backup holds all Secrets.
const UPKEEP: &str = "/coracle/";
/// The names of programs of a cluster begin like this.
const PROGRAMS: [&str; 2] = ["system:serviceaccount:", "system:kube-"];
const SIGNATURES: &str = "certificates.k8s.io";

/// 401 and 403: because of who asks.
fn is_refusal(code: u16) -> bool {
    matches!(code, 401 | 403)
}

pub(super) fn is_recorded(level: AuditLevel, asked: &Asked<'_>) -> bool {
    match level {
        AuditLevel::Off => false,
        AuditLevel::Writes => is_refusal(asked.code) || (is_write(asked.attributes) && !is_usual(asked)),
        AuditLevel::All => !is_health(asked.attributes) || is_refusal(asked.code),
    }
}

fn is_health(attributes: &Attributes) -> bool {
    match attributes {
        Attributes::Path { path, .. } => HEALTH.iter().any(|health| path.starts_with(health)),
        Attributes::Resource { .. } => false,
    }
}

fn is_write(attributes: &Attributes) -> bool {
    match attributes {
        Attributes::Resource { verb, resource, subresource, .. } => {
            let question = QUESTIONS.contains(&&*resource.group) && subresource.is_empty();
            (WRITES.contains(&verb.as_str()) && !question) || ENTRIES.contains(&subresource.as_str())
        }
        Attributes::Path { verb, path } => {
            path.starts_with(UPKEEP) || !["get", "head", "options"].contains(&verb.as_str())
        }
    }
}

/// What nodes and programs write all the time: leases, events, statuses, and nodes the tokens of their pods. A quiet
/// host records nothing of it. The agent of this host names its node; root by the same socket does not.
fn is_usual(asked: &Asked<'_>) -> bool {
    let Attributes::Resource { resource, subresource, .. } = asked.attributes else { return false };
    let Resource { group, plural } = resource;
    let node = asked.client.is_node();
    let program = node || PROGRAMS.iter().any(|name| asked.client.user.starts_with(name));
    match (&**group, &**plural, subresource.as_str()) {
        ("coordination.k8s.io", "leases", "") | ("" | "events.k8s.io", "events", "") => program,
        // Of a request it is the certificate.
        (group, _, "status") => program && group != SIGNATURES,
        ("", "serviceaccounts", "token") => node,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Attributes {
        let (verb, rest) = text.split_once(' ').expect("a verb");
        if rest.starts_with('/') {
            return Attributes::Path { verb: verb.to_owned(), path: rest.to_owned() };
        }
        let (resource, subresource) = rest.split_once('/').unwrap_or((rest, ""));
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let resource = Resource { group: group.to_owned().into(), plural: plural.to_owned().into() };
        Attributes::resource(verb, &resource, subresource, ("a", "b"))
    }

    #[test]
    fn what_is_recorded() {
        let identity = |user: &str| match user {
            "root" => Identity::administrator(),
            "agent" => Identity::agent("n"),
            "system:node:n" => {
                Identity { user: user.to_owned(), groups: vec!["system:nodes".to_owned()], ..Identity::none() }
            }
            user => Identity { user: user.to_owned(), ..Identity::none() },
        };
        let (ann, node, account) = ("ann", "system:node:n", "system:serviceaccount:a:b");
        let (root, agent) = ("root", "agent");
        // The code; whether it stands among the writes, and among all.
        for (what, user, code, writes, all) in [
            ("create pods", ann, 201, true, true),
            ("create pods", ann, 422, true, true),
            ("get pods", ann, 200, false, true),
            ("get secrets", ann, 403, true, true),
            ("get secrets", ann, 404, false, true),
            ("watch pods", ann, 200, false, true),
            ("get pods/exec", ann, 101, true, true),
            ("get pods/proxy", ann, 200, false, true),
            ("create pods/proxy", ann, 200, true, true),
            ("create subjectaccessreviews.authorization.k8s.io", account, 201, false, true),
            ("create tokenreviews.authentication.k8s.io", account, 201, false, true),
            ("create serviceaccounts/token", ann, 201, true, true),
            ("create serviceaccounts/token", node, 201, false, true),
            ("create serviceaccounts/token", agent, 201, false, true),
            ("create serviceaccounts/token", root, 201, true, true),
            ("create serviceaccounts/token", account, 201, true, true),
            ("update leases.coordination.k8s.io", ann, 200, true, true),
            ("update leases.coordination.k8s.io", account, 200, false, true),
            ("update leases.coordination.k8s.io", node, 200, false, true),
            ("update leases.coordination.k8s.io", account, 403, true, true),
            ("update leases.coordination.k8s.io", agent, 200, false, true),
            ("update leases.coordination.k8s.io", root, 200, true, true),
            ("create events", root, 201, true, true),
            ("create events", account, 201, false, true),
            ("patch events.events.k8s.io", "system:kube-scheduler", 200, false, true),
            ("patch pods/status", node, 200, false, true),
            ("patch pods/status", agent, 200, false, true),
            ("patch pods/status", root, 200, true, true),
            ("patch pods/status", ann, 200, true, true),
            ("update certificatesigningrequests.certificates.k8s.io/status", account, 200, true, true),
            ("delete pods", node, 200, true, true),
            ("get /healthz", ann, 200, false, false),
            ("get /readyz", ann, 403, true, true),
            ("get /version", ann, 200, false, true),
            ("get /coracle/backup", ann, 200, true, true),
            ("post /x", ann, 404, true, true),
        ] {
            let (attributes, client) = (of(what), identity(user));
            let asked = Asked { attributes: &attributes, client: &client, code };
            let recorded =
                [AuditLevel::Off, AuditLevel::Writes, AuditLevel::All].map(|level| is_recorded(level, &asked));
            assert_eq!(recorded, [false, writes, all], "{what} {user} {code}");
        }
    }
}
