//! The lines of the fields and entries of a document. PURE.

use super::{DEPTH_MAX, respelled};
use serde_saphyr::granit_parser::{Event, Parser};
use std::collections::HashMap;

/// A list or a mapping that is being read.
enum Open {
    /// With the number of the next entry.
    List(usize),
    /// A key comes next.
    Key,
    /// The value of a key comes next.
    Value,
}

/// The line of each path (`spec.containers[0].image`) in the first document of a text, where it can be found: the last
/// line of a field that stands there twice. `lines_before`: the number of lines before the text.
pub fn lines(text: &str, lines_before: usize, paths: &[&str]) -> Vec<Option<usize>> {
    let Ok(text) = respelled(text, super::respelling) else { return vec![None; paths.len()] };
    let mut walk =
        Walk { path: String::new(), open: Vec::new(), found: paths.iter().map(|path| (plain(path), None)).collect() };
    for (event, span) in Parser::new_from_str(&text).map_while(Result::ok) {
        let line = lines_before + span.start.line();
        match event {
            Event::DocumentEnd => break,
            Event::Scalar(value, ..) => walk.scalar(&value, line),
            Event::Alias(_) => walk.scalar("", line),
            Event::SequenceStart(..) => walk.begin(Open::List(0), line),
            Event::MappingStart(..) => walk.begin(Open::Key, line),
            Event::SequenceEnd | Event::MappingEnd => walk.end(),
            _ => {}
        }
        if walk.open.len() > DEPTH_MAX {
            break;
        }
    }
    paths.iter().map(|path| walk.found.get(&plain(path)).copied().flatten()).collect()
}

/// A path with the same separator before fields, keys and numbers.
fn plain(path: &str) -> String {
    path.replace('[', ".").replace(']', "").trim_start_matches('.').to_owned()
}

struct Walk {
    path: String,
    /// With the length of the path of each.
    open: Vec<(Open, usize)>,
    found: HashMap<String, Option<usize>>,
}

impl Walk {
    fn scalar(&mut self, value: &str, line: usize) {
        if let Some((Open::Key, _)) = self.open.last() {
            self.step(value, line);
            self.turn(Open::Value);
        } else {
            self.entry(line);
            self.value_ends();
        }
    }

    fn begin(&mut self, open: Open, line: usize) {
        if let Some((Open::Key, _)) = self.open.last() {
            // No key of a field.
            self.step("", line);
        } else {
            self.entry(line);
        }
        self.open.push((open, self.path.len()));
    }

    fn end(&mut self) {
        self.open.pop();
        match self.open.last() {
            // The mapping or list was a key.
            Some((Open::Key, _)) => self.turn(Open::Value),
            _ => self.value_ends(),
        }
    }

    /// An entry of a list begins.
    fn entry(&mut self, line: usize) {
        if let Some((Open::List(number), _)) = self.open.last() {
            let number = number.to_string();
            self.step(&number, line);
        }
    }

    fn step(&mut self, name: &str, line: usize) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(name);
        if let Some(found) = self.found.get_mut(&self.path) {
            *found = Some(line);
        }
    }

    fn turn(&mut self, next: Open) {
        if let Some((open, _)) = self.open.last_mut() {
            *open = next;
        }
    }

    /// The value of a key, or an entry of a list, is whole.
    fn value_ends(&mut self) {
        let Some((open, length)) = self.open.last_mut() else { return };
        self.path.truncate(*length);
        match open {
            Open::List(number) => *number += 1,
            other => *other = Open::Key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_field() {
        let text = "# a pod\nkind: Pod\nspec:\n  containers:\n  - name: c\n    image: x\n    image: y\n  - {name: d, \
                    env: [{name: a},\n      {name: b}]}\n? [a, b]\n: 1\nlast: {a.b/c: &x {k: 1},\n  m: *x}\n";
        let check = |path: &str, line: Option<usize>| assert_eq!(lines(text, 0, &[path]), [line], "{path}");
        check("kind", Some(2));
        check("spec", Some(3));
        check("spec.containers[0]", Some(5));
        check("spec.containers[0].image", Some(7));
        check("spec.containers[1].env[1].name", Some(9));
        check("last", Some(12));
        check("last[a.b/c].k", Some(12));
        check("last.m", Some(13));
        check("last.m.k", None);
        check("no", None);
        assert_eq!(lines(text, 10, &["kind", "last"]), [Some(12), Some(22)]);
        assert_eq!(lines("{\"a\": [\n {\"b\": 1},\n {\"b\": 2}]}", 0, &["a[1].b", "a[1]"]), [Some(3), Some(3)]);
        assert_eq!(lines("a: [\n", 0, &["a"]), [Some(1)]);
    }
}
