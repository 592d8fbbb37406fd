//! Renders the OpenAPI documents: one for each group and version (3.0), and one of all (2.0). PURE.
//!
//!     kinds -> items, one at a time -> JSON text, or the protobuf message that old clients read (`gnostic`)
//!
//! The documents together have some megabytes, so none is kept: each is written piece by piece to where it goes, which
//! is an answer, or a hash over it.

use super::discovery;
use super::gnostic;
use coracle_api::kinds::{Kind, Kinds, Subresource, Verb};
use coracle_api::types::MACHINERY;
use coracle_schema::openapi::{self, Dialect};
use serde_json::{Map, Value, json};

/// Where a document goes.
pub type Output<'s> = &'s mut dyn FnMut(&[u8]);

const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
/// The query parameters of each kind of request, and whether they are texts.
const OF_WRITES: &[(&str, &str)] = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const OF_PATCHES: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const OF_DELETES: &[(&str, &str)] =
    &[("dryRun", "string"), ("gracePeriodSeconds", "integer"), ("propagationPolicy", "string")];
const OF_LISTS: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
const OF_COLLECTIONS: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("labelSelector", "string"),
    ("propagationPolicy", "string"),
];

/// One method at one path.
struct Operation {
    method: &'static str,
    action: &'static str,
    query: &'static [(&'static str, &'static str)],
    /// Group, version and kind of the objects that the operation acts on.
    about: (String, String, String),
    /// The schema of its body.
    takes: Option<String>,
    gives: Option<String>,
}

/// One path.
struct PathItem {
    path: String,
    /// The names of the operations in generated clients, before and behind the word `Namespaced`, which a namespaced
    /// path inserts.
    titles: (String, String),
    namespaced: bool,
    named: bool,
    operations: Vec<Operation>,
}

