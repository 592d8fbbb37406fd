use super::*;
use crate::types::Types;
use serde_json::{Value, json};

const TEXT: &str = "
[Thing]
  apiVersion 0 string
  kind 0 string
  metadata 1 Meta default={}
  spec 2 Spec
[Meta]
  name 1 string
  made 8 time
  labels 11 {string}
  extra 12 {[string]}
[Spec]
  replicas 1 int32 pointer
  count 2 int64
  on 3 bool
  size 4 quantity
  port 5 intorstring
  groups 6 [int64]
  args 7 [string]
  secret 8 {bytes}
  seen 9 microtime
  free 10 any
  share 11 float
  things 12 [Thing]
  emptyDir 13.2 Meta
  hostPath 13.1 Meta
  verbs 13.3.1 [string]
  scope 13.3.2 string
  limits 14 {quantity}
";

fn types() -> Types {
    Types::parse(TEXT, &Types::default()).unwrap()
}

fn check(document: Value) {
    let bytes = encode(&types(), "Thing", &document);
    assert_eq!(decode(&types(), "Thing", &bytes), Ok(document));
}

#[test]
fn there_and_back() {
    check(json!({}));
    check(json!({
        "metadata": {
            "name": "a", "made": "2020-01-01T00:00:00Z", "labels": {"a": "", "": "b"},
            "extra": {"x": [], "y": ["", "z"]},
        },
    }));
    check(json!({"spec": {}}));
    check(json!({
        "spec": {
            "replicas": 0, "count": -5, "on": true, "size": "1Gi", "port": "http", "groups": [0, -1, i64::MAX],
            "args": ["", "b"],
        },
    }));
    check(json!({
        "spec": {
            "port": 80, "secret": {"k": "AAEC", "e": ""}, "seen": "2020-01-01T00:00:00.123456Z",
            "free": {"a": [1, null]}, "share": 1.5,
        },
    }));
    check(json!({"spec": {"emptyDir": {}, "limits": {"cpu": "500m"}, "things": [{}, {"metadata": {"name": "b"}}]}}));
    check(json!({
        "spec": {
            "hostPath": {"name": "x"}, "emptyDir": {"name": "y"}, "replicas": -1, "verbs": ["get"], "scope": "x",
        },
    }));
}

#[test]
fn what_go_writes_of_nothing_says_nothing() {
    let mut spec = Vec::new();
    put_varint(&mut spec, 1, 0);
    put_varint(&mut spec, 2, 0);
    put_varint(&mut spec, 3, 0);
    put_bytes(&mut spec, 5, &[8, 0, 16, 0, 26, 0]);
    put_bytes(&mut spec, 13, &[18, 0]);
    let mut meta = Vec::new();
    put_bytes(&mut meta, 1, b"");
    put_bytes(&mut meta, 8, b"");
    let mut thing = Vec::new();
    put_bytes(&mut thing, 1, &meta);
    put_bytes(&mut thing, 2, &spec);
    put_bytes(&mut thing, 99, b"unknown");
    assert_eq!(decode(&types(), "Thing", &thing), Ok(json!({"spec": {"replicas": 0, "emptyDir": {}}})));
}

#[test]
fn amounts_without_a_text() {
    let check = |amount: &[u8], expected: Value| {
        let (mut spec, mut entry, mut thing) = (Vec::new(), Vec::new(), Vec::new());
        put_bytes(&mut spec, 4, amount);
        put_bytes(&mut entry, 1, b"cpu");
        put_bytes(&mut entry, 2, amount);
        put_bytes(&mut spec, 14, &entry);
        put_bytes(&mut thing, 2, &spec);
        assert_eq!(
            decode(&types(), "Thing", &thing),
            Ok(json!({"spec": {"size": expected, "limits": {"cpu": expected}}}))
        );
    };
    check(&[], "0".into());
    // It is no amount, and stays for whoever reads amounts to refuse.
    check(&[10, 0], "".into());
    check(&[10, 1, b'2', 10, 1, b'1'], "1".into());
}

