//! The hosts and resolver files that a pod's containers share: with Docker a container that joins a sandbox's network
//! gets the sandbox's files, with Podman separate files.

use std::borrow::Cow;
use std::path::Path;

use super::connection::Docker;
use super::dialect::Dialect;
use crate::facts::engine::{ContainerConfig, Mount, MountSource, Network};
use crate::facts::naming::{HOSTS, RESOLV_CONF, Tag, hosts_file, resolver_file};

impl Docker {
    pub(super) fn with_pod_files<'a>(&self, config: Cow<'a, ContainerConfig>) -> Cow<'a, ContainerConfig> {
        if self.dialect() == Dialect::Podman { with_files(&self.settings.data_dir, config) } else { config }
    }
}

/// Those that the pod has, and that the container does not mount itself.
fn with_files<'a>(data_dir: &str, mut config: Cow<'a, ContainerConfig>) -> Cow<'a, ContainerConfig> {
    let Some(tag) = Tag::read(&config.name, &config.labels).filter(|_| matches!(config.network, Network::Join(_)))
    else {
        return config;
    };
    let uid = &tag.pod.uid;
    for (file, target) in [(hosts_file(data_dir, uid), HOSTS), (resolver_file(data_dir, uid), RESOLV_CONF)] {
        if Path::new(&file).is_file() && !config.mounts.iter().any(|mount| mount.target == target) {
            config.to_mut().mounts.push(Mount::new(MountSource::Path(file), target.to_owned(), false));
        }
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::pod_dir;
    use crate::facts::naming::tests::tag;
    use std::fs;

    #[test]
    fn a_container_gets_the_files_of_its_pod() {
        let data = std::env::temp_dir().join(format!("coracle-pod-files-{}", std::process::id())).display().to_string();
        let (tag, member) = (tag(), || Network::Join("k8s_POD".into()));
        let own = Mount::new(MountSource::Path("/a".into()), RESOLV_CONF.to_owned(), true);
        let check = |network: Network, mounts: &[Mount], expected: &[&str]| {
            let (name, labels, mounts) = (tag.name(), tag.labels(), mounts.to_vec());
            let config = ContainerConfig { name, labels, network, mounts, ..ContainerConfig::default() };
            let found = with_files(&data, Cow::Owned(config));
            assert_eq!(found.mounts.iter().map(|mount| mount.target.as_str()).collect::<Vec<_>>(), expected);
        };
        check(member(), &[], &[]);
        fs::create_dir_all(pod_dir(&data, &tag.pod.uid)).unwrap();
        fs::write(hosts_file(&data, &tag.pod.uid), "").unwrap();
        check(member(), &[], &[HOSTS]);
        fs::write(resolver_file(&data, &tag.pod.uid), "").unwrap();
        check(member(), &[], &[HOSTS, RESOLV_CONF]);
        check(member(), std::slice::from_ref(&own), &[RESOLV_CONF, HOSTS]);
        check(Network::Pods, &[], &[]);
        fs::remove_dir_all(&data).unwrap();
    }
}
