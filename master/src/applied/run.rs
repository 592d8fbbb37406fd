//! The thread of `apply-dir`: looks, decides, does it, says what it sees, and sleeps until something changes.

use super::ask::{Asker, Reply, event, kind_of, live};
use super::decide::{Apply, Decision, Removal, Seen, Standing, decide, of_file};
use super::folder::Folder;
use super::hearing::Hearing;
use super::inventory::{self, Inventory};
use super::retry::{Try, failure};
use super::told::{Orders, Report, Told};
use super::tree::{FileState, Tree, Trouble};
use crate::commit::Registry;
use crate::making;
use crate::store::{Scope, Stored, WatchHandle};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Key, Resource};
use coracle_keeper::problem::Problem;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Objects are removed when the directory has not changed for so long. A checkout on a slow card writes one file after
/// the other.
pub const QUIET: Duration = Duration::from_secs(5);
/// After so long it is tried again to write the inventory, or to remove an object.
const AGAIN: Duration = Duration::from_secs(30);
/// Objects and namespaces that are followed for a change that mends a problem; with more of them only time does.
const FOLLOWED_MAX: usize = 64;
const CONFIG_MAPS: Resource = Resource::core("configmaps");

pub struct Run {
    pub directory: PathBuf,
    pub registry: Arc<Registry>,
    pub asker: Asker,
    pub folder: Folder,
    pub hearing: Hearing,
    pub told: Arc<Told>,
    pub started: Instant,
    /// Of a look that had to postpone what was confirmed.
    pub is_confirmed: bool,
    pub failed: BTreeMap<Key, Try>,
    /// Since when a problem is known, by its subject, reason and text.
    pub since: BTreeMap<(String, String), String>,
    /// Followed until the next look.
    pub following: (BTreeSet<Key>, Vec<WatchHandle>),
    pub events: u64,
}

/// What one look came to.
#[derive(Default)]
struct Outcome {
    /// Something was written: the next look finds nothing to do.
    has_acted: bool,
    wake_in: Option<Duration>,
}

impl Run {
    pub fn run(mut self) {
        loop {
            let orders = self.told.orders();
            if orders.stop {
                return;
            }
            let outcome = self.look(orders);
            if !outcome.has_acted {
                self.hearing.wait(outcome.wake_in);
            }
        }
    }

    fn look(&mut self, orders: Orders) -> Outcome {
        let now = self.started.elapsed();
        let look = self.folder.look(&mut self.hearing);
        self.is_confirmed |= orders.confirm;
        if orders.stirred {
            self.failed.values_mut().for_each(|tried| tried.is_stirred = true);
        }
        let mut outcome = Outcome { has_acted: false, wake_in: look.settles_in };
        let inventory = match self.inventory(&look.tree) {
            Ok(inventory) => inventory,
            Err(why) => {
                let trouble = Trouble::new("InventoryUnreadable", format!("nothing is applied or removed: {why}"), "");
                let problem = self.problem(&trouble);
                self.publish(&Inventory::default(), &look.tree, vec![problem], &[]);
                outcome.wake_in = Some(AGAIN);
                return outcome;
            }
        };
        let kinds = self.registry.kinds();
        let is_quiet = self.hearing.stirred.elapsed() >= QUIET;
        let decision = self.decide((&look.tree, &inventory, &kinds), orders, (is_quiet, now));
        if decision.waits_for_quiet {
            sooner(&mut outcome.wake_in, QUIET.saturating_sub(self.hearing.stirred.elapsed()));
        } else {
            self.is_confirmed = false;
        }
        let has_empty_root = look.tree.folders.get("") == Some(&false) && !inventory.entries.is_empty();
        self.hearing.is_deaf |= has_empty_root;
        let Decision { inventory: target, applies, removals, awaited, mut problems, follows, .. } = decision;
        let (acted, after) = self.act((&inventory, target), &look.tree, &kinds, (&applies, &removals), &mut problems);
        outcome.has_acted = acted && problems.iter().all(|problem| problem.reason != INVENTORY_UNWRITTEN);
        if problems.iter().any(|problem| [INVENTORY_UNWRITTEN, REMOVAL_FAILED].contains(&&*problem.reason)) {
            sooner(&mut outcome.wake_in, AGAIN);
        }
        self.failed.retain(|key, _| applies.iter().any(|apply| apply.key == *key) || is_named(&look.tree, &kinds, key));
        for next in self.failed.values().filter_map(Try::next) {
            sooner(&mut outcome.wake_in, next.saturating_sub(self.started.elapsed()));
        }
        let pending: BTreeSet<&str> =
            self.failed.keys().filter_map(|key| Some(after.entries.get(key)?.file.as_str())).collect();
        self.folder.forget(|file| pending.contains(file));
        self.follow(follows);
        self.publish(&after, &look.tree, problems, &awaited);
        outcome
    }

