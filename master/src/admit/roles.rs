//! Whoever writes a role or a binding has to hold what it grants, or the right to grant more: the verbs `escalate` and
//! `bind`. PURE.

use super::{AdmissionOperation, AdmissionRequest};
use crate::authorize::{Attributes, MASTERS, Rule, rule};
use coracle_api::meta::{Key, Resource};
use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";
/// Fields of metadata that grant nothing: the server and the garbage collector write them.
const UNGRANTING: [&str; 5] = ["ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"];

/// Why a role or a binding is not written.
#[derive(Debug, PartialEq, Eq)]
pub enum Ungranted {
    Forbidden(String),
    /// Nobody can say what a missing role grants.
    NoRole(String),
}

pub fn granted(request: &AdmissionRequest<'_>, object: &Value) -> Result<(), Ungranted> {
    let Resource { group, plural } = &request.kind.resource;
    if group != GROUP || !request.subresource.is_empty() || request.operation == AdmissionOperation::Delete {
        return Ok(());
    }
    let is_master = request.identity.groups.iter().any(|group| group == MASTERS);
    if is_master || request.old.is_some_and(|old| grants_the_same(old, object)) {
        return Ok(());
    }
    match &**plural {
        "roles" | "clusterroles" => role(request, object),
        "rolebindings" | "clusterrolebindings" => binding(request, object),
        _ => Ok(()),
    }
}

fn grants_the_same(old: &Value, new: &Value) -> bool {
    let granting = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            UNGRANTING.iter().for_each(|field| drop(metadata.remove(*field)));
        }
        object
    };
    granting(old) == granting(new)
}

