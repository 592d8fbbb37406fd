//! Builds rows of the kind table: common values by default, and a method for each that differs.

use super::kind::{Kind, Old, ProxyTarget, Scale, SelectableField, Subresource, Verb};
use crate::meta::Resource;
use crate::strategy::advice::Advice;
use crate::strategy::{BuiltinStrategy, DeletionPropagation, Share, StrategyRef};
use crate::types;
use coracle_schema::Types;
use std::borrow::Cow;

pub(super) const ALL: &[Verb] = &[
    Verb::Create,
    Verb::Delete,
    Verb::DeleteCollection,
    Verb::Get,
    Verb::List,
    Verb::Patch,
    Verb::Update,
    Verb::Watch,
];
/// The verbs of a subresource that is a part of the object.
pub(super) const PART_VERBS: &[Verb] = &[Verb::Get, Verb::Patch, Verb::Update];

/// The verbs of a proxy: every method.
const THROUGH: &[Verb] = &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update];

/// A selectable field whose label is the field's path.
pub(super) fn field(path: &'static str) -> SelectableField {
    SelectableField {
        label: Cow::Borrowed(path),
        path: Cow::Borrowed(path),
        or: Cow::Borrowed(""),
        missing: Cow::Borrowed(""),
    }
}

pub(super) fn field_or(path: &'static str, missing: &'static str) -> SelectableField {
    SelectableField { missing: Cow::Borrowed(missing), ..field(path) }
}

/// An API group in one version.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// The package of its types: `rbac` for `rbac.authorization.k8s.io`; empty in the core group.
    pub(super) package: &'static str,
}

impl Group {
    pub(super) fn row(
        self,
        plural: &'static str,
        singular: &'static str,
        kind: &'static str,
        strategy: &'static BuiltinStrategy,
    ) -> Kind {
        let type_name = match self.package {
            "" => Cow::Borrowed(kind),
            package => Cow::Owned(format!("{package}.{}.{kind}", self.version)),
        };
        let names = Names {
            group: Cow::Borrowed(self.name),
            version: Cow::Borrowed(self.version),
            plural: Cow::Borrowed(plural),
            singular: Cow::Borrowed(singular),
            kind: Cow::Borrowed(kind),
        };
        Kind::new(names, types::builtin(), type_name, StrategyRef::Builtin(strategy))
    }
}

/// The names of a kind.
pub struct Names {
    pub group: Cow<'static, str>,
    pub version: Cow<'static, str>,
    pub plural: Cow<'static, str>,
    pub singular: Cow<'static, str>,
    pub kind: Cow<'static, str>,
}

impl Kind {
    /// The row of most kinds: in namespaces, with all verbs and no subresource.
    pub fn new(names: Names, types: Types, type_name: Cow<'static, str>, strategy: StrategyRef) -> Kind {
        Kind {
            resource: Resource { group: names.group, plural: names.plural },
            version: names.version,
            kind: names.kind,
            singular: names.singular,
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            verbs: Cow::Borrowed(ALL),
            subresources: Vec::new(),
            types,
            type_name,
            old: None,
            fields: vec![field("metadata.name"), field("metadata.namespace")],
            strategy,
            heartbeats: false,
            put_creates: false,
            put_names_revision: false,
            delete_shows: false,
            fate: Some(DeletionPropagation::Background),
            parting: None,
            keeps_status: false,
            status_keeps: &[],
            given: &[],
            given_unnamed: &[],
            taken: &[],
            unowned: &[],
            scale: None,
            way: None,
            alias: None,
            other_form: None,
            answer: None,
            read_from_nodes: false,
            deprecated: None,
            guards: None,
            idle: false,
            advice: None,
        }
    }

