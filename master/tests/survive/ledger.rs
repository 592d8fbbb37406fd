//! What one writer asked for and was told, name by name: it alone writes its names, so it knows what must be there.

use crate::client::{Client, Found};
use serde_json::json;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

const NAMES: u64 = 25;
const FILLER_BYTES_MAX: u64 = 2500;

/// The number of the write that an object carries; None: there is no object.
type State = Option<u64>;

pub struct Ledger {
    writer: usize,
    random: u64,
    writes: u64,
    /// All states that were acknowledged, in order.
    names: BTreeMap<String, Vec<State>>,
    /// Asked for, and not answered.
    open: Option<(String, State)>,
    /// The highest that was acknowledged.
    revision: u64,
}

/// How many states each name had had.
pub type Moment = BTreeMap<String, usize>;

/// One write; an error: the master is gone, and nobody knows whether it was done.
pub fn write(ledger: &Mutex<Ledger>, client: &mut Client) -> io::Result<()> {
    let (name, was, wanted, body) = ledger.lock().unwrap().wish();
    let folder = "/api/v1/namespaces/default/configmaps";
    let (code, answer) = match (was, wanted) {
        (_, None) => client.call("DELETE", &format!("{folder}/{name}"), "")?,
        (None, Some(_)) => client.call("POST", folder, &body)?,
        (Some(_), Some(_)) => client.call("PUT", &format!("{folder}/{name}"), &body)?,
    };
    assert!(matches!(code, 200 | 201), "{name}, from {was:?} to {wanted:?}: {code} {answer}");
    let mut ledger = ledger.lock().unwrap();
    let revision = answer["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    ledger.revision = ledger.revision.max(revision.unwrap_or_default());
    ledger.open = None;
    ledger.names.entry(name).or_default().push(wanted);
    Ok(())
}

impl Ledger {
    pub fn new(writer: usize, seed: u64) -> Ledger {
        let random = (seed * 64 + writer as u64) | 1;
        Ledger { writer, random, writes: 0, names: BTreeMap::new(), open: None, revision: 0 }
    }

    pub fn acknowledged(&self) -> usize {
        self.names.values().map(Vec::len).sum()
    }

    pub fn moment(&self) -> Moment {
        self.names.iter().map(|(name, states)| (name.clone(), states.len())).collect()
    }

    /// The name, what it is, what it shall be, and the object.
    fn wish(&mut self) -> (String, State, State, String) {
        self.writes += 1;
        let number = self.below(NAMES);
        let name = format!("w{}-{number:02}", self.writer);
        let was = self.names.get(&name).and_then(|states| states.last().copied()).flatten();
        let wanted = if was.is_some() && self.below(5) == 0 { None } else { Some(self.writes) };
        let length = self.below(FILLER_BYTES_MAX);
        let write = self.writes.to_string();
        let data = json!({
            "write": write, "again": write, "length": length.to_string(), "filler": "z".repeat(length as usize),
        });
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        self.open = Some((name.clone(), wanted));
        (name, was, wanted, object.to_string())
    }

    /// Each name is as it was acknowledged last, or as it was asked for last.
    pub fn compare(&mut self, found: &Found, when: &str) {
        assert!(
            found.revision >= self.revision,
            "{when}: revision {} was acknowledged, and it is {}",
            self.revision,
            found.revision
        );
        self.settle(found);
        for (name, states) in &self.names {
            let last = states.last().copied().flatten();
            assert_eq!(found.objects.get(name).copied(), last, "{when}: {name}");
        }
    }

    /// What came of the write that was not answered is seen now.
    pub fn settle(&mut self, found: &Found) {
        if let Some((name, wanted)) = self.open.take()
            && found.objects.get(&name).copied() == wanted
        {
            self.names.entry(name).or_default().push(wanted);
        }
    }

    /// Each name is as it was when the copy began, or as it was later.
    pub fn compare_copy(&self, found: &Found, before: &Moment, way: &str) {
        for (name, states) in &self.names {
            let had = before.get(name).copied().unwrap_or_default();
            let state = found.objects.get(name).copied();
            let fits = states[had.saturating_sub(1)..].contains(&state) || had == 0 && state.is_none();
            let was = had.checked_sub(1).map(|last| states[last]);
            assert!(
                fits,
                "{way}: {name} is {state:?}; it was {was:?} when the copy began, and later {:?}",
                &states[had..]
            );
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }
}
