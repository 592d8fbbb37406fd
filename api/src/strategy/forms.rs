//! Kinds that show the objects of a stored kind: one set of objects in two forms. PURE.
//!
//!     events.k8s.io/v1 Event                      <-> v1 Event
//!     autoscaling/v1 HorizontalPodAutoscaler      <-> autoscaling/v2 HorizontalPodAutoscaler
//!
//! Each direction returns a document of the target type with the target's `apiVersion`, and loses no field that the
//! target type has.

use super::doc::{list, remove};
use serde_json::{Map, Value, json};

/// The fields with different names: events.k8s.io, core.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
];

/// The annotations in which v1 carries the fields of an autoscaler that only v2 has, as in Kubernetes.
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const SEEN_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// events.k8s.io -> core
pub fn read_event(event: &mut Value) {
    for (theirs, ours) in EVENT_FIELDS {
        rename(event, theirs, ours);
    }
    said(event, "v1");
}

/// core -> events.k8s.io
pub fn show_event(event: &mut Value) {
    for (theirs, ours) in EVENT_FIELDS {
        rename(event, ours, theirs);
    }
    for (field, missing) in [
        ("eventTime", Value::Null),
        ("deprecatedFirstTimestamp", Value::Null),
        ("deprecatedLastTimestamp", Value::Null),
        ("deprecatedSource", json!({})),
    ] {
        if event.get(field).is_none() && event.is_object() {
            event[field] = missing;
        }
    }
    // Of the new form's texts only these are shown when they are empty nowhere.
    for field in ["action", "reason", "reportingController", "reportingInstance", "type"] {
        if event[field] == "" {
            remove(event, field);
        }
    }
    said(event, "events.k8s.io/v1");
}

/// autoscaling/v1 -> v2
pub fn read_autoscaler(scaler: &mut Value) {
    let mut metrics =
        taken(scaler, METRICS).and_then(|text| serde_json::from_str::<Vec<Value>>(&text).ok()).unwrap_or_default();
    let behavior = taken(scaler, BEHAVIOR).and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let conditions = taken(scaler, CONDITIONS).and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let seen = taken(scaler, SEEN_METRICS).and_then(|text| serde_json::from_str::<Value>(&text).ok());
    if let Some(spec) = scaler.get_mut("spec").and_then(Value::as_object_mut) {
        if let Some(wanted) = spec.remove("targetCPUUtilizationPercentage") {
            metrics.push(processor("target", json!({"type": "Utilization", "averageUtilization": wanted})));
        }
        if !metrics.is_empty() {
            spec.insert("metrics".into(), metrics.into());
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".into(), behavior);
        }
    }
    if let Some(status) = scaler.get_mut("status").and_then(Value::as_object_mut) {
        let mut all = seen.and_then(|seen| seen.as_array().cloned()).unwrap_or_default();
        if let Some(used) = status.remove("currentCPUUtilizationPercentage") {
            all.push(processor("current", json!({"averageUtilization": used})));
        }
        if !all.is_empty() {
            status.insert("currentMetrics".into(), all.into());
        }
        if let Some(conditions) = conditions {
            status.insert("conditions".into(), conditions);
        }
    }
    said(scaler, "autoscaling/v2");
}

/// autoscaling/v2 -> v1. What v1 has no word for travels in annotations, and comes back with them.
pub fn show_autoscaler(scaler: &mut Value) {
    let mut aside: Vec<(&str, Value)> = Vec::new();
    if let Some(spec) = scaler.get_mut("spec").and_then(Value::as_object_mut) {
        let metrics = spec.remove("metrics").unwrap_or_default();
        let (processor, others) = parted(&metrics, "target");
        if let Some(wanted) = processor {
            spec.insert("targetCPUUtilizationPercentage".into(), wanted);
        }
        aside.extend((!others.is_empty()).then(|| (METRICS, others.into())));
        aside.extend(spec.remove("behavior").map(|behavior| (BEHAVIOR, behavior)));
    }
    if let Some(status) = scaler.get_mut("status").and_then(Value::as_object_mut) {
        let metrics = status.remove("currentMetrics").unwrap_or_default();
        let (processor, others) = parted(&metrics, "current");
        if let Some(used) = processor {
            status.insert("currentCPUUtilizationPercentage".into(), used);
        }
        aside.extend((!others.is_empty()).then(|| (SEEN_METRICS, others.into())));
        let conditions =
            status.remove("conditions").filter(|conditions| !list(&json!({"c": conditions}), "c").is_empty());
        aside.extend(conditions.map(|conditions| (CONDITIONS, conditions)));
        if !status.contains_key("currentReplicas") {
            status.insert("currentReplicas".into(), 0.into());
        }
    }
    for (name, value) in aside {
        super::doc::map_at(&mut scaler["metadata"], "annotations").insert(name.into(), value.to_string().into());
    }
    said(scaler, "autoscaling/v1");
}

fn processor(field: &str, value: Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", field: value}})
}

/// The CPU utilization, which autoscaling/v1 can express, and all further metrics.
fn parted(metrics: &Value, field: &str) -> (Option<Value>, Vec<Value>) {
    let mut processor = None;
    let mut others = Vec::new();
    for metric in metrics.as_array().into_iter().flatten() {
        let use_of = &metric["resource"][field]["averageUtilization"];
        if processor.is_none()
            && metric["type"] == "Resource"
            && metric["resource"]["name"] == "cpu"
            && !use_of.is_null()
        {
            processor = Some(use_of.clone());
        } else {
            others.push(metric.clone());
        }
    }
    (processor, others)
}

/// An annotation, taken away.
fn taken(object: &mut Value, annotation: &str) -> Option<String> {
    let annotations = object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(annotation)?.as_str()?.to_owned();
    if annotations.is_empty() {
        remove(&mut object["metadata"], "annotations");
    }
    Some(text)
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(fields) = object.as_object_mut()
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.into(), value);
    }
}

fn said(object: &mut Value, api_version: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), api_version.into());
    } else {
        *object = Map::from_iter([("apiVersion".to_owned(), Value::from(api_version))]).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(read: fn(&mut Value), show: fn(&mut Value), theirs: Value, ours: Value) {
        let mut read_one = theirs.clone();
        read(&mut read_one);
        assert_eq!(read_one, ours);
        let mut shown = ours;
        show(&mut shown);
        assert_eq!(shown, theirs);
    }

    #[test]
    fn there_and_back() {
        check(
            read_event,
            show_event,
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": null, "note": "n",
                "regarding": {"kind": "Pod"},
                "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": null,
                "deprecatedLastTimestamp": null, "deprecatedCount": 2}),
            json!({"apiVersion": "v1", "kind": "Event", "eventTime": null, "message": "n",
                "involvedObject": {"kind": "Pod"},
                "source": {"component": "c"}, "firstTimestamp": null, "lastTimestamp": null, "count": 2}),
        );
        check(
            read_autoscaler,
            show_autoscaler,
            json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
                "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 60},
                "status": {"currentReplicas": 0, "desiredReplicas": 0}}),
            json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"},
                "spec": {"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 60}}}]},
                    "status": {"currentReplicas": 0, "desiredReplicas": 0}}),
        );
        let memory = json!({
            "type": "Resource",
            "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
        });
        let full = json!({"apiVersion": "autoscaling/v2", "metadata": {},
            "spec": {"metrics": [memory], "behavior": {"scaleUp": {}}},
            "status": {"currentReplicas": 1}});
        let mut shown = full.clone();
        show_autoscaler(&mut shown);
        assert_eq!(shown["spec"], json!({}));
        read_autoscaler(&mut shown);
        assert_eq!(shown, full);
    }
}
