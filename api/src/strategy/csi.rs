//! Rules of CSIDriver, CSINode and CSIStorageCapacity. PURE.

use super::checks::{NOT_NEGATIVE, full, immutable, immutable_as, not_negative, one_of, supported_text};
use super::doc::{has, list, number, text};
use super::meta::{self, Scope};
use super::qos::quantity;
use super::rules::{BuiltinStrategy, Making, Rules};
use super::{general, inner, names};
use coracle_schema::{Path, Problem, Quantity, Reason};
use serde_json::Value;
use std::collections::HashSet;

const DRIVER_NAME_BYTES_MAX: usize = 63;
const NODE_ID_BYTES_MAX: usize = 256;
/// How often a node asks at the most what room a driver still has.
const UPDATE_PERIOD_S_MIN: i64 = 10;
/// Shortest life of a token for a driver, and the longest.
const TOKEN_S_MIN: i64 = 600;
const TOKEN_S_MAX: i64 = 1 << 32;

pub static CSI_DRIVER: BuiltinStrategy = BuiltinStrategy {
    // Kubernetes begins to count its generations with the first change.
    update: |new, old, making: &mut Making<'_>| {
        general::update::<false>(new, old, making);
        if general::differs(new, old) {
            new["metadata"]["generation"] = (number(&old["metadata"], "generation").unwrap_or(0) + 1).into();
        }
    },
    validate: driver,
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, driver);
        for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            let changed = immutable(&new["spec"], &old["spec"], field, &Path::new("spec"));
            found.extend(changed.map(|problem| Problem { path: Path::new("spec").field(shown), ..problem }));
        }
        found
    },
    ..general::strategy::<true, false>()
};
pub static CSI_NODE: BuiltinStrategy =
    BuiltinStrategy { validate: node, validate_update: node_update, ..general::strategy::<true, false>() };
pub static CSI_CAPACITY: BuiltinStrategy = BuiltinStrategy {
    validate: capacity,
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, capacity);
        found.extend(immutable_as("LabelSelector", new, old, "nodeTopology", &Path::root()));
        found.extend(immutable(new, old, "storageClassName", &Path::root()));
        found
    },
    ..general::strategy::<false, false>()
};

fn driver(driver: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(driver, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&driver["spec"], Path::new("spec"));
    for (field, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !has(spec, field) {
            found.push(Problem::required(&path.field(shown), ""));
        }
    }
    if has(spec, "fsGroupPolicy") {
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        found.extend(one_of(text(spec, "fsGroupPolicy"), &policies, &path.field("fsGroupPolicy")));
    }
    let mut audiences = HashSet::new();
    for (at, token) in list(spec, "tokenRequests").iter().enumerate() {
        if full(&found) {
            break;
        }
        let path = path.field("tokenRequests").index(at);
        let audience = text(token, "audience");
        if !audiences.insert(audience) {
            found.push(Problem::new(&path.field("audience"), Reason::Duplicate, Some(audience.into()), ""));
            continue;
        }
        let words = match number(token, "expirationSeconds") {
            Some(seconds) if seconds < TOKEN_S_MIN => {
                Some((seconds, "may not specify a duration less than 10 minutes"))
            }
            Some(seconds) if seconds > TOKEN_S_MAX => {
                Some((seconds, "may not specify a duration larger than 2^32 seconds"))
            }
            _ => None,
        };
        found.extend(words.map(|(seconds, words)| Problem::invalid(&path.field("expirationSeconds"), seconds, words)));
    }
    for mode in list(spec, "volumeLifecycleModes").iter().filter_map(Value::as_str) {
        if full(&found) {
            break;
        }
        if !matches!(mode, "Persistent" | "Ephemeral") {
            let words = supported_text(&["Persistent", "Ephemeral"]);
            found.push(Problem::new(
                &path.field("volumeLifecycleModes"),
                Reason::NotSupported,
                Some(mode.into()),
                words,
            ));
        }
    }
    let period = "nodeAllocatableUpdatePeriodSeconds";
    if let Some(seconds) = number(spec, period).filter(|seconds| *seconds < UPDATE_PERIOD_S_MIN) {
        let words = format!("must be greater than or equal to {UPDATE_PERIOD_S_MIN} seconds");
        found.push(Problem::invalid(&path.field(period), seconds, words));
    }
    let secrets = "serviceAccountTokenInSecrets";
    if has(spec, secrets) && list(spec, "tokenRequests").is_empty() {
        let words = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        found.push(Problem::invalid(&path.field(secrets), spec[secrets].clone(), words));
    }
    found
}

/// Checks the name of a driver.
pub fn driver_name(name: &str, path: &Path) -> Vec<Problem> {
    if name.is_empty() {
        return vec![Problem::required(path, "")];
    }
    let mut found = Vec::new();
    if name.len() > DRIVER_NAME_BYTES_MAX {
        let words = format!("may not be more than {DRIVER_NAME_BYTES_MAX} bytes");
        found.push(Problem::new(path, Reason::TooLong, None, words));
    }
    found.extend(names::problems(path, name, names::subdomain(&name.to_ascii_lowercase())));
    found
}

fn node(node: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(node, Scope::Cluster, names::subdomain, rules);
    let mut seen = HashSet::new();
    for (at, driver) in list(&node["spec"], "drivers").iter().enumerate() {
        if full(&found) {
            break;
        }
        let (name, path) = (text(driver, "name"), Path::new("spec.drivers").index(at));
        found.extend(driver_name(name, &path.field("name")));
        let (id, place) = (text(driver, "nodeID"), path.field("nodeID"));
        if id.is_empty() {
            found.push(Problem::required(&place, ""));
        } else if id.len() > NODE_ID_BYTES_MAX {
            found.push(Problem::invalid(&place, id, format!("must be {NODE_ID_BYTES_MAX} characters or less")));
        }
        found.extend(not_negative(&driver["allocatable"], &["count"], &path.field("allocatable")));
        if !seen.insert(name) {
            found.push(Problem::new(&path.field("name"), Reason::Duplicate, Some(name.into()), ""));
        }
        found.extend(topology_keys(driver, &path));
    }
    found
}

