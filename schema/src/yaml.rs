//! YAML as Kubernetes reads it: YAML 1.1, where `yes` is a truth and `0644` is octal, and keys become texts. Bounded in
//! nodes and depth, and in what of it is repeated. PURE.

mod doubled;
mod kept;
mod lines;
mod write;

pub use write::{write, write_list};

use crate::{Path, read_from};
use serde_json::{Number, Value};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};
use std::borrow::Cow;
use std::ops::Range;

pub use lines::lines;

/// Nodes of a document, aliases replayed: a deployment has some hundred, a config map of many lines as many.
const NODES_MAX: usize = 200_000;
/// Levels; no kind has twenty. Each costs 5 KiB of the stack of a thread that has it for all its requests.
const DEPTH_MAX: usize = 64;
/// Up to here a whole number with a point is written without one.
const WHOLE_MAX: f64 = 1e15;

/// The end of a line in YAML 1.1.
const NEXT_LINE: char = '\u{85}';

/// Words that are a truth, as small as they may be written.
const TRUTHS: [&str; 8] = ["y", "yes", "true", "on", "n", "no", "false", "off"];
/// The texts of a null.
const NULLS: [&str; 5] = ["", "~", "null", "Null", "NULL"];

/// A document, and the paths of its duplicate keys: the last value of a key counts.
type Read = (Value, Vec<Path>);

/// The first document of a text. An empty text is null; whatever comes behind the document is not looked at.
pub fn read(text: &str) -> Result<Read, String> {
    first(text, 0).map(|(read, _)| read)
}

/// Like `read`, for a text with a single document: a second document is an error that names its line. `lines_before`:
/// the number of lines that a larger text has before this text, for line numbers in errors.
pub fn read_whole(text: &str, lines_before: usize) -> Result<Read, String> {
    let (read, rest) = first(text, lines_before)?;
    rest.map(|()| read)
}

/// Like `read_whole` for a Compose file, where `yes`, `on`, `n` and their kind are texts.
pub fn read_compose(text: &str) -> Result<Read, String> {
    let (read, rest) = first_by(text, 0, respelling_of_compose)?;
    rest.map(|()| read)
}

/// What Go's strict reader says of each key that a mapping of the first document has twice. To be asked where the
/// reader found such keys.
pub fn twice(text: &str, lines_before: usize) -> Vec<String> {
    respelled(text, respelling).map(|text| doubled::doubled(&text, lines_before)).unwrap_or_default()
}

/// The first document, and the error in the text behind the document, if any.
fn first(text: &str, lines_before: usize) -> Result<(Read, Result<(), String>), String> {
    first_by(text, lines_before, respelling)
}

fn first_by(text: &str, lines_before: usize, respell: Respell) -> Result<(Read, Result<(), String>), String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: NODES_MAX, max_depth: DEPTH_MAX, flow_nesting_limit: DEPTH_MAX },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let of_line = |fault: Fault| fault.said(lines_before);
    if text.trim_start_matches([' ', '\n']).starts_with('\t') {
        return Err("found character that cannot start any token".to_owned());
    }
    let text = &*respelled(text, respell).map_err(of_line)?;
    kept::check(text)?;
    let mut first = None;
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |reader| {
        first = Some(read_from(reader)?);
        Ok(())
    });
    let rest = read.map_err(|error| of_line(fault(text, &error)));
    match first {
        Some((mut document, twice)) => {
            whole(&mut document);
            Ok(((document, twice), rest))
        }
        None => rest.map(|()| ((Value::Null, Vec::new()), Ok(()))),
    }
}

/// What is wrong, and in which line where that is known.
struct Fault {
    line: usize,
    text: String,
}

impl Fault {
    /// Go's reader says no line of the first.
    fn said(self, lines_before: usize) -> String {
        let Fault { line, text } = self;
        match line {
            0 => text,
            line if line + lines_before > 1 => format!("line {}: {text}", line + lines_before),
            _ => text,
        }
    }
}

/// Whether what is read may be larger than the text.
pub fn may_repeat(text: &str) -> bool {
    text.contains('&') && text.contains('*')
}

/// How a plain scalar is written instead, where the reader would take it for something else.
type Respell = fn(&str) -> Option<String>;

