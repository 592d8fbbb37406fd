//! A node that is full, and a workload that is rolled out, beside what the engine itself takes for the same calls.

use crate::bed::{Bed, Engine};
use crate::images::BUSYBOX;
use crate::process::{Usage, pss_kb};
use crate::{create_and_start, manifest, recreate};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// As many as a node takes.
const FULL: usize = 110;
/// Pods of the engine's own, one after another.
const OWN: usize = 11;
const REPLICAS: usize = 3;
const RESTARTS: usize = 5;
const QUIET: Duration = Duration::from_secs(60);
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// So many files at once, an agent that finds them running, and what it takes then.
pub fn full(engine: &Engine) -> Result<String, String> {
    let mut bed = Bed::new(engine, "bench-full");
    bed.start_agent_with(&[]);
    let begun = Instant::now();
    for n in 0..FULL {
        bed.drop_manifest(&format!("full{n}"), &manifest(&format!("full{n}")));
    }
    while running(&bed) < FULL {
        if begun.elapsed() > Duration::from_secs(600) {
            return Err(format!("{} of {FULL} pods run", running(&bed)));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let all = begun.elapsed().as_secs_f64();
    let bodies = recreate(&bed, "full0")?;
    let begun = Instant::now();
    for n in 0..OWN {
        create_and_start(engine, &bodies, 1_000 + n)?;
    }
    let floor = begun.elapsed().as_secs_f64() / OWN as f64 * FULL as f64;
    let mut adopted = Vec::new();
    for _ in 0..RESTARTS {
        bed.stop_agent();
        let begun = Instant::now();
        bed.start_agent_with(&[]);
        while running(&bed) < FULL {
            std::thread::sleep(Duration::from_millis(2));
        }
        adopted.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    std::thread::sleep(Duration::from_secs(45));
    let before = Usage::of(bed.agent_pid())?;
    std::thread::sleep(QUIET);
    let after = Usage::of(bed.agent_pid())?;
    let memory = pss_kb(bed.agent_pid())?;
    bed.clean();
    Ok(format!(
        "  {FULL} files to {FULL} pods running: {all:.1} s = {:.2} x the engine's calls one after another ({floor:.1} \
         s)\n  an agent that starts anew tells of them: {:.0} ms\n  the agent then: {memory} kB PSS, {} ms CPU, {} \
         wake-ups, {} bytes written in {} s\n",
        all / floor,
        crate::median(adopted),
        after.cpu_ms - before.cpu_ms,
        after.wakes - before.wakes,
        after.written - before.written,
        QUIET.as_secs()
    ))
}

fn running(bed: &Bed) -> usize {
    let Ok(text) = bed.ask_agent("/pods") else { return 0 };
    let list: Value = serde_json::from_str(&text).unwrap_or_default();
    list["items"].as_array().into_iter().flatten().filter(|pod| pod["status"]["phase"] == "Running").count()
}

/// From the POST of a Deployment to its pods running, and from another image's name to the same.
pub fn rollout(engine: &Engine) -> Result<String, String> {
    let mut bed = Bed::new(engine, "bench-rollout");
    bed.start();
    let (mut made, mut rolled, mut floors, mut floors_of_rolling) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..5 {
        let begun = Instant::now();
        bed.post(DEPLOYMENTS, &deployment(0).to_string());
        wait(&bed, &[]);
        made.push(begun.elapsed().as_secs_f64());
        let old = bed.running_of("c");
        let pod = bed.get("/api/v1/namespaces/default/pods")["items"][0]["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let bodies = recreate(&bed, &pod)?;
        let (mut floor, mut floor_of_rolling) = (0.0, 0.0);
        for n in 0..REPLICAS {
            let number = 2_000 + round * 10 + n;
            let begun = Instant::now();
            create_and_start(engine, &bodies, number)?;
            floor += begun.elapsed().as_secs_f64();
            engine.docker(&["stop", &format!("floor-{number}")])?;
            engine.docker(&["rm", "-f", &format!("floor-{number}"), &format!("floor-sandbox-{number}")])?;
            floor_of_rolling += begun.elapsed().as_secs_f64();
        }
        floors.push(floor);
        floors_of_rolling.push(floor_of_rolling);
        let begun = Instant::now();
        let (code, answer) = bed.send("PUT", &format!("{DEPLOYMENTS}/d"), &deployment(1).to_string());
        if code != 200 {
            return Err(format!("PUT of the deployment: {code} {answer}"));
        }
        wait(&bed, &old);
        rolled.push(begun.elapsed().as_secs_f64());
        bed.send("DELETE", &format!("{DEPLOYMENTS}/d"), "");
        bed.until("all is gone", |bed| {
            let left =
                bed.get("/api/v1/namespaces/default/pods")["items"].as_array().is_some_and(|items| !items.is_empty());
            (!left && bed.running_of("c").is_empty()).then_some(())
        });
    }
    bed.clean();
    let [made, rolled, floor, floor_of_rolling] = [made, rolled, floors, floors_of_rolling].map(crate::median);
    Ok(format!(
        "  a Deployment of {REPLICAS} to running: {made:.2} s = {:.2} x the engine's calls one after another \
         ({floor:.2} s)\n  a rolling update of {REPLICAS}: {rolled:.2} s = {:.2} x start, stop and removal one after \
         another ({floor_of_rolling:.2} s)\n",
        made / floor,
        rolled / floor_of_rolling
    ))
}

/// Until all run, and none of the old ones.
fn wait(bed: &Bed, old: &[String]) {
    let begun = Instant::now();
    loop {
        let now = bed.running_of("c");
        if now.len() == REPLICAS && now.iter().all(|id| !old.contains(id)) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(120), "{now:?}");
    }
}

fn deployment(version: u32) -> Value {
    let line = "trap 'exit 0' TERM; while true; do sleep 0.05; done";
    let container = json!({
        "name": "c", "image": BUSYBOX, "command": ["sh", "-c", line],
        "env": [{"name": "VERSION", "value": version.to_string()}],
    });
    let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}});
    let spec = json!({"replicas": REPLICAS, "selector": {"matchLabels": {"app": "d"}}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}
