//! Bookmarks: once a minute those watchers that asked for it hear up to where they have seen everything, if that has
//! moved though nothing of theirs happened. Then a client resumes there, and not at an event that is long forgotten.
//!
//! One appointment for all, and none where nobody asked.

use super::timer::{Appointment, Timer};
use super::watcher::Watcher;
use crate::store::Store;
use crate::store::locked;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// As often as Kubernetes does it.
const EVERY: Duration = Duration::from_secs(60);

#[derive(Default)]
pub struct Bookmarks(Mutex<Marked>);

#[derive(Default)]
struct Marked {
    watchers: Vec<Weak<Watcher>>,
    next: Option<Appointment>,
}

impl Bookmarks {
    pub fn add(self: &Arc<Self>, timer: &Arc<Timer>, store: &Arc<dyn Store>, watcher: &Arc<Watcher>) {
        let mut marked = locked(&self.0);
        // Those that have left would keep their place until the next minute, however many come and go.
        if marked.watchers.len() == marked.watchers.capacity() {
            marked.watchers.retain(|watcher| watcher.strong_count() > 0);
        }
        marked.watchers.push(Arc::downgrade(watcher));
        if marked.next.is_none() {
            marked.next = Some(self.appoint(timer, store));
        }
    }

    fn appoint(self: &Arc<Self>, timer: &Arc<Timer>, store: &Arc<dyn Store>) -> Appointment {
        // The timer keeps alive what it will call, and that must not keep the timer.
        let (bookmarks, again, store) = (Arc::downgrade(self), Arc::downgrade(timer), store.clone());
        let due = move || {
            let (Some(bookmarks), Some(timer)) = (bookmarks.upgrade(), again.upgrade()) else { return };
            bookmarks.tell(&*store);
            let mut marked = locked(&bookmarks.0);
            marked.next = (!marked.watchers.is_empty()).then(|| bookmarks.appoint(&timer, &store));
        };
        timer.after(EVERY, Box::new(due))
    }

    pub fn tell(&self, store: &dyn Store) {
        let delivered = store.delivered();
        let watchers: Vec<Arc<Watcher>> = {
            let mut marked = locked(&self.0);
            marked.watchers.retain(|watcher| watcher.strong_count() > 0);
            marked.watchers.iter().filter_map(Weak::upgrade).collect()
        };
        watchers.iter().for_each(|watcher| watcher.bookmark(delivered));
    }
}

#[cfg(test)]
mod tests {
    use crate::call::{self, Route};
    use crate::serve::tests::serve;
    use crate::serve::watch;
    use crate::store::{Store, Write};
    use coracle_api::meta::{Durable, Key, Resource};
    use coracle_http::{Body, STREAM_ITEMS_MAX};
    use serde_json::{Value, json};

    fn create(store: &dyn Store, plural: &'static str, kind: &str) -> u64 {
        let key = Key { resource: Resource::core(plural), namespace: "a".to_owned(), name: "b".to_owned() };
        let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "b", "namespace": "a"}});
        store
            .write(Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() })
            .expect("it is new")
            .revision
            .0
    }

    #[test]
    fn who_has_missed_nothing_hears_so_once() {
        let (serve, store) = serve();
        let watching = |query: &str| {
            let kinds = serve.registry.kinds();
            let Ok(Route::Object(call)) = call::parse(&kinds, "GET", "/api/v1/pods", query) else { panic!("{query}") };
            let Ok(answer) = watch::watch(&serve, &call) else { panic!("{query}") };
            let Body::Stream(stream) = answer.body else { panic!("{query}") };
            stream
        };
        let mut marked = watching("watch=1&allowWatchBookmarks=1");
        let mut plain = watching("watch=1");
        let gone = watching("watch=1&allowWatchBookmarks=1");
        drop(gone);
        let mut minute = || {
            serve.watches.bookmarks.tell(&*store);
            assert!(plain.events.try_recv().is_none(), "it did not ask");
            let line = marked.events.try_recv()?;
            let event: Value = serde_json::from_slice(&line).expect("JSON");
            assert!(marked.events.try_recv().is_none(), "one at a time");
            Some((
                event["type"].as_str().unwrap_or_default().to_owned(),
                event["object"]["metadata"]["resourceVersion"].clone(),
            ))
        };
        assert_eq!(minute(), None, "nothing has happened");
        let others = create(&*store, "services", "Service");
        assert_eq!(minute(), Some(("BOOKMARK".to_owned(), json!(others.to_string()))));
        assert_eq!(minute(), None, "nothing has happened since");
        let own = create(&*store, "pods", "Pod");
        assert!(plain.events.try_recv().is_some());
        let event = marked.events.try_recv().expect("its own event");
        assert!(String::from_utf8_lossy(&event).contains(&format!("\"resourceVersion\":\"{own}\"")));
        serve.watches.bookmarks.tell(&*store);
        assert!(marked.events.try_recv().is_none(), "its own event said it");
    }

    #[test]
    fn who_has_left_keeps_no_place() {
        let (serve, _store) = serve();
        for _ in 0..100 {
            let query = "watch=1&allowWatchBookmarks=1";
            let kinds = serve.registry.kinds();
            let Ok(Route::Object(call)) = call::parse(&kinds, "GET", "/api/v1/pods", query) else { panic!("a watch") };
            drop(watch::watch(&serve, &call));
        }
        assert!(super::locked(&serve.watches.bookmarks.0).watchers.len() < 10);
    }

    #[test]
    fn who_reads_too_slowly_is_let_go() {
        let (serve, store) = serve();
        let kinds = serve.registry.kinds();
        let Ok(Route::Object(call)) = call::parse(&kinds, "GET", "/api/v1/pods", "watch=1") else { panic!("a watch") };
        let Ok(answer) = watch::watch(&serve, &call) else { panic!("a watch") };
        let Body::Stream(mut stream) = answer.body else { panic!("a stream") };
        for number in 0..STREAM_ITEMS_MAX + 10 {
            let key = Key { resource: Resource::core("pods"), namespace: "a".to_owned(), name: format!("p{number}") };
            let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": key.name, "namespace": "a"}});
            // The client reads nothing, and no write waits for the client.
            store
                .write(Write::Create { key, object, durable: Durable::Nothing, claims: Vec::new() })
                .expect("it is new");
        }
        let marks: Vec<Value> = std::iter::from_fn(|| stream.events.try_recv())
            .map(|line| serde_json::from_slice(&line).expect("JSON"))
            .collect();
        let Some((last, in_time)) = marks.split_last() else { panic!("it was told") };
        assert_eq!(in_time.len(), STREAM_ITEMS_MAX, "what was in time is not taken back");
        assert!(in_time.iter().all(|event| event["type"] == "ADDED"));
        assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(410)), "{last}");
        assert!(stream.events.is_closed(), "and that is all");
    }
}
