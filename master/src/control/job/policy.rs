//! A job's policies: the failure policy for a failed pod, and the success policy for succeeded indexes. PURE.

use super::indexes::Indexes;
use coracle_api::job::{OnExitCodes, OnPodCondition, PodFailurePolicy, SuccessPolicy};
use coracle_api::meta::Key;
use coracle_api::pod::{ContainerStatus, PodStatus};

/// The consequence of a pod's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    Counts,
    Ignored,
    FailsIndex,
    /// The job fails, and why.
    FailsJob(String),
}

/// The first rule that fits decides.
pub fn failure(policy: Option<&PodFailurePolicy>, key: &Key, status: &PodStatus) -> Failure {
    for (at, rule) in policy.into_iter().flat_map(|policy| &policy.rules).enumerate() {
        let (namespace, name) = (&key.namespace, &key.name);
        let why = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(codes), _) => exited(status, codes).map(|(container, code)| {
                format!(
                    "Container {container} for pod {namespace}/{name} failed with exit code {code} matching FailJob \
                     rule at index {at}"
                )
            }),
            (None, Some(patterns)) => condition(status, patterns)
                .map(|kind| format!("Pod {namespace}/{name} has condition {kind} matching FailJob rule at index {at}")),
            (None, None) => None,
        };
        match (why, rule.action.as_str()) {
            (Some(_), "Ignore") => return Failure::Ignored,
            (Some(_), "FailIndex") => return Failure::FailsIndex,
            (Some(_), "Count") => return Failure::Counts,
            (Some(why), "FailJob") => return Failure::FailsJob(why),
            _ => {}
        }
    }
    Failure::Counts
}

fn exited<'s>(status: &'s PodStatus, codes: &OnExitCodes) -> Option<(&'s str, i32)> {
    let fits = |status: &'s ContainerStatus| {
        let code = status.state.terminated.as_ref()?.exit_code;
        let named = codes.container_name.as_ref().is_none_or(|name| *name == status.name);
        let listed = match codes.operator.as_str() {
            "In" => codes.values.contains(&code),
            "NotIn" => !codes.values.contains(&code),
            _ => false,
        };
        (named && code != 0 && listed).then_some((status.name.as_str(), code))
    };
    status.container_statuses.iter().chain(&status.init_container_statuses).find_map(fits)
}

fn condition<'s>(status: &'s PodStatus, patterns: &[OnPodCondition]) -> Option<&'s str> {
    let fits = |kind: &str, said: &str| patterns.iter().any(|pattern| pattern.kind == kind && pattern.status == said);
    status.conditions.iter().find(|one| fits(&one.kind, &one.status)).map(|one| one.kind.as_str())
}

/// Which rule the indexes meet that have succeeded, in words.
pub fn success(policy: Option<&SuccessPolicy>, completions: i32, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let rules = &policy?.rules;
    let met = rules.iter().position(|rule| match (&rule.succeeded_indexes, rule.succeeded_count) {
        (Some(text), count) => {
            let wanted = Indexes::parse(text, completions);
            let there = wanted.shared(succeeded);
            !wanted.is_empty() && (there == wanted.count() || count.is_some_and(|count| there >= count))
        }
        (None, Some(count)) => succeeded.count() >= count,
        (None, None) => false,
    })?;
    Some(format!("Matched rules at index {met}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::meta::Resource;
    use serde_json::{Value, json};

    #[test]
    fn the_first_rule_that_fits() {
        let key = Key { resource: Resource::core("pods"), namespace: "ns".into(), name: "p".into() };
        let check = |rules: Value, status: Value, expected: Failure| {
            let policy: PodFailurePolicy = serde_json::from_value(json!({"rules": rules})).unwrap();
            let status_read: PodStatus = serde_json::from_value(status.clone()).unwrap();
            assert_eq!(failure(Some(&policy), &key, &status_read), expected, "{rules} {status}");
        };
        let exit = |name: &str, code: i32| json!({"name": name, "state": {"terminated": {"exitCode": code}}});
        let codes = |action: &str, operator: &str, values: &[i32]| {
            json!({
                "action": action, "onExitCodes": {"operator": operator, "values": values},
            })
        };
        let one = json!({"containerStatuses": [exit("a", 0), exit("b", 42)]});
        check(json!([codes("Ignore", "In", &[42])]), one.clone(), Failure::Ignored);
        check(json!([codes("FailIndex", "In", &[1]), codes("Count", "NotIn", &[1])]), one.clone(), Failure::Counts);
        check(json!([codes("FailIndex", "NotIn", &[1])]), one.clone(), Failure::FailsIndex);
        // Zero is no failure, whatever the rule says.
        check(json!([codes("Ignore", "NotIn", &[42])]), one.clone(), Failure::Counts);
        let why = "Container b for pod ns/p failed with exit code 42 matching FailJob rule at index 1";
        check(
            json!([codes("Ignore", "In", &[9]), codes("FailJob", "In", &[42])]),
            one.clone(),
            Failure::FailsJob(why.into()),
        );
        let mut of_a = codes("FailJob", "In", &[42]);
        of_a["onExitCodes"]["containerName"] = "a".into();
        check(json!([of_a]), one, Failure::Counts);
        let init = json!({"initContainerStatuses": [exit("i", 3)]});
        check(json!([codes("Ignore", "In", &[3])]), init, Failure::Ignored);
        let disrupted = json!({"conditions": [{"type": "DisruptionTarget", "status": "True"}]});
        let on = |action: &str, status: &str| {
            json!([
                {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": status}]},
            ])
        };
        check(on("Ignore", "True"), disrupted.clone(), Failure::Ignored);
        check(on("Ignore", "False"), disrupted.clone(), Failure::Counts);
        let why = "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0";
        check(on("FailJob", "True"), disrupted, Failure::FailsJob(why.into()));
    }

    #[test]
    fn what_succeeds() {
        let check = |rules: Value, succeeded: &[i32], met: Option<i32>| {
            let policy: SuccessPolicy = serde_json::from_value(json!({"rules": rules})).unwrap();
            let words = met.map(|at| format!("Matched rules at index {at}"));
            assert_eq!(
                success(Some(&policy), 10, &Indexes::of(succeeded.iter().copied())),
                words,
                "{rules} {succeeded:?}"
            );
        };
        let indexes = || json!([{"succeededIndexes": "0,2-4"}]);
        check(indexes(), &[0, 2, 3], None);
        check(indexes(), &[0, 1, 2, 3, 4], Some(0));
        check(json!([{"succeededIndexes": "0,2-4", "succeededCount": 2}]), &[2, 4], Some(0));
        check(json!([{"succeededIndexes": "99"}, {"succeededCount": 2}]), &[7, 9], Some(1));
        check(json!([{"succeededCount": 2}]), &[7], None);
        check(json!([{"succeededCount": 0}]), &[], None);
    }
}
