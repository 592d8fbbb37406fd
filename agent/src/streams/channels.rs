//! A command over WebSocket: each message begins with the number of its channel.

use std::time::Duration;

use bytes::Bytes;
use coracle_http::Upgraded;
use coracle_http::websocket::frames::{CLOSE_NORMAL, Piece};
use coracle_http::websocket::{Reader, Writer, open};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::timeout;

use super::base64::Base64;
use super::size::Sizes;
use crate::runtime::conversation::{ClientMessage, CommandOutcome, Streams, ToClient};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// The next byte says which channel has ended.
const CLOSE: u8 = 255;

/// A client that was sent everything has so long to take it and to close its side.
pub const LINGER: Duration = Duration::from_secs(10);

/// What client and agent have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelProtocol {
    /// A channel number is a digit, and the data of a message is base64.
    pub base64: bool,
    /// The outcome is a Status in JSON since version 4. Earlier versions send text for a failure, and nothing for a
    /// success.
    pub status: bool,
    /// A client can say that its input has ended, since version 5.
    pub closes: bool,
}

/// Until the client has gone, or was told all there is.
pub async fn carry(
    upgraded: Upgraded,
    form: ChannelProtocol,
    streams: Streams,
    heard: Sender<ClientMessage>,
    to_client: Receiver<ToClient>,
) {
    let (mut reader, mut writer) = open(upgraded);
    tokio::select! {
        () = read(&mut reader, form, streams, heard) => {}
        _ = write(&mut writer, form, streams, to_client) => {}
    }
    let _ = timeout(LINGER, async {
        if writer.close(CLOSE_NORMAL).await.is_ok() {
            reader.drain().await;
        }
    })
    .await;
}

/// A message as far as it was read.
#[derive(Default)]
struct Message {
    channel: Option<u8>,
    base64: Base64,
    /// Which channel ends; the second number of a message that names none or several means nothing.
    ends: Vec<u8>,
}

async fn read(reader: &mut Reader, form: ChannelProtocol, streams: Streams, heard: Sender<ClientMessage>) {
    let (mut message, mut sizes) = (Message::default(), Sizes::default());
    while let Ok(Some(piece)) = reader.next().await {
        let Piece::Message { begins, ends, bytes } = piece else { continue };
        if begins {
            message = Message::default();
        }
        for said in message.take(bytes, form, streams, &mut sizes) {
            // Nobody listens to a command's input that has ended: the client is read on until it is told so.
            let _ = heard.send(said).await;
        }
        if ends && message.ends == [STDIN] && streams.stdin {
            let _ = heard.send(ClientMessage::StdinEnd).await;
        }
    }
}

impl Message {
    fn take(
        &mut self,
        mut bytes: Bytes,
        form: ChannelProtocol,
        streams: Streams,
        sizes: &mut Sizes,
    ) -> Vec<ClientMessage> {
        if self.channel.is_none() && !bytes.is_empty() {
            let first = bytes.split_to(1)[0];
            self.channel = Some(if form.base64 { first.wrapping_sub(b'0') } else { first });
        }
        let decoded = |base64: &mut Base64, bytes: Bytes| if form.base64 { base64.take(&bytes).into() } else { bytes };
        match self.channel {
            Some(STDIN) if streams.stdin => {
                let bytes = decoded(&mut self.base64, bytes);
                if bytes.is_empty() { Vec::new() } else { vec![ClientMessage::Stdin(bytes)] }
            }
            Some(RESIZE) if streams.tty => {
                let bytes = decoded(&mut self.base64, bytes);
                sizes.take(&bytes).into_iter().map(ClientMessage::Size).collect()
            }
            Some(CLOSE) if form.closes => {
                self.ends.extend(bytes.iter().take(2));
                Vec::new()
            }
            _ => Vec::new(),
        }
    }
}

