//! The reasons why pods and containers wait, as their statuses tell them. PURE.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// The waits of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The pod as a whole: a refused field, a taken port, a sandbox that cannot start.
    pub pod: Option<Waiting>,
    /// By the container's name.
    pub containers: BTreeMap<String, Waiting>,
    /// Problems shown only as events, by subject: an unfilled volume, missing Secrets.
    pub notes: BTreeMap<String, Waiting>,
    /// The pod has failed as a whole, independent of its containers.
    pub dismissed: Option<Dismissal>,
    /// Whether the node takes it is not known yet: nothing is said of it.
    pub undecided: bool,
    /// A held resize: the pod keeps its allocated resources, because the node has no room for the requested ones.
    pub held: Option<WaitingResize>,
}

/// Of a pod whose resize waits: the resources that it goes on with, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingResize {
    pub allocation: Arc<Value>,
    pub message: String,
}

/// Why a node ends a pod, or does not begin it: the reason and message for the pod's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dismissal {
    pub kind: Dismissed,
    pub reason: String,
    pub message: String,
    /// The text of the event.
    pub event: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dismissed {
    /// The node refused the pod and never started a container.
    Rejected,
    /// The pod exceeded its `activeDeadlineSeconds`.
    OutOfTime,
    /// The pod was evicted for its own usage.
    Evicted,
    /// The node had too little for all of its pods.
    Displaced,
}

impl Dismissal {
    pub fn rejected(reason: impl Into<String>, text: String) -> Dismissal {
        Dismissal {
            kind: Dismissed::Rejected,
            reason: reason.into(),
            message: format!("Pod was rejected: {text}"),
            event: text,
        }
    }

    pub fn out_of_time() -> Dismissal {
        let text = "Pod was active on the node longer than the specified deadline";
        Dismissal {
            kind: Dismissed::OutOfTime,
            reason: "DeadlineExceeded".to_owned(),
            message: text.to_owned(),
            event: text.to_owned(),
        }
    }

    pub fn evicted(kind: Dismissed, text: String) -> Dismissal {
        Dismissal { kind, reason: "Evicted".to_owned(), message: text.clone(), event: text }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub reason: WaitReason,
    /// For people; may be empty.
    pub message: String,
}

impl Waiting {
    pub fn new(reason: WaitReason, message: impl Into<String>) -> Waiting {
        Waiting { reason, message: message.into() }
    }

    /// Nothing stands in the way: it is about to start.
    pub fn creating() -> Waiting {
        Waiting::new(WaitReason::ContainerCreating, "")
    }
}

/// The variants are the words of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub enum WaitReason {
    // Reasons for containers, in the kubelet's words.
    ContainerCreating,
    CrashLoopBackOff,
    CreateContainerConfigError,
    CreateContainerError,
    ErrImageNeverPull,
    ErrImagePull,
    ImagePullBackOff,
    InvalidImageName,
    PodInitializing,
    PostStartHookError,
    RestartingAllContainers,
    // Notes.
    FailedMount,
    FailedToRetrieveImagePullSecret,
    ResizeDeferred,
    // Reasons for pods or ephemeral containers.
    DoesNotFit,
    EarlierPodEnds,
    HostPortTaken,
    SandboxBackOff,
    SetupFailed,
    UnsupportedField,
}

impl WaitReason {
    pub fn name(self) -> &'static str {
        match self {
            WaitReason::ContainerCreating => "ContainerCreating",
            WaitReason::CrashLoopBackOff => "CrashLoopBackOff",
            WaitReason::CreateContainerConfigError => "CreateContainerConfigError",
            WaitReason::CreateContainerError => "CreateContainerError",
            WaitReason::ErrImageNeverPull => "ErrImageNeverPull",
            WaitReason::ErrImagePull => "ErrImagePull",
            WaitReason::ImagePullBackOff => "ImagePullBackOff",
            WaitReason::InvalidImageName => "InvalidImageName",
            WaitReason::PodInitializing => "PodInitializing",
            WaitReason::PostStartHookError => "PostStartHookError",
            WaitReason::RestartingAllContainers => "RestartingAllContainers",
            WaitReason::DoesNotFit => "DoesNotFit",
            WaitReason::FailedMount => "FailedMount",
            WaitReason::FailedToRetrieveImagePullSecret => "FailedToRetrieveImagePullSecret",
            WaitReason::EarlierPodEnds => "EarlierPodEnds",
            WaitReason::HostPortTaken => "HostPortTaken",
            WaitReason::ResizeDeferred => "ResizeDeferred",
            WaitReason::SandboxBackOff => "SandboxBackOff",
            WaitReason::SetupFailed => "SetupFailed",
            WaitReason::UnsupportedField => "UnsupportedField",
        }
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
