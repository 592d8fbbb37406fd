//! What belongs to no pod's order: images that are loaded or pulled, and containers that go on.

use super::{Executor, fine_if_gone};
use crate::facts::happening::Event;
use crate::facts::memory::{Pull, PullState};
use crate::facts::round::{PullWanted, Unpause};
use crate::runtime::Runtime;

impl<R: Runtime> Executor<'_, R> {
    /// As `pull_begins`.
    pub fn unpause_begins(&self, unpause: &Unpause) {
        self.memory.borrow_mut().pauses.insert(unpause.id.clone(), None);
    }

    pub async fn unpause(&self, unpause: Unpause) {
        let Unpause { pod, id, container } = unpause;
        let result = fine_if_gone(self.runtime.unpause(&id).await);
        match &result {
            Ok(()) => {
                log::warn!("{}/{}: {container} was paused by somebody, and goes on", pod.namespace, pod.name);
                self.happen(&pod, &container, Event::Unpaused);
            }
            Err(failure) => log::warn!(
                "{}/{}: {container} was paused by somebody, and could not go on, it is tried again: {failure}",
                pod.namespace,
                pod.name
            ),
        }
        self.memory.borrow_mut().pauses.insert(id, Some(self.clock.now().mono_ms));
    }

    /// Called before the lane starts, so that the next plan sees the pull.
    pub fn pull_begins(&self, pull: &PullWanted) {
        let mut memory = self.memory.borrow_mut();
        let place = (pull.pod.uid.clone(), pull.container.clone());
        let before =
            memory.pulls.get(&place).filter(|before| before.image == pull.image && before.attempt == pull.attempt);
        let failures = before.map_or(0, |before| before.failures);
        let failed = before.and_then(|before| match &before.state {
            PullState::Failed { text, .. } => Some(text.clone()),
            PullState::InFlight { .. } | PullState::Done => None,
        });
        let state = PullState::InFlight { failed };
        memory.pulls.insert(place, Pull { image: pull.image.clone(), attempt: pull.attempt, failures, state });
    }

    /// From an archive of this host. True: that is all.
    async fn load(&self, pull: &PullWanted) -> bool {
        let PullWanted { pod, container, image, .. } = pull;
        match self.runtime.load(image).await {
            Ok(true) => log::info!("{}/{}: {image} is here again for {container}", pod.namespace, pod.name),
            Ok(false) => return false,
            Err(failure) => {
                log::debug!("{}/{}: load {image}: {failure}", pod.namespace, pod.name);
                return false;
            }
        }
        if !pull.always {
            self.memory.borrow_mut().pulls.remove(&(pod.uid.clone(), container.clone()));
        }
        !pull.always
    }

    pub async fn pull(&self, pull: PullWanted) {
        if pull.absent && self.load(&pull).await {
            return;
        }
        if pull.never {
            let mut memory = self.memory.borrow_mut();
            if let Some(entry) = memory.pulls.get_mut(&(pull.pod.uid, pull.container)) {
                let text = "no archive of this host has it".to_owned();
                entry.state = PullState::Failed { at_ms: self.clock.now().mono_ms, text };
            }
            return;
        }
        let PullWanted { pod, container, attempt, image, logins, reason, .. } = pull;
        log::info!("{}/{}: pull {image} for {container}: {reason}", pod.namespace, pod.name);
        self.happen(&pod, &container, Event::Pulling { image: image.clone() });
        let since_ms = self.clock.now().mono_ms;
        let result = self.runtime.pull(&image, &logins).await;
        let state = match &result {
            Ok(()) => {
                let took_ms = self.clock.now().mono_ms - since_ms;
                let size_bytes = self.runtime.image(&image).await.ok().flatten().map_or(0, |image| image.size_bytes);
                self.happen(&pod, &container, Event::Pulled { image: image.clone(), took_ms, size_bytes });
                PullState::Done
            }
            Err(failure) => {
                log::warn!("{}/{}: {image} could not be pulled: {failure}", pod.namespace, pod.name);
                let text = failure.text().to_owned();
                self.happen(&pod, &container, Event::PullFailed { image: image.clone(), text: text.clone() });
                PullState::Failed { at_ms: self.clock.now().mono_ms, text }
            }
        };
        let mut memory = self.memory.borrow_mut();
        // Unless the container asks for another image by now.
        if let Some(entry) =
            memory.pulls.get_mut(&(pod.uid, container)).filter(|entry| entry.image == image && entry.attempt == attempt)
        {
            entry.failures = if result.is_ok() { 0 } else { entry.failures.saturating_add(1) };
            entry.state = state;
        }
    }
}
