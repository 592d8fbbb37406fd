//! Volumes of the class `local` whose directories are to go. PURE.

use coracle_api::strategy::claim::LOCAL_FINALIZER;
use serde_json::Value;

/// The master's own: while a claim has the volume it stays.
pub const PROTECTION: &str = "kubernetes.io/pv-protection";

/// Whether a volume that is being deleted waits for an agent, and no claim has it any more: not even where somebody
/// took the protection away.
pub fn is_given_up(volume: &Value) -> bool {
    let has = |finalizer: &str| finalizers(volume).any(|one| one == finalizer);
    let bound = volume["status"]["phase"] == "Bound";
    !volume["metadata"]["deletionTimestamp"].is_null() && has(LOCAL_FINALIZER) && !has(PROTECTION) && !bound
}

pub fn finalizers(volume: &Value) -> impl Iterator<Item = &str> {
    volume["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}
