//! PURE. Frames of WebSocket (RFC 6455) as both sides read and write them. tungstenite knows their heads; what a frame
//! carries is passed on as it comes, so a message of any length takes no more memory than a read.
use bytes::{Buf, Bytes, BytesMut};
use std::io::Cursor;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

/// Bytes that a control frame may carry.
const CONTROL_BYTES_MAX: u64 = 125;

/// Closed in order.
pub const CLOSE_NORMAL: u16 = 1000;
/// The other side has broken the protocol.
pub const CLOSE_PROTOCOL: u16 = 1002;

/// A message from the other side.
#[derive(Debug, PartialEq)]
pub enum Piece {
    /// A part of a message, without its mask. A message of no bytes is one empty part.
    Message {
        begins: bool,
        ends: bool,
        bytes: Bytes,
    },
    Ping(Bytes),
    /// It sends nothing more.
    Close,
}

/// Bytes that are no WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lie(pub &'static str);

/// The side of a connection: a client's frames have a mask, a server's frames have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    Client,
    #[default]
    Server,
}

/// Against caches on the way that take a message for a request. A client here speaks to a socket of its own host.
const NO_MASK: [u8; 4] = [0; 4];

/// Where in the stream of frames the reader is.
#[derive(Debug, Default)]
pub struct WebSocketFrames {
    /// Who reads.
    side: Side,
    open: Option<Open>,
    /// A message has begun whose last frame has not come.
    unfinished: bool,
}

/// A frame whose head has been read.
#[derive(Debug)]
struct Open {
    code: OpCode,
    is_final: bool,
    begins: bool,
    mask: [u8; 4],
    /// Bytes of it that came already, as far as the mask counts.
    at: usize,
    left: u64,
}

impl WebSocketFrames {
    pub fn read_by(side: Side) -> WebSocketFrames {
        WebSocketFrames { side, ..WebSocketFrames::default() }
    }

    /// The next piece. Its bytes are removed from `read`. None: more bytes must be read.
    pub fn next(&mut self, read: &mut BytesMut) -> Result<Option<Piece>, Lie> {
        loop {
            if self.open.is_none() {
                self.open = self.head(read)?;
            }
            let Some(open) = &mut self.open else { return Ok(None) };
            let piece = match open.code {
                OpCode::Data(_) => {
                    let Some(piece) = open.part(read) else { return Ok(None) };
                    if open.left == 0 {
                        self.open = None;
                    }
                    piece
                }
                OpCode::Control(code) => {
                    if (read.len() as u64) < open.left {
                        return Ok(None);
                    }
                    let bytes = open.unmasked(read);
                    self.open = None;
                    match code {
                        Control::Ping => Piece::Ping(bytes),
                        Control::Close => Piece::Close,
                        Control::Pong | Control::Reserved(_) => continue,
                    }
                }
            };
            return Ok(Some(piece));
        }
    }

    fn head(&mut self, read: &mut BytesMut) -> Result<Option<Open>, Lie> {
        let mut cursor = Cursor::new(&read[..]);
        let head = FrameHeader::parse(&mut cursor).map_err(|_| Lie("a frame of no known kind"))?;
        let Some((head, left)) = head else { return Ok(None) };
        let taken = usize::try_from(cursor.position()).unwrap_or(usize::MAX);
        read.advance(taken.min(read.len()));
        if head.rsv1 || head.rsv2 || head.rsv3 {
            return Err(Lie("a frame of an extension that nobody has agreed on"));
        }
        let mask = match (self.side, head.mask) {
            (Side::Server, Some(mask)) => mask,
            (Side::Client, None) => NO_MASK,
            (Side::Server, None) => return Err(Lie("a frame of a client without a mask")),
            (Side::Client, Some(_)) => return Err(Lie("a frame of a server with a mask")),
        };
        let begins = match head.opcode {
            OpCode::Data(Data::Continue) if !self.unfinished => {
                return Err(Lie("a frame that goes on with no message"));
            }
            OpCode::Data(Data::Text | Data::Binary) if self.unfinished => {
                return Err(Lie("a message in the middle of another"));
            }
            OpCode::Control(_) if !head.is_final || left > CONTROL_BYTES_MAX => {
                return Err(Lie("a control frame in parts"));
            }
            code => !matches!(code, OpCode::Data(Data::Continue) | OpCode::Control(_)),
        };
        if matches!(head.opcode, OpCode::Data(_)) {
            self.unfinished = !head.is_final;
        }
        Ok(Some(Open { code: head.opcode, is_final: head.is_final, begins, mask, at: 0, left }))
    }
}

impl Open {
    fn part(&mut self, read: &mut BytesMut) -> Option<Piece> {
        if read.is_empty() && self.left > 0 {
            return None;
        }
        let begins = std::mem::take(&mut self.begins);
        let bytes = self.unmasked(read);
        Some(Piece::Message { begins, ends: self.is_final && self.left == 0, bytes })
    }

    /// Unmasks the bytes of the frame that have been read.
    fn unmasked(&mut self, read: &mut BytesMut) -> Bytes {
        let there = usize::try_from(self.left).unwrap_or(usize::MAX).min(read.len());
        let mut bytes = read.split_to(there);
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte ^= self.mask[(self.at + at) % 4];
        }
        self.at = (self.at + there) % 4;
        self.left -= there as u64;
        bytes.freeze()
    }
}

