//! Ends and delays that come with a restart of all containers of a pod: see `renewal`. PURE.

use super::containers::{self, LastRun, Story};
use super::rules::Rule;
use super::{renewal, stops};
use crate::facts::backoff::restart_wait_ms;
use crate::facts::members::MemberKind;
use crate::facts::round::{PodPlan, StopReason};
use crate::facts::seen::{self, Run};
use crate::facts::waiting::{WaitReason, Waiting};
use crate::plan::case::PodCase;

/// The kubelet's grace period for `RestartAllContainers`, regardless of the pod's own. No hook runs. A person who
/// restarts a pod leaves it the pod's own.
const GRACE_S: u64 = 2;

/// Ends all containers from earlier rounds. True while such a container runs.
pub fn end_earlier(pod: PodCase<'_>, part: &mut PodPlan) -> bool {
    let PodCase { case, wanted, runs, address, renewal: now, .. } = pod;
    let own =
        |run: &&Run<'_>| wanted.member(&run.tag.container).is_some_and(|member| member.kind != MemberKind::Ephemeral);
    let earlier: Vec<&Run> = seen::members(runs).filter(own).filter(|run| run.tag.renewal < now.number).collect();
    let (grace_s, why) =
        if now.asked { (None, StopReason::Restarted) } else { (Some(GRACE_S), StopReason::AllRestart) };
    stops::stop_in_turns(case, part, &earlier, grace_s, address, &why)
}

/// The back-off step of a container after the restart: the container that caused the restart keeps counting its
/// failures.
pub fn step(story: &Story<'_>) -> u32 {
    match (&story.last, story.newest) {
        (LastRun::Ended { death, step, .. }, Some(run)) if renewal::is_source(story.wanted, run) => {
            if death.ran_fine {
                1
            } else {
                step.saturating_add(1)
            }
        }
        _ => 0,
    }
}

