//! The known objects and tokens of pods, shared between the tasks that fetch them and the loop.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::kept::{Kept, ObjectKey, UsedRef};
use crate::desired::follow::News;
use crate::facts::clock::wall_ms;
use crate::facts::objects::{Got, Object, ObjectKind, Objects, Ref, TokenRef, tokens};
use crate::facts::source_state::SourceState;
use crate::facts::view::ViewWriter;
use crate::facts::wanted::Wanted;
use crate::spec::claims;

/// The key of a watch: objects that are watched together.
pub type Shelf = (ObjectKind, String);

pub struct SharedObjects {
    pub state: RefCell<KnownObjects>,
    /// Other tokens are wanted than before.
    pub tokens_wanted: Notify,
    /// More objects are used than before.
    pub more: Notify,
    view: ViewWriter,
}

impl SharedObjects {
    pub fn new(state: KnownObjects, view: ViewWriter) -> SharedObjects {
        SharedObjects { state: RefCell::new(state), tokens_wanted: Notify::new(), more: Notify::new(), view }
    }

    /// Durable before it is acted on.
    pub fn publish(&self) {
        let objects = self.state.borrow_mut().settle(wall_ms() / 1000);
        self.view.put(|view| &mut view.objects, objects);
    }
}

pub struct KnownObjects {
    pub cluster: String,
    /// Objects used by pods of the present cluster, and objects used by pods of other clusters.
    uses: BTreeSet<UsedRef>,
    foreign_uses: BTreeSet<UsedRef>,
    foreign: BTreeSet<String>,
    pub tokens: BTreeMap<TokenRef, RequestedToken>,
    known: BTreeMap<Ref, Option<Arc<Object>>>,
    /// The last known version of each used object, of every cluster.
    kept: BTreeMap<ObjectKey, Arc<Object>>,
    disk: Kept,
    pub silent: bool,
}

/// A token that was asked for.
pub struct RequestedToken {
    pub got: Got,
    /// When it is asked for again.
    pub due: Instant,
    /// Requests that failed since the last that did not.
    pub failures: u32,
}

impl KnownObjects {
    pub fn new(disk: Kept) -> KnownObjects {
        let kept = disk.all().clone();
        let (uses, foreign_uses, foreign) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        KnownObjects {
            cluster: String::new(),
            uses,
            foreign_uses,
            foreign,
            tokens: BTreeMap::new(),
            known: BTreeMap::new(),
            kept,
            disk,
            silent: false,
        }
    }

    /// True: the master is a new cluster, and known objects and tokens of the old cluster no longer count.
    pub fn use_for(&mut self, pods: &SourceState) -> bool {
        let changed = self.cluster != pods.cluster;
        if changed {
            pods.cluster.clone_into(&mut self.cluster);
            self.known.clear();
            self.tokens.clear();
        }
        self.foreign.clone_from(&pods.foreign);
        let of = |foreign: bool| {
            let pods = pods.pods.iter().filter(|wanted| !wanted.pod.status.terminal());
            pods.filter(|wanted| self.foreign.contains(&wanted.name.uid) == foreign)
                .flat_map(|wanted| used(wanted))
                .collect()
        };
        (self.uses, self.foreign_uses) = (of(false), of(true));
        self.follow_claims();
        let uses = |what: UsedRef| self.uses.contains(&what);
        self.known.retain(|one, _| uses(UsedRef::Object(one.clone())));
        self.tokens.retain(|one, _| uses(UsedRef::Token(one.clone())));
        changed
    }

    /// The tokens that pods of the present cluster mount.
    pub fn wanted_tokens(&self) -> Vec<TokenRef> {
        let tokens = self.uses.iter().filter(|_| !self.cluster.is_empty());
        tokens.filter_map(|what| if let UsedRef::Token(token) = what { Some(token.clone()) } else { None }).collect()
    }

    /// The names of the used objects, by the kind and namespace of their common watch.
    pub fn needed(&self) -> BTreeMap<Shelf, BTreeSet<String>> {
        let mut needed: BTreeMap<Shelf, BTreeSet<String>> = BTreeMap::new();
        // While the cluster of the pods is unknown, no master can be asked for their objects.
        for what in self.uses.iter().filter(|_| !self.cluster.is_empty()) {
            if let UsedRef::Object(Ref { kind, namespace, name }) = what {
                needed.entry((*kind, namespace.clone())).or_default().insert(name.clone());
            }
        }
        needed
    }

