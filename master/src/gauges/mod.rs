//! Gauges of objects under the names, labels and values of kube-state-metrics, for the alert rules that are written for
//! it; and the problems of this cluster. PURE.
//!
//! A page of its own, `/metrics/state`: it is as long as the cluster is large, and rules for it name another job than
//! those for `/metrics`.

mod jobs;
mod nodes;
mod others;
mod pods;
#[cfg(test)]
mod tests;
mod text;
mod workloads;

use crate::problems::Found;
use crate::problems::objects::Objects;
use coracle_keeper::problem::{Severity, counts};
use text::Text;

/// Lines of the page. A pod of one container has some 25; what is beyond is counted in `coracle_state_left_out`.
pub const SERIES_MAX: usize = 20_000;

/// Gauges of the objects and of the problems that were found in them, in Prometheus' text form.
pub fn page(objects: &Objects, found: &Found, next: &jobs::NextTick<'_>) -> String {
    let mut text = Text::new(SERIES_MAX);
    problems(found, &mut text);
    nodes::write(objects, &mut text);
    workloads::write(objects, &mut text);
    jobs::write(objects, next, &mut text);
    others::write(objects, &mut text);
    pods::write(objects, &mut text);
    text.end()
}

fn problems(found: &Found, text: &mut Text) {
    let counts = counts(&found.problems);
    text.family("coracle_problems", "gauge", "Problems (something asked for is missing) and warnings by reason.");
    for severity in [Severity::Problem, Severity::Warning] {
        let mut own = counts.iter().filter(|((of, _), _)| *of == severity).peekable();
        // A sum over no series is nothing, so each severity has a series.
        if own.peek().is_none() {
            text.line(&[("severity", severity.name()), ("reason", "")], 0.0);
        }
        for ((_, reason), count) in own {
            text.line(&[("severity", severity.name()), ("reason", reason)], *count as f64);
        }
    }
    text.family("coracle_problems_left_out", "gauge", "Problems beyond those that are told.");
    text.line(&[], found.left_out as f64);
}
