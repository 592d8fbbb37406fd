//! `/restart/{namespace}/{pod}`: a POST asks for a restart of the pod, a GET answers when the restart is over and the
//! pod is ready, or when `wait` seconds have passed.
//!
//! Whoever may ask this socket may run commands in pods, and so end their processes anyway.

use std::time::Duration;

use coracle_api::status::{Reason, Status};
use coracle_http::{Answer, Method, Request, StatusCode};
use coracle_keeper::problem::Subject;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::figures::deferred;
use super::place::{parameters, pods_called, segments};
use super::view::View;
use crate::facts::shown::Shown;
use crate::facts::wanted::Wanted;
use crate::plan::restart::{Asked, ask, is_done};

/// A day: a longer wait is a mistake.
const WAIT_S_MAX: u64 = 86_400;

pub fn answer(view: &View, path: &str, request: &Request) -> Answer {
    let parts = segments(path).unwrap_or_default();
    let [namespace, pod] = parts.as_slice() else {
        return refuse(404, Reason::NotFound, "the path is /restart/NAMESPACE/POD");
    };
    let shown = view.shown.borrow().clone();
    let Some(wanted) = pods_called(&shown, &view.node_name, namespace, pod).next() else {
        return refuse(404, Reason::NotFound, &format!("pod {namespace}/{pod} is not on this host"));
    };
    let uid = wanted.name.uid.clone();
    match request.method {
        Method::POST if !shown.looked => {
            refuse(503, Reason::ServiceUnavailable, "the engine was not reached yet: nothing is known of the pod")
        }
        Method::POST => match ask(wanted, &shown.world) {
            Asked::Refused(why) => refuse(409, Reason::Conflict, &format!("pod {namespace}/{pod}: {why}")),
            Asked::Starts => Answer::json(StatusCode::OK, json!({ "begins": false }).to_string()),
            // The agent's own thread writes the agent's files.
            Asked::Restart(restart) => deferred(view, "application/json", async move |view| {
                let added = view.restarts.add(&uid, restart);
                let error =
                    added.err().map(|error| format!("the restart cannot be noted in {}: {error}", view.data_dir));
                json!({ "begins": error.is_none(), "error": error }).to_string()
            }),
        },
        Method::GET => match wait_s(request) {
            Ok(seconds) => {
                let wait = Duration::from_secs(seconds);
                deferred(view, "application/json", async move |view| waited(view, uid, wait).await.to_string())
            }
            Err(why) => refuse(400, Reason::BadRequest, &why),
        },
        _ => Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only GET and POST are answered here\n"),
    }
}

fn refuse(code: u16, reason: Reason, message: &str) -> Answer {
    let status = Status { code, reason: Some(reason), message: message.to_owned(), details: None, continues: None };
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Answer::json(code, status.to_v1().to_string())
}

fn wait_s(request: &Request) -> Result<u64, String> {
    let parameters = parameters(request.target.query().unwrap_or_default())?;
    let Some((_, text)) = parameters.into_iter().find(|(name, _)| name == "wait") else { return Ok(0) };
    let seconds = text.parse().ok().filter(|seconds| *seconds <= WAIT_S_MAX);
    seconds.ok_or_else(|| format!("wait={text}: it is a number of seconds, at most {WAIT_S_MAX}"))
}

async fn waited(view: View, uid: String, wait: Duration) -> Value {
    let (mut shown, list) = (view.shown.clone(), view.restarts.subscribe());
    // The request is in the list before a look at the pod knows of it.
    let asked = |shown: &Shown| {
        let restart = list.borrow().get(&uid).copied();
        let wanted = shown.desired.pods.get(&uid);
        restart.zip(wanted).is_some_and(|(restart, wanted)| !is_done(restart, wanted, &shown.world))
    };
    let over = |shown: &Shown| !asked(shown) && (is_ready(shown, &uid) || !shown.desired.pods.contains_key(&uid));
    let ended = timeout(wait, shown.wait_for(|shown| over(shown))).await.is_ok();
    let shown = view.shown.borrow().clone();
    let why = shown.desired.pods.get(&uid).and_then(|wanted| trouble(&view, wanted));
    json!({ "ready": ended && is_ready(&shown, &uid), "gone": !shown.desired.pods.contains_key(&uid), "why": why })
}

/// The first problem of the pod, in words.
fn trouble(view: &View, wanted: &Wanted) -> Option<String> {
    let subject = Subject::new("pod", &wanted.name.namespace, &wanted.name.name);
    let problem = view.problems.now().into_iter().find(|problem| problem.subject == subject)?;
    Some(if problem.why.is_empty() { problem.what } else { format!("{}: {}", problem.what, problem.why) })
}

fn is_ready(shown: &Shown, uid: &str) -> bool {
    let conditions = shown.statuses.get(uid).map_or(&Value::Null, |status| &status["conditions"]);
    conditions.as_array().into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
}
