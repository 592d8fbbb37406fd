//! Bindings that were made before access rules counted, and ClusterRoles that would be gathered by the roles of every
//! cluster. Every client could make such objects then, so the objects give nothing until an administrator adopts the
//! objects: `coracle-master rbac adopt`.
//!
//! The file `keys/adoption.json` names them, with their uids. It also names objects that this version made at its first
//! start: a store without any of them, such as a backup of an older version, begins anew. No request reaches the file.

use crate::authorize::{Rbac, aggregate, binding_id, bootstrap};
use crate::cluster_keys::files::KeyFolder;
use crate::store::{Store, Stored, locked};
use coracle_api::meta::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

const FILE: &str = "adoption.json";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Adopted {
    /// Ids of objects that this version made.
    known: BTreeSet<String>,
    /// Ids of bindings that do not count.
    unadopted: BTreeSet<String>,
    /// Ids of ClusterRoles that no role gathers.
    #[serde(default)]
    unadopted_roles: BTreeSet<String>,
}

pub struct Adoption {
    store: Arc<dyn Store>,
    rbac: Arc<Rbac>,
    folder: KeyFolder,
    state: Mutex<Adopted>,
    /// Access rules count from this start on.
    pub is_first: bool,
    /// Told when roles are adopted.
    follower: OnceLock<Box<dyn Fn() + Send + Sync>>,
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
        let known = read.filter(|read| has_one(&*store, &read.known));
        let is_first = known.is_none();
        let state = known.unwrap_or_else(|| Adopted {
            known: BTreeSet::new(),
            unadopted: ids(&*store, &bootstrap::bindings(), false),
            unadopted_roles: ids_of(&*store, &[bootstrap::cluster_roles()], false, &aggregate::joins),
        });
        rbac.pass_over(state.unadopted.iter().cloned().collect());
        let follower = OnceLock::new();
        let adoption = Adoption { store, rbac, folder, state: Mutex::new(state), is_first, follower };
        if is_first {
            adoption.begin();
        }
        adoption
    }

    /// Written before anything of this version is made: a start that breaks off is a first start again.
    fn begin(&self) {
        let state = locked(&self.state).clone();
        let (bindings, roles) = (state.unadopted.len(), state.unadopted_roles.len());
        if bindings + roles > 0 {
            log::warn!(
                "access rules count from now on; {bindings} bindings from before do not, and {roles} roles from before \
                 are gathered by no other: coracle-master rbac adopt"
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

    /// The bindings that do not count and the roles that nobody gathers, as far as they are still there.
    pub fn unadopted(&self) -> Vec<Value> {
        let Adopted { unadopted, unadopted_roles, .. } = locked(&self.state).clone();
        let bindings = self.found(bootstrap::bindings().to_vec(), &unadopted, |stored, object| {
            json!({
                "kind": if stored.key.namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" },
                "namespace": stored.key.namespace,
                "name": stored.key.name,
                "role": object["roleRef"],
                "subjects": object["subjects"],
            })
        });
        let roles = self.found(vec![bootstrap::cluster_roles()], &unadopted_roles, |stored, object| {
            let joins: Vec<String> = aggregate::joined(object).map(str::to_owned).collect();
            json!({"kind": "ClusterRole", "namespace": "", "name": stored.key.name, "joins": joins})
        });
        [bindings, roles].concat()
    }

    fn found(
        &self,
        resources: Vec<Resource>,
        ids: &BTreeSet<String>,
        shown: impl Fn(&Stored, &Value) -> Value,
    ) -> Vec<Value> {
        if ids.is_empty() {
            return Vec::new();
        }
        let all = resources.into_iter().flat_map(|resource| self.store.list(&resource, None).items);
        let shown = |stored: Stored| {
            let object: Value = serde_json::from_slice(&stored.json).ok()?;
            ids.contains(&id(&stored, &object)?).then(|| shown(&stored, &object))
        };
        all.filter_map(shown).collect()
    }

    /// The ids of ClusterRoles that no role gathers.
    pub fn unadopted_roles(&self) -> HashSet<String> {
        locked(&self.state).unadopted_roles.iter().cloned().collect()
    }

    /// The follower is told when roles are adopted.
    pub fn follow(&self, follower: Box<dyn Fn() + Send + Sync>) {
        drop(self.follower.set(follower));
    }

    /// All bindings count from now on, and all roles are gathered. Returns how many more these are.
    pub fn adopt(&self) -> Result<usize, String> {
        let taken = self.unadopted().len();
        {
            let mut state = locked(&self.state);
            let adopted = Adopted { known: state.known.clone(), ..Adopted::default() };
            self.keep(&adopted)?;
            self.rbac.pass_over(HashSet::new());
            *state = adopted;
        }
        self.follower.get().into_iter().for_each(|follower| follower());
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

/// Whether an object with one of these ids is there. The first that is found is enough.
fn has_one(store: &dyn Store, known: &BTreeSet<String>) -> bool {
    let is_known = |stored: &Stored| {
        let object: Option<Value> = serde_json::from_slice(&stored.json).ok();
        object.and_then(|object| id(stored, &object)).is_some_and(|id| known.contains(&id))
    };
    bootstrap::resources().iter().any(|resource| store.list(resource, None).items.iter().any(is_known))
}

/// The ids of the objects that every cluster has, or of all others.
fn ids(store: &dyn Store, resources: &[Resource], of_every_cluster: bool) -> BTreeSet<String> {
    ids_of(store, resources, of_every_cluster, &|_| true)
}

fn ids_of(
    store: &dyn Store,
    resources: &[Resource],
    of_every_cluster: bool,
    like: &dyn Fn(&Value) -> bool,
) -> BTreeSet<String> {
    let own: HashSet<(Resource, String, String)> =
        bootstrap::objects().into_iter().map(|one| (one.resource, one.namespace, one.name)).collect();
    let found = resources.iter().flat_map(|resource| store.list(resource, None).items);
    let id_of = |stored: Stored| {
        let key = (stored.key.resource.clone(), stored.key.namespace.clone(), stored.key.name.clone());
        if own.contains(&key) != of_every_cluster {
            return None;
        }
        let object: Value = serde_json::from_slice(&stored.json).ok()?;
        id(&stored, &object).filter(|_| like(&object))
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
        let labels = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
        let joins = json!({"metadata": {"name": "joins", "labels": labels}, "rules": everything});
        make(&registry, "clusterroles", "", &joins);
        let (rbac, adoption) = start();
        assert!(adoption.is_first && !edits(&rbac, "old") && !edits(&rbac, "anybody"));
        let names = |adoption: &Adoption| -> Vec<String> {
            adoption.unadopted().iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!((names(&adoption), adoption.unadopted_roles().len()), (vec!["old".into(), "joins".into()], 1));
        make(&registry, "rolebindings", "a", &binds("new"));
        assert!(edits(&rbac, "new"));
        let before = registry.store.revision();
        let (rbac, adoption) = start();
        assert_eq!(registry.store.revision(), before, "a quiet start writes nothing");
        assert!(!adoption.is_first && !edits(&rbac, "old") && edits(&rbac, "new"));
        assert_eq!(names(&adoption), ["old", "joins"]);
        let (tell, told) = std::sync::mpsc::channel();
        adoption.follow(Box::new(move || tell.send(()).expect("somebody hears")));
        assert_eq!((adoption.adopt(), adoption.unadopted().len()), (Ok(2), 0));
        assert!(told.try_recv().is_ok() && adoption.unadopted_roles().is_empty());
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
