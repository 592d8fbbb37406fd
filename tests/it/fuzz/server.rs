//! The recorded requests of a real client, spoiled, at a whole master: it never fails inside, its answers are well
//! formed, and what it took stays as it is when a client puts it back.

use super::rounds;
use crate::transcript::{Bed, Reply, ask};
use coracle_tests::fuzz::{Dice, spoil, spoil_bytes};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::{env, fs};

struct Request {
    method: String,
    path: String,
    content_type: String,
    body: String,
}

/// Requests of the recorded conversations, all in one namespace; those whose answer does not end are left out.
fn recorded() -> Vec<Request> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/v1/cases");
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> =
            fs::read_dir(folder).expect("the cases").map(|entry| entry.expect("an entry").path()).collect();
        found.sort();
        found
    };
    let mut requests = Vec::new();
    for file in entries(&folder).iter().flat_map(|area| entries(area)) {
        let case: Value = serde_json::from_slice(&fs::read(&file).expect("a case")).expect("JSON");
        for step in case["steps"].as_array().into_iter().flatten().filter(|step| step.get("watch").is_none()) {
            let body = match &step["body"] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let text = |value: &Value| value.as_str().unwrap_or_default().replace("{{ns}}", "default");
            requests.push(Request {
                method: text(&step["method"]),
                path: text(&step["path"]),
                content_type: text(&step["headers"]["Content-Type"]),
                body: body.replace("{{ns}}", "default"),
            });
        }
    }
    requests
}

const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
];

fn spoiled(request: &Request, dice: &mut Dice) -> Request {
    let mut body = request.body.clone();
    if let Ok(mut document) = serde_json::from_str::<Value>(&body)
        && !dice.once_in(4)
    {
        spoil(&mut document, dice);
        body = document.to_string();
    } else {
        let mut bytes = body.into_bytes();
        spoil_bytes(&mut bytes, dice);
        body = String::from_utf8_lossy(&bytes).into_owned();
    }
    let mut content_type = request.content_type.clone();
    if dice.once_in(10) {
        content_type = (*dice.pick(CONTENT_TYPES)).to_owned();
    }
    let mut path = request.path.clone();
    if dice.once_in(10) {
        let mut bytes = path.split_off(1).into_bytes();
        spoil_bytes(&mut bytes, dice);
        let taken = |byte: &u8| byte.is_ascii_graphic() && !b"#\\\"<>^`{|}".contains(byte);
        path.extend(bytes.iter().filter(|byte| taken(byte)).map(|byte| *byte as char));
    }
    Request { method: request.method.clone(), path, content_type, body }
}

fn send(bed: &Bed, method: &str, path: &str, content_type: &str, body: &str) -> Reply {
    let headers =
        if content_type.is_empty() { Vec::new() } else { vec![("Content-Type".to_owned(), content_type.to_owned())] };
    ask(bed.local(), method, path, &headers, body)
}

/// Where an object can be read again; None for what is no object of its own.
fn address(reply: &Reply, path: &str) -> Option<(String, Value)> {
    let object: Value = serde_json::from_slice(&reply.body).ok()?;
    let metadata = &object["metadata"];
    let (name, _) = (metadata["name"].as_str()?, metadata["resourceVersion"].as_str()?);
    let path = path.split('?').next()?;
    let (before, resource) = path.split_once("/namespaces/default/").map_or_else(
        || path.rsplit_once("/v1/").map(|(before, rest)| (format!("{before}/v1"), rest)),
        |(before, rest)| Some((format!("{before}/namespaces/default"), rest)),
    )?;
    let plural = resource.split('/').next()?;
    Some((format!("{before}/{plural}/{name}"), object))
}

/// What a GET says, put back or patched with nothing, changes nothing: not even the revision. A controller may come in
/// between, but not each time.
fn check_stable(bed: &Bed, path: &str) {
    const TRIES: usize = 5;
    let changed: Vec<String> = (0..TRIES).map_while(|_| changes(bed, path)).collect();
    assert!(changed.len() < TRIES, "{}", changed.join("\n"));
}

