//! A FlowSchema, and the requests that it matches. PURE.

use crate::authorize::Attributes;
use coracle_http::Identity;
use serde_json::Value;
use std::sync::Arc;

const ALL: &str = "*";
const ACCOUNT: &str = "system:serviceaccount:";

/// As it stands in `spec`, read once.
#[derive(Debug)]
pub(super) struct FlowSchema {
    pub(super) name: String,
    /// Empty: it is no stored object.
    pub(super) uid: String,
    /// The lowest is asked first.
    pub(super) precedence: i64,
    pub(super) level: Arc<str>,
    rules: Vec<FlowRule>,
}

/// Who, and any of what.
#[derive(Debug)]
struct FlowRule {
    subjects: Vec<FlowSubject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Debug)]
enum FlowSubject {
    User(String),
    Group(String),
    Account { namespace: String, name: String },
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Vec<String>,
    groups: Vec<String>,
    resources: Vec<String>,
    namespaces: Vec<String>,
    of_cluster: bool,
}

#[derive(Debug)]
struct PathRule {
    verbs: Vec<String>,
    paths: Vec<String>,
}

impl FlowSchema {
    pub(super) fn read(name: &str, uid: &str, spec: &Value) -> FlowSchema {
        let of = |rules: &Value| rules.as_array().into_iter().flatten().map(FlowRule::read).collect();
        FlowSchema {
            name: name.to_owned(),
            uid: uid.to_owned(),
            // As Kubernetes sets it.
            precedence: spec["matchingPrecedence"].as_i64().unwrap_or(1000),
            level: spec["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default().into(),
            rules: of(&spec["rules"]),
        }
    }

    pub(super) fn matches(&self, attributes: &Attributes, identity: &Identity) -> bool {
        self.rules.iter().any(|rule| {
            rule.subjects.iter().any(|subject| subject.is(identity))
                && (rule.resources.iter().any(|rule| rule.matches(attributes))
                    || rule.paths.iter().any(|rule| rule.matches(attributes)))
        })
    }
}

impl FlowRule {
    fn read(rule: &Value) -> FlowRule {
        let list = |field: &str| rule[field].as_array().into_iter().flatten();
        FlowRule {
            subjects: list("subjects").filter_map(FlowSubject::read).collect(),
            resources: list("resourceRules").map(ResourceRule::read).collect(),
            paths: list("nonResourceRules")
                .map(|rule| PathRule { verbs: texts(rule, "verbs"), paths: texts(rule, "nonResourceURLs") })
                .collect(),
        }
    }
}

impl FlowSubject {
    /// None: nobody.
    fn read(subject: &Value) -> Option<FlowSubject> {
        let said = |of: &str, field: &str| subject[of][field].as_str().map(str::to_owned);
        match subject["kind"].as_str()? {
            "User" => Some(FlowSubject::User(said("user", "name")?)),
            "Group" => Some(FlowSubject::Group(said("group", "name")?)),
            "ServiceAccount" => Some(FlowSubject::Account {
                namespace: said("serviceAccount", "namespace")?,
                name: said("serviceAccount", "name")?,
            }),
            _ => None,
        }
    }

    fn is(&self, identity: &Identity) -> bool {
        match self {
            FlowSubject::User(name) => name == ALL || *name == identity.user,
            FlowSubject::Group(name) => name == ALL || identity.groups.contains(name),
            FlowSubject::Account { namespace, name } => {
                let account = identity.user.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':'));
                account.is_some_and(|(of, is)| of == namespace && (name == ALL || is == name))
            }
        }
    }
}

impl ResourceRule {
    fn read(rule: &Value) -> ResourceRule {
        ResourceRule {
            verbs: texts(rule, "verbs"),
            groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            namespaces: texts(rule, "namespaces"),
            of_cluster: rule["clusterScope"].as_bool().unwrap_or_default(),
        }
    }

    fn matches(&self, attributes: &Attributes) -> bool {
        let Attributes::Resource { verb, resource, subresource, namespace, .. } = attributes else { return false };
        let lies_in = match namespace.is_empty() {
            true => self.of_cluster,
            false => names(&self.namespaces, namespace),
        };
        let is_named = |named: &String| {
            let (plural, part) = named.split_once('/').unwrap_or((named, ""));
            named == ALL || (plural == resource.plural && part == subresource)
        };
        lies_in
            && names(&self.verbs, verb)
            && names(&self.groups, &resource.group)
            && self.resources.iter().any(is_named)
    }
}

impl PathRule {
    fn matches(&self, attributes: &Attributes) -> bool {
        let Attributes::Path { verb, path } = attributes else { return false };
        let leads = |named: &String| {
            let below = named.strip_suffix('*').is_some_and(|begin| begin.ends_with('/') && path.starts_with(begin));
            named == ALL || named == path || below
        };
        names(&self.verbs, verb) && self.paths.iter().any(leads)
    }
}

fn names(list: &[String], text: &str) -> bool {
    list.iter().any(|named| named == ALL || named == text)
}

fn texts(rule: &Value, field: &str) -> Vec<String> {
    rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
