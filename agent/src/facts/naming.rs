//! Converts between container identities and their names and labels. PURE.
//!
//! A name follows from the container's identity, so the engine itself refuses a second start of the same container. The
//! labels hold all other facts that the agent needs to judge and end a container without its manifest. A renamed
//! container is still ours, unless its image brings the labels: a container made from a committed image is not ours.

use std::collections::BTreeMap;
use std::fmt;

use crate::facts::engine::{Check, Publish};
use crate::facts::hash::hash_text;

/// An annotation of a pod as the agent shows it: whether it comes from a `file` or from the `api`.
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
/// An annotation of a mirror: the manifest file behind the mirror.
pub const CONFIG_FILE: &str = "dev.coracle.file";
/// In the agent's own answers: a reason to wait that the pod's status does not show.
pub const WAITS_FOR: &str = "dev.coracle.waits-for";
/// On every container, volume and network of ours; the value is the kind of thing: `sandbox`, `container`, `volume`,
/// `network`.
pub const LABEL_KIND: &str = "dev.coracle.kind";
pub const LABEL_POD_UID: &str = "io.kubernetes.pod.uid";
pub const LABEL_POD_NAME: &str = "io.kubernetes.pod.name";
pub const LABEL_POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
pub const LABEL_CONTAINER: &str = "io.kubernetes.container.name";
/// The path, on the host, of the file that a container leaves its termination message in.
const LABEL_MESSAGE_FILE: &str = "dev.coracle.message-file";
/// `FROM_LOG` where that is the policy.
const LABEL_MESSAGE_POLICY: &str = "dev.coracle.message-policy";
const LABEL_SOURCE: &str = "dev.coracle.source";
const LABEL_ATTEMPT: &str = "dev.coracle.attempt";
const LABEL_SANDBOX: &str = "dev.coracle.sandbox";
pub const LABEL_HASH: &str = "dev.coracle.hash";
const LABEL_STEP: &str = "dev.coracle.backoff-step";
const LABEL_GRACE: &str = "dev.coracle.grace-seconds";
const LABEL_SIGNAL: &str = "dev.coracle.stop-signal";
const LABEL_PRE_STOP: &str = "dev.coracle.pre-stop";
const LABEL_HOST_PORTS: &str = "dev.coracle.host-ports";
const LABEL_HOLDS_VOLUMES: &str = "dev.coracle.holds-volumes";
const LABEL_TURN: &str = "dev.coracle.end-turn";
const LABEL_RESTART: &str = "dev.coracle.restart-policy";
pub const LABEL_RENEWAL: &str = "dev.coracle.renewal";
const FROM_LOG: &str = "FallbackToLogsOnError";
const YES: &str = "true";

/// The name that the sandbox of a pod has in the place of a container's.
pub const SANDBOX: &str = "POD";

/// Where a pod comes from. The name stands in a label of its containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    File,
    Master,
}

impl Source {
    pub const ALL: [Source; 2] = [Source::File, Source::Master];

    pub fn name(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Master => "api",
        }
    }

    pub fn parse(name: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.name() == name)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which pod, by its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodName {
    pub source: Source,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// The content of a container's labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub pod: PodName,
    /// `POD` for the sandbox.
    pub container: String,
    /// 0 for the first start, and one more for each that follows: the restartCount.
    pub attempt: u32,
    /// The attempt number of the container's sandbox; for a sandbox, its own attempt number.
    pub sandbox: u32,
    /// The hash of the wanted spec (see `hash`).
    pub hash: String,
    /// The round number: how many times a `RestartAllContainers` rule has restarted the whole pod.
    pub renewal: u32,
    /// How many waits its next restart has behind it.
    pub step: u32,
    pub grace_s: u64,
    pub stop_signal: String,
    pub pre_stop: Option<Check>,
    pub restart_policy: String,
    /// When its pod ends, containers of turn 0 end first; a sidecar ends when nothing of a lower turn runs.
    pub end_turn: u32,
    pub message_file: Option<String>,
    pub message_from_log: bool,
    /// The host ports of a sandbox.
    pub host_ports: Vec<Publish>,
    /// Of a sandbox: the sandbox mounts the pod's engine volumes, so the sandbox must be removed before the volumes.
    pub holds_volumes: bool,
}

impl Tag {
    pub fn is_sandbox(&self) -> bool {
        self.container == SANDBOX
    }

    /// The container's name.
    pub fn name(&self) -> String {
        container_name(&self.pod, &self.container, self.attempt)
    }

    /// The termination message file, if this agent made the file. Other files stay when the container is removed.
    pub fn own_message_file(&self, data_dir: &str) -> Option<&str> {
        let own = message_file(data_dir, &self.pod.uid, &self.container, self.attempt);
        self.message_file.as_deref().filter(|file| *file == own)
    }

