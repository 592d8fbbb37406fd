//! The real master, as it is released, with a directory of its own.

use super::client::{Client, address};
use serde_json::{Value, json};
use std::fs::DirBuilder;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_micros(200);
const FILLERS: usize = 8;
/// As the unit sets it.
const ALLOCATOR: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_TRIM_THRESHOLD_", "131072")];

pub struct Master {
    folder: PathBuf,
    address: SocketAddr,
    process: Child,
    /// From its start to its first answer.
    pub ready_ms: f64,
}

impl Master {
    pub fn start(folder: &Path) -> Result<Master, String> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|e| e.to_string())?;
        let begun = Instant::now();
        let process = Command::new(program())
            .envs(ALLOCATOR)
            .arg("--data-dir")
            .arg(folder.join("data"))
            .arg("--admin-socket")
            .arg(folder.join("api.sock"))
            .args(["--listen", &address.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{}: {e}; run make bench-api", program().display()))?;
        let mut master = Master { folder: folder.to_owned(), address, process, ready_ms: 0.0 };
        while master.client(0).and_then(|mut client| client.get("/readyz", "*/*")).is_err() {
            if begun.elapsed() > PATIENCE || !matches!(master.process.try_wait(), Ok(None)) {
                return Err("the master does not answer".to_owned());
            }
            std::thread::sleep(AGAIN);
        }
        master.ready_ms = begun.elapsed().as_secs_f64() * 1e3;
        Ok(master)
    }

    pub fn client(&self, n: usize) -> Result<Client, String> {
        Client::connect(self.address, address(n))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Stopped in order, and started again.
    pub fn again(self) -> Result<Master, String> {
        let folder = self.folder.clone();
        self.stop()?;
        Master::start(&folder)
    }

    pub fn stop(mut self) -> Result<(), String> {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid()).map_err(|e| e.to_string())?);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).map_err(|e| format!("stop the master: {e}"))?;
        self.process.wait().map(drop).map_err(|e| format!("stop the master: {e}"))
    }

    /// Posts what `make` makes of each number.
    pub fn fill(&self, path: &str, numbers: std::ops::Range<usize>, make: fn(usize) -> Value) -> Result<(), String> {
        let fill = |first: usize| {
            let mut client = self.client(first + 1)?;
            let mut numbers = numbers.clone().skip(first).step_by(FILLERS);
            numbers.try_for_each(|n| client.post(path, make(n).to_string().as_bytes()).map(drop))
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..FILLERS).map(|first| scope.spawn(move || fill(first))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a client panicked".to_owned())))
        })
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        // One that was stopped is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let release = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from).join("release");
    std::env::var_os("CORACLE_BINARIES").map_or(release, PathBuf::from).join("coracle-master")
}

/// Some 2 KB as they are stored. On a node, so that the scheduler leaves it alone.
pub fn pod(n: usize) -> Value {
    let filler = "x".repeat(900);
    let container = json!({"name": "web", "image": "registry.local/web:1.2", "command": ["/bin/web", "--listen=:8080"],
        "ports": [{"name": "http", "containerPort": 8080}], "env": [{"name": "FILLER", "value": filler}]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{n}"), "labels": {"app": "web", "n": (n % 7).to_string()}},
        "spec": {"nodeName": "edge-1", "containers": [container]}})
}

pub fn event(n: usize) -> Value {
    let pod = format!("p{n}");
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{n}")}, "reason": "Pulled", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": pod, "namespace": "default"}, "source": {"component": "agent"},
        "message": "m".repeat(200)})
}
