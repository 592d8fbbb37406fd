//! A document becomes a write, or the reasons why not. PURE. `Draft` is a document on its way; `commit` leads it.
//!
//!     create:  defaults -> mutate: strategy.create -> validate
//!              -> finish: what says nothing goes, owners of fields, claims
//!     update:  whose revision, whose uid -> defaults -> mutate: what says nothing goes, strategy.update
//!              -> validate_update
//!              -> finish: owners, claims; a deletion where the last finalizer went
//!     part:    ... -> mutate: the rest is taken over, strategy.status_update, defaults, what says nothing goes -> ...
//!     delete:  preconditions -> strategy.delete -> Departure
//!
//! Documents have the right types already (`shape`); what is here may only be wrong in its values.

mod draft;
mod owned;

pub use draft::{Draft, Prepared};
pub use owned::{answered, with_writer};

use crate::store::{Claimed, Write};
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource, Revision, Time};
use coracle_api::strategy::{self, Deleting, Deletion, DeletionPropagation, Making, Rules, Share};
use coracle_schema::apply::Managed;
use coracle_schema::{Problem, check, decode, default, tidy};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// A creation token stays taken for so long after its object is gone, in uptime.
const CREATION_TOKEN_AFTER_DEATH: Duration = Duration::from_secs(3600);

/// An object as it stands in the store, parsed.
#[derive(Clone, Copy)]
pub struct Standing<'a> {
    pub key: &'a Key,
    pub revision: Revision,
    pub object: &'a Value,
}

/// The owner of the written fields.
#[derive(Clone, Debug)]
pub enum Ownership<'a> {
    /// Nobody's changes: what the master and the agent observe and decide themselves is not worth its place.
    Untold,
    /// This manager writes, in the form of this kind where its documents have another form than they are stored in.
    Written(&'a str, Option<&'a Kind>),
    /// An apply has settled it.
    Applied(Managed),
}

/// The part of an object that an update changes.
#[derive(Clone, Copy)]
pub enum Part {
    Main,
    Status,
    /// A part of the object with a separate path, beside status and scale.
    Share(&'static Share),
    /// The number of replicas alone, in the document as a whole.
    Scale,
}

impl Part {
    /// Behind the object's own path.
    pub fn path(self) -> &'static str {
        match self {
            Part::Main => "",
            Part::Status => "status",
            Part::Share(share) => share.name,
            Part::Scale => "scale",
        }
    }
}

impl PartialEq for Part {
    fn eq(&self, other: &Part) -> bool {
        self.path() == other.path()
    }
}

/// Why a document is no write. Expected outcomes.
#[derive(Debug, PartialEq)]
pub enum InvalidDocument {
    /// `name`: as the object would be called, by a name that was made for it too.
    Invalid { name: String, problems: Vec<Problem> },
    /// The revision in the document differs from the stored revision.
    Stale,
    /// It names none, and objects of its kind are not written over unseen.
    Unseen,
    /// It names something that is no revision at all.
    NoRevision { why: String },
    /// The document, or a precondition, names another uid: it means an earlier object of this name.
    OtherUid { given: String, stands: String },
    /// Admission refuses the write because of other objects, such as a quota.
    Forbidden {
        /// The name of the object, or the prefix of its name if it has none yet.
        name: String,
        why: String,
    },
    /// Admission refuses values of the document. Kubernetes tells each of them once.
    Unadmitted { name: String, problems: Vec<Problem> },
    /// An object that admission looks for is not there.
    NotThere { key: Key },
    /// Its writer has written too much of the kind.
    TooMany { why: String, retry_after_s: u32 },
    /// A precondition names another revision.
    OtherRevision { given: String, stands: Revision },
}

impl fmt::Display for InvalidDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidDocument::Invalid { problems, .. } | InvalidDocument::Unadmitted { problems, .. } => {
                let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
                f.write_str(&texts.join(", "))
            }
            InvalidDocument::Forbidden { name, why } => write!(f, "{name:?} is forbidden: {why}"),
            InvalidDocument::NotThere { key } => write!(f, "{key} is not there"),
            InvalidDocument::TooMany { why, .. } => f.write_str(why),
            InvalidDocument::Stale => f.write_str("somebody else wrote first"),
            InvalidDocument::Unseen => f.write_str("it names no resourceVersion"),
            InvalidDocument::NoRevision { why } => write!(f, "its resourceVersion is no number: {why}"),
            InvalidDocument::OtherUid { given, stands } => {
                write!(f, "uid {given} was meant, and {stands} stands there")
            }
            InvalidDocument::OtherRevision { given, stands } => {
                write!(f, "resourceVersion {given} was meant, and {stands} stands there")
            }
        }
    }
}