/// A pod that does so again and again waits longer and longer, as the container does that brings it about. True while
/// it waits.
pub fn waits(pod: PodCase<'_>, part: &mut PodPlan, stories: &[Story<'_>]) -> bool {
    let PodCase { case, wanted, renewal: now, .. } = pod;
    if !now.begins || now.asked || !case.rules.hold(Rule::RestartsBackOff) {
        return false;
    }
    let wait = |story: &Story<'_>| match (&story.last, story.newest) {
        (LastRun::Ended { death, step, .. }, Some(run)) if renewal::is_source(wanted, run) => {
            let wait_ms = if death.ran_fine { 0 } else { restart_wait_ms(*step) };
            Some((death.at_ms.saturating_add(wait_ms), wait_ms))
        }
        _ => None,
    };
    let Some((due_ms, _)) = stories.iter().filter_map(wait).max() else { return false };
    if case.now.mono_ms >= due_ms {
        return false;
    }
    part.wake_at(due_ms);
    for story in stories {
        let waiting = match wait(story) {
            Some((_, wait_ms)) => containers::crash_loop(wanted, story.member.spec, wait_ms),
            None => Waiting::new(WaitReason::RestartingAllContainers, renewal::MESSAGE),
        };
        part.waits.containers.insert(story.member.spec.name.clone(), waiting);
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::facts::backoff::Now;
    use crate::facts::engine::State;
    use crate::facts::naming::LABEL_RENEWAL;
    use crate::facts::waiting::Waits;
    use crate::facts::wanted::Wanted;
    use crate::facts::world::World;
    use crate::plan::tests::{RUNS, check, died, ordered, pod};
    use crate::status::status;
    use serde_json::{Value, json};
    use std::slice::from_ref;

    fn all(name: &str, policy: &str) -> Value {
        let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}});
        json!({"name": name, "image": "i:1", "restartPolicy": policy, "restartPolicyRules": [rule]})
    }

    /// An init container, a sidecar, and two main containers of which the first restarts all.
    fn wanted() -> Wanted {
        let init = json!([{"name": "a", "image": "i:1"}, {"name": "s", "image": "i:1", "restartPolicy": "Always"}]);
        let containers = json!([all("c", "Never"), {"name": "d", "image": "i:1"}]);
        pod(json!({"restartPolicy": "Never", "initContainers": init, "containers": containers}))
    }

    /// In one sandbox: name, attempt, renewal and state of each.
    fn world(wanted: &Wanted, members: &[(&str, u32, u32, State)]) -> World {
        let plain: Vec<_> =
            members.iter().map(|(name, attempt, _, state)| (*name, *attempt, 0, state.clone())).collect();
        let mut world = ordered(wanted, Some((0, RUNS)), &plain);
        for (seen, (.., renewal, _)) in world.containers.iter_mut().skip(1).zip(members) {
            seen.labels.insert(LABEL_RENEWAL.to_owned(), renewal.to_string());
        }
        world
    }

    fn now(members: &[(&str, u32, u32, State)], expected: &[&str]) {
        let wanted = wanted();
        check(from_ref(&wanted), world(&wanted, members), 0, expected);
    }

    #[test]
    fn all_end_and_start_anew_in_their_order() {
        let (a, c) = (("a", 0, 0, died(0)), ("c", 0, 0, died(42)));
        now(&[a.clone(), ("s", 0, 0, RUNS), c.clone(), ("d", 0, 0, RUNS)], &["stop d"]);
        now(&[a.clone(), ("s", 0, 0, RUNS), c.clone(), ("d", 0, 0, died(143))], &["stop s"]);
        let ended = [a, ("s", 0, 0, died(143)), c, ("d", 0, 0, died(143))];
        let with = |more: &[(&'static str, u32, u32, State)]| -> Vec<(&'static str, u32, u32, State)> {
            ended.iter().cloned().chain(more.iter().cloned()).collect()
        };
        now(&with(&[]), &["start a 1 step 0"]);
        now(&with(&[("a", 1, 1, RUNS)]), &[]);
        now(&with(&[("a", 1, 1, died(0))]), &["start s 1 step 0"]);
        // Container c caused the restart: its failure count goes on.
        now(&with(&[("a", 1, 1, died(0)), ("s", 1, 1, RUNS)]), &["start c 1 step 1", "start d 1 step 0"]);
        now(&with(&[("a", 1, 1, died(0)), ("s", 1, 1, RUNS), ("c", 1, 1, RUNS), ("d", 1, 1, RUNS)]), &[]);
        // What ends otherwise ends as ever.
        let next = [("a", 1, 1, died(0)), ("s", 1, 1, RUNS), ("c", 1, 1, died(1)), ("d", 1, 1, died(0))];
        now(&with(&next), &["stop s"]);
    }

    #[test]
    fn who_does_so_again_waits_longer() {
        let wanted = wanted();
        let mut again = world(
            &wanted,
            &[("a", 1, 1, died(0)), ("s", 1, 1, died(143)), ("c", 1, 1, died(42)), ("d", 1, 1, died(143))],
        );
        for seen in again.containers.iter_mut().filter(|seen| seen.name.starts_with("k8s_c_")) {
            seen.labels.insert("dev.coracle.backoff-step".to_owned(), "1".to_owned());
        }
        let waits =
            ["RestartingAllContainers", "CrashLoopBackOff", "RestartingAllContainers", "RestartingAllContainers"];
        let waits: Vec<String> = waits.iter().map(|reason| format!("waits: {reason}")).collect();
        check(from_ref(&wanted), again.clone(), 9_999, &waits.iter().map(String::as_str).collect::<Vec<_>>());
        check(from_ref(&wanted), again, 10_000, &["start a 2 step 0"]);
    }

    /// What it leaves behind does not lie there until the wait is over, which may be for minutes.
    #[test]
    fn what_is_outlived_goes_before_the_wait() {
        let wanted = wanted();
        let starts = [("c", 0, 0, died(42)), ("c", 1, 1, died(42)), ("c", 2, 2, died(42)), ("d", 2, 2, RUNS)];
        let mut thrice = world(&wanted, &starts);
        check(from_ref(&wanted), thrice.clone(), 0, &["stop d", "remove c"]);
        thrice.containers.retain(|seen| !seen.name.starts_with("k8s_d_"));
        for seen in thrice.containers.iter_mut().filter(|seen| seen.name.starts_with("k8s_c_")) {
            seen.labels.insert("dev.coracle.backoff-step".to_owned(), "1".to_owned());
        }
        let waits =
            ["RestartingAllContainers", "CrashLoopBackOff", "RestartingAllContainers", "RestartingAllContainers"];
        let found: Vec<String> = waits.iter().map(|reason| format!("waits: {reason}")).collect();
        let found: Vec<&str> = ["remove c"].into_iter().chain(found.iter().map(String::as_str)).collect();
        check(from_ref(&wanted), thrice, 9_999, &found);
    }

    #[test]
    fn each_kind_of_container_may_bring_it_about() {
        let check_of = |init: Value, containers: Value, members: &[(&str, u32, u32, State)], expected: &[&str]| {
            let wanted = pod(json!({"restartPolicy": "Never", "initContainers": init, "containers": containers}));
            check(from_ref(&wanted), world(&wanted, members), 0, expected);
        };
        let plain = |name: &str| json!({"name": name, "image": "i:1"});
        let init = json!([plain("a"), all("b", "Never")]);
        let before = [("a", 0, 0, died(0)), ("b", 0, 0, died(42))];
        check_of(init.clone(), json!([plain("c")]), &before, &["start a 1 step 0"]);
        // With any other exit code the init container fails the pod as usual.
        check_of(init, json!([plain("c")]), &[("a", 0, 0, died(0)), ("b", 0, 0, died(1))], &["stop POD"]);
        let sidecar = json!([all("s", "Always")]);
        check_of(sidecar.clone(), json!([plain("c")]), &[("s", 0, 0, died(42)), ("c", 0, 0, RUNS)], &["stop c"]);
        check_of(sidecar, json!([plain("c")]), &[("s", 0, 0, died(1)), ("c", 0, 0, RUNS)], &["start s 1 step 1"]);
        // Two containers with such a rule: a container that the restart ended does not cause a further restart.
        let both = json!([all("c", "Never"), all("d", "Never")]);
        let after = [("c", 0, 0, died(42)), ("d", 0, 0, died(42)), ("c", 1, 1, RUNS), ("d", 1, 1, RUNS)];
        check_of(json!([]), both, &after, &[]);
    }

    #[test]
    fn the_status_tells_of_it() {
        let wanted = wanted();
        let shown = |members: &[(&str, u32, u32, State)]| {
            status(&wanted, &world(&wanted, members), &Waits::default(), &json!({}), Now { wall_ms: 5000, mono_ms: 0 })
        };
        let condition = |status: &Value| {
            let all = status["conditions"].as_array().unwrap();
            all.iter().find(|one| one["type"] == "AllContainersRestarting").unwrap().clone()
        };
        let running = shown(&[("a", 0, 0, died(0)), ("s", 0, 0, RUNS), ("c", 0, 0, RUNS), ("d", 0, 0, RUNS)]);
        assert_eq!(condition(&running)["status"], "False");
        let ends = shown(&[("a", 0, 0, died(0)), ("s", 0, 0, RUNS), ("c", 0, 0, died(42)), ("d", 0, 0, RUNS)]);
        assert_eq!(
            (&condition(&ends)["status"], &condition(&ends)["reason"]),
            (&json!("True"), &json!("RestartAllContainersStarted"))
        );
        assert_eq!(ends["phase"], "Running");
        let ended = [("a", 0, 0, died(0)), ("s", 0, 0, died(143)), ("c", 0, 0, died(42)), ("d", 0, 0, died(143))];
        let waits = shown(&ended);
        for container in
            [&waits["initContainerStatuses"][0], &waits["containerStatuses"][0], &waits["containerStatuses"][1]]
        {
            assert_eq!(container["state"]["waiting"]["reason"], "RestartingAllContainers", "{container}");
            assert_eq!(container["lastState"]["terminated"]["exitCode"], 137);
            assert_eq!(container["restartCount"], 1);
        }
        let mut anew = ended.to_vec();
        anew.extend([("a", 1, 1, died(0)), ("s", 1, 1, RUNS), ("c", 1, 1, RUNS), ("d", 1, 1, RUNS)]);
        let runs = shown(&anew);
        let first = &runs["containerStatuses"][0];
        assert_eq!(
            (&first["restartCount"], &first["lastState"]["terminated"]["reason"]),
            (&json!(1), &json!("RestartingAllContainers"))
        );
        assert_eq!((&condition(&runs)["status"], &runs["phase"]), (&json!("False"), &json!("Running")));
    }
}
