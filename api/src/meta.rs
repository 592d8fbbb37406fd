//! What every object has: a key, a revision, times.

use std::borrow::Cow;
use std::fmt;

/// A resource of the API by group and plural: `Resource::core("pods")`. Names a folder of the store as well.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Empty for the core group.
    pub group: Cow<'static, str>,
    pub plural: Cow<'static, str>,
}

impl Resource {
    pub const fn core(plural: &'static str) -> Resource {
        Resource { group: Cow::Borrowed(""), plural: Cow::Borrowed(plural) }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() { f.write_str(&self.plural) } else { write!(f, "{}.{}", self.plural, self.group) }
    }
}

/// The name of one object in the whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub resource: Resource,
    /// Empty for what belongs to no namespace.
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.resource, self.name)
        } else {
            write!(f, "{}/{}/{}", self.resource, self.namespace, self.name)
        }
    }
}

/// One write to the store; every later write has a higher one. A decimal string in v1, a number in v1beta1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

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
    /// All but `status`, which somebody can observe again.
    WithoutStatus,
    /// Nothing: events, heartbeats.
    Nothing,
}
