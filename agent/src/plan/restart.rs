//! The request to restart a pod, and when it is carried out. PURE.
//!
//! The containers of a pod end by its grace and start anew in a new round (see `renewal`), init containers first. A pod
//! of a file has a new sandbox as well. A pod of the API keeps its sandbox: its address stands in the API, and its
//! restart counts go up.

use super::renewal;
use crate::facts::naming::{SANDBOX, Source};
use crate::facts::restarts::Restart;
use crate::facts::seen::{self, Run};
use crate::facts::wanted::Wanted;
use crate::facts::world::World;

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To be kept until it is done.
    Restart(Restart),
    /// No container of the pod was made so far: the pod starts anyway.
    Starts,
    /// The sentence says why, and what to do instead.
    Refused(String),
}

/// The request to restart this pod as it is now. The same request again, as long as it is not carried out, gives the
/// same numbers.
pub fn ask(wanted: &Wanted, world: &World) -> Asked {
    let pods = seen::group(&world.containers);
    let runs = pods.get(&wanted.name.uid).map_or(&[][..], |pod| pod.runs.as_slice());
    let of_file = wanted.name.source == Source::File;
    let again = if of_file { "take its file away and put it back" } else { "delete it and make it anew" };
    if let Some(refused) = &wanted.refused {
        return Asked::Refused(format!("it does not run here: {refused}"));
    }
    if wanted.pod.metadata.deletion_timestamp.is_some() {
        return Asked::Refused("it is being deleted".to_owned());
    }
    if world.has_ended(wanted) {
        return Asked::Refused(format!("it has ended, and a pod that has ended does not run again: {again}"));
    }
    if wanted.pod.spec.restart_policy != "Always" {
        let policy = &wanted.pod.spec.restart_policy;
        return Asked::Refused(format!("its restartPolicy is {policy}: it runs to its end once; {again}"));
    }
    if let Some(restart) = world.restarts.get(&wanted.name.uid) {
        return Asked::Restart(*restart);
    }
    if members(wanted, runs).next().is_none() {
        return Asked::Starts;
    }
    let sandbox = seen::of(runs, SANDBOX).map(|run| run.tag.attempt).max();
    let round = renewal::of(wanted, runs, 0).number.saturating_add(1);
    Asked::Restart(Restart { round, sandbox: sandbox.filter(|_| of_file) })
}

/// The containers of its round carry the rest: the first of them is made when all of the rounds before have ended.
pub fn is_done(restart: Restart, wanted: &Wanted, world: &World) -> bool {
    let pods = seen::group(&world.containers);
    let runs = pods.get(&wanted.name.uid).map_or(&[][..], |pod| pod.runs.as_slice());
    world.has_ended(wanted) || members(wanted, runs).any(|run| run.tag.renewal >= restart.round)
}

