//! One history: what happens, by a seed.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use coracle_agent::desired::{Desired, Source, Wanted};
use coracle_agent::naming::{LABEL_CONTAINER, LABEL_KIND, LABEL_POD_UID, SANDBOX, container_name};
use coracle_agent::plan::checks::ProbeKind;
use coracle_agent::plan::{Dead, Node, Rules, Verdict, Verdicts};
use coracle_agent::runtime::fake::{Fake, Faults, Random};
use coracle_agent::sync::{self, Ends, Shown};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout};

use super::checks;

/// Longer than the longest back-off, twice: whatever waits has had its turn.
const SETTLE: Duration = Duration::from_secs(720);
const IMAGES: [&str; 14] = [
    "steady:1",
    "steady:1",
    "steady:1",
    "steady:1",
    "slow:1",
    "slow:1",
    "stubborn:1",
    "crash:1",
    "crash:1",
    "done:1",
    "done:1",
    "bad:1",
    "absent:1",
    "local:1",
];
const POLICIES: [&str; 4] = ["Always", "Always", "OnFailure", "Never"];

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
}

pub struct Story {
    pub fake: Rc<Fake>,
    pub random: Random,
    pub pods: Vec<Pod>,
    pub verdicts: Verdicts,
    pub shown: watch::Receiver<Arc<Shown>>,
    pub log: Vec<String>,
    rules: Rules,
    desired: watch::Sender<Arc<Desired>>,
    heard: watch::Sender<Arc<Verdicts>>,
    wake: Arc<Notify>,
    agent: Option<Pin<Box<dyn Future<Output = ()>>>>,
    edits: u64,
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
        let fake = Rc::new(Fake::new(random.draw()));
        Story {
            fake,
            random,
            pods: Vec::new(),
            verdicts: Verdicts::new(),
            shown: watch::channel(Arc::new(Shown::default())).1,
            log: Vec::new(),
            rules,
            desired: watch::channel(Arc::new(Desired::default())).0,
            heard: watch::channel(Arc::new(Verdicts::new())).0,
            wake: Arc::new(Notify::new()),
            agent: None,
            edits: 0,
            settled: false,
        }
    }

    async fn live(&mut self) {
        let faults = Faults {
            lost_before: self.random.below(8),
            lost_after: self.random.below(8),
            late_listing: self.random.below(30),
            ..Faults::default()
        };
        self.fake.with(|engine| engine.faults = faults);
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
        }
        self.settle().await;
    }

    async fn settle(&mut self) {
        for index in 0..self.pods.len() {
            if self.pods[index].wish == Wish::Unknown {
                self.find_again(index);
            }
        }
        self.fake.with(|engine| engine.faults = Faults::default());
        if self.agent.is_none() {
            self.boot();
        }
        self.settled = self.random.percent(50);
        self.publish();
        self.pass(SETTLE, Duration::from_millis(2000)).await;
    }

    async fn step(&mut self) {
        let count = self.pods.len() as u64;
        let index = usize::try_from(self.random.below(count)).unwrap();
        match self.random.below(21) {
            0 | 1 if count < 3 => self.add_pod(),
            0..=3 => self.edit_container(index),
            4 => self.edit_shared(index),
            5 => self.change_containers(index),
            6 => self.wish(index, Wish::Deleting),
            7 => self.wish(index, Wish::Gone),
            8 => self.wish(index, Wish::Runs),
            9 => self.lose_sight(index).await,
            10 | 11 => self.kill_by_hand(false),
            12 => self.kill_by_hand(true),
            13 => self.remove_by_hand(),
            14 => self.jump(),
            15 | 16 => self.crash().await,
            17 => self.outage(true).await,
            18 => self.outage(false).await,
            19 => self.debug(index),
            _ => self.judge(),
        }
        self.publish();
    }

    fn say(&mut self, text: String) {
        log::info!("      {text}");
        self.log.push(text);
    }

    fn add_pod(&mut self) {
        let number = self.pods.len();
        let source = if self.random.percent(50) { Source::File } else { Source::Master };
        let uid = format!("u{number}");
        let containers: Vec<Value> = (0..1 + self.random.below(2)).map(|index| self.container(&format!("c{index}"))).collect();
        let policy = POLICIES[usize::try_from(self.random.below(4)).unwrap()];
        let mut document = json!({
            "metadata": {"namespace": "default", "name": format!("pod{number}"), "uid": uid},
            "spec": {"restartPolicy": policy, "terminationGracePeriodSeconds": 2, "containers": containers},
        });
        if self.random.percent(30) {
            document["spec"]["initContainers"] = self.init_containers();
        }
        if self.random.percent(40) {
            document["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        }
        if self.random.percent(30) {
            self.set_port(&mut document);
        }
        let refused = self.random.percent(7);
        if refused {
            document["spec"]["hostUsers"] = json!(false);
        }
        self.say(format!("add {document}"));
        self.pods.push(Pod { uid, source, document, wish: Wish::Runs, touched: false, refused });
    }

    /// One that ends, and mostly a sidecar before or after it.
    fn init_containers(&mut self) -> Value {
        let image = ["steady:1", "slow:1", "stubborn:1"][usize::try_from(self.random.below(3)).unwrap()];
        let init = json!({"name": "i0", "image": "done:1", "imagePullPolicy": "IfNotPresent"});
        let sidecar = json!({"name": "s0", "image": image, "imagePullPolicy": "IfNotPresent", "restartPolicy": "Always"});
        match self.random.below(3) {
            0 => json!([init]),
            1 => json!([init, sidecar]),
            _ => json!([sidecar, init]),
        }
    }

    fn container(&mut self, name: &str) -> Value {
        let image = IMAGES[usize::try_from(self.random.below(IMAGES.len() as u64)).unwrap()];
        let pull = if image.starts_with("local") || self.random.percent(20) { "Always" } else { "IfNotPresent" };
        json!({"name": name, "image": image, "imagePullPolicy": pull})
    }

    fn set_port(&mut self, document: &mut Value) {
        let port = 8080 + self.random.below(2);
        document["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
    }

    fn edit_container(&mut self, index: usize) {
        self.edits += 1;
        let edit = self.edits;
        let count = self.pods[index].document["spec"]["containers"].as_array().unwrap().len() as u64;
        let which = usize::try_from(self.random.below(count)).unwrap();
        let new_image = self.container("x");
        let change_image = self.random.percent(40);
        let container = &mut self.pods[index].document["spec"]["containers"][which];
        container["env"] = json!([{"name": "EDIT", "value": edit.to_string()}]);
        if change_image {
            container["image"] = new_image["image"].clone();
            container["imagePullPolicy"] = new_image["imagePullPolicy"].clone();
        }
        let text = format!("edit pod{index}: {container}");
        self.say(text);
    }

    fn edit_shared(&mut self, index: usize) {
        self.edits += 1;
        let mut document = self.pods[index].document.clone();
        if self.random.percent(50) {
            self.set_port(&mut document);
        }
        document["spec"]["hostname"] = json!(format!("h{}", self.edits));
        self.say(format!("edit what pod{index} shares: {document}"));
        self.pods[index].document = document;
    }

    fn change_containers(&mut self, index: usize) {
        let count = self.pods[index].document["spec"]["containers"].as_array().unwrap().len();
        if count > 1 {
            self.pods[index].document["spec"]["containers"].as_array_mut().unwrap().pop();
            self.say(format!("pod{index} has one container less"));
        } else {
            let container = self.container("c1");
            self.say(format!("pod{index} has one container more: {container}"));
            self.pods[index].document["spec"]["containers"].as_array_mut().unwrap().push(container);
        }
        // A container that comes again may come as it was.
        self.pods[index].touched = true;
    }

    /// Somebody puts a container into a pod, to look around in it. There is no taking it out again.
    fn debug(&mut self, index: usize) {
        if self.pods[index].source != Source::Master {
            return;
        }
        let count = self.pods[index].document["spec"]["ephemeralContainers"].as_array().map_or(0, Vec::len);
        let mut container = self.container(&format!("e{count}"));
        if self.random.percent(30) {
            container["targetContainerName"] = json!("c0");
        }
        self.say(format!("pod{index} is looked into: {container}"));
        let spec = &mut self.pods[index].document["spec"];
        match spec["ephemeralContainers"].as_array_mut() {
            Some(all) => all.push(container),
            None => spec["ephemeralContainers"] = json!([container]),
        }
    }

    fn wish(&mut self, index: usize, wish: Wish) {
        let pod = &mut self.pods[index];
        match (pod.wish, wish) {
            (Wish::Runs, Wish::Deleting) => {
                pod.document["metadata"]["deletionTimestamp"] = json!("2027-01-01T00:00:00Z");
                pod.document["metadata"]["deletionGracePeriodSeconds"] = json!(self.random.below(4));
            }
            (Wish::Runs | Wish::Deleting, Wish::Gone) => {}
            (Wish::Gone, Wish::Runs) => {
                let metadata = pod.document["metadata"].as_object_mut().unwrap();
                metadata.remove("deletionTimestamp");
                metadata.remove("deletionGracePeriodSeconds");
                pod.touched = true;
            }
            _ => return,
        }
        pod.wish = wish;
        self.say(format!("pod{index}: {wish:?}"));
    }

    /// The source says nothing about a pod for a while: nobody may touch it.
    async fn lose_sight(&mut self, index: usize) {
        if self.pods[index].wish != Wish::Runs {
            return;
        }
        self.pods[index].wish = Wish::Unknown;
        let uid = self.pods[index].uid.clone();
        self.say(format!("pod{index}: its source does not answer"));
        // What was under way may end.
        let since = Instant::now() + Duration::from_secs(10);
        self.fake.with(|engine| engine.protected.insert(uid, since));
        self.publish();
        let silence = Duration::from_secs(15 + self.random.below(60));
        self.pass(silence, Duration::from_millis(500)).await;
        if self.random.percent(50) {
            self.find_again(index);
        }
    }

    fn find_again(&mut self, index: usize) {
        let wish = if self.random.percent(60) { Wish::Runs } else { Wish::Gone };
        self.pods[index].wish = wish;
        let uid = self.pods[index].uid.clone();
        self.fake.with(|engine| engine.protected.remove(&uid));
        self.say(format!("pod{index}: its source answers again: {wish:?}"));
    }

    fn kill_by_hand(&mut self, sandbox: bool) {
        let running = self.running(|name| (name == SANDBOX) == sandbox);
        let Some((id, uid, name)) = self.pick(&running) else { return };
        self.fake.with(|engine| engine.kill(&id, 137));
        self.touched(&uid);
        self.say(format!("somebody kills {name}"));
    }

    fn remove_by_hand(&mut self) {
        let any: Vec<_> = self.fake.with(|engine| {
            let ours = engine.containers.values().filter(|held| !held.foreign);
            ours.map(|held| (held.seen.id.clone(), held.seen.labels[LABEL_POD_UID].clone(), held.seen.name.clone())).collect()
        });
        let Some((id, uid, name)) = self.pick(&any) else { return };
        self.fake.with(|engine| engine.containers.remove(&id));
        self.touched(&uid);
        self.say(format!("somebody removes {name}"));
    }

    fn touched(&mut self, uid: &str) {
        for pod in &mut self.pods {
            pod.touched |= pod.uid == uid;
        }
    }

    fn running(&self, which: impl Fn(&str) -> bool) -> Vec<(String, String, String)> {
        self.fake.with(|engine| {
            let ours = engine.containers.values().filter(|held| !held.foreign && held.seen.runs());
            ours.filter(|held| which(&held.seen.labels[LABEL_CONTAINER]))
                .map(|held| (held.seen.id.clone(), held.seen.labels[LABEL_POD_UID].clone(), held.seen.name.clone()))
                .collect()
        })
    }

    fn pick(&mut self, from: &[(String, String, String)]) -> Option<(String, String, String)> {
        let index = usize::try_from(self.random.below(from.len() as u64)).unwrap();
        from.get(index).cloned()
    }

    fn jump(&mut self) {
        let by_ms = i64::try_from(self.random.below(200_000_000)).unwrap() - 100_000_000;
        self.fake.with(|engine| engine.wall_offset_ms += by_ms);
        self.say(format!("the clock jumps by {by_ms} ms"));
    }

    async fn crash(&mut self) {
        self.say("the agent dies".to_owned());
        self.agent = None;
        let pause = Duration::from_millis(self.random.below(5_000));
        self.pass(pause, Duration::from_millis(250)).await;
        self.boot();
    }

    async fn outage(&mut self, whole: bool) {
        self.say(format!("the engine does not answer (not at all: {whole})"));
        let before = self.fake.with(|engine| {
            let before = engine.faults;
            engine.faults.down = whole;
            engine.faults.stuck = !whole;
            before
        });
        self.publish();
        let pause = Duration::from_millis(self.random.below(40_000));
        self.pass(pause, Duration::from_millis(250)).await;
        self.fake.with(|engine| engine.faults = before);
    }

    /// A liveness probe finds a container dead.
    fn judge(&mut self) {
        let running = self.running(|name| name != SANDBOX);
        let Some((id, uid, name)) = self.pick(&running) else { return };
        self.say(format!("{name} fails its liveness probe"));
        self.touched(&uid);
        self.verdicts
            .insert(id, Verdict { dead: Some(Dead { probe: ProbeKind::Liveness, output: "no answer".to_owned() }), ..Verdict::default() });
        self.heard.send_replace(Arc::new(self.verdicts.clone()));
    }

    /// Containers that are not ours: one with our labels, one with a name that we will want.
    fn meet_strangers(&mut self) {
        let pod = Wanted::new(self.pods[0].source, self.pods[0].document.clone()).unwrap().name;
        let labels = BTreeMap::from([
            (LABEL_KIND.to_owned(), "container".to_owned()),
            (LABEL_POD_UID.to_owned(), pod.uid.clone()),
            (LABEL_CONTAINER.to_owned(), "c0".to_owned()),
        ]);
        let squats = self.random.percent(10);
        self.fake.with(|engine| {
            engine.add_foreign("made-from-a-committed-image", labels);
            if squats {
                engine.add_foreign(&container_name(&pod, "c0", 0), BTreeMap::new());
            }
        });
    }

    /// A pod of one container that runs.
    pub fn add_steady(&mut self) {
        let document = json!({
            "metadata": {"namespace": "default", "name": "pod0", "uid": "u0"},
            "spec": {"restartPolicy": "Always", "containers": [{"name": "c0", "image": "steady:1", "imagePullPolicy": "IfNotPresent"}]},
        });
        let (uid, source) = ("u0".to_owned(), Source::File);
        self.pods.push(Pod { uid, source, document, wish: Wish::Runs, touched: false, refused: false });
    }

    pub fn wake(&self) {
        self.wake.notify_one();
    }

    pub fn die(&mut self) {
        self.agent = None;
    }

    pub fn boot(&mut self) {
        let (shown, seen) = watch::channel(Arc::new(Shown::default()));
        self.shown = seen;
        let fake = self.fake.clone();
        let wall = self.fake.clone();
        let ends = Ends {
            desired: self.desired.subscribe(),
            verdicts: self.heard.subscribe(),
            strain: watch::channel(Arc::default()).1,
            leaving: watch::channel(false).1,
            address: watch::channel(String::new()).1,
            wake: self.wake.clone(),
            node: Node { name: "n".into(), data_dir: "/d".into(), pause_image: "sha256:pause".into(), ..Node::default() },
            wall_ms: Rc::new(move || wall.with(|engine| engine.wall_ms())),
            shown,
            happenings: mpsc::channel(16).0,
        };
        let rules = self.rules;
        self.publish();
        self.agent = Some(Box::pin(async move { sync::run_with(&*fake, ends, rules).await }));
    }

    pub fn publish(&mut self) {
        let mut desired = Desired::default();
        if !self.settled {
            desired.unknown.insert(Source::Master);
        }
        for pod in &self.pods {
            match pod.wish {
                Wish::Runs | Wish::Deleting => {
                    let wanted = Wanted::new(pod.source, pod.document.clone()).unwrap();
                    desired.pods.insert(pod.uid.clone(), Arc::new(wanted));
                }
                Wish::Gone if pod.source == Source::Master => drop(desired.gone.insert(pod.uid.clone())),
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

    /// Time passes; the engine tells what happens, mostly.
    pub async fn pass(&mut self, time: Duration, slice: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let slice = slice.min(until - Instant::now());
            match &mut self.agent {
                Some(agent) => drop(timeout(slice, agent).await),
                None => tokio::time::sleep(slice).await,
            }
            let event = self.fake.with(|engine| std::mem::take(&mut engine.event));
            if event && self.random.percent(85) {
                self.wake.notify_one();
            }
        }
    }
}
