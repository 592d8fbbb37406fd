//! What somebody does to the engine in memory beside the agent, with Docker's own commands.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{FakeContainer, Inner, Noted, run};
use crate::facts::engine::State;
use crate::facts::naming::{LABEL_CONTAINER, LABEL_POD_UID};

/// For this long, an action that the agent had under way may meet a container that was just started by hand.
const UNDER_WAY: Duration = Duration::from_secs(10);

impl Inner {
    /// `docker start` for an ended container, `docker restart` for a running container.
    pub fn restart(&mut self, id: &str) {
        self.kill(id, 143);
        if self.containers.get(id).is_some_and(|held| !held.seen.runs()) {
            self.begin_again(id);
        }
    }

    /// The container runs again, and does not end by itself any more.
    pub(super) fn begin_again(&mut self, id: &str) {
        let Some(held) = self.containers.get(id).filter(|held| matches!(held.seen.state, State::Exited { .. })) else {
            return;
        };
        if self.refusal(held).is_some() {
            return;
        }
        let (started_ms, labels) = (self.wall_ms().saturating_add(1), held.seen.labels.clone());
        if let Some(held) = self.containers.get_mut(id) {
            run(held, started_ms);
        }
        self.by_hand.insert(id.to_owned(), Instant::now());
        self.count_begin(&labels);
        self.event = true;
        self.note(Some(id), Noted::Started { again: true });
    }

    pub fn pause(&mut self, id: &str) {
        if let Some(held) = self.containers.get_mut(id).filter(|held| held.seen.runs()) {
            held.seen.beside.paused = true;
            self.event = true;
        }
    }

    pub fn rename(&mut self, id: &str) {
        if let Some(held) = self.containers.get_mut(id) {
            held.called = format!("somebody-{id}");
            self.event = true;
        }
    }

    /// `docker update --restart=always`.
    pub fn restart_always(&mut self, id: &str) {
        if let Some(held) = self.containers.get_mut(id) {
            held.by_policy = true;
            self.event = true;
        }
    }

    /// Starts a copy of a container, with the same labels and a different name.
    pub fn copy(&mut self, id: &str) {
        let Some(held) = self.containers.get(id).cloned() else { return };
        let (started_ms, id) = (self.wall_ms(), self.fresh_id());
        let mut seen = held.seen;
        (seen.id, seen.created_ms, seen.state) = (id.clone(), started_ms, State::Running { started_ms });
        (seen.ip, seen.beside) = (None, Default::default());
        let called = format!("copy-{id}");
        let copy = FakeContainer { seen, called, ends: None, by_policy: false, ..held };
        self.by_hand.insert(id.clone(), Instant::now());
        self.containers.insert(id.clone(), copy);
        self.event = true;
        self.note(Some(&id), Noted::Started { again: true });
    }

    /// `docker system prune -a`: removes ended containers and their images. Returns the ids of the containers.
    pub fn prune(&mut self) -> Vec<String> {
        let dead = self.containers.values().filter(|held| !held.seen.runs() && !held.foreign);
        let dead: Vec<String> = dead.map(|held| held.seen.id.clone()).collect();
        let gone: Vec<FakeContainer> = dead.iter().filter_map(|id| self.containers.remove(id)).collect();
        for held in gone {
            let image = &held.config.image;
            let used = self.containers.values().any(|other| other.config.image == *image);
            // Local images could not be pulled again.
            if !used && !image.starts_with("local") {
                self.images_removed.insert(image.clone());
            }
        }
        self.event = true;
        dead
    }

    /// How often a registry was asked for an image.
    pub fn pulls_of(&self, reference: &str) -> usize {
        self.pulls.get(reference).map_or(0, Vec::len)
    }

    pub(super) fn is_by_hand(&self, id: &str) -> bool {
        self.by_hand.get(id).is_some_and(|at| at.elapsed() < UNDER_WAY)
    }

    pub(super) fn count_begin(&mut self, labels: &BTreeMap<String, String>) {
        let label = |label: &str| labels.get(label).cloned().unwrap_or_default();
        *self.begins.entry((label(LABEL_POD_UID), label(LABEL_CONTAINER))).or_default() += 1;
    }
}
