//! What a client sends on a connection that it has taken over: frames of WebSocket, and of SPDY.

use super::{Dice, spoil_bytes};
use bytes::BytesMut;
use coracle_http::spdy::frames::{self as spdy, Frame, SpdyFrames};
use coracle_http::websocket::frames::{CLOSE_NORMAL, Piece, Side, WebSocketFrames};

/// Pieces however long; the frames of both cut across them.
const PIECE_BYTES_MAX: usize = 70;

fn some_bytes(dice: &mut Dice, max: usize) -> Vec<u8> {
    let count = dice.below(max + 1);
    (0..count).map(|_| dice.below(256) as u8).collect()
}

fn cut(bytes: &[u8], dice: &mut Dice) -> Vec<Vec<u8>> {
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((1 + dice.below(PIECE_BYTES_MAX)).min(rest.len()));
        pieces.push(piece.to_vec());
        rest = after;
    }
    pieces
}

/// Messages, whole, and what else was said; and that no more bytes came out than went in.
fn read_web_socket(pieces: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let (mut frames, mut read, mut messages) = (WebSocketFrames::default(), BytesMut::new(), Vec::<Vec<u8>>::new());
    let (mut given, mut taken, mut begun) = (0, 0, false);
    for piece in pieces {
        given += piece.len();
        read.extend_from_slice(piece);
        while let Some(piece) = frames.next(&mut read).ok()? {
            match piece {
                Piece::Message { begins, ends, bytes } => {
                    assert_ne!(begins, begun, "a message begins where the one before has ended, and not again");
                    begun = !ends;
                    taken += bytes.len();
                    if begins {
                        messages.push(Vec::new());
                    }
                    messages.last_mut().expect("it has begun").extend_from_slice(&bytes);
                }
                Piece::Ping(bytes) => taken += bytes.len(),
                Piece::Close => {}
            }
            assert!(taken + read.len() <= given, "{taken} bytes of {given}");
        }
    }
    Some(messages)
}

/// What was sent is what comes, however it is cut; and a little wrong it is read to its end or refused.
pub fn web_socket_frames(dice: &mut Dice) {
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..dice.below(6) {
        match dice.below(4) {
            0 => bytes.extend(Side::Client.pong(&some_bytes(dice, 20))),
            1 => {
                let mut ping = Side::Client.pong(&some_bytes(dice, 20));
                ping[0] = 0x89;
                bytes.extend(ping);
            }
            _ => {
                let message = some_bytes(dice, 400);
                let mut frame = Side::Client.message(dice.once_in(2), &[&message]);
                mask(&mut frame, message.len(), dice);
                bytes.extend(frame);
                expected.push(message);
            }
        }
    }
    if dice.once_in(2) {
        bytes.extend(Side::Client.close(CLOSE_NORMAL));
    }
    assert_eq!(read_web_socket(&cut(&bytes, dice)), Some(expected));
    (0..3).for_each(|_| spoil_bytes(&mut bytes, dice));
    read_web_socket(&cut(&bytes, dice));
}

/// A mask of chance, in the place of none.
fn mask(frame: &mut [u8], length: usize, dice: &mut Dice) {
    let at = frame.len() - length;
    let mask: Vec<u8> = (0..4).map(|_| dice.below(256) as u8).collect();
    frame[at - 4..at].copy_from_slice(&mask);
    frame[at..].iter_mut().enumerate().for_each(|(index, byte)| *byte ^= mask[index % 4]);
}

/// Any bytes at all.
pub fn web_socket(bytes: &[u8]) {
    let whole = read_web_socket(&[bytes.to_vec()]);
    let parts: Vec<Vec<u8>> = bytes.iter().map(|byte| vec![*byte]).collect();
    assert_eq!(read_web_socket(&parts), whole, "byte for byte as all at once");
}

/// Streams that were opened, all bytes of each, and the rest in its order.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    opened: Vec<(u32, Vec<(String, String)>)>,
    data: Vec<(u32, Vec<u8>)>,
    others: Vec<String>,
}

