//! What both programs hold after pods, namespaces and events have come and gone: as ratios to what they held before.
//!
//! CHURN_ROUNDS, CHURN_PODS, CHURN_WAIT_S: other numbers than those of the promise. The programs are started as people
//! start them, without the units' settings.

use crate::bed::{Bed, Engine, MASTER};
use crate::{images, process};
use serde_json::json;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PODS: usize = 300;
const NAMESPACES: usize = 30;
/// Besides those that the agent and the controllers tell of the pods.
const EVENTS: usize = 3000;
const WAIT_S: usize = 600;
/// Pods that are there at once: what a small host runs.
const AT_ONCE: usize = 30;
/// The most that either should hold at the end, of what it held at the start.
const AIM: f64 = 1.5;
/// Until both have given back what their start took.
const BEGINS: Duration = Duration::from_secs(90);

pub fn churn(engine: &Engine) -> Result<String, String> {
    let number =
        |name: &str, usual: usize| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (rounds, pods, wait_s) =
        (number("CHURN_ROUNDS", 1), number("CHURN_PODS", PODS), number("CHURN_WAIT_S", WAIT_S));
    let mut bed = Bed::new(engine, "bench-churn");
    bed.start();
    std::thread::sleep(BEGINS);
    let held = |bed: &Bed| -> Result<[u64; 2], String> {
        Ok([process::pss_kb(bed.master_pid())?, process::pss_kb(bed.agent_pid())?])
    };
    let begun = held(&bed)?;
    let line = |when: &str, now: [u64; 2]| {
        let part = |n: usize| format!("{} kB = {:.2} x", now[n], now[n] as f64 / begun[n] as f64);
        format!("  {when:<40} master {}, agent {}\n", part(0), part(1))
    };
    let mut text = line("at rest, PSS", begun);
    for number in 0..rounds {
        round(&bed, number, pods)?;
        text += &line(&format!("after {pods} pods, {NAMESPACES} namespaces, {EVENTS} events"), held(&bed)?);
    }
    std::thread::sleep(Duration::from_secs(wait_s as u64));
    let ended = held(&bed)?;
    text += &line(&format!("{wait_s} s later"), ended);
    text += &verdict(begun, ended);
    bed.clean();
    Ok(text)
}

/// After divided by before, and what it should be: no test, for a machine that is busy gives other figures.
fn verdict(begun: [u64; 2], ended: [u64; 2]) -> String {
    let part = |name: &str, at: usize| {
        let ratio = ended[at] as f64 / begun[at] as f64;
        let word = if ratio <= AIM { "kept" } else { "MISSED" };
        format!("  {:<40} {ratio:.2} x, aim: at most {AIM} x, {word}\n", format!("{name}, after / before"))
    };
    part("master", 0) + &part("agent", 1)
}

/// Some namespaces at a time.
fn round(bed: &Bed, number: usize, pods: usize) -> Result<(), String> {
    let each = pods.div_ceil(NAMESPACES).max(1);
    let names: Vec<String> = (0..NAMESPACES).map(|namespace| format!("churn-{number}-{namespace}")).collect();
    for names in names.chunks((AT_ONCE / each).max(1)) {
        for name in names {
            post("/api/v1/namespaces", &json!({"metadata": {"name": name}}).to_string())?;
            let service =
                json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
            post(&format!("/api/v1/namespaces/{name}/services"), &service.to_string())?;
            for pod in 0..each {
                let container = json!({"name": "c", "image": images::BUSYBOX, "command": ["sleep", "3600"]});
                let spec = json!({"terminationGracePeriodSeconds": 0, "containers": [container]});
                let pod = json!({"metadata": {"name": format!("pod-{pod}"), "labels": {"app": "web"}}, "spec": spec});
                post(&format!("/api/v1/namespaces/{name}/pods"), &pod.to_string())?;
            }
            for event in 0..EVENTS / NAMESPACES {
                let about = json!({
                    "kind": "Pod", "apiVersion": "v1", "namespace": name, "name": format!("pod-{}", event % each),
                });
                let message = format!("something happened to it for the {event}th time");
                let metadata = json!({"name": format!("event-{event}"), "namespace": name});
                let event = json!({
                    "metadata": metadata, "involvedObject": about, "reason": "Happened", "type": "Normal",
                    "message": message,
                });
                post(&format!("/api/v1/namespaces/{name}/events"), &event.to_string())?;
            }
        }
        let wanted = names.len() * each;
        bed.until("the pods run", |bed| {
            let runs = bed.agent_pods().iter().filter(|pod| pod["status"]["phase"] == "Running").count();
            (runs == wanted).then_some(())
        });
        for name in names {
            ask("DELETE", &format!("/api/v1/namespaces/{name}"), "")?;
        }
        bed.until("the namespaces are gone", |_| {
            names
                .iter()
                .all(|name| ask("GET", &format!("/api/v1/namespaces/{name}"), "").is_ok_and(|code| code == 404))
                .then_some(())
        });
    }
    Ok(())
}

fn post(path: &str, body: &str) -> Result<(), String> {
    match ask("POST", path, body)? {
        201 => Ok(()),
        code => Err(format!("POST {path}: {code}")),
    }
}

/// Without a program in between: these are some thousands.
fn ask(method: &str, path: &str, body: &str) -> Result<u16, String> {
    let failed = |error: std::io::Error| format!("{method} {path}: {error}");
    let mut stream = TcpStream::connect(MASTER).map_err(failed)?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| format!("{method} {path}: {answer}"))
}
