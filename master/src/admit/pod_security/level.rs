//! The levels of the Pod Security Standards, and what the labels of a namespace ask for. PURE.

use coracle_schema::{Path, Problem};
use serde_json::Value;
use std::fmt;

const PREFIX: &str = "pod-security.kubernetes.io/";
const LEVELS: [(&str, Level); 3] =
    [("privileged", Level::Privileged), ("baseline", Level::Baseline), ("restricted", Level::Restricted)];

/// From the least to the most that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// A version of the standards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Latest,
    /// Of Kubernetes 1.
    Minor(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    pub level: Level,
    pub version: Version,
}

/// The levels of Pod Security that a namespace asks of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub enforce: LevelVersion,
    pub audit: LevelVersion,
    pub warn: LevelVersion,
}

impl Version {
    pub fn is_at_least(self, minor: u32) -> bool {
        match self {
            Version::Latest => true,
            Version::Minor(own) => own >= minor,
        }
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = LEVELS.iter().find(|(_, level)| *level == self.level).map_or("", |(word, _)| word);
        match self.version {
            Version::Latest => write!(f, "{word}:latest"),
            Version::Minor(minor) => write!(f, "{word}:v1.{minor}"),
        }
    }
}

impl Policy {
    /// The policy of these labels, and what is wrong with them. A wrong level of `enforce` counts as `restricted`, the
    /// other wrong levels as `privileged`, and a wrong version as the latest.
    pub fn of(labels: &Value) -> (Policy, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut level =
            |mode: &str| read(labels, mode, &mut problems, level_of, "must be one of privileged, baseline, restricted");
        let levels = ["enforce", "audit", "warn"].map(&mut level);
        let mut of_versions = Vec::new();
        let mut version =
            |mode: &str| read(labels, mode, &mut of_versions, version_of, "must be \"latest\" or \"v1.x\"");
        let versions = ["enforce-version", "audit-version", "warn-version"].map(&mut version);
        let problems = interleaved(problems, of_versions);
        let chosen = |at: usize, wrong: Level| LevelVersion {
            level: levels[at].map_or(Level::Privileged, |level| level.unwrap_or(wrong)),
            version: versions[at].flatten().unwrap_or(Version::Latest),
        };
        let (enforce, audit) = (chosen(0, Level::Restricted), chosen(1, Level::Privileged));
        let mut warn = chosen(2, Level::Privileged);
        // A namespace that says no level to warn of is warned of the enforced level, at controllers too.
        if levels[2].is_none() && levels[0].flatten().is_some() && enforce.level > warn.level {
            let version = if versions[2].is_none() { enforce.version } else { warn.version };
            warn = LevelVersion { level: enforce.level, version };
        }
        (Policy { enforce, audit, warn }, problems)
    }

    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|asked| asked.level == Level::Privileged)
    }

    pub fn asks_controllers_nothing(&self) -> bool {
        [self.audit, self.warn].iter().all(|asked| asked.level == Level::Privileged)
    }
}

/// None: there is no such label. `Some(None)`: its value means nothing.
fn read<T>(
    labels: &Value,
    mode: &str,
    problems: &mut Vec<(String, Problem)>,
    parse: fn(&str) -> Option<T>,
    expected: &str,
) -> Option<Option<T>> {
    let label = format!("{PREFIX}{mode}");
    let said = labels.get(&label)?.as_str().unwrap_or_default();
    let parsed = parse(said);
    if parsed.is_none() {
        let path = Path::new("metadata.labels").key(&label);
        problems.push((mode.to_owned(), Problem::invalid(&path, said, expected)));
    }
    Some(parsed)
}

/// The order of Kubernetes: the level and then the version of `enforce`, of `audit` and of `warn`.
fn interleaved(levels: Vec<(String, Problem)>, versions: Vec<(String, Problem)>) -> Vec<Problem> {
    let mut all: Vec<(String, Problem)> = levels.into_iter().chain(versions).collect();
    let place = |mode: &str| {
        let modes = ["enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"];
        modes.iter().position(|other| *other == mode)
    };
    all.sort_by_key(|(mode, _)| place(mode));
    all.into_iter().map(|(_, problem)| problem).collect()
}

fn level_of(text: &str) -> Option<Level> {
    LEVELS.iter().find(|(word, _)| *word == text).map(|(_, level)| *level)
}

fn version_of(text: &str) -> Option<Version> {
    if text == "latest" {
        return Some(Version::Latest);
    }
    let minor = text.strip_prefix("v1.")?;
    let plain = minor == "0" || (!minor.starts_with('0') && minor.bytes().all(|byte| byte.is_ascii_digit()));
    minor.parse().ok().filter(|_| plain).map(Version::Minor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_of_a_namespace() {
        let check = |labels: &[(&str, &str)], expected: [&str; 3], wrong: &[&str]| {
            let labels: Value = labels.iter().map(|(mode, value)| (format!("{PREFIX}{mode}"), json!(value))).collect();
            let (policy, problems) = Policy::of(&labels);
            let said = [policy.enforce, policy.audit, policy.warn].map(|asked| asked.to_string());
            assert_eq!(said, expected, "{labels}");
            assert_eq!(problems.iter().map(Problem::to_string).collect::<Vec<_>>(), wrong, "{labels}");
        };
        let none = "privileged:latest";
        check(&[], [none; 3], &[]);
        check(&[("enforce", "baseline")], ["baseline:latest", none, "baseline:latest"], &[]);
        check(
            &[("enforce", "baseline"), ("enforce-version", "v1.24")],
            ["baseline:v1.24", none, "baseline:v1.24"],
            &[],
        );
        check(
            &[("enforce", "restricted"), ("enforce-version", "v1.24"), ("warn-version", "v1.30")],
            ["restricted:v1.24", none, "restricted:v1.30"],
            &[],
        );
        check(&[("enforce", "restricted"), ("warn", "baseline")], ["restricted:latest", none, "baseline:latest"], &[]);
        check(&[("warn", "restricted"), ("audit", "baseline")], [none, "baseline:latest", "restricted:latest"], &[]);
        check(
            &[
                ("warn", "x"),
                ("enforce", "nope"),
                ("enforce-version", "1.2"),
                ("audit", ""),
                ("audit-version", "v1.01"),
            ],
            ["restricted:latest", none, none],
            &[
                "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"nope\": must be one of \
                 privileged, baseline, restricted",
                "metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: \"1.2\": must be \
                 \"latest\" or \"v1.x\"",
                "metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: \"\": must be one of \
                 privileged, baseline, restricted",
                "metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: \"v1.01\": must be \
                 \"latest\" or \"v1.x\"",
                "metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"x\": must be one of \
                 privileged, baseline, restricted",
            ],
        );
        for (version, expected) in
            [("v1.0", true), ("v1.36", true), ("v1.999", true), ("v2.0", false), ("v1.+1", false), ("v1.", false)]
        {
            assert_eq!(version_of(version).is_some(), expected, "{version}");
        }
    }
}
