//! PURE. Bounds the memory that the YAML reader needs beside the text: repeated aliases, remembered anchors and merge
//! keys. It is counted before any of it is built, so a line that repeats itself a million times costs what a line
//! costs.

use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};
use std::collections::HashMap;

/// Nodes that are repeated or remembered: an anchor of a hundred used a few hundred times. Each takes some 200 bytes.
pub const NODES_MAX: usize = 50_000;
/// The same of their text: more than an object may have in all.
pub const BYTES_MAX: usize = 4 << 20;

/// A node with all that is in it.
#[derive(Clone, Copy, Default)]
struct Weight {
    nodes: usize,
    bytes: usize,
    /// The memory of its nodes beside their content.
    kept_nodes: usize,
    kept_bytes: usize,
}

impl Weight {
    fn and(self, other: Weight) -> Weight {
        Weight {
            nodes: self.nodes.saturating_add(other.nodes),
            bytes: self.bytes.saturating_add(other.bytes),
            kept_nodes: self.kept_nodes.saturating_add(other.kept_nodes),
            kept_bytes: self.kept_bytes.saturating_add(other.kept_bytes),
        }
    }

    /// The weight with an additional kept copy of the node.
    fn kept(self) -> Weight {
        Weight {
            kept_nodes: self.kept_nodes.saturating_add(self.nodes),
            kept_bytes: self.kept_bytes.saturating_add(self.bytes),
            ..self
        }
    }
}

/// A list or a mapping that is being read.
struct Open {
    weight: Weight,
    anchor: usize,
    next: Next,
}

/// The next token.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Item,
    Key,
    Value,
    /// The value of a merge key, which is remembered until the mapping ends.
    Merged,
}

#[derive(Default)]
struct Count {
    open: Vec<Open>,
    anchors: HashMap<usize, Weight>,
    all: Weight,
}

/// Refuses a text of whose first document more is kept than there is room for. One that cannot be read is let through:
/// the reader says why.
pub fn check(text: &str) -> Result<(), String> {
    if !text.contains('&') && !text.contains("<<") {
        return Ok(());
    }
    let Weight { kept_nodes, kept_bytes, .. } = counted(text);
    if kept_nodes > NODES_MAX {
        return Err(format!("its anchors, aliases and merge keys come to {kept_nodes} nodes, at most {NODES_MAX}"));
    }
    if kept_bytes > BYTES_MAX {
        return Err(format!(
            "its anchors, aliases and merge keys come to {kept_bytes} bytes of text, at most {BYTES_MAX}"
        ));
    }
    Ok(())
}

fn counted(text: &str) -> Weight {
    let mut count = Count::default();
    let events = Parser::new_from_str(text).map_while(Result::ok).map(|(event, _)| event);
    for event in events.take_while(|event| !matches!(event, Event::DocumentEnd)) {
        match event {
            Event::Scalar(value, style, anchor, tag) => {
                let merges = value == "<<" && (style == ScalarStyle::Plain || tag.is_some());
                count.done(Weight { nodes: 1, bytes: value.len(), ..Weight::default() }, anchor, true, merges);
            }
            // An alias inside its own anchor has no known weight; the reader refuses such a text.
            Event::Alias(anchor) => {
                let weight = count.anchors.get(&anchor).copied().unwrap_or_default();
                count.put(weight.kept(), false, false);
            }
            Event::SequenceStart(_, anchor, _) => {
                count.open.push(Open { weight: Weight::default(), anchor, next: Next::Item })
            }
            Event::MappingStart(_, anchor, _) => {
                count.open.push(Open { weight: Weight::default(), anchor, next: Next::Key })
            }
            Event::SequenceEnd | Event::MappingEnd => count.close(),
            _ => {}
        }
    }
    count.all
}

impl Count {
    /// A node is complete; a node with an anchor is remembered. `merges`: as a key, the node is a merge key.
    fn done(&mut self, weight: Weight, anchor: usize, is_scalar: bool, merges: bool) {
        let weight = if anchor > 0 {
            self.anchors.insert(anchor, weight);
            weight.kept()
        } else {
            weight
        };
        self.put(weight, is_scalar, merges);
    }

