//! Tells systemd how the agent is: READY, STOPPING, and STATUS in words. Without systemd nothing happens.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

use tokio::sync::watch;

use crate::facts::shown::Shown;
use crate::telling::summary;

/// Where systemd listens, if it started this process.
pub struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    said: String,
}

impl Notify {
    pub fn from_environment() -> Notify {
        let address = std::env::var("NOTIFY_SOCKET").ok().and_then(|path| match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name).ok(),
            None => SocketAddr::from_pathname(path).ok(),
        });
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        Notify { socket, said: String::new() }
    }

    pub fn ready(&self) {
        self.send("READY=1");
    }

    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// One line for `systemctl status`; the same line again is not sent.
    fn status(&mut self, text: &str) {
        if self.said != text {
            text.clone_into(&mut self.said);
            self.send(&format!("STATUS={}", text.replace('\n', " ")));
        }
    }

    /// How the agent is, line by line; ends with the loop.
    pub async fn tell(mut self, mut shown: watch::Receiver<Arc<Shown>>) {
        loop {
            let line = summary::line(&shown.borrow_and_update());
            self.status(&line);
            if shown.changed().await.is_err() {
                return;
            }
        }
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket
            && let Err(error) = socket.send_to_addr(message.as_bytes(), address)
        {
            log::debug!("tell systemd {message}: {error}");
        }
    }
}
