//! Looking into pods: a command, a copy, a forwarded port and conversations that rest, as ratios to what the engine
//! does for the same.

use crate::bed::{Bed, Engine, MASTER, run};
use crate::kubectl::{Going, newest};
use crate::{ROUNDS, images, median, process};
use coracle_http::client::Client;
use coracle_http::websocket::{Reader, Writer, begin};
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};

/// Of a copy, and of what is fetched through a port.
const COPY_MB: usize = 100;
const IDLE: usize = 100;
const PROTOCOL: &str = "v5.channel.k8s.io";
/// Until the memory of what has just begun or ended is what it stays.
const SETTLES: Duration = Duration::from_secs(10);

pub fn streams(engine: &Engine) -> Result<String, String> {
    let mut bed = Bed::new(engine, "bench-streams");
    bed.start();
    let serves = "mkdir /www; head -c 1000 /dev/zero > /www/small; exec httpd -f -p 8080 -h /www";
    let container = json!({"name": "c", "image": images::BUSYBOX, "command": ["sh", "-c", serves]});
    bed.post(
        "/api/v1/namespaces/default/pods",
        &json!({"metadata": {"name": "box"}, "spec": {"containers": [container]}}).to_string(),
    );
    let id = bed.until("it runs", |bed| bed.running_of("c").pop());
    let text = [commands(&bed, &id)?, copies(&bed, &id)?, ports(&bed)?, idle(&bed)?].concat();
    bed.clean();
    Ok(text)
}

/// The median of some rounds, in milliseconds.
fn timed(mut act: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        act()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

fn line(what: &str, of: f64, floor: f64) -> String {
    format!("  {what:<52} {of:8.1} ms   {:5.2} x\n", of / floor)
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())
}

async fn open(command: &str) -> Result<(Reader, Writer), String> {
    let target = format!("http://{MASTER}").parse().map_err(|error| format!("{error}"))?;
    let path = format!("/api/v1/namespaces/default/pods/box/exec?container=c&stdin=true&stdout=true&{command}");
    Ok(begin(Client::new(target, "bench").web_socket(&path, PROTOCOL).await.map_err(|error| error.to_string())?))
}

fn commands(bed: &Bed, id: &str) -> Result<String, String> {
    let floor = timed(|| bed.engine.docker(&["exec", id, "true"]).map(drop))?;
    let asked = timed(|| match bed.ask_program(&["exec", "box", "--", "true"], b"") {
        said if said.code == 0 => Ok(()),
        said => Err(said.err),
    })?;
    let runtime = runtime()?;
    let streamed = timed(|| {
        runtime.block_on(async {
            let (mut reader, _writer) = open("command=true").await?;
            while reader.next().await.map_err(|error| error.to_string())?.is_some() {}
            Ok(())
        })
    })?;
    let typed = timed(|| run(&mut newest().command(&["exec", "box", "--", "true"])).map(drop))?;
    Ok([
        line("docker exec", floor, floor),
        line("coracle-agent exec", asked, floor),
        line("exec over WebSocket through the master", streamed, floor),
        line("kubectl exec", typed, floor),
    ]
    .concat())
}

fn copies(bed: &Bed, id: &str) -> Result<String, String> {
    let file = bed.path("large");
    std::fs::write(&file, vec![7; COPY_MB << 20]).map_err(|error| error.to_string())?;
    let (file, back) = (file.display().to_string(), bed.path("back").display().to_string());
    let once = |act: &dyn Fn() -> Result<String, String>| {
        let begun = Instant::now();
        act().map(|_| begun.elapsed().as_secs_f64() * 1e3)
    };
    let client = newest();
    let into = once(&|| bed.engine.docker(&["cp", &file, &format!("{id}:/tmp/docker")]))?;
    let out = once(&|| bed.engine.docker(&["cp", &format!("{id}:/tmp/docker"), &back]))?;
    let kubectl_into = once(&|| run(&mut client.command(&["cp", &file, "box:/tmp/kubectl"])))?;
    let kubectl_out = once(&|| run(&mut client.command(&["cp", "box:/tmp/kubectl", &back])))?;
    Ok([
        line(&format!("docker cp, {COPY_MB} MB in"), into, into),
        line("kubectl cp in", kubectl_into, into),
        line(&format!("docker cp, {COPY_MB} MB out"), out, out),
        line("kubectl cp out", kubectl_out, out),
    ]
    .concat())
}

fn ports(bed: &Bed) -> Result<String, String> {
    newest().must(&["exec", "box", "--", "cp", "/tmp/kubectl", "/www/large"]);
    let address =
        bed.get("/api/v1/namespaces/default/pods/box")["status"]["podIP"].as_str().unwrap_or_default().to_owned();
    let mut going = Going::start(&newest(), &["port-forward", "box", ":8080"]);
    let forwarded = format!("127.0.0.1:{}", going.port());
    let fetch = |url: String| timed(|| run(Command::new("curl").args(["-sSf", "-o", "/dev/null", &url])).map(drop));
    let (own, own_large) =
        (fetch(format!("http://{address}:8080/small"))?, fetch(format!("http://{address}:8080/large"))?);
    let (small, large) = (fetch(format!("http://{forwarded}/small"))?, fetch(format!("http://{forwarded}/large"))?);
    Ok([
        line("a request to the pod's address", own, own),
        line("the same through port-forward", small, own),
        line(&format!("{COPY_MB} MB from the pod's address"), own_large, own_large),
        line("the same through port-forward", large, own_large),
    ]
    .concat())
}

fn idle(bed: &Bed) -> Result<String, String> {
    let held =
        || -> Result<[u64; 2], String> { Ok([process::pss_kb(bed.master_pid())?, process::pss_kb(bed.agent_pid())?]) };
    std::thread::sleep(SETTLES);
    let before = held()?;
    let runtime = runtime()?;
    let open = runtime.block_on(async {
        let mut all = Vec::new();
        for _ in 0..IDLE {
            all.push(open("command=cat").await?);
        }
        Ok::<_, String>(all)
    })?;
    std::thread::sleep(SETTLES);
    let with = held()?;
    drop(open);
    let part = |n: usize| format!("{} kB -> {} kB", before[n], with[n]);
    Ok(format!("  {IDLE} commands that wait, PSS: master {}, agent {}\n", part(0), part(1)))
}
