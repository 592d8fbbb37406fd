//! An etcd of Debian's, alone, over gRPC on one connection as its clients do; its messages are small enough to be
//! written by hand.

use super::layers::Layer;
use super::objects::Item;
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(50);
/// Flow control windows: larger than any answer here.
const WINDOW_BYTES: u32 = 1 << 30;

pub struct Etcd {
    server: Child,
    requests: SendRequest<Bytes>,
    address: SocketAddr,
    /// Drives the connection.
    _driver: JoinHandle<()>,
}

impl Etcd {
    pub fn start(root: &Path) -> Result<Etcd, String> {
        let address = free_address()?;
        let mut server = spawn(root, address)?;
        let begun = Instant::now();
        loop {
            if let Ok((requests, driver)) = connect(address) {
                let etcd = Etcd { server, requests, address, _driver: driver };
                // It accepts before it has elected itself.
                if etcd.call("Put", message(&[b"ready", b"1"])).is_ok() {
                    return Ok(etcd);
                }
                server = etcd.into_server();
            }
            if begun.elapsed() > PATIENCE || !matches!(server.try_wait(), Ok(None)) {
                server.kill().ok();
                server.wait().ok();
                return Err("etcd does not answer".to_owned());
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// Everything whose key begins so; the size of the answer in bytes.
    pub fn range(&self, prefix: &str) -> Result<usize, String> {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        self.call("Range", message(&[prefix.as_bytes(), &end]))
    }

    fn into_server(self) -> Child {
        self.server
    }

    fn call(&self, method: &str, body: Bytes) -> Result<usize, String> {
        thread_local! {
            static RUNTIME: Runtime = Builder::new_current_thread().build().expect("a runtime without IO");
        }
        RUNTIME.with(|runtime| runtime.block_on(exchange(self.requests.clone(), self.address, method, body)))
    }
}

impl Layer for Etcd {
    fn put(&self, make: &dyn Fn() -> Item) -> Result<(), String> {
        let item = make();
        self.call("Put", message(&[item.key.to_string().as_bytes(), item.object.to_string().as_bytes()])).map(drop)
    }

    fn server(&self) -> Option<u32> {
        Some(self.server.id())
    }

    fn close(mut self: Box<Self>) -> Result<(), String> {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.server.id()).map_err(|e| e.to_string())?);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).map_err(|e| format!("stop etcd: {e}"))?;
        self.server.wait().map(drop).map_err(|e| format!("stop etcd: {e}"))
    }
}

/// The process; it is not yet ready.
pub fn spawn(root: &Path, address: SocketAddr) -> Result<Child, String> {
    let (client, peer) = (format!("http://{address}"), format!("http://{}", free_address()?));
    Command::new("etcd")
        .args(["--name", "bench", "--data-dir"])
        .arg(root)
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--listen-peer-urls", &peer])
        .args([
            "--initial-advertise-peer-urls",
            &peer,
            "--initial-cluster",
            &format!("bench={peer}"),
            "--log-level",
            "error",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("start etcd: {e}; apt-get install etcd-server"))
}

pub fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(|e| e.to_string())
}

fn connect(address: SocketAddr) -> Result<(SendRequest<Bytes>, JoinHandle<()>), String> {
    let runtime = Builder::new_current_thread().enable_io().build().map_err(|e| e.to_string())?;
    let (requests, connection) = runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.map_err(|e| e.to_string())?;
        stream.set_nodelay(true).map_err(|e| e.to_string())?;
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        builder.handshake(stream).await.map_err(|e| e.to_string())
    })?;
    let driver = std::thread::spawn(move || {
        // It ends with its server.
        runtime.block_on(connection).ok();
    });
    Ok((requests, driver))
}

/// Fields 1 and 2 of a message, both bytes, with the head of a gRPC frame.
fn message(fields: &[&[u8]; 2]) -> Bytes {
    let mut body = BytesMut::new();
    for (n, field) in fields.iter().enumerate() {
        body.put_u8((n as u8 + 1) << 3 | 2);
        let mut length = field.len();
        while length >= 0x80 {
            body.put_u8(length as u8 | 0x80);
            length >>= 7;
        }
        body.put_u8(length as u8);
        body.put_slice(field);
    }
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    framed.put(body);
    framed.freeze()
}

async fn exchange(
    requests: SendRequest<Bytes>,
    address: SocketAddr,
    method: &str,
    body: Bytes,
) -> Result<usize, String> {
    let request = http::Request::post(format!("http://{address}/etcdserverpb.KV/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .map_err(|e| e.to_string())?;
    let failed = |e: h2::Error| format!("etcd: {e}");
    let mut requests = requests.ready().await.map_err(failed)?;
    let (response, mut sending) = requests.send_request(request, false).map_err(failed)?;
    sending.send_data(body, true).map_err(failed)?;
    let response = response.await.map_err(failed)?;
    let early = response.headers().get("grpc-status").cloned();
    let mut body = response.into_body();
    let mut bytes = 0;
    while let Some(data) = body.data().await {
        let data = data.map_err(failed)?;
        bytes += data.len();
        body.flow_control().release_capacity(data.len()).map_err(failed)?;
    }
    let trailers = body.trailers().await.map_err(failed)?;
    let status = trailers.as_ref().and_then(|trailers| trailers.get("grpc-status")).cloned().or(early);
    match status {
        Some(status) if status == "0" => Ok(bytes),
        other => Err(format!("etcd: grpc-status {other:?}")),
    }
}
