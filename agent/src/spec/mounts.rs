//! The mounts of a container, and the part of a volume that each shows. PURE: `runtime` finds the parts on the host.

use std::collections::HashMap;

use coracle_api::pod::{Container, Volume, VolumeMount};

use crate::facts::desired::Desired;
use crate::facts::engine::{Mount, MountSource, Propagation, ReadOnlyBelow, SubPath};
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::wanted::Wanted;
use crate::facts::world::Node;
use crate::spec::claims;
use crate::spec::environment::{TextBudget, TextPiece, TooLong, Variables, expand, pieces, too_long};
use crate::spec::projection::{self, Missing};
use crate::spec::volumes::{Home, source};

/// Variables that are told to be missing.
const NAMES_TOLD_MAX: usize = 20;
const MESSAGE_PATH_DEFAULT: &str = "/dev/termination-log";

/// In the container's order, the file for its message last. The error is what it waits for, in the kubelet's words.
pub fn mounts(
    (node, desired): (&Node, &Desired),
    wanted: &Wanted,
    container: &Container,
    (environment, texts): (&Variables, &mut TextBudget),
    message: &str,
) -> Result<Vec<Mount>, Waiting> {
    let home = Home::of(node, wanted);
    let volumes: HashMap<&str, &Volume> =
        wanted.pod.spec.volumes.iter().rev().map(|volume| (volume.name.as_str(), volume)).collect();
    let mut mounts = Vec::new();
    for (index, mount) in container.volume_mounts.iter().enumerate() {
        let volume = volumes.get(mount.name.as_str()).copied();
        let made = one((&home, desired), wanted, container, (environment, volume), (index, mount))
            .map_err(|text| Waiting::new(WaitReason::CreateContainerConfigError, text))?;
        let length = made.sub_path.as_ref().map_or(0, |part| part.path.len());
        texts.take(length, || format!("volumeMounts[{index}].subPathExpr"))?;
        mounts.push(made);
    }
    let target = if container.termination_message_path.is_empty() {
        MESSAGE_PATH_DEFAULT
    } else {
        &container.termination_message_path
    };
    // A volume that the pod mounts at the very path holds the message itself.
    if mounts.iter().all(|mount| mount.target != target) {
        mounts.push(Mount::new(MountSource::Path(message.to_owned()), target.to_owned(), false));
    }
    Ok(mounts)
}

