//! An engine in memory, for the simulation: seeded, on tokio's clock, with calls that get lost, listings that come
//! late, and a memory for what must never happen (`wrongs`).
//!
//! What a container does is in its image's name: `steady` runs, `crash` and `done` end by themselves, and `exit3` with
//! that code; `try3` does so the first time and ends well the next, `heal3` runs on the next; `slow` and `stubborn`
//! take their signal ill, `bad` cannot be started, `absent` is in no registry, `local` is here and in no registry.
//!
//! A check is known by the first word of its command, and passes unless the container is said to fail it (`failing`).

mod beside;
mod faults;
mod note;
mod process;
mod wrongs;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Runtime;
use crate::facts::engine::{
    Belongings, Check, CheckOutcome, ContainerConfig, Failure, Image, Limits, NamedVolume, Purpose, SeenContainer,
    State, Volume,
};
use crate::facts::logins::Login;
use crate::facts::naming::{LABEL_CONTAINER, LABEL_KIND, LABEL_POD_UID, SANDBOX, Tag};
pub use faults::{Faults, Random};
pub use note::{Note, Noted};
use process::{end, run};

#[derive(Clone, Debug)]
pub struct FakeContainer {
    pub config: ContainerConfig,
    pub seen: SeenContainer,
    /// When the process will end by itself, and how.
    ends: Option<(Instant, i32)>,
    pub foreign: bool,
    /// Its name in the engine. The listing shows the name from its labels.
    called: String,
    /// The engine's own policy starts it again when it ends.
    pub by_policy: bool,
}

pub struct Fake {
    inner: RefCell<Inner>,
}

pub struct Inner {
    pub random: Random,
    pub faults: Faults,
    pub containers: BTreeMap<String, FakeContainer>,
    pub volumes: BTreeMap<String, BTreeSet<String>>,
    /// By path: the pod of the volume, and the stamp of its content.
    pub contents: BTreeMap<String, (String, String)>,
    /// The wall clock is that much ahead.
    pub wall_offset_ms: i64,
    /// The third number of the addresses of this host's pods.
    pub subnet: u8,
    started: Instant,
    next_id: u64,
    next_ip: u8,
    /// States since the last listing.
    past: Vec<Vec<SeenContainer>>,
    /// Calls that change a pod and are under way, by uid.
    changing: BTreeMap<String, Vec<Change>>,
    starts: BTreeMap<(String, String, String), Vec<Instant>>,
    pulls: BTreeMap<String, Vec<Instant>>,
    changes: Vec<Instant>,
    /// Pods that the agent must not touch from the given moment on.
    pub protected: BTreeMap<String, Instant>,
    pub changes_total: u64,
    /// Containers that a late listing showed as half made and that had already run: starting one runs it again, and
    /// only an engine with a conditional start could prevent it.
    pub begun_again: BTreeSet<(String, String)>,
    /// Images that somebody removed. Those called `archived` are in an archive of this host, and in no registry.
    pub images_removed: BTreeSet<String>,
    /// Processes that somebody started beside the agent, by the engine's id.
    by_hand: BTreeMap<String, Instant>,
    /// How often processes of a container began, by the pod's uid and the container's name.
    pub begins: BTreeMap<(String, String), u32>,
    /// Checks that fail, by the pod's uid and the container's name.
    pub failing: BTreeSet<(String, String, String)>,
    /// Some: everything is noted, for somebody who takes the notes.
    pub notes: Option<Vec<Note>>,
    /// Something happened that an engine tells by an event.
    pub event: bool,
    pub wrongs: Vec<String>,
}

/// A late listing shows an early state after the previous listing.
const PAST_KEPT: usize = 3;
impl Fake {
    pub fn new(seed: u64) -> Fake {
        Fake {
            inner: RefCell::new(Inner {
                random: Random(seed),
                faults: Faults::default(),
                containers: BTreeMap::new(),
                volumes: BTreeMap::new(),
                contents: BTreeMap::new(),
                wall_offset_ms: 1_800_000_000_000,
                subnet: 0,
                started: Instant::now(),
                next_id: 0,
                next_ip: 0,
                past: Vec::new(),
                changing: BTreeMap::new(),
                starts: BTreeMap::new(),
                pulls: BTreeMap::new(),
                changes: Vec::new(),
                protected: BTreeMap::new(),
                changes_total: 0,
                begun_again: BTreeSet::new(),
                images_removed: BTreeSet::new(),
                by_hand: BTreeMap::new(),
                begins: BTreeMap::new(),
                failing: BTreeSet::new(),
                notes: None,
                event: false,
                wrongs: Vec::new(),
            }),
        }
    }

