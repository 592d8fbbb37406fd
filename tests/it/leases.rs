//! Leases over a crash of the master. A copy of the data directory of a running master is the disk that a killed one
//! leaves.

use crate::transcript::{Bed, ask};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces";
const TAKEN: &str = "2026-01-01T00:00:00.000000Z";
const RENEWED: &str = "2026-01-01T00:00:09.000000Z";

fn send(bed: &Bed, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let headers = [("Content-Type".to_owned(), "application/json".to_owned())];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let reply = ask(bed.local(), method, path, &headers, &body);
    (reply.code, serde_json::from_slice(&reply.body).unwrap_or_default())
}

/// Takes a lease and renews it.
fn hold(bed: &Bed, namespace: &str) {
    let spec = |renewed: &str| json!({"holderIdentity": "a", "acquireTime": TAKEN, "renewTime": renewed});
    let path = format!("{LEASES}/{namespace}/leases");
    let (code, mut lease) = send(bed, "POST", &path, &json!({"metadata": {"name": "led"}, "spec": spec(TAKEN)}));
    assert_eq!(code, 201, "{lease}");
    lease["spec"] = spec(RENEWED);
    let (code, lease) = send(bed, "PUT", &format!("{path}/led"), &lease);
    assert_eq!(code, 200, "{lease}");
}

#[test]
fn a_master_that_was_killed_knows_the_holder_and_no_renewal() {
    let (folder, left) = (Bed::empty_folder(), Bed::empty_folder());
    let bed = Bed::living_in(&folder);
    hold(&bed, "default");
    hold(&bed, "kube-node-lease");
    let data = |folder: &Path| folder.join("data");
    let copied = Command::new("cp").arg("-a").arg(data(&folder)).arg(data(&left)).status().expect("cp starts");
    assert!(copied.success());
    drop(bed);
    let bed = Bed::living_in(&left);
    let (code, lease) = send(&bed, "GET", &format!("{LEASES}/default/leases/led"), &Value::Null);
    assert_eq!((code, &lease["spec"]["holderIdentity"]), (200, &json!("a")), "{lease}");
    assert_eq!(lease["spec"]["renewTime"], TAKEN, "a renewal is not written");
    let (code, lease) = send(&bed, "GET", &format!("{LEASES}/kube-node-lease/leases/led"), &Value::Null);
    assert_eq!(code, 404, "a heartbeat is not written: {lease}");
    drop(bed);
    for folder in [folder, left] {
        std::fs::remove_dir_all(folder).expect("it is the test's own");
    }
}
