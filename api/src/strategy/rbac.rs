//! Roles, and who has them. Names may hold colons and blanks: `system:node`.

use super::checks::{full, supported_text};
use super::doc::{has, is_empty, list, list_at, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules};
use super::{general, names};
use coracle_schema::{Path, Problem, Reason};
use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";

pub static ROLE: BuiltinStrategy = BuiltinStrategy {
    validate: |role, rules| with_rules(role, Scope::Namespaced, rules),
    validate_update: |new, old, rules| {
        general::changed(new, old, rules, |role, rules| with_rules(role, Scope::Namespaced, rules))
    },
    ..general::strategy::<false, false>()
};
pub static CLUSTER_ROLE: BuiltinStrategy = BuiltinStrategy {
    validate: cluster_role,
    validate_update: |new, old, rules| general::changed(new, old, rules, cluster_role),
    ..general::strategy::<true, false>()
};
pub static ROLE_BINDING: BuiltinStrategy = BuiltinStrategy {
    create: bind,
    update: rebind,
    validate: |binding, rules| binds(binding, Scope::Namespaced, rules),
    validate_update: |new, old, rules| {
        same_role(new, old, rules, |binding, rules| binds(binding, Scope::Namespaced, rules))
    },
    ..general::strategy::<false, false>()
};
pub static CLUSTER_ROLE_BINDING: BuiltinStrategy = BuiltinStrategy {
    create: bind,
    update: rebind,
    validate: |binding, rules| binds(binding, Scope::Cluster, rules),
    validate_update: |new, old, rules| {
        same_role(new, old, rules, |binding, rules| binds(binding, Scope::Cluster, rules))
    },
    ..general::strategy::<true, false>()
};

fn bind(binding: &mut Value, making: &mut Making<'_>) {
    subjects(binding);
    general::create::<false>(binding, making);
}

fn rebind(new: &mut Value, old: &Value, making: &mut Making<'_>) {
    subjects(new);
    general::update::<false>(new, old, making);
}

/// Users and groups are words of this group.
fn subjects(binding: &mut Value) {
    for subject in list_at(binding, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") && is_empty(&subject["apiGroup"]) {
            subject["apiGroup"] = GROUP.into();
        }
    }
}

/// Names that can stand in a path. NUL cannot.
pub fn segment(name: &str) -> names::Faults {
    const NEVER: [(char, &str); 3] = [('/', "/"), ('%', "%"), ('\0', "\\x00")];
    match name {
        "." => vec!["may not be '.'".into()],
        ".." => vec!["may not be '..'".into()],
        _ => NEVER
            .iter()
            .filter(|(bad, _)| name.contains(*bad))
            .map(|(_, shown)| format!("may not contain '{shown}'"))
            .collect(),
    }
}

fn with_rules(role: &Value, scope: Scope, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(role, scope, segment, rules);
    for (at, rule) in list(role, "rules").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(of_rule(rule, scope, &Path::new("rules").index(at)));
    }
    found
}

fn of_rule(rule: &Value, scope: Scope, path: &Path) -> Vec<Problem> {
    let none = |field: &str| list(rule, field).is_empty();
    let mut found = Vec::new();
    if none("verbs") {
        found.push(Problem::required(&path.field("verbs"), "verbs must contain at least one value"));
    }
    if !none("nonResourceURLs") {
        let at = path.field("nonResourceURLs");
        let mixed = !none("apiGroups") || !none("resources") || !none("resourceNames");
        if scope == Scope::Namespaced {
            let words = "namespaced rules cannot apply to non-resource URLs";
            found.push(Problem::invalid(&at, rule["nonResourceURLs"].clone(), words));
        }
        if mixed {
            let words = "rules cannot apply to both regular resources and non-resource URLs";
            found.push(Problem::invalid(&at, rule["nonResourceURLs"].clone(), words));
        }
        return found;
    }
    if none("apiGroups") {
        found.push(Problem::required(&path.field("apiGroups"), "resource rules must supply at least one api group"));
    }
    if none("resources") {
        found.push(Problem::required(&path.field("resources"), "resource rules must supply at least one resource"));
    }
    found
}

fn cluster_role(role: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = with_rules(role, Scope::Cluster, rules);
    if has(role, "aggregationRule") {
        let path = Path::new("aggregationRule.clusterRoleSelectors");
        let selectors = list(&role["aggregationRule"], "clusterRoleSelectors");
        if selectors.is_empty() {
            let words = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            found.push(Problem::required(&path, words));
        }
        for (at, selector) in selectors.iter().enumerate() {
            if full(&found) {
                break;
            }
            let path = path.index(at);
            let of_selector = super::label_selector::validate(selector, rules, &path);
            let bad = !of_selector.is_empty();
            found.extend(of_selector);
            found.extend(bad.then(|| Problem::invalid(&path, Value::Null, "invalid label selector.")));
        }
    }
    found
}

fn binds(binding: &Value, scope: Scope, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(binding, scope, segment, rules);
    let (role, path) = (&binding["roleRef"], Path::new("roleRef"));
    let not_one = |path: Path, value: &str, of: &[&str]| {
        Problem::new(&path, Reason::NotSupported, Some(value.into()), supported_text(of))
    };
    if text(role, "apiGroup") != GROUP {
        found.push(not_one(path.field("apiGroup"), text(role, "apiGroup"), &[GROUP]));
    }
    let kinds: &[&str] = if scope == Scope::Namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        found.push(not_one(path.field("kind"), text(role, "kind"), kinds));
    }
    if text(role, "name").is_empty() {
        found.push(Problem::required(&path.field("name"), ""));
    } else {
        found.extend(names::problems(&path.field("name"), text(role, "name"), segment(text(role, "name"))));
    }
    for (at, subject) in list(binding, "subjects").iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(of_subject(subject, scope, &Path::new("subjects").index(at)));
    }
    found
}

fn of_subject(subject: &Value, scope: Scope, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        found.push(Problem::required(&path.field("name"), ""));
    }
    let group_is = |wanted: &str| {
        let problem = || {
            Problem::new(&path.field("apiGroup"), Reason::NotSupported, Some(group.into()), supported_text(&[wanted]))
        };
        (group != wanted).then(problem)
    };
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                found.extend(names::problems(&path.field("name"), name, names::subdomain(name)));
            }
            found.extend(group_is(""));
            if scope == Scope::Cluster && text(subject, "namespace").is_empty() {
                found.push(Problem::required(&path.field("namespace"), ""));
            }
        }
        "User" | "Group" => found.extend(group_is(GROUP)),
        other => {
            let words = supported_text(&["ServiceAccount", "User", "Group"]);
            found.push(Problem::new(&path.field("kind"), Reason::NotSupported, Some(other.into()), words));
        }
    }
    found
}

fn same_role(new: &Value, old: &Value, rules: Rules, validate: fn(&Value, Rules) -> Vec<Problem>) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, validate);
    if new["roleRef"] != old["roleRef"] {
        let role = &new["roleRef"];
        let shown = json!({"APIGroup": role["apiGroup"], "Kind": role["kind"], "Name": role["name"]});
        found.push(Problem::invalid(&Path::new("roleRef"), shown, "cannot change roleRef"));
    }
    found
}
