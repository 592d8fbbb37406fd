//! The checks of the Pod Security Standards: which level has a check, and since which minor version. PURE.

use super::level::{Level, LevelVersion};
use super::view::{PodView, Violation};
use super::{baseline, restricted};

type Check = fn(PodView<'_>) -> Option<Violation>;

struct CheckRow {
    level: Level,
    /// Each check replaces the one before it, from a minor version of Kubernetes 1 on.
    versions: &'static [(u32, Check)],
    /// A restricted check that asks for all that a baseline check asks for, and more.
    replaces: Option<usize>,
}

const fn baseline(versions: &'static [(u32, Check)]) -> CheckRow {
    CheckRow { level: Level::Baseline, versions, replaces: None }
}

const fn restricted(versions: &'static [(u32, Check)], replaces: Option<usize>) -> CheckRow {
    CheckRow { level: Level::Restricted, versions, replaces }
}

const CAPABILITIES: usize = 1;
const HOST_PATHS: usize = 3;
const PROC_MOUNT: usize = 7;
const SECCOMP: usize = 9;

/// In the order in which violations are told.
const CHECKS: [CheckRow; 19] = [
    baseline(&[(0, baseline::app_armor)]),
    baseline(&[(0, baseline::capabilities)]),
    baseline(&[(0, baseline::host_namespaces)]),
    baseline(&[(0, baseline::host_paths)]),
    baseline(&[(0, baseline::host_ports)]),
    baseline(&[(34, baseline::probe_hosts)]),
    baseline(&[(0, baseline::privileged)]),
    baseline(&[(0, baseline::proc_mount), (35, baseline::proc_mount_35)]),
    baseline(&[(0, baseline::selinux), (31, baseline::selinux_31)]),
    baseline(&[(0, baseline::seccomp_annotations), (19, baseline::seccomp)]),
    baseline(&[
        (0, baseline::sysctls),
        (27, baseline::sysctls_27),
        (29, baseline::sysctls_29),
        (32, baseline::sysctls_32),
    ]),
    baseline(&[(0, baseline::host_process)]),
    restricted(&[(8, restricted::privilege_escalation), (25, restricted::privilege_escalation_25)], None),
    restricted(&[(22, restricted::capabilities), (25, restricted::capabilities_25)], Some(CAPABILITIES)),
    restricted(&[(35, baseline::proc_mount)], Some(PROC_MOUNT)),
    restricted(&[(0, restricted::volume_types)], Some(HOST_PATHS)),
    restricted(&[(0, restricted::run_as_non_root), (35, restricted::run_as_non_root_35)], None),
    restricted(&[(23, restricted::run_as_user), (35, restricted::run_as_user_35)], None),
    restricted(&[(19, restricted::seccomp), (25, restricted::seccomp_25)], Some(SECCOMP)),
];

/// All that a pod violates. A version after the newest change of a check means the newest checks.
pub fn violations(asked: LevelVersion, pod: PodView<'_>) -> Vec<Violation> {
    if asked.level == Level::Privileged {
        return Vec::new();
    }
    let current = |row: &CheckRow| {
        let known = row.versions.iter().rev().find(|(since, _)| asked.version.is_at_least(*since));
        known.filter(|_| row.level <= asked.level).map(|(_, check)| *check)
    };
    let replaced: Vec<usize> =
        CHECKS.iter().filter(|row| current(row).is_some()).filter_map(|row| row.replaces).collect();
    let rows = CHECKS.iter().enumerate().filter(|(at, _)| !replaced.contains(at));
    rows.filter_map(|(_, row)| current(row)?(pod)).collect()
}
