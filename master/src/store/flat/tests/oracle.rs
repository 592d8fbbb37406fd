//! The model of a store that its users have, and so the states that are allowed after a cut: that at any revision
//! between the last acknowledged and the last requested one. Everything that anybody ever saw under a revision is
//! remembered.

use super::*;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// An object's durable part.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub text: String,
    /// Where all of it is durable: the revision that it has for ever.
    pub exact: Option<Revision>,
}

/// A write that was refused by the disk, or cut: what it would have made of its object.
type Doubt = (Key, Option<String>);

#[derive(Clone, Default)]
pub struct Oracle {
    /// What was acknowledged, after what the last start showed.
    held: BTreeMap<Key, Held>,
    /// In the order in which it was asked for.
    doubts: Vec<Doubt>,
    /// Every object at every revision that anybody saw; no bytes: it was deleted at this one.
    shown: BTreeMap<Revision, (Key, Option<Bytes>)>,
    last: Revision,
    /// All that there was at a clean close, where memory is kept over it.
    closed: Option<BTreeMap<Key, Bytes>>,
    /// Objects whose files a person broke.
    broken: BTreeSet<Key>,
    /// Those of which somebody tried to give them up, and was refused by the disk.
    perhaps_broken: BTreeSet<Key>,
    /// Somebody took files away.
    removed: bool,
    /// Somebody touched some file since the last start.
    touched: bool,
    /// Told ever since: nobody is there to look.
    doubtful: BTreeSet<String>,
    /// What a person wrote while a master ran or after it was killed, None: took away: it counts or not.
    meddled: BTreeMap<Key, Option<Value>>,
}

impl Oracle {
    pub fn last(&self) -> Revision {
        self.last
    }

    pub fn is_broken(&self, key: &Key) -> bool {
        self.broken.contains(key)
    }

    pub fn held(&self) -> &BTreeMap<Key, Held> {
        &self.held
    }

    /// Somebody was told of a revision, by an answer, a list or an event.
    pub fn show(&mut self, key: &Key, revision: Revision, json: Option<&Bytes>) -> Result<(), String> {
        let seen = (key.clone(), json.cloned());
        if let Some((former, bytes)) = self.shown.get(&revision).filter(|former| **former != seen) {
            return Err(format!("revision {revision} means {key} {json:?} and meant {former} {bytes:?}"));
        }
        self.shown.insert(revision, seen);
        Ok(())
    }

    /// A write was answered. `object`: what was wanted, None for a delete. Says whether that changed anything that a
    /// cut must leave.
    pub fn acknowledged(&mut self, stored: &Stored, object: Option<&Value>) -> Result<bool, String> {
        let key = &*stored.key;
        if stored.revision <= self.last {
            let same = self.shown.get(&stored.revision).is_some_and(|(_, bytes)| bytes.as_ref() == Some(&stored.json));
            return if same {
                Ok(false)
            } else {
                Err(format!("{key} was answered with {}, after {}", stored.revision, self.last))
            };
        }
        self.last = stored.revision;
        self.show(key, stored.revision, object.map(|_| &stored.json))?;
        match object.and_then(|object| durable_text(key, object.clone())) {
            Some(text) => {
                let exact = (durable_of(key, &Value::Null) == Durable::Whole).then_some(stored.revision);
                let former = self.held.insert(key.clone(), Held { text: text.clone(), exact });
                Ok(former.is_none_or(|former| former.text != text))
            }
            None => Ok(self.broken.remove(key) | self.held.remove(key).is_some()),
        }
    }

    /// The disk would not take a write, or the power went: it may be there after the next start.
    pub fn doubt(&mut self, key: &Key, object: Option<&Value>) {
        if self.broken.contains(key) {
            self.perhaps_broken.insert(key.clone());
            return;
        }
        self.doubts.push((key.clone(), object.and_then(|object| durable_text(key, object.clone()))));
    }

    pub fn doubts(&self) -> usize {
        self.doubts.len()
    }

    /// A durable write that came later than the first so many doubts was acknowledged: they are not there, nor ever
    /// will be.
    pub fn settled(&mut self, doubts: usize) {
        self.doubts.drain(..doubts);
    }

    /// The store says that it has come so far.
    pub fn reached(&mut self, revision: Revision) -> Result<(), String> {
        if revision < self.last {
            return Err(format!("the revision went back from {} to {revision}", self.last));
        }
        self.last = revision;
        Ok(())
    }

    /// A person changed a file of a store that was closed; None: took it away.
    pub fn edited(&mut self, key: &Key, object: Option<&Value>) {
        (self.closed, self.touched) = (None, true);
        self.removed |= object.is_none();
        match object {
            Some(object) => {
                let text = durable_text(key, object.clone()).expect("only what is durable has a file");
                self.held.insert(key.clone(), Held { text, exact: None });
            }
            None => _ = self.held.remove(key),
        }
        self.any_revisions();
    }

