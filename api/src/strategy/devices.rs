//! Devices: device classes, resource claims and resource slices. Devices are not allocated here. The checks are
//! complete all the same, except for expressions: expressions are not evaluated. PURE.

use super::checks::{full, immutable, one_of};
use super::csi::driver_name;
use super::doc::{default_to, has, is_empty, list, list_at, number, text, yes};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules};
use super::{general, names};
use coracle_schema::{Path, Problem, Reason};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// The maximum number of entries in a list of requests, constraints, configurations or selectors.
const LIST_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const DEVICES_MAX: usize = 128;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const POOL_NAME_BYTES_MAX: usize = 253;
const COUNTED: &str = "ExactCount";

pub static DEVICE_CLASS: BuiltinStrategy = BuiltinStrategy {
    validate: class,
    validate_update: |new, old, rules| general::changed(new, old, rules, class),
    ..general::strategy::<true, true>()
};

pub static RESOURCE_CLAIM: BuiltinStrategy = BuiltinStrategy {
    create: |claim, making| {
        claim["spec"]["devices"] = counted(claim["spec"]["devices"].take());
        general::create::<false>(claim, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        new["spec"]["devices"] = counted(new["spec"]["devices"].take());
        general::update::<false>(new, old, making);
    },
    validate: claim,
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, claim);
        found.extend(immutable(new, old, "spec", &Path::root()));
        found
    },
    ..general::strategy::<false, false>()
};

pub static CLAIM_TEMPLATE: BuiltinStrategy = BuiltinStrategy {
    create: |template, making| {
        template["spec"]["spec"]["devices"] = counted(template["spec"]["spec"]["devices"].take());
        general::create::<false>(template, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        new["spec"]["spec"]["devices"] = counted(new["spec"]["spec"]["devices"].take());
        general::update::<false>(new, old, making);
    },
    validate: template,
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, template);
        found.extend(immutable(new, old, "spec", &Path::root()));
        found
    },
    ..general::strategy::<false, false>()
};

pub static RESOURCE_SLICE: BuiltinStrategy = BuiltinStrategy {
    validate: slice,
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, slice);
        for field in ["driver", "nodeName", "allNodes", "nodeSelector"] {
            found.extend(immutable(&new["spec"], &old["spec"], field, &Path::new("spec")));
        }
        found.extend(immutable(&new["spec"]["pool"], &old["spec"]["pool"], "name", &Path::new("spec.pool")));
        found
    },
    ..general::strategy::<true, true>()
};

/// A request for a number of devices without a count means one.
fn counted(mut devices: Value) -> Value {
    let one = |request: &mut Value| {
        if text(request, "allocationMode") == COUNTED && number(request, "count").unwrap_or_default() == 0 {
            request["count"] = 1.into();
        }
    };
    if devices.is_null() {
        return Value::Object(serde_json::Map::new());
    }
    for request in list_at(&mut devices, "requests") {
        if has(request, "exactly") {
            default_to(&mut request["exactly"], "allocationMode", COUNTED);
            one(&mut request["exactly"]);
        }
        list_at(request, "firstAvailable").for_each(one);
    }
    devices
}

fn class(class: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(class, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&class["spec"], Path::new("spec"));
    found.extend(selectors(spec, &path));
    found.extend(several(list(spec, "config"), LIST_MAX, &path.field("config"), opaque));
    if let Some(name) =
        spec["extendedResourceName"].as_str().filter(|name| !name.contains('/') || !names::qualified(name).is_empty())
    {
        found.push(Problem::invalid(
            &path.field("extendedResourceName"),
            name,
            "must be a valid extended resource name",
        ));
    }
    found
}

fn claim(claim: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(claim, Scope::Namespaced, names::subdomain, rules);
    found.extend(asked(&claim["spec"], &Path::new("spec")));
    found
}

fn template(template: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(template, Scope::Namespaced, names::subdomain, rules);
    let path = Path::new("spec.metadata");
    found.extend(meta::labels(&template["spec"]["metadata"], "labels", &path, rules));
    found.extend(meta::annotations(&template["spec"]["metadata"], &path));
    found.extend(asked(&template["spec"]["spec"], &Path::new("spec.spec")));
    found
}

