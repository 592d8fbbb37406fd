//! The path of a field in protobuf: `2.5` is number 5 of the message that is field 2 and that JSON does not show.

use crate::types::Field;

/// The numbers of the messages around a field, and its own.
pub(crate) fn numbers(text: &str) -> Result<((u16, u16), u16), String> {
    let number = |text: &str| text.parse::<u16>().map_err(|_| format!("{text:?} is no field number"));
    match *text.split('.').collect::<Vec<_>>() {
        [own] => Ok(((0, 0), number(own)?)),
        [outer, own] => Ok(((number(outer)?, 0), number(own)?)),
        [outer, inner, own] => Ok(((number(outer)?, number(inner)?), number(own)?)),
        _ => Err(format!("{text:?} is no field number")),
    }
}

impl Field {
    /// Its way through the messages of protobuf: their numbers, then its own, then zeros.
    pub fn way(&self) -> [u16; 3] {
        match self.inside {
            (0, _) => [self.number, 0, 0],
            (outer, 0) => [outer, self.number, 0],
            (outer, inner) => [outer, inner, self.number],
        }
    }
}
