//! The text of one file of `apply-dir` -> the objects that it names, in the order of the text. PURE.
//!
//! A file is taken whole or not at all: a document that is no object may be one that was misspelt, and then nobody can
//! say what the file does not name.

use coracle_schema::yaml;
use serde_json::Value;
use std::collections::BTreeSet;

/// Objects of one file: the largest charts have some hundred.
const OBJECTS_MAX: usize = 2_000;
/// Bytes of one document: the API takes no larger one.
const DOCUMENT_BYTES_MAX: usize = coracle_http::BODY_BYTES_MAX;
/// Bytes of a name: the longest that any kind of Kubernetes allows.
const NAME_BYTES_MAX: usize = 253;

/// One object of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub named: Named,
    /// The object as compact JSON.
    pub json: String,
}

/// How a document says which object it means.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    pub api_version: String,
    pub kind: String,
    /// Empty: none is written.
    pub namespace: String,
    pub name: String,
}

impl Named {
    /// `Deployment shop/web`.
    pub fn words(&self) -> String {
        match self.namespace.as_str() {
            "" => format!("{} {}", self.kind, self.name),
            namespace => format!("{} {namespace}/{}", self.kind, self.name),
        }
    }

    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }
}

/// What a file says.
#[derive(Debug, Default, PartialEq)]
pub struct Manifest {
    pub documents: Vec<Document>,
    /// The text ends with the end of a line. A text that does not may be the first half of a longer one.
    pub ends: bool,
}

/// Reads a file. A file that names no object is an error, unless it says so by a `List` without items.
pub fn read(bytes: &[u8]) -> Result<Manifest, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("it is no UTF-8 text: {error}"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\0') {
        return Err("it has bytes of zero in it: a disk that lost power writes such files".to_owned());
    }
    let (mut documents, mut says_empty) = (Vec::new(), false);
    for (text, lines_before) in parts(text) {
        if !text.lines().any(says_something) {
            continue;
        }
        if text.len() > DOCUMENT_BYTES_MAX {
            let (mib, line) = (DOCUMENT_BYTES_MAX >> 20, lines_before + 1);
            return Err(format!("line {line}: the document has more than {mib} MiB, the API takes no larger one"));
        }
        let value = one(text, lines_before)?;
        unlist(value, lines_before, &mut documents, &mut says_empty)?;
    }
    if documents.is_empty() && !says_empty {
        return Err("it names no object".to_owned());
    }
    let mut seen = BTreeSet::new();
    for document in &documents {
        let Named { api_version: _, kind, namespace, name } = &document.named;
        if !seen.insert((document.named.group(), kind, namespace, name)) {
            return Err(format!("{} stands there twice: take one of them away", document.named.words()));
        }
    }
    Ok(Manifest { documents, ends: text.ends_with('\n') || is_json(text) })
}

/// JSON that was read is whole without the end of a line.
fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{') && text.trim_end().ends_with('}')
}

fn says_something(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#') && line != "..."
}

fn one(text: &str, lines_before: usize) -> Result<Value, String> {
    let at = |why: String| if why.starts_with("line ") { why } else { format!("line {}: {why}", lines_before + 1) };
    if text.trim_start().starts_with('{')
        && let Ok((value, twice)) = coracle_schema::read(text.as_bytes())
    {
        return match twice.first() {
            Some(path) => Err(at(format!("{} stands there twice", path.as_str()))),
            None => Ok(value),
        };
    }
    if text.contains("{{") && text.contains("}}") && yaml::read_whole(text, lines_before).is_err() {
        let why = "it is a template: render it first (helm template), and put the result here";
        return Err(at(why.to_owned()));
    }
    let (value, twice) = yaml::read_whole(text, lines_before).map_err(at)?;
    match twice.first() {
        Some(path) => {
            let said = yaml::twice(text, lines_before).into_iter().next();
            Err(said.unwrap_or_else(|| at(format!("{} stands there twice", path.as_str()))))
        }
        None => Ok(value),
    }
}

/// The items of a list take the place of the list.
fn unlist(
    mut value: Value,
    lines_before: usize,
    documents: &mut Vec<Document>,
    says_empty: &mut bool,
) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let of = value["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    if let (Some(of), Some(items)) = (of, value.get_mut("items").map(Value::take)) {
        let Value::Array(items) = items else { return Err(format!("line {}: items is no list", lines_before + 1)) };
        *says_empty |= items.is_empty();
        for mut item in items {
            // The items of a typed list, such as ConfigMapList, may leave out their kind.
            if item.is_object() && !of.is_empty() && item["kind"].is_null() {
                item["kind"] = of.clone().into();
                item["apiVersion"] = value["apiVersion"].clone();
            }
            unlist(item, lines_before, documents, says_empty)?;
        }
        return Ok(());
    }
    let named = named(&value).map_err(|why| format!("line {}: {why}", lines_before + 1))?;
    if documents.len() == OBJECTS_MAX {
        return Err(format!("it has more than {OBJECTS_MAX} objects: cut it into several files"));
    }
    documents.push(Document { named, json: value.to_string() });
    Ok(())
}

