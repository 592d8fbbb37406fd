//! The workload: several writers on the same keys, durable and volatile, phase after phase with a clean or a sudden end
//! between them. What every write was answered is kept, and the moment it was asked for and answered stands in the
//! disk's record.

use crate::subject::{Layer, Subject, Wish, Written};
use coracle_tests::block::host::Mounted;
use coracle_tests::block::log::{Entry, Record};
use coracle_tests::block::random::Random;
use std::collections::HashSet;
use std::fs::File;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const WRITERS: u64 = 4;
const PHASES: u64 = 5;
const WRITES_A_PHASE: u64 = 45;
/// The kernel writes back what it likes when it likes; a syncfs now and then stands for that.
const WRITEBACK_PERCENT: u64 = 2;
const CHECKPOINT_PERCENT: u64 = 1;

/// Everything that was answered, in order of revision.
pub struct History {
    pub done: Vec<Done>,
}

pub struct Done {
    /// The number that its marks carry.
    pub id: u64,
    pub written: Written,
}

/// What had happened when the power was cut.
pub struct Moment {
    /// The highest revision that somebody had been told.
    pub acknowledged: u64,
    /// The numbers of the writes that had been asked for.
    pub asked: HashSet<u64>,
}

impl History {
    pub fn moment(&self, record: &Record, entries: usize) -> Moment {
        let mut moment = Moment { acknowledged: 0, asked: HashSet::new() };
        let mut acknowledged = HashSet::new();
        for entry in &record.entries[..entries] {
            let Entry::Mark(text) = entry else { continue };
            match text.split_once(' ').map(|(word, id)| (word, id.parse::<u64>())) {
                Some(("asked", Ok(id))) => drop(moment.asked.insert(id)),
                Some(("told", Ok(id))) => drop(acknowledged.insert(id)),
                _ => {}
            }
        }
        let revisions =
            self.done.iter().filter(|done| acknowledged.contains(&done.id)).map(|done| done.written.revision);
        moment.acknowledged = revisions.max().unwrap_or_default();
        moment
    }
}

/// `memory`: a folder that a power cut empties.
pub fn run(subject: &Subject, mounted: &Mounted, memory: &Path, seed: u64) -> Result<History, String> {
    let (next, done) = (AtomicU64::new(1), Mutex::new(Vec::new()));
    mounted.mark("begin")?;
    let volatile = memory.join("volatile");
    for phase in 0..PHASES {
        let layer = subject.open(&mounted.at, Some(&volatile))?;
        let outcomes: Vec<Result<(), String>> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let (layer, next, done) = (&*layer, &next, &done);
                    scope.spawn(move || {
                        write(layer, mounted, next, done, Random::new(seed ^ (phase << 32) ^ (writer << 40)))
                    })
                })
                .collect();
            writers
                .into_iter()
                .map(|writer| writer.join().unwrap_or_else(|_| Err("a writer panicked".to_owned())))
                .collect()
        });
        outcomes.into_iter().collect::<Result<(), String>>()?;
        // Every other time the process is as good as killed: what the page cache holds, it keeps.
        if phase % 2 == 0 {
            layer.close()?;
        }
    }
    let mut done: Vec<Done> = done.into_inner().unwrap();
    done.sort_by_key(|done| done.written.revision);
    match done.windows(2).find(|pair| pair[0].written.revision == pair[1].written.revision) {
        Some(pair) => Err(format!("revision {} was given twice", pair[0].written.revision)),
        None => Ok(History { done }),
    }
}

fn write(
    layer: &dyn Layer,
    mounted: &Mounted,
    next: &AtomicU64,
    done: &Mutex<Vec<Done>>,
    mut random: Random,
) -> Result<(), String> {
    for _ in 0..WRITES_A_PHASE {
        let id = next.fetch_add(1, Ordering::Relaxed);
        let wish = Wish::random(id, &mut random);
        mounted.mark(&format!("asked {id}"))?;
        if let Some(written) = layer.write(&wish)? {
            mounted.mark(&format!("told {id}"))?;
            done.lock().unwrap().push(Done { id, written });
        }
        if random.percent(WRITEBACK_PERCENT) {
            let folder = File::open(&mounted.at).map_err(|e| e.to_string())?;
            nix::unistd::syncfs(&folder).map_err(|e| format!("syncfs: {e}"))?;
        }
        if random.percent(CHECKPOINT_PERCENT) {
            layer.checkpoint()?;
        }
    }
    Ok(())
}