    /// Every label, also where there is nothing to say: the engine adds those that an image brings and that are not
    /// here.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let kind = if self.is_sandbox() { "sandbox" } else { "container" };
        let text = |given: &dyn Fn() -> serde_json::Result<String>| given().expect("plain data");
        let pre_stop = self.pre_stop.as_ref().map_or_else(String::new, |check| text(&|| serde_json::to_string(check)));
        let host_ports =
            if self.host_ports.is_empty() { String::new() } else { text(&|| serde_json::to_string(&self.host_ports)) };
        let labels = [
            (LABEL_KIND, kind.to_owned()),
            (LABEL_POD_UID, self.pod.uid.clone()),
            (LABEL_POD_NAME, self.pod.name.clone()),
            (LABEL_POD_NAMESPACE, self.pod.namespace.clone()),
            (LABEL_CONTAINER, self.container.clone()),
            (LABEL_SOURCE, self.pod.source.name().to_owned()),
            (LABEL_ATTEMPT, self.attempt.to_string()),
            (LABEL_SANDBOX, self.sandbox.to_string()),
            (LABEL_HASH, self.hash.clone()),
            (LABEL_STEP, self.step.to_string()),
            (LABEL_RENEWAL, self.renewal.to_string()),
            (LABEL_GRACE, self.grace_s.to_string()),
            (LABEL_SIGNAL, self.stop_signal.clone()),
            (LABEL_RESTART, self.restart_policy.clone()),
            (LABEL_TURN, self.end_turn.to_string()),
            (LABEL_PRE_STOP, pre_stop),
            (LABEL_HOST_PORTS, host_ports),
            (LABEL_HOLDS_VOLUMES, if self.holds_volumes { YES.to_owned() } else { String::new() }),
            (LABEL_MESSAGE_FILE, self.message_file.clone().unwrap_or_default()),
            (LABEL_MESSAGE_POLICY, if self.message_from_log { FROM_LOG.to_owned() } else { String::new() }),
        ];
        labels.into_iter().map(|(label, value)| (label.to_owned(), value)).collect()
    }

    /// None for what is not ours: a label is missing or unreadable, or the name is not the one that these labels give.
    pub fn read(name: &str, labels: &BTreeMap<String, String>) -> Option<Tag> {
        Tag::of(labels).filter(|tag| tag.name() == name)
    }

    /// The same by the labels alone, whatever the engine calls it. `image`: the image's labels.
    pub fn of_renamed(labels: &BTreeMap<String, String>, image: &BTreeMap<String, String>) -> Option<Tag> {
        let brought = |label: &str| image.contains_key(label) && image.get(label) == labels.get(label);
        let is_copy = [LABEL_POD_UID, LABEL_CONTAINER, LABEL_ATTEMPT].into_iter().all(brought);
        Tag::of(labels).filter(|_| !is_copy)
    }

    /// None: a label is missing or unreadable.
    pub fn of(labels: &BTreeMap<String, String>) -> Option<Tag> {
        let text = |label: &str| labels.get(label).cloned();
        // The releases before wrote these only where there was something; now nothing is an empty text.
        let some = |label: &str| labels.get(label).filter(|text| !text.is_empty());
        let number = |label: &str| labels.get(label)?.parse::<u32>().ok();
        let tag = Tag {
            pod: PodName {
                source: Source::parse(labels.get(LABEL_SOURCE)?)?,
                namespace: text(LABEL_POD_NAMESPACE)?,
                name: text(LABEL_POD_NAME)?,
                uid: text(LABEL_POD_UID)?,
            },
            container: text(LABEL_CONTAINER)?,
            attempt: number(LABEL_ATTEMPT)?,
            sandbox: number(LABEL_SANDBOX)?,
            hash: text(LABEL_HASH)?,
            step: number(LABEL_STEP)?,
            // The releases before had no such rules.
            renewal: number(LABEL_RENEWAL).unwrap_or(0),
            grace_s: labels.get(LABEL_GRACE)?.parse().ok()?,
            stop_signal: text(LABEL_SIGNAL)?,
            // A hook of a later version that this one cannot read is left out: the container still ends by its signal.
            pre_stop: some(LABEL_PRE_STOP).and_then(|text| serde_json::from_str(text).ok()),
            restart_policy: text(LABEL_RESTART)?,
            // The releases before had no sidecars.
            end_turn: number(LABEL_TURN).unwrap_or(0),
            message_file: some(LABEL_MESSAGE_FILE).cloned(),
            message_from_log: some(LABEL_MESSAGE_POLICY).is_some_and(|policy| policy == FROM_LOG),
            host_ports: some(LABEL_HOST_PORTS).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default(),
            holds_volumes: some(LABEL_HOLDS_VOLUMES).is_some_and(|held| held == YES),
        };
        labels.contains_key(LABEL_KIND).then_some(tag)
    }
}

