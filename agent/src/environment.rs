//! The variables of a container: what it asks for, in its own order and over those of services. PURE.

use coracle_api::pod::{Container, EnvFromSource, EnvVarSource, KeySelector};

use crate::desired::objects::{Object, ObjectKind, ObjectState};
use crate::desired::{Desired, Wanted};
use crate::downward;
use crate::env_file::mark;
use crate::plan::waiting::{WaitReason, Waiting};
use crate::plan::world::Node;
use crate::services;

/// Names and values.
pub type Variables = Vec<(String, String)>;

/// A kubelet's message while it does not know whether the object exists.
pub fn unsynced(kind: ObjectKind) -> String {
    format!("failed to sync {} cache: timed out waiting for the condition", kind.word())
}

pub fn not_found(kind: ObjectKind, name: &str) -> String {
    format!("{} \"{name}\" not found", kind.word())
}

/// The error is what the container waits for.
pub fn environment(
    node: &Node,
    desired: &Desired,
    wanted: &Wanted,
    container: &Container,
    address: &str,
) -> Result<Variables, Waiting> {
    let mut environment: Variables = if wanted.pod.spec.enable_service_links == Some(false) {
        Vec::new()
    } else {
        services::variables(&desired.services, &wanted.name.namespace).into_iter().collect()
    };
    for source in &container.env_from {
        whole(desired, wanted, source, &mut environment)?;
    }
    for (index, variable) in container.env.iter().enumerate() {
        let source = variable.value_from.clone().unwrap_or_default();
        let value = if source.file_key_ref.is_some() {
            mark(index)
        } else if variable.value.is_empty() {
            match valued(node, desired, wanted, container, &source, address)? {
                Some(value) => value,
                // It is optional, and not there.
                None => continue,
            }
        } else {
            expand(&variable.value, &environment)
        };
        set(&mut environment, &variable.name, value);
    }
    Ok(environment)
}

fn set(environment: &mut Variables, name: &str, value: String) {
    match environment.iter_mut().find(|(known, _)| known == name) {
        Some(entry) => entry.1 = value,
        None => environment.push((name.to_owned(), value)),
    }
}

/// Every key of an object is a variable; of several sources the later counts.
fn whole(
    desired: &Desired,
    wanted: &Wanted,
    source: &EnvFromSource,
    environment: &mut Variables,
) -> Result<(), Waiting> {
    let (kind, reference) = match (&source.config_map_ref, &source.secret_ref) {
        (Some(map), _) => (ObjectKind::ConfigMap, map),
        (None, Some(secret)) => (ObjectKind::Secret, secret),
        (None, None) => return Ok(()),
    };
    let optional = reference.optional == Some(true);
    let Some(object) = object(desired, wanted, kind, &reference.name, optional)? else { return Ok(()) };
    for (key, bytes) in &object.data {
        let value = text(bytes, key, kind, wanted, &reference.name)?;
        set(environment, &format!("{}{key}", source.prefix), value);
    }
    Ok(())
}

/// None: it is optional, and not there.
fn valued(
    node: &Node,
    desired: &Desired,
    wanted: &Wanted,
    container: &Container,
    source: &EnvVarSource,
    address: &str,
) -> Result<Option<String>, Waiting> {
    let value = if let Some(field) = &source.field_ref {
        downward::field(field, wanted, node, address)
    } else if let Some(resource) = &source.resource_field_ref {
        downward::resource(resource, wanted, container, node)
    } else if let Some(selector) = &source.config_map_key_ref {
        return key(desired, wanted, ObjectKind::ConfigMap, selector);
    } else if let Some(selector) = &source.secret_key_ref {
        return key(desired, wanted, ObjectKind::Secret, selector);
    } else {
        Ok(String::new())
    };
    value.map(Some).map_err(misconfigured)
}

