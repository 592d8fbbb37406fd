//! PURE. Parses the kernel's files about a cgroup (v1 and v2), the host and a network.

/// The usage of a cgroup or of the host. Processor time counts up, in nanoseconds; the rest is in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu_ns: u64,
    pub memory: u64,
    /// The working set: memory that the kernel would not reclaim first.
    pub working_set: u64,
    pub rss: u64,
    pub cache: u64,
    pub swap: u64,
    pub page_faults: u64,
    pub major_page_faults: u64,
    pub throttle: Throttle,
    pub io: Io,
    pub limits: GroupLimits,
}

/// How often and how long a limit of processor time has held a group up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    pub periods: u64,
    pub held_periods: u64,
    pub held_ns: u64,
}

/// Reads and writes, summed over all disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
}

/// What a group may take. Zero: there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupLimits {
    pub memory: u64,
    /// Microseconds of processor time in each period.
    pub cpu_quota: u64,
    pub cpu_period: u64,
}

/// The texts of a group's files; empty where there is none.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    pub cpu: String,
    /// `cpu.stat` of v1; of v2 it is the same file as `cpu`.
    pub throttle: String,
    pub memory: String,
    pub memory_stat: String,
    pub swap: String,
    pub memory_limit: String,
    /// `cpu.max` of v2; in v1 the quota file followed by the period file.
    pub cpu_limit: String,
    /// `io.stat` of v2; of v1 bytes and counts.
    pub io: String,
    pub io_counts: String,
}

/// The counters of an interface: bytes and errors, received and sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    pub received: u64,
    pub receive_errors: u64,
    pub sent: u64,
    pub send_errors: u64,
}

/// The files of a group of cgroup v2.
pub fn of_v2(texts: &Texts) -> Option<Usage> {
    let (memory_stat, memory) = (texts.memory_stat.as_str(), number(&texts.memory)?);
    let throttle = |name: &str| value(&texts.cpu, name).unwrap_or_default();
    // A line a device: `8:0 rbytes=1 wbytes=2 rios=3 wios=4`.
    let io = |name: &str| {
        let fields = texts.io.split_whitespace().filter_map(|field| field.split_once('='));
        fields.filter(|(field, _)| *field == name).filter_map(|(_, figure)| figure.parse::<u64>().ok()).sum()
    };
    Some(Usage {
        cpu_ns: value(&texts.cpu, "usage_usec")? * 1000,
        memory,
        working_set: memory.saturating_sub(value(memory_stat, "inactive_file").unwrap_or_default()),
        rss: value(memory_stat, "anon").unwrap_or_default(),
        cache: value(memory_stat, "file").unwrap_or_default(),
        swap: number(&texts.swap).unwrap_or_default(),
        page_faults: value(memory_stat, "pgfault").unwrap_or_default(),
        major_page_faults: value(memory_stat, "pgmajfault").unwrap_or_default(),
        throttle: Throttle {
            periods: throttle("nr_periods"),
            held_periods: throttle("nr_throttled"),
            held_ns: throttle("throttled_usec") * 1000,
        },
        io: Io { reads: io("rios"), read_bytes: io("rbytes"), writes: io("wios"), written_bytes: io("wbytes") },
        limits: limits(texts),
    })
}

/// The word `max`, a quota of -1 and v1's largest number are no limits.
fn limits(texts: &Texts) -> GroupLimits {
    const NONE_FROM: u64 = 1 << 62;
    let mut cpu = texts.cpu_limit.split_whitespace().map(|word| word.parse::<u64>().unwrap_or_default());
    let (cpu_quota, cpu_period) = (cpu.next().unwrap_or_default(), cpu.next().unwrap_or_default());
    GroupLimits {
        memory: number(&texts.memory_limit).filter(|bytes| *bytes < NONE_FROM).unwrap_or_default(),
        cpu_quota,
        cpu_period,
    }
}

