//! What becomes of the objects that a deleted one owned: they are let go, so that another may adopt them, or deleted too.

use super::{RACES_MAX, Serve, write};
use crate::making::wall_clock;
use crate::prepare::{self, Part, Preconditions, Standing};
use crate::store::{Refused, Stored, Write};
use coracle_api::kinds::{Kind, Verb};
use coracle_api::meta::Key;
use coracle_api::strategy::{Deleting, Rules};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// What a deletion without a word does, in v1 and as in 2014.
    Orphan,
    Delete,
}

/// After the owner is gone: before, its controller would adopt or replace them.
pub fn settle(serve: &Serve, owner: &Key, uid: &str, fate: Fate) {
    for kind in serve.kinds.stored().filter(|kind| kind.namespaced && kind.offers(Verb::Update)) {
        for stored in serve.store.list(&kind.resource, Some(&owner.namespace)).items {
            let named = stored.json.windows(uid.len()).any(|text| text == uid.as_bytes());
            if named && let Err(why) = one(serve, kind, stored, uid, fate) {
                log::warn!("{owner} is gone, what it owned is not settled: {why}");
            }
        }
    }
}

fn one(serve: &Serve, kind: &Kind, mut stored: Stored, uid: &str, fate: Fate) -> Result<(), String> {
    for _ in 0..RACES_MAX {
        let object = write::parsed(&stored).map_err(|fault| fault.status.message)?;
        let old = Standing { key: &stored.key, revision: stored.revision, object: &object };
        let Some(write) = decide(serve, kind, old, uid, fate)? else { return Ok(()) };
        match serve.store.write(write) {
            Ok(_) | Err(Refused::Missing) => return Ok(()),
            Err(Refused::Stale { now }) => stored = now,
            Err(refused) => return Err(format!("{}: {refused}", stored.key)),
        }
    }
    Err(format!("{}: others write it all the time", stored.key))
}

/// An object with another owner stays with that one. None: the deleted object did not own it.
fn decide(serve: &Serve, kind: &Kind, old: Standing<'_>, uid: &str, fate: Fate) -> Result<Option<Write>, String> {
    let owners = old.object["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let others: Vec<Value> = owners.iter().filter(|owner| owner["uid"] != uid).cloned().collect();
    if others.len() == owners.len() {
        return Ok(None);
    }
    let write = if fate == Fate::Delete && others.is_empty() {
        prepare::delete(kind, old, &Preconditions::default(), Deleting { grace_s: None, now: wall_clock() })
    } else {
        let mut new = old.object.clone();
        new["metadata"]["ownerReferences"] = others.into();
        let rules = Rules { old_names: true, service_cidr: None };
        serve.maker.making(|making| prepare::update(kind, old, Part::Main, new, rules, making))
    };
    write.map(Some).map_err(|unfit| format!("{}: {unfit}", old.key))
}
