//! What the loop observed itself and the engine does not tell. Losing it costs an early retry, and what was just then
//! ended for a resize stays as its policy has it, as with a kubelet. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::facts::again;
use crate::facts::backoff::{Now, RAN_FINE_MS, restart_wait_ms};
use crate::facts::checks::Dead;
use crate::facts::engine::{SeenContainer, State};
use crate::facts::naming::{PodName, Tag};
use crate::facts::round::ActionKind;
use crate::facts::seen::{self, Run};
use crate::facts::waiting::Dismissal;

/// A container of a pod: uid and container name (`POD` for the sandbox).
pub type ContainerKey = (String, String);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// False before the first listing: what is dead then died before this agent started.
    looked: bool,
    /// How long this host had been up when the agent began. None: not known.
    pub up_ms: Option<i64>,
    /// Containers that are paused, by the engine's id: since when, or when they were last to go on. None: they are just
    /// let go on.
    pub pauses: BTreeMap<String, Option<i64>>,
    /// By the engine's id.
    pub lives: BTreeMap<String, Life>,
    /// The newest start of a place that left no container: the create failed, or another program removed the container.
    pub lost: BTreeMap<ContainerKey, Lost>,
    pub pulls: BTreeMap<ContainerKey, Pull>,
    /// Stops under way, by the engine's id.
    pub stops: BTreeMap<String, Stopping>,
    /// Containers that were stopped because a probe failed, by the engine's id: the probe and its words.
    pub found_dead: BTreeMap<String, Dead>,
    /// Those whose preStop hook was run, by the engine's id.
    pub pre_stopped: BTreeSet<String>,
    /// postStart hooks that failed, by the engine's id: the text. And those that run now. One may fail before a listing
    /// shows its container, while an earlier one is still on its way.
    pub hooks_failed: BTreeMap<String, String>,
    pub hooks_running: BTreeSet<String>,
    /// The pods whose containers were seen, by uid, to tell which volumes are left over.
    pub owners: BTreeMap<String, PodName>,
    /// Pods whose last action failed, by uid.
    pub setbacks: BTreeMap<String, Setback>,
    /// Since when pods are being ended as a whole, by uid: their containers share one grace.
    pub ending: BTreeMap<String, i64>,
    /// Whether this node has taken a pod, by uid.
    pub admissions: BTreeMap<String, Option<Dismissal>>,
    /// What pods were given of this node, by uid.
    pub allocations: BTreeMap<String, Arc<Value>>,
    /// Since when pods are wanted, by uid.
    pub heard: BTreeMap<String, FirstWanted>,
}

/// When a pod was first wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstWanted {
    pub at_ms: i64,
    /// How long it had been active by then. The value comes from the wall clock, which may jump, and is therefore
    /// computed only once.
    pub active_ms: i64,
}

/// One container on the monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    pub tag: Tag,
    /// First seen running.
    pub since_ms: Option<i64>,
    pub death: Option<Death>,
    /// The state after its first end.
    pub end: Option<State>,
    /// When its first process started that was seen, and the last one, by the engine's clock.
    pub first_ms: Option<i64>,
    pub started_ms: Option<i64>,
    /// `again`: restarts of its process. `others`: restarts of containers with earlier numbers while this container
    /// existed.
    pub again: u32,
    pub others: u32,
    /// An earlier container had the same attempt number.
    pub double: bool,
}

