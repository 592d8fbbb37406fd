//! The one gate before `Store::write`: a client's or a controller's document becomes a write, or the reasons why not. PURE.
//!
//!     create:  schema defaults -> admit: complete -> strategy.create -> validate -> admit: judge -> what says nothing goes -> owners
//!              of fields -> claims -> Write::Create
//!     update:  whose revision, whose uid -> schema defaults -> what says nothing goes -> strategy.update -> validate_update -> owners
//!              -> claims -> Write::Update, or Delete where the last finalizer went
//!     status:  ... strategy.status_update -> schema defaults -> what says nothing goes -> validate_update -> ...
//!     delete:  preconditions -> strategy.delete -> Write::Delete, or Write::Update that marks the object
//!
//! Documents have the right types already (`shape`); what is here may only be wrong in its values.

mod owned;

pub use owned::{answered, with_writer};

use crate::store::{Claimed, Write};
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Revision, Time};
use coracle_api::strategy::{self, Deleting, Deletion, Fate, Making, Rules, Share};
use coracle_api::types;
use coracle_schema::apply::Managed;
use coracle_schema::{Problem, Types, check, decode, default, tidy};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// The types of the built-in kinds: static tables.
static TYPES: Types = types::builtin();
/// A creation token stays taken for so long after its object is gone, in uptime.
const CREATION_TOKEN_AFTER_DEATH: Duration = Duration::from_secs(3600);

/// An object as it stands in the store, parsed.
#[derive(Clone, Copy)]
pub struct Standing<'a> {
    pub key: &'a Key,
    pub revision: Revision,
    pub object: &'a Value,
}

/// Who owns the fields of what is written.
#[derive(Clone, Debug)]
pub enum Ownership<'a> {
    /// Nobody's changes: what the master and the agent observe and decide themselves is not worth its place.
    Untold,
    /// This manager writes, in the form of this kind where its documents have another form than they are stored in.
    Written(&'a str, Option<&'a Kind>),
    /// An apply has settled it.
    Applied(Managed),
}

/// What part of an object an update is about.
#[derive(Clone, Copy)]
pub enum Part {
    Main,
    Status,
    /// Another part with a path of its own.
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
pub enum Unfit {
    /// `name`: as the object would be called, by a name that was made for it too.
    Invalid { name: String, problems: Vec<Problem> },
    /// The document names another revision than the one that stands.
    Stale,
    /// It names none, and objects of its kind are not written over unseen.
    Unseen,
    /// It names something that is no revision at all.
    NoRevision { given: String },
    /// The document, or a precondition, names another uid: it means an earlier object of this name.
    OtherUid { given: String, stands: String },
    /// Because of what else there is.
    Forbidden {
        /// Of the object; what its name will begin with, where it has none yet.
        name: String,
        why: String,
    },
    /// A precondition names another revision.
    OtherRevision { given: String, stands: Revision },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Invalid { problems, .. } => {
                let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
                f.write_str(&texts.join(", "))
            }
            Unfit::Forbidden { name, why } => write!(f, "{name:?} is forbidden: {why}"),
            Unfit::Stale => f.write_str("somebody else wrote first"),
            Unfit::Unseen => f.write_str("it names no resourceVersion"),
            Unfit::NoRevision { given } => write!(f, "resourceVersion {given:?} is no number"),
            Unfit::OtherUid { given, stands } => write!(f, "uid {given} was meant, and {stands} stands there"),
            Unfit::OtherRevision { given, stands } => write!(f, "resourceVersion {given} was meant, and {stands} stands there"),
        }
    }
}

/// What a deletion demands of the object that it finds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

/// A new object. `namespace` is where it goes: the document's own has been compared with it. The key is in the write,
/// because the name may be made here.
pub fn create(kind: &Kind, namespace: &str, object: Value, rules: Rules, making: &mut Making<'_>) -> Result<Write, Unfit> {
    create_admitted(kind, namespace, object, rules, making, Ownership::Untold, &|_, _| Ok(()))
}

