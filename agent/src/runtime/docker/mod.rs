//! A real engine, through Docker's API. The only room that knows bollard.
//!
//!     connection: connect lazily, negotiate the version once, forget the connection when the engine does not answer
//!     listing: one call for all, an inspect only for what an event or a new state made stale (`cache`) -> Seen
//!     create (PURE): ContainerConfig -> Docker's JSON · image: look up, pull, credentials · ready: network and pause image
//!     check: exec, HTTP and TCP probes · logs: for people · watch: engine events and the heartbeat

mod cache;
mod check;
mod connection;
mod create;
mod credentials;
mod image;
mod listing;
pub mod logs;
mod ready;
mod volumes;
mod watch;

use std::collections::BTreeSet;
use std::time::Duration;

use bollard::query_parameters::{CreateContainerOptions, KillContainerOptions, RemoveContainerOptions};

use super::{Check, ContainerConfig, Failure, Image, Outcome, Runtime, Seen, Volume};
use connection::held;
pub use connection::{Docker, Settings};
pub use ready::BRIDGE;

impl Runtime for Docker {
    async fn list(&self) -> Result<Vec<Seen>, Failure> {
        self.list_containers().await
    }

    async fn volumes(&self) -> Result<BTreeSet<String>, Failure> {
        self.list_volumes().await
    }

    async fn make_volumes(&self, uid: &str, volumes: &[Volume]) -> Result<(), Failure> {
        self.create_volumes(uid, volumes).await
    }

    async fn remove_volumes(&self, uid: &str) -> Result<(), Failure> {
        self.delete_volumes(uid).await
    }

    async fn image(&self, reference: &str) -> Result<Option<Image>, Failure> {
        self.find_image(reference).await
    }

    async fn pull(&self, reference: &str) -> Result<(), Failure> {
        self.pull_image(reference).await
    }

    async fn make_ready(&self) -> Result<(), Failure> {
        self.prepare().await
    }

    async fn create(&self, config: &ContainerConfig) -> Result<String, Failure> {
        volumes::make_files(&config.files)?;
        let client = self.client().await?;
        let pause = held(&self.ready).as_ref().map(|ready| (ready.asked.clone(), ready.pause.clone()));
        let mut body = create::body(config);
        if let Some((_, name)) = pause.filter(|(asked, _)| *asked == config.image) {
            body.image = Some(name);
        }
        let options = CreateContainerOptions { name: Some(config.name.clone()), ..Default::default() };
        let made = self.change("create", client.create_container(Some(options), body)).await;
        match made {
            Ok(made) => Ok(made.id),
            Err(Failure::NotFound(text)) => {
                *held(&self.ready) = None;
                Err(Failure::NotFound(text))
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
        started
    }

    async fn kill(&self, id: &str, signal: &str) -> Result<(), Failure> {
        let client = self.client().await?;
        let options = KillContainerOptions { signal: signal.to_owned() };
        match self.change("kill", client.kill_container(id, Some(options))).await {
            Err(Failure::Conflict(text)) => Err(Failure::NotFound(text)), // 409: it does not run.
            other => other,
        }
    }

    async fn remove(&self, id: &str) -> Result<(), Failure> {
        let client = self.client().await?;
        let options = RemoveContainerOptions { v: true, ..Default::default() };
        match self.change("remove", client.remove_container(id, Some(options))).await {
            Ok(()) | Err(Failure::NotFound(_)) => {
                held(&self.cache).remove(id);
                Ok(())
            }
            Err(failure) => Err(failure),
        }
    }

    async fn check(&self, id: &str, check: &Check, at_most: Duration) -> Result<Outcome, Failure> {
        self.run_check(id, check, at_most).await
    }
}
