//! Quantities: `100m`, `64Mi`, `1.5`, `2e9`. A fixed-point number and the way it is written.
//!
//! Kubernetes writes most quantities back in a canonical form (`1024Mi` as `1Gi`, `0.25` as `250m`) and keeps a text
//! that looks canonical already (`1.500`, `+5Gi`). Both are followed here, because clients compare the texts.

mod sum;

pub use sum::Sum;

use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;

/// Longest text that is read at all; the longest sensible one has some thirty characters.
const TEXT_BYTES_MAX: usize = 128;
/// Digits up to which Kubernetes keeps a decimal text as it is written.
const KEPT_DIGITS_MAX: usize = 18;
/// 10^-9 is the finest amount; anything finer is rounded up to it.
const NANO: i128 = 1_000_000_000;
/// Binary amounts are cut here.
const BINARY_MAX: i128 = i64::MAX as i128 * NANO;

/// An amount. Finer than 10^-9 is rounded up, larger than an i128 of those is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

impl Quantity {
    pub const ZERO: Quantity = Quantity { nanos: 0 };

    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        read(text.trim()).map(|written| Quantity { nanos: written.nanos() })
    }

    pub fn from_milli(milli: i64) -> Quantity {
        Quantity { nanos: i128::from(milli) * (NANO / 1000) }
    }

    pub fn from_value(value: i64) -> Quantity {
        Quantity { nanos: i128::from(value) * NANO }
    }

    /// In thousandths, rounded away from zero: cpu.
    pub fn milli(self) -> i64 {
        saturate(round_up(self.nanos, NANO / 1000))
    }

    /// In whole units, rounded away from zero: bytes, counts.
    pub fn value(self) -> i64 {
        saturate(round_up(self.nanos, NANO))
    }

    /// Whether it is a whole number: a fraction of a byte is nothing.
    pub fn is_whole(self) -> bool {
        self.nanos % NANO == 0
    }

    pub fn saturating_add(self, other: Quantity) -> Quantity {
        Quantity { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.nanos, -9, Format::DecimalSi))
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            serde_json::Value::Number(number) => number.to_string(),
            other => return Err(serde::de::Error::custom(format!("{other} is no quantity"))),
        };
        Quantity::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    Format,
    Suffix,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QuantityError::Format => {
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            QuantityError::Suffix => "unable to parse quantity's suffix",
        })
    }
}

impl std::error::Error for QuantityError {}

/// The text that Kubernetes gives back for a text of a resource list: thousandths are the finest.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, QuantityError> {
    let text = text.trim();
    let written = read(text)?;
    if written.kept() {
        return Ok(Cow::Borrowed(text));
    }
    let Some(nanos) = written.exact() else { return Ok(Cow::Borrowed(text)) };
    let milli = round_up(nanos, NANO / 1000);
    Ok(Cow::Owned(rewritten(milli.saturating_mul(NANO / 1000), written.format)))
}

/// An amount in the form of the text that it was read from.
fn rewritten(nanos: i128, format: Format) -> String {
    let whole = nanos / NANO;
    let binary = format == Format::Binary && nanos % NANO == 0 && whole.unsigned_abs() >= 1024;
    if binary { base_1024(whole) } else { decimal(nanos, -9, format) }
}

/// The text that Go's Quantity writes for a text that it has read: of all amounts, the finest too.
pub fn written(text: &str) -> Cow<'_, str> {
    let Ok(written) = read(text) else { return Cow::Borrowed(text) };
    if text == "0" || written.is_canonical() && written.small().is_some() {
        return Cow::Borrowed(text);
    }
    written.exact().map_or(Cow::Borrowed(text), |nanos| Cow::Owned(rewritten(nanos, written.format)))
}