    /// True: more objects are used than before.
    pub fn take(&mut self, (kind, namespace): &Shelf, names: &BTreeSet<String>, news: News) -> bool {
        let place = |name: &str| Ref { kind: *kind, namespace: namespace.clone(), name: name.to_owned() };
        let name_of = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match news {
            News::Listed(list) => {
                let listed: BTreeMap<String, &Value> = list.iter().map(|object| (name_of(object), object)).collect();
                for name in names {
                    self.hear(place(name), listed.get(name).map(|object| Object::read(*kind, object)));
                }
            }
            News::Event { gone, object } => {
                let name = name_of(&object);
                if names.contains(&name) {
                    self.hear(place(&name), (!gone).then(|| Object::read(*kind, &object)));
                }
            }
        }
        *kind == ObjectKind::Claim && self.follow_claims()
    }

    /// The volumes that claims are bound to are used, too. True: there are more than before.
    fn follow_claims(&mut self) -> bool {
        let bound = |claim: &Object| {
            let name = claims::bound_to(claim)?.to_owned();
            Some(UsedRef::Object(Ref { kind: ObjectKind::Volume, namespace: String::new(), name }))
        };
        let claims_of = |uses: &BTreeSet<UsedRef>| -> Vec<Ref> {
            let objects =
                uses.iter().filter_map(|what| if let UsedRef::Object(one) = what { Some(one.clone()) } else { None });
            objects.filter(|one| one.kind == ObjectKind::Claim).collect()
        };
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        for claim in claims_of(&self.uses) {
            let known = self.known.get(&claim).cloned().flatten();
            let known = known.or_else(|| self.kept.get(&(self.cluster.clone(), UsedRef::Object(claim))).cloned());
            own.extend(known.and_then(|claim| bound(&claim)));
        }
        for claim in claims_of(&self.foreign_uses) {
            let claim = UsedRef::Object(claim);
            let of_others =
                self.kept.iter().filter(|((cluster, known), _)| *cluster != self.cluster && *known == claim);
            foreign.extend(of_others.filter_map(|(_, claim)| bound(claim)));
        }
        let before = self.uses.len();
        self.uses.extend(own);
        self.foreign_uses.extend(foreign);
        self.uses.len() > before
    }

    fn hear(&mut self, place: Ref, object: Option<Object>) {
        if !self.uses.contains(&UsedRef::Object(place.clone())) {
            return;
        }
        match (self.known.get(&place), object) {
            // What has not changed stays the very same.
            (Some(Some(known)), Some(object)) if **known == object => {}
            (_, object) => drop(self.known.insert(place, object.map(Arc::new))),
        }
    }

    /// Keeps the known versions of used objects, and returns all of them.
    pub fn settle(&mut self, now_s: i64) -> Objects {
        for (token, held) in &self.tokens {
            let place = (self.cluster.clone(), UsedRef::Token(token.clone()));
            if let Got::Token(text) = &held.got
                && self.kept.get(&place).is_none_or(|kept| tokens::is_old(&kept.token(), now_s))
            {
                self.kept.insert(place, Arc::new(Object::of_token(text)));
            }
        }
        for (place, object) in &self.known {
            let place = (self.cluster.clone(), UsedRef::Object(place.clone()));
            match object {
                Some(object) => drop(self.kept.insert(place, object.clone())),
                None => drop(self.kept.remove(&place)),
            }
        }
        let (cluster, uses, foreign_uses) = (&self.cluster, &self.uses, &self.foreign_uses);
        if !cluster.is_empty() {
            self.kept
                .retain(|(of, one), _| if of == cluster { uses.contains(one) } else { foreign_uses.contains(one) });
        }
        self.disk.keep(&self.kept);
        let of = |mine: bool| {
            let entries = self.kept.iter().filter(|((of, _), _)| (of == cluster) == mine);
            let object = |what: &UsedRef| if let UsedRef::Object(object) = what { Some(object.clone()) } else { None };
            entries.filter_map(|((_, one), content)| Some((object(one)?, content.clone()))).collect()
        };
        let token = |what: &UsedRef| if let UsedRef::Token(token) = what { Some(token.clone()) } else { None };
        let kept_tokens =
            self.kept.iter().filter_map(|((_, one), content)| Some((token(one)?, content.token()))).collect();
        Objects {
            known: self.known.clone(),
            kept: of(true),
            others: of(false),
            foreign: self.foreign.clone(),
            tokens: self.tokens.iter().map(|(token, held)| (token.clone(), held.got.clone())).collect(),
            kept_tokens,
            silent: self.silent,
            ..Objects::default()
        }
    }
}

