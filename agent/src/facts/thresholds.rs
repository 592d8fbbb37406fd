//! Below what a node is short of something: the words of `--eviction-hard`, as a kubelet reads them. PURE.
//!
//! The default (`options.txt`) is a kubelet's own, but for the shares of disks: those are what k3s has for small hosts,
//! whose cards are often nearly full. A kubelet has no default for processes. This agent has a default, because a host
//! without free process ids cannot be repaired by anybody.

use coracle_api::quantity::Quantity;

use crate::facts::strain::Short;

/// A resource that may run short on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    Memory,
    /// Where pods' own directories are.
    NodeDisk,
    NodeFiles,
    /// Where the engine keeps images and containers.
    ImageDisk,
    ImageFiles,
    /// Processes and threads that may still begin.
    Processes,
}

/// As a kubelet calls them, in the order in which they are cured.
pub const SIGNALS: [(&str, Signal); 6] = [
    ("memory.available", Signal::Memory),
    ("nodefs.available", Signal::NodeDisk),
    ("nodefs.inodesFree", Signal::NodeFiles),
    ("imagefs.available", Signal::ImageDisk),
    ("imagefs.inodesFree", Signal::ImageFiles),
    ("pid.available", Signal::Processes),
];

impl Signal {
    pub fn short(self) -> Short {
        match self {
            Signal::Memory => Short::Memory,
            Signal::Processes => Short::Processes,
            _ => Short::Disk,
        }
    }

    /// As messages call it.
    pub fn resource(self) -> &'static str {
        match self {
            Signal::Memory => "memory",
            Signal::NodeDisk | Signal::ImageDisk => "ephemeral-storage",
            Signal::NodeFiles | Signal::ImageFiles => "inodes",
            Signal::Processes => "pids",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    Of(u64),
    /// In thousandths of a percent of the capacity.
    Share(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    pub signal: Signal,
    pub amount: Amount,
}

/// The capacity of a resource, and the amount available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    pub available: u64,
    pub capacity: u64,
}

impl Threshold {
    pub fn least(&self, capacity: u64) -> u64 {
        match self.amount {
            Amount::Of(amount) => amount,
            Amount::Share(share) => {
                u64::try_from(u128::from(capacity) * u128::from(share) / 100_000).unwrap_or(u64::MAX)
            }
        }
    }

    pub fn is_met(&self, level: Level) -> bool {
        level.available < self.least(level.capacity)
    }
}

/// `memory.available<100Mi,nodefs.available<10%`. What is not named has no threshold.
pub fn parse(text: &str) -> Result<Vec<Threshold>, String> {
    let mut all: Vec<Threshold> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, amount) = part
            .split_once('<')
            .ok_or_else(|| format!("{part:?} is not NAME<AMOUNT, such as memory.available<100Mi"))?;
        let known = SIGNALS.iter().find(|(known, _)| *known == name.trim());
        let names = || SIGNALS.map(|(name, _)| name).join(", ");
        let (_, signal) = known.ok_or_else(|| format!("{name:?} is none of {}", names()))?;
        let amount = amount_of(amount.trim())
            .ok_or_else(|| format!("{amount:?} is neither an amount, such as 100Mi, nor a share, such as 10%"))?;
        if all.iter().any(|known| known.signal == *signal) {
            return Err(format!("{name} stands there twice"));
        }
        all.push(Threshold { signal: *signal, amount });
    }
    all.sort_by_key(|threshold| threshold.signal);
    Ok(all)
}

fn amount_of(text: &str) -> Option<Amount> {
    let Some(share) = text.strip_suffix('%') else {
        let amount = Quantity::parse(text).ok()?.value();
        return u64::try_from(amount).ok().map(Amount::Of);
    };
    // Thousandths of a percent are as fine as anybody writes them.
    let milli = Quantity::parse(share).ok()?.milli();
    u64::try_from(milli).ok().filter(|share| *share <= 100_000).map(Amount::Share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_kubelet() {
        let check = |text: &str, expected: Result<Vec<Threshold>, &str>| match (parse(text), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
            (Err(found), Err(word)) => assert!(found.contains(word), "{found}"),
            (found, _) => panic!("{text}: {found:?}"),
        };
        let memory = Threshold { signal: Signal::Memory, amount: Amount::Of(100 << 20) };
        let disk = Threshold { signal: Signal::NodeDisk, amount: Amount::Share(7_500) };
        check("", Ok(vec![]));
        check("nodefs.available<7.5%, memory.available<100Mi", Ok(vec![memory, disk]));
        check("memory.available=1", Err("NAME<AMOUNT"));
        check("pid.available<10%", Ok(vec![Threshold { signal: Signal::Processes, amount: Amount::Share(10_000) }]));
        check("pids.available<10%", Err("none of memory.available"));
        check("memory.available<much", Err("neither an amount"));
        check("memory.available<101%", Err("neither an amount"));
        check("memory.available<1,memory.available<2", Err("twice"));
    }

    #[test]
    fn what_is_too_little() {
        let disk = Threshold { signal: Signal::NodeDisk, amount: Amount::Share(10_000) };
        for (available, met) in [(99, true), (100, false)] {
            assert_eq!(disk.is_met(Level { available, capacity: 1000 }), met, "{available}");
        }
    }
}