/// A text as Go's Quantity holds it.
#[derive(Debug, PartialEq, Eq)]
pub struct Held<'a> {
    pub value: i64,
    pub scale: i32,
    /// In place of those two: a number and how many of its digits stand behind the point.
    pub large: Option<(i128, i32)>,
    /// The text, where it is the one that would be written.
    pub text: &'a str,
    pub format: &'static str,
}

/// Of a text that is no quantity: nothing.
pub fn held(text: &str) -> Held<'_> {
    let name = |format: Format| match format {
        Format::DecimalSi => "DecimalSI",
        Format::DecimalExponent => "DecimalExponent",
        Format::Binary => "BinarySI",
    };
    let mut held = Held { value: 0, scale: 0, large: None, text: "", format: "" };
    let Ok(written) = read(text) else { return held };
    held.format = name(written.format);
    if text == "0" {
        held.text = text;
    } else if let Some((value, scale)) = written.small() {
        (held.value, held.scale) = (value, scale);
        held.text = if written.is_canonical() { text } else { "" };
    } else {
        let nanos = written.nanos();
        let cut = written.format == Format::Binary && nanos.abs() >= BINARY_MAX;
        held.large = Some(if cut { (nanos.signum() * i128::from(i64::MAX), 0) } else { (nanos, 9) });
        if written.format == Format::Binary && (1..NANO).contains(&nanos.abs()) {
            held.format = name(Format::DecimalSi);
        }
    }
    held
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    DecimalSi,
    DecimalExponent,
    Binary,
}

/// A quantity as written, taken apart.
struct Written<'a> {
    negative: bool,
    /// Before the point, without leading zeros, "0" when there is nothing else.
    whole: &'a str,
    /// Behind the point.
    fraction: &'a str,
    format: Format,
    /// The exponent of 2 in the binary format, otherwise of 10.
    exponent: i32,
}

fn read(text: &str) -> Result<Written<'_>, QuantityError> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX {
        return Err(QuantityError::Format);
    }
    let negative = text.starts_with('-');
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(QuantityError::Format);
    }
    let letters = suffix.trim_end_matches(|c: char| c.is_ascii_digit());
    let letters = letters.strip_suffix(['-', '+']).unwrap_or(letters);
    if !letters.bytes().all(|byte| b"eEinumkKMGTP".contains(&byte)) {
        return Err(QuantityError::Format);
    }
    let (format, exponent) = unit(suffix).ok_or(QuantityError::Suffix)?;
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    Ok(Written { negative, whole, fraction, format, exponent })
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn unit(suffix: &str) -> Option<(Format, i32)> {
    let (format, exponent) = match suffix {
        "n" => (Format::DecimalSi, -9),
        "u" => (Format::DecimalSi, -6),
        "m" => (Format::DecimalSi, -3),
        "" => (Format::DecimalSi, 0),
        "k" => (Format::DecimalSi, 3),
        "M" => (Format::DecimalSi, 6),
        "G" => (Format::DecimalSi, 9),
        "T" => (Format::DecimalSi, 12),
        "P" => (Format::DecimalSi, 15),
        "E" => (Format::DecimalSi, 18),
        "Ki" => (Format::Binary, 10),
        "Mi" => (Format::Binary, 20),
        "Gi" => (Format::Binary, 30),
        "Ti" => (Format::Binary, 40),
        "Pi" => (Format::Binary, 50),
        "Ei" => (Format::Binary, 60),
        _ => (Format::DecimalExponent, suffix.strip_prefix(['e', 'E'])?.parse::<i16>().ok()?.into()),
    };
    Some((format, exponent))
}