/// At which point of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before its kind's own rules.
    Complete,
    /// After them.
    Judge,
}

/// What else there is may complete an object, or forbid it.
pub type Admit<'a> = &'a dyn Fn(Stage, &mut Value) -> Result<(), String>;

pub fn create_admitted(
    kind: &Kind,
    namespace: &str,
    mut object: Value,
    rules: Rules,
    making: &mut Making<'_>,
    ownership: Ownership<'_>,
    admit: Admit<'_>,
) -> Result<Write, Unfit> {
    place(kind, namespace, &mut object);
    if kind.keeps_status
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    default(&TYPES, &kind.type_name, &mut object);
    let said = owned::said(kind, &mut object, &ownership);
    let name = called(&object);
    admit(Stage::Complete, &mut object).map_err(|why| Unfit::Forbidden { name, why })?;
    (kind.strategy.create)(&mut object, making);
    let problems = [(kind.strategy.validate)(&object, rules), said.problems(Part::Main)].concat();
    fit(&object, check(&TYPES, &kind.type_name, &object), problems)?;
    let name = called(&object);
    admit(Stage::Judge, &mut object).map_err(|why| Unfit::Forbidden { name, why })?;
    // Problems are told of the document as it was sent.
    tidy(&TYPES, &kind.type_name, &mut object);
    owned::settle(kind, Part::Main, None, &mut object, said, ownership, making.now);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let key = Key { resource: kind.resource.clone(), namespace: namespace.to_owned(), name };
    let claims = claims(kind, &object);
    Ok(Write::Create { key, durable: (kind.strategy.durable)(&object), object, claims })
}

fn called(object: &Value) -> String {
    let said = |field: &str| object["metadata"][field].as_str().filter(|name| !name.is_empty());
    said("name").or(said("generateName")).unwrap_or_default().to_owned()
}

/// A question: a document that is answered and never stored. It has no name.
pub fn question(
    kind: &Kind,
    namespace: &str,
    mut object: Value,
    rules: Rules,
    now: Time,
    ownership: Ownership<'_>,
) -> Result<Value, Unfit> {
    place(kind, namespace, &mut object);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    default(&TYPES, &kind.type_name, &mut object);
    tidy(&TYPES, &kind.type_name, &mut object);
    fit(&Value::Null, check(&TYPES, &kind.type_name, &object), (kind.strategy.validate)(&object, rules))?;
    let said = owned::said(kind, &mut object, &ownership);
    owned::settle(kind, Part::Main, None, &mut object, said, ownership, now);
    Ok(object)
}

/// A document that replaces what stands, or its status. A document with a resourceVersion is meant for exactly that
/// revision, one without (or with 0) for any, where the kind allows that.
pub fn update(kind: &Kind, old: Standing<'_>, part: Part, new: Value, rules: Rules, making: &mut Making<'_>) -> Result<Write, Unfit> {
    update_owned(kind, old, part, new, rules, making, Ownership::Untold).map(|updated| updated.write)
}

/// What an update comes to.
#[derive(Debug)]
pub struct Updated {
    pub write: Write,
    /// How the object goes, where the update took the last thing that held one whose time is over.
    pub last: Option<Value>,
}

