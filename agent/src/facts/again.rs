//! An ended container stays ended. The agent stops a container that another program starts again, and starts the next
//! attempt instead. PURE.
//!
//! Somebody may start a dead container beside this agent (`docker restart`, `docker start`, a restart policy of the
//! engine), or make another one with its labels. The engine shows most of this: a running process that has ended
//! before. Memory adds the first end, and the original among containers with the same number.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::engine::{EndBefore, SeenContainer, State};
use crate::facts::memory::{Life, Memory, UNKNOWN_CODE};
use crate::facts::seen::{PodSeen, Run};

impl Life {
    /// Takes in when its process started: another time is another process.
    pub(crate) fn count(&mut self, seen: &SeenContainer) {
        let started_ms = match seen.state {
            State::Running { started_ms } | State::Exited { started_ms, .. } if !seen.beside.undead => started_ms,
            _ => return,
        };
        let began = self.started_ms.is_some_and(|before| before != started_ms);
        self.again = self.again.saturating_add(u32::from(began)).max(seen.beside.restarts);
        self.first_ms.get_or_insert(started_ms);
        self.started_ms = Some(started_ms);
    }

    /// The earlier end of a container that runs again, or the assumed end of a copy with an attempt number already in
    /// use.
    pub(crate) fn end_before(&self, seen: &SeenContainer, wall_ms: i64) -> Option<State> {
        let runs = matches!(seen.state, State::Running { .. });
        let (finished_ms, exit_code) = match seen.beside.ended.filter(|_| runs) {
            Some(EndBefore { finished_ms, exit_code }) => (finished_ms, exit_code.unwrap_or(UNKNOWN_CODE)),
            None if self.double || (runs && self.again > 0) => (wall_ms, UNKNOWN_CODE),
            None => return None,
        };
        let started_ms = self.first_ms.filter(|first_ms| *first_ms <= finished_ms).unwrap_or(finished_ms);
        Some(State::Exited { exit_code, out_of_memory: false, started_ms, finished_ms })
    }
}

/// A restart of an old container counts as a restart of the newest attempt, if a newer attempt exists. `before`: the
/// counts at the last look.
pub(crate) fn count_others(
    lives: &mut BTreeMap<String, Life>,
    before: &BTreeMap<String, u32>,
    pods: &BTreeMap<String, PodSeen<'_>>,
) {
    for pod in pods.values() {
        let mut newest: BTreeMap<&str, &str> = BTreeMap::new();
        for run in &pod.runs {
            let id = run.seen.id.as_str();
            let newer = *newest.entry(&run.tag.container).or_insert(id);
            let (Some(life), Some(before)) = (lives.get(id), before.get(id)) else { continue };
            let more = if life.double { 0 } else { life.again.saturating_sub(*before) };
            if newer != id
                && let Some(newer) = lives.get_mut(newer)
            {
                newer.others = newer.others.saturating_add(more);
            }
        }
    }
}

impl Memory {
    /// The engine's ids of copies: containers with an attempt number that an earlier container had.
    pub(crate) fn doubles(&self, pods: &BTreeMap<String, PodSeen<'_>>) -> BTreeSet<String> {
        let mut doubles = BTreeSet::new();
        for pod in pods.values() {
            let mut first: BTreeMap<(&str, u32), &Run<'_>> = BTreeMap::new();
            for run in &pod.runs {
                let place = (run.tag.container.as_str(), run.tag.attempt);
                if self.had_its_number(run) {
                    doubles.insert(run.seen.id.clone());
                    continue;
                }
                match first.get(&place) {
                    Some(other) if self.is_known(run) && !self.is_known(other) => {
                        doubles.insert(other.seen.id.clone());
                        first.insert(place, run);
                    }
                    Some(_) => drop(doubles.insert(run.seen.id.clone())),
                    None => drop(first.insert(place, run)),
                }
            }
        }
        doubles
    }

