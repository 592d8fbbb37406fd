//! HEAD.json: what no object's file can say, above all where the journal begins to say more than the files.

use super::disk::Disk;
use super::disk_error::{DiskError, failed};
use super::document::crc32;
use super::folders::TMP;
use super::journal::recover::Position;
use super::protocol::{Protocol, ProtocolRule};
use super::setup::REVISION_MAX;
use super::sums::Sums;
use serde::{Deserialize, Serialize};

/// The form of the directory that this program writes. Earlier forms are read as well: 1, the same files without a
/// journal; 2, a journal whose lines do not say which segment they belong to; 3, one sum over all files.
pub const FORMAT_PLAIN: u32 = 4;
/// The same where some objects may be sealed. It is the newest that is read.
pub const FORMAT_SEALED: u32 = 5;
/// HEAD.json is a line of some 2,500 bytes; that of a newer master may be longer, and is still to be known for one.
pub const HEAD_BYTES_MAX: usize = 16 << 20;
pub const HEAD: &str = "HEAD.json";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Head {
    pub format: u32,
    /// The identity of this store.
    pub store: String,
    /// The files hold everything before it. None: there is no journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal: Option<Position>,
    /// The mark of the store's journal; 0: an older master wrote no mark.
    #[serde(default)]
    pub journal: u32,
    /// The segment that the last start began with: a journal that ends before it is not whole. 0: an older master does
    /// not say it.
    #[serde(default)]
    pub begun: u64,
    /// No revision above this one has been used but by what the journal says.
    pub reserved: u64,
    /// Closed by its master: `reserved` is exact, and the journal says nothing more.
    pub clean: bool,
    /// The sum of all files where the journal gets ahead of them: it tells whether somebody edited files since, and
    /// which ones may differ.
    pub files: Sums,
    /// Not every master says it where the store was not closed.
    #[serde(default)]
    pub summed: bool,
    /// So many files there were.
    #[serde(default)]
    pub objects: u64,
    /// The number of the next file to be set aside: what was set aside since is not gone.
    #[serde(default)]
    pub incidents: u32,
    /// Every object's file had a stamp: a file without a stamp was replaced by another program.
    #[serde(default)]
    pub stamped: bool,
    /// The id of the key by which everything is sealed that should be; nothing older lies in the journal. Empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sealed: String,
}

impl Head {
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("plain fields");
        text.pop();
        let crc = crc32(text.as_bytes());
        format!("{text},\"crc\":\"{crc:08x}\"}}\n")
    }

    /// The format that a text names, whatever else it is, and in whatever form the number is written.
    pub fn format_of(text: &str) -> Option<u64> {
        let (_, rest) = text.split_once("\"format\"")?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let rest = rest.strip_prefix('"').unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_digit() && !".eE+".contains(c)).unwrap_or(rest.len());
        let format: f64 = rest[..end].parse().ok()?;
        Some(format.ceil() as u64)
    }

    /// None: damaged, or it says numbers that no store comes to.
    pub fn from_text(text: &str) -> Option<Head> {
        let (checked, crc) = text.trim_end().strip_suffix("\"}")?.rsplit_once(",\"crc\":\"")?;
        let head: Head = serde_json::from_str(&format!("{checked}}}")).ok()?;
        let wal = head.wal.map_or([0; 2], |wal| [wal.segment, wal.n]);
        let numbers = wal.into_iter().chain([head.reserved, head.begun]);
        let possible = numbers.max().is_some_and(|number| number <= REVISION_MAX);
        (possible && u32::from_str_radix(crc, 16) == Ok(crc32(checked.as_bytes()))).then_some(head)
    }

    /// Durable when it returns.
    pub fn write(&self, disk: &dyn Disk, protocol: &Protocol) -> Result<(), DiskError> {
        let text = self.to_text();
        if !protocol.holds(ProtocolRule::RenameHead) {
            disk.create(HEAD, text.as_bytes()).map_err(failed("write", HEAD))?;
        } else {
            let tmp = format!("{TMP}/{HEAD}");
            let written = if protocol.holds(ProtocolRule::SyncHead) {
                disk.create(&tmp, text.as_bytes())
            } else {
                disk.put(&tmp, text.as_bytes(), None)
            };
            written.map_err(failed("write", &tmp))?;
            disk.rename(&tmp, HEAD).map_err(failed("rename", HEAD))?;
        }
        if protocol.holds(ProtocolRule::HeadBeforeUnlink) {
            disk.sync_dir("").map_err(failed("fsync", "the data directory"))
        } else {
            Ok(())
        }
    }
}
