//! The table of all events that the agent tells, in the kubelet's words. PURE.
//!
//!     a decision of `plan`, or the outcome of an action -> `Event` -> `Happening` -> `events` -> the API

use std::borrow::Cow;

use crate::facts::backoff::words;
use crate::facts::members::Member;
use crate::facts::naming::{PodName, SANDBOX, Source};
use crate::facts::round::StopReason;
use crate::facts::waiting::{Dismissal, Dismissed, WaitReason, Waiting};

/// The content of an Event object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    pub subject: Subject,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// None for what concerns the pod.
    pub container: Option<String>,
    pub warning: bool,
    pub reason: Cow<'static, str>,
    pub message: String,
}

/// The object that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The API calls a file's pod by the name of its mirror.
    Pod(Source),
    Service,
    /// This host itself.
    Node,
}

/// An event about a pod or a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Pulling {
        image: String,
    },
    Pulled {
        image: String,
        took_ms: i64,
        /// On the disk.
        size_bytes: u64,
    },
    /// The image was here already.
    Present {
        image: String,
    },
    PullFailed {
        image: String,
        text: String,
    },
    PullBackOff {
        image: String,
    },
    Created,
    Started,
    /// Anything that keeps a container from starting.
    Failed {
        text: String,
    },
    RestartBackOff,
    Killing(StopReason),
    PostStartFailed,
    PreStopFailed,
    Unhealthy {
        probe: &'static str,
        output: String,
    },
    /// The probe could not run, or its result is unknown.
    ProbeErrored {
        probe: &'static str,
        text: String,
    },
    /// The probe passed with a warning.
    ProbeWarning {
        probe: &'static str,
        text: String,
    },
    /// A hook of https was answered without TLS, and asked so.
    HookFellBack {
        text: String,
    },
    /// The agent has unpaused a container that another program paused.
    Unpaused,
    /// A wait, with a reason that may differ from the wait's own reason.
    Waits {
        reason: &'static str,
        message: String,
    },
    Dismissed(Dismissal),
    /// With the resources of all containers.
    ResizeStarted {
        summary: String,
    },
    ResizeCompleted {
        summary: String,
    },
    /// The pod runs from newer images.
    Updated {
        message: String,
    },
}

impl Event {
    /// Whether the event is a warning, then the reason and the message.
    fn parts(self, pod: &PodName, container: &str) -> (bool, Cow<'static, str>, String) {
        let present = |image: &str| {
            format!("Container image \"{image}\" already present on machine and can be accessed by the pod")
        };
        let (warning, reason, message) = match self {
            Event::Pulling { image } => (false, "Pulling", format!("Pulling image \"{image}\"")),
            Event::Pulled { image, took_ms, size_bytes } => {
                // Nothing waits for its turn here: both times are the same.
                let took = words(took_ms);
                let text = format!(
                    "Successfully pulled image \"{image}\" in {took} ({took} including waiting). Image size: \
                     {size_bytes} bytes."
                );
                (false, "Pulled", text)
            }
            Event::Present { image } => (false, "Pulled", present(&image)),
            Event::PullFailed { image, text } => (true, "Failed", format!("Failed to pull image \"{image}\": {text}")),
            Event::PullBackOff { image } => (false, "BackOff", format!("Back-off pulling image \"{image}\"")),
            Event::Created => (false, "Created", "Container created".to_owned()),
            Event::Started => (false, "Started", "Container started".to_owned()),
            Event::Failed { text } => (true, "Failed", format!("Error: {text}")),
            Event::RestartBackOff => {
                let PodName { namespace, name, uid, .. } = pod;
                (
                    true,
                    "BackOff",
                    format!("Back-off restarting failed container {container} in pod {name}_{namespace}({uid})"),
                )
            }
            Event::Killing(why) => (false, "Killing", killing(container, &why)),
            Event::PostStartFailed => (true, "FailedPostStartHook", "PostStartHook failed".to_owned()),
            Event::PreStopFailed => (true, "FailedPreStopHook", "PreStopHook failed".to_owned()),
            Event::Unhealthy { probe, output } => (true, "Unhealthy", format!("{probe} probe failed: {output}")),
            Event::ProbeErrored { probe, text } => {
                (true, "Unhealthy", format!("{probe} probe errored and resulted in unknown state: {text}"))
            }
            Event::ProbeWarning { probe, text } => (true, "ProbeWarning", format!("{probe} probe warning: {text}")),
            Event::HookFellBack { text } => (true, "LifecycleHTTPFallback", text),
            Event::Unpaused => (true, "Unpaused", unpaused(container)),
            Event::Waits { reason, message } => (true, reason, message),
            Event::ResizeStarted { summary } => (false, "ResizeStarted", format!("Pod resize started: {summary}")),
            Event::ResizeCompleted { summary } => {
                (false, "ResizeCompleted", format!("Pod resize completed: {summary}"))
            }
            Event::Updated { message } => (false, "Updated", message),
            Event::Dismissed(why) => return (why.kind != Dismissed::OutOfTime, why.reason.into(), why.event),
        };
        (warning, reason.into(), message)
    }
}

