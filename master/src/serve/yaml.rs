//! The YAML of a body, as Kubernetes reads it: YAML 1.1, where `yes` is a truth and `0644` is octal, keys become texts, and a
//! second document is passed over. Bounded in nodes, depth and aliases. PURE.

use coracle_schema::Path;
use serde_json::{Number, Value};

/// Nodes of a document, aliases replayed: a deployment has some hundred, a config map of many lines as many.
const NODES_MAX: usize = 200_000;
/// Levels; no kind has twenty. Each costs 5 KiB of the stack of a thread that has it for all its requests.
const DEPTH_MAX: usize = 64;
/// Up to here a whole number with a point is written without one.
const WHOLE_MAX: f64 = 1e15;

/// The first document, and what stands in it twice. An empty text is null.
pub fn read(text: &str) -> Result<(Value, Vec<Path>), String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: NODES_MAX, max_depth: DEPTH_MAX, flow_nesting_limit: DEPTH_MAX },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    if text.trim_start_matches([' ', '\n']).starts_with('\t') {
        return Err("found character that cannot start any token".to_owned());
    }
    let mut first = None;
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |reader| {
        first = Some(coracle_schema::read_from(reader)?);
        Ok(())
    });
    match (first, read) {
        // Whatever comes behind the first document is not looked at.
        (Some((mut document, twice)), _) => {
            whole(&mut document);
            Ok((document, twice))
        }
        (None, Err(error)) => Err(said(text, &error)),
        (None, Ok(())) => Ok((Value::Null, Vec::new())),
    }
}

/// What Go's strict reader says of the one key that stands there twice, by its path.
pub fn twice(text: &str, path: &Path) -> Option<String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_nodes: NODES_MAX, max_depth: DEPTH_MAX, flow_nesting_limit: DEPTH_MAX },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |reader| coracle_schema::read_from(reader).map(drop));
    let error = read.err()?;
    let line = error.location()?.line();
    let key = path.as_str().rsplit('.').next()?;
    Some(format!("line {line}: key {key:?} already set in map"))
}

/// In the words of Go's reader, where they are known: `line 2: mapping values are not allowed in this context`.
fn said(text: &str, error: &serde_saphyr::Error) -> String {
    let all = error.to_string();
    let said = all.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let said = said.split_once(" at line ").map_or(said, |(said, _)| said);
    let Some(at) = error.location() else { return said.to_owned() };
    if said == "alias references unknown anchor" {
        let line = (at.line() as usize).checked_sub(1).and_then(|before| text.lines().nth(before));
        let rest: String = line.unwrap_or_default().chars().skip(at.column() as usize).collect();
        let name = rest.split(|c: char| c.is_whitespace() || ",[]{}".contains(c)).next().unwrap_or_default();
        return format!("unknown anchor '{name}' referenced");
    }
    if at.line() > 1 { format!("line {}: {said}", at.line()) } else { said.to_owned() }
}

/// `1.0` is written as `1` in JSON, and so a whole number.
fn whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < WHOLE_MAX {
                *number = Number::from(float as i64);
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(whole),
        Value::Array(items) => items.iter_mut().for_each(whole),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, expected: Value) {
        assert_eq!(read(text).map(|(document, _)| document), Ok(expected), "{text}");
    }

    #[test]
    fn as_yaml_1_1() {
        check("", Value::Null);
        check("# nothing\n", Value::Null);
        check(
            "data: {k: yes, l: on, m: \"yes\", p: ~, o: 2020-01-01}",
            json!({"data": {"k": true, "l": true, "m": "yes", "p": null, "o": "2020-01-01"}}),
        );
        check("a: 0644\nb: 0x10\nc: 1_000\nd: 1.0\ne: 1e3\nf: 1.5", json!({"a": 420, "b": 16, "c": 1000, "d": 1, "e": 1000, "f": 1.5}));
        check("{yes: \"1\", 5: \"2\", n: \"3\", 1.5: \"4\"}", json!({"true": "1", "5": "2", "false": "3", "1.5": "4"}));
        check("kind: ConfigMap\n---\nkind: Secret\n", json!({"kind": "ConfigMap"}));
        check("{\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"j\"}}", json!({"kind": "ConfigMap", "metadata": {"name": "j"}}));
        check("multi: |\n  one\n  two\nfolded: >-\n  a\n  b\nempty: \"\"\n", json!({"multi": "one\ntwo\n", "folded": "a b", "empty": ""}));
        check("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}", json!({"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}));
        check("just text", json!("just text"));
    }

    #[test]
    fn what_is_there_twice() {
        let (document, twice) = read("data:\n  a: 1\n  a: 2\n").unwrap();
        assert_eq!((document, twice[0].as_str()), (json!({"data": {"a": 2}}), "data.a"));
        assert_eq!(super::twice("data:\n  a: 1\n  a: 2\n", &twice[0]).as_deref(), Some("line 3: key \"a\" already set in map"));
        assert_eq!(super::twice("data: {a: 1}\n", &twice[0]), None);
    }

    #[test]
    fn no_yaml() {
        for text in ["a: b: c", "\tkind: x", "data: {k: *missing}", "a: [", "{", "a: \"\n"] {
            assert!(read(text).is_err(), "{text}");
        }
        for (text, why) in [
            ("a: b: c", "mapping values are not allowed in this context"),
            ("a: 1\nb: c: d", "line 2: mapping values are not allowed in this context"),
            ("\tkind: x", "found character that cannot start any token"),
            ("data: {k: *missing}", "unknown anchor 'missing' referenced"),
            ("a: *m\n", "unknown anchor 'm' referenced"),
        ] {
            assert_eq!(read(text), Err(why.to_owned()));
        }
        let deep = "[".repeat(10_000);
        let wide = format!("[{}]", "a,".repeat(NODES_MAX + 1));
        let bomb = (0..30)
            .fold("a0: &a0 [x, x, x, x]\n".to_owned(), |text, n| format!("{text}a{}: &a{} [*a{n}, *a{n}, *a{n}, *a{n}]\n", n + 1, n + 1));
        for text in [deep, wide, bomb] {
            assert!(read(&text).is_err());
        }
    }
}