impl Written<'_> {
    /// Whether Kubernetes shows the text as it was written.
    fn kept(&self) -> bool {
        self.is_canonical() && (self.format == Format::Binary || self.scale() >= -3)
    }

    /// Whether Go takes the text for the one that it would write.
    fn is_canonical(&self) -> bool {
        let digit_count = self.whole.len() + self.fraction.len();
        if self.format == Format::Binary {
            let odd = self.whole.parse::<u64>().is_ok_and(|number| number & 7 != 0);
            return self.fraction.is_empty() && self.binary_room() >= 0 && odd;
        }
        let tail = [self.whole, self.fraction].concat();
        digit_count <= KEPT_DIGITS_MAX && self.scale() % 3 == 0 && !tail.ends_with("000") && self.whole != "0"
    }

    /// The exponent of 10 of all digits together.
    fn scale(&self) -> i32 {
        self.exponent - self.fraction.len() as i32
    }

    /// Decimal digits that are left of those that Go counts on in a binary amount.
    fn binary_room(&self) -> i32 {
        15 - (self.whole.len() + self.fraction.len()) as i32 - self.exponent * 3 / 10 - 1
    }

    /// A number and its exponent of 10, where Go holds a quantity so.
    fn small(&self) -> Option<(i64, i32)> {
        let digit_count = (self.whole.len() + self.fraction.len()) as i32;
        let (room, scale, shift) = match self.format {
            Format::Binary if self.fraction.is_empty() => (self.binary_room(), 0, self.exponent),
            Format::Binary => return None,
            _ => (KEPT_DIGITS_MAX as i32 - digit_count, self.scale(), 0),
        };
        if room < 0 || scale < -9 {
            return None;
        }
        let number: i64 = [self.whole, self.fraction].concat().parse().ok()?;
        let value = number.checked_mul(1i64.checked_shl(shift.unsigned_abs())?)?;
        Some((if self.negative { -value } else { value }, scale))
    }

    /// The amount in 10^-9, rounded up; none when it is too large to say, which no binary amount is.
    fn exact(&self) -> Option<i128> {
        let size = self.size();
        let nanos = if self.format == Format::Binary { size.unwrap_or(BINARY_MAX).min(BINARY_MAX) } else { size? };
        Some(if self.negative { -nanos } else { nanos })
    }

    /// The same without the sign, uncut.
    fn size(&self) -> Option<i128> {
        let mut number: i128 = 0;
        for digit in self.whole.bytes() {
            number = number.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let (mut shift, mut lost) = (self.exponent, false);
        if self.format == Format::Binary {
            shift = 0;
        }
        for digit in self.fraction.bytes() {
            match number.checked_mul(10).and_then(|number| number.checked_add(i128::from(digit - b'0'))) {
                Some(more) if !lost => (number, shift) = (more, shift - 1),
                // A fraction longer than an i128 has digits is below every amount that counts.
                _ => lost = true,
            }
        }
        if self.format == Format::Binary {
            number = number.checked_mul(1i128 << self.exponent)?;
        }
        let shift = shift + 9;
        match u32::try_from(shift) {
            _ if number == 0 => Some(0),
            Ok(up) => number.checked_mul(10i128.checked_pow(up)?),
            Err(_) => Some(10i128.checked_pow(shift.unsigned_abs()).map_or(1, |divisor| round_up(number, divisor))),
        }
    }

    fn nanos(&self) -> i128 {
        self.exact().unwrap_or(if self.negative { i128::MIN } else { i128::MAX })
    }
}

/// Away from zero.
fn round_up(number: i128, divisor: i128) -> i128 {
    number / divisor + if number % divisor == 0 { 0 } else { number.signum() }
}

