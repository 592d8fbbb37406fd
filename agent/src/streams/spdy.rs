//! A command over SPDY: the headers of each stream name its role.

use std::collections::HashMap;
use std::time::Duration;

use coracle_http::Upgraded;
use coracle_http::spdy::frames::{Frame, REFUSED};
use coracle_http::spdy::{SpdyReader, SpdyWriter, open};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{sleep, timeout};

use super::channels::LINGER;
use super::size::Sizes;
use crate::runtime::conversation::{ClientMessage, Streams, ToClient};

/// A client opens all its streams within this, as the kubelet asks of it.
const OPENING: Duration = Duration::from_secs(30);
/// Answers to frames that wait for the writer.
const ANSWERS_MAX: usize = 16;

/// What client and agent have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpdyProtocol {
    /// The outcome is a Status in JSON since version 4. Earlier versions send text for a failure, and nothing for a
    /// success.
    pub status: bool,
    /// There is a stream of sizes for a terminal, since version 3.
    pub sizes: bool,
}

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Role {
    Error,
    Stdin,
    Stdout,
    Stderr,
    Resize,
}

impl Role {
    const NAMES: [(&'static str, Role); 5] = [
        ("error", Role::Error),
        ("stdin", Role::Stdin),
        ("stdout", Role::Stdout),
        ("stderr", Role::Stderr),
        ("resize", Role::Resize),
    ];

    /// The roles of the streams that the client will open.
    fn expected(form: SpdyProtocol, streams: Streams) -> impl Iterator<Item = Role> {
        let wanted = move |role: &Role| match role {
            Role::Error => true,
            Role::Stdin => streams.stdin,
            Role::Stdout => streams.stdout,
            Role::Stderr => streams.stderr,
            Role::Resize => streams.tty && form.sizes,
        };
        Role::NAMES.into_iter().map(|(_, role)| role).filter(wanted)
    }
}

enum Answer {
    Accept(u32, Role),
    Reset(u32),
    Ping(u32),
}

/// Until the client has gone, or was told all there is.
pub async fn carry(
    upgraded: Upgraded,
    form: SpdyProtocol,
    streams: Streams,
    heard: Sender<ClientMessage>,
    to_client: Receiver<ToClient>,
) {
    let (mut reader, mut writer) = open(upgraded);
    let (answer, answers) = mpsc::channel(ANSWERS_MAX);
    let sent_all = tokio::select! {
        () = read(&mut reader, form, streams, heard, answer) => false,
        written = write(&mut writer, form, streams, to_client, answers) => written.is_ok(),
    };
    // All streams have ended, and the client closes the connection itself: closing early would lose unread output.
    if sent_all {
        let _ = timeout(LINGER, reader.drain()).await;
    }
    let _ = timeout(LINGER, writer.close()).await;
}

async fn read(
    reader: &mut SpdyReader,
    form: SpdyProtocol,
    streams: Streams,
    heard: Sender<ClientMessage>,
    answer: Sender<Answer>,
) {
    let (mut roles, mut sizes) = (HashMap::new(), Sizes::default());
    while let Ok(Some(frame)) = reader.next().await {
        match frame {
            Frame::Open { stream, headers, ends } => {
                let said = headers.iter().find(|(name, _)| name == "streamtype").map(|(_, value)| value.as_str());
                let role = Role::NAMES.iter().find(|(name, _)| Some(*name) == said).map(|(_, role)| *role);
                let role = role.filter(|role| Role::expected(form, streams).any(|expected| expected == *role));
                let role = role.filter(|role| !roles.values().any(|taken| taken == role));
                let sent = match role {
                    Some(role) => {
                        roles.insert(stream, role);
                        answer.send(Answer::Accept(stream, role)).await
                    }
                    None => answer.send(Answer::Reset(stream)).await,
                };
                if sent.is_err() {
                    return;
                }
                if ends && role == Some(Role::Stdin) {
                    let _ = heard.send(ClientMessage::StdinEnd).await;
                }
            }
            Frame::Data { stream, bytes, ends } => match roles.get(&stream) {
                Some(Role::Stdin) => {
                    if !bytes.is_empty() {
                        let _ = heard.send(ClientMessage::Stdin(bytes)).await;
                    }
                    if ends {
                        let _ = heard.send(ClientMessage::StdinEnd).await;
                    }
                }
                Some(Role::Resize) => {
                    for size in sizes.take(&bytes) {
                        let _ = heard.send(ClientMessage::Size(size)).await;
                    }
                }
                _ => {}
            },
            Frame::Reset { stream } => {
                if roles.get(&stream) == Some(&Role::Stdin) {
                    let _ = heard.send(ClientMessage::StdinEnd).await;
                }
            }
            Frame::Ping(number) => drop(answer.send(Answer::Ping(number)).await),
        }
    }
}

async fn write(
    writer: &mut SpdyWriter,
    form: SpdyProtocol,
    streams: Streams,
    mut to_client: Receiver<ToClient>,
    mut answers: Receiver<Answer>,
) -> std::io::Result<()> {
    let mut numbers = HashMap::new();
    let expected = Role::expected(form, streams).count();
    let mut opening = std::pin::pin!(sleep(OPENING));
    loop {
        let all = numbers.len() == expected;
        tokio::select! {
            Some(answer) = answers.recv() => match answer {
                Answer::Accept(stream, role) => {
                    numbers.insert(role, stream);
                    writer.reply(stream).await?;
                }
                Answer::Reset(stream) => writer.reset(stream, REFUSED).await?,
                Answer::Ping(number) => writer.ping(number).await?,
            },
            () = &mut opening, if !all => return Err(std::io::ErrorKind::TimedOut.into()),
            next = to_client.recv(), if all => {
                let Some(next) = next else { break };
                let (role, bytes) = match next {
                    ToClient::Stdout(bytes) => (Role::Stdout, bytes),
                    ToClient::Stderr(bytes) => (Role::Stderr, bytes),
                    ToClient::Outcome(outcome) if form.status => (Role::Error, outcome.status().to_string().into()),
                    ToClient::Outcome(outcome) => (Role::Error, outcome.message().into()),
                };
                if let Some(stream) = numbers.get(&role).filter(|_| !bytes.is_empty()) {
                    writer.data(*stream, &bytes, false).await?;
                }
            }
        }
    }
    // The error stream ends last: a client that has read the error stream has all output.
    for role in [Role::Stdin, Role::Resize, Role::Stdout, Role::Stderr, Role::Error] {
        if let Some(stream) = numbers.get(&role) {
            writer.data(*stream, &[], true).await?;
        }
    }
    Ok(())
}
