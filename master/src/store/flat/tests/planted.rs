//! Backends that break one promise each: the conformance suite has to refuse every one of them, and by the check that
//! is about it.

use super::*;
use crate::store::tests::conformance::{CHECKS, Home, simulated};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    DeletesAtTheOldRevision,
    UpdatesBlindly,
    CreatesOver,
    IgnoresClaims,
    ForgetsOverARestart,
    TakesAnotherIdentity,
    ReadsTheFirst,
    WritesWhatIsSo,
    ShowsThePresent,
    ForgetsThePresent,
    SkipsEvents,
    TellsTwice,
    TellsInPairsReversed,
    ShortensReplays,
    TellsWhoSaidNo,
    TellsEverybodyEverything,
    ShowsWhatWasRefused,
    HidesThatItFails,
    TakesDamagedForAbsent,
    HidesDamagedInLists,
    WritesWhenRehearsing,
    OverlooksChanges,
    ForgetsStrangeKinds,
}

/// The flaw, and a check that has to notice it.
const FLAWS: [(Flaw, &str); 23] = [
    (Flaw::DeletesAtTheOldRevision, "one_revision_over_everything"),
    (Flaw::UpdatesBlindly, "compare_and_write"),
    (Flaw::CreatesOver, "compare_and_write"),
    (Flaw::IgnoresClaims, "claims_are_part_of_the_write"),
    (Flaw::ForgetsOverARestart, "visible_means_durable"),
    (Flaw::TakesAnotherIdentity, "visible_means_durable"),
    (Flaw::ReadsTheFirst, "compare_and_write"),
    (Flaw::WritesWhatIsSo, "nothing_changed_is_nothing_done"),
    (Flaw::ShowsThePresent, "a_page_shows_one_moment"),
    (Flaw::ForgetsThePresent, "a_page_shows_one_moment"),
    (Flaw::SkipsEvents, "events_come_in_order"),
    (Flaw::TellsTwice, "events_come_in_order"),
    (Flaw::TellsInPairsReversed, "events_come_in_order"),
    (Flaw::ShortensReplays, "events_come_in_order"),
    (Flaw::TellsWhoSaidNo, "events_come_in_order"),
    (Flaw::TellsEverybodyEverything, "events_come_in_order"),
    (Flaw::ShowsWhatWasRefused, "what_is_refused_is_not_seen"),
    (Flaw::HidesThatItFails, "what_is_refused_is_not_seen"),
    (Flaw::TakesDamagedForAbsent, "unknown_is_not_absent"),
    (Flaw::HidesDamagedInLists, "unknown_is_not_absent"),
    (Flaw::WritesWhenRehearsing, "a_rehearsal_leaves_nothing"),
    (Flaw::OverlooksChanges, "changes_are_known"),
    (Flaw::ForgetsStrangeKinds, "any_kind"),
];

struct Planted {
    real: Arc<dyn Store>,
    flaw: Flaw,
    uuid: String,
    /// The first that was written of each object, or what was refused.
    kept: Mutex<BTreeMap<Key, Stored>>,
}

/// The key and what is to stand there.
fn wish(write: &Write) -> Option<(&Key, &Value)> {
    match write {
        Write::Create { key, object, .. } | Write::Update { key, object, .. } => Some((key, object)),
        Write::Delete { .. } => None,
    }
}

impl Planted {
    fn keep(&self, key: &Key, object: &Value, revision: Revision) {
        let stored = Stored::of(Arc::new(key.clone()), revision, &mut object.clone());
        locked(&self.kept).entry(key.clone()).or_insert(stored);
    }

    fn noise(&self) {
        let key = Key { resource: Resource::core("events"), namespace: "default".to_owned(), name: "noise".to_owned() };
        let object =
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "noise", "namespace": "default"}});
        let made =
            self.real.write(Write::Create { key: key.clone(), object, durable: Durable::Nothing, claims: Vec::new() });
        let made = made.expect("it is new");
        self.real.write(Write::Delete { key, seen: made.revision }).expect("it was just made");
    }
}

fn without_claims(write: Write) -> Write {
    match write {
        Write::Create { key, object, durable, .. } => Write::Create { key, object, durable, claims: Vec::new() },
        Write::Update { key, object, seen, durable, .. } => {
            Write::Update { key, object, seen, durable, claims: Vec::new() }
        }
        delete => delete,
    }
}

impl Store for Planted {
    fn uuid(&self) -> &str {
        &self.uuid
    }

    fn revision(&self) -> Revision {
        self.real.revision()
    }

    fn changed(&self, resource: &Resource) -> Revision {
        if self.flaw == Flaw::OverlooksChanges { Revision(0) } else { self.real.changed(resource) }
    }

    fn delivered(&self) -> Revision {
        self.real.delivered()
    }

    fn move_past(&self, revision: Revision) {
        self.real.move_past(revision);
    }

    fn get(&self, key: &Key) -> Result<Option<Stored>, Damaged> {
        let now = self.real.get(key);
        match self.flaw {
            Flaw::ReadsTheFirst | Flaw::ShowsWhatWasRefused => match locked(&self.kept).get(key) {
                Some(kept) => Ok(Some(kept.clone())),
                None => now,
            },
            Flaw::TakesDamagedForAbsent => Ok(now.unwrap_or_default()),
            Flaw::ForgetsStrangeKinds if !key.resource.group.is_empty() => Ok(None),
            _ => now,
        }
    }

