//! Requests that the master refuses: the log says each once, `coracle-agent status` shows them while they last.

use std::collections::BTreeMap;

use coracle_http::StatusCode;
use coracle_http::client::Reply;
use serde_json::Value;
use tokio::sync::watch;

/// Requests that are remembered; beyond that only the log says them.
const REFUSALS_MAX: usize = 100;

/// Shared by all that ask the master.
#[derive(Clone, Debug)]
pub struct Refusals {
    /// By request: the words of the master.
    all: watch::Sender<BTreeMap<String, String>>,
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals { all: watch::channel(BTreeMap::new()).0 }
    }
}

impl Refusals {
    /// How the master answered a request. `what`: the request in words, the same ones each time.
    pub fn note(&self, what: &str, refusal: Option<String>) {
        let refused = refusal.clone();
        let is_new = self.all.send_if_modified(|all| {
            let before = match refused {
                Some(why) if all.len() < REFUSALS_MAX || all.contains_key(what) => all.insert(what.to_owned(), why),
                Some(_) => return false,
                None => all.remove(what),
            };
            before != refusal
        });
        match refusal {
            Some(why) if is_new => log::warn!("the master refuses to {what}: {why}"),
            Some(why) => log::debug!("the master refuses to {what}: {why}"),
            None if is_new => log::info!("the master allows to {what} again"),
            None => {}
        }
    }

    /// For a request that is made again and again, until the value is dropped.
    pub fn of(&self, what: String) -> NotedRefusal {
        NotedRefusal { refusals: self.clone(), what }
    }

    /// Tells each change of `texts`.
    pub fn changes(&self) -> watch::Receiver<BTreeMap<String, String>> {
        self.all.subscribe()
    }

    pub fn texts(&self) -> Vec<String> {
        self.all.borrow().iter().map(|(what, why)| format!("the master refuses to {what}: {why}")).collect()
    }
}

/// The refusal of one request; forgotten when nobody asks any more.
pub struct NotedRefusal {
    refusals: Refusals,
    what: String,
}

impl NotedRefusal {
    pub fn put(&self, refusal: Option<String>) {
        self.refusals.note(&self.what, refusal);
    }
}

impl Drop for NotedRefusal {
    fn drop(&mut self) {
        self.refusals.all.send_if_modified(|all| all.remove(&self.what).is_some());
    }
}

/// Why the master refuses a request that this agent may not make. `None`: the request is allowed, or fails for another
/// reason.
pub fn refusal(reply: &Reply) -> Option<String> {
    if ![StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&reply.status) {
        return None;
    }
    let status: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    // Nothing is made in a namespace that ends: that passes by itself.
    let mut causes = status["details"]["causes"].as_array().into_iter().flatten();
    let passes = causes.any(|cause| cause["reason"] == "NamespaceTerminating");
    (!passes).then(|| words(reply))
}

/// The message of a Status, or the code.
pub fn words(reply: &Reply) -> String {
    let status: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    status["message"].as_str().map_or_else(|| reply.status.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_http::HeaderMap;
    use serde_json::json;

    #[test]
    fn a_refusal_is_shown_while_it_lasts() {
        let refusals = Refusals::default();
        refusals.note("watch x", Some("no".to_owned()));
        refusals.note("watch y", None);
        assert_eq!(refusals.texts(), ["the master refuses to watch x: no"]);
        for n in 0..REFUSALS_MAX + 5 {
            refusals.note(&format!("ask {n}"), Some("no".to_owned()));
        }
        assert_eq!(refusals.texts().len(), REFUSALS_MAX);
        let noted = refusals.of("watch x".to_owned());
        noted.put(Some("still no".to_owned()));
        assert!(refusals.texts().iter().any(|text| text.contains("still no")));
        drop(noted);
        assert!(refusals.texts().iter().all(|text| !text.contains("watch x")));
    }

    #[test]
    fn what_is_a_refusal() {
        let check = |status: u16, body: Value, expected: Option<&str>| {
            let status = StatusCode::from_u16(status).unwrap();
            let reply = Reply { status, headers: HeaderMap::new(), body: body.to_string().into() };
            assert_eq!(refusal(&reply).as_deref(), expected, "{status} {body}");
        };
        check(403, json!({"message": "nodes is forbidden"}), Some("nodes is forbidden"));
        check(401, json!({}), Some("401 Unauthorized"));
        check(404, json!({"message": "not found"}), None);
        check(200, json!({}), None);
        let causes = json!([{"reason": "NamespaceTerminating"}]);
        check(403, json!({"message": "it ends", "details": {"causes": causes}}), None);
    }
}
