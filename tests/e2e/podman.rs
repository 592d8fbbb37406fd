//! What Podman cannot, or does otherwise for good: tests that are left out with it, and why.

use crate::Test;

/// The name of a test, and the reason.
const NOT_WITH_PODMAN: &[(&str, &str)] = &[
    ("streams_logs_over_rotations", "a log that has reached its limit begins anew, without what was in it"),
    ("beside_memory_outlives_the_engine", "it has no daemon that would forget what is mounted"),
    ("pods_resize_in_place", NO_UPDATE),
    ("pods_resize_waits_for_room", NO_UPDATE),
];
const NO_UPDATE: &str = "Podman 4.3 has no call that changes the limits of a container that runs and is seen in it";

/// Says which they are. A name that no test has is an error of this list.
pub fn leave_out(tests: &mut Vec<&Test>) {
    for (left_out, why) in NOT_WITH_PODMAN {
        let known = crate::SUITES.iter().flat_map(|suite| suite.iter()).any(|(name, _)| name == left_out);
        assert!(known, "{left_out} is no test");
        if tests.iter().any(|(name, _)| name == left_out) {
            println!("test {left_out} ... left out with Podman: {why}");
        }
    }
    tests.retain(|(name, _)| !NOT_WITH_PODMAN.iter().any(|(left_out, _)| name == left_out));
}
