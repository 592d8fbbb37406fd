//! Get and list.

use super::{Serve, document, pages, selector};
use crate::call::Call;
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::render::{self, ListMeta};
use crate::store::{Listing, Stored, Unlisted};
use coracle_api::meta::Revision;
use coracle_api::status::Status;
use coracle_http::{Answer, StatusCode};

pub fn get(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let wanted = pages::of_get(&call.options)?;
    if let Some(revision) = wanted {
        not_from_the_future(serve, revision)?;
    }
    let stored = serve.standing(call)?;
    Ok(document(call, StatusCode::OK, &stored))
}

/// All objects that are selected, or a page of them.
pub fn list(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let selector = selector::of(call)?;
    let wanted = pages::of_list(call)?;
    if let Some(revision) = wanted.not_before {
        not_from_the_future(serve, revision)?;
    }
    let matches = |stored: &Stored| selector::matches(&selector, stored);
    let listing = Listing {
        resource: &call.kind.resource,
        namespace: Some(call.namespace.as_str()).filter(|namespace| !namespace.is_empty()),
        at: wanted.at,
        after: wanted.after.as_ref(),
        limit: wanted.limit,
        matches: if selector.is_everything() { None } else { Some(&matches) },
    };
    let page = serve.store.page(&listing).map_err(|why| match why {
        Unlisted::Gone(_) => pages::expired(&wanted),
        Unlisted::Future { now } => Status::future(wanted.at.unwrap_or_default(), now).into(),
    })?;
    let meta = ListMeta {
        revision: page.revision,
        continues: page.more.as_ref().map(|more| pages::token(Some(page.revision), &more.after)).unwrap_or_default(),
        remaining: page.more.as_ref().and_then(|more| more.remaining).map(|remaining| remaining as u64),
    };
    let mut answer = super::shown(call, StatusCode::OK, render::list(call.form, call.shown, &meta, &page.items, wall_clock()));
    let damaged = page.damaged.iter().map(|key| format!("{key} is left out: its file is damaged, see /healthz?verbose"));
    super::warn(&mut answer, &damaged.collect::<Vec<_>>());
    Ok(answer)
}

pub fn not_from_the_future(serve: &Serve, revision: Revision) -> Result<(), Fault> {
    let current = serve.store.revision();
    if revision <= current { Ok(()) } else { Err(Status::future(revision, current).into()) }
}