fn read_spdy(pieces: &[Vec<u8>]) -> Option<Heard> {
    let (mut frames, mut read, mut heard) = (SpdyFrames::default(), BytesMut::new(), Heard::default());
    for piece in pieces {
        read.extend_from_slice(piece);
        while let Some(frame) = frames.next(&mut read).ok()? {
            match frame {
                Frame::Open { stream, headers, ends } => {
                    heard.opened.push((stream, headers));
                    heard.others.extend(ends.then(|| format!("end of {stream}")));
                }
                Frame::Data { stream, bytes, ends } => {
                    match heard.data.iter_mut().find(|(known, _)| *known == stream) {
                        Some((_, all)) => all.extend_from_slice(&bytes),
                        None => heard.data.push((stream, bytes.to_vec())),
                    }
                    heard.others.extend(ends.then(|| format!("end of {stream}")));
                }
                Frame::Reset { stream } => heard.others.push(format!("reset of {stream}")),
                Frame::Ping(number) => heard.others.push(format!("ping {number}")),
            }
        }
    }
    Some(heard)
}

/// A block of headers as zlib may store it.
fn block(headers: &[(String, String)], begun: bool) -> Vec<u8> {
    let mut text = (headers.len() as u32).to_be_bytes().to_vec();
    for word in headers.iter().flat_map(|(name, value)| [name, value]) {
        text.extend_from_slice(&(word.len() as u32).to_be_bytes());
        text.extend_from_slice(word.as_bytes());
    }
    let length = text.len() as u16;
    let begin: &[u8] = if begun { &[] } else { &[0x78, 0x01] };
    [begin, &[0], &length.to_le_bytes(), &(!length).to_le_bytes(), &text].concat()
}

fn opening(stream: u32, headers: &[(String, String)], begun: bool) -> Vec<u8> {
    let block = block(headers, begun);
    let length = (10 + block.len()) as u32;
    [&[0x80, 3, 0, 1][..], &length.to_be_bytes(), &stream.to_be_bytes(), &[0; 6], &block].concat()
}

/// The same of SPDY.
pub fn spdy_frames(dice: &mut Dice) {
    const HEADERS: &[(&str, &str)] =
        &[("streamtype", "data"), ("streamtype", "error"), ("port", "80"), ("requestid", "1"), ("", "")];
    let (mut bytes, mut expected, mut begun) = (Vec::new(), Heard::default(), false);
    for _ in 0..dice.below(8) {
        let stream = 1 + 2 * dice.below(4) as u32;
        match dice.below(5) {
            0 | 1 => {
                let count = dice.below(4);
                let headers: Vec<(String, String)> = (0..count)
                    .map(|_| {
                        let (name, value) = dice.pick(HEADERS);
                        ((*name).to_owned(), (*value).to_owned())
                    })
                    .collect();
                bytes.extend(opening(stream, &headers, begun));
                begun = true;
                expected.opened.push((stream, headers));
            }
            2 => {
                bytes.extend(spdy::ping(stream));
                expected.others.push(format!("ping {stream}"));
            }
            3 => {
                bytes.extend(spdy::reset(stream, spdy::CANCEL));
                expected.others.push(format!("reset of {stream}"));
            }
            _ => {
                let (data, ends) = (some_bytes(dice, 300), dice.once_in(2));
                bytes.extend(spdy::data(stream, &data, ends));
                match expected.data.iter_mut().find(|(known, _)| *known == stream) {
                    Some((_, all)) => all.extend_from_slice(&data),
                    None => expected.data.push((stream, data)),
                }
                expected.others.extend(ends.then(|| format!("end of {stream}")));
            }
        }
    }
    assert_eq!(read_spdy(&cut(&bytes, dice)), Some(expected));
    (0..3).for_each(|_| spoil_bytes(&mut bytes, dice));
    read_spdy(&cut(&bytes, dice));
}

/// Any bytes at all.
pub fn spdy_bytes(bytes: &[u8]) {
    let whole = read_spdy(&[bytes.to_vec()]);
    let parts: Vec<Vec<u8>> = bytes.iter().map(|byte| vec![*byte]).collect();
    assert_eq!(read_spdy(&parts), whole, "byte for byte as all at once");
}
