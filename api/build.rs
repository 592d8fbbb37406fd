//! Turns the text of the built-in types into static tables, so that the programs start with nothing to read and hold
//! nothing of it on the heap.

use coracle_schema::Types;
use coracle_schema::types::{Container, Element, Field, Merge, Rule, Rules};
use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new("src/types");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut paths: Vec<_> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let mut text = String::new();
    for path in paths {
        println!("cargo::rerun-if-changed={}", path.display());
        text.push_str(&fs::read_to_string(path)?);
        text.push('\n');
    }
    let types = Types::parse(&text, &Types::default()).map_err(io::Error::other)?;
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("no OUT_DIR: build scripts are run by cargo"))?;
    fs::write(Path::new(&out).join("types.rs"), tables(&types))
}

/// One static a type's fields, one for all types, and one for each rule: many fields have the same.
fn tables(types: &Types) -> String {
    let (mut fields, mut rows) = (String::new(), String::new());
    let mut rules = Vec::new();
    for (n, row) in types.iter().enumerate() {
        let all: Vec<String> = row.fields.iter().map(|one| field(one, &mut rules)).collect();
        // Writing to a String cannot fail; the results are dropped.
        let _ = writeln!(fields, "static FIELDS_{n}: [Field; {}] = [{}];", all.len(), all.join(",\n"));
        let _ = writeln!(
            rows,
            "Type {{ name: Cow::Borrowed({:?}), package: Cow::Borrowed({:?}), atomic: {}, fields: \
             Cow::Borrowed(&FIELDS_{n}) }},",
            row.name, row.package, row.atomic
        );
    }
    let mut shared = String::new();
    for (n, rule) in rules.iter().enumerate() {
        let _ = writeln!(shared, "static RULE_{n}: Rule = {rule};");
    }
    format!(
        "{shared}\n{fields}\nstatic ROWS: [Type; {}] = [\n{rows}];\nstatic PROSE: &str = {:?};\n",
        types.iter().count(),
        types.own_prose()
    )
}

fn field(field: &Field, rules: &mut Vec<String>) -> String {
    let element = match &field.element {
        Element::Named(name) => format!("Element::Named(Cow::Borrowed({name:?}))"),
        plain => format!("Element::{plain:?}"),
    };
    let container = match field.container {
        Container::One => "One",
        Container::List => "List",
        Container::Map => "Map",
        Container::MapOfLists => "MapOfLists",
    };
    let rules = match &field.rules {
        Rules::None => "Rules::None".to_owned(),
        some => format!("Rules::Static(&RULE_{})", place(rules, rule(some))),
    };
    format!(
        "Field {{ name: Cow::Borrowed({:?}), number: {}, inside: {:?}, element: {element}, container: \
         Container::{container}, rules: {rules} }}",
        field.name, field.number, field.inside
    )
}

/// Where a rule stands among those seen so far.
fn place(rules: &mut Vec<String>, rule: String) -> usize {
    match rules.iter().position(|other| *other == rule) {
        Some(at) => at,
        None => {
            rules.push(rule);
            rules.len() - 1
        }
    }
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
        "Rule {{ required: {}, default: {default}, zero_is_missing: {}, choices: {}, merge: {merge}, declared: {}, \
         pointer: {}, patch: Cow::Borrowed({:?}) }}",
        rule.required,
        rule.zero_is_missing,
        texts(&rule.choices),
        rule.declared,
        rule.pointer,
        rule.patch
    )
}

fn texts(texts: &[std::borrow::Cow<'static, str>]) -> String {
    let all: Vec<String> = texts.iter().map(|text| format!("Cow::Borrowed({text:?})")).collect();
    format!("Cow::Borrowed(&[{}])", all.join(", "))
}