    /// The inventory as it stands in the store; its own ConfigMap is made where there is none.
    fn inventory(&self, tree: &Tree) -> Result<Inventory, String> {
        let page = self.registry.store.list(&CONFIG_MAPS, Some(inventory::NAMESPACE));
        if let Some(damaged) = page.damaged.iter().find(|key| key.name.starts_with(inventory::NAME)) {
            return Err(format!("ConfigMap {}/{} is damaged: delete it", damaged.namespace, damaged.name));
        }
        let ours = page.items.iter().filter(|stored| stored.key.name.starts_with(inventory::NAME));
        let objects: Vec<Value> = ours
            .map(|stored| serde_json::from_slice(&stored.json))
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?;
        let mut inventory = Inventory::read(objects.iter())?;
        if inventory.uid.is_empty() && tree.trouble.is_none() {
            let root = inventory::root(&self.directory.display().to_string());
            let reply = self.asker.keep(inventory::NAMESPACE, inventory::NAME, Some(&root));
            if !reply.is_well() {
                return Err(format!("the inventory cannot be written: {}", reply.message()));
            }
            inventory.uid = reply.text(&["metadata", "uid"]).to_owned();
        }
        Ok(inventory)
    }

    fn decide(
        &mut self,
        (tree, inventory, kinds): (&Tree, &Inventory, &Kinds),
        orders: Orders,
        (is_quiet, now): (bool, Duration),
    ) -> Decision {
        let failed = self.failed.iter().map(|(key, tried)| {
            let is_due = tried.next().is_some_and(|next| next <= now);
            (key.clone(), super::decide::Failure { is_due, ..tried.failure.clone() })
        });
        let failed = failed.collect();
        let store = &self.registry.store;
        let standing = |key: &Key| match store.get(key) {
            Ok(None) => Standing::Absent,
            Ok(Some(stored)) => Standing::There(live(&stored)),
            Err(_) => Standing::Unknown,
        };
        decide(&Seen {
            directory: &self.directory.display().to_string(),
            kinds,
            tree,
            inventory,
            standing: &standing,
            failed: &failed,
            is_quiet,
            is_confirmed: self.is_confirmed,
            again: orders.again,
        })
    }

    /// Carries a decision out. Returns whether anything was done, and the inventory as it is now.
    fn act(
        &mut self,
        (before, mut target): (&Inventory, Inventory),
        tree: &Tree,
        kinds: &Kinds,
        (applies, removals): (&[Apply], &[Removal]),
        problems: &mut Vec<Problem>,
    ) -> (bool, Inventory) {
        // What is about to be made is written first: after a power cut nothing is there that nobody knows.
        let has_new = target.entries.keys().any(|key| !before.entries.contains_key(key));
        let mut written = before.clone();
        if has_new {
            if let Err(problem) = self.write(&written, &target) {
                problems.push(problem);
                return (false, written);
            }
            written = target.clone();
        }
        for apply in applies {
            if let Err(problem) = self.apply(apply, tree, kinds, &mut target) {
                problems.push(problem);
            }
        }
        for removal in removals {
            match self.remove(removal, kinds) {
                Ok(()) => _ = target.entries.remove(&removal.key),
                Err(problem) => problems.push(problem),
            }
        }
        if let Err(problem) = self.write(&written, &target) {
            problems.push(problem);
            return (false, written);
        }
        (*before != target, target)
    }

    fn write(&self, before: &Inventory, after: &Inventory) -> Result<(), Problem> {
        for (name, map) in after.changes(before) {
            let reply = self.asker.keep(inventory::NAMESPACE, &name, map.as_ref());
            if !(reply.is_well() || map.is_none() && reply.code == 404) {
                let what = format!("what is applied cannot be written down: {}", reply.message());
                return Err(self.problem(&Trouble::new(INVENTORY_UNWRITTEN, what, "it is tried again by itself")));
            }
        }
        Ok(())
    }

