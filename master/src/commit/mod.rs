//! The registry: kinds, store, and the one way to write. Whoever changes an object, a client, a controller or the
//! master itself, hands a `Change` to `Registry::commit`. A change has three moments.
//!
//! *Draft*. No lock is held from one step to the next.
//!
//!     read        the stored object
//!     forbid      a deletion, before its writer is asked for its preconditions                  admit
//!     make        the writer makes a document of the stored object: `Change::make`
//!     home        the namespace of a new object is there, and it does not end                   home
//!     default     the type of the object sets its absent fields                                 prepare::Draft
//!     mutate      other objects set fields: the mutating rows of `ADMISSION`                    admit
//!     grant       the writer holds what a role or a binding grants                              rights
//!
//! *Consult*. Advisers outside this program may wait as long as they like.                       consult
//!
//! *Settle*. The namespace of a new object stays until the object is stored.
//!
//!     home        the same look at the namespace, now under a lock                              home
//!     generate    uid, time, name, addresses, and all else that the kind sets                   prepare::Draft
//!     validate    the rules of the type and of the kind                                         prepare::Draft
//!     judge       other objects forbid it: the judging rows of `ADMISSION`                      admit
//!     charge      the quotas of the namespace, counted under one lock                           ledger
//!     write       claims and revision, in one step of the store; or a rehearsal of that store
//!
//! A lost race is run again. The other writer's change decides how much is repeated:
//!
//! - Another object has the name, the address or the port that the server generated. Only *settle* is repeated: the
//!   draft holds none of these values, and the advisers were asked about the draft.
//! - The object that was read has changed, has gone, or has come. All moments are repeated, of an update and of a
//!   deletion alike. A patch, an apply and a PUT take over fields of the stored object, so the document may be another
//!   one. Admission and the advisers were asked about the change from that very object to that very document; their
//!   answer is no answer for another change.

mod change;
mod consult;
mod event_rate;
mod furniture;
mod growth;
mod home;
mod ledger;
mod registry;
mod rights;
mod view;
mod written;

pub use change::{
    Change, CommitError, Committed, Expects, MASTER, Made, Make, NamespaceError, NotStored, Outcome, Terms, Writer,
};
pub use registry::Registry;

use crate::admit::{self, AdmissionOperation, AdmissionRequest, ClusterView, EventCount, Refusal, Remarks};
use crate::authorize::{Authorizer, OWN_PARTS};
use crate::prepare::{self, Draft, InvalidDocument, Part, Prepared};
use crate::store::{Refused, Stored, UNSEEN, Write};
use coracle_api::kinds::Kind;
use coracle_api::meta::Key;
use coracle_api::strategy;
use furniture::NAMESPACES;
use serde_json::Value;
use written::{Drafted, Last, ReadBack, ToWrite, adds, in_place, key_of, to_show};

/// Lost races after which a write is given up. Of the concurrent writers of an object one wins in each batch, so the
/// limit exceeds the number of concurrent requests.
const RACES_LOST_MAX: usize = 100;
/// The prefix of the claims' spaces for creation tokens.
const TOKENS: &str = "creationToken/";

/// Why an attempt came to nothing.
pub enum Failed<E> {
    /// Somebody else wrote meanwhile: the next attempt may go better.
    Race(E),
    Finally(E),
}

impl<E> From<E> for Failed<E> {
    fn from(why: E) -> Failed<E> {
        Failed::Finally(why)
    }
}

/// Attempts a thing until it is done, or fails for another reason than a race. The only such loop.
pub fn attempted<T, E>(mut attempt: impl FnMut() -> Result<T, Failed<E>>) -> Result<T, E> {
    let mut races_lost = 0;
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Failed::Race(_)) if races_lost < RACES_LOST_MAX => races_lost += 1,
            Err(Failed::Race(why) | Failed::Finally(why)) => return Err(why),
        }
    }
}

