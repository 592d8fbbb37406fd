//! The registry: kinds, store, and the one way to write. Whoever changes an object, a client, a controller or the
//! master itself, hands a `Change` to `Registry::commit`. Its steps, as `Registry::attempt` takes them:
//!
//!     read        what stands there
//!     decode      its writer makes a document of that: `Change::make`
//!     home        the namespace of a new object is there, and stays until the object is stored  home
//!     default     what the object's type says of absent fields                                  prepare::Draft
//!     mutate      what other objects, then its kind, make of it                                 admit, prepare::Draft
//!     validate    what its type and its kind say against it                                     prepare::Draft
//!     admit       what other objects forbid                                                     admit
//!     charge      the quotas of its namespace, counted under one lock                           ledger
//!     write       its claims and its revision, in one step of the store; or a rehearsal of that store
//!
//! A write that loses a race is attempted again from the top.

mod change;
mod furniture;
mod home;
mod ledger;
mod registry;
mod view;
mod written;

pub use change::{Barred, Change, Committed, Expects, Homeless, Made, Make, NotStored, Outcome, Terms, Writer};
pub use registry::Registry;

use crate::admit;
use crate::prepare::{self, Draft, Ownership, Part, Prepared, Standing, Unfit};
use crate::store::{Refused, Stored, UNSEEN, Write};
use coracle_api::kinds::Kind;
use coracle_api::meta::Key;
use coracle_api::strategy;
use furniture::NAMESPACES;
use serde_json::Value;
use written::{Last, ReadBack, ToWrite, holds, in_place, key_of, to_show};

