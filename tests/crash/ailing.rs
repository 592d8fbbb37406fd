//! A whole master on a real file system whose disk begins to fail under it, is mounted read-only, and is well again.
//! What it cannot write it says with a reason; reads go on; nobody has to restart it.

use coracle_master::config::Config;
use coracle_tests::block::card::{Card, Pace};
use coracle_tests::block::host::{Host, Kind, Mounted};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// It tries its disk every five seconds.
const HEALS_IN: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(200);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Client {
    address: SocketAddr,
    /// The names that were answered 201.
    acknowledged: BTreeSet<String>,
    asked: usize,
}

impl Client {
    fn call(&self, method: &str, path: &str, body: &str) -> Result<(u16, String), String> {
        let talk = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(HEALS_IN))?;
            let length = body.len();
            let head = format!(
                "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
            );
            write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        };
        let text = talk().map_err(|error| format!("{method} {path}: {error}"))?;
        let code = text
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| format!("{method} {path}: {text}"))?;
        Ok((code, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()))
    }

    /// The code of a create, and what a Status said.
    fn create(&mut self) -> Result<(u16, String), String> {
        self.asked += 1;
        let name = format!("map-{}", self.asked);
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"filler": "x".repeat(1500)},
        });
        let (code, body) = self.call("POST", CONFIG_MAPS, &object.to_string())?;
        if code == 201 {
            self.acknowledged.insert(name);
        }
        let status: Value = serde_json::from_str(&body).unwrap_or_default();
        Ok((code, status["message"].as_str().unwrap_or_default().to_owned()))
    }

    fn created(&mut self, when: &str) -> Result<(), String> {
        let (code, message) = self.create()?;
        if code == 201 { Ok(()) } else { Err(format!("{when}: a create is answered {code}: {message}")) }
    }

    fn names(&self) -> Result<BTreeSet<String>, String> {
        let (code, body) = self.call("GET", CONFIG_MAPS, "")?;
        let list: Value = serde_json::from_str(&body).map_err(|error| format!("a list is answered {code}: {error}"))?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
        Ok(items.iter().filter_map(name).filter(|name| name.starts_with("map-")).collect())
    }

    /// Everything that was acknowledged is shown, and nothing that was refused.
    fn reads(&self, when: &str) -> Result<(), String> {
        let names = self.names()?;
        if names == self.acknowledged {
            Ok(())
        } else {
            Err(format!("{when}: shown are {names:?}, acknowledged {:?}", self.acknowledged))
        }
    }

    fn is_ready(&self) -> Result<(bool, String), String> {
        let (code, text) = self.call("GET", "/readyz?verbose", "")?;
        Ok((code == 200, text))
    }

    /// Writes are refused with a reason that has one of these words, reads go on, and it says so.
    fn is_ailing(&mut self, when: &str, words: &[&str]) -> Result<(), String> {
        // A batch that was written before the disk failed may be acknowledged still.
        let mut answer = (0, String::new());
        for _ in 0..3 {
            answer = self.create()?;
        }
        let (code, message) = answer;
        if ![503, 507].contains(&code) || !words.iter().any(|word| message.contains(word)) {
            return Err(format!("{when}: a create is answered {code}: {message}"));
        }
        self.reads(when)?;
        match self.is_ready()? {
            (false, text) if words.iter().any(|word| text.contains(word)) => Ok(()),
            (ready, text) => Err(format!("{when}: it says that it is ready ({ready}): {text}")),
        }
    }

    /// Nobody does anything but wait.
    fn heals(&mut self, when: &str) -> Result<Duration, String> {
        let begun = Instant::now();
        while let (false, text) = self.is_ready()? {
            if begun.elapsed() > HEALS_IN {
                return Err(format!("{when}: it does not heal: {text}"));
            }
            std::thread::sleep(AGAIN);
        }
        let took = begun.elapsed();
        self.created(when)?;
        self.reads(when)?;
        Ok(took)
    }
}

/// A file system is busy while the master tries its disk.
fn mount_read_only(mounted: &Mounted) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match mounted.remount(true) {
            Err(_) if begun.elapsed() < HEALS_IN => std::thread::sleep(AGAIN),
            done => return done,
        }
    }
}

fn start(mounted: &Mounted, memory: &Path) -> Result<(coracle_master::Master, SocketAddr), String> {
    let config = Config {
        data_dir: mounted.at.join("data"),
        admin_socket: memory.join("run/api.sock"),
        listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..Config::default()
    };
    let master = coracle_master::start(&config)?;
    let address = master.address().ok_or("it listens nowhere")?;
    Ok((master, address))
}

pub fn run(host: &Host, kind: Kind) -> Result<String, String> {
    let memory = host.memory();
    let run = memory.join("run");
    std::fs::create_dir_all(&run).map_err(|error| error.to_string())?;
    std::fs::set_permissions(&run, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .map_err(|error| error.to_string())?;
    let card = Card::start(&memory.join("card"), kind.megabytes(), Pace::NONE, None, None)?;
    let mounted = Mounted::card(kind, card, &memory.join("mounted"))?;
    let (master, address) = start(&mounted, &memory)?;
    let mut client = Client { address, acknowledged: BTreeSet::new(), asked: 0 };
    for _ in 0..20 {
        client.created("while all is well")?;
    }
    mounted.fail(true)?;
    client.is_ailing("while the disk fails", &["Input/output error"])?;
    // The journal is not open for writing now, so an administrator, or a script of the host, may do this.
    mount_read_only(&mounted)?;
    mounted.fail(false)?;
    client.is_ailing("while it is read-only", &["Read-only file system", "Input/output error"])?;
    std::thread::sleep(2 * AGAIN);
    client.is_ailing("while it stays read-only", &["Read-only file system"])?;
    mounted.remount(false)?;
    let took = client.heals("after it is writable again")?;
    mounted.fail(true)?;
    client.is_ailing("while the disk fails once more", &["Input/output error"])?;
    mounted.fail(false)?;
    client.heals("after the disk is well")?;
    for _ in 0..20 {
        client.created("when all is well")?;
    }
    master.stop();
    let (master, address) = start(&mounted, &memory)?;
    client.address = address;
    client.reads("in the next life")?;
    let (ready, text) = client.is_ready()?;
    master.stop();
    if !ready {
        return Err(format!("in the next life: {text}"));
    }
    Ok(format!(
        "{} of {} writes acknowledged, all of them there; well {} ms after the disk",
        client.acknowledged.len(),
        client.asked,
        took.as_millis()
    ))
}
