//! Watches: what happened after a revision, or what stands, then what happens.
//!
//!     Store::watch -> the replay, whole, and then each event -> a channel -> the carrier writes at the client's pace
//!
//! No watch has a thread. Whoever reads slower than events come is told that what it has not read is gone, and has its
//! channel closed.

use super::pages::{self, Begin};
use super::watches::Watches;
use super::{Serve, read, selector};
use crate::call::Call;
use crate::fault::Fault;
use crate::form::Form;
use crate::making::wall_clock;
use crate::render;
use crate::store::{Scope, Unwatched};
use bytes::Bytes;
use coracle_api::meta::Key;
use coracle_api::selector::FieldSelector;
use coracle_api::status::Status;
use coracle_http::channel::channel;
use coracle_http::{Answer, Body, StatusCode, Stream};
use std::time::Duration;

/// `Retry-After` in seconds where all places of watchers are taken.
const AGAIN_S: u32 = 5;
/// How long a watch may wait for a revision that is not there yet.
const FUTURE_MAX: Duration = Duration::from_secs(10);
/// Marks the bookmark that ends the state of a streamed list.
const STATE_ENDS: (&str, &str) = ("k8s.io/initial-events-end", "true");

pub fn watch(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let selector = selector::of(call)?;
    let begin = pages::of_watch(call)?;
    let after = match begin {
        Begin::State { not_before, .. } => {
            if let Err(fault) = read::not_from_the_future(serve, not_before) {
                return Ok(expired(call.form, &fault.status));
            }
            None
        }
        Begin::Now => Some(serve.registry.store.revision()),
        Begin::After(revision) => Some(revision),
    };
    let watches = &serve.watches;
    let kinds = serve.registry.kinds();
    // The request began with a table that is over by now: the client is told with its next one.
    let Some(kind) = kinds.shared(call.shown) else { return Ok(ended(call.form)) };
    let fields = selector.fields.clone();
    let watcher = watches.views.watcher(call.form, kind.clone(), selector);
    let scope =
        Scope { resource: call.kind.resource.clone(), namespace: some(&call.namespace), name: some(&call.name) };
    if after.is_none() {
        refuse_shut(serve, &scope, &fields)?;
    }
    let follower = watcher.clone();
    let watch = match serve.registry.store.watch(scope, after, Box::new(move |event| follower.tell(event))) {
        Ok(watch) => watch,
        Err(Unwatched::Gone(gone)) => {
            return Ok(expired(call.form, &Status::expired(after.unwrap_or_default(), gone.oldest)));
        }
        Err(Unwatched::Future { now }) => {
            let status = Status::expired_future(after.unwrap_or_default(), now);
            return Ok(waiting(watches, call, render::error_event(call.form, &status)));
        }
        Err(Unwatched::TooMany) => return Err(Status::too_many_requests("as many watch as may", AGAIN_S).into()),
    };
    let mut replay = watcher.replay(&watch.replay, watches.replays.of(call.party))?;
    if call.options.bookmarks && matches!(begin, Begin::State { marked: true, .. }) {
        replay.push(render::bookmark(call.form, call.shown, watch.revision, &[STATE_ENDS], wall_clock()))?;
    }
    let events = watcher.go_live(replay, watch.revision);
    // After it can be found: whoever takes a kind away ends the watches that there are by then.
    if !serve.registry.kinds().holds(&kind) {
        watcher.end(None);
    }
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

/// Whoever follows the state of everything else would take what cannot be opened for gone.
fn refuse_shut(serve: &Serve, scope: &Scope, fields: &FieldSelector) -> Result<(), Fault> {
    let shut = serve.registry.store.health().shut;
    let of = |key: &Key| scope.holds(key) && fields.may_match(key);
    match shut.iter().find_map(|damage| Some((damage.key.as_ref().filter(|key| of(key))?, damage))) {
        Some((key, damage)) => Err(Fault::damaged(key, &damage.why)),
        None => Ok(()),
    }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

/// How long a watch from the future stays open, and whether it ends with an error.
fn patience(timeout: Option<Duration>) -> (Duration, bool) {
    let ends_itself = timeout.filter(|timeout| *timeout <= FUTURE_MAX);
    (ends_itself.unwrap_or(FUTURE_MAX), ends_itself.is_none())
}

/// Nothing happens in a watch from the future, as in Kubernetes. Whoever goes on watching has seen another state of
/// this cluster, before a backup was put back, and is told to list again.
fn waiting(watches: &Watches, call: &Call, line: Vec<u8>) -> Answer {
    let (wait, told) = patience(call.options.timeout);
    let (sender, events) = channel(1);
    let ends = move || {
        // Who is gone is not told.
        let _ = told.then(|| sender.try_send(Bytes::from(line)));
    };
    let lease = Box::new(watches.timer.after(wait, Box::new(ends)));
    Answer::new(StatusCode::OK, call.form.stream_type(), Body::Stream(Stream { events, lease }))
}

/// A watch that is over as it begins.
fn ended(form: Form) -> Answer {
    let (_, events) = channel(1);
    Answer::new(StatusCode::OK, form.stream_type(), Body::Stream(Stream { events, lease: Box::new(()) }))
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
    fn who_comes_from_a_revision_that_is_not_there_waits_and_lists_again() {
        let (serve, store) = serve();
        let watching = |query: String| {
            let kinds = serve.registry.kinds();
            let Ok(Route::Object(call)) = call::parse(&kinds, "GET", "/api/v1/pods", &query) else { panic!("{query}") };
            let Ok(answer) = watch(&serve, &call) else { panic!("{query}") };
            let Body::Stream(stream) = answer.body else { panic!("{query}") };
            stream
        };
        let now = store.revision().0;
        assert!(!watching(format!("watch=1&resourceVersion={now}")).events.is_closed(), "the present is waited from");
        let mut future = watching(format!("watch=1&resourceVersion={}", now + 1));
        assert!(future.events.try_recv().is_none() && !future.events.is_closed(), "nothing is told at once");
        let streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let mut state = watching(format!("watch=1&{streamed}&resourceVersion={}", now + 1));
        let event: Value = serde_json::from_slice(&state.events.try_recv().expect("it is told at once")).expect("JSON");
        let said = (&event["type"], &event["object"]["code"], &event["object"]["reason"]);
        assert_eq!(said, (&json!("ERROR"), &json!(504), &json!("Timeout")), "{event}");
        assert!(state.events.is_closed(), "and that is all");
    }

    #[test]
    fn patience_with_the_future() {
        let s = Duration::from_secs;
        for (timeout, wait, told) in
            [(None, 10, true), (Some(300), 10, true), (Some(11), 10, true), (Some(10), 10, false), (Some(2), 2, false)]
        {
            assert_eq!(patience(timeout.map(s)), (s(wait), told), "{timeout:?}");
        }
    }
}
