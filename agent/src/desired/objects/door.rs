//! The way to the master's ConfigMaps and Secrets, for the pods of this host alone.
//!
//!     the pods' uses -> a list and watch for each kind and namespace -> `room`
//!
//! The watch lasts only while a pod of this host uses an object of the kind and namespace. Objects without a user are
//! ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use coracle_http::client::Client;
use tokio::task::{AbortHandle, spawn_local};

use super::kept::Kept;
use super::requests;
use super::room::{KnownObjects, SharedObjects, Shelf};
use crate::desired::follow::{News, Voice, follow};
use crate::desired::watched::cluster_of;
use crate::facts::view::ViewWriter;

/// Namespaces and kinds that are watched at once, each over a connection of its own; what is beyond waits, and the log
/// says so.
const WATCHES_MAX: usize = 64;

/// Never ends.
pub async fn run(client: Client, voice: Voice, kept: Kept, view: ViewWriter) {
    let (folder, unkept, mut attempts) = (kept.folder.clone(), kept.unkept.clone(), 0);
    let mut pods = view.part(|view| &view.assigned);
    let room = Rc::new(SharedObjects::new(KnownObjects::new(kept), view));
    let _requests = Task(spawn_local(requests::run(client.clone(), room.clone())).abort_handle());
    let mut silent = voice.watch();
    let mut watches: BTreeMap<Shelf, Watching> = BTreeMap::new();
    loop {
        if let Some(pods) = pods.now() {
            let changed = room.state.borrow_mut().use_for(&pods);
            if changed {
                watches.clear();
            }
            room.tokens_wanted.notify_one();
        }
        let needed = room.state.borrow().needed();
        watches.retain(|shelf, watching| needed.get(shelf).is_some_and(|names| watching.narrow(names)));
        for (shelf, names) in needed {
            let watched = watches.get(&shelf).is_some_and(|watching| names.is_subset(&watching.names));
            if watched {
                continue;
            }
            if watches.len() >= WATCHES_MAX && !watches.contains_key(&shelf) {
                log::error!(
                    "{} of namespace {} are not watched: at most {WATCHES_MAX} watches are kept",
                    shelf.0.plural(),
                    shelf.1
                );
                continue;
            }
            let task =
                spawn_local(follow_shelf(client.clone(), voice.clone(), room.clone(), shelf.clone(), names.clone()));
            watches.insert(shelf, Watching { names, _task: Task(task.abort_handle()) });
        }
        room.state.borrow_mut().silent = *silent.borrow_and_update();
        room.publish();
        let alive = tokio::select! {
            changed = pods.changed() => changed.is_ok(),
            changed = silent.changed() => changed.is_ok(),
            () = room.more.notified() => true,
            () = unkept.due(&folder, &mut attempts) => true,
        };
        if !alive {
            return;
        }
    }
}

struct Watching {
    names: BTreeSet<String>,
    _task: Task,
}

impl Watching {
    /// The room forgets objects that no pod uses any more: a later use needs a new list. True: some objects are still
    /// watched.
    fn narrow(&mut self, needed: &BTreeSet<String>) -> bool {
        self.names.retain(|name| needed.contains(name));
        !self.names.is_empty()
    }
}

/// Ends with this value.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow_shelf(client: Client, voice: Voice, room: Rc<SharedObjects>, shelf: Shelf, names: BTreeSet<String>) {
    let root = shelf.0.root();
    let path = match shelf.1.as_str() {
        // The cluster's.
        "" => format!("{root}/{}", shelf.0.plural()),
        namespace => format!("{root}/namespaces/{namespace}/{}", shelf.0.plural()),
    };
    let mut some = names.iter();
    let selector = match (some.next(), some.next()) {
        (Some(only), None) => format!("fieldSelector=metadata.name%3D{only}"),
        _ => String::new(),
    };
    follow(&client, &voice, &path, &selector, async |news| {
        if let News::Listed(_) = &news {
            // Another cluster's objects are not for these pods.
            let cluster = room.state.borrow().cluster.clone();
            if cluster_of(&client).await != Some(cluster) {
                return false;
            }
        }
        let more = room.state.borrow_mut().take(&shelf, &names, news);
        if more {
            room.more.notify_one();
        }
        room.publish();
        true
    })
    .await;
}
