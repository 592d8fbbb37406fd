//! The text of one manifest file -> the pods that it asks for, each with a name and a uid, and the objects that pods of
//! the directory may use. PURE.

use std::collections::BTreeSet;

use coracle_api::meta::Time;
use coracle_api::old::{Format, decode_any};
use coracle_api::strategy::{
    BuiltinStrategy, CLAIM, CONFIG_MAP, DAEMON_SET, DEPLOYMENT, JOB, Making, POD, REPLICA_SET, Rules, SECRET,
    STATEFUL_SET,
};
use coracle_api::types;
use coracle_schema::yaml;
use serde_json::{Value, json};

use super::workload::{self, Workload};
use crate::facts::hash::hash_text;

/// What a file without a namespace means.
const NAMESPACE: &str = "default";

/// Documents of a file, items of lists included.
const DOCUMENTS_MAX: usize = 200;
/// All that a file comes to in memory, about: a file has a megabyte, but aliases and replicas repeat what stands there.
const BYTES_MAX: usize = 16 << 20;
/// Problems and warnings of a file that are told: nobody mends more at once.
const TOLD_MAX: usize = 50;

/// What a file gave.
#[derive(Debug, Default, PartialEq)]
pub struct Read {
    pub pods: Vec<Value>,
    /// ConfigMaps, Secrets and claims, with their kind.
    pub objects: Vec<Value>,
    /// Sentences for the log and for `check`: fields that the format does not have, keys that stand there twice.
    pub warnings: Vec<String>,
    unknown: Vec<String>,
    bytes: usize,
}

impl Read {
    /// Room for one more document or pod.
    fn take(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= BYTES_MAX {
            return Ok(());
        }
        Err(format!("what stands here comes to more than {} MiB with its aliases and replicas", BYTES_MAX >> 20))
    }
}

/// Where a file stands, and when it was written: that must not differ from one reading to the next.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    pub file_name: &'a str,
    pub node_name: &'a str,
    pub written: Time,
}

/// All of a file or nothing.
pub fn read(text: &str, origin: Origin<'_>) -> Result<Read, String> {
    let mut read = Read::default();
    let documents = documents(text, &mut read)?;
    let many = documents.len() > 1;
    for (index, document) in documents.iter().enumerate() {
        let place = if many { format!("document {}: ", index + 1) } else { String::new() };
        one(document, origin, &mut read).map_err(|why| format!("{place}{why}"))?;
    }
    let mut seen = BTreeSet::new();
    for item in read.pods.iter().chain(&read.objects) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let meta = &item["metadata"];
        let (namespace, name) = (text(&meta["namespace"]), text(&meta["name"]));
        let kind = text(&item["kind"]);
        let kind = if kind.is_empty() { "Pod".to_owned() } else { kind };
        if !seen.insert((kind.clone(), namespace.clone(), name.clone())) {
            return Err(format!("{kind} {namespace}/{name} stands there twice: give one of them another name"));
        }
    }
    let unknown = std::mem::take(&mut read.unknown);
    read.warnings
        .extend(unknown.into_iter().map(|field| format!("{field} is no field of this format and is left out")));
    read.warnings = told(std::mem::take(&mut read.warnings));
    Ok(read)
}

/// The first `TOLD_MAX` texts, and the count of the remaining texts.
fn told(mut texts: Vec<String>) -> Vec<String> {
    if let Some(more) = texts.len().checked_sub(TOLD_MAX).filter(|more| *more > 0) {
        texts.truncate(TOLD_MAX);
        texts.push(format!("and {more} more"));
    }
    texts
}

