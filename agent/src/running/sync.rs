//! The loop: wake -> list -> plan -> act -> look again.
//!
//! A wake-up carries nothing; every look is at the whole world. Actions of one pod run in their order in a lane of its
//! own, and a pod with a lane gets no second one. Dropping the future ends everything at once, like a kill: what was
//! half done is found by the next look of whoever comes after. The simulation drives this very loop on a paused clock.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::sleep_until;

use crate::facts::backoff::Now;
use crate::facts::clock::Clock;
use crate::facts::desired::Desired;
use crate::facts::engine::{Failure, State};
use crate::facts::happening::{self, Happening};
use crate::facts::memory::Memory;
use crate::facts::naming::{PodName, Source};
use crate::facts::restarts::Restarts;
use crate::facts::round::Round;
use crate::facts::seen;
use crate::facts::shown::Shown;
use crate::facts::strain::Strain;
use crate::facts::waiting::{WaitReason, Waiting, Waits};
use crate::facts::wanted::Wanted;
use crate::facts::world::{Node, Verdicts, World};
use crate::host::trace;
use crate::plan::{self, Case, Rule, Rules};
use crate::running::act::Executor;
use crate::running::lanes::Lanes;
use crate::runtime::Runtime;
use crate::status;

/// Without any event the engine is listed this often: events can get lost.
const RELIST_MS: i64 = 45_000;
/// An engine that does not answer is asked again after this long, doubling.
const ENGINE_WAIT_MS: i64 = 500;
const ENGINE_WAIT_MS_MAX: i64 = 10_000;

/// The ends of the loop's channels, and the facts it starts with.
pub struct SyncChannels {
    pub desired: watch::Receiver<Arc<Desired>>,
    /// From the probes.
    pub verdicts: watch::Receiver<Arc<Verdicts>>,
    /// The pressure on this host.
    pub strain: watch::Receiver<Arc<Strain>>,
    /// Restarts that somebody asked for.
    pub restarts: watch::Receiver<Arc<Restarts>>,
    /// The host stops, and all pods with it.
    pub leaving: watch::Receiver<bool>,
    /// Something may have changed (an engine event): look again. Carries nothing.
    pub wake: Arc<Notify>,
    pub node: Node,
    /// Where this host is known, which may change. Empty: as `node` says.
    pub address: watch::Receiver<String>,
    /// The wall clock, in milliseconds since 1970.
    pub wall_ms: Rc<dyn Fn() -> i64>,
    /// Sent after each look: the containers found, and the status of each pod.
    pub shown: watch::Sender<Arc<Shown>>,
    /// For the events of the API. Full: the newest is dropped.
    pub happenings: mpsc::Sender<Happening>,
}

impl SyncChannels {
    fn take_address(&mut self) {
        let address = self.address.borrow_and_update().clone();
        if !address.is_empty() {
            self.node.address = address;
        }
    }
}

/// The purpose of a lane.
pub enum Done {
    Pod(String),
    /// A pull, or what is done for one container beside its pod's order.
    Beside,
}

/// Runs until it is dropped.
pub async fn run<R: Runtime>(runtime: &R, ends: SyncChannels) {
    run_with(runtime, ends, Rules::default()).await;
}

pub async fn run_with<R: Runtime>(runtime: &R, mut ends: SyncChannels, rules: Rules) {
    let clock = Clock::start(ends.wall_ms.clone());
    let hands = Executor::new(runtime, clock.clone(), ends.happenings.clone());
    let mut lanes = Lanes::new();
    let mut busy = BTreeSet::new();
    let mut trouble = Trouble::default();
    let mut announced = Announced::default();
    loop {
        let desired = ends.desired.borrow_and_update().clone();
        let mut world = as_told(&mut ends, &busy);
        let mut finished = Vec::new();
        let looked = {
            let look = look(runtime, &hands, &clock, &desired, &mut world, rules);
            tokio::pin!(look);
            loop {
                tokio::select! {
                    biased;
                    looked = &mut look => break looked,
                    done = lanes.next(), if !lanes.is_empty() => finished.push(done),
                }
            }
        };
        let wake_at_ms = match looked {
            Err(failure) => {
                trouble.again(&failure, clock.now());
                show_trouble(&ends.shown, &trouble);
                clock.now().mono_ms + trouble.wait_ms
            }
            Ok(now) => {
                trouble.over();
                trace::step("loop", &format_args!("listed {} containers", world.containers.len()));
                let case = Case { desired: &desired, world: &world, now, rules };
                let round = plan::plan(case);
                hands.remember(&round);
                tell(&ends, &desired, &round.waits, &world.memory, &mut announced);
                show(&ends.shown, &desired, &world, &round, now);
                trace::step("loop", &format_args!("decided, actions for {} pods", round.pods.len()));
                let wake_at_ms = round.wake_at_ms;
                start_lanes(&hands, case, round, &mut lanes, &mut busy);
                // Whatever it is, a moment that has passed is looked at in a moment, not in a spin.
                wake_at_ms.unwrap_or(i64::MAX).min(now.mono_ms + RELIST_MS).max(now.mono_ms + 1)
            }
        };
        // The plan left out pods that were busy. If some of them have finished, the next look follows at once.
        if finished.is_empty() {
            tokio::select! {
                // No chance in it: a seed of the simulation replays its history.
                biased;
                done = lanes.next(), if !lanes.is_empty() => retire(done, &mut busy),
                () = ends.wake.notified() => {}
                Ok(()) = ends.desired.changed() => {}
                Ok(()) = ends.verdicts.changed() => {}
                Ok(()) = ends.strain.changed() => {}
                Ok(()) = ends.restarts.changed() => {}
                Ok(()) = ends.leaving.changed() => {}
                Ok(()) = ends.address.changed() => {}
                () = sleep_until(clock.at(wake_at_ms)) => {}
            }
        }
        finished.into_iter().for_each(|done| retire(done, &mut busy));
    }
}

