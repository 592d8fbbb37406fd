//! Watches: what happened after a revision, or what stands, then what happens.
//!
//!     Store::watch -> the replay, whole, and then each event -> a channel -> the carrier writes at the client's pace
//!
//! No watch has a thread. Whoever reads slower than events come has its channel closed: its client resumes where it was.

use super::{Serve, read, selector, timer};
use crate::call::Call;
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::render::{self, Form, Shape};
use crate::store::{Event, Scope, Store, Stored};
use bytes::Bytes;
use coracle_api::kinds::Kind;
use coracle_api::meta::Revision;
use coracle_api::selector::Selector;
use coracle_api::status::Status;
use coracle_api::watch::{Change, project};
use coracle_http::{Answer, Body, STREAM_ITEMS_MAX, StatusCode, Stream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// One piece of a replay: large enough that few writes are made, small enough that little waits.
const PIECE_BYTES: usize = 32 * 1024;
/// Replays that their watchers have not yet taken, all together. A single one may be larger; else over it 429.
const REPLAYS_BYTES_MAX: usize = 64 << 20;

/// What all watches share.
#[derive(Default)]
pub struct Watches {
    timer: timer::Timer,
    replays: Arc<AtomicUsize>,
    rendered: Arc<Mutex<Option<Rendered>>>,
}

/// The event that was written last: the next watcher of the same commit gets the same bytes.
struct Rendered {
    form: Form,
    first: bool,
    revision: Revision,
    change: Change,
    line: Bytes,
}

/// Where a watcher's events go.
enum Feed {
    /// What happens while the replay is being made ready.
    Waiting(Vec<Bytes>),
    Live {
        sender: mpsc::Sender<Bytes>,
        last: Revision,
    },
    /// Too slow, gone, or out of time.
    Ended,
}

pub fn watch(serve: &Serve, call: &Call) -> Result<Answer, Fault> {
    let selector = selector::of(call)?;
    if call.options.initial_events {
        // Said, and not passed over: clients that stream lists wait for the end of the state, or list instead when refused.
        return Err(read::refused(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for watch: lists are not streamed here, list and watch instead",
        ));
    }
    if !call.options.resource_version_match.is_empty() {
        return Err(read::refused(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ));
    }
    let after = match call.options.resource_version.as_str() {
        "" | "0" => None,
        _ => Some(read::number(&call.options)?),
    };
    let feed = Arc::new(Mutex::new(Feed::Waiting(Vec::new())));
    let watcher = Watcher {
        form: call.form,
        kind: call.shown.clone(),
        selector,
        fresh: AtomicBool::new(true),
        rendered: serve.watches.rendered.clone(),
    };
    let watcher = Arc::new(watcher);
    let scope = Scope { resource: call.kind.resource.clone(), namespace: some(&call.namespace), name: some(&call.name) };
    let (told, into) = (watcher.clone(), feed.clone());
    let watch = match serve.store.watch(scope, after, Box::new(move |event| told.tell(event, &into))) {
        Ok(watch) => watch,
        Err(gone) => return Ok(expired(call.form, after.unwrap_or_default(), gone.oldest)),
    };
    let events = go_live(&serve.watches, &feed, watcher.replay(&watch.replay))?;
    let ends = call.options.timeout.map(|timeout| {
        let last_words =
            LastWords { store: serve.store.clone(), form: call.form, kind: call.shown.clone(), bookmark: call.options.bookmarks };
        serve.watches.timer.after(timeout, Box::new(move || last_words.end(&feed)))
    });
    let lease = Box::new((watch.handle, ends));
    Ok(Answer::new(StatusCode::OK, call.form.stream_type(), Body::Stream(Stream { events, lease })))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The replay goes into a channel that holds it whole, and as many live events as a watcher may be late with.
fn go_live(watches: &Watches, feed: &Mutex<Feed>, pieces: Vec<Vec<u8>>) -> Result<mpsc::Receiver<Bytes>, Fault> {
    let bytes: usize = pieces.iter().map(Vec::len).sum();
    let before = watches.replays.fetch_add(bytes, Ordering::Relaxed);
    if before > 0 && before + bytes > REPLAYS_BYTES_MAX {
        watches.replays.fetch_sub(bytes, Ordering::Relaxed);
        return Err(Status::too_many_requests("others are still reading the start of their watches", 1).into());
    }
    let mut feed = lock(feed);
    let waiting = match std::mem::replace(&mut *feed, Feed::Ended) {
        Feed::Waiting(lines) => lines,
        Feed::Live { .. } | Feed::Ended => Vec::new(),
    };
    let (sender, receiver) = mpsc::channel(pieces.len() + waiting.len() + STREAM_ITEMS_MAX);
    let pieces = pieces.into_iter().map(|bytes| Bytes::from_owner(Piece { bytes, replays: watches.replays.clone() }));
    for item in pieces.chain(waiting) {
        sender.try_send(item).expect("the channel was made for so many");
    }
    *feed = Feed::Live { sender, last: Revision(0) };
    Ok(receiver)
}

/// A part of a replay that nobody has taken yet counts; it is dropped when it has been written.
struct Piece {
    bytes: Vec<u8>,
    replays: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.replays.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// What a watch does when its time is up.
struct LastWords {
    store: Store,
    form: Form,
    kind: Kind,
    /// The client wants to know up to where it has seen everything, so that it resumes there.
    bookmark: bool,
}

impl LastWords {
    fn end(self, feed: &Mutex<Feed>) {
        let told = self.bookmark.then(|| self.told()).flatten();
        let mut feed = lock(feed);
        if let (Feed::Live { sender, last }, Some(told)) = (&*feed, told) {
            // A watcher that cannot take it resumes from its last event.
            let _ = sender.try_send(render::bookmark(self.form, &self.kind, told.max(*last), &[], wall_clock()).into());
        }
        *feed = Feed::Ended;
    }

    /// A revision up to which every watcher has been told everything: that at which a new one would begin.
    fn told(&self) -> Option<Revision> {
        let nothing = Scope { resource: self.kind.resource.clone(), namespace: None, name: Some(String::new()) };
        self.store.watch(nothing, Some(self.store.revision()), Box::new(|_| false)).ok().map(|watch| watch.revision)
    }
}

/// How one watcher sees events.
struct Watcher {
    form: Form,
    kind: Kind,
    selector: Selector,
    /// Whether nothing has been told yet: the first event of a table brings the columns.
    fresh: AtomicBool,
    rendered: Arc<Mutex<Option<Rendered>>>,
}

impl Watcher {
    /// What was before, in pieces of whole events.
    fn replay(&self, events: &[Event]) -> Vec<Vec<u8>> {
        let mut pieces: Vec<Vec<u8>> = Vec::new();
        for event in events {
            let Some((change, stored)) = self.shown(event) else { continue };
            let first = self.is_table() && self.fresh.swap(false, Ordering::Relaxed);
            let line = self.render(event.revision, change, stored, first);
            match pieces.last_mut().filter(|piece| piece.len() + line.len() <= PIECE_BYTES) {
                Some(piece) => piece.extend_from_slice(&line),
                None => pieces.push(line),
            }
        }
        pieces
    }

    /// On the committing thread. `false` ends the watch.
    fn tell(&self, event: &Event, feed: &Mutex<Feed>) -> bool {
        let Some((change, stored)) = self.shown(event) else { return !matches!(*lock(feed), Feed::Ended) };
        // What happens while the replay is being made ready cannot know whether the replay will bring the columns: it brings them too.
        let early = matches!(*lock(feed), Feed::Waiting(_));
        let line = self.line(event.revision, change, stored, early);
        let mut feed = lock(feed);
        let taken = match &mut *feed {
            Feed::Waiting(lines) => {
                lines.push(line);
                true
            }
            Feed::Live { sender, last } => {
                *last = event.revision;
                sender.try_send(line).is_ok()
            }
            Feed::Ended => false,
        };
        if !taken {
            *feed = Feed::Ended;
        }
        taken
    }

    fn shown<'e>(&self, event: &'e Event) -> Option<(Change, &'e Stored)> {
        project(event.old.as_ref(), event.new.as_ref(), |stored| selector::matches(&self.selector, stored))
    }

    fn line(&self, revision: Revision, change: Change, stored: &Stored, early: bool) -> Bytes {
        let first = self.is_table() && (early || self.fresh.swap(false, Ordering::Relaxed));
        let mut rendered = lock(&self.rendered);
        let same = |last: &&Rendered| (last.form, last.first, last.revision, last.change) == (self.form, first, revision, change);
        if let Some(last) = rendered.as_ref().filter(same) {
            return last.line.clone();
        }
        let line = Bytes::from(self.render(revision, change, stored, first));
        *rendered = Some(Rendered { form: self.form, first, revision, change, line: line.clone() });
        line
    }

    fn render(&self, revision: Revision, change: Change, stored: &Stored, first: bool) -> Vec<u8> {
        render::event(self.form, &self.kind, change, stored, revision, first, wall_clock())
    }

    /// Only tables mind which event is the first; all others share what is rendered.
    fn is_table(&self) -> bool {
        matches!(self.form.shape, Shape::Table(..))
    }
}

/// As Kubernetes says it: a watch that begins well, and one event that is an error.
fn expired(form: Form, asked: Revision, oldest: Revision) -> Answer {
    let line = render::error_event(form, &Status::expired(asked, oldest));
    let (sender, events) = mpsc::channel(1);
    sender.try_send(Bytes::from(line)).expect("the channel holds one");
    Answer::new(StatusCode::OK, form.stream_type(), Body::Stream(Stream { events, lease: Box::new(()) }))
}
