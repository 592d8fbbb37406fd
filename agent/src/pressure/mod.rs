//! Watches memory and disk: shortage on this host, and pods over their limits.
//!
//!     every ten seconds while pods are here, and when the kernel tells that processes wait for memory:
//!     gauge -> judge PURE, thresholds PURE -> Strain -> the loop ends who has to go, the node's conditions say why
//!
//! Measured are the disks' and the memory's levels and the number of processes, which costs nothing; directories and
//! containers only of pods that are limited, or when somebody has to leave.
//!
//! Where the disk is short, `course` PURE: the plan removes dead containers, unused images go, then one pod, and what
//! it had is waited for before the next.

mod course;
mod gauge;
mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::config::Config;
use crate::facts::naming::{hosts_file, resolver_file, volume_dir};
use crate::facts::seen::{self, PodSeen};
use crate::facts::shown::Shown;
use crate::facts::strain::{LowDisk, Short, Strain};
use crate::facts::thresholds::{Level, Signal, Threshold};
use crate::facts::waiting::{Dismissal, Dismissed};
use crate::facts::wanted::Wanted;
use crate::host::files;
use crate::host::tree::{self, TreeSize};
use crate::images;
use crate::plan::admission::leaves;
use crate::runtime::docker::Docker;
use course::{Course, CourseStep};
use gauge::Alarm;
use judge::{Disks, Measures, PodTaken, Taken};

/// As a kubelet looks.
const LOOK: Duration = Duration::from_secs(10);
/// While something is on its way out.
const LOOK_SOON: Duration = Duration::from_secs(2);
/// A kernel that rings all the time is heard so often.
const REST: Duration = Duration::from_secs(1);
/// Measuring directories takes at most one part in `SHARE` of the time.
const SHARE: u32 = 20;
/// The node reports a shortage for this time after its end: a pod that came back at once would be evicted at once.
/// Together with the time between two looks this is less than a minute.
const SETTLES: Duration = Duration::from_secs(40);

/// The facts about this host that evictions depend on.
pub struct EvictionSettings {
    pub data_dir: String,
    pub thresholds: Vec<Threshold>,
}

impl EvictionSettings {
    pub fn of(config: &Config) -> EvictionSettings {
        EvictionSettings { data_dir: config.data_dir.clone(), thresholds: config.eviction_hard.clone() }
    }
}

struct Room {
    docker: Arc<Docker>,
    about: Arc<EvictionSettings>,
    strain: Strain,
    /// When each was seen last.
    short: BTreeMap<Short, Instant>,
    begun: Instant,
    course: Course,
    /// Directories are not measured before then.
    measures_at: Instant,
    /// Said once: no pod takes what is short.
    in_vain: bool,
}

/// Ends with the loop.
pub async fn run(
    docker: Arc<Docker>,
    about: EvictionSettings,
    mut shown: watch::Receiver<Arc<Shown>>,
    out: watch::Sender<Arc<Strain>>,
) {
    let alarm = Alarm::open();
    let begun = Instant::now();
    let mut room = Room {
        docker,
        about: Arc::new(about),
        strain: Strain::default(),
        short: BTreeMap::new(),
        begun,
        course: Course::default(),
        measures_at: begun,
        in_vain: false,
    };
    let mut next = begun + LOOK;
    let mut rested = begun;
    loop {
        let seen = shown.borrow_and_update().clone();
        let idle = seen.desired.pods.is_empty() && room.strain == Strain::default();
        tokio::select! {
            changed = shown.changed(), if idle => {
                if changed.is_err() {
                    return;
                }
                next = next.max(Instant::now() + REST);
                continue;
            }
            () = sleep_until(next), if !idle => {}
            () = async { sleep_until(rested).await; alarm.rings().await }, if !idle => {}
        }
        let seen = shown.borrow_and_update().clone();
        let waits = room.look(&seen).await;
        publish(&out, &room.strain);
        rested = Instant::now() + REST;
        next = Instant::now() + if waits { LOOK_SOON } else { LOOK };
    }
}

fn publish(out: &watch::Sender<Arc<Strain>>, strain: &Strain) {
    out.send_if_modified(|was| {
        let differs = **was != *strain;
        if differs {
            *was = Arc::new(strain.clone());
        }
        differs
    });
}