/// The world as the channels tell it, before a look at the engine.
fn as_told(ends: &mut SyncChannels, busy: &BTreeSet<String>) -> World {
    let verdicts = ends.verdicts.borrow_and_update().clone();
    let strain = ends.strain.borrow_and_update().clone();
    let restarts = ends.restarts.borrow_and_update().clone();
    let leaving = *ends.leaving.borrow_and_update();
    ends.take_address();
    World {
        leaving,
        node: ends.node.clone(),
        verdicts: (*verdicts).clone(),
        busy: busy.clone(),
        ended: ended(&ends.shown.borrow()),
        strain,
        restarts,
        ..World::default()
    }
}

/// The pods of the master that have ended, by what was shown last.
fn ended(shown: &Shown) -> BTreeSet<String> {
    let of_master = |uid: &str| shown.desired.pods.get(uid).is_some_and(|wanted| wanted.name.source == Source::Master);
    let ended = shown.statuses.iter().filter(|(uid, status)| status::is_final(status) && of_master(uid));
    ended.map(|(uid, _)| uid.clone()).collect()
}

fn retire(done: Done, busy: &mut BTreeSet<String>) {
    if let Done::Pod(uid) = done {
        busy.remove(&uid);
    }
}

/// One whole look at the world.
async fn look<R: Runtime>(
    runtime: &R,
    hands: &Executor<'_, R>,
    clock: &Clock,
    desired: &Desired,
    world: &mut World,
    rules: Rules,
) -> Result<Now, Failure> {
    world.containers = runtime.list().await?;
    let belongings = runtime.volumes().await?;
    (world.volumes, world.held_volumes) = (belongings.all, belongings.volumes);
    world.contents = runtime.contents(&plan::contents::paths(desired, &world.node)).await?;
    let now = clock.now();
    for seen in &mut world.containers {
        // Some engines forget why they refused a start.
        if seen.state == (State::Created { refused: None })
            && let Some(text) = hands.refused.borrow().get(&seen.id)
        {
            seen.state = State::Created { refused: Some(text.clone()) };
        }
    }
    world.memory = remember(&hands.memory, desired, world, now);
    if rules.hold(Rule::EndedStayEnded) {
        world.memory.correct(&mut world.containers);
    }
    let needed = plan::images_needed(Case { desired, world, now, rules });
    for name in needed {
        let image = runtime.image(&name).await?;
        world.images.insert(name, image);
    }
    Ok(now)
}

fn remember(memory: &RefCell<Memory>, desired: &Desired, world: &World, now: Now) -> Memory {
    let mut memory = memory.borrow_mut();
    memory.up_ms = world.node.up_ms;
    memory.look(&world.containers, now);
    plan::pods::hear(&mut memory, desired, &world.containers, now);
    let here: BTreeSet<String> = memory.lives.values().map(|life| life.tag.pod.uid.clone()).collect();
    memory.forget_pods(|uid| desired.pods.contains_key(uid) || here.contains(uid) || world.volumes.contains(uid));
    memory.clone()
}

fn start_lanes<'a, R: Runtime>(
    hands: &'a Executor<'a, R>,
    case: Case<'_>,
    round: Round,
    lanes: &mut Lanes<'a, Done>,
    busy: &mut BTreeSet<String>,
) {
    for pull in round.pulls {
        hands.pull_begins(&pull);
        lanes.add(async move {
            hands.pull(pull).await;
            Done::Beside
        });
    }
    for unpause in round.unpauses {
        hands.unpause_begins(&unpause);
        lanes.add(async move {
            hands.unpause(unpause).await;
            Done::Beside
        });
    }
    let pods = seen::group(&case.world.containers);
    for (uid, actions) in round.pods {
        let wanted = case.desired.pods.get(&uid).map(|wanted| wanted.name.clone());
        let name = wanted.or_else(|| pods.get(&uid).map(|pod| pod.name.clone()));
        busy.insert(uid.clone());
        lanes.add(async move {
            hands.act(&uid, name.as_ref(), actions).await;
            Done::Pod(uid)
        });
    }
}

/// The messages about pods that were logged and sent as events.
#[derive(Default)]
struct Announced {
    /// By the pod's uid and the container's name, which is empty for the pod itself.
    waits: BTreeMap<(String, String), Waiting>,
    /// By uid.
    dismissed: BTreeSet<String>,
}

