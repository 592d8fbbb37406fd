//! One host: an engine in memory, the agent's own loop over it, and the way to the master, imitated: what the watch
//! shows comes late or breaks off, what is reported gets lost before or after the master has taken it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use coracle_agent::desired::assigned::Assigned;
use coracle_agent::desired::last::Assignment;
use coracle_agent::desired::merge;
use coracle_agent::facts::desired::Desired;
use coracle_agent::facts::heard::MasterPods;
use coracle_agent::facts::naming::Source;
use coracle_agent::facts::naming::Tag;
use coracle_agent::facts::objects::{Object, ObjectKind, Objects, Ref};
use coracle_agent::facts::pod_cidr;
use coracle_agent::facts::shown::Shown;
use coracle_agent::facts::source_state::SourceState;
use coracle_agent::facts::world::{Node, Verdicts};
use coracle_agent::host::machine::Host as Facts;
use coracle_agent::plan::Rules;
use coracle_agent::running::sync::{self, SyncChannels};
use coracle_agent::runtime::fake::{Fake, Random};
use coracle_agent::telling::node::{Condition, NodeFacts, conditions, node_document, node_status};
use coracle_agent::telling::report::{Call, calls};
use coracle_http::Method;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::master::Master;
use crate::follow;

/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(10);
const ADDRESS: &str = "192.0.2.1";
const CPUS: u64 = 4;
const MEMORY_BYTES: u64 = 4 << 30;

pub struct Host {
    pub name: &'static str,
    pub fake: Rc<Fake>,
    /// The master can be reached.
    pub linked: bool,
    /// Of a hundred requests, so many are lost on their way, and so many answers.
    pub losses: u64,
    /// When the master heard its last sign of life, since the history began.
    pub heard_at: Cell<Duration>,
    /// The longest that an event of the watch is on its way.
    pub delay_ms: u64,
    pub agent: Option<Agent>,
    /// What its reports said wrong.
    pub wrongs: RefCell<Vec<String>>,
    random: RefCell<Random>,
    /// What outlives the agent.
    disk: Assignment,
    kept: BTreeMap<Ref, Arc<Object>>,
}

/// An agent that runs.
pub struct Agent {
    body: Pin<Box<dyn Future<Output = ()>>>,
    desired: watch::Sender<Arc<Desired>>,
    pub shown: watch::Receiver<Arc<Shown>>,
    wake: Arc<Notify>,
    about: NodeFacts,
    assigned: Assigned,
    state: Option<SourceState>,
    objects: Arc<Objects>,
    /// The master's revision when it was asked for them last, and for which.
    asked: Option<(u64, BTreeSet<Ref>)>,
    heard: MasterPods,
    sent: BTreeMap<String, (Value, Value)>,
    registered: bool,
    conditions: Vec<Condition>,
    beat_at: Instant,
    /// There may be something to report.
    due: bool,
    watch: Watch,
}

/// What the master's watch has shown, and what of it is on its way.
#[derive(Default)]
struct Watch {
    open: bool,
    /// The master's revision of what was shown.
    revision: u64,
    shown: BTreeMap<String, Value>,
    under_way: VecDeque<(Instant, Event)>,
}

enum Event {
    Is(Value),
    Gone(String),
}

impl Host {
    pub fn new(name: &'static str, nth: u8, seed: u64) -> Host {
        let fake = Rc::new(Fake::new(seed));
        fake.with(|engine| engine.subnet = nth);
        Host {
            name,
            fake,
            linked: true,
            losses: 0,
            heard_at: Cell::default(),
            delay_ms: 0,
            agent: None,
            wrongs: RefCell::default(),
            random: RefCell::new(Random(!seed)),
            disk: Assignment::default(),
            kept: BTreeMap::new(),
        }
    }

