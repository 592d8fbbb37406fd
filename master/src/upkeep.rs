//! The requests of the command line to a running master: a backup, a flush, bindings from before access rules counted,
//! changed keys.
//! They are a route of `serve`, and on the local socket alone: a backup holds every secret, a flush wears the card. The
//! request names the data directory: a master with a different directory does nothing.

use crate::adoption::Adoption;
use crate::applied::Told;
use crate::cluster_keys::ClusterKeys;
use crate::cluster_keys::files::KeyFolder;
use crate::cluster_keys::names::ServerNames;
use crate::desk::Desk;
use crate::encryption;
use crate::page::Task;
use crate::store::{self, FlatStore, SharedKeys};
use coracle_api::status::Status;
use coracle_http::channel::channel;
use coracle_http::{Answer, Body, HeaderValue, Request, StatusCode, Stream, header};
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// Said with a backup.
pub const GONE: &str = "its data directory is not the one any more that it opened: what is written now is refused";
/// Pieces on their way to the client; each is some 64 KiB.
const PIECES_MAX: usize = 4;

pub struct Upkeep {
    store: FlatStore,
    adoption: Arc<Adoption>,
    desk: Arc<Desk>,
    data_dir: PathBuf,
    /// The identity of the opened directory: a folder that takes the name later is a different directory.
    query: String,
    key_file: Option<PathBuf>,
    sealing: SharedKeys,
    /// None: the keys cannot be used.
    keys: Option<(Arc<ClusterKeys>, OwnNames)>,
    /// None: there is no `apply-dir`.
    applied: Option<Arc<Told>>,
}

/// The names of this host at this moment.
pub type OwnNames = Box<dyn Fn() -> ServerNames + Send + Sync>;

impl Upkeep {
    pub fn new(store: FlatStore, (adoption, desk): (Arc<Adoption>, Arc<Desk>), data_dir: &Path) -> Upkeep {
        let (data_dir, query) = (data_dir.to_owned(), query(data_dir));
        let sealing = SharedKeys::default();
        Upkeep { store, adoption, desk, data_dir, query, key_file: None, sealing, keys: None, applied: None }
    }

    /// The file of encryption keys, and the keys as they were last read.
    pub fn sealing(self, key_file: Option<PathBuf>, sealing: SharedKeys) -> Upkeep {
        Upkeep { key_file, sealing, ..self }
    }

    /// Reads the key file again, and seals everything by its first key.
    fn reseal(&self) -> Result<Answer, String> {
        let file = self.key_file.as_deref().ok_or("it was started without encryption-key")?;
        let keys = encryption::load(Some(file));
        if let Some(why) = keys.why_lost() {
            return Err(why.to_owned());
        }
        self.sealing.set(keys.clone());
        KeyFolder::of(&self.data_dir).sealed_by(self.sealing.clone()).reseal()?;
        self.store.reseal(keys.clone()).map_err(|error| error.to_string())?;
        Ok(Answer::text(StatusCode::OK, encryption::sealed_by(&keys)))
    }

    /// The keys that a command may have changed.
    pub fn holding(self, keys: Option<Arc<ClusterKeys>>, names: OwnNames) -> Upkeep {
        Upkeep { keys: keys.map(|keys| (keys, names)), ..self }
    }

    /// What is told of `apply-dir`.
    pub fn applying(self, applied: Option<Arc<Told>>) -> Upkeep {
        Upkeep { applied, ..self }
    }

