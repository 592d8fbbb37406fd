//! Bindings: a pod is put on a node, once. A binding is never stored, it changes its pod.

use super::{Serve, body, options, write};
use crate::call::{Call, Version};
use crate::commit::Made;
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::prepare::Standing;
use crate::render;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource};
use coracle_api::status::Status;
use coracle_api::strategy;
use coracle_http::{Answer, Request, StatusCode};
use coracle_schema::Problem;
use serde_json::Value;
use std::cell::RefCell;

pub fn bind(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let rehearsal = options::rehearsal(call, "CreateOptions")?;
    let (bindings, pods) = (kind(call, "Binding")?, kind(call, "Pod")?);
    let mut sent = body::object(serve, &of(call, bindings, &call.name), request)?;
    write::right_namespace(call, sent.object())?;
    // `/bindings` has no name in its path.
    if !call.name.is_empty() && call.version != Version::V1 {
        write::right_name(call, sent.object_mut())?;
    } else if !call.name.is_empty() && sent.object()["metadata"]["name"] != *call.name {
        return Err(Fault::bad_request("name in URL does not match name in Binding object"));
    }
    if call.version == Version::V1 {
        let problems = strategy::no_target(sent.object());
        if !problems.is_empty() {
            return Err(Fault::nameless(several(&problems)));
        }
    }
    sent.object_mut()["metadata"]["namespace"] = of(call, pods, "").namespace.into();
    let name = sent.object()["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if name.is_empty() {
        return Err(Fault::bad_request("Name parameter required."));
    }
    let problems = bindings.strategy.validate(sent.object(), serve.rules(call));
    if !problems.is_empty() {
        return Err(Fault::invalid(call, bindings, &name, problems));
    }
    let node = sent.object()["target"]["name"].as_str().unwrap_or_default();
    // What the place of its node adds comes with the pod's own subresource alone.
    let found = if call.name.is_empty() { Ok(None) } else { serve.registry.store.get(&node_key(node)) };
    let node = match found {
        Ok(Some(node)) => write::parsed(&node)?,
        // As in Kubernetes a pod may be bound to a node that is still to come, or that nobody can read.
        Ok(None) | Err(_) => Value::Null,
    };
    let (asked, call) = (call, of(call, pods, &name));
    let make = |old: Option<Standing<'_>>| {
        let pod = old.map_or(&Value::Null, |old| old.object);
        let bound = strategy::bind(pod, sent.object(), &node, wall_clock());
        Ok(Made::Own(bound.map_err(|why| conflict(&call, &name, &why))?))
    };
    let bound = write::commit(serve, &call, &write::change(&call, &make), &serve.terms(&call, rehearsal));
    asked.told.replace(call.told.take());
    bound?;
    Ok(super::shown(&call, StatusCode::CREATED, render::status(call.form, &Status::success(201))))
}

fn node_key(name: &str) -> Key {
    Key { resource: Resource::core("nodes"), namespace: String::new(), name: name.to_owned() }
}

/// A pod that is another than the one that is meant is told of as by Kubernetes' storage.
fn conflict(call: &Call, name: &str, why: &str) -> Status {
    if !why.starts_with("Precondition failed") {
        return Status::conflict(&Resource::core("pods/binding"), name, why);
    }
    let key = format!("/registry/pods/{}/{name}", call.namespace);
    let why =
        format!("StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}");
    Status::conflict(&Resource::core("pods"), name, &why)
}

/// Kubernetes tells of a wrong target as of a fault of its own.
fn several(problems: &[Problem]) -> String {
    match problems {
        [one] => one.to_string(),
        all => format!("[{}]", all.iter().map(Problem::to_string).collect::<Vec<_>>().join(", ")),
    }
}

fn kind<'k>(call: &Call<'k>, name: &str) -> Result<&'k Kind, Fault> {
    call.kinds.by_kind("v1", name).ok_or_else(|| Status::internal_error(format!("no {name} is served")).into())
}

/// The same call about another kind's object.
pub fn of<'k>(call: &Call<'k>, kind: &'k Kind, name: &str) -> Call<'k> {
    // The path names a namespace; in the flat versions there is a default.
    let namespace = match call.version {
        version if version.is_flat() && call.namespace.is_empty() => "default".to_owned(),
        _ => call.namespace.clone(),
    };
    Call {
        version: call.version,
        kinds: call.kinds,
        kind,
        shown: kind,
        verb: call.verb,
        share: None,
        namespace,
        name: name.to_owned(),
        options: call.options.clone(),
        form: call.form,
        party: call.party,
        identity: call.identity.clone(),
        told: RefCell::default(),
    }
}
