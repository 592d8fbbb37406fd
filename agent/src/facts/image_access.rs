//! Which pods may use an image that was pulled with the login of a pod's Secret. PURE.
//!
//! A registry checks a login at a pull only. Without this rule an image that is here already would start for each pod
//! that names it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::facts::logins::Login;

/// A pod whose login is not kept pulls the image again.
const LOGINS_MAX: usize = 256;

/// The logins that a registry took for one image. By the Secret: the hash of its login.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageAccess {
    logins: BTreeMap<String, String>,
}

impl ImageAccess {
    /// `id`: of the image.
    pub fn add(&mut self, id: &str, login: &Login) {
        if self.logins.len() < LOGINS_MAX || self.logins.contains_key(&login.secret) {
            self.logins.insert(login.secret.clone(), hash(id, login));
        }
    }

    /// Whether a pod has one of the Secrets, or one of the logins in a Secret of its own. `unread`: `NAMESPACE/NAME/`
    /// of Secrets that the pod names, and that the master cannot be asked for.
    pub fn allows(&self, id: &str, logins: &[Login], unread: &[String]) -> bool {
        let is_known = |login: &Login| {
            let same_secret = !login.secret.ends_with('/') && self.logins.contains_key(&login.secret);
            let hash = hash(id, login);
            same_secret || self.logins.values().any(|known| *known == hash)
        };
        logins.iter().any(is_known) || unread.iter().any(|name| self.logins.keys().any(|known| known.starts_with(name)))
    }
}

/// With the image in it, so that equal logins of two images do not show.
fn hash(id: &str, login: &Login) -> String {
    let mut sum = Sha256::new();
    for text in [id, &login.username, &login.password] {
        sum.update(text.as_bytes());
        sum.update([0]);
    }
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_or_its_secret_opens_an_image() {
        let login = |secret: &str, password: &str| Login {
            place: "r.example".into(),
            username: "u".into(),
            password: password.into(),
            secret: secret.into(),
        };
        let mut access = ImageAccess::default();
        assert!(!access.allows("sha256:1", &[login("shop/pull/1", "p")], &[]));
        access.add("sha256:1", &login("shop/pull/1", "p"));
        access.add("sha256:1", &login("d/of-a-file/", "q"));
        for (logins, expected) in [
            (&[][..], false),
            (&[("shop/pull/1", "p")], true),
            // A login that was renewed, in the same Secret.
            (&[("shop/pull/1", "new")], true),
            // A Secret of that name from after the first was deleted.
            (&[("shop/pull/2", "x")], false),
            // The same login in a Secret of another namespace.
            (&[("other/mine/7", "x"), ("other/mine/8", "p")], true),
            (&[("other/pull/1", "x")], false),
            // Secrets of files have no uid: the login counts alone.
            (&[("d/of-a-file/", "q")], true),
            (&[("d/of-a-file/", "x")], false),
        ] {
            let logins: Vec<Login> = logins.iter().map(|(secret, password)| login(secret, password)).collect();
            assert_eq!(access.allows("sha256:1", &logins, &[]), expected, "{logins:?}");
        }
        assert!(!access.allows("sha256:2", &[login("other/mine/8", "p")], &[]), "a hash is of one image");
        assert!(access.allows("sha256:1", &[], &["shop/pull/".to_owned()]));
        assert!(!access.allows("sha256:1", &[], &["shop/pul/".to_owned(), "other/pull/".to_owned()]));
        for number in 0..2 * LOGINS_MAX {
            access.add("sha256:1", &login(&format!("n/s/{number}"), "p"));
        }
        assert_eq!(access.logins.len(), LOGINS_MAX);
    }
}
