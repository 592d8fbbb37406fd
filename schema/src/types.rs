//! Types: tables of rows sorted by name, in layers. The lowest layer is static, and holds the built-in types; a kind
//! that is defined at run time adds a layer, which is dropped with the kind. `text` reads the written form of types.

mod text;

pub use text::TextError;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// Types by name. A clone shares them.
#[derive(Clone, Debug)]
pub struct Types(Table);

#[derive(Clone, Debug)]
enum Table {
    /// Both sorted by name.
    Static {
        rows: &'static [Type],
        prose: &'static str,
    },
    Layer(Arc<Layer>),
}

/// Types that were read from a text. Their fields may name types in `beneath`.
#[derive(Debug)]
struct Layer {
    /// Sorted by name, and none of them a name of a layer beneath.
    rows: Vec<Type>,
    /// The purpose of types and fields, `Pod.spec What is asked for.`, a line each, sorted by name. One text and not a
    /// text a field: pointers would be written to at the start of a program, and only descriptions need it.
    prose: String,
    beneath: Types,
}

impl Default for Types {
    fn default() -> Types {
        Types::of_static(&[], "")
    }
}

#[derive(Clone, Debug)]
pub struct Type {
    /// The whole name: `events.v1.Event`, `Pod`.
    pub name: Cow<'static, str>,
    /// The OpenAPI prefix of the short name: `io.k8s.api.events.v1`; empty for none.
    pub package: Cow<'static, str>,
    /// Its values are replaced as a whole when two versions meet.
    pub atomic: bool,
    /// Sorted by name.
    pub fields: Cow<'static, [Field]>,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: Cow<'static, str>,
    /// In protobuf; 0: not there.
    pub number: u16,
    /// The numbers of the messages around it that JSON does not show, the outer one first; 0: none.
    pub inside: (u16, u16),
    pub element: Element,
    pub container: Container,
    pub rules: Rules,
}

/// The type of a value, or of the entries of a list or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    Text,
    Bool,
    Int32,
    Int64,
    Float,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrText,
    /// Anything, carried as it is.
    Any,
    /// A type by its name.
    Named(Cow<'static, str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    One,
    List,
    Map,
    /// A map with text keys whose values are lists.
    MapOfLists,
}

/// Most fields have none, so they are kept aside.
#[derive(Clone, Debug)]
pub enum Rules {
    None,
    Static(&'static Rule),
    Owned(Box<Rule>),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub required: bool,
    /// JSON.
    pub default: Option<Cow<'static, str>>,
    pub zero_is_missing: bool,
    pub choices: Cow<'static, [Cow<'static, str>]>,
    pub merge: Merge,
    /// The OpenAPI document marks the field as required; `check` does not use this mark.
    pub declared: bool,
    /// In protobuf zero is a value.
    pub pointer: bool,
    /// Strategy and key of a strategic merge patch, `merge:name`.
    pub patch: Cow<'static, str>,
}

/// How entries of a list or map belong together when two versions meet.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Merge {
    /// A list as a whole; a map by key.
    #[default]
    Plain,
    Set,
    Atomic,
    /// A value of an atomic type that is not atomic here.
    Granular,
    Keys(Cow<'static, [Cow<'static, str>]>),
}

pub(crate) static NO_RULE: Rule = Rule {
    required: false,
    default: None,
    zero_is_missing: false,
    choices: Cow::Borrowed(&[]),
    merge: Merge::Plain,
    declared: false,
    pointer: false,
    patch: Cow::Borrowed(""),
};

impl std::ops::Deref for Rules {
    type Target = Rule;

    fn deref(&self) -> &Rule {
        match self {
            Rules::None => &NO_RULE,
            Rules::Static(rule) => rule,
            Rules::Owned(rule) => rule,
        }
    }
}

impl Types {
    /// A static table and lines of prose, both sorted by name, as a build script writes them.
    pub const fn of_static(rows: &'static [Type], prose: &'static str) -> Types {
        Types(Table::Static { rows, prose })
    }

    pub fn get(&self, name: &str) -> Option<&Type> {
        self.layers().find_map(|layer| {
            let rows = layer.rows();
            rows.binary_search_by(|row| (*row.name).cmp(name)).ok().map(|at| &rows[at])
        })
    }

    /// Layer by layer, the highest first; each sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Type> {
        self.layers().flat_map(Types::rows)
    }

    /// The purpose of a type (`Pod`) or a field (`Pod.spec`); empty where nothing is said.
    pub fn prose(&self, name: &str) -> &str {
        self.layers().find_map(|layer| line_of(layer.own_prose(), name)).unwrap_or_default()
    }

    /// The prose of the highest layer, as `of_static` takes it.
    pub fn own_prose(&self) -> &str {
        match &self.0 {
            Table::Static { prose, .. } => prose,
            Table::Layer(layer) => &layer.prose,
        }
    }

    /// The rows of the highest layer.
    fn rows(&self) -> &[Type] {
        match &self.0 {
            Table::Static { rows, .. } => rows,
            Table::Layer(layer) => &layer.rows,
        }
    }

    fn layers(&self) -> impl Iterator<Item = &Types> {
        std::iter::successors(Some(self), |types| match &types.0 {
            Table::Static { .. } => None,
            Table::Layer(layer) => Some(&layer.beneath),
        })
    }
}

/// The rest of the line that begins with a name and a blank, in lines sorted by name.
fn line_of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (mut from, mut to) = (0, text.len());
    // Both stand at the beginning of a line.
    while from < to {
        let middle = from + (to - from) / 2;
        let line_at =
            text.as_bytes()[from..middle].iter().rposition(|byte| *byte == b'\n').map_or(from, |at| from + at + 1);
        let line = text[line_at..].lines().next().unwrap_or_default();
        let (known, rest) = line.split_once(' ').unwrap_or((line, ""));
        match known.cmp(name) {
            Ordering::Equal => return Some(rest),
            Ordering::Less => from = line_at + line.len() + 1,
            Ordering::Greater => to = line_at,
        }
    }
    None
}

impl Type {
    /// The name without its package: `Event`.
    pub fn short(&self) -> &str {
        short(&self.name)
    }

    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.binary_search_by(|field| (*field.name).cmp(name)).ok().map(|at| &self.fields[at])
    }
}

/// The last part of a type's name.
pub fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
