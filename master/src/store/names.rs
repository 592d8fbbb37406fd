//! PURE. Where an object's file lies: `core/pods/default/web.json`, and back. A bijection, so that a path alone names its key.
//!
//! Lower-case letters, digits, `-` and a `.` that does not lead stay as they are; every other byte becomes `%XX`. So names that differ
//! in case alone lie apart on every file system, and no name can leave its folder. A name too long for one file name is cut: every piece
//! but the last is a folder that ends in `~`, every piece but the first begins with one.

use coracle_api::meta::{Key, Resource};
use std::borrow::Cow;

/// The folder of what belongs to no namespace. `_` is escaped in names, so that no namespace collides.
const CLUSTER: &str = "_cluster";
const CORE: &str = "core";
const SUFFIX: &str = ".json";
/// Bytes of an escaped name in one piece: file systems allow 255 with the suffix and `~`.
const PIECE_BYTES: usize = 200;

/// The file of an object, below `objects/`.
pub fn path(key: &Key) -> String {
    let namespace = if key.namespace.is_empty() { CLUSTER.to_owned() } else { escape(&key.namespace) };
    let name = escape(&key.name);
    let mut cut = String::with_capacity(name.len() + 8);
    for (at, byte) in name.char_indices() {
        if at > 0 && at % PIECE_BYTES == 0 {
            cut.push_str("~/~");
        }
        cut.push(byte);
    }
    format!("{}/{namespace}/{cut}{SUFFIX}", folder(&key.resource))
}

/// The key as the journal names it: its path without the suffix.
pub fn label(key: &Key) -> String {
    let mut label = path(key);
    label.truncate(label.len() - SUFFIX.len());
    label
}

/// The key that the journal means; None where no key is called so.
pub fn of_label(label: &str) -> Option<Key> {
    key(&format!("{label}{SUFFIX}"))
}

/// The folder of a resource, below `objects/`.
pub fn folder(resource: &Resource) -> String {
    let group = match resource.group.as_ref() {
        "" => CORE.to_owned(),
        // A group of that very name must not meet the core group.
        CORE => "%63ore".to_owned(),
        group => escape(group),
    };
    format!("{group}/{}", escape(&resource.plural))
}

/// The key whose file this is; None where no key's file is called so.
pub fn key(path: &str) -> Option<Key> {
    let mut parts = path.splitn(4, '/');
    let (group, plural, namespace, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let group = if group == CORE { String::new() } else { unescape(group)? };
    let namespace = if namespace == CLUSTER { String::new() } else { unescape(namespace)? };
    let name = unescape(&name.strip_suffix(SUFFIX)?.replace("~/~", ""))?;
    let resource = Resource { group: Cow::Owned(group), plural: Cow::Owned(unescape(plural)?) };
    let key = Key { resource, namespace, name };
    // Only the one spelling that `path` gives is a name of ours.
    (self::path(&key) == path).then_some(key)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => out.push(char::from(byte)),
            b'.' if at > 0 => out.push('.'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let (high, low) = (bytes.next()?, bytes.next()?);
            let digit = |byte: u8| char::from(byte).to_digit(16);
            out.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}
