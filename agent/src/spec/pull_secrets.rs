//! The logins for registries out of the Secrets that a pod names. PURE.

use crate::facts::logins::{Login, of_secret};
use crate::facts::objects::{ObjectKind, ObjectState, Objects};
use crate::facts::wanted::Wanted;

/// The logins from a pod's pull secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullSecrets {
    pub logins: Vec<Login>,
    /// The names of missing Secrets.
    pub lost: Vec<String>,
    /// `NAMESPACE/NAME/` of Secrets that the master cannot be asked for.
    pub unread: Vec<String>,
    /// A Secret was requested from the master, and no answer has come yet.
    pub asked: bool,
}

pub fn pull_secrets(objects: &Objects, wanted: &Wanted) -> PullSecrets {
    let mut found = PullSecrets::default();
    for name in wanted.pod.spec.image_pull_secrets.iter().map(|secret| &secret.name).filter(|name| !name.is_empty()) {
        match objects.find(&wanted.name, ObjectKind::Secret, name) {
            ObjectState::There(secret) | ObjectState::Kept(secret) => {
                let of = format!("{}/{name}/{}", wanted.name.namespace, secret.uid);
                found.logins.extend(of_secret(secret).into_iter().map(|login| Login { secret: of.clone(), ..login }));
            }
            ObjectState::Unknown { silent: false } => found.asked = true,
            ObjectState::Absent => found.lost.push(name.clone()),
            ObjectState::Unknown { silent: true } => {
                found.lost.push(name.clone());
                found.unread.push(format!("{}/{name}/", wanted.name.namespace));
            }
        }
    }
    found
}