fn key(
    desired: &Desired,
    wanted: &Wanted,
    kind: ObjectKind,
    selector: &KeySelector,
) -> Result<Option<String>, Waiting> {
    let KeySelector { name, key, optional } = selector;
    let optional = *optional == Some(true);
    let Some(object) = object(desired, wanted, kind, name, optional)? else { return Ok(None) };
    match object.data.get(key) {
        Some(bytes) => text(bytes, key, kind, wanted, name).map(Some),
        None if optional => Ok(None),
        None => {
            Err(misconfigured(format!("couldn't find key {key} in {} {}/{name}", kind.name(), wanted.name.namespace)))
        }
    }
}

/// None: it is optional, and not there.
fn object<'a>(
    desired: &'a Desired,
    wanted: &Wanted,
    kind: ObjectKind,
    name: &str,
    optional: bool,
) -> Result<Option<&'a Object>, Waiting> {
    match desired.objects.find(&wanted.name, kind, name) {
        ObjectState::There(object) | ObjectState::Kept(object) => Ok(Some(object)),
        ObjectState::Absent if optional => Ok(None),
        ObjectState::Absent => Err(misconfigured(not_found(kind, name))),
        ObjectState::Unknown { silent: false } => Err(Waiting::creating()),
        ObjectState::Unknown { silent: true } => Err(misconfigured(unsynced(kind))),
    }
}

/// No engine passes on other bytes.
fn text(bytes: &[u8], key: &str, kind: ObjectKind, wanted: &Wanted, name: &str) -> Result<String, Waiting> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let place = || format!("{} {}/{name}", kind.name(), wanted.name.namespace);
    text.map(str::to_owned)
        .ok_or_else(|| misconfigured(format!("key {key} of {} is no text that a variable can hold", place())))
}

pub fn misconfigured(text: String) -> Waiting {
    Waiting::new(WaitReason::CreateContainerConfigError, text)
}