    fn apply(&mut self, apply: &Apply, tree: &Tree, kinds: &Kinds, target: &mut Inventory) -> Result<(), Problem> {
        let Some(FileState::Read(file)) = tree.files.get(&apply.file) else { return Ok(()) };
        let Some(kind) = kinds.by_kind(&apply.named.api_version, &apply.named.kind) else { return Ok(()) };
        if !self.folder.has(&apply.file) && !self.folder.reread(&apply.file) {
            // It has changed since: the kernel told, or tells.
            return Ok(());
        }
        let Some(document) = self.folder.document(&apply.file, apply.at).map(|document| document.json.clone()) else {
            return Ok(());
        };
        let was = self.stored(&apply.key);
        let reply = self.asker.apply(kind, &apply.named, &apply.key, &document);
        let entry = target.entries.entry(apply.key.clone()).or_default();
        if reply.is_well() {
            reply.text(&["metadata", "uid"]).clone_into(&mut entry.uid);
            if reply.text(&["metadata", "deletionTimestamp"]).is_empty() {
                entry.digest = file.digest.clone();
                self.failed.remove(&apply.key);
                if was.is_none_or(|was| was.revision.to_string() != reply.text(&["metadata", "resourceVersion"])) {
                    let message = format!("applied from {}/{}", self.directory.display(), apply.file);
                    log::info!("{}: {message}", apply.key);
                    self.tell((kind, &apply.key, &entry.uid), ("Normal", "Applied", &message));
                }
                return Ok(());
            }
        }
        let reply = if reply.is_well() { ending() } else { reply };
        let uid = entry.uid.clone();
        Err(self.failure(apply, kind, &uid, (&reply, &file.digest)))
    }

    fn failure(&mut self, apply: &Apply, kind: &Kind, uid: &str, (reply, digest): (&Reply, &str)) -> Problem {
        let path = format!("{}/{}", self.directory.display(), apply.file);
        let (failure, passes) = failure(reply, &apply.key, digest, &path);
        let before = self.failed.get(&apply.key).filter(|tried| tried.failure.digest == digest);
        let is_told = before.is_some_and(|tried| tried.failure.why == failure.why);
        let count = before.map_or(0, |tried| tried.count + 1);
        let about = (&*kind.kind, apply.key.namespace.as_str(), apply.key.name.as_str());
        let mut problem =
            self.problem(&Trouble::new(failure.reason, format!("{path} is not applied"), &*failure.advice));
        (problem.subject.kind, problem.subject.namespace, problem.subject.name) =
            (about.0.to_lowercase(), about.1.to_owned(), about.2.to_owned());
        problem.why.clone_from(&failure.why);
        if !is_told {
            let message = format!("{path} is not applied: {}", failure.why);
            self.tell((kind, &apply.key, uid), ("Warning", failure.reason, &message));
        }
        let tried = Try { failure, at: self.started.elapsed(), count, passes, is_stirred: false };
        self.failed.insert(apply.key.clone(), tried);
        problem
    }

    fn remove(&mut self, removal: &Removal, kinds: &Kinds) -> Result<(), Problem> {
        let Removal { key, uid, file } = removal;
        let Some(kind) = kind_of(kinds, key) else { return Ok(()) };
        let reply = self.asker.delete(kind, key, uid);
        // Another with its name, or none, is there: the object itself is gone.
        if reply.is_well() || matches!(reply.code, 404 | 409) {
            if reply.is_well() {
                let message = format!("removed: {}/{file} names it no more", self.directory.display());
                log::info!("{key}: {message}");
                self.tell((kind, key, uid), ("Normal", "Removed", &message));
            }
            return Ok(());
        }
        let what = format!("{key} is not removed, and its file names it no more: {}", reply.message());
        Err(self.problem(&Trouble::new(REMOVAL_FAILED, what, "it is tried again by itself")))
    }

    fn tell(&mut self, about: (&Kind, &Key, &str), said: (&str, &str, &str)) {
        self.events += 1;
        let now = making::wall_clock();
        let unique = u64::try_from(now.0.as_nanosecond().unsigned_abs()).unwrap_or_default() + self.events;
        self.asker.tell(&event(about, said, (&now.to_string(), unique)));
    }

