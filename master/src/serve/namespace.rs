//! Where an object may be made: the namespace must be there; through v1beta1 and v1beta2 it is made on first use, as in 2014.
//! And when a namespace may go: empty, and none of the cluster's own.

use super::Serve;
use crate::call::Call;
use crate::fault::Fault;
use crate::furnish::Furnisher;
use crate::store::Stored;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource};
use coracle_api::status::{Cause, Status};
use coracle_api::strategy::furniture::{ACCOUNT, ACCOUNTS};
use coracle_api::strategy::namespace::is_ending;
use coracle_api::strategy::system_classes;
use serde_json::{Value, json};

const NAMESPACES: Resource = Resource::core("namespaces");

/// Before a create in the call's namespace.
pub fn ready(serve: &Serve, call: &Call, object: &Value) -> Result<(), Fault> {
    if !call.kind.namespaced {
        return Ok(());
    }
    let name = &call.namespace;
    let key = Key { resource: NAMESPACES, namespace: String::new(), name: name.clone() };
    match serve.store.get(&key) {
        Ok(Some(stored)) => {
            let namespace: Value = serde_json::from_slice(&stored.json).unwrap_or_default();
            if is_ending(&namespace) {
                return Err(ending(call, object).into());
            }
            if !furnished(serve, name) {
                furnish(serve, name);
            }
            Ok(())
        }
        Ok(None) if call.version.is_flat() => ensure(serve, name),
        Ok(None) => Err(Status::not_found(&NAMESPACES, name).into()),
        Err(damaged) => Err(Fault::damaged(&key, &damaged.why)),
    }
}

fn ending(call: &Call, object: &Value) -> Status {
    let name = &call.namespace;
    let said = |field: &str| object["metadata"][field].as_str().filter(|name| !name.is_empty());
    let object = said("name").or(said("generateName")).unwrap_or_default();
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    let mut status = Status::forbidden(&call.shown.resource, object, &why);
    let message = format!("namespace {name} is being terminated");
    let cause = Cause { reason: "NamespaceTerminating".into(), message, field: "metadata.namespace".into() };
    status.details.get_or_insert_default().causes.push(cause);
    status
}

/// Makes a namespace unless it is there.
pub fn ensure(serve: &Serve, name: &str) -> Result<(), Fault> {
    make(serve, &NAMESPACES, json!({"metadata": {"name": name}}))?;
    furnish(serve, name);
    Ok(())
}

/// What every cluster has besides its namespaces.
pub fn ensure_classes(serve: &Serve) -> Result<(), Fault> {
    let classes = Resource { group: "scheduling.k8s.io".into(), plural: "priorityclasses".into() };
    system_classes().into_iter().try_for_each(|class| make(serve, &classes, class))
}

/// After a create of a namespace: whoever hears of it can make pods in it at once. The controllers make what is missing later.
pub fn furnish_new(serve: &Serve, call: &Call, made: &Stored) {
    if is_one(call.kind) {
        furnish(serve, &made.key.name);
    }
}

/// Whether pods can be made in it. The controllers may not have come round to that.
fn furnished(serve: &Serve, name: &str) -> bool {
    let key = Key { resource: ACCOUNTS, namespace: name.to_owned(), name: ACCOUNT.to_owned() };
    !matches!(serve.store.get(&key), Ok(None))
}

fn furnish(serve: &Serve, name: &str) {
    furnisher(serve).furnish(name);
}

fn furnisher(serve: &Serve) -> Furnisher<'_> {
    Furnisher { store: &*serve.store, kinds: &serve.kinds, maker: &serve.maker, authority: serve.authority() }
}

fn make(serve: &Serve, resource: &Resource, object: Value) -> Result<(), Fault> {
    furnisher(serve).make(resource, "", object).map_err(|why| Status::internal_error(why).into())
}

pub fn is_one(kind: &Kind) -> bool {
    kind.resource == NAMESPACES
}
