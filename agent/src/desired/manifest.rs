//! The text of one manifest file -> the pod that it asks for, with a name and a uid. PURE.

use coracle_api::meta::Time;
use coracle_api::old::{Format, decode_any};
use coracle_api::strategy::{Making, POD, Rules};
use coracle_api::types;
use coracle_schema::yaml;
use serde_json::{Value, json};

use crate::hash::hash_text;

/// What a file without a namespace means.
const NAMESPACE: &str = "default";

/// What a file gave.
#[derive(Debug, PartialEq)]
pub struct Read {
    pub document: Value,
    /// Fields that the format does not have: dropped, worth a line in the log.
    pub unknown: Vec<String>,
}

/// `written` is the file's own time: it must not differ from one reading to the next.
pub fn read(text: &str, file_name: &str, node_name: &str, written: Time) -> Result<Read, String> {
    let document = parse(text)?;
    let decoded = decode_any(&document).map_err(|refused| refused.to_string())?;
    let mut pod = decoded.pod;
    identify(&mut pod, document.get("uuid"), file_name, node_name);
    let types = types::builtin();
    let shaped = coracle_schema::decode(&types, "Pod", &mut pod);
    if !shaped.faults.is_empty() {
        let faults: Vec<String> = shaped.faults.iter().map(|fault| explain(fault.path.as_str(), &fault.message)).collect();
        return Err(faults.join("; "));
    }
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let mut making = Making {
        now: written,
        uid,
        suffix: &mut || hash_text(file_name)[..5].to_owned(),
        service_address: &mut || None,
        node_port: &mut || None,
    };
    (POD.create)(&mut pod, &mut making);
    coracle_schema::default(&types, "Pod", &mut pod);
    let rules = Rules { old_names: decoded.format != Format::PodV1, ..Rules::default() };
    let mut problems = coracle_schema::check(&types, "Pod", &pod);
    for problem in (POD.validate)(&pod, rules) {
        if !problems.iter().any(|known| known.path == problem.path) {
            problems.push(problem);
        }
    }
    let unknown: Vec<String> = decoded.unknown.iter().chain(&shaped.unknown).map(|path| path.as_str().to_owned()).collect();
    let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if !problems.is_empty() {
        // What is missing is often there under a mistyped name.
        problems.extend(unknown.iter().map(|field| format!("{field}: no field of this format")));
        return Err(problems.join("; "));
    }
    // What only a server says is not the file's to say.
    if let Value::Object(pod) = &mut pod {
        pod.remove("status");
    }
    if let Some(Value::Object(meta)) = pod.get_mut("metadata") {
        meta.remove("generation");
    }
    Ok(Read { document: pod, unknown })
}

/// `y`, `on` and `1.10` are no texts in YAML: the usual mistake, and how to mend it.
fn explain(path: &str, message: &str) -> String {
    let message = message.trim_start_matches("json: ");
    let hint = if message.ends_with("of type string") { "; a text that looks like something else needs quotes" } else { "" };
    format!("{path}: {message}{hint}")
}

/// JSON as such, everything else as YAML: one document, without duplicate keys, bounded in size, depth and aliases.
fn parse(text: &str) -> Result<Value, String> {
    let json = text.trim_start().starts_with('{').then(|| coracle_schema::read(text.as_bytes()).ok()).flatten();
    let is_json = json.is_some();
    let (document, twice) = json.map_or_else(|| yaml::read_whole(text), Ok).map_err(|why| {
        let place = why.split_once("multiple YAML documents").map(|(place, _)| place);
        place.map_or(why.clone(), |place| format!("{place}a second document begins: give each pod its own file"))
    })?;
    if let Some(field) = twice.first() {
        let said = if is_json { None } else { yaml::twice(text, field) };
        return Err(said.unwrap_or_else(|| format!("{}: it stands there twice", field.as_str())));
    }
    if document.is_null() { Err("the file is empty".to_owned()) } else { Ok(document) }
}

/// Name and namespace, where they are missing, and the uid: the same for every edit of a pod on this node.
fn identify(pod: &mut Value, uuid: Option<&Value>, file_name: &str, node_name: &str) {
    if !pod["metadata"].is_object() {
        pod["metadata"] = json!({});
    }
    let meta = &mut pod["metadata"];
    let empty = |value: &Value| value.is_null() || value == "";
    if empty(&meta["name"]) && empty(&meta["generateName"]) {
        meta["name"] = name_of_file(file_name).into();
    }
    if empty(&meta["namespace"]) {
        meta["namespace"] = NAMESPACE.into();
    }
    let own = [uuid, meta.get("uid")].into_iter().flatten().find_map(|uid| uid.as_str().filter(|uid| !uid.is_empty()));
    let uid = own.map_or_else(|| derived_uid(node_name, &meta["namespace"], &meta["name"]), str::to_owned);
    meta["uid"] = uid.into();
}