fn topology_keys(driver: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for key in list(driver, "topologyKeys").iter().filter_map(Value::as_str) {
        if full(&found) {
            break;
        }
        if key.is_empty() {
            found.push(Problem::required(path, key));
        }
        if !seen.insert(key) {
            found.push(Problem::new(path, Reason::Duplicate, Some(key.into()), ""));
        }
        found.extend(names::problems(path, key, names::qualified(key)));
    }
    found
}

/// An existing driver may not change, except for `allocatable`.
fn node_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, node);
    let fixed = |driver: &Value| {
        let mut driver = driver.clone();
        super::doc::remove(&mut driver, "allocatable");
        driver
    };
    for was in list(&old["spec"], "drivers") {
        let now = list(&new["spec"], "drivers").iter().find(|driver| driver["name"] == was["name"]);
        if let Some(now) = now.filter(|now| fixed(now) != fixed(was) && !full(&found)) {
            let problem = Problem::invalid(&Path::new("spec.drivers"), now.clone(), "field is immutable");
            found.push(problem.showing(inner::shown("storage.v1.CSINodeDriver", &fixed(now))));
        }
    }
    found
}

fn capacity(capacity: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(capacity, Scope::Namespaced, names::subdomain, rules);
    found.extend(super::label_selector::validate(&capacity["nodeTopology"], rules, &Path::new("nodeTopology")));
    let class = text(capacity, "storageClassName");
    found.extend(names::problems(&Path::new("storageClassName"), class, names::subdomain(class)));
    if has(capacity, "capacity") && quantity(&capacity["capacity"]) < Quantity::ZERO {
        found.push(Problem::invalid(&Path::new("capacity"), capacity["capacity"].clone(), NOT_NEGATIVE));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(found: Vec<Problem>) -> Vec<String> {
        found
            .iter()
            .map(Problem::to_string)
            .map(|text| text.split(": a lowercase").next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn what_drivers_say() {
        fn check(strategy: &BuiltinStrategy, object: Value, expected: &[&str]) {
            assert_eq!(texts((strategy.validate)(&object, Rules::default())), expected, "{object}");
        }
        let of = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let whole = json!({"attachRequired": true, "podInfoOnMount": false, "storageCapacity": false});
        check(&CSI_DRIVER, of("a.example.com", whole.clone()), &[]);
        for (seconds, expected) in [
            (10, &[][..]),
            (
                9,
                &["spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 \
                   seconds"],
            ),
        ] {
            let mut spec = whole.clone();
            spec["nodeAllocatableUpdatePeriodSeconds"] = seconds.into();
            check(&CSI_DRIVER, of("a.example.com", spec), expected);
        }
        check(
            &CSI_DRIVER,
            of(
                "a",
                json!({
                    "storageCapacity": true, "fsGroupPolicy": "x",
                    "tokenRequests": [{"audience": "", "expirationSeconds": 1}, {}],
                }),
            ),
            &[
                "spec.attachedRequired: Required value",
                "spec.podInfoOnMount: Required value",
                "spec.fsGroupPolicy: Unsupported value: \"x\": supported values: \"File\", \"None\", \
                 \"ReadWriteOnceWithFSType\"",
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 \
                 minutes",
                "spec.tokenRequests[1].audience: Duplicate value: \"\"",
            ],
        );
        let driver = json!({"name": "d", "nodeID": "n", "topologyKeys": ["a", "a"]});
        check(
            &CSI_NODE,
            of("n", json!({"drivers": [driver, {"name": "d", "allocatable": {"count": -1}}]})),
            &[
                "spec.drivers[0]: Duplicate value: \"a\"",
                "spec.drivers[1].nodeID: Required value",
                "spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                "spec.drivers[1].name: Duplicate value: \"d\"",
            ],
        );
        let object = json!({"metadata": {"name": "c", "namespace": "n"}, "storageClassName": "A", "capacity": "-1Gi"});
        let expected = [
            "storageClassName: Invalid value: \"A\"",
            "capacity: Invalid value: \"-1Gi\": must be greater than or equal to 0",
        ];
        check(&CSI_CAPACITY, object, &expected);
    }

    #[test]
    fn what_stays() {
        fn check(strategy: &BuiltinStrategy, old: Value, new: Value, expected: &[&str]) {
            let found = texts((strategy.validate_update)(&new, &old, Rules::default()));
            assert_eq!(found.iter().map(|text| text.split(':').next().unwrap()).collect::<Vec<_>>(), expected, "{new}");
        }
        let node = |id: &str, count: i64| {
            json!({
                "metadata": {"name": "n", "resourceVersion": "1"},
                "spec": {"drivers": [{"name": "d", "nodeID": id, "allocatable": {"count": count}}]},
            })
        };
        check(&CSI_NODE, node("a", 1), node("a", 2), &[]);
        check(&CSI_NODE, node("a", 1), node("b", 1), &["spec.drivers"]);
        let driver = |attach: bool| {
            let spec = json!({"attachRequired": attach, "podInfoOnMount": true, "storageCapacity": true});
            json!({"metadata": {"name": "d", "resourceVersion": "1"}, "spec": spec})
        };
        check(&CSI_DRIVER, driver(true), driver(false), &["spec.attachedRequired"]);
    }
}
