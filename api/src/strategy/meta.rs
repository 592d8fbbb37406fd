//! The rules of metadata that all kinds share.

use super::checks::full;
use super::creation_token::{CREATION_TOKEN, creation_token_problem};
use super::doc::{copy, default_to, has, is_empty, list, map_at, remove, text, texts};
use super::finalizer::{FOREGROUND, ORPHAN};
use super::rules::{Deleting, Deletion, DeletionPropagation, Making, Rules};
use super::{finalizer, names, owner_references};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::HashSet;

/// Longest base of a generated name; what is longer is cut, so that five random characters fit in a label.
pub const GENERATED_BASE_BYTES_MAX: usize = 58;
/// All annotations of an object together, keys and values.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Sets the metadata of a new object. `generation`: the kind counts generations.
pub fn create(object: &mut Value, making: &mut Making<'_>, generation: bool) {
    let uid = making.uid.clone();
    let now = making.now.to_string();
    let meta = map_at(object, "metadata");
    for wiped in ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"] {
        meta.remove(wiped);
    }
    meta.insert("uid".into(), uid.into());
    meta.insert("creationTimestamp".into(), now.into());
    if generation {
        meta.insert("generation".into(), 1.into());
    }
    tidy(object);
    let base = text(&object["metadata"], "generateName");
    if !base.is_empty() && text(&object["metadata"], "name").is_empty() {
        let cut =
            (0..=GENERATED_BASE_BYTES_MAX.min(base.len())).rev().find(|at| base.is_char_boundary(*at)).unwrap_or(0);
        let name = format!("{}{}", &base[..cut], (making.suffix)());
        object["metadata"]["name"] = name.into();
    }
}

/// Metadata of an update: fields that only the server sets stay as stored, and the generation grows when `changed` and
/// the kind counts generations.
pub fn update(new: &mut Value, old: &Value, changed: bool) {
    map_at(new, "metadata");
    let (was, meta) = (&old["metadata"], &mut new["metadata"]);
    // A different uid in the document stays, so that validation can report the uid.
    default_to(meta, "uid", was["uid"].clone());
    for kept in ["creationTimestamp", "generation"] {
        copy(meta, was, kept);
    }
    // Only a deletion sets these fields. A value that the document adds stays, so that validation can report the value.
    if has(was, "deletionTimestamp") || !has(meta, "deletionTimestamp") {
        copy(meta, was, "deletionTimestamp");
    }
    if !has(meta, "deletionGracePeriodSeconds") {
        copy(meta, was, "deletionGracePeriodSeconds");
    }
    remove(meta, "selfLink");
    remove(meta, "managedFields");
    if let Some(token) = creation_token(was)
        && creation_token(meta).is_none()
    {
        // The creation token belongs to the creation, like the uid: a PUT need not carry the token.
        map_at(meta, "annotations").insert(CREATION_TOKEN.into(), token.into());
    }
    if changed && let Some(generation) = was["generation"].as_i64() {
        meta["generation"] = (generation + 1).into();
    }
    tidy(new);
}

fn creation_token(meta: &Value) -> Option<&str> {
    meta["annotations"][CREATION_TOKEN].as_str()
}

/// An update of the status: the rest as it was, but for what anybody may say in metadata.
pub fn status_update(new: &mut Value, old: &Value) {
    let sent = Value::from_iter([("status", new["status"].take())]);
    part(new, old);
    copy(new, &sent, "status");
}

/// All as it was but the metadata, which follows the rules of any update.
pub fn part(new: &mut Value, old: &Value) {
    let meta = new["metadata"].take();
    *new = old.clone();
    new["metadata"] = meta;
    update(new, old, false);
}

/// All as it was, but for what says which object and revision is meant.
pub fn keep(new: &mut Value, old: &Value) {
    let version = new["metadata"]["resourceVersion"].take();
    let uid = new["metadata"]["uid"].take();
    *new = old.clone();
    for (field, value) in [("resourceVersion", version), ("uid", uid)] {
        if !value.is_null() {
            new["metadata"][field] = value;
        }
    }
}

/// The base for names of what an owner makes: `frontendController` -> `frontendcontroller-`. Ids of 2014 may hold upper
/// case and underscores; the names of their pods may not.
pub fn generated_base(owner: &str) -> String {
    let plain = owner.chars().map(|c| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() || c == '.' => c,
        _ => '-',
    });
    let plain: String = plain.collect();
    format!("{}-", plain.trim_start_matches(['-', '.']))
}

