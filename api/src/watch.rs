//! The events of a watch with a selector: an object that comes to match is new to the watcher, and one that ceases to
//! match is gone.

/// The type of an event for the watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    /// `type` of a watch event.
    pub fn wire(self) -> &'static str {
        match self {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        }
    }
}

/// The event for a watcher whose selector `matches`; none when it never saw the object and does not see it now. With
/// it comes the object to show: for a deletion the last state that matched, in which the revision of the event belongs.
pub fn project<'a, T>(old: Option<&'a T>, new: Option<&'a T>, matches: impl Fn(&T) -> bool) -> Option<(Change, &'a T)> {
    let was = old.filter(|object| matches(object));
    let is = new.filter(|object| matches(object));
    match (was, is) {
        (None, None) => None,
        (None, Some(object)) => Some((Change::Added, object)),
        (Some(_), Some(object)) => Some((Change::Modified, object)),
        (Some(object), None) => Some((Change::Deleted, object)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transitions() {
        let (good, better, bad) = (2, 4, 3);
        for (old, new, expected) in [
            (None, Some(&good), Some((Change::Added, &good))),
            (None, Some(&bad), None),
            (Some(&good), Some(&better), Some((Change::Modified, &better))),
            (Some(&bad), Some(&good), Some((Change::Added, &good))),
            (Some(&good), Some(&bad), Some((Change::Deleted, &good))),
            (Some(&bad), Some(&bad), None),
            (Some(&good), None, Some((Change::Deleted, &good))),
            (Some(&bad), None, None),
        ] {
            assert_eq!(project(old, new, |number| number % 2 == 0), expected, "{old:?} -> {new:?}");
        }
    }
}
