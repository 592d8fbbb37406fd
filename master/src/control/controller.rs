//! The row of a controller: the objects that the controller follows, the keys that a change of an object concerns, and
//! the decision about a key. PURE.
//!
//! Changes are routed by group and plural before any function of a row is called: a row never sees an object of a
//! foreign kind with the same name as a followed kind.

pub use super::since::Now;

use super::cluster::{Before, Cluster};
use super::intent::{Contents, Decision, EventDraft, Memo, Refusal};
use super::shelf::{Shelves, View};
use super::view::{EVENTS, NODES, PODS, PodView};
use coracle_api::meta::{Key, Resource};
use serde_json::Value;
use std::any::Any;
use std::time::Duration;

/// A look that ended in a refusal is repeated after the first of these, then after twice as long, and so on to the
/// second, as in Kubernetes.
#[derive(Clone, Copy, Debug)]
pub struct Patience(pub Duration, pub Duration);

impl Patience {
    pub const USUAL: Patience = Patience(Duration::from_millis(5), Duration::from_secs(1000));
    /// For jobs: a job makes its pods in sequence.
    pub const JOBS: Patience = Patience(Duration::from_secs(1), Duration::from_secs(60));

    pub fn after(self, times: u32) -> Duration {
        let Patience(first, most) = self;
        2u32.checked_pow(times).and_then(|factor| first.checked_mul(factor)).map_or(most, |delay| delay.min(most))
    }
}

/// A row in the table of controllers.
pub struct Controller {
    /// For logs.
    pub name: &'static str,
    pub follows: Vec<Follow>,
    /// Every key that the controller has. The full pass over them finds nothing to do once the cluster is quiet.
    pub all: fn(&Cluster) -> Vec<Key>,
    pub decide: fn(&Look<'_>) -> Decision,
    /// Its work is with pods, and rests in a master that was started without workloads.
    pub workload: bool,
    /// The event about a refused intent. A controller with such an event writes the refusal into the status too, and
    /// therefore looks again at once when a refusal begins or ends.
    pub refused: Option<RefusalEvent>,
    /// When it looks again at what was refused.
    pub patience: Patience,
}

impl Controller {
    pub fn new(name: &'static str, all: fn(&Cluster) -> Vec<Key>, decide: fn(&Look<'_>) -> Decision) -> Controller {
        Controller { name, follows: Vec::new(), all, decide, workload: false, refused: None, patience: Patience::USUAL }
    }

    pub fn follows(mut self, follow: Follow) -> Controller {
        self.follows.push(follow);
        self
    }

    pub fn workload(self) -> Controller {
        Controller { workload: true, ..self }
    }

    pub fn patient(self, patience: Patience) -> Controller {
        Controller { patience, ..self }
    }

    pub fn telling(self, refused: RefusalEvent) -> Controller {
        Controller { refused: Some(refused), ..self }
    }
}

/// The event about a refusal.
pub type RefusalEvent = fn(&Cluster, &Key, &Refusal) -> Option<EventDraft>;
/// The keys of a controller that a change concerns. Too many are harmless, a missing one is not.
pub type Concerned = fn(&Cluster, &ObservedChange<'_>) -> Vec<Key>;

/// Objects that a controller follows.
pub enum Follow {
    Kind {
        of: &'static [Resource],
        only: fn(&Key) -> bool,
        shelf: Option<fn(&mut Shelves)>,
        keys: Concerned,
    },
    /// Deletions of objects of any kind. `awaited`: whether the controller waits for deletions at present.
    Departures {
        awaited: fn(&Cluster) -> bool,
        keys: Concerned,
    },
    /// References between objects of any kind: the keys of the controller are the objects at both ends.
    References,
    /// What is no object: every key is looked at.
    News(News),
}

/// What happens besides to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// What pods take is known.
    Measured,
    /// The clock on the wall is another one.
    ClockSet,
    /// Other authorities are trusted.
    Trust,
}

impl Follow {
    /// Follows the objects that are read as this view.
    pub fn view<V: View>(keys: Concerned) -> Follow {
        Follow::Kind { of: V::OF, only: V::concerns, shelf: Some(Shelves::add::<V>), keys }
    }

    pub fn pods(keys: Concerned) -> Follow {
        const OF: &[Resource] = &[PODS];
        Follow::of_cluster(OF, keys)
    }

    pub fn nodes(keys: Concerned) -> Follow {
        const OF: &[Resource] = &[NODES];
        Follow::of_cluster(OF, keys)
    }

    pub fn events(keys: Concerned) -> Follow {
        const OF: &[Resource] = &[EVENTS];
        Follow::of_cluster(OF, keys)
    }

    /// The cluster holds the views of these by itself: it has indexes over them.
    fn of_cluster(of: &'static [Resource], keys: Concerned) -> Follow {
        Follow::Kind { of, only: |_| true, shelf: None, keys }
    }
}

/// A change of an object, already applied to the cluster.
pub struct ObservedChange<'a> {
    pub key: &'a Key,
    /// The object is not there any more.
    pub gone: bool,
    pub before: &'a Before,
}

impl ObservedChange<'_> {
    /// The view of the object before. `None` if there was none.
    pub fn was<V: 'static>(&self) -> Option<&V> {
        self.before.views.iter().find_map(|view| view.downcast_ref())
    }

    /// The object cannot be read, or could not before: it may have been or become anything.
    pub fn is_unreadable(&self) -> bool {
        self.before.unreadable
    }

    /// The pod before the change, and the pod now.
    pub fn pods<'c>(&'c self, cluster: &'c Cluster) -> impl Iterator<Item = &'c PodView> {
        self.was().into_iter().chain(cluster.pod(self.key))
    }
}

/// A look at one key of a controller.
pub struct Look<'a> {
    pub cluster: &'a Cluster,
    pub key: &'a Key,
    pub now: Now,
    /// Why the last look at this key could not be carried out, if it could not.
    pub refusal: Option<&'a Refusal>,
    /// What the decision before asked for by `Lookup::Contents`.
    pub contents: Option<&'a Contents>,
    /// What a decision before this one wanted to be remembered.
    pub memory: Option<&'a Value>,
    /// What the last decision about this key left to remember.
    pub memo: Option<&'a Memo>,
}

impl Look<'_> {
    /// The remembered value, or the default at the first look.
    pub fn remembered<T: Any + Clone + Default>(&self) -> T {
        self.memo.and_then(Memo::read).cloned().unwrap_or_default()
    }
}

/// The object itself is a key of the controller.
pub fn itself(_: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    vec![change.key.clone()]
}

/// Every object of the kinds of a view is a key of the controller.
pub fn all<V: View>(cluster: &Cluster) -> Vec<Key> {
    cluster.all::<V>().map(|(key, _)| key.clone()).collect()
}