fn unpaused(container: &str) -> String {
    let what = if container.is_empty() { "The sandbox".to_owned() } else { format!("Container {container}") };
    format!("{what} was paused by somebody, and goes on")
}

fn killing(container: &str, why: &StopReason) -> String {
    match why {
        StopReason::Unhealthy { probe, restarts: true, .. } => {
            format!("Container {container} failed {} probe, will be restarted", probe.name().to_lowercase())
        }
        StopReason::PostStartFailed => "FailedPostStartHook".to_owned(),
        StopReason::AllRestart => "killing".to_owned(),
        // A pod whose policy leaves it dead only stops.
        _ => format!("Stopping container {container}"),
    }
}

/// The events for a pod or a container that has begun to wait.
pub fn of_wait(member: Option<&Member<'_>>, waiting: &Waiting) -> Vec<Event> {
    let Waiting { reason, message } = waiting;
    let failed = |text: &str| Event::Failed { text: text.to_owned() };
    let waits = |reason| Event::Waits { reason, message: message.clone() };
    let Some(member) = member else { return vec![waits(reason.name())] };
    let image = member.spec.image.clone();
    match reason {
        WaitReason::ContainerCreating
        | WaitReason::PodInitializing
        | WaitReason::CreateContainerError
        | WaitReason::RestartingAllContainers => Vec::new(),
        WaitReason::CrashLoopBackOff => vec![Event::RestartBackOff],
        WaitReason::ErrImagePull => vec![failed(reason.name())],
        WaitReason::ImagePullBackOff => vec![Event::PullBackOff { image }, failed(reason.name())],
        WaitReason::ErrImageNeverPull => vec![waits(reason.name()), failed(reason.name())],
        WaitReason::InvalidImageName => vec![waits("InspectFailed"), failed(reason.name())],
        // Its image was looked at first, and found.
        WaitReason::CreateContainerConfigError => vec![Event::Present { image }, failed(message)],
        WaitReason::PostStartHookError
        | WaitReason::DoesNotFit
        | WaitReason::FailedMount
        | WaitReason::FailedToRetrieveImagePullSecret
        | WaitReason::EarlierPodEnds
        | WaitReason::HostPortTaken
        | WaitReason::ResizeDeferred
        | WaitReason::SandboxBackOff
        | WaitReason::SetupFailed
        | WaitReason::UnsupportedField => vec![failed(message)],
    }
}

impl Happening {
    /// `container`: that of the sandbox stands for the pod as a whole.
    pub fn of_pod(pod: &PodName, container: Option<&str>, event: Event) -> Happening {
        let container = container.filter(|name| *name != SANDBOX);
        let (warning, reason, message) = event.parts(pod, container.unwrap_or_default());
        Happening {
            subject: Subject::Pod(pod.source),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            container: container.map(str::to_owned),
            warning,
            reason,
            message,
        }
    }

    /// Something of this host, in the words of a kubelet: it is its own uid.
    pub fn of_node(node: &str, reason: &'static str, message: String) -> Happening {
        let (name, uid) = (node.to_owned(), node.to_owned());
        Happening {
            subject: Subject::Node,
            // As in Kubernetes, events about cluster-scoped objects are stored in `default`.
            namespace: "default".to_owned(),
            name,
            uid,
            container: None,
            warning: true,
            reason: reason.into(),
            message,
        }
    }

    pub fn of_service([namespace, name, uid]: [&String; 3], reason: &'static str, message: String) -> Happening {
        Happening {
            subject: Subject::Service,
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
            container: None,
            warning: true,
            reason: reason.into(),
            message,
        }
    }
}
