//! PURE. The certificates of clients that the authority has signed, so that a user's can be found and revoked.
//!
//! Nodes get certificates by rule, without a person's look: their part of the list is bounded by taking the oldest
//! certificates of the same asker out, which are revoked. A certificate of another user is never taken out: where the
//! list is full, no more are signed until somebody revokes some. A join token takes none out that belongs to a Node:
//! whoever has the token could end the certificate that the node has got by it.
//!
//! A certificate of a node that has registered carries the uid of the Node: it ends with that object.

use super::revoked::from_hex;
use super::tokens::TokenList;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Certificates in the list; each takes some 250 bytes.
pub const ISSUED_MAX: usize = 10_000;
/// Certificates of one user: no user keeps others from theirs.
pub const ISSUED_OF_USER_MAX: usize = 200;
/// The most certificates of one node that the requests of one user get.
pub const ISSUED_OF_NODE_MAX: usize = 20;
/// Certificates of unregistered nodes by requests of one user.
pub const UNREGISTERED_MAX: usize = 100;
/// How the user of a node is called.
const NODE_PREFIX: &str = "system:node:";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedList {
    pub certificates: Vec<IssuedCertificate>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedCertificate {
    /// In hexadecimal digits.
    pub serial: String,
    pub user: String,
    #[serde(default)]
    pub groups: Vec<String>,
    /// Seconds since 1970.
    #[serde(default)]
    pub made: i64,
    /// Seconds since 1970. 0: it never ends.
    #[serde(default)]
    pub expires: i64,
    /// The user whose request was signed. Empty: a command made it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The uid of the Node, once the node has registered. Empty: it has not yet, or the user is no node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The name of the signing authority. Empty: the first authority.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub authority: String,
}

impl IssuedCertificate {
    /// The node that it is for.
    pub fn node_name(&self) -> Option<&str> {
        self.user.strip_prefix(NODE_PREFIX)
    }

    fn is_unregistered(&self) -> bool {
        self.node.is_empty() && self.node_name().is_some()
    }
}

/// The user of a node's certificates.
pub fn user_of_node(node: &str) -> String {
    format!("{NODE_PREFIX}{node}")
}

impl IssuedList {
    /// `Err`: the text is no list. It must not be taken for an empty one.
    pub fn parse(text: &str) -> Result<IssuedList, String> {
        if text.trim().is_empty() {
            return Ok(IssuedList::default());
        }
        let list: IssuedList = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match list.certificates.iter().find(|one| from_hex(&one.serial).is_none()) {
            Some(one) => Err(format!("certificate of {:?}: {:?} is no serial number", one.user, one.serial)),
            None => Ok(list),
        }
    }

    /// One certificate in a line.
    pub fn text(&self) -> String {
        let lines: Vec<String> =
            self.certificates.iter().map(|one| serde_json::to_string(one).unwrap_or_default()).collect();
        format!("{{\"certificates\":[\n{}\n]}}\n", lines.join(",\n"))
    }

    /// Adds a certificate; those that have ended go. The answer: the certificates whose place it takes, to be revoked.
    pub fn add(&mut self, one: IssuedCertificate, now_s: i64) -> Result<Vec<IssuedCertificate>, String> {
        self.certificates.retain(|one| one.expires == 0 || one.expires > now_s);
        let mut superseded = Vec::new();
        if one.node_name().is_some() {
            let same = |other: &IssuedCertificate| (&other.user, &other.by) == (&one.user, &one.by);
            let joins = TokenList::bootstrap_id(&one.by).is_some();
            let kept = |other: &IssuedCertificate| joins && !other.is_unregistered();
            if self.certificates.iter().filter(|other| same(other) && kept(other)).count() >= ISSUED_OF_NODE_MAX {
                return Err(format!(
                    "{:?} has {ISSUED_OF_NODE_MAX} certificates by the join token of {:?}, which is the most: \
                     `coracle-master user revoke {}` ends them",
                    one.user, one.by, one.user
                ));
            }
            superseded.extend(self.supersede(ISSUED_OF_NODE_MAX, same, kept));
            if one.is_unregistered() {
                let same = |other: &IssuedCertificate| other.is_unregistered() && other.by == one.by;
                superseded.extend(self.supersede(UNREGISTERED_MAX, same, |_| false));
            }
            superseded.extend(self.supersede_one(ISSUED_MAX));
        } else if self.certificates.iter().filter(|other| other.user == one.user).count() >= ISSUED_OF_USER_MAX {
            return Err(format!(
                "{:?} has {ISSUED_OF_USER_MAX} certificates, which is the most: `coracle-master user revoke` ends them",
                one.user
            ));
        } else {
            superseded.extend(self.supersede_one(ISSUED_MAX));
        }
        if self.certificates.len() >= ISSUED_MAX {
            return Err(format!("there are {ISSUED_MAX} certificates, which is the most: revoke some first"));
        }
        self.certificates.push(one);
        Ok(superseded)
    }

    /// Takes the oldest of these out until one more has room, but none that is kept.
    fn supersede(
        &mut self,
        most: usize,
        is_one: impl Fn(&IssuedCertificate) -> bool,
        is_kept: impl Fn(&IssuedCertificate) -> bool,
    ) -> Vec<IssuedCertificate> {
        let count = self.certificates.iter().filter(|one| is_one(one)).count();
        let mut left = (count + 1).saturating_sub(most);
        let mut out = |one: &IssuedCertificate| {
            let goes = left > 0 && is_one(one) && !is_kept(one);
            left -= usize::from(goes);
            goes
        };
        let (gone, kept) = std::mem::take(&mut self.certificates).into_iter().partition(|one| out(one));
        self.certificates = kept;
        gone
    }

    /// In a full list the oldest certificate of a node that never registered makes room.
    fn supersede_one(&mut self, most: usize) -> Option<IssuedCertificate> {
        if self.certificates.len() < most {
            return None;
        }
        let oldest = self.certificates.iter().position(IssuedCertificate::is_unregistered)?;
        Some(self.certificates.remove(oldest))
    }

    /// The Node of this name is this object: certificates that have no object yet belong to it, and those of an earlier
    /// object are taken out. The serial numbers of the latter, and whether the list has changed.
    pub fn settle(&mut self, node: &str, uid: &str) -> (Vec<Vec<u8>>, bool) {
        let user = user_of_node(node);
        let of_before = |one: &IssuedCertificate| one.user == user && !one.node.is_empty() && one.node != uid;
        let ended = self.take_where(of_before);
        let mut changed = !ended.is_empty();
        for one in self.certificates.iter_mut().filter(|one| one.user == user && one.node.is_empty()) {
            (one.node, changed) = (uid.to_owned(), true);
        }
        (ended, changed)
    }

    /// The nodes with certificates that belong to no Node, each once.
    pub fn unregistered(&self) -> BTreeSet<String> {
        let of = self.certificates.iter().filter(|one| one.node.is_empty());
        of.filter_map(|one| one.node_name().map(str::to_owned)).collect()
    }

    /// The nodes whose certificates belong to a Node: name and uid, each pair once.
    pub fn registered(&self) -> Vec<(String, String)> {
        let of = self.certificates.iter().filter(|one| !one.node.is_empty());
        let mut nodes: Vec<(String, String)> =
            of.filter_map(|one| Some((one.node_name()?.to_owned(), one.node.clone()))).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Takes certificates out, and gives their serial numbers.
    pub fn take_where(&mut self, is_one: impl Fn(&IssuedCertificate) -> bool) -> Vec<Vec<u8>> {
        let (gone, kept) = std::mem::take(&mut self.certificates).into_iter().partition(|one| is_one(one));
        self.certificates = kept;
        let gone: Vec<IssuedCertificate> = gone;
        gone.iter().filter_map(|one| from_hex(&one.serial)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(serial: usize, user: &str, expires: i64) -> IssuedCertificate {
        let serial = format!("{serial:08x}");
        IssuedCertificate {
            serial,
            user: user.into(),
            groups: vec!["g".into()],
            made: 1,
            expires,
            ..Default::default()
        }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let mut list = IssuedList::default();
        list.add(one(1, "ann", 0), 10).expect("room");
        list.add(one(2, "bob", 20), 10).expect("room");
        assert_eq!(IssuedList::parse(&list.text()), Ok(list.clone()));
        assert_eq!(IssuedList::parse(&IssuedList::default().text()), Ok(IssuedList::default()));
        assert_eq!(list.take_where(|one| one.user == "ann"), [vec![0, 0, 0, 1]]);
        // One that has ended makes room.
        list.add(one(3, "ann", 0), 20).expect("room");
        assert_eq!(list.certificates.len(), 1);
        for bad in ["x", "{}", r#"{"certificates":[{"serial":"z","user":"a"}]}"#] {
            assert!(IssuedList::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_user_has_a_limit() {
        let mut list = IssuedList::default();
        for serial in 0..ISSUED_OF_USER_MAX {
            list.add(one(serial, "ann", 0), 10).expect("room");
        }
        assert!(list.add(one(900, "ann", 0), 10).is_err());
        list.add(one(900, "bob", 0), 10).expect("others have room");
    }

    /// A certificate of a node that `by` asked for.
    fn of_node(serial: usize, node: &str, by: &str, uid: &str) -> IssuedCertificate {
        IssuedCertificate { by: by.into(), node: uid.into(), ..one(serial, &user_of_node(node), 0) }
    }

    fn serials(list: &[IssuedCertificate]) -> Vec<usize> {
        list.iter().map(|one| usize::from_str_radix(&one.serial, 16).expect("a number")).collect()
    }

    #[test]
    fn the_oldest_of_the_same_asker_makes_room() {
        let mut list = IssuedList::default();
        list.add(of_node(1, "n", "other", "u"), 10).expect("room");
        list.add(one(2, "ann", 0), 10).expect("room");
        for serial in 10..10 + ISSUED_OF_NODE_MAX {
            assert_eq!(list.add(of_node(serial, "n", "join", "u"), 10), Ok(vec![]));
        }
        for serial in 100..103 {
            let out = list.add(of_node(serial, "n", "join", "u"), 10).expect("room");
            assert_eq!(serials(&out), [serial - 90]);
        }
        // Others keep theirs.
        assert_eq!(serials(&list.certificates)[..3], [1, 2, 13]);
        // Many nodes that never come are many names for one asker.
        let mut list = IssuedList::default();
        list.add(of_node(1, "here", "join", "u"), 10).expect("room");
        let node = |serial: usize| of_node(serial, &format!("n{serial}"), "join", "");
        for serial in 10..10 + UNREGISTERED_MAX {
            assert_eq!(list.add(node(serial), 10), Ok(vec![]));
        }
        assert_eq!(serials(&list.add(node(500), 10).expect("room")), [10]);
        assert_eq!(list.certificates.len(), UNREGISTERED_MAX + 1);
        assert_eq!(list.certificates[0].node, "u", "a node that has registered keeps its certificate");
    }

    /// Whoever has the join token asks again and again for a certificate of a node that has joined by it.
    #[test]
    fn a_join_token_ends_no_certificate_of_a_node() {
        let by = "system:bootstrap:abcdef";
        let mut list = IssuedList::default();
        list.add(of_node(1, "n", by, "u"), 10).expect("room");
        for serial in 10..10 + ISSUED_OF_NODE_MAX - 1 {
            assert_eq!(list.add(of_node(serial, "n", by, ""), 10), Ok(vec![]));
        }
        assert_eq!(serials(&list.add(of_node(500, "n", by, ""), 10).expect("room")), [10]);
        assert_eq!(serials(&list.certificates)[0], 1);
        // The requests for these certificates were approved by an administrator.
        list.settle("n", "u");
        let why = list.add(of_node(600, "n", by, "u"), 10).expect_err("none makes room");
        assert!(why.contains("user revoke system:node:n"), "{why}");
        list.add(of_node(601, "n", "system:node:n", "u"), 10).expect("the node itself has room");
    }

    #[test]
    fn a_full_list_has_room_where_a_node_never_came() {
        let certificates = (0..ISSUED_MAX).map(|serial| one(serial, &format!("u{serial}"), 0)).collect();
        let mut list = IssuedList { certificates };
        for new in [one(0x0fff_0000, "ann", 0), of_node(0x0fff_0001, "n", "join", "")] {
            let why = list.add(new, 10).expect_err("it is full");
            assert!(why.contains("revoke some first"), "{why}");
        }
        list.certificates[7] = of_node(7, "gone", "join", "");
        assert_eq!(serials(&list.add(one(0x0fff_0000, "ann", 0), 10).expect("room")), [7]);
        assert_eq!(list.certificates.len(), ISSUED_MAX);
    }

    #[test]
    fn certificates_of_a_node_belong_to_its_object() {
        let mut list = IssuedList::default();
        for one in [of_node(1, "n", "join", ""), of_node(2, "n", "join", "old"), of_node(3, "m", "join", "")] {
            list.add(one, 10).expect("room");
        }
        let (ended, changed) = list.settle("n", "new");
        assert_eq!((ended, changed), (vec![vec![0, 0, 0, 2]], true));
        assert_eq!(list.settle("n", "new"), (vec![], false));
        assert_eq!(list.registered(), [("n".to_owned(), "new".to_owned())]);
        assert_eq!(IssuedList::parse(&list.text()), Ok(list.clone()));
        // As an earlier version wrote it.
        let old = IssuedList::parse("{\"certificates\":[\n{\"serial\":\"01\",\"user\":\"ann\"}\n]}\n").expect("a list");
        assert_eq!((old.certificates[0].node.as_str(), old.certificates[0].authority.as_str()), ("", ""));
    }
}
