//! Questions that are answered and not stored: who somebody is, what they may do. PURE.
//!
//! There are no rules of access yet: whoever reaches the server may do all of it, so that is what the answers say.

use super::{Rules, Strategy, general};
use crate::meta::Time;
use crate::strategy::doc::{has, is_empty, map_at, text};
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
}

impl Asker {
    /// Nobody shows who they are yet, and whoever may speak to the server may do everything.
    pub fn administrator() -> Asker {
        let groups = ["system:masters", "system:authenticated"];
        Asker { name: "system:admin".to_owned(), uid: String::new(), groups: groups.map(str::to_owned).to_vec() }
    }
}

/// Writes the status of a question.
pub type Answer = fn(&mut Value, &Asker, Time);

/// Of questions: they have no name.
pub static REVIEW: Strategy = Strategy { validate, ..general::strategy::<true, false>() };

/// Either a resource or a path is asked about.
fn validate(review: &Value, _rules: Rules) -> Vec<Problem> {
    let (spec, path) = (&review["spec"], Path::new("spec"));
    let kind = review["kind"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    if kind.ends_with("AccessReview") {
        match (has(spec, "resourceAttributes"), has(spec, "nonResourceAttributes")) {
            (false, false) => {
                let words = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                found.push(Problem::invalid(&path.field("resourceAttributes"), Value::Null, words));
            }
            (true, true) => {
                let words = "cannot be specified in combination with resourceAttributes";
                found.push(Problem::invalid(&path.field("nonResourceAttributes"), spec["nonResourceAttributes"].clone(), words));
            }
            _ => {}
        }
    }
    if matches!(kind, "SubjectAccessReview" | "LocalSubjectAccessReview") && is_empty(&spec["user"]) && is_empty(&spec["groups"]) {
        found.push(Problem::invalid(&path.field("user"), "", "at least one of user or group must be specified"));
    }
    if kind == "LocalSubjectAccessReview" {
        found.extend(local(review, &path));
    }
    if kind == "TokenReview" && is_empty(&spec["token"]) {
        found.push(Problem::required(&path.field("token"), ""));
    }
    found
}

/// One about a namespace is asked in it.
fn local(review: &Value, path: &Path) -> Vec<Problem> {
    let (spec, namespace) = (&review["spec"], text(&review["metadata"], "namespace"));
    let asked = text(&spec["resourceAttributes"], "namespace");
    let mut found = Vec::new();
    if has(spec, "resourceAttributes") && asked != namespace {
        let path = path.field("resourceAttributes").field("namespace");
        found.push(Problem::invalid(&path, asked, "must match metadata.namespace"));
    }
    if has(spec, "nonResourceAttributes") {
        let path = path.field("nonResourceAttributes");
        found.push(Problem::invalid(&path, spec["nonResourceAttributes"].clone(), "disallowed on this kind of request"));
    }
    found
}

pub fn who_am_i(review: &mut Value, asker: &Asker, now: Time) {
    review["metadata"]["creationTimestamp"] = now.to_string().into();
    let mut user = json!({"username": asker.name, "groups": asker.groups});
    if !asker.uid.is_empty() {
        user["uid"] = asker.uid.clone().into();
    }
    review["status"] = json!({"userInfo": user});
}

/// No tokens are given out yet, so none is anybody's.
pub fn whose_token(review: &mut Value, _asker: &Asker, _: Time) {
    review["status"] = json!({"user": {}, "error": "no tokens are known"});
}

pub fn may_i(review: &mut Value, _asker: &Asker, _: Time) {
    review["status"] = json!({"allowed": true});
}

pub fn may_they(review: &mut Value, _asker: &Asker, _: Time) {
    review["status"] = json!({"allowed": true});
}

pub fn what_may_i(review: &mut Value, _asker: &Asker, _: Time) {
    map_at(review, "status");
    review["status"] = json!({
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": false,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked() {
        fn check(kind: &str, spec: Value, expected: &[&str]) {
            let found = validate(&json!({"kind": kind, "spec": spec}), Rules::default());
            assert_eq!(found.iter().map(Problem::to_string).collect::<Vec<_>>(), expected, "{kind}");
        }
        let one =
            "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified";
        check("SelfSubjectAccessReview", json!({}), &[one]);
        check("SelfSubjectAccessReview", json!({"resourceAttributes": {"verb": "get"}}), &[]);
        let both =
            "spec.nonResourceAttributes: Invalid value: {\"path\":\"/x\"}: cannot be specified in combination with resourceAttributes";
        check("SelfSubjectAccessReview", json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/x"}}), &[both]);
        let nobody = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
        check("SubjectAccessReview", json!({"resourceAttributes": {"verb": "get"}}), &[nobody]);
        check("SelfSubjectRulesReview", json!({}), &[]);
        let elsewhere = "spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace";
        let of = |namespace: &str| json!({"user": "u", "resourceAttributes": {"verb": "get", "namespace": namespace}});
        check("LocalSubjectAccessReview", of("other"), &[elsewhere]);
        check("LocalSubjectAccessReview", of(""), &[]);
    }

    #[test]
    fn the_answers() {
        let asker = Asker { name: "admin".into(), uid: String::new(), groups: vec!["system:masters".into()] };
        let answered = |answer: Answer| {
            let mut review = json!({"spec": {}});
            answer(&mut review, &asker, Time::from_seconds(0).unwrap());
            review["status"].take()
        };
        assert_eq!(answered(who_am_i), json!({"userInfo": {"username": "admin", "groups": ["system:masters"]}}));
        assert_eq!(answered(may_i), json!({"allowed": true}));
        assert_eq!(answered(what_may_i)["incomplete"], false);
    }
}
