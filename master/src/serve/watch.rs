//! Watches: what happened after a revision, or what stands, then what happens.
//!
//!     Store::watch -> the replay, whole, and then each event -> a channel -> the carrier writes at the client's pace
//!
//! No watch has a thread. Whoever reads slower than events come is told that what it has not read is gone, and has its channel closed.

use super::bookmarks::Bookmarks;
use super::pages::{self, Begin};
use super::{Serve, read, selector, timer};
use crate::call::Call;
use crate::fault::Fault;
use crate::form::{Form, Shape};
use crate::making::wall_clock;
use crate::render;
use crate::store::{Event, Scope, Stored, Unwatched};
use bytes::Bytes;
use coracle_api::kinds::Kind;
use coracle_api::meta::{Resource, Revision};
use coracle_api::selector::{Selector, of_key, read_field};
use coracle_api::status::Status;
use coracle_api::watch::{Change, project};
use coracle_http::budget::{Budget, Held, Party};
use coracle_http::channel::{self, channel};
use coracle_http::{Answer, BYTES_TIMES, Body, STREAM_ITEMS_MAX, StatusCode, Stream};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// One piece of a replay: large enough that few writes are made, small enough that little waits.
const PIECE_BYTES: usize = 32 * 1024;
/// Replays that their watchers have not yet taken, all together; one client may have `BYTES_TIMES` what it leaves to others. A single one
/// may be larger; else over it 429.
const REPLAYS_BYTES_MAX: usize = 64 << 20;
/// `Retry-After` in seconds for a watcher that found no place for its replay: places are free as soon as replays are read.
const SOON_S: u32 = 1;
/// The same where all places of watchers are taken.
const AGAIN_S: u32 = 5;
/// Fields that are remembered: of what was and of what is, of every path that pods can be selected by at once.
const READS_MAX: usize = 16;
/// Place in a watcher's channel that no event takes.
const LAST_WORD: usize = 1;
/// Marks the bookmark that ends the state of a streamed list.
const STATE_ENDS: (&str, &str) = ("k8s.io/initial-events-end", "true");

/// The state that all watches share.
#[derive(Default)]
pub struct Watches {
    pub timer: Arc<timer::Timer>,
    pub bookmarks: Arc<Bookmarks>,
    replays: Replays,
    shared: Arc<Shared>,
    views: Mutex<Vec<Weak<View>>>,
}

/// Bytes of replays that are not taken yet.
struct Replays(Budget);

impl Default for Replays {
    fn default() -> Replays {
        Replays(Budget::new(REPLAYS_BYTES_MAX, BYTES_TIMES))
    }
}

impl Replays {
    /// One that is begun.
    fn of(&self, party: Party) -> Replay {
        Replay { pieces: Vec::new(), held: Arc::new(Mutex::new(self.0.take_any(party, 0))) }
    }
}

/// The rendered event, made for one watcher and reused for the next: the thread that tells them is one that all writers wait for.
#[derive(Default)]
struct Shared {
    rendered: Mutex<Option<Rendered>>,
    reads: Mutex<VecDeque<Read>>,
}

/// The value of a field of a document, for all watchers that select by it.
struct Read {
    stored: Stored,
    path: Vec<String>,
    found: Option<String>,
}

/// The event that was written last, for all who are shown it.
struct Rendered {
    words: Words,
    first: bool,
    revision: Revision,
    change: Change,
    line: Bytes,
}

/// The kind and form that a document is shown in: an object of one kind may be shown as another.
#[derive(Clone, PartialEq)]
struct Words {
    form: Form,
    resource: Resource,
    version: Cow<'static, str>,
}

