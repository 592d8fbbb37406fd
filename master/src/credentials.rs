//! PURE. The commands about credentials: their words and flags, and the texts that they print.
//!
//!     kubeconfig [--user NAME] [--group G]... [--server URL] [--for 30d] [--write]
//!     token create|list|revoke, user list|revoke
//!     keys list|renew|renew-ca|drop-old-ca|renew-token-key|drop-old-token-keys

pub mod keys;

use self::keys::KeyDeed;
use crate::cluster_keys::issued::IssuedList;
use crate::cluster_keys::tokens::{StaticToken, TokenList, TokenWish};
use coracle_api::meta::Time;
use coracle_schema::base64;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The first words of these commands.
pub const COMMANDS: [&str; 4] = ["kubeconfig", "token", "user", "keys"];
/// The flags of these commands, and whether a value follows.
const FLAGS: [(&str, bool); 9] = [
    ("user", true),
    ("group", true),
    ("server", true),
    ("for", true),
    ("uses", true),
    ("join", false),
    ("write", false),
    ("now", false),
    ("yes", false),
];
/// The user and the group of an administrator, as Kubernetes' own tools call them.
pub const ADMIN: (&str, &str) = ("kubernetes-admin", "system:masters");
/// How long a token for joining counts when nobody says, and how many hosts may join with it.
const JOIN_LIFE_S: u64 = 3600;
const JOIN_USES: u64 = 1;
/// The shortest life: less is over before it is used.
const LIFE_S_MIN: u64 = 60;
/// A hundred years.
const LIFE_S_MAX: u64 = 100 * 366 * 24 * 3600;
/// Bytes of a name: what a certificate holds.
const NAME_BYTES_MAX: usize = 256;
const GROUPS_MAX: usize = 32;
/// What a user's name may not begin with: such names have their own ways to a credential.
const RESERVED: [&str; 5] = [
    "system:serviceaccount:",
    "system:node:",
    "system:bootstrap:",
    "front-proxy-client",
    "kube-apiserver-kubelet-client",
];

/// One of these commands.
#[derive(Clone, Debug, PartialEq)]
pub enum Credentials {
    Kubeconfig(KubeconfigWish),
    TokenCreate(TokenWish),
    TokenList,
    TokenRevoke(String),
    UserList,
    UserRevoke(String),
    Keys(KeyDeed),
}

#[derive(Clone, Debug, PartialEq)]
pub struct KubeconfigWish {
    pub user: String,
    pub groups: Vec<String>,
    /// `None`: this host's own.
    pub server: Option<String>,
    /// `None`: for ever.
    pub life: Option<Duration>,
    /// Into root's file instead of standard output.
    pub write: bool,
}

/// Reads a flag of these commands: its name and value. `None`: the argument is no such flag.
pub fn flag(argument: &str, rest: &mut impl Iterator<Item = String>) -> Result<Option<(String, String)>, String> {
    let Some(option) = argument.strip_prefix("--") else { return Ok(None) };
    let (name, value) = match option.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (option, None),
    };
    let Some((name, has_value)) = FLAGS.into_iter().find(|(flag, _)| *flag == name) else { return Ok(None) };
    match (has_value, value) {
        (false, Some(_)) => Err(format!("--{name} takes no value")),
        (false, None) => Ok(Some((name.to_owned(), String::new()))),
        (true, value) => {
            let value = value.or_else(|| rest.next()).filter(|value| !value.is_empty());
            Ok(Some((name.to_owned(), value.ok_or_else(|| format!("--{name} needs a value"))?)))
        }
    }
}

/// The command that words and flags say. `words` begin with one of `COMMANDS`.
pub fn parse(words: &[&str], flags: &[(String, String)]) -> Result<Credentials, String> {
    let allow = |allowed: &[&str]| match flags.iter().find(|(name, _)| !allowed.contains(&name.as_str())) {
        Some((name, _)) => Err(format!("--{name} is not for {}, see {} --help", words.join(" "), words[0])),
        None => Ok(()),
    };
    match words {
        ["kubeconfig"] => {
            allow(&["user", "group", "server", "for", "write"])?;
            kubeconfig_wish(flags).map(Credentials::Kubeconfig)
        }
        ["token", "create"] => {
            allow(&["user", "group", "for", "join", "uses"])?;
            token_wish(flags).map(Credentials::TokenCreate)
        }
        ["token", "list"] => allow(&[]).map(|()| Credentials::TokenList),
        ["token", "revoke", id] => allow(&[]).map(|()| Credentials::TokenRevoke((*id).to_owned())),
        ["user", "list"] => allow(&[]).map(|()| Credentials::UserList),
        ["user", "revoke", name] => allow(&[]).map(|()| Credentials::UserRevoke((*name).to_owned())),
        ["keys", words @ ..] => keys::parse(words, flags, allow).map(Credentials::Keys),
        ["kubeconfig", more, ..] => Err(format!("unexpected argument {more:?}: kubeconfig takes flags alone")),
        ["token", ..] => Err("token takes one of create, list and revoke ID, see token --help".to_owned()),
        _ => Err("user takes one of list and revoke NAME, see user --help".to_owned()),
    }
}

