//! `coracle-agent backup DIR` and `restore DIR`: objects, files and the data of volumes of this host, in one directory.
//!
//!     offered PURE    what the running agent tells of its pods · asked PURE: annotations -> plan PURE
//!     make            the backup · hook: runs in a pod · archive: by tar, told PURE · place: renamed when complete
//!     contents PURE   backup.json · restore: back on a bare host · fits PURE: whether it may begin

mod archive;
mod asked;
mod contents;
mod fits;
mod hook;
mod make;
pub mod offered;
mod place;
mod plan;
mod restore;
mod told;

use std::path::{Path, PathBuf};

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::command::report::Report;
use crate::config::Config;
use contents::{Contents, Kind, size};

/// Where the packaged master has its objects.
const MASTER_DATA: &str = "/var/lib/coracle/master";

/// What the command line says beside the agent's own options.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The directory of the configuration and of manifests.
    pub etc: PathBuf,
    /// Of a master that was started with options of its own.
    pub master_config: Option<String>,
    /// The node's name was given, and need not be that of the host.
    pub named: bool,
}

pub async fn backup(config: &Config, dir: &Path, options: &Options) -> Result<Report, String> {
    let (name, contents) = make::make(config, dir, options).await?;
    let mut lines = vec![format!("{}: {}", name.display(), summary(&contents))];
    lines.extend(contents.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(contents.missing.iter().map(|what| format!("not in it: {what}")));
    if !contents.missing.is_empty() {
        lines.push(format!("this backup is not whole; {} is as it was", dir.display()));
    }
    let document = json!({"directory": name.display().to_string(), "backup": contents});
    Ok(Report { lines, well: contents.missing.is_empty(), document })
}

pub async fn restore(config: &Config, dir: &Path, options: &Options) -> Result<Report, String> {
    let (contents, done) = restore::restore(config, dir, options).await?;
    let mut lines = done;
    lines.extend(contents.missing.iter().map(|what| format!("was not in the backup: {what}")));
    lines.extend(contents.left_out.iter().map(|path| format!("was left out of the backup: {path}")));
    lines.push("start the programs: systemctl start coracle-master coracle-agent".to_owned());
    let document = json!({"directory": dir.display().to_string(), "backup": contents, "done": lines});
    Ok(Report { lines, well: contents.missing.is_empty(), document })
}

fn summary(contents: &Contents) -> String {
    let volumes = contents.parts.iter().filter(|part| part.kind == Kind::Volume).count();
    let bytes = contents.parts.iter().map(|part| part.bytes).sum();
    let has = |kind| contents.parts.iter().any(|part| part.kind == kind);
    let mut what = Vec::new();
    what.extend(has(Kind::Objects).then(|| "the objects of the API".to_owned()));
    what.extend(has(Kind::Files).then(|| "the files".to_owned()));
    what.push(format!("{volumes} volume{}", if volumes == 1 { "" } else { "s" }));
    format!("{}, {}", what.join(", "), size(bytes))
}

/// A program that stands beside this one, or on the path.
fn program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    own.into_iter().chain(std::env::split_paths(&path)).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// True as soon as somebody asks this program to stop.
fn stopped() -> Result<watch::Receiver<bool>, String> {
    let (stop, stopped) = watch::channel(false);
    let heard = |kind| signal(kind).map_err(|error| format!("hear signals: {error}"));
    let mut signals = (heard(SignalKind::terminate())?, heard(SignalKind::interrupt())?, heard(SignalKind::hangup())?);
    tokio::task::spawn_local(async move {
        tokio::select! {
            _ = signals.0.recv() => {}
            _ = signals.1.recv() => {}
            _ = signals.2.recv() => {}
        }
        stop.send_replace(true);
        // Whoever waits is told as long as this program runs.
        std::future::pending::<()>().await;
    });
    Ok(stopped)
}
