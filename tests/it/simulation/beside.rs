//! What people do beside the agent with Docker's own commands, and small stories of it with one right answer.

use std::time::Duration;

use coracle_agent::facts::naming::{LABEL_CONTAINER, LABEL_POD_UID, SANDBOX};
use coracle_agent::plan::Rules;
use serde_json::{Value, json};

use super::history::Story;

impl Story {
    /// All of ours, dead and alive: id, uid and name.
    fn ours(&self) -> Vec<(String, String, String)> {
        self.fake.with(|engine| {
            let ours = engine.containers.values().filter(|held| !held.foreign);
            ours.map(|held| (held.seen.id.clone(), held.seen.labels[LABEL_POD_UID].clone(), held.seen.name.clone()))
                .collect()
        })
    }

    pub fn restart_by_hand(&mut self) {
        let ours = self.ours();
        let Some((id, uid, name)) = self.pick(&ours) else { return };
        self.touched(&uid);
        self.say(format!("somebody restarts {name}"));
        self.fake.with(|engine| engine.restart(&id));
    }

    pub async fn restart_unseen(&mut self) {
        self.say("the agent dies".to_owned());
        self.die();
        for _ in 0..2 {
            self.restart_by_hand();
        }
        self.pass(Duration::from_millis(500), Duration::from_millis(250)).await;
        self.boot();
    }

    pub fn pause_by_hand(&mut self) {
        let running = self.running(|_| true);
        let Some((id, _, name)) = self.pick(&running) else { return };
        self.say(format!("somebody pauses {name}"));
        self.fake.with(|engine| engine.pause(&id));
    }

    pub fn rename_by_hand(&mut self) {
        let ours = self.ours();
        let Some((id, _, name)) = self.pick(&ours) else { return };
        self.say(format!("somebody renames {name}"));
        self.fake.with(|engine| engine.rename(&id));
    }

    pub fn copy_by_hand(&mut self) {
        let running = self.running(|_| true);
        let Some((id, uid, name)) = self.pick(&running) else { return };
        self.touched(&uid);
        self.say(format!("somebody copies {name}"));
        self.fake.with(|engine| engine.copy(&id));
    }

    pub fn restart_always(&mut self) {
        let running = self.running(|_| true);
        let Some((id, uid, name)) = self.pick(&running) else { return };
        self.touched(&uid);
        self.say(format!("the engine is to restart {name} always"));
        self.fake.with(|engine| engine.restart_always(&id));
    }

    pub fn prune_by_hand(&mut self) {
        self.say("somebody prunes".to_owned());
        let ours = self.ours();
        let gone = self.fake.with(|engine| engine.prune());
        for (id, uid, name) in ours.into_iter().filter(|(id, ..)| gone.contains(id)) {
            let container = name.trim_start_matches("k8s_").split('_').next().unwrap_or_default().to_owned();
            self.witness.removed(&uid, &container);
            self.witness.gone(&id);
            self.touched(&uid);
        }
    }
}

/// Of one pod with an init container, a main one and the policy, which runs: each deed, and what comes of it.
struct Told {
    status: Value,
    /// Processes of the main container that run, and how often one began.
    runs: usize,
    begins: u32,
}

fn tell(policy: &str, seconds: u64, deed: impl Fn(&mut Story, &str)) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut story = Story::new(7, Rules::default());
        story.add_steady();
        let spec = &mut story.pods[0].document["spec"];
        spec["restartPolicy"] = policy.into();
        spec["initContainers"] = json!([{"name": "i0", "image": "done:1", "imagePullPolicy": "IfNotPresent"}]);
        story.boot();
        story.pass(Duration::from_secs(10), Duration::from_millis(100)).await;
        let id = id_of(&story, "c0");
        deed(&mut story, &id);
        story.wake();
        story.pass(Duration::from_secs(seconds), Duration::from_millis(100)).await;
        assert_eq!(story.witness.wrongs, [] as [String; 0]);
        let main = |held: &&coracle_agent::runtime::fake::FakeContainer| held.seen.labels[LABEL_CONTAINER] == "c0";
        let (runs, begins) = story.fake.with(|engine| {
            let runs = engine.containers.values().filter(main).filter(|held| held.seen.runs() && !held.foreign).count();
            (runs, engine.begins.get(&("u0".to_owned(), "c0".to_owned())).copied().unwrap_or_default())
        });
        let status = story.shown.borrow().statuses["u0"].clone();
        Told { status, runs, begins }
    })
}

fn id_of(story: &Story, name: &str) -> String {
    story.fake.with(|engine| {
        let mut own = engine.containers.values().filter(|held| held.seen.labels[LABEL_CONTAINER] == name);
        own.next().map(|held| held.seen.id.clone()).unwrap()
    })
}

