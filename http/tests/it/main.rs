//! Both sides and the client over real sockets: bytes in, bytes out. Limits are small here, so that nothing waits for long.
mod forward;
mod hostile;
mod local;
mod outbound;
mod streams;
mod wire;