fn saturate(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

/// No fraction, and the exponent as large as it can be.
fn decimal(mut number: i128, mut exponent: i32, format: Format) -> String {
    if number == 0 {
        return "0".to_owned();
    }
    while number % 10 == 0 {
        (number, exponent) = (number / 10, exponent + 1);
    }
    while exponent % 3 != 0 {
        (number, exponent) = (number * 10, exponent - 1);
    }
    let suffix = match (format, exponent) {
        (_, 0) => "",
        (Format::DecimalSi | Format::Binary, -9) => "n",
        (Format::DecimalSi | Format::Binary, -6) => "u",
        (Format::DecimalSi | Format::Binary, -3) => "m",
        (Format::DecimalSi | Format::Binary, 3) => "k",
        (Format::DecimalSi | Format::Binary, 6) => "M",
        (Format::DecimalSi | Format::Binary, 9) => "G",
        (Format::DecimalSi | Format::Binary, 12) => "T",
        (Format::DecimalSi | Format::Binary, 15) => "P",
        (Format::DecimalSi | Format::Binary, 18) => "E",
        _ => return format!("{number}e{exponent}"),
    };
    format!("{number}{suffix}")
}

fn base_1024(mut number: i128) -> String {
    let mut suffixes = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].into_iter();
    let mut suffix = suffixes.next().unwrap_or_default();
    while number % 1024 == 0 {
        let Some(larger) = suffixes.next() else { break };
        (number, suffix) = (number / 1024, larger);
    }
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("1000k", "1M"),
            ("0.25", "250m"),
            ("1e9", "1e9"),
            ("+5Gi", "+5Gi"),
            ("5.", "5."),
            ("9223372036854775808", "9223372036854775808"),
            ("1n", "1m"),
            ("1000m", "1"),
            ("100m", "100m"),
            ("64Mi", "64Mi"),
            ("0.1Gi", "107374182400m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("1500m", "1500m"),
            ("0", "0"),
            ("0Gi", "0"),
            ("-0", "0"),
            ("-1", "-1"),
            ("-0.5", "-500m"),
            ("100Ei", "9223372036854775807"),
            ("-100000000000Ei", "-9223372036854775807"),
            ("1000000000000000000000000000000000000000Ki", "9223372036854775807"),
            ("12e6", "12e6"),
            ("10e6", "10e6"),
            ("1e3000", "1e3000"),
            ("24684084Ki", "24684084Ki"),
            (" 1 ", "1"),
            ("0.0001", "1m"),
            ("1000E", "1e21"),
            ("512Ki", "512Ki"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn amounts() {
        for (text, milli, value) in [
            ("100m", 100, 1),
            ("1.5", 1500, 2),
            ("64Mi", (64 << 20) * 1000, 64 << 20),
            ("1e3", 1_000_000, 1000),
            ("1n", 1, 1),
            ("-1500m", -1500, -2),
            ("1e400", i64::MAX, i64::MAX),
            ("1e-400", 1, 1),
            ("0e400", 0, 0),
            (".5", 500, 1),
        ] {
            let quantity = Quantity::parse(text).unwrap();
            assert_eq!((quantity.milli(), quantity.value()), (milli, value), "{text}");
        }
    }

    #[test]
    fn no_quantities() {
        for (text, expected) in [
            ("", QuantityError::Format),
            ("abc", QuantityError::Format),
            ("1.2.3", QuantityError::Format),
            (".", QuantityError::Format),
            ("1 Gi", QuantityError::Format),
            ("1x", QuantityError::Format),
            ("1K", QuantityError::Suffix),
            ("1e", QuantityError::Suffix),
            ("1mi", QuantityError::Suffix),
        ] {
            assert_eq!(canonical(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn sums() {
        for (amounts, expected) in [
            (&["512Mi", "512Mi"][..], "1Gi"),
            (&["0", "512Mi"], "512Mi"),
            (&["600m", "0.4"], "1"),
            (&["1", "1Ki"], "1025"),
            (&[], "0"),
            (&["1Gi", "500"], "1073742324"),
        ] {
            let sum = amounts.iter().filter_map(|text| Sum::of_text(text)).fold(Sum::default(), Sum::plus);
            assert_eq!(sum.to_string(), expected, "{amounts:?}");
        }
        let three = Sum::of_count(3);
        assert_eq!(
            (three.minus(Sum::of_count(2)).to_string(), three.or_more(Sum::of_count(2))),
            ("1".to_owned(), three)
        );
        assert_eq!(Sum::of_text("x"), None);
    }
}
