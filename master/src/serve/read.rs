//! Get and list.

use super::lists::bytes;
use super::{Serve, document, pages, selector, shown_as, warn};
use crate::call::Call;
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::render::{self, ListMeta};
use crate::store::{Listing, Stored, Unlisted};
use coracle_api::meta::{Key, Revision};
use coracle_api::selector::{FieldSelector, Selector};
use coracle_api::status::Status;
use coracle_http::budget::Held;
use coracle_http::{Answer, StatusCode};

pub fn get(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let wanted = pages::of_get(call)?;
    if let Some(revision) = wanted {
        not_from_the_future(serve, revision)?;
    }
    let stored = serve.standing(call)?;
    Ok(document(call, StatusCode::OK, &stored))
}

/// All selected objects, or a page.
pub fn list(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let selector = selector::of(call)?;
    let page = page(serve, call, &selector)?;
    let mut answer =
        shown_as(call, StatusCode::OK, render::list(call.form, call.shown, &page.meta, page.items, wall_clock()));
    warn(&mut answer, &left_out(&page.damaged, &selector.fields));
    Ok(answer)
}

/// Warnings about damaged objects that the list should have. The right to list may be for the name in the selector
/// alone.
fn left_out(damaged: &[Key], fields: &FieldSelector) -> Vec<String> {
    let asked = damaged.iter().filter(|key| fields.may_match(key));
    asked.map(|key| format!("{key} is left out: its file is damaged, see /readyz?verbose")).collect()
}

/// The content of a list.
pub struct ListPage {
    pub meta: ListMeta,
    pub items: Vec<Stored>,
    pub damaged: Vec<Key>,
    pub room: Held,
}

/// The objects that a call selects, as far as it wants them in one answer.
pub fn page(serve: &Serve, call: &Call, selector: &Selector) -> Result<ListPage, Fault> {
    let (wanted, now) = (pages::of_list(call)?, wall_clock());
    if let Some(revision) = wanted.over(now) {
        // Who is told that this moment is over is not shown it as the present.
        serve.registry.store.move_past(revision);
        return Err(pages::expired(&wanted));
    }
    if let Some(revision) = wanted.not_before {
        not_from_the_future(serve, revision)?;
    }
    let matches = |stored: &Stored| selector::matches(selector, stored);
    let listing = Listing {
        resource: &call.kind.resource,
        namespace: Some(call.namespace.as_str()).filter(|namespace| !namespace.is_empty()),
        at: wanted.at,
        after: wanted.after.as_ref(),
        limit: wanted.limit,
        matches: if selector.is_everything() { None } else { Some(&matches) },
    };
    let page = serve.registry.store.page(&listing).map_err(|why| match why {
        Unlisted::Gone(_) => pages::expired(&wanted),
        Unlisted::Future { now } => {
            // Whoever wants that very state is not told to come again.
            let mut status = Status::future(wanted.at.unwrap_or_default(), now);
            status.details.get_or_insert_default().retry_after_s = None;
            status.into()
        }
    })?;
    // Whoever is given the others would take it for gone.
    if let Some((key, why)) = page.shut.iter().find(|(key, _)| selector.fields.may_match(key)) {
        return Err(Fault::damaged(key, why));
    }
    let meta = ListMeta {
        revision: page.revision,
        continues: page.more.as_ref().map(|more| wanted.token(page.revision, &more.after, now)).unwrap_or_default(),
        remaining: page.more.as_ref().and_then(|more| more.remaining).map(|remaining| remaining as u64),
    };
    let room = serve.lists.room_for(call.party, bytes(&page.items))?;
    Ok(ListPage { meta, items: page.items, damaged: page.damaged, room })
}

pub fn not_from_the_future(serve: &Serve, revision: Revision) -> Result<(), Fault> {
    let current = serve.registry.store.revision();
    if revision <= current { Ok(()) } else { Err(Status::future(revision, current).into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::kinds::Kinds;
    use coracle_api::meta::Resource;

    #[test]
    fn a_list_by_name_tells_of_that_name_alone() {
        let maps = Resource::core("configmaps");
        let key = |name: &str| Key { resource: maps.clone(), namespace: "a".to_owned(), name: name.to_owned() };
        let kind = Kinds::builtin().row(&maps).expect("a row");
        for (fields, expected) in [("", &["x", "y"][..]), ("metadata.name=x", &["x"]), ("metadata.name=z", &[])] {
            let fields = FieldSelector::parse(fields, &kind).expect("a selector");
            let words =
                |name: &&str| format!("configmaps/a/{name} is left out: its file is damaged, see /readyz?verbose");
            let expected: Vec<String> = expected.iter().map(words).collect();
            assert_eq!(left_out(&[key("x"), key("y")], &fields), expected);
        }
    }
}
