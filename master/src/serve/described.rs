//! Hashes of the OpenAPI documents, each made when it is asked for first.

use super::tag::hex;
use crate::render::openapi;
use coracle_api::kinds::Kinds;
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The hashes of all OpenAPI documents for a table of kinds. A new table has new hashes.
#[derive(Default)]
pub struct Described {
    last: Mutex<Option<Arc<Hashes>>>,
}

/// Each from the first request on that needs it.
pub struct Hashes {
    pub kinds: Arc<Kinds>,
    /// By group and version.
    pub groups: OnceLock<Vec<((String, String), String)>>,
    pub swagger: OnceLock<String>,
    pub message: OnceLock<String>,
}

impl Described {
    pub fn of(&self, kinds: Arc<Kinds>) -> Arc<Hashes> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(hashes) if Arc::ptr_eq(&hashes.kinds, &kinds) => hashes.clone(),
            _ => {
                let (groups, swagger, message) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
                let hashes = Arc::new(Hashes { kinds, groups, swagger, message });
                *last = Some(hashes.clone());
                hashes
            }
        }
    }
}

impl Hashes {
    pub fn groups(&self) -> &[((String, String), String)] {
        self.groups.get_or_init(|| {
            let hashed = |(group, version): (&str, &str)| {
                let hash = hash(|into| openapi::document(&self.kinds, group, version, into));
                ((group.to_owned(), version.to_owned()), hash)
            };
            openapi::versions(&self.kinds).into_iter().map(hashed).collect()
        })
    }
}

pub fn hash(write: impl Fn(openapi::Output)) -> String {
    let mut hasher = Sha256::new();
    write(&mut |bytes| hasher.update(bytes));
    hex(&hasher.finalize())
}