    /// For the hand of the simulation, which is nobody's call.
    pub fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner = self.inner.borrow_mut();
        inner.advance();
        let value = change(&mut inner);
        if inner.event {
            inner.remember();
        }
        value
    }

    async fn enter(&self, changes: bool) -> Result<(), Failure> {
        let wait_ms = {
            let mut inner = self.inner.borrow_mut();
            if changes {
                inner.count_change();
            }
            3 + inner.random.below(30)
        };
        sleep(Duration::from_millis(wait_ms)).await;
        let mut inner = self.inner.borrow_mut();
        inner.advance();
        let Faults { down, stuck, lost_before, .. } = inner.faults;
        if down || (stuck && changes) || inner.random.percent(lost_before) {
            return Err(Failure::Unavailable("the call was lost".to_owned()));
        }
        Ok(())
    }

    fn leave<T>(&self, value: T) -> Result<T, Failure> {
        let mut inner = self.inner.borrow_mut();
        inner.remember();
        inner.event = true;
        let chance = inner.faults.lost_after;
        if inner.random.percent(chance) {
            return Err(Failure::Unavailable("the answer was lost".to_owned()));
        }
        // What was acknowledged stands in every later listing.
        inner.past.clear();
        Ok(value)
    }

    /// Notes that a call changes this pod. Two at once are wrong, but for a container that is made while its sandbox
    /// starts.
    fn change(&self, uid: &str, change: Change) -> Changing<'_> {
        let mut inner = self.inner.borrow_mut();
        let changing = inner.changing.entry(uid.to_owned()).or_default();
        changing.push(change);
        let fine = matches!(changing[..], [_] | [Change::Start, Change::Create] | [Change::Create, Change::Start]);
        if !fine && !uid.is_empty() {
            let text = format!("calls change pod {uid} at once: {changing:?}");
            inner.wrongs.push(text);
        }
        Changing { fake: self, uid: uid.to_owned(), change }
    }

    fn uid_of(&self, id: &str) -> String {
        let inner = self.inner.borrow();
        inner.containers.get(id).and_then(|held| held.seen.labels.get(LABEL_POD_UID).cloned()).unwrap_or_default()
    }
}

/// A call that changes a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Volumes,
    Create,
    Start,
    Remove,
}

struct Changing<'a> {
    fake: &'a Fake,
    uid: String,
    change: Change,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Some(changing) = self.fake.inner.borrow_mut().changing.get_mut(&self.uid)
            && let Some(at) = changing.iter().position(|change| *change == self.change)
        {
            changing.remove(at);
        }
    }
}

impl Inner {
    pub fn wall_ms(&self) -> i64 {
        let since = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.wall_offset_ms.saturating_add(since)
    }

    /// Processes whose time has come have ended.
    pub fn advance(&mut self) {
        let now = Instant::now();
        let due = self
            .containers
            .values()
            .filter(|held| !held.seen.beside.paused)
            .filter_map(|held| Some((held.ends.filter(|(at, _)| *at <= now)?, held.seen.id.clone())));
        let mut due: Vec<((Instant, i32), String)> = due.collect();
        due.sort();
        for ((_, code), id) in due {
            self.event = true;
            self.end(&id, code);
        }
    }

    fn end(&mut self, id: &str, code: i32) {
        let wall_ms = self.wall_ms();
        if let Some(held) = self.containers.get_mut(id) {
            end(held, code, wall_ms);
        }
        self.note(Some(id), Noted::Ended { code });
        if self.containers.get(id).is_some_and(|held| held.by_policy) {
            self.begin_again(id);
        }
    }

    pub fn note(&mut self, id: Option<&str>, what: Noted) {
        let Some(notes) = &mut self.notes else { return };
        let seen = id.and_then(|id| self.containers.get(id)).filter(|held| !held.foreign).map(|held| held.seen.clone());
        if id.is_none() || seen.is_some() {
            notes.push(Note { at: Instant::now(), seen, what });
        }
    }

    /// By somebody's hand: `docker kill`.
    pub fn kill(&mut self, id: &str, code: i32) {
        if self.containers.get(id).is_some_and(|held| held.seen.runs()) {
            self.end(id, code);
            self.event = true;
        }
    }

    pub fn add_foreign(&mut self, name: &str, labels: BTreeMap<String, String>) {
        let started_ms = self.wall_ms();
        let id = self.fresh_id();
        let seen = SeenContainer {
            id: id.clone(),
            name: name.to_owned(),
            labels,
            image: "foreign".to_owned(),
            image_id: String::new(),
            created_ms: started_ms,
            state: State::Running { started_ms },
            ip: None,
            limits: None,
            message: None,
            beside: Default::default(),
        };
        self.hold(ContainerConfig::default(), seen, true);
    }

