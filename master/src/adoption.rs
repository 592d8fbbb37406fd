//! Bindings that were made before access rules counted. Whoever could reach the master could make them then, so they
//! give nothing until somebody takes them: `coracle-master rbac adopt`.
//!
//! The file `keys/adoption.json` names them, with their uids. It also names objects that this version made at its first
//! start: a store without any of them, such as a backup of an older version, begins anew. No request reaches the file.

use crate::authorize::{Rbac, binding_id, bootstrap};
use crate::cluster_keys::files::KeyFolder;
use crate::store::{Store, Stored, locked};
use coracle_api::meta::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex};

const FILE: &str = "adoption.json";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Adopted {
    /// Ids of objects that this version made.
    known: BTreeSet<String>,
    /// Ids of bindings that do not count.
    unadopted: BTreeSet<String>,
}

pub struct Adoption {
    store: Arc<dyn Store>,
    rbac: Arc<Rbac>,
    folder: KeyFolder,
    state: Mutex<Adopted>,
    /// Access rules count from this start on.
    pub is_first: bool,
}

impl Adoption {
    /// Before the roles of every cluster are made. Where the file cannot be read, no binding counts that this version
    /// has not made.
    pub fn open(store: Arc<dyn Store>, rbac: Arc<Rbac>, data_dir: &Path) -> Adoption {
        let folder = KeyFolder::of(data_dir);
        let read = read(&folder).unwrap_or_else(|why| {
            log::error!("{why}: bindings count again after `coracle-master rbac adopt`");
            None
        });
        let made = ids(&*store, &bootstrap::resources(), true);
        let known = read.filter(|read| made.iter().any(|id| read.known.contains(id)));
        let is_first = known.is_none();
        let state = known.unwrap_or_else(|| Adopted {
            known: BTreeSet::new(),
            unadopted: ids(&*store, &bootstrap::bindings(), false),
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
        let known = ids(&*self.store, &bootstrap::resources(), true);
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
            passed.contains(&id(&stored, &object)?).then(|| {
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
        let text = serde_json::to_string(state).map_err(|error| error.to_string())?;
        self.folder.write(FILE, &text)
    }
}

fn read(folder: &KeyFolder) -> Result<Option<Adopted>, String> {
    let Some(text) = folder.read(FILE)? else { return Ok(None) };
    serde_json::from_str(&text).map(Some).map_err(|error| format!("{}: {error}", folder.path(FILE).display()))
}

fn id(stored: &Stored, object: &Value) -> Option<String> {
    Some(binding_id(&stored.key.namespace, &stored.key.name, object["metadata"]["uid"].as_str()?))
}

/// The ids of the objects that every cluster has, or of all others.
fn ids(store: &dyn Store, resources: &[Resource], of_every_cluster: bool) -> BTreeSet<String> {
    let own: HashSet<(Resource, String, String)> =
        bootstrap::objects().into_iter().map(|one| (one.resource, one.namespace, one.name)).collect();
    let found = resources.iter().flat_map(|resource| store.list(resource, None).items);
    let id_of = |stored: Stored| {
        let key = (stored.key.resource.clone(), stored.key.namespace.clone(), stored.key.name.clone());
        if own.contains(&key) != of_every_cluster {
            return None;
        }
        let object: Value = serde_json::from_slice(&stored.json).ok()?;
        id(&stored, &object)
    };
    found.filter_map(id_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorize::{Attributes, Authorizer};
    use crate::commit::Registry;
    use crate::commit::tests::in_memory;
    use coracle_http::Identity;
    use std::fs;

    const GROUP: &str = "rbac.authorization.k8s.io";

    fn make(registry: &Registry, plural: &'static str, namespace: &str, object: &Value) {
        let kind = registry.kind(&Resource { group: GROUP.into(), plural: plural.into() }).expect("a row");
        registry.make_own(&kind, namespace, object).unwrap_or_else(|why| panic!("{object}: {why}"));
    }

    fn binds(user: &str) -> Value {
        json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
        })
    }

    fn edits(rbac: &Rbac, user: &str) -> bool {
        let pods = Attributes::resource("create", &Resource::core("pods"), "", ("a", ""));
        let groups = vec!["system:authenticated".to_owned()];
        let identity = Identity { user: user.to_owned(), groups, ..Identity::none() };
        rbac.authorize(&pods, &identity).allows()
    }

    #[test]
    fn what_was_bound_before_does_not_count_until_it_is_taken() {
        let registry = in_memory();
        let folder = std::env::temp_dir().join(format!("coracle-adoption-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let start = || {
            let rbac = Arc::new(Rbac::new(registry.store.clone()));
            let adoption = Adoption::open(registry.store.clone(), rbac.clone(), &folder);
            registry.ensure_namespace("a").expect("a namespace");
            registry.ensure_access_rules(adoption.is_first).expect("roles");
            adoption.settle();
            (rbac, adoption)
        };
        // Planted by somebody who could reach the master of an older version.
        let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        let annotations = json!({"rbac.authorization.kubernetes.io/autoupdate": "false"});
        let metadata = json!({"name": "system:basic-user", "annotations": annotations});
        make(&registry, "clusterroles", "", &json!({"metadata": metadata, "rules": everything}));
        make(&registry, "rolebindings", "a", &binds("old"));
        let (rbac, adoption) = start();
        assert!(adoption.is_first && !edits(&rbac, "old") && !edits(&rbac, "anybody"));
        assert_eq!(adoption.unadopted().len(), 1);
        make(&registry, "rolebindings", "a", &binds("new"));
        assert!(edits(&rbac, "new"));
        let before = registry.store.revision();
        let (rbac, adoption) = start();
        assert_eq!(registry.store.revision(), before, "a quiet start writes nothing");
        assert!(!adoption.is_first && !edits(&rbac, "old") && edits(&rbac, "new"));
        assert_eq!((adoption.adopt(), adoption.unadopted().len()), (Ok(1), 0));
        assert!(edits(&rbac, "old"));
        let (rbac, adoption) = start();
        assert!(edits(&rbac, "old") && adoption.unadopted().is_empty());
        // A file that says nothing is no leave.
        let file = KeyFolder::of(&folder).path(FILE);
        fs::write(&file, "{").expect("a file");
        let (rbac, adoption) = start();
        assert!(adoption.is_first && !edits(&rbac, "old") && !edits(&rbac, "new"));
        fs::remove_dir_all(&folder).expect("a folder");
    }
}