    fn page(&self, listing: &Listing) -> Result<Page, Unlisted> {
        match self.flaw {
            Flaw::ShowsThePresent => self.real.page(&Listing { at: None, ..*listing }),
            Flaw::ForgetsThePresent if listing.at == Some(self.revision()) => {
                Err(Unlisted::Gone(Gone { oldest: self.revision() }))
            }
            Flaw::HidesDamagedInLists => self.real.page(listing).map(|page| Page { damaged: Vec::new(), ..page }),
            _ => self.real.page(listing),
        }
    }

    fn claimed(&self, space: &str) -> Vec<(String, Key)> {
        self.real.claimed(space)
    }

    fn write(&self, write: Write) -> Result<Stored, Refused> {
        let write = if self.flaw == Flaw::IgnoresClaims { without_claims(write) } else { write };
        let done = self.real.write(write.clone());
        match (self.flaw, done, &write) {
            (Flaw::DeletesAtTheOldRevision, Ok(stored), Write::Delete { seen, .. }) => Ok(stored.at(*seen)),
            (Flaw::UpdatesBlindly, Err(Refused::Stale { now }), Write::Update { key, object, durable, claims, .. }) => {
                let (key, object, claims) = (key.clone(), object.clone(), claims.clone());
                self.real.write(Write::Update { key, object, seen: now.revision, durable: *durable, claims })
            }
            (
                Flaw::CreatesOver,
                Err(Refused::Exists { revision: Some(seen) }),
                Write::Create { key, object, durable, claims },
            ) => self.real.write(Write::Update {
                key: key.clone(),
                object: object.clone(),
                seen,
                durable: *durable,
                claims: claims.clone(),
            }),
            (Flaw::ReadsTheFirst, Ok(stored), _) => {
                locked(&self.kept).entry(Key::clone(&stored.key)).or_insert(stored.clone());
                Ok(stored)
            }
            (Flaw::WritesWhatIsSo, Ok(stored), Write::Update { seen, .. }) if stored.revision == *seen => {
                self.noise();
                Ok(stored)
            }
            (Flaw::ShowsWhatWasRefused, Err(refused @ Refused::Disk { .. }), write) => {
                if let Some((key, object)) = wish(write) {
                    self.keep(key, object, self.revision());
                }
                Err(refused)
            }
            (_, done, _) => done,
        }
    }

    fn rehearse(&self, write: Write) -> Result<Stored, Refused> {
        if self.flaw == Flaw::WritesWhenRehearsing { self.real.write(write) } else { self.real.rehearse(write) }
    }

    fn watch(&self, mut scope: Scope, after: Option<Revision>, mut sink: Sink) -> Result<Watch, Unwatched> {
        if self.flaw == Flaw::TellsEverybodyEverything {
            (scope.namespace, scope.name) = (None, None);
        }
        let (flaw, mut number, mut held) = (self.flaw, 0, None);
        let planted = move |event: &Event| {
            number += 1;
            match flaw {
                Flaw::SkipsEvents if number % 2 == 0 => true,
                Flaw::TellsTwice => sink(event) && sink(event),
                Flaw::TellsInPairsReversed => match held.take() {
                    None => {
                        held = Some(event.clone());
                        true
                    }
                    Some(before) => sink(event) && sink(&before),
                },
                Flaw::TellsWhoSaidNo => {
                    sink(event);
                    true
                }
                _ => sink(event),
            }
        };
        let mut watch = self.real.watch(scope, after, Box::new(planted))?;
        if flaw == Flaw::ShortensReplays && !watch.replay.is_empty() {
            watch.replay.remove(0);
        }
        Ok(watch)
    }

    fn health(&self) -> Health {
        let health = self.real.health();
        if self.flaw == Flaw::HidesThatItFails { Health { degraded: None, ..health } } else { health }
    }
}

fn planted(flaw: Flaw) -> Home {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let mut home = simulated();
    let mut real = home.open;
    let mut lives = 0;
    home.open = Box::new(move || {
        let real = real();
        lives += 1;
        if flaw == Flaw::ForgetsOverARestart
            && lives > 1
            && let Ok(Some(last)) = real.get(&key("Whole"))
        {
            real.write(Write::Delete { key: key("Whole"), seen: last.revision }).expect("it was seen");
        }
        let uuid = match flaw {
            Flaw::TakesAnotherIdentity => OPENED.fetch_add(1, Ordering::Relaxed).to_string(),
            _ => real.uuid().to_owned(),
        };
        Arc::new(Planted { real, flaw, uuid, kept: Mutex::default() })
    });
    home
}

/// The checks that a backend does not pass.
fn failing(flaw: Flaw) -> Vec<&'static str> {
    let fails = |check: fn(Home)| catch_unwind(AssertUnwindSafe(|| check(planted(flaw)))).is_err();
    CHECKS.iter().filter(|(_, check)| fails(*check)).map(|(name, _)| *name).collect()
}

#[test]
fn a_backend_that_breaks_a_promise_is_refused() {
    assert_eq!(failing(Flaw::None), [""; 0], "a mere wrapper keeps them all");
    for (flaw, check) in FLAWS {
        let failing = failing(flaw);
        eprintln!("{flaw:?}: {failing:?}");
        assert!(failing.contains(&check), "{flaw:?} passes {check}");
    }
}