    fn hold(&mut self, config: ContainerConfig, seen: SeenContainer, foreign: bool) {
        let (id, called) = (seen.id.clone(), seen.name.clone());
        self.containers.insert(id, FakeContainer { config, seen, ends: None, foreign, called, by_policy: false });
    }

    fn fresh_id(&mut self) -> String {
        self.next_id += 1;
        format!("{:012x}", self.next_id)
    }

    fn listing(&self) -> Vec<SeenContainer> {
        self.containers
            .values()
            .filter(|held| held.seen.labels.contains_key(LABEL_KIND))
            .map(|held| held.seen.clone())
            .collect()
    }

    fn remember(&mut self) {
        if self.faults.late_listing > 0 && self.past.len() < PAST_KEPT {
            self.past.push(self.listing());
        }
    }

    fn start(&mut self, id: &str) -> Result<(), Failure> {
        let Some(held) = self.containers.get(id).cloned() else {
            return Err(Failure::NotFound(format!("no container {id}")));
        };
        if held.seen.runs() {
            return Ok(());
        }
        if let Some(text) = self.refusal(&held) {
            if let Some(held) = self.containers.get_mut(id) {
                held.seen.state = State::Created { refused: Some(text.clone()) };
            }
            return Err(Failure::Refused(text));
        }
        self.event = true;
        let same = |other: &FakeContainer| {
            let label = |label: &str| other.seen.labels.get(label) == held.seen.labels.get(label);
            !other.foreign && label(LABEL_POD_UID) && label(LABEL_CONTAINER)
        };
        if let Some(twin) = self.containers.values().find(|other| other.seen.runs() && same(other))
            && !self.is_by_hand(&twin.seen.id)
        {
            self.wrongs.push(format!("{} starts while {} runs", held.seen.name, twin.seen.name));
        }
        self.check_order(&held);
        self.count_start(&held.seen.labels);
        self.count_begin(&held.seen.labels);
        let again = matches!(held.seen.state, State::Exited { .. });
        if again {
            let label = |label: &str| held.seen.labels.get(label).cloned().unwrap_or_default();
            self.begun_again.insert((label(LABEL_POD_UID), label(LABEL_CONTAINER)));
        }
        let started_ms = self.wall_ms();
        let lifetime = Duration::from_millis(500 + self.random.below(3000));
        let ends = self.own_end(&held).map(|code| (Instant::now() + lifetime, code));
        self.next_ip = self.next_ip % 250 + 1;
        let address = format!("10.244.{}.{}", self.subnet, self.next_ip);
        let ip = held.seen.labels.get(LABEL_CONTAINER).filter(|name| *name == SANDBOX).map(|_| address);
        if let Some(held) = self.containers.get_mut(id) {
            run(held, started_ms);
            held.seen.ip = ip;
            held.ends = ends;
        }
        self.note(Some(id), Noted::Started { again });
        Ok(())
    }
}

fn limits_of(config: &ContainerConfig) -> Limits {
    Limits {
        cpu_shares: config.cpu_shares.unwrap_or(0),
        cpu_quota_us: config.cpu_quota_us.unwrap_or(0),
        cpu_period_us: config.cpu_period_us.unwrap_or(0),
        memory_bytes: config.memory_bytes.unwrap_or(0),
    }
}

impl Runtime for Fake {
    async fn list(&self) -> Result<Vec<SeenContainer>, Failure> {
        let early = self.with(|engine| {
            let chance = engine.faults.late_listing;
            let early = engine.random.percent(chance).then(|| (engine.listing(), engine.random.below(1500)));
            // No later listing goes back behind it.
            early.inspect(|_| engine.past.clear())
        });
        self.enter(false).await?;
        if let Some((shown, late_ms)) = early {
            // Taken at once, and a while on its way.
            sleep(Duration::from_millis(late_ms)).await;
            return Ok(shown);
        }
        let mut inner = self.inner.borrow_mut();
        let past = std::mem::take(&mut inner.past);
        let late = inner.faults.late_listing;
        if past.is_empty() || !inner.random.percent(late) {
            return Ok(inner.listing());
        }
        let at = usize::try_from(inner.random.below(past.len() as u64)).unwrap_or(0);
        // What is after that moment may be shown next time.
        inner.past = past[at..].to_vec();
        Ok(past[at].clone())
    }

    async fn volumes(&self) -> Result<Belongings, Failure> {
        let all: BTreeSet<String> = self.inner.borrow().volumes.keys().cloned().collect();
        Ok(Belongings { volumes: all.clone(), all })
    }

