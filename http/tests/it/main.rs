//! Both sides and the client over real sockets: bytes in, bytes out. Limits are small here, so that nothing waits for
//! long.
#![allow(clippy::unwrap_used, reason = "all of this is tests, also what is no #[test] itself")]

mod browsers;
mod forward;
mod hostile;
mod http2;
mod keys;
mod local;
mod outbound;
mod ports;
mod secure;
mod sessions;
mod streams;
mod unix;
mod upgrade;
mod wire;
