//! How fast a workload follows what its metrics ask for: not down before it was asked for less for a while, and no more
//! at a time than its behavior allows. PURE.

use serde::Deserialize;
use std::time::Duration;

/// How long what was asked for counts before there are fewer.
const DOWN_WINDOW: Duration = Duration::from_secs(300);
/// Without a behavior: twice as many at a time, and four at least.
const UP_FACTOR: i64 = 2;
const UP_LEAST: i64 = 4;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Behavior {
    pub scale_up: ScalingRules,
    pub scale_down: ScalingRules,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScalingRules {
    stabilization_window_seconds: Option<u32>,
    select_policy: String,
    policies: Vec<Policy>,
    pub tolerance: Option<coracle_api::quantity::Quantity>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Policy {
    #[serde(rename = "type")]
    kind: String,
    value: i64,
    period_seconds: u32,
}

/// What was asked for and done, each with its uptime. No older than any rule looks back.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// When the metrics were looked at last.
    pub looked: Option<Duration>,
    asked: Vec<(Duration, i64)>,
    more: Vec<(Duration, i64)>,
    fewer: Vec<(Duration, i64)>,
}

/// What is allowed in general.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub least: i64,
    pub most: i64,
    pub replicas: i64,
    pub uptime: Duration,
}

/// A size, and two conditions about this size: each with a reason and a message.
#[derive(Debug, PartialEq)]
pub struct Pace {
    pub size: i64,
    pub able: (&'static str, &'static str),
    /// The size differs from the size that was asked for.
    pub limited: bool,
    pub limit: (&'static str, &'static str),
}

const READY: (&str, &str) = ("ReadyForNewScale", "recommended size matches current size");
const UP_STABLE: (&str, &str) = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
);
const DOWN_STABLE: (&str, &str) = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
);
const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");
const TOO_MANY: (&str, &str) = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");

impl Past {
    /// The size that comes next, where the metrics ask for this one.
    pub fn pace(&mut self, asked: i64, behavior: Option<&Behavior>, bounds: Bounds) -> Pace {
        let windows = behavior.map_or((Duration::ZERO, DOWN_WINDOW), |behavior| {
            let window = |rules: &ScalingRules, or| {
                rules.stabilization_window_seconds.map_or(or, |seconds| Duration::from_secs(seconds.into()))
            };
            (window(&behavior.scale_up, Duration::ZERO), window(&behavior.scale_down, DOWN_WINDOW))
        });
        if self.asked.is_empty() {
            self.asked.push((bounds.uptime, bounds.replicas));
        }
        let stable = match behavior {
            None => self.within(windows.1, bounds.uptime).fold(asked, i64::max),
            Some(_) => {
                let up = self.within(windows.0, bounds.uptime).fold(asked, i64::min);
                let down = self.within(windows.1, bounds.uptime).fold(asked, i64::max);
                bounds.replicas.max(up).min(down)
            }
        };
        let kept = windows.0.max(windows.1);
        self.asked.retain(|(at, _)| *at + kept > bounds.uptime);
        self.asked.push((bounds.uptime, asked));
        let able = match behavior {
            _ if stable == asked => READY,
            Some(_) if asked >= bounds.replicas => UP_STABLE,
            _ => DOWN_STABLE,
        };
        let (size, limit) = match behavior {
            None => limited_in_general(stable, bounds),
            Some(behavior) => self.limited_by(stable, behavior, bounds),
        };
        Pace { size, able, limited: size != stable, limit }
    }

    fn within(&self, window: Duration, uptime: Duration) -> impl Iterator<Item = i64> {
        self.asked.iter().filter(move |(at, _)| *at + window > uptime).map(|(_, asked)| *asked)
    }

    /// Keeps what was done, for rules that say how much may be done in a while.
    pub fn scaled(&mut self, behavior: Option<&Behavior>, size: i64, bounds: Bounds) {
        let Some(behavior) = behavior else { return };
        let change = size - bounds.replicas;
        let (done, rules) =
            if change > 0 { (&mut self.more, &behavior.scale_up) } else { (&mut self.fewer, &behavior.scale_down) };
        let longest = rules.policies.iter().map(|policy| policy.period_seconds).max().unwrap_or_default();
        let longest = Duration::from_secs(longest.into());
        done.retain(|(at, _)| *at + longest > bounds.uptime);
        done.push((bounds.uptime, change.abs()));
    }

    fn limited_by(&self, asked: i64, behavior: &Behavior, bounds: Bounds) -> (i64, (&'static str, &'static str)) {
        if asked > bounds.replicas {
            let limit = self.limit(&behavior.scale_up, true, bounds).max(bounds.replicas);
            let (most, why) = if bounds.most > limit { (limit, UP_LIMIT) } else { (bounds.most, TOO_MANY) };
            if asked > most {
                return (most, why);
            }
        } else if asked < bounds.replicas {
            let limit = self.limit(&behavior.scale_down, false, bounds).min(bounds.replicas);
            let (least, why) = if bounds.least < limit { (limit, DOWN_LIMIT) } else { (bounds.least, TOO_FEW) };
            if asked < least {
                return (least, why);
            }
        }
        (asked, WITHIN)
    }

