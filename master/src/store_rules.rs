//! The store of this master: how it is opened, and how it treats the objects of each kind.

use crate::config::Config;
use crate::store::{self, FlatStore, KindRow, SealKeys, Sealing, SharedKeys, Sketch, Store, StoreRules};
use crate::{making, memory, owner, prepare};
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Durable, Key, Resource};
use coracle_api::strategy::CREATION_TOKEN;
use coracle_api::strategy::namespace::SYSTEM;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// The store of a data directory, as the kinds of objects need it.
pub fn open(config: &Config, kinds: &Kinds, sealing: &SharedKeys) -> Result<FlatStore, String> {
    owner::refuse(&config.data_dir).map_err(|why| format!("--data-dir {why}"))?;
    let limit = config.store_limit.unwrap_or_else(|| memory::store_share(memory::granted()));
    let opened = with_rules(kinds, sealing.get(), |rules| {
        FlatStore::open_within(&config.data_dir, config.admin_socket.parent(), rules, limit)
    });
    let opened = opened.map_err(|error| format!("--data-dir {error}"))?;
    let fill = opened.store.health().fill;
    log::info!("{}", held(opened.objects, &config.data_dir, &fill));
    fill.warnings.iter().for_each(|warning| log::warn!("{warning}"));
    Ok(opened.store)
}

/// The line of a start that names the limit of the store.
fn held(objects: usize, data_dir: &Path, fill: &store::FillLevel) -> String {
    let (held, most) = (store::megabytes(fill.bytes), store::megabytes(fill.bytes_max));
    format!("{objects} objects in {}: {held} of the {most} that they may take (--store-limit)", data_dir.display())
}

/// What the store is told of the kinds.
pub fn with_rules<T>(kinds: &Kinds, keys: SealKeys, with: impl FnOnce(&StoreRules) -> T) -> T {
    let row = |kind: &Kind| KindRow {
        resource: kind.resource.clone(),
        api_version: kind.api_version().into(),
        kind: kind.kind.clone(),
    };
    with(&StoreRules {
        kinds: kinds.stored().map(row).collect(),
        claims: &|key, object: &Value| match kinds.by_resource(&key.resource) {
            Some(kind) => prepare::claims(kind, object),
            None => prepare::token(&key.resource, object).into_iter().collect(),
        },
        fault: &|key, object| prepare::fault(kinds.by_resource(&key.resource)?, object),
        edited: &|key, object| edited(kinds, key, object),
        home: &home,
        durable_by_sketch: &|key, sketch| durable_by_sketch(kinds, key, sketch),
        durable: &|key, object| {
            kinds.by_resource(&key.resource).map_or(Durable::Whole, |kind| kind.strategy.durable(object))
        },
        sealing: sealing_by(keys),
    })
}

/// What is sealed on the disk.
pub fn sealing_by(keys: SealKeys) -> Sealing {
    Sealing { resources: Arc::new([Resource::core("secrets")]), keys }
}

/// A file that a person wrote while no master ran. One with a uid stands for the object that it was made from.
fn edited(kinds: &Kinds, key: &Key, object: Value) -> Result<Value, String> {
    let Some(kind) = kinds.by_resource(&key.resource) else { return Ok(object) };
    let made = making::by_hand(|making| prepare::by_hand(kind, key, object, None, making))
        .map_err(|error| format!("/dev/urandom: {error}"))?;
    made.map_err(|unfit| unfit.to_string())
}

/// The namespace that an object lies in, where it has to be there before it.
fn home(key: &Key) -> Option<Key> {
    let made_later = SYSTEM.contains(&&*key.namespace);
    let namespace =
        || Key { resource: Resource::core("namespaces"), namespace: String::new(), name: key.namespace.clone() };
    (!key.namespace.is_empty() && !made_later).then(namespace)
}

/// The facts about a loaded object that are known without reading it whole.
fn durable_by_sketch(kinds: &Kinds, key: &Key, sketch: &Sketch) -> Option<Durable> {
    let tokenless = sketch.metadata.annotations.get(CREATION_TOKEN).is_none();
    let Some(kind) = kinds.by_resource(&key.resource) else { return tokenless.then_some(Durable::Whole) };
    let strategy = &kind.strategy;
    (tokenless && sketch.status.is_none() && strategy.claims_nothing()).then(|| strategy.durable(&Value::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_names_the_limit_of_the_store() {
        let fill = store::FillLevel { bytes: 3 << 19, bytes_max: 128 << 20, warnings: Vec::new() };
        let said = "7 objects in /var/lib/m: 1.5 MB of the 128 MB that they may take (--store-limit)";
        assert_eq!(held(7, Path::new("/var/lib/m"), &fill), said);
    }
}
