//! Turns the text of the built-in types into static tables, so that the programs start with nothing to read and hold
//! nothing of it on the heap.

use coracle_schema::Types;
use coracle_schema::types::{Container, Element, Field, Merge, Rule, Rules};
use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

/// In `src/types`.
const TEXTS: [&str; 5] = ["meta.txt", "node.txt", "pod.txt", "service.txt", "volume.txt"];

fn main() -> io::Result<()> {
    let folder = Path::new("src/types");
    let mut text = String::new();
    for name in TEXTS {
        let path = folder.join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        text.push_str(&fs::read_to_string(path)?);
        text.push('\n');
    }
    let types = Types::parse(&text, &Types::default()).map_err(io::Error::other)?;
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("no OUT_DIR: build scripts are run by cargo"))?;
    fs::write(Path::new(&out).join("types.rs"), tables(&types))
}

/// One static a type's fields, one for all types.
fn tables(types: &Types) -> String {
    let (mut fields, mut rows) = (String::new(), String::new());
    for (n, row) in types.iter().enumerate() {
        let all: Vec<String> = row.fields.iter().map(field).collect();
        // Writing to a String cannot fail; the results are dropped.
        let _ = writeln!(fields, "static FIELDS_{n}: [Field; {}] = [{}];", all.len(), all.join(",\n"));
        let _ = writeln!(rows, "Type {{ name: Cow::Borrowed({:?}), fields: Cow::Borrowed(&FIELDS_{n}) }},", row.name);
    }
    format!("{fields}\nstatic ROWS: [Type; {}] = [\n{rows}];\n", types.iter().count())
}

fn field(field: &Field) -> String {
    let element = match &field.element {
        Element::Named(name) => format!("Element::Named(Cow::Borrowed({name:?}))"),
        plain => format!("Element::{plain:?}"),
    };
    let container = match field.container {
        Container::One => "One",
        Container::List => "List",
        Container::Map => "Map",
    };
    let rules = match &field.rules {
        Rules::None => "Rules::None".to_owned(),
        some => format!("Rules::Static(&{})", rule(some)),
    };
    format!(
        "Field {{ name: Cow::Borrowed({:?}), number: {}, inside: {}, element: {element}, container: Container::{container}, rules: {rules} }}",
        field.name, field.number, field.inside
    )
}

fn rule(rule: &Rule) -> String {
    let default = match &rule.default {
        Some(json) => format!("Some(Cow::Borrowed({json:?}))"),
        None => "None".to_owned(),
    };
    let merge = match &rule.merge {
        Merge::Keys(keys) => format!("Merge::Keys({})", texts(keys)),
        plain => format!("Merge::{plain:?}"),
    };
    format!(
        "Rule {{ required: {}, default: {default}, zero_is_missing: {}, choices: {}, merge: {merge}, patch: Cow::Borrowed({:?}), prose: Cow::Borrowed({:?}) }}",
        rule.required,
        rule.zero_is_missing,
        texts(&rule.choices),
        rule.patch,
        rule.prose
    )
}

fn texts(texts: &[std::borrow::Cow<'static, str>]) -> String {
    let all: Vec<String> = texts.iter().map(|text| format!("Cow::Borrowed({text:?})")).collect();
    format!("Cow::Borrowed(&[{}])", all.join(", "))
}