/// The effect of a DELETE on an object without a grace period: finalizers hold it.
pub fn delete(object: &Value, deleting: Deleting) -> Deletion {
    if list(&object["metadata"], "finalizers").is_empty() {
        return Deletion::Remove;
    }
    if has(&object["metadata"], "deletionTimestamp") {
        return Deletion::Mark(object.clone());
    }
    Deletion::Mark(marked(object, deleting.now, 0))
}

/// The object with the finalizers that a deletion gives it. `fate`: the fate of owned objects in the delete request;
/// `default`: the fate if neither the request nor a finalizer sets a fate.
pub fn parting(object: &Value, fate: Option<DeletionPropagation>, default: DeletionPropagation) -> Value {
    let all = list(&object["metadata"], "finalizers");
    let held = |finalizer: &str| all.iter().any(|one| one == finalizer);
    let stands = [DeletionPropagation::Orphan, DeletionPropagation::Foreground]
        .into_iter()
        .find(|fate| fate.finalizer().is_some_and(held));
    let fate = fate.or(stands).unwrap_or(default);
    let mut kept: Vec<Value> = all.iter().filter(|one| *one != ORPHAN && *one != FOREGROUND).cloned().collect();
    kept.extend(fate.finalizer().map(Value::from));
    let mut object = object.clone();
    object["metadata"]["finalizers"] = kept.into();
    tidy(&mut object);
    object
}

/// The object without the given finalizer.
pub fn without_finalizer(object: &Value, finalizer: &str) -> Value {
    let mut object = object.clone();
    if let Some(all) = object["metadata"].get_mut("finalizers").and_then(Value::as_array_mut) {
        all.retain(|one| one != finalizer);
    }
    tidy(&mut object);
    object
}

/// The object without the owner references to these uids.
pub fn without_owners(object: &Value, uids: &[String]) -> Value {
    let mut object = object.clone();
    if let Some(owners) = object["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut) {
        owners.retain(|owner| !uids.iter().any(|uid| owner["uid"] == **uid));
    }
    tidy(&mut object);
    object
}

/// The object with its deletion's time (now and the grace) written down, a generation later.
pub fn marked(object: &Value, now: crate::meta::Time, grace_s: i64) -> Value {
    let mut marked = object.clone();
    let meta = &mut marked["metadata"];
    let at = crate::meta::Time::from_seconds(now.seconds().saturating_add(grace_s)).unwrap_or(now);
    meta["deletionTimestamp"] = at.to_string().into();
    meta["deletionGracePeriodSeconds"] = grace_s.into();
    if let Some(generation) = meta["generation"].as_i64() {
        meta["generation"] = (generation + 1).into();
    }
    marked
}

/// Whether an object being deleted may go now: the grace period is over and no finalizer is left. For updates that take
/// the last finalizer.
pub fn is_released(object: &Value) -> bool {
    let meta = &object["metadata"];
    has(meta, "deletionTimestamp")
        && meta["deletionGracePeriodSeconds"].as_i64() == Some(0)
        && list(meta, "finalizers").is_empty()
}

/// The maximum number of labels in a map that break the rules of v1. Clients of 2014 set only a handful of labels.
const OLD_LABELS_MAX: usize = 64;

/// Where objects of a kind live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Cluster,
    Namespaced,
}

/// The form of a kind's names.
pub type NameRule = fn(&str) -> names::Faults;

/// Every problem of an object's metadata. `scope`: whether the kind lives in namespaces; `name_rule`: the form of its
/// names.
pub fn validate(object: &Value, scope: Scope, name_rule: NameRule, rules: Rules) -> Vec<Problem> {
    let mut problems = validate_any(object, scope, name_rule, rules);
    problems.extend(finalizer::unknown(&object["metadata"]));
    problems
}

