//! The keys that a mapping has twice, each in the words of Go's strict reader: `line 3: key "a" already set in map`.
//! The line is the value's. PURE.

use super::{DEPTH_MAX, NULLS, TRUTHS, read};
use serde_json::Value;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span};
use std::collections::HashSet;

/// The most keys that an answer names: nobody corrects more keys at a time.
const NAMED_MAX: usize = 200;

/// A list or a mapping that is being read.
struct Open {
    /// The keys so far; None: a list.
    keys: Option<HashSet<String>>,
    next: Next,
    /// Where it stands as the value of a key.
    line: usize,
}

/// The next node of a mapping.
enum Next {
    Key,
    /// None: the key is a merge key, or none that a mapping of texts can have.
    Value(Option<(String, usize)>),
}

/// The doubled keys in the first document, in the order in which the mappings end. `lines_before`: the number of lines
/// before the text.
pub fn doubled(text: &str, lines_before: usize) -> Vec<String> {
    let mut walk = Walk { open: Vec::new(), named: Vec::new(), lines_before };
    // Where the text is broken, the reader reports the error.
    for (event, span) in Parser::new_from_str(text).map_while(Result::ok) {
        match event {
            Event::DocumentEnd => break,
            Event::Scalar(value, style, _, tag) => {
                let is_plain = style == ScalarStyle::Plain && tag.is_none();
                // The parser writes a sign where nothing stands.
                let is_empty = is_plain && value == "~" && span.byte_range().and_then(|at| text.get(at)) != Some("~");
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                walk.scalar(if is_empty { "" } else { &value }, is_plain, is_empty || is_block, span);
            }
            Event::Alias(_) => walk.scalar("", true, false, span),
            Event::SequenceStart(..) => walk.begin(None, span),
            Event::MappingStart(..) => walk.begin(Some(HashSet::new()), span),
            Event::SequenceEnd | Event::MappingEnd => walk.end(),
            _ => {}
        }
        if walk.open.len() > DEPTH_MAX || walk.named.len() >= NAMED_MAX {
            break;
        }
    }
    walk.named
}

struct Walk {
    open: Vec<Open>,
    named: Vec<String>,
    lines_before: usize,
}

impl Walk {
    /// `with_key`: a value counts in the line of its key.
    fn scalar(&mut self, value: &str, is_plain: bool, with_key: bool, span: Span) {
        let Some(open) = self.open.last_mut().filter(|open| open.keys.is_some()) else { return };
        match &open.next {
            Next::Key if is_plain && value == "<<" => open.next = Next::Value(None),
            Next::Key => open.next = Next::Value(Some((shown(value, is_plain), span.end.line()))),
            Next::Value(key) => {
                let of_key = key.as_ref().map_or(0, |(_, line)| *line);
                let line = if with_key { of_key } else { span.start.line() };
                self.value(line);
            }
        }
    }

    fn begin(&mut self, keys: Option<HashSet<String>>, span: Span) {
        self.open.push(Open { keys, next: Next::Key, line: span.start.line() });
    }

    fn end(&mut self) {
        let Some(ended) = self.open.pop() else { return };
        let Some(open) = self.open.last_mut().filter(|open| open.keys.is_some()) else { return };
        match open.next {
            Next::Key => open.next = Next::Value(None),
            Next::Value(_) => self.value(ended.line),
        }
    }

    /// The value of the key before it is whole.
    fn value(&mut self, line: usize) {
        let Some(open) = self.open.last_mut() else { return };
        let (Some(keys), Next::Value(key)) = (&mut open.keys, std::mem::replace(&mut open.next, Next::Key)) else {
            return;
        };
        let Some((key, _)) = key else { return };
        if keys.contains(&key) {
            self.named.push(format!("line {}: key {key} already set in map", self.lines_before + line));
        } else {
            keys.insert(key);
        }
    }
}

/// A key as Go writes it: `"a"`, `5`, `true`. Two that are written alike are the same key.
fn shown(key: &str, is_plain: bool) -> String {
    let is_word = key.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let is_text = is_word && !TRUTHS.contains(&&*key.to_ascii_lowercase()) && !NULLS.contains(&key);
    match read(key) {
        _ if !is_plain || is_text => format!("{key:?}"),
        Ok((Value::Null, _)) => "<nil>".to_owned(),
        Ok((value @ (Value::Number(_) | Value::Bool(_)), _)) => value.to_string(),
        _ => format!("{key:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_with_the_line_of_its_value() {
        let check = |text: &str, expected: &[&str]| assert_eq!(doubled(text, 0), expected, "{text}");
        check("a: 1\nb: {a: 1}\nc: [a, a]\n", &[]);
        check(
            "a: 1\na: 2\na: 3\n",
            &[r#"line 2: key "a" already set in map"#, r#"line 3: key "a" already set in map"#],
        );
        check(
            "a:\n  b: 1\na:\n  b: 1\n  b: 2\n",
            &[r#"line 5: key "b" already set in map"#, r#"line 4: key "a" already set in map"#],
        );
        check("a: [1]\na:\n\n- 1\n", &[r#"line 4: key "a" already set in map"#]);
        check("a:\na:\n\nb: 1\n", &[r#"line 2: key "a" already set in map"#]);
        check("a: x\n\"a\": |\n  y\n", &[r#"line 2: key "a" already set in map"#]);
        check("l:\n- {b: 1, b: 2}\n- {b: 1}\n", &[r#"line 2: key "b" already set in map"#]);
        check("5: a\n0x5: b\n\"5\": c\n", &["line 2: key 5 already set in map"]);
        check("yes: a\ntrue: b\n'yes': c\nyES: d\n", &["line 2: key true already set in map"]);
        check("~: a\nnull: b\n", &["line 2: key <nil> already set in map"]);
        check("a: &x {b: 1}\nc: {<<: *x, b: 2}\nc: *x\n", &[r#"line 3: key "c" already set in map"#]);
        check("? [a, b]\n: 1\n? [a, b]\n: 2\n", &[]);
        check("a: 1\n---\nb: 1\nb: 2\n", &[]);
        assert_eq!(doubled("a: 1\na: 2\n", 10), [r#"line 12: key "a" already set in map"#]);
        assert_eq!(doubled(&"a: 1\n".repeat(NAMED_MAX * 2), 0).len(), NAMED_MAX);
    }
}
