//! Who is asked: the released master, the network side alone in a process of its own, and nginx. All show the same
//! certificate, which a master has made.

use crate::tls::{self, HTTP_1, HTTP_2, Leaf};
use bytes::Bytes;
use coracle_http::network::{self, Port, TlsPort, everybody_is};
use coracle_http::{Answer, Handler, Identity, KeySet, Limits, StatusCode, TlsKeys};
use coracle_master::cluster_keys::{ClusterKeys, KeyOptions};
use rustls::ClientConfig;
use serde_json::{Value, json};
use std::fs::{self, DirBuilder};
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// The folder of the bare server that this program is to be.
const BARE: &str = "CORACLE_BENCH_BARE";
pub const PATIENCE: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_micros(200);
const BODY_BYTES: usize = 2048;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A folder that goes with the run, and what all servers share.
pub struct Ground {
    folder: PathBuf,
    pub authority: String,
    /// Of an administrator, and of a user whose role lets it view namespace `default`.
    pub admin: Leaf,
    pub viewer: Leaf,
}

pub struct Server {
    pub name: &'static str,
    pub secure: SocketAddr,
    /// The same without TLS.
    pub plain: Option<SocketAddr>,
    pub path: String,
    process: Child,
}

impl Ground {
    pub fn new() -> Result<Ground, String> {
        let folder = std::env::temp_dir().join(format!("coracle-bench-secure-{}", std::process::id()));
        let data_dir = folder.join("data");
        DirBuilder::new().recursive(true).mode(0o700).create(&data_dir).map_err(|e| format!("{data_dir:?}: {e}"))?;
        let nobody = || Leaf { chain: String::new(), key: String::new() };
        let mut ground = Ground { folder, authority: String::new(), admin: nobody(), viewer: nobody() };
        let master = ground.spawn_master()?;
        let keys = ClusterKeys::of_directory(KeyOptions { data_dir, ..KeyOptions::default() })?;
        let leaf = |user: &str, group: &str| {
            let (chain, key) = keys.sign_client(user, &[group.to_owned()], None)?;
            Ok::<Leaf, String>(Leaf { chain, key })
        };
        ground.admin = leaf("bench", "system:masters")?;
        ground.viewer = leaf("viewer", "viewers")?;
        ground.authority = keys.authority().to_string();
        ground.fill(&master)?;
        master.stop();
        Ok(ground)
    }

