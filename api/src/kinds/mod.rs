//! The kind table: names, verbs, type and rules of each resource. A value that is handed down; nothing is global, and a
//! kind that is defined at run time is one more row. The rows of the built-in kinds stand in one file for each family
//! of API groups.

mod apps;
mod core;
mod figures;
mod kind;
mod others;
mod reviews;
mod row;
mod storage;

use crate::meta::Resource;
use crate::old::Version;
use row::Group;
use std::fmt;
use std::sync::Arc;

pub use row::Names;

pub use kind::{Alias, Kind, Old, ProxyTarget, Scale, SelectableField, Subresource, Verb};

/// The table. A clone shares its rows.
#[derive(Clone, Debug)]
pub struct Kinds {
    rows: Vec<Arc<Kind>>,
}

/// A row that does not fit into the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindConflict {
    /// A row with the same `apiVersion` already has this name.
    Taken { api_version: String, name: String },
    /// The row's types lack the type that it names.
    NoType { kind: String, type_name: String },
}

impl fmt::Display for KindConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KindConflict::Taken { api_version, name } => {
                write!(f, "{api_version} has a kind with the name {name} already")
            }
            KindConflict::NoType { kind, type_name } => write!(f, "the types of {kind} lack {type_name}"),
        }
    }
}

impl std::error::Error for KindConflict {}

impl Kinds {
    /// The kinds that the programs are built with.
    pub fn builtin() -> Kinds {
        let groups = [core::rows(), apps::rows(), others::rows(), storage::rows(), reviews::rows(), figures::rows()];
        Kinds::of(groups.into_iter().flatten().collect())
    }

    pub fn of(rows: Vec<Kind>) -> Kinds {
        Kinds { rows: rows.into_iter().map(Arc::new).collect() }
    }

    /// This table and one more row, for a kind that is defined at run time.
    pub fn with(&self, kind: Kind) -> Result<Kinds, KindConflict> {
        let same_version = |row: &&Kind| row.resource.group == kind.resource.group && row.version == kind.version;
        let taken = |row: &Kind| {
            let resource = (row.resource.plural == kind.resource.plural).then(|| kind.resource.plural.to_string());
            resource.or((row.kind == kind.kind).then(|| kind.kind.to_string()))
        };
        if let Some(name) = self.iter().filter(same_version).find_map(taken) {
            return Err(KindConflict::Taken { api_version: kind.api_version(), name });
        }
        if kind.types.get(&kind.type_name).is_none() {
            return Err(KindConflict::NoType { kind: kind.kind.to_string(), type_name: kind.type_name.to_string() });
        }
        let mut rows = self.rows.clone();
        rows.push(Arc::new(kind));
        Ok(Kinds { rows })
    }

    /// This table without the kinds of a resource: their objects are not served any more. None: it has no such kind.
    pub fn without(&self, resource: &Resource) -> Option<Kinds> {
        let rows: Vec<Arc<Kind>> = self.rows.iter().filter(|row| row.resource != *resource).cloned().collect();
        (rows.len() < self.rows.len()).then_some(Kinds { rows })
    }

    /// The row that is this very value, to be kept. None: it is of another table.
    pub fn shared(&self, kind: &Kind) -> Option<Arc<Kind>> {
        self.rows.iter().find(|row| std::ptr::eq(&***row, kind)).cloned()
    }

    /// Whether a row that was kept is still a row of this table.
    pub fn holds(&self, row: &Arc<Kind>) -> bool {
        self.rows.iter().any(|own| Arc::ptr_eq(own, row))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.rows.iter().map(|row| &**row)
    }

    /// The kinds with objects of their own: without aliases of stored kinds, and without reviews.
    pub fn stored(&self) -> impl Iterator<Item = &Kind> {
        self.iter().filter(|row| row.alias.is_none() && row.answer.is_none())
    }

    /// The kind in whose form objects of a resource are stored.
    pub fn by_resource(&self, resource: &Resource) -> Option<&Kind> {
        self.iter().find(|row| row.resource == *resource && row.alias.is_none())
    }

    /// The same, to be kept.
    pub fn row(&self, resource: &Resource) -> Option<Arc<Kind>> {
        self.rows.iter().find(|row| row.resource == *resource && row.alias.is_none()).cloned()
    }

    /// The kind under which the objects are stored: `kind` itself, unless `kind` is an alias.
    pub fn stored_as<'k>(&'k self, kind: &'k Kind) -> &'k Kind {
        kind.alias.and_then(|alias| self.by_kind(alias.of.0, alias.of.1)).unwrap_or(kind)
    }

