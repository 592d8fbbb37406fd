//! What the command line asks of a running master: a backup, a flush. On the local socket alone: the one holds every secret, the other
//! wears the card.

use crate::store::FlatStore;
use coracle_api::status::Status;
use coracle_http::{Answer, Body, Caller, Request, StatusCode, Stream};
use std::thread;
use tokio::sync::mpsc;

pub const BACKUP: &str = "/coracle/store/backup";
pub const FLUSH: &str = "/coracle/store/flush";
/// Pieces on their way to the client; each is some 64 KiB.
const PIECES_MAX: usize = 4;

/// None: it is something else that was asked.
pub fn answer(store: &FlatStore, request: &Request) -> Option<Answer> {
    if request.caller != Caller::Local {
        return None;
    }
    let done = match (request.method.as_str(), request.target.path()) {
        ("GET", BACKUP) => backup(store),
        ("POST", FLUSH) => flush(store),
        _ => return None,
    };
    Some(done.unwrap_or_else(|why| Answer::json(StatusCode::INTERNAL_SERVER_ERROR, Status::internal_error(why).to_v1().to_string())))
}

fn backup(store: &FlatStore) -> Result<Answer, String> {
    let pieces = store.backup();
    let (sender, events) = mpsc::channel(PIECES_MAX);
    let write = move || {
        for piece in pieces {
            // Whoever went away needs no more.
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("backup".to_owned()).spawn(write).map_err(|error| format!("a thread for the backup: {error}"))?;
    // No JSON document: nothing is put between its lines.
    Ok(Answer::new(StatusCode::OK, "application/jsonl", Body::Stream(Stream { events, lease: Box::new(()) })))
}

fn flush(store: &FlatStore) -> Result<Answer, String> {
    store.flush().map_err(|error| error.to_string())?;
    Ok(Answer::text(StatusCode::OK, "the files say all that the journal does\n"))
}