/// `k8s_CONTAINER_POD_NAMESPACE_UID_ATTEMPT`, as the kubelet had it. Neither a container's name nor a uid (see
/// `fit_uid`) has an underscore, so no two things share a name, whatever the pod is called.
pub fn container_name(pod: &PodName, container: &str, attempt: u32) -> String {
    format!("k8s_{container}_{}_{}_{}_{attempt}", pod.name, pod.namespace, pod.uid)
}

/// An engine's volume of a pod: of an export of a server, and of memory in the releases before.
pub fn memory_volume_name(uid: &str, volume: &str) -> String {
    format!("coracle_{uid}_{volume}")
}

/// The name to use when another program's container has the usual name.
pub fn spare_name(name: &str) -> String {
    format!("{name}_spare")
}

/// The name of a mirror: the API's pod that shows a pod of a file.
pub fn mirror_name(name: &str, node_name: &str) -> String {
    format!("{name}-{node_name}")
}

/// The name of the pod that a mirror shows. None: the name is not a mirror on this node.
pub fn mirrored_name<'a>(mirror: &'a str, node_name: &str) -> Option<&'a str> {
    mirror.strip_suffix(node_name)?.strip_suffix('-')
}

/// Everything that a pod has on the disk of this host.
pub fn pod_dir(data_dir: &str, uid: &str) -> String {
    format!("{data_dir}/pods/{uid}")
}

/// Where volumes are that stand on no disk; agents of one host have each their own.
pub fn volatile_dir(run_dir: &str, node_name: &str) -> String {
    format!("{run_dir}/volumes/{node_name}")
}

/// In a pod's directory: the folder for the pod's own volumes.
pub const VOLUMES: &str = "volumes";

pub fn volume_dir(data_dir: &str, uid: &str, volume: &str) -> String {
    format!("{}/{VOLUMES}/{volume}", pod_dir(data_dir, uid))
}

pub fn message_file(data_dir: &str, uid: &str, container: &str, attempt: u32) -> String {
    format!("{}/messages/{container}.{attempt}", pod_dir(data_dir, uid))
}

/// Where a container finds names and addresses.
pub const HOSTS: &str = "/etc/hosts";
/// Where a container finds who answers for names.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The path of a pod's resolv.conf.
pub fn resolver_file(data_dir: &str, uid: &str) -> String {
    format!("{}/resolv.conf", pod_dir(data_dir, uid))
}

/// The path of a pod's /etc/hosts.
pub fn hosts_file(data_dir: &str, uid: &str) -> String {
    format!("{}/hosts", pod_dir(data_dir, uid))
}

/// Where the profiles are that pods of this host may name.
pub fn seccomp_dir(data_dir: &str) -> String {
    format!("{data_dir}/seccomp")
}

