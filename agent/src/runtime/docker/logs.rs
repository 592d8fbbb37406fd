//! Reads the logs of containers, for people and for termination messages.
//!
//! Docker's json-file log keeps a line over 16 KiB in pieces of 16,384 bytes that have one timestamp and, but for the
//! last, no end of line: they come out joined, and what was asked for by lines is not counted by pieces. Podman's
//! pieces are as they were read, each with a time of its own.

mod entries;
mod lines;

use std::collections::VecDeque;
use std::time::Duration;

use coracle_api::meta::Time;
use coracle_api::query::Stream;
use coracle_http::FORWARD_FOLLOW_IDLE;
use coracle_http::channel::{self, channel};
use coracle_http::client::{CallError, Pieces};
use tokio::time::timeout;

use super::connection::{ASK, Docker};
use super::dialect::{Dialect, refusal};
use crate::facts::engine::Failure;
use entries::EntryReader;
use lines::{First, Joined, Piece, Tail};

/// The requested part of a log, and its form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wish {
    pub follow: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    /// Only lines from then on.
    pub since: Option<Time>,
    pub bytes_max: Option<u64>,
    pub stream: Stream,
}

/// Of a log by lines the engine is first asked for so many pieces more.
const PIECES_MORE: u64 = 16;
/// What may be written between counting and reading.
const WRITTEN_MEANWHILE: u64 = 1024;
/// A line whose pieces do not come any more keeps what was written beside it no longer.
const QUIET: Duration = Duration::from_secs(1);

/// The start of a log: so many pieces are read from its end (None: all pieces), and the output begins with `first`.
#[derive(Default)]
struct Start {
    pieces: Option<u64>,
    first: Option<First>,
}

impl Docker {
    /// Sends the log, line by line, until it ends or nobody reads it any more.
    pub async fn send_log(&self, id: &str, wish: &Wish, out: &channel::Sender) -> Result<(), Failure> {
        let start = match wish.tail_lines {
            Some(lines @ 1..) => self.start_of(id, lines).await?,
            Some(0) => Start { pieces: Some(0), first: None },
            None => Start::default(),
        };
        let asked = Asked {
            follow: wish.follow,
            stdout: wish.stream != Stream::Stderr,
            stderr: wish.stream != Stream::Stdout,
            // Whole seconds here; finer below.
            since: wish.since.map_or(0, |time| time.seconds()),
            pieces: start.pieces.unwrap_or(u64::MAX),
        };
        let mut left = wish.bytes_max;
        let mut lines = Joined::new(wish.timestamps, wish.since, start.first);
        let mut pieces = tokio::select! {
            entries = self.entries(id, &asked) => entries?,
            () = out.closed() => return Ok(()),
        };
        loop {
            let quiet = async {
                // A log that is not followed comes to its end, however slow the engine is.
                if !lines.holds() || !wish.follow {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(QUIET).await;
            };
            let piece = tokio::select! {
                piece = pieces.next() => piece,
                () = quiet => {
                    if !send(lines.give_up(), &mut left, out).await {
                        return Ok(());
                    }
                    continue;
                }
                () = out.closed() => return Ok(()),
            };
            let Some(piece) = piece else {
                send(lines.give_up(), &mut left, out).await;
                return Ok(());
            };
            if !send(lines.take(piece?), &mut left, out).await {
                return Ok(());
            }
        }
    }

    /// Where the last whole lines of a log begin. Larger and larger parts of its end are read until they contain all
    /// wanted lines.
    async fn start_of(&self, id: &str, lines: u64) -> Result<Start, Failure> {
        // Podman joins pieces of lines wrongly when asked only for the end of a log. So all pieces are read, and the
        // first piece is found by its number.
        let mut asked = if self.dialect() == Dialect::Podman { u64::MAX } else { lines.saturating_add(PIECES_MORE) };
        loop {
            let mut tail = Tail::new(lines);
            let all = Asked { follow: false, stdout: true, stderr: true, since: 0, pieces: asked };
            let mut pieces = self.entries(id, &all).await?;
            let late =
                |_| Failure::Unavailable(format!("read the end of the log: nothing came for {} s", ASK.as_secs()));
            while let Some(piece) = timeout(ASK, pieces.next()).await.map_err(late)? {
                tail.count(&piece?);
            }
            // The first line may have begun before, unless this is all there is.
            let all = tail.pieces < asked;
            if let Some(first) = tail.first(all) {
                return Ok(Start { pieces: Some(asked.saturating_add(WRITTEN_MEANWHILE)), first: Some(first) });
            }
            if all {
                return Ok(Start::default());
            }
            asked = asked.saturating_mul(4);
        }
    }

    pub(super) async fn read_log_tail(&self, id: &str, bytes_max: usize, lines_max: usize) -> Result<String, Failure> {
        let (out, mut lines) = channel(64);
        let wish = Wish { tail_lines: Some(lines_max as u64), ..Default::default() };
        let mut tail = Vec::new();
        let collect = async {
            while let Some(line) = lines.recv().await {
                tail.extend_from_slice(&line);
                let excess = tail.len().saturating_sub(bytes_max);
                tail.drain(..excess);
            }
        };
        let send = async {
            let sent = self.send_log(id, &wish, &out).await;
            drop(out);
            sent
        };
        let both = async { tokio::join!(send, collect).0 };
        let limit = || Failure::Unavailable(format!("read the log: no end after {} s", ASK.as_secs()));
        tokio::time::timeout(ASK, both).await.map_err(|_| limit())??;
        Ok(String::from_utf8_lossy(&tail).into_owned())
    }
}

/// What the engine is asked for.
struct Asked {
    follow: bool,
    stdout: bool,
    stderr: bool,
    since: i64,
    /// At the end.
    pieces: u64,
}

/// The entries of a log, as the engine sends them. bollard would keep a terminal's line until it ends.
struct LogEntries {
    body: Pieces,
    entries: EntryReader,
    ready: VecDeque<Piece>,
    ended: bool,
}

impl LogEntries {
    /// Nothing is lost if it is dropped and called again.
    async fn next(&mut self) -> Option<Result<Piece, Failure>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(Ok(piece));
            }
            if self.ended {
                return None;
            }
            match self.body.next().await {
                None => {
                    self.ended = true;
                    self.ready.extend(self.entries.end());
                }
                Some(Err(error)) => return Some(Err(Failure::Unavailable(format!("read the log: {error}")))),
                Some(Ok(bytes)) => match self.entries.take(&bytes) {
                    Ok(pieces) => self.ready.extend(pieces),
                    Err(why) => return Some(Err(Failure::Refused(format!("read the log: {why}")))),
                },
            }
        }
    }
}

