//! PURE. The table of a start: from the evidence about one object's file to its verdict, and from the evidence about
//! all files to theirs.
//!
//! Each row is one sentence. Every combination of evidence is met by exactly one row; the tests hold that.

/// The journal's last word on an object, compared with the content of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalEvidence {
    /// Nothing: the file has caught up with it.
    Silent,
    /// The file has the content from before the records, or the content of a record.
    Explains,
    /// Nothing that the journal says leaves the file like this.
    Contradicts,
}

/// The content of the place of an object's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File {
    Absent,
    Unreadable,
    TooLarge,
    /// Empty, or nothing but zeros.
    Blank,
    /// No JSON.
    Broken,
    /// A document, but not the object that its place says.
    Stranger,
    Object,
}

/// The stamp beside a file, compared with its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// There is no stamp; the file says a revision, and no other file has a stamp either.
    Bare,
    /// There is no stamp though other files have theirs, or the file says no revision: no store wrote the file.
    Strange,
    /// It is the content that was stamped, or the sum of all files vouches for it.
    Fits,
    /// Nobody wrote to the file since it was stamped, and yet it holds something else.
    Rotten,
    /// Another program wrote different content to the file.
    Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    pub journal: JournalEvidence,
    pub file: File,
    pub mark: Mark,
}

/// The verdict on an object's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileVerdict {
    /// The object is what the file says.
    Keep,
    /// The same, unless all files together are not what they were.
    KeepUnmarked,
    /// A write like any other.
    Edit,
    /// The object is what the journal says.
    JournalWins,
    /// The same, and the file goes to quarantine.
    SetAsideForJournal(Why),
    /// The same, and it is told that there was no file.
    Missing,
    /// The file goes to quarantine, and nobody knows what the object is.
    SetAside(Why),
    /// The file stays, and nobody knows what the object is.
    Damaged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// As its content says.
    NoObject,
    Rotten,
    EditedBehindTheJournal,
    NoObjectBehindTheJournal,
}

/// A row of the table.
pub struct Case {
    journal: &'static [JournalEvidence],
    file: &'static [File],
    mark: &'static [Mark],
    pub verdict: FileVerdict,
    pub because: &'static str,
}

use File::{Absent, Blank, Broken, Object, Stranger, TooLarge, Unreadable};
use JournalEvidence::{Contradicts, Explains, Silent};
use Mark::{Bare, Changed, Fits, Rotten, Strange};

const ANY_MARK: &[Mark] = &[Bare, Strange, Fits, Rotten, Changed];

pub const CASES: [Case; 18] = [
    case(&[Silent], &[Object], &[Fits], FileVerdict::Keep, "the file is as the store left it"),
    case(
        &[Silent],
        &[Object],
        &[Bare],
        FileVerdict::KeepUnmarked,
        "no file has a stamp, as in a copy: all of them together are looked at",
    ),
    case(&[Silent], &[Object], &[Changed], FileVerdict::Edit, "somebody wrote to the file while no master ran"),
    case(&[Silent], &[Object], &[Strange], FileVerdict::Edit, "somebody made the file, or an editor replaced it"),
    case(
        &[Silent],
        &[Object],
        &[Rotten],
        FileVerdict::SetAside(Why::Rotten),
        "nobody wrote to the file, so the medium is failing",
    ),
    case(
        &[Silent],
        &[Blank, Broken, Stranger, TooLarge],
        ANY_MARK,
        FileVerdict::SetAside(Why::NoObject),
        "the file is no object, and nothing else tells it",
    ),
    case(&[Silent], &[Unreadable], ANY_MARK, FileVerdict::Damaged, "the file may be whole, and readable tomorrow"),
    case(&[Silent], &[Absent], ANY_MARK, FileVerdict::Keep, "there is no such object"),
    case(
        &[Explains],
        &[Object],
        ANY_MARK,
        FileVerdict::JournalWins,
        "the files follow the journal, and a checkpoint came so far",
    ),
    case(
        &[Explains],
        &[Absent],
        ANY_MARK,
        FileVerdict::JournalWins,
        "the file is still to be made, or is removed already",
    ),
    case(
        &[Explains],
        &[Blank, Broken, Stranger, TooLarge],
        ANY_MARK,
        FileVerdict::JournalWins,
        "the journal does not say what the file may hold",
    ),
    case(
        &[Contradicts],
        &[Absent],
        ANY_MARK,
        FileVerdict::Missing,
        "only somebody's hand, or a copy, loses the file of an object that is",
    ),
    case(
        &[Explains, Contradicts],
        &[Unreadable],
        ANY_MARK,
        FileVerdict::JournalWins,
        "the journal knows better anyway",
    ),
    case(
        &[Contradicts],
        &[Blank],
        ANY_MARK,
        FileVerdict::JournalWins,
        "a power cut in a checkpoint leaves the file like this",
    ),
    case(
        &[Contradicts],
        &[Broken],
        ANY_MARK,
        FileVerdict::SetAsideForJournal(Why::NoObjectBehindTheJournal),
        "torn by a power cut, or broken by hand: it is kept for whoever wants to look",
    ),
    case(
        &[Contradicts],
        &[TooLarge, Stranger],
        ANY_MARK,
        FileVerdict::SetAsideForJournal(Why::EditedBehindTheJournal),
        "no store writes such a file",
    ),
    case(
        &[Contradicts],
        &[Object],
        &[Rotten],
        FileVerdict::JournalWins,
        "the medium is failing, and the journal knows better",
    ),
    case(
        &[Contradicts],
        &[Object],
        &[Bare, Strange, Fits, Changed],
        FileVerdict::SetAsideForJournal(Why::EditedBehindTheJournal),
        "somebody wrote the file over what the journal had not yet brought to it",
    ),
];

