//! Small stories with one right answer.

use std::time::Duration;

use coracle_agent::facts::naming::{LABEL_CONTAINER, SANDBOX};
use coracle_agent::plan::Rules;

use super::history::Story;

/// Kills (or removes) the only container of a pod that runs, waits, and counts.
async fn restart_count(remove: bool) -> (u64, u64) {
    let mut story = Story::new(1, Rules::default());
    story.add_steady();
    story.boot();
    story.pass(Duration::from_secs(5), Duration::from_millis(100)).await;
    let id = story.fake.with(|engine| {
        let mut members = engine.containers.values().filter(|held| held.seen.labels[LABEL_CONTAINER] != SANDBOX);
        members.next().map(|held| held.seen.id.clone()).unwrap()
    });
    story.fake.with(|engine| if remove { drop(engine.containers.remove(&id)) } else { engine.kill(&id, 137) });
    story.wake();
    story.pass(Duration::from_secs(5), Duration::from_millis(100)).await;
    let status = story.shown.borrow().statuses["u0"].clone();
    let count = status["containerStatuses"][0]["restartCount"].as_u64().unwrap();
    let runs = u64::from(status["containerStatuses"][0]["ready"].as_bool().unwrap());
    (count, runs)
}

#[test]
fn a_container_killed_by_hand_is_back_and_counted_once() {
    for remove in [false, true] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        assert_eq!(runtime.block_on(restart_count(remove)), (1, 1), "removed: {remove}");
    }
}

/// It runs once, whoever dies; the pod does not notice.
#[test]
fn an_ephemeral_container_starts_once() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut story = Story::new(3, Rules::default());
        story.add_steady();
        story.boot();
        story.pass(Duration::from_secs(5), Duration::from_millis(100)).await;
        let ids = |story: &Story| -> Vec<String> {
            story.fake.with(|engine| {
                engine.containers.values().filter(|held| held.seen.runs()).map(|held| held.seen.id.clone()).collect()
            })
        };
        let before = ids(&story);
        let ephemeral = serde_json::json!([
            {"name": "e", "image": "done:1", "targetContainerName": "c0"}, {"name": "f", "image": "bad:1"},
        ]);
        story.pods[0].document["spec"]["ephemeralContainers"] = ephemeral;
        story.publish();
        story.pass(Duration::from_secs(120), Duration::from_millis(100)).await;
        let status = story.shown.borrow().statuses["u0"].clone();
        let ended = &status["ephemeralContainerStatuses"][0]["state"]["terminated"];
        assert_eq!((&ended["reason"], &ended["exitCode"]), (&"Completed".into(), &0.into()), "{status}");
        assert_eq!(status["ephemeralContainerStatuses"][1]["state"]["terminated"]["reason"], "StartError", "{status}");
        assert_eq!((&status["phase"], &status["containerStatuses"][0]["restartCount"]), (&"Running".into(), &0.into()));
        let changes = story.fake.with(|engine| engine.changes_total);
        story.die();
        story.boot();
        story.pass(Duration::from_secs(300), Duration::from_millis(1000)).await;
        assert_eq!(story.fake.with(|engine| engine.changes_total), changes);
        assert_eq!(ids(&story), before);
    });
}

/// It ends well on its signal, which by its policy would be for good.
#[test]
fn what_is_stopped_for_a_resize_starts_again() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut story = Story::new(4, Rules::default());
        story.add_steady();
        let resources = |memory: &str| serde_json::json!({"limits": {"memory": memory}});
        let spec = &mut story.pods[0].document["spec"];
        spec["restartPolicy"] = "OnFailure".into();
        spec["containers"][0]["image"] = "slow:1".into();
        spec["containers"][0]["resizePolicy"] =
            serde_json::json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        spec["containers"][0]["resources"] = resources("100Mi");
        story.boot();
        story.pass(Duration::from_secs(30), Duration::from_millis(100)).await;
        story.pods[0].document["spec"]["containers"][0]["resources"] = resources("200Mi");
        story.publish();
        story.pass(Duration::from_secs(30), Duration::from_millis(100)).await;
        let status = story.shown.borrow().statuses["u0"].clone();
        let container = &status["containerStatuses"][0];
        assert_eq!((&container["ready"], &container["restartCount"]), (&true.into(), &1.into()), "{status}");
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 0, "{status}");
    });
}

/// A new agent finds everything as it should be, and does nothing.
#[test]
fn a_new_agent_adopts_what_runs() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut story = Story::new(2, Rules::default());
        story.add_steady();
        story.boot();
        story.pass(Duration::from_secs(5), Duration::from_millis(100)).await;
        let before = story.fake.with(|engine| engine.changes_total);
        assert!(before > 0);
        story.die();
        story.boot();
        story.pass(Duration::from_secs(300), Duration::from_millis(1000)).await;
        assert_eq!(story.fake.with(|engine| engine.changes_total), before);
    });
}
