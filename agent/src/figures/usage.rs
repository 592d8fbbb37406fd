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
pub fn of_v2(cpu_stat: &str, memory_current: &str, memory_stat: &str, swap_current: &str) -> Option<Usage> {
    let memory = number(memory_current)?;
    Some(Usage {
        cpu_ns: value(cpu_stat, "usage_usec")? * 1000,
        memory,
        working_set: memory.saturating_sub(value(memory_stat, "inactive_file").unwrap_or_default()),
        rss: value(memory_stat, "anon").unwrap_or_default(),
        cache: value(memory_stat, "file").unwrap_or_default(),
        swap: number(swap_current).unwrap_or_default(),
        page_faults: value(memory_stat, "pgfault").unwrap_or_default(),
        major_page_faults: value(memory_stat, "pgmajfault").unwrap_or_default(),
    })
}

/// The same of cgroup v1.
pub fn of_v1(cpuacct_usage: &str, memory_usage: &str, memory_stat: &str) -> Option<Usage> {
    let memory = number(memory_usage)?;
    let stat = |name: &str| value(memory_stat, name).unwrap_or_default();
    Some(Usage {
        cpu_ns: number(cpuacct_usage)?,
        memory,
        working_set: memory.saturating_sub(stat("total_inactive_file")),
        rss: stat("total_rss"),
        cache: stat("total_cache"),
        swap: stat("total_swap"),
        page_faults: stat("total_pgfault"),
        major_page_faults: stat("total_pgmajfault"),
    })
}

/// The usage of the host, from /proc/stat (in hundredths of a second) and /proc/meminfo.
pub fn of_host(stat: &str, meminfo: &str, vmstat: &str) -> Option<Usage> {
    let times: Vec<u64> =
        stat.lines().find_map(|line| line.strip_prefix("cpu "))?.split_whitespace().map_while(|n| n.parse().ok()).collect();
    // user, nice, system, (idle, iowait), irq, softirq, steal; what guests take is part of user.
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
        let v2 = of_v2("usage_usec 1500\nuser_usec 1000\n", "9000\n", "anon 4000\nfile 3000\ninactive_file 1000\npgfault 7\n", "5\n");
        let expected = Usage {
            cpu_ns: 1_500_000,
            memory: 9000,
            working_set: 8000,
            rss: 4000,
            cache: 3000,
            swap: 5,
            page_faults: 7,
            major_page_faults: 0,
        };
        assert_eq!(v2, Some(expected));
        let stat = "inactive_file 1\ntotal_rss 4000\ntotal_cache 3000\ntotal_inactive_file 1000\ntotal_pgfault 7\ntotal_swap 5\n";
        assert_eq!(of_v1("1500000\n", "9000\n", stat), Some(expected));
        assert_eq!(of_v1("", "9000", stat), None);
        assert_eq!(of_v2("usage_usec 1", "max", "", ""), None);
    }

    #[test]
    fn the_host() {
        let stat = "cpu  100 20 30 4000 50 1 2 3 9 0\ncpu0 1 2 3\n";
        let meminfo = "MemTotal:       1000 kB\nMemFree:         400 kB\nInactive(file):  100 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n";
        let usage = of_host(stat, meminfo, "").unwrap();
        assert_eq!((usage.cpu_ns, usage.memory, usage.working_set, usage.swap), (1_560_000_000, 614_400, 512_000, 30_720));
    }

    #[test]
    fn networks() {
        let dev = "Inter-| Receive\n face |bytes packets errs\n    lo: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n  eth0: 100 2 3 0 0 0 0 0 200 4 5 0 0 0 0 0\n";
        let eth0 = Interface { name: "eth0".into(), received: 100, receive_errors: 3, sent: 200, send_errors: 5 };
        assert_eq!(interfaces(dev), [eth0]);
    }
}
