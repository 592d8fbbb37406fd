//! The engine's version and settings, for `doctor` and the node's status.

use super::connection::Docker;
use super::dialect::Dialect;
use crate::facts::engine::Failure;

/// An engine's version and settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Engine {
    pub version: String,
    pub root: String,
    pub cgroup_driver: String,
    pub storage_driver: String,
    pub live_restore: bool,
    pub memory_limit: bool,
    pub cpu_quota: bool,
    pub pids_limit: bool,
}

impl Docker {
    pub async fn about(&self) -> Result<Engine, Failure> {
        let client = self.client().await?;
        let info = self.ask("ask who it is", client.info()).await?;
        Ok(Engine {
            version: format!("{} {}", self.dialect().word(), info.server_version.unwrap_or_default()),
            root: info.docker_root_dir.unwrap_or_default(),
            cgroup_driver: info.cgroup_driver.map(|driver| driver.to_string()).unwrap_or_default(),
            storage_driver: info.driver.unwrap_or_default(),
            // What Podman starts does not end with its service.
            live_restore: self.dialect() == Dialect::Podman || info.live_restore_enabled.unwrap_or_default(),
            memory_limit: info.memory_limit.unwrap_or(true),
            cpu_quota: info.cpu_cfs_quota.unwrap_or(true),
            pids_limit: info.pids_limit.unwrap_or(true),
        })
    }
}
