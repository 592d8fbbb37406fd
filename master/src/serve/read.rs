//! Get and list.

use super::{Serve, document, selector};
use crate::call::{Call, Options};
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::render::{self, ListMeta};
use coracle_api::meta::Revision;
use coracle_api::status::Status;
use coracle_http::{Answer, StatusCode};
use coracle_schema::{Path, Problem, Reason};

pub fn get(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let stored = serve.standing(call)?;
    if !call.options.resource_version.is_empty() {
        not_from_the_future(serve, number(&call.options)?)?;
    }
    Ok(document(call, StatusCode::OK, &stored))
}

pub fn list(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let selector = selector::of(call)?;
    let wanted = wanted(call)?;
    let namespace = Some(call.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let snapshot = serve.store.list(&call.kind.resource, namespace);
    match wanted {
        Wanted::Any => {}
        Wanted::NotOlder(revision) => not_from_the_future(serve, revision)?,
        // Only the present is kept.
        Wanted::Exactly(revision) if revision < snapshot.revision => {
            return Err(Status::expired(revision, snapshot.revision).into());
        }
        Wanted::Exactly(revision) => not_from_the_future(serve, revision)?,
    }
    let mut items = snapshot.items;
    items.retain(|stored| call.name.is_empty() || stored.key.name == call.name);
    items.retain(|stored| selector::matches(&selector, stored));
    let meta = ListMeta::at(snapshot.revision);
    let mut answer = super::shown(call, StatusCode::OK, render::list(call.form, call.shown, &meta, &items, wall_clock()));
    let damaged = snapshot.damaged.iter().map(|key| format!("{key} is left out: its file is damaged, see /healthz?verbose"));
    super::warn(&mut answer, &damaged.collect::<Vec<_>>());
    Ok(answer)
}

enum Wanted {
    Any,
    NotOlder(Revision),
    Exactly(Revision),
}

fn wanted(call: &Call) -> Result<Wanted, Fault> {
    let options = &call.options;
    if options.initial_events {
        return Err(refused("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if options.continues {
        return Err(Fault::bad_request("continue key is not valid: lists are answered whole, without one"));
    }
    let version = if options.resource_version.is_empty() { Revision(0) } else { number(options)? };
    match options.resource_version_match.as_str() {
        "" if version == Revision(0) => Ok(Wanted::Any),
        "" | "NotOlderThan" if !options.resource_version.is_empty() => Ok(Wanted::NotOlder(version)),
        "Exact" if version > Revision(0) => Ok(Wanted::Exactly(version)),
        "Exact" if !options.resource_version.is_empty() => {
            Err(refused("resourceVersionMatch", "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""))
        }
        "Exact" | "NotOlderThan" => {
            Err(refused("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        }
        other => {
            let path = Path::new("resourceVersionMatch");
            let problem =
                Problem::new(&path, Reason::NotSupported, Some(other.into()), "supported values: \"Exact\", \"NotOlderThan\", \"\"");
            Err(Status::invalid_of("meta.k8s.io", "ListOptions", "", &[problem]).into())
        }
    }
}

pub fn refused(field: &str, why: &str) -> Fault {
    let problem = Problem::forbidden(&Path::new(field), why);
    Status::invalid_of("meta.k8s.io", "ListOptions", "", &[problem]).into()
}

/// `resourceVersion` of a request that has one.
pub fn number(options: &Options) -> Result<Revision, Fault> {
    let text = &options.resource_version;
    text.parse().map(Revision).map_err(|_| Fault::bad_request(format!("Invalid value: {text:?}: resourceVersion is not a number")))
}

fn not_from_the_future(serve: &Serve, revision: Revision) -> Result<(), Fault> {
    let current = serve.store.revision();
    if revision <= current {
        return Ok(());
    }
    Err(Status::future(revision, current).into())
}
