//! Figures of this host, its pods and containers, read only on request.
//!
//!     files, the engine -> Reading -> summary PURE: /stats/summary, /usage
//!                                     metrics PURE: /metrics, /metrics/resource, /metrics/cadvisor, /metrics/probes
//!     claims PURE         the file systems of claims, for /metrics and /stats/summary
//!     probes              what came of each probe, counted as it goes
//!     usage PURE          the kernel's texts
//!
//! Processor time only counts up: a rate takes two readings. The last ones are kept; where none is fresh enough, a
//! second one is made a moment after the first.

pub mod claims;
pub mod metrics;
pub mod probes;
pub mod summary;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::facts::engine::State;
use crate::facts::naming::{PodName, SANDBOX, Source, Tag};
use crate::facts::shown::Shown;
use crate::facts::usage::{Interface, Usage};
use crate::host::disks;
use crate::host::files::{self, Disk};
use crate::runtime::docker::Docker;
use claims::Claimed;

/// A rate is over at least so long; less would be noise.
const WINDOW: Duration = Duration::from_secs(1);
/// Volumes that have not said by then how full they are have no figures.
const VOLUMES: Duration = Duration::from_secs(2);
/// An older reading says what was, and not what is.
const OLD: Duration = Duration::from_secs(120);

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningContainer {
    pub id: String,
    pub namespace: String,
    /// As the API calls the pod.
    pub pod: String,
    pub uid: String,
    /// `POD`: its sandbox.
    pub container: String,
    /// The engine's name of it.
    pub name: String,
    pub image: String,
    pub started_ms: i64,
}

impl RunningContainer {
    pub fn is_sandbox(&self) -> bool {
        self.container == SANDBOX
    }
}

/// Everything at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    pub at: Instant,
    pub wall_ms: i64,
    pub host: Option<Usage>,
    pub disk: Option<Disk>,
    /// The block device of `disk`. Empty: the mount table names no device.
    pub device: String,
    /// In the order of their pods.
    pub containers: Vec<(RunningContainer, Usage)>,
    /// By the id of the sandbox.
    pub networks: Vec<(String, Vec<Interface>)>,
    /// The file systems of the pods' claims.
    pub volumes: Vec<(Claimed, Disk)>,
}

impl Reading {
    /// The usage of a container.
    pub fn of(&self, id: &str) -> Option<&Usage> {
        self.containers.iter().find(|(subject, _)| subject.id == id).map(|(_, usage)| usage)
    }
}

/// Two readings, and how long lies between them.
#[derive(Clone, Debug)]
pub struct Rates {
    pub before: Arc<Reading>,
    pub now: Arc<Reading>,
}

impl Rates {
    pub fn window(&self) -> Duration {
        self.now.at.duration_since(self.before.at)
    }

    /// Nanoseconds of processor time in a second. A container that is new, or was started again, counts from nothing.
    pub fn cpu(&self, before: Option<&Usage>, now: &Usage) -> u64 {
        let spent = now.cpu_ns.saturating_sub(before.map_or(now.cpu_ns, |before| before.cpu_ns));
        u64::try_from(u128::from(spent) * 1_000_000_000 / self.window().as_nanos().max(1)).unwrap_or(u64::MAX)
    }
}

/// The last readings: the newest, and one that is at least a window older.
#[derive(Debug, Default)]
pub struct LastReadings(Mutex<(LastReading, LastReading)>);

type LastReading = Option<Arc<Reading>>;

impl LastReadings {
    /// The earlier reading that a rate can begin with; the new reading replaces it.
    fn base(&self, now: &Arc<Reading>) -> Option<Arc<Reading>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = |reading: &Arc<Reading>| now.at.duration_since(reading.at);
        let fits = |reading: &Arc<Reading>| (WINDOW..OLD).contains(&age(reading));
        let (newest, older) = (kept.0.clone(), kept.1.clone());
        let base = newest.clone().filter(fits).or(older.filter(fits));
        if newest.as_ref().is_none_or(|newest| age(newest) >= WINDOW) {
            *kept = (Some(now.clone()), newest);
        }
        base
    }
}

/// Waits a moment where there was no reading that is fresh enough.
pub async fn rates<F: Future<Output = Reading>>(read: impl Fn() -> F, last: &LastReadings) -> Rates {
    let now = Arc::new(read().await);
    if let Some(before) = last.base(&now) {
        return Rates { before, now };
    }
    sleep(WINDOW).await;
    let later = Arc::new(read().await);
    last.base(&later);
    Rates { before: now, now: later }
}

/// As the API calls a pod.
pub fn in_api(pod: &PodName, node_name: &str) -> String {
    match pod.source {
        Source::File => format!("{}-{node_name}", pod.name),
        Source::Master => pod.name.clone(),
    }
}

