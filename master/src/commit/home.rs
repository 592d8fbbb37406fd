//! The namespace of a new object: it has to be there, and not to end before the object is stored.

use super::furniture::NAMESPACES;
use super::written::{Drafted, ReadBack};
use super::{Change, CommitError, NamespaceError, Registry, Terms, Writer};
use crate::prepare;
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::furniture::{ACCOUNT, ACCOUNTS};
use coracle_api::strategy::namespace::is_ending;
use serde_json::Value;
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// Held until a change is stored: no namespace is marked to go while something is made in it.
pub(super) enum Home<'r> {
    Shared(#[expect(dead_code, reason = "held")] RwLockReadGuard<'r, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'r, ()>),
    Free,
}

impl Registry {
    /// The look at the namespace of a new object before anything else is done about the object.
    pub(super) fn look_home<E>(
        &self,
        change: &Change<'_, E>,
        object: &Value,
        terms: &Terms<'_>,
    ) -> Result<(), CommitError<E>> {
        if terms.writer == Writer::ClientOf2014 && change.kind.namespaced {
            // A document that is refused must not leave a namespace behind.
            let (kind, object) = (change.kind, object.clone());
            let write =
                self.maker.making(|making| prepare::create(kind, change.namespace, object, terms.rules, making));
            write.map_err(CommitError::InvalidDocument)?;
        }
        self.shared(change, object, terms).map(drop)
    }

    /// The namespace, held until the change is stored.
    pub(super) fn home<E>(
        &self,
        change: &Change<'_, E>,
        found: &ReadBack,
        draft: &Drafted<'_>,
        terms: &Terms<'_>,
    ) -> Result<Home<'_>, CommitError<E>> {
        match draft {
            Drafted::Document { draft, .. } if found.standing().is_none() => self.shared(change, &draft.object, terms),
            Drafted::Ready(..) if change.kind.resource == NAMESPACES => {
                Ok(Home::Alone(self.homes.write().unwrap_or_else(PoisonError::into_inner)))
            }
            Drafted::Document { .. } | Drafted::Ready(..) => Ok(Home::Free),
        }
    }

    fn shared<E>(&self, change: &Change<'_, E>, object: &Value, terms: &Terms<'_>) -> Result<Home<'_>, CommitError<E>> {
        if !change.kind.namespaced || terms.writer == Writer::Master {
            return Ok(Home::Free);
        }
        let shared = self.homes.read().unwrap_or_else(PoisonError::into_inner);
        self.stands(change.namespace, object, terms).map_err(CommitError::NamespaceError)?;
        if change.kind.resource == Resource::core("pods") && !self.is_furnished(change.namespace) {
            self.furnish(change.namespace);
        }
        Ok(Home::Shared(shared))
    }

    fn stands(&self, namespace: &str, object: &Value, terms: &Terms<'_>) -> Result<(), NamespaceError> {
        let key = Key { resource: NAMESPACES, namespace: String::new(), name: namespace.to_owned() };
        match self.store.get(&key) {
            Ok(Some(stored)) if is_ending(&serde_json::from_slice(&stored.json).unwrap_or_default()) => {
                Err(NamespaceError::Ending { name: named(object) })
            }
            Ok(Some(_)) => Ok(()),
            Ok(None) if terms.writer == Writer::ClientOf2014 => {
                let forbidden = |why| NamespaceError::Forbidden { name: named(object), why };
                self.may_make_namespace(terms).map_err(forbidden)?;
                // A rehearsal makes nothing.
                if terms.rehearsal {
                    return Ok(());
                }
                self.ensure_namespace(namespace).map_err(|why| NamespaceError::Unmade { why })
            }
            Ok(None) => Err(NamespaceError::Missing),
            // An unreadable namespace counts as present.
            Err(_) if terms.writer == Writer::Controller => Ok(()),
            Err(damaged) => Err(NamespaceError::Damaged { why: damaged.why }),
        }
    }

    /// Whether pods can be made in it. The controllers may not have come round to that.
    fn is_furnished(&self, name: &str) -> bool {
        let key = Key { resource: ACCOUNTS, namespace: name.to_owned(), name: ACCOUNT.to_owned() };
        !matches!(self.store.get(&key), Ok(None))
    }
}

/// The name of a new object, or what its name begins with.
fn named(object: &Value) -> String {
    let said = |field: &str| object["metadata"][field].as_str().filter(|name| !name.is_empty());
    said("name").or(said("generateName")).unwrap_or_default().to_owned()
}