/// The same of cgroup v1.
pub fn of_v1(texts: &Texts) -> Option<Usage> {
    let memory = number(&texts.memory)?;
    let stat = |name: &str| value(&texts.memory_stat, name).unwrap_or_default();
    let throttle = |name: &str| value(&texts.throttle, name).unwrap_or_default();
    // A line a device and direction: `8:0 Read 4096`.
    let io = |text: &str, direction: &str| {
        let lines =
            text.lines().filter_map(|line| line.split_once(' ')?.1.strip_prefix(direction)?.trim().parse::<u64>().ok());
        lines.sum()
    };
    let (bytes, counts) = (texts.io.as_str(), texts.io_counts.as_str());
    Some(Usage {
        cpu_ns: number(&texts.cpu)?,
        memory,
        working_set: memory.saturating_sub(stat("total_inactive_file")),
        rss: stat("total_rss"),
        cache: stat("total_cache"),
        swap: stat("total_swap"),
        page_faults: stat("total_pgfault"),
        major_page_faults: stat("total_pgmajfault"),
        throttle: Throttle {
            periods: throttle("nr_periods"),
            held_periods: throttle("nr_throttled"),
            held_ns: throttle("throttled_time"),
        },
        io: Io {
            reads: io(counts, "Read "),
            read_bytes: io(bytes, "Read "),
            writes: io(counts, "Write "),
            written_bytes: io(bytes, "Write "),
        },
        limits: limits(texts),
    })
}

/// The usage of the host, from /proc/stat (in hundredths of a second) and /proc/meminfo.
pub fn of_host(stat: &str, meminfo: &str, vmstat: &str) -> Option<Usage> {
    let times: Vec<u64> = stat
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))?
        .split_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    // user, nice, system, (idle, iowait), irq, softirq, steal; user includes guest time.
    let busy: u64 = [0, 1, 2, 5, 6, 7].into_iter().filter_map(|at| times.get(at)).sum();
    let kib = |name: &str| value(meminfo, name).map(|kib| kib * 1024);
    let memory = kib("MemTotal:")?.saturating_sub(kib("MemFree:")?);
    Some(Usage {
        cpu_ns: busy * 10_000_000,
        memory,
        working_set: memory.saturating_sub(kib("Inactive(file):").unwrap_or_default()),
        rss: kib("AnonPages:").unwrap_or_default(),
        cache: kib("Cached:").unwrap_or_default(),
        swap: kib("SwapTotal:").unwrap_or_default().saturating_sub(kib("SwapFree:").unwrap_or_default()),
        page_faults: value(vmstat, "pgfault").unwrap_or_default(),
        major_page_faults: value(vmstat, "pgmajfault").unwrap_or_default(),
        ..Usage::default()
    })
}

/// All but loopback, of /proc/PID/net/dev.
pub fn interfaces(dev: &str) -> Vec<Interface> {
    let read = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let figures: Vec<u64> = rest.split_whitespace().map_while(|figure| figure.parse().ok()).collect();
        let at = |index: usize| figures.get(index).copied();
        let name = Some(name.trim()).filter(|name| *name != "lo")?.to_owned();
        Some(Interface { name, received: at(0)?, receive_errors: at(2)?, sent: at(8)?, send_errors: at(10)? })
    };
    dev.lines().filter_map(read).collect()
}

/// The source of the mount that holds `path`, from /proc/self/mounts: the longest mount point above `path`, and the
/// last mount if several have the same point.
pub fn mounted_from(mounts: &str, path: &str) -> String {
    let holds =
        |at: &str| at == "/" || path.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let all = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?, words.next()?))
    });
    all.filter(|(_, at)| holds(at)).max_by_key(|(_, at)| at.len()).map(|(from, _)| from.to_owned()).unwrap_or_default()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The value of a line `name value`.
