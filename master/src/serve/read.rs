//! Get and list.

use super::{Serve, document, pages, selector};
use crate::call::Call;
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::render::{self, ListMeta};
use crate::store::{Listing, Stored, Unlisted};
use coracle_api::meta::{Key, Revision};
use coracle_api::selector::Selector;
use coracle_api::status::Status;
use coracle_http::budget::{Budget, Held, Party};
use coracle_http::{Answer, BYTES_TIMES, StatusCode};

/// Lists that are being written, the sum of their objects' bytes; one client may have `BYTES_TIMES` what it leaves to others. A single one
/// may be larger; else over it 429. Once written, the carriers count them.
pub const LISTS_BYTES_MAX: usize = 64 << 20;
const AGAIN_S: u32 = 1;

/// Bytes of lists that are being written.
pub struct Lists(Budget);

impl Default for Lists {
    fn default() -> Lists {
        Lists(Budget::new(LISTS_BYTES_MAX, BYTES_TIMES))
    }
}

impl Lists {
    pub fn room_for(&self, party: Party, bytes: usize) -> Result<Held, Fault> {
        self.0.take_most(party, bytes).ok_or_else(|| Status::too_many_requests("others are being given long lists", AGAIN_S).into())
    }

    /// Of what has to be answered: what it tells of is done.
    pub fn room_at_last(&self, party: Party, items: &[Stored]) -> Held {
        self.0.take_any(party, bytes(items))
    }
}

fn bytes(items: &[Stored]) -> usize {
    items.iter().map(|stored| stored.json.len()).sum()
}

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
    let page = page(serve, call, &selector)?;
    let mut answer = super::shown_as(call, StatusCode::OK, render::list(call.form, call.shown, &page.meta, page.items, wall_clock()));
    let damaged = page.damaged.iter().map(|key| format!("{key} is left out: its file is damaged, see /readyz?verbose"));
    super::warn(&mut answer, &damaged.collect::<Vec<_>>());
    Ok(answer)
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
        Unlisted::Future { now } => Status::future(wanted.at.unwrap_or_default(), now).into(),
    })?;
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

    #[test]
    fn long_lists_of_one_client_are_written_one_after_the_other() {
        let lists = Lists::default();
        let other = Party::Address([10, 0, 0, 1].into());
        let long = lists.room_for(Party::Local, 2 * LISTS_BYTES_MAX).expect("a single one may be larger");
        let Err(refused) = lists.room_for(Party::Local, 1) else { panic!("it is too much") };
        assert_eq!((refused.status.code, refused.status.details.and_then(|details| details.retry_after_s)), (429, Some(AGAIN_S)));
        assert!(lists.room_for(other, 1 << 20).is_ok(), "others find room");
        drop(long);
        let part = || lists.room_for(Party::Local, LISTS_BYTES_MAX / 2);
        let one = part().expect("room");
        assert!(part().is_err());
        drop(one);
        assert!(part().is_ok());
    }
}