/// All that a pod uses.
fn used(wanted: &Wanted) -> impl Iterator<Item = UsedRef> {
    let objects = wanted.objects.iter().cloned().map(UsedRef::Object);
    objects.chain(wanted.tokens.iter().cloned().map(UsedRef::Token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::unkept::Unkept;
    use crate::facts::naming::Source;
    use crate::facts::objects::ObjectState;
    use serde_json::json;

    fn pod(uid: &str, map: &str) -> Arc<Wanted> {
        let document = json!({
            "metadata": {"namespace": "n", "name": uid, "uid": uid},
            "spec": {"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": map}}]}]},
        });
        Arc::new(Wanted::new(Source::Master, document).unwrap())
    }

    fn pods(cluster: &str, pods: Vec<Arc<Wanted>>, foreign: &[&str]) -> SourceState {
        let foreign = foreign.iter().map(|uid| (*uid).to_owned()).collect();
        SourceState { pods, cluster: cluster.to_owned(), foreign, ..SourceState::default() }
    }

    fn map(name: &str, text: &str) -> Value {
        json!({"metadata": {"name": name}, "data": {"k": text}})
    }

    #[test]
    fn what_is_used_is_taken_kept_and_forgotten() {
        let dir = std::env::temp_dir().join(format!("coracle-door-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let data_dir = dir.to_str().unwrap();
        let mut state = KnownObjects::new(Kept::open(data_dir, true, Unkept::default()));
        let shelf = (ObjectKind::ConfigMap, "n".to_owned());
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let (a, b) = (pod("u1", "a"), pod("u2", "b"));
        assert!(state.use_for(&pods("c1", vec![a.clone(), b.clone()], &[])));
        assert_eq!(state.needed(), BTreeMap::from([(shelf.clone(), names(&["a", "b"]))]));
        state.take(&shelf, &names(&["a", "b"]), News::Listed(vec![map("a", "1"), map("x", "2")]));
        let text = |objects: &Objects, wanted: &Wanted, name: &str| match objects.find(
            &wanted.name,
            ObjectKind::ConfigMap,
            name,
        ) {
            ObjectState::There(object) | ObjectState::Kept(object) => {
                String::from_utf8(object.data["k"].to_vec()).unwrap()
            }
            other => format!("{other:?}"),
        };
        let said = state.settle(0);
        assert_eq!((text(&said, &a, "a"), text(&said, &b, "b"), said.known.len()), ("1".into(), "Absent".into(), 2));
        state.take(&shelf, &names(&["a", "b"]), News::Event { gone: false, object: map("b", "3") });
        state.take(&shelf, &names(&["a", "b"]), News::Event { gone: true, object: map("a", "1") });
        let said = state.settle(0);
        assert_eq!((text(&said, &a, "a"), text(&said, &b, "b")), ("Absent".into(), "3".into()));
        // A reboot without a master.
        let mut after = KnownObjects::new(Kept::open(data_dir, true, Unkept::default()));
        after.use_for(&pods("c1", vec![b.clone()], &[]));
        assert!(text(&after.settle(0), &b, "b").contains("silent: false"));
        after.silent = true;
        assert_eq!(text(&after.settle(0), &b, "b"), "3");
        // The master is a new cluster: the pod goes on with the kept objects.
        assert!(after.use_for(&pods("c2", vec![b.clone()], &["u2"])));
        assert!(after.needed().is_empty());
        assert_eq!(text(&after.settle(0), &b, "b"), "3");
        after.use_for(&pods("c2", Vec::new(), &[]));
        after.settle(0);
        assert!(Kept::open(data_dir, true, Unkept::default()).all().is_empty());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
