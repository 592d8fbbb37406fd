//! What is asked: the real master, as it is released, or a kube-apiserver with its etcd. Each has a directory of its
//! own.

use super::client::{Client, address};
use super::etcd::{self, free_address};
use super::process::{Usage, pss_kb};
use serde_json::{Value, json};
use std::fs::{self, DirBuilder};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);
const AGAIN: Duration = Duration::from_micros(200);
/// Who waits long asks less often, so that it is not in the way.
const AGAIN_PART: u32 = 100;
const FILLERS: usize = 8;
/// What waits for other programs (service accounts, addresses of the API for pods) or for turns, of which those without
/// a name get few.
const WITHOUT: [&str; 3] = [
    "--disable-admission-plugins=ServiceAccount",
    "--endpoint-reconciler-type=none",
    "--enable-priority-and-fairness=false",
];

#[derive(Clone, Copy, PartialEq)]
pub enum Which {
    Ours,
    Kube,
}

pub struct Server {
    which: Which,
    folder: PathBuf,
    address: SocketAddr,
    /// In the order of their starts; the last is the one that is asked.
    processes: Vec<Child>,
    /// From its start to its first answer.
    pub ready_ms: f64,
}

impl Which {
    /// Both, where the other is here.
    pub fn all() -> &'static [Which] {
        if kube_apiserver().is_file() { &[Which::Ours, Which::Kube] } else { &[Which::Ours] }
    }

    pub fn name(self) -> &'static str {
        match self {
            Which::Ours => "the API",
            Which::Kube => "kube-apiserver and etcd",
        }
    }
}

impl Server {
    pub fn start(which: Which, folder: &Path) -> Result<Server, String> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|e| format!("{}: {e}", folder.display()))?;
        let begun = Instant::now();
        let mut server =
            Server { which, folder: folder.to_owned(), address: free_address()?, processes: Vec::new(), ready_ms: 0.0 };
        match which {
            Which::Ours => server.spawn_master()?,
            Which::Kube => server.spawn_kube()?,
        }
        while server.client(0).and_then(|mut client| client.get("/readyz", "*/*")).is_err() {
            if begun.elapsed() > PATIENCE
                || server.processes.iter_mut().any(|process| !matches!(process.try_wait(), Ok(None)))
            {
                return Err(format!("{} does not answer", which.name()));
            }
            std::thread::sleep(AGAIN.max(begun.elapsed() / AGAIN_PART));
        }
        server.ready_ms = begun.elapsed().as_secs_f64() * 1e3;
        // Pods on a node that does not exist are taken away. It is there already where the server was stopped.
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
        _ = server.client(0)?.post("/api/v1/nodes", node.to_string().as_bytes());
        Ok(server)
    }

    fn spawn_master(&mut self) -> Result<(), String> {
        let mut command = Command::new(master());
        command.arg("--data-dir").arg(self.folder.join("data"));
        command.arg("--admin-socket").arg(self.folder.join("api.sock")).args(["--listen", &self.address.to_string()]);
        command.args(NO_NODE_IS_SILENT);
        self.spawn(command)
    }

    fn spawn_kube(&mut self) -> Result<(), String> {
        let etcd = free_address()?;
        self.processes.push(etcd::spawn(&self.folder.join("etcd"), etcd)?);
        let (policy, keys) = (self.folder.join("policy"), self.folder.join("keys"));
        // Who has no name may do everything: our API asks nobody for one.
        let all = json!({
            "group": "system:unauthenticated", "namespace": "*", "resource": "*", "apiGroup": "*",
            "nonResourcePath": "*",
        });
        let text = json!({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": all})
            .to_string();
        fs::write(&policy, text).map_err(|e| format!("{}: {e}", policy.display()))?;
        // The key that it makes for itself does for accounts, too.
        let key = keys.join("apiserver.key").display().to_string();
        let mut command = Command::new(kube_apiserver());
        command
            .arg(format!("--etcd-servers=http://{etcd}"))
            .args(WITHOUT)
            .arg("--service-cluster-ip-range=10.96.0.0/16");
        command
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .arg(format!("--secure-port={}", self.address.port()));
        command.arg("--authorization-mode=ABAC").arg(format!("--authorization-policy-file={}", policy.display()));
        command.arg(format!("--cert-dir={}", keys.display())).arg("--service-account-issuer=https://bench");
        command
            .arg(format!("--service-account-key-file={key}"))
            .arg(format!("--service-account-signing-key-file={key}"));
        self.spawn(command)
    }

    fn spawn(&mut self, mut command: Command) -> Result<(), String> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let started =
            command.spawn().map_err(|e| format!("{}: {e}; run make bench-api", command.get_program().display()))?;
        self.processes.push(started);
        Ok(())
    }

    pub fn client(&self, n: usize) -> Result<Client, String> {
        Client::connect(self.address, address(n))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Of all its processes.
    pub fn usage(&self) -> Result<Usage, String> {
        self.processes.iter().try_fold(Usage::default(), |sum, process| {
            let Usage { cpu_ms, wakes, written } = Usage::of(process.id())?;
            Ok(Usage { cpu_ms: sum.cpu_ms + cpu_ms, wakes: sum.wakes + wakes, written: sum.written + written })
        })
    }

    pub fn pss_kb(&self) -> Result<u64, String> {
        self.processes.iter().map(|process| pss_kb(process.id())).sum()
    }

    /// Stopped in order, and started again.
    pub fn again(self) -> Result<Server, String> {
        let (which, folder) = (self.which, self.folder.clone());
        self.stop()?;
        Server::start(which, &folder)
    }

    pub fn stop(mut self) -> Result<(), String> {
        let failed = |e: &dyn std::fmt::Display| format!("stop {}: {e}", self.which.name());
        while let Some(mut process) = self.processes.pop() {
            let pid = nix::unistd::Pid::from_raw(i32::try_from(process.id()).map_err(|e| failed(&e))?);
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).map_err(|e| failed(&e))?;
            process.wait().map_err(|e| failed(&e))?;
        }
        Ok(())
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
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a client panicked".to_owned())))
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // One that has ended by itself is gone already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn master() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let release = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from).join("release");
    std::env::var_os("CORACLE_BINARIES").map_or(release, PathBuf::from).join("coracle-master")
}

/// Nobody speaks for it.
const NODE: &str = "edge-1";
const NO_NODE_IS_SILENT: [&str; 2] = ["--node-monitor-grace", "60m"];

/// Where packaging/kube-apiserver.sh puts it.
fn kube_apiserver() -> PathBuf {
    std::env::var_os("KUBE_APISERVER").map(PathBuf::from).unwrap_or_default()
}

/// Some 2 KB as they are stored. On a node, so that the scheduler leaves it alone.
pub fn pod(n: usize) -> Value {
    let filler = "x".repeat(900);
    let container = json!({"name": "web", "image": "registry.local/web:1.2", "command": ["/bin/web", "--listen=:8080"],
        "ports": [{"name": "http", "containerPort": 8080}], "env": [{"name": "FILLER", "value": filler}]});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{n}"), "labels": {"app": "web", "n": (n % 7).to_string()}},
        "spec": {"nodeName": NODE, "containers": [container]}})
}

pub fn event(n: usize) -> Value {
    let pod = format!("p{n}");
    json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{n}")}, "reason": "Pulled",
        "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": pod, "namespace": "default"}, "source": {"component": "agent"},
        "message": "m".repeat(200)})
}
