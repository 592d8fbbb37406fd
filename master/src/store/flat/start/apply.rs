//! The verdicts carried out: objects come into memory, files go to quarantine, and what people should know is told.

use super::Start;
use super::edits::{EditOutcome, EditedFile};
use super::judge::{FileVerdict, Shown, Sum, Together, Why, judge, judge_all};
use super::objects::Taken;
use super::report::named;
use super::scan::{Content, FoundFile, ScannedFiles};
use crate::store::flat::content::Wrong;
use crate::store::flat::folders::OBJECTS;
use crate::store::flat::head::HEAD;
use crate::store::flat::journal::WAL;
use crate::store::flat::journal::record::Was;
use crate::store::flat::journal::recover::{Recovered, Wiped};
use crate::store::flat::names;
use crate::store::flat::parallel_read::FileText;
use crate::store::flat::seal::Form;
use crate::store::flat::setup::LOST_REVISIONS;
use coracle_api::meta::Key;
use std::collections::BTreeMap;
use std::sync::Arc;

fn keeps(verdict: FileVerdict) -> bool {
    matches!(verdict, FileVerdict::Keep | FileVerdict::KeepUnmarked)
}

/// The matters to settle once all objects are in memory.
pub struct Carried {
    /// Files that people wrote.
    edited: Vec<Arc<Key>>,
    /// Files without a stamp among others that have none either.
    bare: Vec<Arc<Key>>,
    /// A store has written some of the files.
    pub any_written: bool,
}

