//! A real engine, through Docker's API. The only room that knows bollard.
//!
//!     connection: connect lazily, negotiate the version once, forget the connection when the engine does not answer
//!     dialect (PURE): which engine answers, what its words mean · inspect: containers in Docker's words
//!     listing: one call for all, an inspect only for what an event or a new state made stale (`cache`) -> Seen
//!     create (PURE): ContainerConfig -> Docker's JSON · image: look up, pull, credentials
//!         · ready: network and pause image
//!     pod_files: what its containers share with a sandbox
//!     volumes, memory: what pods have on this host · claim_directory: made once, and marked
//!         · reclaim: directories that are given up · content: files of configuration, exchanged whole
//!         · volatile: what is in memory has a size
//!     check: exec and TCP probes · get: those of HTTP, hooks, too · grpc · logs, exec (multiplexed PURE), reach: for
//!         people · usage: figures
//!     stock: all images, which of them were fetched, archives · about: of the engine itself
//!     watch: engine events and the heartbeat

mod about;
mod cache;
mod check;
mod claim_directory;
mod connection;
mod content;
mod create;
mod credentials;
mod dialect;
pub mod exec;
mod file_variables;
mod get;
mod grpc;
mod image;
mod inspect;
mod listing;
pub mod logs;
mod memory;
mod multiplexed;
mod owner;
mod plugged;
mod pod_files;
pub mod reach;
mod ready;
mod reclaim;
pub mod stock;
mod subpath;
pub mod usage;
mod volatile;
mod volumes;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bollard::models::ContainerUpdateBody;
use bollard::query_parameters::{CreateContainerOptions, KillContainerOptions, RemoveContainerOptions};

use super::Runtime;
use crate::facts::engine::{
    Belongings, Check, CheckOutcome, ContainerConfig, Failure, Image, Limits, NamedVolume, Purpose, SeenContainer,
};
use crate::facts::logins::Login;
use crate::facts::naming::Tag;
use crate::host::disks;
pub use about::Engine;
use connection::held;
pub use connection::{Docker, Settings};

impl Runtime for Docker {
    async fn list(&self) -> Result<Vec<SeenContainer>, Failure> {
        self.list_containers().await
    }

    async fn volumes(&self) -> Result<Belongings, Failure> {
        self.list_volumes().await
    }

    async fn contents(&self, paths: &BTreeSet<String>) -> Result<BTreeMap<String, String>, Failure> {
        Ok(content::stamps(paths))
    }

    async fn make_volumes(&self, uid: &str, volumes: &[NamedVolume]) -> Result<(), Failure> {
        self.create_volumes(uid, volumes).await
    }

    async fn remove_volumes(&self, uid: &str) -> Result<(), Failure> {
        self.delete_volumes(uid).await
    }

    async fn free_volumes(&self, uid: &str) -> Result<(), Failure> {
        Docker::free_volumes(self, uid).await
    }

    async fn image(&self, reference: &str) -> Result<Option<Image>, Failure> {
        self.find_image(reference).await
    }

    async fn pull(&self, reference: &str, logins: &[Login]) -> Result<(), Failure> {
        let _turn = if self.settings.serial_pulls { Some(self.pulling.lock().await) } else { None };
        // Earlier pulls may have filled the disk.
        if let Some(why) = self.too_full() {
            return Err(Failure::Registry(why));
        }
        let before = self.ids().await?;
        if !logins.is_empty() {
            let id = self.find_image(reference).await?.map(|image| image.id).unwrap_or_default();
            self.change_record(|record| record.begin(reference, &id, &before));
        }
        let login = match image::in_time(self.pull_image(reference, logins)).await {
            Ok(login) => login,
            Err(failure) => {
                self.change_record(|record| record.fail(reference));
                return Err(failure);
            }
        };
        if let Some(image) = self.find_image(reference).await? {
            self.change_record(|record| {
                record.pulled(&image.id, reference, &before, login);
                record.fetched(&image.id, reference, &before);
            });
        }
        Ok(())
    }

    async fn load(&self, reference: &str) -> Result<bool, Failure> {
        Ok(self.ask_archives(reference).await)
    }

    async fn make_ready(&self) -> Result<(), Failure> {
        self.prepare().await
    }

    async fn create(&self, config: &ContainerConfig) -> Result<String, Failure> {
        self.check_claims(config).await?;
        volumes::make_files(&config.files)?;
        volumes::write_texts(&config.texts)?;
        let client = self.client().await?;
        let pause = held(&self.ready).as_ref().map(|ready| (ready.asked.clone(), ready.pause.clone()));
        let profile = volumes::seccomp_profile(config)?;
        let mut terms = create::Terms {
            seccomp: profile.as_deref(),
            recursive: is_recursive(&client),
            address: None,
            dialect: self.dialect(),
        };
        let config = &*self.with_volumes_of_before(config).await?;
        let filled = self.with_file_variables(config).await?;
        let filled = self.with_pod_files(filled);
        let bound = self.with_parts_bound(&filled, terms.recursive).await?;
        // The lock is held until the container is made: from then on its label shows the address as taken.
        let mut given = self.gives_address(config).await;
        if let Some(last) = &mut given {
            let address = self.free_address(&client, config, **last).await?;
            (**last, terms.address) = (Some(address), Some(address));
        }
        let mut body = create::body(&create::joined(&bound, |name| self.called(name)), terms);
        if let Some((_, name)) = pause.filter(|(asked, _)| *asked == config.image) {
            body.image = Some(name);
        }
        let options = CreateContainerOptions { name: Some(config.name.clone()), ..Default::default() };
        let spare = create::without_working_dir(&body);
        let mut made = self.change("create", client.create_container(Some(options.clone()), body)).await;
        // It could never start, which a kubelet's engine says at the start.
        if let (Err(Failure::Refused(text)), Some(spare)) = (&made, spare)
            && create::is_no_working_dir(text)
        {
            made = self.change("create", client.create_container(Some(options), spare)).await;
        }
        match made {
            Ok(made) => {
                // A container that joins this container before the next listing must find it, too.
                if let Some(name) = Tag::of(&config.labels).map(|tag| tag.name()).filter(|name| *name != config.name) {
                    held(&self.renamed).insert(name, (made.id.clone(), config.name.clone()));
                }
                Ok(made.id)
            }
            Err(Failure::NotFound(text)) => {
                *held(&self.ready) = None;
                volumes::remove_files(&config.files)?;
                Err(Failure::NotFound(text))
            }
            // Each further try has a number of its own, and would leave files behind.
            Err(Failure::Refused(text)) => {
                volumes::remove_files(&config.files)?;
                Err(Failure::Refused(text))
            }
            Err(Failure::Conflict(text)) => Err(self.whose_name(&client, &config.name, text).await),
            Err(failure) => Err(failure),
        }
    }