#[test]
fn numbers_may_come_packed_and_messages_in_parts() {
    let mut spec = Vec::new();
    put_bytes(&mut spec, 6, &[1, 2, 0x80, 1]);
    put_varint(&mut spec, 6, 7);
    let (mut first, mut second) = (Vec::new(), Vec::new());
    put_varint(&mut first, 1, 3);
    put_varint(&mut second, 3, 1);
    let mut thing = Vec::new();
    for part in [spec, first, second] {
        put_bytes(&mut thing, 2, &part);
    }
    assert_eq!(
        decode(&types(), "Thing", &thing),
        Ok(json!({"spec": {"groups": [1, 2, 128, 7], "replicas": 3, "on": true}}))
    );
}

#[test]
fn malformed() {
    for (bytes, why) in [
        (&[0x0a][..], Malformed::Truncated),
        (&[0x0a, 5, 1], Malformed::Truncated),
        (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Malformed::Truncated),
        (&[0xff; 12], Malformed::Number),
        (&[0x00, 0x00], Malformed::Number),
        (&[0x0b], Malformed::WireType(3)),
        (&[0x0f], Malformed::WireType(7)),
        (&[0x08, 1], Malformed::WireType(0)),
        (&[0x0a, 4, 0x42, 2, 0x08, 0xff], Malformed::Truncated),
        (
            &[0x12, 5, 0x52, 3, 0x0a, 1, b'{'],
            Malformed::Json("EOF while parsing an object at line 1 column 1".to_owned()),
        ),
    ] {
        assert_eq!(decode(&types(), "Thing", bytes), Err(why), "{bytes:?}");
    }
}

#[test]
fn depth_and_number_of_values_end() {
    let mut bytes = Vec::new();
    for _ in 0..200 {
        let mut spec = Vec::new();
        put_bytes(&mut spec, 12, &bytes);
        bytes.clear();
        put_bytes(&mut bytes, 2, &spec);
    }
    assert_eq!(decode(&types(), "Thing", &bytes), Err(Malformed::TooDeep));
    let spec = [0x3a, 0].repeat(NODES_MAX + 1);
    bytes.clear();
    put_bytes(&mut bytes, 2, &spec);
    assert_eq!(decode(&types(), "Thing", &bytes), Err(Malformed::TooManyValues));
}

/// Every cut and every changed byte of a good message is decoded or refused.
#[test]
fn broken_messages_do_no_harm() {
    let document = json!({"metadata": {"name": "a", "made": "2020-01-01T00:00:00Z", "labels": {"a": "b"},
        "extra": {"x": ["y"]}},
        "spec": {"size": "1Gi", "port": "http", "groups": [1], "free": {"a": 1}, "things": [{"spec": {"emptyDir": {}}}],
            "share": 0.5}});
    let good = encode(&types(), "Thing", &document);
    for at in 0..good.len() {
        let _ = decode(&types(), "Thing", &good[..at]);
        for byte in 0..=255 {
            let mut bad = good.clone();
            bad[at] = byte;
            let _ = decode(&types(), "Thing", &bad);
        }
    }
}

#[test]
fn envelopes() {
    let sealed = seal("v1", "ConfigMap", |out| out.extend_from_slice(b"abc"));
    assert_eq!(open(&sealed), Ok(Envelope { api_version: "v1".to_owned(), kind: "ConfigMap".to_owned(), raw: b"abc" }));
    assert_eq!(open(b"{}"), Err(Malformed::NoEnvelope));
    assert_eq!(open(b"k8s\0"), Ok(Envelope::default()));
    assert_eq!(open(b"k8s\0\x1a\x04gzip"), Err(Malformed::Encoding("gzip".to_owned())));
    for at in 0..sealed.len() {
        let _ = open(&sealed[..at]);
    }
}
