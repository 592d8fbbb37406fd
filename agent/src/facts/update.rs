//! The wishes that updates of images have for pods. PURE.

use std::collections::BTreeMap;

/// What an update asks of one pod, until the update has ended well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodUpdate {
    /// The pod is replaced: containers of sandboxes with a smaller attempt number end.
    pub sandbox: u32,
    /// By container.
    pub images: BTreeMap<String, PinnedImage>,
}

/// A container starts from this image, whatever the name of its image means by now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PinnedImage {
    /// As the pod has it. A pod that was edited since is not held to the image.
    pub reference: String,
    /// The engine's id, `sha256:...`.
    pub id: String,
}

/// By uid.
pub type Updates = BTreeMap<String, PodUpdate>;

impl PodUpdate {
    /// The id of the image that the container is held to.
    pub fn image_of(&self, container: &str, reference: &str) -> Option<&str> {
        self.images.get(container).filter(|pinned| pinned.reference == reference).map(|pinned| pinned.id.as_str())
    }
}
