//! Impersonation: a client acts as another user, as far as the access rules let it. PURE.
//!
//!     associated-node   a service account as the node of its own pod     impersonate-on:MODE:VERB of the request, and
//!     arbitrary-node    as any node                                      impersonate:MODE of the user
//!     serviceaccount    as a service account
//!     user-info         as any other user, with groups, uid and extra
//!     legacy            as anybody, for all requests                     impersonate of the user, and of each part
//!
//! The modes are tried in this order, the one that was allowed last first.

use crate::authorize::{Attributes, Authorizer};
use crate::query::decode;
use coracle_api::meta::Resource;
use coracle_api::status::Status;
use coracle_api::strategy::is_subdomain;
use coracle_http::{HeaderMap, Identity};
use std::collections::BTreeMap;

const PREFIX: &str = "impersonate-";
const EXTRA: &str = "impersonate-extra-";
const MASTERS: &str = "system:masters";
const NODES: &str = "system:nodes";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// From so many groups or extra values on a constrained mode asks for all of them at once first.
const MANY: usize = 4;

/// The user that a client wants to be, as the headers say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedUser {
    pub name: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

const MODES: [Mode; 5] =
    [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];

/// What the headers ask for. `Ok(None)`: nothing. `Err`: a request that can be no impersonation.
pub fn wanted(headers: &HeaderMap) -> Result<Option<WantedUser>, String> {
    let (mut user, mut parts) = (WantedUser::default(), false);
    for name in headers.keys().filter(|name| name.as_str().starts_with(PREFIX)) {
        let mut values = Vec::new();
        for value in headers.get_all(name) {
            let value = std::str::from_utf8(value.as_bytes()).map_err(|_| format!("the value of {name} is no text"))?;
            values.push(value.to_owned());
        }
        let first = values.first().cloned().unwrap_or_default();
        match name.as_str() {
            "impersonate-user" => user.name = first,
            "impersonate-uid" => (user.uid, parts) = (first.clone(), parts || !first.is_empty()),
            "impersonate-group" => (user.groups, parts) = (values, true),
            other => {
                let Some(key) = other.strip_prefix(EXTRA) else { continue };
                let key = decode(key, false).unwrap_or_else(|_| key.to_owned());
                user.extra.entry(key).or_default().extend(values);
                parts = true;
            }
        }
    }
    match (user.name.is_empty(), parts) {
        (true, true) => Err(format!("requested {} without impersonating a user name", in_go(&user))),
        (true, false) => Ok(None),
        (false, _) => Ok(Some(user)),
    }
}

/// The user as Go prints it.
fn in_go(WantedUser { name, uid, groups, extra }: &WantedUser) -> String {
    let quoted = |texts: &[String]| texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(", ");
    let list = if groups.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", quoted(groups)) };
    let entries = extra.iter().map(|(key, values)| format!("{key:?}:[]string{{{}}}", quoted(values)));
    let map =
        if extra.is_empty() { "(nil)".to_owned() } else { format!("{{{}}}", entries.collect::<Vec<_>>().join(", ")) };
    format!("&user.DefaultInfo{{Name:{name:?}, UID:{uid:?}, Groups:[]string{list}, Extra:map[string][]string{map}}}")
}

/// One attempt to act as another user.
pub struct Attempt<'a> {
    pub wanted: &'a WantedUser,
    /// What the client asks for.
    pub attributes: &'a Attributes,
    pub client: &'a Identity,
    pub authorizer: &'a dyn Authorizer,
}

