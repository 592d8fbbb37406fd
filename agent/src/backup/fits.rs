//! Whether a restore may begin: what stands in the places of what is to come, and on which host. PURE.

use std::collections::BTreeMap;

use super::contents::size;

/// What is found where a part is to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// Entries of the directory, but for what a package has put there or the backup has left out.
    Directory(Vec<String>),
    /// No directory.
    Other,
    Unknown(String),
}

/// Why a part does not fit, and the line that makes room.
pub fn place(of: &str, directory: &str, found: &Found) -> Option<String> {
    match found {
        Found::Nothing => None,
        Found::Directory(entries) if entries.is_empty() => None,
        Found::Directory(entries) if entries.iter().any(|name| name == STAGING) => {
            Some(format!("{of}: in {directory} a restore was broken off: see what is in it, and empty it"))
        }
        Found::Directory(entries) => {
            let shown = entries.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            let more = if entries.len() > 3 { ", ..." } else { "" };
            Some(format!("{of}: {directory} is not empty ({shown}{more}): `mv {directory} {directory}.before`"))
        }
        Found::Other => Some(format!("{of}: {directory} is there and no directory")),
        Found::Unknown(why) => Some(format!("{of}: {directory}: {why}")),
    }
}

/// The folder in a directory in which its part is unpacked, before everything is moved at once.
pub const STAGING: &str = ".coracle-restoring";

/// Volumes belong to a node.
pub fn node(of_backup: &str, here: &str, named: bool) -> Option<String> {
    (of_backup != here && !named).then(|| {
        format!(
            "it is of node {of_backup}, and this host is node {here}: `hostnamectl set-hostname {of_backup}`, or say \
             --node-name {of_backup} here and write `node-name = {of_backup}` in agent.conf afterwards"
        )
    })
}

/// `needs`: bytes by the file system they go to, with its free bytes.
pub fn room(needs: &BTreeMap<u64, (u64, u64, String)>) -> Option<String> {
    let (needed, free, place) = needs.values().find(|(needed, free, _)| needed > free)?;
    Some(format!("there is no room for it at {place}: it needs {}, and {} are free", size(*needed), size(*free)))
}

/// The value of a key in a configuration file of `key = value`.
pub fn value_of(text: &str, wanted: &str) -> Option<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let mut values = lines.filter_map(|line| line.split_once('=')).filter(|(key, _)| key.trim() == wanted);
    values.next_back().map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let entries = |names: &[&str]| Found::Directory(names.iter().map(|name| (*name).to_owned()).collect());
        for (found, word) in [
            (Found::Nothing, None),
            (entries(&[]), None),
            (entries(&["a", "b"]), Some("the files: /etc/x is not empty (a, b): `mv /etc/x /etc/x.before`")),
            (entries(&["a", "b", "c", "d"]), Some("(a, b, c, ...)")),
            (entries(&["a", STAGING]), Some("a restore was broken off")),
            (Found::Other, Some("no directory")),
            (Found::Unknown("no".into()), Some("/etc/x: no")),
        ] {
            let why = place("the files", "/etc/x", &found);
            assert_eq!(why.is_some(), word.is_some(), "{found:?}");
            assert!(why.unwrap_or_default().contains(word.unwrap_or_default()), "{found:?}");
        }
    }

    #[test]
    fn hosts() {
        assert_eq!(node("a", "a", false), None);
        assert_eq!(node("a", "b", true), None);
        assert!(node("a", "b", false).unwrap().contains("hostnamectl set-hostname a"));
    }

    #[test]
    fn rooms() {
        let needs = |needed, free| BTreeMap::from([(1, (5, 10, "/".to_owned())), (2, (needed, free, "/v".to_owned()))]);
        assert_eq!(room(&needs(7, 7)), None);
        assert!(room(&needs(8, 7)).unwrap().contains("at /v: it needs 8 B, and 7 B are free"));
    }

    #[test]
    fn values() {
        let text = "# node-name = x\nnode-name=a\n node-name = b \nother =\n";
        assert_eq!(value_of(text, "node-name").as_deref(), Some("b"));
        assert_eq!((value_of(text, "other"), value_of(text, "none")), (None, None));
    }
}
