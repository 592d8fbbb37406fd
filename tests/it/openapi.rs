//! The schemas of all built-in types against those of a kube-apiserver 1.36 (`tests/data/v1/openapi.txt`): field by
//! field the type, whether it is required, choices, how lists and maps are merged, patch strategies and keys, and
//! defaults.
//!
//! Intended differences:
//!
//! 1. A default that Kubernetes sets in code and does not tell, ours tells: the type text has them all.
//! 2. A list of which Kubernetes says nothing is told to be atomic, which is what it is.
//! 3. Unions (of five types) are not told.
//! 4. What is anything at all has one name, RawExtension; Kubernetes calls it FieldsV1 in managed fields.
//! 5. Types that no kind of ours uses are not there.
//! 6. That a text is empty, a number zero or a switch off when it is missing is not told, nor that a map is merged by
//!    key.
//! 7. Choices that a kind's own rules look at, or that stand in a status, are not told (`CHOICES`).
//! 8. Bytes are not told to be a list.

use coracle_schema::openapi::{self, Dialect};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const CHOICES: [&str; 17] = [
    "AppArmorProfile.type",
    "AzureDiskVolumeSource.cachingMode",
    "AzureDiskVolumeSource.kind",
    "ContainerStatus.stopSignal",
    "ImageVolumeSource.pullPolicy",
    "Lifecycle.stopSignal",
    "NamespaceStatus.phase",
    "NodeSelectorRequirement.operator",
    "NodeStatus.phase",
    "PersistentVolumeClaimSpec.volumeMode",
    "PodSecurityContext.supplementalGroupsPolicy",
    "PodStatus.phase",
    "PodStatus.qosClass",
    "PortStatus.protocol",
    "Toleration.operator",
    "TopologySpreadConstraint.nodeAffinityPolicy",
    "TopologySpreadConstraint.nodeTaintsPolicy",
];

/// A field, `required`, `default=...` and the like.
type Field = BTreeSet<String>;

/// By type and field.
fn recorded() -> BTreeMap<String, BTreeMap<String, Field>> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/data/v1/openapi.txt")).unwrap();
    let mut types: BTreeMap<String, BTreeMap<String, Field>> = BTreeMap::new();
    let mut name = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix('[') {
            name = rest.split(']').next().unwrap().to_owned();
            types.entry(name.clone()).or_default();
            continue;
        }
        if line.starts_with("union ") || line.starts_with("= ") {
            continue;
        }
        let (field, rest) = line.split_once(' ').unwrap();
        types.get_mut(&name).unwrap().insert(field.to_owned(), rest.split(' ').map(str::to_owned).collect());
    }
    types
}

/// A schema in the words of the record.
fn fields_of(schema: &Value) -> BTreeMap<String, Field> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut fields = BTreeMap::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let mut words = Field::from([kind(property)]);
        if required.contains(&name.as_str()) {
            words.insert("required".to_owned());
        }
        if let Some(default) = property.get("default").filter(|default| !default.is_object()) {
            words.insert(format!("default={default}"));
        }
        let choices = property.get("enum").or(property["items"].get("enum"));
        if let Some(choices) = choices.and_then(Value::as_array) {
            let mut choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
            choices.sort_unstable();
            words.insert(format!("enum={}", choices.join("|")));
        }
        for (word, key) in
            [("list", "list-type"), ("map", "map-type"), ("patch", "patch-strategy"), ("key", "patch-merge-key")]
        {
            if let Some(value) = property[format!("x-kubernetes-{key}")].as_str() {
                words.insert(format!("{word}={value}"));
            }
        }
        if let Some(keys) = property["x-kubernetes-list-map-keys"].as_array() {
            let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
            words.insert(format!("keys={}", keys.join(",")));
        }
        fields.insert(name.clone(), words);
    }
    fields
}

fn kind(property: &Value) -> String {
    let reference = property["$ref"].as_str().or(property["allOf"][0]["$ref"].as_str());
    if let Some(reference) = reference {
        return reference.rsplit('/').next().unwrap().to_owned();
    }
    match property["type"].as_str() {
        Some("array") => format!("list<{}>", kind(&property["items"])),
        Some("object") if property.get("additionalProperties").is_some() => {
            format!("map<{}>", kind(&property["additionalProperties"]))
        }
        Some(plain) => match property["format"].as_str() {
            Some(format) => format!("{plain}({format})"),
            None => plain.to_owned(),
        },
        None => property.to_string(),
    }
}

