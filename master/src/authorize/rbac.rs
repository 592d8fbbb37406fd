//! Role based access control: the rules of roles, as bindings give them to users and groups. PURE.
//!
//! `Grants` is compiled from the four kinds of objects, and compiled again after one of them has changed. Words are
//! numbers in it, bindings are found by their subjects, so a decision reads the bindings of one identity alone.

use super::rule::{Rule, path_matches};
use super::{Attributes, Decision, RuleList};
use coracle_api::meta::Resource;
use coracle_http::Identity;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};

const GROUP: &str = "rbac.authorization.k8s.io";
const ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The resources that `Grants` is compiled from, in this order.
pub fn resources() -> [Resource; 4] {
    ["roles", "clusterroles", "rolebindings", "clusterrolebindings"]
        .map(|plural| Resource { group: GROUP.into(), plural: plural.into() })
}

/// A word of a rule.
type Word = u32;

struct Words(HashMap<Box<str>, Word>);

/// The star has a number of its own, so has the text that stands in no rule.
const STAR: Word = 0;
const UNKNOWN: Word = Word::MAX;

impl Words {
    fn of(&mut self, text: &str) -> Word {
        if let Some(word) = self.0.get(text) {
            return *word;
        }
        let word = Word::try_from(self.0.len()).unwrap_or(UNKNOWN - 1);
        self.0.insert(text.into(), word);
        word
    }

    fn all(&mut self, texts: &[String]) -> Box<[Word]> {
        texts.iter().map(|text| self.of(text)).collect()
    }

    fn find(&self, text: &str) -> Word {
        self.0.get(text).copied().unwrap_or(UNKNOWN)
    }
}

/// A rule as numbers.
struct Compiled {
    verbs: Box<[Word]>,
    groups: Box<[Word]>,
    resources: Box<[Word]>,
    names: Box<[Word]>,
    paths: Box<[Box<str>]>,
}

enum Role {
    Rules(Vec<Compiled>),
    /// The file is damaged.
    Unreadable,
}

/// The role of a binding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RoleKey {
    ClusterRole(Box<str>),
    Role {
        namespace: Box<str>,
        name: Box<str>,
    },
    /// A kind that nobody may bind.
    Other(Box<str>),
}

struct Binding {
    name: Box<str>,
    /// Empty: a ClusterRoleBinding.
    namespace: Box<str>,
    uid: Box<str>,
    role: RoleKey,
}

/// The bindings of one namespace, or of the cluster, by subject.
#[derive(Default)]
struct Subjects {
    /// Each with the number of its binding; `true`: the user is a service account.
    users: HashMap<Box<str>, Vec<(usize, bool)>>,
    groups: HashMap<Box<str>, Vec<usize>>,
}

/// What bindings give to whom.
pub struct Grants {
    words: Words,
    roles: HashMap<RoleKey, Role>,
    bindings: Vec<Binding>,
    /// By namespace; the empty one is the cluster.
    subjects: HashMap<Box<str>, Subjects>,
}

/// A request as numbers.
struct Asked<'a> {
    verb: Word,
    what: AskedOf<'a>,
}

enum AskedOf<'a> {
    /// The resource with its subresource, and `*/SUBRESOURCE`.
    Object {
        group: Word,
        resource: Word,
        of_all: Word,
        name: Word,
    },
    Path(&'a str),
}