    /// Whether a group has a version: `("apps", "v1")`.
    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.iter().any(|row| row.resource.group == group && row.version == version)
    }

    /// By the path of today: `("", "v1", "pods")`.
    pub fn by_path(&self, group: &str, version: &str, plural: &str) -> Option<&Kind> {
        self.iter().find(|row| row.resource.group == group && row.version == version && row.resource.plural == plural)
    }

    /// As what the number of an object's replicas is told and set: no resource of its own.
    pub fn scale() -> Kind {
        let group = Group { name: "autoscaling", version: "v1", package: "autoscaling" };
        Kind { unowned: &["status"], ..group.row("scales", "scale", "Scale", &crate::strategy::SCALE) }
    }

    /// By `apiVersion` and `kind` of a document: `("v1", "Pod")`.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Kind> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.iter().find(|row| row.kind == kind && row.resource.group == group && row.version == version)
    }

    /// By the path of an older version, in its own case: `replicationControllers`, `minions`, `nodes`.
    pub fn by_old_path(&self, version: Version, plural: &str) -> Option<&Kind> {
        let called = |old: &Old| old.plural == plural || old.aliases.iter().any(|alias| alias == plural);
        self.iter().filter(|_| !plural.is_empty()).find(|row| match &row.old {
            Some(old) if version.is_flat() => called(old),
            Some(_) => row.resource.plural == plural,
            None => false,
        })
    }

    /// By the kind as v1beta1 says it: `Minion`, and `Node` as well.
    pub fn by_old_kind(&self, kind: &str) -> Option<&Kind> {
        self.iter().find(|row| row.old.as_ref().is_some_and(|old| old.kind == kind || row.kind == kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_by_every_name() {
        let kinds = Kinds::builtin();
        for row in kinds.iter() {
            let found = kinds.by_path(&row.resource.group, &row.version, &row.resource.plural);
            assert_eq!(found.map(|row| &row.kind), Some(&row.kind));
            assert_eq!(kinds.by_kind(&row.api_version(), &row.kind).map(|row| &row.resource), Some(&row.resource));
            assert!(kinds.stored_as(row).alias.is_none(), "{row:?}");
            assert!(row.alias.is_none() || row.other_form.is_some(), "{row:?}");
            if let Some(form) = row.other_form {
                let other = kinds.by_kind(form.api_version, &row.kind).expect("a form is a row");
                assert_eq!(
                    (form.type_name, other.other_form.map(|form| form.type_name)),
                    (&*other.type_name, Some(&*row.type_name))
                );
            }
            let Some(old) = &row.old else { continue };
            assert_eq!(kinds.by_old_path(Version::V1beta3, &row.resource.plural).map(|row| &row.kind), Some(&row.kind));
            let flat = Some(&row.kind).filter(|_| !old.plural.is_empty());
            assert_eq!(kinds.by_old_path(Version::V1beta2, &old.plural).map(|row| &row.kind), flat);
            assert_eq!(kinds.by_old_kind(&old.kind).map(|row| &row.kind), Some(&row.kind));
        }
        assert_eq!(kinds.by_old_path(Version::V1beta1, "nodes").map(|row| &*row.kind), Some("Node"));
        assert!(kinds.by_old_path(Version::V1beta1, "replicationcontrollers").is_none(), "v1beta1 minds the case");
        assert!(kinds.by_old_path(Version::V1beta3, "minions").is_none(), "v1beta3 calls them nodes");
        assert!(kinds.by_path("", "v1", "replicationControllers").is_none(), "v1 has no upper case");
        assert!(kinds.by_kind("apps/v1", "Pod").is_none());
        assert!(kinds.by_path("", "v1", "deployments").is_none());
    }

    /// Kubernetes' own list, of the kinds that stand here and have a PUT.
    #[test]
    fn what_is_not_written_over_unseen() {
        let kinds = Kinds::builtin();
        let mut named: Vec<&str> =
            kinds.iter().filter(|row| row.put_names_revision).map(|row| &*row.resource.plural).collect();
        named.sort_unstable();
        let expected = [
            "csidrivers",
            "csinodes",
            "csistoragecapacities",
            "flowschemas",
            "leases",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "poddisruptionbudgets",
            "prioritylevelconfigurations",
            "runtimeclasses",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
            "volumeattachments",
        ];
        assert_eq!(named, expected);
    }

    #[test]
    fn a_kind_of_run_time_is_one_more_row() {
        use crate::strategy::{Custom, StrategyRef, meta::Scope};
        use coracle_schema::Types;

        let text =
            "package example.com.v1 = com.example.v1\n[Widget]\n  metadata 1 ObjectMeta default={}\n  spec 2 any\n";
        let types = Types::parse(text, &crate::types::builtin()).unwrap();
        let widget = |plural: &str, kind: &str, type_name: &'static str| {
            let names = Names {
                group: "example.com".into(),
                version: "v1".into(),
                plural: plural.to_owned().into(),
                singular: "widget".into(),
                kind: kind.to_owned().into(),
            };
            let custom = Custom { scope: Scope::Namespaced, check: Box::new(|_, _| Vec::new()) };
            Kind::new(names, types.clone(), type_name.into(), StrategyRef::Own(Arc::new(custom)))
        };
        let builtin = Kinds::builtin();
        let kinds = builtin.with(widget("widgets", "Widget", "example.com.v1.Widget")).unwrap();
        assert_eq!(kinds.by_path("example.com", "v1", "widgets").map(|row| &*row.kind), Some("Widget"));
        assert_eq!((kinds.iter().count(), kinds.serves("example.com", "v1")), (builtin.iter().count() + 1, true));
        assert!(builtin.by_kind("example.com/v1", "Widget").is_none(), "the table before is another value");
        let row = kinds.shared(kinds.by_kind("example.com/v1", "Widget").unwrap()).unwrap();
        let without = kinds.without(&row.resource).unwrap();
        assert_eq!((without.iter().count(), without.holds(&row)), (builtin.iter().count(), false));
        assert!(kinds.holds(&row) && without.without(&row.resource).is_none() && without.shared(&row).is_none());
        let again = without.with(widget("widgets", "Widget", "example.com.v1.Widget")).unwrap();
        assert!(!again.holds(&row), "it is another row");
        for (row, why) in [
            (
                widget("widgets", "Gadget", "example.com.v1.Widget"),
                "example.com/v1 has a kind with the name widgets already",
            ),
            (
                widget("gadgets", "Widget", "example.com.v1.Widget"),
                "example.com/v1 has a kind with the name Widget already",
            ),
            (widget("gadgets", "Gadget", "example.com.v1.Gadget"), "the types of Gadget lack example.com.v1.Gadget"),
        ] {
            assert_eq!(kinds.with(row).unwrap_err().to_string(), why);
        }
    }
}
