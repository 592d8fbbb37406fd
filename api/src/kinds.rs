//! The kind table: what a resource is called, what may be done with it, and which rules it follows. A value, passed
//! to who needs it; nothing is global.

use crate::meta::Resource;
use crate::strategy::Strategy;
use std::borrow::Cow;

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
    pub aliases: Cow<'static, [&'static str]>,
}

/// A field that a selector may name, and where it stands in the document: `("spec.nodeName", ["spec", "nodeName"])`.
#[derive(Clone, Debug)]
pub struct SelectableField {
    pub label: Cow<'static, str>,
    pub path: Cow<'static, [&'static str]>,
    /// What a document without the field is taken to hold.
    pub missing: &'static str,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub struct Kind {
    pub resource: Resource,
    pub version: Cow<'static, str>,
    pub kind: Cow<'static, str>,
    pub singular: Cow<'static, str>,
    pub short_names: Cow<'static, [&'static str]>,
    pub categories: Cow<'static, [&'static str]>,
    pub namespaced: bool,
    pub verbs: Cow<'static, [Verb]>,
    pub subresources: Cow<'static, [Subresource]>,
    /// The name of its type in the schema.
    pub type_name: Cow<'static, str>,
    /// None: v1beta1 does not know it.
    pub old: Option<Old>,
    pub fields: Cow<'static, [SelectableField]>,
    pub strategy: &'static Strategy,
    /// An unchanged status is still a sign of life that the controllers are told of.
    pub heartbeats: bool,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Kinds {
    pub rows: Vec<Kind>,
}
