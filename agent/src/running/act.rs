//! Carries out the actions of a plan, one at a time, and notes in `memory` what the engine will not tell.

mod beside;
mod hooks;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::timeout;

use crate::facts::checks::Dead;
use crate::facts::clock::Clock;
use crate::facts::engine::{Check, CheckOutcome, ContainerConfig, Failure};
use crate::facts::happening::{Event, Happening};
use crate::facts::memory::{Lost, Memory, Setback, SetbackKind, Stopping};
use crate::facts::naming::{LABEL_HASH, PodName, SANDBOX, Tag, spare_name};
use crate::facts::round::{Action, ActionKind, Round, Start, Stop, StopReason, words};
use crate::host::trace;
use crate::running::lanes::Lanes;
use crate::runtime::Runtime;

/// More starts at once make a small host no faster.
const STARTS_AT_ONCE: usize = 4;

pub struct Executor<'a, R> {
    runtime: &'a R,
    clock: Clock,
    slots: Semaphore,
    happenings: mpsc::Sender<Happening>,
    pub memory: RefCell<Memory>,
    /// Starts that the engine refused, by its id: the text.
    pub refused: RefCell<BTreeMap<String, String>>,
    /// Hooks under way, by the engine's id of their container. The `Notify` ends the wait for the hook.
    hooks: RefCell<BTreeMap<String, Rc<Notify>>>,
    /// Pods, by uid, whose lane ends with the action that it is at: a hook of theirs was given up.
    given_up: RefCell<BTreeSet<String>>,
}