/// Rewrites the parts of a text that this reader takes for something different than Go's reader does. Most texts have
/// no such part.
fn respelled(text: &str, respell: Respell) -> Result<Cow<'_, str>, Fault> {
    let text = if text.contains(NEXT_LINE) { Cow::Owned(text.replace(NEXT_LINE, "\n")) } else { Cow::Borrowed(text) };
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_.+-".contains(c));
    let mut escapes = text.split('\\').skip(1);
    if !words.any(|word| respell(word).is_some())
        && !escapes.any(|escape| no_escape(escape).is_some())
        && !text.contains("!!null")
    {
        return Ok(text);
    }
    let (mut written, mut done) = (String::with_capacity(text.len() + 16), 0);
    // Where it breaks off, the reader says why. It looks at the first document only.
    for (event, span) in
        Parser::new_from_str(&text).map_while(Result::ok).take_while(|(event, _)| !matches!(event, Event::DocumentEnd))
    {
        let Event::Scalar(value, style, _, tag) = event else { continue };
        match (tag, span.byte_range()) {
            (Some(tag), _) if tag.is_yaml_core_schema_tag("null") && !NULLS.contains(&&*value) => {
                return Err(Fault { line: 0, text: format!("cannot decode !!str `{value}` as a !!null") });
            }
            (None, Some(place)) if style == ScalarStyle::Plain => {
                if let Some(other) = respell(&value) {
                    written.push_str(&text[done..place.start]);
                    written.push_str(&other);
                    done = place.end;
                }
            }
            (_, Some(place)) if style == ScalarStyle::DoubleQuoted => escapes_known(&text, place)?,
            _ => {}
        }
    }
    written.push_str(&text[done..]);
    Ok(written.into())
}

/// Checks the escapes of a text in double quotes.
fn escapes_known(text: &str, place: Range<usize>) -> Result<(), Fault> {
    let mut rest = &text[place.clone()];
    while let Some((_, escape)) = rest.split_once('\\') {
        if let Some(why) = no_escape(escape) {
            let before = &text[..place.end - escape.len()];
            let line = before.matches('\n').count() + 1;
            return Err(Fault { line, text: why.to_owned() });
        }
        let mut behind = escape.chars();
        behind.next();
        rest = behind.as_str();
    }
    Ok(())
}

/// The message about an escape that JSON has and Go's YAML does not.
fn no_escape(escape: &str) -> Option<&'static str> {
    match escape.as_bytes() {
        [b'/', ..] => Some("found unknown escape character"),
        [b'u', b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F', ..] => {
            Some("found invalid Unicode character escape code")
        }
        _ => None,
    }
}

/// Reads a plain scalar by the rules of Go's reader: a truth is written in three ways and in no other, what no float
/// can hold is a text, and a number may have any underscores.
fn respelling(plain: &str) -> Option<String> {
    let (small, large) = (plain.to_ascii_lowercase(), plain.to_ascii_uppercase());
    if TRUTHS.contains(&&*small) {
        let as_names = plain[..1] == large[..1] && plain[1..] == small[1..];
        return (plain != small && plain != large && !as_names).then(|| format!("{plain:?}"));
    }
    let digits = plain.trim_start_matches(['+', '-']);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let bare = plain.replace('_', "");
    if (plain.contains("__") || plain.ends_with('_')) && bare.parse::<i64>().is_ok() {
        return Some(bare);
    }
    plain.parse::<f64>().is_ok_and(f64::is_infinite).then(|| format!("{plain:?}"))
}

/// Compose reads YAML 1.2, where `true` and `false` are the only truths.
fn respelling_of_compose(plain: &str) -> Option<String> {
    let small = plain.to_ascii_lowercase();
    if TRUTHS.contains(&&*small) && small != "true" && small != "false" {
        return Some(format!("{plain:?}"));
    }
    respelling(plain)
}

