//! `metrics.k8s.io`: what nodes and pods take now, asked of the agents of this host when somebody asks, and never
//! stored.
//!
//! The store knows the existing nodes and pods and applies selectors; the agents know the usage. An object without
//! figures, such as a starting pod, is left out of lists and is not found.

use super::server::key_of;
use super::{Serve, log, selector};
use crate::call::{Call, Verb};
use crate::fault::Fault;
use crate::figures::{UsageReport, ask};
use crate::form::{Form, Media};
use crate::making::wall_clock;
use crate::render::{self, ListMeta};
use crate::store::{Listing, Stored};
use coracle_api::meta::{Key, Resource, Revision};
use coracle_api::status::Status;
use coracle_http::{Answer, Body, Server, StatusCode};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

const NODES: &str = "nodes";

/// Figures by namespace and name of the object; the namespace of a node is empty.
type Figures = HashMap<(String, String), Value>;

pub fn answer(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    // Under the same name as the objects that they are of.
    let of = Resource { plural: call.kind.resource.plural.clone(), ..Resource::core(NODES) };
    let selected = selected(serve, call, &of)?;
    if call.verb == Verb::Get && selected.is_empty() {
        return Err(Status::not_found(&call.shown.resource, &call.name).into());
    }
    let figures = figures(serve, call)?;
    let items: Vec<Stored> = selected.iter().filter_map(|stored| shown(call, stored, &figures)).collect();
    let now = wall_clock();
    let form = readable(call.form);
    if call.verb == Verb::List {
        let list = render::list(form, call.shown, &ListMeta::default(), items, now);
        return Ok(Answer::new(StatusCode::OK, form.media.content_type(), list));
    }
    let item = items.first().ok_or_else(|| Fault::from(Status::not_found(&call.shown.resource, &call.name)))?;
    let item = render::object(form, call.shown, item, now);
    Ok(Answer::new(StatusCode::OK, form.media.content_type(), Body::Whole(item)))
}

/// A window is a separate message in protobuf, outside the built-in types: clients that read such a message read JSON,
/// too.
fn readable(form: Form) -> Form {
    if form.media == Media::Protobuf { Form { media: Media::Json, ..form } } else { form }
}

/// The nodes or pods that a call means.
fn selected(serve: &Serve, call: &Call, of: &Resource) -> Result<Vec<Stored>, Fault> {
    if call.verb == Verb::Get {
        let key = Key { resource: of.clone(), namespace: call.namespace.clone(), name: call.name.clone() };
        let found = serve.registry.store.get(&key).map_err(|damaged| Fault::damaged(&key, &damaged.why))?;
        return Ok(found.into_iter().collect());
    }
    let selector = selector::of(call)?;
    let matches = |stored: &Stored| selector::matches(&selector, stored);
    let namespace = Some(call.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let listing = Listing { resource: of, namespace, at: None, after: None, limit: None, matches: Some(&matches) };
    // A page of the current state always exists.
    Ok(serve.registry.store.page(&listing).map(|page| page.items).unwrap_or_default())
}

/// The figures of all nodes, or of the named node. A node that does not answer has no figures.
fn figures(serve: &Serve, call: &Call) -> Result<Figures, Fault> {
    let is_nodes = &*call.kind.resource.plural == NODES;
    let nodes = Resource::core(NODES);
    let all = || {
        let listing = Listing { resource: &nodes, namespace: None, at: None, after: None, limit: None, matches: None };
        serve
            .registry
            .store
            .page(&listing)
            .map(|page| page.items.iter().map(|node| node.key.name.clone()).collect())
            .unwrap_or_default()
    };
    let names: Vec<String> = if is_nodes && call.verb == Verb::Get { vec![call.name.clone()] } else { all() };
    let asked: Vec<Server> = names.iter().filter_map(|name| log::agent(serve, name).ok()).collect();
    let usages = ask(asked).map_err(|error| Status::internal_error(format!("ask the agents: {error}")))?;
    let mut figures = Figures::new();
    usages.into_iter().for_each(|usage| take(usage, &mut figures, is_nodes));
    Ok(figures)
}

fn take(usage: UsageReport, figures: &mut Figures, is_nodes: bool) {
    let UsageReport { timestamp, window, node, pods } = usage;
    let said = |field: &str, value: Value| json!({ "timestamp": timestamp, "window": window, field: value });
    if is_nodes {
        figures.extend(node.map(|node| ((String::new(), node.name), said("usage", node.usage))));
    } else {
        figures.extend(pods.into_iter().map(|pod| ((pod.namespace, pod.name), said("containers", pod.containers))));
    }
}

/// None: nobody knows what it takes.
fn shown(call: &Call, stored: &Stored, figures: &Figures) -> Option<Stored> {
    let key = (stored.key.namespace.clone(), stored.key.name.clone());
    let Value::Object(figures) = figures.get(&key)?.clone() else { return None };
    let of: Value = serde_json::from_slice(&stored.json).ok()?;
    let mut metadata = json!({ "name": key.1, "creationTimestamp": of["metadata"]["creationTimestamp"] });
    for (field, value) in [("namespace", Value::from(key.0.as_str())), ("labels", of["metadata"]["labels"].clone())] {
        if !value.is_null() && value != "" {
            metadata[field] = value;
        }
    }
    // The first two fields, as of every object that is stored.
    let mut text =
        format!("{{\"apiVersion\":{:?},\"kind\":{:?},\"metadata\":{metadata}", call.kind.api_version(), call.kind.kind);
    for (field, value) in figures {
        text += &format!(",{field:?}:{value}");
    }
    text.push('}');
    let key = key_of(call.kind, &key.0, &key.1);
    Some(Stored::new(Arc::new(key), Revision::default(), text.into(), stored.labels.clone()))
}
