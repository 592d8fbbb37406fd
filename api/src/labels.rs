//! The labels of an object, as selectors read them.

use std::fmt::{self, Write};
use std::sync::Arc;

/// The usual size of a set of labels, reserved while a set is built.
const BYTES_USUAL: usize = 128;

/// Labels in one allocation, in the order they came in; none take no memory. The store holds thousands of such sets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct LabelSet {
    /// Key, value, key, value ..., each as `LENGTH:TEXT`.
    packed: Option<Arc<str>>,
}

impl LabelSet {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(label, _)| *label == key).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut rest = self.packed.as_deref().unwrap_or_default();
        std::iter::from_fn(move || {
            let (key, behind) = unpacked(rest)?;
            let (value, behind) = unpacked(behind)?;
            rest = behind;
            Some((key, value))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.packed.is_none()
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for LabelSet {
    fn from_iter<T: IntoIterator<Item = (&'a str, &'a str)>>(labels: T) -> LabelSet {
        let mut packed = String::with_capacity(BYTES_USUAL);
        for text in labels.into_iter().flat_map(|(key, value)| [key, value]) {
            write!(packed, "{}:{text}", text.len()).expect("a String takes all that fits in memory");
        }
        LabelSet { packed: (!packed.is_empty()).then(|| packed.into()) }
    }
}

impl fmt::Debug for LabelSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The text at the front, and what is behind it.
fn unpacked(packed: &str) -> Option<(&str, &str)> {
    let (length, rest) = packed.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        for labels in [
            &[][..],
            &[("", "")],
            &[("app", "web"), ("tier", "")],
            &[("a:b", "3:x"), ("ä", "\0"), ("12", "7:")],
            &[("k", "a value that is longer than nine bytes")],
        ] {
            let packed: LabelSet = labels.iter().copied().collect();
            assert_eq!(packed.iter().collect::<Vec<_>>(), labels);
            assert_eq!(packed.is_empty(), labels.is_empty());
            for (key, value) in labels {
                assert_eq!(packed.get(key), Some(*value));
            }
            assert_eq!(packed.get("other"), None);
        }
    }
}
