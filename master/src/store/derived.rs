//! A value that is compiled from stored objects, and compiled anew only after one of these objects has changed.
//!
//! Nothing is compiled before a caller asks, and no watcher is kept: `Store::changed` says at which revision a resource
//! changed last. A write that was answered before a caller asks is in the value that the caller gets.

use super::{Page, Store, locked};
use coracle_api::meta::{Resource, Revision};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The JSON of which values are kept, at most, and so a few times as much memory. A value of more objects than that is
/// compiled for each caller.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// The memory of a value without objects.
const VALUE_BYTES: usize = 128;

type Compile<T> = Box<dyn Fn(&[Page]) -> T + Send + Sync>;

/// The pages of `compile` are those of `resources`, in this order.
pub struct Derived<T> {
    resources: Vec<Resource>,
    compile: Compile<T>,
    /// As `KEPT_BYTES_MAX`.
    kept_bytes_max: usize,
    /// By namespace. None: of all namespaces.
    kept: Mutex<BTreeMap<Option<Arc<str>>, Compiled<T>>>,
}

struct Compiled<T> {
    /// The last change of the resources, in any namespace.
    changed: Revision,
    objects: Objects,
    bytes: usize,
    value: Arc<T>,
}

/// The identity of what a value is compiled from: no revision is used for two contents.
#[derive(PartialEq)]
struct Objects {
    revisions: Vec<Revision>,
    damaged: usize,
}

impl<T> Derived<T> {
    pub fn new(
        resources: impl IntoIterator<Item = Resource>,
        compile: impl Fn(&[Page]) -> T + Send + Sync + 'static,
    ) -> Derived<T> {
        Derived {
            resources: resources.into_iter().collect(),
            compile: Box::new(compile),
            kept_bytes_max: KEPT_BYTES_MAX,
            kept: Mutex::new(BTreeMap::new()),
        }
    }

    /// Keeps the values of more objects.
    pub fn keeping(self, kept_bytes_max: usize) -> Derived<T> {
        Derived { kept_bytes_max, ..self }
    }

    /// The value of the objects in one namespace, or in all.
    pub fn get(&self, store: &dyn Store, namespace: Option<&str>) -> Arc<T> {
        // Before the objects are read: a write in between makes the next caller compare again.
        let changed = self.resources.iter().map(|resource| store.changed(resource)).max().unwrap_or_default();
        let namespace: Option<Arc<str>> = namespace.map(Arc::from);
        if let Some(compiled) = locked(&self.kept).get(&namespace)
            && compiled.changed == changed
        {
            return compiled.value.clone();
        }
        let pages: Vec<Page> =
            self.resources.iter().map(|resource| store.list(resource, namespace.as_deref())).collect();
        let objects = Objects {
            revisions: pages.iter().flat_map(|page| &page.items).map(|stored| stored.revision).collect(),
            damaged: pages.iter().map(|page| page.damaged.len()).sum(),
        };
        if let Some(compiled) = locked(&self.kept).get_mut(&namespace)
            && compiled.objects == objects
        {
            compiled.changed = compiled.changed.max(changed);
            return compiled.value.clone();
        }
        let value = Arc::new((self.compile)(&pages));
        let bytes =
            VALUE_BYTES + pages.iter().flat_map(|page| &page.items).map(|stored| stored.json.len()).sum::<usize>();
        self.keep(namespace, Compiled { changed, objects, bytes, value: value.clone() });
        value
    }

    /// How many values are kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        locked(&self.kept).len()
    }

    fn keep(&self, namespace: Option<Arc<str>>, compiled: Compiled<T>) {
        let mut kept = locked(&self.kept);
        if kept.get(&namespace).is_some_and(|other| other.changed > compiled.changed) {
            return;
        }
        kept.remove(&namespace);
        if kept.values().map(|other| other.bytes).sum::<usize>() + compiled.bytes > self.kept_bytes_max {
            kept.clear();
        }
        if compiled.bytes <= self.kept_bytes_max {
            kept.insert(namespace, compiled);
        }
    }
}