/// The preconditions of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// The write of a new object, without admission: no defaults and no limits from other objects.
pub fn create(
    kind: &Kind,
    namespace: &str,
    object: Value,
    rules: Rules,
    making: &mut Making<'_>,
) -> Result<Write, InvalidDocument> {
    let mut draft = Draft::create(kind, namespace, object, Ownership::Untold);
    draft.mutate(making);
    draft.validate(rules)?;
    Ok(draft.finish(making.now).write)
}

/// A question: a document that is answered and never stored. It has no name.
pub fn question(
    kind: &Kind,
    namespace: &str,
    mut object: Value,
    rules: Rules,
    now: Time,
    ownership: Ownership<'_>,
) -> Result<Value, InvalidDocument> {
    place(kind, namespace, &mut object);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    default(&kind.types, &kind.type_name, &mut object);
    tidy(&kind.types, &kind.type_name, &mut object);
    let of_type = check(&kind.types, &kind.type_name, &object);
    if of_type.is_empty() {
        // Before the rules: a refusal of the metadata shows the owners.
        let said = owned::said(kind, &mut object, &ownership);
        owned::settle(kind, Part::Main, None, &mut object, said, ownership, now);
    }
    fit(&Value::Null, of_type, kind.strategy.validate(&object, rules))?;
    Ok(object)
}

/// The write of a document that replaces the stored object or a part of the object, without admission.
pub fn update(
    kind: &Kind,
    old: Standing<'_>,
    part: Part,
    new: Value,
    rules: Rules,
    making: &mut Making<'_>,
) -> Result<Write, InvalidDocument> {
    let mut draft = Draft::update(kind, old, part, new, rules, Ownership::Untold)?;
    draft.mutate(making);
    draft.validate(rules)?;
    Ok(draft.finish(making.now).write)
}

/// The outcome of a deletion.
#[derive(Debug, PartialEq)]
pub enum Departure {
    /// It goes as it stands.
    Now,
    /// It is written like this, and then it goes.
    Last(Value),
    /// It stays, written like this.
    Marked(Value),
    /// It was asked for before, and nothing changes.
    Pending,
}

/// `fate`: the propagation policy for dependents, if the deletion names a policy.
pub fn depart(
    kind: &Kind,
    old: Standing<'_>,
    preconditions: &Preconditions,
    deleting: Deleting,
    fate: Option<DeletionPropagation>,
) -> Result<Departure, InvalidDocument> {
    meant(old, preconditions)?;
    let parting = kind.fate.map(|default| strategy::meta::parting(old.object, fate, default));
    Ok(match kind.strategy.delete(parting.as_ref().unwrap_or(old.object), deleting) {
        Deletion::Remove => Departure::Now,
        Deletion::Last(marked) => Departure::Last(marked),
        Deletion::Mark(marked) => Departure::Marked(marked),
        Deletion::Pending => Departure::Pending,
    })
}

/// Whether this is the object that the preconditions mean.
pub fn meant(old: Standing<'_>, preconditions: &Preconditions) -> Result<(), InvalidDocument> {
    let stands = old.object["metadata"]["uid"].as_str().unwrap_or_default();
    if let Some(given) = preconditions.uid.as_deref().filter(|uid| *uid != stands) {
        return Err(InvalidDocument::OtherUid { given: given.to_owned(), stands: stands.to_owned() });
    }
    if let Some(given) =
        preconditions.resource_version.as_deref().filter(|version| *version != old.revision.to_string())
    {
        return Err(InvalidDocument::OtherRevision { given: given.to_owned(), stands: old.revision });
    }
    Ok(())
}

