//! `make bench`: what the promises are measured by, in one run, as ratios to something else in the same run.
//!
//! Nothing here is asserted but that every row was measured: a row that could not be says so and fails the bench.

#[allow(dead_code)]
#[path = "../e2e/bed.rs"]
mod bed;
mod churn;
#[allow(dead_code)]
#[path = "api/client.rs"]
mod client;
mod cluster;
#[allow(dead_code)]
#[path = "../e2e/engine.rs"]
mod engine;
#[allow(dead_code)]
#[path = "../e2e/images.rs"]
mod images;
#[allow(dead_code)]
#[path = "../e2e/kubectl.rs"]
mod kubectl;
mod kubelets;
mod loads;
mod net;
mod process;
mod streams;

use bed::{Bed, Engine, MASTER};
use process::Usage;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Starts of one kind; the median counts.
const ROUNDS: usize = 11;
const OBJECTS: usize = 1000;
const PODS: usize = 20;
/// Seconds; QUIET_S says otherwise, 3600 for an hour.
const QUIET_S: u64 = 60;
/// The store brings its files up to the journal ten minutes after a change: a long quiet time begins after that.
const JOURNAL_RESTS: Duration = Duration::from_secs(660);

type Row = (&'static str, fn(&Engine) -> Result<String, String>);

const ROWS: &[Row] = &[
    ("starting a pod", starts),
    ("master ready", ready),
    ("looking into pods", streams::streams),
    ("services and names", net::net),
    ("a rollout", loads::rollout),
    ("a full node", loads::full),
    ("a cluster of 5,000 pods", cluster::large),
    ("scheduling", cluster::scheduling),
    ("memory at rest, a quiet minute", quiet),
    ("after a churn", churn::churn),
];

fn main() -> ExitCode {
    let engine = match Engine::start() {
        Ok(engine) => engine,
        Err(why) => {
            eprintln!("bench: {why}");
            return ExitCode::FAILURE;
        }
    };
    // `make bench ROWS=memory` measures what has the word in its name.
    let wanted = std::env::var("ROWS").unwrap_or_default();
    let mut failed = 0;
    for (name, measure) in ROWS.iter().filter(|(name, _)| name.contains(&wanted)) {
        let measured = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| measure(&engine)));
        match measured.unwrap_or_else(|_| Err("a step failed; see above".to_owned())) {
            Ok(text) => println!("{name}\n{text}"),
            Err(why) => {
                println!("{name}: NOT MEASURED: {why}");
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// From the wish to the moment at which the engine says that the process started.
fn starts(engine: &Engine) -> Result<String, String> {
    let mut bed = Bed::new(engine, "bench-starts");
    bed.start();
    let mut file = Vec::new();
    let mut post = Vec::new();
    let mut floor = Vec::new();
    let mut run = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("file{round}");
        let begun = wall_ms();
        bed.drop_manifest(&name, &manifest(&name));
        file.push(started(&bed, &name)? - begun);

        let name = format!("post{round}");
        let begun = wall_ms();
        bed.post("/api/v1beta1/pods", &pod_v1beta1(&name));
        post.push(started(&bed, &name)? - begun);

        // The very calls that the agent made, made again by themselves.
        let bodies = recreate(&bed, &name)?;
        let begun = wall_ms();
        floor.push(create_and_start(engine, &bodies, round)? - begun);

        let begun = wall_ms();
        let id = bed.docker(&["run", "-d", images::BUSYBOX, "sleep", "3600"]);
        run.push(started_at(&bed, id.trim())? - begun);
    }
    bed.clean();
    let [file, post, floor, run] = [file, post, floor, run].map(median);
    let line = |what: &str, ms: f64| {
        format!("  {what:<34} {ms:7.0} ms   {:5.2} x floor   {:5.2} x docker run\n", ms / floor, ms / run)
    };
    Ok([
        line("the engine's floor (same calls)", floor),
        line("docker run (one container, no pod)", run),
        line("manifest file to running", file),
        line("POST to running", post),
    ]
    .concat())
}

fn manifest(name: &str) -> String {
    format!(
        "version: v1beta2\nid: {name}\ncontainers:\n  - name: c\n    image: {}\n    command: [sleep, '3600']\n",
        images::BUSYBOX
    )
}

fn pod_v1beta1(name: &str) -> String {
    // Longer than any quiet time that is measured: what ends is started again, and its files are written.
    let container = json!({"name": "c", "image": images::BUSYBOX, "command": ["sleep", "1000000"]});
    json!({
        "kind": "Pod", "apiVersion": "v1beta1", "id": name,
        "desiredState": {"manifest": {"version": "v1beta1", "id": name, "containers": [container]}},
    })
    .to_string()
}

/// When the engine started container `c` of a pod whose name begins so, in wall milliseconds.
fn started(bed: &Bed, pod: &str) -> Result<f64, String> {
    let id = bed.until(&format!("{pod} runs"), |bed| {
        let ids = bed.docker(&[
            "ps",
            "-q",
            "--no-trunc",
            "--filter",
            "label=io.kubernetes.container.name=c",
            "--filter",
            &format!("name=_{pod}[-_]"),
        ]);
        ids.lines().next().map(str::to_owned)
    });
    started_at(bed, &id)
}

fn started_at(bed: &Bed, id: &str) -> Result<f64, String> {
    let text = bed.docker(&["inspect", "-f", "{{.State.StartedAt}}", id]);
    let time: jiff::Timestamp = text.trim().parse().map_err(|e| format!("{id}: {text}: {e}"))?;
    Ok(time.as_nanosecond() as f64 / 1e6)
}

/// The create calls of a pod's sandbox and container, read off the engine, under other names.
fn recreate(bed: &Bed, pod: &str) -> Result<[Value; 2], String> {
    let body = |container: &str| {
        let ids = bed.docker(&[
            "ps",
            "-q",
            "--no-trunc",
            "--filter",
            &format!("label=io.kubernetes.container.name={container}"),
            "--filter",
            &format!("name=_{pod}[-_]"),
        ]);
        let id = ids.lines().next().ok_or_else(|| format!("{pod} has no container {container}"))?;
        let seen: Value = serde_json::from_str(&bed.docker(&["inspect", id])).map_err(|e| e.to_string())?;
        let mut body = seen[0]["Config"].clone();
        body["HostConfig"] = seen[0]["HostConfig"].clone();
        body["Labels"] = json!({});
        // A member has its sandbox's, and the engine takes no other.
        if seen[0]["HostConfig"]["NetworkMode"].as_str().is_some_and(|mode| mode.starts_with("container:")) {
            body["Hostname"] = "".into();
        }
        Ok::<Value, String>(body)
    };
    Ok([body("POD")?, body("c")?])
}

fn create_and_start(engine: &Engine, [sandbox, member]: &[Value; 2], round: usize) -> Result<f64, String> {
    let (one, other) = (format!("floor-sandbox-{round}"), format!("floor-{round}"));
    let mut member = member.clone();
    for part in ["NetworkMode", "IpcMode"] {
        member["HostConfig"][part] = format!("container:{one}").into();
    }
    call(engine, &format!("/containers/create?name={one}"), &sandbox.to_string())?;
    call(engine, &format!("/containers/{one}/start"), "")?;
    call(engine, &format!("/containers/create?name={other}"), &member.to_string())?;
    call(engine, &format!("/containers/{other}/start"), "")?;
    let text = engine.docker(&["inspect", "-f", "{{.State.StartedAt}}", &other])?;
    let time: jiff::Timestamp = text.trim().parse().map_err(|e| format!("{other}: {e}"))?;
    Ok(time.as_nanosecond() as f64 / 1e6)
}

/// One POST to the engine with nothing in between.
fn call(engine: &Engine, path: &str, body: &str) -> Result<(), String> {
    let socket = engine.socket();
    let mut stream = UnixStream::connect(socket.trim_start_matches("unix://")).map_err(|e| e.to_string())?;
    let length = body.len();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .map_err(|e| e.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|e| e.to_string())?;
    let code = answer.split(' ').nth(1).unwrap_or_default();
    if code.starts_with('2') { Ok(()) } else { Err(format!("POST {path}: {answer}")) }
}

/// From the start of the process to its first answer, with so many objects in its files.
fn ready(engine: &Engine) -> Result<String, String> {
    let mut bed = Bed::new(engine, "bench-ready");
    bed.start_master();
    let empty = start_times(&mut bed)?;
    for n in 0..OBJECTS {
        let spec = json!({
            "containers": [{"name": "c", "image": "i", "env": [{"name": "FILLER", "value": "x".repeat(1000)}]}],
        });
        let (code, answer) = bed.send(
            "POST",
            "/api/v1/namespaces/default/pods",
            &json!({"metadata": {"name": format!("p{n}")}, "spec": spec}).to_string(),
        );
        if code != 201 {
            return Err(format!("POST of pod {n}: {code} {answer}"));
        }
    }
    let full = start_times(&mut bed)?;
    let begun = Instant::now();
    let bytes = read_all(&bed.path("master/objects"))?;
    let raw = begun.elapsed().as_secs_f64() * 1e3;
    bed.clean();
    Ok(format!(
        "  empty: {empty:.1} ms; with {OBJECTS} pods ({} kB): {full:.1} ms = {:.1} x reading the same files ({raw:.1} \
         ms)\n",
        bytes / 1024,
        full / raw
    ))
}

fn start_times(bed: &mut Bed) -> Result<f64, String> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        bed.stop_master();
        let begun = Instant::now();
        bed.spawn_master();
        while !answers() {
            if begun.elapsed() > Duration::from_secs(20) {
                return Err("the master does not answer".to_owned());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

fn answers() -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = std::net::TcpStream::connect(MASTER)?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    };
    ask().unwrap_or(false)
}

fn read_all(folder: &std::path::Path) -> Result<usize, String> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        bytes += if path.is_dir() { read_all(&path)? } else { std::fs::read(&path).map_err(|e| e.to_string())?.len() };
    }
    Ok(bytes)
}

