//! Unpauses containers that another program paused. PURE.

use std::collections::BTreeMap;

use super::rules::Rule;
use crate::facts::round::{Round, Unpause};
use crate::facts::seen::PodSeen;
use crate::plan::case::Case;

/// The agent waits this long before it unpauses a container, and again after each try: `docker commit` pauses the
/// container while it copies.
const PAUSE_MS: i64 = 5_000;

/// Unpausing is not a pod action and runs beside the actions of the pod: a hook in a paused container would otherwise
/// block its pod.
pub fn go_on(case: Case<'_>, pods: &BTreeMap<String, PodSeen<'_>>, round: &mut Round) {
    if !case.rules.hold(Rule::PausedGoOn) {
        return;
    }
    let known = |pod: &&PodSeen<'_>| case.desired.pods.contains_key(&pod.name.uid) || case.desired.is_gone(&pod.name);
    for run in pods.values().filter(known).flat_map(|pod| &pod.runs).filter(|run| run.seen.beside.paused) {
        let Some(since_ms) = case.world.memory.pauses.get(&run.seen.id).copied().flatten() else { continue };
        let due_ms = since_ms.saturating_add(PAUSE_MS);
        if case.now.mono_ms < due_ms {
            round.wake_at(due_ms);
            continue;
        }
        let (pod, id, container) = (run.tag.pod.clone(), run.seen.id.clone(), run.tag.container.clone());
        round.unpauses.push(Unpause { pod, id, container });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::backoff::Now;
    use crate::facts::desired::Desired;
    use crate::facts::round::{ActionKind, Round};
    use crate::plan::tests::{RUNS, ordered, pod};
    use crate::plan::{Rules, plan};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn what_is_paused_goes_on() {
        let wanted = pod(json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}]}));
        let round = |wished: bool, under_way: bool, mono_ms: i64| -> Round {
            let mut desired = Desired::default();
            if wished {
                desired.pods.insert("u".to_owned(), Arc::new(wanted.clone()));
            }
            let mut world = ordered(&wanted, Some((0, RUNS)), &[("c", 0, 0, RUNS)]);
            world.containers[1].beside.paused = true;
            world.memory.look(&world.containers, Now::default());
            if under_way {
                world.memory.pauses.insert(world.containers[1].id.clone(), None);
            }
            plan(Case { desired: &desired, world: &world, now: Now { wall_ms: 0, mono_ms }, rules: Rules::default() })
        };
        let told = |round: Round| (round.unpauses.len(), round.pods.len(), round.wake_at_ms);
        assert_eq!(told(round(true, false, 4_999)), (0, 0, Some(PAUSE_MS)));
        assert_eq!(told(round(true, false, PAUSE_MS)), (1, 0, None));
        assert_eq!(told(round(true, true, PAUSE_MS)), (0, 0, None), "it is under way");
        // A stop does not wait for the pause to end.
        let ends = round(false, false, 0);
        let ActionKind::Stop { stops, .. } = &ends.pods["u"][0].what else { panic!("{ends:?}") };
        assert!(stops[0].paused);
    }
}
