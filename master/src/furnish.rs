//! Objects that the master makes by itself, unless they are there: what every namespace and every cluster holds. No quota keeps them
//! away: without them nothing else can be made.

use crate::making::Maker;
use crate::prepare;
use crate::store::{Refused, Store};
use coracle_api::kinds::Kinds;
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::{Rules, furniture::furniture};
use serde_json::Value;

/// With what they are made.
pub struct Furnisher<'a> {
    pub store: &'a dyn Store,
    pub kinds: &'a Kinds,
    pub maker: &'a Maker,
    /// The certificate of the cluster, where it has one.
    pub authority: Option<&'a str>,
}

impl Furnisher<'_> {
    /// What every namespace holds. That it cannot be made now is no reason to refuse the namespace, or a pod in it.
    pub fn furnish(&self, namespace: &str) {
        for (resource, object) in furniture(self.authority) {
            // What nobody can read is there.
            if matches!(self.store.get(&key(&resource, namespace, &object)), Ok(None))
                && let Err(why) = self.make(&resource, namespace, object)
            {
                log::warn!("{why}");
            }
        }
    }

    pub fn make(&self, resource: &Resource, namespace: &str, object: Value) -> Result<(), String> {
        let kind = self.kinds.by_resource(resource).ok_or_else(|| format!("no {resource} are served"))?;
        let key = key(resource, namespace, &object);
        let rules = Rules { old_names: true, ..Rules::default() };
        let write = self.maker.making(|making| prepare::create(kind, namespace, object, rules, making));
        let write = write.map_err(|unfit| format!("{key} cannot be made: {unfit}"))?;
        match self.store.write(write) {
            Ok(_) | Err(Refused::Exists { .. }) => Ok(()),
            Err(refused) => Err(format!("make {key}: {refused}")),
        }
    }
}

fn key(resource: &Resource, namespace: &str, object: &Value) -> Key {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Key { resource: resource.clone(), namespace: namespace.to_owned(), name }
}
