//! The one place where something is written that a quota counts: counted, compared and written under one lock, so that two creates at once
//! cannot both have the last of it. A quota's status is what was counted last; nothing is decided by it, so it may be lost.

use super::View;
use super::quota::{self, Amounts};
use crate::making::Maker;
use crate::prepare::{self, Part, Standing};
use crate::store::{Refused, Store, Stored, Write};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Key, Resource, Time};
use coracle_api::strategy::Rules;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

const QUOTAS: Resource = Resource::core("resourcequotas");
/// A status that somebody else writes meanwhile is counted anew so often; the controllers count it again after that.
const RACES_MAX: usize = 4;

/// Why something was not written.
#[derive(Debug)]
pub enum Barred {
    /// A quota has not so much left, or needs to be told something.
    Forbidden(String),
    Refused(Refused),
}

pub struct Ledger {
    kinds: Arc<Kinds>,
    maker: Arc<Maker>,
    /// Held from the counting until what was counted for is written. Only namespaces with quotas know it.
    counting: Mutex<()>,
}

/// A quota that a write is charged to.
struct Account {
    quota: Value,
    charge: Amounts,
}

impl Ledger {
    pub fn new(kinds: Arc<Kinds>, maker: Arc<Maker>) -> Ledger {
        Ledger { kinds, maker, counting: Mutex::new(()) }
    }

    /// Writes, or says what writing would come to. `old`: what an update replaces.
    pub fn commit(&self, store: &dyn Store, kind: &Kind, write: Write, old: Option<&Value>, rehearsal: bool) -> Result<Stored, Barred> {
        let accounts = self.accounts(store, kind, &write, old)?;
        let commit = |write| if rehearsal { store.rehearse(write) } else { store.write(write) };
        if accounts.is_empty() {
            return commit(write).map_err(Barred::Refused);
        }
        let _counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        for account in &accounts {
            let used = self.used(store, &account.quota, now);
            quota::exceeded(&account.quota, &used, &account.charge).map_err(Barred::Forbidden)?;
        }
        let namespace = match &write {
            Write::Create { key, .. } | Write::Update { key, .. } | Write::Delete { key, .. } => key.namespace.clone(),
        };
        let stored = commit(write).map_err(Barred::Refused)?;
        if !rehearsal {
            self.tell(store, &namespace, now);
        }
        Ok(stored)
    }

    /// Counts every quota of a namespace.
    pub fn recount(&self, store: &dyn Store, namespace: &str) {
        let _counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell(store, namespace, self.now());
    }

    fn now(&self) -> Time {
        self.maker.making(|making| making.now)
    }

    fn accounts(&self, store: &dyn Store, kind: &Kind, write: &Write, old: Option<&Value>) -> Result<Vec<Account>, Barred> {
        let (Write::Create { key, object, .. } | Write::Update { key, object, .. }) = write else { return Ok(Vec::new()) };
        if key.namespace.is_empty() {
            return Ok(Vec::new());
        }
        let mut accounts = Vec::new();
        for quota in View::list(&store, &QUOTAS, Some(&key.namespace)) {
            let charge = quota::charge(&quota, kind, object, old, self.now());
            if old.is_none() {
                quota::unsaid(&quota, kind, object).map_err(Barred::Forbidden)?;
            }
            if !charge.is_empty() {
                accounts.push(Account { quota, charge });
            }
        }
        Ok(accounts)
    }

    fn used(&self, store: &dyn Store, quota: &Value, now: Time) -> Amounts {
        let namespace = quota["metadata"]["namespace"].as_str().unwrap_or_default();
        let mut sum = Amounts::new();
        for resource in quota::counted(quota) {
            let Some(kind) = self.kinds.by_resource(&resource) else { continue };
            let objects = View::list(&store, &resource, Some(namespace));
            sum.extend(quota::used(quota, kind, objects.iter(), now));
        }
        sum
    }

    /// Writes what is used of each quota. One that cannot be written now is counted again with the next change.
    fn tell(&self, store: &dyn Store, namespace: &str, now: Time) {
        let Some(kind) = self.kinds.by_resource(&QUOTAS) else { return };
        for quota in View::list(&store, &QUOTAS, Some(namespace)) {
            let name = quota["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let key = Key { resource: QUOTAS, namespace: namespace.to_owned(), name };
            for _ in 0..RACES_MAX {
                match self.tell_one(store, kind, &key, now) {
                    Ok(()) => break,
                    Err(Refused::Stale { .. }) => {}
                    Err(refused) => {
                        log::warn!("{key}: what is used of it cannot be written: {refused}");
                        break;
                    }
                }
            }
        }
    }

    fn tell_one(&self, store: &dyn Store, kind: &Kind, key: &Key, now: Time) -> Result<(), Refused> {
        let Ok(Some(stored)) = store.get(key) else { return Ok(()) };
        let Ok(old) = serde_json::from_slice::<Value>(&stored.json) else { return Ok(()) };
        let status = quota::status(&old, &self.used(store, &old, now));
        if old["status"] == status {
            return Ok(());
        }
        let mut new = old.clone();
        new["status"] = status;
        let (rules, standing) = (Rules { old_names: true, ..Rules::default() }, Standing { key, revision: stored.revision, object: &old });
        let write = self.maker.making(|making| prepare::update(kind, standing, Part::Status, new, rules, making));
        match write {
            Ok(write) => store.write(write).map(drop),
            Err(unfit) => {
                log::warn!("{key}: what is used of it cannot be told: {unfit}");
                Ok(())
            }
        }
    }
}

impl View for &dyn Store {
    fn get(&self, key: &Key) -> Result<Option<Value>, String> {
        let stored = Store::get(*self, key).map_err(|damaged| damaged.why)?;
        stored.map(|stored| serde_json::from_slice(&stored.json).map_err(|error| error.to_string())).transpose()
    }

    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Vec<Value> {
        let page = Store::list(*self, resource, namespace);
        page.items.iter().filter_map(|stored| serde_json::from_slice(&stored.json).ok()).collect()
    }
}
