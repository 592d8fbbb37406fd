//! Namespaces that do not end, and autoscalers that cannot scale. PURE.

use super::context::{Context, Found, Words, later};
use super::objects::{AutoscalerLook, NamespaceLook};
use coracle_api::meta::Time;
use coracle_keeper::problem::Subject;

/// A namespace that is there so many seconds after its deletion began does not end. Pods have 30 seconds of grace.
const ENDED_AFTER_S: i64 = 120;

pub fn tell(context: &Context<'_>, found: &mut Found) {
    for namespace in &context.objects.namespaces {
        if let Some(begun) = namespace.metadata.deletion_timestamp {
            ends(context, namespace, begun, found);
        }
    }
    for autoscaler in context.objects.autoscalers.iter().filter(|one| !context.goes(&one.metadata)) {
        scales(autoscaler, found);
    }
}

fn ends(context: &Context<'_>, namespace: &NamespaceLook, begun: Time, found: &mut Found) {
    let stuck_at = later(begun, ENDED_AFTER_S);
    if context.now < stuck_at {
        return found.look_again(stuck_at);
    }
    let name = &namespace.metadata.name;
    let said = namespace.status.conditions.iter().filter(|one| one.status == "True" && !one.message.is_empty());
    let said: Vec<&str> = said.map(|one| one.message.as_str()).collect();
    let words = Words {
        what: "does not end".to_owned(),
        why: said.join("; "),
        advice: format!("kubectl get namespace {name} -o yaml"),
        since: Some(begun),
    };
    found.tell("NamespaceStuck", Subject::new("namespace", "", name), words);
}

fn scales(autoscaler: &AutoscalerLook, found: &mut Found) {
    let metadata = &autoscaler.metadata;
    let cannot = autoscaler.status.conditions.iter().find(|one| {
        // Its target is scaled to zero by hand: nothing is to be scaled.
        matches!(one.kind.as_str(), "AbleToScale" | "ScalingActive")
            && one.status == "False"
            && one.reason != "ScalingDisabled"
    });
    if let Some(condition) = cannot {
        let words = Words {
            what: "cannot scale".to_owned(),
            why: format!("{}: {}", condition.reason, condition.message),
            advice: format!("kubectl -n {} describe hpa {}", metadata.namespace, metadata.name),
            since: condition.last_transition_time,
        };
        found.tell(
            "AutoscalerUnable",
            Subject::new("horizontalpodautoscaler", &metadata.namespace, &metadata.name),
            words,
        );
    }
}
