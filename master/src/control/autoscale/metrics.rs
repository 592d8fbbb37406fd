//! A metric from an autoscaler's spec: the proposed number of replicas, or the reason why the value is unknown. PURE.

use super::measure::{Aim, Crew, Metric};
use coracle_api::quantity::Quantity;
use serde_json::{Value, json};

/// The proposed number of replicas, the name of the metric, and the metric's entry in the status.
pub type Proposal = (i64, String, Value);

/// What one metric asks for.
pub fn propose(metric: &Value, crew: &Crew<'_>, namespace: &str) -> Result<Proposal, Unmeasured> {
    let (field, kind, words) = match metric["type"].as_str() {
        Some("Resource") => ("resource", "Resource", "resource"),
        Some("ContainerResource") => ("containerResource", "ContainerResource", "container resource"),
        _ => return Err(Unmeasured::without_source(metric, namespace)),
    };
    let said = &metric[field];
    let (resource, container) = (said["name"].as_str().unwrap_or_default(), said["container"].as_str());
    let unmeasured = |why: String| match container {
        Some(container) => Unmeasured {
            reason: "FailedGetContainerResourceMetric",
            what: format!("{container} container metric value"),
            why,
        },
        None => {
            Unmeasured { reason: "FailedGetResourceMetric", what: format!("{resource} resource metric value"), why }
        }
    };
    let average =
        said["target"]["averageValue"].as_str().and_then(|text| Quantity::parse(text).ok()).map(Quantity::milli);
    let aim = match (average, said["target"]["averageUtilization"].as_i64()) {
        (Some(average), _) => Aim::Average(average),
        (None, Some(percent)) => Aim::Utilization(percent),
        (None, None) => {
            let why = "invalid resource metric source: neither an average utilization target nor an average value \
                       (usage) target was set";
            return Err(unmeasured(why.to_owned()));
        }
    };
    let (what, name) = match aim {
        Aim::Average(_) => ("usage", format!("{resource} resource")),
        Aim::Utilization(_) => ("utilization", format!("{resource} {words} utilization (percentage of request)")),
    };
    let measure = Metric { resource, container, aim };
    let found = measure.found(crew).map_err(|why| unmeasured(format!("failed to get {resource} {what}: {why}")))?;
    let mut status = json!({"type": kind, field: {"name": resource, "current": measure.current(&found)}});
    if let Some(container) = container {
        status[field]["container"] = container.into();
    }
    Ok((found.replicas, name, status))
}

/// A metric whose value cannot be determined.
pub struct Unmeasured {
    pub reason: &'static str,
    pub what: String,
    pub why: String,
}

impl Unmeasured {
    fn without_source(metric: &Value, namespace: &str) -> Unmeasured {
        let text = |at: &str| metric.pointer(at).and_then(Value::as_str).unwrap_or_default();
        let custom =
            "unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered";
        let (reason, what, why) = match text("/type") {
            "Pods" => {
                let why = format!("unable to get metric {}: {custom}", text("/pods/metric/name"));
                ("FailedGetPodsMetric", "pods metric value".to_owned(), why)
            }
            "Object" => {
                let (kind, name) = (text("/object/describedObject/kind"), text("/object/describedObject/name"));
                let why = format!(
                    "unable to get metric {}: {kind} on {namespace} {name}/{custom}",
                    text("/object/metric/name")
                );
                ("FailedGetObjectMetric", "object metric value".to_owned(), why)
            }
            _ => {
                let name = text("/external/metric/name");
                let api = "unable to fetch metrics from external metrics API: the server could not find the requested \
                           resource";
                let why = format!(
                    "unable to get external metric {namespace}/{name}/nil: {api} (get {name}.external.metrics.k8s.io)"
                );
                ("FailedGetExternalMetric", format!("{name} external metric value"), why)
            }
        };
        Unmeasured { reason, what, why }
    }
}
