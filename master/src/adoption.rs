//! Bindings that were made before access rules counted. Whoever could reach the master could make them then, so they
//! give nothing until somebody takes them: `coracle-master rbac adopt`.
//!
//! The file `keys/adoption.json` names them by their uids. It also names objects that this version made at its first
//! start: a store without any of them, such as a backup of an older version, begins anew. No request reaches the file.

use crate::authorize::{Rbac, bootstrap};
use crate::store::{Store, Stored, locked};
use coracle_api::meta::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const FOLDER: &str = "keys";
const FILE: &str = "adoption.json";
/// A file of more bindings than a store holds is not ours.
const FILE_BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Adopted {
    /// Uids of objects that this version made.
    known: BTreeSet<String>,
    /// Uids of bindings that do not count.
    unadopted: BTreeSet<String>,
}

pub struct Adoption {
    store: Arc<dyn Store>,
    rbac: Arc<Rbac>,
    folder: PathBuf,
    state: Mutex<Adopted>,
    /// Access rules count from this start on.
    pub is_first: bool,
}

impl Adoption {
    /// Before the roles of every cluster are made. Where the file cannot be read, no binding counts that this version
    /// has not made.
    pub fn open(store: Arc<dyn Store>, rbac: Arc<Rbac>, data_dir: &Path) -> Adoption {
        let folder = data_dir.join(FOLDER);
        let read = read(&folder.join(FILE)).unwrap_or_else(|why| {
            log::error!(
                "{}: {why}: bindings count again after `coracle-master rbac adopt`",
                folder.join(FILE).display()
            );
            None
        });
        let made = uids(&*store, &bootstrap::resources(), true);
        let known = read.filter(|read| made.iter().any(|uid| read.known.contains(uid)));
        let is_first = known.is_none();
        let state = known.unwrap_or_else(|| Adopted {
            known: BTreeSet::new(),
            unadopted: uids(&*store, &bootstrap::bindings(), false),
        });
        rbac.pass_over(state.unadopted.iter().cloned().collect());
        let adoption = Adoption { store, rbac, folder, state: Mutex::new(state), is_first };
        if is_first {
            adoption.begin();
        }
        adoption
    }

    /// Written before anything of this version is made: a start that breaks off is a first start again.
    fn begin(&self) {
        let state = locked(&self.state).clone();
        if !state.unadopted.is_empty() {
            log::warn!(
                "access rules count from now on; {} bindings from before do not: coracle-master rbac adopt",
                state.unadopted.len()
            );
        }
        self.keep(&state).unwrap_or_else(|why| log::error!("{why}"));
    }

    /// After the roles of every cluster are there. A quiet start writes nothing.
    pub fn settle(&self) {
        let known = uids(&*self.store, &bootstrap::resources(), true);
        let mut state = locked(&self.state);
        if state.known != known {
            state.known = known;
            self.keep(&state).unwrap_or_else(|why| log::error!("{why}"));
        }
    }

    /// The bindings that do not count, as far as they are still there.
    pub fn unadopted(&self) -> Vec<Value> {
        let passed = locked(&self.state).unadopted.clone();
        if passed.is_empty() {
            return Vec::new();
        }
        let found = bootstrap::bindings().into_iter().flat_map(|resource| self.store.list(&resource, None).items);
        let shown = |stored: Stored| {
            let object: Value = serde_json::from_slice(&stored.json).ok()?;
            passed.contains(object["metadata"]["uid"].as_str()?).then(|| {
                json!({
                    "kind": if stored.key.namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" },
                    "namespace": stored.key.namespace,
                    "name": stored.key.name,
                    "role": object["roleRef"],
                    "subjects": object["subjects"],
                })
            })
        };
        found.filter_map(shown).collect()
    }

    /// All bindings count from now on. Returns how many more these are.
    pub fn adopt(&self) -> Result<usize, String> {
        let taken = self.unadopted().len();
        let mut state = locked(&self.state);
        let adopted = Adopted { unadopted: BTreeSet::new(), ..state.clone() };
        self.keep(&adopted)?;
        self.rbac.pass_over(HashSet::new());
        *state = adopted;
        Ok(taken)
    }

    fn keep(&self, state: &Adopted) -> Result<(), String> {
        let path = self.folder.join(FILE);
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = serde_json::to_vec(state).map_err(|error| failed(&error))?;
        write(&self.folder, &text).map_err(|error| failed(&error))
    }
}

fn read(path: &Path) -> Result<Option<Adopted>, String> {
    let size = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if size > FILE_BYTES_MAX {
        return Err(format!("it has {size} bytes, at most {FILE_BYTES_MAX}"));
    }
    let text = fs::read(path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map(Some).map_err(|error| error.to_string())
}

fn write(folder: &Path, text: &[u8]) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let partial = folder.join(format!("{FILE}.partial"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&partial, folder.join(FILE))?;
    File::open(folder)?.sync_all()
}

/// The uids of the objects that every cluster has, or of all others.
fn uids(store: &dyn Store, resources: &[Resource], of_every_cluster: bool) -> BTreeSet<String> {
    let own: HashSet<(Resource, String, String)> =
        bootstrap::objects().into_iter().map(|one| (one.resource, one.namespace, one.name)).collect();
    let found = resources.iter().flat_map(|resource| store.list(resource, None).items);
    let uid = |stored: Stored| {
        let key = (stored.key.resource.clone(), stored.key.namespace.clone(), stored.key.name.clone());
        if own.contains(&key) != of_every_cluster {
            return None;
        }
        let object: Value = serde_json::from_slice(&stored.json).ok()?;
        object["metadata"]["uid"].as_str().map(str::to_owned)
    };
    found.filter_map(uid).collect()
}