impl Attempt<'_> {
    /// The user that the client becomes, and by which mode. `first`: the mode that this client was allowed last.
    pub fn decide(&self, first: Option<Mode>) -> Result<(Identity, Mode), Box<Status>> {
        let mut refusal = None;
        for mode in first.into_iter().chain(MODES.into_iter().filter(|mode| Some(*mode) != first)) {
            if !self.applies(mode) {
                continue;
            }
            match self.by(mode) {
                Ok(identity) => return Ok((identity, mode)),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        Err(refusal.unwrap_or_else(|| Box::new(Status::internal_error("no way to act as another user is known"))))
    }

    fn applies(&self, mode: Mode) -> bool {
        let WantedUser { name, uid, groups, extra } = self.wanted;
        let bare = uid.is_empty() && groups.is_empty() && extra.is_empty();
        let (node, account) = (node(name), account(name));
        match mode {
            Mode::AssociatedNode => {
                let own = self.client.extra.get(NODE_NAME).filter(|names| names.len() == 1).map(|names| &*names[0]);
                bare && node.is_some() && node == own && self::account(&self.client.user).is_some()
            }
            Mode::ArbitraryNode => bare && node.is_some(),
            Mode::ServiceAccount => bare && account.is_some(),
            Mode::UserInfo => node.is_none() && account.is_none(),
            Mode::Legacy => true,
        }
    }

    fn by(&self, mode: Mode) -> Result<Identity, Box<Status>> {
        if let Some(word) = mode.word() {
            self.ask(&with_verb(self.attributes, |verb| format!("impersonate-on:{word}:{verb}")))?;
        }
        let WantedUser { name, uid, groups, extra } = self.wanted;
        let mut becomes = groups.clone();
        self.ask_user(mode, &mut becomes)?;
        if !uid.is_empty() {
            self.ask(&mode.attributes(false, "uids", "", ("", uid)))?;
        }
        self.ask_groups(mode)?;
        self.ask_extra(mode)?;
        let anonymous = name == Identity::ANONYMOUS;
        let group = if anonymous { Identity::UNAUTHENTICATED } else { Identity::AUTHENTICATED };
        let stays = !anonymous && becomes.iter().any(|group| group == Identity::UNAUTHENTICATED);
        if !stays && !becomes.iter().any(|one| one == group) {
            becomes.push(group.to_owned());
        }
        let (user, uid, extra, credential) = (name.clone(), uid.clone(), extra.clone(), self.client.credential.clone());
        Ok(Identity { user, uid, groups: becomes, extra, credential })
    }

    /// `becomes`: the groups, to which the fixed groups of nodes and service accounts come.
    fn ask_user(&self, mode: Mode, becomes: &mut Vec<String>) -> Result<(), Box<Status>> {
        let name = self.wanted.name.as_str();
        let constrained = mode != Mode::Legacy;
        let attributes = if let Some(node) = node(name).filter(|_| constrained) {
            *becomes = vec![NODES.to_owned()];
            // A client may be on any node.
            mode.attributes(true, "nodes", "", ("", if mode == Mode::AssociatedNode { "*" } else { node }))
        } else if let Some((namespace, account)) = account(name) {
            if self.wanted.groups.is_empty() {
                *becomes = crate::cluster_keys::token::groups_of(namespace).to_vec();
            }
            mode.attributes(true, "serviceaccounts", "", (namespace, account))
        } else {
            mode.attributes(true, "users", "", ("", name))
        };
        self.ask(&attributes)
    }

    fn ask_groups(&self, mode: Mode) -> Result<(), Box<Status>> {
        let groups = &self.wanted.groups;
        let of = |name: &str| mode.attributes(true, "groups", "", ("", name));
        if mode != Mode::Legacy {
            let barred = [
                ("", "impersonating the empty string group is not allowed"),
                (MASTERS, "impersonating the system:masters group is not allowed"),
            ];
            for (group, why) in barred {
                if groups.iter().any(|one| one == group) {
                    return Err(Box::new(of(group).refusal(self.client, why)));
                }
            }
            if groups.len() >= MANY && self.ask(&of("*")).is_ok() {
                return Ok(());
            }
        }
        groups.iter().try_for_each(|group| self.ask(&of(group)))
    }

    fn ask_extra(&self, mode: Mode) -> Result<(), Box<Status>> {
        let extra = &self.wanted.extra;
        let of = |key: &str, value: &str| mode.attributes(false, "userextras", key, ("", value));
        if mode != Mode::Legacy {
            if let Some(why) = extra.iter().find_map(|(key, values)| unfit(key, values)) {
                return Err(Box::new(of("", "").refusal(self.client, &why)));
            }
            let many = extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && self.ask(&of("*", "*")).is_ok() {
                return Ok(());
            }
        }
        let mut all = extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        all.try_for_each(|(key, value)| self.ask(&of(key, value)))
    }

    fn ask(&self, attributes: &Attributes) -> Result<(), Box<Status>> {
        self.authorizer.refused(attributes, self.client)
    }
}

impl Mode {
    fn word(self) -> Option<&'static str> {
        match self {
            Mode::AssociatedNode => Some("associated-node"),
            Mode::ArbitraryNode => Some("arbitrary-node"),
            Mode::ServiceAccount => Some("serviceaccount"),
            Mode::UserInfo => Some("user-info"),
            Mode::Legacy => None,
        }
    }

    /// `named`: users, groups and service accounts, which lay in the core group before there were other groups.
    fn attributes(self, named: bool, plural: &'static str, part: &str, of: (&str, &str)) -> Attributes {
        let group = if named && self == Mode::Legacy { "" } else { "authentication.k8s.io" };
        let verb = self.word().map_or_else(|| "impersonate".to_owned(), |word| format!("impersonate:{word}"));
        Attributes::resource(&verb, &Resource { group: group.into(), plural: plural.into() }, part, of)
    }
}

fn with_verb(attributes: &Attributes, change: impl Fn(&str) -> String) -> Attributes {
    let mut attributes = attributes.clone();
    let (Attributes::Resource { verb, .. } | Attributes::Path { verb, .. }) = &mut attributes;
    *verb = change(verb);
    attributes
}