    pub fn answer(&self, task: Task, request: &Request) -> Answer {
        // What takes its path while it is away is not written to, and whoever names it means this store.
        let now = query(&self.data_dir);
        let is_gone = now != self.query;
        let asked = request.target.query();
        // Whoever looks may name no directory.
        let is_any = asked.is_none() && task == Task::Problems;
        if !is_any && asked != Some(&*self.query) && asked != Some(&*now) {
            let why = format!("it serves {}", self.data_dir.display());
            return refusal(StatusCode::CONFLICT, &Status { code: 409, ..Status::bad_request(why) });
        }
        let failed = |why| refusal(StatusCode::INTERNAL_SERVER_ERROR, &Status::internal_error(why));
        let done = match task {
            Task::Backup => backup(&self.store, &self.data_dir),
            Task::Flush => flush(&self.store),
            Task::Reseal => self.reseal(),
            Task::Unadopted => Ok(Answer::json(StatusCode::OK, Value::from(self.adoption.unadopted()).to_string())),
            Task::Problems => Ok(Answer::json(StatusCode::OK, self.desk.page())),
            Task::Adopt => self.adoption.adopt().map(adopted),
            Task::LookAtKeys => {
                let taken_up = self.keys().and_then(|(keys, _)| keys.take_up());
                taken_up.map(|()| done("it counts from now on"))
            }
            Task::RenewKeys => {
                let renewed = self.keys().and_then(|(keys, names)| keys.renew(&names()));
                renewed.map(|()| done("the certificates of this host are new"))
            }
            Task::Applied => Ok(match &self.applied {
                Some(told) => Answer::json(StatusCode::OK, told.document().to_string()),
                None => Answer::json(StatusCode::OK, "{}".to_owned()),
            }),
            Task::ApplyConfirm => {
                self.applied().map(|told| Answer::json(StatusCode::OK, json!(told.confirm()).to_string()))
            }
            Task::ApplyAgain => self.applied().map(|told| {
                told.again();
                done("all files are applied again")
            }),
        };
        let mut answer = done.unwrap_or_else(failed);
        if is_gone && let Ok(warning) = HeaderValue::from_str(&format!("299 - \"{GONE}\"")) {
            answer.headers.insert(header::WARNING, warning);
        }
        answer
    }

    fn applied(&self) -> Result<&Told, String> {
        self.applied.as_deref().ok_or_else(|| "it was started without apply-dir".to_owned())
    }

    fn keys(&self) -> Result<&(Arc<ClusterKeys>, OwnNames), String> {
        self.keys.as_ref().ok_or_else(|| "the keys of this cluster cannot be used, see the master's log".to_owned())
    }
}

fn done(words: &str) -> Answer {
    Answer::text(StatusCode::OK, format!("{words}\n"))
}

/// Which directory is meant.
pub fn query(path: &Path) -> String {
    // A missing directory is identified by the path alone.
    match store::identity(path) {
        Some((device, inode)) => format!("directory={device:x}-{inode:x}"),
        None => path
            .as_os_str()
            .as_bytes()
            .iter()
            .fold("directory=none&path=".to_owned(), |said, byte| format!("{said}{byte:02x}")),
    }
}

fn refusal(code: StatusCode, status: &Status) -> Answer {
    Answer::json(code, status.to_v1().to_string())
}

fn backup(store: &FlatStore, data_dir: &Path) -> Result<Answer, String> {
    let pieces = store.backup(KeyFolder::of(data_dir).all()?);
    let (sender, events) = channel(PIECES_MAX);
    let write = move || {
        for piece in pieces {
            // Whoever went away needs no more.
            if sender.blocking_send(piece).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("backup".to_owned())
        .spawn(write)
        .map_err(|error| format!("a thread for the backup: {error}"))?;
    // No JSON document: nothing is put between its lines.
    Ok(Answer::new(StatusCode::OK, "application/jsonl", Body::Stream(Stream { events, lease: Box::new(()) })))
}

fn adopted(count: usize) -> Answer {
    Answer::text(StatusCode::OK, format!("{count} bindings and roles from before access rules count from now on\n"))
}

fn flush(store: &FlatStore) -> Result<Answer, String> {
    store.flush().map_err(|error| error.to_string())?;
    Ok(Answer::text(StatusCode::OK, "the files say all that the journal does\n"))
}