impl Life {
    fn new(tag: Tag, double: bool) -> Life {
        let again = u32::from(double);
        Life { tag, since_ms: None, death: None, end: None, first_ms: None, started_ms: None, again, others: 0, double }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    pub at_ms: i64,
    /// Earlier failures are forgotten: the container ran long enough, or ended with its host.
    pub ran_fine: bool,
    pub exit_code: i32,
    /// It was stopped because a probe found it dead.
    pub sick: bool,
    /// The agent stopped the container to replace it, after an edit or a resize.
    pub edited: bool,
}

impl Death {
    /// An end with no further details.
    pub fn plain(at_ms: i64, exit_code: i32) -> Death {
        Death { at_ms, ran_fine: false, exit_code, sick: false, edited: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub attempt: u32,
    pub step: u32,
    pub hash: String,
    pub renewal: u32,
    /// None: it was never made.
    pub sandbox: Option<u32>,
    pub at_ms: i64,
    /// None: it was never made.
    pub exit_code: Option<i32>,
    pub text: String,
    /// Nothing was tried: what it asks for is not to be had as things are.
    pub misconfigured: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    pub image: String,
    pub attempt: u32,
    pub failures: u32,
    pub state: PullState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullState {
    /// `failed`: the error of the previous try, if that try failed.
    InFlight {
        failed: Option<String>,
    },
    Done,
    Failed {
        at_ms: i64,
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopping {
    pub since_ms: i64,
    /// Because a probe found it dead.
    pub sick: bool,
    /// Because it was edited, or is to be resized as only a new start can do it.
    pub edited: bool,
    /// When the preStop hook was over and the signal sent.
    pub signalled_ms: Option<i64>,
    pub killed_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setback {
    pub failures: u32,
    pub at_ms: i64,
    pub text: String,
    pub kind: SetbackKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetbackKind {
    /// A volume cannot be mounted.
    Mount,
    /// What a pod had cannot be removed.
    Removal,
    Other,
}

impl SetbackKind {
    pub fn of(what: &ActionKind) -> SetbackKind {
        match what {
            ActionKind::MakeVolumes { .. } => SetbackKind::Mount,
            ActionKind::RemoveVolumes | ActionKind::FreeVolumes => SetbackKind::Removal,
            _ => SetbackKind::Other,
        }
    }
}

/// A container that is dead, or was made and could not be started.
pub const START_ERROR_CODE: i32 = 128;
/// The exit code of a container that was killed by SIGKILL.
pub const KILLED_CODE: i32 = 137;
/// The exit code of a container that is gone without a trace, as a kubelet gives it.
pub const UNKNOWN_CODE: i32 = 137;

impl Memory {
    /// Takes in one listing: new containers, dead containers, missing containers.
    pub fn look(&mut self, containers: &[SeenContainer], now: Now) {
        let pods = seen::group(containers);
        self.owners.extend(pods.iter().map(|(uid, pod)| (uid.clone(), pod.name.clone())));
        let doubles = self.doubles(&pods);
        let crowded = self.crowded(&pods, &doubles);
        let mut lives: BTreeMap<String, Life> = BTreeMap::new();
        let before: BTreeMap<String, u32> = self.lives.iter().map(|(id, life)| (id.clone(), life.again)).collect();
        for run in pods.values().flat_map(|pod| &pod.runs) {
            let double = doubles.contains(&run.seen.id);
            let life = self.lives.remove(&run.seen.id).filter(|life| life.double == double);
            let life = life.unwrap_or_else(|| Life::new(run.tag.clone(), double));
            let mut life = self.live(run, life, now);
            if !self.is_dead(&run.seen.id)
                && crowded.contains(&(&run.tag.pod.uid, &run.tag.container))
                && let Some(death) = &mut life.death
            {
                // Another program caused this end, by a restart of this container or by a second container that held
                // the port or the lock.
                death.ran_fine = true;
            }
            lives.insert(run.seen.id.clone(), life);
        }
        again::count_others(&mut lives, &before, &pods);
        // What was there at the last look, and was not removed by us (`forget`), was removed by somebody else.
        for (id, life) in std::mem::replace(&mut self.lives, lives) {
            self.hooks_failed.remove(&id);
            self.miss(life, now);
        }
        self.looked = true;
        let paused = |id: &String| containers.iter().any(|seen| seen.id == *id && seen.beside.paused);
        self.pauses.retain(|id, _| paused(id));
        for seen in containers.iter().filter(|seen| seen.beside.paused) {
            self.pauses.entry(seen.id.clone()).or_insert(Some(now.mono_ms));
        }
        // Whether the process exists now, even if the container had ended before: another program may have started the
        // container again.
        let may_run = |seen: &&SeenContainer| seen.runs() || seen.state == (State::Created { refused: None });
        let alive: BTreeSet<&String> = containers.iter().filter(may_run).map(|seen| &seen.id).collect();
        self.stops.retain(|id, _| alive.contains(id));
        self.pre_stopped.retain(|id| alive.contains(id));
        self.found_dead.retain(|id, _| containers.iter().any(|seen| seen.id == *id));
    }

    /// Notes the wanted pods. `active_ms` is called only for newly wanted pods.
    pub fn hear<'a>(&mut self, uids: impl Iterator<Item = &'a String>, now: Now, active_ms: impl Fn(&str) -> i64) {
        for uid in uids {
            self.heard
                .entry(uid.clone())
                .or_insert_with(|| FirstWanted { at_ms: now.mono_ms, active_ms: active_ms(uid) });
        }
    }

    /// We removed this container ourselves.
    pub fn forget(&mut self, id: &str) {
        self.lives.remove(id);
        self.hooks_failed.remove(id);
        self.found_dead.remove(id);
    }

    /// What cannot be removed of pods, in words.
    pub fn left(&self) -> Vec<String> {
        let left = self.setbacks.iter().filter(|(_, setback)| setback.kind == SetbackKind::Removal);
        left.map(|(uid, setback)| {
            let pod = self.owners.get(uid).map_or_else(
                || format!("a pod that is gone ({uid})"),
                |PodName { namespace, name, .. }| format!("pod {namespace}/{name}"),
            );
            format!("the volumes of {pod}: {}; it is tried again", setback.text)
        })
        .collect()
    }

    /// Forgets each pod that `keep` rejects: no source wants the pod any more, and nothing remains of the pod.
    pub fn forget_pods(&mut self, keep: impl Fn(&str) -> bool) {
        self.lost.retain(|(uid, _), _| keep(uid));
        self.pulls.retain(|(uid, _), _| keep(uid));
        self.setbacks.retain(|uid, _| keep(uid));
        self.owners.retain(|uid, _| keep(uid));
        self.ending.retain(|uid, _| keep(uid));
        self.admissions.retain(|uid, _| keep(uid));
        self.allocations.retain(|uid, _| keep(uid));
        self.heard.retain(|uid, _| keep(uid));
    }

    fn live(&self, run: &Run<'_>, mut life: Life, now: Now) -> Life {
        life.count(run.seen);
        if life.death.is_some() {
            return life;
        }
        let state = life.end_before(run.seen, now.wall_ms).unwrap_or_else(|| run.seen.state.clone());
        let exit_code = match state {
            State::Running { .. } => {
                life.since_ms.get_or_insert(now.mono_ms);
                return life;
            }
            State::Created { refused: None } => return life,
            State::Created { refused: Some(_) } => START_ERROR_CODE,
            State::Exited { exit_code, .. } => exit_code,
        };
        life.end = Some(state.clone());
        life.death = Some(if self.looked {
            let ran_fine = life.since_ms.is_some_and(|since| now.mono_ms - since >= RAN_FINE_MS);
            let stopping = self.stops.get(&run.seen.id);
            let (sick, edited) = stopping.map_or((false, false), |stopping| (stopping.sick, stopping.edited));
            Death { at_ms: now.mono_ms, ran_fine, exit_code, sick, edited }
        } else {
            self.death_before_us(run, &state, exit_code, now)
        });
        life
    }

    /// The wall clock may have jumped in between: its differences count for no less than nothing and no more than the
    /// back-off.
    fn death_before_us(&self, run: &Run<'_>, state: &State, exit_code: i32, now: Now) -> Death {
        let (started_ms, finished_ms) = match *state {
            State::Exited { started_ms, finished_ms, .. } => (started_ms, finished_ms),
            _ => (run.seen.created_ms, run.seen.created_ms),
        };
        let ago_ms = now.wall_ms.saturating_sub(finished_ms).clamp(0, restart_wait_ms(run.tag.step));
        let ran_fine = finished_ms.saturating_sub(started_ms) >= RAN_FINE_MS || self.is_before_boot(started_ms, now);
        Death { ran_fine, ..Death::plain(now.mono_ms - ago_ms, exit_code) }
    }

    /// What started before the host did, or after now by a clock that was set back, ended with the host: power that
    /// fails again and again is no failure of its own, and delays nothing.
    fn is_before_boot(&self, started_ms: i64, now: Now) -> bool {
        let Some(up_ms) = self.up_ms else { return false };
        started_ms < now.wall_ms.saturating_sub(up_ms.saturating_add(now.mono_ms)) || started_ms > now.wall_ms
    }

    fn miss(&mut self, life: Life, now: Now) {
        let place = (life.tag.pod.uid.clone(), life.tag.container.clone());
        let earlier = self.lost.get(&place);
        let attempt = life.tag.attempt.saturating_add(life.again).saturating_add(life.others);
        if life.double || earlier.is_some_and(|lost| lost.attempt > attempt) {
            return;
        }
        let lost = Lost {
            attempt,
            step: life.tag.step,
            hash: life.tag.hash,
            renewal: life.tag.renewal,
            sandbox: Some(life.tag.sandbox),
            at_ms: life.death.map_or(now.mono_ms, |death| death.at_ms),
            exit_code: Some(life.death.map_or(UNKNOWN_CODE, |death| death.exit_code)),
            text: "it was removed by somebody else".to_owned(),
            misconfigured: false,
        };
        self.lost.insert(place, lost);
    }
}
