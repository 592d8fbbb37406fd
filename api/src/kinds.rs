//! The kind table: what a resource is called, what may be done with it, and which rules it follows. A value, passed
//! to who needs it; nothing is global.

use crate::meta::Resource;
use crate::strategy::{self, Strategy};
use std::borrow::Cow;
use std::fmt;

/// What a client may do with a resource, by its name in discovery and in rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    Create,
    Delete,
    Get,
    List,
    Update,
    Watch,
}

impl Verb {
    pub fn wire(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Update => "update",
            Verb::Watch => "watch",
        }
    }
}

/// A path behind an object's own: `pods/x/status`.
#[derive(Clone, Debug)]
pub struct Subresource {
    pub name: Cow<'static, str>,
    /// The kind of its documents.
    pub kind: Cow<'static, str>,
    pub verbs: Cow<'static, [Verb]>,
}

/// How a kind is called in v1beta1.
#[derive(Clone, Debug)]
pub struct Old {
    /// In paths, case and all: `replicationControllers`.
    pub plural: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    /// Other plurals that v1beta1 takes in paths: `nodes` for `minions`.
    pub aliases: Vec<Cow<'static, str>>,
}

/// A field that a selector may name, and where it stands in the document; mostly the same: `spec.nodeName`.
#[derive(Clone, Debug)]
pub struct SelectableField {
    pub label: Cow<'static, str>,
    /// Field names with points between.
    pub path: Cow<'static, str>,
    /// What a document without the field is taken to hold.
    pub missing: Cow<'static, str>,
}

/// One row of the table.
#[derive(Clone)]
pub struct Kind {
    pub resource: Resource,
    pub version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub singular: Cow<'static, str>,
    pub short_names: Vec<Cow<'static, str>>,
    pub categories: Vec<Cow<'static, str>>,
    pub namespaced: bool,
    pub verbs: Cow<'static, [Verb]>,
    pub subresources: Vec<Subresource>,
    /// The name of its type in the schema.
    pub type_name: Cow<'static, str>,
    /// None: v1beta1 does not know it.
    pub old: Option<Old>,
    pub fields: Vec<SelectableField>,
    pub strategy: &'static Strategy,
    /// An unchanged status is still a sign of life that the controllers are told of.
    pub heartbeats: bool,
    /// A PUT of an object that is not there makes it.
    pub put_creates: bool,
    /// A DELETE that is done at once answers the object that was, and not a Status.
    pub delete_shows: bool,
    /// Other objects name it as their owner; its deletion settles what becomes of them.
    pub owns: bool,
}

impl Kind {
    /// Whether a verb is offered on the resource itself.
    pub fn offers(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// `v1`, `apps/v1`: what `apiVersion` of its documents says.
    pub fn api_version(&self) -> String {
        if self.resource.group.is_empty() { self.version.to_string() } else { format!("{}/{}", self.resource.group, self.version) }
    }

    /// `PodList`.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({})", self.resource)
    }
}

/// The table.
#[derive(Clone, Debug)]
pub struct Kinds {
    rows: Vec<Kind>,
}

impl Kinds {
    /// The kinds that the programs are built with.
    pub fn builtin() -> Kinds {
        Kinds { rows: vec![bindings(), endpoints(), events(), namespaces(), nodes(), pods(), replicationcontrollers(), services()] }
    }

    pub fn of(rows: Vec<Kind>) -> Kinds {
        Kinds { rows }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.rows.iter()
    }

    pub fn by_resource(&self, resource: &Resource) -> Option<&Kind> {
        self.iter().find(|row| row.resource == *resource)
    }

    /// By the path of today: `("", "v1", "pods")`.
    pub fn by_path(&self, group: &str, version: &str, plural: &str) -> Option<&Kind> {
        self.iter().find(|row| row.resource.group == group && row.version == version && row.resource.plural == plural)
    }

    /// By `apiVersion` and `kind` of a document: `("v1", "Pod")`.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.iter().find(|row| row.kind == kind && row.resource.group == group && row.version == version)
    }

    /// By the path of v1beta1, in its own case: `replicationControllers`, `minions`, `nodes`.
    pub fn by_old_path(&self, plural: &str) -> Option<&Kind> {
        self.iter().find(|row| row.old.as_ref().is_some_and(|old| old.plural == plural || old.aliases.iter().any(|alias| alias == plural)))
    }

    /// By the kind as v1beta1 says it: `Minion`, and `Node` as well.
    pub fn by_old_kind(&self, kind: &str) -> Option<&Kind> {
        self.iter().find(|row| row.old.as_ref().is_some_and(|old| old.kind == kind || row.kind == kind))
    }
}

const ALL: &[Verb] = &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Update, Verb::Watch];
const STATUS_VERBS: &[Verb] = &[Verb::Get, Verb::Update];

/// A subresource that is the object's own document.
fn status_of(kind: &'static str) -> Subresource {
    Subresource { name: Cow::Borrowed("status"), kind: Cow::Borrowed(kind), verbs: Cow::Borrowed(STATUS_VERBS) }
}

fn old(plural: &'static str, kind: &'static str) -> Option<Old> {
    Some(Old { plural: Cow::Borrowed(plural), kind: Cow::Borrowed(kind), aliases: Vec::new() })
}

/// A field that is called as it stands.
fn field(path: &'static str) -> SelectableField {
    SelectableField { label: Cow::Borrowed(path), path: Cow::Borrowed(path), missing: Cow::Borrowed("") }
}

fn field_or(path: &'static str, missing: &'static str) -> SelectableField {
    SelectableField { missing: Cow::Borrowed(missing), ..field(path) }
}

