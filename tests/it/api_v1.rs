//! The API of today.

use crate::transcript::{Bed, ask, check};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};

#[test]
fn pods() {
    check("v1-pods");
}

#[test]
fn replication_controllers() {
    check("v1-replicationcontrollers");
}

#[test]
fn services() {
    check("v1-services");
}

#[test]
fn others() {
    check("v1-others");
}

#[test]
fn errors() {
    check("v1-errors");
}

#[test]
fn watches() {
    check("v1-watches");
}

/// Replay of what stands, then what is written while the watcher is still reading: each object once, in order.
#[test]
fn a_watch_over_5000_objects_loses_none() {
    const BEFORE: usize = 5000;
    const AFTER: usize = 200;
    let bed = Bed::new();
    let make = |number: usize| {
        let body = json!({"metadata": {"name": format!("e{number}"), "annotations": {"long": "x".repeat(500)}}});
        let reply = ask(bed.local(), "POST", "/api/v1/namespaces/default/endpoints", &[], &body.to_string());
        assert_eq!(reply.code, 201, "{}", String::from_utf8_lossy(&reply.body));
    };
    // Several at once, so that it is quicker.
    std::thread::scope(|scope| {
        for part in 0..4 {
            scope.spawn(move || (part * BEFORE / 4..(part + 1) * BEFORE / 4).for_each(make));
        }
    });
    let mut pipe = bed.network();
    pipe.write_all(b"GET /api/v1/namespaces/default/endpoints?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .expect("the request is taken");
    let mut lines = BufReader::new(pipe).lines().map(|line| line.expect("the stream goes on")).filter(|line| line.starts_with("{\"type\""));
    let mut names = std::collections::BTreeSet::new();
    let mut last = 0;
    let mut read = |count: usize, revisions_grow: bool| {
        for _ in 0..count {
            let event: Value = serde_json::from_str(&lines.next().expect("another event")).expect("JSON");
            assert_eq!(event["type"], "ADDED");
            let revision: u64 =
                event["object"]["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("a number");
            assert!(!revisions_grow || revision > last, "{revision} after {last}");
            last = last.max(revision);
            assert!(names.insert(event["object"]["metadata"]["name"].to_string()), "{} came twice", event["object"]["metadata"]["name"]);
        }
        names.len()
    };
    assert_eq!(read(10, false), 10);
    (BEFORE..BEFORE + AFTER / 4).for_each(make);
    assert_eq!(read(BEFORE - 10, false), BEFORE);
    assert_eq!(read(AFTER / 4, true), BEFORE + AFTER / 4);
    std::thread::scope(|scope| {
        scope.spawn(|| (BEFORE + AFTER / 4..BEFORE + AFTER).for_each(make));
        assert_eq!(read(AFTER - AFTER / 4, true), BEFORE + AFTER);
    });
}
