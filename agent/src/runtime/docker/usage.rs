//! The engine's statistics of a container, used if its cgroup is not at the usual place.

use bollard::query_parameters::{InspectContainerOptions, StatsOptions};
use futures_util::StreamExt;

use super::connection::Docker;
use crate::facts::usage::Usage;

/// A container's use of the engine's disk.
pub struct Layer {
    pub bytes: u64,
    /// Where its own files are, if the engine keeps them in a folder.
    pub folder: Option<String>,
    /// The file of its log.
    pub log: Option<String>,
    /// The files that the engine mounts in it by itself: hosts, hostname, resolv.conf. Containers in a pod share these
    /// files.
    pub mounted: Vec<String>,
}

impl Docker {
    /// The container's writable layer. The engine reads the whole directory tree, so this call must be rare.
    pub async fn layer(&self, container: &str) -> Option<Layer> {
        let client = self.client().await.ok()?;
        let options = InspectContainerOptions { size: true };
        let found = self.change("measure", client.inspect_container(container, Some(options))).await.ok()?;
        let bytes = u64::try_from(found.size_rw.unwrap_or(0)).unwrap_or(0);
        let folder = found.graph_driver.and_then(|driver| driver.data.get("UpperDir").cloned());
        let mounted = [found.hosts_path, found.hostname_path, found.resolv_conf_path].into_iter().flatten();
        Some(Layer {
            bytes,
            folder,
            log: found.log_path.filter(|path| !path.is_empty()),
            mounted: mounted.filter(|path| !path.is_empty()).collect(),
        })
    }

    /// None: it has gone, or the engine does not count.
    pub async fn usage(&self, container: &str) -> Option<Usage> {
        let client = self.client().await.ok()?;
        let options = StatsOptions { stream: false, one_shot: true };
        let first = async { client.stats(container, Some(options)).next().await.unwrap_or(Ok(Default::default())) };
        let found = self.ask("read figures", first).await.ok()?;
        let memory = found.memory_stats?;
        let figure = |name: &str| memory.stats.as_ref().and_then(|stats| stats.get(name)).copied().unwrap_or_default();
        let used = memory.usage?;
        let inactive = figure("inactive_file").max(figure("total_inactive_file"));
        Some(Usage {
            cpu_ns: found.cpu_stats?.cpu_usage?.total_usage?,
            memory: used,
            working_set: used.saturating_sub(inactive),
            rss: figure("anon").max(figure("total_rss")),
            cache: figure("file").max(figure("total_cache")),
            swap: figure("total_swap"),
            page_faults: figure("pgfault"),
            major_page_faults: figure("pgmajfault"),
            ..Usage::default()
        })
    }
}
