//! PURE. The two outputs of a container on one connection, as Docker frames them: a byte that names the stream, three
//! of nothing, four of length, and so many bytes. A terminal has one output, without frames.

use bytes::{Buf, Bytes, BytesMut};

const HEAD_BYTES: usize = 8;
const STDERR: u8 = 2;

/// Where in the frames a reader is.
#[derive(Debug, Default)]
pub struct Multiplexed {
    /// The stream of the current frame, and the number of bytes still to come.
    open: Option<(u8, usize)>,
}

/// Bytes from stdout or stderr.
#[derive(Debug, PartialEq)]
pub enum Output {
    Stdout(Bytes),
    Stderr(Bytes),
}

impl Multiplexed {
    /// Takes the next piece off the read bytes. None: more bytes are needed.
    pub fn next(&mut self, read: &mut BytesMut) -> Option<Output> {
        loop {
            let (stream, left) = match self.open {
                Some(open) => open,
                None if read.len() < HEAD_BYTES => return None,
                None => {
                    let stream = read[0];
                    read.advance(HEAD_BYTES - 4);
                    (stream, read.get_u32() as usize)
                }
            };
            let there = left.min(read.len());
            let bytes = read.split_to(there).freeze();
            self.open = (there < left).then_some((stream, left - there));
            match stream {
                _ if bytes.is_empty() && left > 0 => return None,
                _ if bytes.is_empty() => {}
                STDERR => return Some(Output::Stderr(bytes)),
                _ => return Some(Output::Stdout(bytes)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_come_apart_however_they_are_cut() {
        let frame = |stream: u8, text: &str| {
            let mut bytes = vec![stream, 0, 0, 0];
            bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
            bytes
        };
        let bytes = [frame(1, "out"), frame(2, "err"), frame(1, ""), frame(1, "more")].concat();
        for length in 1..=bytes.len() {
            let (mut reader, mut read, mut out, mut err) =
                (Multiplexed::default(), BytesMut::new(), Vec::new(), Vec::new());
            for piece in bytes.chunks(length) {
                read.extend_from_slice(piece);
                while let Some(output) = reader.next(&mut read) {
                    match output {
                        Output::Stdout(bytes) => out.extend_from_slice(&bytes),
                        Output::Stderr(bytes) => err.extend_from_slice(&bytes),
                    }
                }
            }
            assert_eq!((out.as_slice(), err.as_slice()), (&b"outmore"[..], &b"err"[..]), "{length}");
        }
    }
}
