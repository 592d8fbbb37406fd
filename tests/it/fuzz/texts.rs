//! Small languages: selectors, quantities, times, the text of types, targets of requests.

use super::{Dice, rounds, spoil_bytes};
use coracle_api::kinds::Kinds;
use coracle_api::selector::{FieldSelector, Grammar, LabelSelector};
use coracle_schema::{Quantity, Types, canonical_quantity};
use serde_json::json;
use std::fs;
use std::path::Path;

/// Spoiled bytes as text.
fn text(seeds: &[&str], dice: &mut Dice) -> String {
    let mut bytes = dice.pick(seeds).as_bytes().to_vec();
    if dice.once_in(3) {
        bytes.extend_from_slice(dice.pick(seeds).as_bytes());
    }
    spoil_bytes(&mut bytes, dice);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn label_selectors() {
    const SEEDS: &[&str] =
        &["a=b,c!=d", "a in (x, y),b notin (z)", "a,!b", "a==b", "n>5,m<7", "example.com/a in ()", "a = b , c", "((,", "in in (in)", "!!a"];
    let document = json!({"metadata": {"labels": {"a": "b", "n": "6", "example.com/a": ""}}});
    rounds(20_000, |dice| {
        let text = text(SEEDS, dice);
        for grammar in [Grammar::V1, Grammar::Old] {
            if let Ok(selector) = LabelSelector::parse(&text, grammar) {
                let matched = selector.matches_document(&document);
                assert!(matched || !selector.is_everything(), "{text:?}");
            }
        }
    });
}

#[test]
fn field_selectors() {
    const SEEDS: &[&str] = &["metadata.name=a", "spec.nodeName!=b,status.phase==Running", "a\\,b=c\\=d", "metadata.namespace=", "=", "\\"];
    let kinds = Kinds::builtin();
    let pods = kinds.by_kind("v1", "Pod").expect("pods are there");
    let document = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "b"}, "status": {"phase": "Running"}});
    rounds(20_000, |dice| {
        let text = text(SEEDS, dice);
        if let Ok(selector) = FieldSelector::parse(&text, pods) {
            let matched = selector.matches(&document);
            assert_eq!(matched, selector.matches_json(document.to_string().as_bytes()), "{text:?}");
        }
    });
}

/// What is canonical stays as it is, and says the same.
#[test]
fn quantities() {
    const SEEDS: &[&str] =
        &["1024Mi", "1.5Gi", "100m", "1e9", "+5Gi", "5.", "0.000000001", "9223372036854775807", "-3E", "1n", ".5k", "12E12"];
    rounds(20_000, |dice| {
        let text = text(SEEDS, dice);
        if let Ok(once) = canonical_quantity(&text) {
            assert_eq!(canonical_quantity(&once).as_deref(), Ok(&*once), "{text:?}");
            let milli = |text: &str| Quantity::parse(text).map(Quantity::milli).ok();
            assert_eq!(milli(&text), milli(&once), "{text:?} became {once:?}");
        }
    });
}

#[test]
fn texts_of_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/src/types");
    let files = fs::read_dir(folder).expect("the types' folder").map(|entry| entry.expect("an entry").path());
    let texts: Vec<String> =
        files.filter(|f| f.extension().is_some_and(|e| e == "txt")).map(|f| fs::read_to_string(f).expect("text")).collect();
    assert!(texts.len() > 10, "the types' texts are found");
    rounds(600, |dice| {
        let mut bytes = dice.pick(&texts).as_bytes().to_vec();
        (0..6).for_each(|_| spoil_bytes(&mut bytes, dice));
        let _ = Types::parse(&String::from_utf8_lossy(&bytes), &coracle_api::types::builtin());
    });
}

#[test]
fn targets_of_requests() {
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
    let kinds = Kinds::builtin();
    rounds(20_000, |dice| {
        let (path, query) = (text(PATHS, dice), text(QUERIES, dice));
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "BREW"] {
            let _ = coracle_master::call::parse(&kinds, method, &path, &query);
        }
    });
}