    /// How far the policies let it go one way.
    fn limit(&self, rules: &ScalingRules, up: bool, bounds: Bounds) -> i64 {
        if rules.select_policy == "Disabled" {
            return bounds.replicas;
        }
        let done = |all: &[(Duration, i64)], period: Duration| -> i64 {
            all.iter().filter(|(at, _)| *at + period > bounds.uptime).map(|(_, change)| change).sum()
        };
        let limits = rules.policies.iter().map(|policy| {
            let period = Duration::from_secs(policy.period_seconds.into());
            let began = bounds.replicas - done(&self.more, period) + done(&self.fewer, period);
            let share = began as f64 * policy.value as f64 / 100.0;
            match (policy.kind.as_str(), up) {
                ("Percent", true) => (began as f64 + share).ceil() as i64,
                ("Percent", false) => (began as f64 - share) as i64,
                (_, true) => began + policy.value,
                (_, false) => began - policy.value,
            }
        });
        // The most change is up the highest and down the lowest.
        let highest = (rules.select_policy == "Min") != up;
        let limit = if highest { limits.max() } else { limits.min() };
        limit.unwrap_or(bounds.replicas)
    }
}

fn limited_in_general(asked: i64, bounds: Bounds) -> (i64, (&'static str, &'static str)) {
    let limit = (bounds.replicas * UP_FACTOR).max(UP_LEAST);
    let (most, why) = if bounds.most > limit { (limit, UP_LIMIT) } else { (bounds.most, TOO_MANY) };
    if asked < bounds.least {
        (bounds.least, TOO_FEW)
    } else if asked > most {
        (most, why)
    } else {
        (asked, WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What is asked for one after the other, fifteen seconds apart, from 2 replicas in 1..10: the sizes and the two
    /// reasons.
    fn check(behavior: Option<serde_json::Value>, asked: &[i64], expected: &[(i64, &str, &str)]) {
        let behavior: Option<Behavior> = behavior.map(|behavior| serde_json::from_value(behavior).unwrap());
        let (mut past, mut replicas, mut found) = (Past::default(), 2, Vec::new());
        for (nth, asked) in asked.iter().enumerate() {
            let bounds = Bounds { least: 1, most: 10, replicas, uptime: Duration::from_secs(15 * nth as u64) };
            let pace = past.pace(*asked, behavior.as_ref(), bounds);
            if pace.size != replicas {
                past.scaled(behavior.as_ref(), pace.size, bounds);
            }
            replicas = pace.size;
            found.push((pace.size, pace.able.0, pace.limit.0));
        }
        assert_eq!(found, expected, "{asked:?}");
    }

    #[test]
    fn in_general() {
        let (ready, down) = ("ReadyForNewScale", "ScaleDownStabilized");
        check(None, &[2, 3], &[(2, ready, "DesiredWithinRange"), (3, ready, "DesiredWithinRange")]);
        check(
            None,
            &[20, 20, 20],
            &[(4, ready, "ScaleUpLimit"), (8, ready, "ScaleUpLimit"), (10, ready, "TooManyReplicas")],
        );
        // For five minutes the most that was asked for counts.
        let mut asked = vec![4];
        asked.extend([0; 21]);
        let mut expected = vec![(4, ready, "DesiredWithinRange")];
        expected.extend([(4, down, "DesiredWithinRange"); 19]);
        expected.extend([(1, ready, "TooFewReplicas"); 2]);
        check(None, &asked, &expected);
    }

    #[test]
    fn by_a_behavior() {
        let (ready, up, within) = ("ReadyForNewScale", "ScaleUpStabilized", "DesiredWithinRange");
        let rules = |policy: &str, kind: &str, value: i64, window: i64| {
            let policies = json!([{"type": kind, "value": value, "periodSeconds": 30}]);
            json!({"selectPolicy": policy, "stabilizationWindowSeconds": window, "policies": policies})
        };
        let fast = rules("Max", "Percent", 100, 0);
        // Two in thirty seconds.
        let slow = json!({"scaleUp": rules("Max", "Pods", 2, 0), "scaleDown": fast});
        check(
            Some(slow),
            &[9, 9, 9],
            &[(4, ready, "ScaleUpLimit"), (4, ready, "ScaleUpLimit"), (6, ready, "ScaleUpLimit")],
        );
        // At most half of the pods go, counted from the size thirty seconds before.
        let half = json!({"scaleUp": rules("Max", "Percent", 400, 0), "scaleDown": rules("Max", "Percent", 50, 0)});
        check(Some(half), &[8, 1, 1], &[(8, ready, within), (1, ready, within), (1, ready, within)]);
        let never = json!({"scaleUp": rules("Disabled", "Pods", 2, 0), "scaleDown": fast});
        check(Some(never), &[9], &[(2, ready, "ScaleUpLimit")]);
        // Up only to what has been asked for all the time.
        let steady = json!({"scaleUp": rules("Max", "Pods", 9, 20), "scaleDown": fast});
        check(Some(steady), &[9, 9, 9], &[(2, up, within), (2, up, within), (9, ready, within)]);
    }
}