/// How a binding reached the identity.
enum Subject<'a> {
    User(&'a str),
    Account(&'a str),
    Group(&'a str),
}

impl Default for Grants {
    fn default() -> Grants {
        let words = Words(HashMap::from([("*".into(), STAR)]));
        Grants { words, roles: HashMap::new(), bindings: Vec::new(), subjects: HashMap::new() }
    }
}

impl Grants {
    /// Adds a role; a ClusterRole has no namespace. None: nobody can read it.
    pub fn role(&mut self, namespace: &str, name: &str, role: Option<&Value>) {
        let role = match role {
            Some(role) => Role::Rules(Rule::of(role).iter().map(|rule| self.rule(rule)).collect()),
            None => Role::Unreadable,
        };
        let key = match namespace {
            "" => RoleKey::ClusterRole(name.into()),
            namespace => RoleKey::Role { namespace: namespace.into(), name: name.into() },
        };
        self.roles.insert(key, role);
    }

    fn rule(&mut self, rule: &Rule) -> Compiled {
        Compiled {
            verbs: self.words.all(&rule.verbs),
            groups: self.words.all(&rule.groups),
            resources: self.words.all(&rule.resources),
            names: self.words.all(&rule.names),
            paths: rule.paths.iter().map(|path| path.as_str().into()).collect(),
        }
    }

    /// Adds a binding. A binding that nobody can read gives nothing.
    pub fn bind(&mut self, namespace: &str, name: &str, binding: &Value) {
        let said = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
        let role = &binding["roleRef"];
        let of = said(role, "name").into();
        let role = match role["kind"].as_str().unwrap_or_default() {
            "ClusterRole" => RoleKey::ClusterRole(of),
            "Role" => RoleKey::Role { namespace: namespace.into(), name: of },
            other => RoleKey::Other(other.into()),
        };
        let at = self.bindings.len();
        self.bindings.push(Binding {
            name: name.into(),
            namespace: namespace.into(),
            uid: said(&binding["metadata"], "uid").into(),
            role,
        });
        let subjects = self.subjects.entry(namespace.into()).or_default();
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let (name, place) = (said(subject, "name"), said(subject, "namespace"));
            match subject["kind"].as_str() {
                Some("User") => subjects.users.entry(name.into()).or_default().push((at, false)),
                Some("Group") => subjects.groups.entry(name.into()).or_default().push(at),
                Some("ServiceAccount") => {
                    let place = if place.is_empty() { namespace } else { &place };
                    // Of a cluster binding without a namespace nobody is meant.
                    if !place.is_empty() {
                        let user = format!("{ACCOUNT_PREFIX}{place}:{name}");
                        subjects.users.entry(user.into()).or_default().push((at, true));
                    }
                }
                _ => {}
            }
        }
    }

    /// The bindings that an identity has in a namespace, bindings of the cluster first. `passed`: the ids of bindings
    /// that do not count.
    fn bound<'g>(
        &'g self,
        identity: &'g Identity,
        namespace: &'g str,
        passed: &'g HashSet<String>,
    ) -> impl Iterator<Item = (&'g Binding, Subject<'g>)> {
        let places = [Some(""), Some(namespace).filter(|namespace| !namespace.is_empty())];
        let found = places.into_iter().flatten().filter_map(|place| self.subjects.get(place));
        found
            .flat_map(move |subjects| {
                let users = subjects.users.get(identity.user.as_str()).into_iter().flatten();
                let users = users.map(move |(at, is_account)| match is_account {
                    true => (*at, Subject::Account(&identity.user)),
                    false => (*at, Subject::User(&identity.user)),
                });
                let groups = identity.groups.iter().flat_map(move |group| {
                    let bindings = subjects.groups.get(group.as_str()).into_iter().flatten();
                    bindings.map(move |at| (*at, Subject::Group(group)))
                });
                users.chain(groups)
            })
            .map(|(at, subject)| (&self.bindings[at], subject))
            .filter(|(binding, _)| passed.is_empty() || !passed.contains(&binding.id()))
    }

    pub fn decide(&self, attributes: &Attributes, identity: &Identity, passed: &HashSet<String>) -> Decision {
        let (asked, namespace) = self.asked(attributes);
        let mut errors = BTreeSet::new();
        for (binding, subject) in self.bound(identity, namespace, passed) {
            match self.roles.get(&binding.role) {
                Some(Role::Rules(rules)) if rules.iter().any(|rule| rule.allows(&asked)) => {
                    return Decision::Allowed(format!("RBAC: allowed by {}", binding.described(&subject)));
                }
                Some(Role::Rules(_)) => {}
                other => drop(errors.insert(binding.role.missing(other.is_some()))),
            }
        }
        Decision::NoOpinion(match errors.is_empty() {
            true => String::new(),
            false => format!("RBAC: {}", together(&errors)),
        })
    }

    fn asked<'a>(&self, attributes: &'a Attributes) -> (Asked<'a>, &'a str) {
        match attributes {
            Attributes::Path { verb, path } => (Asked { verb: self.words.find(verb), what: AskedOf::Path(path) }, ""),
            Attributes::Resource { verb, resource, subresource, namespace, name, .. } => {
                let (whole, of_all) = match subresource.as_str() {
                    "" => (self.words.find(&resource.plural), UNKNOWN),
                    part => {
                        (self.words.find(&format!("{}/{part}", resource.plural)), self.words.find(&format!("*/{part}")))
                    }
                };
                let group = self.words.find(&resource.group);
                let what = AskedOf::Object { group, resource: whole, of_all, name: self.words.find(name) };
                (Asked { verb: self.words.find(verb), what }, namespace)
            }
        }
    }

    /// All rules that an identity has in a namespace.
    pub fn rules(&self, identity: &Identity, namespace: &str, passed: &HashSet<String>) -> RuleList {
        let mut texts: HashMap<Word, &str> = HashMap::new();
        texts.extend(self.words.0.iter().map(|(text, word)| (*word, &**text)));
        let shown = |words: &[Word]| {
            words.iter().filter_map(|word| texts.get(word)).map(|text| (*text).to_owned()).collect::<Vec<_>>()
        };
        let (mut all, mut errors, mut seen) = (Vec::new(), BTreeSet::new(), HashSet::new());
        for (binding, _) in self.bound(identity, namespace, passed) {
            // A binding may name a user and one of its groups.
            if !seen.insert((&binding.namespace, &binding.name)) {
                continue;
            }
            match self.roles.get(&binding.role) {
                Some(Role::Rules(rules)) => all.extend(rules.iter().map(|rule| Rule {
                    groups: shown(&rule.groups),
                    resources: shown(&rule.resources),
                    names: shown(&rule.names),
                    paths: rule.paths.iter().map(|path| path.to_string()).collect(),
                    verbs: shown(&rule.verbs),
                })),
                other => drop(errors.insert(binding.role.missing(other.is_some()))),
            }
        }
        RuleList { rules: all, incomplete: !errors.is_empty(), error: together(&errors) }
    }
}

