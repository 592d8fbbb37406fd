//! The start of before, beside the new one: where nobody's hand was at the files, both come to the same.

use super::sim::SimDisk;
use super::*;
use crate::store::start::{self, Ids};
use std::collections::BTreeMap;

type Shown = BTreeMap<Key, (Revision, String)>;

fn shown(state: &State, told: &[Damage], foreign: &[Damage], degraded: bool) -> (Shown, Vec<Key>, usize, usize, bool, Revision) {
    let objects = state.all().map(|entry| {
        let stored = &entry.stored;
        (Key::clone(&stored.key), (stored.revision, String::from_utf8_lossy(&stored.json).into_owned()))
    });
    let damaged = state.all_damage().filter_map(|damage| damage.key.clone()).collect();
    (objects.collect(), damaged, told.len(), foreign.len(), degraded, state.revision())
}

/// Opens copies of a disk both ways.
pub fn compare(disk: &SimDisk, tmpfs: &SimDisk, ids: impl Fn() -> Ids, setup: &Setup) -> Result<(), String> {
    let copy = |disk: &SimDisk| {
        let copy = disk.fork(1);
        copy.spare();
        copy
    };
    let old = load::load(Arc::new(copy(disk)), Some(&copy(tmpfs)), &ids(), &rules(), setup);
    let new = start::load(Arc::new(copy(disk)), Some(&copy(tmpfs)), &ids(), &rules(), setup);
    let (old, new) = match (old, new) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(_), Err(_)) => return Ok(()),
        (old, new) => return Err(format!("one starts: {:?}, {:?}", old.err(), new.err())),
    };
    let was = shown(&old.state, &old.told, &old.foreign, old.degraded.is_some());
    let is = shown(&new.state, &new.told, &new.foreign, new.degraded.is_some());
    if was == is {
        Ok(())
    } else {
        Err(format!("the start of before comes to\n{was:?}\n{:?}\n{:?}\nand the new one to\n{is:?}\n{:?}", old.told, old.foreign, new.told))
    }
}
