//! Pod templates, distinguished by a hash of their content, and by the hash in the names of the objects made from
//! them. PURE.

mod printed;

use coracle_api::strategy::amounts::same_amounts;
use serde_json::Value;
use std::fmt;

/// The label with the template's hash on the pods and ReplicaSets of a Deployment.
pub const HASH_LABEL: &str = "pod-template-hash";
/// How the template in a ControllerRevision takes the place of another: as a whole.
pub const PATCH: &str = "$patch";
/// The letters of generated names: no vowels, so no words.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const FNV_32: u32 = 0x811c_9dc5;
const FNV_32_PRIME: u32 = 0x0100_0193;

/// Two templates are the same if these are. The label with the hash does not count, nor how a revision is to be put
/// back.
pub fn identity(template: &Value) -> u64 {
    fnv1a_64(bare(template).to_string().as_bytes())
}

/// Two templates mean the same if these are: an amount may be written in several ways.
pub fn meaning(template: &Value) -> u64 {
    let mut template = bare(template);
    same_amounts(&mut template);
    fnv1a_64(template.to_string().as_bytes())
}

/// The keys of a map are written in order.
fn bare(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(template) = template.as_object_mut() {
        template.remove(PATCH);
    }
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH_LABEL);
    }
    template
}

/// The hash of a template as Kubernetes has it: the same template has the same names there.
pub fn hash(template: &Value, collisions: Option<i32>) -> String {
    let mut sum = Sum::default();
    // A sum takes whatever is written.
    let _ = printed::write(template, &mut sum);
    if let Some(collisions) = collisions {
        sum.add(&u64::from(collisions.cast_unsigned()).to_le_bytes());
    }
    encoded(sum.0)
}

/// A writer that hashes the written text with FNV-1a.
struct Sum(u32);

impl Default for Sum {
    fn default() -> Sum {
        Sum(FNV_32)
    }
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(FNV_32_PRIME));
    }
}

impl fmt::Write for Sum {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// A number as it stands in names.
pub fn encoded(number: u32) -> String {
    number.to_string().bytes().map(|digit| char::from(LETTERS[usize::from(digit) % LETTERS.len()])).collect()
}

fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// FNV-1: the steps of FNV-1a in reverse order.
pub fn fnv1_32<'b>(bytes: impl IntoIterator<Item = &'b u8>) -> u32 {
    bytes.into_iter().fold(FNV_32, |hash: u32, byte| hash.wrapping_mul(FNV_32_PRIME) ^ u32::from(*byte))
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
        let mut sum = Sum::default();
        sum.add(b"foobar");
        assert_eq!((sum.0, fnv1_32(b"foobar"), fnv1a_64(b"foobar")), (0xbf9c_f968, 0x31f0_b262, 0x8594_4171_f739_67e8));
    }

    /// Each line of the file has a template, and the hash that Kubernetes 1.36 makes of it.
    #[test]
    fn hashes_are_those_of_kubernetes() {
        let lines = include_str!("template/hashes.jsonl").lines();
        let mut all = Vec::new();
        for line in lines {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let (expected, collisions) = (&line["hash"], line["collisions"].as_i64().map(|count| count as i32));
            assert_eq!(hash(&line["template"], collisions), *expected, "{}", line["template"]);
            all.push(expected.clone());
        }
        assert!(all.len() > 30, "{}", all.len());
    }

    #[test]
    fn amounts_mean_the_same_however_they_are_written() {
        let of = |limit: &str, label: &str| {
            let container = json!({"name": "c", "resources": {"limits": {"memory": limit}}});
            json!({"metadata": {"labels": {"limits": label}}, "spec": {"containers": [container]}})
        };
        let (giga, bytes) = (of("1Gi", "1k"), of("1073741824", "1k"));
        assert_eq!(meaning(&giga), meaning(&bytes));
        assert_ne!(identity(&giga), identity(&bytes), "a revision keeps its text");
        assert_ne!(meaning(&giga), meaning(&of("2Gi", "1k")));
        assert_ne!(meaning(&giga), meaning(&of("1Gi", "1000")));
    }
}