/// Where a watcher's events go.
enum Feed {
    /// What happens while the replay is being made ready, `STREAM_ITEMS_MAX` at most: then the watch ends, and the client resumes there.
    Waiting(Vec<Bytes>),
    Live {
        sender: channel::Sender,
        /// Up to where it knows that it has seen everything.
        last: Revision,
    },
    /// Too slow, gone, or out of time.
    Ended,
}

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
    let view = watches.view(call.form, call.shown, selector);
    let watcher = Arc::new(Watcher { view, fresh: AtomicBool::new(true), feed: Mutex::new(Feed::Waiting(Vec::new())) });
    let scope = Scope { resource: call.kind.resource.clone(), namespace: some(&call.namespace), name: some(&call.name) };
    let told = watcher.clone();
    let watch = match serve.registry.store.watch(scope, after, Box::new(move |event| told.tell(event))) {
        Ok(watch) => watch,
        Err(Unwatched::Gone(gone)) => return Ok(expired(call.form, &Status::expired(after.unwrap_or_default(), gone.oldest))),
        Err(Unwatched::Future { now }) => return Ok(expired(call.form, &Status::expired_future(after.unwrap_or_default(), now))),
        Err(Unwatched::TooMany) => return Err(Status::too_many_requests("as many watch as may", AGAIN_S).into()),
    };
    let mut replay = watcher.replay(&watch.replay, watches.replays.of(call.party))?;
    if call.options.bookmarks && matches!(begin, Begin::State { marked: true, .. }) {
        replay.push(render::bookmark(call.form, call.shown, watch.revision, &[STATE_ENDS], wall_clock()))?;
    }
    let events = go_live(&watcher.feed, replay.pieces, watch.revision);
    if call.options.bookmarks {
        watches.bookmarks.add(&watches.timer, &serve.registry.store, &watcher);
    }
    let ends = call.options.timeout.map(|timeout| {
        let (store, bookmark) = (serve.registry.store.clone(), call.options.bookmarks);
        watches.timer.after(timeout, Box::new(move || watcher.end(bookmark.then(|| store.told()))))
    });
    let lease = Box::new((watch.handle, ends));
    Ok(Answer::new(StatusCode::OK, call.form.stream_type(), Body::Stream(Stream { events, lease })))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

pub fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The replay goes into a channel that holds it whole, as many live events as a watcher may be late with, and the word that it was too late.
fn go_live(feed: &Mutex<Feed>, pieces: Vec<Piece>, begun: Revision) -> channel::Receiver {
    let mut feed = lock(feed);
    let waiting = match std::mem::replace(&mut *feed, Feed::Ended) {
        Feed::Waiting(lines) => lines,
        Feed::Live { .. } | Feed::Ended => Vec::new(),
    };
    let goes_on = waiting.len() < STREAM_ITEMS_MAX;
    let (sender, receiver) = channel(pieces.len() + waiting.len() + STREAM_ITEMS_MAX + LAST_WORD);
    for item in pieces.into_iter().map(Bytes::from_owner).chain(waiting) {
        sender.try_send(item).expect("the channel was made for so many");
    }
    if goes_on {
        *feed = Feed::Live { sender, last: begun };
    }
    receiver
}

/// The replay of earlier events, in pieces of whole events.
struct Replay {
    pieces: Vec<Piece>,
    held: Arc<Mutex<Held>>,
}

impl Replay {
    fn push(&mut self, line: Vec<u8>) -> Result<(), Fault> {
        let added = line.len();
        if !lock(&self.held).grow_most(added) {
            return Err(Status::too_many_requests("others are still reading the start of their watches", SOON_S).into());
        }
        match self.pieces.last_mut().map(|piece| &mut piece.bytes).filter(|bytes| bytes.len() + added <= PIECE_BYTES) {
            Some(bytes) => bytes.extend_from_slice(&line),
            None => self.pieces.push(Piece { bytes: line, held: self.held.clone() }),
        }
        Ok(())
    }
}

/// A part of a replay counts from when it is made until it has been written, and is dropped.
struct Piece {
    bytes: Vec<u8>,
    held: Arc<Mutex<Held>>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        lock(&self.held).shrink(self.bytes.len());
    }
}

/// How events are seen by all who asked for the same.
struct View {
    words: Words,
    kind: Kind,
    selector: Selector,
    shared: Arc<Shared>,
    /// The last event that was looked at, and what it is to them.
    seen: Mutex<(Revision, Option<Change>)>,
}

/// One of them.
pub struct Watcher {
    view: Arc<View>,
    /// Whether nothing has been told yet: the first event of a table brings the columns.
    fresh: AtomicBool,
    feed: Mutex<Feed>,
}

impl Watches {
    fn view(&self, form: Form, kind: &Kind, selector: Selector) -> Arc<View> {
        let mut views = lock(&self.views);
        views.retain(|view| view.strong_count() > 0);
        let words = Words { form, resource: kind.resource.clone(), version: kind.version.clone() };
        let same = |view: &Arc<View>| view.words == words && view.selector == selector;
        if let Some(view) = views.iter().filter_map(Weak::upgrade).find(same) {
            return view;
        }
        let view = Arc::new(View { words, kind: kind.clone(), selector, shared: self.shared.clone(), seen: Mutex::default() });
        views.push(Arc::downgrade(&view));
        view
    }
}