fn one<'f>(flags: &'f [(String, String)], name: &str) -> Result<Option<&'f str>, String> {
    let mut given = flags.iter().filter(|(flag, _)| flag == name).map(|(_, value)| value.as_str());
    let first = given.next();
    match given.next() {
        Some(_) => Err(format!("--{name} is given a second time")),
        None => Ok(first),
    }
}

fn name(flag: &str, text: &str) -> Result<String, String> {
    let is_fit = !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    match is_fit {
        true => Ok(text.to_owned()),
        false => Err(format!("--{flag} {text:?}: a name has 1 to {NAME_BYTES_MAX} bytes and no control characters")),
    }
}

fn groups(flags: &[(String, String)]) -> Result<Vec<String>, String> {
    let given = flags.iter().filter(|(flag, _)| flag == "group");
    let groups: Vec<String> = given.map(|(_, text)| name("group", text)).collect::<Result<_, _>>()?;
    match groups.len() <= GROUPS_MAX {
        true => Ok(groups),
        false => Err(format!("--group is given {} times, at most {GROUPS_MAX}", groups.len())),
    }
}

fn user(flags: &[(String, String)]) -> Result<Option<String>, String> {
    let Some(user) = one(flags, "user")? else { return Ok(None) };
    match RESERVED.iter().find(|prefix| user.starts_with(**prefix)) {
        Some(prefix) => Err(format!("--user {user}: names that begin with {prefix} are not given out by hand")),
        None => name("user", user).map(Some),
    }
}

fn kubeconfig_wish(flags: &[(String, String)]) -> Result<KubeconfigWish, String> {
    let write = one(flags, "write")?.is_some();
    let (given, mut groups) = (user(flags)?, groups(flags)?);
    if given.is_none() && !groups.is_empty() {
        return Err("--group needs --user".to_owned());
    }
    if write && given.is_some() {
        return Err(
            "--write is for the administrator's file: leave --user out, or send the output to a file".to_owned()
        );
    }
    if given.is_none() {
        groups.push(ADMIN.1.to_owned());
    }
    let server = one(flags, "server")?.map(server).transpose()?;
    let life = one(flags, "for")?.map(|text| life("for", text)).transpose()?.map(Duration::from_secs);
    Ok(KubeconfigWish { user: given.unwrap_or_else(|| ADMIN.0.to_owned()), groups, server, life, write })
}

fn server(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").unwrap_or_default();
    let is_fit = !rest.is_empty() && !rest.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
    match is_fit {
        true => Ok(text.to_owned()),
        false => Err(format!("--server {text:?}: must be a URL like https://shop.example.com:6443")),
    }
}

fn token_wish(flags: &[(String, String)]) -> Result<TokenWish, String> {
    let join = one(flags, "join")?.is_some();
    let life_s = one(flags, "for")?.map(|text| life("for", text)).transpose()?;
    let uses = one(flags, "uses")?.map(|text| {
        text.parse::<u64>().ok().filter(|uses| *uses <= 10_000).ok_or("--uses: must be a number up to 10000; 0: any")
    });
    let uses = uses.transpose()?;
    let (user, groups) = (user(flags)?, groups(flags)?);
    if join {
        return match (user, groups.is_empty()) {
            (None, true) => Ok(TokenWish {
                user: String::new(),
                groups,
                life_s: life_s.unwrap_or(JOIN_LIFE_S),
                join,
                uses: uses.unwrap_or(JOIN_USES),
            }),
            _ => Err("--join takes no --user and no --group: such a token is for hosts that join alone".to_owned()),
        };
    }
    if uses.is_some() {
        return Err("--uses is for --join".to_owned());
    }
    let user = user.ok_or("token create needs --user NAME, or --join for a host")?;
    Ok(TokenWish { user, groups, life_s: life_s.unwrap_or_default(), join, uses: 0 })
}