/// Checks the requests of a claim.
fn asked(spec: &Value, path: &Path) -> Vec<Problem> {
    let (devices, path) = (&spec["devices"], path.field("devices"));
    let mut names = BTreeMap::new();
    for request in list(devices, "requests") {
        let inner: Vec<&str> = list(request, "firstAvailable").iter().map(|one| text(one, "name")).collect();
        names.insert(text(request, "name"), inner);
    }
    let mut found = several(list(devices, "requests"), LIST_MAX, &path.field("requests"), request);
    found.extend(doubled(list(devices, "requests"), &path.field("requests")));
    found.extend(several(list(devices, "constraints"), LIST_MAX, &path.field("constraints"), |constraint, path| {
        let mut found = meant(constraint, &names, path);
        let said = ["matchAttribute", "distinctAttribute"].into_iter().find(|field| has(constraint, field));
        match said {
            Some(field) => {
                let name = text(constraint, field);
                let words = "a fully qualified name must be a domain and a name separated by a slash";
                let faults = if name.contains('/') { names::qualified(name) } else { vec![words.to_owned()] };
                found.extend(names::problems(&path.field(field), name, faults));
            }
            None => {
                let words = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple \
                             fields are set";
                found.push(Problem::required(path, words));
            }
        }
        found
    }));
    found.extend(several(list(devices, "config"), LIST_MAX, &path.field("config"), |config, path| {
        let mut found = meant(config, &names, path);
        found.extend(opaque(config, path));
        found
    }));
    found
}

fn request(request: &Value, path: &Path) -> Vec<Problem> {
    let mut found = named(request, path);
    let (first, exactly) = (list(request, "firstAvailable"), has(request, "exactly"));
    match (first.is_empty(), exactly) {
        (true, false) => {
            found.push(Problem::required(path, "exactly one of `exactly` or `firstAvailable` is required"))
        }
        (false, true) => {
            let words = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            found.push(Problem::invalid(path, Value::Null, words));
        }
        (true, true) => found.extend(device(&request["exactly"], &path.field("exactly"))),
        (false, false) => {
            let path = path.field("firstAvailable");
            found.extend(several(first, ALTERNATIVES_MAX, &path, |one, path| {
                let mut found = named(one, path);
                found.extend(device(one, path));
                found
            }));
            found.extend(doubled(first, &path));
        }
    }
    found
}

fn named(of: &Value, path: &Path) -> Vec<Problem> {
    let name = text(of, "name");
    names::problems(&path.field("name"), name, names::label(name))
}

/// Checks a request for a number of devices, or all devices, of a class.
fn device(of: &Value, path: &Path) -> Vec<Problem> {
    let (class, at) = (text(of, "deviceClassName"), path.field("deviceClassName"));
    let mut found = match class {
        "" => vec![Problem::required(&at, "")],
        class => names::problems(&at, class, names::subdomain(class)),
    };
    found.extend(selectors(of, path));
    let count = number(of, "count").unwrap_or_default();
    match text(of, "allocationMode") {
        "All" if count != 0 => {
            found.push(Problem::invalid(
                &path.field("count"),
                count,
                "must not be specified when allocationMode is 'All'",
            ));
        }
        "All" => {}
        COUNTED if count <= 0 => found.push(Problem::invalid(&path.field("count"), count, "must be greater than zero")),
        COUNTED => {}
        mode => found.extend(one_of(mode, &["All", COUNTED], &path.field("allocationMode"))),
    }
    found
}

fn selectors(of: &Value, path: &Path) -> Vec<Problem> {
    several(list(of, "selectors"), LIST_MAX, &path.field("selectors"), |selector, path| {
        let (expression, at) = (text(&selector["cel"], "expression"), path.field("cel").field("expression"));
        if !has(selector, "cel") {
            vec![Problem::required(&path.field("cel"), "")]
        } else if expression.len() > EXPRESSION_BYTES_MAX {
            vec![Problem::new(&at, Reason::TooLong, None, format!("may not be more than {EXPRESSION_BYTES_MAX} bytes"))]
        } else if expression.trim().is_empty() {
            vec![Problem::invalid(&at, expression, "compilation failed: there is no expression")]
        } else {
            Vec::new()
        }
    })
}