impl Registry {
    /// Writes a change, or says why not. Nothing else writes.
    pub fn commit<E>(&self, change: &Change<'_, E>, terms: &Terms<'_>) -> Result<Committed, CommitError<E>> {
        attempted(|| {
            let found = self.read(change)?;
            let Some(mut draft) = self.draft(change, &found, terms)? else {
                return found.unchanged().ok_or(CommitError::Missing.into());
            };
            self.consult(change, &found, &mut draft, terms)?;
            let mut next = Some(draft);
            let settled = attempted(|| {
                let draft = next.take().expect("an attempt that may be repeated has left its draft");
                next = draft.again();
                self.settle(change, &found, draft, next.as_ref(), terms)
            });
            settled.map_err(|barred| match barred.has_moved(change.expects) {
                true => Failed::Race(barred),
                false => Failed::Finally(barred),
            })
        })
    }

    /// None: nothing is to be written.
    fn draft<'d, E>(
        &self,
        change: &'d Change<'_, E>,
        found: &'d ReadBack,
        terms: &Terms<'_>,
    ) -> Result<Option<Drafted<'d>>, CommitError<E>> {
        let (kind, old, view) = (change.kind, found.standing(), &self.view());
        if change.deletes {
            let remarks = Remarks::default();
            let request = self.request(change, found, Part::Main, (view, terms, &remarks));
            let judged = admit::judge(&request, &Value::Null);
            judged.map_err(|refusal| CommitError::unadmitted(change.name.to_owned(), refusal))?;
        }
        let own = |object| old.map(|old| prepare::replace(kind, old, object)).ok_or(CommitError::Missing);
        let gone = || Write::Delete { key: change.key(), seen: old.map_or(UNSEEN, |old| old.revision) };
        Ok(Some(match (change.make)(old).map_err(CommitError::Writer)? {
            Made::Document { part, object, ownership, warnings } => {
                let mut draft = match old {
                    None => {
                        if change.expects == Expects::Either {
                            self.may_create(change, terms)?;
                        }
                        self.look_home(change, &object, terms)?;
                        Draft::create(kind, change.namespace, object, ownership)
                    }
                    Some(old) => Draft::update(kind, old, part, object, terms.rules, ownership)
                        .map_err(CommitError::InvalidDocument)?,
                };
                let suffix = || self.maker.suffix();
                let remarks = Remarks::default();
                let mut request = self.request(change, found, draft.part, (view, terms, &remarks));
                // Clients of older versions put back what they wrote, and know of no volume that was added.
                request.suffix = if terms.rules.old_labels { None } else { Some(&suffix) };
                admit::mutate(&request, &mut draft.object)
                    .map_err(|refusal| CommitError::unadmitted(draft.called(), refusal))?;
                self.may_grant(&request, (&draft.called(), &draft.object))?;
                Drafted::Document { draft, warnings }
            }
            Made::Own(object) => Drafted::Ready(own(object)?, None),
            Made::Last(object) => Drafted::Ready(own(object)?, Some(Last::Goes)),
            Made::Gone => Drafted::Ready(gone(), None),
            Made::Unchanged => return Ok(None),
        }))
    }

    /// The question that admission is asked about a change.
    fn request<'d, E>(
        &'d self,
        change: &'d Change<'_, E>,
        found: &'d ReadBack,
        part: Part,
        (view, terms, remarks): (&'d dyn ClusterView, &Terms<'d>, &'d Remarks),
    ) -> AdmissionRequest<'d> {
        let old = found.standing().map(|old| old.object);
        let operation = match old {
            _ if change.deletes => AdmissionOperation::Delete,
            None => AdmissionOperation::Create,
            Some(_) => AdmissionOperation::Update,
        };
        let Change { kind, namespace, name, .. } = *change;
        let (subresource, identity) = (part.path(), terms.identity);
        // A change of the stored roles stops no controller.
        let authorizer: &dyn Authorizer =
            if terms.writer == Writer::Controller { &*OWN_PARTS } else { &*self.authorizer };
        // The master's own events are few, and a refusal would help nobody.
        let events = if is_clients(terms) { Some(&*self.event_rate as &EventCount) } else { None };
        AdmissionRequest {
            view,
            authorizer,
            kind,
            subresource,
            operation,
            namespace,
            name,
            old,
            identity,
            suffix: None,
            events,
            options: self.options,
            remarks,
        }
    }

    /// `again`: the draft of the next attempt, where there may be one.
    fn settle<E>(
        &self,
        change: &Change<'_, E>,
        found: &ReadBack,
        draft: Drafted<'_>,
        again: Option<&Drafted<'_>>,
        terms: &Terms<'_>,
    ) -> Result<Committed, Failed<CommitError<E>>> {
        let _home = self.home(change, found, &draft, terms)?;
        let to_write = self.finish(change, found, draft, terms).map_err(CommitError::InvalidDocument)?;
        let (old, key) = (found.standing().map(|old| old.object), key_of(&to_write.write));
        let charge = self.charge(change.kind, &to_write.write, old, terms);
        let charge = charge.map_err(|why| CommitError::forbidden(key.name.clone(), why))?;
        let (advice, outcome) = (to_write.advice(change.kind, terms), to_write.outcome(found));
        let ToWrite { write, last, warnings, remarks } = to_write;
        let (told, notes) = remarks.into_parts();
        let advice = [advice, told].concat();
        let written = to_show(&write);
        self.may_grow(change, found, &write, terms)?;
        let stored =
            self.write(write, terms).map_err(|refused| self.refused(change, (key, written), again, refused))?;
        if let Some(charge) = charge.filter(|_| !terms.rehearsal) {
            charge.settle(change.namespace);
        }
        self.has_grown((found, &stored, outcome), terms);
        if outcome == Outcome::Created && change.kind.resource == NAMESPACES && !terms.rehearsal {
            // Clients that see the new namespace can create pods in the namespace at once.
            self.furnish(&stored.key.name);
        }
        let stored = match last {
            Some(Last::Shown(mut last)) => Stored::of(stored.key.clone(), stored.revision, &mut last),
            Some(Last::Goes) => self.remove(stored, terms)?,
            None => stored,
        };
        Ok(Committed { stored, outcome, warnings, advice, notes })
    }

    fn read<E>(&self, change: &Change<'_, E>) -> Result<ReadBack, CommitError<E>> {
        if change.expects == Expects::Nothing {
            return Ok(ReadBack::Nothing);
        }
        match self.store.get(&change.key()) {
            Ok(Some(stored)) => match serde_json::from_slice(&stored.json) {
                Ok(object) => Ok(ReadBack::Object(stored, object)),
                Err(error) => Err(CommitError::Damaged { why: error.to_string() }),
            },
            Ok(None) if change.expects == Expects::Either => Ok(ReadBack::Nothing),
            Ok(None) => Err(CommitError::Missing),
            Err(_) if change.over_damaged => Ok(ReadBack::Damaged),
            Err(damaged) => Err(CommitError::Damaged { why: damaged.why }),
        }
    }

    /// From the generated values to the judgement of other objects.
    fn finish<E>(
        &self,
        change: &Change<'_, E>,
        found: &ReadBack,
        draft: Drafted<'_>,
        terms: &Terms<'_>,
    ) -> Result<ToWrite, InvalidDocument> {
        let remarks = Remarks::default();
        let (mut draft, warnings) = match draft {
            Drafted::Document { draft, warnings } => (draft, warnings),
            Drafted::Ready(write, last) => return Ok(ToWrite { write, last, warnings: Vec::new(), remarks }),
        };
        let view = self.view();
        let Prepared { write, last } = self.maker.making(|making| {
            draft.mutate(making);
            draft.validate(terms.rules)?;
            if !draft.goes() {
                let request = self.request(change, found, draft.part, (&view, terms, &remarks));
                let judged = admit::judge(&request, &draft.object);
                judged.map_err(|refusal| change::unadmitted(draft.called(), refusal))?;
            }
            Ok(draft.finish(making.now))
        })?;
        let write = if matches!(found, ReadBack::Damaged) { in_place(write) } else { write };
        Ok(ToWrite { write, last: last.map(Last::Shown), warnings, remarks })
    }

    /// Whether the store has room for what this write adds.
    fn may_grow<E>(
        &self,
        change: &Change<'_, E>,
        found: &ReadBack,
        write: &Write,
        terms: &Terms<'_>,
    ) -> Result<(), CommitError<E>> {
        // A deletion may leave the object with a mark, and is a way to make room.
        if change.deletes || !is_clients(terms) || growth::is_sign_of_life(terms.identity, &change.kind.resource) {
            return Ok(());
        }
        let Err(retry_after_s) = self.growth.may(terms.identity) else { return Ok(()) };
        // Measured only here: most writes are of users with room.
        if !adds(write, found) {
            return Ok(());
        }
        if let Some(left_out) = self.growth.refused() {
            let user = &terms.identity.user;
            log::warn!(
                "{user:?} has stored much, and may add {retry_after_s} s from now ({left_out} more such refusals)"
            );
        }
        let why = "Too many requests: this user has stored much, and the store has to last for others".to_owned();
        Err(CommitError::unadmitted(String::new(), Refusal::TooMany { why, retry_after_s }))
    }

    fn has_grown(&self, (found, stored, outcome): (&ReadBack, &Stored, Outcome), terms: &Terms<'_>) {
        if is_clients(terms) {
            let old = if let ReadBack::Object(old, _) = found { old.json.len() } else { 0 };
            let new = if matches!(outcome, Outcome::Gone | Outcome::GivenUp) { 0 } else { stored.json.len() };
            self.growth.has_written(terms.identity, (new, old));
        }
    }

    fn write(&self, write: Write, terms: &Terms<'_>) -> Result<Stored, Refused> {
        if terms.rehearsal { self.store.rehearse(write) } else { self.store.write(write) }
    }

    /// Deletes an object after its last write.
    fn remove<E>(&self, last: Stored, terms: &Terms<'_>) -> Result<Stored, CommitError<E>> {
        let key = Key::clone(&last.key);
        let removal = Write::Delete { key: key.clone(), seen: last.revision };
        match if terms.rehearsal { Ok(last.clone()) } else { self.store.write(removal) } {
            // Whoever was quicker has only taken away what was over.
            Ok(_) | Err(Refused::Missing) => Ok(last),
            Err(refused) => Err(CommitError::refused(key, None, refused)),
        }
    }

    /// Whether the next attempt may go better with other generated values: the store refused a value that is not in the
    /// draft.
    fn refused<E>(
        &self,
        change: &Change<'_, E>,
        (key, written): (Key, Option<Value>),
        again: Option<&Drafted<'_>>,
        refused: Refused,
    ) -> Failed<CommitError<E>> {
        let refused = match refused {
            // Where both its name and its token are taken, the token tells more.
            Refused::Exists { revision } => {
                self.token_used(change.kind, written.as_ref()).unwrap_or(Refused::Exists { revision })
            }
            refused => refused,
        };
        match &refused {
            Refused::Exists { .. } | Refused::Damaged { .. } if again.is_some_and(|draft| !draft.is_named()) => {
                Failed::Race(CommitError::refused(key, written, refused))
            }
            Refused::Claimed { claim, .. }
                if !claim.space.starts_with(TOKENS) && again.is_some_and(|draft| !draft.holds(&claim.value)) =>
            {
                Failed::Race(CommitError::NoneFree { key, space: claim.space.to_string() })
            }
            _ => Failed::Finally(CommitError::refused(key, written, refused)),
        }
    }

    /// The object that came of the first create with this one's token.
    fn token_used(&self, kind: &Kind, written: Option<&Value>) -> Option<Refused> {
        let claim = strategy::creation_token(&kind.resource.plural, written?)?;
        let (_, owner) = self.store.claimed(&claim.space).into_iter().find(|(value, _)| *value == claim.value)?;
        Some(Refused::Claimed { claim, owner })
    }
}

/// A change that a client asks for, and that is carried out.
fn is_clients(terms: &Terms<'_>) -> bool {
    !terms.rehearsal && matches!(terms.writer, Writer::Client | Writer::ClientOf2014)
}

#[cfg(test)]
pub mod tests;
