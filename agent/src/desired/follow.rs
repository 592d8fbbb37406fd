//! Lists and watches one resource of the master, and continues after every failure.
//!
//!     list -> watch from its revision -> events ... -> the watch ends: resume · 410 or a lost event: list again

use std::time::Duration;

use coracle_http::Method;
use coracle_http::client::{CallError, Client};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// The server ends a watch after this, so a watch that hangs does not hang for ever.
const WATCH_S: u64 = 300;
const WATCH_GRACE_S: u64 = 30;
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(10);

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

/// Why the master could not be heard; said once for each outage, by whoever says it first.
#[derive(Clone, Default)]
pub struct Voice {
    silent: std::sync::Arc<watch::Sender<bool>>,
}

impl Voice {
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
    loop {
        match round(client, voice, path, selector, &mut tell).await {
            Ok(()) => retry = RETRY,
            Err(why) => {
                voice.lost(client, &why);
                sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
}

/// One list request, then watch requests from its revision on. Ok: list again at once.
async fn round(
    client: &Client,
    voice: &Voice,
    path: &str,
    selector: &str,
    tell: &mut impl AsyncFnMut(News) -> bool,
) -> Result<(), String> {
    let mut list = get(client, &format!("{path}?{selector}")).await?;
    let mut revision = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let Value::Array(items) = list["items"].take() else { return Err(format!("{path}: the answer is not a list")) };
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
            Err(error) => return Err(error.to_string()),
        };
        voice.heard(client);
        loop {
            let line = match timeout(Duration::from_secs(WATCH_S + WATCH_GRACE_S), lines.next()).await {
                Err(_) => return Err("its watch is silent".to_owned()),
                Ok(Err(error)) => return Err(error.to_string()),
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
                _ => return Err(format!("{path}: {}", object["message"].as_str().unwrap_or("an event that is none"))),
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

/// A document, or why there is none.
pub async fn get(client: &Client, path: &str) -> Result<Value, String> {
    let reply = client.call(Method::GET, path, None).await.map_err(|error| error.to_string())?;
    if !reply.status.is_success() {
        return Err(format!("{path}: {}", reply.status));
    }
    serde_json::from_slice(&reply.body).map_err(|error| format!("{path}: {error}"))
}