    /// The agent starts, and finds on its disk what the one before has kept.
    pub fn boot(&mut self) {
        let (desired, wanted) = watch::channel(Arc::new(Desired::default()));
        let (shown, seen) = watch::channel(Arc::new(Shown::default()));
        let wake = Arc::new(Notify::new());
        let (fake, wall) = (self.fake.clone(), self.fake.clone());
        let ends = SyncChannels {
            desired: wanted,
            verdicts: watch::channel(Arc::new(Verdicts::new())).1,
            strain: watch::channel(Arc::default()).1,
            restarts: watch::channel(Arc::default()).1,
            leaving: watch::channel(false).1,
            address: watch::channel(String::new()).1,
            wake: wake.clone(),
            node: Node {
                name: self.name.into(),
                address: ADDRESS.into(),
                data_dir: "/d".into(),
                pause_image: "sha256:pause".into(),
                cpu_milli: CPUS * 1000,
                memory_bytes: MEMORY_BYTES,
                ..Node::default()
            },
            wall_ms: Rc::new(move || wall.with(|engine| engine.wall_ms())),
            shown,
            happenings: mpsc::channel(16).0,
        };
        let body = Box::pin(async move { sync::run_with(&*fake, ends, Rules::default()).await });
        let objects = Arc::new(Objects { kept: self.kept.clone(), silent: true, ..Objects::default() });
        let mut agent = Agent {
            body,
            desired,
            shown: seen,
            wake,
            about: about(self.name),
            assigned: Assigned::new(self.disk.clone(), self.name),
            state: None,
            objects,
            asked: None,
            heard: MasterPods::default(),
            sent: BTreeMap::new(),
            registered: false,
            conditions: Vec::new(),
            beat_at: Instant::now(),
            due: true,
            watch: Watch::default(),
        };
        agent.publish(&mut self.disk);
        self.agent = Some(agent);
    }

    /// A power cut: nothing runs any more, and what is on the disk is there.
    pub fn lose_power(&mut self) {
        self.agent = None;
        self.fake.with(|engine| {
            let running: Vec<String> =
                engine.containers.values().filter(|held| held.seen.runs()).map(|held| held.seen.id.clone()).collect();
            running.iter().for_each(|id| engine.kill(id, 255));
        });
    }

    /// The connection breaks: what was on its way is gone, and a new watch begins with a list.
    pub fn hang_up(&mut self) {
        if let Some(agent) = &mut self.agent {
            agent.watch = Watch::default();
        }
    }

    pub fn poll(&mut self, context: &mut Context<'_>) {
        if let Some(agent) = &mut self.agent {
            assert!(agent.body.as_mut().poll(context).is_pending(), "the loop has ended");
        }
    }

    /// All that goes between this host and the master at one moment, at which its pods are these, of this revision.
    pub fn talk(&mut self, master: &Master, pods: &[Value], revision: u64) {
        let event = self.fake.with(|engine| std::mem::take(&mut engine.event));
        let missed = event && self.losses > 0 && self.random.borrow_mut().percent(15);
        let Some(mut agent) = self.agent.take() else { return };
        if event && !missed {
            agent.wake.notify_one();
        }
        if self.linked && master.is_up() {
            self.listen(&mut agent, master, pods, revision);
            self.report(&mut agent, master);
        }
        self.agent = Some(agent);
    }

    fn lost(&self) -> bool {
        self.random.borrow_mut().percent(self.losses)
    }

    fn listen(&mut self, agent: &mut Agent, master: &Master, pods: &[Value], revision: u64) {
        let now = || -> BTreeMap<String, Value> {
            let mine = pods.iter().filter(|pod| pod["spec"]["nodeName"] == self.name);
            mine.map(|pod| (uid(pod), pod.clone())).collect()
        };
        if !agent.watch.open {
            if self.lost() {
                return;
            }
            agent.list(master, now());
            agent.watch = Watch { open: true, revision, shown: now(), under_way: VecDeque::new() };
        } else {
            let late = Duration::from_millis(self.random.borrow_mut().below(self.delay_ms + 1));
            if agent.watch.revision != revision {
                agent.watch.tell(now(), Instant::now() + late);
                agent.watch.revision = revision;
            }
            agent.hear();
        }
        self.fetch(agent, master);
        agent.publish(&mut self.disk);
    }

    /// The claims of its pods, and what they are bound to.
    fn fetch(&mut self, agent: &mut Agent, master: &Master) {
        let state = agent.state.iter().flat_map(|state| &state.pods);
        let wanted: BTreeSet<Ref> = state.flat_map(|pod| pod.objects.iter().cloned()).collect();
        let asked = (master.revision(), wanted);
        if agent.asked.as_ref() == Some(&asked) {
            return;
        }
        let mut objects = Objects::default();
        for claim in asked.1.iter().cloned() {
            let found =
                master.get(&format!("/api/v1/namespaces/{}/persistentvolumeclaims/{}", claim.namespace, claim.name));
            if let Some(volume) = found.as_ref().and_then(|claim| claim["spec"]["volumeName"].as_str()) {
                let reference = Ref { kind: ObjectKind::Volume, namespace: String::new(), name: volume.to_owned() };
                let found = master.get(&format!("/api/v1/persistentvolumes/{volume}"));
                objects
                    .known
                    .insert(reference, found.map(|volume| Arc::new(Object::read(ObjectKind::Volume, &volume))));
            }
            objects.known.insert(claim, found.map(|claim| Arc::new(Object::read(ObjectKind::Claim, &claim))));
        }
        agent.asked = Some(asked);
        objects.kept = objects.known.iter().filter_map(|(key, object)| Some((key.clone(), object.clone()?))).collect();
        if *agent.objects != objects {
            self.kept = objects.kept.clone();
            agent.objects = Arc::new(objects);
            agent.publish_again();
        }
    }