const fn case(
    journal: &'static [JournalEvidence],
    file: &'static [File],
    mark: &'static [Mark],
    verdict: FileVerdict,
    because: &'static str,
) -> Case {
    Case { journal, file, mark, verdict, because }
}

impl Case {
    fn meets(&self, evidence: Evidence) -> bool {
        self.journal.contains(&evidence.journal)
            && self.file.contains(&evidence.file)
            && self.mark.contains(&evidence.mark)
    }
}

/// The row that an object's file meets.
pub fn judge(evidence: Evidence) -> &'static Case {
    CASES.iter().find(|case| case.meets(evidence)).expect("every combination has its row")
}

/// All files together, held against the sum in HEAD.json.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    AsLeft,
    Differs,
    /// HEAD.json is lost, or of a master that did not say it, or not all files can be counted.
    Unknown,
}

/// The evidence about the origin of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Nothing,
    /// Edits, or files that were set aside or left alone.
    Files,
    /// Files are gone; edits and set-aside files may exist as well.
    Gone,
}

/// The verdict on the files that look as the store left them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    Trust,
    /// Those with a stamp; the others may have been edited, so their objects get fresh revisions.
    TrustStamped,
    /// Any file may have changed: all objects get fresh revisions.
    Renew,
    /// The same, and it is told: nothing shows why.
    RenewAndTell,
}

/// `closed`: the last master closed the store in order.
pub fn judge_all(sum: Sum, closed: bool, shown: Shown) -> Together {
    match (sum, closed, shown) {
        // Each file's own evidence is all there is.
        (Sum::AsLeft | Sum::Unknown, _, _) => Together::Trust,
        // No copy makes such files: somebody's hand, or the medium.
        (Sum::Differs, _, Shown::Files) => Together::TrustStamped,
        // Somebody took them away with the master stopped.
        (Sum::Differs, true, Shown::Gone) => Together::TrustStamped,
        // A directory that was copied while its master ran looks killed, and may lack files.
        (Sum::Differs, false, Shown::Gone) => Together::Renew,
        // Older files that somebody put back with their stamps, or a copy that is not whole.
        (Sum::Differs, _, Shown::Nothing) => Together::RenewAndTell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNALS: [JournalEvidence; 3] = [Silent, Explains, Contradicts];
    const FILES: [File; 7] = [Absent, Unreadable, TooLarge, Blank, Broken, Stranger, Object];

    #[test]
    fn every_combination_meets_exactly_one_row() {
        for journal in JOURNALS {
            for file in FILES {
                for mark in ANY_MARK {
                    let evidence = Evidence { journal, file, mark: *mark };
                    let met: Vec<_> =
                        CASES.iter().filter(|case| case.meets(evidence)).map(|case| case.because).collect();
                    assert_eq!(met.len(), 1, "{evidence:?}: {met:?}");
                }
            }
        }
    }

    /// An example of each row, in their order.
    #[test]
    fn each_row_says_what_it_says() {
        let examples = [
            (Silent, Object, Fits, FileVerdict::Keep),
            (Silent, Object, Bare, FileVerdict::KeepUnmarked),
            (Silent, Object, Changed, FileVerdict::Edit),
            (Silent, Object, Strange, FileVerdict::Edit),
            (Silent, Object, Rotten, FileVerdict::SetAside(Why::Rotten)),
            (Silent, Stranger, Fits, FileVerdict::SetAside(Why::NoObject)),
            (Silent, Unreadable, Fits, FileVerdict::Damaged),
            (Silent, Absent, Bare, FileVerdict::Keep),
            (Explains, Object, Changed, FileVerdict::JournalWins),
            (Explains, Absent, Bare, FileVerdict::JournalWins),
            (Explains, Broken, Strange, FileVerdict::JournalWins),
            (Contradicts, Absent, Bare, FileVerdict::Missing),
            (Contradicts, Unreadable, Fits, FileVerdict::JournalWins),
            (Contradicts, Blank, Strange, FileVerdict::JournalWins),
            (Contradicts, Broken, Bare, FileVerdict::SetAsideForJournal(Why::NoObjectBehindTheJournal)),
            (Contradicts, TooLarge, Strange, FileVerdict::SetAsideForJournal(Why::EditedBehindTheJournal)),
            (Contradicts, Object, Rotten, FileVerdict::JournalWins),
            (Contradicts, Object, Changed, FileVerdict::SetAsideForJournal(Why::EditedBehindTheJournal)),
        ];
        assert_eq!(examples.len(), CASES.len());
        for ((journal, file, mark, verdict), case) in examples.into_iter().zip(&CASES) {
            let met = judge(Evidence { journal, file, mark });
            assert_eq!((met.because, met.verdict), (case.because, verdict));
        }
    }

    #[test]
    fn files_that_are_others_than_they_were_are_renewed_where_no_hand_shows() {
        let table = [
            (Sum::AsLeft, true, Shown::Nothing, Together::Trust),
            (Sum::Unknown, false, Shown::Gone, Together::Trust),
            (Sum::Differs, true, Shown::Files, Together::TrustStamped),
            (Sum::Differs, false, Shown::Files, Together::TrustStamped),
            (Sum::Differs, true, Shown::Gone, Together::TrustStamped),
            (Sum::Differs, false, Shown::Gone, Together::Renew),
            (Sum::Differs, true, Shown::Nothing, Together::RenewAndTell),
            (Sum::Differs, false, Shown::Nothing, Together::RenewAndTell),
        ];
        for (sum, closed, shown, together) in table {
            assert_eq!(judge_all(sum, closed, shown), together, "{sum:?} {closed} {shown:?}");
        }
    }
}
