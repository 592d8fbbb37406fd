//! Small languages: selectors, quantities, YAML, the text of types, targets of requests.

use super::documents::{builtin, document};
use super::{Dice, spoil_bytes};
use coracle_api::kinds::Kinds;
use coracle_api::selector::{FieldSelector, Grammar, LabelSelector};
use coracle_master::call::parse;
use coracle_schema::yaml::read as read_yaml;
use coracle_schema::yaml::write as write_yaml;
use coracle_schema::{Quantity, Types, canonical_quantity};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

static KINDS: LazyLock<Kinds> = LazyLock::new(Kinds::builtin);

/// Spoiled bytes as text.
fn text(seeds: &[&str], dice: &mut Dice) -> String {
    let mut bytes = dice.pick(seeds).as_bytes().to_vec();
    if dice.once_in(3) {
        bytes.extend_from_slice(dice.pick(seeds).as_bytes());
    }
    spoil_bytes(&mut bytes, dice);
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn label_selector_text(dice: &mut Dice) {
    const SEEDS: &[&str] = &[
        "a=b,c!=d",
        "a in (x, y),b notin (z)",
        "a,!b",
        "a==b",
        "n>5,m<7",
        "example.com/a in ()",
        "a = b , c",
        "((,",
        "in in (in)",
        "!!a",
    ];
    label_selector(&text(SEEDS, dice));
}

pub fn label_selector(text: &str) {
    let document = json!({"metadata": {"labels": {"a": "b", "n": "6", "example.com/a": ""}}});
    for grammar in [Grammar::V1, Grammar::Old] {
        if let Ok(selector) = LabelSelector::parse(text, grammar) {
            let matched = selector.matches_document(&document);
            assert!(matched || !selector.is_everything(), "{text:?}");
        }
    }
}

pub fn field_selector_text(dice: &mut Dice) {
    const SEEDS: &[&str] =
        &["metadata.name=a", "spec.nodeName!=b,status.phase==Running", "a\\,b=c\\=d", "metadata.namespace=", "=", "\\"];
    field_selector(&text(SEEDS, dice));
}

pub fn field_selector(text: &str) {
    let pods = KINDS.by_kind("v1", "Pod").expect("pods are there");
    let document = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "b"}, "status": {"phase": "Running"}});
    if let Ok(selector) = FieldSelector::parse(text, pods) {
        let matched = selector.matches(&document);
        assert_eq!(matched, selector.matches_json(document.to_string().as_bytes()), "{text:?}");
    }
}

/// What is canonical stays as it is, and says the same.
pub fn quantity_text(dice: &mut Dice) {
    const SEEDS: &[&str] = &[
        "1024Mi",
        "1.5Gi",
        "100m",
        "1e9",
        "+5Gi",
        "5.",
        "0.000000001",
        "9223372036854775807",
        "-3E",
        "1n",
        ".5k",
        "12E12",
    ];
    let text = text(SEEDS, dice);
    if let Ok(once) = canonical_quantity(&text) {
        assert_eq!(canonical_quantity(&once).as_deref(), Ok(&*once), "{text:?}");
        let milli = |text: &str| Quantity::parse(text).map(Quantity::milli).ok();
        assert_eq!(milli(&text), milli(&once), "{text:?} became {once:?}");
    }
}

pub fn yaml_text(dice: &mut Dice) {
    const SEEDS: &[&str] = &[
        "a: &a [x, 'y', \"z\"]\nb: *a\n",
        "a:\n- b: |\n    c\n  d: >-\n    e\n    f\n",
        "{a: 1, b: 0x1f, c: 1.50, d: ~, e: yes, f: 2026-01-01}",
        "? a\n: !!str b\n# c\n--- \n...\n",
        "<<: {a: b}\n\"\\u00e4\": \"\\x41\\n\"\n",
    ];
    let mut bytes = if dice.once_in(2) {
        text(SEEDS, dice).into_bytes()
    } else {
        let (types, name) = (builtin().types(), dice.pick(builtin().all()));
        write_yaml(&document(types, name, dice, 2)).into_bytes()
    };
    spoil_bytes(&mut bytes, dice);
    yaml(&String::from_utf8_lossy(&bytes));
}

/// What is read of YAML is read the same again from what is written of it.
pub fn yaml(text: &str) {
    let Ok((found, _)) = read_yaml(text) else { return };
    let again = write_yaml(&found);
    assert_eq!(read_yaml(&again).map(|(document, _)| document).as_ref(), Ok(&found), "{text:?} written as {again:?}");
}

pub fn types_text(dice: &mut Dice) {
    static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/src/types");
        let files = fs::read_dir(folder).expect("the types' folder").map(|entry| entry.expect("an entry").path());
        files
            .filter(|f| f.extension().is_some_and(|e| e == "txt"))
            .map(|f| fs::read_to_string(f).expect("text"))
            .collect()
    });
    assert!(TEXTS.len() > 10, "the types' texts are found");
    let mut bytes = dice.pick(&TEXTS).as_bytes().to_vec();
    (0..6).for_each(|_| spoil_bytes(&mut bytes, dice));
    schema(&String::from_utf8_lossy(&bytes));
}

/// A text of types of somebody's own.
pub fn schema(text: &str) {
    let _ = Types::parse(text, builtin().types());
}

pub fn target(dice: &mut Dice) {
    const PATHS: &[&str] = &[
        "/api/v1/namespaces/default/pods/a/status",
        "/apis/apps/v1/namespaces/default/deployments/d/scale",
        "/api/v1/watch/namespaces/default/pods",
        "/api/v1beta1/pods/a",
        "/api/v1beta3/watch/services",
        "/apis/batch/v1/jobs",
        "/openapi/v3/apis/apps/v1",
        "/readyz/ping",
        "/api//v1/%2e%2e/%00",
    ];
    const QUERIES: &[&str] = &[
        "labelSelector=a%3Db&limit=5&continue=abc",
        "watch=true&resourceVersion=1&timeoutSeconds=3",
        "fieldManager=x&force=true&dryRun=All&fieldValidation=Strict",
        "&a=b&&",
        "gracePeriodSeconds=-1&propagationPolicy=Orphan",
        "namespace=x&labels=a",
        "verbose&exclude=ping",
    ];
    let (path, query) = (text(PATHS, dice), text(QUERIES, dice));
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "BREW"] {
        let _ = parse(&KINDS, method, &path, &query);
    }
}