/// In the words of Go's reader, where they are known: `line 2: mapping values are not allowed in this context`.
fn fault(text: &str, error: &serde_saphyr::Error) -> Fault {
    let all = error.to_string();
    let said = all.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let said = said.split_once(" at line ").map_or(said, |(said, _)| said).trim_end_matches(" (defined");
    let Some(at) = error.location() else { return Fault { line: 0, text: said.to_owned() } };
    if said == "alias references unknown anchor" {
        let line = (at.line() as usize).checked_sub(1).and_then(|before| text.lines().nth(before));
        let rest: String = line.unwrap_or_default().chars().skip(at.column() as usize).collect();
        let name = rest.split(|c: char| c.is_whitespace() || ",[]{}".contains(c)).next().unwrap_or_default();
        return Fault { line: 0, text: format!("unknown anchor '{name}' referenced") };
    }
    Fault { line: at.line() as usize, text: said.to_owned() }
}

/// `1.0` is written as `1` in JSON, and so a whole number.
fn whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < WHOLE_MAX {
                *number = Number::from(float as i64);
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(whole),
        Value::Array(items) => items.iter_mut().for_each(whole),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: Value) {
        assert_eq!(read(text).map(|(document, _)| document), Ok(expected), "{text}");
    }

    #[test]
    fn as_compose_reads() {
        let text = "on: yes\nn: [No, off, y, true, FALSE]\ntext: 'on'\ncommand: say yes\n";
        let (read, _) = read_compose(text).unwrap();
        assert_eq!(
            read,
            json!({"on": "yes", "n": ["No", "off", "y", true, false], "text": "on", "command": "say yes"})
        );
        assert!(read_compose("a: [").is_err());
    }

    #[test]
    fn as_yaml_1_1() {
        check("", Value::Null);
        check("# nothing\n", Value::Null);
        check(
            "data: {k: yes, l: on, m: \"yes\", p: ~, o: 2020-01-01}",
            json!({"data": {"k": true, "l": true, "m": "yes", "p": null, "o": "2020-01-01"}}),
        );
        check(
            "a: 0644\nb: 0x10\nc: 1_000\nd: 1.0\ne: 1e3\nf: 1.5",
            json!({"a": 420, "b": 16, "c": 1000, "d": 1, "e": 1000, "f": 1.5}),
        );
        check("{yes: \"1\", 5: \"2\", n: \"3\", 1.5: \"4\"}", json!({"true": "1", "5": "2", "false": "3", "1.5": "4"}));
        check("kind: ConfigMap\n---\nkind: Secret\n", json!({"kind": "ConfigMap"}));
        check(
            "{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"j\"}}",
            json!({"kind": "ConfigMap", "metadata": {"name": "j"}}),
        );
        check(
            "multi: |\n  one\n  two\nfolded: >-\n  a\n  b\nempty: \"\"\n",
            json!({"multi": "one\ntwo\n", "folded": "a b", "empty": ""}),
        );
        check("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}", json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}));
        check("just text", json!("just text"));
    }

    #[test]
    fn scalars_are_those_of_go() {
        let truths =
            "[y, Y, yes, Yes, YES, on, On, ON, true, True, TRUE, n, N, no, No, NO, off, Off, OFF, false, False, FALSE]";
        check(truths, json!([[true; 11], [false; 11]].concat()));
        check(
            "[yES, tRUE, oN, nO, oFF, fALSE, \"oN\", 'yEs']",
            json!(["yES", "tRUE", "oN", "nO", "oFF", "fALSE", "oN", "yEs"]),
        );
        check(
            "a: oN # oN\noN: yes\nb: &x yeS\nc: *x\nd: a oN b",
            json!({"a": "oN", "oN": true, "b": "yeS", "c": "yeS", "d": "a oN b"}),
        );
        check("[1e400, 0.1e400, 7e99999, -1e999, 1e3]", json!(["1e400", "0.1e400", "7e99999", "-1e999", 1000]));
        check("[1__0, 1_, -1__0, 1_000, _1, '1__0', a__1]", json!([10, 1, -10, 1000, "_1", "1__0", "a__1"]));
        check("é: |\n  oN\n  1e400\nb: oN\n---\nc: oN", json!({"é": "oN\n1e400\n", "b": "oN"}));
        check("[!!null , !!null ~, !!str oN, !!null null]", json!([null, null, "oN", null]));
        assert_eq!(read("a: !!null x"), Err("cannot decode !!str `x` as a !!null".to_owned()));
        assert!(read("a: .inf").is_err());
    }

    #[test]
    fn escapes_and_line_ends_are_those_of_go() {
        check(
            "[\"a\\\\/b\", '\\/', \"\\u00e9\\U0001F600\\N\", \"\\\\ud83d\"]",
            json!(["a\\/b", "\\/", "é😀\u{85}", "\\ud83d"]),
        );
        check("a: \"b\u{85} c\" # d\u{85}e: f", json!({"a": "b c", "e": "f"}));
        for (text, why) in [
            (r#"a: "http:\/\/b""#, "found unknown escape character"),
            ("a: b\nc: \"\n  \\\\\\/\"", "line 3: found unknown escape character"),
            (r#"a: "\ud83d\ude00""#, "found invalid Unicode character escape code"),
        ] {
            assert_eq!(read(text), Err(why.to_owned()), "{text}");
        }
        assert!(read(r#"a: "\uD83D""#).is_err());
    }

    #[test]
    fn one_document_and_nothing_else() {
        assert_eq!(read_whole("---\na: 1\n...\n", 0).map(|(document, _)| document), Ok(json!({"a": 1})));
        for text in ["a: 1\n---\nb: 2\n", "a: 1\n---\n[\n"] {
            assert!(read_whole(text, 0).unwrap_err().starts_with("line "), "{text}: {:?}", read_whole(text, 0));
        }
    }

    #[test]
    fn the_last_of_two_keys_counts() {
        let text = "data:\n  a: 1\n  a: 2\n";
        let (document, twice) = read(text).unwrap();
        assert_eq!((document, twice[0].as_str()), (json!({"data": {"a": 2}}), "data.a"));
        assert_eq!(super::twice(text, 0), ["line 3: key \"a\" already set in map"]);
        assert_eq!(super::twice("data: {a: 1}\n", 0), Vec::<String>::new());
    }

    #[test]
    fn lines_are_counted_with_those_before() {
        for (text, before, why) in [
            ("a: b: c", 0, "mapping values are not allowed in this context"),
            ("a: b: c", 4, "line 5: mapping values are not allowed in this context"),
            ("a: b\nc: \"\n  \\/\"", 4, "line 7: found unknown escape character"),
            ("a: *m\n", 4, "unknown anchor 'm' referenced"),
        ] {
            assert_eq!(read_whole(text, before), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn no_yaml() {
        for text in ["a: b: c", "\tkind: x", "data: {k: *missing}", "a: [", "{", "a: \"\n"] {
            assert!(read(text).is_err(), "{text}");
        }
        for (text, why) in [
            ("a: b: c", "mapping values are not allowed in this context"),
            ("a: 1\nb: c: d", "line 2: mapping values are not allowed in this context"),
            ("\tkind: x", "found character that cannot start any token"),
            ("data: {k: *missing}", "unknown anchor 'missing' referenced"),
            ("a: *m\n", "unknown anchor 'm' referenced"),
        ] {
            assert_eq!(read(text), Err(why.to_owned()));
        }
        let deep = "[".repeat(10_000);
        let wide = format!("[{}]", "a,".repeat(NODES_MAX + 1));
        let bomb = (0..30).fold("a0: &a0 [x, x, x, x]\n".to_owned(), |text, n| {
            format!("{text}a{}: &a{} [*a{n}, *a{n}, *a{n}, *a{n}]\n", n + 1, n + 1)
        });
        let merged = "a: &a {b: c}\nd:".to_owned() + &" {<<: [*a, *a], e:".repeat(2) + &"}".repeat(2);
        assert_eq!(read(&merged).unwrap().0, json!({"a": {"b": "c"}, "d": {"b": "c", "e": {"b": "c", "e": null}}}));
        let letters = "abcdefgh".chars().zip("bcdefghij".chars());
        let merges =
            letters.map(|(from, to)| format!("{to}: &{to} {{<<: [{}]}}\n", vec![format!("*{from}"); 50].join(",")));
        let merges = "a: &a {k: 1}\n".to_owned() + &merges.collect::<String>();
        let why = read(&merges).unwrap_err();
        assert!(why.starts_with("its anchors, aliases and merge keys come to "), "{why}");
        for text in [deep, wide, bomb] {
            assert!(read(&text).is_err());
        }
    }
}