fn one(document: &Value, origin: Origin<'_>, read: &mut Read) -> Result<(), String> {
    let text = |field: &str| document[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if let Some(workload) = Workload::of(api_version, kind) {
        let strategy = match workload {
            Workload::Deployment => &DEPLOYMENT,
            Workload::ReplicaSet => &REPLICA_SET,
            Workload::StatefulSet => &STATEFUL_SET,
            Workload::DaemonSet => &DAEMON_SET,
            Workload::Job => &JOB,
        };
        let type_name = format!("{}.{kind}", api_version.replace('/', "."));
        let whole = object(document, &type_name, strategy, origin, &mut read.unknown)?;
        read.take(workload::count(workload, &whole)?.saturating_mul(weight(&whole["spec"])))?;
        let (pods, claims) = workload::pods(workload, &whole)?;
        let namespace = &whole["metadata"]["namespace"];
        read.objects.extend(claims.iter().map(|name| claim(namespace, &json!(name))));
        for document in &pods {
            read.pods.push(pod(document, origin, &mut read.unknown)?);
        }
        return Ok(());
    }
    match (api_version, kind) {
        ("v1", "ConfigMap") => read.objects.push(object(document, kind, &CONFIG_MAP, origin, &mut read.unknown)?),
        ("v1", "Secret") => read.objects.push(object(document, kind, &SECRET, origin, &mut read.unknown)?),
        ("v1", "PersistentVolumeClaim") => {
            let whole = object(document, kind, &CLAIM, origin, &mut read.unknown)?;
            read.objects.push(claim(&whole["metadata"]["namespace"], &whole["metadata"]["name"]));
        }
        ("batch/v1", "CronJob") => {
            return Err(
                "kind: a CronJob is for a master, which knows the times: `kubectl create -f` posts it there".to_owned()
            );
        }
        _ => {
            if let Some(why) = misnamed(api_version, kind) {
                return Err(why);
            }
            read.pods.push(pod(document, origin, &mut read.unknown)?);
        }
    }
    Ok(())
}

/// The kinds that files may have, and the version of each.
const KINDS: &[(&str, &str)] = &[
    ("Pod", "v1"),
    ("ConfigMap", "v1"),
    ("Secret", "v1"),
    ("PersistentVolumeClaim", "v1"),
    ("Deployment", "apps/v1"),
    ("ReplicaSet", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("DaemonSet", "apps/v1"),
    ("Job", "batch/v1"),
    ("CronJob", "batch/v1"),
];

/// What to write instead of a kind in small letters, and instead of a version that the kind does not have.
fn misnamed(api_version: &str, kind: &str) -> Option<String> {
    let singular = |word: &str| kind.eq_ignore_ascii_case(word) || kind.eq_ignore_ascii_case(&format!("{word}s"));
    let (name, version) = *KINDS.iter().find(|(name, _)| singular(name))?;
    if kind != name {
        return Some(format!("kind: Unsupported value: {kind:?}: write kind: {name}"));
    }
    if name == "Pod" || api_version == version {
        return None;
    }
    let selector = if version == "apps/v1" { ", with a spec.selector that fits its template" } else { "" };
    let write = format!("a {name} starts with apiVersion: {version}{selector}");
    Some(match api_version {
        "" => format!("apiVersion: Required value: {write}"),
        other => format!("apiVersion: Unsupported value: {other:?}: {write}"),
    })
}

/// A directory of this host, which stays when the file goes.
fn claim(namespace: &Value, name: &Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let directory = format!("claims/{}/{}", text(namespace), text(name));
    json!({"kind": "PersistentVolumeClaim", "metadata": {"namespace": namespace, "name": name}, "directory": directory})
}

fn pod(document: &Value, origin: Origin<'_>, unknown: &mut Vec<String>) -> Result<Value, String> {
    let decoded = decode_any(document).map_err(|refused| refused.to_string())?;
    let mut pod = decoded.pod;
    identify(&mut pod, document.get("uuid"), origin.file_name, origin.node_name);
    let rules = Rules { old_names: decoded.format != Format::PodV1, ..Rules::default() };
    let own: Vec<String> = decoded.unknown.iter().map(|path| path.as_str().to_owned()).collect();
    unknown.extend(own.iter().cloned());
    complete(&mut pod, ("Pod", &POD), rules, origin, unknown, own)?;
    Ok(pod)
}

fn object(
    document: &Value,
    type_name: &str,
    strategy: &BuiltinStrategy,
    origin: Origin<'_>,
    unknown: &mut Vec<String>,
) -> Result<Value, String> {
    let mut object = document.clone();
    identify(&mut object, None, origin.file_name, origin.node_name);
    complete(&mut object, (type_name, strategy), Rules::default(), origin, unknown, Vec::new())?;
    Ok(object)
}

/// Sets defaults and checks the object. `own`: fields of the document that the format does not have.
fn complete(
    object: &mut Value,
    (type_name, strategy): (&str, &BuiltinStrategy),
    rules: Rules,
    origin: Origin<'_>,
    unknown: &mut Vec<String>,
    mut own: Vec<String>,
) -> Result<(), String> {
    let types = types::builtin();
    let shaped = coracle_schema::decode(&types, type_name, object);
    if !shaped.faults.is_empty() {
        let faults = shaped.faults.iter().map(|fault| explain(fault.path.as_str(), &fault.message));
        return Err(told(faults.collect()).join("; "));
    }
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let mut making = Making {
        now: origin.written,
        uid,
        suffix: &mut || hash_text(origin.file_name)[..5].to_owned(),
        service_address: &mut || None,
        node_port: &mut || None,
    };
    coracle_schema::default(&types, type_name, object);
    (strategy.create)(object, &mut making);
    coracle_schema::default(&types, type_name, object);
    let mut problems = coracle_schema::check(&types, type_name, object);
    let mut known: BTreeSet<String> = problems.iter().map(|problem| problem.path.as_str().to_owned()).collect();
    let more = (strategy.validate)(object, rules);
    problems.extend(more.into_iter().filter(|problem| known.insert(problem.path.as_str().to_owned())));
    let more = shaped.unknown.iter().map(|path| path.as_str().to_owned());
    unknown.extend(more.clone());
    own.extend(more);
    let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
    if !problems.is_empty() {
        // What is missing is often there under a mistyped name.
        problems.extend(own.iter().map(|field| format!("{field}: no field of this format")));
        return Err(told(problems).join("; "));
    }
    // What only a server says is not the file's to say.
    if let Value::Object(object) = object {
        object.remove("status");
    }
    if let Some(Value::Object(meta)) = object.get_mut("metadata") {
        meta.remove("generation");
    }
    Ok(())
}

/// The documents of the text; the items of a list take the place of the list.
fn documents(text: &str, read: &mut Read) -> Result<Vec<Value>, String> {
    let (mut documents, mut says) = (Vec::new(), false);
    let parts = || parts(text).filter(|part| part.says_something());
    let count = parts().count();
    if count > DOCUMENTS_MAX {
        return Err(too_many(count));
    }
    for part in parts() {
        let document = parse(part, &mut read.warnings)?;
        if !document.is_null() {
            says = true;
            read.take(weight(&document))?;
            unlist(document, &mut documents);
            if documents.len() > DOCUMENTS_MAX {
                return Err(too_many(documents.len()));
            }
        }
    }
    if says { Ok(documents) } else { Err("the file is empty".to_owned()) }
}

fn too_many(count: usize) -> String {
    format!("{count} documents, and a file has at most {DOCUMENTS_MAX}")
}

/// About as many bytes as a document takes in memory.
fn weight(document: &Value) -> usize {
    /// The memory of a value besides its text, with the value's share of the surrounding map.
    const VALUE_BYTES: usize = 64;
    VALUE_BYTES
        + match document {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + weight(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// A list without items is a document that says nothing.
fn unlist(mut document: Value, documents: &mut Vec<Value>) {
    let of = document["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    let (Some(kind), Some(items)) = (of, document.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take))
    else {
        return documents.push(document);
    };
    for mut item in items {
        // Items of a typed list, such as PodList, may leave out their kind.
        if item.is_object() && !kind.is_empty() && item["kind"].is_null() {
            item["kind"] = kind.clone().into();
            item["apiVersion"] = document["apiVersion"].clone();
        }
        unlist(item, documents);
    }
}

/// The text between two lines of `---`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part<'a> {
    text: &'a str,
    lines_before: usize,
}

impl Part<'_> {
    fn says_something(&self) -> bool {
        self.text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'))
    }
}

fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let separates = |line: &str| {
        line.strip_prefix("---").is_some_and(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('#'))
    };
    let (mut rest, mut lines) = (Some(text), 0);
    std::iter::from_fn(move || {
        let whole = rest?;
        let (mut length, lines_before) = (0, lines);
        for line in whole.split_inclusive('\n') {
            lines += 1;
            if separates(line) {
                rest = Some(&whole[length + line.len()..]);
                return Some(Part { text: &whole[..length], lines_before });
            }
            length += line.len();
        }
        rest = None;
        Some(Part { text: whole, lines_before })
    })
}

/// `y`, `on` and `1.10` are no texts in YAML: the usual mistake, and how to mend it.
fn explain(path: &str, message: &str) -> String {
    let message = message.trim_start_matches("json: ");
    let hint =
        if message.ends_with("of type string") { "; a text that looks like something else needs quotes" } else { "" };
    format!("{path}: {message}{hint}")
}

/// JSON as such, everything else as YAML: one document, or null, bounded in size, depth and aliases. For a repeated key
/// the last value counts, as with a kubelet.
fn parse(part: Part<'_>, warnings: &mut Vec<String>) -> Result<Value, String> {
    let Part { text, lines_before } = part;
    let json = text.trim_start().starts_with('{').then(|| coracle_schema::read(text.as_bytes()).ok()).flatten();
    let is_json = json.is_some();
    let (document, twice) = json.map_or_else(|| yaml::read_whole(text, lines_before), Ok).map_err(|why| {
        let place = why.split_once("multiple YAML documents").map(|(place, _)| place);
        place.map_or(why.clone(), |place| format!("{place}a second document begins: put a line of --- before it"))
    })?;
    let by_line = if is_json || twice.is_empty() { Vec::new() } else { yaml::twice(text, lines_before) };
    let by_path =
        twice.iter().filter(|_| by_line.is_empty()).map(|field| format!("{}: it stands there twice", field.as_str()));
    warnings.extend(by_path.chain(by_line.iter().cloned()).map(|said| format!("{said}: the last one counts")));
    Ok(document)
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
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let derived = || derived_uid(node_name, &text(&meta["namespace"]), &text(&meta["name"]));
    meta["uid"] = own.map_or_else(derived, str::to_owned).into();
}

/// `Web Server.yaml` -> `web-server`
fn name_of_file(file_name: &str) -> String {
    let stem = file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem);
    let name: String =
        stem.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).take(63).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { format!("pod-{}", &hash_text(file_name)[..8]) } else { name.to_owned() }
}

/// The uid of a pod whose file has none.
pub(super) fn derived_uid(node_name: &str, namespace: &str, name: &str) -> String {
    let hex = hash_text(&format!("{node_name}/{namespace}/{name}"));
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_767_225_600;

    fn read_as(text: &str, file: &str) -> Result<Value, String> {
        let origin = Origin { file_name: file, node_name: "n1", written: Time::from_seconds(NOW).unwrap() };
        read(text, origin).map(|read| read.pods.into_iter().next().unwrap_or_default())
    }

    fn refused(text: &str, words: &[&str]) {
        let error = read_as(text, "f.yaml").unwrap_err();
        assert!(words.iter().all(|word| error.contains(word)) && !error.contains('\n'), "{error}");
    }

    #[test]
    fn yaml_and_json_give_the_same_pod() {
        let yaml = read_as("version: v1beta2\nid: web\ncontainers:\n  - name: c\n    image: busybox\n", "a").unwrap();
        let json =
            read_as(r#"{"version": "v1beta2", "id": "web", "containers": [{"name": "c", "image": "busybox"}]}"#, "b")
                .unwrap();
        assert_eq!(yaml, json);
        assert_eq!(yaml["metadata"]["name"], "web");
        assert_eq!(yaml["metadata"]["namespace"], "default");
        assert_eq!(yaml["spec"]["restartPolicy"], "Always");
    }

    #[test]
    fn a_uid_stays_over_edits_and_differs_by_name() {
        let uid = |text: &str, file: &str| read_as(text, file).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
        let v1 = |name: &str, image: &str| {
            format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
                 spec: {{containers: [{{name: c, image: {image}}}]}}"
            )
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
        let yaml = "version: v1beta2\nid: web\ncontainers: [{name: c, image: x, env: [{name: a, value: oN}, \
                    {name: b, value: 7e99999}]}]";
        let pod = read_as(yaml, "a").unwrap();
        assert_eq!(
            pod["spec"]["containers"][0]["env"],
            json!([{"name": "a", "value": "oN"}, {"name": "b", "value": "7e99999"}])
        );
        let grace = |text: &str| {
            let pod = format!(
                "apiVersion: v1\nkind: Pod\nspec: {{terminationGracePeriodSeconds: {text}, containers: [{{name: c, \
                 image: x}}]}}"
            );
            read_as(&pod, "a").unwrap()["spec"]["terminationGracePeriodSeconds"].clone()
        };
        assert_eq!(["0777", "1_0", "1__0", "0x10"].map(grace), [511, 10, 10, 16].map(Value::from));
    }

    #[test]
    fn mistakes_say_where_and_what_to_do() {
        refused(
            "version: v1beta2\nid: a\ncontainers: [{name: c, image: x}]\n---\nversion: v1beta2\nid: [\n",
            &["line 6"],
        );
        refused(
            "version: v1beta2\nid: a\ncontainers: [{name: c, image: x}]\n---\nversion: v1beta9\n",
            &["document 2", "v1beta9"],
        );
        refused("version: v1beta2\nid: a\n--- {id: b}\n", &["a second document begins"]);
        refused("apiVersion: batch/v1\nkind: CronJob\n", &["kubectl create -f"]);
        refused("apiVersion: v1\nkind: Service\n", &["kind"]);
        refused("# nothing\n---\n", &["empty"]);
        let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        refused(&format!("{twice}---\n{twice}"), &["ConfigMap default/a", "twice"]);
        refused(
            "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: y}]}",
            &["spec.containers[0].image", "quotes"],
        );
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

    #[test]
    fn of_two_keys_the_last_one_counts() {
        let origin = Origin { file_name: "f", node_name: "n1", written: Time::from_seconds(NOW).unwrap() };
        let check = |text: &str, image: &str, warnings: &[&str]| {
            let read = read(text, origin).unwrap();
            assert_eq!(read.pods[0]["spec"]["containers"][0]["image"], image, "{text}");
            assert_eq!(read.warnings, warnings, "{text}");
        };
        let head = "# a pod\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n";
        check(&format!("{head}  containers: [{{name: c, image: x}}]\n"), "x", &[]);
        check(
            &format!("{head}  containers:\n  - name: c\n    image: x\n    image: w\n"),
            "w",
            &["line 10: key \"image\" already set in map: the last one counts"],
        );
        check(
            &format!(
                "{head}  containers: [{{name: c, image: x}}]\n  containers:\n  - {{name: c, image: v, image: z}}\n"
            ),
            "z",
            &[
                "line 9: key \"image\" already set in map: the last one counts",
                "line 9: key \"containers\" already set in map: the last one counts",
            ],
        );
        check(
            r#"{"version": "v1beta2", "id": "a", "id": "b", "containers": [{"name": "c", "image": "x"}]}"#,
            "x",
            &["id: it stands there twice: the last one counts"],
        );
        check("version: v1beta2\r\nid: a\r\ncontainers:\r\n- name: c\r\n  image: x\r\n---\r\n", "x", &[]);
    }

    /// A file of a megabyte costs what a megabyte costs: each of these took minutes and gigabytes.
    #[test]
    fn what_a_file_comes_to_is_bounded() {
        refused(&"---\n".repeat(260_000), &["empty"]);
        refused(&"---\na\n".repeat(170_000), &["170000 documents", "at most 200"]);
        let list = format!("kind: List\nitems: [{}]\n", "{a: b},".repeat(300));
        refused(&list, &["300 documents"]);
        let far = format!("{}id: [\n", "---\n".repeat(200_000));
        refused(&far, &["line 20000"]);
        let letters = "x".repeat(50_000);
        let repeats = format!("- &a {letters}\n{}", "- *a\n".repeat(60));
        refused(&format!("---\n{repeats}").repeat(8), &["more than 16 MiB"]);
        let large = "x".repeat(250_000);
        let replicas = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: w}}\nspec:\n  replicas: 100\n  selector: \
             {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}, annotations: {{k: \
             {large}}}}}\n    spec: {{containers: [{{name: c, image: x}}]}}\n"
        );
        refused(&replicas, &["more than 16 MiB", "replicas"]);
        let unknown: String = (0..1000).map(|at| format!("u{at}: 1\n")).collect();
        let pod = format!("apiVersion: v1\nkind: Pod\nspec: {{containers: [{{name: c, image: x}}]}}\n{unknown}");
        let origin = Origin { file_name: "f", node_name: "n1", written: Time::from_seconds(NOW).unwrap() };
        let warnings = read(&pod, origin).unwrap().warnings;
        assert_eq!((warnings.len(), warnings.last().map(String::as_str)), (TOLD_MAX + 1, Some("and 150 more")));
    }

    #[test]
    fn wrong_words_are_told_with_the_right_ones() {
        for (text, words) in [
            ("apiVersion: v1\nkind: pod\n", "kind: Unsupported value: \"pod\": write kind: Pod"),
            ("apiVersion: v1\nkind: Pods\n", "write kind: Pod"),
            ("apiVersion: apps/v1\nkind: deployment\n", "write kind: Deployment"),
            (
                "apiVersion: extensions/v1beta1\nkind: Deployment\n",
                "apiVersion: Unsupported value: \"extensions/v1beta1\": a Deployment starts with apiVersion: apps/v1",
            ),
            ("apiVersion: v1\nkind: DaemonSet\n", "apiVersion: Unsupported value: \"v1\": a DaemonSet starts with"),
            ("kind: Job\n", "apiVersion: Required value: a Job starts with apiVersion: batch/v1"),
            ("apiVersion: batch/v1beta1\nkind: CronJob\n", "a CronJob starts with apiVersion: batch/v1"),
            ("apiVersion: v1beta3\nkind: Secret\n", "a Secret starts with apiVersion: v1"),
            ("apiVersion: v1\nkind: Service\n", "kubectl create -f"),
            ("services:\n  web: {image: nginx}\n", "Docker Compose"),
            ("version: '3.8'\nservices:\n  web: {build: .}\nvolumes: {d: }\n", "Docker Compose"),
            ("web:\n  image: nginx\n  ports: ['80:80']\n", "Docker Compose"),
        ] {
            refused(text, &[words]);
        }
    }

    #[test]
    fn files_hold_all_that_pods_need() {
        let origin = Origin { file_name: "app.yaml", node_name: "n1", written: Time::from_seconds(NOW).unwrap() };
        let text = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: '1'}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Secret
  metadata: {name: password, namespace: home}
  stringData: {p: x}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: files}
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
--- # the database
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: x, volumeMounts: [{name: data, mountPath: /d}]}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: x}]}
";
        let read = read(text, origin).unwrap();
        let names = |items: &[Value]| {
            let name = |item: &Value| {
                format!("{}/{}", item["metadata"]["namespace"], item["metadata"]["name"]).replace('"', "")
            };
            items.iter().map(name).collect::<Vec<_>>()
        };
        assert_eq!(names(&read.pods), ["default/db-0", "default/db-1", "default/once-0"]);
        let objects = ["default/settings", "home/password", "default/files", "default/data-db-0", "default/data-db-1"];
        assert_eq!(names(&read.objects), objects);
        assert_eq!(read.objects[1]["data"]["p"], "eA==");
        assert_eq!(read.objects[2]["directory"], "claims/default/files");
        assert_eq!(read.warnings, Vec::<String>::new());
        assert_ne!(read.pods[0]["metadata"]["uid"], read.pods[1]["metadata"]["uid"]);
    }

    /// As people run them at home and in small works.
    #[test]
    fn every_field_of_usual_pods_is_acted_on() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/v1/templates/pods.yaml");
        let text =
            std::fs::read_to_string(path).unwrap().replace("metadata: {", "apiVersion: v1\nkind: Pod\nmetadata: {");
        let origin = Origin { file_name: "pods.yaml", node_name: "n1", written: Time::from_seconds(NOW).unwrap() };
        let read = read(&text, origin).unwrap();
        assert_eq!((read.pods.len(), read.warnings), (12, Vec::<String>::new()));
        for pod in &read.pods {
            assert_eq!(coracle_api::fields::refused(pod), None, "{}", pod["metadata"]["name"]);
        }
    }
}
