//! One history: what happens, by a seed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use coracle_agent::facts::desired::Desired;
use coracle_agent::facts::heard::MasterPods;
use coracle_agent::facts::naming::Source;
use coracle_agent::facts::naming::{LABEL_CONTAINER, LABEL_POD_UID, SANDBOX};
use coracle_agent::facts::objects::{Object, ObjectKind, Objects, Ref};
use coracle_agent::facts::shown::Shown;
use coracle_agent::facts::strain::{Short, Strain};
use coracle_agent::facts::view::{ClusterView, ViewWriter};
use coracle_agent::facts::wanted::Wanted;
use coracle_agent::facts::world::{Node, Verdicts};
use coracle_agent::figures::probes::Tallies;
use coracle_agent::plan::Rules;
use coracle_agent::plan::admission::refusal;
use coracle_agent::running::probe;
use coracle_agent::running::sync::{self, SyncChannels};
use coracle_agent::runtime::fake::{self, Fake, Faults, Random};
use coracle_agent::telling::report::{Call, calls};
use coracle_schema::base64;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{Instant, timeout};

use super::checks;
use super::pods::{KEY, Maker, OBJECTS, starts_again};
use super::theme::{Deed, Theme};
use super::witness::{Asked, View, Witness};
use crate::follow::{self, Followed};

/// Longer than the longest back-off, twice: whatever waits has had its turn.
const SETTLE: Duration = Duration::from_secs(720);
pub const CPU_MILLI: u64 = 4000;
const NODE: &str = "n";

/// What people want of a pod at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Runs,
    /// Its deletion was asked for; it is still listed.
    Deleting,
    Gone,
    /// Not listed, by a source that cannot say whether it wants it.
    Unknown,
}

pub struct Pod {
    pub uid: String,
    pub source: Source,
    pub document: Value,
    pub wish: Wish,
    /// Somebody's hand was on it: what would have ended by itself may have ended otherwise.
    pub touched: bool,
    pub refused: bool,
    /// Its status as its master has it, and when each container's end came to stand there.
    pub recorded: Value,
    /// Of a pod of a file: its manifest when that was recorded, which this host does when the pod is over.
    recorded_of: String,
    ends: BTreeMap<String, (Instant, i32)>,
    /// When it was asked for; and since when an agent that runs now can know of it.
    since: Instant,
    known_since: Instant,
    /// The host was short of something then, and took none such.
    pub strained: bool,
    /// It was short before the agent looked at it.
    pub may_be_refused: bool,
    pub evicted: Option<Instant>,
    /// Its deletion was asked for then.
    pub ends_since: Option<Instant>,
    /// Somebody wrote then that it has ended.
    pub ended_by_hand: Option<Instant>,
    /// Whether the wall clock jumped since it was asked for, and an agent began after that.
    pub clock_jumped: bool,
    pub active_unknown: bool,
}

pub struct Agent {
    body: LocalSet,
    main: JoinHandle<()>,
}

pub struct Story {
    pub fake: Arc<Fake>,
    pub random: Random,
    pub theme: Theme,
    pub pods: Vec<Pod>,
    pub shown: watch::Receiver<Arc<Shown>>,
    pub log: Vec<String>,
    pub witness: Witness,
    /// All that the API has shown.
    pub followed: Followed,
    /// What the agent has shown, and its reports have not seen yet.
    unreported: Rc<RefCell<Vec<Arc<Shown>>>>,
    /// By uid, as the agent's reports remember it.
    pub sent: BTreeMap<String, (Value, Value)>,
    /// By uid: the pods of the API that show what files ask for.
    mirrors: BTreeMap<String, Value>,
    mirrors_made: u64,
    /// Something was not heard by the master.
    due: bool,
    rules: Rules,
    desired: watch::Sender<Arc<Desired>>,
    pub strain: watch::Sender<Arc<Strain>>,
    pub strained_since: Option<Instant>,
    /// By uid and name: since when a host without disk has kept dead containers that newer ones follow.
    kept_dead: BTreeMap<(String, String), Instant>,
    wake: Arc<Notify>,
    pub agent: Option<Agent>,
    agents: u32,
    pub edits: u64,
    /// The texts of the ConfigMap and the Secret; None: it is not there.
    pub objects: [Option<String>; 2],
    pub calm: bool,
    /// The master answers, too: until then only what it says is gone is gone.
    pub settled: bool,
}