/// What is intended, taken out of both.
fn plain(field: &str, mut theirs: Field, mut ours: Field) -> (Field, Field) {
    // Kinds that users define cannot be made yet, so nothing is told of what is in their definitions.
    if field.contains(".CustomResourceDefinition.") && ours.contains("io.k8s.apimachinery.pkg.runtime.RawExtension") {
        return (Field::default(), Field::default());
    }
    if CHOICES.iter().any(|known| field.ends_with(&format!(".{known}"))) {
        theirs.retain(|word| !word.starts_with("enum="));
        ours.retain(|word| !word.starts_with("enum="));
    }
    theirs.retain(|word| !matches!(word.as_str(), "default=\"\"" | "default=0" | "default=false"));
    if !ours.contains("map=granular") {
        theirs.remove("map=granular");
    }
    if !theirs.iter().any(|word| word.starts_with("default=")) {
        ours.retain(|word| !word.starts_with("default="));
    }
    if !theirs.iter().any(|word| word.starts_with("list=")) {
        ours.remove("list=atomic");
    }
    if theirs.contains("string(byte)") {
        theirs.remove("list=atomic");
    }
    if theirs.remove("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1") {
        theirs.insert("io.k8s.apimachinery.pkg.runtime.RawExtension".to_owned());
    }
    (theirs, ours)
}

#[test]
fn schemas_are_those_of_kubernetes() {
    let types = coracle_api::types::builtin();
    let recorded = recorded();
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for row in types.iter() {
        let name = openapi::name(row);
        // Another server has these, and nobody recorded it.
        if name.starts_with("io.k8s.metrics.") {
            continue;
        }
        let Some(theirs) = recorded.get(&name) else {
            wrong.push(format!("{name}: Kubernetes has no such type"));
            continue;
        };
        let ours = fields_of(&openapi::schema(&types, Dialect::V3, row));
        for field in theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
            compared += 1;
            match (theirs.get(field), ours.get(field)) {
                (Some(theirs), Some(ours)) => {
                    let (theirs, ours) = plain(&format!("{name}.{field}"), theirs.clone(), ours.clone());
                    if theirs != ours {
                        let only = |a: &Field, b: &Field| a.difference(b).cloned().collect::<Vec<_>>().join(" ");
                        wrong.push(format!(
                            "{name}.{field}: recorded {}, ours {}",
                            only(&theirs, &ours),
                            only(&ours, &theirs)
                        ));
                    }
                }
                (Some(_), None) => wrong.push(format!("{name}.{field} is missing")),
                _ => wrong.push(format!("{name}.{field} is not in Kubernetes")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} fields differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 1800, "only {compared} fields were compared");
}

/// `kubectl explain` has a word for every kind, and for every field of a pod, that something acts on.
#[test]
fn what_is_acted_on_is_described() {
    use coracle_api::fields::{TABLE, Verdict};
    use coracle_api::kinds::{Kinds, Verb};
    use coracle_schema::types::Element;
    let types = coracle_api::types::builtin();
    let mut silent = BTreeSet::new();
    for kind in Kinds::builtin().stored().filter(|kind| !kind.idle && kind.offers(Verb::List)) {
        if types.prose(&kind.type_name).is_empty() {
            silent.insert(kind.type_name.to_string());
        }
    }
    for (path, _) in TABLE.iter().filter(|(_, verdict)| !matches!(verdict, Verdict::Refused(_))) {
        let mut row = types.get("PodSpec").unwrap();
        for step in path.split('.') {
            let field = row.field(step.trim_end_matches("[]")).unwrap();
            if types.prose(&format!("{}.{}", row.name, field.name)).is_empty() {
                silent.insert(format!("{}.{}", row.name, field.name));
            }
            if let Element::Named(inner) = &field.element {
                row = types.get(inner).unwrap();
            }
        }
    }
    assert!(silent.is_empty(), "nothing is said of {silent:?} in api/src/types");
}
