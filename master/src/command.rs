//! What is done to a store from the command line: looked at, copied, brought back.
//!
//! ```text
//! store fsck, verify, salvage, restore    the directory itself, with no master running
//! store flush, backup                     through the local socket while a master runs; the directory itself while none does
//! ```

use crate::config::{Config, Deed};
use crate::store::{self, Backup, Findings, FlatStore, OpenError};
use crate::upkeep::{BACKUP, FLUSH};
use crate::with_rules;
use coracle_api::kinds::Kinds;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// A master that is silent for so long is hung; a flush waits for a slow card.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of the head of an answer, and of a refusal.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// What was found or done, and whether it is good.
struct Outcome {
    text: String,
    good: bool,
}

/// 0: done, and all is well. 1: it could not be done, or something is not well.
pub fn run(deed: &Deed, config: &Config) -> ExitCode {
    let done = match deed {
        Deed::Fsck => inspect(config, true),
        Deed::Verify => inspect(config, false),
        Deed::Salvage => salvage(config),
        Deed::Flush => flush(config),
        Deed::Backup(file) => backup(config, file),
        Deed::Restore(file) => restore(config, file),
    };
    let (mut text, good) = match done {
        Ok(Outcome { text, good }) => (text, good),
        Err(why) => (format!("coracle-master: {why}"), false),
    };
    text.push('\n');
    // Nobody may be reading any more.
    let told = if good { io::stdout().write_all(text.as_bytes()) } else { io::stderr().write_all(text.as_bytes()) };
    drop(told);
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn inspect(config: &Config, deep: bool) -> Result<Outcome, String> {
    let kinds = Kinds::builtin();
    let found = with_rules(&kinds, |rules| store::inspect(&config.data_dir, rules, deep)).map_err(|error| error.to_string())?;
    Ok(Outcome { text: report(&config.data_dir, &found), good: found.whole() })
}

fn report(dir: &Path, found: &Findings) -> String {
    let mut lines = vec![format!("{}: {} objects at revision {}, store {}", dir.display(), found.objects, found.revision, found.store)];
    if found.records > 0 {
        lines.push(format!("{} records of the journal are not in the files yet; the next start reads them", found.records));
    }
    lines.extend(found.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(found.damage.iter().map(|damage| format!("damaged: {damage}")));
    lines.push(match &found.missing {
        Some(missing) => {
            format!(
                "{missing}\nacknowledged writes are not there: a master would serve reads alone; restore a backup, or run \
                 `coracle-master store salvage` to go on with what there is"
            )
        }
        None if found.damage.is_empty() => "everything that was acknowledged is there".to_owned(),
        None => "a master would serve everything but what is damaged".to_owned(),
    });
    lines.join("\n")
}

fn salvage(config: &Config) -> Result<Outcome, String> {
    let kinds = Kinds::builtin();
    let text = match with_rules(&kinds, |rules| store::salvage(&config.data_dir, rules)).map_err(|error| error.to_string())? {
        None => "no acknowledged record is missing: there is nothing to salvage, nothing was changed".to_owned(),
        Some(salvaged) => format!(
            "{}\n{} objects go on, as new as they could be read; writes since that record may be lost\nthe journal as it was found: {}/{}",
            salvaged.missing,
            salvaged.objects,
            config.data_dir.display(),
            salvaged.evidence
        ),
    };
    Ok(Outcome { text, good: true })
}

fn flush(config: &Config) -> Result<Outcome, String> {
    let good = |text: String| Ok(Outcome { text, good: true });
    match ask(&config.admin_socket, "POST", FLUSH)? {
        Some(mut answer) => {
            let mut text = String::new();
            answer.read_to_string(&mut text).map_err(|error| format!("the master's answer broke off: {error}"))?;
            good(text.trim_end().to_owned())
        }
        None => {
            let store = open(config)?;
            store.close().map_err(|error| error.to_string())?;
            good(format!("{}: the files say all that the journal does", config.data_dir.display()))
        }
    }
}

fn backup(config: &Config, file: &Path) -> Result<Outcome, String> {
    let shown = file.display();
    if fs::symlink_metadata(file).is_ok_and(|there| !there.is_file()) {
        return Err(format!("{shown}: it is there and no regular file; name a file to write"));
    }
    // Whoever reads it reads every secret.
    let tmp = file.with_extension(format!("partial-{}", std::process::id()));
    let written = write_backup(config, &tmp).and_then(|()| {
        let copy = File::open(&tmp).map_err(|error| error.to_string())?;
        let told = store::read_backup(BufReader::new(copy), |_, _| Ok(()))?;
        fs::rename(&tmp, file).map_err(|error| error.to_string())?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| error.to_string())?;
        Ok(told)
    });
    let told = written.map_err(|why| {
        fs::remove_file(&tmp).ok();
        format!("{shown}: {why}")
    })?;
    let mut text = format!("{shown}: {} objects at revision {}", told.objects, told.revision);
    for damaged in &told.damaged {
        text.push_str(&format!("\nnot in it, for it cannot be read: {damaged}"));
    }
    Ok(Outcome { text, good: told.damaged.is_empty() })
}

fn write_backup(config: &Config, tmp: &Path) -> Result<(), String> {
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(tmp).map_err(|error| error.to_string())?;
    match ask(&config.admin_socket, "GET", BACKUP)? {
        Some(mut answer) => io::copy(&mut answer, &mut out).map(drop).map_err(|error| error.to_string())?,
        None => {
            let store = open(config)?;
            let pieces: Backup = store.backup();
            for piece in pieces {
                out.write_all(&piece).map_err(|error| error.to_string())?;
            }
            store.close().map_err(|error| error.to_string())?;
        }
    }
    out.sync_all().map_err(|error| error.to_string())
}

fn restore(config: &Config, file: &Path) -> Result<Outcome, String> {
    let told =
        store::restore(&config.data_dir, || File::open(file).map(BufReader::new)).map_err(|why| format!("{}: {why}", file.display()))?;
    let text = format!("{}: {} objects of revision {}; start the master", config.data_dir.display(), told.objects, told.revision);
    Ok(Outcome { text, good: true })
}

/// The store of a directory that no master has open. It is not made where there is none.
fn open(config: &Config) -> Result<FlatStore, String> {
    if !config.data_dir.is_dir() {
        return Err(format!("{}: there is no store; name its directory by --data-dir or --config", config.data_dir.display()));
    }
    let kinds = Kinds::builtin();
    let volatile = config.admin_socket.parent().filter(|dir| dir.is_dir());
    let opened = with_rules(&kinds, |rules| FlatStore::open(&config.data_dir, volatile, rules));
    opened.map(|opened| opened.store).map_err(|error| match error {
        OpenError::InUse { .. } => format!("{error}, or name its socket by --admin-socket"),
        error => error.to_string(),
    })
}

/// The body of a running master's answer. None: no master listens there.
fn ask(socket: &Path, method: &str, path: &str) -> Result<Option<impl Read>, String> {
    let shown = socket.display();
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => return Ok(None),
        Err(error) => return Err(format!("{shown}: {error}")),
    };
    let broken = |error: io::Error| format!("{shown}: {error}");
    stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
    // In HTTP/1.0 the end of the connection is the end of the body.
    write!(stream, "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").map_err(broken)?;
    let mut answer = BufReader::new(stream);
    let status = head_line(&mut answer).map_err(broken)?;
    while !head_line(&mut answer).map_err(broken)?.is_empty() {}
    if status.split(' ').nth(1) == Some("200") {
        return Ok(Some(answer));
    }
    let mut text = String::new();
    answer.take(HEAD_BYTES_MAX).read_to_string(&mut text).map_err(broken)?;
    let message = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|status| Some(status["message"].as_str()?.to_owned()));
    Err(format!("the master at {shown} answers: {}", message.unwrap_or(text).trim()))
}

fn head_line(answer: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    answer.by_ref().take(HEAD_BYTES_MAX).read_line(&mut line)?;
    if line.ends_with('\n') { Ok(line.trim_end().to_owned()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
