//! Is the image here, and may it be used? PURE.

use coracle_api::pod::Container;

use super::rules::Rule;
use crate::facts::backoff::pull_wait_ms;
use crate::facts::engine::Image;
use crate::facts::logins::{Login, fitting};
use crate::facts::memory::{Pull, PullState};
use crate::facts::round::{PodPlan, PullWanted};
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::wanted::Wanted;
use crate::plan::case::Case;
use crate::spec::pull_secrets::pull_secrets;

/// A failed pull is shown as itself for that long, then as the back-off that follows.
pub const SHOW_FAILURE_MS: i64 = 2_000;
/// The longest reference that registries take.
const REFERENCE_LENGTH_MAX: usize = 512;

pub struct ReadyImage {
    pub image: Image,
    pub pulled: bool,
    /// An update holds the container to this image: it starts from the image's id.
    pub pinned: bool,
}

/// The image to start from; otherwise the reason for waiting, with a pull if one is due.
pub fn ready(
    case: Case<'_>,
    part: &mut PodPlan,
    wanted: &Wanted,
    container: &Container,
    attempt: u32,
) -> Result<ReadyImage, Waiting> {
    let name = &container.image;
    if !is_reference(name) {
        let mut text = format!(
            "Failed to apply default image tag \"{name}\": couldn't parse image name \"{name}\": invalid reference \
             format"
        );
        if let Some(repository) = upper_case(name) {
            text.push_str(&format!(": repository name ({repository}) must be lowercase"));
        }
        return Err(Waiting::new(WaitReason::InvalidImageName, text));
    }
    let pinned = pinned(case, wanted, container).and_then(|id| case.world.images.get(id));
    if let Some(Some(image)) = pinned {
        return Ok(ReadyImage { image: image.clone(), pulled: false, pinned: true });
    }
    let Some(here) = case.world.images.get(name) else {
        // Not looked up this time: the pod changed between the look and the plan. The next look asks for it.
        return Err(Waiting::creating());
    };
    let (logins, unread) = logins_of(case, part, wanted, name)?;
    let place = (wanted.name.uid.clone(), container.name.clone());
    let pull = case.world.memory.pulls.get(&place).filter(|pull| pull.image == *name && pull.attempt == attempt);
    let policy = policy(container);
    let has_pulled = pull.is_some_and(|pull| pull.state == PullState::Done);
    let may_use = |image: &Image| {
        has_pulled || image.access.as_ref().is_none_or(|access| access.allows(&image.id, &logins, &unread))
    };
    match (policy, here) {
        (Policy::Never | Policy::IfNotPresent, Some(image)) if may_use(image) => {
            return Ok(ReadyImage { image: image.clone(), pulled: has_pulled, pinned: false });
        }
        (Policy::Never, Some(_)) => {
            let text = format!(
                "Container image \"{name}\" is present with pull policy of Never, and the pod has no login with which \
                 it was pulled"
            );
            return Err(Waiting::new(WaitReason::ErrImageNeverPull, text));
        }
        (Policy::Never, None) => {
            // An archive of this host may have it: one question for each start.
            if pull.is_none() {
                part.pulls.push(pull_wanted(case, wanted, container, attempt));
            }
            let text = format!("Container image \"{name}\" is not present with pull policy of Never");
            return Err(Waiting::new(WaitReason::ErrImageNeverPull, text));
        }
        (Policy::Always, Some(image)) => match pull.map(|pull| &pull.state) {
            Some(PullState::Done) => {
                return Ok(ReadyImage { image: image.clone(), pulled: true, pinned: false });
            }
            Some(PullState::Failed { .. }) if case.rules.hold(Rule::LocalImageWillDo) && may_use(image) => {
                // After the event for the failed pull, a second event says that the image is already present.
                return Ok(ReadyImage { image: image.clone(), pulled: false, pinned: false });
            }
            _ => {}
        },
        (Policy::IfNotPresent, Some(_)) | (Policy::IfNotPresent | Policy::Always, None) => {}
    }
    let waiting = pull_or_wait(case, part, wanted, container, attempt, pull);
    if let Some(pull) = part.pulls.last_mut().filter(|pull| pull.container == container.name) {
        pull.logins = logins;
    }
    Err(waiting)
}

/// The id of the image that an update holds the container to. An image that is gone holds nothing.
pub fn pinned<'a>(case: Case<'a>, wanted: &Wanted, container: &Container) -> Option<&'a str> {
    case.desired.update_of(&wanted.name.uid)?.image_of(&container.name, &container.image)
}

