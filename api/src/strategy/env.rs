//! Rules of a container's variables: values from fields, resources, config maps, secrets and files, one by one or all
//! at once. Volumes of the pod's own fields follow the same rules.

use super::checks::{full, one_of};
use super::config::data_key;
use super::doc::{has, list, text};
use super::names::{self, problems};
use super::qos::quantity;
use coracle_schema::{Path, Problem, Quantity, canonical_quantity};
use serde_json::Value;
use std::collections::HashMap;

/// Fields of a pod that a variable may hold.
const OF_VARIABLES: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields that a file may hold.
pub const OF_FILES: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// The known field paths; `spec.host`, an old name of `spec.nodeName`, is still known.
const KNOWN: [&str; 15] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.host",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const HUGE_PAGES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];
const DIVISORS: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
/// Where a variable may come from.
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Every problem of `env` and `envFrom` of a container. `volumes`: the volumes of the pod.
pub fn validate(of: &Value, volumes: &HashMap<&str, &Value>, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, variable) in list(of, "env").iter().enumerate() {
        if full(&found) {
            return found;
        }
        let path = path.field("env").index(at);
        match text(variable, "name") {
            "" => found.push(Problem::required(&path.field("name"), "")),
            name => found.extend(problems(&path.field("name"), name, names::env_name(name))),
        }
        if has(variable, "valueFrom") {
            found.extend(source(variable, volumes, &path.field("valueFrom")));
        }
    }
    found.extend(taken_over(of, &path.field("envFrom")));
    found
}

fn source(variable: &Value, volumes: &HashMap<&str, &Value>, path: &Path) -> Vec<Problem> {
    let of = &variable["valueFrom"];
    let given = SOURCES.into_iter().filter(|source| has(of, source));
    let mut found: Vec<Problem> = given
        .clone()
        .flat_map(|source| {
            let (of, path) = (&of[source], path.field(source));
            match source {
                "fieldRef" => field(of, &OF_VARIABLES, &path),
                "resourceFieldRef" => resource(of, false, &path),
                "fileKeyRef" => file(of, volumes, &path),
                _ => key(of, &path),
            }
        })
        .collect();
    let given = given.count();
    if given == 0 {
        let words =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        found.push(Problem::invalid(path, "", words));
    } else if !text(variable, "value").is_empty() {
        found.push(Problem::invalid(path, "", "may not be specified when `value` is not empty"));
    } else if given > 1 {
        found.push(Problem::invalid(path, "", "may not have more than one field specified at a time"));
    }
    found
}

/// A field of the pod: a field path in `allowed`, or a single label or annotation.
pub fn field(of: &Value, allowed: &[&str], path: &Path) -> Vec<Problem> {
    let (version, said, at) = (text(of, "apiVersion"), text(of, "fieldPath"), path.field("fieldPath"));
    if version.is_empty() {
        return vec![Problem::required(&path.field("apiVersion"), "")];
    }
    if said.is_empty() {
        return vec![Problem::required(&at, "")];
    }
    let unknown = |why: String| vec![Problem::invalid(&at, said, format!("error converting fieldPath: {why}"))];
    if version != "v1" {
        return unknown(format!("unsupported pod version: {version}"));
    }
    let subscript =
        said.strip_suffix("']").and_then(|said| said.split_once("['")).filter(|(field, _)| !field.is_empty());
    match subscript {
        Some(("metadata.annotations", key)) => {
            problems(path, key.to_ascii_lowercase(), names::qualified(&key.to_ascii_lowercase()))
        }
        Some(("metadata.labels", key)) => problems(path, key, names::qualified(key)),
        Some(_) => unknown(format!("field label does not support subscript: {said}")),
        None if !KNOWN.contains(&said) => unknown(format!("field label not supported: {said}")),
        None => {
            let said = if said == "spec.host" { "spec.nodeName" } else { said };
            one_of(said, allowed, &at).into_iter().collect()
        }
    }
}

/// A container's request or limit of a resource, in units of a divisor. `of_file`: the reference must name the
/// container.
pub fn resource(of: &Value, of_file: bool, path: &Path) -> Vec<Problem> {
    let (name, mut found) = (text(of, "resource"), Vec::new());
    let huge = HUGE_PAGES.iter().any(|start| name.starts_with(start));
    if of_file && text(of, "containerName").is_empty() {
        found.push(Problem::required(&path.field("containerName"), ""));
    } else if name.is_empty() {
        found.push(Problem::required(&path.field("resource"), ""));
    } else if !huge {
        found.extend(one_of(name, &RESOURCES, &path.field("resource")));
    }
    found.extend(divisor(&of["divisor"], name, huge, &path.field("divisor")));
    found
}