    pub(super) fn short(mut self, names: &[&'static str]) -> Kind {
        self.short_names = names.iter().map(|name| Cow::Borrowed(*name)).collect();
        self
    }

    pub(super) fn in_all(mut self) -> Kind {
        self.categories = vec![Cow::Borrowed("all")];
        self
    }

    /// A kind that the older versions know. `plural`: that of the flat ones.
    pub(super) fn known_as(mut self, plural: &'static str) -> Kind {
        self.old = Some(Old { plural: Cow::Borrowed(plural), kind: self.kind.clone(), aliases: Vec::new() });
        self
    }

    pub(super) fn in_category(mut self, category: &'static str) -> Kind {
        self.categories = vec![Cow::Borrowed(category)];
        self
    }

    pub fn of_cluster(mut self) -> Kind {
        self.namespaced = false;
        self.fields = vec![field("metadata.name")];
        self
    }

    pub(super) fn part(
        mut self,
        name: &'static str,
        kind: &'static str,
        of: Option<(&'static str, &'static str)>,
        verbs: &'static [Verb],
    ) -> Kind {
        let part = Subresource {
            name: Cow::Borrowed(name),
            kind: Cow::Borrowed(kind),
            group_version: of,
            verbs: Cow::Borrowed(verbs),
            share: None,
        };
        self.subresources.push(part);
        self
    }

    /// A subresource that is the object's own document.
    pub(super) fn own_part(self, name: &'static str) -> Kind {
        let kind = self.kind.clone();
        let mut kind_row = self.part(name, "", None, PART_VERBS);
        if let Some(part) = kind_row.subresources.last_mut() {
            part.kind = kind;
        }
        kind_row
    }

    /// A part that is neither the status nor the whole.
    pub(super) fn share(self, share: &'static Share, verbs: &'static [Verb]) -> Kind {
        let mut row = self.own_part(share.name);
        if let Some(part) = row.subresources.last_mut() {
            part.verbs = Cow::Borrowed(verbs);
            part.share = Some(share);
        }
        row
    }

    /// The objects can be evicted if an object of the guarding kind allows the eviction.
    pub(super) fn evicted(mut self, guards: (&'static str, &'static str)) -> Kind {
        self.guards = Some(guards);
        self.part("eviction", "Eviction", Some(("policy", "v1")), &[Verb::Create])
    }

    pub fn with_status(mut self) -> Kind {
        self.keeps_status = true;
        self.own_part("status")
    }

    /// The metadata fields that a write of the status leaves alone.
    pub(super) fn status_keeps(mut self, fields: &'static [&'static str]) -> Kind {
        self.status_keeps = fields;
        self
    }

    pub(super) fn given(mut self, paths: &'static [&'static str]) -> Kind {
        self.given = paths;
        self
    }

    pub(super) fn taken(mut self, paths: &'static [&'static str]) -> Kind {
        self.taken = paths;
        self
    }

    pub(super) fn unowned(mut self, fields: &'static [&'static str]) -> Kind {
        self.unowned = fields;
        self
    }

    pub(super) fn with_scale(mut self, selector: &'static str, unread: Option<&'static str>) -> Kind {
        self.scale = Some(Scale { wanted: "spec.replicas", seen: "status.replicas", selector, unread });
        self.part("scale", "Scale", Some(("autoscaling", "v1")), PART_VERBS)
    }

    /// `options`: the name of the parameters' type.
    pub(super) fn reached(mut self, way: ProxyTarget, options: &'static str) -> Kind {
        self.way = Some(way);
        self.part("proxy", options, None, THROUGH)
    }

    pub(super) fn selectable(mut self, fields: impl IntoIterator<Item = SelectableField>) -> Kind {
        self.fields.extend(fields);
        self
    }

    pub(super) fn put_creates(mut self) -> Kind {
        self.put_creates = true;
        self
    }

    pub(super) fn put_names_revision(mut self) -> Kind {
        self.put_names_revision = true;
        self
    }

    pub(super) fn delete_shows(mut self) -> Kind {
        self.delete_shows = true;
        self
    }

    /// Owned objects stay by default when the owner is deleted.
    pub(super) fn orphans(mut self) -> Kind {
        self.fate = Some(DeletionPropagation::Orphan);
        self
    }

    pub(super) fn parting(mut self, words: &'static str) -> Kind {
        self.parting = Some(words);
        self
    }

    pub(super) fn advised(mut self, advice: Advice) -> Kind {
        self.advice = Some(advice);
        self
    }

    pub(super) fn idle(mut self) -> Kind {
        self.idle = true;
        self
    }
}