impl Docker {
    async fn entries(&self, id: &str, asked: &Asked) -> Result<LogEntries, Failure> {
        let client = self.client().await?;
        let found = self.inspect(&client, id).await?;
        let is_terminal = found.config.and_then(|config| config.tty).unwrap_or_default();
        let Asked { follow, stdout, stderr, since, pieces } = asked;
        // An engine may begin to answer with the first line.
        let head = if *follow { FORWARD_FOLLOW_IDLE } else { ASK };
        let path = format!(
            "/containers/{id}/logs?follow={follow}&stdout={stdout}&stderr={stderr}&since={since}&timestamps=true\
             &tail={}",
            tail_word(*pieces)
        );
        let body = self.plain_client()?.pieces(&path, head).await.map_err(|error| match error {
            CallError::Refused(_, reply) => {
                let words: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
                let text = words["message"].as_str().map_or_else(|| format!("status {}", reply.status), str::to_owned);
                refusal("read the log", reply.status.as_u16(), text)
            }
            other => Failure::Unavailable(other.to_string()),
        })?;
        let entries = EntryReader::new(is_terminal, self.dialect());
        Ok(LogEntries { body, entries, ready: VecDeque::new(), ended: false })
    }
}

/// As many as a number can say: all.
fn tail_word(pieces: u64) -> String {
    if pieces == u64::MAX { "all".to_owned() } else { pieces.to_string() }
}

/// False: the client has gone, or the byte limit is reached.
async fn send(texts: Vec<bytes::Bytes>, left: &mut Option<u64>, out: &channel::Sender) -> bool {
    for mut text in texts {
        if let Some(left) = left {
            text.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= text.len() as u64;
        }
        if !text.is_empty() && out.send(text).await.is_err() || *left == Some(0) {
            return false;
        }
    }
    true
}