fn members<'r, 'a>(wanted: &'r Wanted, runs: &'r [Run<'a>]) -> impl Iterator<Item = &'r Run<'a>> {
    seen::members(runs).filter(|run| wanted.member(&run.tag.container).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::engine::State;
    use crate::facts::naming::LABEL_RENEWAL;
    use crate::plan::tests::{RUNS, check, died, ordered, pod};
    use serde_json::{Value, json};
    use std::slice::from_ref;
    use std::sync::Arc;

    fn wanted() -> Wanted {
        let init = json!([{"name": "a", "image": "i:1"}, {"name": "s", "image": "i:1", "restartPolicy": "Always"}]);
        pod(json!({"restartPolicy": "Always", "initContainers": init, "containers": [{"name": "c", "image": "i:1"}]}))
    }

    /// In sandboxes: name, attempt, sandbox, round and state of each.
    fn world(sandbox: (u32, State), members: &[(&str, u32, u32, u32, State)], restart: Option<Restart>) -> World {
        let plain: Vec<_> =
            members.iter().map(|(name, attempt, of, _, state)| (*name, *attempt, *of, state.clone())).collect();
        let mut world = ordered(&wanted(), Some(sandbox), &plain);
        for (seen, (.., round, _)) in world.containers.iter_mut().skip(1).zip(members) {
            seen.labels.insert(LABEL_RENEWAL.to_owned(), round.to_string());
        }
        world.restarts = Arc::new(restart.map(|restart| ("u".to_owned(), restart)).into_iter().collect());
        world
    }

    fn now(sandbox: (u32, State), members: &[(&str, u32, u32, u32, State)], restart: Restart, expected: &[&str]) {
        check(from_ref(&wanted()), world(sandbox, members, Some(restart)), 0, expected);
    }

    #[test]
    fn a_pod_of_a_file_begins_in_a_new_sandbox() {
        let restart = Restart { round: 1, sandbox: Some(0) };
        let (a, c) = (("a", 0, 0, 0, died(0)), ("c", 0, 0, 0, died(143)));
        now((0, RUNS), &[a.clone(), ("s", 0, 0, 0, RUNS), ("c", 0, 0, 0, RUNS)], restart, &["stop c"]);
        now((0, RUNS), &[a.clone(), ("s", 0, 0, 0, RUNS), c.clone()], restart, &["stop s"]);
        let ended = [a, ("s", 0, 0, 0, died(143)), c];
        now((0, RUNS), &ended, restart, &["stop POD"]);
        // No back-off, though the sandbox ended a moment ago; and an init container runs again.
        now((0, died(0)), &ended, restart, &["start POD 1 step 0", "remove POD", "start a 1 step 0"]);
        let with = |more: &[(&'static str, u32, u32, u32, State)]| -> Vec<(&'static str, u32, u32, u32, State)> {
            ended.iter().cloned().chain(more.iter().cloned()).collect()
        };
        now((1, RUNS), &with(&[("a", 1, 1, 1, RUNS)]), restart, &[]);
        now((1, RUNS), &with(&[("a", 1, 1, 1, died(0))]), restart, &["start s 1 step 0"]);
        let through = with(&[("a", 1, 1, 1, died(0)), ("s", 1, 1, 1, RUNS)]);
        now((1, RUNS), &through, restart, &["start c 1 step 0"]);
        // The rest needs no request any more.
        check(from_ref(&wanted()), world((1, RUNS), &through, None), 0, &["start c 1 step 0"]);
        // The number of a sandbox that is gone with all else is not given again.
        now((9, RUNS), &[], Restart { round: 1, sandbox: Some(9) }, &["stop POD"]);
    }

    #[test]
    fn a_pod_of_the_api_keeps_its_sandbox() {
        let restart = Restart { round: 3, sandbox: None };
        let (a, c) = (("a", 0, 0, 2, died(0)), ("c", 4, 0, 2, RUNS));
        now((0, RUNS), &[a.clone(), ("s", 0, 0, 2, RUNS), c], restart, &["stop c"]);
        let ended = [a, ("s", 0, 0, 2, died(143)), ("c", 4, 0, 2, died(143))];
        now((0, RUNS), &ended, restart, &["start a 1 step 0"]);
        let mut later = ended.to_vec();
        later.extend([("a", 1, 0, 3, died(0)), ("s", 1, 0, 3, RUNS)]);
        now((0, RUNS), &later, restart, &["start c 5 step 0"]);
    }

    #[test]
    fn a_request_is_two_numbers() {
        let members = [("a", 0, 1, 2, died(0)), ("s", 0, 1, 2, RUNS), ("c", 0, 1, 2, RUNS)];
        let (file, idle) = (wanted(), world((1, RUNS), &members, None));
        let asked = Restart { round: 3, sandbox: Some(1) };
        assert_eq!(ask(&file, &idle), Asked::Restart(asked));
        let under_way = world((2, RUNS), &members, Some(asked));
        assert_eq!(ask(&file, &under_way), Asked::Restart(asked), "the same request again");
        assert_eq!(ask(&file, &ordered(&file, Some((0, RUNS)), &[])), Asked::Starts);
        assert!(!is_done(asked, &file, &under_way));
        let last = [members[0].clone(), ("a", 1, 2, 3, RUNS)];
        assert!(is_done(asked, &file, &world((2, RUNS), &last, Some(asked))));
        let of_api = |spec: &Value, more: &Value| {
            let mut document = json!({"metadata": {"namespace": "d", "name": "p", "uid": "u"}, "spec": spec});
            if more["status"].is_object() {
                document["status"] = more["status"].clone();
            }
            if more["deleted"] == true {
                document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            Wanted::new(Source::Master, document).unwrap()
        };
        let spec = |policy: &str| json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i:1"}]});
        let in_place = Restart { round: 3, sandbox: None };
        assert_eq!(ask(&of_api(&spec("Always"), &json!({})), &idle), Asked::Restart(in_place));
        for (policy, more, word) in [
            ("Never", json!({}), "restartPolicy is Never"),
            ("OnFailure", json!({}), "restartPolicy is OnFailure"),
            ("Always", json!({"status": {"phase": "Failed"}}), "has ended"),
            ("Always", json!({"deleted": true}), "is being deleted"),
        ] {
            let said = ask(&of_api(&spec(policy), &more), &idle);
            assert!(matches!(said, Asked::Refused(ref why) if why.contains(word)), "{word}: {said:?}");
        }
    }
}
