//! What pods take, as their agents told it last. PURE.

use crate::figures::UsageReport;
use coracle_api::meta::Time;
use coracle_api::quantity::Quantity;
use std::collections::HashMap;
use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// When they were told, by uptime. `None`: never yet.
    at: Option<Duration>,
    /// An agent answered: the metrics are available.
    pub answered: bool,
    /// By namespace and name.
    pods: HashMap<(String, String), Reading>,
}

/// What one pod takes.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub at: Option<Time>,
    /// The usage of processors was measured over this time before `at`.
    pub window: Duration,
    /// By name of a container and of a resource: in thousandths.
    containers: Vec<(String, HashMap<String, i64>)>,
}

impl Readings {
    pub fn of(usages: &[UsageReport], uptime: Duration) -> Readings {
        let mut pods = HashMap::new();
        for usage in usages {
            let at = Time::parse(&usage.timestamp);
            let window = usage
                .window
                .trim_end_matches('s')
                .parse()
                .ok()
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            for pod in &usage.pods {
                let containers = pod.containers.as_array().into_iter().flatten().map(|container| {
                    let amount = |text: &serde_json::Value| {
                        text.as_str().and_then(|text| Quantity::parse(text).ok()).map(Quantity::milli)
                    };
                    let usage = container["usage"].as_object().into_iter().flatten();
                    let usage = usage.filter_map(|(name, text)| Some((name.clone(), amount(text)?)));
                    (container["name"].as_str().unwrap_or_default().to_owned(), usage.collect())
                });
                let reading = Reading { at, window: window.unwrap_or_default(), containers: containers.collect() };
                pods.insert((pod.namespace.clone(), pod.name.clone()), reading);
            }
        }
        Readings { at: Some(uptime), answered: !usages.is_empty(), pods }
    }

    /// No older than this.
    pub fn fresh(&self, age: Duration, uptime: Duration) -> bool {
        self.at.is_some_and(|at| at + age > uptime)
    }

    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Reading> {
        self.pods.get(&(namespace.to_owned(), name.to_owned()))
    }
}

impl Reading {
    /// The usage of a resource by all containers, or by the container with this name, in thousandths. `None`: the usage
    /// of at least one of these containers is unknown.
    pub fn amount(&self, resource: &str, container: Option<&str>) -> Option<i64> {
        let wanted = |name: &str| container.is_none_or(|container| container == name);
        let mut of = self.containers.iter().filter(|(name, _)| wanted(name)).peekable();
        of.peek()?;
        of.map(|(_, usage)| usage.get(resource).copied()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_agents_tell_is_read() {
        let usage = json!({
            "timestamp": "2027-01-01T00:00:00Z", "window": "15.5s",
            "pods": [{"namespace": "ns", "name": "p", "containers": [
                {"name": "a", "usage": {"cpu": "250m", "memory": "1Ki"}},
                {"name": "b", "usage": {"cpu": "1500000n"}}]}],
        });
        let readings = Readings::of(&[serde_json::from_value(usage).unwrap()], Duration::from_secs(20));
        let pod = readings.pod("ns", "p").unwrap();
        assert_eq!(pod.window, Duration::from_millis(15_500));
        let check = |resource, container, expected| {
            assert_eq!(pod.amount(resource, container), expected, "{resource} {container:?}")
        };
        check("cpu", None, Some(252));
        check("cpu", Some("a"), Some(250));
        check("cpu", Some("c"), None);
        check("memory", Some("a"), Some(1_024_000));
        check("memory", None, None);
        assert!(readings.pod("other", "p").is_none());
        assert!(readings.answered && !Readings::of(&[], Duration::ZERO).answered);
        let fresh = |uptime_s| readings.fresh(Duration::from_secs(15), Duration::from_secs(uptime_s));
        assert_eq!([fresh(20), fresh(34), fresh(35)], [true, true, false]);
        assert!(!Readings::default().fresh(Duration::from_secs(15), Duration::ZERO));
    }
}