    async fn contents(&self, paths: &BTreeSet<String>) -> Result<BTreeMap<String, String>, Failure> {
        let inner = self.inner.borrow();
        Ok(paths.iter().filter_map(|path| Some((path.clone(), inner.contents.get(path)?.1.clone()))).collect())
    }

    async fn make_volumes(&self, uid: &str, volumes: &[NamedVolume]) -> Result<(), Failure> {
        self.enter(true).await?;
        let mut inner = self.inner.borrow_mut();
        for NamedVolume { volume, .. } in volumes {
            if let Volume::Content { path, content } = volume {
                inner.contents.insert(path.clone(), (uid.to_owned(), content.stamp.clone()));
                let files = content.files.iter().map(|file| (file.path.clone(), file.bytes.to_vec())).collect();
                inner.note(None, Noted::Filled { path: path.clone(), files });
            }
            inner.volumes.entry(uid.to_owned()).or_default().insert(format!("{volume:?}"));
        }
        drop(inner);
        self.leave(())
    }

    async fn remove_volumes(&self, uid: &str) -> Result<(), Failure> {
        self.free_volumes(uid).await
    }

    async fn free_volumes(&self, uid: &str) -> Result<(), Failure> {
        let _changing = self.change(uid, Change::Volumes);
        self.enter(true).await?;
        let mut inner = self.inner.borrow_mut();
        let of_it = |held: &&FakeContainer| {
            !held.foreign && held.seen.runs() && held.seen.labels.get(LABEL_POD_UID).is_some_and(|other| other == uid)
        };
        if let Some(held) = inner.containers.values().find(of_it) {
            let text = format!("volumes of {} are removed while it runs", held.seen.name);
            inner.wrongs.push(text);
        }
        inner.volumes.remove(uid);
        inner.contents.retain(|_, (of, _)| of != uid);
        drop(inner);
        self.leave(())
    }

    async fn image(&self, reference: &str) -> Result<Option<Image>, Failure> {
        self.enter(false).await?;
        let id = format!("sha256:{reference}");
        let removed = self.inner.borrow().images_removed.contains(reference);
        Ok((!removed && !reference.starts_with("absent")).then(|| Image { id, ..Image::default() }))
    }

    async fn pull(&self, reference: &str, _logins: &[Login]) -> Result<(), Failure> {
        self.enter(false).await?;
        let now = Instant::now();
        let mut inner = self.inner.borrow_mut();
        let pulls = inner.pulls.entry(reference.to_owned()).or_default();
        pulls.retain(|at| now - *at < Duration::from_secs(60));
        pulls.push(now);
        if pulls.len() > wrongs::PULLS_A_MINUTE_MAX {
            inner.wrongs.push(format!("{reference} was pulled without rest"));
        }
        if ["absent", "local", "archived"].iter().any(|kind| reference.starts_with(kind)) {
            return Err(Failure::Registry(format!("{reference}: not found")));
        }
        inner.images_removed.remove(reference);
        Ok(())
    }

    async fn load(&self, reference: &str) -> Result<bool, Failure> {
        self.enter(false).await?;
        Ok(reference.starts_with("archived") && self.inner.borrow_mut().images_removed.remove(reference))
    }

    async fn make_ready(&self) -> Result<(), Failure> {
        self.enter(false).await
    }

    async fn create(&self, config: &ContainerConfig) -> Result<String, Failure> {
        let uid = config.labels.get(LABEL_POD_UID).cloned().unwrap_or_default();
        let _changing = self.change(&uid, Change::Create);
        self.enter(true).await?;
        let mut inner = self.inner.borrow_mut();
        if let Some(holder) = inner.containers.values().find(|held| held.called == config.name) {
            let text = format!("the name {} is taken", config.name);
            return Err(if holder.foreign { Failure::Taken(text) } else { Failure::Conflict(text) });
        }
        let id = inner.fresh_id();
        let seen = SeenContainer {
            id: id.clone(),
            name: Tag::of(&config.labels).map_or_else(|| config.name.clone(), |tag| tag.name()),
            labels: config.labels.clone(),
            image: config.image.clone(),
            image_id: format!("sha256:{}", config.image),
            created_ms: inner.wall_ms(),
            state: State::Created { refused: None },
            ip: None,
            limits: Some(limits_of(config)),
            message: None,
            beside: Default::default(),
        };
        inner.hold(config.clone(), seen, false);
        if let Some(held) = inner.containers.get_mut(&id) {
            held.called.clone_from(&config.name);
        }
        drop(inner);
        self.leave(id)
    }

