//! The simulation's engine without its faults, with containers that do what was seen of the recorded ones.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use coracle_agent::facts::engine::{
    Belongings, Check, CheckOutcome, ContainerConfig, Failure, Image, Limits, NamedVolume, Purpose, SeenContainer,
    State,
};
use coracle_agent::facts::logins::Login;
use coracle_agent::facts::naming::{LABEL_CONTAINER, SANDBOX};
use coracle_agent::runtime::Runtime;
use coracle_agent::runtime::fake::Fake;
use serde_json::Value;
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

/// What the pod of a case does beside running for ever, and ignoring SIGTERM as a `sleep` that is process 1 does.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    /// This container ends by itself that long after each start, with that code.
    Ends(&'static str, u64, i32),
    EndsOnce(&'static str, u64, i32),
    /// This container ends that long after SIGTERM.
    Obeys(&'static str, u64, i32),
    /// Its probes and hooks fail from one moment to another after its start; else they pass.
    Fails(u64, u64),
    /// Its hooks take that long.
    Takes(u64),
    /// An image that would have to be pulled is here already.
    HasImage,
}

const SOON_MS: u64 = 20;
const PULL_MS: u64 = 60;

const SCRIPTS: &[(&str, &[Does])] = &[
    ("args-only", &[Does::Ends("c", SOON_MS, 0)]),
    ("crash-long-run", &[Does::Ends("c", 12_000, 3)]),
    ("delete-grace", &[Does::Obeys("c", 2_000, 0)]),
    ("delete-two-containers", &[Does::Obeys("a", SOON_MS, 3)]),
    ("ephemeral", &[Does::Ends("dbg", 3_000, 0)]),
    ("downward-env", &[Does::Ends("c", SOON_MS, 0)]),
    ("downward-no-limits", &[Does::Ends("c", SOON_MS, 0)]),
    ("exit0-always", &[Does::Ends("c", SOON_MS, 0)]),
    ("exit0-never", &[Does::Ends("c", SOON_MS, 0)]),
    ("exit0-onfailure", &[Does::Ends("c", SOON_MS, 0)]),
    ("exit1-always", &[Does::Ends("c", 1_000, 1)]),
    ("exit1-never", &[Does::Ends("c", 1_000, 1)]),
    ("image-latest-default-policy", &[Does::HasImage]),
    ("init-fails-always", &[Does::Ends("i", 200, 1)]),
    ("init-fails-never", &[Does::Ends("i1", SOON_MS, 1)]),
    ("init-ok", &[Does::Ends("i", 2_000, 0)]),
    ("init-two", &[Does::Ends("i1", 2_000, 0), Does::Ends("i2", 2_000, 0)]),
    ("kubelet-restart-exit", &[Does::Ends("c", 6_000, 0)]),
    ("liveness-exec", &[Does::Fails(5_000, u64::MAX)]),
    ("liveness-http", &[Does::Fails(0, u64::MAX)]),
    ("liveness-never", &[Does::Fails(0, u64::MAX)]),
    ("logs-previous", &[Does::EndsOnce("c", SOON_MS, 4)]),
    ("oom-never", &[Does::Ends("c", 300, 137)]),
    ("poststart-fails", &[Does::Fails(0, u64::MAX)]),
    ("poststart-slow", &[Does::Takes(4_000)]),
    ("prestop", &[Does::Takes(3_000), Does::Obeys("c", SOON_MS, 0)]),
    ("prestop-fails", &[Does::Fails(0, u64::MAX)]),
    ("probe-timeout", &[Does::Takes(1_000), Does::Fails(0, u64::MAX)]),
    ("readiness-late", &[Does::Fails(0, 8_000)]),
    ("readiness-tcp-flap", &[Does::Fails(6_000, u64::MAX)]),
    ("sidecar-startup-order", &[Does::Fails(0, 3_000), Does::Ends("i", 1_000, 0)]),
    ("startup-fails", &[Does::Fails(0, u64::MAX)]),
    ("startup-ok", &[Does::Fails(0, 5_000)]),
    ("termination-message", &[Does::Ends("c", SOON_MS, 2)]),
    ("termination-message-path", &[Does::Ends("c", SOON_MS, 0)]),
    ("two-one-exits-always", &[Does::Ends("a", 3_000, 0)]),
    ("workingdir-missing", &[Does::Ends("c", SOON_MS, 0)]),
];

pub struct Engine {
    pub fake: Rc<Fake>,
    script: &'static [Does],
    /// The engine's words in the recording: why it will not start, or pull, and what a probe found.
    refuses: Option<String>,
    pull_fails: Option<String>,
    found: String,
    pulled: RefCell<BTreeSet<String>>,
    started: RefCell<BTreeMap<String, Instant>>,
    ended_once: Cell<bool>,
}

impl Engine {
    pub fn new(name: &str, case: &Value) -> Engine {
        let events = case["events"].as_array().unwrap();
        let messages = || events.iter().filter_map(|event| event["message"].as_str());
        let starts = events.iter().any(|event| event["reason"] == "Started");
        let created = events.iter().any(|event| event["reason"] == "Created");
        let refused = messages().find_map(|text| text.strip_prefix("Error: ")).filter(|_| created && !starts);
        let unpulled =
            messages().find(|text| text.starts_with("Failed to pull image")).and_then(|text| text.split_once("\": "));
        let found = messages().find_map(|text| text.split_once(" probe failed: "));
        Engine {
            fake: Rc::new(Fake::new(1)),
            script: SCRIPTS.iter().find(|(case, _)| *case == name).map_or(&[], |(_, script)| script),
            refuses: refused.map(str::to_owned),
            pull_fails: unpulled.map(|(_, text)| text.to_owned()),
            found: found.map(|(_, text)| text.to_owned()).unwrap_or_default(),
            pulled: RefCell::default(),
            started: RefCell::default(),
            ended_once: Cell::new(false),
        }
    }

    fn container(&self, id: &str) -> String {
        self.fake.with(|engine| {
            engine.containers.get(id).map(|held| held.seen.labels[LABEL_CONTAINER].clone()).unwrap_or_default()
        })
    }

    fn ends_in(&self, id: &str, after_ms: u64, code: i32) {
        let (fake, id) = (self.fake.clone(), id.to_owned());
        spawn_local(async move {
            sleep(Duration::from_millis(after_ms)).await;
            fake.with(|engine| engine.kill(&id, code));
        });
    }
}

impl Runtime for Engine {
    async fn start(&self, id: &str) -> Result<(), Failure> {
        let container = self.container(id);
        if let Some(text) = self.refuses.clone().filter(|_| container != SANDBOX) {
            self.fake.with(|engine| {
                let held = engine.containers.get_mut(id).unwrap();
                held.seen.state = State::Created { refused: Some(text.clone()) };
                engine.event = true;
            });
            return Err(Failure::Refused(text));
        }
        self.fake.start(id).await?;
        self.started.borrow_mut().insert(id.to_owned(), Instant::now());
        for does in self.script {
            match does {
                Does::Ends(name, after_ms, code) if *name == container => self.ends_in(id, *after_ms, *code),
                Does::EndsOnce(name, after_ms, code) if *name == container && !self.ended_once.replace(true) => {
                    self.ends_in(id, *after_ms, *code);
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn unpause(&self, id: &str) -> Result<(), Failure> {
        self.fake.unpause(id).await
    }

    async fn load(&self, reference: &str) -> Result<bool, Failure> {
        self.fake.load(reference).await
    }

    async fn resize(&self, id: &str, limits: &Limits) -> Result<(), Failure> {
        self.fake.resize(id, limits).await
    }

    async fn kill(&self, id: &str, signal: &str) -> Result<(), Failure> {
        let container = self.container(id);
        if container == SANDBOX || signal == "SIGKILL" {
            return self.fake.kill(id, signal).await;
        }
        for does in self.script {
            if let Does::Obeys(name, after_ms, code) = does
                && *name == container
            {
                self.ends_in(id, *after_ms, *code);
            }
        }
        Ok(())
    }

    async fn image(&self, reference: &str) -> Result<Option<Image>, Failure> {
        let in_registry = reference.starts_with("127.0.0.1:");
        let here = !in_registry
            || self.pulled.borrow().contains(reference)
            || self.script.iter().any(|does| matches!(does, Does::HasImage));
        let user = if reference.starts_with("withuser") { "appuser" } else { "" };
        Ok(here.then(|| Image { id: format!("sha256:{reference}"), user: user.to_owned(), ..Image::default() }))
    }

    async fn pull(&self, reference: &str, _logins: &[Login]) -> Result<(), Failure> {
        sleep(Duration::from_millis(PULL_MS)).await;
        match &self.pull_fails {
            Some(text) => Err(Failure::Registry(text.clone())),
            None => {
                self.pulled.borrow_mut().insert(reference.to_owned());
                Ok(())
            }
        }
    }

    async fn check(
        &self,
        id: &str,
        _check: &Check,
        _purpose: Purpose,
        _at_most: Duration,
    ) -> Result<CheckOutcome, Failure> {
        let since_start = self.started.borrow().get(id).map(Instant::elapsed).unwrap_or_default();
        let mut passed = true;
        for does in self.script {
            match does {
                Does::Takes(time_ms) => sleep(Duration::from_millis(*time_ms)).await,
                Does::Fails(from_ms, to_ms) => {
                    passed =
                        since_start < Duration::from_millis(*from_ms) || since_start >= Duration::from_millis(*to_ms);
                }
                _ => {}
            }
        }
        let output = if passed { String::new() } else { self.found.clone() };
        Ok(CheckOutcome { passed, output, ..CheckOutcome::default() })
    }

    async fn list(&self) -> Result<Vec<SeenContainer>, Failure> {
        self.fake.list().await
    }

    async fn contents(&self, paths: &BTreeSet<String>) -> Result<BTreeMap<String, String>, Failure> {
        self.fake.contents(paths).await
    }

    async fn volumes(&self) -> Result<Belongings, Failure> {
        self.fake.volumes().await
    }

    async fn make_volumes(&self, uid: &str, volumes: &[NamedVolume]) -> Result<(), Failure> {
        self.fake.make_volumes(uid, volumes).await
    }

    async fn remove_volumes(&self, uid: &str) -> Result<(), Failure> {
        self.fake.remove_volumes(uid).await
    }

    async fn free_volumes(&self, uid: &str) -> Result<(), Failure> {
        self.fake.free_volumes(uid).await
    }

    async fn make_ready(&self) -> Result<(), Failure> {
        self.fake.make_ready().await
    }

    async fn create(&self, config: &ContainerConfig) -> Result<String, Failure> {
        self.fake.create(config).await
    }

    async fn remove(&self, id: &str) -> Result<(), Failure> {
        self.fake.remove(id).await
    }
}
