//! What reached a disk, in order: written by the disk, read by the test. And a disk's content, of which most was never
//! written.
//!
//! ```text
//! entry: kind (1 byte: w, f, m), position (8), length (4), bytes; numbers in little endian
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Content is kept in pieces of this size; what was never written is zeros and costs nothing.
const PIECE: u64 = 64 << 10;
const HEAD: usize = 13;
/// A mark whose text is this is not recorded: everything before it is in the file when its write returns.
pub const FLUSH_RECORD: &str = "flush the record";

pub struct Recorder {
    file: BufWriter<File>,
}

impl Recorder {
    pub fn create(path: &Path) -> io::Result<Recorder> {
        Ok(Recorder { file: BufWriter::with_capacity(1 << 20, File::create(path)?) })
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.entry(b'w', at, bytes)
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.entry(b'f', 0, &[])
    }

    pub fn mark(&mut self, text: &[u8]) -> io::Result<()> {
        if text == FLUSH_RECORD.as_bytes() { self.file.flush() } else { self.entry(b'm', 0, text) }
    }

    fn entry(&mut self, kind: u8, at: u64, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.file.write_all(&[kind])?;
        self.file.write_all(&at.to_le_bytes())?;
        self.file.write_all(&length.to_le_bytes())?;
        self.file.write_all(bytes)
    }
}

pub enum Entry {
    /// Where, and where its bytes stand in the record.
    Write(u64, Range<usize>),
    Flush,
    Mark(String),
}

/// A record, read back.
pub struct Record {
    bytes: Vec<u8>,
    pub entries: Vec<Entry>,
}

impl Record {
    pub fn read(path: &Path) -> Result<Record, String> {
        let bytes = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut entries = Vec::new();
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + HEAD) {
            let position = u64::from_le_bytes(head[1..9].try_into().expect("eight bytes"));
            let length = u32::from_le_bytes(head[9..].try_into().expect("four bytes")) as usize;
            let content = at + HEAD..at + HEAD + length;
            let text = bytes.get(content.clone()).ok_or_else(|| format!("{}: cut off at byte {at}", path.display()))?;
            entries.push(match head[0] {
                b'w' => Entry::Write(position, content.clone()),
                b'f' => Entry::Flush,
                _ => Entry::Mark(String::from_utf8_lossy(text).into_owned()),
            });
            at = content.end;
        }
        Ok(Record { bytes, entries })
    }

    pub fn bytes(&self, of: &Range<usize>) -> &[u8] {
        &self.bytes[of.clone()]
    }
}

/// A disk's content.
#[derive(Clone)]
pub struct Sparse {
    size: u64,
    pieces: BTreeMap<u64, Box<[u8]>>,
}

impl Sparse {
    pub fn new(size: u64) -> Sparse {
        Sparse { size, pieces: BTreeMap::new() }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Inside the size.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        for (piece, inside, part) in parts(at, bytes.len() as u64) {
            let zeros = bytes[part..part + inside.len()].iter().all(|byte| *byte == 0);
            if zeros && !self.pieces.contains_key(&piece) {
                continue;
            }
            let to = self.pieces.entry(piece).or_insert_with(|| vec![0; PIECE as usize].into());
            to[inside.clone()].copy_from_slice(&bytes[part..part + inside.len()]);
        }
    }

    pub fn read(&self, at: u64, length: u64) -> Vec<u8> {
        let length = length.min(self.size.saturating_sub(at));
        let mut bytes = vec![0; length as usize];
        for (piece, inside, part) in parts(at, length) {
            if let Some(from) = self.pieces.get(&piece) {
                bytes[part..part + inside.len()].copy_from_slice(&from[inside]);
            }
        }
        bytes
    }

    /// What a file holds, as far as there is room.
    pub fn load(&mut self, file: &File) -> io::Result<()> {
        let size = file.metadata()?.len().min(self.size);
        let mut bytes = vec![0; PIECE as usize];
        for at in (0..size).step_by(PIECE as usize) {
            let piece = &mut bytes[..PIECE.min(size - at) as usize];
            file.read_exact_at(piece, at)?;
            self.write(at, piece);
        }
        Ok(())
    }

    /// Into an empty file.
    pub fn save(&self, file: &File) -> io::Result<()> {
        file.set_len(self.size)?;
        for (piece, bytes) in &self.pieces {
            let length = PIECE.min(self.size - piece * PIECE) as usize;
            file.write_all_at(&bytes[..length], piece * PIECE)?;
        }
        Ok(())
    }
}

/// The pieces that a range touches: which, the range inside, and where that begins in the bytes.
fn parts(at: u64, length: u64) -> impl Iterator<Item = (u64, Range<usize>, usize)> {
    let last = (at + length).div_ceil(PIECE);
    (at / PIECE..last).map(move |piece| {
        let from = at.max(piece * PIECE);
        let to = (at + length).min((piece + 1) * PIECE);
        (piece, (from - piece * PIECE) as usize..(to - piece * PIECE) as usize, (from - at) as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_over_the_edge_of_a_piece_is_read_back() {
        let mut disk = Sparse::new(4 * PIECE);
        let bytes: Vec<u8> = (0..PIECE as usize + 100).map(|n| n as u8).collect();
        disk.write(PIECE - 50, &bytes);
        assert_eq!(disk.read(PIECE - 50, bytes.len() as u64), bytes);
        assert_eq!(disk.read(PIECE - 52, 3), [0, 0, bytes[0]]);
        assert_eq!(disk.read(4 * PIECE - 2, 10).len(), 2);
    }
}