/// A uid that names and directories can hold: the given uid if it fits, else its hash.
pub fn fit_uid(uid: &str) -> String {
    const UID_LENGTH_MAX: usize = 64;
    let fits =
        uid.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') && !uid.is_empty() && uid.len() <= UID_LENGTH_MAX;
    if fits { uid.to_owned() } else { hash_text(uid) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn tag() -> Tag {
        Tag {
            pod: PodName {
                source: Source::Master,
                namespace: "Team_A".into(),
                name: "frontendController.x".into(),
                uid: "a-1".into(),
            },
            container: "web".into(),
            attempt: 3,
            sandbox: 1,
            hash: "abc".into(),
            step: 2,
            renewal: 4,
            grace_s: 30,
            stop_signal: "SIGTERM".into(),
            pre_stop: Some(Check::Exec { command: vec!["sh".into(), "-c".into(), "sleep 1".into()] }),
            restart_policy: "Always".into(),
            end_turn: 2,
            message_file: Some("/var/lib/x".into()),
            message_from_log: true,
            host_ports: vec![Publish {
                container_port: 80,
                protocol: "tcp".into(),
                host_ip: String::new(),
                host_port: 8080,
            }],
            holds_volumes: true,
        }
    }

    #[test]
    fn labels_say_everything() {
        let plain =
            Tag { pre_stop: None, message_file: None, message_from_log: false, container: SANDBOX.into(), ..tag() };
        for tag in [tag(), plain] {
            assert_eq!(Tag::read(&tag.name(), &tag.labels()), Some(tag));
        }
        assert_eq!(tag().name(), "k8s_web_frontendController.x_Team_A_a-1_3");
    }

    #[test]
    fn labels_of_an_image_are_not_taken_for_ours() {
        let image = tag().labels();
        for mut ours in [tag(), Tag { container: SANDBOX.into(), ..tag() }] {
            (ours.pre_stop, ours.message_file, ours.message_from_log) = (None, None, false);
            (ours.host_ports, ours.holds_volumes) = (Vec::new(), false);
            let mut merged = image.clone();
            merged.extend(ours.labels());
            assert_eq!(Tag::read(&ours.name(), &merged), Some(ours));
        }
    }

    /// The earlier release wrote these labels only for non-empty values.
    #[test]
    fn containers_of_the_release_before_are_read_as_they_were() {
        let full = tag();
        let none = Tag {
            pre_stop: None,
            message_file: None,
            message_from_log: false,
            host_ports: Vec::new(),
            holds_volumes: false,
            ..tag()
        };
        let mut labels = full.labels();
        assert_eq!(labels[LABEL_HOLDS_VOLUMES], "true");
        assert_eq!(labels[LABEL_MESSAGE_POLICY], "FallbackToLogsOnError");
        assert_eq!(labels[LABEL_PRE_STOP], r#"{"Exec":{"command":["sh","-c","sleep 1"]}}"#);
        assert_eq!(
            labels[LABEL_HOST_PORTS],
            r#"[{"container_port":80,"protocol":"tcp","host_ip":"","host_port":8080}]"#
        );
        for label in [LABEL_PRE_STOP, LABEL_HOST_PORTS, LABEL_HOLDS_VOLUMES, LABEL_MESSAGE_FILE, LABEL_MESSAGE_POLICY] {
            labels.remove(label);
        }
        assert_eq!(Tag::read(&none.name(), &labels), Some(none));
    }

    #[test]
    fn a_renamed_container_is_ours_and_a_copy_is_not() {
        let (tag, labels) = (tag(), tag().labels());
        let of_image = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(Tag::of_renamed(&labels, &BTreeMap::new()), Some(tag.clone()));
        assert_eq!(Tag::of_renamed(&labels, &labels), None, "made of a committed one");
        // Ours, made of an image that was committed of an earlier start.
        let earlier = Tag { attempt: 2, ..tag.clone() }.labels();
        assert_eq!(Tag::of_renamed(&labels, &earlier), Some(tag.clone()));
        assert_eq!(Tag::of_renamed(&labels, &of_image(&[(LABEL_KIND, "container")])), Some(tag.clone()));
        let mut some = labels.clone();
        some.remove(LABEL_ATTEMPT);
        assert_eq!(Tag::of_renamed(&some, &BTreeMap::new()), None, "a label is missing");
    }

    #[test]
    fn a_message_file_is_its_own_or_stays() {
        for (file, own) in [
            (Some("/data/pods/a-1/messages/web.3"), true),
            (Some("/data/pods/a-1/messages/web.2"), false),
            (Some("/data/pods/b/messages/web.3"), false),
            (Some("/other/pods/a-1/messages/web.3"), false),
            (Some("/etc/passwd"), false),
            (None, false),
        ] {
            let tag = Tag { message_file: file.map(str::to_owned), ..tag() };
            assert_eq!(tag.own_message_file("/data"), file.filter(|_| own), "{file:?}");
        }
    }

    #[test]
    fn what_is_not_ours_is_not_read() {
        let labels = tag().labels();
        assert_eq!(Tag::read("somebody", &labels), None, "inherited labels");
        for label in [LABEL_KIND, LABEL_POD_UID, LABEL_ATTEMPT, LABEL_SOURCE, LABEL_GRACE] {
            let mut labels = labels.clone();
            labels.remove(label);
            assert_eq!(Tag::read(&tag().name(), &labels), None, "without {label}");
        }
        assert_eq!(Tag::read("k8s_web_a_b_c_0", &BTreeMap::new()), None, "a name is not enough");
    }

    #[test]
    fn pods_of_one_name_do_not_meet() {
        let pod = |namespace: &str, name: &str, uid: &str| PodName {
            source: Source::File,
            namespace: namespace.into(),
            name: name.into(),
            uid: fit_uid(uid),
        };
        let names = [
            container_name(&pod("a", "b_c", "u1"), "x", 0),
            container_name(&pod("c_a", "b", "u2"), "x", 0),
            container_name(&pod("a", "b_c", "u1_0"), "x", 0),
            container_name(&pod("a", "b_c", "u1"), "x", 10),
        ];
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert_eq!(fit_uid("88b35416df8b441d83b2f29b0f3ac043"), "88b35416df8b441d83b2f29b0f3ac043");
        assert!(fit_uid("../../etc").chars().all(|c| c.is_ascii_hexdigit()));
    }
}
