//! Templates of pods, told from each other: by a number that stands for their content, and by the hash in the names of
//! what is made of them. PURE.

use serde_json::Value;

/// The label that tells the pods and ReplicaSets of one template of a Deployment from those of another.
pub const HASH_LABEL: &str = "pod-template-hash";
/// How the template in a ControllerRevision takes the place of another: as a whole.
pub const PATCH: &str = "$patch";
/// The letters of generated names: no vowels, so no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Two templates are the same if these are. The label with the hash does not count, nor how a revision is to be put
/// back.
pub fn identity(template: &Value) -> u64 {
    let mut template = template.clone();
    if let Some(template) = template.as_object_mut() {
        template.remove(PATCH);
    }
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH_LABEL);
    }
    // The keys of a map are written in order.
    fnv1a_64(template.to_string().as_bytes())
}

/// In Kubernetes' form, not its value: that comes from how Go prints the template. Nobody else computes it.
pub fn hash(identity: u64, collisions: Option<i32>) -> String {
    let mut bytes = identity.to_le_bytes().to_vec();
    if let Some(collisions) = collisions {
        bytes.extend(i64::from(collisions).to_le_bytes());
    }
    encoded(fnv1a_32(&bytes))
}

/// A number as it stands in names.
pub fn encoded(number: u32) -> String {
    number.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// FNV-1, of which the steps stand the other way round.
pub fn fnv1_32<'b>(bytes: impl IntoIterator<Item = &'b u8>) -> u32 {
    bytes.into_iter().fold(0x811c_9dc5, |hash: u32, byte| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_label_does_not_count() {
        let of = |labels: Value| identity(&json!({"metadata": {"labels": labels}, "spec": {"containers": []}}));
        assert_eq!(of(json!({"app": "a"})), of(json!({"app": "a", HASH_LABEL: "x"})));
        assert_ne!(of(json!({"app": "a"})), of(json!({"app": "b"})));
    }

    #[test]
    fn names() {
        // The digits of a number, each by its code modulo 27: `0` is 48, so the 22nd letter.
        assert_eq!(encoded(0), "4");
        assert_eq!(encoded(1_234_567_890), "5678".to_owned() + "9bcdf4");
        let (one, other) = (hash(1, None), hash(1, Some(0)));
        assert!(one != other && other != hash(1, Some(1)) && (1..=10).contains(&one.len()));
        assert_eq!(
            (fnv1a_32(b"foobar"), fnv1_32(b"foobar"), fnv1a_64(b"foobar")),
            (0xbf9c_f968, 0x31f0_b262, 0x8594_4171_f739_67e8)
        );
    }
}