/// What is the same in most rows.
fn row(plural: &'static str, singular: &'static str, kind: &'static str, strategy: &'static Strategy) -> Kind {
    Kind {
        resource: Resource::core(plural),
        version: Cow::Borrowed("v1"),
        kind: Cow::Borrowed(kind),
        singular: Cow::Borrowed(singular),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Cow::Borrowed(ALL),
        subresources: Vec::new(),
        type_name: Cow::Borrowed(kind),
        old: old(plural, kind),
        fields: vec![field("metadata.name"), field("metadata.namespace")],
        strategy,
        heartbeats: false,
        put_creates: false,
        delete_shows: false,
        owns: false,
    }
}

fn bindings() -> Kind {
    Kind { verbs: Cow::Borrowed(&[Verb::Create]), fields: Vec::new(), ..row("bindings", "binding", "Binding", &strategy::BINDING) }
}

fn endpoints() -> Kind {
    Kind { short_names: vec!["ep".into()], put_creates: true, ..row("endpoints", "endpoints", "Endpoints", &strategy::ENDPOINTS) }
}

fn events() -> Kind {
    Kind {
        short_names: vec!["ev".into()],
        fields: vec![
            field("involvedObject.apiVersion"),
            field("involvedObject.fieldPath"),
            field("involvedObject.kind"),
            field("involvedObject.name"),
            field("involvedObject.namespace"),
            field("involvedObject.resourceVersion"),
            field("involvedObject.uid"),
            field("metadata.name"),
            field("metadata.namespace"),
            field("reason"),
            field("reportingComponent"),
            SelectableField { path: Cow::Borrowed("source.component"), ..field("source") },
            field("type"),
        ],
        put_creates: true,
        ..row("events", "event", "Event", &strategy::EVENT)
    }
}

fn namespaces() -> Kind {
    Kind {
        short_names: vec!["ns".into()],
        namespaced: false,
        subresources: vec![status_of("Namespace")],
        fields: vec![field("metadata.name"), field("status.phase")],
        delete_shows: true,
        ..row("namespaces", "namespace", "Namespace", &strategy::NAMESPACE)
    }
}

fn nodes() -> Kind {
    Kind {
        short_names: vec!["no".into()],
        namespaced: false,
        subresources: vec![status_of("Node")],
        old: Some(Old { plural: "minions".into(), kind: "Minion".into(), aliases: vec!["nodes".into()] }),
        fields: vec![field("metadata.name"), field_or("spec.unschedulable", "false")],
        heartbeats: true,
        ..row("nodes", "node", "Node", &strategy::NODE)
    }
}

fn pods() -> Kind {
    Kind {
        short_names: vec!["po".into()],
        categories: vec!["all".into()],
        subresources: vec![
            Subresource { name: "binding".into(), kind: "Binding".into(), verbs: Cow::Borrowed(&[Verb::Create]) },
            Subresource { name: "log".into(), kind: "Pod".into(), verbs: Cow::Borrowed(&[Verb::Get]) },
            status_of("Pod"),
        ],
        fields: vec![
            field("metadata.name"),
            field("metadata.namespace"),
            field_or("spec.hostNetwork", "false"),
            field("spec.nodeName"),
            field("spec.restartPolicy"),
            field("spec.schedulerName"),
            field("spec.serviceAccountName"),
            field("status.nominatedNodeName"),
            field("status.phase"),
            field("status.podIP"),
        ],
        delete_shows: true,
        ..row("pods", "pod", "Pod", &strategy::POD)
    }
}

fn replicationcontrollers() -> Kind {
    Kind {
        short_names: vec!["rc".into()],
        categories: vec!["all".into()],
        subresources: vec![status_of("ReplicationController")],
        old: old("replicationControllers", "ReplicationController"),
        fields: vec![field("metadata.name"), field("metadata.namespace"), field_or("status.replicas", "0")],
        owns: true,
        ..row("replicationcontrollers", "replicationcontroller", "ReplicationController", &strategy::REPLICATION_CONTROLLER)
    }
}

fn services() -> Kind {
    Kind {
        short_names: vec!["svc".into()],
        categories: vec!["all".into()],
        subresources: vec![status_of("Service")],
        fields: vec![field("metadata.name"), field("metadata.namespace"), field("spec.clusterIP"), field("spec.type")],
        put_creates: true,
        delete_shows: true,
        ..row("services", "service", "Service", &strategy::SERVICE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_every_name() {
        let kinds = Kinds::builtin();
        for row in kinds.iter() {
            assert_eq!(kinds.by_path("", "v1", &row.resource.plural).map(|row| &row.kind), Some(&row.kind));
            assert_eq!(kinds.by_kind("v1", &row.kind).map(|row| &row.kind), Some(&row.kind));
            let old = row.old.as_ref().unwrap();
            assert_eq!(kinds.by_old_path(&old.plural).map(|row| &row.kind), Some(&row.kind));
            assert_eq!(kinds.by_old_kind(&old.kind).map(|row| &row.kind), Some(&row.kind));
        }
        assert_eq!(kinds.by_old_path("nodes").map(|row| &*row.kind), Some("Node"));
        assert!(kinds.by_old_path("replicationcontrollers").is_none(), "v1beta1 minds the case");
        assert!(kinds.by_path("", "v1", "replicationControllers").is_none(), "v1 has no upper case");
        assert!(kinds.by_kind("apps/v1", "Pod").is_none());
        assert!(kinds.by_path("", "v1", "configmaps").is_none());
    }
}
