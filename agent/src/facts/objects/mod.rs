//! The ConfigMaps and Secrets that pods of this host use, and the tokens of their service accounts, as far as they are
//! known. PURE: `door`, `requests` and `kept` beside this file fetch and
//! keep them.
//!
//!     pods of the master -> `uses` -> one watch a kind and namespace (`door`), token requests (`requests`) -> `room`
//!         -> `Objects` -> the loop
//!
//! Unknown is not absent: what the master has not said yet is waited for, and while it does not answer what was known
//! before counts.

mod object;
pub mod tokens;
pub mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::facts::naming::{PodName, Source};
use crate::facts::source_state::SourceState;
pub use object::{BACKUP, Object, ObjectKind, Ref};
pub use tokens::{Got, Token, TokenRef};

/// The known state of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ObjectState<'a> {
    There(&'a Arc<Object>),
    /// The master does not answer; this is the last known state.
    Kept(&'a Arc<Object>),
    Absent,
    Unknown {
        /// The master was asked and does not answer.
        silent: bool,
    },
}

/// All that is known now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// The objects of the master's present cluster. None: there is no such object.
    pub known: BTreeMap<Ref, Option<Arc<Object>>>,
    /// The objects that pods of this host used when the master last answered.
    pub kept: BTreeMap<Ref, Arc<Object>>,
    /// The same of clusters that this host belonged to before.
    pub others: BTreeMap<Ref, Arc<Object>>,
    /// The uids of pods from these earlier clusters.
    pub foreign: BTreeSet<String>,
    /// The outcomes of requests for tokens, and the earlier tokens.
    pub tokens: BTreeMap<TokenRef, Got>,
    pub kept_tokens: BTreeMap<TokenRef, Arc<str>>,
    /// The master does not answer.
    pub silent: bool,
    /// Those of the manifest directory.
    pub files: BTreeMap<Ref, Arc<Object>>,
    /// Not all of the directory could be read.
    pub files_unknown: bool,
}

impl Objects {
    pub fn find(&self, pod: &PodName, kind: ObjectKind, name: &str) -> ObjectState<'_> {
        self.find_in(pod, kind, &pod.namespace, name)
    }

    /// `namespace` is empty for what is the cluster's.
    pub fn find_in(&self, pod: &PodName, kind: ObjectKind, namespace: &str, name: &str) -> ObjectState<'_> {
        if name.is_empty() {
            return ObjectState::Absent;
        }
        let wanted = Ref { kind, namespace: namespace.to_owned(), name: name.to_owned() };
        match pod.source {
            Source::File => match self.files.get(&wanted) {
                Some(object) => ObjectState::There(object),
                None if self.files_unknown => ObjectState::Unknown { silent: true },
                None => ObjectState::Absent,
            },
            Source::Master if self.foreign.contains(&pod.uid) => match self.others.get(&wanted) {
                Some(object) => ObjectState::Kept(object),
                None => ObjectState::Unknown { silent: true },
            },
            Source::Master => match self.known.get(&wanted) {
                Some(Some(object)) => ObjectState::There(object),
                Some(None) => ObjectState::Absent,
                None => match self.kept.get(&wanted).filter(|_| self.silent) {
                    Some(object) => ObjectState::Kept(object),
                    None => ObjectState::Unknown { silent: self.silent },
                },
            },
        }
    }

    pub fn token(&self, pod: &PodName, wanted: &TokenRef) -> Token<'_> {
        if pod.source == Source::File {
            return Token::Failed("pods of files have no service account");
        }
        let kept = self.kept_tokens.get(wanted).map(|text| Token::Kept(text));
        if self.foreign.contains(&pod.uid) {
            return kept.unwrap_or(Token::Failed("the pod's cluster is not the master's"));
        }
        match self.tokens.get(wanted) {
            Some(Got::Token(text)) => Token::There(text),
            Some(Got::Failed(_)) | None if self.silent && kept.is_some() => kept.unwrap_or(Token::Asked),
            Some(Got::Failed(why)) => Token::Failed(why),
            None if self.silent => Token::Failed("the master does not answer"),
            None => Token::Asked,
        }
    }
}

/// Adds the manifest directory's objects, for pods of files.
pub fn with_files(objects: Arc<Objects>, files: Option<&SourceState>) -> Arc<Objects> {
    let files_unknown = files.is_none_or(|files| !files.complete);
    let files = files.map(|files| files.objects.clone()).unwrap_or_default();
    if files.is_empty() && !files_unknown {
        return objects;
    }
    Arc::new(Objects { files, files_unknown, ..(*objects).clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(text: &str) -> Arc<Object> {
        Arc::new(Object::read(ObjectKind::ConfigMap, &json!({"data": {"k": text}})))
    }

    #[test]
    fn unknown_is_not_absent() {
        let pod = |source, uid: &str| PodName { source, namespace: "n".into(), name: "p".into(), uid: uid.into() };
        let reference = |name: &str| Ref { kind: ObjectKind::ConfigMap, namespace: "n".into(), name: name.into() };
        let mut objects = Objects::default();
        let master = pod(Source::Master, "u");
        let (new, old, foreign, file) = (object("new"), object("old"), object("foreign"), object("file"));
        assert_eq!(objects.find(&master, ObjectKind::ConfigMap, "a"), ObjectState::Unknown { silent: false });
        objects.kept.insert(reference("a"), old.clone());
        assert_eq!(
            objects.find(&master, ObjectKind::ConfigMap, "a"),
            ObjectState::Unknown { silent: false },
            "the master may answer yet"
        );
        objects.silent = true;
        assert_eq!(objects.find(&master, ObjectKind::ConfigMap, "a"), ObjectState::Kept(&old));
        assert_eq!(objects.find(&master, ObjectKind::Secret, "a"), ObjectState::Unknown { silent: true });
        objects.known.insert(reference("a"), Some(new.clone()));
        objects.known.insert(reference("b"), None);
        assert_eq!(objects.find(&master, ObjectKind::ConfigMap, "a"), ObjectState::There(&new));
        assert_eq!(objects.find(&master, ObjectKind::ConfigMap, "b"), ObjectState::Absent);
        objects.foreign.insert("f".into());
        assert_eq!(
            objects.find(&pod(Source::Master, "f"), ObjectKind::ConfigMap, "a"),
            ObjectState::Unknown { silent: true }
        );
        objects.others.insert(reference("a"), foreign.clone());
        assert_eq!(objects.find(&pod(Source::Master, "f"), ObjectKind::ConfigMap, "a"), ObjectState::Kept(&foreign));
        objects.files.insert(reference("a"), file.clone());
        assert_eq!(objects.find(&pod(Source::File, "x"), ObjectKind::ConfigMap, "a"), ObjectState::There(&file));
        assert_eq!(objects.find(&pod(Source::File, "x"), ObjectKind::ConfigMap, "c"), ObjectState::Absent);
    }
}