/// The logins from the pod's pull secrets, and the Secrets that cannot be read. A missing Secret gives a note, and the
/// pull goes on.
fn logins_of(
    case: Case<'_>,
    part: &mut PodPlan,
    wanted: &Wanted,
    image: &str,
) -> Result<(Vec<Login>, Vec<String>), Waiting> {
    let secrets = pull_secrets(&case.desired.objects, wanted);
    if secrets.asked {
        return Err(Waiting::creating());
    }
    if !secrets.lost.is_empty() {
        let names = secrets.lost.join(", ");
        let text = format!(
            "Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
        );
        part.waits
            .notes
            .insert("image pull secrets".to_owned(), Waiting::new(WaitReason::FailedToRetrieveImagePullSecret, text));
    }
    Ok((fitting(&secrets.logins, image), secrets.unread))
}

fn pull_or_wait(
    case: Case<'_>,
    part: &mut PodPlan,
    wanted: &Wanted,
    container: &Container,
    attempt: u32,
    pull: Option<&Pull>,
) -> Waiting {
    let name = &container.image;
    let mut waiting = Waiting::creating();
    let due = match pull.map(|pull| (&pull.state, pull.failures)) {
        None => true,
        // The last failure stands until this one has its own end.
        Some((PullState::InFlight { failed }, _)) => {
            if let Some(text) = failed {
                waiting = Waiting::new(WaitReason::ErrImagePull, text.clone());
            }
            false
        }
        // The image was pulled and is missing: another program removed the image. This counts as a failed pull now.
        Some((PullState::Done, _)) => true,
        Some((PullState::Failed { at_ms, text }, failures)) => {
            let due_ms = at_ms.saturating_add(pull_wait_ms(failures));
            let now_ms = case.now.mono_ms;
            if now_ms - at_ms < SHOW_FAILURE_MS {
                waiting = Waiting::new(WaitReason::ErrImagePull, text.clone());
                part.wake_at(at_ms + SHOW_FAILURE_MS);
            } else {
                waiting = Waiting::new(
                    WaitReason::ImagePullBackOff,
                    format!("Back-off pulling image \"{name}\": ErrImagePull: {text}"),
                );
                part.wake_at(due_ms);
            }
            now_ms >= due_ms || !case.rules.hold(Rule::PullsBackOff)
        }
    };
    if due {
        part.pulls.push(pull_wanted(case, wanted, container, attempt));
    }
    waiting
}

fn pull_wanted(case: Case<'_>, wanted: &Wanted, container: &Container, attempt: u32) -> PullWanted {
    let policy = policy(container);
    let absent = case.world.images.get(&container.image).is_none_or(Option::is_none);
    let reason = match policy {
        Policy::Always => "its policy is Always",
        Policy::IfNotPresent | Policy::Never if absent => "it is not here",
        Policy::IfNotPresent | Policy::Never => "it was pulled with logins that the pod does not have",
    };
    PullWanted {
        pod: wanted.name.clone(),
        container: container.name.clone(),
        attempt,
        image: container.image.clone(),
        logins: Vec::new(),
        reason: reason.to_owned(),
        absent,
        always: policy == Policy::Always,
        never: policy == Policy::Never,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    Always,
    IfNotPresent,
    Never,
}

/// Each version writes its own default out when a document is decoded; this is v1's for what was not.
fn policy(container: &Container) -> Policy {
    match container.image_pull_policy.as_str() {
        "Always" => Policy::Always,
        "Never" => Policy::Never,
        "IfNotPresent" => Policy::IfNotPresent,
        _ if tag(&container.image).is_none_or(|tag| tag == "latest") => Policy::Always,
        _ => Policy::IfNotPresent,
    }
}

/// A digest counts as one.
fn tag(reference: &str) -> Option<&str> {
    if let Some((_, digest)) = reference.split_once('@') {
        return Some(digest);
    }
    let last = reference.rsplit('/').next().unwrap_or(reference);
    last.split_once(':').map(|(_, tag)| tag)
}

/// Could be an image's name: lower-case path, an optional registry, tag and digest.
pub fn is_reference(text: &str) -> bool {
    let (text, digest) = text.split_once('@').map_or((text, None), |(text, digest)| (text, Some(digest)));
    let digest_fits = digest.is_none_or(|digest| {
        digest.split_once(':').is_some_and(|(kind, hex)| {
            !kind.is_empty() && hex.len() >= 32 && hex.chars().all(|c| c.is_ascii_hexdigit())
        })
    });
    let (path, tag) = match text.rsplit_once(':') {
        Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
        _ => (text, None),
    };
    let tag_fits = tag.is_none_or(|tag| {
        let first_fits = tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        first_fits && tag.len() <= 128 && tag.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c))
    });
    let (registry, name) = match path.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, path),
    };
    let registry_fits = registry.is_none_or(|registry| {
        let (host, port) = match registry.rsplit_once(':') {
            Some((host, port)) if !registry.ends_with(']') => (host, port),
            _ => (registry, "1"),
        };
        is_host(host) && port.parse::<u16>().is_ok()
    });
    let name_fits = name.split('/').all(|part| {
        let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(alphanumeric)
            && part.ends_with(alphanumeric)
            && part.chars().all(|c| alphanumeric(c) || "._-".contains(c))
    });
    text.len() <= REFERENCE_LENGTH_MAX && digest_fits && tag_fits && registry_fits && name_fits
}

