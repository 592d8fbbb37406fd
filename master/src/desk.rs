//! Where the problems of this cluster come together: the store's objects, and what the parts of this master know of
//! themselves. Whoever asks gets one look; nothing is kept.

use crate::adoption::Adoption;
use crate::authenticate::Authenticator;
use crate::cluster_keys::ClusterKeys;
use crate::gauges;
use crate::making::wall_clock;
use crate::problems::objects::Objects;
use crate::problems::own::Own;
use crate::problems::{self, Found, Summary, Zones};
use crate::secure_port::SecureState;
use crate::state;
use crate::store::{Store, locked};
use coracle_api::job::CronJob;
use coracle_api::meta::Time;
use coracle_api::strategy::cron;
use coracle_keeper::problem::Problem;
use coracle_keeper::ticks;
use coracle_program::zones;
use jiff::tz::TimeZone;
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A part of the master that tells problems of its own.
pub type Source = Box<dyn Fn() -> Vec<Problem> + Send + Sync>;

pub struct Desk {
    store: Arc<dyn Store>,
    data_dir: String,
    parts: DeskParts,
    /// Fixed after the start.
    more: Mutex<Vec<Source>>,
}

/// The parts that know something of themselves.
pub struct DeskParts {
    adoption: Arc<Adoption>,
    authenticator: Arc<Authenticator>,
    secure: Arc<SecureState>,
    keys: Result<Arc<ClusterKeys>, String>,
}

impl DeskParts {
    /// `keys`: or why they cannot be used.
    pub fn of(
        adoption: &Arc<Adoption>,
        authenticator: &Arc<Authenticator>,
        secure: &Arc<SecureState>,
        keys: Result<Arc<ClusterKeys>, String>,
    ) -> DeskParts {
        DeskParts { adoption: adoption.clone(), authenticator: authenticator.clone(), secure: secure.clone(), keys }
    }
}

impl Desk {
    pub fn new(store: Arc<dyn Store>, data_dir: &Path, parts: DeskParts) -> Desk {
        Desk { store, data_dir: data_dir.display().to_string(), parts, more: Mutex::default() }
    }

    /// One more part tells its problems.
    pub fn hear(&self, source: Source) {
        locked(&self.more).push(source);
    }

    /// What is wrong now, and when to look again though nothing changes.
    pub fn look(&self) -> (Summary, Option<Time>) {
        let (objects, found) = self.found();
        let wake_at = found.wake_at;
        (Summary::of(&objects, found), wake_at)
    }

    /// The page `/metrics/state`.
    pub fn gauges(&self) -> String {
        let (objects, found) = self.found();
        gauges::page(&objects, &found, &next_tick)
    }

    /// The page `/coracle/problems`.
    pub fn page(&self) -> String {
        // Texts, numbers and lists alone: they always become JSON.
        serde_json::to_string(&self.look().0).unwrap_or_default()
    }

    fn found(&self) -> (Objects, Found) {
        let objects = Objects::read(&*self.store);
        let zones: Zones<'_> = &|name| zone(name);
        let found = problems::problems(&objects, &self.own(), wall_clock(), zones);
        (objects, found)
    }

    fn own(&self) -> Own {
        let parts = &self.parts;
        let (keyless, certificates) = match &parts.keys {
            Ok(keys) => (None, keys.keepers_certificates()),
            Err(why) => (Some(why.clone()), Vec::new()),
        };
        Own {
            data_dir: self.data_dir.clone(),
            health: self.store.health(),
            secure: parts.secure.trouble(),
            issuers: parts.authenticator.troubles(),
            keyless,
            certificates,
            unadopted: state::unadopted(&Value::from(parts.adoption.unadopted())),
            more: locked(&self.more).iter().flat_map(|source| source()).collect(),
        }
    }
}

fn zone(name: &str) -> Option<TimeZone> {
    zones::zone(name).ok()
}

/// When a cron job is due after its last run, or after its creation.
fn next_tick(cron_job: &CronJob) -> Option<Time> {
    let schedule = cron::parse(&cron_job.spec.schedule).ok()?;
    let zone = zone(cron_job.spec.time_zone.as_deref().unwrap_or_default())?;
    let since = cron_job.status.last_schedule_time.or(cron_job.metadata.creation_timestamp)?;
    ticks::next(&schedule, &zone, since.0).map(Time)
}
