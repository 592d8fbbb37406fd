//! One history of a cluster: what people ask for, what breaks, by a seed.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use coracle_agent::runtime::fake::{Faults, Random};
use coracle_http::Method;
use coracle_master::control::rules::ControlRules;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::checks::{self, Seen};
use super::host::Host;
use super::master::Master;
use super::moves;
use super::theme::{Deed, Theme, WORKLOADS};

pub const NAMES: [&str; 3] = ["n1", "n2", "n3"];
const APPS: &str = "/apis/apps/v1/namespaces/default";
const JOBS: &str = "/apis/batch/v1/namespaces/default";
const CORE: &str = "/api/v1/namespaces/default";
/// These run until somebody ends them.
const STAYS: [&str; 6] = ["steady:1", "steady:2", "slow:1", "slow:2", "stubborn:1", "steady:3"];
/// Some of these do not.
const ANY: [&str; 6] = ["steady:1", "slow:1", "crash:1", "absent:1", "bad:1", "stubborn:1"];
/// Longer than the grace of a silent node, the toleration of its pods and the longest back-off together.
const SETTLE: Duration = Duration::from_secs(960);
const QUIET: Duration = Duration::from_secs(150);

pub struct Story {
    pub master: Master,
    pub hosts: Vec<Host>,
    pub random: Random,
    pub asked: Asked,
    pub log: Vec<String>,
    pub wrongs: Vec<String>,
    pub seen: Seen,
    /// A node was deleted that may still run pods: Kubernetes promises nothing of them.
    pub lost_count: bool,
    /// Pods of `app` may be of another Deployment of that name.
    pub mixed: bool,
    theme: Theme,
    verbose: bool,
    began: Instant,
    checked: u64,
}

/// What people ask for.
#[derive(Debug, Default)]
pub struct Asked {
    pub web: Option<Web>,
    pub db: Option<Db>,
    pub kinds: BTreeSet<&'static str>,
    pub completions: u64,
    /// `app` is rolled out by `Recreate`.
    pub recreated: bool,
    /// `tick` has one job at a time.
    pub forbids: bool,
}

#[derive(Debug)]
pub struct Web {
    pub replicas: u64,
    pub surge: u64,
    pub unavailable: u64,
}

#[derive(Debug)]
pub struct Db {
    pub ordered: bool,
}

/// What went wrong; empty if all is well.
pub fn run(seed: u64, verbose: bool, rules: ControlRules) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut story = Story::new(seed, verbose, rules);
        story.live().await;
        if story.wrongs.is_empty() {
            story.settle().await;
        }
        let wrongs = std::mem::take(&mut story.wrongs);
        if wrongs.is_empty() || verbose { wrongs } else { story.log.iter().cloned().chain(wrongs).collect() }
    })
}

