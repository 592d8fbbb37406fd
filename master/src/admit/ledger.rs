//! The one place where something is written that a quota counts: counted, compared and written under one lock, so that two creates at once
//! cannot both have the last of it. A quota's status is what was counted last; nothing is decided by it, so it may be lost.
//!
//! The price: what a quota counts is written one after the other, a sync of the disk each, and each such create reads all that its
//! namespace has of what is counted, once. What no quota counts knows nothing of this.

use super::View;
use super::quota;
use crate::making::Maker;
use crate::prepare::{self, Part, Standing};
use crate::store::{Page, Refused, Store, Stored, Write};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Key, Resource, Time};
use coracle_api::strategy::Rules;
use coracle_api::strategy::qos::{self, Amounts};
use serde_json::Value;
use std::collections::BTreeSet;
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
        let quotas: Vec<&Value> = accounts.iter().map(|account| &account.quota).collect();
        let mut counted = self.count(store, &quotas, now).map_err(Barred::Forbidden)?;
        for (account, used) in accounts.iter().zip(&counted) {
            quota::exceeded(&account.quota, used, &account.charge).map_err(Barred::Forbidden)?;
        }
        let namespace = match &write {
            Write::Create { key, .. } | Write::Update { key, .. } | Write::Delete { key, .. } => key.namespace.clone(),
        };
        let stored = commit(write).map_err(Barred::Refused)?;
        match old {
            _ if rehearsal => {}
            // It uses what was counted and what it was charged, and nothing of other quotas.
            None => {
                for (account, used) in accounts.iter().zip(&mut counted) {
                    qos::add_all(used, &account.charge);
                    self.tell(store, &account.quota, Some(used), now);
                }
            }
            Some(_) => self.tell_all(store, &namespace, now),
        }
        Ok(stored)
    }

    /// Counts every quota of a namespace.
    pub fn recount(&self, store: &dyn Store, namespace: &str) {
        let _counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell_all(store, namespace, self.now());
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
        for quota in View::list(&store, &QUOTAS, Some(&key.namespace)).map_err(Barred::Forbidden)? {
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

    /// What is used of each of these quotas of one namespace. Each object is read once. What nobody can read may use more than is left.
    fn count(&self, store: &dyn Store, quotas: &[&Value], now: Time) -> Result<Vec<Amounts>, String> {
        let mut used = vec![Amounts::new(); quotas.len()];
        let Some(first) = quotas.first() else { return Ok(used) };
        let namespace = first["metadata"]["namespace"].as_str().unwrap_or_default();
        let counted: Vec<BTreeSet<Resource>> = quotas.iter().map(|quota| quota::counted(quota)).collect();
        for resource in counted.iter().flatten().collect::<BTreeSet<_>>() {
            let Some(kind) = self.kinds.by_resource(resource) else { continue };
            for stored in whole(store.list(resource, Some(namespace)))? {
                let object = parsed(&stored)?;
                let those = quotas.iter().zip(&counted).zip(&mut used).filter(|((_, counted), _)| counted.contains(resource));
                those.for_each(|((quota, _), used)| quota::count(quota, kind, &object, now, used));
            }
        }
        Ok(used)
    }

    /// Writes what is used of each quota of a namespace, if that can be said.
    fn tell_all(&self, store: &dyn Store, namespace: &str, now: Time) {
        match View::list(&store, &QUOTAS, Some(namespace)) {
            Ok(quotas) => quotas.iter().for_each(|quota| self.tell(store, quota, None, now)),
            Err(why) => log::debug!("namespace {namespace}: what is used of its quotas is not told: {why}"),
        }
    }

    /// Writes what is used of a quota. One that cannot be written now is counted again with the next change. `counted`: what is used of it
    /// as it is given here.
    fn tell(&self, store: &dyn Store, quota: &Value, counted: Option<&Amounts>, now: Time) {
        let Some(kind) = self.kinds.by_resource(&QUOTAS) else { return };
        let said = |field: &str| quota["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = Key { resource: QUOTAS, namespace: said("namespace"), name: said("name") };
        for _ in 0..RACES_MAX {
            let used = |stands: &Value| match counted.filter(|_| stands["spec"] == quota["spec"]) {
                Some(used) => Ok(used.clone()),
                None => self.count(store, &[stands], now).map(|mut used| used.pop().unwrap_or_default()),
            };
            match self.tell_one(store, kind, &key, used) {
                Ok(()) => break,
                Err(Refused::Stale { .. }) => {}
                Err(refused) => {
                    log::warn!("{key}: what is used of it cannot be written: {refused}");
                    break;
                }
            }
        }
    }

    fn tell_one(&self, store: &dyn Store, kind: &Kind, key: &Key, used: impl Fn(&Value) -> Result<Amounts, String>) -> Result<(), Refused> {
        let Ok(Some(stored)) = store.get(key) else { return Ok(()) };
        let Ok(old) = serde_json::from_slice::<Value>(&stored.json) else { return Ok(()) };
        let status = match used(&old) {
            Ok(used) => quota::status(&old, &used),
            Err(why) => {
                log::debug!("{key}: what is used of it is not told: {why}");
                return Ok(());
            }
        };
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

/// All that is listed, if it can be read: what cannot may say anything.
fn whole(page: Page) -> Result<Vec<Stored>, String> {
    match page.damaged.first() {
        Some(key) => Err(format!("the file of {key} is damaged, see /healthz?verbose")),
        None => Ok(page.items),
    }
}

fn parsed(stored: &Stored) -> Result<Value, String> {
    serde_json::from_slice(&stored.json).map_err(|error| format!("{}: {error}", stored.key))
}

impl View for &dyn Store {
    fn get(&self, key: &Key) -> Result<Option<Value>, String> {
        let stored = Store::get(*self, key).map_err(|damaged| damaged.why)?;
        stored.as_ref().map(parsed).transpose()
    }

    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Result<Vec<Value>, String> {
        whole(Store::list(*self, resource, namespace))?.iter().map(parsed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::making::tests::in_memory;
    use coracle_api::meta::Durable;
    use serde_json::json;

    fn create(resource: &Resource, name: &str, spec: Value) -> Write {
        let key = Key { resource: resource.clone(), namespace: "a".to_owned(), name: name.to_owned() };
        let object = json!({"metadata": {"name": name, "namespace": "a"}, "spec": spec});
        Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() }
    }

    #[test]
    fn what_is_counted_is_told_and_held() {
        let (store, kinds, maker) = in_memory();
        let (store, ledger, secrets) = (&*store, Ledger::new(kinds.clone(), maker), Resource::core("secrets"));
        for (name, hard) in [("two", json!({"secrets": "2", "pods": "1"})), ("others", json!({"pods": "1"}))] {
            store.write(create(&QUOTAS, name, json!({"hard": hard}))).expect("it is new");
        }
        let kind = kinds.by_resource(&secrets).expect("a row");
        let check = |name: &str, rehearsal: bool, expected: Result<&str, &str>| {
            let done = ledger.commit(store, kind, create(&secrets, name, json!({})), None, rehearsal);
            let quota = store.get(&Key { resource: QUOTAS, namespace: "a".to_owned(), name: "two".to_owned() });
            let quota = parsed(&quota.expect("whole").expect("there")).expect("JSON");
            let used = quota["status"]["used"]["secrets"].as_str().unwrap_or_default().to_owned();
            assert_eq!(done.map(|_| used).map_err(|barred| format!("{barred:?}")), expected.map(str::to_owned).map_err(str::to_owned));
        };
        check("x", true, Ok(""));
        check("x", false, Ok("1"));
        check("y", false, Ok("2"));
        check("z", false, Err("Forbidden(\"exceeded quota: two, requested: secrets=1, used: secrets=2, limited: secrets=2\")"));
    }

    #[test]
    fn what_nobody_can_read_is_not_absent() {
        let key = Key { resource: QUOTAS, namespace: "a".to_owned(), name: "b".to_owned() };
        let listed = whole(Page { damaged: vec![key], ..Page::default() });
        assert_eq!(listed.err().as_deref(), Some("the file of resourcequotas/a/b is damaged, see /healthz?verbose"));
    }
}
