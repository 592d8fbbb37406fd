//! Rules of config maps and secrets. Service accounts need no rules of their own.

use super::checks::{full, immutable};
use super::doc::{entries, is_empty, map_at, remove, text, yes};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Making, Rules};
use super::{general, names};
use coracle_schema::{Path, Problem, Reason, base64};
use serde_json::Value;

/// All data of a config map or a secret together, keys left out.
const DATA_BYTES_MAX: usize = 1024 * 1024;
const KEY_BYTES_MAX: usize = 253;
const FROZEN: &str = "field is immutable when `immutable` is set";
const REDACTED: &str = "<secret contents redacted>";

pub static CONFIG_MAP: BuiltinStrategy =
    BuiltinStrategy { validate: config_map, validate_update: config_map_update, ..general::strategy::<false, false>() };

pub static SECRET: BuiltinStrategy = BuiltinStrategy {
    create: |secret, making| {
        encode(secret);
        general::create::<false>(secret, making);
    },
    update: |new, old, making: &mut Making<'_>| {
        encode(new);
        general::update::<false>(new, old, making);
    },
    validate: secret,
    validate_update: secret_update,
    ..general::strategy::<false, false>()
};

/// Keys of data: what can be a file's name.
pub fn data_key(key: &str) -> names::Faults {
    let mut faults = names::no_longer_than(key, KEY_BYTES_MAX);
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(good) {
        faults.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .into(),
        );
    } else if key == "." {
        faults.push("must not be '.'".into());
    } else if key == ".." {
        faults.push("must not be '..'".into());
    } else if key.starts_with("..") {
        faults.push("must not start with '..'".into());
    }
    faults
}

/// Texts become data, where they win.
fn encode(secret: &mut Value) {
    let texts = secret["stringData"].take();
    remove(secret, "stringData");
    for (key, value) in texts.as_object().into_iter().flatten() {
        let encoded = base64::encode(value.as_str().unwrap_or_default().as_bytes());
        map_at(secret, "data").insert(key.clone(), encoded.into());
    }
    if is_empty(&secret["data"]) {
        remove(secret, "data");
    }
}

fn config_map(map: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(map, Scope::Namespaced, names::subdomain, rules);
    let mut bytes = 0;
    for (key, value) in entries(map, "data") {
        if full(&found) {
            break;
        }
        let path = Path::new("data").key(key);
        found.extend(names::problems(&path, key.as_str(), data_key(key)));
        if !map["binaryData"][key].is_null() {
            found.push(Problem::invalid(&path, key.as_str(), "duplicate of key present in binaryData"));
        }
        bytes += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in entries(map, "binaryData") {
        if full(&found) {
            break;
        }
        found.extend(names::problems(&Path::new("binaryData").key(key), key.as_str(), data_key(key)));
        bytes += decoded_bytes(value);
    }
    if bytes > DATA_BYTES_MAX {
        found.push(too_long(&Path::new("[]")));
    }
    found
}

fn too_long(path: &Path) -> Problem {
    Problem::new(path, Reason::TooLong, None, format!("may not be more than {DATA_BYTES_MAX} bytes"))
}

/// Bytes behind base64, near enough for a limit.
fn decoded_bytes(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.len() / 4 * 3 - text.bytes().rev().take(2).filter(|byte| *byte == b'=').count().min(text.len() / 4 * 3)
}

fn config_map_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = frozen(new, old, &["data", "binaryData"]);
    found.extend(general::changed(new, old, rules, config_map));
    found
}

/// Refuses changes of an immutable object.
fn frozen(new: &Value, old: &Value, fields: &[&str]) -> Vec<Problem> {
    if !yes(old, "immutable") {
        return Vec::new();
    }
    let mut changed: Vec<&str> = fields.iter().copied().filter(|field| new[field] != old[field]).collect();
    if !yes(new, "immutable") {
        changed.insert(0, "immutable");
    }
    changed.into_iter().map(|field| Problem::forbidden(&Path::new(field), FROZEN)).collect()
}

fn secret(secret: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(secret, Scope::Namespaced, names::subdomain, rules);
    let path = Path::new("data");
    let mut bytes = 0;
    for (key, value) in entries(secret, "data") {
        if full(&found) {
            break;
        }
        found.extend(names::problems(&path.key(key), key.as_str(), data_key(key)));
        bytes += decoded_bytes(value);
    }
    if bytes > DATA_BYTES_MAX {
        found.push(too_long(&path));
    }
    found.extend(of_type(secret, &path));
    found
}

/// Checks the fields that a type of secret must have.
fn of_type(secret: &Value, path: &Path) -> Vec<Problem> {
    let has = |key: &str| !secret["data"][key].is_null();
    let needed = |keys: &[&str]| -> Vec<Problem> {
        keys.iter().filter(|key| !has(key)).map(|key| Problem::required(&path.key(key), "")).collect()
    };
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            let missing = secret["metadata"]["annotations"][name].as_str().is_none_or(str::is_empty);
            let path = Path::new("metadata.annotations").key(name);
            missing.then(|| Problem::required(&path, "")).into_iter().collect()
        }
        "kubernetes.io/dockercfg" => registry(secret, ".dockercfg", path),
        "kubernetes.io/dockerconfigjson" => registry(secret, ".dockerconfigjson", path),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => needed(&["username", "password"]),
        // Here alone an empty one is none.
        "kubernetes.io/ssh-auth" if is_empty(&secret["data"]["ssh-privatekey"]) => {
            vec![Problem::required(&path.key("ssh-privatekey"), "")]
        }
        "kubernetes.io/tls" => needed(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

/// Credentials of registries are JSON.
fn registry(secret: &Value, key: &str, path: &Path) -> Vec<Problem> {
    let path = path.key(key);
    let Some(text) = secret["data"][key].as_str() else { return vec![Problem::required(&path, "")] };
    let bytes = base64::decode(text).unwrap_or_default();
    if serde_json::from_slice::<serde_json::Map<String, Value>>(&bytes).is_ok() {
        return Vec::new();
    }
    vec![Problem::invalid(&path, REDACTED, not_json(&String::from_utf8_lossy(&bytes)))]
}

/// In Go's words where they are simple: those that a file given by mistake calls for.
fn not_json(text: &str) -> String {
    let text = text.trim_start();
    let Some(first) = text.chars().next() else { return "unexpected end of JSON input".to_owned() };
    for literal in ["null", "true", "false"].iter().filter(|literal| literal.starts_with(first)) {
        let mut pairs = text.chars().zip(literal.chars());
        if let Some((found, wanted)) = pairs.find(|(found, wanted)| found != wanted) {
            return format!("invalid character '{found}' in literal {literal} (expecting '{wanted}')");
        }
    }
    if first.is_ascii_digit() || "{[\"-tfn".contains(first) {
        let read = serde_json::from_str::<Value>(text);
        let found = read.map(|value| coracle_schema::json_kind(&value));
        let of_another_type =
            |found| format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
        return found.map_or_else(|_| "must be a JSON object".to_owned(), of_another_type);
    }
    format!("invalid character '{first}' looking for beginning of value")
}

fn secret_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found: Vec<Problem> = immutable(new, old, "type", &Path::root()).into_iter().collect();
    found.extend(frozen(new, old, &["data"]));
    found.extend(general::changed(new, old, rules, secret));
    found
}
