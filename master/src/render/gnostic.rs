//! OpenAPI 2 in protobuf, as kubectl before 1.29 reads it, and later ones where they check lists: the message
//! `openapi.v2.Document` of gnostic. PURE.
//!
//! A message that stands twice is one: each path and each definition is written as a piece of its own.

use serde_json::Value;

/// The message's beginning.
pub fn head(swagger: &str, title: &str, version: &str) -> Vec<u8> {
    let mut info = Message::default();
    info.text(1, title);
    info.text(2, version);
    let mut document = Message::default();
    document.text(1, swagger);
    document.message(2, &info);
    document.0
}

/// One entry of `paths`.
pub fn path(name: &str, item: &Value) -> Vec<u8> {
    let mut methods = Message::default();
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(found) = item.get(method) {
            methods.message(number, &operation(found));
        }
    }
    for parameter in entries(&item["parameters"]) {
        methods.message(9, &self::parameter(parameter));
    }
    let mut paths = Message::default();
    paths.message(2, &named(name, &methods));
    let mut document = Message::default();
    document.message(8, &paths);
    document.0
}

/// One entry of `definitions`.
pub fn definition(name: &str, schema: &Value) -> Vec<u8> {
    let mut definitions = Message::default();
    definitions.message(1, &named(name, &self::schema(schema)));
    let mut document = Message::default();
    document.message(9, &definitions);
    document.0
}

/// Fields of one message, written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// A field of wire type 2: a length, then so many bytes.
    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.varint(u64::from(number << 3 | 2));
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, number: u32, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    fn message(&mut self, number: u32, message: &Message) {
        self.bytes(number, &message.0);
    }

    fn truth(&mut self, number: u32) {
        self.varint(u64::from(number << 3));
        self.varint(1);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Writes a text, if the document has the text.
    fn text_of(&mut self, number: u32, value: &Value) {
        if let Some(text) = value.as_str() {
            self.text(number, text);
        }
    }

    fn texts_of(&mut self, number: u32, value: &Value) {
        for text in entries(value).iter().filter_map(Value::as_str) {
            self.text(number, text);
        }
    }

    /// All `x-...`, each a name and YAML, which JSON is.
    fn extensions(&mut self, number: u32, value: &Value) {
        for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
            self.message(number, &named(name, &any(value)));
        }
    }
}

fn entries(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn named(name: &str, value: &Message) -> Message {
    let mut entry = Message::default();
    entry.text(1, name);
    entry.message(2, value);
    entry
}

fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.text(2, &value.to_string());
    any
}

/// A message in a message of one field, as variants are.
fn wrapped(number: u32, inner: &Message) -> Message {
    let mut outer = Message::default();
    outer.message(number, inner);
    outer
}

fn operation(value: &Value) -> Message {
    let mut operation = Message::default();
    operation.texts_of(7, &value["consumes"]);
    for parameter in entries(&value["parameters"]) {
        operation.message(8, &self::parameter(parameter));
    }
    let mut responses = Message::default();
    for (code, value) in value["responses"].as_object().into_iter().flatten() {
        let mut response = Message::default();
        response.text_of(1, &value["description"]);
        if let Some(found) = value.get("schema") {
            response.message(2, &wrapped(1, &schema(found)));
        }
        responses.message(1, &named(code, &wrapped(1, &response)));
    }
    operation.message(9, &responses);
    operation.extensions(13, value);
    operation
}

fn parameter(value: &Value) -> Message {
    let place = value["in"].as_str().unwrap_or_default();
    let required = value["required"] == true;
    let mut own = Message::default();
    if place == "body" {
        own.text_of(2, &value["name"]);
        own.text(3, place);
        if required {
            own.truth(4);
        }
        own.message(5, &schema(&value["schema"]));
        return wrapped(1, &wrapped(1, &own));
    }
    if required {
        own.truth(1);
    }
    own.text(2, place);
    own.text_of(4, &value["name"]);
    // A query parameter has one field more before its type.
    let (kind, variant) = if place == "query" { (6, 3) } else { (5, 4) };
    own.text_of(kind, &value["type"]);
    wrapped(1, &wrapped(2, &wrapped(variant, &own)))
}

/// At most as deep as the document, which is ours.
fn schema(value: &Value) -> Message {
    let mut schema = Message::default();
    schema.text_of(1, &value["$ref"]);
    schema.text_of(2, &value["format"]);
    schema.text_of(4, &value["description"]);
    if let Some(default) = value.get("default") {
        schema.message(5, &any(default));
    }
    schema.texts_of(19, &value["required"]);
    for choice in entries(&value["enum"]) {
        schema.message(20, &any(choice));
    }
    if let Some(inner) = value.get("additionalProperties") {
        schema.message(21, &wrapped(1, &self::schema(inner)));
    }
    if let Some(kind) = value["type"].as_str() {
        let mut item = Message::default();
        item.text(1, kind);
        schema.message(22, &item);
    }
    if let Some(inner) = value.get("items") {
        schema.message(23, &wrapped(1, &self::schema(inner)));
    }
    if let Some(properties) = value["properties"].as_object() {
        let mut all = Message::default();
        for (name, property) in properties {
            all.message(1, &named(name, &self::schema(property)));
        }
        schema.message(25, &all);
    }
    schema.extensions(31, value);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn byte_by_byte() {
        let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/b"}}, "x-y": [1]});
        let expected: &[u8] = b"\x4a\x34\x0a\x32\x0a\x01T\x12\x2d\
            \x9a\x01\x01a\
            \xb2\x01\x08\x0a\x06object\
            \xca\x01\x0c\x0a\x0a\x0a\x01a\x12\x05\x0a\x03#/b\
            \xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]";
        assert_eq!(definition("T", &schema), expected);
        let item = json!({"parameters": [{"name": "n", "in": "path", "required": true, "type": "string"}]});
        let expected: &[u8] = b"\x42\x22\x12\x20\x0a\x01p\x12\x1b\x4a\x19\x0a\x17\x12\x15\x22\x13\
            \x08\x01\x12\x04path\x22\x01n\x2a\x06string";
        assert_eq!(path("p", &item), expected);
    }
}