impl Story {
    fn new(seed: u64, verbose: bool, rules: ControlRules) -> Story {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xc1);
        let hosts = NAMES.iter().zip(1..).map(|(name, nth)| Host::new(name, nth, random.draw())).collect();
        Story {
            master: Master::new(seed, rules),
            hosts,
            random,
            asked: Asked::default(),
            log: Vec::new(),
            wrongs: Vec::new(),
            seen: Seen::default(),
            lost_count: false,
            mixed: false,
            theme: Theme::of(rules.switched_off),
            verbose,
            began: Instant::now(),
            checked: 0,
        }
    }

    async fn live(&mut self) {
        for host in &mut self.hosts {
            host.boot();
        }
        self.pass(Duration::from_secs(2)).await;
        self.ask_for_workloads();
        for at in 0..self.hosts.len() {
            self.unsettle(at);
        }
        for _ in 0..6 + self.random.below(12) {
            self.operation();
            let pause = match self.random.below(4) {
                0 => self.random.below(400),
                1 => self.random.below(5_000),
                2 => self.random.below(30_000),
                _ => self.random.below(90_000),
            };
            self.pass(Duration::from_millis(pause)).await;
            if !self.wrongs.is_empty() {
                return;
            }
        }
        if self.random.percent(25) {
            // Long enough for a silent node's pods to be given up.
            self.pass(Duration::from_secs(540)).await;
        }
    }

    /// The faults end, and what is asked for can be had.
    async fn settle(&mut self) {
        self.say("the faults end".to_owned());
        if !self.master.is_up() {
            self.master.start();
        }
        for host in &mut self.hosts {
            host.fake.with(|engine| engine.faults = Faults::default());
            (host.linked, host.losses, host.delay_ms) = (true, 0, 0);
            if host.agent.is_none() {
                host.boot();
            }
        }
        self.pass(Duration::from_secs(12)).await;
        for node in NAMES {
            self.patch(&format!("/api/v1/nodes/{node}"), json!({"spec": {"unschedulable": null}}));
        }
        for (kind, path, fix) in [
            ("web", format!("{APPS}/deployments/web"), json!({"spec": {"paused": false}})),
            ("app", format!("{APPS}/deployments/app"), image("steady:9")),
            ("tick", format!("{JOBS}/cronjobs/tick"), json!({"spec": {"suspend": true}})),
        ] {
            if self.asked.kinds.contains(kind) {
                self.patch(&path, fix);
            }
        }
        self.clear_orphans();
        if self.asked.kinds.contains("room") {
            self.delete("/api/v1/namespaces/room", &json!({}));
        }
        self.pass_by(SETTLE, Duration::from_secs(1)).await;
        if !self.wrongs.is_empty() {
            return;
        }
        checks::settled(self);
        if !self.wrongs.is_empty() {
            return;
        }
        let before = self.stillness();
        self.pass_by(QUIET, Duration::from_secs(1)).await;
        let after = self.stillness();
        if before != after {
            self.wrongs.push(format!("a converged cluster goes on: {before:?}, then {after:?}"));
        }
    }

    /// What was left without its Deployment may have containers that never stay.
    fn clear_orphans(&mut self) {
        let sets = self.master.list(&format!("{APPS}/replicasets"));
        for set in sets.iter().filter(|set| set["metadata"]["ownerReferences"].is_null()) {
            self.delete(
                &format!("{APPS}/replicasets/{}", set["metadata"]["name"].as_str().unwrap_or_default()),
                &json!({}),
            );
        }
    }

    /// The master's revision, and the changes at each engine.
    fn stillness(&self) -> (u64, Vec<u64>) {
        (self.master.revision(), self.hosts.iter().map(|host| host.fake.with(|engine| engine.changes_total)).collect())
    }

    fn say(&mut self, text: String) {
        let text = format!("{:8.1} s: {text}", self.began.elapsed().as_secs_f64());
        if self.verbose {
            println!("{text}");
        }
        self.log.push(text);
    }

    fn any<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.random.below(of.len() as u64)).unwrap()]
    }

    fn ask_for_workloads(&mut self) {
        for kind in WORKLOADS {
            let chance = if matches!(kind, "disk" | "brief" | "vip" | "apart" | "room") { 20 } else { 55 };
            let asked = self.theme.workloads.map_or_else(|| self.random.percent(chance), |all| all.contains(&kind));
            match kind {
                "disk" if asked => self.ask_for_a_disk(),
                "room" if asked => self.ask_for_a_room(),
                _ if asked => self.ask_for(kind),
                _ => {}
            }
        }
        let asked = format!("asked for {:?}", self.asked);
        self.say(asked);
    }

    fn ask_for(&mut self, kind: &'static str) {
        let (path, mut object) = match kind {
            "web" => self.web(),
            "app" => {
                let how = self.any(&["RollingUpdate", "Recreate"]);
                let (replicas, image) = (self.random.below(4), self.any(&ANY));
                let mut pod = template("app", image);
                pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1500m"}});
                self.asked.recreated = how == "Recreate";
                let spec = json!({
                    "replicas": replicas, "selector": select("app"), "template": pod, "strategy": {"type": how},
                });
                (format!("{APPS}/deployments"), json!({"spec": spec}))
            }
            "db" => self.db(),
            "each" => {
                let image = self.any(&STAYS);
                (
                    format!("{APPS}/daemonsets"),
                    json!({"spec": {"selector": select("each"), "template": template("each", image)}}),
                )
            }
            "once" => self.job("done:1"),
            "brief" => {
                let mut job = template("brief", "done:1");
                job["spec"]["restartPolicy"] = "Never".into();
                (format!("{JOBS}/jobs"), json!({"spec": {"ttlSecondsAfterFinished": 20, "template": job}}))
            }
            "vip" => self.important(),
            "apart" => self.apart(),
            "doomed" => {
                let mut job = template("doomed", "crash:1");
                job["spec"]["restartPolicy"] = "Never".into();
                (format!("{JOBS}/jobs"), json!({"spec": {"backoffLimit": self.random.below(3), "template": job}}))
            }
            _ => self.cron(),
        };
        object["metadata"] = json!({"name": kind});
        if self.post(&path, &object) == 201 {
            self.asked.kinds.insert(kind);
        }
        if let Some(web) = self.asked.web.as_ref().filter(|_| kind == "web") {
            let budget = json!({"minAvailable": web.replicas - 1, "selector": select("web")});
            let service = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
            self.post(&format!("{CORE}/services"), &json!({"metadata": {"name": "web"}, "spec": service}));
            let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
            self.post(budgets, &json!({"metadata": {"name": "web"}, "spec": budget}));
        }
    }

    /// One that needs most of a node, and goes before others.
    fn important(&mut self) -> (String, Value) {
        let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
        self.post(classes, &json!({"metadata": {"name": "vip"}, "value": 1000}));
        let mut pod = template("vip", "steady:1");
        pod["spec"]["priorityClassName"] = "vip".into();
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3000m"}});
        let replicas = u64::from(!matches!(self.theme.deed, Some(Deed::ScaleVip)));
        let spec = json!({"replicas": replicas, "selector": select("vip"), "template": pod});
        (format!("{APPS}/deployments"), json!({"spec": spec}))
    }

    /// Two that never stand on one node.
    fn apart(&mut self) -> (String, Value) {
        let mut pod = template("apart", "steady:1");
        let term = json!({"labelSelector": select("apart"), "topologyKey": "kubernetes.io/hostname"});
        pod["spec"]["affinity"] =
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        (format!("{APPS}/deployments"), json!({"spec": {"replicas": 2, "selector": select("apart"), "template": pod}}))
    }

    /// A namespace with a Deployment in it.
    fn ask_for_a_room(&mut self) {
        self.post("/api/v1/namespaces", &json!({"metadata": {"name": "room"}}));
        let spec = json!({"replicas": 1, "selector": select("room"), "template": template("room", "steady:1")});
        self.post("/apis/apps/v1/namespaces/room/deployments", &json!({"metadata": {"name": "room"}, "spec": spec}));
        self.asked.kinds.insert("room");
    }

    /// Two claims, and one volume that suits both.
    fn ask_for_a_disk(&mut self) {
        let (class, modes) = ("by-hand", json!(["ReadWriteOnce"]));
        let spec = json!({
            "capacity": {"storage": "1Gi"}, "accessModes": modes, "hostPath": {"path": "/disk"},
            "storageClassName": class,
        });
        self.post("/api/v1/persistentvolumes", &json!({"metadata": {"name": "disk"}, "spec": spec}));
        for name in ["one", "other"] {
            let spec =
                json!({"accessModes": modes, "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}}});
            self.post(&format!("{CORE}/persistentvolumeclaims"), &json!({"metadata": {"name": name}, "spec": spec}));
        }
    }

    fn web(&mut self) -> (String, Value) {
        let replicas = 1 + self.random.below(4);
        let (surge, unavailable) = [(1, 0), (0, 1), (2, 1), (3, 0)][usize::try_from(self.random.below(4)).unwrap()];
        let rolling =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
        let image = self.any(&STAYS);
        self.asked.web = Some(Web { replicas, surge, unavailable });
        let spec = json!({
            "replicas": replicas, "selector": select("web"), "strategy": rolling, "template": template("web", image),
        });
        (format!("{APPS}/deployments"), json!({"spec": spec}))
    }

    fn db(&mut self) -> (String, Value) {
        let ordered = self.random.percent(70);
        let image = self.any(&STAYS);
        let mut pod = template("db", image);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        let claim = json!({
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
        });
        let policy = if ordered { "OrderedReady" } else { "Parallel" };
        self.asked.db = Some(Db { ordered });
        let spec = json!({
            "replicas": 1 + self.random.below(3), "serviceName": "db", "selector": select("db"), "template": pod,
            "podManagementPolicy": policy, "volumeClaimTemplates": [claim],
        });
        (format!("{APPS}/statefulsets"), json!({"spec": spec}))
    }

    fn job(&mut self, image: &str) -> (String, Value) {
        let mut pod = template("once", image);
        pod["spec"]["restartPolicy"] = self.any(&["Never", "OnFailure"]).into();
        let completions = 1 + self.random.below(4);
        self.asked.completions = completions;
        let mode = self.any(&["Indexed", "NonIndexed"]);
        let parallelism = 1 + self.random.below(3);
        let spec = json!({
            "completions": completions, "parallelism": parallelism, "completionMode": mode, "backoffLimit": 50,
            "template": pod,
        });
        (format!("{JOBS}/jobs"), json!({"spec": spec}))
    }

    fn cron(&mut self) -> (String, Value) {
        let mut pod = template("tick", "done:1");
        pod["spec"]["restartPolicy"] = "OnFailure".into();
        let policy = self.any(&["Forbid", "Forbid", "Allow", "Replace"]);
        self.asked.forbids = policy == "Forbid";
        let spec =
            json!({"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": {"spec": {"template": pod}}});
        (format!("{JOBS}/cronjobs"), json!({"spec": spec}))
    }

    fn operation(&mut self) {
        if self.random.percent(45) {
            return self.fault();
        }
        if !self.master.is_up() {
            return;
        }
        let deed = self.theme.deed.filter(|_| self.random.percent(50)).unwrap_or_else(|| match self.random.below(20) {
            0..3 => Deed::RollWeb,
            3 => Deed::Pause,
            4 => Deed::RollApp,
            5 => Deed::ScaleApp,
            6 => Deed::RemoveApp,
            7 => Deed::RollDb,
            8 => Deed::ScaleDb,
            9 => Deed::RollEach,
            10 => Deed::Cordon,
            11 => Deed::RemoveNode,
            12 => Deed::TakeHost,
            13 => Deed::Disown,
            14 => Deed::EndPod,
            15 => Deed::RestartInRollout,
            16 => Deed::RollApart,
            17 => Deed::EndRoom,
            18 => Deed::EndByHand,
            _ => Deed::RemovePod,
        });
        self.act(deed);
    }

    fn act(&mut self, deed: Deed) {
        let at = usize::try_from(self.random.below(self.hosts.len() as u64)).unwrap();
        match deed {
            Deed::RollWeb => self.roll("deployments", "web", &STAYS),
            Deed::Pause => self.pause(),
            Deed::RollApp => self.roll("deployments", "app", &ANY),
            Deed::RollDb => self.roll("statefulsets", "db", &STAYS),
            Deed::RollEach => self.roll("daemonsets", "each", &STAYS),
            Deed::RollApart => self.roll("deployments", "apart", &STAYS),
            Deed::EndRoom if self.asked.kinds.contains("room") => self.delete("/api/v1/namespaces/room", &json!({})),
            Deed::EndRoom => {}
            Deed::ScaleApp => self.scale("deployments", "app", 5),
            Deed::ScaleVip => self.scale("deployments", "vip", 2),
            Deed::ScaleDb => self.scale("statefulsets", "db", 4),
            Deed::RemoveApp => self.remove_app(),
            Deed::Cordon => {
                let (node, cordoned) = (self.any(&NAMES), self.random.percent(60));
                self.patch(&format!("/api/v1/nodes/{node}"), json!({"spec": {"unschedulable": cordoned}}));
            }
            Deed::RemoveNode => self.remove_node(self.hosts[at].name),
            Deed::TakeHost => {
                self.hosts[at].lose_power();
                self.remove_node(self.hosts[at].name);
            }
            Deed::CutOff => self.cut_off(at, self.hosts[at].linked),
            Deed::RemovePod => self.remove_pod(),
            Deed::Evict => self.evict(),
            Deed::Disown => self.change_pod(&["web", "db", "each"], &json!({"metadata": {"ownerReferences": null}})),
            Deed::EndPod => self.change_pod(&["web", "db", "each"], &json!({"spec": {"activeDeadlineSeconds": 1}})),
            Deed::EndByHand => self.end_by_hand(),
            Deed::RestartInRollout => {
                self.roll("deployments", "web", &STAYS);
                if self.random.percent(50) {
                    self.restart_master();
                }
            }
        }
    }

    /// One of these images for the pods of this workload, if it is asked for.
    fn roll(&mut self, plural: &str, name: &str, images: &[&str]) {
        if self.asked.kinds.contains(name) {
            let image = image(self.any(images));
            self.patch(&format!("{APPS}/{plural}/{name}"), image);
        }
    }

    fn scale(&mut self, plural: &str, name: &str, below: u64) {
        if self.asked.kinds.contains(name) {
            let replicas = self.random.below(below);
            self.patch(&format!("{APPS}/{plural}/{name}"), json!({"spec": {"replicas": replicas}}));
        }
    }

    fn pause(&mut self) {
        if self.asked.kinds.contains("web") {
            let paused = self.random.percent(50);
            self.patch(&format!("{APPS}/deployments/web"), json!({"spec": {"paused": paused}}));
        }
    }

    fn restart_master(&mut self) {
        self.master.die();
        self.hosts.iter_mut().for_each(Host::hang_up);
        self.master.start();
        self.say("the master dies and starts".to_owned());
    }

    fn cut_off(&mut self, at: usize, cut_off: bool) {
        self.hosts[at].linked = !cut_off;
        if cut_off {
            self.hosts[at].hang_up();
        }
        let how = if cut_off { "cut off" } else { "reached again" };
        self.say(format!("{} is {how}", self.hosts[at].name));
    }

    fn remove_app(&mut self) {
        let policy = self.any(&["Background", "Foreground", "Orphan"]);
        self.delete(&format!("{APPS}/deployments/app"), &json!({"propagationPolicy": policy}));
        self.asked.kinds.remove("app");
        // Pods of the one before may be there still.
        self.mixed |= policy != "Foreground";
        if self.random.percent(50) {
            self.ask_for("app");
        }
    }

    fn remove_node(&mut self, node: &str) {
        self.lost_count = true;
        self.delete(&format!("/api/v1/nodes/{node}"), &json!({}));
    }

    /// One of the pods of these workloads.
    fn any_pod(&mut self, apps: &[&str]) -> Option<String> {
        let pods = self.master.stored("pods");
        let among = |pod: &&Value| apps.is_empty() || apps.iter().any(|app| pod["metadata"]["labels"]["app"] == *app);
        let pods: Vec<&Value> = pods.iter().filter(among).collect();
        let nth = usize::try_from(self.random.below(pods.len() as u64)).unwrap();
        pods.get(nth).and_then(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned)
    }

    fn change_pod(&mut self, apps: &[&str], patch: &Value) {
        if let Some(name) = self.any_pod(apps) {
            self.patch(&format!("{CORE}/pods/{name}"), patch.clone());
        }
    }

    fn remove_pod(&mut self) {
        if self.random.percent(50) {
            self.evict();
        } else if let Some(name) = self.any_pod(&[]) {
            self.delete(&format!("{CORE}/pods/{name}"), &json!({}));
        }
    }

    /// Somebody writes of a pod that it has ended, whatever its containers do.
    fn end_by_hand(&mut self) {
        let Some(name) = self.any_pod(&["app", "each", "apart"]) else { return };
        let path = format!("{CORE}/pods/{name}/status");
        let phase = self.any(&["Failed", "Succeeded"]);
        let ended = self.master.get(&format!("{CORE}/pods/{name}")).is_some_and(|pod| checks::is_over(&pod));
        if !ended {
            self.patch(&path, json!({"status": {"phase": phase, "reason": "ByHand"}}));
        }
    }

    fn evict(&mut self) {
        let pods = self.master.stored("pods");
        let Some(name) = self.any_pod(&[]) else { return };
        let eviction =
            json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}});
        if self.post(&format!("{CORE}/pods/{name}/eviction"), &eviction) == 201 {
            checks::evicted(self, &pods, &name);
        }
    }

    fn fault(&mut self) {
        let at = usize::try_from(self.random.below(self.hosts.len() as u64)).unwrap();
        let name = self.hosts[at].name;
        match self.random.below(14) {
            0 | 1 => self.cut_off(at, true),
            2 | 3 => self.cut_off(at, false),
            4 => {
                self.hosts[at].agent = None;
                self.say(format!("the agent of {name} dies"));
            }
            5 => {
                self.hosts[at].lose_power();
                self.say(format!("{name} loses power"));
            }
            6 | 7 => {
                for host in self.hosts.iter_mut().filter(|host| host.agent.is_none()) {
                    host.boot();
                }
                self.say("all agents are up".to_owned());
            }
            8 => {
                self.master.die();
                self.hosts.iter_mut().for_each(Host::hang_up);
                self.say("the master dies".to_owned());
            }
            9 => {
                if !self.master.is_up() {
                    self.master.start();
                    self.say("the master starts".to_owned());
                }
            }
            10 => {
                let down = self.random.percent(50);
                self.hosts[at].fake.with(|engine| (engine.faults.down, engine.faults.stuck) = (down, !down));
                self.say(format!("the engine of {name} does not answer"));
            }
            11 => self.unsettle(at),
            12 => self.contradict(at),
            _ => self.jump(at),
        }
    }

    /// An agent of a release before says of a pod that has ended that it runs.
    fn contradict(&mut self, at: usize) {
        if !self.master.is_up() {
            return;
        }
        let pods = self.master.stored("pods");
        let ended = |pod: &&Value| pod["spec"]["nodeName"] == self.hosts[at].name && checks::is_over(pod);
        let Some(pod) = pods.iter().find(ended) else { return };
        let (name, uid) = (&pod["metadata"]["name"], &pod["metadata"]["uid"]);
        let path = format!("{CORE}/pods/{}/status", name.as_str().unwrap_or_default());
        let says = json!({"metadata": {"uid": uid}, "status": {"phase": "Running", "podIP": "192.0.2.9"}});
        let (code, answer) = self.master.told(Method::PATCH, &path, Some(&says));
        assert_eq!((code, &answer["status"]["phase"]), (200, &pod["status"]["phase"]), "{answer}");
        self.say(format!("{name} is said to run, and has ended"));
    }

    /// The engine answers, and calls are lost and late as often as chance has it.
    fn unsettle(&mut self, at: usize) {
        let calm = self.random.percent(40);
        let mut below = |limit: u64| if calm { 0 } else { self.random.below(limit) };
        let faults =
            Faults { lost_before: below(6), lost_after: below(6), late_listing: below(20), ..Faults::default() };
        (self.hosts[at].losses, self.hosts[at].delay_ms) = (below(10), below(4) * 1_000);
        self.hosts[at].fake.with(|engine| engine.faults = faults);
        let (name, losses, delay_ms) = (self.hosts[at].name, self.hosts[at].losses, self.hosts[at].delay_ms);
        self.say(format!("{name}: {faults:?}, {losses} % of requests are lost, events are up to {delay_ms} ms late"));
    }

    fn jump(&mut self, at: usize) {
        let by_ms = i64::try_from(self.random.below(20_000_000)).unwrap() - 10_000_000;
        if self.random.percent(50) {
            self.hosts[at].fake.with(|engine| engine.wall_offset_ms += by_ms);
            self.say(format!("the clock of {} jumps by {} s", self.hosts[at].name, by_ms / 1000));
        } else {
            self.master.set_clock_ahead(by_ms);
            self.say(format!("the master's clock jumps by {} s", by_ms / 1000));
        }
    }

    fn post(&mut self, path: &str, object: &Value) -> u16 {
        let (code, answer) = self.master.ask(Method::POST, path, Some(object));
        // An eviction that a budget forbids, and one of what is gone.
        assert!(matches!(code, 200 | 201 | 404 | 409 | 429), "POST {path} {object}: {code} {answer}");
        self.say(format!("POST {path} {}: {code}", object["metadata"]["name"]));
        code
    }

    fn patch(&mut self, path: &str, patch: Value) {
        let (code, answer) = self.master.ask(Method::PATCH, path, Some(&patch));
        assert!(matches!(code, 200 | 404), "PATCH {path} {patch}: {code} {answer}");
        self.say(format!("PATCH {path} {patch}: {code}"));
    }

    fn delete(&mut self, path: &str, options: &Value) {
        let (code, answer) = self.master.ask(Method::DELETE, path, Some(options));
        assert!(matches!(code, 200 | 202 | 404), "DELETE {path}: {code} {answer}");
        self.say(format!("DELETE {path} {options}: {code}"));
    }

    /// Time passes: the agents work, talk to the master, and the master works.
    pub async fn pass(&mut self, time: Duration) {
        self.pass_by(time, Duration::from_millis(250)).await;
    }

    async fn pass_by(&mut self, time: Duration, slice: Duration) {
        let until = Instant::now() + time;
        loop {
            let slice = slice.min(until - Instant::now());
            let hosts = &mut self.hosts;
            let all = poll_fn(|context| {
                hosts.iter_mut().for_each(|host| host.poll(context));
                Poll::<()>::Pending
            });
            let _ = timeout(slice, all).await;
            let passed = u64::try_from(self.began.elapsed().as_millis()).expect("a short history");
            self.master.clocks.passed_ms.store(passed, Ordering::Relaxed);
            self.exchange();
            if !self.wrongs.is_empty() || Instant::now() >= until {
                return;
            }
        }
    }

    fn exchange(&mut self) {
        if self.master.is_up() {
            moves::before(self);
            self.master.work();
            moves::after(self);
        }
        let up = self.master.is_up();
        let (pods, revision) =
            if up { (self.master.stored("pods"), self.master.revision()) } else { (Rc::default(), 0) };
        checks::follow(self, &pods);
        for at in 0..self.hosts.len() {
            self.hosts[at].talk(&self.master, &pods, revision);
            if up {
                let pods = self.master.stored("pods");
                checks::follow(self, &pods);
            }
        }
        for host in &self.hosts {
            self.wrongs.extend(host.fake.with(|engine| std::mem::take(&mut engine.wrongs)));
            self.wrongs.append(&mut host.wrongs.borrow_mut());
        }
        if self.master.is_up() {
            checks::silent_nodes(self);
            checks::nodes_that_are_gone(self);
        }
        let revision = if self.master.is_up() { self.master.revision() } else { 0 };
        if revision != self.checked {
            self.checked = revision;
            checks::always(self);
        }
    }
}

fn select(app: &str) -> Value {
    json!({"matchLabels": {"app": app}})
}

fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "c", "image": image, "imagePullPolicy": "IfNotPresent"}],
        },
    })
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}
