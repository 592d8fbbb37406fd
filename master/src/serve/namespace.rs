//! Where an object may be made: the namespace must be there; through v1beta1 and v1beta2 it is made on first use, as in 2014.
//! And when a namespace may go: empty, and none of the cluster's own.

use super::Serve;
use crate::call::Call;
use crate::fault::Fault;
use crate::prepare;
use crate::store::Refused;
use coracle_api::kinds::{Kind, Verb};
use coracle_api::meta::{Key, Resource};
use coracle_api::status::Status;
use coracle_api::strategy::Rules;
use coracle_api::strategy::namespace::{Held, refuse_delete};
use serde_json::{Value, json};

const NAMESPACES: Resource = Resource::core("namespaces");
const EVENTS: Resource = Resource::core("events");

/// Before a create in the call's namespace.
pub fn ready(serve: &Serve, call: &Call) -> Result<(), Fault> {
    if !call.kind.namespaced {
        return Ok(());
    }
    let name = &call.namespace;
    let key = Key { resource: NAMESPACES, namespace: String::new(), name: name.clone() };
    match serve.store.get(&key) {
        Ok(Some(stored)) => {
            let namespace: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
            if namespace["metadata"]["deletionTimestamp"].is_null() {
                return Ok(());
            }
            let why = format!("unable to create new content in namespace {name} because it is being terminated");
            Err(Status::forbidden(&call.shown.resource, &call.name, &why).into())
        }
        Ok(None) if call.version.is_flat() => ensure(serve, name),
        Ok(None) => Err(Status::not_found(&NAMESPACES, name).into()),
        Err(damaged) => Err(Fault::damaged(&key, &damaged.why)),
    }
}

/// Makes a namespace unless it is there.
pub fn ensure(serve: &Serve, name: &str) -> Result<(), Fault> {
    let kind: &Kind = serve.kinds.by_resource(&NAMESPACES).ok_or_else(|| Status::internal_error("no namespaces are served"))?;
    let object = json!({"metadata": {"name": name}});
    let write = serve.maker.making(|making| prepare::create(kind, "", object, Rules { old_names: true, service_cidr: None }, making));
    let write = write.map_err(|unfit| Fault::bad_request(format!("namespace {name:?} cannot be made: {unfit}")))?;
    match serve.store.write(write) {
        Ok(_) | Err(Refused::Exists { .. }) => Ok(()),
        Err(refused) => Err(Status::internal_error(format!("make namespace {name:?}: {refused}")).into()),
    }
}

/// Before a deletion of a namespace. Nothing may be made in it until that is done: the caller holds `Serve::places`.
pub fn may_go(serve: &Serve, namespace: &Value) -> Result<(), Fault> {
    let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
    // Events fade by themselves.
    let kinds = serve.kinds.stored().filter(|kind| kind.namespaced && kind.offers(Verb::List) && kind.resource != EVENTS);
    let count = |kind: &Kind| {
        let held = serve.store.list(&kind.resource, Some(name));
        held.items.len() + held.damaged.len()
    };
    let remaining: Vec<(&str, usize)> = kinds.map(|kind| (kind.resource.plural.as_ref(), count(kind))).collect();
    match refuse_delete(namespace, &remaining) {
        None => Ok(()),
        Some(Held::Protected(why)) => {
            let mut status = Status::forbidden(&NAMESPACES, name, "");
            status.message = why;
            Err(status.into())
        }
        Some(Held::NotEmpty(why)) => {
            let mut status = Status::conflict(&NAMESPACES, name, "");
            status.message = why;
            Err(status.into())
        }
    }
}

pub fn is_one(kind: &Kind) -> bool {
    kind.resource == NAMESPACES
}
