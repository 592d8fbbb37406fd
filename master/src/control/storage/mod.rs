//! Storage: claims and volumes find each other, volumes are made and given back, and neither goes while it is used.
//! PURE.
//!
//!     claim -> volume named, kept or found -> claimRef -> Bound (volume) -> volumeName
//!         -> Bound (claim); one write a look
//!     class -> an outside provisioner is told, or a directory on the node of the claim's pod is made a volume
//!     claim gone -> Released -> kept, or given up

pub mod binding;
pub mod ephemeral;
pub mod matching;
pub mod provision;
pub mod view;
pub mod volumes;