/// The document of a group and version.
pub fn document(kinds: &Kinds, group: &str, version: &str, into: Output) {
    let mut writer = Writer { into, first: true };
    writer.text(r#"{"openapi":"3.0.0","info":{"title":"Kubernetes","version":"#);
    writer.value(&release());
    writer.text(r#"},"paths":{"#);
    for kind in discovery::rows(kinds, group, version) {
        for place in path_items(kind) {
            writer.entry(&place.path, &place_v3(&place));
        }
    }
    writer.text(r#"},"components":{"schemas":{"#);
    writer.first = true;
    schemas(kinds, Dialect::V3, &[(group, version)], &mut |name, schema| writer.entry(name, schema));
    writer.text("}}}");
}

/// The document of everything, as JSON.
pub fn swagger(kinds: &Kinds, into: Output) {
    let mut writer = Writer { into, first: true };
    writer.text(r#"{"swagger":"2.0","info":{"title":"Kubernetes","version":"#);
    writer.value(&release());
    writer.text(r#"},"paths":{"#);
    for (group, version) in versions(kinds) {
        for place in discovery::rows(kinds, group, version).into_iter().flat_map(path_items) {
            writer.entry(&place.path, &place_v2(&place));
        }
    }
    writer.text(r#"},"definitions":{"#);
    writer.first = true;
    schemas(kinds, Dialect::V2, &versions(kinds), &mut |name, schema| writer.entry(name, schema));
    writer.text("}}");
}

/// The same in protobuf.
pub fn swagger_message(kinds: &Kinds, into: Output) {
    into(&gnostic::head("2.0", "Kubernetes", release().as_str().unwrap_or_default()));
    for (group, version) in versions(kinds) {
        for place in discovery::rows(kinds, group, version).into_iter().flat_map(path_items) {
            into(&gnostic::path(&place.path, &place_v2(&place)));
        }
    }
    schemas(kinds, Dialect::V2, &versions(kinds), &mut |name, schema| into(&gnostic::definition(name, schema)));
}

/// All groups and versions, the core group first.
pub fn versions(kinds: &Kinds) -> Vec<(&str, &str)> {
    let others = discovery::groups(kinds)
        .into_iter()
        .flat_map(|group| group.versions.into_iter().map(move |version| (group.name, version)));
    std::iter::once(("", "v1")).chain(others).collect()
}

fn release() -> Value {
    discovery::version()["gitVersion"].take()
}

/// JSON, piece by piece.
struct Writer<'s> {
    into: Output<'s>,
    /// Nothing stands before in this object.
    first: bool,
}

impl Writer<'_> {
    fn text(&mut self, text: &str) {
        (self.into)(text.as_bytes());
    }

    fn value(&mut self, value: &Value) {
        (self.into)(value.to_string().as_bytes());
    }

    fn entry(&mut self, name: &str, value: &Value) {
        let comma = if self.first { "" } else { "," };
        self.first = false;
        self.text(&format!("{comma}{}:{value}", Value::from(name)));
    }
}

/// The schemas that the kinds of these groups need, by name.
fn schemas(kinds: &Kinds, dialect: Dialect, of: &[(&str, &str)], tell: &mut dyn FnMut(&str, &Value)) {
    let rows: Vec<&Kind> = of.iter().flat_map(|(group, version)| discovery::rows(kinds, group, version)).collect();
    let mut found = openapi::Closure::new();
    for kind in &rows {
        let parts = kind.subresources.iter().map(|part| part_type(kind, part));
        let names = [kind.type_name.to_string(), format!("{}List", kind.type_name)].into_iter().chain(parts);
        openapi::close(&kind.types, names, &mut found);
    }
    openapi::close(&MACHINERY, ["DeleteOptions", "Status"].map(str::to_owned), &mut found);
    for (types, row) in found.iter().filter_map(|(name, types)| Some((types, types.get(name)?))) {
        let mut schema = openapi::schema(types, dialect, row);
        let kinds = kinds_of(&rows, &row.name);
        if !kinds.is_empty() {
            schema["x-kubernetes-group-version-kind"] = kinds.into();
        }
        tell(&openapi::name(row), &schema);
    }
    for name in openapi::COMMON {
        tell(name, &openapi::common(dialect, name));
    }
    tell(PATCH, &json!({"type": "object"}));
}

/// Which kinds, or lists of a kind, have a type; parts of a kind too.
fn kinds_of(rows: &[&Kind], type_name: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut tell = |group: &str, version: &str, kind: &str| {
        let row = json!({"group": group, "version": version, "kind": kind});
        if !found.contains(&row) {
            found.push(row);
        }
    };
    for kind in rows {
        if kind.type_name == type_name {
            tell(&kind.resource.group, &kind.version, &kind.kind);
        } else if type_name.strip_suffix("List") == Some(&kind.type_name) {
            tell(&kind.resource.group, &kind.version, &kind.list_kind());
        }
        for part in kind.subresources.iter().filter(|part| part_type(kind, part) == type_name) {
            let (group, version) = part.group_version.unwrap_or((&kind.resource.group, &kind.version));
            tell(group, version, &part.kind);
        }
    }
    if matches!(type_name, "DeleteOptions" | "Status") {
        tell("", "v1", type_name);
    }
    found
}

/// `autoscaling.v1.Scale`.
fn part_type(kind: &Kind, part: &Subresource) -> String {
    match part.group_version {
        None if part.kind == kind.kind => kind.type_name.to_string(),
        None => part.kind.to_string(),
        Some((group, version)) => format!("{}.{version}.{}", group.split('.').next().unwrap_or_default(), part.kind),
    }
}

fn path_items(kind: &Kind) -> Vec<PathItem> {
    let (group, plural) = (&kind.resource.group, &kind.resource.plural);
    let base = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/{}", kind.version) };
    let inside =
        if kind.namespaced { format!("{base}/namespaces/{{namespace}}/{plural}") } else { format!("{base}/{plural}") };
    let schema = |name: &str| kind.types.get(name).map(openapi::name);
    let (own, list) = (schema(&kind.type_name), schema(&format!("{}List", kind.type_name)));
    let about = (group.to_string(), kind.version.to_string(), kind.kind.to_string());
    let operations = |verbs: &[Verb], all: bool| {
        let verbs =
            verbs.iter().filter(|verb| all == matches!(verb, Verb::List | Verb::Create | Verb::DeleteCollection));
        verbs.filter_map(|verb| operation(*verb, &about, &own, &list)).collect::<Vec<_>>()
    };
    let group_title = if group.is_empty() { "core" } else { group.trim_end_matches(".k8s.io") };
    let titled = camel(group_title) + &capital(&kind.version);
    let place = |path: String, title: String, named: bool, operations: Vec<Operation>| {
        let namespaced = path.contains("{namespace}");
        PathItem { path, titles: (titled.clone(), title), namespaced, named, operations }
    };
    let title = kind.kind.to_string();
    let mut items = vec![
        place(inside.clone(), title.clone(), false, operations(&kind.verbs, true)),
        place(format!("{inside}/{{name}}"), title.clone(), true, operations(&kind.verbs, false)),
    ];
    if kind.namespaced && kind.offers(Verb::List) {
        let title = format!("{title}ForAllNamespaces");
        items.push(place(format!("{base}/{plural}"), title, false, operations(&[Verb::List], true)));
    }
    for part in &kind.subresources {
        let own = schema(&part_type(kind, part));
        // A subresource that leads to another server has no schema here.
        if own.is_none() {
            continue;
        }
        let (group, version) =
            part.group_version.map_or((about.0.clone(), about.1.clone()), |(g, v)| (g.to_owned(), v.to_owned()));
        let about = (group, version, part.kind.to_string());
        let operations = part.verbs.iter().filter_map(|verb| operation(*verb, &about, &own, &None)).collect();
        items.push(place(
            format!("{inside}/{{name}}/{}", part.name),
            title.clone() + &capital(&part.name),
            true,
            operations,
        ));
    }
    items.retain(|place| !place.operations.is_empty());
    items
}

fn operation(
    verb: Verb,
    about: &(String, String, String),
    own: &Option<String>,
    list: &Option<String>,
) -> Option<Operation> {
    let (method, action, query) = match verb {
        Verb::Create => ("post", "post", OF_WRITES),
        Verb::Delete => ("delete", "delete", OF_DELETES),
        Verb::DeleteCollection => ("delete", "deletecollection", OF_COLLECTIONS),
        Verb::Get => ("get", "get", &[] as &[(&str, &str)]),
        Verb::List => ("get", "list", OF_LISTS),
        Verb::Patch => ("patch", "patch", OF_PATCHES),
        Verb::Update => ("put", "put", OF_WRITES),
        // A list with a parameter.
        Verb::Watch => return None,
    };
    let takes = match verb {
        Verb::Create | Verb::Update => own.clone(),
        Verb::Patch => Some(PATCH.to_owned()),
        Verb::Delete | Verb::DeleteCollection => Some("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions".to_owned()),
        _ => None,
    };
    let gives = match verb {
        Verb::List => list.clone(),
        Verb::Delete | Verb::DeleteCollection => Some("io.k8s.apimachinery.pkg.apis.meta.v1.Status".to_owned()),
        _ => own.clone(),
    };
    Some(Operation { method, action, query, about: about.clone(), takes, gives })
}

/// The parameters of a path.
fn names(place: &PathItem) -> impl Iterator<Item = &'static str> {
    [("name", place.named), ("namespace", place.namespaced)]
        .into_iter()
        .filter(|(_, there)| *there)
        .map(|(name, _)| name)
}

/// `rbac.authorization` is `RbacAuthorization`.
fn camel(words: &str) -> String {
    words.split('.').map(capital).collect()
}

fn capital(word: &str) -> String {
    word[..word.len().min(1)].to_ascii_uppercase() + &word[word.len().min(1)..]
}

/// `listCoreV1NamespacedPod`: generated clients make method names from this id.
fn id(place: &PathItem, operation: &Operation) -> String {
    let verb = match operation.action {
        "get" => "read",
        "post" => "create",
        "put" => "replace",
        "deletecollection" => "delete",
        other => other,
    };
    let collection = if operation.action == "deletecollection" { "Collection" } else { "" };
    let namespaced = if place.namespaced { "Namespaced" } else { "" };
    format!("{verb}{}{collection}{namespaced}{}", place.titles.0, place.titles.1)
}

fn place_v3(place: &PathItem) -> Value {
    let mut shown = Map::new();
    for operation in &place.operations {
        let parameter = |(name, kind): &(&str, &str)| json!({"name": name, "in": "query", "schema": {"type": kind}});
        let body = operation.takes.as_ref().map(|schema| {
            let media: &[&str] = if operation.action == "patch" { &PATCHES } else { &["*/*"] };
            let content: Map<String, Value> = media
                .iter()
                .map(|media| ((*media).to_owned(), json!({"schema": Dialect::V3.reference(schema)})))
                .collect();
            json!({"content": content, "required": operation.method != "delete"})
        });
        let mut document = about(operation);
        document.insert("operationId".to_owned(), id(place, operation).into());
        document.insert("parameters".to_owned(), operation.query.iter().map(parameter).collect());
        if let Some(body) = body {
            document.insert("requestBody".to_owned(), body);
        }
        let mut done = json!({"description": "OK"});
        if let Some(schema) = &operation.gives {
            done["content"] = json!({"application/json": {"schema": Dialect::V3.reference(schema)}});
        }
        document.insert("responses".to_owned(), json!({"200": done}));
        shown.insert(operation.method.to_owned(), document.into());
    }
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}});
    shown.insert("parameters".to_owned(), names(place).map(parameter).collect());
    shown.into()
}