thread_local! {
    static BEGAN: std::cell::Cell<Option<Instant>> = const { std::cell::Cell::new(None) };
}

/// Since this thread's history began.
pub fn seconds() -> f64 {
    BEGAN.get().map_or(0.0, |began| began.elapsed().as_secs_f64())
}

pub fn seconds_at(at: Instant) -> f64 {
    BEGAN.get().map_or(0.0, |began| (at - began).as_secs_f64())
}

/// What went wrong; empty if all is well.
pub fn run(seed: u64, rules: Rules) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        BEGAN.set(Some(Instant::now()));
        let mut story = Story::new(seed, rules);
        story.live().await;
        let wrongs = checks::all(&mut story).await;
        if wrongs.is_empty() { wrongs } else { story.log.iter().cloned().chain(wrongs).collect() }
    })
}

impl Story {
    pub fn new(seed: u64, rules: Rules) -> Story {
        let mut random = Random(seed.wrapping_mul(0x1234_5678_9abc_def1) ^ 0x5eed);
        // One thread: what runs in it wants an `Arc` all the same.
        #[allow(clippy::arc_with_non_send_sync)]
        let fake = Arc::new(Fake::new(random.draw()));
        fake.with(|engine| engine.notes = Some(Vec::new()));
        Story {
            fake,
            random,
            theme: Theme::of(rules.switched_off),
            pods: Vec::new(),
            shown: watch::channel(Arc::new(Shown::default())).1,
            log: Vec::new(),
            witness: Witness::default(),
            followed: Followed::default(),
            unreported: Rc::default(),
            sent: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            mirrors_made: 0,
            due: false,
            rules,
            desired: watch::channel(Arc::new(Desired::default())).0,
            strain: watch::channel(Arc::new(Strain::default())).0,
            strained_since: None,
            kept_dead: BTreeMap::new(),
            wake: Arc::new(Notify::new()),
            agent: None,
            agents: 0,
            edits: 0,
            objects: [Some("first".to_owned()), Some("first".to_owned())],
            calm: true,
            settled: false,
        }
    }

    async fn live(&mut self) {
        self.calm = self.random.percent(self.theme.calm);
        if !self.calm {
            let faults = Faults {
                lost_before: self.random.below(8),
                lost_after: self.random.below(8),
                late_listing: self.random.below(30),
                ..Faults::default()
            };
            self.fake.with(|engine| engine.faults = faults);
        }
        for object in 0..OBJECTS.len() {
            if self.random.percent(20) {
                self.objects[object] = None;
            }
        }
        for _ in 0..1 + self.random.below(2) {
            self.add_pod();
        }
        self.meet_strangers();
        self.boot();
        let steps = 4 + self.random.below(8);
        for _ in 0..steps {
            self.step().await;
            let pause = Duration::from_millis(self.random.below(match self.random.0 % 3 {
                0 => 300,
                1 => 4_000,
                _ => 30_000,
            }));
            self.pass(pause, Duration::from_millis(250)).await;
            if !self.witness.wrongs.is_empty() {
                return;
            }
        }
        self.settle().await;
    }

