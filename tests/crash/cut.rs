//! What a power cut can leave on a disk: everything up to the last flush, and of the writes after it none, all, some,
//! or all with the last one torn. A write is torn at sectors.

use coracle_tests::block::host::{Host, Kind, Mounted};
use coracle_tests::block::log::{Entry, Record, Sparse};
use coracle_tests::block::random::Random;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What every disk writes whole or not at all.
const SECTOR: usize = 512;
/// Different kinds of violations shown.
const EXAMPLES_MAX: usize = 5;

/// Which of the writes after the last flush are there.
#[derive(Clone, Copy)]
enum Left {
    None,
    All,
    /// Each by itself, and some of them torn.
    Half,
    Most,
    LastTorn,
}

const LEFT: [Left; 5] = [Left::None, Left::All, Left::Half, Left::Most, Left::LastTorn];

#[derive(Default)]
pub struct Cuts {
    good: usize,
    unmountable: usize,
    unflushed: usize,
    /// By what is common to them, how many and the first.
    bad: BTreeMap<String, (usize, String)>,
    /// The first image with a violation, as it was before anybody mounted it.
    kept: Option<PathBuf>,
}

impl Cuts {
    pub fn violations(&self) -> usize {
        self.bad.values().map(|(count, _)| count).sum()
    }

    pub fn mountable(&self) -> usize {
        self.good + self.violations()
    }

    pub fn said(&self) -> String {
        let points = self.mountable() + self.unmountable;
        let mean = self.unflushed as f64 / points.max(1) as f64;
        format!(
            "{points} power cuts with {mean:.1} unflushed writes each: {} violations, {} images that no mount takes",
            self.violations(),
            self.unmountable
        )
    }

    pub fn examples(&self) -> String {
        let mut lines: Vec<String> = self
            .bad
            .values()
            .take(EXAMPLES_MAX)
            .map(|(count, first)| format!("      {count} x, first {first}"))
            .collect();
        if let Some(kept) = &self.kept {
            lines.push(format!("      the first image lies in {}; mount -o loop shows it", kept.display()));
        }
        lines.join("\n")
    }
}

/// `examine` is given where the image is mounted, and how many entries of the record were done. `keep`: an image with a
/// violation is kept.
pub fn all(
    host: &Host,
    kind: Kind,
    record: &Record,
    seed: u64,
    points: usize,
    keep: bool,
    examine: impl Fn(&Path, usize) -> Result<(), String>,
) -> Result<Cuts, String> {
    let mut cuts = Cuts::default();
    let mut disk = Sparse::new(kind.megabytes() << 20);
    let mut flushed = 0;
    for (n, moment) in moments(record, &mut Random::new(seed), points)?.into_iter().enumerate() {
        let last_flush =
            record.entries[..moment].iter().rposition(|entry| matches!(entry, Entry::Flush)).map_or(0, |at| at + 1);
        for entry in &record.entries[flushed..last_flush] {
            if let Entry::Write(at, bytes) = entry {
                disk.write(*at, record.bytes(bytes));
            }
        }
        flushed = last_flush;
        let after = record.entries[flushed..moment]
            .iter()
            .filter_map(|e| if let Entry::Write(at, bytes) = e { Some((*at, bytes)) } else { None });
        let cut = Cut { disk: &disk, record, after: after.collect(), seed: seed ^ moment as u64 };
        cuts.unflushed += cut.after.len();
        // Each has a name of its own: a loop device may hold the last one a moment longer, and mount would take that
        // for this one.
        let image = host.memory().join(format!("cut-{n}.img"));
        cut.write(&image)?;
        // A torn superblock or log is the file system's affair.
        let mounted = Mounted::image(kind, &image, &host.memory().join("cut"));
        fs::remove_file(&image).ok();
        let Ok(mounted) = mounted else {
            cuts.unmountable += 1;
            continue;
        };
        let outcome = examine(&mounted.at, moment);
        drop(mounted);
        let Err(why) = outcome else {
            cuts.good += 1;
            continue;
        };
        if keep && cuts.kept.is_none() {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crash-{}.img", kind.name()));
            cut.write(&kept)?;
            cuts.kept = Some(kept);
        }
        let common: String = why.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
        cuts.bad.entry(common).or_insert_with(|| (0, format!("at entry {moment}: {why}"))).0 += 1;
    }
    Ok(cuts)
}

/// Half of them anywhere, half right before a flush returned, when most is at stake. In order.
fn moments(record: &Record, random: &mut Random, points: usize) -> Result<Vec<usize>, String> {
    let begin =
        record.entries.iter().position(|entry| matches!(entry, Entry::Mark(_))).ok_or("the record has no mark")?;
    let flushes: Vec<usize> =
        (begin..record.entries.len()).filter(|at| matches!(record.entries[*at], Entry::Flush)).collect();
    if flushes.is_empty() {
        return Err("nothing was flushed at all".to_owned());
    }
    let anywhere = (record.entries.len() - begin) as u64;
    let pick = |n: usize| match n % 2 {
        0 => begin + random.below(anywhere) as usize + 1,
        _ => flushes[random.below(flushes.len() as u64) as usize],
    };
    let mut moments: Vec<usize> = (0..points).map(pick).collect();
    moments.sort_unstable();
    Ok(moments)
}

/// One image, the same each time it is written.
struct Cut<'a> {
    disk: &'a Sparse,
    record: &'a Record,
    /// The writes after the last flush.
    after: Vec<(u64, &'a Range<usize>)>,
    seed: u64,
}

impl Cut<'_> {
    fn write(&self, image: &Path) -> Result<(), String> {
        let write = || -> io::Result<()> {
            let file = File::create(image)?;
            self.disk.save(&file)?;
            self.overlay(&file)
        };
        write().map_err(|e| format!("{}: {e}", image.display()))
    }

    fn overlay(&self, file: &File) -> io::Result<()> {
        let mut random = Random::new(self.seed);
        let left = LEFT[random.below(LEFT.len() as u64) as usize];
        for (n, (at, bytes)) in self.after.iter().enumerate() {
            let last = n + 1 == self.after.len();
            let percent = match left {
                Left::None => 0,
                Left::Half => 50,
                Left::Most => 90,
                Left::All | Left::LastTorn => 100,
            };
            let whole = random.percent(percent);
            let torn = matches!(left, Left::LastTorn) && last || matches!(left, Left::Half) && random.percent(16);
            for (sector, content) in self.record.bytes(bytes).chunks(SECTOR).enumerate() {
                if if torn { random.percent(50) } else { whole } {
                    file.write_all_at(content, at + (sector * SECTOR) as u64)?;
                }
            }
        }
        Ok(())
    }
}