/// `$(NAME)` is the variable's value, `$$(NAME)` is `$(NAME)`, and what names no variable stays as it is.
pub fn expand(text: &str, environment: &[(String, String)]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            match environment.iter().find(|(known, _)| known == name) {
                Some((_, value)) => out.push_str(value),
                None => out.push_str(&format!("$({name})")),
            }
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::Source;
    use crate::desired::objects::{Objects, Ref};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn desired() -> Desired {
        let mut objects = Objects::default();
        let mut add = |kind: ObjectKind, name: &str, document: Option<Value>| {
            let object = document.map(|document| Arc::new(Object::read(kind, &document)));
            objects.known.insert(Ref { kind, namespace: "n".into(), name: name.into() }, object);
        };
        add(ObjectKind::ConfigMap, "map", Some(json!({"data": {"a": "1", "b-c.d": "2"}, "binaryData": {"e": "AP8="}})));
        add(ObjectKind::Secret, "secret", Some(json!({"data": {"a": "czE="}})));
        add(ObjectKind::Secret, "bytes", Some(json!({"data": {"a": "AP8="}})));
        add(ObjectKind::ConfigMap, "none", None);
        add(ObjectKind::Secret, "none", None);
        Desired { objects: Arc::new(objects), ..Desired::default() }
    }

    fn of(container: &Value) -> Result<Vec<String>, (WaitReason, String)> {
        let document =
            json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": {"containers": [container]}});
        let wanted = Wanted::new(Source::Master, document).unwrap();
        let found = environment(&Node::default(), &desired(), &wanted, &wanted.pod.spec.containers[0], "");
        let found = found.map_err(|waiting| (waiting.reason, waiting.message))?;
        Ok(found.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }

    #[test]
    fn variables_of_objects() {
        let check = |container: Value, expected: &[&str]| assert_eq!(of(&container).unwrap(), expected, "{container}");
        check(json!({"envFrom": [{"configMapRef": {"name": "map"}}]}), &["a=1", "b-c.d=2"]);
        check(
            json!({"envFrom": [{"prefix": "P_", "configMapRef": {"name": "map"}}, {"secretRef": {"name": "secret"}}]}),
            &["P_a=1", "P_b-c.d=2", "a=s1"],
        );
        check(
            json!({"envFrom": [{"configMapRef": {"name": "map"}}, {"secretRef": {"name": "secret"}}]}),
            &["a=s1", "b-c.d=2"],
        );
        check(json!({"envFrom": [{"configMapRef": {"name": "none", "optional": true}}]}), &[]);
        check(
            json!({
                "envFrom": [{"secretRef": {"name": "secret"}}],
                "env": [{"name": "a", "value": "own"}, {"name": "b", "value": "$(a)"}],
            }),
            &["a=own", "b=own"],
        );
        let key = |kind: &str, name: &str, key: &str, optional: bool| {
            json!({
                "env": [
                    {"name": "X", "valueFrom": {kind: {"name": name, "key": key, "optional": optional}}},
                    {"name": "Y", "value": "$(X)"},
                ],
            })
        };
        check(key("configMapKeyRef", "map", "a", false), &["X=1", "Y=1"]);
        check(key("secretKeyRef", "secret", "a", false), &["X=s1", "Y=s1"]);
        check(key("secretKeyRef", "secret", "b", true), &["Y=$(X)"]);
        check(key("configMapKeyRef", "none", "a", true), &["Y=$(X)"]);
    }

    #[test]
    fn a_value_of_a_file_is_marked() {
        let from = json!({"fileKeyRef": {"volumeName": "v", "path": "a/.env", "key": "K", "optional": true}});
        let container = json!({"env": [{"name": "X", "valueFrom": from}, {"name": "Y", "value": "<$(X)>"}]});
        assert_eq!(of(&container).unwrap(), ["X=\u{0}0\u{0}", "Y=<\u{0}0\u{0}>"]);
        let document = json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "u"},
            "spec": {"containers": [container], "volumes": [{"name": "v"}]},
        });
        let mut wanted = Wanted::new(Source::Master, document).unwrap();
        let of_files =
            |wanted: &Wanted| crate::file_variables::of_files(&Node::default(), wanted, &wanted.pod.spec.containers[0]);
        let found = of_files(&wanted).unwrap();
        assert_eq!(
            (found.len(), found[0].mark.as_str(), found[0].path.as_str(), found[0].optional),
            (1, "\u{0}0\u{0}", "a/.env", true)
        );
        wanted.pod.spec.volumes.clear();
        assert_eq!(of_files(&wanted).unwrap_err().message, "cannot find the volume \"v\" referenced by FileKeyRef");
    }

    #[test]
    fn what_is_missing_is_waited_for() {
        let check = |container: Value, message: &str| {
            assert_eq!(
                of(&container),
                Err((WaitReason::CreateContainerConfigError, message.to_owned())),
                "{container}"
            );
        };
        let key = |kind: &str, name: &str, key: &str| {
            json!({
                "env": [{"name": "X", "valueFrom": {kind: {"name": name, "key": key}}}],
            })
        };
        check(json!({"envFrom": [{"configMapRef": {"name": "none"}}]}), "configmap \"none\" not found");
        check(json!({"envFrom": [{"secretRef": {"name": "none"}}]}), "secret \"none\" not found");
        check(key("secretKeyRef", "none", "k"), "secret \"none\" not found");
        check(key("configMapKeyRef", "map", "k"), "couldn't find key k in ConfigMap n/map");
        check(key("configMapKeyRef", "map", "e"), "couldn't find key e in ConfigMap n/map");
        check(key("secretKeyRef", "secret", "k"), "couldn't find key k in Secret n/secret");
        check(key("secretKeyRef", "bytes", "a"), "key a of Secret n/bytes is no text that a variable can hold");
        assert_eq!(
            of(&json!({"envFrom": [{"secretRef": {"name": "unheard"}}]})),
            Err((WaitReason::ContainerCreating, String::new()))
        );
    }
}
