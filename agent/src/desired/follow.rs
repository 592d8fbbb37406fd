//! Lists and watches one resource of the master, and continues after every failure.
//!
//!     list -> watch from its revision -> events ... -> the watch ends: resume · 410 or a lost event: list again

use std::time::Duration;

use coracle_http::Method;
use coracle_http::client::{CallError, Client, Reply};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::refusals::{NotedRefusal, Refusals, refusal};

/// The server ends a watch after this, so a watch that hangs does not hang for ever.
const WATCH_S: u64 = 300;
const WATCH_GRACE_S: u64 = 30;
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(10);
/// Between two requests that are refused: whoever grants the right does not wait long.
const REFUSED_RETRY: Duration = Duration::from_secs(60);

/// A message of the master's watch.
#[derive(Debug)]
pub enum News {
    Listed(Vec<Value>),
    /// ADDED, MODIFIED or DELETED.
    Event {
        gone: bool,
        object: Value,
    },
}

/// Why the master could not be heard; said once for each outage, by whoever says it first. A refusal is no silence.
#[derive(Clone, Default)]
pub struct Voice {
    silent: std::sync::Arc<watch::Sender<bool>>,
    refusals: Refusals,
}

/// Why there is no answer.
enum Unheard {
    Silent(String),
    /// The master answers, and refuses.
    Refused(String),
}

impl From<String> for Unheard {
    fn from(why: String) -> Unheard {
        Unheard::Silent(why)
    }
}

impl Voice {
    pub fn new(refusals: Refusals) -> Voice {
        Voice { refusals, ..Voice::default() }
    }

    /// Whether the master is silent.
    pub fn watch(&self) -> watch::Receiver<bool> {
        self.silent.subscribe()
    }

    fn lost(&self, client: &Client, why: &str) {
        if self.silent.send_if_modified(|silent| !std::mem::replace(silent, true)) {
            log::warn!("the master at {} does not answer: {why}; its pods go on as they are", client.target());
        }
    }

    fn heard(&self, client: &Client) {
        let was_silent = self.silent.send_if_modified(std::mem::take);
        if was_silent {
            log::info!("the master at {} answers again", client.target());
        }
    }
}

/// Never ends. `tell` says whether to go on: false asks for a new listing.
pub async fn follow(
    client: &Client,
    voice: &Voice,
    path: &str,
    selector: &str,
    mut tell: impl AsyncFnMut(News) -> bool,
) {
    let mut retry = RETRY;
    let noted = voice.refusals.of(watching(path, selector));
    loop {
        match round((client, voice), path, selector, &noted, &mut tell).await {
            Ok(()) => retry = RETRY,
            Err(Unheard::Silent(why)) => {
                voice.lost(client, &why);
                sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
            Err(Unheard::Refused(why)) => {
                voice.heard(client);
                noted.put(Some(why));
                sleep(REFUSED_RETRY).await;
            }
        }
    }
}

/// `watch /api/v1/nodes (metadata.name=n1)`
fn watching(path: &str, selector: &str) -> String {
    match selector.strip_prefix("fieldSelector=") {
        Some(fields) => format!("watch {path} ({})", fields.replace("%3D", "=")),
        None => format!("watch {path}"),
    }
}

/// One list request, then watch requests from its revision on. Ok: list again at once.
async fn round(
    (client, voice): (&Client, &Voice),
    path: &str,
    selector: &str,
    noted: &NotedRefusal,
    tell: &mut impl AsyncFnMut(News) -> bool,
) -> Result<(), Unheard> {
    let mut list = ask(client, &format!("{path}?{selector}")).await?;
    let mut revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let Value::Array(items) = list["items"].take() else {
        return Err(format!("{path}: the answer is not a list").into());
    };
    // It would be held for as long as the watch goes on.
    drop(list);
    voice.heard(client);
    if !tell(News::Listed(items)).await {
        sleep(RETRY_MAX).await;
        return Ok(());
    }
    loop {
        let url = format!(
            "{path}?{selector}&watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_S}&resourceVersion={revision}"
        );
        let mut lines = match client.stream(&url).await {
            Ok(lines) => lines,
            Err(CallError::Refused(_, reply)) if reply.status.as_u16() == 410 => return Ok(()),
            Err(CallError::Refused(_, reply)) if refusal(&reply).is_some() => return Err(unheard(path, &reply)),
            Err(error) => return Err(error.to_string().into()),
        };
        voice.heard(client);
        noted.put(None);
        loop {
            let line = match timeout(Duration::from_secs(WATCH_S + WATCH_GRACE_S), lines.next()).await {
                Err(_) => return Err("its watch is silent".to_owned().into()),
                Ok(Err(error)) => return Err(error.to_string().into()),
                Ok(Ok(None)) => break,
                Ok(Ok(Some(line))) => line,
            };
            let mut event: Value =
                serde_json::from_slice(&line).map_err(|error| format!("{path}: an event: {error}"))?;
            let object = event["object"].take();
            let gone = match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => false,
                Some("DELETED") => true,
                Some("BOOKMARK") => {
                    take_revision(&mut revision, &object);
                    continue;
                }
                Some("ERROR") if object["code"] == 410 => return Ok(()),
                _ => {
                    let why = object["message"].as_str().unwrap_or("an event that is none");
                    return Err(format!("{path}: {why}").into());
                }
            };
            take_revision(&mut revision, &object);
            if !tell(News::Event { gone, object }).await {
                return Ok(());
            }
        }
        // A watch that ends at once, again and again, is no reason to ask without a pause.
        sleep(Duration::from_millis(100)).await;
    }
}

fn take_revision(revision: &mut String, object: &Value) {
    if let Some(newer) = object["metadata"]["resourceVersion"].as_str() {
        newer.clone_into(revision);
    }
}

/// A document, or why there is none. A refusal is noted.
pub async fn get((client, voice): (&Client, &Voice), path: &str) -> Result<Value, String> {
    let asked = ask(client, path).await;
    let refused = match &asked {
        Err(Unheard::Refused(why)) => Some(why.clone()),
        _ => None,
    };
    if refused.is_some() || asked.is_ok() {
        voice.refusals.note(&format!("read {path}"), refused);
    }
    asked.map_err(|(Unheard::Silent(why) | Unheard::Refused(why))| why)
}

async fn ask(client: &Client, path: &str) -> Result<Value, Unheard> {
    let reply = client.call(Method::GET, path, None).await.map_err(|error| error.to_string())?;
    if !reply.status.is_success() {
        return Err(unheard(path, &reply));
    }
    serde_json::from_slice(&reply.body).map_err(|error| format!("{path}: {error}").into())
}

fn unheard(path: &str, reply: &Reply) -> Unheard {
    match refusal(reply) {
        Some(why) => Unheard::Refused(why),
        None => Unheard::Silent(format!("{path}: {}", reply.status)),
    }
}
