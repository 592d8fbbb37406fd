//! YAML as kube-apiserver writes it: keys sorted, lists at the level of their key, texts plain where a reader of YAML
//! 1.1 takes them for texts, else quoted, and as blocks where they have lines. Long lines are not folded. PURE.

use serde_json::Value;
use std::fmt::Write;

/// Longer keys, and keys of several lines, are written behind a question mark.
const SIMPLE_KEY_BYTES_MAX: usize = 128;
/// Plain words that YAML 1.1 reads as something else; the words of truth in their three spellings.
const NO_TEXTS: [&str; 3] = ["", "~", "<<"];
const WORDS: [&str; 9] = ["y", "yes", "on", "true", "n", "no", "off", "false", "null"];
const DOTTED: [&str; 3] = [".nan", ".inf", "+.inf"];

/// A document of any depth that JSON could be read to.
pub fn write(document: &Value) -> String {
    let mut out = String::new();
    node(&mut out, document, 0, true);
    if out.is_empty() || !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

/// Writes `head` with a list as its `field`, item by item, as `write` would write the whole.
pub fn write_list(head: &Value, field: &str, items: impl Iterator<Item = Value>) -> String {
    let mut out = String::new();
    let (before, behind): (Vec<_>, Vec<_>) =
        head.as_object().into_iter().flatten().partition(|(key, _)| key.as_str() < field);
    let entries = |out: &mut String, entries: Vec<(&String, &Value)>| {
        for (key, value) in entries {
            let begins = out.is_empty();
            line(out, 0, begins);
            entry(out, key, value, 0);
        }
    };
    entries(&mut out, before);
    let begins = out.is_empty();
    line(&mut out, 0, begins);
    out.push_str(field);
    out.push(':');
    let begun = out.len();
    for item in items {
        line(&mut out, 0, false);
        out.push_str("- ");
        node(&mut out, &item, 2, true);
    }
    if out.len() == begun {
        out.push_str(" []");
    }
    entries(&mut out, behind);
    line(&mut out, 0, false);
    out
}

/// A value whose lines stand at `indent`. `fresh`: the cursor is where its first line begins.
fn node(out: &mut String, value: &Value, indent: usize, fresh: bool) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (at, (key, value)) in fields.iter().enumerate() {
                line(out, indent, fresh && at == 0);
                entry(out, key, value, indent);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                line(out, indent, fresh && at == 0);
                out.push_str("- ");
                node(out, item, indent + 2, true);
            }
        }
        // The lines of a text stand deeper than what it belongs to, be it the document itself.
        scalar => self::scalar(out, scalar, indent.max(2)),
    }
}

fn entry(out: &mut String, key: &str, value: &Value, indent: usize) {
    if key.len() > SIMPLE_KEY_BYTES_MAX || key.contains('\n') {
        out.push_str("? ");
        text(out, key, indent + 2, false);
        line(out, indent, false);
    } else {
        text(out, key, indent, true);
    }
    out.push(':');
    match value {
        Value::Object(fields) if !fields.is_empty() => node(out, value, indent + 2, false),
        Value::Array(items) if !items.is_empty() => node(out, value, indent, false),
        scalar => {
            out.push(' ');
            self::scalar(out, scalar, indent + 2);
        }
    }
}

/// The beginning of a line, where the cursor is not there already.
fn line(out: &mut String, indent: usize, already: bool) {
    if !already {
        if !out.ends_with('\n') {
            out.push('\n');
        }
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

fn scalar(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::String(given) => text(out, given, indent, false),
        // Empty maps and lists look as in JSON, and so do numbers, truths and null.
        other => out.push_str(&other.to_string()),
    }
}

fn text(out: &mut String, given: &str, indent: usize, key: bool) {
    let found = Analysis::of(given);
    if given.contains('\n') {
        return if found.block && !key { block(out, given, indent) } else { double_quoted(out, given) };
    }
    if !reads_as_text(given) || found.special {
        double_quoted(out, given);
    } else if found.plain {
        out.push_str(given);
    } else {
        let _ = write!(out, "'{}'", given.replace('\'', "''"));
    }
}

/// A literal block: its last line ends are told by a sign behind the bar.
fn block(out: &mut String, given: &str, indent: usize) {
    out.push('|');
    if given.starts_with([' ', '\n']) {
        out.push('2');
    }
    if !given.ends_with('\n') {
        out.push('-');
    } else if given == "\n" || given.ends_with("\n\n") {
        out.push('+');
    }
    out.push('\n');
    for text in given.strip_suffix('\n').unwrap_or(given).split('\n') {
        if !text.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(text);
        }
        out.push('\n');
    }
}