    /// The containers (pod uid, name) with an ended instance that another program started again. Copies do not count as
    /// starts: they cannot shorten the back-off of a failing container.
    pub(crate) fn crowded<'p>(
        &self,
        pods: &'p BTreeMap<String, PodSeen<'_>>,
        copies: &BTreeSet<String>,
    ) -> BTreeSet<(&'p String, &'p String)> {
        let again = |run: &&Run<'_>| {
            let runs = matches!(run.seen.state, State::Running { .. }) && !copies.contains(&run.seen.id);
            runs && (run.seen.beside.ended.is_some() || self.is_dead(&run.seen.id))
        };
        let runs = pods.values().flat_map(|pod| &pod.runs);
        runs.filter(again).map(|run| (&run.tag.pod.uid, &run.tag.container)).collect()
    }

    pub(crate) fn is_dead(&self, id: &str) -> bool {
        self.lives.get(id).is_some_and(|life| life.death.is_some())
    }

    fn is_known(&self, run: &Run<'_>) -> bool {
        self.lives.get(&run.seen.id).is_some_and(|life| !life.double)
    }

    /// The container of this number was there, and is gone.
    fn had_its_number(&self, run: &Run<'_>) -> bool {
        if let Some(life) = self.lives.get(&run.seen.id) {
            return life.double;
        }
        let lost = self.lost.get(&(run.tag.pod.uid.clone(), run.tag.container.clone()));
        lost.is_some_and(|lost| lost.exit_code.is_some() && lost.attempt == run.tag.attempt)
    }

    /// The listing as decisions and statuses are to see it: what has ended is shown as it ended first.
    pub fn correct(&self, containers: &mut [SeenContainer]) {
        for seen in containers {
            let Some(life) = self.lives.get(&seen.id) else { continue };
            seen.beside.again = life.again.saturating_add(life.others);
            seen.beside.copy = life.double;
            let runs = matches!(seen.state, State::Running { .. });
            if let Some(end) = &life.end
                && (runs || life.again > 0 || life.double)
            {
                seen.beside.undead = runs;
                seen.state = end.clone();
            }
        }
    }
}

