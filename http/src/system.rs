//! Checks at the start that this system's limits suffice: a flood that takes the last descriptor would take the local
//! side's as well, and a program that cannot start a thread answers nobody.
use crate::network::{of_nodes, threads};
use crate::{Limits, LocalLimits};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fmt;
use std::path::Path;

/// Descriptors for everything that is not a connection: files, listeners, epoll, the store's directory, standard
/// streams.
const DESCRIPTORS_ELSE: u64 = 64;

/// Connections of the local side beside its streams.
const LOCAL_CONNECTIONS_ELSE: usize = 32;

/// Descriptors of a forwarded answer on the local side: three for its runtime, and its connection.
const LOCAL_FORWARD_DESCRIPTORS: u64 = 4;

/// Threads for everything else.
const THREADS_ELSE: u64 = 16;

/// The limits of the system; `None` is no limit, or none that could be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Granted {
    pub descriptors: Option<u64>,
    pub threads: Option<u64>,
}

#[derive(Debug, PartialEq)]
pub enum Shortage {
    Descriptors { granted: u64, needed: u64 },
    Threads { granted: u64, needed: u64 },
}

/// Pure: what is granted against what the sides that are on need. `network`: the limits of each port, for each has
/// connections and threads of its own.
pub fn enough(network: &[&Limits], local: Option<&LocalLimits>, granted: Granted) -> Result<(), Shortage> {
    // Each stream may be another server's answer, over a connection of its own.
    let streams = |limits: &Limits| limits.streams_max + of_nodes(limits).streams_max;
    let connections: u64 = network.iter().map(|limits| (limits.connections_max + streams(limits)) as u64).sum();
    let handlers: u64 = network.iter().map(|limits| threads(limits) as u64).sum();
    let local_connections = |limits: &LocalLimits| limits.streams_max + LOCAL_CONNECTIONS_ELSE;
    // tiny_http takes two descriptors for a connection, and a thread.
    let local_descriptors = local.map_or(0, |limits| {
        2 * local_connections(limits) as u64 + limits.forwards_max as u64 * LOCAL_FORWARD_DESCRIPTORS
    });
    let local_threads = local.map_or(0, |limits| {
        (local_connections(limits) + limits.handlers + limits.writers_max + limits.streams_max) as u64
    });
    let needed = connections + local_descriptors + DESCRIPTORS_ELSE;
    if let Some(granted) = granted.descriptors.filter(|granted| *granted < needed) {
        return Err(Shortage::Descriptors { granted, needed });
    }
    let needed = handlers + local_threads + THREADS_ELSE;
    match granted.threads.filter(|granted| *granted < needed) {
        Some(granted) => Err(Shortage::Threads { granted, needed }),
        None => Ok(()),
    }
}

/// Shells start programs with the 1,024 descriptors that select() can take, and leave it to them to have more.
fn raised(soft: u64, hard: u64) -> u64 {
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() { hard } else { soft }
}

/// Takes what may be had, and reads the limits of this process and of its control groups. What cannot be read limits
/// nothing that we could name.
pub fn granted() -> Granted {
    let descriptors = getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, hard)| raised(soft, hard));
    // The limit for processes of a user does not bind root.
    let processes = match nix::unistd::geteuid().is_root() {
        true => None,
        false => getrlimit(Resource::RLIMIT_NPROC).ok().map(|(soft, _)| soft),
    };
    let group = std::fs::read_to_string("/proc/self/cgroup")
        .ok()
        .and_then(|text| group_threads(&text, Path::new("/sys/fs/cgroup")));
    Granted { descriptors, threads: [processes, group].into_iter().flatten().min() }
}

/// The fewest threads that any cgroup of this process leaves: `pids.max` less `pids.current`.
fn group_threads(proc_cgroup: &str, root: &Path) -> Option<u64> {
    let path = proc_cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let number = |file: &Path| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let left = |group: &Path| {
        // "max" is no number: no limit.
        let most = number(&group.join("pids.max"))?;
        Some(most.saturating_sub(number(&group.join("pids.current")).unwrap_or(0)))
    };
    root.join(path).ancestors().take_while(|group| group.starts_with(root)).filter_map(left).min()
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shortage::Descriptors { granted, needed } => {
                write!(
                    f,
                    "the limit of open files is {granted}, {needed} are needed: raise it (ulimit -n, or LimitNOFILE= \
                     in the unit)"
                )
            }
            Shortage::Threads { granted, needed } => {
                write!(
                    f,
                    "the system leaves {granted} threads, {needed} are needed: raise the limit (TasksMax= in the unit, \
                     or pids.max of the control group)"
                )
            }
        }
    }
}

impl std::error::Error for Shortage {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_granted_against_what_is_needed() {
        let check = |ports: usize, local: bool, descriptors, threads| {
            let granted = Granted { descriptors, threads };
            enough(&vec![&Limits::EDGE; ports], local.then_some(&LocalLimits::HOST), granted)
        };
        assert_eq!(check(1, true, Some(3520), Some(4915)), Ok(()));
        assert_eq!(check(1, true, None, None), Ok(()));
        assert_eq!(check(1, true, Some(3519), None), Err(Shortage::Descriptors { granted: 3519, needed: 3520 }));
        assert_eq!(check(2, true, Some(6431), None), Err(Shortage::Descriptors { granted: 6431, needed: 6432 }));
        assert_eq!(check(0, true, Some(607), None), Err(Shortage::Descriptors { granted: 607, needed: 608 }));
        assert_eq!(check(1, false, Some(2976), Some(112)), Ok(()));
        assert_eq!(check(1, true, None, Some(627)), Err(Shortage::Threads { granted: 627, needed: 628 }));
        assert_eq!(check(2, true, None, Some(723)), Err(Shortage::Threads { granted: 723, needed: 724 }));
    }

    #[test]
    fn this_process_has_a_limit() {
        assert!(granted().descriptors.is_some());
    }

    #[test]
    fn the_tightest_group_counts() {
        let root = std::env::temp_dir().join(format!("coracle-groups-{}", std::process::id()));
        let group = root.join("system.slice/coracle.service");
        std::fs::create_dir_all(&group).unwrap();
        let write = |group: &Path, file: &str, text: &str| std::fs::write(group.join(file), text).unwrap();
        let read = || group_threads("0::/system.slice/coracle.service\n", &root);
        assert_eq!(read(), None);
        write(&group, "pids.max", "max\n");
        assert_eq!(read(), None);
        write(&root.join("system.slice"), "pids.max", "500\n");
        write(&root.join("system.slice"), "pids.current", "120\n");
        assert_eq!(read(), Some(380));
        write(&group, "pids.max", "200\n");
        write(&group, "pids.current", "5\n");
        assert_eq!(read(), Some(195));
        assert_eq!(group_threads("1:name=systemd:/x\n", &root), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