    async fn settle(&mut self) {
        for index in 0..self.pods.len() {
            if self.pods[index].wish == Wish::Unknown {
                self.find_again(index);
            }
        }
        self.fake.with(|engine| {
            engine.faults = Faults::default();
            // What is not ready stays so, and nothing comes of it.
            engine.failing.retain(|(_, _, check)| check == "ready");
        });
        self.relax();
        self.objects.iter_mut().for_each(|object| _ = object.get_or_insert("last".to_owned()));
        if self.agent.is_none() {
            self.boot();
        }
        self.settled = self.random.percent(50);
        self.publish();
        self.pass(SETTLE, Duration::from_millis(2000)).await;
    }

    async fn step(&mut self) {
        let count = self.pods.len();
        let index = usize::try_from(self.random.below(count as u64)).unwrap();
        let about = self.theme.deed.filter(|_| self.random.percent(50));
        let drawn = usize::try_from(self.random.below(Deed::ALL.len() as u64)).unwrap();
        match about.unwrap_or(Deed::ALL[drawn]) {
            Deed::AddPod if count < 3 => self.add_pod(),
            Deed::AddPod | Deed::EditContainer => self.edit_container(index),
            Deed::EditShared => self.edit_shared(index),
            Deed::ChangeContainers => self.change_containers(index),
            Deed::Delete => self.wish(index, Wish::Deleting),
            Deed::Remove => self.wish(index, Wish::Gone),
            Deed::Revive => self.wish(index, Wish::Runs),
            Deed::LoseSight => self.lose_sight(index).await,
            Deed::Kill => self.kill_by_hand(false),
            Deed::KillSandbox => self.kill_by_hand(true),
            Deed::RemoveByHand => self.remove_by_hand(),
            Deed::Restart => self.restart_by_hand(),
            Deed::RestartUnseen => self.restart_unseen().await,
            Deed::Pause => self.pause_by_hand(),
            Deed::Rename => self.rename_by_hand(),
            Deed::Copy => self.copy_by_hand(),
            Deed::RestartAlways => self.restart_always(),
            Deed::Prune => self.prune_by_hand(),
            Deed::RemoveUnseen => self.remove_unseen().await,
            Deed::Jump => self.jump(),
            Deed::Crash => self.crash().await,
            Deed::Outage => self.outage(true).await,
            Deed::Stuck => self.outage(false).await,
            Deed::Debug => self.debug(index),
            Deed::Sicken => self.sicken(),
            Deed::Resize => self.resize(index),
            Deed::ChangeObject => self.change_object(),
            Deed::Strain => self.change_strain(),
            Deed::Evict => self.evict(index),
            Deed::EndByHand => self.end_by_hand(index),
        }
        self.publish();
    }

    pub fn say(&mut self, text: String) {
        log::info!("      {text}");
        self.log.push(format!("{:8.3} {text}", seconds()));
    }