/// Checks the configuration for a driver.
fn opaque(of: &Value, path: &Path) -> Vec<Problem> {
    let (said, path) = (&of["opaque"], path.field("opaque"));
    if !has(of, "opaque") {
        return vec![Problem::required(&path, "")];
    }
    let mut found = driver_name(text(said, "driver"), &path.field("driver"));
    if !has(said, "parameters") {
        found.push(Problem::required(&path.field("parameters"), ""));
    } else if !said["parameters"].is_object() {
        found.push(Problem::invalid(
            &path.field("parameters"),
            "<value omitted>",
            "parameters must be a valid JSON object",
        ));
    }
    found
}

/// Requests of the same claim, by their names.
fn meant(of: &Value, names: &BTreeMap<&str, Vec<&str>>, path: &Path) -> Vec<Problem> {
    let known = |name: &str| match name.split_once('/') {
        None => names.contains_key(name),
        Some((request, inner)) => names.get(request).is_some_and(|all| all.contains(&inner)),
    };
    let (said, path) = (list(of, "requests"), path.field("requests"));
    let mut found = several(said, LIST_MAX, &path, |name, path| {
        let name = name.as_str().unwrap_or_default();
        let words =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        if known(name) { Vec::new() } else { vec![Problem::invalid(path, name, words)] }
    });
    let mut seen = HashSet::new();
    let twice = said.iter().enumerate().filter(|(_, name)| !seen.insert(name.as_str())).take(LIST_MAX);
    found.extend(twice.map(|(n, name)| Problem::new(&path.index(n), Reason::Duplicate, Some(name.clone()), "")));
    found
}

fn slice(slice: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(slice, Scope::Cluster, names::subdomain, rules);
    let (spec, path) = (&slice["spec"], Path::new("spec"));
    found.extend(driver_name(text(spec, "driver"), &path.field("driver")));
    found.extend(pool(&spec["pool"], &path.field("pool")));
    let node = text(spec, "nodeName");
    if has(spec, "nodeName") && node.is_empty() {
        found.push(Problem::invalid(
            &path.field("nodeName"),
            node,
            "must be either unset or set to a non-empty string",
        ));
    } else if !node.is_empty() {
        found.extend(names::problems(&path.field("nodeName"), node, names::subdomain(node)));
    }
    for field in ["allNodes", "perDeviceNodeSelection"] {
        if has(spec, field) && !yes(spec, field) {
            found.push(Problem::invalid(&path.field(field), false, "must be either unset or set to true"));
        }
    }
    let places = [
        ("nodeName", !node.is_empty()),
        ("nodeSelector", has(spec, "nodeSelector")),
        ("allNodes", yes(spec, "allNodes")),
        ("perDeviceNodeSelection", yes(spec, "perDeviceNodeSelection")),
    ];
    let said: Vec<String> = places.iter().filter(|(_, said)| *said).map(|(field, _)| format!("`{field}`")).collect();
    let words = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match said.len() {
        0 if is_empty(&spec["sharedCounters"]) => found.push(Problem::required(&path, words)),
        0 | 1 => {}
        _ => found.push(Problem::invalid(
            &path,
            format!("{{{}}}", said.join(", ")),
            format!("{words}, but multiple fields are set"),
        )),
    }
    found.extend(several(list(spec, "devices"), DEVICES_MAX, &path.field("devices"), named));
    found.extend(doubled(list(spec, "devices"), &path.field("devices")));
    found
}

fn pool(pool: &Value, path: &Path) -> Vec<Problem> {
    let (name, at) = (text(pool, "name"), path.field("name"));
    let mut found = Vec::new();
    if name.is_empty() {
        found.push(Problem::required(&at, ""));
    } else {
        if name.len() > POOL_NAME_BYTES_MAX {
            found.push(Problem::new(
                &at,
                Reason::TooLong,
                None,
                format!("may not be more than {POOL_NAME_BYTES_MAX} bytes"),
            ));
        }
        found
            .extend(name.split('/').take(LIST_MAX).flat_map(|part| names::problems(&at, part, names::subdomain(part))));
    }
    if let Some(count) = number(pool, "resourceSliceCount").filter(|count| *count <= 0) {
        found.push(Problem::invalid(&path.field("resourceSliceCount"), count, "must be greater than zero"));
    }
    if let Some(generation) = number(pool, "generation").filter(|generation| *generation < 0) {
        found.push(Problem::invalid(&path.field("generation"), generation, "must be greater than or equal to zero"));
    }
    found
}

