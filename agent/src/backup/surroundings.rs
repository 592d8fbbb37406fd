//! What a backup finds on the host: programs, and who asks it to stop.

use std::path::PathBuf;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Where the packaged master has its objects.
pub const MASTER_DATA: &str = "/var/lib/coracle/master";

/// A program that stands beside this one, or on the path.
pub fn program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    own.into_iter().chain(std::env::split_paths(&path)).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// True as soon as somebody asks this program to stop.
pub fn stopped() -> Result<watch::Receiver<bool>, String> {
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