/// The same for the few kinds that Kubernetes lets have finalizers that nobody's domain qualifies.
pub fn validate_any(object: &Value, scope: Scope, name_rule: NameRule, rules: Rules) -> Vec<Problem> {
    let meta = &object["metadata"];
    let path = Path::new("metadata");
    let mut problems = Vec::new();
    // What either would have taken stands somewhere by that name: names of roles are no ids of 2014, and good.
    let name_rule = |name: &str| match name_rule(name) {
        faults if faults.is_empty() || !rules.old_names => faults,
        _ => names::old_id(name),
    };
    let base = text(meta, "generateName");
    if !base.is_empty() {
        problems.extend(names::problems(&path.field("generateName"), base, name_rule(&stem(base))));
    }
    let name = text(meta, "name");
    if name.is_empty() {
        problems.push(Problem::required(&path.field("name"), "name or generateName is required"));
    } else {
        problems.extend(names::problems(&path.field("name"), name, name_rule(name)));
    }
    if let Some(generation) = meta["generation"].as_i64().filter(|generation| *generation < 0) {
        problems.push(Problem::invalid(&path.field("generation"), generation, "must be greater than or equal to 0"));
    }
    let namespace = text(meta, "namespace");
    match (scope, namespace.is_empty()) {
        (Scope::Namespaced, true) => problems.push(Problem::required(&path.field("namespace"), "")),
        (Scope::Namespaced, false) => {
            problems.extend(names::problems(&path.field("namespace"), namespace, names::label(namespace)));
        }
        (Scope::Cluster, false) => {
            problems.push(Problem::forbidden(&path.field("namespace"), "not allowed on this type"))
        }
        (Scope::Cluster, true) => {}
    }
    problems.extend(labels(meta, "labels", &path, rules));
    problems.extend(annotations(meta, &path));
    problems.extend(owner_references::validate(meta, &path));
    problems.extend(finalizer::forms(meta));
    problems.extend(creation_token_problem(object));
    problems
}

/// Whatever follows a base makes a good end, so a dash may end it; Kubernetes checks the base with the dash and the
/// character before the dash replaced.
fn stem(base: &str) -> String {
    let cut = base.strip_suffix('-').and_then(|rest| rest.char_indices().next_back());
    cut.map_or_else(|| base.to_owned(), |(at, _)| format!("{}a", &base[..at]))
}

/// Every problem of an update of metadata: a change in a field that clients cannot change. A different uid in a whole
/// document from the client is a conflict of preconditions instead.
pub fn validate_update(new: &Value, old: &Value) -> Vec<Problem> {
    let path = Path::new("metadata");
    let (meta, was) = (&new["metadata"], &old["metadata"]);
    let mut problems = Vec::new();
    for fixed in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if meta[fixed] != was[fixed] && !(is_empty(&meta[fixed]) && is_empty(&was[fixed])) {
            problems.push(Problem::invalid(&path.field(fixed), meta[fixed].clone(), "field is immutable"));
        }
    }
    if let Some(token) = creation_token(meta).filter(|token| creation_token(was) != Some(token)) {
        let path = path.field("annotations").key(CREATION_TOKEN);
        problems.push(Problem::invalid(&path, token, "field is immutable: it names the creation of the object"));
    }
    if has(was, "deletionTimestamp") {
        let held: HashSet<&str> = list(was, "finalizers").iter().filter_map(Value::as_str).collect();
        let added: Vec<&str> =
            list(meta, "finalizers").iter().filter_map(Value::as_str).filter(|one| !held.contains(one)).collect();
        if !added.is_empty() {
            let shown: Vec<String> = added.iter().map(|one| format!("{one:?}")).collect();
            let words = "no new finalizers can be added if the object is being deleted, found new finalizers";
            let problem =
                Problem::forbidden(&path.field("finalizers"), format!("{words} []string{{{}}}", shown.join(", ")));
            // Kubernetes looks at the metadata of an update twice, and tells of this twice.
            problems.extend([problem.clone(), problem]);
        }
    }
    problems
}

/// The problems that `validate` finds in the new object, without those that it finds in the old one at the same place:
/// names that were taken once (through v1beta1) stay good. Only names can be such problems: all further parts of the
/// old object were valid.
pub fn new_problems(new: Vec<Problem>, old: &[Problem]) -> Vec<Problem> {
    let old: HashSet<String> = old.iter().map(Problem::to_string).collect();
    new.into_iter().filter(|problem| !old.contains(&problem.to_string())).collect()
}

/// Checks a map of labels in metadata or in a selector. Labels that only 2014 would take are few, so that looking for
/// what is new in an update stays cheap and whole.
pub fn labels(of: &Value, field: &str, path: &Path, rules: Rules) -> Vec<Problem> {
    let path = path.field(field);
    let mut problems = Vec::new();
    let mut old_style = 0;
    for (key, value) in texts(of, field) {
        if full(&problems) {
            break;
        }
        let (mut of_key, mut of_value) = (names::qualified(key), names::label_value(value));
        if rules.old_names && !(of_key.is_empty() && of_value.is_empty()) {
            (of_key, of_value) = (names::old_label_key(key), names::old_label_value(value));
            old_style += 1;
        } else if rules.old_labels && !of_value.is_empty() {
            of_value = names::old_label_value(value);
            old_style += 1;
        }
        problems.extend(names::problems(&path, key, of_key));
        problems.extend(names::problems(&path, value, of_value));
    }
    if old_style > OLD_LABELS_MAX {
        let words = format!("must have at most {OLD_LABELS_MAX} items that follow no rule of v1");
        problems.push(Problem::new(&path, Reason::TooMany, Some(old_style.into()), words));
    }
    problems
}

