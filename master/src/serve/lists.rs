//! The memory of lists that are being written: a share for each client.

use crate::fault::Fault;
use crate::store::Stored;
use coracle_api::status::Status;
use coracle_http::BYTES_TIMES;
use coracle_http::budget::{Budget, Held, Party};

/// Lists that are being written, the sum of their objects' bytes; one client may hold `BYTES_TIMES` the bytes left for
/// other clients. A single list may be larger; otherwise a list over the limit gets a 429. Once written, the carriers
/// count the lists.
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
        self.0
            .take_most(party, bytes)
            .ok_or_else(|| Status::too_many_requests("others are being given long lists", AGAIN_S).into())
    }

    /// For an answer that must be given: the deletions that the answer lists are done.
    pub fn room_at_last(&self, party: Party, items: &[Stored]) -> Held {
        self.0.take_any(party, bytes(items))
    }
}

pub fn bytes(items: &[Stored]) -> usize {
    items.iter().map(|stored| stored.json.len()).sum()
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
        assert_eq!(
            (refused.status.code, refused.status.details.and_then(|details| details.retry_after_s)),
            (429, Some(AGAIN_S))
        );
        assert!(lists.room_for(other, 1 << 20).is_ok(), "others find room");
        drop(long);
        let part = || lists.room_for(Party::Local, LISTS_BYTES_MAX / 2);
        let one = part().expect("room");
        assert!(part().is_err());
        drop(one);
        assert!(part().is_ok());
    }
}