    async fn start(&self, id: &str) -> Result<(), Failure> {
        let uid = self.uid_of(id);
        let _changing = self.change(&uid, Change::Start);
        self.enter(true).await?;
        self.inner.borrow_mut().start(id)?;
        self.leave(())
    }

    async fn unpause(&self, id: &str) -> Result<(), Failure> {
        self.enter(true).await?;
        let mut inner = self.inner.borrow_mut();
        inner.touch(id, "an unpause");
        if let Some(held) = inner.containers.get_mut(id) {
            held.seen.beside.paused = false;
        }
        drop(inner);
        self.leave(())
    }

    async fn resize(&self, id: &str, limits: &Limits) -> Result<(), Failure> {
        self.enter(true).await?;
        let mut inner = self.inner.borrow_mut();
        inner.touch(id, "a resize");
        let held = inner.containers.get_mut(id).filter(|held| held.seen.runs());
        held.ok_or_else(|| Failure::NotFound(format!("{id} does not run")))?.seen.limits = Some(*limits);
        inner.note(Some(id), Noted::Resized);
        drop(inner);
        self.leave(())
    }

    async fn kill(&self, id: &str, signal: &str) -> Result<(), Failure> {
        self.enter(true).await?;
        let mut inner = self.inner.borrow_mut();
        inner.touch(id, "a kill");
        let slowly = Instant::now() + Duration::from_millis(200 + inner.random.below(1500));
        if !inner.containers.get(id).is_some_and(|held| held.seen.runs()) {
            return Err(Failure::NotFound(format!("{id} does not run")));
        }
        inner.note(Some(id), Noted::Signalled { signal: signal.to_owned() });
        if let Some(held) = inner.containers.get_mut(id) {
            // A signal that ends it is the end of the engine's own policy, and lets one go on that is paused.
            (held.by_policy, held.seen.beside.paused) = (false, false);
        }
        match inner.containers.get_mut(id) {
            Some(held) if signal != "SIGKILL" && held.config.image.starts_with("stubborn") => {}
            Some(held) if signal != "SIGKILL" && held.config.image.starts_with("slow") => held.ends = Some((slowly, 0)),
            _ if signal == "SIGKILL" => inner.end(id, 137),
            _ => inner.end(id, 143),
        }
        drop(inner);
        self.leave(())
    }

    async fn remove(&self, id: &str) -> Result<(), Failure> {
        let uid = self.uid_of(id);
        let _changing = self.change(&uid, Change::Remove);
        self.enter(true).await?;
        let mut inner = self.inner.borrow_mut();
        inner.touch(id, "a removal");
        if inner.containers.get(id).is_some_and(|held| held.seen.runs()) {
            return Err(Failure::Refused(format!("{id} runs")));
        }
        inner.containers.remove(id);
        drop(inner);
        self.leave(())
    }

    async fn check(&self, id: &str, check: &Check, _: Purpose, at_most: Duration) -> Result<CheckOutcome, Failure> {
        self.enter(false).await?;
        let Check::Exec { command } = check else {
            return Ok(CheckOutcome { passed: true, ..CheckOutcome::default() });
        };
        let name = command.first().cloned().unwrap_or_default();
        // The second word says how long it takes.
        let takes = command.get(1).and_then(|millis| millis.parse().ok()).map(Duration::from_millis);
        let runs = || self.inner.borrow().containers.get(id).is_some_and(|held| held.seen.runs());
        let gone = || Failure::NotFound(format!("{id} does not run"));
        if !runs() {
            return Err(gone());
        }
        if self.inner.borrow().containers.get(id).is_some_and(|held| held.seen.beside.paused) {
            return Err(Failure::Refused(format!("{id} is paused")));
        }
        self.with(|engine| engine.note(Some(id), Noted::Asked { check: name.clone() }));
        sleep(takes.unwrap_or_default().min(at_most)).await;
        self.with(|_| ());
        if !runs() {
            return Err(gone());
        }
        let mut inner = self.inner.borrow_mut();
        let label = |label: &str| {
            inner.containers.get(id).and_then(|held| held.seen.labels.get(label).cloned()).unwrap_or_default()
        };
        let place = (label(LABEL_POD_UID), label(LABEL_CONTAINER), name.clone());
        let passed = !inner.failing.contains(&place) && takes.is_none_or(|takes| takes <= at_most);
        inner.note(Some(id), Noted::Answered { check: name.clone(), passed });
        let output = if passed { String::new() } else { format!("{name} fails") };
        Ok(CheckOutcome { passed, exit_code: Some(i64::from(!passed)), output, note: None })
    }
}
