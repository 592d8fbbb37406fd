//! The interface to a container engine: `SeenContainer` in, `ContainerConfig` out. `docker` speaks to a real engine,
//! `fake` holds one in memory for the simulation.

pub mod conversation;
pub mod docker;
pub mod fake;
pub mod pause;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::facts::engine::{
    Belongings, Check, CheckOutcome, ContainerConfig, Failure, Image, Limits, NamedVolume, Purpose, SeenContainer,
};
use crate::facts::logins::Login;

/// One container engine. All calls may fail at any time, and a failed call may have happened all the same: the loop
/// looks again instead of believing. Calls that change something are safe to repeat.
#[allow(async_fn_in_trait)] // One thread, no dyn: the futures need not be Send.
pub trait Runtime {
    /// All containers with a label of ours, running or not; their termination messages are read (and kept) once they
    /// are dead.
    async fn list(&self) -> Result<Vec<SeenContainer>, Failure>;
    /// Of pods that have directories or engine volumes on this host.
    async fn volumes(&self) -> Result<Belongings, Failure>;
    /// The stamps of the volumes that the agent fills itself. A missing volume is left out.
    async fn contents(&self, paths: &BTreeSet<String>) -> Result<BTreeMap<String, String>, Failure>;
    /// Makes missing volumes. An existing directory keeps its content.
    async fn make_volumes(&self, uid: &str, volumes: &[NamedVolume]) -> Result<(), Failure>;
    /// Takes away all directories and engine volumes of a pod.
    async fn remove_volumes(&self, uid: &str) -> Result<(), Failure>;
    /// Takes away the volumes of a pod that has ended. What its containers left as their last words stays.
    async fn free_volumes(&self, uid: &str) -> Result<(), Failure>;

    async fn image(&self, reference: &str) -> Result<Option<Image>, Failure>;
    /// Tries these logins in order, then the host's login for the registry. A pull that has begun and does not end is
    /// given up.
    async fn pull(&self, reference: &str, logins: &[Login]) -> Result<(), Failure>;

    /// Loads an image that is not here from an archive of this host. False: none has it.
    async fn load(&self, reference: &str) -> Result<bool, Failure>;

    /// Makes the pod network and loads the pause image where they are missing. Must precede `create` of a sandbox.
    async fn make_ready(&self) -> Result<(), Failure>;
    /// Creates; does not start. A name that is taken is `Conflict` or `Taken`: the engine itself refuses a second
    /// instance.
    /// A missing image is `NotFound`.
    async fn create(&self, config: &ContainerConfig) -> Result<String, Failure>;
    async fn start(&self, id: &str) -> Result<(), Failure>;
    /// `signal` by name (`SIGTERM`) or number. A container that does not run is `NotFound`.
    async fn kill(&self, id: &str, signal: &str) -> Result<(), Failure>;
    /// Resumes a paused container. A container that is not paused is fine.
    async fn unpause(&self, id: &str) -> Result<(), Failure>;
    /// Changes the limits of a running container.
    async fn resize(&self, id: &str, limits: &Limits) -> Result<(), Failure>;
    /// Removes a container that does not run. A missing container is fine.
    async fn remove(&self, id: &str) -> Result<(), Failure>;

    /// A hook or a probe, at most that long.
    async fn check(
        &self,
        id: &str,
        check: &Check,
        purpose: Purpose,
        at_most: Duration,
    ) -> Result<CheckOutcome, Failure>;
}