fn role(request: &AdmissionRequest<'_>, role: &Value) -> Result<(), Ungranted> {
    let place = (request.namespace, request.name);
    if request.may(&Attributes::resource("escalate", &request.kind.resource, "", place)) {
        return Ok(());
    }
    holds(request, &Rule::of(role)).map_err(Ungranted::Forbidden)?;
    let gathers = |role: &Value| role["aggregationRule"].is_object();
    if gathers(role) || request.old.is_some_and(gathers) {
        // It may gather anything.
        let everything = json!({"rules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ]});
        if holds(request, &Rule::of(&everything)).is_err() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(Ungranted::Forbidden(why.to_owned()));
        }
    }
    Ok(())
}

fn binding(request: &AdmissionRequest<'_>, binding: &Value) -> Result<(), Ungranted> {
    let said = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default();
    let (kind, name) = (said("kind"), said("name"));
    let (plural, namespace) = match kind {
        "ClusterRole" => ("clusterroles", ""),
        "Role" => ("roles", request.namespace),
        // The kind's own rules refuse it.
        _ => return Ok(()),
    };
    let resource = Resource { group: said("apiGroup").to_owned().into(), plural: plural.into() };
    if request.may(&Attributes::resource("bind", &resource, "", (request.namespace, name))) {
        return Ok(());
    }
    let resource = Resource { group: GROUP.into(), plural: plural.into() };
    let key = Key { resource, namespace: namespace.to_owned(), name: name.to_owned() };
    match request.view.get(&key) {
        Ok(Some(role)) => holds(request, &Rule::of(&role)).map_err(Ungranted::Forbidden),
        Ok(None) => Err(Ungranted::NoRole(name.to_owned())),
        Err(why) => Err(Ungranted::Forbidden(format!("its role cannot be read: {why}"))),
    }
}

/// Whether the identity has all these rules in the namespace of the request.
fn holds(request: &AdmissionRequest<'_>, wanted: &[Rule]) -> Result<(), String> {
    let own = request.authorizer.rules(request.identity, request.namespace);
    let missing = rule::uncovered(&own.rules, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let (user, groups) = (&request.identity.user, rule::quoted(&request.identity.groups));
    let errors = if own.error.is_empty() { String::new() } else { format!("; resolution errors: [{}]", own.error) };
    Err(format!(
        "user {user:?} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}{errors}",
        rule::lines(missing)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admit::tests::Objects;
    use crate::admit::{AdmissionOptions, Remarks};
    use crate::authorize::{Authorizer, Decision, RuleList};
    use coracle_api::kinds::Kinds;
    use coracle_http::Identity;

    /// Holds these rules, and may do these verbs.
    struct Held(Vec<Rule>, &'static [&'static str]);

    impl Authorizer for Held {
        fn authorize(&self, attributes: &Attributes, _: &Identity) -> Decision {
            let Attributes::Resource { verb, resource, namespace, name, .. } = attributes else {
                return Decision::NoOpinion(String::new());
            };
            let asked = format!("{verb} {} {namespace}/{name}", resource.plural);
            match self.1.contains(&&*asked) {
                true => Decision::Allowed(String::new()),
                false => Decision::NoOpinion(String::new()),
            }
        }

        fn rules(&self, _: &Identity, _: &str) -> RuleList {
            RuleList { rules: self.0.clone(), ..RuleList::default() }
        }
    }

    fn of(plural: &'static str) -> Resource {
        Resource { group: GROUP.into(), plural: plural.into() }
    }

    fn ask(
        plural: &'static str,
        (authorizer, groups): (&Held, &[&str]),
        (old, object): (Option<&Value>, &Value),
    ) -> Result<(), Ungranted> {
        let pods = json!({
            "metadata": {"name": "pods"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
        });
        let view = Objects::default().with(of("clusterroles"), pods);
        let kind = Kinds::builtin().row(&of(plural)).expect("a row");
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        let identity = Identity { user: "alice".to_owned(), groups, ..Identity::none() };
        let (operation, name) = match old {
            None => (AdmissionOperation::Create, ""),
            Some(_) => (AdmissionOperation::Update, "r"),
        };
        let namespace = if kind.namespaced { "n" } else { "" };
        granted(
            &AdmissionRequest {
                view: &view,
                authorizer,
                kind: &kind,
                subresource: "",
                operation,
                namespace,
                name,
                old,
                identity: &identity,
                suffix: None,
                events: None,
                options: AdmissionOptions::default(),
                remarks: &Remarks::default(),
            },
            object,
        )
    }

    #[test]
    fn nobody_grants_more_than_they_hold() {
        let get = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        let role = |rules: Value| json!({"metadata": {"name": "r"}, "rules": rules});
        let (getting, listing) =
            (role(json!([get])), role(json!([get, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])));
        let held = |verbs| Held(Rule::of(&getting), verbs);
        let refused = "user \"alice\" (groups=[\"people\" \"more\"]) is attempting to grant RBAC permissions not \
                       currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}";
        let refused = Err(Ungranted::Forbidden(refused.to_owned()));
        let groups = ["people", "more"];
        assert_eq!(ask("roles", (&held(&[]), &groups), (None, &getting)), Ok(()));
        assert_eq!(ask("roles", (&held(&[]), &groups), (None, &listing)), refused);
        assert_eq!(ask("roles", (&held(&[]), &groups), (Some(&getting), &listing)), refused);
        assert_eq!(ask("roles", (&held(&["escalate roles n/"]), &groups), (None, &listing)), Ok(()));
        assert_eq!(ask("roles", (&held(&["escalate roles n/r"]), &groups), (Some(&getting), &listing)), Ok(()));
        assert_eq!(ask("clusterroles", (&held(&["escalate clusterroles /"]), &groups), (None, &listing)), Ok(()));
        assert_eq!(ask("roles", (&held(&[]), &["system:masters"]), (None, &listing)), Ok(()));
        let mut held_by = listing.clone();
        held_by["metadata"]["finalizers"] = json!(["a/b"]);
        assert_eq!(ask("roles", (&held(&[]), &groups), (Some(&listing), &held_by)), Ok(()));
        held_by["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(ask("roles", (&held(&[]), &groups), (Some(&listing), &held_by)), refused);
    }

    #[test]
    fn who_gathers_may_gather_anything() {
        let gathering = json!({"metadata": {"name": "r"}, "aggregationRule": {"clusterRoleSelectors": [{}]}});
        let everything = json!({"rules": [
            {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["*"], "nonResourceURLs": ["*"]},
        ]});
        let why = "must have cluster-admin privileges to use the aggregationRule";
        let refused = Err(Ungranted::Forbidden(why.to_owned()));
        let plain = json!({"metadata": {"name": "r"}});
        assert_eq!(ask("clusterroles", (&Held(Vec::new(), &[]), &[]), (None, &gathering)), refused);
        assert_eq!(ask("clusterroles", (&Held(Vec::new(), &[]), &[]), (Some(&gathering), &plain)), refused);
        assert_eq!(ask("clusterroles", (&Held(Rule::of(&everything), &[]), &[]), (None, &gathering)), Ok(()));
    }

    #[test]
    fn nobody_binds_more_than_they_hold() {
        let binds = |name: &str| {
            let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": name});
            json!({"metadata": {"name": "b"}, "roleRef": role})
        };
        let all = Rule::of(&json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}));
        let nothing = |verbs| Held(Vec::new(), verbs);
        let ask = |authorizer: &Held, name: &str| ask("rolebindings", (authorizer, &[]), (None, &binds(name)));
        assert_eq!(ask(&Held(all, &[]), "pods"), Ok(()));
        assert!(matches!(ask(&nothing(&[]), "pods"), Err(Ungranted::Forbidden(_))));
        assert_eq!(ask(&nothing(&["bind clusterroles n/pods"]), "pods"), Ok(()));
        assert_eq!(ask(&nothing(&[]), "gone"), Err(Ungranted::NoRole("gone".to_owned())));
        assert_eq!(ask(&nothing(&["bind clusterroles n/gone"]), "gone"), Ok(()));
    }
}