fn divisor(divisor: &Value, resource: &str, huge: bool, path: &Path) -> Option<Problem> {
    let what = match resource.split_once('.').map(|(_, name)| name) {
        _ if quantity(divisor) == Quantity::ZERO => return None,
        Some("cpu") => "cpu",
        Some("memory") => "memory",
        Some("ephemeral-storage") => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return None,
    };
    let said = divisor.as_str().and_then(|said| canonical_quantity(said).ok()).unwrap_or_default();
    let words = match what {
        "cpu" if said == "1m" || said == "1" => return None,
        "cpu" => "only divisor's values 1m and 1 are supported with the cpu resource".to_owned(),
        _ if DIVISORS.contains(&&*said) => return None,
        _ => format!("only divisor's values {} are supported with the {what} resource", DIVISORS.join(", ")),
    };
    Some(Problem::invalid(path, resource, words))
}

/// One key of a config map or a secret.
fn key(of: &Value, path: &Path) -> Vec<Problem> {
    let (name, key) = (text(of, "name"), text(of, "key"));
    let mut found = problems(&path.field("name"), name, names::subdomain(name));
    match key {
        "" => found.push(Problem::required(&path.field("key"), "")),
        key => found.extend(problems(&path.field("key"), key, data_key(key))),
    }
    found
}

/// One line of a file in an emptyDir volume; a different container of the pod wrote the file.
fn file(of: &Value, volumes: &HashMap<&str, &Value>, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    let (name, at) = (text(of, "volumeName"), path.field("volumeName"));
    if name.is_empty() {
        found.push(Problem::required(&at, ""));
    } else if volumes.get(name).is_none_or(|volume| !has(volume, "emptyDir")) {
        found.push(Problem::invalid(&at, name, "must be the name of an `emptyDir` volume of the pod"));
    }
    match text(of, "path") {
        "" => found.push(Problem::required(&path.field("path"), "")),
        file => found.extend(
            names::descending(file).into_iter().map(|fault| Problem::invalid(&path.field("path"), file, fault)),
        ),
    }
    match text(of, "key") {
        "" => found.push(Problem::required(&path.field("key"), "")),
        key => found.extend(problems(&path.field("key"), key, names::env_name(key))),
    }
    found
}

