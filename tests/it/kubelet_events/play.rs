//! One recorded pod, played again: as long as it was watched, with what was done to it meanwhile.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use coracle_agent::facts::desired::Desired;
use coracle_agent::facts::happening::Happening;
use coracle_agent::facts::naming::Source;
use coracle_agent::facts::naming::{LABEL_CONTAINER, SANDBOX};
use coracle_agent::facts::objects::{Object, ObjectKind, Ref};
use coracle_agent::facts::shown::Shown;
use coracle_agent::facts::view::{ClusterView, ViewWriter};
use coracle_agent::facts::wanted::Wanted;
use coracle_agent::facts::world::{Node, Verdicts};
use coracle_agent::running::probe;
use coracle_agent::running::sync::{self, SyncChannels};
use coracle_agent::telling::events::{self, Counted};
use coracle_api::meta::Time;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep};

use super::engine::Engine;

pub const UID: &str = "uid";
const NODE: &str = "n1";
const TICK: Duration = Duration::from_millis(20);

struct Bed {
    engine: Arc<Engine>,
    wake: Arc<Notify>,
    desired: watch::Sender<Arc<Desired>>,
    happenings: mpsc::Sender<Happening>,
    shown: watch::Receiver<Arc<Shown>>,
    /// As it was when the pod was last wanted: events are told while it is.
    known: Arc<Shown>,
    agent: Vec<JoinHandle<()>>,
}

/// The events that the agent would post, in their order.
pub fn play(name: &str, case: &Value) -> Vec<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let (happenings, mut happened) = mpsc::channel(4096);
        let mut bed = Bed {
            engine: engine(name, case),
            wake: Arc::new(Notify::new()),
            desired: watch::channel(Arc::new(Desired::default())).0,
            happenings,
            shown: watch::channel(Arc::new(Shown::default())).1,
            known: Arc::default(),
            agent: Vec::new(),
        };
        case["objects"].as_array().into_iter().flatten().for_each(|object| bed.know(object));
        bed.want(source(case), &document(name, UID, case));
        bed.boot();
        bed.live(name, case).await;
        let shown = bed.known.clone();
        let counted = Counted {
            name: "e",
            count: 1,
            first: Time::from_seconds(0).unwrap(),
            last: Time::from_seconds(0).unwrap(),
        };
        std::iter::from_fn(|| happened.try_recv().ok())
            .map(|happening| events::event(&happening, &shown, NODE, counted))
            .collect()
    })
}

#[expect(clippy::arc_with_non_send_sync, reason = "the probes take an Arc, and all of it lives on one thread")]
fn engine(name: &str, case: &Value) -> Arc<Engine> {
    Arc::new(Engine::new(name, case))
}

/// Of a pod that came by a file, the recording has the mirror.
pub fn source(case: &Value) -> Source {
    if case["mirror"].is_object() { Source::File } else { Source::Master }
}

fn document(name: &str, uid: &str, case: &Value) -> Value {
    let mut document = case["pod"].clone();
    document["metadata"]["namespace"] = json!("gt");
    document["metadata"]["name"] = json!(name);
    document["metadata"]["uid"] = json!(uid);
    if document["spec"]["restartPolicy"].is_null() {
        document["spec"]["restartPolicy"] = json!("Always");
    }
    document
}

impl Bed {
    fn boot(&mut self) {
        let (shown, seen) = watch::channel(Arc::new(Shown::default()));
        self.shown = seen.clone();
        let (verdicts_in, verdicts) = watch::channel(Arc::new(Verdicts::new()));
        let wall = self.engine.fake.clone();
        let ends = SyncChannels {
            desired: self.desired.subscribe(),
            verdicts,
            strain: watch::channel(Arc::default()).1,
            restarts: watch::channel(Arc::default()).1,
            leaving: watch::channel(false).1,
            address: watch::channel(String::new()).1,
            wake: self.wake.clone(),
            node: Node {
                name: NODE.into(),
                cpu_milli: 2000,
                memory_bytes: 1 << 34,
                data_dir: "/d".into(),
                pause_image: "sha256:pause".into(),
                ..Node::default()
            },
            wall_ms: Rc::new(move || wall.with(|engine| engine.wall_ms())),
            shown,
            happenings: self.happenings.clone(),
        };
        let heard = ViewWriter::new(ClusterView::default()).part(|view| &view.pods);
        let engine = self.engine.clone();
        self.agent.push(spawn_local(async move { sync::run(&*engine, ends).await }));
        let listeners = probe::Listeners { happenings: self.happenings.clone(), tallies: Arc::default() };
        self.agent.push(spawn_local(probe::run(self.engine.clone(), seen, heard, Arc::new(verdicts_in), listeners)));
    }