fn quiet(engine: &Engine) -> Result<String, String> {
    let mut bed = Bed::new(engine, "bench-quiet");
    // As the packages have it, beside the plain port.
    bed.start_master_with(&["--secure-listen", "127.0.0.1:6443"]);
    bed.start_agent();
    // A start is a burst: half a minute after its last change its memory has gone back.
    std::thread::sleep(Duration::from_secs(75));
    let rest = [bed.master_pid(), bed.agent_pid()].map(process::pss_kb);
    for n in 0..PODS {
        bed.post("/api/v1beta1/pods", &pod_v1beta1(&format!("quiet{n}")));
    }
    bed.until("all pods run", |bed| {
        let running = bed.agent_pods().iter().filter(|pod| pod["status"]["phase"] == "Running").count();
        (running == PODS).then_some(())
    });
    // What the starts left to do (last statuses, events) is done by then.
    let quiet_s = std::env::var("QUIET_S").ok().and_then(|text| text.parse().ok()).unwrap_or(QUIET_S);
    std::thread::sleep(if quiet_s > JOURNAL_RESTS.as_secs() { JOURNAL_RESTS } else { Duration::from_secs(20) });
    let before = [Usage::of(bed.master_pid())?, Usage::of(bed.agent_pid())?];
    std::thread::sleep(Duration::from_secs(quiet_s));
    let after = [Usage::of(bed.master_pid())?, Usage::of(bed.agent_pid())?];
    let full = [bed.master_pid(), bed.agent_pid()].map(process::pss_kb);
    let [master_rest, agent_rest] = rest;
    let [master_full, agent_full] = full;
    let (master_rest, agent_rest, master_full, agent_full) = (master_rest?, agent_rest?, master_full?, agent_full?);
    // By a signal that lets callgrind write its second.
    bed.stop_agent();
    bed.stop_master();
    bed.clean();
    let line = |name: &str, n: usize| {
        let (before, after) = (&before[n], &after[n]);
        let (cpu, wakes, bytes) =
            (after.cpu_ms - before.cpu_ms, after.wakes - before.wakes, after.written - before.written);
        format!(
            "  {name}: {cpu} ms CPU ({:.2} %), {wakes} wake-ups, {bytes} bytes written in {quiet_s} s with {PODS} \
             pods\n",
            cpu as f64 / 10.0 / quiet_s as f64
        )
    };
    Ok([
        format!("  PSS at rest: master {master_rest} kB + agent {agent_rest} kB = {} kB\n", master_rest + agent_rest),
        format!(
            "  PSS with {PODS} pods: master {master_full} kB + agent {agent_full} kB = {} kB\n",
            master_full + agent_full
        ),
        line("master", 0),
        line("agent", 1),
    ]
    .concat())
}

fn wall_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
