//! Watches memory and disk: shortage on this host, and pods over their limits.
//!
//!     every ten seconds while pods are here, and when the kernel tells that processes wait for memory:
//!     gauge -> judge PURE, thresholds PURE -> Strain -> the loop ends who has to go, the node's conditions say why
//!
//! Measured are the disks' and the memory's levels and the number of processes, which costs nothing; directories and
//! containers only of pods that are limited, or when somebody has to leave.

mod gauge;
mod judge;
pub mod thresholds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

use crate::config::Config;
use crate::desired::Wanted;
use crate::figures::files;
use crate::naming::volume_dir;
use crate::plan::admission::leaves;
use crate::plan::seen::{self, PodSeen};
use crate::plan::{Dismissal, Dismissed, Short, Strain};
use crate::runtime::docker::Docker;
use crate::sync::Shown;
use gauge::Alarm;
use judge::{Measures, PodTaken, Taken};
use thresholds::{Level, Signal, Threshold};

/// As a kubelet looks.
const LOOK: Duration = Duration::from_secs(10);
/// A kernel that rings all the time is heard so often.
const REST: Duration = Duration::from_secs(1);
/// To measure takes at most one part of so many of the time.
const SHARE: u32 = 20;
/// So long a node says that it is short after it was: what comes back at once would leave at once.
const SETTLES: Duration = Duration::from_secs(300);

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
}

/// Ends with the loop.
pub async fn run(
    docker: Arc<Docker>,
    about: EvictionSettings,
    mut shown: watch::Receiver<Arc<Shown>>,
    out: watch::Sender<Arc<Strain>>,
) {
    let alarm = Alarm::open();
    let mut room = Room { docker, about: Arc::new(about), strain: Strain::default(), short: BTreeMap::new() };
    let mut next = Instant::now() + LOOK;
    let mut rested = Instant::now();
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
        let begun = Instant::now();
        let seen = shown.borrow_and_update().clone();
        room.look(&seen).await;
        publish(&out, &room.strain);
        let took = begun.elapsed();
        rested = Instant::now() + REST.max(took * SHARE);
        next = Instant::now() + LOOK.max(took * SHARE);
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
    async fn look(&mut self, shown: &Shown) {
        self.strain.evicted.retain(|uid, _| shown.desired.pods.contains_key(uid));
        let levels = self.levels().await;
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
        let pods = seen::group(&shown.world.containers);
        let here = shown.desired.pods.values().filter_map(|wanted| Some((&**wanted, pods.get(&wanted.name.uid)?)));
        let candidates: Vec<(&Wanted, &PodSeen)> = here.filter(|(wanted, pod)| self.may_leave(wanted, pod)).collect();
        let mut left = false;
        for (wanted, pod) in &candidates {
            let Some(measures) = Measures::of(wanted) else { continue };
            let taken = self.measure(wanted, pod, &measures).await;
            if let Some(text) = judge::over(wanted, &taken) {
                self.evict(wanted, Dismissed::Evicted, text);
                left = true;
            }
        }
        // One at a time: what it leaves behind may be enough for all others.
        let ends = |uid: &String| pods.get(uid).is_some_and(|pod| pod.runs.iter().any(|run| run.seen.runs()));
        if let Some(first) = met.first().filter(|_| !left && !self.strain.evicted.keys().any(ends)) {
            self.make_room(*first, candidates).await;
        }
    }

    async fn make_room(&mut self, (threshold, level): (Threshold, Level), candidates: Vec<(&Wanted, &PodSeen<'_>)>) {
        let mut all = Vec::with_capacity(candidates.len());
        for (wanted, pod) in candidates {
            let of_disk = threshold.signal.short() == Short::Disk;
            let measures = if of_disk { Measures::all(wanted) } else { Measures::default() };
            all.push((wanted, self.measure(wanted, pod, &measures).await));
        }
        if let Some(victim) = judge::victim(threshold.signal, &all) {
            let text = judge::message((threshold, level), victim);
            self.evict(victim.0, Dismissed::Displaced, text);
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
            // A file system that does not count its files, as btrfs, is never short of them.
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
            let path = volume_dir(&self.about.data_dir, &wanted.name.uid, name);
            let used = spawn_blocking(move || gauge::tree(&path, u64::MAX)).await.unwrap_or(0);
            taken.volumes.insert(name.clone(), used);
        }
        for run in seen::members(&pod.runs).filter(|run| run.seen.runs()) {
            // Only an engine elsewhere has groups that nobody finds here; then it says itself.
            let usage = match files::container(&run.seen.id) {
                Some(usage) => Some(usage),
                None => self.docker.usage(&run.seen.id).await,
            };
            let processes = files::processes(&run.seen.id).unwrap_or(0);
            let mut own = Taken { memory: usage.map_or(0, |usage| usage.working_set), disk: 0, processes };
            if measures.containers
                && let Some((layer, log)) = self.docker.layer(&run.seen.id).await
            {
                own.disk = layer.saturating_add(log.map_or(0, |path| gauge::log(&path)));
            }
            taken.containers.insert(run.tag.container.clone(), own);
        }
        taken
    }
}