/// The running containers, in the order of their pods.
pub fn subjects(shown: &Shown, node_name: &str) -> Vec<RunningContainer> {
    let mut all: Vec<RunningContainer> = shown
        .world
        .containers
        .iter()
        .filter_map(|seen| {
            let State::Running { started_ms } = seen.state else { return None };
            let tag = Tag::read(&seen.name, &seen.labels)?;
            let pod = in_api(&tag.pod, node_name);
            let (id, name, image) = (seen.id.clone(), seen.name.clone(), seen.image.clone());
            Some(RunningContainer {
                id,
                namespace: tag.pod.namespace,
                pod,
                uid: tag.pod.uid,
                container: tag.container,
                name,
                image,
                started_ms,
            })
        })
        .collect();
    all.sort_by(|a, b| (&a.namespace, &a.pod, &a.uid, &a.container).cmp(&(&b.namespace, &b.pod, &b.uid, &b.container)));
    all
}

/// The figures of each volume that answers: a volume with an absent server has no figures, and delays no other volume.
pub async fn volumes(claimed: Vec<Claimed>) -> Vec<(Claimed, Disk)> {
    let mut asked = JoinSet::new();
    for (at, claimed) in claimed.into_iter().enumerate() {
        asked.spawn(async move {
            let directory = claimed.directory.clone();
            let disk = disks::work(claimed.directory.as_ref(), move || files::disk(&directory)).await;
            (at, disk.ok().flatten().map(|disk| (claimed, disk)))
        });
    }
    let mut found = BTreeMap::new();
    // As requests are answered: what has not come by then is left out.
    let _ = timeout(VOLUMES, async {
        while let Some(done) = asked.join_next().await {
            found.extend(done.ok());
        }
    })
    .await;
    found.into_values().flatten().collect()
}

/// From the kernel's files; the engine is asked about a container whose files nobody finds.
pub async fn read(
    docker: &Docker,
    subjects: Vec<RunningContainer>,
    claimed: Vec<Claimed>,
    data_dir: &str,
    wall_ms: i64,
) -> Reading {
    let at = Instant::now();
    let data_dir = data_dir.to_owned();
    let from_files = move || {
        let found: Vec<(RunningContainer, Option<Usage>)> = subjects
            .into_iter()
            .map(|subject| {
                let usage = files::container(&subject.id);
                (subject, usage)
            })
            .collect();
        let networks = found.iter().filter(|(subject, _)| subject.is_sandbox());
        let networks = networks.map(|(subject, _)| (subject.id.clone(), files::network(&subject.id))).collect();
        (found, networks, files::host(), (files::disk(&data_dir), files::device(&data_dir)))
    };
    let volumes = volumes(claimed).await;
    let Ok((found, networks, host, (disk, device))) = tokio::task::spawn_blocking(from_files).await else {
        let (device, containers, networks) = Default::default();
        return Reading { at, wall_ms, host: None, disk: None, device, containers, networks, volumes };
    };
    let mut containers = Vec::with_capacity(found.len());
    for (subject, usage) in found {
        let usage = match usage {
            Some(usage) => Some(usage),
            None => docker.usage(&subject.id).await,
        };
        containers.extend(usage.map(|usage| (subject, usage)));
    }
    Reading { at, wall_ms, host, disk, device, containers, networks, volumes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: Instant, cpu_ns: u64) -> Reading {
        let host = Some(Usage { cpu_ns, ..Usage::default() });
        let (device, containers, networks, volumes) = Default::default();
        Reading { at, wall_ms: 0, host, disk: None, device, containers, networks, volumes }
    }

    #[test]
    fn a_rate_is_over_two_readings() {
        let (last, begun) = (LastReadings::default(), Instant::now());
        // Half a core.
        let at = |ms: u64| Arc::new(reading(begun + Duration::from_millis(ms), ms * 500_000));
        let window = |now: Arc<Reading>| last.base(&now).map(|before| Rates { before, now }.window());
        assert_eq!(window(at(0)), None, "the first waits for a second one");
        assert_eq!(window(at(1000)), Some(WINDOW));
        assert_eq!(window(at(11_000)), Some(Duration::from_secs(10)));
        // What is too fresh is passed over for the one before, and does not take its place.
        assert_eq!(window(at(11_100)), Some(Duration::from_millis(10_100)));
        assert_eq!(window(at(12_000)), Some(WINDOW));
        assert_eq!(window(at(12_000 + 1000 * OLD.as_secs())), None, "nor what is too old");
        let rates = Rates { before: at(0), now: at(4000) };
        assert_eq!(rates.cpu(rates.before.host.as_ref(), &rates.now.host.unwrap()), 500_000_000);
        // A new container counts from zero.
        assert_eq!(rates.cpu(None, &Usage { cpu_ns: 5, ..Usage::default() }), 0);
    }
}
