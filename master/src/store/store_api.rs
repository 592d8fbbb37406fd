//! The trait that serving and controllers use for storage: the flat files of this room, or another backend.
//!
//! ```text
//! write = compare and write of one key with its claims · get, page, claimed = reading · watch, told = following
//! ```
//!
//! What a backend must promise; `tests/conformance` holds it to that:
//!
//! 1. **One revision over everything.** Every write that changes something has its own, higher than all before, also
//!    after a restart, a power cut or a restore. None is ever used for two contents. The object holds it as
//!    `metadata.resourceVersion`.
//! 2. **Compare and write.** A create finds nothing there, an update or delete finds what the writer saw, and every
//!    claim is free or its object's own; all that is checked and done in one step, or nothing is. (On etcd: one
//!    transaction with a compare a key.)
//! 3. **Visible means durable**, as far as the write asked for it. Nobody reads or hears of what a power cut may take
//!    back, and what was answered with Ok is there after it. What was not to be durable may be missing after a restart;
//!    then the object is at a revision that nobody has seen.
//! 4. **Writers read what they wrote**, and so does everybody who begins to read afterwards; `changed` knows of the
//!    write by then.
//! 5. **A write that changes nothing** costs no revision, no event and no byte.
//! 6. **A page shows one moment**, and further pages of that moment can be had until `Gone` says that it is forgotten.
//!    `Gone` is never said of the present, and `Future` only of what is above it: every revision that is told is at
//!    most the store's.
//! 7. **Events come in the order of revisions**, each once and none left out, from the replay into the sink. If that
//!    cannot be kept, the watch ends or does not begin: it is never mended silently. Who is slow is let go of and not
//!    waited for.
//! 8. **The outcome may be unknown.** After `Refused::Disk` the write is not visible and its revision is spent; a
//!    backend may still show it later, once, as any other write: a cluster at any time, the flat files after the next
//!    start, where the disk had it before it failed.
//!    `Refused::Busy` says that nothing was tried: nobody waits for a backend that cannot keep up.
//! 9. **Unknown is not absent.** What cannot be read counts as existing: `Damaged` and `Page::damaged`, never a `None`.
//! 10. **Keys, not kinds.** An object of any resource is kept as it was written; a backend asks nobody whether its kind
//!    is known.
//!
//! No transactions over several objects, no leases, no ages: callers build such features from these operations.

use super::{Damaged, Health, Listing, Page, Refused, Scope, Sink, Stored, Unlisted, Unwatched, Watch, Write};
use coracle_api::meta::{Key, Resource, Revision};

/// The door to what the master remembers. Shared by threads; a write blocks its caller until it is durable, everything
/// else is quick.
pub trait Store: Send + Sync {
    /// The identity of the content. What was begun anew has a new one.
    fn uuid(&self) -> &str;

    /// The revision of the last write.
    fn revision(&self) -> Revision;

    /// Spends one where the last is not above this one: a moment of which somebody was told that it is over is not the
    /// present any more, though nothing was written since. On a disk that takes nothing it may stay as it is.
    fn move_past(&self, revision: Revision);

    /// The revision of the last change of a resource's objects since the store was opened; 0 where none changed. A
    /// caller that has read it and lists the resource afterwards sees at least that change.
    fn changed(&self, resource: &Resource) -> Revision;

    fn get(&self, key: &Key) -> Result<Option<Stored>, Damaged>;

    /// A list, or a part of one, as it is or as it was.
    fn page(&self, listing: &Listing) -> Result<Page, Unlisted>;

    /// Everything of a resource, in one namespace or in all.
    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Page {
        self.page(&Listing::all(resource, namespace)).unwrap_or_default()
    }

    /// The owners of the claims in a space.
    fn claimed(&self, space: &str) -> Vec<(String, Key)>;

    /// For a delete: the last state, with the deletion's revision inside. A damaged object is given up by a delete with
    /// any `seen`; its answer says no more than its identity, and its event has neither old nor new. An update at
    /// `UNSEEN` gives it up for a new object, in one step.
    ///
    /// Not to be called by a sink.
    fn write(&self, write: Write) -> Result<Stored, Refused>;

    /// The answer of a write, or the reason of its refusal, without writing. No revision is spent: a new object shows
    /// none, a changed or deleted one its present one.
    fn rehearse(&self, write: Write) -> Result<Stored, Refused>;

    /// Follows what is written: from the objects that there are now (`None`; they come as creations in `replay`), or
    /// from what came after a revision (`replay` as far as it is history). Then `sink` is called with every further
    /// event until it says false or the handle is dropped. A revision that has not been yet is not waited for: it was
    /// told by a store that has been set back since.
    ///
    /// The replay is returned whole and not sent through the sink: its parts share the store's memory, however many
    /// they are, and a bounded channel need only hold what is written while it is being sent.
    fn watch(&self, scope: Scope, after: Option<Revision>, sink: Sink) -> Result<Watch, Unwatched>;

    /// A revision up to which every sink has been told everything.
    fn delivered(&self) -> Revision;

    /// The problems that a person should look at.
    fn health(&self) -> Health;
}
