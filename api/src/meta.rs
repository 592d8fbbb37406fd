//! The parts that every object has: a key, a revision, times.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

/// A resource of the API by group and plural: `Resource::core("pods")`. Names a folder of the store as well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// Compared first, because most resources differ in the plural.
    pub plural: Cow<'static, str>,
    /// Empty for the core group.
    pub group: Cow<'static, str>,
}

impl Resource {
    pub const fn core(plural: &'static str) -> Resource {
        Resource { group: Cow::Borrowed(""), plural: Cow::Borrowed(plural) }
    }
}

impl Ord for Resource {
    fn cmp(&self, other: &Resource) -> Ordering {
        // Mostly both are the kind table's own words, and every step down a map of objects asks.
        let names = |one: &str, other: &str| if std::ptr::eq(one, other) { Ordering::Equal } else { one.cmp(other) };
        names(&self.group, &other.group).then_with(|| names(&self.plural, &other.plural))
    }
}

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Resource) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.plural) } else { write!(f, "{}.{}", self.plural, self.group) }
    }
}

/// The name of one object in the whole cluster. In order of resource and `namespace/name`, as Kubernetes lists them:
/// `a-b/x` is before `a/x`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub resource: Resource,
    /// Empty for what belongs to no namespace.
    pub namespace: String,
    pub name: String,
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> Ordering {
        let namespaces = || by_path(&self.namespace, &other.namespace);
        self.resource.cmp(&other.resource).then_with(namespaces).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The order of two names with something behind a slash; nothing is before all.
fn by_path(one: &str, other: &str) -> Ordering {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let both = one.len().min(other.len());
    let next = |name: &[u8]| name.get(both).map_or(b'/', |byte| *byte);
    let ends = || {
        if both == 0 {
            one.len().cmp(&other.len())
        } else {
            next(one).cmp(&next(other)).then(one.len().cmp(&other.len()))
        }
    };
    one[..both].cmp(&other[..both]).then_with(ends)
}

/// For people: a name may hold what ends a line or turns a terminal's text around.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = (self.namespace.escape_debug(), self.name.escape_debug());
        if self.namespace.is_empty() {
            write!(f, "{}/{name}", self.resource)
        } else {
            write!(f, "{}/{namespace}/{name}", self.resource)
        }
    }
}

/// One write to the store; every later write has a higher one. A decimal string in v1, a number in v1beta1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// A revision as clients write it. The error is what Go says of a text that is no number.
    pub fn parse(text: &str) -> Result<Revision, String> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits).map(Revision).ok_or_else(|| {
            let why = if digits { "value out of range" } else { "invalid syntax" };
            format!("strconv.ParseUint: parsing {text:?}: {why}")
        })
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A moment of the wall clock, RFC 3339 in UTC: `2026-01-01T00:00:00Z`. The API shows whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub jiff::Timestamp);

impl Time {
    pub fn from_seconds(seconds: i64) -> Option<Time> {
        jiff::Timestamp::from_second(seconds).ok().map(Time)
    }

    pub fn parse(text: &str) -> Option<Time> {
        text.parse().ok().map(Time)
    }

    pub fn seconds(self) -> i64 {
        self.0.as_second()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Time::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no RFC 3339 time")))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `metadata` of any object, as logic reads it: lenient and read-only. Revisions are in `store::Stored`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    pub name: String,
    pub generate_name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub creation_timestamp: Option<Time>,
    /// Set when somebody has asked for the deletion: when the grace is over, in wall time.
    pub deletion_timestamp: Option<Time>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub owner_references: Vec<OwnerReference>,
    pub finalizers: Vec<String>,
}

impl ObjectMeta {
    /// The owner reference of the object's controller.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
    pub block_owner_deletion: bool,
}

/// Points at an object, or at a field of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub api_version: String,
    pub resource_version: String,
    pub field_path: String,
}

/// A name, address or port that one object owns while it lives: `("clusterIP", "10.96.0.10")`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    pub space: Cow<'static, str>,
    pub value: String,
}

/// How much of an object is worth flash (invariant 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// The document as it is.
    Whole,
    /// The document without `status`, because a controller or an agent can observe the status again.
    WithoutStatus,
    /// The document without the last `spec.renewTime`, because the holder of a lease renews it again. The time when the
    /// holder took the lease stands in its place, for clients that expect a time there.
    WithoutRenewal,
    /// Nothing: events, heartbeats.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_printed_in_one_line() {
        for (name, shown) in [
            ("system:a-b.c", "pods/n/system:a-b.c"),
            ("a\nb\r", "pods/n/a\\nb\\r"),
            ("a\u{202e}b\u{2028}\u{1b}[0m", "pods/n/a\\u{202e}b\\u{2028}\\u{1b}[0m"),
            ("é", "pods/n/é"),
        ] {
            let key = Key { resource: Resource::core("pods"), namespace: "n".to_owned(), name: name.to_owned() };
            assert_eq!(key.to_string(), shown);
        }
    }

    #[test]
    fn keys_are_ordered_as_paths() {
        let paths = ["/", "/z", "-/a", "a-/a", "a-b/x", "a-b/y", "a.b/a", "a/", "a/a", "a/x-y", "a0/a", "ab/a", "b/a"];
        let key = |path: &str| {
            let (namespace, name) = path.split_once('/').expect("a slash");
            Key { resource: Resource::core("pods"), namespace: namespace.to_owned(), name: name.to_owned() }
        };
        for (at, one) in paths.iter().enumerate() {
            for (other_at, other) in paths.iter().enumerate() {
                assert_eq!(key(one).cmp(&key(other)), at.cmp(&other_at), "{one} and {other}");
            }
        }
    }
}