/// A document that a person put into the store's directory while no master ran. A document with a uid replaces the
/// original object; a document without a uid is a new object. `stood`: the original object, if known: only then can
/// immutable fields be enforced.
pub fn by_hand(
    kind: &Kind,
    key: &Key,
    object: Value,
    stood: Option<&Value>,
    making: &mut Making<'_>,
) -> Result<Value, InvalidDocument> {
    let mut rules = Rules { old_names: true, ..Rules::default() };
    let was = object.clone();
    let known = was["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty());
    rules.standing = known;
    let write = if known {
        let revision = was["metadata"]["resourceVersion"]
            .as_str()
            .and_then(|said| said.parse().ok())
            .map_or(Revision(0), Revision);
        update(kind, Standing { key, revision, object: &was }, Part::Main, object, rules, making)?
    } else {
        create(kind, &key.namespace, object, rules, making)?
    };
    match write {
        Write::Create { object, .. } => Ok(object),
        Write::Update { object, .. } => {
            // The earlier content may be unknown, so the whole document must be valid.
            fit(&object, check(&kind.types, &kind.type_name, &object), kind.strategy.validate(&object, rules))?;
            if let Some(stood) = stood.filter(|stood| stood["metadata"]["uid"] == object["metadata"]["uid"]) {
                fit(&object, Vec::new(), kind.strategy.validate_update(&object, stood, rules))?;
            }
            Ok(object)
        }
        // An existing file means an existing object: no edit deletes the object.
        Write::Delete { .. } => Ok(was),
    }
}

/// The whole of an update that needs no strategy's opinion any more.
pub fn replace(kind: &Kind, old: Standing<'_>, object: Value) -> Write {
    let claims = claims(kind, &object);
    Write::Update { key: old.key.clone(), seen: old.revision, durable: kind.strategy.durable(&object), object, claims }
}

/// The problems of types in a document.
pub fn fault(kind: &Kind, mut object: Value) -> Option<String> {
    decode(&kind.types, &kind.type_name, &mut object).message()
}

/// The claims of an object, also of an object that a start loads.
pub fn claims(kind: &Kind, object: &Value) -> Vec<Claimed> {
    let while_alive = |claim| Claimed { claim, after_death: Duration::ZERO };
    let mut claims: Vec<Claimed> = kind.strategy.claims(object).into_iter().map(while_alive).collect();
    claims.extend(token(&kind.resource, object));
    claims
}

/// The claim of an object of any kind, also of a kind that is not known yet: its creation token.
pub fn token(resource: &Resource, object: &Value) -> Option<Claimed> {
    let claim = strategy::creation_token(&resource.plural, object)?;
    Some(Claimed { claim, after_death: CREATION_TOKEN_AFTER_DEATH })
}

/// Writes the name and namespace of the path into the object.
fn place(kind: &Kind, namespace: &str, object: &mut Value) {
    if !object.is_object() {
        *object = Value::Object(Default::default());
    }
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.as_ref().into();
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Default::default());
    }
    if kind.namespaced {
        object["metadata"]["namespace"] = namespace.into();
    } else if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("namespace");
    }
}

/// What the type says against a document, and did not say against the one that stands: that was taken once, and stays
/// good.
fn new_faults(kind: &Kind, new: &Value, old: &Value) -> Vec<Problem> {
    let found = check(&kind.types, &kind.type_name, new);
    if found.is_empty() {
        return found;
    }
    strategy::meta::new_problems(found, &check(&kind.types, &kind.type_name, old))
}

/// The message about a field that may not change.
const IMMUTABLE: &str = "field is immutable";