/// All keys of a config map or a secret.
fn taken_over(of: &Value, path: &Path) -> Vec<Problem> {
    let mut found = Vec::new();
    for (at, one) in list(of, "envFrom").iter().enumerate() {
        if full(&found) {
            break;
        }
        let at = path.index(at);
        let prefix = text(one, "prefix");
        found.extend(problems(&at.field("prefix"), prefix, names::env_name(prefix)));
        let given: Vec<&str> = ["configMapRef", "secretRef"].into_iter().filter(|source| has(one, source)).collect();
        for source in &given {
            let (name, at) = (text(&one[source], "name"), at.field(source).field("name"));
            match name {
                "" => found.push(Problem::required(&at, "")),
                name => found.extend(problems(&at, name, names::subdomain(name))),
            }
        }
        match given.len() {
            0 => found.push(Problem::invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")),
            1 => {}
            _ => found.push(Problem::invalid(path, "", "may not have more than one field specified at a time")),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(of: Value, expected: &[&str]) {
        let (dir, map) = (json!({"emptyDir": {}}), json!({"configMap": {"name": "m"}}));
        let volumes = HashMap::from([("dir", &dir), ("map", &map)]);
        let found: Vec<String> = validate(&of, &volumes, &Path::new("c")).iter().map(Problem::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{of}: {found:#?}");
        assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{of}: {found:#?}");
    }

    fn from(source: Value, expected: &[&str]) {
        check(json!({"env": [{"name": "A", "valueFrom": source}]}), expected);
    }

    #[test]
    fn fields() {
        let of = |said: &str, expected: &[&str]| {
            from(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": said}}), expected)
        };
        for good in
            ["metadata.name", "spec.host", "status.podIPs", "metadata.labels['a.b/c']", "metadata.annotations['A/B']"]
        {
            of(good, &[]);
        }
        let place = "c.env[0].valueFrom.fieldRef";
        let unknown = format!(
            "{place}.fieldPath: Invalid value: \"metadata.foo\": error converting fieldPath: field label not \
             supported: metadata.foo"
        );
        of("metadata.foo", &[&unknown]);
        let words = "supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\"";
        of("status.phase", &[&format!("{place}.fieldPath: Unsupported value: \"status.phase\": {words}")]);
        of("metadata.labels", &[&format!("{place}.fieldPath: Unsupported value: \"metadata.labels\"")]);
        of("metadata.labels['a b']", &[&format!("{place}: Invalid value: \"a b\": name part must consist")]);
        let words = "error converting fieldPath: field label does not support subscript: spec['x']";
        of("spec['x']", &[&format!("{place}.fieldPath: Invalid value: \"spec['x']\": {words}")]);
        of("", &[&format!("{place}.fieldPath: Required value")]);
        let words = "error converting fieldPath: unsupported pod version: v2";
        from(
            json!({"fieldRef": {"apiVersion": "v2", "fieldPath": "metadata.name"}}),
            &[&format!("{place}.fieldPath: Invalid value: \"metadata.name\": {words}")],
        );
    }

    #[test]
    fn resources() {
        let of = |resource: &str, divisor: &str, expected: &[&str]| {
            from(json!({"resourceFieldRef": {"resource": resource, "divisor": divisor}}), expected);
        };
        for (resource, divisor) in [
            ("limits.cpu", "1m"),
            ("requests.memory", "1Mi"),
            ("limits.hugepages-2Mi", "1Mi"),
            ("limits.ephemeral-storage", "0"),
        ] {
            of(resource, divisor, &[]);
        }
        let place = "c.env[0].valueFrom.resourceFieldRef";
        of(
            "limits.foo",
            "0",
            &[&format!("{place}.resource: Unsupported value: \"limits.foo\": supported values: \"limits.cpu\"")],
        );
        of("", "0", &[&format!("{place}.resource: Required value")]);
        of(
            "limits.cpu",
            "2",
            &[&format!("{place}.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are")],
        );
        of(
            "limits.memory",
            "3Mi",
            &[&format!("{place}.divisor: Invalid value: \"limits.memory\": only divisor's values 1, 1k")],
        );
    }

    #[test]
    fn keys_and_files() {
        let place = "c.env[0].valueFrom";
        from(json!({"secretKeyRef": {"name": "a", "key": "b"}}), &[]);
        from(
            json!({"secretKeyRef": {"name": "a", "key": ""}}),
            &[&format!("{place}.secretKeyRef.key: Required value")],
        );
        from(
            json!({"configMapKeyRef": {"name": "A", "key": "a/b"}}),
            &[
                &format!("{place}.configMapKeyRef.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain"),
                &format!("{place}.configMapKeyRef.key: Invalid value: \"a/b\": a valid config key"),
            ],
        );
        from(json!({"fileKeyRef": {"volumeName": "dir", "path": "a/b", "key": "K"}}), &[]);
        from(
            json!({"fileKeyRef": {"volumeName": "map", "path": "../b"}}),
            &[
                &format!("{place}.fileKeyRef.volumeName: Invalid value: \"map\""),
                &format!("{place}.fileKeyRef.path: Invalid value: \"../b\": must not contain '..'"),
                &format!("{place}.fileKeyRef.key: Required value"),
            ],
        );
        from(json!({}), &[&format!("{place}: Invalid value: \"\": must specify one of")]);
        let one = json!({"secretKeyRef": {"name": "a", "key": "b"}, "configMapKeyRef": {"name": "a", "key": "b"}});
        from(one.clone(), &[&format!("{place}: Invalid value: \"\": may not have more than one field")]);
        check(
            json!({"env": [{"name": "A", "value": "b", "valueFrom": one}]}),
            &[&format!("{place}: Invalid value: \"\": may not be specified when `value` is not empty")],
        );
    }

    #[test]
    fn whole_maps() {
        check(json!({"envFrom": [{"prefix": "A_", "secretRef": {"name": "s"}}, {"configMapRef": {"name": "m"}}]}), &[]);
        check(
            json!({"envFrom": [{}, {"prefix": "=", "secretRef": {}}]}),
            &[
                "c.envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`",
                "c.envFrom[1].prefix: Invalid value: \"=\": a valid environment",
                "c.envFrom[1].secretRef.name: Required value",
            ],
        );
    }
}
