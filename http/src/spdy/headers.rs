//! PURE. Header blocks of SPDY/3.1: names and values, compressed by zlib with a dictionary that both sides know, all
//! blocks of a connection as one stream.
//!
//! Nothing is compressed on the way out: what is sent has no names, and zlib may store.
use crate::websocket::frames::Lie;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::TINFL_FLAG_HAS_MORE_INPUT;
use miniz_oxide::inflate::core::{DecompressorOxide, TINFL_LZ_DICT_SIZE, decompress};

/// Bytes of a header block after inflating. kubectl sends a hundred.
const BLOCK_BYTES_MAX: usize = 16 * 1024;
const NAMES_MAX: usize = 64;

/// zlib's own name of the dictionary.
const DICTIONARY_ID: [u8; 4] = [0xe3, 0xc6, 0xa7, 0xc2];

/// In zlib's dictionary each word follows its length; `TAIL` follows as plain text.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
                     accept-ranges age allow authorization cache-control connection content-base content-encoding \
                     content-language content-length content-location content-md5 content-range content-type date etag \
                     expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since \
                     last-modified location max-forwards pragma proxy-authenticate proxy-authorization range referer \
                     retry-after server te trailer transfer-encoding upgrade user-agent vary via warning \
                     www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie keep-alive \
                     origin";
const TAIL: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 \
                    Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 \
                    Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb \
                    Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, \
                    GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/\
                    plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,\
                    enq=0.";

fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in WORDS.split(' ') {
        bytes.extend_from_slice(&(word.len() as u32).to_be_bytes());
        bytes.extend(word.bytes().map(|byte| if byte == b'_' { b' ' } else { byte }));
    }
    bytes.extend_from_slice(TAIL.as_bytes());
    bytes
}

/// The reader of the header blocks of one connection, in their order.
pub struct Blocks {
    state: Box<DecompressorOxide>,
    /// The last bytes that came out, in a ring: later ones may refer to them.
    window: Vec<u8>,
    at: usize,
    begun: bool,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { state: Box::default(), window: vec![0; TINFL_LZ_DICT_SIZE], at: 0, begun: false }
    }
}

impl Blocks {
    /// Names, in small letters, and values.
    pub fn read(&mut self, block: &[u8]) -> Result<Vec<(String, String)>, Lie> {
        let rest = if self.begun { block } else { self.begin(block)? };
        names(&self.inflate(rest)?)
    }

    /// The two bytes that every stream of zlib begins with, and the name of its dictionary.
    fn begin<'b>(&mut self, block: &'b [u8]) -> Result<&'b [u8], Lie> {
        let [method, flags, rest @ ..] = block else { return Err(Lie("headers without a beginning")) };
        if method & 0x0f != 8 || !u16::from_be_bytes([*method, *flags]).is_multiple_of(31) {
            return Err(Lie("headers that zlib has not compressed"));
        }
        self.begun = true;
        if flags & 0x20 == 0 {
            return Ok(rest);
        }
        let rest = rest.strip_prefix(&DICTIONARY_ID).ok_or(Lie("headers with a dictionary that is not SPDY's"))?;
        let dictionary = dictionary();
        self.window[..dictionary.len()].copy_from_slice(&dictionary);
        self.at = dictionary.len();
        Ok(rest)
    }

    fn inflate(&mut self, mut block: &[u8]) -> Result<Vec<u8>, Lie> {
        let mut whole = Vec::new();
        loop {
            let (status, read, written) =
                decompress(&mut self.state, block, &mut self.window, self.at, TINFL_FLAG_HAS_MORE_INPUT);
            whole.extend_from_slice(&self.window[self.at..self.at + written]);
            self.at = (self.at + written) % TINFL_LZ_DICT_SIZE;
            block = &block[read..];
            if whole.len() > BLOCK_BYTES_MAX {
                return Err(Lie("headers that are too long"));
            }
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput if block.is_empty() => return Ok(whole),
                _ => return Err(Lie("headers that cannot be inflated")),
            }
        }
    }
}

fn names(mut block: &[u8]) -> Result<Vec<(String, String)>, Lie> {
    const CUT: Lie = Lie("headers that are cut off");
    let number = |block: &mut &[u8]| {
        let (number, rest) = block.split_first_chunk::<4>().ok_or(CUT)?;
        *block = rest;
        Ok::<usize, Lie>(u32::from_be_bytes(*number) as usize)
    };
    let count = number(&mut block)?;
    if count > NAMES_MAX {
        return Err(Lie("too many headers"));
    }
    let text = |block: &mut &[u8]| {
        let length = number(block)?;
        let (text, rest) = block.split_at_checked(length).ok_or(CUT)?;
        *block = rest;
        Ok::<String, Lie>(String::from_utf8_lossy(text).into_owned())
    };
    (0..count).map(|_| Ok((text(&mut block)?.to_ascii_lowercase(), text(&mut block)?))).collect()
}

/// A block that says nothing. `begun`: others went before it.
pub fn nothing(begun: bool) -> Vec<u8> {
    // No names; stored, and then an empty block, at which readers hand on what they have.
    const STORED: [u8; 14] = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    const ZLIB: [u8; 2] = [0x78, 0x01];
    if begun { STORED.to_vec() } else { [&ZLIB[..], &STORED].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dictionary_is_that_of_spdy() {
        let dictionary = dictionary();
        let (low, high) = dictionary.iter().fold((1, 0), |(low, high): (u32, u32), byte| {
            let low = (low + u32::from(*byte)) % 65521;
            (low, (high + low) % 65521)
        });
        assert_eq!((dictionary.len(), (high << 16 | low).to_be_bytes()), (1423, DICTIONARY_ID));
    }

    /// Two blocks as Go's zlib writes them, with the dictionary, each flushed.
    const FIRST: &str =
        "78f9e3c6a7c202253a50ca0a2e294a4dcc851625aca9a08006a5fc80fc22700eb030b03000d29cd068cc04256f460300000000ffff";
    const SECOND: &str = "c2aa19540e2512d60b000000ffff";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn blocks_of_a_client() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut blocks = Blocks::default();
        assert_eq!(
            blocks.read(&bytes(FIRST)),
            Ok(vec![pair("streamtype", "error"), pair("port", "8080"), pair("requestid", "0")])
        );
        assert_eq!(
            blocks.read(&bytes(SECOND)),
            Ok(vec![pair("streamtype", "data"), pair("port", "8080"), pair("requestid", "0")])
        );
        let mut own = Blocks::default();
        assert_eq!((own.read(&nothing(false)), own.read(&nothing(true))), (Ok(vec![]), Ok(vec![])));
    }

    #[test]
    fn what_is_no_block_is_refused() {
        let first = bytes(FIRST);
        for (block, why) in [
            (&b""[..], "headers without a beginning"),
            (b"GET /", "headers that zlib has not compressed"),
            (&[first[0], first[1], 1, 2, 3, 4], "headers with a dictionary that is not SPDY's"),
            (&first[..6], "headers that are cut off"),
            (&[0x78, 0x01, 0xff], "headers that cannot be inflated"),
        ] {
            assert_eq!(Blocks::default().read(block), Err(Lie(why)), "{block:?}");
        }
        assert_eq!(names(&[0, 0, 1, 0]), Err(Lie("too many headers")));
        assert_eq!(names(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]), Err(Lie("headers that are cut off")));
    }
}
