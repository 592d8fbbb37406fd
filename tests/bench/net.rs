//! Services and names beside the way without them, and beside another DNS server.

use crate::bed::{Bed, Engine, place};
use crate::images::SAY;
use crate::process::{Usage, pss_kb};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const REQUESTS: usize = 5_000;
const CONNECTIONS: usize = 1_000;
const MANY: usize = 1_000;
const ENDPOINTS: usize = 10;
const CHANGES: usize = 20;
const QUERIES: usize = 20_000;
const QUIET: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(5);
const UNBOUND: &str = "127.0.0.1:5354";

/// In turns, so that whatever else the machine does meets both.
const TURNS: usize = 5;

pub fn net(engine: &Engine) -> Result<String, String> {
    let mut bed = Bed::new(engine, "bench-net");
    bed.start();
    for name in ["one", "two"] {
        let container = json!({"name": name, "image": SAY, "args": ["say", name]});
        bed.post(
            PODS,
            &json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": [container]}})
                .to_string(),
        );
    }
    let pods = ["one", "two"].map(|name| {
        bed.until("a pod is ready", |bed| bed.ready(name).filter(|ready| *ready));
        bed.get(&format!("{PODS}/{name}"))["status"]["podIP"].as_str().expect("an address").to_owned()
    });
    let service = json!({"metadata": {"name": "s"}, "spec": {"selector": {"app": "one"}, "ports": [{"port": 7}]}});
    let through =
        bed.post(SERVICES, &service.to_string())["spec"]["clusterIP"].as_str().expect("an address").to_owned();
    bed.until("the service answers", |_| said(&format!("{through}:7")).ok());
    let mut text = path(&format!("{}:7", pods[0]), &format!("{through}:7"))?;
    text += &many(&bed, &pods)?;
    text += &names(&bed)?;
    text += &rest(&bed)?;
    bed.clean();
    Ok(text)
}

fn connect(address: &str) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).map_err(|e| format!("{address}: {e}"))?;
    stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_nodelay(true)).map_err(|e| e.to_string())?;
    Ok(stream)
}

fn said(address: &str) -> Result<String, String> {
    let mut line = String::new();
    let mut stream = connect(address)?;
    stream.write_all(b"?\n").map_err(|e| e.to_string())?;
    BufReader::new(stream).read_line(&mut line).map_err(|e| e.to_string())?;
    Ok(line)
}

/// Requests a second over one connection.
fn kept(address: &str) -> Result<f64, String> {
    let mut stream = connect(address)?;
    let mut answers = BufReader::new(stream.try_clone().map_err(|e| e.to_string())?);
    let (begun, mut line) = (Instant::now(), String::new());
    for _ in 0..REQUESTS {
        stream.write_all(b"?\n").map_err(|e| e.to_string())?;
        line.clear();
        answers.read_line(&mut line).map_err(|e| e.to_string())?;
    }
    Ok(REQUESTS as f64 / begun.elapsed().as_secs_f64())
}

/// The same over a connection for each.
fn each(address: &str) -> Result<f64, String> {
    let begun = Instant::now();
    for _ in 0..CONNECTIONS {
        said(address)?;
    }
    Ok(CONNECTIONS as f64 / begun.elapsed().as_secs_f64())
}

fn path(direct: &str, through: &str) -> Result<String, String> {
    let mut text = String::new();
    for (what, measure) in
        [("one connection", kept as fn(&str) -> Result<f64, String>), ("a connection a request", each)]
    {
        let (mut of_direct, mut of_service) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            of_direct.push(measure(direct)?);
            of_service.push(measure(through)?);
        }
        let (direct, service) = (crate::median(of_direct), crate::median(of_service));
        text +=
            &format!("  {what}: service {service:.0} requests/s = {:.2} x direct ({direct:.0})\n", service / direct);
    }
    Ok(text)
}

fn slice(name: &str, addresses: &[String]) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().map(|address| json!({"addresses": [address], "conditions": {"ready": true}})).collect();
    let labels = json!({"kubernetes.io/service-name": name});
    json!({
        "metadata": {"name": name, "labels": labels}, "addressType": "IPv4", "ports": [{"port": 7, "protocol": "TCP"}],
        "endpoints": endpoints,
    })
}

