//! A row of the kind table, and the types of the columns.

use crate::meta::Resource;
use crate::strategy::advice::Advice;
use crate::strategy::{DeletionPropagation, Share, StrategyRef, review};
use coracle_schema::Types;
use coracle_schema::apply::Form;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// A verb of a resource, by its name in discovery and in rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    Create,
    Delete,
    DeleteCollection,
    Get,
    List,
    Patch,
    Update,
    Watch,
}

impl Verb {
    pub fn wire(self) -> &'static str {
        match self {
            Verb::Create => "create",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Patch => "patch",
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
    /// The group and version of `kind`. None: the resource's group and version.
    pub group_version: Option<(&'static str, &'static str)>,
    pub verbs: Cow<'static, [Verb]>,
    /// A part of the object's own document that is neither its status nor anything that is told by name here.
    pub share: Option<&'static Share>,
}

/// Where a document says how many it wants and has: what the subresource `scale` reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Field names with points between.
    pub wanted: &'static str,
    pub seen: &'static str,
    /// A map of labels or a label selector.
    pub selector: &'static str,
    /// In which group the refusal says that there is no `scale` to be read; None: it speaks of the object.
    pub unread: Option<&'static str>,
}

/// A kind that shows the objects of a stored kind in a different form.
#[derive(Clone, Copy)]
pub struct Alias {
    /// `apiVersion` and `kind` of the kind whose rules hold and under whose resource the objects stand.
    pub of: (&'static str, &'static str),
    /// Converts a document to the stored form, with `apiVersion` and `kind`.
    pub read: fn(&mut Value),
    /// And back.
    pub show: fn(&mut Value),
}

/// The target of a kind's `proxy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyTarget {
    /// The pod's address; a port is a number or the name of a container port.
    Pod,
    /// Any ready endpoint of the service.
    Service,
    /// The node's agent, or any port on the node.
    Node,
}

/// How a kind is called in v1beta1 and v1beta2. v1beta3 calls it as v1 does.
#[derive(Clone, Debug)]
pub struct Old {
    /// In paths, case and all: `replicationControllers`. Empty: v1beta3 alone has it.
    pub plural: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    /// Further plurals that v1beta1 and v1beta2 accept in paths: `nodes` for `minions`.
    pub aliases: Vec<Cow<'static, str>>,
}

/// A field that a selector may name, and where it stands in the document; mostly the same: `spec.nodeName`.
#[derive(Clone, Debug)]
pub struct SelectableField {
    pub label: Cow<'static, str>,
    /// Field names with points between.
    pub path: Cow<'static, str>,
    /// The path of a second field, read if the first field is empty. Empty: no second field.
    pub or: Cow<'static, str>,
    /// The value of a document without the field.
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
    /// The kind's type and all types that the kind's type refers to.
    pub types: Types,
    /// The name of the kind's type in `types`.
    pub type_name: Cow<'static, str>,
    /// None: no version before v1 knows it.
    pub old: Option<Old>,
    pub fields: Vec<SelectableField>,
    pub strategy: StrategyRef,
    /// An unchanged status is still a sign of life that the controllers are told of.
    pub heartbeats: bool,
    /// A PUT creates a missing object.
    pub put_creates: bool,
    /// A PUT of an existing object must name a revision. False: a PUT without a revision overwrites any revision.
    pub put_names_revision: bool,
    /// A DELETE that is done at once answers the object that was, and not a Status.
    pub delete_shows: bool,
    /// The default fate of owned objects at a deletion. None: no object may have an owner of this kind.
    pub fate: Option<DeletionPropagation>,
    /// The warning for a delete request without a policy for the owned objects.
    pub parting: Option<&'static str>,
    /// Writers of the object cannot set `status`: a create drops the client's status, an update keeps the stored
    /// status.
    pub keeps_status: bool,
    /// Fields of the metadata that a write of the status does not change; all further fields may change.
    pub status_keeps: &'static [&'static str],
    /// Fields that the server sets if the client does not: no writer of the object becomes an owner of such a field. A
    /// star is every entry of a list. Names with points in them are parted by bars.
    pub given: &'static [&'static str],
    /// Like `given`, but only for generated names: a value derived from the client's name belongs to the client.
    pub given_unnamed: &'static [&'static str],
    /// Fields that the server removes or empties: the writer owns such a field all the same.
    pub taken: &'static [&'static str],
    /// Fields that have no recorded owner.
    pub unowned: &'static [&'static str],
    pub scale: Option<Scale>,
    /// None: the kind has no `proxy`.
    pub way: Option<ProxyTarget>,
    /// None: the kind has objects of its own.
    pub alias: Option<Alias>,
    /// A second API version of the same objects. None: the kind has only this version.
    pub other_form: Option<Form<'static>>,
    /// Reviews only: computes the answer to a create. Reviews are not stored.
    pub answer: Option<review::Answer>,
    /// The objects are metrics of running pods and nodes: read from the nodes at each request, never stored.
    pub read_from_nodes: bool,
    /// The deprecation warning in every answer about the kind.
    pub deprecated: Option<&'static str>,
    /// The kind that guards its objects from being evicted: `apiVersion` and `kind`.
    pub guards: Option<(&'static str, &'static str)>,
    /// No controller acts on the objects yet; every writer gets a warning.
    pub idle: bool,
    /// Further warnings for writers.
    pub advice: Option<Advice>,
}

impl Kind {
    /// Whether a verb is offered on the resource itself.
    pub fn offers(&self, verb: Verb) -> bool {
        self.verbs.contains(&verb)
    }

    /// The warning for writers of an object.
    pub fn warning(&self) -> Option<String> {
        self.idle
            .then(|| format!("nothing acts on {} yet: the object is stored and shown, and that is all", self.resource))
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// The `apiVersion` of the kind's documents: `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.resource.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.resource.group, self.version)
        }
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
