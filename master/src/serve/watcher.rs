//! Those who watch: an event becomes a line in the words that they asked for, one for all who asked for the same, and
//! goes into the channel of each.

use super::replay::{Piece, Replay};
use super::selector;
use crate::fault::Fault;
use crate::form::{Form, Shape};
use crate::making::wall_clock;
use crate::render;
use crate::store::locked;
use crate::store::{Event, Stored};
use bytes::Bytes;
use coracle_api::kinds::{Kind, Kinds};
use coracle_api::meta::{Resource, Revision};
use coracle_api::selector::{Selector, of_key, read_field};
use coracle_api::status::Status;
use coracle_api::watch::{Change, project};
use coracle_http::STREAM_ITEMS_MAX;
use coracle_http::channel::{self, channel};
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Place in a watcher's channel that no event takes.
const LAST_WORD: usize = 1;

/// The rendered event, made for one watcher and reused for the next: all writers wait for the thread that delivers
/// events.
#[derive(Default)]
struct Shared {
    rendered: Mutex<Option<Rendered>>,
    reads: Mutex<Reads>,
}

/// What was read for the event of this revision. For the next one it is forgotten, and the documents with it.
#[derive(Default)]
struct Reads {
    revision: Revision,
    reads: Vec<Read>,
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

/// The kind and form of a shown document: an object may be shown as a different kind.
#[derive(Clone, PartialEq)]
struct Words {
    form: Form,
    resource: Resource,
    version: Cow<'static, str>,
}

/// Where a watcher's events go.
enum Feed {
    /// What happens while the replay is being made ready, `STREAM_ITEMS_MAX` at most: then the watch ends, and the
    /// client resumes there.
    Waiting(Vec<Bytes>),
    Live {
        sender: channel::Sender,
        /// The revision up to which the client knows to have seen all events.
        last: Revision,
    },
    /// Too slow, gone, or out of time.
    Ended,
}

/// The replay goes into a channel that holds it whole, as many live events as a watcher may be late with, and the word
/// that it was too late.
fn go_live(feed: &Mutex<Feed>, pieces: Vec<Piece>, begun: Revision) -> channel::Receiver {
    let mut feed = locked(feed);
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

/// How events are seen by all who asked for the same.
struct View {
    words: Words,
    kind: Arc<Kind>,
    selector: Selector,
    shared: Arc<Shared>,
    watchers: Mutex<Vec<Weak<Watcher>>>,
    /// The last examined event, and the change in the eyes of these watchers.
    seen: Mutex<(Revision, Option<Change>)>,
}

/// One of them.
pub struct Watcher {
    view: Arc<View>,
    /// Whether nothing has been told yet: the first event of a table brings the columns.
    fresh: AtomicBool,
    feed: Mutex<Feed>,
}

/// The views of all watchers.
#[derive(Default)]
pub struct Views {
    shared: Arc<Shared>,
    views: Mutex<Vec<Weak<View>>>,
}

impl Views {
    /// One who watches, and has been told nothing yet.
    pub fn watcher(&self, form: Form, kind: Arc<Kind>, selector: Selector) -> Arc<Watcher> {
        let (view, fresh) = (self.view(form, kind, selector), AtomicBool::new(true));
        let watcher = Arc::new(Watcher { view, fresh, feed: Mutex::new(Feed::Waiting(Vec::new())) });
        let mut watchers = locked(&watcher.view.watchers);
        // Those that have left would keep their place, however many come and go.
        if watchers.len() == watchers.capacity() {
            watchers.retain(|watcher| watcher.strong_count() > 0);
        }
        watchers.push(Arc::downgrade(&watcher));
        drop(watchers);
        watcher
    }

    /// Ends the watches of kinds that are not served any more, or not as they were.
    pub fn end_without(&self, kinds: &Kinds) {
        let views: Vec<Arc<View>> = locked(&self.views).iter().filter_map(Weak::upgrade).collect();
        for view in views.iter().filter(|view| !kinds.holds(&view.kind)) {
            let watchers: Vec<_> = locked(&view.watchers).iter().filter_map(Weak::upgrade).collect();
            watchers.iter().for_each(|watcher| watcher.end(None));
        }
    }

    fn view(&self, form: Form, kind: Arc<Kind>, selector: Selector) -> Arc<View> {
        let mut views = locked(&self.views);
        views.retain(|view| view.strong_count() > 0);
        let words = Words { form, resource: kind.resource.clone(), version: kind.version.clone() };
        let same =
            |view: &Arc<View>| view.words == words && view.selector == selector && Arc::ptr_eq(&view.kind, &kind);
        if let Some(view) = views.iter().filter_map(Weak::upgrade).find(same) {
            return view;
        }
        let (shared, watchers, seen) = (self.shared.clone(), Mutex::default(), Mutex::default());
        let view = Arc::new(View { words, kind, selector, shared, watchers, seen });
        views.push(Arc::downgrade(&view));
        view
    }
}

impl Watcher {
    /// After the replay the watcher gets new events.
    pub fn go_live(&self, replay: Replay, begun: Revision) -> channel::Receiver {
        go_live(&self.feed, replay.pieces, begun)
    }

    /// Sends a bookmark if the revision is new to the watcher, because unselected events have happened since.
    pub fn bookmark(&self, delivered: Revision) {
        if let Feed::Live { sender, last } = &mut *locked(&self.feed)
            && delivered > *last
            && sender.try_send_before(LAST_WORD, self.mark(delivered)).is_ok()
        {
            *last = delivered;
        }
    }

    /// Its time is up. Whoever wants to know up to where it has seen everything resumes there.
    pub fn end(&self, delivered: Option<Revision>) {
        let mut feed = locked(&self.feed);
        if let (Feed::Live { sender, last }, Some(delivered)) = (&*feed, delivered) {
            // A watcher that cannot take it resumes from its last event.
            let _ = sender.try_send(self.mark(delivered.max(*last)));
        }
        *feed = Feed::Ended;
    }

    fn mark(&self, delivered: Revision) -> Bytes {
        render::bookmark(self.view.words.form, &self.view.kind, delivered, &[], wall_clock()).into()
    }

    pub fn replay(&self, events: &[Event], mut replay: Replay) -> Result<Replay, Fault> {
        for event in events {
            let shown = project(event.old.as_ref(), event.new.as_ref(), |stored| {
                selector::matches(&self.view.selector, stored)
            });
            let Some((change, stored)) = shown else { continue };
            let first = self.view.is_table() && self.fresh.swap(false, Ordering::Relaxed);
            replay.push(self.view.render(event.revision, change, stored, first))?;
        }
        Ok(replay)
    }

    /// On the committing thread. `false` ends the watch.
    pub fn tell(&self, event: &Event) -> bool {
        let mut feed = locked(&self.feed);
        // What happens while the replay is being made ready cannot know whether the replay will bring the columns: it
        // brings them too.
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
        let mut seen = locked(&self.seen);
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
            labels.matches(&stored.labels)
                && (fields.is_everything()
                    || fields.matches_found(|path| self.shared.read(event.revision, stored, path)))
        };
        project(event.old.as_ref(), event.new.as_ref(), selects).map(|(change, _)| change)
    }

    fn line(&self, revision: Revision, change: Change, stored: &Stored, first: bool) -> Bytes {
        let mut rendered = locked(&self.shared.rendered);
        let same = |last: &&Rendered| {
            (last.first, last.revision, last.change) == (first, revision, change) && last.words == self.words
        };
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

    /// Only in a table the first event differs; all watchers of other forms share the rendered event.
    fn is_table(&self) -> bool {
        matches!(self.words.form.shape, Shape::Table(..))
    }
}

impl Shared {
    fn read(&self, revision: Revision, stored: &Stored, path: &[String]) -> Option<String> {
        if let Some(found) = of_key(&stored.key, path) {
            return found;
        }
        let mut last = locked(&self.reads);
        if last.revision != revision {
            *last = Reads { revision, reads: Vec::new() };
        }
        if let Some(read) = last.reads.iter().find(|read| read.stored.is(stored) && read.path == path) {
            return read.found.clone();
        }
        let found = read_field(&stored.json, path);
        last.reads.push(Read { stored: stored.clone(), path: path.to_vec(), found: found.clone() });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{self, Route};
    use crate::serve::tests::serve;
    use crate::serve::watch::watch;
    use crate::store::Write;
    use coracle_api::meta::{Durable, Key};
    use coracle_http::{Answer, Body};
    use serde_json::{Value, json};

    #[test]
    fn each_is_told_in_the_words_it_asked_in() {
        let (serve, store) = serve();
        let watches = ["/api/v1/events", "/apis/events.k8s.io/v1/events", "/api/v1/events"].map(|path| {
            let kinds = serve.registry.kinds();
            let Ok(Route::Object(call)) = call::parse(&kinds, "GET", path, "watch=1") else { panic!("{path}") };
            let Ok(Answer { body: Body::Stream(stream), .. }) = watch(&serve, &call) else { panic!("{path}") };
            stream
        });
        assert_eq!(locked(&serve.watches.views.views).len(), 2, "two of them ask for the same");
        let key = Key { resource: Resource::core("events"), namespace: "a".to_owned(), name: "b".to_owned() };
        let object = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "b", "namespace": "a"}});
        store.write(Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() }).expect("it is new");
        let versions = watches.map(|mut stream| {
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
            assert_eq!((matches!(*locked(&feed), Feed::Live { .. }), events.is_closed()), (lives, !lives));
        }
    }
}
