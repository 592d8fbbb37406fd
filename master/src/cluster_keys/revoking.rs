//! The end of certificates: by user, by node, by serial number.

use super::ClusterKeys;
use super::files::{ISSUED, REVOKED, Stamp, TOKENS};
use super::issued::{IssuedCertificate, IssuedList, user_of_node};
use super::revoked::RevokedList;
use std::sync::PoisonError;

/// What is known of a Node in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// By its uid.
    There(String),
    Gone,
    /// It cannot be read.
    Unknown,
}

impl ClusterKeys {
    /// Whether the certificate with this serial number counts no more, by the list as it was read last. `look` reads a
    /// changed list: nothing here waits for a disk.
    pub fn is_revoked(&self, serial: &[u8]) -> bool {
        let known = self.revoked.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_none_or(|list| list.holds(serial))
    }

    /// As `is_revoked`, but where the list has never been readable nothing is known.
    pub(super) fn is_known_revoked(&self, serial: &[u8]) -> bool {
        let known = self.revoked.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|list| list.holds(serial))
    }

    /// Differs from before when certificates or tokens were revoked: what is open is to be judged again.
    pub fn revocations(&self) -> [Stamp; 2] {
        [self.folder.stamp(REVOKED), self.folder.stamp(TOKENS)]
    }

    /// Ends one certificate. `user`: for people who read the list.
    pub fn revoke(&self, serial: &[u8], user: &str) -> Result<(), String> {
        let done = self.folder.update(REVOKED, |text| {
            let mut list = RevokedList::parse(text)?;
            list.add(serial, user)?;
            Ok((Some(list.text()), ()))
        });
        self.look();
        done
    }

    /// Ends every certificate that a user has now, and gives their number.
    pub fn revoke_user(&self, user: &str) -> Result<usize, String> {
        self.revoke_where(|one| one.user == user)
    }

    /// Ends the certificates of a deleted Node. `now` is the Node of that name, which may have joined again: its
    /// certificates stay.
    pub fn revoke_node(&self, node: &str, now: &NodeState) -> Result<usize, String> {
        let user = user_of_node(node);
        match now {
            NodeState::Unknown => Ok(0),
            NodeState::Gone => self.revoke_user(&user),
            NodeState::There(uid) => {
                self.revoke_where(|one| one.user == user && !one.node.is_empty() && one.node != *uid)
            }
        }
    }

    /// Certificates of a node's name that belong to no Node yet belong to this Node from now on, and certificates of an
    /// earlier Node end. Returns the number of the latter. Nothing is written where nothing changes.
    pub fn settle_node(&self, node: &str, uid: &str) -> Result<usize, String> {
        let knows = |list: &mut IssuedList| !list.settle(node, uid).1;
        if knows(&mut self.issued()?) {
            return Ok(0);
        }
        let user = user_of_node(node);
        let ended = self.revoke_where(|one| one.user == user && !one.node.is_empty() && one.node != uid)?;
        self.folder.update(ISSUED, |text| {
            let mut list = IssuedList::parse(text)?;
            let (_, changed) = list.settle(node, uid);
            Ok((changed.then(|| list.text()), ()))
        })?;
        Ok(ended)
    }

    /// At a start: ends the certificates of Nodes that are gone, where a crash came between the deletion and this. The
    /// certificates of a node that has not registered yet stay.
    pub fn revoke_departed(&self, state: impl Fn(&str) -> NodeState) -> Result<usize, String> {
        let mut ended = 0;
        // A crash may have come between a registration and the note of it, too.
        for node in self.issued()?.unregistered() {
            if let NodeState::There(uid) = state(&node) {
                ended += self.settle_node(&node, &uid)?;
            }
        }
        for (node, uid) in self.issued()?.registered() {
            let is_gone = match state(&node) {
                NodeState::Unknown => false,
                NodeState::Gone => true,
                NodeState::There(now) => now != uid,
            };
            if is_gone {
                let user = user_of_node(&node);
                ended += self.revoke_where(|one| one.user == user && one.node == uid)?;
                log::info!("node {node} is gone: its certificates count no more");
            }
        }
        Ok(ended)
    }

    pub(super) fn revoke_where(&self, is_one: impl Fn(&IssuedCertificate) -> bool) -> Result<usize, String> {
        let held = self.folder.hold()?;
        let (text, taken) = held.update(ISSUED, |text| {
            let mut list = IssuedList::parse(text)?;
            let taken: Vec<IssuedCertificate> = list.certificates.iter().filter(|one| is_one(one)).cloned().collect();
            list.take_where(&is_one);
            Ok((None, (list.text(), taken)))
        })?;
        if taken.is_empty() {
            return Ok(0);
        }
        held.update(REVOKED, |text| {
            let mut list = RevokedList::parse(text)?;
            for one in &taken {
                list.add(&super::revoked::from_hex(&one.serial).unwrap_or_default(), &one.user)?;
            }
            Ok((Some(list.text()), ()))
        })?;
        held.update(ISSUED, |_| Ok((Some(text), ())))?;
        drop(held);
        self.look();
        Ok(taken.len())
    }

    /// The certificates of clients that count.
    pub fn issued(&self) -> Result<IssuedList, String> {
        let text = self.folder.read(ISSUED)?.unwrap_or_default();
        IssuedList::parse(&text).map_err(|why| format!("{}: {why}", self.folder.path(ISSUED).display()))
    }
}