impl Compiled {
    fn allows(&self, asked: &Asked<'_>) -> bool {
        let has = |own: &[Word], word: Word| own.iter().any(|own| *own == word || *own == STAR);
        has(&self.verbs, asked.verb)
            && match asked.what {
                AskedOf::Path(path) => self.paths.iter().any(|own| path_matches(own, path)),
                AskedOf::Object { group, resource, of_all, name } => {
                    has(&self.groups, group)
                        && (has(&self.resources, resource) || self.resources.contains(&of_all))
                        // A name is no pattern.
                        && (self.names.is_empty() || self.names.contains(&name))
                }
            }
    }
}

/// What tells a binding from all others, also from one of its name that is made later.
pub fn binding_id(namespace: &str, name: &str, uid: &str) -> String {
    format!("{namespace}/{name}/{uid}")
}

impl Binding {
    fn id(&self) -> String {
        binding_id(&self.namespace, &self.name, &self.uid)
    }

    fn described(&self, subject: &Subject<'_>) -> String {
        let (kind, name) = match self.namespace.is_empty() {
            true => ("ClusterRoleBinding", self.name.to_string()),
            false => ("RoleBinding", format!("{}/{}", self.name, self.namespace)),
        };
        let subject = match subject {
            Subject::User(user) => format!("User {user:?}"),
            Subject::Group(group) => format!("Group {group:?}"),
            Subject::Account(user) => {
                let (place, name) = user[ACCOUNT_PREFIX.len()..].split_once(':').unwrap_or_default();
                format!("ServiceAccount {:?}", format!("{name}/{place}"))
            }
        };
        let (role_kind, role) = self.role.named();
        format!("{kind} {name:?} of {role_kind} {role:?} to {subject}")
    }
}

