//! A rule of a role, and whether the rules of one identity cover the rules that it wants to grant. PURE.

use serde_json::{Value, json};
use std::collections::BTreeMap;

const ALL: &str = "*";
/// Simple rules that a missing right is broken down to. A role may name thousands in few bytes.
const BROKEN_MAX: usize = 100_000;

/// A rule about resources, or about paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    /// Empty: all objects.
    pub names: Vec<String>,
    pub paths: Vec<String>,
    pub verbs: Vec<String>,
}

impl Rule {
    /// The rules in a role's document.
    pub fn of(role: &Value) -> Vec<Rule> {
        role["rules"].as_array().into_iter().flatten().map(Rule::read).collect()
    }

    fn read(rule: &Value) -> Rule {
        let texts = |field: &str| {
            let list = rule[field].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Rule {
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
            verbs: texts("verbs"),
        }
    }

    /// The rule as it stands in a role.
    pub fn document(&self) -> Value {
        let mut rule = json!({"verbs": self.verbs});
        for (field, texts) in [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !texts.is_empty() {
                rule[field] = json!(texts);
            }
        }
        rule
    }

    /// Whether it gives all that a simple rule gives.
    fn covers(&self, simple: &Rule) -> bool {
        holds(&self.verbs, &simple.verbs)
            && holds(&self.groups, &simple.groups)
            && simple.resources.iter().all(|resource| self.covers_resource(resource))
            && simple.paths.iter().all(|path| self.paths.iter().any(|own| path_matches(own, path)))
            && match simple.names.is_empty() {
                true => self.names.is_empty(),
                false => self.names.is_empty() || simple.names.iter().all(|name| self.names.contains(name)),
            }
    }

    fn covers_resource(&self, resource: &str) -> bool {
        let of_all = || {
            let (_, part) = resource.split_once('/')?;
            Some(self.resources.iter().any(|own| own.strip_prefix("*/") == Some(part)))
        };
        self.resources.iter().any(|own| own == ALL || own == resource) || of_all().unwrap_or(false)
    }

    /// Rules of one verb, and one resource or path, that give the same together.
    fn broken_down(&self) -> impl Iterator<Item = Rule> {
        let one = |text: &str| vec![text.to_owned()];
        let names: Vec<Vec<String>> =
            if self.names.is_empty() { vec![Vec::new()] } else { self.names.iter().map(|name| one(name)).collect() };
        let pairs = self.groups.iter().flat_map(move |group| self.resources.iter().map(move |of| (group, of)));
        let of_resources = pairs.flat_map(move |(group, resource)| {
            let names = names.clone();
            self.verbs.iter().flat_map(move |verb| {
                let (groups, resources, verbs) = (one(group), one(resource), one(verb));
                names.clone().into_iter().map(move |names| Rule {
                    groups: groups.clone(),
                    resources: resources.clone(),
                    names,
                    paths: Vec::new(),
                    verbs: verbs.clone(),
                })
            })
        });
        let of_paths = self.paths.iter().flat_map(move |path| {
            self.verbs.iter().map(move |verb| Rule { paths: one(path), verbs: one(verb), ..Rule::default() })
        });
        of_resources.chain(of_paths)
    }

    /// As Kubernetes shows a rule in one line.
    fn line(&self) -> String {
        let parts = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let parts = parts.iter().filter(|(_, texts)| !texts.is_empty());
        let parts: Vec<String> = parts.map(|(field, texts)| format!("{field}:{}", quoted(texts))).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// `["a" "b"]`.
pub fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

/// Whether a path of a rule, which may end in a star, is or begins this path.
pub fn path_matches(own: &str, path: &str) -> bool {
    own == ALL || own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

fn holds(own: &[String], asked: &[String]) -> bool {
    own.iter().any(|own| own == ALL) || asked.iter().all(|asked| own.contains(asked))
}

/// The simple rules that `own` does not cover, in the order of `wanted`. A rule that cannot be broken down is missing
/// as a whole.
pub fn uncovered(own: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let mut missing = Vec::new();
    for rule in wanted {
        let count = (rule.groups.len() * rule.resources.len() * rule.names.len().max(1) + rule.paths.len())
            .saturating_mul(rule.verbs.len());
        // Most often one rule covers it as a whole.
        if own.iter().any(|own| own == rule) {
            continue;
        }
        if count > BROKEN_MAX {
            missing.push(rule.clone());
            continue;
        }
        missing.extend(rule.broken_down().filter(|simple| !own.iter().any(|own| own.covers(simple))));
    }
    missing
}

/// Simple rules that differ by their verbs alone become one rule. The others come first.
pub fn compacted(rules: Vec<Rule>) -> Vec<Rule> {
    let (mut all, mut simple): (Vec<Rule>, BTreeMap<Rule, Vec<String>>) = (Vec::new(), BTreeMap::new());
    for rule in rules {
        let is_simple =
            rule.paths.is_empty() && rule.names.len() <= 1 && rule.groups.len() == 1 && rule.resources.len() == 1;
        if is_simple {
            let Rule { verbs, .. } = rule.clone();
            simple.entry(Rule { verbs: Vec::new(), ..rule }).or_default().extend(verbs);
        } else {
            all.push(rule);
        }
    }
    all.extend(simple.into_iter().map(|(rule, verbs)| Rule { verbs, ..rule }));
    all
}

/// Missing rules, a line each, as a refusal shows them.
pub fn lines(missing: Vec<Rule>) -> String {
    let lines: std::collections::BTreeSet<String> = compacted(missing).iter().map(Rule::line).collect();
    lines.into_iter().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(value: Value) -> Vec<Rule> {
        Rule::of(&json!({"rules": value}))
    }

    #[test]
    fn what_is_not_held() {
        let check = |own: Value, wanted: Value, expected: &str| {
            assert_eq!(lines(uncovered(&rules(own.clone()), &rules(wanted.clone()))), expected, "{own} {wanted}");
        };
        fn of(groups: Value, resources: Value, verbs: Value) -> Value {
            json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
        }
        let all = json!([of(json!(["*"]), json!(["*"]), json!(["*"])), {"nonResourceURLs": ["*"], "verbs": ["*"]}]);
        let pods = json!([of(json!([""]), json!(["pods", "configmaps/status"]), json!(["get", "list"]))]);
        check(all.clone(), pods.clone(), "");
        check(all.clone(), all.clone(), "");
        check(pods.clone(), pods.clone(), "");
        check(
            json!([]),
            pods.clone(),
            "{APIGroups:[\"\"], Resources:[\"configmaps/status\"], Verbs:[\"get\" \"list\"]}\n{APIGroups:[\"\"], \
             Resources:[\"pods\"], Verbs:[\"get\" \"list\"]}",
        );
        check(
            json!([of(json!([""]), json!(["*/status", "pods"]), json!(["get"]))]),
            pods.clone(),
            "{APIGroups:[\"\"], Resources:[\"configmaps/status\"], Verbs:[\"list\"]}\n{APIGroups:[\"\"], \
             Resources:[\"pods\"], Verbs:[\"list\"]}",
        );
        let only = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a"], "verbs": ["get"]}]);
        let both =
            json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["a", "b"], "verbs": ["get"]}]);
        check(
            only.clone(),
            both,
            "{APIGroups:[\"\"], Resources:[\"configmaps\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}",
        );
        let any = json!([of(json!([""]), json!(["configmaps"]), json!(["get"]))]);
        check(only.clone(), any.clone(), "{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"get\"]}");
        check(any, only, "");
        let paths = |paths: Value, verbs: Value| json!([{"nonResourceURLs": paths, "verbs": verbs}]);
        check(paths(json!(["/x/*"]), json!(["get"])), paths(json!(["/x/y", "/x/*"]), json!(["get"])), "");
        check(
            paths(json!(["/x/y"]), json!(["get"])),
            paths(json!(["/x/*"]), json!(["get", "post"])),
            "{NonResourceURLs:[\"/x/*\"], Verbs:[\"get\"]}\n{NonResourceURLs:[\"/x/*\"], Verbs:[\"post\"]}",
        );
        check(json!([]), paths(json!(["*"]), json!(["*"])), "{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}");
    }

    #[test]
    fn few_bytes_do_not_become_many_rules() {
        let many: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
        let wanted = rules(json!([{"apiGroups": many, "resources": many, "verbs": ["get"]}]));
        assert_eq!(uncovered(&[], &wanted).len(), 1);
    }
}