fn value(text: &str, name: &str) -> Option<u64> {
    let of = |line: &str| line.strip_prefix(name)?.strip_prefix([' ', '\t'])?.split_whitespace().next()?.parse().ok();
    text.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups() {
        let mut texts = Texts {
            cpu: "usage_usec 1500\nuser_usec 1000\nnr_periods 4\nnr_throttled 2\nthrottled_usec 7\n".into(),
            memory: "9000\n".into(),
            memory_stat: "anon 4000\nfile 3000\ninactive_file 1000\npgfault 7\n".into(),
            swap: "5\n".into(),
            memory_limit: "max\n".into(),
            cpu_limit: "50000 100000\n".into(),
            io: "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=2 rios=3 wios=4\n".into(),
            ..Texts::default()
        };
        let expected = Usage {
            cpu_ns: 1_500_000,
            memory: 9000,
            working_set: 8000,
            rss: 4000,
            cache: 3000,
            swap: 5,
            page_faults: 7,
            major_page_faults: 0,
            throttle: Throttle { periods: 4, held_periods: 2, held_ns: 7000 },
            io: Io { reads: 4, read_bytes: 11, writes: 6, written_bytes: 22 },
            limits: GroupLimits { memory: 0, cpu_quota: 50_000, cpu_period: 100_000 },
        };
        assert_eq!(of_v2(&texts), Some(expected));
        texts.memory = "max".into();
        assert_eq!(of_v2(&texts), None);
        let mut texts = Texts {
            cpu: "1500000\n".into(),
            throttle: "nr_periods 4\nnr_throttled 2\nthrottled_time 7000\n".into(),
            memory: "9000\n".into(),
            memory_stat: "inactive_file 1\ntotal_rss 4000\ntotal_cache 3000\ntotal_inactive_file 1000\n\
                          total_pgfault 7\ntotal_swap 5\n"
                .into(),
            memory_limit: "9223372036854771712\n".into(),
            cpu_limit: "50000\n100000\n".into(),
            io: "8:0 Read 11\n8:0 Write 22\n8:0 Total 33\nTotal 33\n".into(),
            io_counts: "8:0 Read 4\n8:0 Write 6\nTotal 10\n".into(),
            ..Texts::default()
        };
        assert_eq!(of_v1(&texts), Some(expected));
        // No limit of processor time.
        texts.cpu_limit = "-1\n100000\n".into();
        assert_eq!(of_v1(&texts).map(|usage| usage.limits.cpu_quota), Some(0));
        texts.cpu = String::new();
        assert_eq!(of_v1(&texts), None);
    }

    #[test]
    fn the_host() {
        let stat = "cpu  100 20 30 4000 50 1 2 3 9 0\ncpu0 1 2 3\n";
        let meminfo = "MemTotal:       1000 kB\nMemFree:         400 kB\nInactive(file):  100 kB\nSwapTotal: 50 kB\n\
                       SwapFree: 20 kB\n";
        let usage = of_host(stat, meminfo, "").unwrap();
        assert_eq!(
            (usage.cpu_ns, usage.memory, usage.working_set, usage.swap),
            (1_560_000_000, 614_400, 512_000, 30_720)
        );
    }

    #[test]
    fn a_path_is_on_the_innermost_mount() {
        let mounts = "/dev/root / ext4 rw 0 0\n/dev/sda1 /var ext4 rw 0 0\n/dev/sdb1 /var/lib/cor ext4 rw 0 0\n";
        assert_eq!(mounted_from(mounts, "/var/lib/coracle"), "/dev/sda1");
        assert_eq!(mounted_from(mounts, "/var"), "/dev/sda1");
        assert_eq!(mounted_from(mounts, "/opt"), "/dev/root");
        assert_eq!(mounted_from("", "/opt"), "");
    }

    #[test]
    fn networks() {
        let dev = "Inter-| Receive\n face |bytes packets errs\n    lo: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n  eth0: 100 2 \
                   3 0 0 0 0 0 200 4 5 0 0 0 0 0\n";
        let eth0 = Interface { name: "eth0".into(), received: 100, receive_errors: 3, sent: 200, send_errors: 5 };
        assert_eq!(interfaces(dev), [eth0]);
    }
}
