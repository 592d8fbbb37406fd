//! Connections to ports inside a pod, from where its own processes stand: what listens on its loopback alone is
//! reached, too.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::libc::linger;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;

use super::connection::Docker;
use crate::facts::engine::Failure;
use crate::network::pod_network::plug::network_of;

/// Bytes that wait in the kernel for a pod to read them; it takes twice as many for its own accounts.
const SEND_BYTES: usize = 64 * 1024;

/// A network as processes of a container see it.
#[derive(Clone, Debug)]
pub enum NetworkNamespace {
    Host,
    /// The namespace, and what the engine calls it.
    Own(Arc<File>, String),
}

impl Docker {
    /// The network namespace of a running container.
    pub async fn network_of(&self, container: &str) -> Result<NetworkNamespace, Failure> {
        let client = self.client().await?;
        let found = self.inspect(&client, container).await?;
        if found.host_config.and_then(|config| config.network_mode).as_deref() == Some("host") {
            return Ok(NetworkNamespace::Host);
        }
        let pid = found.state.and_then(|state| state.pid).filter(|pid| *pid > 0);
        let pid = pid.ok_or_else(|| Failure::NotFound(format!("container {container} does not run")))?;
        let path = format!("/proc/{pid}/ns/net");
        let opened = network_of(pid, found.id.as_deref().unwrap_or(container))
            .map_err(|error| Failure::Refused(format!("open {path}: {error}")))?;
        let name = found.network_settings.and_then(|settings| settings.sandbox_key).unwrap_or(path);
        Ok(NetworkNamespace::Own(Arc::new(opened), name))
    }
}

impl NetworkNamespace {
    /// To its loopback. The error is in Kubernetes' words.
    pub async fn connect(&self, port: u16) -> Result<TcpStream, String> {
        let four = match self.try_connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let six = match self.try_connect(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let name = match self {
            NetworkNamespace::Host => "host",
            NetworkNamespace::Own(_, name) => name,
        };
        let (four, six) = (plain(&four), plain(&six));
        Err(format!(
            "failed to execute portforward in network namespace {name:?}: failed to connect to localhost:{port} inside \
             namespace {name:?}, IPv4: dial tcp4 127.0.0.1:{port}: connect: {four} IPv6 dial tcp6 [::1]:{port}: \
             connect: {six} "
        ))
    }

    async fn try_connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let made = match self {
            NetworkNamespace::Host => bare(family),
            NetworkNamespace::Own(namespace, _) => bare_in(namespace.clone(), family).await,
        };
        let made = made?;
        bound(&made)?;
        TcpSocket::from_std_stream(made.into()).connect(address).await
    }
}

/// What a pod does not read is the kernel's to keep, and no pod's: little of it, and nothing once the client has gone.
fn bound(made: &OwnedFd) -> io::Result<()> {
    setsockopt(made, sockopt::SndBuf, &SEND_BYTES)?;
    setsockopt(made, sockopt::Linger, &closes(true))?;
    Ok(())
}

/// Called when both sides have sent everything: bytes under way are still delivered.
pub fn lingers(wire: &TcpStream) {
    let _ = setsockopt(wire, sockopt::Linger, &closes(false));
}

/// For no time, or as the kernel does by itself.
fn closes(at_once: bool) -> linger {
    linger { l_onoff: i32::from(at_once), l_linger: 0 }
}

fn bare(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?)
}

/// A socket belongs to the namespace of the thread that made it: a short-lived thread makes the socket.
async fn bare_in(namespace: Arc<File>, family: AddressFamily) -> io::Result<OwnedFd> {
    let (sender, made) = oneshot::channel();
    std::thread::Builder::new().name("namespace".to_owned()).stack_size(64 * 1024).spawn(move || {
        let made = setns(&*namespace, CloneFlags::CLONE_NEWNET).map_err(io::Error::from).and_then(|()| bare(family));
        let _ = sender.send(made);
    })?;
    made.await.map_err(io::Error::other)?
}

/// Without Rust's number of the error.
fn plain(error: &io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::getsockopt;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn little_waits_for_a_pod_that_reads_nothing() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut wire = NetworkNamespace::Host.connect(port).await.unwrap();
        let (mut sent, piece) = (0, [0; 16 * 1024]);
        let quiet = std::time::Duration::from_millis(200);
        while let Ok(Ok(bytes)) = tokio::time::timeout(quiet, wire.write(&piece)).await {
            sent += bytes;
        }
        // The receiving end has its own buffer, which belongs to the pod.
        assert_eq!(getsockopt(&wire, sockopt::SndBuf).unwrap(), 2 * SEND_BYTES);
        assert!(sent < 8 << 20, "{sent}");
        assert_eq!(getsockopt(&wire, sockopt::Linger).unwrap().l_onoff, 1, "what waits goes with the client");
        lingers(&wire);
        assert_eq!(getsockopt(&wire, sockopt::Linger).unwrap().l_onoff, 0);
    }
}
