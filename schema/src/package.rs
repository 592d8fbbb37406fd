//! Packages of types: reads the line `package` before a package's types, and completes the names of the types.

use crate::types::{Element, Type};
use std::borrow::Cow;
use std::collections::HashSet;

/// The settings that stand once before the types of a package.
#[derive(Default)]
pub struct Package {
    /// `events.v1.`, or nothing.
    prefix: String,
    open_api: String,
}

impl Package {
    /// `events.v1 = io.k8s.api.events.v1`
    pub fn read(line: &str) -> Result<Package, String> {
        let (name, open_api) = line.split_once('=').ok_or("a package is NAME = ITS NAME IN OPENAPI")?;
        let (name, open_api) = (name.trim(), open_api.trim());
        let good = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'));
        if !good(name) || !good(open_api) || open_api.is_empty() {
            return Err(format!("{line:?} is no package: NAME = ITS NAME IN OPENAPI, of letters, digits, '.' and '-'"));
        }
        let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
        Ok(Package { prefix, open_api: open_api.to_owned() })
    }

    /// `Event`, `LabelSelector atomic`: a type without its fields.
    pub fn head(&self, head: &str) -> Result<Type, String> {
        let (name, atomic) = match head.trim().split_once(' ') {
            None => (head.trim(), false),
            Some((name, "atomic")) => (name, true),
            Some((_, other)) => return Err(format!("{other:?} is nothing that a type can be")),
        };
        let name = Cow::Owned(format!("{}{}", self.prefix, type_name(name)?));
        Ok(Type { name, package: Cow::Owned(self.open_api.clone()), atomic, fields: Cow::Owned(Vec::new()) })
    }
}

/// Names that mean a type of the same package become its full name.
pub fn resolve(rows: &mut [Type]) {
    let names: HashSet<String> = rows.iter().map(|row| row.name.to_string()).collect();
    for row in rows {
        let Some((prefix, _)) = row.name.rsplit_once('.') else { continue };
        let prefix = prefix.to_owned();
        for field in row.fields.to_mut() {
            if let Element::Named(name) = &mut field.element
                && let full = format!("{prefix}.{name}")
                && names.contains(&full)
            {
                *name = Cow::Owned(full);
            }
        }
    }
}

pub fn type_name(name: &str) -> Result<String, String> {
    let good =
        name.starts_with(|c: char| c.is_ascii_uppercase()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if good {
        Ok(name.to_owned())
    } else {
        Err(format!("{name:?} is no name of a type: a capital letter, then letters and digits"))
    }
}
