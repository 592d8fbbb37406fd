//! PURE. The claims of running pods, and the directories in which their file systems are measured.

use std::collections::BTreeSet;

use crate::facts::objects::uses::claim_of;
use crate::facts::shown::Shown;
use crate::spec::claims::resolve;

/// A claim that a running pod mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Of the pod.
    pub uid: String,
    pub namespace: String,
    /// The pod's name of the volume.
    pub volume: String,
    pub claim: String,
    pub directory: String,
}

/// Claims whose volumes are directories of this host: hostPath and local ones. An NFS server is not asked, it might not
/// answer.
pub fn claimed(shown: &Shown, running: &BTreeSet<&str>, data_dir: &str) -> Vec<Claimed> {
    let pods = shown.desired.pods.values().filter(|wanted| running.contains(wanted.name.uid.as_str()));
    let all = pods.flat_map(|wanted| wanted.pod.spec.volumes.iter().map(move |volume| (wanted, volume)));
    all.filter_map(|(wanted, volume)| {
        let (claim, _) = claim_of(volume, &wanted.name.name)?;
        let found = resolve(volume, wanted, &shown.desired).ok()?;
        let kept =
            found.kept_directory.map(|kept| if kept.starts_with('/') { kept } else { format!("{data_dir}/{kept}") });
        let directory = kept.or_else(|| Some(found.local?.path)).or_else(|| Some(found.host_path?.path))?;
        let (uid, namespace) = (wanted.name.uid.clone(), wanted.name.namespace.clone());
        Some(Claimed { uid, namespace, volume: volume.name.clone(), claim, directory })
    })
    .collect()
}