    /// The object that is asked for, and who may.
    fn fill(&self, master: &Server) -> Result<(), String> {
        let filler = "x".repeat(BODY_BYTES - 400);
        self.post(master, MAPS, &json!({"metadata": {"name": "a"}, "data": {"filler": filler}}))?;
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": "viewers"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": "viewers"}],
        });
        self.post(master, &format!("/apis/{group}/v1/namespaces/default/rolebindings"), &binding)
    }

    fn post(&self, master: &Server, path: &str, object: &Value) -> Result<(), String> {
        let mut asker = tls::Asker::new(master.secure, self.config(Some(&self.admin), HTTP_1), String::new());
        match asker.ask("POST", path, &object.to_string()) {
            (201, _) => Ok(()),
            (code, answer) => Err(format!("POST {path}: {code} {}", String::from_utf8_lossy(&answer))),
        }
    }

    pub fn config(&self, leaf: Option<&Leaf>, protocol: &[u8]) -> Arc<ClientConfig> {
        tls::config(&self.authority, leaf, protocol)
    }

    pub fn protocols(&self) -> [(&'static str, &'static [u8]); 2] {
        [("HTTP/1.1", HTTP_1), ("HTTP/2", HTTP_2)]
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn spawn_master(&self) -> Result<Server, String> {
        let secure = free_address()?;
        let mut command = Command::new(master());
        command.arg("--data-dir").arg(self.path("data")).arg("--admin-socket").arg(self.path("run/api.sock"));
        command.arg("--agent-sockets").arg(self.path("agents"));
        command.args(["--listen", "", "--secure-listen", &secure.to_string(), "--secure-clients", "network"]);
        let path = format!("{MAPS}/a");
        started(Server { name: "the API", secure, plain: None, path, process: spawn(command)? })
    }

    pub fn master(&self) -> Result<Server, String> {
        self.spawn_master()
    }

    pub fn bare(&self) -> Result<Server, String> {
        let (secure, plain) = (free_address()?, free_address()?);
        let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
        command.env(BARE, self.path("data")).args([secure.to_string(), plain.to_string()]);
        // As `coracle_program::resident` sets it for the programs.
        command.env("MALLOC_ARENA_MAX", "1").env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
        let path = "/small".to_owned();
        started(Server { name: "the bare handler", secure, plain: Some(plain), path, process: spawn(command)? })
    }

    pub fn nginx(&self) -> Result<Server, String> {
        let (secure, plain) = (free_address()?, free_address()?);
        let (folder, keys) = (self.path("nginx"), self.path("data/keys"));
        let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
        fs::create_dir_all(folder.join("root")).map_err(failed)?;
        fs::write(folder.join("root/a"), "x".repeat(BODY_BYTES)).map_err(failed)?;
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|part| format!("{part}_temp_path {}/{part};\n", folder.display()))
            .concat();
        // One process, as the others have one thread for all connections; nothing is resumed, nothing is logged.
        let text = format!(
            "daemon off; master_process off; user root; pid {folder}/pid; error_log /dev/null;\nevents {{ \
             worker_connections 4096; }}\nhttp {{\naccess_log off; keepalive_requests 1000000000; {temporary}server \
             {{\nlisten {secure} ssl http2; listen {plain};\nssl_certificate {keys}/server.crt; ssl_certificate_key \
             {keys}/server.key;\nssl_session_cache off; ssl_session_tickets off; ssl_protocols TLSv1.2 TLSv1.3;\nroot \
             {folder}/root;\n}}\n}}\n",
            folder = folder.display(),
            keys = keys.display()
        );
        fs::write(folder.join("conf"), text).map_err(failed)?;
        let mut command = Command::new("/usr/sbin/nginx");
        command.arg("-c").arg(folder.join("conf"));
        started(Server { name: "nginx", secure, plain: Some(plain), path: "/a".to_owned(), process: spawn(command)? })
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn stop(mut self) {
        let pid = nix::unistd::Pid::from_raw(self.process.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended by itself is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(mut command: Command) -> Result<Child, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|e| format!("{}: {e}; run make bench-secure", command.get_program().display()))
}

fn started(mut server: Server) -> Result<Server, String> {
    let begun = Instant::now();
    while [Some(server.secure), server.plain].into_iter().flatten().any(|address| TcpStream::connect(address).is_err())
    {
        if begun.elapsed() > PATIENCE || !matches!(server.process.try_wait(), Ok(None)) {
            return Err(format!("{} does not answer", server.name));
        }
        thread::sleep(AGAIN);
    }
    Ok(server)
}

fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(|e| e.to_string())
}

fn master() -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let release = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from).join("release");
    std::env::var_os("CORACLE_BINARIES").map_or(release, PathBuf::from).join("coracle-master")
}

/// Is the bare server where this program was started as one: the network side with a handler that has its answer ready.
pub fn serve_bare_if_asked() -> bool {
    let Some(data_dir) = std::env::var_os(BARE).map(PathBuf::from) else { return false };
    let mut addresses = std::env::args().skip(1).filter_map(|argument| argument.parse::<SocketAddr>().ok());
    let (secure, plain) = (addresses.next().expect("an address"), addresses.next().expect("another"));
    let keys = ClusterKeys::of_directory(KeyOptions { data_dir, ..KeyOptions::default() }).expect("keys");
    let (chain, key) = keys.server().expect("a certificate");
    let authorities = keys.client_authorities_pem().expect("an authority");
    let set = KeySet {
        chain_pem: chain.as_bytes(),
        key_pem: key.as_bytes(),
        client_ca_pem: authorities.as_bytes(),
        proxy_ca_pem: b"",
    };
    let clock = Arc::new(|| Duration::from_secs(1_780_000_000));
    let tls = TlsPort { keys: Arc::new(TlsKeys::new(&set, clock).expect("keys")), is_revoked: Arc::new(|_| false) };
    let body = Bytes::from(vec![b'x'; BODY_BYTES]);
    let handler: Handler = Arc::new(move |_| Answer::json(StatusCode::OK, body.clone()));
    let port = Port::secure(Limits::EDGE, everybody_is(Identity::anonymous()), tls);
    let open = |address, port| {
        network::start(network::listen(address).expect("a port"), handler.clone(), port).expect("it serves")
    };
    let _planes = [open(secure, port), open(plain, Port::of_this_host(Limits::EDGE))];
    // It is killed.
    let _ = std::io::stdin().read(&mut [0]);
    loop {
        thread::park();
    }
}