impl Run<'_> {
    /// The restart count: the starts of the process, less one.
    pub fn restarts(&self) -> u32 {
        self.tag.attempt.saturating_add(self.seen.beside.again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::backoff::Now;
    use crate::facts::engine::Image;
    use crate::facts::memory::Stopping;
    use crate::facts::waiting::Waits;
    use crate::facts::wanted::Wanted;
    use crate::facts::world::World;
    use crate::plan::tests::{RUNS, check, died, ordered, pod};
    use crate::status::status;
    use serde_json::json;
    use std::slice::from_ref;

    const NOW: Now = Now { wall_ms: 1000, mono_ms: 0 };

    fn one(policy: &str) -> Wanted {
        pod(json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i:1"}]}))
    }

    /// Its sandbox runs; the containers by number and state.
    fn world(wanted: &Wanted, members: &[(u32, State)]) -> World {
        let members: Vec<_> = members.iter().map(|(attempt, state)| ("c", *attempt, 0, state.clone())).collect();
        let mut world = ordered(wanted, Some((0, RUNS)), &members);
        world.images.insert("i:1".to_owned(), Some(Image::default()));
        world
    }

    /// As the engine shows a process that was started again.
    fn again(seen: &mut SeenContainer, exit_code: Option<i32>) {
        seen.state = State::Running { started_ms: 700 };
        seen.beside.ended = Some(EndBefore { finished_ms: 500, exit_code });
        seen.beside.restarts = 1;
    }

    fn look(world: &mut World) {
        world.memory.look(&world.containers, NOW);
    }

    #[test]
    fn what_was_started_again_is_stopped_and_its_number_is_spent() {
        for (policy, code, then) in [
            ("Always", None, "start c 2 step 1"),
            ("OnFailure", None, "start c 2 step 1"),
            ("OnFailure", Some(0), "stop POD"),
            ("Never", None, "stop POD"),
        ] {
            let wanted = one(policy);
            let mut world = world(&wanted, &[(0, RUNS)]);
            again(&mut world.containers[1], code);
            check(from_ref(&wanted), world.clone(), 0, &["stop c"]);
            // The exit code of this second end does not count: the first end is final.
            look(&mut world);
            let end = |code| State::Exited { exit_code: code, out_of_memory: false, started_ms: 700, finished_ms: 800 };
            (world.containers[1].state, world.containers[1].beside) = (end(143), Default::default());
            check(from_ref(&wanted), world, 0, &[then]);
        }
    }

    /// An agent that was not there when the process began again sees only the second start.
    #[test]
    fn its_first_start_stays_as_it_was_told() {
        let wanted = one("Always");
        let mut world = world(&wanted, &[(0, RUNS)]);
        again(&mut world.containers[1], None);
        let id = format!("docker://{}", world.containers[1].id);
        look(&mut world);
        let mut memory = std::mem::take(&mut world.memory);
        memory.correct(&mut world.containers);
        memory.stops.clear();
        world.memory = memory;
        let start = "1969-12-31T23:59:58Z";
        let ended = json!({"terminated": {"containerID": id, "startedAt": start}});
        for (told, expected) in [
            (json!({"containerID": id, "state": {"running": {"startedAt": start}}}), start),
            (json!({"containerID": id, "state": ended}), start),
            (json!({"containerID": id, "state": {"waiting": {}}, "lastState": ended}), start),
            (json!({"containerID": "docker://x", "state": {"running": {"startedAt": start}}}), "1970-01-01T00:00:00Z"),
        ] {
            let mut was = json!({"containerStatuses": [told]});
            was["containerStatuses"][0]["name"] = "c".into();
            let shown = status(&wanted, &world, &Waits::default(), &was, NOW);
            let shown = &shown["containerStatuses"][0]["state"]["terminated"];
            assert_eq!(shown["startedAt"], expected, "{was}: {shown}");
        }
    }

    #[test]
    fn a_stop_under_way_outlives_an_earlier_end() {
        let gone = one("Always");
        let mut world = world(&gone, &[(0, RUNS)]);
        for state in [RUNS, died(137), State::Running { started_ms: 7 }] {
            world.containers[1].state = state;
            look(&mut world);
        }
        let id = world.containers[1].id.clone();
        let stopping = Stopping { since_ms: 0, signalled_ms: Some(0), killed_ms: None, sick: false, edited: false };
        world.memory.stops.insert(id, stopping);
        check(&[], world.clone(), 29_999, &[]);
        check(&[], world, 30_000, &["kill c"]);
    }

    #[test]
    fn one_beside_the_next_is_stopped_and_counted_with_it() {
        let wanted = one("Always");
        let mut world = world(&wanted, &[(1, RUNS), (0, died(1))]);
        look(&mut world);
        again(&mut world.containers[2], None);
        check(from_ref(&wanted), world.clone(), 0, &["stop c"]);
        look(&mut world);
        let mut memory = std::mem::take(&mut world.memory);
        memory.look(&world.containers, NOW);
        memory.correct(&mut world.containers);
        world.memory = memory;
        let shown = status(&wanted, &world, &Waits::default(), &json!({}), NOW);
        let container = &shown["containerStatuses"][0];
        assert_eq!((&container["restartCount"], &container["ready"]), (&json!(2), &json!(true)), "{shown}");
    }

    /// The next attempt fails because the restarted old container holds its port. The back-off ignores this failure.
    #[test]
    fn what_ends_beside_such_a_one_does_not_wait() {
        let wanted = one("Always");
        let mut world = world(&wanted, &[(1, RUNS), (0, died(1))]);
        for seen in &mut world.containers {
            seen.labels.entry("dev.coracle.backoff-step".to_owned()).and_modify(|step| *step = "3".to_owned());
        }
        look(&mut world);
        again(&mut world.containers[2], None);
        world.containers[1].state = died(1);
        check(from_ref(&wanted), world.clone(), 0, &["stop c"]);
        look(&mut world);
        let end = State::Exited { exit_code: 137, out_of_memory: false, started_ms: 700, finished_ms: 800 };
        (world.containers[2].state, world.containers[2].beside) = (end, Default::default());
        check(from_ref(&wanted), world, 0, &["start c 3 step 1"]);
    }

    #[test]
    fn a_copy_is_stopped_and_removed() {
        let wanted = one("Always");
        let copied = |state: State| {
            let mut world = world(&wanted, &[(0, RUNS)]);
            look(&mut world);
            let mut copy = world.containers[1].clone();
            (copy.id, copy.state, copy.created_ms) = ("copy".to_owned(), state, 0);
            world.containers.insert(0, copy);
            world
        };
        check(from_ref(&wanted), copied(RUNS), 0, &["stop c"]);
        check(from_ref(&wanted), copied(died(0)), 0, &["remove c"]);
        check(from_ref(&wanted), copied(State::Created { refused: None }), 0, &["remove c"]);
        // The first one is gone.
        let mut alone = copied(RUNS);
        alone.containers.remove(2);
        let mut gone = alone.clone();
        gone.containers.remove(0);
        gone.memory.look(&gone.containers, NOW);
        alone.memory = gone.memory;
        check(from_ref(&wanted), alone, 0, &["stop c"]);
    }

    /// Only a container that somebody started again takes the back-off away.
    #[test]
    fn a_copy_cuts_no_back_off() {
        let wanted = one("Always");
        let fine = |is_copy: bool| {
            let mut world = world(&wanted, &[(0, died(1)), (1, RUNS)]);
            look(&mut world);
            let newest = world.containers[2].id.clone();
            let mut started = world.containers[1].clone();
            again(&mut started, Some(1));
            if is_copy {
                started.id = "copy".to_owned();
                world.containers.push(started);
            } else {
                world.containers[1] = started;
            }
            world.containers[2].state = died(1);
            look(&mut world);
            world.memory.lives[&newest].death.unwrap().ran_fine
        };
        assert!(fine(false));
        assert!(!fine(true));
    }

    #[test]
    fn a_sandbox_that_was_started_again_is_replaced() {
        let wanted = one("Always");
        let mut world = world(&wanted, &[(0, RUNS)]);
        again(&mut world.containers[0], None);
        check(from_ref(&wanted), world.clone(), 0, &["stop c"]);
        world.containers[1].state = died(143);
        check(from_ref(&wanted), world, 0, &["stop POD"]);
    }

    #[test]
    fn no_count_falls_behind_what_the_api_shows() {
        let told = |status: serde_json::Value| {
            let spec = json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}]});
            let metadata = json!({"namespace": "d", "name": "p", "uid": "u"});
            let mut status = json!({"containerStatuses": [status]});
            status["containerStatuses"][0]["name"] = "c".into();
            Wanted::new(
                crate::facts::naming::Source::Master,
                json!({"metadata": metadata, "spec": spec, "status": status}),
            )
            .unwrap()
        };
        let next = |status: serde_json::Value, expected: &str| {
            let wanted = told(status);
            check(from_ref(&wanted), world(&wanted, &[]), 0, &[expected]);
        };
        next(json!({"restartCount": 3, "containerID": "docker://1"}), "start c 4 step 0");
        next(json!({"restartCount": 0, "state": {"waiting": {}}, "lastState": {}}), "start c 0 step 0");
        let ended = |reason: &str| json!({"terminated": {"reason": reason}});
        next(json!({"restartCount": 3, "lastState": ended("Error")}), "start c 4 step 0");
        next(json!({"restartCount": 3, "lastState": ended("RestartingAllContainers")}), "start c 3 step 0");
    }
}