/// The node that a user name names.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| is_subdomain(name))
}

/// The namespace and name of the service account that a user name names.
fn account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && is_subdomain(name)).then_some((namespace, name))
}

/// Why a constrained mode takes no such extra value.
fn unfit(key: &str, values: &[String]) -> Option<String> {
    let why = if key.is_empty() {
        "impersonating the empty string key in extra is not allowed".to_owned()
    } else if key != key.to_lowercase() {
        format!("impersonating a non-lowercase key in extra is not allowed: {key:?}")
    } else if !is_prefixed_path(key) {
        format!("impersonating an invalid key in extra is not allowed: {key:?} is no path behind a domain")
    } else if values.iter().any(String::is_empty) {
        "impersonating the empty string value in extra is not allowed".to_owned()
    } else {
        return None;
    };
    Some(why)
}

/// `example.com/a/b`.
fn is_prefixed_path(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@%/".contains(&byte);
    key.split_once('/')
        .is_some_and(|(domain, path)| is_subdomain(domain) && !path.is_empty() && path.bytes().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorize::Decision;
    use coracle_http::{HeaderName, HeaderValue};

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    #[test]
    fn what_headers_ask_for() {
        let nobody = |uid: &str, groups: &str, extra: &str| {
            format!(
                "requested &user.DefaultInfo{{Name:\"\", UID:{uid:?}, Groups:[]string{groups}, \
                 Extra:map[string][]string{extra}}} without impersonating a user name"
            )
        };
        for (fields, expected) in [
            (vec![("accept", "x")], Ok(None)),
            (vec![("impersonate-user", "")], Ok(None)),
            (vec![("impersonate-group", "g1")], Err(nobody("", "{\"g1\"}", "(nil)"))),
            (vec![("impersonate-uid", "u1")], Err(nobody("u1", "(nil)", "(nil)"))),
            (vec![("impersonate-extra-a", "x")], Err(nobody("", "(nil)", "{\"a\":[]string{\"x\"}}"))),
            (
                vec![
                    ("impersonate-user", "bob"),
                    ("impersonate-group", "g1"),
                    ("impersonate-group", "g2"),
                    ("impersonate-uid", "u"),
                    ("impersonate-extra-example.com%2fa", "x"),
                    ("impersonate-extra-example.com%2fa", "y"),
                    ("impersonate-extra-b%", "z"),
                ],
                Ok(Some(WantedUser {
                    name: "bob".into(),
                    uid: "u".into(),
                    groups: vec!["g1".into(), "g2".into()],
                    extra: BTreeMap::from([
                        ("example.com/a".to_owned(), vec!["x".to_owned(), "y".to_owned()]),
                        ("b%".to_owned(), vec!["z".to_owned()]),
                    ]),
                })),
            ),
        ] {
            assert_eq!(wanted(&headers(&fields)), expected, "{fields:?}");
        }
    }

    /// Who `client` becomes who lists pods in namespace a, where an authorizer allows these.
    fn decided(client: &Identity, first: Option<Mode>, fields: &[(&str, &str)], allowed: &[&str]) -> String {
        let wanted = wanted(&headers(fields)).expect("an impersonation").expect("a user");
        let authorizer = |attributes: &Attributes, _: &Identity| {
            let Attributes::Resource { verb, resource, subresource, namespace, name, .. } = attributes else {
                return Decision::NoOpinion(String::new());
            };
            let asked = format!("{verb} {}.{}/{subresource} {namespace}/{name}", resource.plural, resource.group);
            match allowed.iter().any(|one| *one == asked || *one == "all") {
                true => Decision::Allowed(String::new()),
                false => Decision::NoOpinion(String::new()),
            }
        };
        let attributes = Attributes::resource("list", &Resource::core("pods"), "", ("a", ""));
        let attempt = Attempt { wanted: &wanted, attributes: &attributes, client, authorizer: &authorizer };
        match attempt.decide(first) {
            Ok((becomes, mode)) => format!("{mode:?} {} {}", becomes.user, becomes.groups.join(",")),
            Err(status) => status.message,
        }
    }

    const ON: &str = "impersonate-on:user-info:list pods./ a/";
    const BOB: &str = "impersonate:user-info users.authentication.k8s.io/ /bob";

    #[test]
    fn who_a_client_becomes() {
        let alice = Identity { user: "alice".into(), ..Identity::none() };
        let check = |fields: &[(&str, &str)], allowed: &[&str], expected: &str| {
            assert_eq!(decided(&alice, None, fields, allowed), expected, "{fields:?} {allowed:?}");
        };
        let user = |name: &'static str| ("impersonate-user", name);
        let on = |mode: &str| {
            format!(
                "pods is forbidden: User \"alice\" cannot impersonate-on:{mode}:list resource \"pods\" in API group \
                 \"\" in the namespace \"a\""
            )
        };
        check(&[user("bob")], &[], &on("user-info"));
        check(&[user("system:serviceaccount:n:s")], &[], &on("serviceaccount"));
        check(&[user("system:node:n1")], &[], &on("arbitrary-node"));
        check(&[user("bob")], &[ON, BOB], "UserInfo bob system:authenticated");
        let whom = "users.authentication.k8s.io \"bob\" is forbidden: User \"alice\" cannot impersonate:user-info \
                    resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope";
        check(&[user("bob")], &[ON], whom);
        check(&[user("bob")], &[BOB], &on("user-info"));
        check(&[user("bob")], &["impersonate users./ /bob"], "Legacy bob system:authenticated");
        let anonymous = "UserInfo system:anonymous system:unauthenticated";
        check(&[user("system:anonymous")], &["all"], anonymous);
        check(&[user("bob"), ("impersonate-group", "g")], &["all"], "UserInfo bob g,system:authenticated");
        let without = "UserInfo bob system:unauthenticated";
        check(&[user("bob"), ("impersonate-group", "system:unauthenticated")], &["all"], without);
        let masters = [user("bob"), ("impersonate-group", "system:masters")];
        check(&masters, &["all"], "Legacy bob system:masters,system:authenticated");
        let why = "groups.authentication.k8s.io \"system:masters\" is forbidden: User \"alice\" cannot \
                   impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster \
                   scope: impersonating the system:masters group is not allowed";
        check(&masters, &[ON, BOB], why);
        let account = "ServiceAccount system:serviceaccount:n:s \
                       system:serviceaccounts,system:serviceaccounts:n,system:authenticated";
        check(&[user("system:serviceaccount:n:s")], &["all"], account);
        let grouped = [user("system:serviceaccount:n:s"), ("impersonate-group", "only")];
        check(&grouped, &["all"], "Legacy system:serviceaccount:n:s only,system:authenticated");
        check(&[user("system:node:n1")], &["all"], "ArbitraryNode system:node:n1 system:nodes,system:authenticated");
        let plain = ["impersonate users./ /system:node:n1"];
        check(&[user("system:node:n1")], &plain, "Legacy system:node:n1 system:authenticated");
    }

    #[test]
    fn the_mode_of_before_comes_first() {
        let alice = Identity { user: "alice".into(), ..Identity::none() };
        let check = |fields: &[(&str, &str)], expected: &str| {
            let allowed = ["impersonate users./ /bob"];
            let mut all = vec![("impersonate-user", "bob")];
            all.extend_from_slice(fields);
            assert_eq!(decided(&alice, Some(Mode::Legacy), &all, &allowed), expected, "{fields:?}");
        };
        check(&[], "Legacy bob system:authenticated");
        let refused = |what: &str, resource: &str, group: &str| {
            format!(
                "{what} is forbidden: User \"alice\" cannot impersonate resource {resource:?} in API group {group:?} \
                 at the cluster scope"
            )
        };
        check(&[("impersonate-group", "g")], &refused("groups \"g\"", "groups", ""));
        let group = "authentication.k8s.io";
        check(&[("impersonate-uid", "u")], &refused("uids.authentication.k8s.io \"u\"", "uids", group));
        let extra = refused("userextras.authentication.k8s.io \"x\"", "userextras/scopes", group);
        check(&[("impersonate-extra-scopes", "x")], &extra);
    }

    #[test]
    fn a_service_account_becomes_its_own_node() {
        let extra = BTreeMap::from([(NODE_NAME.to_owned(), vec!["n1".to_owned()])]);
        let agent = Identity { user: "system:serviceaccount:n:s".into(), extra, ..Identity::none() };
        let allowed = [
            "impersonate-on:associated-node:list pods./ a/",
            "impersonate:associated-node nodes.authentication.k8s.io/ /*",
        ];
        let becomes = |node: &str| decided(&agent, None, &[("impersonate-user", node)], &allowed);
        assert_eq!(becomes("system:node:n1"), "AssociatedNode system:node:n1 system:nodes,system:authenticated");
        assert!(becomes("system:node:n2").contains("cannot impersonate-on:arbitrary-node:list"));
    }

    #[test]
    fn extra_values_of_constrained_modes() {
        let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        for (key, given, fits) in [
            ("example.com/a/b", values(&["x"]), true),
            ("", values(&["x"]), false),
            ("scopes", values(&["x"]), false),
            ("Example.com/a", values(&["x"]), false),
            ("example.com/", values(&["x"]), false),
            ("example.com/a", values(&["x", ""]), false),
        ] {
            assert_eq!(unfit(key, &given).is_none(), fits, "{key} {given:?}");
        }
    }
}
