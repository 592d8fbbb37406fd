//! `/stats/summary`, `/metrics` and its kin, and `/usage`, of which the master makes `metrics.k8s.io`: read when they
//! are asked for.
//!
//! A task of the agent's own thread reads and writes the answer, so that no handler waits for the second reading of a
//! rate.

use coracle_http::channel::{Sender, channel};
use coracle_http::{Answer, Body, HeaderValue, StatusCode, Stream, header};
use serde_json::Value;

use super::view::View;
use crate::facts::clock::wall_ms;
use crate::facts::shown::Shown;
use crate::figures::claims::{Claimed, claimed};
use crate::figures::{Reading, RunningContainer, metrics, rates, read, subjects, summary};
use crate::host::files;

/// Of Prometheus' text form.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// None: no path of figures.
pub fn answer(view: &View, path: &str) -> Option<Answer> {
    Some(match path.trim_end_matches('/') {
        "/stats/summary" => {
            deferred(view, "application/json", async |view| document(view, Claims::Measured, summary::summary).await)
        }
        "/usage" => deferred(view, "application/json", async |view| document(view, Claims::Left, summary::usage).await),
        "/metrics" => text(view, agent),
        "/metrics/probes" => text(view, async |view| metrics::probes(&view.tallies.all(), &view.node_name)),
        "/metrics/resource" => text(view, async |view| metrics::resource(&reading(view.clone(), Claims::Left).await)),
        "/metrics/cadvisor" => text(view, async |view| {
            metrics::cadvisor(&reading(view.clone(), Claims::Left).await, view.host.cpus, view.host.memory_bytes)
        }),
        _ => return None,
    })
}

/// Whether the file systems of claims are measured as well: a slow file system delays the answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    Measured,
    Left,
}

async fn document(view: View, claims: Claims, of: fn(&str, &crate::figures::Rates) -> Value) -> String {
    of(&view.node_name, &rates(|| reading(view.clone(), claims), &view.last).await).to_string()
}

async fn reading(view: View, claims: Claims) -> Reading {
    let shown = view.shown.borrow().clone();
    let subjects = subjects(&shown, &view.node_name);
    let claimed = if claims == Claims::Measured { of_running(&shown, &subjects, &view.data_dir) } else { Vec::new() };
    read(&view.docker, subjects, claimed, &view.data_dir, wall_ms()).await
}

async fn agent(view: View) -> String {
    let shown = view.shown.borrow().clone();
    let claimed = of_running(&shown, &subjects(&shown, &view.node_name), &view.data_dir);
    let volumes = crate::figures::volumes(claimed).await;
    metrics::agent(&shown, &view.node_name, files::own(), &volumes) + &metrics::problems(&view.problems.now())
}

fn of_running(shown: &Shown, subjects: &[RunningContainer], data_dir: &str) -> Vec<Claimed> {
    let running = subjects.iter().map(|subject| subject.uid.as_str()).collect();
    claimed(shown, &running, data_dir)
}

fn text<F: Future<Output = String> + Send + 'static>(
    view: &View,
    make: impl FnOnce(View) -> F + Send + 'static,
) -> Answer {
    let mut answer = deferred(view, "text/plain", make);
    answer.headers.insert(header::CONTENT_TYPE, TEXT);
    answer
}

pub(super) fn deferred<F: Future<Output = String> + Send + 'static>(
    view: &View,
    content_type: &'static str,
    make: impl FnOnce(View) -> F + Send + 'static,
) -> Answer {
    let (out, events) = channel(1);
    let of = view.clone();
    view.runtime.spawn(async move { send(make(of).await, &out).await });
    Answer::new(StatusCode::OK, content_type, Body::Stream(Stream { events, lease: Box::new(()) }))
}

async fn send(text: String, out: &Sender) {
    // Who has left needs no answer.
    let _ = out.send(text.into()).await;
}