    /// As long as the kubelet was watched.
    async fn live(&mut self, name: &str, case: &Value) {
        let nothing = Vec::new();
        let actions = case["actions"].as_array().unwrap_or(&nothing);
        let times = case["timeline"].as_array().unwrap().iter().chain(actions).map(|entry| &entry["t"]);
        let times = times.chain(case["events"].as_array().unwrap().iter().map(|event| &event["tLast"]));
        let length = times.filter_map(Value::as_f64).fold(0.0, f64::max) + 1.0;
        let mut actions = actions.iter().peekable();
        let began = Instant::now();
        let mut deleting = false;
        while began.elapsed().as_secs_f64() < length {
            if let Some(action) =
                actions.next_if(|action| action["t"].as_f64().unwrap() <= began.elapsed().as_secs_f64())
            {
                let text = action["do"].as_str().unwrap();
                deleting |= text.starts_with("DELETE") && source(case) == Source::Master;
                self.act(name, case, text, &action["patch"]);
            }
            if deleting && self.engine.fake.with(|engine| !engine.containers.values().any(|held| held.seen.runs())) {
                self.desired
                    .send_replace(Arc::new(Desired { gone: [UID].into_iter().collect(), ..Desired::default() }));
            }
            if self.engine.fake.with(|engine| std::mem::take(&mut engine.event)) {
                self.wake.notify_one();
            }
            let shown = self.shown.borrow().clone();
            if shown.desired.pods.contains_key(UID) {
                self.known = shown;
            }
            sleep(TICK).await;
        }
        assert!(actions.peek().is_none(), "{name}: not all was done");
    }

    fn act(&mut self, name: &str, case: &Value, text: &str, patch: &Value) {
        if text == "DELETE of the mirror pod through the API" || text == "patch status" {
            // The report makes the mirror anew, and others' conditions are no events: the loop has nothing to do.
        } else if let Some(grace) = text.strip_prefix("DELETE") {
            let mut document = document(name, UID, case);
            let grace_s =
                grace.strip_prefix(" gracePeriodSeconds=").map(|grace_s| json!(grace_s.parse::<u64>().unwrap()));
            let own = document["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
            document["metadata"]["deletionGracePeriodSeconds"] = grace_s.unwrap_or_else(|| json!(own));
            document["metadata"]["deletionTimestamp"] = json!("2027-01-01T00:00:00Z");
            self.want(Source::Master, &document);
        } else if text == "SIGKILL to the container process" {
            self.engine.fake.with(|engine| {
                let of_pod = engine
                    .containers
                    .values()
                    .find(|held| held.seen.labels[LABEL_CONTAINER] != SANDBOX && held.seen.runs());
                let id = of_pod.unwrap().seen.id.clone();
                engine.kill(&id, 137);
            });
        } else if text == "the kubelet is gone" {
            self.agent.drain(..).for_each(|task| task.abort());
        } else if text == "the kubelet is started" {
            self.boot();
        } else if text.starts_with("POST a second pod") {
            self.want(source(case), &document(&format!("{name}2"), "uid2", case));
        } else if text == "patch ephemeralcontainers" {
            let mut document = document(name, UID, case);
            document["spec"]["ephemeralContainers"] = patch["spec"]["ephemeralContainers"].clone();
            self.want(source(case), &document);
        } else if let Some(name) = text.strip_prefix("create Secret ") {
            self.know(&json!({"kind": "Secret", "metadata": {"name": name}, "data": {"k": "dg=="}}));
        } else if text == "manifest removed" {
            self.desired.send_replace(Arc::default());
        } else {
            assert_eq!(text, "SIGTERM to the kubelet", "an action that nobody knows");
        }
    }

    fn know(&self, document: &Value) {
        let kind = if document["kind"] == "Secret" { ObjectKind::Secret } else { ObjectKind::ConfigMap };
        let name = document["metadata"]["name"].as_str().unwrap().to_owned();
        let place = Ref { kind, namespace: "gt".to_owned(), name };
        self.desired.send_modify(|desired| {
            let objects = Arc::make_mut(&mut Arc::make_mut(desired).objects);
            objects.known.insert(place, Some(Arc::new(Object::read(kind, document))));
        });
    }

    fn want(&self, source: Source, document: &Value) {
        let wanted = Wanted::new(source, document.clone()).unwrap();
        self.desired.send_modify(|desired| {
            let desired = Arc::make_mut(desired);
            // What the master does not have is absent.
            let known = &mut Arc::make_mut(&mut desired.objects).known;
            for object in &wanted.objects {
                known.entry(object.clone()).or_default();
            }
            desired.pods.insert(wanted.name.uid.clone(), Arc::new(wanted));
            desired.node.get_or_insert_default();
        });
    }
}
