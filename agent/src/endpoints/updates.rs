//! `/images`, `/update/{namespace}/{pod or workload}` and `/updates/{number}`: for the commands `images` and `update`.

use std::time::Duration;

use coracle_http::channel::channel;
use coracle_http::{Answer, Body, Method, Request, STREAM_ITEMS_MAX, StatusCode, Stream};
use serde_json::json;

use super::place::{parameters, segments};
use super::view::View;
use crate::updates::board::Wish;
use crate::updates::{self, DEADLINE, table};

/// Nobody waits longer for one pod.
const DEADLINE_SECONDS_MAX: u64 = 24 * 3600;

/// None: the path is none of these.
pub fn answer(view: &View, request: &Request) -> Option<Answer> {
    let path = request.target.path();
    if let Some(rest) = path.strip_prefix("/update/") {
        return Some(match request.method {
            Method::POST => begin(view, rest, request.target.query().unwrap_or_default()),
            _ => Answer::text(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered here\n"),
        });
    }
    if request.method != Method::GET {
        return None;
    }
    if path == "/images" {
        return Some(images(view));
    }
    let job = path.strip_prefix("/updates/")?.parse().ok().and_then(|number| view.board.job(number));
    Some(match job {
        Some(job) => {
            let document = json!({"lines": job.lines, "ended": job.ended.is_some(), "well": job.ended});
            Answer::json(StatusCode::OK, document.to_string())
        }
        None => refuse(StatusCode::NOT_FOUND, "there is no such update, or the agent was started since"),
    })
}

/// Registries take their time: the answer is made by a task.
fn images(view: &View) -> Answer {
    let (out, events) = channel(STREAM_ITEMS_MAX);
    let (docker, shown) = (view.docker.clone(), view.shown.borrow().clone());
    view.runtime.spawn(async move {
        let document = table::of_all(&docker, &shown).await;
        // Whoever asked may be gone.
        let _ = out.send(document.to_string().into()).await;
    });
    Answer::new(StatusCode::OK, "application/json", Body::Stream(Stream { events, lease: Box::new(()) }))
}

fn begin(view: &View, rest: &str, query: &str) -> Answer {
    let Some(parts) = segments(rest) else { return refuse(StatusCode::BAD_REQUEST, "the path is badly encoded") };
    let name = match parts.as_slice() {
        [_, name] => name.clone(),
        [_, kind, name] => format!("{kind}/{name}"),
        _ => return Answer::text(StatusCode::NOT_FOUND, "404 page not found\n"),
    };
    let (mut dry_run, mut deadline) = (false, DEADLINE);
    let given = match parameters(query) {
        Ok(given) => given,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    for (key, value) in given {
        match (key.as_str(), value.parse::<u64>()) {
            ("dryRun", _) => dry_run = value == "true",
            ("deadlineSeconds", Ok(seconds @ 1..=DEADLINE_SECONDS_MAX)) => deadline = Duration::from_secs(seconds),
            ("deadlineSeconds", _) => {
                return refuse(StatusCode::BAD_REQUEST, "deadlineSeconds is not from 1 to 86400");
            }
            _ => return refuse(StatusCode::BAD_REQUEST, &format!("{key} is not known here")),
        }
    }
    let uids = updates::pods(&view.shown.borrow(), &view.node_name, &parts[0], &name);
    let asked = uids.map_err(|why| (StatusCode::NOT_FOUND, why)).and_then(|uids| {
        let wish = Wish { uids, dry_run, deadline, scheduled: false, job: 0 };
        view.board.ask(wish).map_err(|why| (StatusCode::TOO_MANY_REQUESTS, why))
    });
    match asked {
        Ok(job) => Answer::json(StatusCode::ACCEPTED, json!({"job": job}).to_string()),
        Err((code, why)) => refuse(code, &why),
    }
}

fn refuse(code: StatusCode, why: &str) -> Answer {
    Answer::refuse(code, "Refused", why)
}