    async fn start(&self, id: &str) -> Result<(), Failure> {
        let client = self.client().await?;
        held(&self.cache).remove(id);
        let started = self.change("start", client.start_container(id, None)).await;
        held(&self.cache).remove(id);
        if let Err(Failure::NotFound(_)) = &started {
            // Somebody removed the network of the pods, as a prune does where no pod runs.
            *held(&self.ready) = None;
        }
        started?;
        // What starts in a sandbox finds its address in its files at once.
        match self.look(&client, id, "running").await? {
            Some((_, Some(why))) => self.end_unplugged(&client, id, why).await,
            _ => Ok(()),
        }
    }

    async fn kill(&self, id: &str, signal: &str) -> Result<(), Failure> {
        let client = self.client().await?;
        let options = KillContainerOptions { signal: signal.to_owned() };
        match self.change("kill", client.kill_container(id, Some(options))).await {
            Err(Failure::Conflict(text)) => Err(Failure::NotFound(text)), // 409: it does not run.
            other => other,
        }
    }

    async fn unpause(&self, id: &str) -> Result<(), Failure> {
        let client = self.client().await?;
        match self.change("unpause", client.unpause_container(id)).await {
            // It is not paused any more.
            Err(failure) if dialect::is_not_paused(&failure) => Ok(()),
            other => other,
        }
    }

    async fn resize(&self, id: &str, limits: &Limits) -> Result<(), Failure> {
        let client = self.client().await?;
        let some = |amount: i64| (amount > 0).then_some(amount);
        let body = ContainerUpdateBody {
            cpu_shares: some(limits.cpu_shares),
            cpu_quota: some(limits.cpu_quota_us),
            cpu_period: some(limits.cpu_period_us),
            memory: some(limits.memory_bytes),
            // As where it is made: no swap beside it.
            memory_swap: some(limits.memory_bytes),
            ..Default::default()
        };
        let resized = self.change("resize", client.update_container(id, body)).await;
        held(&self.cache).remove(id);
        match resized {
            Err(failure) if dialect::has_no_such_call(&failure) => {
                Err(Failure::Refused("this engine cannot change the limits of a container that runs".to_owned()))
            }
            resized => resized,
        }
    }

    async fn remove(&self, id: &str) -> Result<(), Failure> {
        let client = self.client().await?;
        let message = self.message_file_of(&client, id).await?;
        let options = RemoveContainerOptions { v: true, ..Default::default() };
        match self.change("remove", client.remove_container(id, Some(options))).await {
            Ok(()) | Err(Failure::NotFound(_)) => {
                held(&self.cache).remove(id);
                self.remove_leftovers(&client).await;
                volumes::remove_files(message.as_slice())
            }
            // The sandbox is removed with its last dependent container.
            Err(failure) if dialect::has_dependents(&failure) => {
                held(&self.leftovers).insert(id.to_owned());
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    async fn check(
        &self,
        id: &str,
        check: &Check,
        purpose: Purpose,
        at_most: Duration,
    ) -> Result<CheckOutcome, Failure> {
        self.run_check(id, check, purpose, at_most).await
    }
}

/// At the first start of an agent that keeps records, adopts the existing directories of claims: an earlier agent made
/// them.
pub fn adopt_claims(data_dir: &str) -> std::io::Result<()> {
    claim_directory::ClaimDirectories::new(data_dir).adopt_all()
}

/// Records the disks of the directories of claims of which an earlier agent recorded none.
pub async fn record_disks(data_dir: String) {
    for path in claim_directory::ClaimDirectories::new(&data_dir).without_disk() {
        let (own, data_dir) = (path.clone(), data_dir.clone());
        let work = move || claim_directory::ClaimDirectories::new(&data_dir).check(&own);
        match disks::work(&path, work).await {
            // A pod that uses it says what is wrong.
            Ok(Ok(()) | Err(_)) => {}
            Err(why) => log::warn!("record the disk of {}: {why}", path.display()),
        }
    }
}

/// A directory that was restored for its claim is taken as it is.
pub fn take_claim(data_dir: &str, path: &Path) -> Result<(), String> {
    claim_directory::ClaimDirectories::new(data_dir).take(path).map_err(|failure| failure.text().to_owned())
}

/// Since API 1.44.
fn is_recursive(client: &bollard::Docker) -> bool {
    let version = client.client_version();
    (version.major_version, version.minor_version) >= (1, 44)
}