/// `90s`, `60m`, `12h`, `30d`, in seconds.
fn life(flag: &str, text: &str) -> Result<u64, String> {
    let wrong = || format!("--{flag} {text}: must be a number with s, m, h or d behind it, like 30d, and at least 60s");
    let factor = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3600,
        Some('d') => 24 * 3600,
        _ => return Err(wrong()),
    };
    let seconds = text[..text.len() - 1].parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    seconds.filter(|seconds| (LIFE_S_MIN..=LIFE_S_MAX).contains(seconds)).ok_or_else(wrong)
}

/// What stands in a kubeconfig: PEM texts, and the rest as it is.
pub struct KubeconfigParts<'a> {
    pub server: &'a str,
    pub authority: &'a str,
    pub user: &'a str,
    pub certificate: &'a str,
    pub key: &'a str,
}

/// A kubeconfig with everything in it.
pub fn kubeconfig(parts: &KubeconfigParts<'_>) -> String {
    let data = |pem: &str| base64::encode(pem.as_bytes());
    // A text of JSON is one of YAML.
    let quoted = |text: &str| Value::from(text).to_string();
    let user = quoted(parts.user);
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: coracle\n  cluster:\n    server: {}\n    \
         certificate-authority-data: {}\nusers:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    \
         client-key-data: {}\ncontexts:\n- name: coracle\n  context:\n    cluster: coracle\n    user: {user}\n\
         current-context: coracle\n",
        quoted(parts.server),
        data(parts.authority),
        data(parts.certificate),
        data(parts.key)
    )
}

/// The PEM text behind a key of a kubeconfig that `kubeconfig` made.
pub fn read_data(kubeconfig: &str, key: &str) -> Option<String> {
    let line = kubeconfig.lines().find_map(|line| line.trim_start().strip_prefix(key)?.strip_prefix(": "))?;
    String::from_utf8(base64::decode(line.trim()).ok()?).ok()
}

fn end(expires: i64) -> String {
    match Time::from_seconds(expires).filter(|_| expires > 0) {
        Some(end) => end.to_string(),
        None => "never".to_owned(),
    }
}

/// Columns, each as wide as its widest cell.
fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], at: usize| row.get(at).map_or(0, |cell| cell.chars().count());
    let width = |at: usize| rows.iter().map(|row| cell(row, at)).chain([head[at].chars().count()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("   ").trim_end().to_owned()
    };
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    [line(&head)].into_iter().chain(rows.iter().map(|row| line(row))).collect::<Vec<_>>().join("\n")
}

pub fn tokens(list: &TokenList) -> String {
    let row = |token: &StaticToken| {
        let uses = match (token.join, token.uses) {
            (false, _) => String::new(),
            (true, _) if token.used_up => "used up".to_owned(),
            (true, 0) => "any number of hosts".to_owned(),
            (true, uses) => format!("{uses} hosts to join"),
        };
        let groups = if token.groups.is_empty() { "-".to_owned() } else { token.groups.join(",") };
        vec![token.id.clone(), token.user.clone(), groups, end(token.expires), uses]
    };
    table(&["ID", "USER", "GROUPS", "END", "USES"], &list.tokens.iter().map(row).collect::<Vec<_>>())
}

