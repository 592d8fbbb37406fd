//! How a command reaches the objects: by a running master, or in a directory that no master has open.

use crate::config::Config;
use crate::store::{self, FlatStore, OpenError, SealKeys};
use crate::store_rules::with_rules;
use crate::upkeep;
use coracle_api::kinds::Kinds;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A master that is silent for so long is hung; a flush waits for a slow card.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of the head of an answer, and of a refusal.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// The outcome of a command: text and exit code.
pub(super) struct Outcome {
    pub text: String,
    pub code: u8,
}

impl Outcome {
    pub fn good(text: String) -> Outcome {
        Outcome { text, code: 0 }
    }
}

/// The store of a directory that no master has open. It is not made where there is none.
pub(super) fn open(config: &Config, keys: SealKeys) -> Result<FlatStore, String> {
    if store::is_none(&config.data_dir) {
        return Err(format!("{}: {}", config.data_dir.display(), store::NO_STORE));
    }
    let kinds = Kinds::builtin();
    let volatile = config.admin_socket.parent().filter(|dir| dir.is_dir());
    let opened = with_rules(&kinds, keys, |rules| FlatStore::open(&config.data_dir, volatile, rules));
    opened.map(|opened| opened.store).map_err(|error| match error {
        OpenError::InUse { .. } => format!("{error}, or name its socket by --admin-socket"),
        error => error.to_string(),
    })
}

/// The answer of a running master.
pub(super) struct Answered {
    pub body: BufReader<UnixStream>,
    pub warned: Vec<String>,
}

/// None: no master listens there.
pub(super) fn ask(config: &Config, method: &str, path: &str) -> Result<Option<Answered>, String> {
    let shown = config.admin_socket.display();
    let mut stream = match UnixStream::connect(&config.admin_socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(format!("{shown}: {error}")),
    };
    let broken = |error: io::Error| format!("{shown}: {error}");
    stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
    // In HTTP/1.0 the end of the connection is the end of the body.
    let query = upkeep::query(&config.data_dir);
    let join = if path.contains('?') { '&' } else { '?' };
    write!(stream, "{method} {path}{join}{query} HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        .map_err(broken)?;
    let mut answer = BufReader::new(stream);
    let status = head_line(&mut answer).map_err(broken)?;
    let mut warned = Vec::new();
    loop {
        let line = head_line(&mut answer).map_err(broken)?;
        match line.split_once(':') {
            _ if line.is_empty() => break,
            Some((name, value)) if name.eq_ignore_ascii_case("warning") => {
                warned.extend(value.split_once('"').map(|(_, text)| text.trim_end_matches('"').to_owned()));
            }
            _ => {}
        }
    }
    let code = status.split(' ').nth(1);
    if code == Some("200") {
        return Ok(Some(Answered { body: answer, warned }));
    }
    let mut text = String::new();
    answer.take(HEAD_BYTES_MAX).read_to_string(&mut text).map_err(broken)?;
    let message = serde_json::from_str::<serde_json::Value>(&text)
        .ok()
        .and_then(|status| Some(status["message"].as_str()?.to_owned()));
    let message = message.unwrap_or(text);
    if code == Some("409") {
        let wanted = config.data_dir.display();
        return Err(format!(
            "the master at {shown} is another: {message}, not {wanted}; name the right --admin-socket, or --data-dir"
        ));
    }
    Err(format!("the master at {shown} answers: {}", message.trim()))
}

fn head_line(answer: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    answer.by_ref().take(HEAD_BYTES_MAX).read_line(&mut line)?;
    if line.ends_with('\n') { Ok(line.trim_end().to_owned()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
