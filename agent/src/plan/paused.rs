//! Containers that somebody paused beside this agent: they go on. PURE.

use std::collections::BTreeMap;

use super::round::{Round, Unpause};
use super::rules::Rule;
use super::seen::{PodSeen, Run};
use super::world::Case;

/// One that is still paused after its turn is tried again.
const UNPAUSE_AGAIN_MS: i64 = 10_000;

/// Beside whatever else is done for their pods: a hook in a paused container would hold up its pod.
pub fn go_on(case: Case<'_>, pods: &BTreeMap<String, PodSeen<'_>>, round: &mut Round) {
    if !case.rules.hold(Rule::PausedGoOn) {
        return;
    }
    let known = |pod: &&PodSeen<'_>| case.desired.pods.contains_key(&pod.name.uid) || case.desired.is_gone(&pod.name);
    for run in pods.values().filter(known).flat_map(|pod| &pod.runs).filter(|run| run.seen.beside.paused) {
        match case.world.memory.unpausing.get(&run.seen.id) {
            Some(None) => {}
            Some(Some(at_ms)) if case.now.mono_ms < at_ms.saturating_add(UNPAUSE_AGAIN_MS) => {
                round.wake_at(at_ms.saturating_add(UNPAUSE_AGAIN_MS));
            }
            None | Some(Some(_)) => round.unpauses.push(Unpause {
                pod: run.tag.pod.clone(),
                id: run.seen.id.clone(),
                container: run.tag.container.clone(),
            }),
        }
    }
}

/// It is about to go on: its stop waits for that, since no hook runs in it before.
pub fn goes_on(case: Case<'_>, run: &Run<'_>) -> bool {
    let tried = case.world.memory.unpausing.get(&run.seen.id).is_some_and(Option::is_some);
    run.seen.beside.paused && !tried && case.rules.hold(Rule::PausedGoOn)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    use crate::desired::Desired;
    use crate::plan::tests::{RUNS, ordered, pod};
    use crate::plan::{Now, Round, Rules, plan};

    #[test]
    fn what_is_paused_goes_on_before_it_ends() {
        let wanted = pod(json!({"restartPolicy": "Always", "containers": [{"name": "c", "image": "i:1"}]}));
        let round = |wished: bool, tried: Option<Option<i64>>, mono_ms: i64| -> Round {
            let mut desired = Desired::default();
            if wished {
                desired.pods.insert("u".to_owned(), Arc::new(wanted.clone()));
            }
            let mut world = ordered(&wanted, Some((0, RUNS)), &[("c", 0, 0, RUNS)]);
            world.containers[1].beside.paused = true;
            world.memory.look(&world.containers, Now::default());
            world.memory.unpausing.extend(tried.map(|tried| (world.containers[1].id.clone(), tried)));
            plan(Case { desired: &desired, world: &world, now: Now { wall_ms: 0, mono_ms }, rules: Rules::default() })
        };
        let told = |round: Round| (round.unpauses.len(), round.pods.len(), round.wake_at_ms);
        assert_eq!(told(round(true, None, 0)), (1, 0, None));
        assert_eq!(told(round(true, Some(None), 0)), (0, 0, None), "it is under way");
        assert_eq!(told(round(true, Some(Some(0)), 9_999)), (0, 0, Some(UNPAUSE_AGAIN_MS)));
        assert_eq!(told(round(true, Some(Some(0)), UNPAUSE_AGAIN_MS)), (1, 0, None), "it is tried again");
        // Its stop waits for the first try alone.
        assert_eq!(told(round(false, None, 0)), (1, 0, None));
        assert_eq!(told(round(false, Some(None), 0)), (0, 0, None));
        assert_eq!(told(round(false, Some(Some(0)), 0)).1, 1);
    }
}
