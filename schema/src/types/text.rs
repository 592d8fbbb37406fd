//! The compact text that types are written in. One line a field:
//!
//!     # a comment
//!     [ContainerPort]
//!       name 1 string
//!       containerPort 3 int32 default=0
//!       protocol 4 string default="TCP" enum=SCTP|TCP|UDP
//!     [Container] -- One process tree of a pod.
//!       name 1 string default="" -- What the rest of the pod calls it.
//!       ports 6 [ContainerPort] keys=containerPort,protocol patch=merge:containerPort
//!
//! That is: name, protobuf number (`2.5`: number 5 of the message that is field 2 and that JSON does not show, `2.3.5`
//! one deeper; 0: none), type, attributes, prose. A type is one of `string bool int32 int64 float bytes time microtime
//! quantity intorstring any` or the name of another type; `[T]` is a list, `{T}` a map with text keys. Attributes,
//! without blanks inside:
//!
//!     default=JSON   written where the field is missing (and where its text is empty)
//!     nonzero        zero is missing, too
//!     required       must be there
//!     enum=A|B       one of these; an empty text is missing
//!     keys=A,B       a list whose entries are told apart by these fields
//!     set            a list of different values
//!     atomic         a map that is replaced as a whole, as lists are that are neither keyed nor sets
//!     granular       a type that is `atomic` is not atomic here
//!     patch=S:KEY    strategy and key of a strategic merge patch
//!     declared       OpenAPI says that it is required; the kind's strategy refuses a document without it, in words of
//!                    its own
//!     pointer        in protobuf zero, or an empty text, is a value; without this it is on the wire and says nothing
//!                    (messages: only those with `default={}` say nothing when they are empty)
//!
//! `{[T]}` is a map of lists (in protobuf each list is field 1 of a message). `[NAME atomic]` is a type whose values
//! are replaced as a whole when two versions meet.
//!
//! Types of different API groups may have one short name, so a type's full name begins with its package, which is said
//! once before its types, together with what OpenAPI calls it:
//!
//!     package events.v1 = io.k8s.api.events.v1
//!     [Event]
//!       series 3 EventSeries
//!       regarding 8 ObjectReference
//!
//! makes `events.v1.Event`. A name within a text is one of the same package, else one of the package without a name
//! (`package = io.k8s.api.core.v1`: `ObjectReference`), else a full name.
//!
//! Built-in types are parsed when the program is compiled and are static tables; the same parser reads others later.

use super::{Container, Element, Field, Layer, Merge, NO_RULE, Rule, Rules, Table, Type, Types, short};
use crate::package::{Package, resolve, type_name};
use crate::way::numbers;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Longest line of a text: an enum of all signals has 700 bytes.
const LINE_BYTES_MAX: usize = 4096;
/// The most types in a text, and fields in a type: far more than any kind has, far too few to exhaust memory.
const TYPES_MAX: usize = 10_000;
const FIELDS_MAX: usize = 1_000;

/// The problem of a text of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// From 1; 0 when it is about the whole.
    pub line: usize,
    pub why: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "types, line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for TextError {}

impl Types {
    /// Reads types that may name each other and the types in `known`. The result is a layer on top of `known`.
    pub fn parse(text: &str, known: &Types) -> Result<Types, TextError> {
        let mut rows: Vec<Type> = Vec::new();
        let mut package = Package::default();
        let mut prose: BTreeMap<String, String> = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let refused = |why: String| TextError { line: at + 1, why };
            if line.len() > LINE_BYTES_MAX {
                return Err(refused(format!("longer than {LINE_BYTES_MAX} bytes")));
            }
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(line) = line.strip_prefix("package ") {
                package = Package::read(line).map_err(refused)?;
                continue;
            }
            let (line, text) = line.split_once(" -- ").unwrap_or((line, ""));
            let mut tell = |name: String| _ = (!text.is_empty()).then(|| prose.insert(name, text.trim().to_owned()));
            if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                let row = package.head(head).map_err(refused)?;
                tell(row.name.to_string());
                rows.push(row);
                continue;
            }
            let Some(row) = rows.last_mut() else { return Err(refused("a field before any type".to_owned())) };
            let field = field(line).map_err(refused)?;
            tell(format!("{}.{}", row.name, field.name));
            row.fields.to_mut().push(field);
        }
        for row in &mut rows {
            sort(row.fields.to_mut(), FIELDS_MAX, |field| &field.name)
                .map_err(|why| whole(format!("{}: {why}", row.name)))?;
        }
        resolve(&mut rows);
        sort(&mut rows, TYPES_MAX, |row| &row.name).map_err(whole)?;
        if let Some(row) = rows.iter().find(|row| known.get(&row.name).is_some()) {
            return Err(whole(format!("{} is there twice", row.name)));
        }
        let prose = prose.into_iter().map(|(name, text)| format!("{name} {text}\n")).collect();
        let types = Types(Table::Layer(Arc::new(Layer { rows, prose, beneath: known.clone() })));
        match types.dangling() {
            Some(name) => Err(whole(format!("there is no type {name}"))),
            None => Ok(types),
        }
    }

    /// A type that is named and not there.
    fn dangling(&self) -> Option<&str> {
        let named = self.rows().iter().flat_map(|row| row.fields.iter()).filter_map(|field| match &field.element {
            Element::Named(name) => Some(&**name),
            _ => None,
        });
        named.into_iter().find(|name| self.get(name).is_none())
    }
}

