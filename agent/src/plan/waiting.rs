//! The reasons why pods and containers wait, as their statuses tell them. PURE.

use std::collections::BTreeMap;
use std::fmt;

/// The waits of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The pod as a whole: a refused field, a taken port, a sandbox that cannot start.
    pub pod: Option<Waiting>,
    /// By the container's name.
    pub containers: BTreeMap<String, Waiting>,
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
    // Of containers, as a kubelet has them.
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
    // Of pods, or of an ephemeral container.
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
            WaitReason::HostPortTaken => "HostPortTaken",
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