impl<'a, R: Runtime> Executor<'a, R> {
    pub fn new(runtime: &'a R, clock: Clock, happenings: mpsc::Sender<Happening>) -> Executor<'a, R> {
        let slots = Semaphore::new(STARTS_AT_ONCE);
        let (memory, refused, hooks, given_up) = Default::default();
        Executor { runtime, clock, slots, happenings, memory, refused, hooks, given_up }
    }

    /// In their order, up to the first that fails.
    pub async fn act(&self, uid: &str, pod: Option<&PodName>, actions: Vec<Action>) {
        let shown = pod.map_or_else(|| uid.to_owned(), |pod| format!("{}/{}", pod.namespace, pod.name));
        // A failure that lasts for hours is logged once, and so is its end.
        let again = self.memory.borrow().setbacks.contains_key(uid);
        let level = if again { log::Level::Debug } else { log::Level::Info };
        let mut well = Vec::new();
        let mut actions = actions.into_iter().peekable();
        while let Some(action) = actions.next() {
            let beside = actions.next_if(|next| is_made_beside(&action.what, &next.what));
            for action in [Some(&action), beside.as_ref()].into_iter().flatten() {
                log::log!(level, "{shown}: {}: {}", words(&action.what), action.reason);
            }
            let (what, kind) = (words(&action.what), SetbackKind::of(&action.what));
            let done = match (action.what, beside.map(|beside| beside.what)) {
                (ActionKind::Start(sandbox), Some(ActionKind::Start(member))) => {
                    self.start_both(*sandbox, *member).await
                }
                (action, _) => self.one(uid, pod, action).await,
            };
            if let Err(failure) = done {
                return self.fail((uid, pod, &shown), &what, kind, &failure);
            }
            trace::step(&shown, &what);
            well.push(what);
            if self.given_up.borrow_mut().remove(uid) {
                return;
            }
        }
        if again {
            log::info!("{shown}: done after it had failed: {}", well.join(", "));
        }
        self.memory.borrow_mut().setbacks.remove(uid);
    }

    fn fail(
        &self,
        (uid, pod, shown): (&str, Option<&PodName>, &str),
        what: &str,
        kind: SetbackKind,
        failure: &Failure,
    ) {
        let (at_ms, text) = (self.clock.now().mono_ms, failure.text().to_owned());
        let kind = if matches!(failure, Failure::Refused(_)) { kind } else { SetbackKind::Other };
        let before = self.memory.borrow().setbacks.get(uid).cloned();
        let failures = before.as_ref().map_or(0, |setback| setback.failures).saturating_add(1);
        let known = before.is_some_and(|setback| setback.text == text);
        match failure {
            _ if known => log::debug!("{shown}: {what} failed again: {failure}"),
            Failure::Conflict(_) => log::debug!("{shown}: {what}: {failure}"),
            _ => log::warn!("{shown}: {what} failed, it is tried again: {failure}"),
        }
        if let (SetbackKind::Removal, false, Some(pod)) = (kind, known, pod) {
            let message = format!("Unable to remove its volumes: {text}");
            self.happen(pod, SANDBOX, Event::Waits { reason: "FailedUnMount", message });
        }
        let setback = Setback { failures, at_ms, text, kind };
        self.memory.borrow_mut().setbacks.insert(uid.to_owned(), setback);
    }

    async fn one(&self, uid: &str, pod: Option<&PodName>, action: ActionKind) -> Result<(), Failure> {
        match action {
            ActionKind::MakeVolumes { volumes } => self.runtime.make_volumes(uid, &volumes).await,
            ActionKind::Start(start) => self.start(*start).await,
            ActionKind::Begin(begin) => {
                let pod = pod.ok_or_else(|| Failure::NotFound("the pod is gone".to_owned()))?;
                self.begin(pod, &begin.container, &begin.id, begin.post_start).await
            }
            ActionKind::Stop { stops, why } => self.stop(pod, stops, &why).await,
            ActionKind::Kill { id, .. } => {
                let result = fine_if_gone(self.runtime.kill(&id, "SIGKILL").await);
                if result.is_ok()
                    && let Some(stopping) = self.memory.borrow_mut().stops.get_mut(&id)
                {
                    stopping.killed_ms = Some(self.clock.now().mono_ms);
                }
                result
            }
            ActionKind::Remove { id, .. } => {
                let _slot = self.slot().await;
                fine_if_gone(self.runtime.remove(&id).await)?;
                self.memory.borrow_mut().forget(&id);
                self.refused.borrow_mut().remove(&id);
                Ok(())
            }
            ActionKind::RemoveVolumes => self.runtime.remove_volumes(uid).await,
            ActionKind::FreeVolumes => self.runtime.free_volumes(uid).await,
            ActionKind::Resize { resizes, summary } => {
                let pod = pod.ok_or_else(|| Failure::NotFound("the pod is gone".to_owned()))?;
                self.happen(pod, SANDBOX, Event::ResizeStarted { summary: summary.clone() });
                for resize in resizes {
                    self.runtime.resize(&resize.id, &resize.limits).await?;
                }
                self.happen(pod, SANDBOX, Event::ResizeCompleted { summary });
                Ok(())
            }
            ActionKind::Warn { reason, message } => {
                if let Some(pod) = pod {
                    self.happen(pod, SANDBOX, Event::Waits { reason, message });
                }
                Ok(())
            }
        }
    }

    async fn start(&self, start: Start) -> Result<(), Failure> {
        let (pod, container, post_start) = (start.pod.clone(), start.container.clone(), start.post_start.clone());
        match self.make(start).await? {
            Some(id) => self.begin(&pod, &container, &id, post_start).await,
            None => Ok(()),
        }
    }

    /// The engine makes the pod's first container while the sandbox that the container joins comes up: the engine
    /// looks at the sandbox only when the container starts.
    async fn start_both(&self, sandbox: Start, member: Start) -> Result<(), Failure> {
        let (pod, container, post_start) = (member.pod.clone(), member.container.clone(), member.post_start.clone());
        let Some(sandbox_id) = self.make(sandbox).await? else { return Ok(()) };
        let (up, made) = tokio::join!(self.begin(&pod, SANDBOX, &sandbox_id, None), self.make(member));
        up?;
        match made? {
            Some(id) => self.begin(&pod, &container, &id, post_start).await,
            None => Ok(()),
        }
    }

    /// The engine's id. None: the engine refused, and the refusal is remembered as a start that failed.
    async fn make(&self, start: Start) -> Result<Option<String>, Failure> {
        let Start { pod, container, attempt, step, config, post_start: _, present } = start;
        let is_sandbox = container == SANDBOX;
        self.memory.borrow_mut().ending.remove(&pod.uid);
        if present {
            self.happen(&pod, &container, Event::Present { image: config.image.clone() });
        }
        let slot = self.slot().await;
        if is_sandbox {
            self.runtime.make_ready().await?;
        }
        let id = match self.create(&config).await {
            Ok(id) => id,
            Err(failure @ (Failure::Refused(_) | Failure::Taken(_) | Failure::Config(_))) => {
                // The engine refuses the container: this counts as a failed start, with its back-off.
                let text = failure.text().to_owned();
                let hash = config.labels.get(LABEL_HASH).cloned().unwrap_or_default();
                let at_ms = self.clock.now().mono_ms;
                let misconfigured = matches!(failure, Failure::Config(_));
                let renewal = Tag::read(&config.name, &config.labels).map_or(0, |tag| tag.renewal);
                let lost = Lost {
                    attempt,
                    step,
                    hash,
                    renewal,
                    sandbox: None,
                    at_ms,
                    exit_code: None,
                    text: text.clone(),
                    misconfigured,
                };
                log::warn!("{}/{}: container {container} could not be made: {text}", pod.namespace, pod.name);
                self.happen(&pod, &container, Event::Failed { text });
                self.memory.borrow_mut().lost.insert((pod.uid.clone(), container), lost);
                // Without its sandbox no container of the pod can start. If a single container fails, the remaining
                // containers can start.
                return if is_sandbox { Err(failure) } else { Ok(None) };
            }
            Err(failure) => return Err(failure),
        };
        drop(slot);
        if !is_sandbox {
            self.happen(&pod, &container, Event::Created);
        }
        Ok(Some(id))
    }

    /// Creates the container, with a spare name if a foreign container has its name.
    async fn create(&self, config: &ContainerConfig) -> Result<String, Failure> {
        match self.runtime.create(config).await {
            Err(Failure::Taken(text)) => {
                let name = spare_name(&config.name);
                log::warn!("{text}: it is called {name} instead");
                self.runtime.create(&ContainerConfig { name, ..config.clone() }).await
            }
            made => made,
        }
    }

    async fn begin(&self, pod: &PodName, container: &str, id: &str, post_start: Option<Check>) -> Result<(), Failure> {
        let slot = self.slot().await;
        if post_start.is_some() {
            self.memory.borrow_mut().hooks_running.insert(id.to_owned());
        }
        let started = self.runtime.start(id).await;
        drop(slot);
        if let Err(failure) = started {
            self.memory.borrow_mut().hooks_running.remove(id);
            if let Failure::Refused(text) = &failure {
                self.refused.borrow_mut().insert(id.to_owned(), text.clone());
                self.happen(pod, container, Event::Failed { text: text.clone() });
                log::warn!("{}/{}: container {container} could not be started: {text}", pod.namespace, pod.name);
            }
            // As above: the containers of a sandbox that did not start are not even tried.
            return if matches!(failure, Failure::Refused(_)) && container != SANDBOX { Ok(()) } else { Err(failure) };
        }
        if container != SANDBOX {
            self.happen(pod, container, Event::Started);
        }
        if let Some(check) = post_start {
            let outcome = self.post_start(pod, container, id, check).await;
            let mut memory = self.memory.borrow_mut();
            memory.hooks_running.remove(id);
            let given_up = self.given_up.borrow().contains(&pod.uid);
            if let Err(text) = outcome {
                memory.hooks_failed.insert(id.to_owned(), text);
                drop(memory);
                if !given_up {
                    self.happen(pod, container, Event::PostStartFailed);
                }
            }
        }
        Ok(())
    }

    async fn stop(&self, pod: Option<&PodName>, stops: Vec<Stop>, why: &StopReason) -> Result<(), Failure> {
        if let Some(pod) = pod.filter(|_| why.ends_the_pod()) {
            let now_ms = self.clock.now().mono_ms;
            self.memory.borrow_mut().ending.entry(pod.uid.clone()).or_insert(now_ms);
        }
        let mut lanes = Lanes::new();
        for stop in stops {
            lanes.add(self.stop_one(pod, stop, why));
        }
        lanes.all().await.into_iter().collect()
    }

    async fn stop_one(&self, pod: Option<&PodName>, stop: Stop, why: &StopReason) -> Result<(), Failure> {
        let since_ms = self.clock.now().mono_ms;
        let sick = matches!(why, StopReason::Unhealthy { .. });
        let edited = matches!(why, StopReason::Edited | StopReason::Updated);
        let stopping = Stopping { since_ms, signalled_ms: None, killed_ms: None, sick, edited };
        self.memory.borrow_mut().stops.insert(stop.id.clone(), stopping);
        if let StopReason::Unhealthy { probe, output, .. } = why {
            let dead = Dead { probe: *probe, output: output.clone() };
            self.memory.borrow_mut().found_dead.insert(stop.id.clone(), dead);
        }
        let name = pod.filter(|_| stop.container != SANDBOX);
        if let Some(pod) = name {
            self.happen(pod, &stop.container, Event::Killing(why.clone()));
        }
        if stop.paused {
            // No hook runs in it before; its signal is sent in any case.
            match self.runtime.unpause(&stop.id).await {
                Ok(()) => name.into_iter().for_each(|pod| self.happen(pod, &stop.container, Event::Unpaused)),
                Err(failure) => log::debug!("unpause {}: {failure}", stop.container),
            }
        }
        if let Some(check) = &stop.pre_stop {
            self.memory.borrow_mut().pre_stopped.insert(stop.id.clone());
            let at_most = Duration::from_millis(u64::try_from(stop.grace_ms).unwrap_or(0));
            let (passed, note) = match timeout(at_most, self.hook(&stop.id, check, at_most)).await {
                Ok(Some(Ok(CheckOutcome { passed, note, .. }))) => (passed, note),
                _ => (false, None),
            };
            if let Some(pod) = name.filter(|_| !passed) {
                self.happen(pod, &stop.container, Event::PreStopFailed);
            }
            if let (Some(pod), Some(text)) = (name, note) {
                self.happen(pod, &stop.container, Event::HookFellBack { text });
            }
        }
        let sent = fine_if_gone(self.runtime.kill(&stop.id, &stop.signal).await);
        let mut memory = self.memory.borrow_mut();
        match sent {
            Ok(()) => {
                if let Some(stopping) = memory.stops.get_mut(&stop.id) {
                    stopping.signalled_ms = Some(self.clock.now().mono_ms);
                }
            }
            // Not sent: the stop begins anew, or the process would be killed without a word.
            Err(_) => drop(memory.stops.remove(&stop.id)),
        }
        sent
    }

    /// What was decided about pods.
    pub fn remember(&self, round: &Round) {
        let mut memory = self.memory.borrow_mut();
        memory.admissions.extend(round.admissions.clone());
        memory.allocations.extend(round.allocations.clone());
        drop(memory);
        round.hooks_given_up.iter().for_each(|id| self.give_up_hook(id));
    }

    /// A queue that is full loses events, never actions.
    fn happen(&self, pod: &PodName, container: &str, event: Event) {
        let _ = self.happenings.try_send(Happening::of_pod(pod, Some(container), event));
    }

    async fn slot(&self) -> tokio::sync::SemaphorePermit<'_> {
        self.slots.acquire().await.expect("nobody closes it")
    }
}

/// Whether `next` starts a container that joins the sandbox started by `first`.
fn is_made_beside(first: &ActionKind, next: &ActionKind) -> bool {
    match (first, next) {
        (ActionKind::Start(first), ActionKind::Start(next)) => first.container == SANDBOX && next.container != SANDBOX,
        _ => false,
    }
}

/// Not found and already stopped count as success.
fn fine_if_gone(result: Result<(), Failure>) -> Result<(), Failure> {
    match result {
        Err(Failure::NotFound(_)) => Ok(()),
        other => other,
    }
}
