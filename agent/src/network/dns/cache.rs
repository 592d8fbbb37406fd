//! A bounded cache of other servers' answers, each kept for as long as its TTL says. PURE.

use std::collections::{BTreeMap, VecDeque};

use domain::base::Message;
use domain::base::iana::{Rcode, Rtype};
use domain::base::name::ParsedName;
use domain::rdata::Soa;

use super::answer::is_cut;

/// Answers.
const COUNT_MAX: usize = 1024;
/// The size of all answers together.
const BYTES_MAX: usize = 256 * 1024;
/// A longer answer is not kept: its next client waits for the resolver again.
const ANSWER_BYTES_MAX: usize = 4096;
/// An answer is kept for at most this time, even with a longer TTL.
const TTL_S_MAX: u32 = 300;
/// A missing name may soon exist: a user corrects a mistake.
const NEGATIVE_TTL_S_MAX: u32 = 30;

#[derive(Debug, Default)]
pub struct AnswerCache {
    kept: BTreeMap<Vec<u8>, Kept>,
    /// By age; of a key that was kept anew, the newer place counts.
    order: VecDeque<(Vec<u8>, u64)>,
    bytes: usize,
    number: u64,
}

#[derive(Debug)]
struct Kept {
    reply: Vec<u8>,
    /// The offsets of the TTLs in `reply`.
    lives: Vec<usize>,
    since_ms: i64,
    until_ms: i64,
    number: u64,
}

impl AnswerCache {
    /// As it would be answered now.
    pub fn get(&self, same: &[u8], now_ms: i64) -> Option<Vec<u8>> {
        let kept = self.kept.get(same).filter(|kept| now_ms < kept.until_ms)?;
        let age_s = u32::try_from((now_ms - kept.since_ms) / 1000).unwrap_or(u32::MAX);
        let mut reply = kept.reply.clone();
        for at in &kept.lives {
            let place: &mut [u8; 4] = reply.get_mut(*at..*at + 4)?.try_into().ok()?;
            *place = u32::from_be_bytes(*place).saturating_sub(age_s).to_be_bytes();
        }
        Some(reply)
    }

    pub fn keep(&mut self, same: &[u8], reply: &[u8], now_ms: i64) {
        let Some((life_s, lives)) = life(reply) else { return };
        self.forget(same);
        self.number += 1;
        let kept = Kept {
            reply: reply.to_vec(),
            lives,
            since_ms: now_ms,
            until_ms: now_ms.saturating_add(i64::from(life_s) * 1000),
            number: self.number,
        };
        self.bytes += same.len() + reply.len();
        self.order.push_back((same.to_vec(), self.number));
        self.kept.insert(same.to_vec(), kept);
        while self.bytes > BYTES_MAX || self.order.len() > COUNT_MAX {
            let Some((oldest, number)) = self.order.pop_front() else { break };
            if self.kept.get(&oldest).is_some_and(|kept| kept.number == number) {
                self.forget(&oldest);
            }
        }
    }

    fn forget(&mut self, same: &[u8]) {
        if let Some(kept) = self.kept.remove(same) {
            self.bytes = self.bytes.saturating_sub(same.len() + kept.reply.len());
        }
    }
}

/// How long a reply may be kept, and where that stands in it. None: not at all.
fn life(reply: &[u8]) -> Option<(u32, Vec<usize>)> {
    if reply.len() > ANSWER_BYTES_MAX || is_cut(reply) {
        return None;
    }
    let message = Message::from_octets(reply).ok()?;
    let rcode = message.header().rcode();
    if ![Rcode::NOERROR, Rcode::NXDOMAIN].contains(&rcode) {
        return None;
    }
    let positive = rcode == Rcode::NOERROR && message.header_counts().ancount() > 0;
    let (mut least, mut lives) = (u32::MAX, Vec::new());
    let mut minimum = None;
    let mut section = message.answer().ok()?;
    for part in 0..3 {
        while let Some(record) = section.next() {
            let record = record.ok()?;
            if record.rtype() == Rtype::OPT {
                continue;
            }
            lives.push(section.pos().checked_sub(usize::from(record.rdlen()) + 6)?);
            let ttl = record.ttl().as_secs();
            if part == 0 {
                least = least.min(ttl);
            }
            if let Ok(Some(soa)) = record.into_record::<Soa<ParsedName<&[u8]>>>() {
                minimum = Some(ttl.min(soa.data().minimum().as_secs()));
            }
        }
        if part < 2 {
            section = section.next_section().ok()??;
        }
    }
    let life_s = if positive { least.min(TTL_S_MAX) } else { minimum?.min(NEGATIVE_TTL_S_MAX) };
    (life_s > 0).then_some((life_s, lives))
}