    /// Adds a node to the list or mapping around the node. A mapping or list as a key is kept once more.
    fn put(&mut self, weight: Weight, is_scalar: bool, merges: bool) {
        let Some(open) = self.open.last_mut() else {
            self.all = self.all.and(weight);
            return;
        };
        let (weight, next) = match open.next {
            Next::Item => (weight, Next::Item),
            Next::Key => {
                (if is_scalar { weight } else { weight.kept() }, if merges { Next::Merged } else { Next::Value })
            }
            Next::Value => (weight, Next::Key),
            Next::Merged => (weight.kept(), Next::Key),
        };
        (open.weight, open.next) = (open.weight.and(weight), next);
    }

    fn close(&mut self) {
        let Some(Open { weight, anchor, .. }) = self.open.pop() else { return };
        self.done(weight.and(Weight { nodes: 1, ..Weight::default() }), anchor, false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str) -> (usize, usize) {
        let count = counted(text);
        (count.kept_nodes, count.kept_bytes)
    }

    #[test]
    fn what_is_kept() {
        for (text, expected) in [
            ("a: [b, c]", (0, 0)),
            ("a: &a bcd", (1, 3)),
            ("a: &a bcd\nb: *a\nc: *a", (3, 9)),
            ("a: &a [b, &b c]", (4, 3)),
            // Its two, again in the second line, which is three; in the last line all of that.
            ("a: &a [b]\nb: &b [*a]\nc: *b", (2 + 2 + 3 + 5, 5)),
            ("a: {<<: {b: c}}", (3, 2)),
            ("a: {'<<': {b: c}}", (0, 0)),
            ("a: &a {b: c}\nd: {<<: *a}", (9, 6)),
            ("? [a, b]\n: c", (3, 2)),
            ("a: &a [*a]", (1, 0)),
            ("a: &a b\n---\nc: *a", (1, 1)),
            ("a: &a [b", (0, 0)),
        ] {
            assert_eq!(kept(text), expected, "{text}");
        }
    }

    /// Whether the reader takes them is told in `yaml`.
    #[test]
    fn what_repeats_itself_costs_what_a_line_costs() {
        let letters = || "abcdefgh".chars().zip("bcdefghij".chars());
        let many = |from: char, times: usize| vec![format!("*{from}"); times].join(",");
        let laugh: String = letters().map(|(from, to)| format!("{to}: &{to} [{}]\n", many(from, 10))).collect();
        let merge: String =
            letters().map(|(from, to)| format!("{to}: &{to} {{<<: [{}], k{to}: 1}}\n", many(from, 50))).collect();
        let scalar = format!("a: &a \"{}\"\nb: [{}]", "x".repeat(100_000), many('a', 42));
        let nested = format!("{}{}{}", "&a [".repeat(50), "a,".repeat(1_000), "]".repeat(50));
        for (text, unit) in [
            (format!("a: &a [x,x,x,x,x,x,x,x,x,x]\n{laugh}"), "nodes"),
            (format!("a: &a {{k: 1}}\n{merge}"), "nodes"),
            (scalar, "bytes"),
            (nested, "nodes"),
        ] {
            let why = check(&text).unwrap_err();
            assert!(why.contains(unit), "{why}");
        }
    }

    #[test]
    fn what_people_write_has_room() {
        let anchor = "a: &a {limits: {cpu: 1, memory: 128Mi}, requests: {cpu: 1, memory: 128Mi}}\n";
        let often: String = (0..100).map(|at| format!("c{at}: {{resources: *a, env: {{<<: *a, b: c}}}}\n")).collect();
        let block =
            format!("&all\nkind: ConfigMap\ndata:\n  a: |\n{}", format!("    {}\n", "y".repeat(75)).repeat(11_400));
        let large: String = (0..40_000).map(|at| format!("k{at}: v\n")).collect();
        for text in [format!("{anchor}{often}"), block, format!("a: & b && c\n{large}")] {
            assert_eq!(check(&text), Ok(()));
        }
    }
}
