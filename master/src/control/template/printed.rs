//! A template in the words of Go's printer: Kubernetes makes the hash in names of this text. PURE.
//!
//! `types.txt` has Go's types, with their fields in Go's order. A list or map without entries is none: the objects come
//! to Kubernetes' controllers in protobuf, which does not tell the two apart.

use serde_json::Value;
use std::collections::HashMap;
use std::fmt::{self, Write};

const TYPES: &str = include_str!("types.txt");
/// Types that are maps, though their names do not say so.
const MAPS: [(&str, &str); 1] = [("v1.ResourceList", "map[v1.ResourceName]resource.Quantity")];
/// From the first second of Go's calendar to 1970.
const UNIX_S: i64 = 62_135_596_800;

/// Types by name: the fields of each.
type Types = HashMap<&'static str, Vec<Field>>;

#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    of: &'static str,
    /// The name in JSON. Empty: an inline field, whose own fields stand in the parent object.
    said: &'static str,
}

/// Writes a template of pods.
pub fn write(template: &Value, to: &mut dyn Write) -> fmt::Result {
    Printer { types: types(), to }.value("v1.PodTemplateSpec", template, true)
}

fn types() -> Types {
    let mut types = Types::new();
    let mut name = "";
    for line in TYPES.lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("  ") {
            None => name = line,
            Some(line) => {
                let mut words = line.split(' ');
                let mut word = || words.next().unwrap_or_default();
                types.entry(name).or_default().push(Field { name: word(), of: word(), said: word() });
            }
        }
    }
    types
}

struct Printer<'w> {
    types: Types,
    to: &'w mut dyn Write,
}

impl Printer<'_> {
    /// `named`: the type's name precedes the value.
    fn value(&mut self, of: &str, value: &Value, named: bool) -> fmt::Result {
        if let Some(target) = of.strip_prefix('*') {
            write!(self.to, "({of})")?;
            return if value.is_null() { self.to.write_str("<nil>") } else { self.value(target, value, false) };
        }
        if named {
            write!(self.to, "({of})")?;
        }
        let of = MAPS.iter().find(|(name, _)| *name == of).map_or(of, |(_, map)| map);
        if let Some(entry) = of.strip_prefix("[]") {
            return self.list(entry, value);
        }
        if let Some((_, entry)) = of.strip_prefix("map[").and_then(|of| of.split_once(']')) {
            return self.map(entry, value);
        }
        match of {
            "bool" => write!(self.to, "{}", value.as_bool().unwrap_or_default()),
            "int32" | "int64" => write!(self.to, "{}", value.as_i64().unwrap_or_default()),
            "resource.Quantity" => self.quantity(value.as_str().unwrap_or_default()),
            "intstr.IntOrString" => self.int_or_text(value),
            "v1.Time" => self.time(value),
            _ => match of.strip_prefix("v1.").and_then(|name| self.types.get(name)).cloned() {
                Some(fields) => self.object(&fields, value),
                None => self.to.write_str(value.as_str().unwrap_or_default()),
            },
        }
    }

    fn object(&mut self, fields: &[Field], value: &Value) -> fmt::Result {
        self.to.write_char('{')?;
        for (at, field) in fields.iter().enumerate() {
            self.gap(at)?;
            write!(self.to, "{}:", field.name)?;
            self.value(field.of, if field.said.is_empty() { value } else { &value[field.said] }, true)?;
        }
        self.to.write_char('}')
    }

    fn list(&mut self, of: &str, value: &Value) -> fmt::Result {
        let Some(entries) = value.as_array().filter(|entries| !entries.is_empty()) else {
            return self.to.write_str("<nil>");
        };
        self.to.write_char('[')?;
        for (at, entry) in entries.iter().enumerate() {
            self.gap(at)?;
            self.value(of, entry, false)?;
        }
        self.to.write_char(']')
    }

    /// The keys of a map stand in order.
    fn map(&mut self, of: &str, value: &Value) -> fmt::Result {
        let Some(entries) = value.as_object().filter(|entries| !entries.is_empty()) else {
            return self.to.write_str("<nil>");
        };
        self.to.write_str("map[")?;
        for (at, (key, entry)) in entries.iter().enumerate() {
            self.gap(at)?;
            write!(self.to, "{key}:")?;
            self.value(of, entry, false)?;
        }
        self.to.write_char(']')
    }

    fn gap(&mut self, at: usize) -> fmt::Result {
        if at > 0 { self.to.write_char(' ') } else { Ok(()) }
    }

    fn quantity(&mut self, text: &str) -> fmt::Result {
        // An object comes to Kubernetes' controllers with its amounts as the API server writes them.
        let text = coracle_schema::written(text);
        let held = coracle_schema::held(&text);
        write!(
            self.to,
            "{{i:(resource.int64Amount){{value:(int64){} scale:(resource.Scale){}}} d:(resource.infDecAmount){{Dec:",
            held.value, held.scale
        )?;
        match held.large {
            None => self.to.write_str("(*inf.Dec)<nil>")?,
            Some((number, scale)) => {
                let size = number.unsigned_abs();
                write!(
                    self.to,
                    "(*inf.Dec){{unscaled:(big.Int){{neg:(bool){} abs:(big.nat)[{}",
                    number < 0,
                    size as u64
                )?;
                if size >> 64 != 0 {
                    write!(self.to, " {}", (size >> 64) as u64)?;
                }
                write!(self.to, "]}} scale:(inf.Scale){scale}}}")?;
            }
        }
        write!(self.to, "}} s:(string){} Format:(resource.Format){}}}", held.text, held.format)
    }

    fn int_or_text(&mut self, value: &Value) -> fmt::Result {
        let kind = u8::from(value.is_string());
        let (number, text) = (value.as_i64().unwrap_or_default(), value.as_str().unwrap_or_default());
        write!(self.to, "{{Type:(intstr.Type){kind} IntVal:(int32){number} StrVal:(string){text}}}")
    }

    /// Kubernetes also prints the host's time zone for a set time: left out here, as no controller acts on such times.
    fn time(&mut self, value: &Value) -> fmt::Result {
        let time = value.as_str().and_then(coracle_api::meta::Time::parse);
        let seconds = time.map_or(0, |time| time.seconds().saturating_add(UNIX_S));
        write!(self.to, "{{Time:(time.Time){{wall:(uint64)0 ext:(int64){seconds} loc:(*time.Location)<nil>}}}}")
    }
}