    pub fn is_meddled(&self, key: &Key) -> bool {
        self.meddled.contains_key(key)
    }

    /// A person changed a file while the master ran, or after it was killed.
    pub fn meddled(&mut self, key: &Key, object: Option<&Value>) {
        self.touched = true;
        self.meddled.insert(key.clone(), object.cloned());
    }

    /// What was written so, and is not shown: its object and its spec.
    pub fn unheard(&self) -> Vec<(Key, String)> {
        let is_shown = |key: &Key, object: &Value| {
            self.held.get(key).is_some_and(|held| Some(&held.text) == durable_text(key, object.clone()).as_ref())
        };
        let written = self.meddled.iter().filter_map(|(key, object)| Some((key, object.as_ref()?)));
        written
            .filter(|(key, object)| !is_shown(key, object))
            .map(|(key, object)| (key.clone(), object["spec"]["is"].as_str().expect("a spec").to_owned()))
            .collect()
    }

    /// What counts is as any other write, and what does not lie there any more cannot come to count.
    pub fn forget_meddled(&mut self, lies: impl Fn(&Key, &str) -> bool) {
        let unheard = self.unheard();
        self.meddled.retain(|key, _| unheard.iter().any(|(other, spec)| other == key && lies(key, spec)));
    }

    /// A start has shown which of what was written beside it counts.
    fn hear_meddled(&mut self, held: &BTreeMap<Key, Held>) {
        for (key, object) in &self.meddled {
            let text = object.as_ref().and_then(|object| durable_text(key, object.clone()));
            if held.get(key).map(|held| &held.text) == text.as_ref() {
                match &text {
                    Some(text) => _ = self.held.insert(key.clone(), Held { text: text.clone(), exact: None }),
                    None => _ = self.held.remove(key),
                }
                self.doubts.retain(|(doubtful, _)| doubtful != key);
            }
        }
    }

    pub fn broke(&mut self, key: &Key) {
        self.edited(key, None);
        self.broken.insert(key.clone());
    }

    /// Objects may come back under other revisions than they had.
    pub fn any_revisions(&mut self) {
        self.held.values_mut().for_each(|held| held.exact = None);
    }

    /// The store was closed without a complaint.
    pub fn closed(&mut self, store: &FlatStore) {
        self.doubts.clear();
        self.closed =
            Some(all(store).into_iter().map(|stored| (Key::clone(&stored.key), stored.json.clone())).collect());
    }

    /// Nothing in memory alone came over.
    pub fn memory_lost(&mut self) {
        self.closed = None;
    }

    /// A store was opened: what it shows has to be what may be there, and is what is known from here on.
    pub fn opened(&mut self, store: &FlatStore) -> Result<(), String> {
        let health = store.health();
        let broken: BTreeSet<_> = health.damaged.iter().filter_map(|damage| damage.key.clone()).collect();
        let wrong = broken.symmetric_difference(&self.broken).any(|key| !self.perhaps_broken.contains(key));
        // Of a file that has no stamp, and no word in the journal, nothing but the sum tells.
        let touched = std::mem::take(&mut self.touched);
        let strange =
            health.damaged.iter().filter(|damage| damage.key.is_none() && !self.doubtful.contains(&damage.file));
        let strange: Vec<String> = strange.map(|damage| damage.file.clone()).collect();
        let nobodys = strange.iter().any(|file| !(touched && file.ends_with("-may-be-missing")));
        self.doubtful.extend(strange);
        if health.degraded.is_some() || wrong || nobodys {
            return Err(format!("the store complains: {health:?}, broken: {:?}", self.broken));
        }
        self.perhaps_broken.clear();
        self.broken = broken;
        if let Some(edit) = health.edits.iter().find(|edits| !self.has_done(edits.key.as_ref(), touched)) {
            return Err(format!("nobody did that: {edit}"));
        }
        if !self.meddled.is_empty() {
            self.closed = None;
            self.any_revisions();
        }
        let now = all(store);
        let there: BTreeMap<Key, Bytes> =
            now.iter().map(|stored| (Key::clone(&stored.key), stored.json.clone())).collect();
        if let Some(closed) = self.closed.take().filter(|closed| *closed != there) {
            return Err(format!("the store was closed with {closed:?} and opened with {there:?}"));
        }
        self.reached(store.revision())?;
        let held = self.look(store, &now)?;
        self.hear_meddled(&held);
        self.compare(&held)?;
        self.held = held;
        self.doubts.clear();
        self.removed = false;
        claims_fit(store, &now)
    }