/// What changed the object that was put back as it was read.
fn changes(bed: &Bed, path: &str) -> Option<String> {
    let standing = send(bed, "GET", path, "", "");
    if standing.code != 200 {
        return None;
    }
    let read: Value = serde_json::from_slice(&standing.body).expect("an object is JSON");
    let revision = &read["metadata"]["resourceVersion"];
    let text = String::from_utf8(standing.body.clone()).expect("JSON is text");
    let ways = [
        ("PUT", "application/json", &*text),
        ("PATCH", "application/merge-patch+json", "{}"),
        ("PATCH", "application/json-patch+json", "[]"),
    ];
    for (method, content_type, body) in ways {
        let reply = send(bed, method, path, content_type, body);
        let answer: Value = serde_json::from_slice(&reply.body).expect("an answer is JSON");
        // Some kinds have no PUT; what has lost its owner is collected.
        let untouched = [404, 405].contains(&reply.code)
            || (reply.code == 200 && answer["metadata"]["resourceVersion"] == *revision);
        if !untouched {
            return Some(format!("{method} {path} of what it said: {} {answer}\n{read}", reply.code));
        }
    }
    None
}

#[test]
fn spoiled_requests() {
    const REQUESTS: u64 = 3_000;
    let requests = recorded();
    assert!(requests.len() > 1_000, "only {} recorded requests", requests.len());
    let bed = Bed::without_workloads();
    let taken = std::cell::Cell::new(0);
    rounds(REQUESTS, |dice| {
        let request = spoiled(dice.pick(&requests), dice);
        if ["watch", "follow"].iter().any(|word| request.path.contains(word)) {
            return;
        }
        let about = || format!("{} {} {}\n{}", request.method, request.path, request.content_type, request.body);
        let reply = send(&bed, &request.method, &request.path, &request.content_type, &request.body);
        let text = String::from_utf8_lossy(&reply.body);
        assert!((200..600).contains(&reply.code), "{}: {}", reply.code, about());
        assert!(!text.contains("failed inside the server"), "{text}\n{}", about());
        let json =
            reply.headers.iter().any(|(name, value)| name == "content-type" && value.starts_with("application/json"));
        if json && request.method != "HEAD" {
            let parsed: Result<Value, _> = serde_json::from_slice(&reply.body);
            assert!(parsed.is_ok(), "no JSON: {text}\n{}", about());
        }
        if reply.code < 300
            && request.method != "DELETE"
            && let Some((path, _)) = address(&reply, &request.path)
        {
            taken.set(taken.get() + 1);
            check_stable(&bed, &path);
        }
    });
    let ready = send(&bed, "GET", "/readyz?verbose", "", "");
    assert_eq!(ready.code, 200, "{}", String::from_utf8_lossy(&ready.body));
    if env::var("CORACLE_SEED").is_err() {
        assert!(
            taken.get() > REQUESTS / 20,
            "only {} requests were taken: too much is spoiled to test anything",
            taken.get()
        );
    }
}

/// Everything at once is refused with an answer as well: deep, long, doubled.
#[test]
fn monstrous_requests() {
    let bed = Bed::without_workloads();
    let path = "/api/v1/namespaces/default/configmaps";
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
    let bodies = [
        ("application/json", deep("[", "]")),
        ("application/json", deep("{\"a\":", "}")),
        ("application/yaml", deep("[", "]")),
        ("application/yaml", deep("- ", "")),
        (
            "application/yaml",
            format!("a: &a [x]\n{}", (0..30).map(|n| format!("b{n}: &b{n} [*a,*a,*a,*a]\n")).collect::<String>()),
        ),
        ("application/yaml", format!("a: {}", "!!str ".repeat(50_000))),
        ("application/json", format!("{{\"data\":{{{}\"z\":\"\"}}}}", "\"a\":\"b\",".repeat(100_000))),
        ("application/json", json!({"metadata": {"name": "x".repeat(1 << 20)}}).to_string()),
        ("application/vnd.kubernetes.protobuf", format!("k8s\0{}", "\u{7f}".repeat(100_000))),
    ];
    for (content_type, body) in bodies {
        let reply = send(&bed, "POST", path, content_type, &body);
        let text = String::from_utf8_lossy(&reply.body);
        let shown: String = body.chars().take(40).collect();
        assert!(
            (400..500).contains(&reply.code),
            "{content_type} {shown}: {} {}",
            reply.code,
            text.chars().take(300).collect::<String>()
        );
    }
}
