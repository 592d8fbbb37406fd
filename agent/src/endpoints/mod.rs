//! The agent's HTTP endpoints. Its port, which every program of this host reaches, answers `/healthz` alone. Its
//! socket, for root and the master, also answers `/pods`, `/node`, `/problems`, `/backup`, `/images`, `/update/...`,
//! `/restart/...`, `/containerLogs/{namespace}/{pod}/{container}`, `/exec/...`, `/attach/...` and `/portForward/...`:
//! pods hold passwords, logs anything, and a command may do anything.
//!
//! Handlers read the last `Shown` and wait for nothing; a log is sent by a task of the agent's own thread.

mod figures;
mod logs;
mod place;
mod restart;
mod streams;
mod updates;
mod view;

use std::path::Path;
use std::sync::Arc;

use coracle_http::{Answer, Handler, Limits, Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::backup::offered::offered;
use crate::facts::naming::{CONFIG_SOURCE, WAITS_FOR};
use crate::facts::shown::Shown;
use crate::telling::node::conditions;
use crate::telling::problems;
use streams::With;
pub use view::View;

/// The agent's port tells any program of this host whether the agent is well, and nothing else.
pub const PORT: Limits = Limits {
    connections_max: 64,
    connections_per_address_max: 48,
    requests_max: 32,
    requests_per_address_max: 24,
    handlers_max: 1,
    handlers_per_address_max: 1,
    writers_max: 1,
    writers_per_address_max: 1,
    streams_max: 1,
    ..Limits::EDGE
};

/// The socket: an address here is a user. A log that is followed and a command that runs have their connection as long
/// as somebody is at its other end, however quiet it is. The master's limits leave some connections for root.
pub const SOCKET: Limits = Limits {
    connections_max: 224,
    connections_per_address_max: 176,
    requests_max: 32,
    requests_per_address_max: 24,
    handlers_max: 3,
    handlers_per_address_max: 2,
    writers_max: 1,
    writers_per_address_max: 1,
    streams_max: 176,
    ..Limits::EDGE
};

pub fn port(view: View) -> Handler {
    Arc::new(move |request| match request.target.path() {
        "/healthz" => answer(&view, &request),
        path => elsewhere(path, &view.socket),
    })
}

pub fn socket(view: View) -> Handler {
    Arc::new(move |request| answer(&view, &request))
}

/// Who knew the port of before finds the way.
fn elsewhere(path: &str, socket: &Path) -> Answer {
    let socket = socket.display();
    let words = format!(
        "this port answers /healthz alone; root and the master ask for pods and logs on the socket {socket}: \
         curl --unix-socket {socket} http://localhost{path}"
    );
    Answer::refuse(StatusCode::NOT_FOUND, "NotFound", &words)
}

fn answer(view: &View, request: &Request) -> Answer {
    let path = request.target.path();
    let streams = [("/exec/", With::Exec), ("/attach/", With::Attach)];
    if let Some((rest, with)) = streams.into_iter().find_map(|(prefix, with)| Some((path.strip_prefix(prefix)?, with)))
    {
        return match request.method {
            Method::GET | Method::POST => streams::answer(view, with, rest, request),
            _ => Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are answered here\n"),
        };
    }
    if let Some(rest) = path.strip_prefix("/portForward/") {
        return streams::ports(view, rest, request).unwrap_or_else(|refused| refused);
    }
    if let Some(answer) = updates::answer(view, request) {
        return answer;
    }
    if let Some(rest) = path.strip_prefix("/restart/") {
        return restart::answer(view, rest, request);
    }
    if request.method != Method::GET && request.method != Method::HEAD {
        return Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n");
    }
    match path {
        "/healthz" => healthz(&view.shown.borrow(), view.docker.trouble()),
        "/node" => node(view),
        "/backup" => backup(view),
        "/problems" => Answer::json(StatusCode::OK, json!({ "problems": view.problems.now() }).to_string()),
        "/pods" | "/pods/" => pods(&view.shown.borrow(), &view.node_name),
        _ => match path.strip_prefix("/containerLogs/") {
            Some(rest) => logs::answer(view, rest, request),
            None => figures::answer(view, path)
                .unwrap_or_else(|| Answer::text(StatusCode::NOT_FOUND, "404 page not found\n")),
        },
    }
}

fn healthz(shown: &Shown, trouble: Option<String>) -> Answer {
    match trouble.or_else(|| shown.engine_trouble.as_ref().map(|(text, _)| text.clone())) {
        Some(trouble) => {
            Answer::text(StatusCode::SERVICE_UNAVAILABLE, format!("the engine does not answer: {trouble}\n"))
        }
        None if !shown.looked => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the engine was not reached yet\n"),
        None => Answer::text(StatusCode::OK, "ok"),
    }
}

/// For `coracle-agent status`, and for the master's secure port, which takes connections of this range.
fn node(view: &View) -> Answer {
    let host = &view.host;
    let shown = view.shown.borrow();
    let address = if shown.looked { &shown.world.node.address } else { &host.address };
    let about = json!({
        "name": view.node_name, "address": address, "engine": *view.docker.version().borrow(),
        "agent": env!("CARGO_PKG_VERSION"),
        "podCIDR": (*view.pods.borrow()).map(|range| range.to_string()),
        "os": host.os_image, "kernel": host.kernel, "cpus": host.cpus, "memoryBytes": host.memory_bytes,
        "diskBytes": host.disk_bytes, "formerNames": shown.desired.former,
        "conditions": short_of(&shown), "left": shown.world.memory.left(), "unkept": view.unkept.texts(),
        "refused": view.refusals.texts(),
    });
    Answer::json(StatusCode::OK, about.to_string())
}

/// The node's pressure conditions with status True; `/healthz` reports the engine's state.
fn short_of(shown: &Shown) -> Vec<Value> {
    let held = conditions(None, &shown.world.strain.short).into_iter().filter(|one| one.holds && one.kind != "Ready");
    held.map(|one| json!({"type": one.kind, "status": "True", "message": one.message})).collect()
}

/// For `coracle-agent backup`.
fn backup(view: &View) -> Answer {
    let offered = offered(&view.shown.borrow(), &view.node_name, &view.data_dir);
    match serde_json::to_string(&offered) {
        Ok(text) => Answer::json(StatusCode::OK, text),
        Err(error) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn pods(shown: &Shown, node_name: &str) -> Answer {
    let mut wanted: Vec<_> = shown.desired.pods.iter().collect();
    wanted.sort_by_key(|(uid, wanted)| (&wanted.name.namespace, &wanted.name.name, *uid));
    let items: Vec<Value> = wanted
        .into_iter()
        .map(|(uid, wanted)| {
            let mut pod = wanted.document.clone();
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["spec"]["nodeName"] = node_name.into();
            pod["metadata"]["annotations"][CONFIG_SOURCE] =
                if wanted.name.source == crate::facts::naming::Source::File { "file" } else { "api" }.into();
            if let Some(status) = shown.statuses.get(uid) {
                pod["status"] = status.clone();
            }
            if let Some(note) = problems::note(shown, uid) {
                pod["metadata"]["annotations"][WAITS_FOR] = note.into();
            }
            pod
        })
        .collect();
    Answer::json(
        StatusCode::OK,
        json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items }).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::strain::{Short, Strain};
    use crate::facts::world::World;
    use coracle_http::Body;

    #[test]
    fn who_asks_the_port_is_told_where_pods_are() {
        let answer = elsewhere("/pods", Path::new("/run/coracle/agent/n1.sock"));
        let Body::Whole(text) = answer.body else { panic!("a refusal is whole") };
        let status: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            (&status["kind"], &status["code"], &status["reason"]),
            (&json!("Status"), &json!(404), &json!("NotFound"))
        );
        let message = status["message"].as_str().unwrap();
        assert!(message.ends_with("curl --unix-socket /run/coracle/agent/n1.sock http://localhost/pods"), "{message}");
    }

    #[test]
    fn a_node_that_is_short_says_so() {
        assert_eq!(short_of(&Shown::default()), Vec::<Value>::new());
        let strain = Arc::new(Strain { short: [Short::Disk].into(), ..Strain::default() });
        let shown = Shown { world: Arc::new(World { strain, ..World::default() }), ..Shown::default() };
        assert_eq!(
            short_of(&shown),
            [json!({"type": "DiskPressure", "status": "True", "message": "kubelet has disk pressure"})]
        );
    }
}