pub fn update_owned(
    kind: &Kind,
    old: Standing<'_>,
    part: Part,
    mut new: Value,
    rules: Rules,
    making: &mut Making<'_>,
    ownership: Ownership<'_>,
) -> Result<Updated, Unfit> {
    place(kind, &old.key.namespace, &mut new);
    let meta = &new["metadata"];
    let given = meta["resourceVersion"].as_str().unwrap_or_default();
    let uid = meta["uid"].as_str().unwrap_or_default();
    let stands = old.object["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && uid != stands && !rules.patched {
        return Err(Unfit::OtherUid { given: uid.to_owned(), stands: stands.to_owned() });
    }
    if !given.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Unfit::NoRevision { given: given.to_owned() });
    }
    if kind.put_names_revision && matches!(given, "" | "0") {
        return Err(Unfit::Unseen);
    }
    if !matches!(given, "" | "0") && given != old.revision.to_string() {
        return Err(Unfit::Stale);
    }
    let said;
    let mut validate = kind.strategy.validate_update;
    match part {
        Part::Main | Part::Scale => {
            if kind.keeps_status {
                strategy::keep_status(&mut new, old.object);
            }
            default(&TYPES, &kind.type_name, &mut new);
            said = owned::said(kind, &mut new, &ownership);
            tidy(&TYPES, &kind.type_name, &mut new);
            (kind.strategy.update)(&mut new, old.object, making);
        }
        Part::Status => {
            said = owned::said(kind, &mut new, &ownership);
            strategy::keep_metadata(&mut new, old.object, kind.status_keeps);
            (kind.strategy.status_update)(&mut new, old.object);
            default(&TYPES, &kind.type_name, &mut new);
            tidy(&TYPES, &kind.type_name, &mut new);
        }
        Part::Share(share) => {
            said = owned::said(kind, &mut new, &ownership);
            (share.take)(&mut new, old.object, making.now);
            default(&TYPES, &kind.type_name, &mut new);
            tidy(&TYPES, &kind.type_name, &mut new);
            validate = share.validate_update;
        }
    }
    let problems = [validate(&new, old.object, rules), said.problems(part)].concat();
    fit(&new, new_faults(kind, &new, old.object), problems)?;
    owned::settle(kind, part, Some(old.object), &mut new, said, ownership, making.now);
    // The last finalizer has gone from an object whose time is over.
    if (kind.strategy.released)(&new) && !(kind.strategy.released)(old.object) {
        return Ok(Updated { write: Write::Delete { key: old.key.clone(), seen: old.revision }, last: Some(new) });
    }
    Ok(Updated { write: replace(kind, old, new), last: None })
}

/// What a deletion comes to.
#[derive(Debug)]
pub enum Departure {
    /// It goes as it stands.
    Now(Write),
    /// It is written like this, and then it goes.
    Last(Write),
    /// It stays, written like this.
    Marked(Write),
    /// It was asked for before, and nothing changes.
    Pending,
}

/// What a deletion does to what stands, in one write. None: it was asked for before, and nothing changes.
pub fn delete(
    kind: &Kind,
    old: Standing<'_>,
    preconditions: &Preconditions,
    deleting: Deleting,
    fate: Option<Fate>,
) -> Result<Option<Write>, Unfit> {
    Ok(match depart(kind, old, preconditions, deleting, fate)? {
        Departure::Now(write) | Departure::Marked(write) => Some(write),
        Departure::Last(_) => Some(Write::Delete { key: old.key.clone(), seen: old.revision }),
        Departure::Pending => None,
    })
}

/// `fate`: what becomes of what it owns, where the deletion says that.
pub fn depart(
    kind: &Kind,
    old: Standing<'_>,
    preconditions: &Preconditions,
    deleting: Deleting,
    fate: Option<Fate>,
) -> Result<Departure, Unfit> {
    meant(old, preconditions)?;
    let parting = kind.fate.map(|default| strategy::meta::parting(old.object, fate, default));
    Ok(match (kind.strategy.delete)(parting.as_ref().unwrap_or(old.object), deleting) {
        Deletion::Remove => Departure::Now(Write::Delete { key: old.key.clone(), seen: old.revision }),
        Deletion::Last(marked) => Departure::Last(replace(kind, old, marked)),
        Deletion::Mark(marked) => Departure::Marked(replace(kind, old, marked)),
        Deletion::Pending => Departure::Pending,
    })
}

/// Whether this is the object that the preconditions mean.
pub fn meant(old: Standing<'_>, preconditions: &Preconditions) -> Result<(), Unfit> {
    let stands = old.object["metadata"]["uid"].as_str().unwrap_or_default();
    if let Some(given) = preconditions.uid.as_deref().filter(|uid| *uid != stands) {
        return Err(Unfit::OtherUid { given: given.to_owned(), stands: stands.to_owned() });
    }
    if let Some(given) = preconditions.resource_version.as_deref().filter(|version| *version != old.revision.to_string()) {
        return Err(Unfit::OtherRevision { given: given.to_owned(), stands: old.revision });
    }
    Ok(())
}