/// Lost races after which a write is given up. Of those who write one object at a time one wins a batch of writes, so
/// this is more than there are requests at work at once.
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
    pub fn commit<E>(&self, change: &Change<'_, E>, terms: &Terms<'_>) -> Result<Committed, Barred<E>> {
        attempted(|| self.attempt(change, terms))
    }

    fn attempt<E>(&self, change: &Change<'_, E>, terms: &Terms<'_>) -> Result<Committed, Failed<Barred<E>>> {
        let found = self.read(change)?;
        let made = (change.make)(found.standing()).map_err(Barred::Writer)?;
        let _home = self.home(change, &made, found.standing().is_none(), terms)?;
        let Some(draft) = self.prepare(change, &found, made, terms)? else {
            return found.unchanged().ok_or(Barred::Missing.into());
        };
        let (old, key) = (found.standing().map(|old| old.object), key_of(&draft.write));
        let charge = self.charge(change.kind, &draft.write, old, terms);
        let charge = charge.map_err(|why| Barred::Unfit(Unfit::Forbidden { name: key.name.clone(), why }))?;
        let (advice, outcome, written) =
            (draft.advice(change.kind, terms), draft.outcome(&found), to_show(&draft.write));
        let stored = self
            .write(draft.write, terms)
            .map_err(|refused| self.refused(change, (key, written), (draft.named, draft.sent.as_ref()), refused))?;
        if let Some(charge) = charge.filter(|_| !terms.rehearsal) {
            charge.settle(change.namespace);
        }
        if outcome == Outcome::Created && change.kind.resource == NAMESPACES && !terms.rehearsal {
            // Whoever hears of it can make pods in it at once.
            self.furnish(&stored.key.name);
        }
        let stored = match draft.last {
            Some(Last::Shown(mut last)) => Stored::of(stored.key.clone(), stored.revision, &mut last),
            Some(Last::Goes) => self.remove(stored, terms)?,
            None => stored,
        };
        Ok(Committed { stored, outcome, warnings: draft.warnings, advice })
    }

    fn read<E>(&self, change: &Change<'_, E>) -> Result<ReadBack, Barred<E>> {
        if change.expects == Expects::Nothing {
            return Ok(ReadBack::Nothing);
        }
        match self.store.get(&change.key()) {
            Ok(Some(stored)) => match serde_json::from_slice(&stored.json) {
                Ok(object) => Ok(ReadBack::Object(stored, object)),
                Err(error) => Err(Barred::Damaged { why: error.to_string() }),
            },
            Ok(None) if change.expects == Expects::Either => Ok(ReadBack::Nothing),
            Ok(None) => Err(Barred::Missing),
            Err(_) if change.over_damaged => Ok(ReadBack::Damaged),
            Err(damaged) => Err(Barred::Damaged { why: damaged.why }),
        }
    }

    /// The write that it comes to; None: nothing is to be written.
    fn prepare<E>(
        &self,
        change: &Change<'_, E>,
        found: &ReadBack,
        made: Made<'_>,
        terms: &Terms<'_>,
    ) -> Result<Option<ToWrite>, Barred<E>> {
        let (kind, old) = (change.kind, found.standing());
        let own = |object| match old {
            Some(old) => Ok(prepare::replace(kind, old, object)),
            None => Err(Barred::Missing),
        };
        let gone = || Write::Delete { key: change.key(), seen: old.map_or(UNSEEN, |old| old.revision) };
        let (write, last) = match made {
            Made::Document { part, object, ownership, warnings } => {
                let named = object["metadata"]["name"].as_str().is_some_and(|name| !name.is_empty());
                let sent = (!kind.strategy.claims_nothing()).then(|| object.clone());
                let Prepared { write, last } =
                    self.document(change, old, (part, object, ownership), terms).map_err(Barred::Unfit)?;
                let write = if matches!(found, ReadBack::Damaged) { in_place(write) } else { write };
                return Ok(Some(ToWrite { write, last: last.map(Last::Shown), warnings, named, sent }));
            }
            Made::Own(object) => (own(object)?, None),
            Made::Last(object) => (own(object)?, Some(Last::Goes)),
            Made::Gone => (gone(), None),
            Made::Unchanged => return Ok(None),
        };
        Ok(Some(ToWrite { write, last, warnings: Vec::new(), named: true, sent: None }))
    }

    /// From its defaults to what other objects forbid.
    fn document<E>(
        &self,
        change: &Change<'_, E>,
        old: Option<Standing<'_>>,
        (part, object, ownership): (Part, Value, Ownership<'_>),
        terms: &Terms<'_>,
    ) -> Result<Prepared, Unfit> {
        let (kind, namespace, view) = (change.kind, change.namespace, &self.view());
        let forbidden = |draft: &Draft<'_>, why| Unfit::Forbidden { name: draft.called(), why };
        let mut draft = match old {
            None => Draft::create(kind, namespace, object, ownership),
            Some(old) => Draft::update(kind, old, part, object, terms.rules, ownership)?,
        };
        if old.is_none() {
            let suffix = || self.maker.suffix();
            // Clients of older versions put back what they wrote, and know of no volume that was added.
            let letters: Option<&dyn Fn() -> String> = if terms.rules.old_labels { None } else { Some(&suffix) };
            admit::complete(view, kind, namespace, terms.identity, letters, &mut draft.object)
                .map_err(|why| forbidden(&draft, why))?;
        }
        self.maker.making(|making| {
            draft.mutate(making);
            draft.validate(terms.rules)?;
            if matches!(part, Part::Main | Part::Share(_)) && !draft.goes() {
                let old = old.map(|old| old.object);
                admit::judge(view, kind, namespace, &draft.object, old).map_err(|why| forbidden(&draft, why))?;
            }
            Ok(draft.finish(making.now))
        })
    }

    fn write(&self, write: Write, terms: &Terms<'_>) -> Result<Stored, Refused> {
        if terms.rehearsal { self.store.rehearse(write) } else { self.store.write(write) }
    }

    /// Deletes an object after its last write.
    fn remove<E>(&self, last: Stored, terms: &Terms<'_>) -> Result<Stored, Failed<Barred<E>>> {
        let key = Key::clone(&last.key);
        let removal = Write::Delete { key: key.clone(), seen: last.revision };
        match if terms.rehearsal { Ok(last.clone()) } else { self.store.write(removal) } {
            // Whoever was quicker has only taken away what was over.
            Ok(_) | Err(Refused::Missing) => Ok(last),
            Err(refused @ Refused::Stale { .. }) => Err(Failed::Race(Barred::refused(key, None, refused))),
            Err(refused) => Err(Failed::Finally(Barred::refused(key, None, refused))),
        }
    }

    /// Whether the next attempt may go better: where somebody else wrote meanwhile, or took what the server had chosen.
    fn refused<E>(
        &self,
        change: &Change<'_, E>,
        (key, written): (Key, Option<Value>),
        (named, sent): (bool, Option<&Value>),
        refused: Refused,
    ) -> Failed<Barred<E>> {
        let refused = match refused {
            // Where both its name and its token are taken, the token tells more.
            Refused::Exists { revision } => {
                self.token_used(change.kind, written.as_ref()).unwrap_or(Refused::Exists { revision })
            }
            refused => refused,
        };
        let again = match &refused {
            Refused::Stale { .. } | Refused::Missing => true,
            Refused::Exists { .. } => !named || change.expects == Expects::Either,
            Refused::Damaged { .. } => !named,
            Refused::Claimed { claim, .. } if !claim.space.starts_with(TOKENS) => {
                if sent.is_some_and(|sent| !holds(sent, &claim.value)) {
                    return Failed::Race(Barred::NoneFree { key, space: claim.space.to_string() });
                }
                false
            }
            _ => false,
        };
        let barred = Barred::refused(key, written, refused);
        if again { Failed::Race(barred) } else { Failed::Finally(barred) }
    }

    /// The object that came of the first create with this one's token.
    fn token_used(&self, kind: &Kind, written: Option<&Value>) -> Option<Refused> {
        let claim = strategy::creation_token(&kind.resource.plural, written?)?;
        let (_, owner) = self.store.claimed(&claim.space).into_iter().find(|(value, _)| *value == claim.value)?;
        Some(Refused::Claimed { claim, owner })
    }
}

#[cfg(test)]
pub mod tests;
