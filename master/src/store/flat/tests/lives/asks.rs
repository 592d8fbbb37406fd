//! The writes that the random lives ask for, the batch that each can come in, and the edits of files.

use super::*;

pub type Asked = (Key, Option<Value>, Write);

/// In which batch each write can be at the earliest: not in one with another of its object, or of what it claims.
pub fn turns(store: &FlatStore, asked: &[Asked]) -> Vec<usize> {
    let claims = |key: &Key, object: Option<&Value>| -> Vec<String> {
        object.iter().flat_map(|object| claims_of(key, object)).map(|claimed| claimed.claim.value).collect()
    };
    // What is refused out of hand takes nobody's place.
    let owners = store.claimed("token");
    let idle = |(key, object, write): &Asked| {
        let stale = match write {
            Write::Update { seen, .. } | Write::Delete { seen, .. } => {
                store.get(key).ok().flatten().is_some_and(|now| now.revision != *seen)
            }
            Write::Create { .. } => false,
        };
        stale
            || claims(key, object.as_ref())
                .iter()
                .any(|wanted| owners.iter().any(|(claim, owner)| claim == wanted && owner != key))
    };
    let mut turns: Vec<usize> = Vec::new();
    for (at, (key, object, _)) in asked.iter().enumerate() {
        let wanted = claims(key, object.as_ref());
        let meets = |(other, new, _): &Asked| {
            let old = store.get(other).ok().flatten().and_then(|stored| serde_json::from_slice(&stored.json).ok());
            let taken = [claims(other, new.as_ref()), claims(other, old.as_ref())].concat();
            other == key || taken.iter().any(|claim| wanted.contains(claim))
        };
        let earlier = (0..at).filter(|earlier| meets(&asked[*earlier]) && !idle(&asked[*earlier]));
        let taken: Vec<usize> = earlier.map(|earlier| turns[earlier]).collect();
        turns.push((0..).find(|turn| !taken.contains(turn)).expect("there are more turns than writes"));
    }
    turns
}

pub fn ask_create(host: &mut Host, life: &Life, name: &str) -> Asked {
    ask_update(host, life, name)
}

/// Or a create, where there is none.
pub fn ask_update(host: &mut Host, life: &Life, name: &str) -> Asked {
    host.written += 1;
    let (key, object) = (key(name), pod(name, &host.written.to_string(), None));
    let durable = durable_of(&key, &object);
    let write = match life.store.get(&key).ok().flatten() {
        None => Write::Create { key: key.clone(), object: object.clone(), durable, claims: Vec::new() },
        Some(now) => {
            Write::Update { key: key.clone(), object: object.clone(), seen: now.revision, durable, claims: Vec::new() }
        }
    };
    (key, Some(object), write)
}

pub fn ask_status(host: &mut Host, life: &Life, name: &str) -> Asked {
    let Some(now) = life.store.get(&key(name)).ok().flatten() else { return ask_update(host, life, name) };
    host.written += 1;
    let (key, mut object): (_, Value) = (key(name), serde_json::from_slice(&now.json).expect("JSON"));
    object["status"] = json!({ "is": host.written.to_string() });
    let durable = durable_of(&key, &object);
    (key.clone(), Some(object.clone()), Write::Update { key, object, seen: now.revision, durable, claims: Vec::new() })
}

pub fn ask_delete(host: &mut Host, life: &Life, name: &str) -> Asked {
    match life.store.get(&key(name)).ok().flatten() {
        Some(now) => (key(name), None, Write::Delete { key: key(name), seen: now.revision }),
        None => ask_update(host, life, name),
    }
}

/// Some of each: durable in part, wholly, and not; with a name that has to be escaped, and one without a namespace.
pub fn keys() -> [Key; 7] {
    let of = |plural: &'static str, namespace: &str, name: &str| Key {
        resource: Resource::core(plural),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    [
        key("a"),
        key("b"),
        key("Whole"),
        key("Whole_2"),
        of("services", "other", "s"),
        of("namespaces", "", "default"),
        of("events", "default", "e"),
    ]
}

/// What a person makes of a file, or writes anew.
pub fn edited_object(key: &Key, whole: Option<Value>, spec: &str) -> Value {
    let Some(mut object) = whole else { return object(key, spec) };
    object["spec"]["is"] = json!(spec);
    // Somebody else may own by now what it claimed then: no such edit counts.
    object["metadata"].as_object_mut().expect("an object").remove("annotations");
    object
}

pub fn object(key: &Key, spec: &str) -> Value {
    let kinds = rules().kinds;
    let kind = kinds.iter().find(|kind| kind.resource == key.resource).expect("a kind of the tests");
    let mut object = json!({
        "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": key.name}, "spec": {"is": spec},
    });
    if !key.namespace.is_empty() {
        object["metadata"]["namespace"] = Value::String(key.namespace.clone());
    }
    object
}
