//! PURE. The path of an object's file, `core/pods/default/web.json`, and back. The mapping is a bijection: a path alone
//! identifies the key.
//!
//! Lower-case letters, digits, `-` and a `.` that does not lead stay as they are; every other byte becomes `%XX`. So
//! names that differ in case alone lie apart on every file system, and no name can leave its folder. A name too long
//! for one file name is cut: every piece but the last is a folder that ends in `~`, every piece but the first begins
//! with one.

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
    let mut path = label(key);
    path.push_str(SUFFIX);
    path
}

/// The key as the journal names it: its path without the suffix.
pub fn label(key: &Key) -> String {
    let Key { resource, namespace, name } = key;
    // A start makes one for every file: what most names are takes one allocation.
    let length = resource.group.len() + resource.plural.len() + namespace.len() + name.len();
    let mut label = String::with_capacity(length + CLUSTER.len() + CORE.len() + SUFFIX.len() + 3);
    push_folder(resource, &mut label);
    label.push('/');
    if namespace.is_empty() {
        label.push_str(CLUSTER);
    } else {
        push_escaped(namespace, &mut label);
    }
    label.push('/');
    if name.len() <= PIECE_BYTES && is_plain(name) {
        label.push_str(name);
    } else {
        let mut escaped = String::new();
        push_escaped(name, &mut escaped);
        for (at, byte) in escaped.char_indices() {
            if at > 0 && at % PIECE_BYTES == 0 {
                label.push_str("~/~");
            }
            label.push(byte);
        }
    }
    label
}

/// The key that the journal means; None where no key is called so.
pub fn of_label(label: &str) -> Option<Key> {
    key(&format!("{label}{SUFFIX}"))
}

/// The folder of a resource.
fn push_folder(resource: &Resource, out: &mut String) {
    match resource.group.as_ref() {
        "" => out.push_str(CORE),
        // A group of that very name must not meet the core group.
        CORE => out.push_str("%63ore"),
        group => push_escaped(group, out),
    }
    out.push('/');
    push_escaped(&resource.plural, out);
}

/// The key whose file this is; None where no key's file is called so.
pub fn key(path: &str) -> Option<Key> {
    let mut parts = path.splitn(4, '/');
    let (group, plural, namespace, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let name = name.strip_suffix(SUFFIX)?;
    let is_plain_path = !group.is_empty() && !namespace.is_empty() && name.len() <= PIECE_BYTES;
    let group = if group == CORE { "" } else { group };
    let cluster = namespace == CLUSTER;
    if is_plain_path && [group, plural, name].into_iter().all(is_plain) && (cluster || is_plain(namespace)) {
        let resource = Resource { group: Cow::Owned(group.to_owned()), plural: Cow::Owned(plural.to_owned()) };
        let namespace = if cluster { String::new() } else { namespace.to_owned() };
        return Some(Key { resource, namespace, name: name.to_owned() });
    }
    let namespace = if cluster { String::new() } else { unescape(namespace)? };
    let name = unescape(&name.replace("~/~", ""))?;
    let resource = Resource { group: Cow::Owned(unescape(group)?), plural: Cow::Owned(unescape(plural)?) };
    let key = Key { resource, namespace, name };
    // Only the one spelling that `path` gives is a name of ours.
    (self::path(&key) == path).then_some(key)
}

fn is_plain_byte(at: usize, byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-') || (byte == b'.' && at > 0)
}

/// Whether it is its own escaped form.
fn is_plain(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| is_plain_byte(at, byte))
}

fn push_escaped(text: &str, out: &mut String) {
    if is_plain(text) {
        return out.push_str(text);
    }
    for (at, byte) in text.bytes().enumerate() {
        if is_plain_byte(at, byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
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
