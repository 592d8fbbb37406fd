//! The variables of a container whose values stand in files of its pod's volumes. PURE.

use coracle_api::pod::Container;

use crate::facts::engine::FileVariable;
use crate::facts::waiting::Waiting;
use crate::facts::wanted::Wanted;
use crate::facts::world::Node;
use crate::spec::env_file::mark;
use crate::spec::environment::misconfigured;
use crate::spec::volumes::{Home, source};

/// As the engine's side has to find them.
pub fn of_files(node: &Node, wanted: &Wanted, container: &Container) -> Result<Vec<FileVariable>, Waiting> {
    let mut found = Vec::new();
    for (index, variable) in container.env.iter().enumerate() {
        let Some(asked) = variable.value_from.as_ref().and_then(|from| from.file_key_ref.as_ref()) else { continue };
        let volume = wanted.pod.spec.volumes.iter().find(|volume| volume.name == asked.volume_name);
        let missing =
            || misconfigured(format!("cannot find the volume {:?} referenced by FileKeyRef", asked.volume_name));
        let volume = source(volume.ok_or_else(missing)?, &Home::of(node, wanted)).mount;
        let (path, key, optional) = (asked.path.clone(), asked.key.clone(), asked.optional == Some(true));
        found.push(FileVariable { mark: mark(index), name: variable.name.clone(), volume, path, key, optional });
    }
    Ok(found)
}