impl Watcher {
    /// Says up to where this watcher has seen everything, unless it knows: events of others have happened since.
    pub fn bookmark(&self, told: Revision) {
        if let Feed::Live { sender, last } = &mut *lock(&self.feed)
            && told > *last
            && sender.try_send_before(LAST_WORD, self.mark(told)).is_ok()
        {
            *last = told;
        }
    }

    /// Its time is up. Whoever wants to know up to where it has seen everything resumes there.
    fn end(&self, told: Option<Revision>) {
        let mut feed = lock(&self.feed);
        if let (Feed::Live { sender, last }, Some(told)) = (&*feed, told) {
            // A watcher that cannot take it resumes from its last event.
            let _ = sender.try_send(self.mark(told.max(*last)));
        }
        *feed = Feed::Ended;
    }

    fn mark(&self, told: Revision) -> Bytes {
        render::bookmark(self.view.words.form, &self.view.kind, told, &[], wall_clock()).into()
    }

    fn replay(&self, events: &[Event], mut replay: Replay) -> Result<Replay, Fault> {
        for event in events {
            let shown = project(event.old.as_ref(), event.new.as_ref(), |stored| selector::matches(&self.view.selector, stored));
            let Some((change, stored)) = shown else { continue };
            let first = self.view.is_table() && self.fresh.swap(false, Ordering::Relaxed);
            replay.push(self.view.render(event.revision, change, stored, first))?;
        }
        Ok(replay)
    }

    /// On the committing thread. `false` ends the watch.
    fn tell(&self, event: &Event) -> bool {
        let mut feed = lock(&self.feed);
        // What happens while the replay is being made ready cannot know whether the replay will bring the columns: it brings them too.
        let early = matches!(*feed, Feed::Waiting(_));
        let Some((change, stored)) = self.view.shown(event) else { return !matches!(*feed, Feed::Ended) };
        let first = self.view.is_table() && (early || self.fresh.swap(false, Ordering::Relaxed));
        let line = self.view.line(event.revision, change, stored, first);
        let taken = match &mut *feed {
            Feed::Waiting(lines) => {
                lines.push(line);
                // What it has is sent all the same.
                return lines.len() < STREAM_ITEMS_MAX;
            }
            Feed::Live { sender, last } if sender.try_send_before(LAST_WORD, line).is_ok() => {
                *last = event.revision;
                true
            }
            Feed::Live { sender, last } => {
                let gone = render::error_event(self.view.words.form, &Status::expired(*last, event.revision));
                // Whoever has left needs no word.
                let _ = sender.try_send(gone.into());
                false
            }
            Feed::Ended => false,
        };
        if !taken {
            *feed = Feed::Ended;
        }
        taken
    }
}

impl View {
    /// None: the event is nothing to them.
    fn shown<'e>(&self, event: &'e Event) -> Option<(Change, &'e Stored)> {
        let mut seen = lock(&self.seen);
        if seen.0 != event.revision {
            *seen = (event.revision, self.projected(event));
        }
        let change = seen.1?;
        let stored = if change == Change::Deleted { &event.old } else { &event.new };
        Some((change, stored.as_ref()?))
    }

    fn projected(&self, event: &Event) -> Option<Change> {
        let Selector { labels, fields } = &self.selector;
        let selects = |stored: &Stored| {
            labels.matches(&stored.labels) && (fields.is_everything() || fields.matches_found(|path| self.shared.read(stored, path)))
        };
        project(event.old.as_ref(), event.new.as_ref(), selects).map(|(change, _)| change)
    }

    fn line(&self, revision: Revision, change: Change, stored: &Stored, first: bool) -> Bytes {
        let mut rendered = lock(&self.shared.rendered);
        let same = |last: &&Rendered| (last.first, last.revision, last.change) == (first, revision, change) && last.words == self.words;
        if let Some(last) = rendered.as_ref().filter(same) {
            return last.line.clone();
        }
        let line = Bytes::from(self.render(revision, change, stored, first));
        *rendered = Some(Rendered { words: self.words.clone(), first, revision, change, line: line.clone() });
        line
    }

    fn render(&self, revision: Revision, change: Change, stored: &Stored, first: bool) -> Vec<u8> {
        render::event(self.words.form, &self.kind, change, stored, revision, first, wall_clock())
    }

    /// Only tables mind which event is the first; all others share what is rendered.
    fn is_table(&self) -> bool {
        matches!(self.words.form.shape, Shape::Table(..))
    }
}