    /// Whether a person touched this file, or any.
    fn has_done(&self, key: Option<&Key>, touched: bool) -> bool {
        match key {
            Some(key) => self.meddled.contains_key(key),
            None => touched || self.removed || !self.meddled.is_empty(),
        }
    }

    /// A store was opened on a medium that rotted in one place: it says so, or nothing is different; and no other
    /// object is.
    pub fn rotten(&mut self, store: &FlatStore, path: &str) -> Result<(), String> {
        let health = store.health();
        if health.degraded.is_some() {
            // Records are missing, and it says which.
            return Ok(());
        }
        self.reached(store.revision())?;
        if path == "HEAD.json" {
            self.any_revisions();
        }
        let mut held = self.look(store, &all(store))?;
        for key in health.damaged.iter().filter_map(|damage| damage.key.as_ref()) {
            held.remove(key);
            self.held.remove(key);
            self.doubts.retain(|(doubtful, _)| doubtful != key);
        }
        self.compare(&held)
    }

    /// What is shown now, and that it is what was shown before.
    pub fn look(&mut self, store: &FlatStore, now: &[Stored]) -> Result<BTreeMap<Key, Held>, String> {
        let mut held = BTreeMap::new();
        for stored in now {
            if stored.revision > store.revision() {
                return Err(format!("{} is of the future: {} after {}", stored.key, stored.revision, store.revision()));
            }
            self.show(&stored.key, stored.revision, Some(&stored.json))?;
            let key = Key::clone(&stored.key);
            let document = serde_json::from_slice(&stored.json).map_err(|error| format!("{key}: {error}"))?;
            if let Some(text) = durable_text(&key, document) {
                let exact = (durable_of(&key, &Value::Null) == Durable::Whole).then_some(stored.revision);
                held.insert(key, Held { text, exact });
            }
        }
        Ok(held)
    }

    /// The state is the acknowledged one, or that with a batch that nobody knows of, or the first part of such a batch.
    fn compare(&self, now: &BTreeMap<Key, Held>) -> Result<(), String> {
        let same = |state: &BTreeMap<Key, Held>| {
            state.len() == now.len()
                && state.iter().zip(now).all(|((key, held), (other, is))| {
                    key == other && held.text == is.text && (held.exact.is_none() || held.exact == is.exact)
                })
        };
        for from in 0..=self.doubts.len() {
            let mut state = self.held.clone();
            if same(&state) {
                return Ok(());
            }
            for (key, then) in &self.doubts[from..] {
                match then {
                    Some(text) => _ = state.insert(key.clone(), Held { text: text.clone(), exact: None }),
                    None => _ = state.remove(key),
                }
                if same(&state) {
                    return Ok(());
                }
            }
        }
        let differs = |(key, held): &(&Key, &Held)| {
            now.get(*key).is_none_or(|is| is.text != held.text || held.exact.is_some_and(|e| Some(e) != is.exact))
        };
        let lost: Vec<_> = self
            .held
            .iter()
            .filter(differs)
            .map(|(key, held)| format!("{key} {} {:?}", short(&held.text), held.exact))
            .collect();
        let is: Vec<_> =
            now.iter().map(|(key, held)| format!("{key} {} {:?}", short(&held.text), held.exact)).collect();
        let doubts: Vec<_> =
            self.doubts.iter().map(|(key, then)| format!("{key} {:?}", then.as_deref().map(short))).collect();
        Err(format!("no state that may be: lost or other {lost:?}, doubts {doubts:?}; there is {is:?}"))
    }
}

fn short(text: &str) -> &str {
    text.find("\"spec\"").map_or(text, |at| &text[at..(at + 30).min(text.len())])
}

/// Every object, in order.
pub fn all(store: &FlatStore) -> Vec<Stored> {
    rules().kinds.iter().flat_map(|kind| store.list(&kind.resource, None).items).collect()
}

/// What a cut must leave of an object; its revision is looked at apart.
fn durable_text(key: &Key, mut document: Value) -> Option<String> {
    let durable = durable_of(key, &document);
    document["metadata"].as_object_mut()?.remove("resourceVersion");
    document::keep_durable(&mut document, durable).then(|| document.to_string())
}

/// Everybody owns what the objects claim, and nobody else anything.
fn claims_fit(store: &FlatStore, now: &[Stored]) -> Result<(), String> {
    let owners = store.claimed("token");
    let mut wanted: Vec<(String, Key)> = Vec::new();
    for stored in now {
        let document: Value = serde_json::from_slice(&stored.json).expect("compared before");
        let claims = claims_of(&stored.key, &document);
        wanted.extend(claims.into_iter().map(|claimed| (claimed.claim.value, Key::clone(&stored.key))));
    }
    wanted.sort();
    if owners == wanted { Ok(()) } else { Err(format!("claims are {owners:?} and ought to be {wanted:?}")) }
}
