//! `/stats/summary`, `/metrics` and its kin, and `/usage`, of which the master makes `metrics.k8s.io`: read when they are asked for.
//!
//! A task of the agent's own thread reads and writes the answer, so that no handler waits for the second reading of a rate.

use coracle_http::channel::{Sender, channel};
use coracle_http::{Answer, Body, HeaderValue, StatusCode, Stream, header};
use serde_json::Value;

use super::view::View;
use crate::clock::wall_ms;
use crate::figures::{Reading, metrics, rates, read, subjects, summary};

/// Of Prometheus' text form.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// None: no path of figures.
pub fn answer(view: &View, path: &str) -> Option<Answer> {
    Some(match path.trim_end_matches('/') {
        "/stats/summary" => told(view, "application/json", async |view| document(view, summary::summary).await),
        "/usage" => told(view, "application/json", async |view| document(view, summary::usage).await),
        "/metrics" => text(view, async |view| metrics::agent(&view.shown.borrow().clone(), &view.node_name, crate::figures::files::own())),
        "/metrics/probes" => text(view, async |view| metrics::probes(&view.tallies.all(), &view.node_name)),
        "/metrics/resource" => text(view, async |view| metrics::resource(&reading(view.clone()).await)),
        "/metrics/cadvisor" => {
            text(view, async |view| metrics::cadvisor(&reading(view.clone()).await, view.host.cpus, view.host.memory_bytes))
        }
        _ => return None,
    })
}

async fn document(view: View, of: fn(&str, &crate::figures::Rates) -> Value) -> String {
    of(&view.node_name, &rates(|| reading(view.clone()), &view.last).await).to_string()
}

async fn reading(view: View) -> Reading {
    let subjects = subjects(&view.shown.borrow(), &view.node_name);
    read(&view.docker, subjects, &view.data_dir, wall_ms()).await
}

fn text<F: Future<Output = String> + Send>(view: &View, make: impl FnOnce(View) -> F + Send + 'static) -> Answer
where
    F: 'static,
{
    let mut answer = told(view, "text/plain", make);
    answer.headers.insert(header::CONTENT_TYPE, TEXT);
    answer
}

fn told<F: Future<Output = String> + Send + 'static>(
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