/// Within ten seconds one instance runs, and the count is how often its process began, less one.
#[test]
fn one_instance_runs_and_its_starts_are_counted() {
    type Deed = (&'static str, fn(&mut Story, &str), u32);
    let deeds: [Deed; 9] = [
        ("restart", |story, id| story.fake.with(|engine| engine.restart(id)), 2),
        (
            "restart of its sandbox",
            |story, _| {
                let id = id_of(story, SANDBOX);
                story.fake.with(|engine| engine.restart(&id));
            },
            1,
        ),
        (
            "restart of its init container",
            |story, _| {
                let id = id_of(story, "i0");
                story.fake.with(|engine| engine.restart(&id));
            },
            0,
        ),
        ("pause", |story, id| story.fake.with(|engine| engine.pause(id)), 0),
        ("rename", |story, id| story.fake.with(|engine| engine.rename(id)), 0),
        ("copy", |story, id| story.fake.with(|engine| engine.copy(id)), 0),
        (
            "rename and copy",
            |story, id| {
                story.fake.with(|engine| {
                    engine.rename(id);
                    engine.copy(id);
                })
            },
            0,
        ),
        (
            "update",
            |story, id| {
                story.fake.with(|engine| {
                    engine.restart_always(id);
                    engine.kill(id, 137);
                })
            },
            2,
        ),
        ("prune", |story, _| _ = story.fake.with(|engine| engine.prune()), 0),
    ];
    for (what, deed, count) in deeds {
        let told = tell("Always", 10, deed);
        let container = &told.status["containerStatuses"][0];
        assert_eq!(told.runs, 1, "{what}");
        assert_eq!(container["restartCount"], count, "{what}: {container}");
        assert_eq!(container["ready"], true, "{what}: {container}");
        assert_eq!(told.begins, count + 1, "{what}");
    }
}

/// A pod that does not start again has ended with its container, whoever starts that again.
#[test]
fn what_ends_for_good_stays_so() {
    let told = tell("Never", 10, |story, id| story.fake.with(|engine| engine.restart(id)));
    assert_eq!((told.runs, told.status["phase"].as_str()), (0, Some("Failed")), "{}", told.status);
}

/// Started again and again, it is stopped each time, by force where it must be; nothing is tried without rest.
#[test]
fn a_container_that_takes_its_signal_ill_is_killed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut story = Story::new(8, Rules::default());
        story.add_steady();
        let spec = &mut story.pods[0].document["spec"];
        spec["containers"][0]["image"] = "stubborn:1".into();
        spec["terminationGracePeriodSeconds"] = 2.into();
        story.boot();
        story.pass(Duration::from_secs(5), Duration::from_millis(100)).await;
        let first = id_of(&story, "c0");
        for _ in 0..3 {
            // Dead for a moment, in which the next one takes its place; then somebody starts it beside that one.
            story.fake.with(|engine| engine.kill(&first, 137));
            story.wake();
            story.pass(Duration::from_millis(40), Duration::from_millis(10)).await;
            story.fake.with(|engine| engine.restart(&first));
            story.wake();
            let before = story.fake.with(|engine| engine.changes_total);
            story.pass(Duration::from_secs(10), Duration::from_millis(100)).await;
            let changes = story.fake.with(|engine| engine.changes_total) - before;
            assert!(changes < 20, "{changes} calls");
            let running = story.running(|name| name == "c0");
            assert!(running.iter().all(|(id, ..)| *id != first) && running.len() <= 1, "{running:?}");
        }
        story.pods[0].wish = super::history::Wish::Gone;
        story.fake.with(|engine| engine.restart(&first));
        story.publish();
        story.pass(Duration::from_secs(30), Duration::from_millis(100)).await;
        assert_eq!(story.ours(), []);
    });
}

/// An image that was removed comes out of its archive, and no registry is asked.
#[test]
fn a_removed_image_comes_from_its_archive() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut story = Story::new(9, Rules::default());
        story.add_steady();
        story.pods[0].document["spec"]["containers"][0]["image"] = "archived:1".into();
        story.fake.with(|engine| engine.images_removed.insert("archived:1".to_owned()));
        story.boot();
        story.pass(Duration::from_secs(5), Duration::from_millis(100)).await;
        let status = story.shown.borrow().statuses["u0"].clone();
        assert_eq!(status["containerStatuses"][0]["ready"], true, "{status}");
        assert_eq!(story.fake.with(|engine| engine.pulls_of("archived:1")), 0);
    });
}