fn double_quoted(out: &mut String, given: &str) {
    out.push('"');
    for letter in given.chars() {
        let escape = match letter {
            '\0' => "\\0",
            '\x07' => "\\a",
            '\x08' => "\\b",
            '\t' => "\\t",
            '\n' => "\\n",
            '\x0b' => "\\v",
            '\x0c' => "\\f",
            '\r' => "\\r",
            '\x1b' => "\\e",
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{85}' => "\\N",
            '\u{a0}' => "\\_",
            '\u{2028}' => "\\L",
            '\u{2029}' => "\\P",
            _ if is_printable(letter) => {
                out.push(letter);
                continue;
            }
            // Writing to a String cannot fail.
            _ => {
                let code = u32::from(letter);
                let _ = match code {
                    0..=0xff => write!(out, "\\x{code:02X}"),
                    0x100..=0xffff => write!(out, "\\u{code:04X}"),
                    _ => write!(out, "\\U{code:08X}"),
                };
                continue;
            }
        };
        out.push_str(escape);
    }
    out.push('"');
}

/// How a text may be written, by the letters in it.
struct Analysis {
    /// As it is.
    plain: bool,
    /// As a block, if it has lines.
    block: bool,
    /// Only with escapes.
    special: bool,
}

impl Analysis {
    fn of(given: &str) -> Analysis {
        let mut indicator = given.starts_with("---") || given.starts_with("...");
        let (mut special, mut space_break, mut break_space) = (false, false, false);
        let mut before = None;
        let mut letters = given.chars().peekable();
        while let Some(letter) = letters.next() {
            let blank_behind = letters.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            let blank_before = before.is_none_or(|last| matches!(last, ' ' | '\t' | '\n'));
            indicator |= match letter {
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    before.is_none()
                }
                '-' | '?' => before.is_none() && blank_behind,
                ':' => blank_behind,
                '#' => blank_before,
                _ => false,
            };
            special |= !is_printable(letter);
            space_break |= is_break(letter) && before == Some(' ');
            break_space |= letter == ' ' && before.is_some_and(is_break);
            before = Some(letter);
        }
        let edges = given.starts_with(' ') || given.ends_with(' ');
        // A break that is not a line feed has its own escape.
        special |= space_break || given.chars().any(|letter| is_break(letter) && letter != '\n');
        Analysis {
            plain: !(indicator || special || edges || break_space || given.contains('\n')),
            block: !(special || given.ends_with(' ')),
            special,
        }
    }
}

fn is_break(letter: char) -> bool {
    matches!(letter, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// As the writer of Kubernetes sees it: neither tabs nor anything beyond the first 65,536 letters.
fn is_printable(letter: char) -> bool {
    matches!(letter, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && letter != '\u{feff}'
}

/// Whether a reader takes the plain word for a text, and not for a truth, a number, a time or nothing.
fn reads_as_text(given: &str) -> bool {
    if NO_TEXTS.contains(&given) {
        return false;
    }
    let lower = given.to_ascii_lowercase();
    // Only `true`, `True` and `TRUE` are truths; `tRUE` is a text.
    let spelled = given == lower
        || *given == given.to_ascii_uppercase()
        || given.get(1..).is_some_and(|rest| *rest == lower[1..]);
    if spelled && WORDS.contains(&lower.as_str()) {
        return false;
    }
    let unsigned = lower.strip_prefix('-').unwrap_or(&lower);
    if DOTTED.contains(&unsigned) {
        return false;
    }
    match given.bytes().next() {
        Some(b'0'..=b'9' | b'+' | b'-' | b'.') => !(is_number(given) || is_time(given) || is_base_60(given)),
        _ => true,
    }
}

fn is_number(given: &str) -> bool {
    let digits = given.replace('_', "");
    let digits = digits.strip_prefix(['+', '-']).unwrap_or(&digits);
    let prefixed = |prefix: &[&str], radix| {
        let rest = prefix.iter().find_map(|prefix| digits.strip_prefix(prefix));
        rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(|digit| digit.is_digit(radix)))
    };
    if prefixed(&["0x", "0X"], 16) || prefixed(&["0o", "0O"], 8) || prefixed(&["0b", "0B"], 2) {
        return true;
    }
    // Digits, a point, an exponent: what is left is read by the same grammar as Rust's, which knows words too.
    digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)) && digits.parse::<f64>().is_ok()
}

