//! The way to the master's ConfigMaps and Secrets, for the pods of this host alone.
//!
//!     the pods' uses -> a list and watch for each object -> `room`
//!
//! The watch lasts only while a pod of this host uses the object. A node may read no other object of its kind, so each
//! watch names its object.

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

/// Objects that are watched at once, each over a connection of its own; what is beyond waits, and the log says so.
const WATCHES_MAX: usize = 192;

/// Never ends.
pub async fn run(client: Client, voice: Voice, kept: Kept, view: ViewWriter) {
    let (folder, unkept, mut attempts) = (kept.folder.clone(), kept.unkept.clone(), 0);
    let mut pods = view.part(|view| &view.assigned);
    let room = Rc::new(SharedObjects::new(KnownObjects::new(kept), view));
    let _requests = Task(spawn_local(requests::run(client.clone(), room.clone())).abort_handle());
    let mut silent = voice.watch();
    let mut watches: BTreeMap<(Shelf, String), Task> = BTreeMap::new();
    loop {
        if let Some(pods) = pods.now() {
            let changed = room.state.borrow_mut().use_for(&pods);
            if changed {
                watches.clear();
            }
            room.tokens_wanted.notify_one();
        }
        let needed = room.state.borrow().needed();
        // The room forgets objects that no pod uses any more: a later use needs a new list.
        watches.retain(|(shelf, name), _| needed.get(shelf).is_some_and(|names| names.contains(name)));
        let objects =
            needed.into_iter().flat_map(|(shelf, names)| names.into_iter().map(move |name| (shelf.clone(), name)));
        for object in objects {
            if watches.contains_key(&object) {
                continue;
            }
            let ((kind, namespace), name) = &object;
            if watches.len() >= WATCHES_MAX {
                log::error!(
                    "{} {namespace}/{name} is not watched: at most {WATCHES_MAX} objects are watched at once",
                    kind.word()
                );
                continue;
            }
            let task = spawn_local(follow_object(client.clone(), voice.clone(), room.clone(), object.clone()));
            watches.insert(object, Task(task.abort_handle()));
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

/// Ends with this value.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn follow_object(client: Client, voice: Voice, room: Rc<SharedObjects>, (shelf, name): (Shelf, String)) {
    let root = shelf.0.root();
    let path = match shelf.1.as_str() {
        // The cluster's.
        "" => format!("{root}/{}", shelf.0.plural()),
        namespace => format!("{root}/namespaces/{namespace}/{}", shelf.0.plural()),
    };
    let selector = format!("fieldSelector=metadata.name%3D{name}");
    let names = BTreeSet::from([name]);
    follow(&client, &voice, &path, &selector, async |news| {
        if let News::Listed(_) = &news {
            // Another cluster's objects are not for these pods.
            let cluster = room.state.borrow().cluster.clone();
            if cluster_of((&client, &voice)).await != Some(cluster) {
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