    pub fn maker(&mut self) -> Maker<'_> {
        Maker { random: &mut self.random, traits: self.theme.traits }
    }

    pub fn add_pod(&mut self) {
        let number = self.pods.len();
        let (source, document, refused) = self.maker().pod(number);
        self.say(format!("add of {source}: {document}"));
        self.push(source, document, refused);
    }

    fn push(&mut self, source: Source, document: Value, refused: bool) {
        let strained = refuses(&self.strain.borrow(), source, &document);
        self.pods.push(Pod {
            uid: document["metadata"]["uid"].as_str().unwrap().to_owned(),
            source,
            document,
            wish: Wish::Runs,
            touched: false,
            refused,
            recorded: Value::Null,
            recorded_of: String::new(),
            ends: BTreeMap::new(),
            since: Instant::now(),
            known_since: Instant::now(),
            strained,
            may_be_refused: strained,
            evicted: None,
            ends_since: None,
            ended_by_hand: None,
            clock_jumped: false,
            active_unknown: false,
        });
    }

    /// A pod of one container that runs.
    pub fn add_steady(&mut self) {
        let document = json!({
            "metadata": {"namespace": "default", "name": "pod0", "uid": "u0"},
            "spec": {"restartPolicy": "Always", "containers":
                [{"name": "c0", "image": "steady:1", "imagePullPolicy": "IfNotPresent"}]},
        });
        self.push(Source::File, document, false);
    }

    pub fn wake(&self) {
        self.wake.notify_one();
    }

    pub fn die(&mut self) {
        self.agent = None;
    }

    pub fn boot(&mut self) {
        self.agents += 1;
        self.followed.forget_starts();
        let (shown, seen) = watch::channel(Arc::new(Shown::default()));
        self.shown = seen.clone();
        let (verdicts, found) = watch::channel(Arc::new(Verdicts::new()));
        let (happenings, mut told) = mpsc::channel(1000);
        // An agent that starts anew has not measured anything yet.
        self.forget_evictions();
        for pod in &mut self.pods {
            pod.active_unknown |= pod.clock_jumped;
            if pod.recorded["startTime"].is_null() {
                pod.known_since = Instant::now();
            }
        }
        let wall = self.fake.clone();
        let node = Node {
            name: NODE.into(),
            data_dir: "/d".into(),
            volatile_dir: "/v".into(),
            pause_image: "sha256:pause".into(),
            cpu_milli: CPU_MILLI,
            memory_bytes: 64 << 30,
            ..Node::default()
        };
        let ends = SyncChannels {
            desired: self.desired.subscribe(),
            verdicts: found,
            strain: self.strain.subscribe(),
            restarts: watch::channel(Arc::default()).1,
            leaving: watch::channel(false).1,
            address: watch::channel(String::new()).1,
            wake: self.wake.clone(),
            node,
            wall_ms: Rc::new(move || wall.with(|engine| engine.wall_ms())),
            shown,
            happenings: happenings.clone(),
        };
        let rules = self.rules;
        self.publish();
        let body = LocalSet::new();
        self.sent.clear();
        self.unreported = Rc::default();
        let (unreported, mut reporter) = (self.unreported.clone(), seen.clone());
        body.spawn_local(async move {
            while reporter.changed().await.is_ok() {
                unreported.borrow_mut().push(reporter.borrow_and_update().clone());
            }
        });
        let (engine, prober, listener) = (self.fake.clone(), self.fake.clone(), self.fake.clone());
        body.spawn_local(async move {
            while let Some(happening) = told.recv().await {
                listener.with(|engine| engine.note(None, fake::Noted::Told(happening)));
            }
        });
        let heard = ViewWriter::new(ClusterView::default()).part(|view| &view.pods);
        let listeners = probe::Listeners { happenings, tallies: Arc::new(Tallies::default()) };
        body.spawn_local(probe::run(prober, seen, heard, Arc::new(verdicts), listeners));
        let main = body.spawn_local(async move { sync::run_with(&*engine, ends, rules).await });
        self.agent = Some(Agent { body, main });
    }

    pub fn publish(&mut self) {
        self.pods.iter_mut().for_each(Pod::forget_other_manifest);
        let mut desired = Desired { objects: Arc::new(self.known_objects()), ..Desired::default() };
        if !self.settled {
            desired.unknown.insert(Source::Master);
        }
        for pod in &self.pods {
            match pod.wish {
                Wish::Runs | Wish::Deleting => {
                    desired.pods.insert(pod.uid.clone(), Arc::new(wanted(pod.source, &pod.shown())));
                }
                Wish::Gone if pod.source == Source::Master => drop(desired.gone.insert(&pod.uid)),
                Wish::Gone => {}
                Wish::Unknown => drop(desired.unknown.insert(pod.source)),
            }
        }
        self.desired.send_if_modified(|before| {
            let changed = **before != desired;
            if changed {
                *before = Arc::new(desired);
            }
            changed
        });
    }

    fn known_objects(&self) -> Objects {
        let mut objects = Objects::default();
        for (index, (kind, name)) in [ObjectKind::ConfigMap, ObjectKind::Secret].into_iter().zip(OBJECTS).enumerate() {
            let reference = Ref { kind, namespace: "default".to_owned(), name: name.to_owned() };
            let object = self.objects[index].as_ref().map(|text| {
                let text = if kind == ObjectKind::Secret { base64::encode(text.as_bytes()) } else { text.clone() };
                Arc::new(Object::read(kind, &json!({"data": {KEY: text}})))
            });
            objects.files.extend(object.clone().map(|object| (reference.clone(), object)));
            objects.known.insert(reference, object);
        }
        objects
    }

    /// Time passes; the engine tells what happens, mostly, and the master hears of it, sooner or later.
    pub async fn pass(&mut self, time: Duration, slice: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let slice = slice.min(until - Instant::now());
            match &mut self.agent {
                Some(agent) => {
                    drop(timeout(slice, &mut agent.body).await);
                    assert!(!agent.main.is_finished(), "the loop has ended");
                }
                None => tokio::time::sleep(slice).await,
            }
            self.look();
            let event = self.fake.with(|engine| std::mem::take(&mut engine.event));
            if event && self.random.percent(85) {
                self.wake.notify_one();
            }
            if self.report() {
                self.publish();
            }
        }
    }

    /// Where the disk is short, dead containers that newer ones follow go.
    fn look_for_the_dead(&mut self) {
        let short = self.calm && self.agent.is_some() && self.strain.borrow().short.contains(&Short::Disk);
        let waits = self.shown.borrow().waits.clone();
        let plain = |pod: &&Pod| {
            let waits = waits.get(&pod.uid).is_some_and(|waits| waits.pod.is_some() || waits.dismissed.is_some());
            pod.wish == Wish::Runs && !pod.refused && !pod.strained && !waits
        };
        let live: BTreeSet<String> = self.pods.iter().filter(plain).map(|pod| pod.uid.clone()).collect();
        let mut newest: BTreeMap<(String, String), (usize, usize)> = BTreeMap::new();
        self.fake.with(|engine| {
            let able = short && !engine.faults.down && !engine.faults.stuck;
            for held in engine.containers.values().filter(|held| able && !held.foreign) {
                let label = |label: &str| held.seen.labels[label].clone();
                let (dead, all) = newest.entry((label(LABEL_POD_UID), label(LABEL_CONTAINER))).or_default();
                (*dead, *all) = (*dead + usize::from(!held.seen.runs()), *all + 1);
            }
        });
        newest.retain(|(uid, name), (dead, all)| live.contains(uid) && name != SANDBOX && *dead > 0 && *all > 1);
        self.kept_dead.retain(|place, _| newest.contains_key(place));
        for place in newest.into_keys() {
            let since = *self.kept_dead.entry(place.clone()).or_insert_with(Instant::now);
            if since.elapsed() > Duration::from_secs(60) {
                self.witness.wrongs.push(format!("{place:?}: dead containers are kept where the disk is short"));
            }
        }
    }

    /// The witness sees what has happened since.
    fn look(&mut self) {
        self.look_for_the_dead();
        // Until it has looked at a pod, no agent knows of it: an engine that does not answer may keep it from that.
        let statuses = self.shown.borrow().statuses.clone();
        for pod in self.pods.iter_mut().filter(|pod| !statuses.contains_key(&pod.uid)) {
            pod.known_since = Instant::now();
        }
        let notes = self.fake.with(|engine| engine.notes.replace(Vec::new())).unwrap_or_default();
        if notes.is_empty() {
            return;
        }
        let asked: BTreeMap<String, Asked> = self.pods.iter().map(|pod| (pod.uid.clone(), self.asked(pod))).collect();
        let view = View { asked: &asked, calm: self.calm, agent: self.agents };
        notes.iter().for_each(|note| self.witness.take(note, &view));
    }

    fn asked(&self, pod: &Pod) -> Asked {
        let limit = pod.document["spec"]["activeDeadlineSeconds"].as_u64().map(Duration::from_secs);
        let due = |since: Instant| limit.map(|limit| since + limit).filter(|_| !pod.active_unknown);
        // Times of the API are whole seconds.
        let early = Duration::from_secs(1);
        Asked {
            document: pod.document.clone(),
            ends_since: pod.ends_since,
            over_since: pod.evicted.into_iter().chain(pod.ended_by_hand).chain(due(pod.known_since)).min(),
            may_run_out_at: due(pod.since).map(|due| due - early),
            kept_out: pod.strained && self.strained_since.is_some(),
            recorded: pod.ends.clone(),
        }
    }

    /// The agent's reports, of which not all come through. True: the master has heard something new.
    fn report(&mut self) -> bool {
        let mut news = false;
        let mut all = self.unreported.take();
        if self.agent.is_none() {
            return false;
        }
        if all.is_empty() && std::mem::take(&mut self.due) {
            all.push(self.shown.borrow().clone());
        }
        for shown in all {
            news |= self.report_one(&shown);
        }
        news | self.record_ends()
    }

    fn record_ends(&mut self) -> bool {
        let shown = self.shown.borrow().clone();
        let mut news = false;
        for pod in self.pods.iter_mut().filter(|pod| matches!(pod.wish, Wish::Runs | Wish::Deleting)) {
            if let Some((status, manifest)) =
                pod.end_of_file(&shown).filter(|_| self.settled || self.random.percent(60))
            {
                (pod.recorded, pod.recorded_of) = (status, manifest);
                pod.note_ends();
                news = true;
            }
        }
        news
    }

    fn report_one(&mut self, shown: &Shown) -> bool {
        let mut news = false;
        let heard = self.heard();
        for call in calls(shown, &heard, NODE, &self.sent) {
            if !self.settled && !self.random.percent(60) {
                self.due = true;
                return news;
            }
            // What comes of it may ask for more.
            self.due |= !matches!(&call, Call::Delete { uid, .. } if !self.mirrors.contains_key(uid));
            match call {
                Call::Status { uid, status, .. } => {
                    let wrongs = follow::moved(&heard.pods[&uid]["status"], &status);
                    self.witness.wrongs.extend(wrongs.into_iter().map(|wrong| format!("{uid} is told: {wrong}")));
                    self.sent.insert(uid.clone(), (status.clone(), status.clone()));
                    news |= self.take_status(&uid, status);
                }
                Call::Mirror { mut document, .. } => {
                    self.mirrors_made += 1;
                    let uid = format!("m{}", self.mirrors_made);
                    document["metadata"]["uid"] = uid.clone().into();
                    self.show(&document);
                    self.mirrors.insert(uid, document);
                }
                // People take a pod of the master away.
                Call::Delete { uid, .. } => drop(self.mirrors.remove(&uid)),
            }
        }
        news
    }

    fn take_status(&mut self, uid: &str, status: Value) -> bool {
        if let Some(mirror) = self.mirrors.get_mut(uid) {
            mirror["status"] = status;
            let mirror = mirror.clone();
            self.show(&mirror);
            return false;
        }
        let Some(pod) = self.pods.iter_mut().find(|pod| pod.uid == uid) else { return false };
        pod.recorded = status;
        pod.note_ends();
        let document = pod.shown();
        self.show(&document);
        true
    }

    /// The API shows this.
    pub fn show(&mut self, document: &Value) {
        self.witness.wrongs.extend(self.followed.take(document));
    }

    /// What the agent's watch shows of its node.
    fn heard(&self) -> MasterPods {
        let listed = |pod: &&Pod| pod.source == Source::Master && matches!(pod.wish, Wish::Runs | Wish::Deleting);
        let own = self.pods.iter().filter(listed).map(|pod| (pod.uid.clone(), Arc::new(pod.shown())));
        let mirrors = self.mirrors.iter().map(|(uid, pod)| (uid.clone(), Arc::new(pod.clone())));
        MasterPods { pods: own.chain(mirrors).collect(), listed: true }
    }

    pub fn running(&self, which: impl Fn(&str) -> bool) -> Vec<(String, String, String)> {
        self.fake.with(|engine| {
            let ours = engine.containers.values().filter(|held| !held.foreign && held.seen.runs());
            ours.filter(|held| which(&held.seen.labels[LABEL_CONTAINER]))
                .map(|held| (held.seen.id.clone(), held.seen.labels[LABEL_POD_UID].clone(), held.seen.name.clone()))
                .collect()
        })
    }

    /// The names of the containers of a pod that run, without its sandbox.
    pub fn running_of(&self, uid: &str) -> BTreeSet<String> {
        self.fake.with(|engine| {
            let ours = engine
                .containers
                .values()
                .filter(|held| !held.foreign && held.seen.runs() && held.seen.labels[LABEL_POD_UID] == uid);
            ours.map(|held| held.seen.labels[LABEL_CONTAINER].clone()).filter(|name| name != SANDBOX).collect()
        })
    }
}