fn one(
    (home, desired): (&Home<'_>, &Desired),
    wanted: &Wanted,
    container: &Container,
    (environment, volume): (&Variables, Option<&Volume>),
    (index, mount): (usize, &VolumeMount),
) -> Result<Mount, String> {
    let missing = || format!("cannot find volume \"{}\" to mount into container \"{}\"", mount.name, container.name);
    let volume = volume.ok_or_else(missing)?;
    // It was bound when the sandbox came up, and unknown is not absent: this is no more than a moment.
    let bound = claims::resolve(volume, wanted, desired).map_err(|missing| match missing {
        Missing::Failed(text) => text,
        Missing::Asked => format!("the claim of volume \"{}\" is asked for", volume.name),
    })?;
    let path = sub_path(mount, environment)?;
    let target =
        if mount.mount_path.starts_with('/') { mount.mount_path.clone() } else { format!("/{}", mount.mount_path) };
    Ok(Mount {
        sub_path: path.map(|path| SubPath {
            path,
            uid: wanted.name.uid.clone(),
            volume: volume.name.clone(),
            container: container.name.clone(),
            index,
        }),
        propagation: match mount.mount_propagation.as_str() {
            "HostToContainer" => Propagation::HostToContainer,
            "Bidirectional" => Propagation::Bidirectional,
            _ => Propagation::None,
        },
        below: read_only_below(mount)?,
        ..Mount::new(
            source(&bound, home).mount,
            target,
            mount.read_only || bound.read_only || projection::is_one(volume),
        )
    })
}

fn read_only_below(mount: &VolumeMount) -> Result<ReadOnlyBelow, String> {
    let wanted = match mount.recursive_read_only.as_str() {
        "" | "Disabled" => return Ok(ReadOnlyBelow::No),
        "IfPossible" => ReadOnlyBelow::IfPossible,
        _ => ReadOnlyBelow::Yes { volume: mount.name.clone() },
    };
    let failed = |text: String| {
        Err(format!("failed to resolve recursive read-only mode: volume \"{}\" requested {text}", mount.name))
    };
    if !mount.read_only {
        return failed("recursive read-only mode, but it is not read-only".to_owned());
    }
    match mount.mount_propagation.as_str() {
        "" | "None" => Ok(wanted),
        other => failed(format!("recursive read-only mode, but it is not compatible with propagation \"{other}\"")),
    }
}

/// The path of `subPath`, or of `subPathExpr` with the container's variables; None: the whole volume.
fn sub_path(mount: &VolumeMount, environment: &Variables) -> Result<Option<String>, String> {
    let path = if mount.sub_path_expr.is_empty() {
        mount.sub_path.clone()
    } else {
        let is_missing = |name: &&str| environment.value(name).unwrap_or_default().is_empty();
        let name = |piece| if let TextPiece::Name(name) = piece { Some(name) } else { None };
        let mut missing: Vec<&str> = pieces(&mount.sub_path_expr).filter_map(name).filter(is_missing).collect();
        if !missing.is_empty() {
            missing.sort_unstable();
            missing.dedup();
            missing.truncate(NAMES_TOLD_MAX);
            return Err(format!("missing value for {}", missing.join(", ")));
        }
        expand(&mount.sub_path_expr, environment).map_err(|TooLong| too_long("subPathExpr"))?
    };
    if path.is_empty() {
        return Ok(None);
    }
    if path.starts_with('/') {
        return Err(format!("error SubPath `{path}` must not be an absolute path"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(format!("unable to provision SubPath `{path}`: must not contain '..'"));
    }
    Ok(Some(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_below_a_volume() {
        let check = |path: &str, expression: &str, expected: Result<Option<&str>, &str>| {
            let mount =
                VolumeMount { sub_path: path.into(), sub_path_expr: expression.into(), ..VolumeMount::default() };
            let environment = Variables::of(&[("A", "a/b"), ("ROOT", "/x"), ("NIL", "")]);
            let found = sub_path(&mount, &environment);
            assert_eq!(found.as_ref().map(Option::as_deref).map_err(String::as_str), expected, "{path}{expression}");
        };
        check("", "", Ok(None));
        check("a/b", "", Ok(Some("a/b")));
        check("a/..b", "", Ok(Some("a/..b")));
        check("$(A)", "", Ok(Some("$(A)")));
        check("", "log/$(A)/$$(A)", Ok(Some("log/a/b/$(A)")));
        check("", "$(NOPE)", Err("missing value for NOPE"));
        check("", "$(Z)$(NIL)$(B)$(Z)", Err("missing value for B, NIL, Z"));
        check("", "$(ROOT)", Err("error SubPath `/x` must not be an absolute path"));
        check("a/../b", "", Err("unable to provision SubPath `a/../b`: must not contain '..'"));
    }

    #[test]
    fn read_only_all_the_way_down() {
        let check = |mode: &str, read_only: bool, propagation: &str, expected: Result<ReadOnlyBelow, &str>| {
            let mount = VolumeMount {
                name: "v".into(),
                read_only,
                recursive_read_only: mode.into(),
                mount_propagation: propagation.into(),
                ..VolumeMount::default()
            };
            let expected = expected
                .map_err(|text| format!("failed to resolve recursive read-only mode: volume \"v\" requested {text}"));
            assert_eq!(read_only_below(&mount), expected, "{mode}");
        };
        check("", false, "Bidirectional", Ok(ReadOnlyBelow::No));
        check("Disabled", true, "", Ok(ReadOnlyBelow::No));
        check("IfPossible", true, "None", Ok(ReadOnlyBelow::IfPossible));
        check("Enabled", true, "", Ok(ReadOnlyBelow::Yes { volume: "v".into() }));
        check("Enabled", false, "", Err("recursive read-only mode, but it is not read-only"));
        let text = "recursive read-only mode, but it is not compatible with propagation \"HostToContainer\"";
        check("Enabled", true, "HostToContainer", Err(text));
    }
}
