//! SUPPORT.md is made from the tables that the programs go by, so it cannot say anything else than they do.
//!
//!     CORACLE_SUPPORT=write     writes it anew

use coracle_api::fields::{TABLE, Verdict};
use coracle_api::kinds::{Kind, Kinds, Verb};
use std::fmt::Write;
use std::{env, fs};

const HEAD: &str = "\
# What is supported

Made from the kind table (`api/src/kinds`) and the agent's field table (`api/src/fields.rs`); a test holds it to them.

## Kinds

Verbs are letters: **c**reate, **g**et, **l**ist, **w**atch, **u**pdate, **p**atch, **d**elete, delete **a**ll (a collection). Every
kind that is stored is decoded, defaulted, checked, patched, watched and printed by the rules of Kubernetes; the last column says
what comes of it.

| kind | in | short | verbs | parts | before v1 | what comes of it |
| --- | --- | --- | --- | --- | --- | --- |
";
const FIELDS: &str = "
## Fields of a pod

What the agent does about each field of a pod's spec; a row covers all below it that has no row of its own. A pod that asks for
a refused one is not started: whoever writes it is warned at once, and its status, event and log name the field.

| field | what becomes of it |
| --- | --- |
";

fn letters(verbs: &[Verb]) -> String {
    let letter = |verb: &Verb| match verb {
        Verb::Create => 'c',
        Verb::Get => 'g',
        Verb::List => 'l',
        Verb::Watch => 'w',
        Verb::Update => 'u',
        Verb::Patch => 'p',
        Verb::Delete => 'd',
        Verb::DeleteCollection => 'a',
    };
    "cglwupda".chars().filter(|c| verbs.iter().any(|verb| letter(verb) == *c)).collect()
}

fn outcome(kind: &Kind) -> &'static str {
    match kind {
        kind if kind.answer.is_some() => "answered, not stored",
        kind if kind.alias.is_some() => "another form of the same objects",
        kind if kind.idle => "stored only: nothing acts on it yet, and whoever writes one is told",
        _ => "acted on, or meant for its readers alone",
    }
}

fn row(kind: &Kind) -> String {
    let parts: Vec<String> = kind.subresources.iter().map(|part| format!("{} ({})", part.name, letters(&part.verbs))).collect();
    let old = kind.old.as_ref().map_or("", |old| if old.plural.is_empty() { "v1beta3 alone" } else { &old.plural });
    format!(
        "| {} {} | {} | {} | {} | {} | {} | {} |\n",
        kind.api_version(),
        kind.kind,
        if kind.namespaced { "namespace" } else { "cluster" },
        kind.short_names.join(", "),
        letters(&kind.verbs),
        parts.join(", "),
        old,
        outcome(kind)
    )
}

fn verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Acted => "acted on".to_owned(),
        Verdict::Harmless(why) => format!("harmless: {why}"),
        Verdict::Refused(why) => format!("refused: {why}"),
        Verdict::Only(values, why) => format!("acted on: {}; any other value is refused: {why}", values.join(", ")),
        Verdict::Keys(keys) => format!("acted on: {}; any other key is refused", keys.join(", ")),
    }
}

fn text() -> String {
    let kinds = Kinds::builtin();
    let mut rows: Vec<&Kind> = kinds.iter().collect();
    rows.sort_by(|a, b| (&a.resource.group, &a.version, &a.kind).cmp(&(&b.resource.group, &b.version, &b.kind)));
    let mut text = HEAD.to_owned();
    text.extend(rows.into_iter().map(row));
    text.push_str(FIELDS);
    for (field, said) in TABLE {
        writeln!(text, "| `{field}` | {} |", verdict(said)).unwrap();
    }
    text
}

#[test]
fn what_is_said_to_be_supported_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../SUPPORT.md");
    let wanted = text();
    if env::var("CORACLE_SUPPORT").is_ok_and(|value| value == "write") {
        fs::write(path, &wanted).unwrap();
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert!(found == wanted, "SUPPORT.md is not what the tables say ({differs:?}); CORACLE_SUPPORT=write makes it anew");
}
