//! Carrying requests, for both programs; the only crate with server sockets.