/// What the strategy says of a value, in its order, and what the type says; where both say it, it is said once. The
/// strategy may call the place by the name that Kubernetes has for it.
fn fit(object: &Value, of_type: Vec<Problem>, mut problems: Vec<Problem>) -> Result<(), InvalidDocument> {
    for problem in of_type {
        let same = |other: &Problem| strategy::covers(other, &problem);
        if !problems.iter().any(same) {
            // An object is looked at before it is compared with the one that stands.
            let compared = problems.iter().position(|other| other.detail == IMMUTABLE);
            problems.insert(compared.unwrap_or(problems.len()), problem);
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Err(InvalidDocument::Invalid { name, problems })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::kinds::Kinds;
    use serde_json::json;

    fn making<T>(run: impl FnOnce(&mut Making<'_>) -> T) -> T {
        run(&mut Making {
            now: Time::from_seconds(1_600_000_000).unwrap(),
            uid: "u1".into(),
            suffix: &mut || "abcde".into(),
            service_address: &mut || Some([10, 96, 0, 9].into()),
            node_port: &mut || Some(30001),
        })
    }

    fn kind(plural: &'static str) -> Kind {
        Kinds::builtin().by_resource(&Resource::core(plural)).expect("a row").clone()
    }

    fn made(plural: &'static str, object: Value) -> Value {
        match making(|making| create(&kind(plural), "ns", object, Rules::default(), making)) {
            Ok(Write::Create { object, .. }) => object,
            other => panic!("{other:?}"),
        }
    }

    fn changed(object: &Value, part: Part, new: Value) -> Result<Write, InvalidDocument> {
        let key = Key { resource: Resource::core("pods"), namespace: "ns".into(), name: "p".into() };
        let old = Standing { key: &key, revision: Revision(7), object };
        making(|making| update(&kind("pods"), old, part, new, Rules::default(), making))
    }

    #[test]
    fn a_create_has_its_key_claims_and_place() {
        let object = json!({
            "kind": "Wrong", "metadata": {"generateName": "s-", "annotations": {"coracle.dev/creation-token": "t"}},
            "spec": {"ports": [{"port": 80}]},
        });
        let write = making(|making| create(&kind("services"), "ns", object, Rules::default(), making));
        let Ok(Write::Create { key, object, claims, durable: _ }) = write else { panic!("{write:?}") };
        assert_eq!((key.namespace.as_str(), key.name.as_str(), &object["kind"]), ("ns", "s-abcde", &json!("Service")));
        assert_eq!((&object["metadata"]["uid"], &object["spec"]["clusterIP"]), (&json!("u1"), &json!("10.96.0.9")));
        let shown: Vec<_> =
            claims.iter().map(|c| (c.claim.space.as_ref(), c.claim.value.as_str(), c.after_death.as_secs())).collect();
        assert_eq!(shown, [("clusterIP", "10.96.0.9", 0), ("creationToken/services/ns", "t", 3600)]);
    }

    #[test]
    fn an_update_is_meant_for_what_it_names() {
        let pod =
            made("pods", json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
        let with = |field: &str, value: &str| {
            let mut new = pod.clone();
            new["metadata"][field] = value.into();
            changed(&pod, Part::Main, new)
        };
        assert!(matches!(with("resourceVersion", "7"), Ok(Write::Update { seen: Revision(7), .. })));
        assert!(matches!(with("resourceVersion", "0"), Ok(Write::Update { .. })));
        assert_eq!(with("resourceVersion", "6").unwrap_err(), InvalidDocument::Stale);
        assert!(matches!(with("resourceVersion", "007"), Ok(Write::Update { .. })));
        let no_number = |why: &str| InvalidDocument::NoRevision { why: format!("strconv.ParseUint: parsing {why}") };
        assert_eq!(with("resourceVersion", "x").unwrap_err(), no_number("\"x\": invalid syntax"));
        let large = "18446744073709551616";
        assert_eq!(with("resourceVersion", large).unwrap_err(), no_number(&format!("{large:?}: value out of range")));
        assert_eq!(
            with("uid", "u2").unwrap_err(),
            InvalidDocument::OtherUid { given: "u2".into(), stands: "u1".into() }
        );
        assert!(matches!(changed(&pod, Part::Main, json!({"metadata": {"name": "p"}})),
                Err(InvalidDocument::Invalid { problems, .. }) if !problems.is_empty()));
    }

    #[test]
    fn what_was_taken_once_stays_good() {
        let map = made(
            "persistentvolumeclaims",
            json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}),
        );
        let key = Key { resource: Resource::core("persistentvolumeclaims"), namespace: "ns".into(), name: "c".into() };
        let put = |old: &Value, mode: &str| {
            let mut new = old.clone();
            new["metadata"]["labels"] = json!({"a": "b"});
            new["spec"]["volumeMode"] = mode.into();
            let old = Standing { key: &key, revision: Revision(7), object: old };
            making(|making| update(&kind("persistentvolumeclaims"), old, Part::Main, new, Rules::default(), making))
        };
        let mut stood = map.clone();
        stood["spec"]["volumeMode"] = "".into();
        assert!(matches!(put(&stood, ""), Ok(Write::Update { .. })));
        assert!(matches!(put(&map, ""), Err(InvalidDocument::Invalid { .. })));
    }

    #[test]
    fn a_status_changes_nothing_else() {
        let pod =
            made("pods", json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
        let new = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "elsewhere"}, "status": {"phase": "Running"}});
        let Ok(Write::Update { object, .. }) = changed(&pod, Part::Status, new) else { panic!("an update") };
        assert_eq!((&object["spec"], &object["status"]["phase"]), (&pod["spec"], &json!("Running")));
    }

    #[test]
    fn deletions() {
        let key = Key { resource: Resource::core("endpoints"), namespace: "ns".into(), name: "e".into() };
        let now = Time::from_seconds(1_600_000_000).unwrap();
        let mut object = made("endpoints", json!({"metadata": {"name": "e"}}));
        let ask = |object: &Value, preconditions: Preconditions| {
            let old = Standing { key: &key, revision: Revision(7), object };
            depart(&kind("endpoints"), old, &preconditions, Deleting { grace_s: None, now }, None)
        };
        assert_eq!(ask(&object, Preconditions::default()), Ok(Departure::Now));
        let other = Preconditions { uid: Some("u2".into()), resource_version: None };
        assert!(matches!(ask(&object, other), Err(InvalidDocument::OtherUid { .. })));
        let other = Preconditions { uid: Some("u1".into()), resource_version: Some("6".into()) };
        assert!(matches!(ask(&object, other), Err(InvalidDocument::OtherRevision { .. })));
        // A finalizer holds the object; the update that removes the last finalizer deletes the object.
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let Ok(Departure::Marked(marked)) = ask(&object, Preconditions::default()) else { panic!("it is marked") };
        let mut released = marked.clone();
        released["metadata"]["finalizers"] = json!([]);
        let old = Standing { key: &key, revision: Revision(8), object: &marked };
        let write = making(|making| update(&kind("endpoints"), old, Part::Main, released, Rules::default(), making));
        assert!(matches!(write, Ok(Write::Delete { seen: Revision(8), .. })), "{write:?}");
    }
}
