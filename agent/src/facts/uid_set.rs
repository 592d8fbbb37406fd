//! A set of pod uids in a single allocation: the memory of hundreds of ended pods must not cost a page for each pod.
//! PURE.

use crate::facts::naming::fit_uid;

/// Uids as names and directories hold them, in their order; each is followed by the end of a line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UidSet(String);

impl UidSet {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.lines()
    }

    pub fn len(&self) -> usize {
        self.iter().count()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, uid: &str) -> bool {
        self.find(&fit_uid(uid)).is_ok()
    }

    /// True: it was not there yet.
    pub fn insert(&mut self, uid: &str) -> bool {
        let uid = fit_uid(uid);
        let Err(at) = self.find(&uid) else { return false };
        self.0.insert_str(at, &(uid + "\n"));
        true
    }

    /// True: it was there.
    pub fn remove(&mut self, uid: &str) -> bool {
        let uid = fit_uid(uid);
        let Ok(at) = self.find(&uid) else { return false };
        self.0.replace_range(at..=at + uid.len(), "");
        true
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        *self = self.iter().filter(|uid| keep(uid)).collect();
    }

    /// The byte offset of `uid`, or the offset to insert it at.
    fn find(&self, uid: &str) -> Result<usize, usize> {
        // A uid after the last uid goes to the end: uids that arrive in order need no search.
        if self.0.lines().next_back().is_none_or(|last| last < uid) {
            return Err(self.0.len());
        }
        let mut at = 0;
        for known in self.iter() {
            match known.cmp(uid) {
                std::cmp::Ordering::Less => at += known.len() + 1,
                std::cmp::Ordering::Equal => return Ok(at),
                std::cmp::Ordering::Greater => break,
            }
        }
        Err(at)
    }
}

impl<'a> FromIterator<&'a str> for UidSet {
    fn from_iter<I: IntoIterator<Item = &'a str>>(uids: I) -> UidSet {
        let mut set = UidSet::default();
        set.extend(uids);
        set
    }
}

impl<'a> Extend<&'a str> for UidSet {
    fn extend<I: IntoIterator<Item = &'a str>>(&mut self, uids: I) {
        for uid in uids {
            self.insert(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_knows_what_it_was_given() {
        let mut set: UidSet = ["b", "a", "not fit: a name", "ab", "a"].into_iter().collect();
        assert_eq!((set.len(), set.is_empty()), (4, false));
        assert!(set.contains("a") && set.contains("ab") && set.contains("not fit: a name"));
        assert!(!set.contains("c") && !set.contains("") && !set.contains("a\nab"));
        assert!(!set.insert("b") && set.insert("c") && set.remove("a") && !set.remove("a"));
        set.retain(|uid| uid != "ab");
        assert!(set.remove("not fit: a name"));
        assert_eq!(set.iter().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(set, ["c", "b"].into_iter().collect());
    }
}
