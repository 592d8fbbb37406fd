//! Watches: what happened after a revision, or what stands, then what happens.
//!
//!     Store::watch -> the replay, whole, and then each event -> a channel -> the carrier writes at the client's pace
//!
//! No watch has a thread. Whoever reads slower than events come is told that what it has not read is gone, and has its
//! channel closed.

use super::pages::{self, Begin};
use super::{Serve, read, selector};
use crate::call::Call;
use crate::fault::Fault;
use crate::form::Form;
use crate::making::wall_clock;
use crate::render;
use crate::store::{Scope, Unwatched};
use bytes::Bytes;
use coracle_api::status::Status;
use coracle_http::channel::channel;
use coracle_http::{Answer, Body, StatusCode, Stream};

/// `Retry-After` in seconds where all places of watchers are taken.
const AGAIN_S: u32 = 5;
/// Marks the bookmark that ends the state of a streamed list.
const STATE_ENDS: (&str, &str) = ("k8s.io/initial-events-end", "true");

pub fn watch(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let selector = selector::of(call)?;
    let begin = pages::of_watch(&call.options)?;
    let after = match begin {
        Begin::State { not_before, .. } => {
            read::not_from_the_future(serve, not_before)?;
            None
        }
        Begin::Now => Some(serve.registry.store.revision()),
        Begin::After(revision) => Some(revision),
    };
    let watches = &serve.watches;
    let watcher = watches.views.watcher(call.form, call.shown, selector);
    let scope =
        Scope { resource: call.kind.resource.clone(), namespace: some(&call.namespace), name: some(&call.name) };
    let follower = watcher.clone();
    let watch = match serve.registry.store.watch(scope, after, Box::new(move |event| follower.tell(event))) {
        Ok(watch) => watch,
        Err(Unwatched::Gone(gone)) => {
            return Ok(expired(call.form, &Status::expired(after.unwrap_or_default(), gone.oldest)));
        }
        Err(Unwatched::Future { now }) => {
            return Ok(expired(call.form, &Status::expired_future(after.unwrap_or_default(), now)));
        }
        Err(Unwatched::TooMany) => return Err(Status::too_many_requests("as many watch as may", AGAIN_S).into()),
    };
    let mut replay = watcher.replay(&watch.replay, watches.replays.of(call.party))?;
    if call.options.bookmarks && matches!(begin, Begin::State { marked: true, .. }) {
        replay.push(render::bookmark(call.form, call.shown, watch.revision, &[STATE_ENDS], wall_clock()))?;
    }
    let events = watcher.go_live(replay, watch.revision);
    if call.options.bookmarks {
        watches.bookmarks.add(&watches.timer, &serve.registry.store, &watcher);
    }
    let ends = call.options.timeout.map(|timeout| {
        let (store, bookmark) = (serve.registry.store.clone(), call.options.bookmarks);
        watches.timer.after(timeout, Box::new(move || watcher.end(bookmark.then(|| store.delivered()))))
    });
    let lease = Box::new((watch.handle, ends));
    Ok(Answer::new(StatusCode::OK, call.form.stream_type(), Body::Stream(Stream { events, lease })))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// As Kubernetes says it: a watch that begins well, and one event that is an error.
fn expired(form: Form, status: &Status) -> Answer {
    let line = render::error_event(form, status);
    let (sender, events) = channel(1);
    sender.try_send(Bytes::from(line)).expect("the channel holds one");
    Answer::new(StatusCode::OK, form.stream_type(), Body::Stream(Stream { events, lease: Box::new(()) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{self, Route};
    use crate::serve::tests::serve;
    use serde_json::{Value, json};

    #[test]
    fn who_comes_from_a_revision_that_is_not_there_lists_again() {
        let (serve, store) = serve();
        let watching = |revision: u64| {
            let query = format!("watch=1&resourceVersion={revision}");
            let kinds = serve.registry.kinds();
            let Ok(Route::Object(call)) = call::parse(&kinds, "GET", "/api/v1/pods", &query) else { panic!("{query}") };
            let Ok(answer) = watch(&serve, &call) else { panic!("{query}") };
            let Body::Stream(stream) = answer.body else { panic!("{query}") };
            stream
        };
        let now = store.revision().0;
        assert!(!watching(now).events.is_closed(), "the present is waited from");
        let mut future = watching(now + 1);
        let event: Value =
            serde_json::from_slice(&future.events.try_recv().expect("it is told at once")).expect("JSON");
        let said = (&event["type"], &event["object"]["code"], &event["object"]["reason"]);
        assert_eq!(said, (&json!("ERROR"), &json!(410), &json!("Expired")), "{event}");
        let message = event["object"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(&format!("too large resource version: {}, current: {now}", now + 1)), "{message}");
        assert!(future.events.is_closed(), "and that is all");
    }
}
