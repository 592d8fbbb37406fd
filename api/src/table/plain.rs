//! Kinds that are data here: admission policies, levels of priority, devices.

use super::cell::{self, Cells, NONE, UNSET, list, number, text};
use super::reading::Reading;
use crate::meta::Time;
use serde_json::Value;

pub fn cells_of(kind: &str) -> Option<Cells> {
    Some(match kind {
        "MutatingAdmissionPolicy" => |of, now| policy(of, "mutations", now),
        "ValidatingAdmissionPolicy" => |of, now| policy(of, "validations", now),
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => binding,
        "FlowSchema" => flow,
        "PriorityLevelConfiguration" => level,
        "DeviceClass" | "ResourceClaimTemplate" => |of, now| vec![cell::name(of), cell::age(of, now)],
        "ResourceClaim" => |of, now| vec![cell::name(of), state(of).into(), cell::age(of, now)],
        "ResourceSlice" => slice,
        _ => return None,
    })
}

fn policy(policy: &Reading, what: &str, now: Time) -> Vec<Value> {
    let (spec, kind) = (&policy["spec"], &policy["spec"]["paramKind"]);
    let kind = if kind.is_null() {
        UNSET.to_owned()
    } else {
        format!("{}/{}", text(&kind["apiVersion"]), text(&kind["kind"]))
    };
    vec![cell::name(policy), list(&spec[what]).len().into(), kind.into(), cell::age(policy, now)]
}

fn binding(binding: &Reading, now: Time) -> Vec<Value> {
    let (spec, of) = (&binding["spec"], &binding["spec"]["paramRef"]);
    let parameters = match (text(&of["namespace"]), text(&of["name"])) {
        (_, "") if of["selector"].is_null() => UNSET.to_owned(),
        (_, "") => cell::selector(&of["selector"]),
        ("", name) => format!("*/{name}"),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    vec![cell::name(binding), text(&spec["policyName"]).into(), parameters.into(), cell::age(binding, now)]
}

fn flow(schema: &Reading, now: Time) -> Vec<Value> {
    let spec = &schema["spec"];
    let dangling = list(&schema["status"]["conditions"]).iter().find(|condition| condition["type"] == "Dangling");
    let method = &spec["distinguisherMethod"];
    vec![
        cell::name(schema),
        text(&spec["priorityLevelConfiguration"]["name"]).into(),
        number(&spec["matchingPrecedence"]).into(),
        if method.is_null() { NONE } else { text(&method["type"]) }.into(),
        cell::age(schema, now),
        dangling.map_or("?", |condition| text(&condition["status"])).into(),
    ]
}

fn level(level: &Reading, now: Time) -> Vec<Value> {
    let (spec, limited) = (&level["spec"], &level["spec"]["limited"]);
    let queuing = &limited["limitResponse"]["queuing"];
    let figure = |of: &Reading, field: &str| if of.is_null() { NONE.into() } else { number(&of[field]).into() };
    vec![
        cell::name(level),
        text(&spec["type"]).into(),
        figure(limited, "nominalConcurrencyShares"),
        figure(queuing, "queues"),
        figure(queuing, "handSize"),
        figure(queuing, "queueLengthLimit"),
        cell::age(level, now),
    ]
}

fn state(claim: &Reading) -> String {
    let (status, ends) = (&claim["status"], !claim["metadata"]["deletionTimestamp"].is_null());
    let allotted = !status["allocation"].is_null();
    let states = [
        ("deleted", ends),
        ("pending", !allotted && !ends),
        ("allocated", allotted),
        ("reserved", allotted && !list(&status["reservedFor"]).is_empty()),
    ];
    states.into_iter().filter(|(_, holds)| *holds).map(|(state, _)| state).collect::<Vec<_>>().join(",")
}

fn slice(slice: &Reading, now: Time) -> Vec<Value> {
    let spec = &slice["spec"];
    let cells = [&spec["nodeName"], &spec["driver"], &spec["pool"]["name"]].map(|of| text(of).into());
    [cell::name(slice)].into_iter().chain(cells).chain([cell::age(slice, now)]).collect()
}
