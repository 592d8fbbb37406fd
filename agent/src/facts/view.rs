//! All that the master said to this host, as one value, and readers of single parts of the value.
//!
//!     watches of the master (`desired/heard`) -> `ViewWriter` -> `ClusterView`, in one channel
//!         -> a `ViewPart` for each reader: it wakes for its own part alone
//!
//! Without a master the view stays as it is at the start.

use std::sync::Arc;

use tokio::sync::watch;

use crate::facts::heard::{ClusterServices, GivenUp, MasterPods};
use crate::facts::node_said::NodeSaid;
use crate::facts::objects::Objects;
use crate::facts::source_state::SourceState;

/// A part of the view. None: nothing is known.
pub type Heard<T> = Option<Arc<T>>;

/// The parts are shared: where one part changes, the other parts stay the very same.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    /// The pods that the master wants to run here.
    pub assigned: Heard<SourceState>,
    /// The same pods as the API shows them.
    pub pods: Heard<MasterPods>,
    /// Before the master answers: the services in the file.
    pub services: Heard<ClusterServices>,
    pub node: Heard<NodeSaid>,
    /// What the pods use.
    pub objects: Heard<Objects>,
    /// Volumes of the class `local`, of any node, whose directories are to go.
    pub given_up: Heard<GivenUp>,
}

/// Changes the view.
#[derive(Clone)]
pub struct ViewWriter {
    view: watch::Sender<ClusterView>,
}

impl ViewWriter {
    pub fn new(view: ClusterView) -> ViewWriter {
        ViewWriter { view: watch::channel(view).0 }
    }

    pub fn now(&self) -> ClusterView {
        self.view.borrow().clone()
    }

    /// A part that says the same again is no news.
    pub fn put<T: PartialEq>(&self, of: fn(&mut ClusterView) -> &mut Heard<T>, said: T) {
        self.view.send_if_modified(|view| {
            let part = of(view);
            let differs = part.as_deref() != Some(&said);
            if differs {
                *part = Some(Arc::new(said));
            }
            differs
        });
    }

    /// For a writer that knows already that this is news.
    pub fn replace<T>(&self, of: fn(&mut ClusterView) -> &mut Heard<T>, said: T) {
        self.view.send_modify(|view| *of(view) = Some(Arc::new(said)));
    }

    pub fn part<T>(&self, of: fn(&ClusterView) -> &Heard<T>) -> ViewPart<T> {
        let view = self.view.subscribe();
        let seen = of(&view.borrow()).clone();
        ViewPart { view, of, seen }
    }
}

/// A part of the view, for a reader that needs nothing else.
pub struct ViewPart<T> {
    view: watch::Receiver<ClusterView>,
    of: fn(&ClusterView) -> &Heard<T>,
    seen: Heard<T>,
}

impl<T> ViewPart<T> {
    /// The part as it is now, which counts as seen.
    pub fn now(&mut self) -> Heard<T> {
        self.look();
        self.seen.clone()
    }

    /// Returns when the part is another than the part that was seen last. Fails when the view has no writer any more.
    pub async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        while !self.look() {
            self.view.changed().await?;
        }
        Ok(())
    }

    /// Whether the part is another than before.
    fn look(&mut self) -> bool {
        let now = (self.of)(&self.view.borrow_and_update()).clone();
        let same = match (&now, &self.seen) {
            (Some(now), Some(seen)) => Arc::ptr_eq(now, seen),
            (None, None) => true,
            _ => false,
        };
        self.seen = now;
        !same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn a_reader_wakes_for_its_own_part_alone() {
        let writer = ViewWriter::new(ClusterView::default());
        let mut pods = writer.part(|view| &view.pods);
        let wakes = async |pods: &mut ViewPart<MasterPods>| {
            timeout(Duration::from_secs(1), pods.changed()).await.map_or(false, |changed| changed.is_ok())
        };
        let listed = |listed| MasterPods { listed, ..MasterPods::default() };
        assert!(!wakes(&mut pods).await && pods.now().is_none());
        writer.put(|view| &mut view.node, NodeSaid::default());
        assert!(!wakes(&mut pods).await, "another part");
        writer.put(|view| &mut view.pods, listed(true));
        assert!(wakes(&mut pods).await && !wakes(&mut pods).await, "once");
        writer.put(|view| &mut view.pods, listed(true));
        assert!(!wakes(&mut pods).await, "the same again");
        writer.put(|view| &mut view.pods, listed(false));
        assert_eq!(pods.now().as_deref(), Some(&listed(false)));
        assert!(!wakes(&mut pods).await, "it was seen");
        drop(writer);
        assert!(pods.changed().await.is_err());
    }
}
