//! PURE. The rules that keep the journal's promises, one switch each. The product never turns one off; the crash tests turn off one after
//! the other, and must notice.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// A batch is acknowledged after its fdatasync, not after its write.
    pub sync_before_answer: bool,
    /// The folder of the journal is fsynced after a segment got its place in it.
    pub sync_journal_folder: bool,
    /// A record counts with a checksum that fits.
    pub checksums: bool,
    /// A line counts only in the segment that it names: the file may have been another one.
    pub own_lines: bool,
    /// A segment's first record says where the truth before it ended.
    pub fence: bool,
    /// A segment counts only with all records that its first one carries over.
    pub carry: bool,
    /// The last batch that a start finds is written again behind a fence before anybody may see it.
    pub rejournal: bool,
    /// What a start is about to believe is fsynced first.
    pub sync_at_start: bool,
    /// A start never writes into a segment that it found.
    pub fresh_segment: bool,
    /// A batch begins on a block of its own.
    pub align: bool,
    /// A bad record with a later batch behind it is damage, not the torn end.
    pub later_batch_is_damage: bool,
    /// A file whose fsync failed is never written again.
    pub leave_failed_file: bool,
    /// The revisions of a batch that failed are not given again.
    pub burn: bool,
    /// Revisions of what is not journaled are reserved ahead.
    pub reserve: bool,
    /// The objects' files are made durable at all.
    pub sync_objects: bool,
    /// Where there is no sync of everything, their folders are fsynced as well as they.
    pub sync_each_folder: bool,
    /// They are made durable before HEAD.json says so.
    pub objects_before_head: bool,
    /// HEAD.json is fsynced before it is renamed.
    pub sync_head: bool,
    /// HEAD.json is replaced by a rename, not written in place.
    pub rename_head: bool,
    /// HEAD.json's new name is durable before segments are removed.
    pub head_before_unlink: bool,
    /// A file that is older than HEAD.json says is brought to the last word of the journal.
    pub heal: bool,
    /// What all files sum up to is held against HEAD.json.
    pub account: bool,
}

impl Protocol {
    pub const WHOLE: Protocol = Protocol {
        sync_before_answer: true,
        sync_journal_folder: true,
        checksums: true,
        own_lines: true,
        fence: true,
        carry: true,
        rejournal: true,
        sync_at_start: true,
        fresh_segment: true,
        align: true,
        later_batch_is_damage: true,
        leave_failed_file: true,
        burn: true,
        reserve: true,
        sync_objects: true,
        sync_each_folder: true,
        objects_before_head: true,
        sync_head: true,
        rename_head: true,
        head_before_unlink: true,
        heal: true,
        account: true,
    };
}
