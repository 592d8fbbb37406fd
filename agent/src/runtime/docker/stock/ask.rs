//! A request to the task that loads image archives.

use tokio::sync::oneshot;

/// A pod needs an image that the engine does not have.
pub struct ArchiveAsk {
    pub reference: String,
    /// Whether it was in an archive, and is here now.
    pub answer: oneshot::Sender<bool>,
}