/// A wait is told once, to the log and as events, and again when it changes; what failed and is just being tried again
/// waits as before.
fn tell(
    ends: &SyncChannels,
    desired: &Desired,
    waits: &BTreeMap<String, Waits>,
    memory: &Memory,
    announced: &mut Announced,
) {
    let mut now_announced = Announced { waits: announced.waits.clone(), ..Announced::default() };
    now_announced.waits.retain(|(uid, _), _| memory.setbacks.contains_key(uid));
    for (uid, waits) in waits {
        let Some(wanted) = desired.pods.get(uid) else { continue };
        let containers = waits.containers.iter().map(|(name, waiting)| (Some(name.as_str()), waiting));
        let whole = waits.pod.iter().map(|waiting| (None, waiting));
        let places = whole
            .chain(containers)
            .map(|(container, waiting)| (container.unwrap_or_default().to_owned(), container, waiting));
        // No container's name has a slash.
        let notes = waits.notes.iter().map(|(about, waiting)| (format!("note/{about}"), None, waiting));
        for (place, container, waiting) in places.chain(notes) {
            let place = (uid.clone(), place);
            if announced.waits.get(&place) != Some(waiting) {
                tell_one(&ends.happenings, wanted, container, waiting);
            }
            now_announced.waits.insert(place, waiting.clone());
        }
        if let Some(dismissal) = &waits.dismissed {
            if !announced.dismissed.contains(uid) {
                let PodName { namespace, name, .. } = &wanted.name;
                log::warn!("{namespace}/{name} has failed: {}: {}", dismissal.reason, dismissal.event);
                // A queue that is full loses events, never actions.
                let event = happening::Event::Dismissed(dismissal.clone());
                let _ = ends.happenings.try_send(Happening::of_pod(&wanted.name, None, event));
            }
            now_announced.dismissed.insert(uid.clone());
        }
    }
    *announced = now_announced;
}

fn tell_one(happenings: &mpsc::Sender<Happening>, wanted: &Wanted, container: Option<&str>, waiting: &Waiting) {
    let PodName { namespace, name, .. } = &wanted.name;
    if waiting.reason != WaitReason::ContainerCreating {
        let subject = container.map_or_else(String::new, |container| format!(" {container}"));
        log::info!("{namespace}/{name}{subject} waits: {}: {}", waiting.reason, waiting.message);
    }
    let member = container.and_then(|container| wanted.member(container));
    for event in happening::of_wait(member.as_ref(), waiting) {
        // A queue that is full loses events, never actions.
        let _ = happenings.try_send(Happening::of_pod(&wanted.name, container, event));
    }
}

fn show(shown: &watch::Sender<Arc<Shown>>, desired: &Arc<Desired>, world: &World, round: &Round, now: Now) {
    let was = shown.borrow().clone();
    let nothing = Waits::default();
    let statuses: BTreeMap<String, Value> = desired
        .pods
        .iter()
        .map(|(uid, wanted)| (uid, wanted, round.waits.get(uid).unwrap_or(&nothing)))
        .filter(|(_, _, waits)| !waits.undecided)
        .map(|(uid, wanted, waits)| {
            let before = was.statuses.get(uid).unwrap_or(&wanted.document["status"]);
            (uid.clone(), status::status(wanted, world, waits, before, now))
        })
        .collect();
    let same = was.looked
        && was.engine_trouble.is_none()
        && Arc::ptr_eq(&was.desired, desired)
        && was.statuses == statuses
        && was.waits == round.waits
        && was.world.containers == world.containers
        && was.world.node.address == world.node.address
        && was.world.busy == world.busy
        && was.world.memory.left() == world.memory.left()
        && was.world.verdicts == world.verdicts
        && was.world.strain == world.strain
        && was.world.restarts == world.restarts;
    if !same {
        shown.send_replace(Arc::new(Shown {
            desired: desired.clone(),
            world: Arc::new(world.clone()),
            statuses,
            waits: round.waits.clone(),
            engine_trouble: None,
            looked: true,
        }));
    }
}

/// The last that was seen stays shown, with the trouble beside it.
fn show_trouble(shown: &watch::Sender<Arc<Shown>>, trouble: &Trouble) {
    let was = shown.borrow().clone();
    if was.engine_trouble != trouble.now {
        shown.send_replace(Arc::new(Shown { engine_trouble: trouble.now.clone(), ..(*was).clone() }));
    }
}

/// An engine that does not answer: said once, asked again less and less often.
#[derive(Debug, Default)]
struct Trouble {
    now: Option<(String, i64)>,
    wait_ms: i64,
}

impl Trouble {
    fn again(&mut self, failure: &Failure, now: Now) {
        self.wait_ms = (self.wait_ms * 2).clamp(ENGINE_WAIT_MS, ENGINE_WAIT_MS_MAX);
        if self.now.is_none() {
            log::warn!("the engine does not answer, everything waits for it: {failure}");
            self.now = Some((failure.text().to_owned(), now.wall_ms));
        }
    }

    fn over(&mut self) {
        if self.now.take().is_some() {
            log::info!("the engine answers again");
        }
        self.wait_ms = 0;
    }
}