impl Shared {
    fn read(&self, stored: &Stored, path: &[String]) -> Option<String> {
        if let Some(found) = of_key(&stored.key, path) {
            return found;
        }
        let mut reads = lock(&self.reads);
        if let Some(read) = reads.iter().find(|read| read.stored.is(stored) && read.path == path) {
            return read.found.clone();
        }
        let found = read_field(&stored.json, path);
        if reads.len() == READS_MAX {
            reads.pop_front();
        }
        reads.push_back(Read { stored: stored.clone(), path: path.to_vec(), found: found.clone() });
        found
    }
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
    use crate::store::Write;
    use coracle_api::meta::{Durable, Key};
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
        let event: Value = serde_json::from_slice(&future.events.try_recv().expect("it is told at once")).expect("JSON");
        let said = (&event["type"], &event["object"]["code"], &event["object"]["reason"]);
        assert_eq!(said, (&json!("ERROR"), &json!(410), &json!("Expired")), "{event}");
        let message = event["object"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(&format!("too large resource version: {}, current: {now}", now + 1)), "{message}");
        assert!(future.events.is_closed(), "and that is all");
    }

    #[test]
    fn replays_are_counted_until_they_are_read() {
        let replays = Replays::default();
        let other = Party::Address([10, 0, 0, 1].into());
        let mut large = replays.of(Party::Local);
        assert!((0..3).all(|_| large.push(vec![0; REPLAYS_BYTES_MAX / 2]).is_ok()), "a single one may be larger");
        let mut second = replays.of(Party::Local);
        let refused = second.push(vec![0; 1]).expect_err("it is too much");
        assert_eq!((refused.status.code, refused.status.details.and_then(|details| details.retry_after_s)), (429, Some(SOON_S)));
        let mut others = replays.of(other);
        assert!(others.push(vec![0; 1 << 20]).is_ok(), "others find room");
        // What was not counted is given back first.
        large.pieces.pop();
        assert!(second.push(vec![0; 1]).is_err());
        large.pieces.clear();
        assert!(second.push(vec![0; 1]).is_ok());
        assert_eq!((second.pieces.len(), replays.0.taken()), (1, (1 << 20) + 1));
        drop((large, second, others));
        assert_eq!(replays.0.taken(), 0);
    }

    #[test]
    fn each_is_told_in_the_words_it_asked_in() {
        let (serve, store) = crate::serve::tests::serve();
        let told = ["/api/v1/events", "/apis/events.k8s.io/v1/events", "/api/v1/events"].map(|path| {
            let kinds = serve.registry.kinds();
            let Ok(Route::Object(call)) = call::parse(&kinds, "GET", path, "watch=1") else { panic!("{path}") };
            let Ok(Answer { body: Body::Stream(stream), .. }) = watch(&serve, &call) else { panic!("{path}") };
            stream
        });
        assert_eq!(lock(&serve.watches.views).len(), 2, "two of them ask for the same");
        let key = Key { resource: Resource::core("events"), namespace: "a".to_owned(), name: "b".to_owned() };
        let object = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "b", "namespace": "a"}});
        store.write(Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() }).expect("it is new");
        let versions = told.map(|mut stream| {
            let event: Value = serde_json::from_slice(&stream.events.try_recv().expect("it was told")).expect("JSON");
            event["object"]["apiVersion"].clone()
        });
        assert_eq!(versions, ["v1", "events.k8s.io/v1", "v1"]);
    }

    #[test]
    fn a_watch_ends_where_too_much_happens_before_it_begins() {
        for (waiting, lives) in [(STREAM_ITEMS_MAX - 1, true), (STREAM_ITEMS_MAX, false)] {
            let feed = Mutex::new(Feed::Waiting(vec![Bytes::from_static(b"event"); waiting]));
            let mut events = go_live(&feed, Vec::new(), Revision(1));
            assert_eq!(std::iter::from_fn(|| events.try_recv()).count(), waiting, "all of it is told");
            assert_eq!((matches!(*lock(&feed), Feed::Live { .. }), events.is_closed()), (lives, !lives));
        }
    }
}
