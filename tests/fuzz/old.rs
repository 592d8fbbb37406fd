//! Documents of v1beta1 to v1beta3.

use super::Dice;
use coracle_api::old::{Half, Version, decode, decode_any, encode, merge_put, path};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

/// What the versions had, by their own names.
const KINDS: &[&str] = &[
    "Pod",
    "ReplicationController",
    "Service",
    "Endpoints",
    "Minion",
    "Node",
    "Event",
    "Namespace",
    "Binding",
    "Secret",
    "ServiceAccount",
    "LimitRange",
    "ResourceQuota",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ComponentStatus",
    "PodTemplate",
];

struct Seeds {
    documents: Vec<Value>,
    /// Everything that stands in them, to be put elsewhere.
    parts: Vec<Value>,
    names: Vec<String>,
}

static SEEDS: LazyLock<Seeds> = LazyLock::new(|| {
    let mut documents: Vec<Value> = ["full", "full-v1beta3", "examples"].into_iter().flat_map(found).collect();
    let rich = found("rich");
    documents.extend(
        Version::ALL.into_iter().flat_map(|version| rich.iter().map(move |document| encode(version, document))),
    );
    let (mut parts, mut names) = (Vec::new(), BTreeSet::new());
    for document in &documents {
        take_apart(document, &mut parts, &mut names);
    }
    parts.extend([
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!("9".repeat(200)),
        json!("\u{0}\u{fffd}"),
        json!({"": {"": []}}),
        json!(i64::MIN),
    ]);
    Seeds { documents, parts, names: names.into_iter().collect() }
});

/// All documents below a folder of the data, the same in every run.
fn found(folder: &str) -> Vec<Value> {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data/v1beta1").join(folder)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).expect("a folder of the data").map(|entry| entry.expect("an entry").path());
        let (inner, here): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
        folders.extend(inner);
        files.extend(here);
    }
    files.sort();
    files
        .iter()
        .map(|path| serde_json::from_slice(&fs::read(path).expect("a file of the data")).expect("JSON"))
        .collect()
}

fn take_apart(value: &Value, parts: &mut Vec<Value>, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            names.insert(name.clone());
            take_apart(value, parts, names);
        }),
        Value::Array(list) => list.iter().for_each(|value| take_apart(value, parts, names)),
        _ => {}
    }
    parts.push(value.clone());
}

/// Changes a document here and there: values go, come from elsewhere, are doubled, or change their names.
fn exchange(value: &mut Value, dice: &mut Dice) {
    if dice.once_in(25) {
        *value = dice.pick(&SEEDS.parts).clone();
        return;
    }
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(|value| exchange(value, dice));
            if dice.once_in(12) {
                map.insert(dice.pick(&SEEDS.names).clone(), dice.pick(&SEEDS.parts).clone());
            }
            if let Some(name) = map.keys().next().cloned().filter(|_| dice.once_in(25)) {
                map.remove(&name);
            }
        }
        Value::Array(list) => {
            list.iter_mut().for_each(|value| exchange(value, dice));
            if let Some(entry) = list.last().cloned().filter(|_| dice.once_in(10)) {
                list.push(entry);
            }
        }
        _ => {}
    }
}

pub fn document(dice: &mut Dice) {
    let mut document = dice.pick(&SEEDS.documents).clone();
    exchange(&mut document, dice);
    read(&document, dice.pick::<&str>(KINDS));
}

/// Whatever is sent, it is read or refused; what is read can be shown, read again and put back without a change.
pub fn read(document: &Value, otherwise: &str) {
    let _ = decode_any(document);
    let kind = document.get("kind").and_then(Value::as_str).filter(|kind| KINDS.contains(kind)).unwrap_or(otherwise);
    for version in Version::ALL {
        let Ok(found) = decode(version, kind, document) else { continue };
        let mut v1 = found.object;
        // A stored revision is a number; only v1beta3 can say another.
        let revision = v1["metadata"]["resourceVersion"].as_str();
        if revision.is_some_and(|text| text.parse::<u64>().is_err())
            && let Some(metadata) = v1["metadata"].as_object_mut()
        {
            metadata.remove("resourceVersion");
        }
        let name = v1["kind"].as_str().unwrap_or_default();
        // Of v1beta3 more can be read than v1 would take, such as a volume of no source, and only v1beta3 shows that
        // again.
        let says_all = |other: &Version| *other == version || version.is_flat();
        for shown_in in
            Version::ALL.into_iter().filter(says_all).filter(|version| path(*version, name, None, "a").is_some())
        {
            put_back(shown_in, name, &v1, document);
        }
    }
}

fn put_back(version: Version, kind: &str, v1: &Value, sent: &Value) {
    let shown = encode(version, v1);
    let again = decode(version, kind, &shown)
        .unwrap_or_else(|why| panic!("{sent}\nis shown in {} as\n{shown}\nwhich is {why}", version.name()));
    let mut expected = v1.clone();
    // A PUT of a document without a revision is unconditional; all else is as stored.
    if again.object["metadata"].get("resourceVersion").is_none()
        && let Some(metadata) = expected["metadata"].as_object_mut()
    {
        metadata.remove("resourceVersion");
    }
    assert_eq!(merge_put(v1, &again, Half::Asked), expected, "{sent}\nshown in {} as\n{shown}", version.name());
    assert!(again.unknown.is_empty(), "{:?} is shown in {} and not read: {shown}", again.unknown, version.name());
}
