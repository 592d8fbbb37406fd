//! What people and the world do to a host in a history.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coracle_agent::facts::naming::Source;
use coracle_agent::facts::naming::{LABEL_CONTAINER, LABEL_KIND, LABEL_POD_UID, SANDBOX, container_name};
use coracle_agent::facts::strain::{Short, Strain};
use coracle_agent::facts::waiting::{Dismissal, Dismissed};
use serde_json::json;
use tokio::time::Instant;

use super::history::{Story, Wish, refuses, wanted};
use super::pods::{OBJECTS, has_restart_all};

impl Story {
    /// What a pod that starts anew by a rule is to do stays as it is: whether its edit or its end came first, nobody
    /// can tell.
    pub fn edit_container(&mut self, index: usize) {
        if has_restart_all(&self.pods[index].document) {
            return;
        }
        self.edits += 1;
        let edit = self.edits;
        let count = self.pods[index].document["spec"]["containers"].as_array().unwrap().len() as u64;
        let which = usize::try_from(self.random.below(count)).unwrap();
        let new_image = self.maker().plain("x");
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

    pub fn edit_shared(&mut self, index: usize) {
        if has_restart_all(&self.pods[index].document) {
            return;
        }
        self.edits += 1;
        let mut document = self.pods[index].document.clone();
        if self.random.percent(50) {
            self.maker().set_port(&mut document["spec"]);
        }
        document["spec"]["hostname"] = json!(format!("h{}", self.edits));
        self.say(format!("edit what pod{index} shares: {document}"));
        self.pods[index].document = document;
    }

    pub fn change_containers(&mut self, index: usize) {
        if has_restart_all(&self.pods[index].document) {
            return;
        }
        let count = self.pods[index].document["spec"]["containers"].as_array().unwrap().len();
        if count > 1 {
            self.pods[index].document["spec"]["containers"].as_array_mut().unwrap().pop();
            self.say(format!("pod{index} has one container less"));
        } else {
            let container = self.maker().main("c1");
            self.say(format!("pod{index} has one container more: {container}"));
            self.pods[index].document["spec"]["containers"].as_array_mut().unwrap().push(container);
        }
        // A container that comes again may come as it was.
        self.pods[index].touched = true;
        let uid = self.pods[index].uid.clone();
        self.witness.removed(&uid, "c1");
    }

    /// Somebody puts a container into a pod, to look around in it. There is no taking it out again.
    pub fn debug(&mut self, index: usize) {
        if self.pods[index].source != Source::Master {
            return;
        }
        let count = self.pods[index].document["spec"]["ephemeralContainers"].as_array().map_or(0, Vec::len);
        let mut container = self.maker().plain(&format!("e{count}"));
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

    pub fn resize(&mut self, index: usize) {
        if has_restart_all(&self.pods[index].document) {
            return;
        }
        let count = self.pods[index].document["spec"]["containers"].as_array().unwrap().len() as u64;
        let which = usize::try_from(self.random.below(count)).unwrap();
        let mut container = self.pods[index].document["spec"]["containers"][which].clone();
        if container["resources"].is_null() {
            return;
        }
        self.maker().add_resources(&mut container);
        self.say(format!("resize pod{index}: {container}"));
        self.pods[index].document["spec"]["containers"][which] = container;
    }

    pub fn wish(&mut self, index: usize, wish: Wish) {
        let grace = self.random.below(4);
        // No uid of a master is used twice: to the agent another pod comes.
        let uid = self.pods[index].uid.clone();
        let known = self.agent.is_some() && self.shown.borrow().statuses.contains_key(&uid);
        if wish == Wish::Runs && self.pods[index].source == Source::Master && known {
            return;
        }
        let pod = &mut self.pods[index];
        match (pod.wish, wish) {
            (Wish::Runs, Wish::Deleting) => {
                pod.document["metadata"]["deletionTimestamp"] = json!("2027-01-01T00:00:00Z");
                pod.document["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
            }
            (Wish::Runs | Wish::Deleting, Wish::Gone) => {}
            (Wish::Gone, Wish::Runs) => {
                let metadata = pod.document["metadata"].as_object_mut().unwrap();
                metadata.remove("deletionTimestamp");
                metadata.remove("deletionGracePeriodSeconds");
                pod.touched = true;
                pod.forget_record();
                pod.strained = refuses(&self.strain.borrow(), pod.source, &pod.document);
                pod.may_be_refused |= pod.strained;
                let is_left = self.fake.with(|engine| {
                    let mut ours = engine.containers.values().filter(|held| !held.foreign);
                    ours.any(|held| held.seen.labels[LABEL_POD_UID] == pod.uid)
                });
                self.witness.forget(&pod.uid, is_left);
                self.followed.forget(&uid);
                self.sent.remove(&uid);
            }
            _ => return,
        }
        pod.wish = wish;
        pod.ends_since = (wish != Wish::Runs).then(|| pod.ends_since.unwrap_or_else(Instant::now));
        if wish == Wish::Gone {
            self.forget_evictions();
        }
        self.say(format!("pod{index}: {wish:?}"));
    }

    /// The source says nothing about a pod for a while: nobody may touch it.
    pub async fn lose_sight(&mut self, index: usize) {
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

    pub fn find_again(&mut self, index: usize) {
        let wish = if self.random.percent(60) { Wish::Runs } else { Wish::Gone };
        let pod = &mut self.pods[index];
        pod.wish = wish;
        // What has no container here yet comes as if it were new.
        pod.may_be_refused |= refuses(&self.strain.borrow(), pod.source, &pod.document);
        let uid = pod.uid.clone();
        self.fake.with(|engine| engine.protected.remove(&uid));
        self.say(format!("pod{index}: its source answers again: {wish:?}"));
    }

    pub fn kill_by_hand(&mut self, sandbox: bool) {
        let running = self.running(|name| (name == SANDBOX) == sandbox);
        let Some((id, uid, name)) = self.pick(&running) else { return };
        self.fake.with(|engine| engine.kill(&id, 137));
        self.touched(&uid);
        self.say(format!("somebody kills {name}"));
    }

    pub fn remove_by_hand(&mut self) {
        let any: Vec<_> = self.fake.with(|engine| {
            let ours = engine.containers.values().filter(|held| !held.foreign);
            ours.map(|held| (held.seen.id.clone(), held.seen.labels[LABEL_POD_UID].clone(), held.seen.name.clone()))
                .collect()
        });
        let Some((id, uid, name)) = self.pick(&any) else { return };
        let held = self.fake.with(|engine| engine.containers.remove(&id));
        if let Some(container) = held.as_ref().and_then(|held| held.seen.labels.get(LABEL_CONTAINER)) {
            self.witness.removed(&uid, container);
            self.witness.gone(&id);
        }
        self.touched(&uid);
        self.say(format!("somebody removes {name}"));
    }

    pub async fn remove_unseen(&mut self) {
        self.say("the agent dies".to_owned());
        self.agent = None;
        for _ in 0..3 {
            self.remove_by_hand();
        }
        self.pass(Duration::from_millis(500), Duration::from_millis(250)).await;
        self.boot();
    }

    pub fn touched(&mut self, uid: &str) {
        for pod in &mut self.pods {
            pod.touched |= pod.uid == uid;
        }
    }

    pub fn pick(&mut self, from: &[(String, String, String)]) -> Option<(String, String, String)> {
        let index = usize::try_from(self.random.below(from.len() as u64)).unwrap();
        from.get(index).cloned()
    }

    pub fn jump(&mut self) {
        let by_ms = i64::try_from(self.random.below(200_000_000)).unwrap() - 100_000_000;
        self.fake.with(|engine| engine.wall_offset_ms += by_ms);
        self.pods.iter_mut().for_each(|pod| pod.clock_jumped = true);
        self.say(format!("the clock jumps by {by_ms} ms"));
    }

    pub async fn crash(&mut self) {
        self.say("the agent dies".to_owned());
        self.agent = None;
        let pause = Duration::from_millis(self.random.below(5_000));
        self.pass(pause, Duration::from_millis(250)).await;
        self.boot();
    }

    pub async fn outage(&mut self, whole: bool) {
        self.say(format!("the engine does not answer (not at all: {whole})"));
        self.calm = false;
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

    /// Checks of a container begin or cease to fail.
    pub fn sicken(&mut self) {
        let running = self.running(|name| name != SANDBOX);
        let Some((id, uid, _)) = self.pick(&running) else { return };
        let Some(name) =
            self.fake.with(|engine| engine.containers.get(&id).map(|held| held.seen.labels[LABEL_CONTAINER].clone()))
        else {
            return;
        };
        let checks = ["live", "live", "ready", "ready", "startup", "postStart", "preStop"];
        let check = checks[usize::try_from(self.random.below(7)).unwrap()];
        let place = (uid.clone(), name.clone(), check.to_owned());
        let fails = self.fake.with(|engine| {
            let fails = !engine.failing.remove(&place);
            if fails {
                engine.failing.insert(place);
            }
            fails
        });
        if matches!(check, "live" | "startup" | "postStart") {
            self.touched(&uid);
        }
        self.say(format!("{uid}/{name}: {check} fails: {fails}"));
    }

    pub fn change_object(&mut self) {
        self.edits += 1;
        let which = usize::try_from(self.random.below(2)).unwrap();
        self.objects[which] = (!self.random.percent(25)).then(|| format!("edit {}", self.edits));
        self.say(format!("{} is now {:?}", OBJECTS[which], self.objects[which]));
    }

    pub fn change_strain(&mut self) {
        if self.strained_since.is_some() {
            self.relax();
        } else {
            let short = if self.random.percent(50) { Short::Memory } else { Short::Disk };
            self.strain.send_modify(|strain| _ = Arc::make_mut(strain).short.insert(short));
            self.strained_since = Some(Instant::now());
            self.say(format!("the host is short: {short:?}"));
            let strain = self.strain.borrow().clone();
            for pod in &mut self.pods {
                pod.may_be_refused |=
                    refuses(&strain, pod.source, &pod.document) && !self.shown.borrow().statuses.contains_key(&pod.uid);
            }
        }
        if self.strained_since.is_some() && self.pods.len() < 3 {
            self.add_pod();
        }
    }

    pub fn relax(&mut self) {
        if self.strained_since.take().is_some() {
            self.strain.send_modify(|strain| Arc::make_mut(strain).short.clear());
            self.say("the host has enough".to_owned());
        }
    }

    /// As the pressure finds it: a pod of the master that runs has to leave.
    pub fn evict(&mut self, index: usize) {
        let pod = &mut self.pods[index];
        let runs = pod.source == Source::Master && pod.wish == Wish::Runs && pod.evicted.is_none() && !pod.is_over();
        let uid = pod.uid.clone();
        if !runs || self.running_of(&uid).is_empty() {
            return;
        }
        self.pods[index].evicted = Some(Instant::now());
        self.pods[index].touched = true;
        let kind = if self.random.percent(50) { Dismissed::Evicted } else { Dismissed::Displaced };
        let dismissal = Dismissal::evicted(kind, "it takes too much".to_owned());
        self.strain.send_modify(|strain| drop(Arc::make_mut(strain).evicted.insert(uid, dismissal)));
        self.say(format!("pod{index} is evicted"));
    }

    /// Somebody writes to the API that a pod has ended, whatever its containers do.
    pub fn end_by_hand(&mut self, index: usize) {
        let pod = &mut self.pods[index];
        if pod.source != Source::Master || !matches!(pod.wish, Wish::Runs | Wish::Deleting) || pod.is_over() {
            return;
        }
        if !pod.recorded.is_object() {
            pod.recorded = json!({});
        }
        let phase = if self.random.percent(50) { "Failed" } else { "Succeeded" };
        (pod.recorded["phase"], pod.recorded["reason"]) = (phase.into(), "ByHand".into());
        pod.ended_by_hand = Some(Instant::now());
        pod.touched = true;
        let document = pod.shown();
        self.show(&document);
        self.say(format!("somebody writes that pod{index} is {phase}"));
    }

    /// What was evicted and is not on record is not known to an agent that begins anew.
    pub fn forget_evictions(&mut self) {
        let new = self.agent.is_none();
        let mut kept = (**self.strain.borrow()).clone();
        for pod in &mut self.pods {
            if new || pod.wish == Wish::Gone {
                kept.evicted.remove(&pod.uid);
                if !pod.is_over() {
                    pod.evicted = None;
                }
            }
            if new {
                pod.strained = false;
            }
        }
        if new {
            kept.short.clear();
            self.strained_since = None;
        }
        self.strain.send_if_modified(|strain: &mut Arc<Strain>| {
            let differs = **strain != kept;
            if differs {
                *strain = Arc::new(kept);
            }
            differs
        });
    }

    /// Containers that are not ours: one with our labels, one with a name that we will want.
    pub fn meet_strangers(&mut self) {
        let pod = wanted(self.pods[0].source, &self.pods[0].document).name;
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
}