impl Start<'_> {
    /// `lacks`: no file has the stamp that it should have, and all are as they were left.
    pub fn carry_out(&mut self, scanned: ScannedFiles, lacks: bool) -> Carried {
        let mut carried = Carried { edited: Vec::new(), bare: Vec::new(), any_written: false };
        let mut taken = Vec::with_capacity(scanned.silent.len());
        for found in scanned.silent {
            taken.extend(self.take_silent(found, &mut carried));
        }
        if lacks {
            let files = taken.iter().filter(|(_, entry)| entry.file_crc.is_some());
            self.unstamped = files.map(|(key, _)| key.clone()).collect();
        }
        self.objects.all = taken.into_iter().collect();
        for found in scanned.journaled {
            self.heed_journaled(found);
        }
        let there =
            |(key, said): (&Arc<Key>, &super::journal_view::LastRecord)| Some((key.clone(), said.object.clone()?));
        let said: Vec<_> = self.journal.iter().filter_map(there).collect();
        for (key, object) in said {
            let text = FileText::of_record(&key, &object, &self.objects.rules.sealing);
            if let Form::Shut(why) = &text.form {
                self.leave_shut(&key, why);
                self.shut.journaled.add(&key, text.crc);
            } else if let Err((key, wrong)) = self.objects.take_journaled(&key, text)
                && self.objects.row(&key).is_some()
            {
                self.report.set_object_aside(&key, wrong);
            }
        }
        carried
    }

    /// An object that the journal says nothing of.
    fn take_silent(&mut self, found: FoundFile, carried: &mut Carried) -> Option<Taken> {
        let (crc, case) = (found.crc(), judge(found.evidence));
        let FoundFile { key, known, content, kept, stamped, .. } = found;
        let newer = kept.and_then(|kept| self.objects.of_kept(key.clone(), kept, crc));
        match (case.verdict, content) {
            _ if newer.is_some() => newer,
            (_, Content::Foreign(wrong)) => {
                self.leave_foreign(key, stamped, wrong);
                None
            }
            (verdict, Content::Object { .. }) if !known && !keeps(verdict) => {
                self.leave_foreign(key, stamped, Wrong { word: "edited", why: case.because.to_owned() });
                None
            }
            (FileVerdict::SetAside(Why::Rotten), _) => {
                let why = "nobody wrote to it, yet it is not what was written: the medium is failing".to_owned();
                self.report.set_object_aside(&key, Wrong { word: "rotten", why });
                None
            }
            (FileVerdict::Damaged, Content::Wrong(wrong)) => {
                self.report.leave_damaged(key, wrong.word, wrong.why);
                None
            }
            (verdict, Content::Shut { crc, why }) => {
                self.leave_shut(&key, &why);
                // Where somebody wrote to the file, the start that can open it finds that out.
                self.shut.silent.add(&key, stamped.unwrap_or(crc));
                carried.any_written = true;
                if verdict == FileVerdict::KeepUnmarked {
                    carried.bare.push(Arc::new(key));
                }
                None
            }
            (_, Content::Wrong(wrong)) => {
                self.report.set_object_aside(&key, wrong);
                None
            }
            (_, Content::Absent) => None,
            (verdict, Content::Object { text, outline, has_revision }) => match self.objects.take(key, text, outline) {
                Ok(taken) => {
                    carried.any_written |= has_revision;
                    match verdict {
                        FileVerdict::Edit => carried.edited.push(taken.0.clone()),
                        FileVerdict::KeepUnmarked => carried.bare.push(taken.0.clone()),
                        _ => {}
                    }
                    Some(taken)
                }
                Err((key, wrong)) => {
                    self.report.set_object_aside(&key, wrong);
                    None
                }
            },
        }
    }

    /// The file of an object that the journal says more of.
    fn heed_journaled(&mut self, FoundFile { key, evidence, content, .. }: FoundFile) {
        let file = format!("{OBJECTS}/{}", names::path(&key));
        let case = judge(evidence);
        let Some((brought, said)) = self.journal.get_key_value(&key).map(|(key, said)| (key.clone(), said.revision))
        else {
            return;
        };
        match case.verdict {
            FileVerdict::Missing => {
                let why = format!(
                    "{file}: it was taken away, but the object was written after the file was: it is kept as of \
                     revision {said}"
                );
                self.report.tell(&key, file, why, "delete the object where it is not wanted".to_owned());
            }
            FileVerdict::SetAsideForJournal(why) => {
                let wrong = match content {
                    Content::Wrong(wrong) => wrong,
                    _ => Wrong { word: "edited", why: case.because.to_owned() },
                };
                let aside = self.report.keep_aside(&key, &wrong);
                let lies = aside.unwrap_or_else(|| file.clone());
                if why == Why::NoObjectBehindTheJournal {
                    self.report.notes.push(format!(
                        "{file}: {}; the journal has the object, and the file lies in {lies}",
                        wrong.why
                    ));
                } else {
                    let why = format!(
                        "{file}: it was edited by hand, or is older, and does not count: what {WAL}/ says at revision \
                         {said} had not come to it yet"
                    );
                    self.report.tell(&key, lies, why, "replace the object by it where it is wanted".to_owned());
                }
            }
            _ => return,
        }
        self.brought.push(brought);
    }

    /// HEAD.json is not there: of no account where nothing else is. A first start that was cut has only written what
    /// people had laid there.
    pub fn tell_lost_head(&mut self, damaged: bool, any_written: bool, recovered: &Recovered) {
        self.tell_brought_back();
        let mut journaled = recovered.records.iter().filter(|held| held.key().is_some()).peekable();
        let lived = if journaled.peek().is_none() { any_written } else { journaled.any(|held| !held.by_hand()) };
        if damaged || !lived {
            return;
        }
        let lost = match recovered.start {
            Some(_) => String::new(),
            None => format!(
                "; {WAL}/ holds no journal either: what was acknowledged and is not in the files may be missing"
            ),
        };
        let why = format!(
            "{HEAD}: it is gone, though there are objects: the store gets a new identity, and revisions go on \
             further{lost}"
        );
        self.report.tell_foreign(
            HEAD,
            why,
            "bring it back where it is, or else go on: agents and watchers look again by themselves",
        );
    }

    /// Nobody knows how far the files had come: what the journal brings may be what a person took away.
    fn tell_brought_back(&mut self) {
        let back = self.journal.iter().filter(|(key, said)| {
            said.object.is_some()
                && said.found == Was::Absent
                && !said.stays
                && !self.report.is_unread(&names::path(key))
        });
        let back: Vec<&Key> = back.map(|(key, _)| &**key).collect();
        if back.is_empty() {
            return;
        }
        let (count, named) = (back.len(), named(back.into_iter()));
        let why = format!(
            "{OBJECTS}: {count} objects have no file, and without {HEAD} nobody knows whether somebody took it away: \
             {WAL}/ has the objects, so they are there: {named}"
        );
        self.report.tell_of_all(why, "delete the objects that are not wanted");
    }

    /// Takes the edits, and looks at all files together. Says whether every object is to have a fresh revision.
    pub fn settle(&mut self, Carried { edited, bare, .. }: Carried, recovered: &Recovered) -> bool {
        let differs = self.left.sum == Sum::Differs;
        if differs {
            self.miss_objects();
        }
        // Where no file has a stamp, an edit shows none.
        let any_bare = self.left.closed && !bare.is_empty();
        let strange = any_bare || !edited.is_empty() || self.left.any_aside || self.report.knows_of_strange_files();
        let files = self.left.explained.unwrap_or(strange);
        let shown = match (self.left.gone > 0, files) {
            (true, _) => Shown::Gone,
            (false, true) => Shown::Files,
            (false, false) => Shown::Nothing,
        };
        self.objects.damaged = self.report.damaged.keys().cloned().collect();
        for edit in self.objects.edit_all(edited) {
            self.tell_edit(edit);
        }
        let together = judge_all(self.left.sum, self.left.closed, shown);
        self.settle_bare(bare, differs && together == Together::TrustStamped);
        if together == Together::RenewAndTell {
            let why = format!(
                "{OBJECTS}: the files are not those that {HEAD} describes, and nothing shows which: somebody put other \
                 ones there, or it is a copy that is not whole; some may be older than they were, and all objects have \
                 new revisions"
            );
            self.report.tell_of_all(
                why,
                "look whether something newer is missed; a copy of a running master is whole with HEAD.json first",
            );
        }
        let behind = recovered.behind || recovered.wiped.is_some();
        if behind {
            self.tell_behind(recovered.wiped);
        }
        behind || matches!(together, Together::Renew | Together::RenewAndTell)
    }

    /// A file that is gone is an object that a person deleted, as long as the journal knows nothing of it. They may not
    /// have meant it, or the copy may not have been whole.
    fn miss_objects(&mut self) {
        let gone = self.left.gone;
        if gone == 0 {
            return;
        }
        let files = if gone == 1 { "an object's file is".to_owned() } else { format!("{gone} objects' files are") };
        let why =
            format!("{OBJECTS}: {files} gone that {HEAD} knows of: taken away by hand, and so the objects are deleted");
        self.report
            .tell_of_all(why, "where that was not meant, stop the master and copy the files back, or restore a backup");
    }

    fn tell_edit(&mut self, EditedFile { key, outcome, copied_from }: EditedFile) {
        let file = format!("{OBJECTS}/{}", names::path(&key));
        if let Some(owner) = copied_from {
            let why = format!("{file}: it had the uid of {owner}: it is another object, with a uid of its own");
            let remedy =
                format!("nothing needs to be done, or delete the one of both that is not wanted: {key}, {owner}");
            self.report.tell(&key, file, why, remedy);
        }
        match outcome {
            EditOutcome::Taken(revision) => {
                self.report.notes.push(format!("{key} was edited by hand: it is at revision {revision} now"));
            }
            EditOutcome::Refused(why) => self.report.set_object_aside(&key, Wrong { word: "malformed", why }),
        }
    }

    /// Files without a stamp, so that an edit by hand cannot be excluded. `renews`: the objects get new revisions,
    /// because clients may have seen other content under the old revisions.
    fn settle_bare(&mut self, bare: Vec<Arc<Key>>, renews: bool) {
        let mut renewed = 0;
        for key in bare {
            if let Some(why) = self.objects.check_types(&key) {
                self.report.set_object_aside(&key, Wrong { word: "malformed", why });
                continue;
            }
            if renews {
                self.objects.renew(&key);
                renewed += 1;
            }
            self.unstamped.push(key);
        }
        if renewed > 0 {
            let lost = "no file has the stamp that tells it, as in a copy";
            self.report.notes.push(format!(
                "files below {OBJECTS} were edited by hand, and {lost}: {renewed} objects have new revisions"
            ));
        }
    }

    /// Reports that the journal may lack records, with unknown revisions.
    fn tell_behind(&mut self, wiped: Option<Wiped>) {
        let why = match wiped {
            Some(Wiped { place, bytes }) => format!(
                "{place}: {bytes} bytes of the journal's end are none that a master wrote, as of a card that lost \
                 pages or a copy of a disk that could not be read: more than a power cut spoils; what was acknowledged \
                 last may be missing"
            ),
            None => format!(
                "{WAL}/ ends before what {HEAD}, the files or a later segment say: it is older, as in a copy that is \
                 not whole, or the newest was taken away, or an older one put over it; what was acknowledged since may \
                 be missing"
            ),
        };
        self.report.remember_doubt(WAL, &why);
    }

    /// Whoever saw an object before has to look again.
    pub fn renew_all(&mut self) {
        let used = !self.objects.all.is_empty() || !self.report.damaged.is_empty() || !self.report.foreign.is_empty();
        self.objects.renew_all(if used { LOST_REVISIONS } else { 0 }, &mut self.journal);
    }

    pub fn recall_incidents(&mut self) {
        let (objects, journal, shut) = (&self.objects.all, &self.journal, &self.shut.files);
        let is_there = |key: &Key| objects.contains_key(key) || journal.contains_key(key) || shut.contains_key(key);
        self.report.recall_incidents(self.left.closed, is_there);
    }

    /// Objects whose namespace's file a person removed still exist, so the namespace is made again: the other content
    /// of the namespace is lost.
    pub fn bring_homes(&mut self) {
        let mut missing = BTreeMap::<Key, usize>::new();
        for key in self.objects.all.keys() {
            let absent = |home: &Key| !self.objects.all.contains_key(home) && !self.report.damaged.contains_key(home);
            let home = (self.objects.rules.home)(key).filter(absent);
            if let Some(home) = home.filter(|home| !self.report.is_unread(&names::path(home))) {
                *missing.entry(home).or_default() += 1;
            }
        }
        for (home, objects) in missing {
            let Some(row) = self.objects.row(&home) else { continue };
            let document =
                serde_json::json!({"apiVersion": row.api_version, "kind": row.kind, "metadata": {"name": home.name}});
            match (self.objects.rules.edited)(&home, document) {
                Ok(document) => {
                    let file = format!("{OBJECTS}/{}", names::path(&home));
                    let why =
                        format!("{file}: it was taken away, but {objects} objects lie in {home}: it is made anew");
                    let remedy = "delete it where it is not wanted, and what lies in it goes as well".to_owned();
                    let key = Arc::new(Key { resource: row.resource.clone(), ..home });
                    self.report.tell(&key, file, why, remedy);
                    self.objects.take_edited(key, document, Was::Absent);
                }
                Err(why) => self.report.notes.push(format!("{home} is gone, and cannot be made anew: {why}")),
            }
        }
    }

    /// Notes what is unclear about the journal itself.
    pub fn note_journal(&mut self, recovered: &Recovered, unlisted: bool) {
        if self.left.closed && self.left.sum != Sum::Differs && recovered.start.is_none() && !unlisted {
            self.report.notes.push(format!(
                "{WAL}/ does not hold what {HEAD} names; the files are as they were when the store was closed: nothing \
                 is missing"
            ));
        }
        let torn = recovered
            .torn
            .iter()
            .map(|place| format!("{place}: what was being written when the last master ended is not kept"));
        self.report.notes.extend(torn);
    }
}
