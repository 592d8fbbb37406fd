//! What the agent answers on its port: `/healthz`, `/pods`, `/containerLogs/{namespace}/{pod}/{container}`.
//!
//! Handlers read the last `Shown` and wait for nothing; a log is sent by a task of the agent's own thread.

mod logs;

use std::sync::Arc;

use coracle_http::{Answer, Handler, Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::runtime::docker::Docker;
use crate::sync::Shown;

/// What the handlers look at.
#[derive(Clone)]
pub struct View {
    pub shown: watch::Receiver<Arc<Shown>>,
    pub docker: Arc<Docker>,
    pub runtime: tokio::runtime::Handle,
    pub node_name: String,
}

pub fn handler(view: View) -> Handler {
    Arc::new(move |request| answer(&view, &request))
}

fn answer(view: &View, request: &Request) -> Answer {
    let path = request.target.path();
    if request.method != Method::GET && request.method != Method::HEAD {
        return Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n");
    }
    match path {
        "/healthz" => healthz(&view.shown.borrow(), view.docker.trouble()),
        "/pods" | "/pods/" => pods(&view.shown.borrow(), &view.node_name),
        _ => match path.strip_prefix("/containerLogs/") {
            Some(rest) => logs::answer(view, rest, request.target.query().unwrap_or_default()),
            None => Answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
        },
    }
}

fn healthz(shown: &Shown, trouble: Option<String>) -> Answer {
    match trouble.or_else(|| shown.engine_trouble.as_ref().map(|(text, _)| text.clone())) {
        Some(trouble) => Answer::text(StatusCode::SERVICE_UNAVAILABLE, format!("the engine does not answer: {trouble}\n")),
        None if !shown.looked => Answer::text(StatusCode::SERVICE_UNAVAILABLE, "the engine was not reached yet\n"),
        None => Answer::text(StatusCode::OK, "ok"),
    }
}

fn pods(shown: &Shown, node_name: &str) -> Answer {
    let items: Vec<Value> = shown
        .desired
        .pods
        .iter()
        .map(|(uid, wanted)| {
            let mut pod = wanted.document.clone();
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["spec"]["nodeName"] = node_name.into();
            if let Some(status) = shown.statuses.get(uid) {
                pod["status"] = status.clone();
            }
            pod
        })
        .collect();
    Answer::json(StatusCode::OK, json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items }).to_string())
}