impl Pod {
    /// With the status that its master has of it.
    pub fn shown(&self) -> Value {
        let mut document = self.document.clone();
        if !self.recorded.is_null() {
            document["status"] = self.recorded.clone();
        }
        document
    }

    /// Of a pod of a file this host keeps how it ended, and of which manifest.
    fn end_of_file(&self, shown: &Shown) -> Option<(Value, String)> {
        let wanted = shown.desired.pods.get(&self.uid).filter(|_| self.source == Source::File)?;
        let status = shown.statuses.get(&self.uid).filter(|status| is_final(status) && self.recorded.is_null())?;
        Some((status.clone(), wanted.manifest_hash.clone()))
    }

    fn forget_other_manifest(&mut self) {
        let is_recorded = self.source == Source::File && !self.recorded.is_null();
        if is_recorded && self.recorded_of != wanted(self.source, &self.document).manifest_hash {
            self.recorded = Value::Null;
            self.ends.clear();
        }
    }

    pub fn note_ends(&mut self) {
        let lists = ["initContainerStatuses", "containerStatuses"];
        let statuses = lists.iter().flat_map(|list| self.recorded[list].as_array().into_iter().flatten());
        let ended = |status: &Value| {
            let code = status["state"]["terminated"]["exitCode"].as_i64()?;
            Some((status["name"].as_str()?.to_owned(), i32::try_from(code).ok()?))
        };
        let now: BTreeMap<String, i32> = statuses.filter_map(ended).collect();
        self.ends.retain(|name, (_, code)| now.get(name) == Some(code));
        for (name, code) in now {
            self.ends.entry(name).or_insert((Instant::now(), code));
        }
    }

    pub fn forget_record(&mut self) {
        self.recorded = Value::Null;
        self.ends.clear();
        self.evicted = None;
        self.ended_by_hand = None;
        self.strained = false;
        self.known_since = Instant::now();
    }

    /// Its master has it that it ended as a whole.
    pub fn is_over(&self) -> bool {
        is_final(&self.recorded)
    }

    /// The end of a container is on record, and is one for good.
    pub fn ended_for_good(&self, name: &str) -> bool {
        self.ends.get(name).is_some_and(|(_, code)| !starts_again(&self.document, name, *code))
    }
}

fn is_final(status: &Value) -> bool {
    matches!(status["phase"].as_str(), Some("Failed" | "Succeeded"))
}

/// Whether a host that is so short takes no such pod.
pub fn refuses(strain: &Strain, source: Source, document: &Value) -> bool {
    source == Source::Master && refusal(strain, &wanted(source, document)).is_some()
}

pub fn wanted(source: Source, document: &Value) -> Wanted {
    Wanted::new(source, document.clone()).unwrap()
}
