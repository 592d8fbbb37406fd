//! The steps against a shortage, look by look: dead containers and unused images go first, then one pod, and the next
//! pod only when everything of the first pod is gone. PURE.

use std::collections::BTreeMap;

/// What a pod leaves behind, and what the plan removes, is waited for that long: an engine may not answer, and a master
/// that is silent keeps the containers of a pod.
const WAIT_MS_MAX: i64 = 60_000;

/// What to do at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CourseStep {
    /// Something is on its way out: look again soon.
    Wait,
    /// Dead containers went; now images that nobody uses, and then the levels are looked at again.
    Images,
    Choose,
}

/// The steps so far against the present shortage. Times are of a monotonic clock.
#[derive(Debug, Default)]
pub struct Course {
    /// The start of removing dead containers and unused images. None: nothing is short.
    since_ms: Option<i64>,
    images: bool,
    /// By uid: pods that were evicted and have something here, since when.
    leaving: BTreeMap<String, i64>,
}

impl Course {
    pub fn evicted(&mut self, uid: &str, now_ms: i64) {
        self.leaving.insert(uid.to_owned(), now_ms);
    }

    /// Nothing is short: the next shortage begins anew.
    pub fn over(&mut self) {
        (self.since_ms, self.images) = (None, false);
    }

    /// `of_disk`: there is something to remove before a pod has to go. `is_here`: whether anything of an evicted pod
    /// is. `at_work`: something is being removed.
    pub fn step(&mut self, now_ms: i64, of_disk: bool, is_here: impl Fn(&str) -> bool, at_work: bool) -> CourseStep {
        let before = self.leaving.len();
        self.leaving.retain(|uid, since_ms| is_here(uid) && now_ms - *since_ms < WAIT_MS_MAX);
        if !self.leaving.is_empty() {
            return CourseStep::Wait;
        }
        if before > 0 {
            // A removed container may have been the last user of an image.
            self.over();
        }
        if !of_disk {
            return if before > 0 { CourseStep::Wait } else { CourseStep::Choose };
        }
        let Some(since_ms) = self.since_ms else {
            self.since_ms = Some(now_ms);
            return CourseStep::Wait;
        };
        if at_work && now_ms - since_ms < WAIT_MS_MAX {
            return CourseStep::Wait;
        }
        if !std::mem::replace(&mut self.images, true) {
            return CourseStep::Images;
        }
        CourseStep::Choose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At these moments: whether the evicted pod is here, whether something is removed, and what is done.
    fn check(of_disk: bool, looks: &[(i64, bool, bool, CourseStep)]) {
        let mut course = Course::default();
        for (now_ms, here, at_work, expected) in looks {
            let step = course.step(*now_ms, of_disk, |_| *here, *at_work);
            assert_eq!(step, *expected, "at {now_ms} of {looks:?}");
            if step == CourseStep::Choose {
                course.evicted("u", *now_ms);
            }
        }
    }

    #[test]
    fn what_nobody_needs_goes_before_a_pod_and_one_pod_before_the_next() {
        check(
            true,
            &[
                (0, false, false, CourseStep::Wait),
                (2_000, false, true, CourseStep::Wait),
                (4_000, false, false, CourseStep::Images),
                (6_000, false, false, CourseStep::Choose),
                (8_000, true, false, CourseStep::Wait),
                (20_000, true, false, CourseStep::Wait),
                // The evicted pod is gone, and its remains are removed.
                (22_000, false, false, CourseStep::Wait),
                (24_000, false, false, CourseStep::Images),
                (26_000, false, false, CourseStep::Choose),
            ],
        );
    }

    #[test]
    fn nothing_is_waited_for_without_end() {
        check(
            true,
            &[
                (0, false, true, CourseStep::Wait),
                (59_000, false, true, CourseStep::Wait),
                (60_000, false, true, CourseStep::Images),
                (62_000, false, true, CourseStep::Choose),
                (121_000, true, false, CourseStep::Wait),
                (122_000, true, false, CourseStep::Wait),
                (124_000, true, false, CourseStep::Images),
            ],
        );
    }

    #[test]
    fn memory_is_freed_by_pods_alone() {
        check(
            false,
            &[
                (0, false, false, CourseStep::Choose),
                (2_000, true, false, CourseStep::Wait),
                (4_000, false, false, CourseStep::Wait),
                (6_000, false, false, CourseStep::Choose),
            ],
        );
    }
}