/// A change of metadata that the server makes by itself: a finalizer or an owner goes. Where it was the last thing that held an object
/// whose time is over, the object goes.
pub fn relieve(kind: &Kind, old: Standing<'_>, object: Value) -> Write {
    match (kind.strategy.released)(&object) {
        true => Write::Delete { key: old.key.clone(), seen: old.revision },
        false => replace(kind, old, object),
    }
}

/// A document that a person put into the store's directory while no master ran. One with a uid replaces what it was made from; one without
/// is a new object. `stood`: what it was made from, where that is known: only then what may not change can be held.
pub fn by_hand(kind: &Kind, key: &Key, object: Value, stood: Option<&Value>, making: &mut Making<'_>) -> Result<Value, Unfit> {
    let mut rules = Rules { old_names: true, ..Rules::default() };
    let was = object.clone();
    let known = was["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty());
    rules.standing = known;
    let write = if known {
        let revision = was["metadata"]["resourceVersion"].as_str().and_then(|said| said.parse().ok()).map_or(Revision(0), Revision);
        update(kind, Standing { key, revision, object: &was }, Part::Main, object, rules, making)?
    } else {
        create(kind, &key.namespace, object, rules, making)?
    };
    match write {
        Write::Create { object, .. } => Ok(object),
        Write::Update { object, .. } => {
            // What it was before may be unknown, so all of it has to hold.
            fit(&object, check(&TYPES, &kind.type_name, &object), (kind.strategy.validate)(&object, rules))?;
            if let Some(stood) = stood.filter(|stood| stood["metadata"]["uid"] == object["metadata"]["uid"]) {
                fit(&object, Vec::new(), (kind.strategy.validate_update)(&object, stood, rules))?;
            }
            Ok(object)
        }
        // The file says that it is there.
        Write::Delete { .. } => Ok(was),
    }
}

/// The whole of an update that needs no strategy's opinion any more.
pub fn replace(kind: &Kind, old: Standing<'_>, object: Value) -> Write {
    let claims = claims(kind, &object);
    Write::Update { key: old.key.clone(), seen: old.revision, durable: (kind.strategy.durable)(&object), object, claims }
}

/// What of a document has another type than its kind has there.
pub fn fault(kind: &Kind, mut object: Value) -> Option<String> {
    decode(&TYPES, &kind.type_name, &mut object).message()
}

/// What an object owns alone, a loaded one too.
pub fn claims(kind: &Kind, object: &Value) -> Vec<Claimed> {
    let while_alive = |claim| Claimed { claim, after_death: Duration::ZERO };
    let mut claims: Vec<Claimed> = (kind.strategy.claims)(object).into_iter().map(while_alive).collect();
    let token = strategy::creation_token(&kind.resource.plural, object);
    claims.extend(token.map(|claim| Claimed { claim, after_death: CREATION_TOKEN_AFTER_DEATH }));
    claims
}

/// What the path says of an object is written into it.
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

/// What the type says against a document, and did not say against the one that stands: that was taken once, and stays good.
fn new_faults(kind: &Kind, new: &Value, old: &Value) -> Vec<Problem> {
    let found = check(&TYPES, &kind.type_name, new);
    if found.is_empty() {
        return found;
    }
    strategy::meta::new_problems(found, &check(&TYPES, &kind.type_name, old))
}

/// What is said of a field that may not change.
const IMMUTABLE: &str = "field is immutable";

/// What the strategy says of a value, in its order, and what the type says; where both say it, it is said once. The strategy
/// may call the place by the name that Kubernetes has for it.
fn fit(object: &Value, of_type: Vec<Problem>, mut problems: Vec<Problem>) -> Result<(), Unfit> {
    for problem in of_type {
        let same = |other: &Problem| strategy::told(other, &problem);
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
    Err(Unfit::Invalid { name, problems })
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::kinds::Kinds;
    use coracle_api::meta::Resource;
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

    fn changed(object: &Value, part: Part, new: Value) -> Result<Write, Unfit> {
        let key = Key { resource: Resource::core("pods"), namespace: "ns".into(), name: "p".into() };
        let old = Standing { key: &key, revision: Revision(7), object };
        making(|making| update(&kind("pods"), old, part, new, Rules::default(), making))
    }

    #[test]
    fn a_create_has_its_key_claims_and_place() {
        let object = json!({"kind": "Wrong", "metadata": {"generateName": "s-", "annotations": {"coracle.dev/creation-token": "t"}}, "spec": {"ports": [{"port": 80}]}});
        let write = making(|making| create(&kind("services"), "ns", object, Rules::default(), making));
        let Ok(Write::Create { key, object, claims, durable: _ }) = write else { panic!("{write:?}") };
        assert_eq!((key.namespace.as_str(), key.name.as_str(), &object["kind"]), ("ns", "s-abcde", &json!("Service")));
        assert_eq!((&object["metadata"]["uid"], &object["spec"]["clusterIP"]), (&json!("u1"), &json!("10.96.0.9")));
        let shown: Vec<_> = claims.iter().map(|c| (c.claim.space.as_ref(), c.claim.value.as_str(), c.after_death.as_secs())).collect();
        assert_eq!(shown, [("clusterIP", "10.96.0.9", 0), ("creationToken/services/ns", "t", 3600)]);
    }

    #[test]
    fn an_update_is_meant_for_what_it_names() {
        let pod = made("pods", json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
        let with = |field: &str, value: &str| {
            let mut new = pod.clone();
            new["metadata"][field] = value.into();
            changed(&pod, Part::Main, new)
        };
        assert!(matches!(with("resourceVersion", "7"), Ok(Write::Update { seen: Revision(7), .. })));
        assert!(matches!(with("resourceVersion", "0"), Ok(Write::Update { .. })));
        assert_eq!(with("resourceVersion", "6").unwrap_err(), Unfit::Stale);
        assert_eq!(with("resourceVersion", "x").unwrap_err(), Unfit::NoRevision { given: "x".into() });
        assert_eq!(with("uid", "u2").unwrap_err(), Unfit::OtherUid { given: "u2".into(), stands: "u1".into() });
        assert!(
            matches!(changed(&pod, Part::Main, json!({"metadata": {"name": "p"}})), Err(Unfit::Invalid { problems, .. }) if !problems.is_empty())
        );
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
        assert!(matches!(put(&map, ""), Err(Unfit::Invalid { .. })));
    }

    #[test]
    fn a_status_changes_nothing_else() {
        let pod = made("pods", json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
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
            delete(&kind("endpoints"), old, &preconditions, Deleting { grace_s: None, now }, None)
        };
        assert!(matches!(ask(&object, Preconditions::default()), Ok(Some(Write::Delete { seen: Revision(7), .. }))));
        let other = Preconditions { uid: Some("u2".into()), resource_version: None };
        assert!(matches!(ask(&object, other), Err(Unfit::OtherUid { .. })));
        let other = Preconditions { uid: Some("u1".into()), resource_version: Some("6".into()) };
        assert!(matches!(ask(&object, other), Err(Unfit::OtherRevision { .. })));
        // A finalizer holds it; the update that takes the last one deletes it.
        object["metadata"]["finalizers"] = json!(["example.com/hold"]);
        let Ok(Some(Write::Update { object: marked, .. })) = ask(&object, Preconditions::default()) else { panic!("it is marked") };
        let mut released = marked.clone();
        released["metadata"]["finalizers"] = json!([]);
        let old = Standing { key: &key, revision: Revision(8), object: &marked };
        let write = making(|making| update(&kind("endpoints"), old, Part::Main, released, Rules::default(), making));
        assert!(matches!(write, Ok(Write::Delete { seen: Revision(8), .. })), "{write:?}");
    }
}