/// Every entry of a list that has a most.
fn several(entries: &[Value], most: usize, path: &Path, each: impl Fn(&Value, &Path) -> Vec<Problem>) -> Vec<Problem> {
    if entries.len() > most {
        let words = format!("must have at most {most} items");
        return vec![Problem::new(path, Reason::TooMany, Some(entries.len().into()), words)];
    }
    let mut found = Vec::new();
    for (n, entry) in entries.iter().enumerate() {
        if full(&found) {
            break;
        }
        found.extend(each(entry, &path.index(n)));
    }
    found
}

/// Names that stand there twice.
fn doubled(entries: &[Value], path: &Path) -> Vec<Problem> {
    let mut seen = HashSet::new();
    let twice = entries.iter().enumerate().filter(|(_, entry)| !seen.insert(text(entry, "name"))).take(LIST_MAX);
    twice
        .map(|(n, entry)| Problem::new(&path.index(n), Reason::Duplicate, Some(text(entry, "name").into()), ""))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::tests::assert_problems;
    use serde_json::json;

    #[test]
    fn what_is_claimed() {
        fn check(devices: Value, expected: &[&str]) {
            let object = json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": counted(devices)}});
            assert_problems(claim(&object, Rules::default()), expected);
        }
        let exactly = |name: &str| json!({"name": name, "exactly": {"deviceClassName": "gpu.example.com"}});
        check(json!({"requests": [exactly("a"), exactly("b")]}), &[]);
        check(json!({"requests": [exactly("a"), exactly("a")]}), &["spec.devices.requests[1]: Duplicate"]);
        check(json!({"requests": [{"name": "a"}]}), &["spec.devices.requests[0]: Required"]);
        let expected =
            ["spec.devices.requests[0].name: Invalid", "spec.devices.requests[0].exactly.deviceClassName: Required"];
        check(json!({"requests": [{"exactly": {}}]}), &expected);
        let all = json!({"name": "a", "exactly": {"deviceClassName": "c", "allocationMode": "All", "count": 2}});
        check(json!({"requests": [all]}), &["spec.devices.requests[0].exactly.count: Invalid"]);
        let constraint = json!({"requests": ["b"], "matchAttribute": "example.com/numa"});
        check(
            json!({"requests": [exactly("a")], "constraints": [constraint]}),
            &["spec.devices.constraints[0].requests[0]: Invalid"],
        );
        let config = json!({"opaque": {"driver": "d.example.com"}});
        check(
            json!({"requests": [exactly("a")], "config": [config]}),
            &["spec.devices.config[0].opaque.parameters: Required"],
        );
        assert_eq!(counted(json!({"requests": [exactly("a")]}))["requests"][0]["exactly"]["count"], 1);
    }

    #[test]
    fn what_is_offered() {
        fn check(spec: Value, expected: &[&str]) {
            assert_problems(slice(&json!({"metadata": {"name": "s"}, "spec": spec}), Rules::default()), expected);
        }
        let of = |more: Value| {
            let mut spec =
                json!({"driver": "d.example.com", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}});
            more.as_object().into_iter().flatten().for_each(|(field, value)| spec[field] = value.clone());
            spec
        };
        check(of(json!({"nodeName": "n", "devices": [{"name": "device-0"}]})), &[]);
        check(of(json!({})), &["spec: Required"]);
        check(of(json!({"nodeName": "n", "allNodes": true})), &["spec: Invalid"]);
        check(
            of(json!({"allNodes": true, "devices": [{"name": "d"}, {"name": "d"}]})),
            &["spec.devices[1]: Duplicate"],
        );
        let expected = ["spec.driver: Required", "spec.pool.name: Required", "spec.pool.resourceSliceCount: Invalid"];
        check(json!({"allNodes": true, "pool": {"resourceSliceCount": 0}}), &expected);
    }

    #[test]
    fn classes() {
        fn check(spec: Value, expected: &[&str]) {
            assert_problems(class(&json!({"metadata": {"name": "c"}, "spec": spec}), Rules::default()), expected);
        }
        check(json!({"selectors": [{"cel": {"expression": "false"}}]}), &[]);
        check(json!({"selectors": [{}]}), &["spec.selectors[0].cel: Required"]);
    }
}