/// `Web Server.yaml` -> `web-server`
fn name_of_file(file_name: &str) -> String {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).take(63).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { format!("pod-{}", &hash_text(file_name)[..8]) } else { name.to_owned() }
}

fn derived_uid(node_name: &str, namespace: &Value, name: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let hex = hash_text(&format!("{node_name}/{}/{}", text(namespace), text(name)));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_767_225_600;

    fn read_as(text: &str, file: &str) -> Result<Value, String> {
        read(text, file, "n1", Time::from_seconds(NOW).unwrap()).map(|read| read.document)
    }

    fn refused(text: &str, words: &[&str]) {
        let error = read_as(text, "f.yaml").unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)) && !error.contains('\n'), "{error}");
    }

    #[test]
    fn yaml_and_json_give_the_same_pod() {
        let yaml = read_as("version: v1beta2\nid: web\ncontainers:\n  - name: c\n    image: busybox\n", "a").unwrap();
        let json = read_as(r#"{"version": "v1beta2", "id": "web", "containers": [{"name": "c", "image": "busybox"}]}"#, "b").unwrap();
        assert_eq!(yaml, json);
        assert_eq!(yaml["metadata"]["name"], "web");
        assert_eq!(yaml["metadata"]["namespace"], "default");
        assert_eq!(yaml["spec"]["restartPolicy"], "Always");
    }

    #[test]
    fn a_uid_stays_over_edits_and_differs_by_name() {
        let uid = |text: &str, file: &str| read_as(text, file).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        let v1 = |name: &str, image: &str| {
            format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: {image}}}]}}")
        };
        assert_eq!(uid(&v1("a", "x"), "1.yaml"), uid(&v1("a", "z"), "2.yaml"));
        assert_ne!(uid(&v1("a", "x"), "1.yaml"), uid(&v1("b", "x"), "1.yaml"));
        assert_eq!(uid("version: v1beta2\nuuid: u-1\ncontainers: [{name: c, image: x}]", "1"), "u-1");
        assert_eq!(uid(&v1("a", "x"), "1").len(), 36);
    }

    #[test]
    fn names_come_from_files() {
        for (file, name) in [("web.yaml", "web"), ("Web Server.v1.manifest", "web-server-v1"), ("hello", "hello")] {
            assert_eq!(name_of_file(file), name);
        }
        assert!(name_of_file("___").starts_with("pod-"));
    }

    #[test]
    fn scalars_are_those_of_a_body() {
        let yaml = "version: v1beta2\nid: web\ncontainers: [{name: c, image: x, env: [{name: a, value: oN}, {name: b, value: 7e99999}]}]";
        let pod = read_as(yaml, "a").unwrap();
        assert_eq!(pod["spec"]["containers"][0]["env"], json!([{"name": "a", "value": "oN"}, {"name": "b", "value": "7e99999"}]));
        let grace = |text: &str| {
            let pod =
                format!("apiVersion: v1\nkind: Pod\nspec: {{terminationGracePeriodSeconds: {text}, containers: [{{name: c, image: x}}]}}");
            read_as(&pod, "a").unwrap()["spec"]["terminationGracePeriodSeconds"].clone()
        };
        assert_eq!(["0777", "1_0", "1__0", "0x10"].map(grace), [511, 10, 10, 16].map(Value::from));
    }

    #[test]
    fn mistakes_say_where_and_what_to_do() {
        refused("version: v1beta2\ncontainers: []\n---\nversion: v1beta2\n", &["line", "its own file"]);
        refused("a: 1\na: 2\n", &["line 2", "already set"]);
        refused(r#"{"version": "v1beta2", "id": "a", "id": "b"}"#, &["id", "twice"]);
        refused("apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: y}]}", &["spec.containers[0].image", "quotes"]);
        refused("a: 1\nb: [1\nc", &["line 2"]);
        refused("", &["empty"]);
        refused("version: v1beta2\ncontainers:\n- name: c\n  imagee: x\n", &["image: Required", "imagee"]);
        refused(&"[".repeat(10_000), &["limit"]);
        let bomb = format!("a: &a [x{}]\n", ",x".repeat(99))
            + &["b", "c", "d", "e"]
                .iter()
                .zip(["a", "b", "c", "d"])
                .map(|(n, o)| format!("{n}: &{n} [*{o}{}]\n", format!(",*{o}").repeat(99)))
                .collect::<String>();
        refused(&bomb, &["come to", "nodes"]);
    }
}
