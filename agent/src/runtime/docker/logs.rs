//! Reads the logs of containers, for people and for termination messages.
//!
//! Docker's json-file log keeps a line over 16 KiB in pieces of 16,384 bytes that have one timestamp and, but for the last, no
//! end of line: they come out joined.

use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptions;
use bytes::Bytes;
use coracle_api::meta::Time;
use coracle_api::query::Stream;
use coracle_http::channel::{self, channel};
use futures_util::StreamExt;

use super::super::Failure;
use super::connection::{ASK, Docker, failure};

/// Which part of a log, and in which form.
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

/// The size of Docker's pieces of a long line.
const PIECE_BYTES: usize = 16 * 1024;

impl Docker {
    /// Sends the log, line by line, until it ends or nobody reads it any more.
    pub async fn send_log(&self, id: &str, wish: &Wish, out: &channel::Sender) -> Result<(), Failure> {
        let client = self.client().await?;
        let options = LogsOptions {
            follow: wish.follow,
            stdout: wish.stream != Stream::Stderr,
            stderr: wish.stream != Stream::Stdout,
            // Whole seconds here; finer below.
            since: wish.since.and_then(|time| i32::try_from(time.seconds()).ok()).unwrap_or_default(),
            timestamps: true,
            tail: wish.tail_lines.map_or_else(|| "all".to_owned(), |lines| lines.to_string()),
            ..Default::default()
        };
        let mut left = wish.bytes_max;
        let mut lines = Joined::default();
        let mut pieces = std::pin::pin!(client.logs(id, Some(options)));
        loop {
            let piece = tokio::select! {
                piece = pieces.next() => piece,
                () = out.closed() => return Ok(()),
            };
            let Some(piece) = piece else { return Ok(()) };
            let piece = piece.map_err(|error| failure("read the log", error))?;
            let Some(mut text) = lines.take(&piece, wish) else { continue };
            if let Some(left) = &mut left {
                text.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= text.len() as u64;
            }
            if !text.is_empty() && out.send(text).await.is_err() || left == Some(0) {
                return Ok(());
            }
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

/// Takes the timestamp off each piece and joins the pieces of one line.
#[derive(Default)]
struct Joined {
    /// The stream (2 is stderr) and timestamp of a line whose end has not come.
    open: Option<(u8, Vec<u8>)>,
}

impl Joined {
    /// None: before the time that was asked for.
    fn take(&mut self, piece: &LogOutput, wish: &Wish) -> Option<Bytes> {
        let (stream, bytes) = match piece {
            LogOutput::StdErr { message } => (2, message),
            LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message } => (1, message),
        };
        let blank = bytes.iter().position(|byte| *byte == b' ')?;
        let (stamp, text) = (&bytes[..blank], bytes.slice(blank + 1..));
        if let Some(since) = wish.since
            && std::str::from_utf8(stamp).ok().and_then(Time::parse).is_some_and(|time| time < since)
        {
            return None;
        }
        let continues = self.open.as_ref().is_some_and(|(open, at)| *open == stream && at == stamp);
        let ends = text.ends_with(b"\n") || text.len() < PIECE_BYTES;
        self.open = (!ends).then(|| (stream, stamp.to_vec()));
        Some(if wish.timestamps && !continues { bytes.clone() } else { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(wish: &Wish, pieces: &[(&str, String)], expected: &str) {
        let mut lines = Joined::default();
        let mut out = Vec::new();
        for (stamp, text) in pieces {
            let message = Bytes::from(format!("{stamp} {text}"));
            out.extend(lines.take(&LogOutput::StdOut { message }, wish).unwrap_or_default());
        }
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn long_lines_are_joined_and_stamped_once() {
        let (a, b) = ("2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.2Z");
        let long = "x".repeat(PIECE_BYTES);
        let pieces = [(a, long.clone()), (a, "end\n".to_owned()), (b, "next\n".to_owned())];
        check(&Wish::default(), &pieces, &format!("{long}end\nnext\n"));
        check(&Wish { timestamps: true, ..Wish::default() }, &pieces, &format!("{a} {long}end\n{b} next\n"));
        check(&Wish { since: Time::parse(b), ..Wish::default() }, &pieces, "next\n");
    }
}