fn named(value: &Value) -> Result<Named, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &value["metadata"];
    let named = Named {
        api_version: text(&value["apiVersion"]),
        kind: text(&value["kind"]),
        namespace: text(&meta["namespace"]),
        name: text(&meta["name"]),
    };
    if !value.is_object() {
        return Err("the document is no object".to_owned());
    }
    if named.kind == "Kustomization" || named.api_version.starts_with("kustomize.config.k8s.io/") {
        return Err("it is for kustomize: build it first (kubectl kustomize), and put the result here".to_owned());
    }
    if named.kind.is_empty() && value["services"].is_object() {
        return Err("it is a Compose file: coracle import FILE makes manifests of it".to_owned());
    }
    for (field, said) in [("apiVersion", &named.api_version), ("kind", &named.kind), ("metadata.name", &named.name)] {
        if said.is_empty() {
            let advice = match meta["generateName"].as_str() {
                Some(_) if field == "metadata.name" => ": an object that is applied again has a name of its own",
                _ => "",
            };
            return Err(format!("{field} is missing{advice}"));
        }
    }
    let odd = |said: &str| said.len() > NAME_BYTES_MAX || said.contains(|c: char| c.is_control() || c == '/');
    if odd(&named.name) || odd(&named.namespace) {
        return Err(format!("metadata.name {:?} is no name", named.name));
    }
    Ok(named)
}

/// The texts between two lines of `---`, each with the number of lines before it.
fn parts(text: &str) -> impl Iterator<Item = (&str, usize)> {
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
                return Some((&whole[..length], lines_before));
            }
            length += line.len();
        }
        rest = None;
        Some((whole, lines_before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

    fn check(text: &str, expected: Result<&[&str], &str>) {
        match (read(text.as_bytes()), expected) {
            (Ok(manifest), Ok(expected)) => {
                let words: Vec<String> = manifest.documents.iter().map(|document| document.named.words()).collect();
                assert_eq!(words, expected, "{text}");
            }
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{text}: {found}"),
            (found, expected) => panic!("{text}: {found:?}, and not {expected:?}"),
        }
    }

    #[test]
    fn texts() {
        check(MAP, Ok(&["ConfigMap a"]));
        check(
            &format!("---\n# Source: chart/templates/a.yaml\n{MAP}---\n---\n# none\n\n--- # b\n"),
            Ok(&["ConfigMap a"]),
        );
        check(
            "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"b\", \"namespace\": \"n\"}}",
            Ok(&["Secret n/b"]),
        );
        let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: p}}\n";
        check(list, Ok(&["Pod p"]));
        check("apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: c}\n", Ok(&["ConfigMap c"]));
        check("apiVersion: v1\nkind: List\nitems: []\n", Ok(&[]));
        for nothing in ["", "\n", "---\n---\n", "# all of it is a comment\n", "null\n"] {
            check(nothing, Err("it names no object"));
        }
        check("a: [", Err("line "));
        check("- a\n", Err("no object"));
        check("kind: ConfigMap\nmetadata: {name: a}\n", Err("apiVersion is missing"));
        check("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", Err("metadata.name is missing: an object"));
        check(&format!("{MAP}---\n{MAP}"), Err("ConfigMap a stands there twice"));
        check(&format!("{MAP}data:\n  x: a\n  x: b\n"), Err("x"));
        check("apiVersion: v1\nkind: {{ .Kind }}\nmetadata: {name: {{ x }}-a}\n", Err("render it first"));
        check("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", Err("kubectl kustomize"));
        check("services: {web: {image: nginx}}\n", Err("coracle import"));
        check("apiVersion: v1\nkind: Pod\nmetadata: {name: ../x}\n", Err("is no name"));
        check("a: \0\n", Err("zero"));
    }

    #[test]
    fn a_text_that_may_go_on_is_told_from_a_whole_one() {
        let ends = |text: &str| read(text.as_bytes()).expect("it is one").ends;
        assert!(ends(MAP) && !ends(&format!("{MAP}data: 1")));
        assert!(ends("{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"b\"}}"));
    }
}
