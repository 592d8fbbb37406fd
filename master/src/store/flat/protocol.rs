//! PURE. The rules that keep the journal's promises. The product never breaks one; the crash tests break one after the
//! other, and must notice.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolRule {
    /// A batch is acknowledged after its fdatasync, not after its write.
    SyncBeforeAnswer,
    /// The folder of the journal is fsynced after a segment got its place in it.
    SyncJournalFolder,
    /// A record counts with a checksum that fits.
    Checksums,
    /// A line counts only in the segment that it names: the file may have been another one.
    OwnLines,
    /// A segment's first record says where the truth before it ended.
    Fence,
    /// A segment counts only with all records that its first one carries over.
    Carry,
    /// The last batch that a start finds is written again behind a fence before anybody may see it.
    Rejournal,
    /// Records that a start relies on are fsynced first.
    SyncAtStart,
    /// A start never writes into a segment that it found.
    FreshSegment,
    /// A batch begins on a block of its own.
    Align,
    /// A bad record with a later batch behind it is damage, not the torn end.
    LaterBatchIsDamage,
    /// A file whose fsync failed is never written again.
    LeaveFailedFile,
    /// The revisions of a batch that failed are not given again.
    Burn,
    /// Revisions of what is not journaled are reserved ahead.
    Reserve,
    /// The objects' files are made durable at all.
    SyncObjects,
    /// Where there is no sync of everything, their folders are fsynced as well as they.
    SyncEachFolder,
    /// They are made durable before HEAD.json says so.
    ObjectsBeforeHead,
    /// HEAD.json is fsynced before it is renamed.
    SyncHead,
    /// HEAD.json is replaced by a rename, not written in place.
    RenameHead,
    /// HEAD.json's new name is durable before segments are removed.
    HeadBeforeUnlink,
    /// The sum of all files is compared with HEAD.json.
    Account,
}

#[cfg(any(test, feature = "trial"))]
impl ProtocolRule {
    pub const ALL: [ProtocolRule; 21] = [
        ProtocolRule::SyncBeforeAnswer,
        ProtocolRule::SyncJournalFolder,
        ProtocolRule::Checksums,
        ProtocolRule::OwnLines,
        ProtocolRule::Fence,
        ProtocolRule::Carry,
        ProtocolRule::Rejournal,
        ProtocolRule::SyncAtStart,
        ProtocolRule::FreshSegment,
        ProtocolRule::Align,
        ProtocolRule::LaterBatchIsDamage,
        ProtocolRule::LeaveFailedFile,
        ProtocolRule::Burn,
        ProtocolRule::Reserve,
        ProtocolRule::SyncObjects,
        ProtocolRule::SyncEachFolder,
        ProtocolRule::ObjectsBeforeHead,
        ProtocolRule::SyncHead,
        ProtocolRule::RenameHead,
        ProtocolRule::HeadBeforeUnlink,
        ProtocolRule::Account,
    ];
}

/// The rules that hold, a bit for each that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    broken: u32,
}

impl Protocol {
    pub const WHOLE: Protocol = Protocol { broken: 0 };

    #[cfg(any(test, feature = "trial"))]
    pub const fn without(self, rule: ProtocolRule) -> Protocol {
        Protocol { broken: self.broken | 1 << rule as u32 }
    }

    pub const fn holds(self, rule: ProtocolRule) -> bool {
        self.broken & 1 << rule as u32 == 0
    }
}