pub fn users(list: &IssuedList) -> String {
    let mut users: BTreeMap<(&str, String), (usize, i64)> = BTreeMap::new();
    for one in &list.certificates {
        let groups = if one.groups.is_empty() { "-".to_owned() } else { one.groups.join(",") };
        let (count, last) = users.entry((&one.user, groups)).or_insert((0, 1));
        *count += 1;
        *last = if one.expires == 0 || *last == 0 { 0 } else { one.expires.max(*last) };
    }
    let row = |((user, groups), (count, last)): ((&str, String), (usize, i64))| {
        vec![user.to_owned(), groups, count.to_string(), end(last)]
    };
    table(&["USER", "GROUPS", "CERTIFICATES", "END"], &users.into_iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_keys::issued::IssuedCertificate;

    fn read(line: &str) -> Result<Credentials, String> {
        let mut rest = line.split_whitespace().map(str::to_owned);
        let (mut words, mut flags) = (Vec::new(), Vec::new());
        while let Some(argument) = rest.next() {
            match flag(&argument, &mut rest)? {
                Some(flag) => flags.push(flag),
                None => words.push(argument),
            }
        }
        parse(&words.iter().map(String::as_str).collect::<Vec<_>>(), &flags)
    }

    #[test]
    fn words_and_flags() {
        let admin = KubeconfigWish {
            user: "kubernetes-admin".into(),
            groups: vec!["system:masters".into()],
            server: None,
            life: None,
            write: false,
        };
        let ann = KubeconfigWish {
            user: "ann".into(),
            groups: vec!["a".into(), "b".into()],
            server: Some("https://s:1".into()),
            life: Some(Duration::from_secs(30 * 86_400)),
            write: false,
        };
        let join = TokenWish { life_s: 3600, join: true, uses: 1, ..TokenWish::default() };
        let token = TokenWish { user: "ann".into(), groups: vec!["g".into()], life_s: 7200, ..TokenWish::default() };
        for (line, expected) in [
            ("kubeconfig", Credentials::Kubeconfig(admin.clone())),
            ("kubeconfig --write", Credentials::Kubeconfig(KubeconfigWish { write: true, ..admin })),
            ("kubeconfig --user ann --group a --group=b --server https://s:1 --for 30d", Credentials::Kubeconfig(ann)),
            ("token create --join", Credentials::TokenCreate(join.clone())),
            ("token create --join --uses 5 --for 90s", {
                Credentials::TokenCreate(TokenWish { uses: 5, life_s: 90, ..join })
            }),
            ("token create --user ann --group g --for 2h", Credentials::TokenCreate(token)),
            ("token list", Credentials::TokenList),
            ("token revoke abcdef", Credentials::TokenRevoke("abcdef".into())),
            ("user list", Credentials::UserList),
            ("user revoke ann", Credentials::UserRevoke("ann".into())),
        ] {
            assert_eq!(read(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            ("kubeconfig ann", "kubeconfig takes flags alone"),
            ("kubeconfig --group a", "--group needs --user"),
            ("kubeconfig --user ann --write", "leave --user out"),
            ("kubeconfig --user ann --user bob", "--user is given a second time"),
            ("kubeconfig --user system:node:n1", "not given out by hand"),
            ("kubeconfig --server http://a", "must be a URL like https://"),
            ("kubeconfig --for 1y", "a number with s, m, h or d"),
            ("kubeconfig --for 59s", "at least 60s"),
            ("kubeconfig --for 999999d", "--for 999999d"),
            ("kubeconfig --join", "--join is not for kubeconfig"),
            ("kubeconfig --user=", "--user needs a value"),
            ("token", "one of create, list and revoke ID"),
            ("token create", "needs --user NAME"),
            ("token create --join --user a", "takes no --user"),
            ("token create --user a --uses 1", "--uses is for --join"),
            ("token create --join --uses x", "--uses: must be a number"),
            ("token list --for 1d", "--for is not for token list"),
            ("token list --join=yes", "--join takes no value"),
            ("user revoke", "one of list and revoke NAME"),
        ] {
            let why = read(line).expect_err(line);
            assert!(why.contains(expected), "{line}: {why}");
        }
    }

    #[test]
    fn a_kubeconfig_holds_everything() {
        let parts = KubeconfigParts {
            server: "https://127.0.0.1:6443",
            authority: "A\n",
            user: "ann: \"x\"",
            certificate: "C",
            key: "K",
        };
        let text = kubeconfig(&parts);
        assert!(text.contains("- name: \"ann: \\\"x\\\"\"\n  user:\n    client-certificate-data: Qw==\n"), "{text}");
        assert_eq!(read_data(&text, "certificate-authority-data"), Some("A\n".to_owned()));
        assert_eq!(read_data(&text, "client-key-data"), Some("K".to_owned()));
        assert_eq!(read_data(&text, "token"), None);
    }

    #[test]
    fn lists_for_people() {
        let one = |user: &str, expires: i64| IssuedCertificate {
            serial: "01".into(),
            user: user.into(),
            expires,
            ..IssuedCertificate::default()
        };
        let list = IssuedList { certificates: vec![one("bob", 0), one("ann", 1_800_000_000), one("bob", 5)] };
        let expected = "USER   GROUPS   CERTIFICATES   END\nann    -        1              2027-01-15T08:00:00Z\n\
                        bob    -        2              never";
        assert_eq!(users(&list), expected);
        let token =
            StaticToken { id: "abcdef".into(), user: "u".into(), join: true, uses: 2, ..StaticToken::default() };
        let expected = "ID       USER   GROUPS   END     USES\nabcdef   u      -        never   2 hosts to join";
        assert_eq!(tokens(&TokenList { tokens: vec![token.clone()] }), expected);
        let expected = "ID       USER   GROUPS   END     USES\nabcdef   u      -        never   used up";
        assert_eq!(tokens(&TokenList { tokens: vec![StaticToken { uses: 0, used_up: true, ..token }] }), expected);
    }
}