async fn write(
    writer: &mut Writer,
    form: ChannelProtocol,
    streams: Streams,
    mut to_client: Receiver<ToClient>,
) -> std::io::Result<()> {
    // Tells clients that all is connected.
    let lowest = match streams {
        Streams { stdout: true, .. } => STDOUT,
        Streams { stderr: true, .. } => STDERR,
        _ => ERROR,
    };
    send(writer, form, lowest, &[]).await?;
    loop {
        tokio::select! {
            ping = writer.ping() => if let Some(ping) = ping { writer.pong(&ping).await? },
            next = to_client.recv() => match next {
                None => return Ok(()),
                Some(ToClient::Stdout(bytes)) => send(writer, form, STDOUT, &bytes).await?,
                Some(ToClient::Stderr(bytes)) => send(writer, form, STDERR, &bytes).await?,
                Some(ToClient::Outcome(outcome)) => {
                    let words = words(&outcome, form);
                    if !words.is_empty() {
                        send(writer, form, ERROR, words.as_bytes()).await?;
                    }
                }
            },
        }
    }
}

fn words(outcome: &CommandOutcome, form: ChannelProtocol) -> String {
    if form.status { outcome.status().to_string() } else { outcome.message() }
}

async fn send(writer: &mut Writer, form: ChannelProtocol, channel: u8, bytes: &[u8]) -> std::io::Result<()> {
    if form.base64 {
        writer.message(true, &[&[b'0' + channel], coracle_schema::base64::encode(bytes).as_bytes()]).await
    } else {
        writer.message(false, &[&[channel], bytes]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::conversation::Size;

    const V5: ChannelProtocol = ChannelProtocol { base64: false, status: true, closes: true };
    const ALL: Streams = Streams { stdin: true, stdout: true, stderr: true, tty: true };

    /// Checks what the agent hears from one message in several pieces.
    fn check(form: ChannelProtocol, pieces: &[&'static [u8]], expected: &[ClientMessage]) {
        let (mut message, mut sizes) = (Message::default(), Sizes::default());
        let mut heard: Vec<ClientMessage> =
            pieces.iter().flat_map(|piece| message.take(Bytes::from_static(piece), form, ALL, &mut sizes)).collect();
        if message.ends == [STDIN] {
            heard.push(ClientMessage::StdinEnd);
        }
        assert_eq!(heard, expected, "{pieces:?}");
    }

    #[test]
    fn messages() {
        check(V5, &[b"\0ab"], &[ClientMessage::Stdin("ab".into())]);
        check(V5, &[b"", b"\0", b"ab", b"c"], &[ClientMessage::Stdin("ab".into()), ClientMessage::Stdin("c".into())]);
        check(V5, &[b"\0"], &[]);
        check(V5, &[b"\x01ab"], &[]);
        check(V5, &[b"\xff\0"], &[ClientMessage::StdinEnd]);
        check(V5, &[b"\xff", b"\0"], &[ClientMessage::StdinEnd]);
        check(V5, &[b"\xff\x01"], &[]);
        check(V5, &[b"\xff\0\0"], &[]);
        check(ChannelProtocol { closes: false, ..V5 }, &[b"\xff\0"], &[]);
        check(V5, &[b"\x04{\"Width\":1,", b"\"Height\":2}"], &[ClientMessage::Size(Size { width: 1, height: 2 })]);
        let base64 = ChannelProtocol { base64: true, closes: false, ..V5 };
        check(base64, &[b"0Zm9v", b"Cg=="], &[ClientMessage::Stdin("foo".into()), ClientMessage::Stdin("\n".into())]);
        check(base64, &[b"\xff"], &[]);
    }

    #[test]
    fn outcomes_are_text_before_they_were_documents() {
        let old = ChannelProtocol { status: false, ..V5 };
        assert_eq!(words(&CommandOutcome::Success, old), "");
        assert_eq!(words(&CommandOutcome::Exit(1), old), "command terminated with non-zero exit code: exit status 1");
        assert!(words(&CommandOutcome::Success, V5).contains("Success"));
    }
}