/// One endpoint of one of many services changes: until the next request meets the new one, and what the agent does for
/// it.
fn many(bed: &Bed, pods: &[String; 2]) -> Result<String, String> {
    let mut address = String::new();
    for n in 0..MANY {
        let name = format!("many{n}");
        let service =
            bed.post(SERVICES, &json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 7}]}}).to_string());
        // The last one alone leads somewhere.
        let addresses: Vec<String> = match n + 1 == MANY {
            true => vec![pods[0].clone()],
            false => (0..ENDPOINTS).map(|one| format!("10.250.{}.{}", n % 250, n / 250 * 20 + one + 1)).collect(),
        };
        bed.post(SLICES, &slice(&name, &addresses).to_string());
        address = format!("{}:7", service["spec"]["clusterIP"].as_str().unwrap_or_default());
    }
    let last = format!("many{}", MANY - 1);
    bed.until("the last one answers", |_| said(&address).ok().filter(|text| text.starts_with("one")));
    std::thread::sleep(Duration::from_secs(5));
    let before = Usage::of(bed.agent_pid())?;
    let mut times = Vec::new();
    for round in 0..CHANGES {
        let (pod, name) = (&pods[(round + 1) % 2], ["one", "two"][(round + 1) % 2]);
        let begun = Instant::now();
        let (code, answer) =
            bed.send("PUT", &format!("{SLICES}/{last}"), &slice(&last, std::slice::from_ref(pod)).to_string());
        if code != 200 {
            return Err(format!("PUT of slice {last}: {code} {answer}"));
        }
        while !said(&address).is_ok_and(|text| text.starts_with(name)) {
            if begun.elapsed() > PATIENCE {
                return Err(format!("{address} does not lead to {name}"));
            }
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let cpu = Usage::of(bed.agent_pid())?.cpu_ms - before.cpu_ms;
    Ok(format!(
        "  {MANY} services of {ENDPOINTS} endpoints, one endpoint changes: {:.1} ms until a request meets it, {:.1} ms \
         CPU of the agent\n",
        crate::median(times),
        cpu as f64 / CHANGES as f64
    ))
}

/// A question for the address of a name.
fn question(name: &str) -> Vec<u8> {
    let mut packet = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(label.len() as u8);
        packet.extend_from_slice(label.as_bytes());
    }
    packet.extend_from_slice(&[0, 0, 1, 0, 1]);
    packet
}

/// Questions a second, one after another, and the time of which one in a hundred takes longer.
fn queries(server: &str, name: &str) -> Result<(f64, f64), String> {
    let socket = UdpSocket::bind("0.0.0.0:0").map_err(|e| e.to_string())?;
    socket
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| socket.connect(server))
        .map_err(|e| format!("{server}: {e}"))?;
    let (packet, mut answer, mut times) = (question(name), [0; 512], Vec::with_capacity(QUERIES));
    let begun = Instant::now();
    for _ in 0..QUERIES {
        let asked = Instant::now();
        socket.send(&packet).map_err(|e| format!("{server}: {e}"))?;
        let length = socket.recv(&mut answer).map_err(|e| format!("{server}: {e}"))?;
        if length < 12 || answer[3] & 15 != 0 || answer[7] == 0 {
            return Err(format!("{server} does not know {name}"));
        }
        times.push(asked.elapsed().as_secs_f64() * 1e6);
    }
    let rate = QUERIES as f64 / begun.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    Ok((rate, times[QUERIES * 99 / 100]))
}

/// Ends with its value.
struct Unbound(Child);

impl Unbound {
    fn start(name: &str) -> Result<Unbound, String> {
        let file = place().join("unbound.conf");
        let (host, port) = UNBOUND.split_once(':').unwrap_or_default();
        let text = format!(
            "server:\n  interface: {host}\n  port: {port}\n  do-daemonize: no\n  username: \"\"\n  chroot: \"\"\n  \
             use-syslog: no\n  pidfile: \"\"\n  local-data: \"{name}. 30 A 10.0.0.9\"\n"
        );
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        let mut command = Command::new("unbound");
        command.arg("-d").arg("-c").arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let unbound = Unbound(command.spawn().map_err(|e| format!("unbound: {e} (apt-get install unbound)"))?);
        let begun = Instant::now();
        while UdpSocket::bind(UNBOUND).is_ok() {
            if begun.elapsed() > PATIENCE {
                return Err("unbound does not listen".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(unbound)
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn names(bed: &Bed) -> Result<String, String> {
    let server = bed.get("/api/v1/namespaces/kube-system/services/kube-dns")["spec"]["clusterIP"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let name = "s.default.svc.cluster.local";
    let server = format!("{server}:53");
    if Command::new("unbound").arg("-V").stdout(Stdio::null()).status().is_err() {
        let (rate, slow) = queries(&server, name)?;
        return Ok(format!(
            "  names: {rate:.0} questions/s, one in a hundred takes longer than {slow:.0} us (make bench-net brings \
             unbound)\n"
        ));
    }
    let _unbound = Unbound::start(name)?;
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        own.push(queries(&server, name)?);
        other.push(queries(UNBOUND, name)?);
    }
    let rate = |of: &[(f64, f64)]| crate::median(of.iter().map(|one| one.0).collect());
    let slow = |of: &[(f64, f64)]| crate::median(of.iter().map(|one| one.1).collect());
    Ok(format!(
        "  names: {:.0} questions/s = {:.2} x unbound ({:.0}); one in a hundred takes longer than {:.0} us = {:.2} x \
         unbound ({:.0})\n",
        rate(&own),
        rate(&own) / rate(&other),
        rate(&other),
        slow(&own),
        slow(&own) / slow(&other),
        slow(&other)
    ))
}

/// What all of it takes while nobody asks.
fn rest(bed: &Bed) -> Result<String, String> {
    std::thread::sleep(Duration::from_secs(45));
    let before = Usage::of(bed.agent_pid())?;
    std::thread::sleep(QUIET);
    let after = Usage::of(bed.agent_pid())?;
    Ok(format!(
        "  the agent with all of it: {} kB PSS, {} wake-ups and {} ms CPU in {} s\n",
        pss_kb(bed.agent_pid())?,
        after.wakes - before.wakes,
        after.cpu_ms - before.cpu_ms,
        QUIET.as_secs()
    ))
}
