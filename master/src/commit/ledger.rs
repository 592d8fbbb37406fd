//! Charges quotas under one lock, held from the counting until the write, so that two creates at once cannot both have
//! the last of a quota. A quota's status is the last count; no decision reads the status, so the status may be lost.
//!
//! The price: what a quota counts is written one after the other, a sync of the disk each, and each such create reads
//! all that its namespace has of what is counted, once. What no quota counts knows nothing of this.

use super::view::{parsed, whole};
use super::{Change, CommitError, Made, Registry, Terms, Writer};
use crate::admit::{ClusterView, QUOTAS, quota};
use crate::prepare::{Ownership, Part, Standing};
use crate::store::Write;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Resource, Time};
use coracle_api::strategy::qos::{self, Amounts};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{MutexGuard, PoisonError};

/// The charge of a write to the quotas of its namespace. Nobody else counts as long as this is held.
pub(super) struct Charge<'r> {
    registry: &'r Registry,
    accounts: Vec<Account>,
    is_new: bool,
    now: Time,
    _counting: MutexGuard<'r, ()>,
}

/// A quota that a write is charged to.
struct Account {
    quota: Value,
    charge: Amounts,
    /// Before the write.
    used: Amounts,
}

impl Registry {
    /// Charges a write to the quotas. `Err`: the write exceeds a quota. None: no quota counts the object. The master's
    /// own objects are counted as well, but never refused, because all other objects depend on the master's objects.
    pub(super) fn charge(
        &self,
        kind: &Kind,
        write: &Write,
        old: Option<&Value>,
        terms: &Terms<'_>,
    ) -> Result<Option<Charge<'_>>, String> {
        match self.counted(kind, write, old, terms.writer != Writer::Master) {
            Err(why) if terms.writer == Writer::Master => {
                log::debug!("what it costs the quotas is not known: {why}");
                Ok(None)
            }
            counted => counted,
        }
    }

    fn counted(
        &self,
        kind: &Kind,
        write: &Write,
        old: Option<&Value>,
        refuses: bool,
    ) -> Result<Option<Charge<'_>>, String> {
        let (Write::Create { key, object, .. } | Write::Update { key, object, .. }) = write else { return Ok(None) };
        // Only the creation of a quota can count, no update: its status is written under this very lock.
        if key.namespace.is_empty() || key.resource == QUOTAS && old.is_some() {
            return Ok(None);
        }
        let now = self.now();
        let mut accounts = Vec::new();
        for quota in self.view().list(&QUOTAS, Some(&key.namespace))?.iter() {
            let charge = quota::charge(quota, kind, object, old, now);
            if !charge.is_empty() {
                accounts.push(Account { quota: quota.clone(), charge, used: Amounts::new() });
            }
        }
        if accounts.is_empty() {
            return Ok(None);
        }
        let counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        let quotas: Vec<&Value> = accounts.iter().map(|account| &account.quota).collect();
        let counted = self.count(&quotas, now)?;
        for (account, used) in accounts.iter_mut().zip(counted) {
            if refuses {
                quota::exceeded(&account.quota, &used, &account.charge)?;
            }
            account.used = used;
        }
        Ok(Some(Charge { registry: self, accounts, is_new: old.is_none(), now, _counting: counting }))
    }

    /// Counts every quota of a namespace.
    pub fn recount(&self, namespace: &str) {
        let _counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        self.recount_all(namespace, self.now());
    }

    fn now(&self) -> Time {
        self.maker.making(|making| making.now)
    }

    /// The usage of each given quota, all in one namespace. Each object is read once. An unreadable object may use more
    /// than is left.
    fn count(&self, quotas: &[&Value], now: Time) -> Result<Vec<Amounts>, String> {
        let mut used = vec![Amounts::new(); quotas.len()];
        let Some(first) = quotas.first() else { return Ok(used) };
        let namespace = first["metadata"]["namespace"].as_str().unwrap_or_default();
        let counted: Vec<BTreeSet<Resource>> = quotas.iter().map(|quota| quota::counted(quota)).collect();
        for resource in counted.iter().flatten().collect::<BTreeSet<_>>() {
            let Some(kind) = self.kind(resource) else { continue };
            for stored in whole(&self.store.list(resource, Some(namespace)))? {
                let object = parsed(stored)?;
                let those =
                    quotas.iter().zip(&counted).zip(&mut used).filter(|((_, counted), _)| counted.contains(resource));
                those.for_each(|((quota, _), used)| quota::count(quota, &kind, &object, now, used));
            }
        }
        Ok(used)
    }

    /// Writes what is used of each quota of a namespace, if that can be said.
    fn recount_all(&self, namespace: &str, now: Time) {
        match self.view().list(&QUOTAS, Some(namespace)) {
            Ok(quotas) => quotas.iter().for_each(|quota| self.write_used(quota, None, now)),
            Err(why) => log::debug!("namespace {namespace}: what is used of its quotas is not written: {why}"),
        }
    }

    /// Writes the usage of a quota. After a failed write the next change counts the usage again. `counted`: the usage
    /// under the spec in `quota`.
    fn write_used(&self, quota: &Value, counted: Option<&Amounts>, now: Time) {
        let Some(kind) = self.kind(&QUOTAS) else { return };
        let said = |field: &str| quota["metadata"][field].as_str().unwrap_or_default();
        let make = |old: Option<Standing<'_>>| {
            let Some(old) = old.map(|old| old.object) else { return Ok(Made::Unchanged) };
            let used = match counted.filter(|_| old["spec"] == quota["spec"]) {
                Some(used) => used.clone(),
                None => self.count(&[old], now)?.pop().unwrap_or_default(),
            };
            let status = quota::status(old, &used);
            if old["status"] == status {
                return Ok(Made::Unchanged);
            }
            let mut object = old.clone();
            object["status"] = status;
            Ok(Made::document(Part::Status, object, Ownership::Untold))
        };
        let change: Change<'_, String> = Change::update(&kind, said("namespace"), said("name"), &make);
        match self.commit(&change, &Terms::of(Writer::Master)) {
            Ok(_) | Err(CommitError::Missing | CommitError::Damaged { .. }) => {}
            Err(CommitError::Writer(why)) => log::debug!("{}: what is used of it is not written: {why}", change.key()),
            Err(barred) => log::warn!("{}: what is used of it cannot be written: {barred}", change.key()),
        }
    }
}

impl Charge<'_> {
    /// After the write: what is used now stands in the quotas.
    pub(super) fn settle(self, namespace: &str) {
        if !self.is_new {
            return self.registry.recount_all(namespace, self.now);
        }
        // The new usage of a charged quota is the count plus the charge; a new object uses no other quota.
        for Account { quota, charge, mut used } in self.accounts {
            qos::add_all(&mut used, &charge);
            self.registry.write_used(&quota, Some(&used), self.now);
        }
    }
}
