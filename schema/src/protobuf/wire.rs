//! The wire: tags, numbers, and runs of bytes.

use super::Malformed;

/// The kind of value after a tag.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

/// Reads a message field by field.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Reader<'a> {
        Reader { rest: message }
    }

    /// The next field's number and contents; none at the end.
    pub fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|number| *number > 0).ok_or(Malformed::Number)?;
        let wire = match (tag & 7) as u8 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed::Truncated)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(Malformed::WireType(other)),
        };
        Ok(Some((number, wire)))
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for at in 0..10 {
            let [byte] = self.array()?;
            // The tenth byte holds the last bit.
            if at == 9 && byte > 1 {
                return Err(Malformed::Number);
            }
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed::Number)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}

impl<'a> Wire<'a> {
    pub fn number(self) -> Result<u64, Malformed> {
        match self {
            Wire::Varint(number) => Ok(number),
            other => Err(Malformed::WireType(other.code())),
        }
    }

    pub fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            other => Err(Malformed::WireType(other.code())),
        }
    }

    pub fn code(self) -> u8 {
        match self {
            Wire::Varint(_) => 0,
            Wire::Fixed64(_) => 1,
            Wire::Bytes(_) => 2,
            Wire::Fixed32(_) => 5,
        }
    }
}

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A field that is a number.
pub fn put_varint(out: &mut Vec<u8>, number: u16, value: u64) {
    put_number(out, u64::from(number) << 3);
    put_number(out, value);
}

/// A field that is text, bytes, or a message.
pub fn put_bytes(out: &mut Vec<u8>, number: u16, value: &[u8]) {
    put_number(out, u64::from(number) << 3 | 2);
    put_number(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A field with a message, or bytes, that `write` appends to `out`: the length stands before the contents, and is known
/// only after `write`.
pub fn put_message(out: &mut Vec<u8>, number: u16, write: impl FnOnce(&mut Vec<u8>)) {
    put_number(out, u64::from(number) << 3 | 2);
    let at = out.len();
    out.push(0);
    write(out);
    match out.len() - at - 1 {
        length @ 0..0x80 => out[at] = length as u8,
        length => {
            let mut prefix = Vec::new();
            put_number(&mut prefix, length as u64);
            out.splice(at..=at, prefix);
        }
    }
}

pub fn put_fixed64(out: &mut Vec<u8>, number: u16, value: u64) {
    put_number(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}