/// `2020-1-1`, with or without a time of day.
fn is_time(given: &str) -> bool {
    let (date, rest) = given.split_at(given.find(['T', 't', ' ']).unwrap_or(given.len()));
    let parts: Vec<&str> = date.split('-').collect();
    let number = |text: &str, min: usize, max: usize| {
        (min..=max).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    let is_date =
        matches!(parts[..], [year, month, day] if number(year, 4, 4) && number(month, 1, 2) && number(day, 1, 2));
    is_date && rest.bytes().skip(1).all(|byte| byte.is_ascii_digit() || b":.Z+-".contains(&byte))
}

/// `1:30`: an old way to write a number.
fn is_base_60(given: &str) -> bool {
    let given = given.strip_prefix(['+', '-']).unwrap_or(given);
    let given = given.split('.').next().unwrap_or_default();
    let mut parts = given.split(':');
    let first = parts.next().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()));
    let mut rest = parts.peekable();
    first
        && given.bytes().all(|byte| byte.is_ascii_digit() || byte == b':' || byte == b'_')
        && rest.peek().is_some()
        && rest.all(|part| part.parse::<u8>().is_ok_and(|number| number < 60) && part.len() <= 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents() {
        for (document, expected) in [
            (json!({}), "{}\n"),
            (json!({"a": {}, "b": [], "c": null}), "a: {}\nb: []\nc: null\n"),
            (
                json!({"items": [{"name": "a", "args": ["x", "y"]}, "b", [1, [2]]], "z": {"on": true}}),
                "items:\n- args:\n  - x\n  - \"y\"\n  name: a\n- b\n- - 1\n  - - 2\nz:\n  \"on\": true\n",
            ),
            (
                json!({
                    "data": {
                        "empty": "", "folded": "a b", "multi": "one\ntwo\n", "open": "a\n\nb", "many": "a\n\n",
                        "indented": " a\n",
                    },
                }),
                "data:\n  empty: \"\"\n  folded: a b\n  indented: |2\n     a\n  many: |+\n    a\n\
                 \n  multi: |\n    one\n    two\n  open: |-\n    a\n\n    b\n",
            ),
            (
                json!({"fieldsV1": {"k:{\"name\":\"web\"}": {".": {}}}}),
                "fieldsV1:\n  k:{\"name\":\"web\"}:\n    .: {}\n",
            ),
            (json!([{"a": "x\ny"}]), "- a: |-\n    x\n    y\n"),
            (json!({"a\nb": 1}), "? |-\n  a\n  b\n: 1\n"),
            (json!("\ny\n\n"), "|2+\n\n  y\n\n"),
        ] {
            assert_eq!(write(&document), expected, "{document}");
        }
    }

    #[test]
    fn texts() {
        for (given, expected) in [
            ("plain text", "plain text"),
            ("yes", "\"yes\""),
            ("Yes", "\"Yes\""),
            ("yEs", "yEs"),
            ("null", "\"null\""),
            ("1", "\"1\""),
            ("1.5", "\"1.5\""),
            ("1e3", "\"1e3\""),
            ("0x1f", "\"0x1f\""),
            ("1_000", "\"1_000\""),
            ("1.2.3", "1.2.3"),
            ("10Gi", "10Gi"),
            ("100m", "100m"),
            ("10.0.0.1", "10.0.0.1"),
            ("2020-01-01", "\"2020-01-01\""),
            ("2020-01-01T00:00:00Z", "\"2020-01-01T00:00:00Z\""),
            ("2020-01-01-x", "2020-01-01-x"),
            ("1:30", "\"1:30\""),
            ("a: b", "'a: b'"),
            ("a:b", "a:b"),
            ("it's", "it's"),
            ("'x", "'''x'"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("-", "'-'"),
            ("a #b", "'a #b'"),
            ("a#b", "a#b"),
            ("{x}", "'{x}'"),
            (" a", "' a'"),
            ("a\tb", "\"a\\tb\""),
            ("ä", "ä"),
            ("🚀", "\"\\U0001F680\""),
            ("*", "'*'"),
            ("a \nb", "\"a \\nb\""),
            (".inf", "\".inf\""),
            ("-.inf", "\"-.inf\""),
            ("...", "'...'"),
        ] {
            assert_eq!(write(&json!(given)), format!("{expected}\n"), "{given:?}");
        }
    }
}