fn whole(why: String) -> TextError {
    TextError { line: 0, why }
}

fn sort<T>(rows: &mut [T], max: usize, name: impl Fn(&T) -> &Cow<'static, str>) -> Result<(), String> {
    if rows.len() > max {
        return Err(format!("more than {max}"));
    }
    rows.sort_by(|a, b| name(a).cmp(name(b)));
    match rows.windows(2).find(|pair| name(&pair[0]) == name(&pair[1])) {
        Some(pair) => Err(format!("{} is there twice", name(&pair[0]))),
        None => Ok(()),
    }
}

fn field(line: &str) -> Result<Field, String> {
    let mut words = line.split_whitespace();
    let mut word = |what: &str| words.next().ok_or_else(|| format!("{what} is missing"));
    let name = word("the field's name")?.to_owned();
    let (inside, number) = numbers(word("the field's number")?)?;
    let (element, container) = shape(word("the field's type")?)?;
    let mut rule = Rule::default();
    for attribute in words {
        read_attribute(&mut rule, attribute)?;
    }
    let rules = if rule == NO_RULE { Rules::None } else { Rules::Owned(Box::new(rule)) };
    Ok(Field { name: Cow::Owned(name), number, inside, element, container, rules })
}

fn shape(text: &str) -> Result<(Element, Container), String> {
    let inner = |open, close| text.strip_prefix(open).and_then(|text: &str| text.strip_suffix(close));
    let (name, container) = match (inner('[', ']'), inner('{', '}')) {
        (Some(entry), _) => (entry, Container::List),
        (_, Some(entry)) => match entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']')) {
            Some(entry) => (entry, Container::MapOfLists),
            None => (entry, Container::Map),
        },
        _ => (text, Container::One),
    };
    let element = match name {
        "string" => Element::Text,
        "bool" => Element::Bool,
        "int32" => Element::Int32,
        "int64" => Element::Int64,
        "float" => Element::Float,
        "bytes" => Element::Bytes,
        "time" => Element::Time,
        "microtime" => Element::MicroTime,
        "quantity" => Element::Quantity,
        "intorstring" => Element::IntOrText,
        "any" => Element::Any,
        other => {
            type_name(short(other))?;
            Element::Named(Cow::Owned(other.to_owned()))
        }
    };
    Ok((element, container))
}