impl Room {
    /// Whether something is on its way out.
    async fn look(&mut self, shown: &Shown) -> bool {
        self.strain.evicted.retain(|uid, _| shown.desired.pods.contains_key(uid));
        let met = self.met().await;
        let pods = seen::group(&shown.world.containers);
        let here = shown.desired.pods.values().filter_map(|wanted| Some((&**wanted, pods.get(&wanted.name.uid)?)));
        let candidates: Vec<(&Wanted, &PodSeen)> = here.filter(|(wanted, pod)| self.may_leave(wanted, pod)).collect();
        let left = self.end_those_over_their_limits(&candidates).await;
        let Some((first, _)) = met.first() else {
            self.course.over();
            self.in_vain = false;
            return false;
        };
        let of_disk = met.iter().any(|(threshold, _)| threshold.signal.short() == Short::Disk);
        let memory_first = first.signal.short() != Short::Disk;
        let is_here = |uid: &str| pods.contains_key(uid) || shown.world.held_volumes.contains(uid);
        let at_work = !shown.world.busy.is_empty();
        let step = self.course.step(self.now_ms(), of_disk && !memory_first, is_here, at_work);
        let met = match step {
            CourseStep::Wait => return true,
            // The levels are looked at again: what went may be enough.
            CourseStep::Images => {
                images::free_unused(&self.docker, shown).await;
                self.met().await
            }
            CourseStep::Choose => met,
        };
        if step == CourseStep::Images {
            return !met.is_empty();
        }
        if !left {
            self.choose(&met, &candidates).await;
        }
        false
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the met thresholds, and updates the node's pressure conditions.
    async fn met(&mut self) -> Vec<(Threshold, Level)> {
        let levels = self.levels().await;
        self.note_low_disks(&levels);
        let met = judge::met(&self.about.thresholds, &levels);
        let now = Instant::now();
        self.short.extend(met.iter().map(|(threshold, _)| (threshold.signal.short(), now)));
        self.short.retain(|_, since| now.duration_since(*since) < SETTLES);
        let short: BTreeSet<Short> = self.short.keys().copied().collect();
        if short != self.strain.short {
            match short.is_empty() {
                true => log::info!("this host has enough of memory, disk and processes again"),
                false => log::warn!("this host is short of {short:?}: {levels:?}"),
            }
            self.strain.short = short;
        }
        met
    }

    /// Notes the disks near their end. Two paths on one disk are one disk.
    fn note_low_disks(&mut self, levels: &BTreeMap<Signal, Level>) {
        let root = self.docker.root().filter(|root| !gauge::same_disk(&self.about.data_dir, root));
        let places = [
            (Some(self.about.data_dir.clone()), [Signal::NodeDisk, Signal::NodeFiles]),
            (root, [Signal::ImageDisk, Signal::ImageFiles]),
        ];
        let mut low = Vec::new();
        for (path, signals) in places {
            let Some(path) = path else { continue };
            for (signal, inodes) in signals.into_iter().zip([false, true]) {
                let Some(level) = levels.get(&signal).filter(|level| level.capacity > 0) else { continue };
                let percent = level.available.saturating_mul(100) / level.capacity;
                let was = self.strain.low.iter().find(|low| low.path == path && low.inodes == inodes);
                low.extend(LowDisk::note(&path, inodes, percent, was));
            }
        }
        self.strain.low = low;
    }

    /// Measuring pauses for a multiple of its own duration: a tree may be large, and other work needs the time.
    async fn end_those_over_their_limits(&mut self, candidates: &[(&Wanted, &PodSeen<'_>)]) -> bool {
        let begun = Instant::now();
        if begun < self.measures_at {
            return false;
        }
        let mut left = false;
        for (wanted, pod) in candidates {
            let Some(measures) = Measures::of(wanted) else { continue };
            let taken = self.measure(wanted, pod, &measures).await;
            if let Some(text) = judge::over(wanted, &taken) {
                self.evict(wanted, Dismissed::Evicted, text);
                left = true;
            }
        }
        self.measures_at = Instant::now() + begun.elapsed() * SHARE;
        left
    }

    /// Evicts one pod at a time: the freed resources may be enough for all remaining pods.
    async fn choose(&mut self, met: &[(Threshold, Level)], candidates: &[(&Wanted, &PodSeen<'_>)]) {
        let root = self.docker.root();
        let disks = match root.is_none_or(|root| gauge::same_disk(&self.about.data_dir, &root)) {
            true => Disks::One,
            false => Disks::Two,
        };
        for (threshold, level) in met {
            let of_disk = threshold.signal.short() == Short::Disk;
            let mut all = Vec::with_capacity(candidates.len());
            for (wanted, pod) in candidates {
                let mut measures = if of_disk { Measures::all(wanted) } else { Measures::default() };
                measures.files = matches!(threshold.signal, Signal::NodeFiles | Signal::ImageFiles);
                all.push((*wanted, self.measure(wanted, pod, &measures).await));
            }
            if let Some(victim) = judge::victim((*threshold, *level), disks, &all) {
                let text = judge::message((*threshold, *level), victim);
                self.in_vain = false;
                return self.evict(victim.0, Dismissed::Displaced, text);
            }
        }
        if !std::mem::replace(&mut self.in_vain, true) {
            log::warn!("no pod takes what this host is short of, so none is evicted: make room yourself");
        }
    }

    /// Only who runs leaves.
    fn may_leave(&self, wanted: &Wanted, pod: &PodSeen<'_>) -> bool {
        let over = wanted.pod.status.terminal() || wanted.pod.metadata.deletion_timestamp.is_some();
        let runs = seen::members(&pod.runs).any(|run| run.seen.runs());
        leaves(wanted) && !over && runs && !self.strain.evicted.contains_key(&wanted.name.uid)
    }

    fn evict(&mut self, wanted: &Wanted, kind: Dismissed, text: String) {
        log::warn!("{}/{} is evicted: {text}", wanted.name.namespace, wanted.name.name);
        self.course.evicted(&wanted.name.uid, self.now_ms());
        self.strain.evicted.insert(wanted.name.uid.clone(), Dismissal::evicted(kind, text));
    }

    async fn levels(&self) -> BTreeMap<Signal, Level> {
        let mut levels: BTreeMap<Signal, Level> =
            gauge::memory().map(|level| (Signal::Memory, level)).into_iter().collect();
        levels.extend(gauge::processes().map(|level| (Signal::Processes, level)));
        let places = [
            (Some(self.about.data_dir.clone()), [Signal::NodeDisk, Signal::NodeFiles]),
            (self.docker.root(), [Signal::ImageDisk, Signal::ImageFiles]),
        ];
        for (path, [disk, files]) in places {
            // A file system without a file count, such as btrfs, is never short of files.
            if let Some((bytes, count)) = path.and_then(|path| gauge::disk(&path)) {
                levels.insert(disk, bytes);
                levels.extend((count.capacity > 0).then_some((files, count)));
            }
        }
        levels
    }

    async fn measure(&self, wanted: &Wanted, pod: &PodSeen<'_>, measures: &Measures) -> PodTaken {
        let mut taken = PodTaken::default();
        for name in &measures.volumes {
            taken.volumes.insert(name.clone(), measure(volume_dir(&self.about.data_dir, &wanted.name.uid, name)).await);
        }
        let mut mounted = BTreeSet::new();
        if measures.containers {
            let (data_dir, uid) = (&self.about.data_dir, &wanted.name.uid);
            mounted.extend([hosts_file(data_dir, uid), resolver_file(data_dir, uid)]);
            let messages = seen::members(&pod.runs).filter_map(|run| run.tag.own_message_file(data_dir));
            mounted.extend(messages.map(str::to_owned));
        }
        for run in seen::members(&pod.runs).filter(|run| run.seen.runs()) {
            // Only an engine elsewhere has groups that nobody finds here; then it says itself.
            let usage = match files::container(&run.seen.id) {
                Some(usage) => Some(usage),
                None => self.docker.usage(&run.seen.id).await,
            };
            let processes = files::processes(&run.seen.id).unwrap_or(0);
            let memory = usage.map_or(0, |usage| usage.working_set);
            let mut own = Taken { memory, processes, ..Taken::default() };
            if measures.containers
                && let Some(layer) = self.docker.layer(&run.seen.id).await
            {
                let files = match layer.folder.filter(|_| measures.files) {
                    Some(folder) => measure(folder).await.files,
                    None => 0,
                };
                let log = layer.log.map_or(0, |path| gauge::log(&path));
                own.disk = TreeSize { bytes: layer.bytes.saturating_add(log), files };
                mounted.extend(layer.mounted);
            }
            taken.containers.insert(run.tag.container.clone(), own);
        }
        taken.mounted = gauge::files(&mounted);
        taken
    }
}

/// A tree that cannot be looked at takes nothing.
async fn measure(folder: String) -> TreeSize {
    spawn_blocking(move || tree::measure(Path::new(&folder))).await.unwrap_or_default()
}