impl Side {
    /// A whole message in one frame, of these parts.
    pub fn message(self, text: bool, parts: &[&[u8]]) -> Vec<u8> {
        self.frame(OpCode::Data(if text { Data::Text } else { Data::Binary }), parts)
    }

    pub fn pong(self, of: &[u8]) -> Vec<u8> {
        self.frame(OpCode::Control(Control::Pong), &[of])
    }

    pub fn close(self, code: u16) -> Vec<u8> {
        self.frame(OpCode::Control(Control::Close), &[&code.to_be_bytes()])
    }

    fn frame(self, opcode: OpCode, parts: &[&[u8]]) -> Vec<u8> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mask = (self == Side::Client).then_some(NO_MASK);
        let head = FrameHeader { opcode, mask, ..FrameHeader::default() };
        let mut bytes = Vec::with_capacity(head.len(length as u64) + length);
        head.format(length as u64, &mut bytes).expect("memory takes all");
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client's frame.
    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut bytes = vec![first];
        match payload.len() {
            length @ 0..126 => bytes.push(0x80 | length as u8),
            length => {
                bytes.push(0x80 | 126);
                bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
        }
        bytes.extend_from_slice(&mask);
        bytes.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
        bytes
    }

    /// All that is read when the bytes come in pieces of this length.
    fn read(bytes: &[u8], length: usize) -> Result<Vec<Piece>, Lie> {
        let (mut frames, mut read, mut pieces) = (WebSocketFrames::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(length) {
            read.extend_from_slice(piece);
            while let Some(piece) = frames.next(&mut read)? {
                pieces.push(piece);
            }
        }
        Ok(pieces)
    }

    /// The messages, their parts joined, and what else was said.
    fn heard(pieces: &[Piece]) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Message { begins, bytes, .. } => {
                    let text = String::from_utf8_lossy(bytes);
                    if *begins { all.push(text.into_owned()) } else { *all.last_mut().expect("it has begun") += &text }
                }
                Piece::Ping(bytes) => all.insert(0, format!("ping {}", String::from_utf8_lossy(bytes))),
                Piece::Close => all.push("close".to_owned()),
            }
        }
        all
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let long = "x".repeat(300);
        let bytes = [
            masked(0x82, b"one"),
            masked(0x02, b"tw"),
            masked(0x89, b"p"),
            masked(0x80, b"o"),
            masked(0x81, b""),
            masked(0x8a, b"unasked"),
            masked(0x82, long.as_bytes()),
            masked(0x88, &[3, 232]),
        ]
        .concat();
        for length in [1, 2, 3, 7, 100, bytes.len()] {
            let pieces = read(&bytes, length).unwrap();
            assert_eq!(heard(&pieces), ["ping p", "one", "two", "", &long, "close"], "{length}");
        }
    }

    #[test]
    fn what_is_no_websocket_is_refused() {
        for (bytes, why) in [
            (masked(0x83, b""), "a frame of no known kind"),
            (masked(0xc2, b""), "a frame of an extension that nobody has agreed on"),
            (vec![0x82, 0x01, b'a'], "a frame of a client without a mask"),
            (masked(0x80, b"a"), "a frame that goes on with no message"),
            ([masked(0x02, b"a"), masked(0x82, b"b")].concat(), "a message in the middle of another"),
            (masked(0x09, b"a"), "a control frame in parts"),
            (masked(0x89, &[0; 126]), "a control frame in parts"),
        ] {
            assert_eq!(read(&bytes, 1000), Err(Lie(why)), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_written() {
        let server = Side::Server;
        assert_eq!(server.message(false, &[b"\x01", b"ab"]), [0x82, 3, 1, b'a', b'b']);
        assert_eq!(server.message(true, &[]), [0x81, 0]);
        assert_eq!(server.pong(b"a"), [0x8a, 1, b'a']);
        assert_eq!(server.close(CLOSE_NORMAL), [0x88, 2, 3, 232]);
        assert_eq!(server.message(false, &[&[0; 200]])[..4], [0x82, 126, 0, 200]);
        assert_eq!(Side::Client.message(false, &[b"ab"]), [0x82, 0x82, 0, 0, 0, 0, b'a', b'b']);
    }

    #[test]
    fn each_side_reads_what_the_other_writes() {
        for (writer, reader, why) in [
            (Side::Client, Side::Server, "a frame of a server with a mask"),
            (Side::Server, Side::Client, "a frame of a client without a mask"),
        ] {
            let bytes =
                [writer.message(false, &[b"one"]), writer.message(true, &[&[b'x'; 300]]), writer.close(CLOSE_NORMAL)]
                    .concat();
            let read = |side: Side| {
                let (mut frames, mut read, mut pieces) =
                    (WebSocketFrames::read_by(side), BytesMut::from(&bytes[..]), Vec::new());
                while let Some(piece) = frames.next(&mut read)? {
                    pieces.push(piece);
                }
                Ok::<_, Lie>(pieces)
            };
            assert_eq!(heard(&read(reader).unwrap()), ["one", &"x".repeat(300), "close"]);
            assert_eq!(read(writer), Err(Lie(why)));
        }
    }
}