fn place_v2(place: &PathItem) -> Value {
    let mut shown = Map::new();
    for operation in &place.operations {
        let mut parameters: Vec<Value> =
            operation.query.iter().map(|(name, kind)| json!({"name": name, "in": "query", "type": kind})).collect();
        let mut document = about(operation);
        document.insert("operationId".to_owned(), id(place, operation).into());
        if let Some(schema) = &operation.takes {
            let required = operation.method != "delete";
            parameters.push(
                json!({"name": "body", "in": "body", "required": required, "schema": Dialect::V2.reference(schema)}),
            );
            document.insert(
                "consumes".to_owned(),
                if operation.action == "patch" { json!(PATCHES) } else { json!(["*/*"]) },
            );
        }
        document.insert("parameters".to_owned(), parameters.into());
        let mut done = json!({"description": "OK"});
        if let Some(schema) = &operation.gives {
            done["schema"] = Dialect::V2.reference(schema);
        }
        document.insert("responses".to_owned(), json!({"200": done}));
        shown.insert(operation.method.to_owned(), document.into());
    }
    let parameter = |name: &str| json!({"name": name, "in": "path", "required": true, "type": "string"});
    shown.insert("parameters".to_owned(), names(place).map(parameter).collect());
    shown.into()
}

fn about(operation: &Operation) -> Map<String, Value> {
    let (group, version, kind) = &operation.about;
    let mut document = Map::new();
    document.insert("x-kubernetes-action".to_owned(), json!(operation.action));
    document.insert(
        "x-kubernetes-group-version-kind".to_owned(),
        json!({"group": group, "version": version, "kind": kind}),
    );
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_operation_has_the_name_that_clients_know() {
        let kinds = Kinds::builtin();
        let rows = versions(&kinds).into_iter().flat_map(|(group, version)| discovery::rows(&kinds, group, version));
        let items: Vec<PathItem> = rows.flat_map(path_items).collect();
        let mut ids = HashSet::new();
        for place in &items {
            for operation in &place.operations {
                let id = id(place, operation);
                assert!(ids.insert(id.clone()), "{id} twice");
            }
        }
        for known in [
            "readCoreV1NamespacedPod",
            "listCoreV1PodForAllNamespaces",
            "deleteCoreV1CollectionNamespacedPod",
            "replaceCoreV1NamespacedPodStatus",
            "createCoreV1Namespace",
            "patchAppsV1NamespacedDeploymentScale",
            "listRbacAuthorizationV1ClusterRole",
            "createAutoscalingV2NamespacedHorizontalPodAutoscaler",
        ] {
            assert!(ids.contains(known), "{known}");
        }
    }
}