fn read_attribute(rule: &mut Rule, attribute: &str) -> Result<(), String> {
    let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
    let parts = |by: char| value.split(by).map(|part| Cow::Owned(part.to_owned())).collect::<Vec<_>>();
    match key {
        "required" => rule.required = true,
        "nonzero" => rule.zero_is_missing = true,
        "set" => rule.merge = Merge::Set,
        "atomic" => rule.merge = Merge::Atomic,
        "granular" => rule.merge = Merge::Granular,
        "declared" => rule.declared = true,
        "pointer" => rule.pointer = true,
        "keys" => rule.merge = Merge::Keys(Cow::Owned(parts(','))),
        "patch" => rule.patch = Cow::Owned(value.to_owned()),
        "enum" => rule.choices = Cow::Owned(parts('|')),
        "default" => {
            serde_json::from_str::<serde_json::Value>(value)
                .map_err(|why| format!("default {value:?} is no JSON: {why}"))?;
            rule.default = Some(Cow::Owned(value.to_owned()));
        }
        _ => return Err(format!("{attribute:?} is no attribute")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read() {
        let text = "# c\n[B]\n  port 1 int32 default=0 nonzero\n[A]\n  bs 2.3 [B] keys=port patch=merge:port -- Some \
                    bs.\n  m 4 {string}\n";
        let types = Types::parse(text, &Types::default()).unwrap();
        assert_eq!(types.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["A", "B"]);
        let bs = types.get("A").unwrap().field("bs").unwrap();
        assert_eq!((bs.inside, bs.number, bs.container), ((2, 0), 3, Container::List));
        assert_eq!(numbers("2.4.3"), Ok(((2, 4), 3)));
        assert_eq!(bs.rules.merge, Merge::Keys(vec!["port".into()].into()));
        assert_eq!((&*bs.rules.patch, types.prose("A.bs")), ("merge:port", "Some bs."));
        let port = types.get("B").unwrap().field("port").unwrap();
        assert_eq!((port.rules.default.as_deref(), port.rules.zero_is_missing), (Some("0"), true));
        let more = Types::parse("[C]\n  b 1 B\n", &types).unwrap();
        assert!(more.get("C").is_some() && more.get("A").is_some());
        assert_eq!(more.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["C", "A", "B"]);
        let above = Types::parse("[D]\n  c 1 C -- Of both.\n", &more).unwrap();
        assert_eq!((above.prose("D.c"), above.prose("A.bs"), above.iter().count()), ("Of both.", "Some bs.", 4));
        assert_eq!(Types::parse("[A]\n", &above).unwrap_err().why, "A is there twice");
    }

    #[test]
    fn prose() {
        let known =
            Types::parse("[Pod] -- Runs.\n  spec 1 string -- What — asked.\n  status 2 string\n", &Types::default())
                .unwrap();
        let text = "package x.v1 = io.x\n[Pod]\n  spec 1 string -- Another.\n\
                    [Zoo] -- Animals.\n  a 1 string -- One.\n  z 2 string -- Last.";
        let types = Types::parse(text, &known).unwrap();
        let cases = [
            ("Pod", "Runs."),
            ("Pod.spec", "What — asked."),
            ("Pod.status", ""),
            ("x.v1.Pod", ""),
            ("x.v1.Pod.spec", "Another."),
            ("x.v1.Zoo", "Animals."),
            ("x.v1.Zoo.a", "One."),
            ("x.v1.Zoo.z", "Last."),
            ("", ""),
            ("A", ""),
            ("zzz", ""),
        ];
        cases.into_iter().for_each(|(name, expected)| assert_eq!(types.prose(name), expected, "{name}"));
        assert_eq!(types.own_prose().lines().count(), 4);
        assert_eq!(Types::default().prose("Pod"), "");
    }

    #[test]
    fn packages() {
        let text = "package = core\n[Event]\n  a 1 Ref\n[Ref atomic]\n  x 1 string pointer declared\n
package events.v1 = io.events.v1\n[Event]\n  a 1 Ref\n  b 2 {[Series]}\n  c 3 Ref granular\n[Series]\n";
        let types = Types::parse(text, &Types::default()).unwrap();
        assert_eq!(
            types.iter().map(|row| &*row.name).collect::<Vec<_>>(),
            ["Event", "Ref", "events.v1.Event", "events.v1.Series"]
        );
        let event = types.get("events.v1.Event").unwrap();
        assert_eq!((event.short(), &*event.package), ("Event", "io.events.v1"));
        assert_eq!(event.field("a").unwrap().element, Element::Named("Ref".into()));
        let b = event.field("b").unwrap();
        assert_eq!((&b.element, b.container), (&Element::Named("events.v1.Series".into()), Container::MapOfLists));
        assert_eq!(event.field("c").unwrap().rules.merge, Merge::Granular);
        let of = types.get("Ref").unwrap();
        assert!(of.atomic && of.field("x").unwrap().rules.pointer && of.field("x").unwrap().rules.declared);
    }

    #[test]
    fn a_bad_text_is_refused_by_line() {
        for (text, line, why) in [
            ("a 1 string", 1, "a field before any type"),
            ("[a]", 1, "\"a\" is no name of a type: a capital letter, then letters and digits"),
            ("[A]\n  a x string", 2, "\"x\" is no field number"),
            ("[A]\n  a 1", 2, "the field's type is missing"),
            ("[A]\n  a 1 string shiny", 2, "\"shiny\" is no attribute"),
            ("[A]\n  a 1 string default=x", 2, "default \"x\" is no JSON: expected value at line 1 column 1"),
            ("[A]\n  a 1 B", 0, "there is no type B"),
            ("[A]\n  a 1 bool\n  a 2 bool", 0, "A: a is there twice"),
            ("package x", 1, "a package is NAME = ITS NAME IN OPENAPI"),
            ("[A shiny]", 1, "\"shiny\" is nothing that a type can be"),
            ("[A]\n[A]", 0, "A is there twice"),
        ] {
            let error = Types::parse(text, &Types::default()).unwrap_err();
            assert_eq!(error, TextError { line, why: why.to_owned() }, "{text}");
        }
    }
}