    fn report(&self, agent: &mut Agent, master: &Master) {
        agent.due |= agent.shown.has_changed().unwrap_or(false);
        let shown = agent.shown.borrow_and_update().clone();
        if !shown.looked && shown.engine_trouble.is_none() {
            return;
        }
        let beats = Instant::now() >= agent.beat_at;
        if beats || agent.condition_changed(&shown) {
            agent.beat_at = Instant::now() + BEAT;
            self.beat(agent, master, &shown);
        }
        if agent.registered && agent.heard.listed && (agent.due || beats) {
            agent.due = self.report_pods(agent, master, &shown).is_none();
        }
    }

    fn beat(&self, agent: &mut Agent, master: &Master, shown: &Shown) {
        let trouble = shown.engine_trouble.as_ref().map(|(text, _)| text.as_str());
        let mut all = conditions(trouble, &shown.world.strain.short);
        for condition in &mut all {
            let was = agent.conditions.iter().find(|was| was.kind == condition.kind && was.holds == condition.holds);
            condition.since = was.map_or_else(|| master.clocks.wall().to_string(), |was| was.since.clone());
        }
        let document = node_document(&agent.about, &all);
        agent.conditions = all;
        let path = format!("/api/v1/nodes/{}/status", self.name);
        let said = |method: Method, path: &str, body: &Value| -> Option<u16> {
            if self.lost() {
                return None;
            }
            let (code, _) = master.told(method, path, Some(body));
            self.heard_at.set(master.clocks.passed());
            (!self.lost()).then_some(code)
        };
        match said(Method::PATCH, &path, &node_status(&document)) {
            Some(404) => agent.registered = matches!(said(Method::POST, "/api/v1/nodes", &document), Some(201 | 409)),
            Some(200) => agent.registered = true,
            _ => {}
        }
    }

    /// None: something did not come through.
    fn report_pods(&self, agent: &mut Agent, master: &Master, shown: &Shown) -> Option<()> {
        agent.sent.retain(|uid, _| agent.heard.pods.contains_key(uid));
        for call in calls(shown, &agent.heard, self.name, &agent.sent) {
            if self.lost() {
                return None;
            }
            let answer = match &call {
                Call::Status { uid, namespace, name, patch, status } => {
                    let wrongs = follow::moved(&agent.heard.pods[uid]["status"], status);
                    let wrongs = wrongs.into_iter().map(|wrong| format!("{} tells of {name}: {wrong}", self.name));
                    self.wrongs.borrow_mut().extend(wrongs);
                    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
                    master.told(Method::PATCH, &path, Some(patch))
                }
                Call::Delete { uid, namespace, name } => {
                    let body = json!({
                        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                        "preconditions": {"uid": uid},
                    });
                    master.told(Method::DELETE, &format!("/api/v1/namespaces/{namespace}/pods/{name}"), Some(&body))
                }
                Call::Mirror { .. } => panic!("no pod here is of a file"),
            };
            if self.lost() {
                return None;
            }
            match (call, answer) {
                (Call::Status { uid, status, .. }, (200, stored)) => {
                    agent.sent.insert(uid, (status, stored["status"].clone()));
                }
                (_, (200 | 404 | 409, _)) => {}
                (call, (code, answer)) => panic!("{code} {}: {call:?}", answer["message"]),
            }
        }
        Some(())
    }

    /// Namespace, name and uid of each pod of which a main container runs.
    pub fn running(&self) -> Vec<(String, String, String)> {
        self.fake.with(|engine| {
            let running = engine.containers.values().filter(|held| held.seen.runs());
            let tags = running
                .filter_map(|held| Tag::read(&held.seen.name, &held.seen.labels))
                .filter(|tag| !tag.is_sandbox());
            tags.map(|tag| (tag.pod.namespace, tag.pod.name, tag.pod.uid)).collect()
        })
    }
}

