//! PURE. Frames of SPDY/3.1 as a server reads and writes them, as far as kubectl speaks it: streams that the client
//! opens, their bytes, their ends, pings. Windows are not kept: its clients keep none.
use super::headers::{Blocks, nothing};
use crate::websocket::frames::Lie;
use bytes::{Buf, Bytes, BytesMut};

const HEAD_BYTES: usize = 8;
/// Bytes that a control frame may carry.
const CONTROL_BYTES_MAX: usize = 16 * 1024;
const VERSION: u16 = 3;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const HEADERS: u16 = 8;
/// The flag on the last frame of a stream.
const FIN: u8 = 1;
/// Why a stream is reset: the client asked for a stream that does not exist; the stream is no longer needed.
pub const REFUSED: u32 = 3;
pub const CANCEL: u32 = 5;

/// A frame from the client.
#[derive(Debug, PartialEq)]
pub enum Frame {
    Open {
        stream: u32,
        headers: Vec<(String, String)>,
        ends: bool,
    },
    /// Bytes of a stream, as received; where the stream `ends`, the client sends no more bytes.
    Data {
        stream: u32,
        bytes: Bytes,
        ends: bool,
    },
    Reset {
        stream: u32,
    },
    Ping(u32),
}

/// Where in the stream of frames a reader is.
#[derive(Default)]
pub struct SpdyFrames {
    blocks: Blocks,
    /// A frame of data whose head has been read: its stream, the number of bytes left, and whether the stream ends with
    /// the frame.
    open: Option<(u32, usize, bool)>,
}

impl SpdyFrames {
    /// The next frame, or a piece of a data frame. Its bytes are removed from `read`. None: more bytes must be read.
    pub fn next(&mut self, read: &mut BytesMut) -> Result<Option<Frame>, Lie> {
        loop {
            if let Some((stream, left, ends)) = self.open {
                let there = left.min(read.len());
                if there == 0 && left > 0 {
                    return Ok(None);
                }
                let bytes = read.split_to(there).freeze();
                self.open = (there < left).then_some((stream, left - there, ends));
                return Ok(Some(Frame::Data { stream, bytes, ends: ends && there == left }));
            }
            let Some(head) = read.first_chunk::<HEAD_BYTES>().copied() else { return Ok(None) };
            let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (first, length, ends) = (word(0), (word(4) & 0x00ff_ffff) as usize, head[4] & FIN != 0);
            if first >> 31 == 0 {
                read.advance(HEAD_BYTES);
                self.open = Some((first, length, ends));
                continue;
            }
            if (first >> 16) as u16 & 0x7fff != VERSION {
                return Err(Lie("a frame of another version of SPDY"));
            }
            if length > CONTROL_BYTES_MAX {
                return Err(Lie("a control frame that is too long"));
            }
            if read.len() < HEAD_BYTES + length {
                return Ok(None);
            }
            read.advance(HEAD_BYTES);
            let body = read.split_to(length).freeze();
            if let Some(frame) = self.control(first as u16, &body, ends)? {
                return Ok(Some(frame));
            }
        }
    }

    /// None: it changes nothing here.
    fn control(&mut self, kind: u16, body: &[u8], ends: bool) -> Result<Option<Frame>, Lie> {
        let word = body.first_chunk::<4>().map(|word| u32::from_be_bytes(*word));
        let number = || word.ok_or(Lie("a control frame that is cut off"));
        let stream = || number().map(|number| number & 0x7fff_ffff);
        let block = |at: usize| body.get(at..).ok_or(Lie("a control frame that is cut off"));
        Ok(match kind {
            SYN_STREAM => Some(Frame::Open { stream: stream()?, headers: self.blocks.read(block(10)?)?, ends }),
            // All blocks are one stream of zlib, so these are read too.
            SYN_REPLY | HEADERS => {
                self.blocks.read(block(4)?)?;
                ends.then_some(Frame::Data { stream: stream()?, bytes: Bytes::new(), ends })
            }
            RST_STREAM => Some(Frame::Reset { stream: stream()? }),
            PING => Some(Frame::Ping(number()?)),
            _ => None,
        })
    }
}

/// Accepts a stream. `begun`: another was accepted before.
pub fn reply(stream: u32, begun: bool) -> Vec<u8> {
    control(SYN_REPLY, &[&stream.to_be_bytes(), &nothing(begun)])
}

pub fn reset(stream: u32, why: u32) -> Vec<u8> {
    control(RST_STREAM, &[&stream.to_be_bytes(), &why.to_be_bytes()])
}

pub fn ping(number: u32) -> Vec<u8> {
    control(PING, &[&number.to_be_bytes()])
}

pub fn data(stream: u32, bytes: &[u8], ends: bool) -> Vec<u8> {
    frame(stream, u8::from(ends) * FIN, &[bytes])
}

fn control(kind: u16, parts: &[&[u8]]) -> Vec<u8> {
    frame(1 << 31 | u32::from(VERSION) << 16 | u32::from(kind), 0, parts)
}

fn frame(first: u32, flags: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    debug_assert!(length < 1 << 24);
    let mut bytes = Vec::with_capacity(HEAD_BYTES + length);
    bytes.extend_from_slice(&first.to_be_bytes());
    bytes.extend_from_slice(&(u32::from(flags) << 24 | length as u32).to_be_bytes());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(stream: u32, begun: bool) -> Vec<u8> {
        control(SYN_STREAM, &[&stream.to_be_bytes(), &[0; 6], &nothing(begun)])
    }

    fn read(bytes: &[u8], length: usize) -> Result<Vec<Frame>, Lie> {
        let (mut frames, mut read, mut all) = (SpdyFrames::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(length) {
            read.extend_from_slice(piece);
            while let Some(frame) = frames.next(&mut read)? {
                all.push(frame);
            }
        }
        Ok(all)
    }

    #[test]
    fn frames_come_however_they_are_cut() {
        let settings = control(4, &[&[0; 4]]);
        let bytes = [
            open(1, false),
            settings,
            data(1, b"abc", false),
            open(3, true),
            ping(5),
            data(1, b"", true),
            reset(3, CANCEL),
        ]
        .concat();
        for length in 1..=bytes.len() {
            let frames = read(&bytes, length).unwrap();
            let (mut text, mut others) = (Vec::new(), Vec::new());
            for frame in frames {
                match frame {
                    Frame::Data { stream: 1, bytes, ends: false } => text.extend_from_slice(&bytes),
                    other => others.push(other),
                }
            }
            let opened = |stream| Frame::Open { stream, headers: vec![], ends: false };
            let end = Frame::Data { stream: 1, bytes: Bytes::new(), ends: true };
            assert_eq!(text, b"abc", "{length}");
            assert_eq!(others, [opened(1), opened(3), Frame::Ping(5), end, Frame::Reset { stream: 3 }], "{length}");
        }
    }

    #[test]
    fn what_is_no_spdy_is_refused() {
        for (bytes, why) in [
            ([0x80, 2, 0, 1, 0, 0, 0, 0].to_vec(), "a frame of another version of SPDY"),
            ([0x80, 3, 0, 1, 0, 0xff, 0, 0].to_vec(), "a control frame that is too long"),
            (control(PING, &[&[0; 3]]), "a control frame that is cut off"),
            (control(SYN_STREAM, &[&[0; 9]]), "a control frame that is cut off"),
        ] {
            assert_eq!(read(&bytes, 100), Err(Lie(why)), "{bytes:?}");
        }
    }
}
