//! Conversations with what runs in a pod, for clients far away.
//!
//!     asked PURE      what a request asks for: which streams, on which carrier
//!     channels, spdy  a command over WebSocket, and over SPDY · base64, size PURE
//!     converse        carrier and command, joined: the end of one is the end of both
//!     forward         connections to ports, over either · pairs PURE
//!     log             a log over WebSocket
//!
//! No thread waits here: a conversation is one task of the carrier's runtime, and its resources are freed with the
//! task.

pub mod asked;
mod base64;
pub mod channels;
pub mod forward;
pub mod log;
mod pairs;
mod size;
pub mod spdy;

use std::pin::pin;

use coracle_http::Upgraded;
use tokio::sync::mpsc::{self, Receiver, Sender};

use crate::runtime::conversation::{ClientMessage, CommandOutcome, Streams, ToClient, WAITING_MAX};
use asked::Carrier;

/// Connects a command and its client until the command or the client ends. A client that leaves ends the command: its
/// future is dropped.
pub async fn converse<F>(
    upgraded: Upgraded,
    carrier: Carrier,
    streams: Streams,
    command: impl FnOnce(Receiver<ClientMessage>, Sender<ToClient>) -> F,
) where
    F: Future<Output = CommandOutcome>,
{
    let (heard_in, heard) = mpsc::channel(WAITING_MAX);
    let (to_client_in, to_client) = mpsc::channel(WAITING_MAX);
    let mut carried = pin!(async {
        match carrier {
            Carrier::Channels(form) => channels::carry(upgraded, form, streams, heard_in, to_client).await,
            Carrier::Spdy(form) => spdy::carry(upgraded, form, streams, heard_in, to_client).await,
        }
    });
    let run = async {
        let outcome = command(heard, to_client_in.clone()).await;
        // The last word; with it goes the channel, and the carrier ends.
        let _ = to_client_in.send(ToClient::Outcome(outcome)).await;
        drop(to_client_in);
    };
    tokio::select! {
        () = &mut carried => return,
        () = run => {}
    }
    carried.await;
}