    fn stored(&self, key: &Key) -> Option<Stored> {
        self.registry.store.get(key).ok().flatten()
    }

    /// Hears of changes of these objects, and of quotas that refuse others.
    fn follow(&mut self, mut keys: BTreeSet<Key>) {
        let quotas = self.failed.iter().filter(|(_, tried)| tried.failure.reason == "QuotaExceeded").map(|(key, _)| {
            Key { resource: Resource::core("resourcequotas"), namespace: key.namespace.clone(), name: String::new() }
        });
        keys.extend(quotas);
        keys.extend(self.failed.keys().cloned());
        let keys: BTreeSet<Key> = keys.into_iter().take(FOLLOWED_MAX).collect();
        if keys == self.following.0 {
            return;
        }
        let follow = |key: &Key| {
            let named = |text: &String| (!text.is_empty()).then(|| text.clone());
            let scope =
                Scope { resource: key.resource.clone(), namespace: named(&key.namespace), name: named(&key.name) };
            let told = self.told.clone();
            let sink = Box::new(move |_: &crate::store::Event| {
                told.stir();
                true
            });
            let watch = self.registry.store.watch(scope, Some(self.registry.store.revision()), sink);
            watch.inspect_err(|why| log::debug!("follow {key}: {why:?}")).ok().map(|watch| watch.handle)
        };
        self.following = (keys.clone(), keys.iter().filter_map(follow).collect());
    }

    fn problem(&self, trouble: &Trouble) -> Problem {
        of_file(&self.directory.display().to_string(), "", trouble)
    }

    fn publish(&mut self, inventory: &Inventory, tree: &Tree, mut problems: Vec<Problem>, awaited: &[Removal]) {
        let now = making::wall_clock().to_string();
        let mut since = BTreeMap::new();
        for problem in &mut problems {
            let key = (format!("{} {}", problem.reason, problem.subject.words()), problem.what.clone());
            let begun = self.since.get(&key).cloned().unwrap_or_else(|| {
                log::warn!("{}", problem.line());
                now.clone()
            });
            problem.since = Some(begun.clone());
            since.insert(key, begun);
        }
        self.since = since;
        let kinds = self.registry.kinds();
        let words = |key: &Key| {
            kinds.by_resource(&key.resource).map_or_else(|| key.resource.to_string(), |kind| kind.kind.to_string())
        };
        let awaited = awaited.iter().map(|removal| {
            let Removal { key, file, .. } = removal;
            let place = if key.namespace.is_empty() { String::new() } else { format!("{}/", key.namespace) };
            format!("{} {place}{}, from {file}", words(key).to_lowercase(), key.name)
        });
        let applied = inventory.entries.iter().filter(|(_, entry)| {
            matches!(tree.files.get(&entry.file), Some(FileState::Read(file)) if file.digest == entry.digest)
        });
        self.told.report(Report {
            directory: self.directory.display().to_string(),
            uid: inventory.uid.clone(),
            problems,
            awaited: awaited.collect(),
            files: inventory.files().into_iter().map(str::to_owned).collect(),
            applied: applied.map(|(key, entry)| (key.clone(), words(key), entry.file.clone())).collect(),
        });
    }
}

const INVENTORY_UNWRITTEN: &str = "InventoryUnwritten";
const REMOVAL_FAILED: &str = "RemovalFailed";

/// The object stands, and goes: it is made anew when it has gone.
fn ending() -> Reply {
    let message = "an earlier object of its name is being deleted, and something holds it: see its finalizers";
    Reply { code: 503, document: serde_json::json!({"message": message}) }
}

fn sooner(wake_in: &mut Option<Duration>, other: Duration) {
    *wake_in = Some(wake_in.map_or(other, |time| time.min(other)));
}

/// Whether a file names an object that could not be applied.
fn is_named(tree: &Tree, kinds: &Kinds, key: &Key) -> bool {
    let named = |state: &FileState| match state {
        FileState::Read(file) => file.named.iter().any(|named| {
            named.name == key.name
                && kinds
                    .by_kind(&named.api_version, &named.kind)
                    .is_some_and(|kind| kinds.stored_as(kind).resource == key.resource)
        }),
        FileState::Refused(_) | FileState::Writing => false,
    };
    tree.files.values().any(named)
}
