//! Notifies systemd (Type=notify): one datagram to the socket that systemd names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// `READY=1`, `STATUS=...`, `STOPPING=1`; several are joined by newlines. Where no systemd listens, nothing happens.
pub fn notify(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let name = name.as_encoded_bytes();
    let address = match name.strip_prefix(b"@") {
        Some(hidden) => SocketAddr::from_abstract_name(hidden),
        None => SocketAddr::from_pathname(std::str::from_utf8(name).unwrap_or_default()),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = sent {
        log::warn!("tell systemd {state:?}: {error}");
    }
}
