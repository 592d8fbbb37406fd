//! Reviews of authentication and authorization: the server answers a create and stores nothing. PURE.
//!
//! Whoever serves them puts the answer of the authorizer in the place of the empty one.

use super::checks::full;
use super::rules::{BuiltinStrategy, Rules};
use super::{general, inner, label_selector};
use crate::meta::Time;
use crate::strategy::doc::{has, is_empty, list, text};
use crate::types::{MACHINERY, MOVED};
use coracle_schema::order::in_type_order;
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The identity of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Writes the status of a review. Error: the missing part of the review.
pub type Answer = fn(&mut Value, &Asker, Time) -> Result<(), &'static str>;

/// The strategy of reviews: they have no name.
pub static REVIEW: BuiltinStrategy = BuiltinStrategy { validate, ..general::strategy::<true, false>() };

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
                found.push(of_path(spec, &path, "cannot be specified in combination with resourceAttributes"));
            }
            _ => {}
        }
    }
    if matches!(kind, "SubjectAccessReview" | "LocalSubjectAccessReview")
        && is_empty(&spec["user"])
        && is_empty(&spec["groups"])
    {
        found.push(Problem::invalid(&path.field("user"), "", "at least one of user or group must be specified"));
    }
    if kind.ends_with("AccessReview") {
        found.extend(nameless(&review["metadata"], kind == "LocalSubjectAccessReview"));
        if kind == "LocalSubjectAccessReview" {
            found.extend(local(review, &path));
        }
        for part in ["fieldSelector", "labelSelector"] {
            let selector = &spec["resourceAttributes"][part];
            found.extend(narrowed(selector, part == "labelSelector", &path.field("resourceAttributes").field(part)));
        }
    }
    found
}

/// A question about access has nothing that an object has, but perhaps a place.
fn nameless(meta: &Value, placed: bool) -> Option<Problem> {
    let allowed = |field: &str| field == "managedFields" || placed && field == "namespace";
    let said = meta.as_object().into_iter().flatten().any(|(field, value)| !allowed(field) && !is_empty(value));
    let words = if placed { "must be empty except for namespace" } else { "must be empty" };
    let shown = || in_type_order(&MACHINERY, "ObjectMeta", meta, None, &MOVED);
    said.then(|| Problem::invalid(&Path::new("metadata"), meta.clone(), words).showing(shown()))
}

/// A question about a path where it may not be asked.
fn of_path(spec: &Value, path: &Path, words: &str) -> Problem {
    let field = "nonResourceAttributes";
    inner::invalid("authorization.v1.NonResourceAttributes", &path.field(field), &spec[field], words)
}

/// Checks the selector of a request: a raw text or a list of requirements. Rules with an operator of a later version
/// are let through.
fn narrowed(selector: &Value, labels: bool, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    if !selector.is_object() {
        return found;
    }
    let (raw, rules) = (text(selector, "rawSelector"), list(selector, "requirements"));
    let at = path.field("requirements");
    if !raw.is_empty() && !rules.is_empty() {
        found.push(Problem::invalid(
            &path.field("rawSelector"),
            raw,
            "may not specified at the same time as requirements",
        ));
    }
    if raw.is_empty() && rules.is_empty() {
        found
            .push(Problem::required(&at, format!("when {path} is specified, requirements or rawSelector is required")));
    }
    for (n, rule) in rules.iter().enumerate() {
        if full(&found) {
            break;
        }
        let at = at.index(n);
        if labels {
            found.extend(label_selector::expression(rule, &at, true));
        } else {
            if text(rule, "key").is_empty() {
                found.push(Problem::required(&at.field("key"), "must be specified"));
            }
            found.extend(label_selector::operator(rule, &at, true));
        }
    }
    found
}

/// Checks a local review: the review asks only about the namespace of the review itself.
fn local(review: &Value, path: &Path) -> Vec<Problem> {
    let (spec, namespace) = (&review["spec"], text(&review["metadata"], "namespace"));
    let asked = text(&spec["resourceAttributes"], "namespace");
    let mut found = Vec::new();
    if has(spec, "resourceAttributes") && asked != namespace {
        let path = path.field("resourceAttributes").field("namespace");
        found.push(Problem::invalid(&path, asked, "must match metadata.namespace"));
    }
    if has(spec, "nonResourceAttributes") {
        found.push(of_path(spec, path, "disallowed on this kind of request"));
    }
    found
}

pub fn who_am_i(review: &mut Value, asker: &Asker, now: Time) -> Result<(), &'static str> {
    review["metadata"]["creationTimestamp"] = now.to_string().into();
    let mut user = json!({"username": asker.name, "groups": asker.groups});
    if !asker.uid.is_empty() {
        user["uid"] = asker.uid.clone().into();
    }
    if !asker.extra.is_empty() {
        user["extra"] = json!(asker.extra);
    }
    review["status"] = json!({"userInfo": user});
    Ok(())
}

