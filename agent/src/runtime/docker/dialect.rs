//! PURE. Tells which engine answers, and translates words of Podman into Docker's.

use bollard::ClientVersion;
use bollard::models::{SystemInfo, SystemVersion};

use crate::facts::engine::Failure;

/// How Podman calls its part of the answer about versions.
const PODMAN: &str = "Podman Engine";

/// Whose words of Docker's API. Asked only where nothing else in an answer says how to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    #[default]
    Docker,
    Podman,
}

impl Dialect {
    pub fn of(version: &SystemVersion) -> Dialect {
        let parts = version.components.as_deref().unwrap_or_default();
        if parts.iter().any(|part| part.name == PODMAN) { Dialect::Podman } else { Dialect::Docker }
    }

    pub fn word(self) -> &'static str {
        match self {
            Dialect::Docker => "docker",
            Dialect::Podman => "podman",
        }
    }

    /// The engine's identity for its lock. Two engines on a host may share an id (from /etc/docker), but never a root
    /// directory. Podman makes up an id for each answer.
    pub fn identity(self, info: &SystemInfo) -> String {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        match self {
            Dialect::Docker => format!("{} {}", text(&info.id), text(&info.docker_root_dir)),
            Dialect::Podman => format!("podman {} {}", text(&info.name), text(&info.docker_root_dir)),
        }
    }
}

/// The newest version of the API that both speak. None: the engine names none.
pub fn common_version(engine: &SystemVersion, ours: &ClientVersion) -> Option<ClientVersion> {
    let (major, minor) = engine.api_version.as_deref()?.split_once('.')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    let (major_version, minor_version) = (major, minor).min((ours.major_version, ours.minor_version));
    Some(ClientVersion { major_version, minor_version })
}

/// The failure behind an error answer. Podman answers 500 to much for which Docker has codes, and ends with the reason.
pub fn refusal(what: &str, status: u16, message: String) -> Failure {
    let because = |reasons: &[&str]| status == 500 && reasons.iter().any(|reason| message.trim_end().ends_with(reason));
    match status {
        404 => Failure::NotFound(message),
        409 => Failure::Conflict(message),
        503 => Failure::Unavailable(format!("{what}: {message}")),
        _ if because(&["no such container", "image not known", "no such volume"]) => Failure::NotFound(message),
        _ if because(&["that name is already in use", "container state improper"]) => Failure::Conflict(message),
        _ => Failure::Refused(message),
    }
}

/// Podman keeps a dead sandbox as long as a container that joined the sandbox exists.
pub fn has_dependents(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(text) | Failure::Conflict(text) if text.contains("has dependent containers"))
}

/// Another client has resumed the container already.
pub fn is_not_paused(failure: &Failure) -> bool {
    matches!(failure, Failure::Refused(text) | Failure::Conflict(text) if text.contains("is not paused"))
}

/// Whether the engine lacks the API call. The answer for a missing object, by contrast, names the object.
pub fn has_no_such_call(failure: &Failure) -> bool {
    matches!(failure, Failure::NotFound(text) if ["not found",
        "page not found"].contains(&text.trim().to_lowercase().as_str()))
}

/// An inspect or a list in Docker's words: `stopped` is what Podman calls a container that has ended and was not tidied
/// up after.
pub fn in_dockers_words(mut answer: serde_json::Value) -> serde_json::Value {
    fn translate(word: Option<&mut serde_json::Value>) {
        let Some(word) = word else { return };
        match word.as_str() {
            Some("stopped") => *word = "exited".into(),
            Some("initialized" | "configured") => *word = "created".into(),
            _ => {}
        }
    }
    match answer.as_array_mut() {
        Some(list) => list.iter_mut().for_each(|summary| translate(summary.get_mut("State"))),
        None => translate(answer.pointer_mut("/State/Status")),
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn makes_and_versions() {
        let ours = ClientVersion { major_version: 1, minor_version: 52 };
        let check = |answer: serde_json::Value, dialect: Dialect, version: Option<(usize, usize)>| {
            let answer: SystemVersion = serde_json::from_value(answer).unwrap();
            let common = common_version(&answer, &ours).map(|found| (found.major_version, found.minor_version));
            assert_eq!((Dialect::of(&answer), common), (dialect, version), "{answer:?}");
        };
        let part = |name: &str| json!([{ "Name": name, "Version": "1" }, { "Name": "runc", "Version": "1.1.5" }]);
        check(json!({ "ApiVersion": "1.41", "Components": part("Engine") }), Dialect::Docker, Some((1, 41)));
        check(json!({ "ApiVersion": "1.41", "Components": part("Podman Engine") }), Dialect::Podman, Some((1, 41)));
        check(json!({ "ApiVersion": "1.99" }), Dialect::Docker, Some((1, 52)));
        check(json!({ "ApiVersion": "new" }), Dialect::Docker, None);
        check(json!({}), Dialect::Docker, None);
    }

    #[test]
    fn an_engine_has_one_identity() {
        let info = |id: &str| SystemInfo {
            id: Some(id.into()),
            name: Some("h".into()),
            docker_root_dir: Some("/var/lib/x".into()),
            ..SystemInfo::default()
        };
        assert_eq!(Dialect::Docker.identity(&info("A:B")), "A:B /var/lib/x");
        assert_eq!(Dialect::Podman.identity(&info("1")), Dialect::Podman.identity(&info("2")));
    }

    #[test]
    fn refusals() {
        let check = |status: u16, message: &str, expected: fn(String) -> Failure| {
            assert_eq!(refusal("do", status, message.into()), expected(message.into()));
        };
        check(404, "x", Failure::NotFound);
        check(409, "x", Failure::Conflict);
        check(503, "x", |text| Failure::Unavailable(format!("do: {text}")));
        check(500, "x", Failure::Refused);
        check(400, "no such container", Failure::Refused);
        check(500, "no container with name or ID \"x\" found: no such container", Failure::NotFound);
        check(
            500,
            "can only kill running containers. 0123 is in state exited: container state improper",
            Failure::Conflict,
        );
        check(
            500,
            "container create: the container name \"s\" is already in use by 0123: that name is already in use",
            Failure::Conflict,
        );
    }

    #[test]
    fn a_call_that_an_engine_does_not_have() {
        let check = |message: &str, expected: bool| {
            assert_eq!(has_no_such_call(&refusal("resize", 404, message.into())), expected, "{message}")
        };
        check("Not Found\n", true);
        check("page not found", true);
        check("No such container: 01", false);
        check("no container with name or ID \"01\" found: no such container", false);
    }

    #[test]
    fn a_sandbox_that_others_depend_on() {
        let check = |message: &str, expected: bool| {
            assert_eq!(has_dependents(&refusal("remove", 500, message.into())), expected, "{message}")
        };
        check(
            "container 01 has dependent containers which must be removed before it: 02: container already exists",
            true,
        );
        check("cannot remove container 01 as it is running: container state improper", false);
    }

    #[test]
    fn states_in_dockers_words() {
        let inspected = |state: &str| json!({ "Id": "0", "State": { "Status": state, "Running": false } });
        let listed = |state: &str| json!([{ "Id": "0", "State": "running" }, { "Id": "1", "State": state }]);
        for (said, expected) in
            [("stopped", "exited"), ("initialized", "created"), ("exited", "exited"), ("melted", "melted")]
        {
            assert_eq!(in_dockers_words(inspected(said)), inspected(expected));
            assert_eq!(in_dockers_words(listed(said)), listed(expected));
        }
        assert_eq!(in_dockers_words(json!({})), json!({}));
    }
}