impl Agent {
    fn condition_changed(&self, shown: &Shown) -> bool {
        let ready = self.conditions.iter().find(|condition| condition.kind == "Ready");
        ready.is_some_and(|ready| ready.holds != shown.engine_trouble.is_none())
    }

    fn list(&mut self, master: &Master, pods: BTreeMap<String, Value>) {
        let cluster =
            master.get("/api/v1/namespaces/kube-system").map(|namespace| uid(&namespace)).expect("it is always there");
        self.assigned.meet(&cluster);
        self.heard = MasterPods { pods: BTreeMap::new(), listed: true };
        for (uid, pod) in pods {
            self.assigned.hear(&uid, &pod);
            self.heard.pods.insert(uid, Arc::new(pod));
        }
        let containers = self.shown.borrow().world.containers.clone();
        let tags = containers.iter().filter_map(|seen| Tag::read(&seen.name, &seen.labels)).map(|tag| tag.pod);
        let suspects: BTreeSet<_> =
            self.assigned.names().chain(tags.map(|pod| (pod.uid, pod.namespace, pod.name))).collect();
        for (own, namespace, name) in suspects.into_iter().filter(|(uid, ..)| !self.heard.pods.contains_key(uid)) {
            let found = master.get(&format!("/api/v1/namespaces/{namespace}/pods/{name}"));
            if found.is_none_or(|pod| uid(&pod) != own) {
                self.assigned.end(&own);
            }
        }
        self.due = true;
    }

    /// What has come by now.
    fn hear(&mut self) {
        while self.watch.under_way.front().is_some_and(|(at, _)| *at <= Instant::now()) {
            let Some((_, event)) = self.watch.under_way.pop_front() else { return };
            self.due = true;
            match event {
                Event::Is(pod) => {
                    self.assigned.hear(&uid(&pod), &pod);
                    self.heard.pods.insert(uid(&pod), Arc::new(pod));
                }
                Event::Gone(uid) => {
                    self.heard.pods.remove(&uid);
                    self.assigned.end(&uid);
                }
            }
        }
    }

    /// Durable before it is acted on.
    fn publish(&mut self, disk: &mut Assignment) {
        if let Some(assignment) = self.assigned.take_unsaved() {
            let text = serde_json::to_vec(&assignment).expect("JSON");
            *disk = serde_json::from_slice(&text).expect("what was written");
        }
        if let Some(state) = self.assigned.take_unsaid() {
            self.state = Some(state);
            self.publish_again();
        }
    }

    fn publish_again(&mut self) {
        let mut sources = BTreeMap::from([(Source::File, SourceState { complete: true, ..SourceState::default() })]);
        sources.extend(self.state.clone().map(|state| (Source::Master, state)));
        let (mut desired, dropped) = merge(&sources);
        assert_eq!(dropped, Vec::<String>::new(), "two pods of one name");
        desired.objects = self.objects.clone();
        self.desired.send_replace(Arc::new(desired));
    }
}

impl Watch {
    fn tell(&mut self, now: BTreeMap<String, Value>, at: Instant) {
        // One after the other, as on one connection.
        let at = self.under_way.back().map_or(at, |(before, _)| at.max(*before));
        for gone in self.shown.keys().filter(|uid| !now.contains_key(*uid)) {
            self.under_way.push_back((at, Event::Gone(gone.clone())));
        }
        for (uid, pod) in &now {
            if self.shown.get(uid) != Some(pod) {
                self.under_way.push_back((at, Event::Is(pod.clone())));
            }
        }
        self.shown = now;
    }
}

fn about(name: &str) -> NodeFacts {
    let host = Facts {
        name: name.to_owned(),
        address: ADDRESS.to_owned(),
        cpus: CPUS,
        memory_bytes: MEMORY_BYTES,
        spares_processes: false,
        disk_bytes: 1 << 36,
        machine_id: name.to_owned(),
        boot_id: String::new(),
        up_ms: None,
        kernel: String::new(),
        os_image: String::new(),
        app_armor: false,
        huge_pages: BTreeMap::default(),
    };
    NodeFacts {
        name: name.to_owned(),
        host,
        pod_cidr: pod_cidr::given(None),
        devices: Vec::new(),
        engine: watch::channel(String::new()).1,
        address: watch::channel(ADDRESS.to_owned()).1,
    }
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}