/// A host name, an IPv4 address, or an IPv6 address in brackets. No label is empty or leads elsewhere in a path.
fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let fits = |label: &str| {
        let ends = |letter: char| letter.is_ascii_alphanumeric();
        label.starts_with(ends) && label.ends_with(ends) && label.chars().all(|c| ends(c) || c == '-')
    };
    host.split('.').all(fits)
}

/// The repository, if its name has upper-case letters: engines have a special error message for this mistake.
fn upper_case(reference: &str) -> Option<String> {
    let is_registry = |first: &str| first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first;
    let path = match reference.split_once('/') {
        Some((first, rest)) if is_registry(first) => rest.to_owned(),
        Some(_) => reference.to_owned(),
        None => format!("library/{reference}"),
    };
    let repository = path.split(':').next().unwrap_or_default();
    (repository.to_lowercase() != repository).then(|| repository.to_owned())
}

/// `busybox` -> `docker.io/library/busybox:latest`
pub fn full_name(reference: &str) -> String {
    // An image's id is no name.
    if reference.strip_prefix("sha256:").is_some_and(|id| id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit())) {
        return reference.to_owned();
    }
    let first = reference.split('/').next().unwrap_or(reference);
    let has_registry = reference.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    let mut name = match (has_registry, reference.contains('/')) {
        (true, _) => reference.to_owned(),
        (false, true) => format!("docker.io/{reference}"),
        (false, false) => format!("docker.io/library/{reference}"),
    };
    let last = name.rsplit('/').next().unwrap_or(&name);
    if !last.contains(':') && !last.contains('@') {
        name.push_str(":latest");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let good = [
            "busybox",
            "busybox:latest",
            "docker.io/library/busybox:1.36",
            "localhost:5000/a/b",
            "brendanburns/php-redis",
            "a__b/c",
            "x@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "gcr.io/google_containers/pause:0.8.0",
            "[fd00::1]:5000/a",
            "[fd00::1]/a",
            "10.0.0.1:5000/a",
        ];
        let bad = [
            "../containers/a",
            "./a",
            "a./b",
            "a..b/c",
            ".a.b/c",
            "-a.b/c",
            "a.b:/c",
            "[::x]/a",
            "a:b@c.d/e",
            "..:5000/a",
            "x/../y",
            "",
            "Busybox",
            "busybox:",
            "a//b",
            "a/",
            ":tag",
            "busy box",
            "x@sha256:12",
            "a:b:c",
            "-a",
        ];
        for (names, wanted) in [(&good[..], true), (&bad[..], false)] {
            for name in names {
                assert_eq!(is_reference(name), wanted, "{name:?}");
            }
        }
    }

    #[test]
    fn full_names() {
        let id = format!("sha256:{}", "0a".repeat(32));
        for (name, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("a/b:1", "docker.io/a/b:1"),
            ("localhost/b", "localhost/b:latest"),
            (&id, &id),
            ("sha256:1", "docker.io/library/sha256:1"),
        ] {
            assert_eq!(full_name(name), full);
        }
    }

    #[test]
    fn upper_case_is_named() {
        for (reference, repository) in [
            ("Busybox:::x", Some("library/Busybox")),
            ("quay.io/a/B:1", Some("a/B")),
            ("a/B", Some("a/B")),
            ("a//b", None),
            ("a:X", None),
        ] {
            assert_eq!(upper_case(reference).as_deref(), repository, "{reference}");
        }
    }

    #[test]
    fn default_policies_of_v1() {
        let check = |image: &str, given: &str, wanted: Policy| {
            let container = Container { image: image.into(), image_pull_policy: given.into(), ..Container::default() };
            assert_eq!(policy(&container), wanted, "{image} {given}");
        };
        check("busybox", "", Policy::Always);
        check("busybox:latest", "", Policy::Always);
        check("localhost:5000/busybox", "", Policy::Always);
        check("busybox:1", "", Policy::IfNotPresent);
        check("localhost:5000/busybox:1", "", Policy::IfNotPresent);
        check("busybox@sha256:00", "", Policy::IfNotPresent);
        check("busybox", "Never", Policy::Never);
    }
}
