//! One file: what the kernel's cache shows of it, what lies on the medium, and what of the difference a cut may leave.

use super::Dice;
use crate::store::flat::disk::Stamp;

/// What a medium writes whole, or not.
const SECTOR: usize = 512;
/// What a bad medium spoils where it writes any of it.
const PAGE: usize = 4096;

/// How much of what was not durable a cut leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Style {
    Nothing,
    /// What came first, up to some point.
    Prefix,
    Half,
    Most,
}

impl Style {
    pub fn any(dice: &mut Dice) -> Style {
        *dice.pick(&[Style::Nothing, Style::Prefix, Style::Half, Style::Most])
    }

    /// `at`: the place of a change among those that are not durable; `prefix`: how many come first.
    pub fn keeps(self, at: usize, prefix: usize, dice: &mut Dice) -> bool {
        match self {
            Style::Nothing => false,
            Style::Prefix => at < prefix,
            Style::Half => dice.one_in(2),
            Style::Most => !dice.one_in(10),
        }
    }
}

#[derive(Clone)]
enum Change {
    Empty,
    Write { from: usize, bytes: Vec<u8> },
}

/// A checksum beside a file, and when the file was last written then.
#[derive(Clone, Copy, PartialEq)]
struct Mark {
    crc: u32,
    mtime: u64,
}

/// What an inode says beside the content.
#[derive(Clone, Copy, Default)]
struct Attributes {
    mark: Option<Mark>,
    mtime: u64,
}

#[derive(Clone, Default)]
pub struct Content {
    cached: Vec<u8>,
    medium: Vec<u8>,
    /// What the cache knows to be dirty. After a failed fsync `cached` and `medium` differ without it.
    dirty: Vec<Change>,
    shown: Attributes,
    kept: Attributes,
}

impl Content {
    /// As a person's editor leaves it, long since durable.
    pub fn settled(bytes: &[u8], now: u64) -> Content {
        let attributes = Attributes { mark: None, mtime: now };
        Content {
            cached: bytes.to_vec(),
            medium: bytes.to_vec(),
            dirty: Vec::new(),
            shown: attributes,
            kept: attributes,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.cached
    }

    pub fn len(&self) -> usize {
        self.cached.len()
    }

    /// Whether an fsync has more to do than to write over what is there.
    pub fn has_grown(&self) -> bool {
        self.cached.len() != self.medium.len()
    }

    pub fn empty(&mut self, now: u64) {
        if !self.cached.is_empty() {
            self.dirty.push(Change::Empty);
        }
        self.cached.clear();
        self.shown.mtime = now;
    }

    pub fn write(&mut self, from: usize, bytes: &[u8], now: u64) {
        lay(&mut self.cached, from, bytes);
        self.dirty.push(Change::Write { from, bytes: bytes.to_vec() });
        self.shown.mtime = now;
    }

    pub fn mark(&mut self, crc: u32) {
        self.shown.mark = Some(Mark { crc, mtime: self.shown.mtime });
    }

    pub fn stamp(&self) -> Stamp {
        match self.shown.mark {
            None => Stamp::None,
            Some(mark) if mark.mtime == self.shown.mtime => Stamp::Intact(mark.crc),
            Some(mark) => Stamp::Touched(mark.crc),
        }
    }

    pub fn sync(&mut self) {
        for change in self.dirty.drain(..) {
            match change {
                Change::Empty => self.medium.clear(),
                Change::Write { from, bytes } => lay(&mut self.medium, from, &bytes),
            }
        }
        self.kept = self.shown;
    }

    /// The pages count as clean from here on, whatever the medium has of them; `reverts`: the cache shows the medium
    /// again.
    pub fn fail_sync(&mut self, reverts: bool, dice: &mut Dice) {
        self.write_some(Style::any(dice), false, dice);
        if reverts {
            self.cached = self.medium.clone();
            self.shown = self.kept;
        }
    }

    pub fn cut(&mut self, style: Style, shears: bool, dice: &mut Dice) {
        self.write_some(style, shears, dice);
        // What the inode says may have come down to the medium before the content, and the other way round; in itself
        // it is in order.
        if style.keeps(0, 1, dice) || dice.one_in(4) {
            self.kept.mtime = self.shown.mtime;
            if !dice.one_in(4) {
                self.kept.mark = self.shown.mark;
            }
        }
        self.shown = self.kept;
        self.cached = self.medium.clone();
    }

    pub fn flip(&mut self, at: usize, bit: u8) {
        self.cached[at] ^= 1 << bit;
        self.medium = self.cached.clone();
    }

    fn write_some(&mut self, style: Style, shears: bool, dice: &mut Dice) {
        let dirty = std::mem::take(&mut self.dirty);
        let prefix = dice.below(dirty.len() as u64 + 1) as usize;
        for (at, change) in dirty.iter().enumerate() {
            match change {
                Change::Empty if style.keeps(at, prefix, dice) => self.medium.clear(),
                Change::Empty => {}
                Change::Write { from, bytes } => {
                    for (from, bytes) in sectors(*from, bytes) {
                        if style.keeps(at, prefix, dice) {
                            lay(&mut self.medium, from, bytes);
                        } else {
                            grow_without(&mut self.medium, from + bytes.len(), dice);
                        }
                    }
                    if shears && dice.one_in(8) {
                        let page = *from / PAGE * PAGE;
                        let to = (page + PAGE).min(self.medium.len());
                        garble(self.medium.get_mut(page..to).unwrap_or_default(), dice);
                    }
                }
            }
        }
    }
}

fn lay(onto: &mut Vec<u8>, from: usize, bytes: &[u8]) {
    if onto.len() < from + bytes.len() {
        onto.resize(from + bytes.len(), 0);
    }
    onto[from..from + bytes.len()].copy_from_slice(bytes);
}

/// The file's size may be durable where its content is not.
fn grow_without(medium: &mut Vec<u8>, to: usize, dice: &mut Dice) {
    let from = medium.len();
    if from >= to || !dice.one_in(3) {
        return;
    }
    medium.resize(to, 0);
    if dice.one_in(3) {
        garble(&mut medium[from..], dice);
    }
}

fn garble(bytes: &mut [u8], dice: &mut Dice) {
    bytes.iter_mut().for_each(|byte| *byte = dice.below(256) as u8);
}

fn sectors(from: usize, bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let length = (SECTOR - (from + at) % SECTOR).min(bytes.len() - at);
        let sector = (length > 0).then(|| (from + at, &bytes[at..at + length]));
        at += length;
        sector
    })
}
