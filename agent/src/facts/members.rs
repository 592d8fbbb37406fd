//! All kinds of containers of a pod, in a single list. PURE.
//!
//! A member is a container of a pod; its sandbox is none. Each kind has a list of its own in the pod's spec and in its
//! status. All code that iterates over containers uses this list and selects kinds.

use coracle_api::pod::{Container, PodSpec};

/// The kind of a container in its pod, in the order in which kinds start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberKind {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that goes on beside the main ones.
    Sidecar,
    Main,
    /// Put into a pod that runs; it starts once.
    Ephemeral,
}

impl MemberKind {
    /// The field of a pod's spec that lists this kind.
    pub fn list(self) -> &'static str {
        match self {
            MemberKind::Init | MemberKind::Sidecar => "initContainers",
            MemberKind::Main => "containers",
            MemberKind::Ephemeral => "ephemeralContainers",
        }
    }

    /// The field of a pod's status that lists this kind.
    pub fn statuses(self) -> &'static str {
        match self {
            MemberKind::Init | MemberKind::Sidecar => "initContainerStatuses",
            MemberKind::Main => "containerStatuses",
            MemberKind::Ephemeral => "ephemeralContainerStatuses",
        }
    }

    /// Runs as long as its pod does: has probes, and ports of the host.
    pub fn stays(self) -> bool {
        matches!(self, MemberKind::Sidecar | MemberKind::Main)
    }
}

/// One container of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    pub kind: MemberKind,
    /// The position in that kind's list.
    pub index: usize,
    pub spec: &'a Container,
}

/// All containers of a pod, in their start order.
pub fn members(spec: &PodSpec) -> impl Iterator<Item = Member<'_>> {
    let init = spec.init_containers.iter().enumerate().map(|(index, spec)| {
        let kind = if spec.restart_policy == "Always" { MemberKind::Sidecar } else { MemberKind::Init };
        Member { kind, index, spec }
    });
    let main = spec.containers.iter().enumerate().map(|(index, spec)| Member { kind: MemberKind::Main, index, spec });
    let ephemeral = spec.ephemeral_containers.iter().enumerate();
    init.chain(main).chain(ephemeral.map(|(index, spec)| Member { kind: MemberKind::Ephemeral, index, spec }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_list_is_walked() {
        let spec: PodSpec = serde_json::from_value(json!({
            "initContainers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}],
            "containers": [{"name": "c"}, {"name": "d"}],
            "ephemeralContainers": [{"name": "e"}],
        }))
        .unwrap();
        let found: Vec<_> =
            members(&spec).map(|member| (member.spec.name.as_str(), member.kind, member.index)).collect();
        let expected = [
            ("a", MemberKind::Init, 0),
            ("b", MemberKind::Sidecar, 1),
            ("c", MemberKind::Main, 0),
            ("d", MemberKind::Main, 1),
            ("e", MemberKind::Ephemeral, 0),
        ];
        assert_eq!(found, expected);
        for member in members(&spec) {
            assert!(
                member
                    .kind
                    .list()
                    .to_lowercase()
                    .starts_with(member.kind.statuses().trim_end_matches("Statuses").to_lowercase().as_str())
            );
        }
    }
}