impl RoleKey {
    fn named(&self) -> (&'static str, &str) {
        match self {
            RoleKey::ClusterRole(name) => ("ClusterRole", name),
            RoleKey::Role { name, .. } => ("Role", name),
            RoleKey::Other(_) => ("", ""),
        }
    }

    fn missing(&self, is_damaged: bool) -> String {
        if let RoleKey::Other(kind) = self {
            return format!("unsupported role reference kind: {kind:?}");
        }
        let (kind, name) = self.named();
        let why = if is_damaged { "cannot be read: its file is damaged" } else { "not found" };
        format!("{}.{GROUP} {name:?} {why}", kind.to_lowercase())
    }
}

/// Errors as Kubernetes puts them together.
fn together(errors: &BTreeSet<String>) -> String {
    let errors: Vec<&str> = errors.iter().map(String::as_str).collect();
    match *errors {
        [] => String::new(),
        [one] => one.to_owned(),
        _ => format!("[{}]", errors.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn grants() -> Grants {
        let mut grants = Grants::default();
        let mut role = |namespace: &str, name: &str, rules: Value| {
            grants.role(namespace, name, Some(&json!({"rules": rules})));
        };
        role(
            "n",
            "r",
            json!([
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"], "resourceNames": ["only"]},
                {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["*"]},
                {"apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["get"]},
            ]),
        );
        role("", "all", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
        role("", "paths", json!([{"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}]));
        role("m", "r", json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]));
        grants.role("", "damaged", None);
        let mut bind = |namespace: &str, name: &str, (kind, role): (&str, &str), subjects: Value| {
            let metadata = json!({"uid": format!("uid-{name}")});
            let binding = json!({"metadata": metadata, "roleRef": {"kind": kind, "name": role}, "subjects": subjects});
            grants.bind(namespace, name, &binding);
        };
        bind("n", "b", ("Role", "r"), json!([{"kind": "User", "name": "alice"}, {"kind": "Group", "name": "people"}]));
        bind("n", "c", ("ClusterRole", "all"), json!([{"kind": "ServiceAccount", "name": "x"}]));
        bind("n", "d", ("Role", "gone"), json!([{"kind": "User", "name": "dora"}]));
        bind("", "e", ("ClusterRole", "damaged"), json!([{"kind": "User", "name": "dora"}]));
        bind("", "f", ("ClusterRole", "paths"), json!([{"kind": "Group", "name": "scrapers"}]));
        bind("n", "g", ("ClusterRole", "paths"), json!([{"kind": "User", "name": "bob"}]));
        bind("", "h", ("ClusterRole", "all"), json!([{"kind": "ServiceAccount", "name": "x", "namespace": "k"}]));
        bind("", "i", ("ClusterRole", "all"), json!([{"kind": "ServiceAccount", "name": "nobody"}]));
        bind("", "j", ("Role", "r"), json!([{"kind": "User", "name": "eve"}]));
        grants
    }

    fn identity(user: &str, groups: &[&str]) -> Identity {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Identity { user: user.to_owned(), groups, ..Identity::none() }
    }

    fn asked(words: &str) -> Attributes {
        let mut words = words.split(' ');
        let verb = words.next().unwrap_or_default();
        let of = words.next().unwrap_or_default();
        if of.starts_with('/') {
            return Attributes::Path { verb: verb.to_owned(), path: of.to_owned() };
        }
        let (of, subresource) = of.split_once('/').unwrap_or((of, ""));
        let (plural, group) = of.split_once('.').unwrap_or((of, ""));
        let resource = Resource { group: group.to_owned().into(), plural: plural.to_owned().into() };
        let (namespace, name) = words.next().and_then(|place| place.split_once('/')).unwrap_or_default();
        Attributes::resource(verb, &resource, subresource, (namespace, name))
    }

    #[test]
    fn who_may_do_what() {
        let grants = grants();
        let check = |user: &str, groups: &[&str], words: &str, expected: Decision| {
            let decision = grants.decide(&asked(words), &identity(user, groups), &HashSet::new());
            assert_eq!(decision, expected, "{user} {words}");
        };
        let by = |words: &str| Decision::Allowed(format!("RBAC: allowed by {words}"));
        let no = || Decision::NoOpinion(String::new());
        let alice = by(r#"RoleBinding "b/n" of Role "r" to User "alice""#);
        for (words, allowed) in [
            ("list pods n/", true),
            ("get pods n/p", true),
            ("get pods m/p", false),
            ("list pods /", false),
            ("watch pods n/", false),
            ("get pods/status n/p", false),
            ("get pods/log n/p", true),
            ("delete pods/log n/p", true),
            ("get configmaps n/only", true),
            ("list configmaps n/only", true),
            ("get configmaps n/other", false),
            ("list configmaps n/", false),
            ("get deployments.apps/scale n/d", true),
            ("get deployments.apps n/d", false),
            ("get widgets.other/scale n/d", false),
            ("get secrets n/s", false),
            ("* pods n/", false),
            ("get * n/", false),
        ] {
            check("alice", &[], words, if allowed { alice.clone() } else { no() });
        }
        check("bob", &["people"], "list pods n/", by(r#"RoleBinding "b/n" of Role "r" to Group "people""#));
        check(
            "system:serviceaccount:n:x",
            &[],
            "delete secrets n/s",
            by(r#"RoleBinding "c/n" of ClusterRole "all" to ServiceAccount "x/n""#),
        );
        let of_cluster = by(r#"ClusterRoleBinding "h" of ClusterRole "all" to ServiceAccount "x/k""#);
        check("system:serviceaccount:k:x", &[], "delete secrets m/s", of_cluster.clone());
        check("system:serviceaccount:k:x", &[], "* *.* /", of_cluster);
        check("system:serviceaccount:k:x", &[], "get /metrics", no());
        check("system:serviceaccount::nobody", &[], "get pods n/p", no());
        check("eve", &[], "list pods n/", Decision::NoOpinion(format!("RBAC: role.{GROUP} \"r\" not found")));
        let scraper = by(r#"ClusterRoleBinding "f" of ClusterRole "paths" to Group "scrapers""#);
        for (words, allowed) in [
            ("get /metrics", true),
            ("get /logs/x/y", true),
            ("get /logs/", true),
            ("get /logs", false),
            ("get /metrics/x", false),
            ("post /metrics", false),
        ] {
            check("carl", &["scrapers"], words, if allowed { scraper.clone() } else { no() });
            check("bob", &[], words, no());
        }
        let damaged = format!("clusterrole.{GROUP} \"damaged\" cannot be read: its file is damaged");
        let gone = format!("role.{GROUP} \"gone\" not found");
        check("dora", &[], "get pods n/p", Decision::NoOpinion(format!("RBAC: [{damaged}, {gone}]")));
        check("dora", &[], "get pods m/p", Decision::NoOpinion(format!("RBAC: {damaged}")));
    }

    #[test]
    fn a_binding_may_not_count() {
        let (grants, passed) = (grants(), HashSet::from(["n/b/uid-b".to_owned()]));
        let alice = identity("alice", &[]);
        assert_eq!(grants.decide(&asked("list pods n/"), &alice, &passed), Decision::NoOpinion(String::new()));
        assert!(grants.rules(&alice, "n", &passed).rules.is_empty());
        assert_eq!(grants.rules(&alice, "n", &HashSet::new()).rules.len(), 4);
    }

    #[test]
    fn the_rules_of_an_identity() {
        let lists = grants().rules(&identity("dora", &["people", "scrapers"]), "n", &HashSet::new());
        assert_eq!(lists.rules.len(), 5);
        assert_eq!(lists.rules[0].document(), json!({"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]}));
        assert!(lists.incomplete && lists.error.contains("gone"), "{}", lists.error);
    }
}