/// No tokens are given out yet, so none is anybody's.
pub fn whose_token(review: &mut Value, _asker: &Asker, _: Time) -> Result<(), &'static str> {
    if is_empty(&review["spec"]["token"]) {
        return Err("token is required for TokenReview in authentication");
    }
    review["status"] = json!({"user": {}, "error": "no tokens are known"});
    Ok(())
}

pub fn may_i(review: &mut Value, _asker: &Asker, _: Time) -> Result<(), &'static str> {
    review["status"] = json!({"allowed": false});
    Ok(())
}

pub fn may_they(review: &mut Value, _asker: &Asker, _: Time) -> Result<(), &'static str> {
    review["status"] = json!({"allowed": false});
    Ok(())
}

pub fn what_may_i(review: &mut Value, _asker: &Asker, _: Time) -> Result<(), &'static str> {
    if is_empty(&review["spec"]["namespace"]) {
        return Err("no namespace on request");
    }
    review["status"] = json!({"resourceRules": [], "nonResourceRules": [], "incomplete": true});
    Ok(())
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
        let one = "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or \
                   resourceAttributes must be specified";
        check("SelfSubjectAccessReview", json!({}), &[one]);
        check("SelfSubjectAccessReview", json!({"resourceAttributes": {"verb": "get"}}), &[]);
        let both = "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/x\",\"Verb\":\"\"}: cannot be specified \
                    in combination with resourceAttributes";
        check(
            "SelfSubjectAccessReview",
            json!({"resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"path": "/x"}}),
            &[both],
        );
        let nobody = "spec.user: Invalid value: \"\": at least one of user or group must be specified";
        check("SubjectAccessReview", json!({"resourceAttributes": {"verb": "get"}}), &[nobody]);
        check("SelfSubjectRulesReview", json!({}), &[]);
        let elsewhere = "spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace";
        let of = |namespace: &str| json!({"user": "u", "resourceAttributes": {"verb": "get", "namespace": namespace}});
        check("LocalSubjectAccessReview", of("other"), &[elsewhere]);
        check("LocalSubjectAccessReview", of(""), &[]);
        let narrowed = |fields: Value, labels: Value| {
            json!({
                "resourceAttributes": {"fieldSelector": fields, "labelSelector": labels},
            })
        };
        let neither = "spec.resourceAttributes.fieldSelector.requirements: Required value: when \
                       spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required";
        let twice = "spec.resourceAttributes.labelSelector.rawSelector: Invalid value: \"a\": may not specified at the \
                     same time as requirements";
        let rule = json!({"key": "a", "operator": "Later"});
        check(
            "SelfSubjectAccessReview",
            narrowed(json!({}), json!({"rawSelector": "a", "requirements": [rule]})),
            &[neither, twice],
        );
        let keyless = "spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified";
        let valueless = "spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be \
                         specified when `operator` is 'In' or 'NotIn'";
        check(
            "SelfSubjectAccessReview",
            narrowed(json!({"requirements": [{"operator": "In"}]}), Value::Null),
            &[keyless, valueless],
        );
    }

    #[test]
    fn nothing_of_an_object() {
        fn check(kind: &str, meta: Value, expected: &[&str]) {
            let spec = json!({"user": "u", "resourceAttributes": {"verb": "get", "namespace": "n"}});
            let found = validate(&json!({"kind": kind, "metadata": meta, "spec": spec}), Rules::default());
            assert_eq!(found.iter().map(Problem::to_string).collect::<Vec<_>>(), expected, "{kind}");
        }
        check("SubjectAccessReview", json!({"managedFields": [{}], "labels": {}}), &[]);
        check(
            "SubjectAccessReview",
            json!({"name": "x"}),
            &["metadata: Invalid value: {\"name\":\"x\"}: must be empty"],
        );
        check("LocalSubjectAccessReview", json!({"namespace": "n"}), &[]);
        let labelled = "metadata: Invalid value: {\"namespace\":\"n\",\"labels\":{\"a\":\"b\"}}: must be empty except \
                        for namespace";
        check("LocalSubjectAccessReview", json!({"namespace": "n", "labels": {"a": "b"}}), &[labelled]);
    }

    #[test]
    fn the_answers() {
        let asker = Asker {
            name: "admin".into(),
            uid: String::new(),
            groups: vec!["system:masters".into()],
            ..Asker::default()
        };
        let answered = |answer: Answer| {
            let mut review = json!({"spec": {"namespace": "n", "token": "t"}});
            answer(&mut review, &asker, Time::from_seconds(0).unwrap()).unwrap();
            review["status"].take()
        };
        assert_eq!(answered(who_am_i), json!({"userInfo": {"username": "admin", "groups": ["system:masters"]}}));
        assert_eq!(answered(may_i), json!({"allowed": false}));
        assert_eq!(answered(what_may_i)["incomplete"], true);
        assert_eq!(
            what_may_i(&mut json!({"spec": {}}), &asker, Time::from_seconds(0).unwrap()),
            Err("no namespace on request")
        );
    }
}
