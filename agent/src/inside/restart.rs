//! `restart`: of pods by the agent of this host, of workloads of the API by a changed pod template, as kubectl does it.

use std::io::Write;
use std::time::Duration;

use coracle_http::{Method, StatusCode};
use jiff::{Timestamp, Unit};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::deed::{Deed, DeedKind, refusal};
use super::find::{Found, Programs, nowhere};
use super::named::{Named, NamedKind, encoded, name_for_agent, words};
use super::rollout::{self, Progress};
use super::unheard;

/// The agent answers the wait for a pod so long before the caller's own patience ends.
const ANSWER: Duration = Duration::from_secs(5);

/// Until it is ready again, or where nobody waits until it is asked for.
pub async fn run(name: &str, deed: &Deed, programs: &Programs, patience: Option<Duration>) -> Result<u8, String> {
    debug_assert!(matches!(deed.what, DeedKind::Restart { .. }));
    let named = &deed.named;
    let deadline = patience.map(|patience| Instant::now() + patience);
    if named.kind == NamedKind::Pod {
        return match programs.find(named).await? {
            Found::Here(pod, called) => one(programs, &pod, &called, deadline).await.map(|()| 0),
            Found::There(pod) => Err(elsewhere(name, &pod)),
        };
    }
    if let Some(workload) = programs.of_master(&named.path()).await? {
        return roll(programs, named, &workload, deadline).await;
    }
    let here = programs.pods().await?;
    match named.on_host(&here).as_slice() {
        [] => Err(nowhere(named, &here)),
        found => {
            // One after the other: the next when the one before is ready.
            for pod in found {
                one(programs, pod, &name_for_agent(pod, &here), deadline).await?;
            }
            Ok(0)
        }
    }
}

fn elsewhere(name: &str, pod: &Value) -> String {
    let (namespace, pod_name) = (&pod["metadata"]["namespace"], &pod["metadata"]["name"]);
    let (namespace, pod_name) = (namespace.as_str().unwrap_or_default(), pod_name.as_str().unwrap_or_default());
    match pod["spec"]["nodeName"].as_str() {
        Some(node) => format!(
            "pod {namespace}/{pod_name} runs on node {node}: `{name} restart {namespace}/{pod_name}` there, or, \
             where a \
             workload makes it anew, `kubectl delete pod -n {namespace} {pod_name}`"
        ),
        None => format!("pod {namespace}/{pod_name} has no node yet: it starts anyway"),
    }
}

async fn one(programs: &Programs, pod: &Value, called: &str, deadline: Option<Instant>) -> Result<(), String> {
    let (begun, shown) = (Instant::now(), words(pod));
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let path = format!("/restart/{}/{}", encoded(namespace), encoded(called));
    let lost = |error| unheard(&programs.sockets.agent, error);
    let reply = programs.agent.call(Method::POST, &path, None).await.map_err(lost)?;
    if reply.status != StatusCode::OK {
        return Err(refusal(&reply.body));
    }
    let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if let Some(error) = answer["error"].as_str() {
        return Err(format!("pod {shown}: {error}"));
    }
    say(&match answer["begins"] == true {
        true => format!("pod {shown} restarts"),
        false => format!("pod {shown} has not started yet, and starts now"),
    });
    let Some(deadline) = deadline else { return Ok(()) };
    let left = deadline.saturating_duration_since(Instant::now());
    let path = format!("{path}?wait={}", left.as_secs().max(1));
    let waited = async {
        let mut pieces = programs.agent.pieces(&path, left + ANSWER).await.map_err(lost)?;
        let mut whole = Vec::new();
        while let Some(piece) = pieces.next().await {
            whole.extend_from_slice(&piece.map_err(lost)?);
        }
        serde_json::from_slice::<Value>(&whole)
            .map_err(|_| format!("the agent has gone; it goes on with pod {shown} when it is back"))
    };
    let waited = timeout_at(deadline + ANSWER, waited).await;
    let waited = waited.unwrap_or_else(|_| Err(format!("pod {shown}: the agent does not say whether it is ready")))?;
    if waited["gone"] == true {
        return Err(format!("pod {shown} is gone"));
    }
    if waited["ready"] != true {
        let why = waited["why"].as_str().map_or_else(String::new, |why| format!(": {why}"));
        return Err(format!("pod {shown} is not ready after {} s{why}", begun.elapsed().as_secs()));
    }
    say(&format!("pod {shown} is ready again, after {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(())
}

async fn roll(programs: &Programs, named: &Named, workload: &Value, deadline: Option<Instant>) -> Result<u8, String> {
    if let Some(why) = rollout::refusal(named.kind, workload) {
        return Err(format!("{named}: {why}"));
    }
    let (begun, lost) = (Instant::now(), |error| unheard(&programs.sockets.master, error));
    let now = Timestamp::now().round(Unit::Second).unwrap_or_else(|_| Timestamp::now()).to_string();
    let patch = rollout::patch(&now).to_string();
    let language = "application/strategic-merge-patch+json";
    let reply = programs.master.patch(&named.path(), language, patch.into()).await.map_err(lost)?;
    if reply.status != StatusCode::OK {
        return Err(format!("{named}: {}", refusal(&reply.body)));
    }
    let changed: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let generation = changed["metadata"]["generation"].as_i64().unwrap_or(0);
    say(&format!("{named} restarts"));
    let Some(deadline) = deadline else { return Ok(0) };
    let mut last = String::new();
    let watched = async {
        // A master ends a watch from time to time.
        loop {
            let mut lines = programs.master.stream(&named.watch_path()).await.map_err(lost)?;
            while let Some(line) = lines.next().await.map_err(lost)? {
                let event: Value = serde_json::from_slice(&line).unwrap_or_default();
                if event["type"] == "DELETED" {
                    return Err(format!("{named} is gone"));
                }
                if !event["object"]["metadata"].is_object() || event["type"] == "BOOKMARK" {
                    continue;
                }
                match rollout::progress(named.kind, &event["object"], generation) {
                    Progress::Over => return Ok(()),
                    Progress::Stuck(why) => return Err(format!("{named}: {why}")),
                    Progress::Goes(words) => last = words,
                }
            }
        }
    };
    match timeout_at(deadline, watched).await {
        Ok(ended) => ended?,
        Err(_) => return Err(format!("{named} is not through after {} s: {last}", begun.elapsed().as_secs())),
    }
    say(&format!("{named} is ready again, after {:.1} s", begun.elapsed().as_secs_f64()));
    Ok(0)
}

fn say(line: &str) {
    // Nobody may be reading any more.
    let _ = writeln!(std::io::stdout(), "{}", coracle_api::printable::line(line));
}