pub fn annotations(meta: &Value, path: &Path) -> Vec<Problem> {
    let path = path.field("annotations");
    let mut problems = Vec::new();
    let mut bytes = 0;
    for (key, value) in texts(meta, "annotations") {
        if full(&problems) {
            break;
        }
        problems.extend(names::problems(&path, key, names::qualified(&key.to_ascii_lowercase())));
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        problems.push(Problem::new(
            &path,
            Reason::TooLong,
            None,
            format!("may not be more than {ANNOTATIONS_BYTES_MAX} bytes"),
        ));
    }
    problems
}

/// Empty lists and maps say nothing; an owner named twice is named once.
fn tidy(object: &mut Value) {
    let mut seen = HashSet::new();
    if let Some(owners) = object["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut) {
        owners.retain(|owner| text(owner, "uid").is_empty() || seen.insert(text(owner, "uid").to_owned()));
    }
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        if is_empty(&object["metadata"][field]) {
            remove(&mut object["metadata"], field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn problems() {
        fn check(meta: Value, scope: Scope, rules: Rules, expected: &[&str]) {
            let found = validate(&json!({"metadata": meta}), scope, names::subdomain, rules);
            let found: Vec<String> = found.iter().map(Problem::to_string).collect();
            assert_eq!(found.len(), expected.len(), "{meta}: {found:?}");
            for (found, start) in found.iter().zip(expected) {
                assert!(found.starts_with(start), "{meta}: {found:?} should start {start:?}");
            }
        }
        let (strict, old) = (Rules::default(), Rules { old_names: true, ..Rules::default() });
        let ours = |name: &str| json!({"name": name, "namespace": "default"});
        check(ours("a"), Scope::Namespaced, strict, &[]);
        check(
            ours("frontendController"),
            Scope::Namespaced,
            strict,
            &["metadata.name: Invalid value: \"frontendController\""],
        );
        check(ours("frontendController"), Scope::Namespaced, old, &[]);
        check(ours("a/b"), Scope::Namespaced, old, &["metadata.name: Invalid value: \"a/b\": must consist of letters"]);
        for name in ["system:a", ".hidden", "x~", "\u{e9}", &"x".repeat(300)] {
            let object = json!({"metadata": ours(name)});
            assert_eq!(validate(&object, Scope::Namespaced, super::super::rbac::segment, old), []);
        }
        check(json!({}), Scope::Cluster, strict, &["metadata.name: Required value: name or generateName is required"]);
        check(json!({"name": "a"}), Scope::Namespaced, strict, &["metadata.namespace: Required value"]);
        check(ours("a"), Scope::Cluster, strict, &["metadata.namespace: Forbidden: not allowed on this type"]);
        check(
            json!({"name": "a", "namespace": "B"}),
            Scope::Namespaced,
            old,
            &["metadata.namespace: Invalid value: \"B\""],
        );
        let both = &["metadata.generateName: Invalid value: \"AB-\"", "metadata.name: Invalid value: \"AB-abcde\""];
        check(json!({"generateName": "AB-", "name": "AB-abcde"}), Scope::Cluster, strict, both);
        check(json!({"generateName": "a-", "name": "a-abcde"}), Scope::Cluster, strict, &[]);
        for base in ["a.b.", "a..", "-"] {
            let base_alone = &[&*format!("metadata.generateName: Invalid value: {base:?}")];
            check(json!({"generateName": base, "name": "a"}), Scope::Cluster, strict, base_alone);
        }
        let labels = json!({"name": "a", "labels": {"a b": "c", "d": "e f"}});
        let both =
            &["metadata.labels: Invalid value: \"a b\"", "metadata.labels: Invalid value: \"e f\": a valid label must"];
        check(labels.clone(), Scope::Cluster, strict, both);
        check(labels, Scope::Cluster, old, &["metadata.labels: Invalid value: \"a b\": must not be empty"]);
        let listed = json!({"name": "a", "labels": {"uses": "redisslave,redis-master"}});
        check(listed.clone(), Scope::Cluster, strict, &["metadata.labels: Invalid value: \"redisslave,redis-master\""]);
        for rules in [old, Rules { old_labels: true, ..strict }] {
            check(listed.clone(), Scope::Cluster, rules, &[]);
        }
        let annotations = json!({"name": "a", "annotations": {"a b": "c", "X/y": ""}});
        check(annotations, Scope::Cluster, strict, &["metadata.annotations: Invalid value: \"a b\""]);
        for (token, good) in [("abc-1", true), ("", false), ("a b", false), ("ä", false), (&"x".repeat(254), false)] {
            let meta = json!({"name": "a", "annotations": {super::super::CREATION_TOKEN: token}});
            let expected = "metadata.annotations[coracle.dev/creation-token]: Invalid value";
            check(meta, Scope::Cluster, strict, if good { &[] } else { std::slice::from_ref(&expected) });
        }
    }

    #[test]
    fn a_name_of_2014_stays_good() {
        let old = json!({"metadata": {"name": "frontendController", "labels": {"a": "b c", "uses": "a,b"}}});
        let check = |new: &Value| {
            let of = |object: &Value| validate(object, Scope::Cluster, names::subdomain, Rules::default());
            new_problems(of(new), &of(&old)).len()
        };
        assert_eq!(check(&old), 0);
        let mut more = old.clone();
        more["metadata"]["labels"]["x"] = "y z".into();
        assert_eq!(check(&more), 1);
    }

    #[test]
    fn generated_names() {
        fn check(base: &str, expected: &str) {
            let mut object = json!({"metadata": {"generateName": base}});
            let mut making = Making {
                now: crate::meta::Time::from_seconds(0).unwrap(),
                uid: "u".into(),
                suffix: &mut || "abcde".into(),
                service_address: &mut || None,
                node_port: &mut || None,
            };
            create(&mut object, &mut making, false);
            assert_eq!(object["metadata"]["name"], expected);
        }
        check("web-", "web-abcde");
        check(&"x".repeat(60), &format!("{}abcde", "x".repeat(58)));
        check(&"ä".repeat(30), &format!("{}abcde", "ä".repeat(29)));
        assert_eq!(generated_base("frontendController"), "frontendcontroller-");
        assert_eq!(generated_base("_my_RC.1"), "my-rc.1-");
    }

    #[test]
    fn tokens_are_claims() {
        let object = json!({"metadata": {"namespace": "default", "annotations": {super::super::CREATION_TOKEN: "t"}}});
        let claim = super::super::creation_token("pods", &object).unwrap();
        assert_eq!((&*claim.space, claim.value.as_str()), ("creationToken/pods/default", "t"));
        assert_eq!(super::super::creation_token("pods", &json!({"metadata": {}})), None);
    }

    #[test]
    fn the_last_finalizer_releases() {
        let deleting = Deleting { grace_s: None, now: crate::meta::Time::from_seconds(1_600_000_000).unwrap() };
        assert_eq!(delete(&json!({"metadata": {}}), deleting), Deletion::Remove);
        let Deletion::Mark(held) = delete(&json!({"metadata": {"finalizers": ["a.b/c"], "generation": 1}}), deleting)
        else {
            panic!("a finalizer holds");
        };
        let expected = json!({
            "finalizers": ["a.b/c"], "generation": 2, "deletionTimestamp": "2020-09-13T12:26:40Z",
            "deletionGracePeriodSeconds": 0,
        });
        assert_eq!(held["metadata"], expected);
        assert_eq!(delete(&held, deleting), Deletion::Mark(held.clone()));
        let parted = |object: &Value, fate| {
            parting(object, fate, DeletionPropagation::Background)["metadata"]["finalizers"].clone()
        };
        let waits = parting(&held, Some(DeletionPropagation::Foreground), DeletionPropagation::Background);
        assert_eq!(waits["metadata"]["finalizers"], json!(["a.b/c", "foregroundDeletion"]));
        assert_eq!(parted(&waits, None), json!(["a.b/c", "foregroundDeletion"]), "what was said once holds");
        assert_eq!(parted(&waits, Some(DeletionPropagation::Background)), json!(["a.b/c"]));
        assert_eq!(parted(&waits, Some(DeletionPropagation::Orphan)), json!(["a.b/c", "orphan"]));
        assert_eq!(
            parting(&json!({"metadata": {}}), None, DeletionPropagation::Orphan)["metadata"]["finalizers"],
            json!(["orphan"])
        );
        assert!(!is_released(&held));
        let mut free = held;
        remove(&mut free["metadata"], "finalizers");
        assert!(is_released(&free));
    }
}
