//! The variables of a container, in spec order; these variables override service variables. All texts of a container
//! share a budget, because a few lines in a pod can expand to gigabytes. PURE.

use std::collections::HashMap;

use coracle_api::pod::{Container, EnvFromSource, EnvVarSource, KeySelector};

use crate::facts::desired::Desired;
use crate::facts::objects::{Object, ObjectKind, ObjectState};
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::wanted::Wanted;
use crate::facts::world::Node;
use crate::network::services;
use crate::spec::downward;
use crate::spec::env_file::mark;

/// The limit for a word of a command, or for `NAME=VALUE`: no kernel starts a program with a longer text
/// (MAX_ARG_STRLEN, less the NUL).
pub const TEXT_BYTES_MAX: usize = (128 << 10) - 1;
/// All of them together: the kernel takes two megabytes where the stack has the usual eight, pointers and all.
pub const TEXTS_BYTES_MAX: usize = 1 << 20;

/// Names and values: each name once, in the order in which they were set first.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    list: Vec<(String, String)>,
    places: HashMap<String, usize>,
}

impl Variables {
    pub fn value(&self, name: &str) -> Option<&str> {
        self.places.get(name).map(|place| self.list[*place].1.as_str())
    }

    pub fn lines(self) -> Vec<String> {
        self.list.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[cfg(test)]
    pub fn of(pairs: &[(&str, &str)]) -> Variables {
        let mut all = Variables::default();
        for (name, value) in pairs {
            all.set(name, (*value).to_owned(), &mut TextBudget::default()).expect("a test's variables are small");
        }
        all
    }

    fn set(&mut self, name: &str, value: String, texts: &mut TextBudget) -> Result<(), Waiting> {
        let length = line_length(name, &value);
        let place = self.places.get(name).copied();
        texts.left += place.map_or(0, |place| line_length(name, &self.list[place].1));
        texts.take(length, || format!("environment variable {name}"))?;
        match place {
            Some(place) => self.list[place].1 = value,
            None => {
                self.places.insert(name.to_owned(), self.list.len());
                self.list.push((name.to_owned(), value));
            }
        }
        Ok(())
    }
}

fn line_length(name: &str, value: &str) -> usize {
    name.len() + 1 + value.len()
}

/// The remaining budget of a container, in bytes.
#[derive(Debug)]
pub struct TextBudget {
    left: usize,
}

impl Default for TextBudget {
    fn default() -> TextBudget {
        TextBudget { left: TEXTS_BYTES_MAX }
    }
}

impl TextBudget {
    /// `what`: whose text it is. The error names it.
    pub fn take(&mut self, length: usize, what: impl Fn() -> String) -> Result<(), Waiting> {
        if length > TEXT_BYTES_MAX {
            return Err(misconfigured(too_long(&what())));
        }
        self.left = self.left.checked_sub(length).ok_or_else(|| misconfigured(too_much(&what())))?;
        Ok(())
    }
}

pub fn too_long(what: &str) -> String {
    format!("{what}: it comes to more than {TEXT_BYTES_MAX} bytes, with which no program can be started")
}

pub fn too_much(what: &str) -> String {
    format!(
        "{what}: with it the environment, command and arguments of the container come to more than {TEXTS_BYTES_MAX} \
         bytes"
    )
}

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
    texts: &mut TextBudget,
) -> Result<Variables, Waiting> {
    let mut environment = Variables::default();
    if wanted.pod.spec.enable_service_links != Some(false) {
        for (name, value) in services::variables(&desired.services, &wanted.name.namespace) {
            environment.set(&name, value, texts).map_err(of_services)?;
        }
    }
    for source in &container.env_from {
        whole(desired, wanted, source, &mut environment, texts)?;
    }
    for (index, variable) in container.env.iter().enumerate() {
        let source = variable.value_from.clone().unwrap_or_default();
        let value = if source.file_key_ref.is_some() {
            mark(index)
        } else if variable.value.is_empty() {
            match valued(node, desired, wanted, container, &source, address)? {
                Some(value) => value,
                // The source is optional and absent.
                None => continue,
            }
        } else {
            let what = || format!("environment variable {}", variable.name);
            expand(&variable.value, &environment).map_err(|TooLong| misconfigured(too_long(&what())))?
        };
        environment.set(&variable.name, value, texts)?;
    }
    Ok(environment)
}

/// Explains an error from service variables, because the pod does not name them.
fn of_services(waiting: Waiting) -> Waiting {
    let text =
        format!("{} (the namespace's services make it: enableServiceLinks: false leaves theirs out)", waiting.message);
    Waiting::new(waiting.reason, text)
}

/// Every key of an object is a variable; of several sources the later counts.
fn whole(
    desired: &Desired,
    wanted: &Wanted,
    source: &EnvFromSource,
    environment: &mut Variables,
    texts: &mut TextBudget,
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
        environment.set(&format!("{}{key}", source.prefix), value, texts)?;
    }
    Ok(())
}

/// None: the source is optional and absent.
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

/// None: the source is optional and absent.
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
    if bytes.len() > TEXT_BYTES_MAX {
        return Err(misconfigured(too_long(&format!("key {key} of {} {}/{name}", kind.name(), wanted.name.namespace))));
    }
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let place = || format!("{} {}/{name}", kind.name(), wanted.name.namespace);
    text.map(str::to_owned)
        .ok_or_else(|| misconfigured(format!("key {key} of {} is no text that a variable can hold", place())))
}

pub fn misconfigured(text: String) -> Waiting {
    Waiting::new(WaitReason::CreateContainerConfigError, text)
}

/// The text has more than `TEXT_BYTES_MAX`.
#[derive(Debug, PartialEq)]
pub struct TooLong;

/// `$(NAME)` is the variable's value, `$$(NAME)` is `$(NAME)`, and what names no variable stays as it is.
pub fn expand(text: &str, environment: &Variables) -> Result<String, TooLong> {
    let mut out = String::with_capacity(text.len().min(TEXT_BYTES_MAX));
    for piece in pieces(text) {
        match piece {
            TextPiece::Text(text) => out.push_str(text),
            TextPiece::Name(name) => match environment.value(name) {
                Some(value) => out.push_str(value),
                None => out.extend(["$(", name, ")"]),
            },
        }
        if out.len() > TEXT_BYTES_MAX {
            return Err(TooLong);
        }
    }
    Ok(out)
}

/// A part of a text that is to be expanded.
#[derive(Debug, PartialEq)]
pub enum TextPiece<'a> {
    Text(&'a str),
    /// Of a variable.
    Name(&'a str),
}

pub fn pieces(text: &str) -> impl Iterator<Item = TextPiece<'_>> {
    // Behind the last one no name ends: nothing is looked for there again and again.
    let behind = text.rfind(')').map_or(usize::MAX, |at| text.len() - at - 1);
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(after) = rest.strip_prefix('$') else {
            let (piece, left) = rest.split_at(rest.find('$').unwrap_or(rest.len()));
            rest = left;
            return Some(TextPiece::Text(piece));
        };
        let inner = after.strip_prefix('(').filter(|inner| inner.len() > behind);
        let (piece, left) = match inner.and_then(|inner| inner.split_once(')')) {
            Some((name, left)) => (TextPiece::Name(name), left),
            None => (TextPiece::Text("$"), after.strip_prefix('$').unwrap_or(after)),
        };
        rest = left;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use crate::facts::objects::{Objects, Ref};
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
        let container = &wanted.pod.spec.containers[0];
        let found = environment(&Node::default(), &desired(), &wanted, container, "", &mut TextBudget::default());
        Ok(found.map_err(|waiting| (waiting.reason, waiting.message))?.lines())
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
        let of_files = |wanted: &Wanted| {
            crate::spec::file_variables::of_files(&Node::default(), wanted, &wanted.pod.spec.containers[0])
        };
        let found = of_files(&wanted).unwrap();
        assert_eq!(
            (found.len(), found[0].mark.as_str(), found[0].path.as_str(), found[0].optional),
            (1, "\u{0}0\u{0}", "a/.env", true)
        );
        wanted.pod.spec.volumes.clear();
        assert_eq!(of_files(&wanted).unwrap_err().message, "cannot find the volume \"v\" referenced by FileKeyRef");
    }

    #[test]
    fn variables_expand_as_in_kubernetes() {
        let environment = Variables::of(&[("A", "1")]);
        for (text, wanted) in [
            ("$(A)", "1"),
            ("$$(A)", "$(A)"),
            ("$(B)", "$(B)"),
            ("$A $", "$A $"),
            ("$(A", "$(A"),
            ("$(A)$(A", "1$(A"),
            ("$$$(A)", "$1"),
            ("$$$$", "$$"),
            ("$($(A)", "$($(A)"),
            ("x$(A)y$(A)", "x1y1"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &environment).as_deref(), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn texts_stay_within_the_budget_of_a_container() {
        let check = |container: Value, expected: Result<usize, &str>| {
            let found = of(&container).map(|lines| lines.len());
            match expected {
                Ok(count) => assert_eq!(found, Ok(count)),
                Err(words) => {
                    let (reason, message) = found.unwrap_err();
                    assert_eq!(reason, WaitReason::CreateContainerConfigError);
                    assert!(message.contains(words) && message.len() < 300, "{message}");
                }
            }
        };
        let kilo = "x".repeat(1000);
        let doubling = |count: usize| {
            let first = json!({"name": "V0", "value": kilo});
            let next = |at: usize| json!({"name": format!("V{at}"), "value": format!("$(V{0})$(V{0})", at - 1)});
            json!({"env": std::iter::once(first).chain((1..=count).map(next)).collect::<Vec<_>>()})
        };
        check(doubling(7), Ok(8));
        check(doubling(8), Err("environment variable V8: it comes to more than 131071 bytes"));
        check(doubling(60), Err("environment variable V8"));
        let plain = |length: usize| json!({"env": [{"name": "A", "value": "x".repeat(length)}]});
        check(plain(TEXT_BYTES_MAX - 2), Ok(1));
        check(plain(TEXT_BYTES_MAX - 1), Err("environment variable A"));
        let repeated = |count: usize| {
            let next = |at: usize| json!({"name": format!("W{at}"), "value": "$(A)"});
            let first = json!({"name": "A", "value": "x".repeat(100_000)});
            json!({"env": std::iter::once(first).chain((0..count).map(next)).collect::<Vec<_>>()})
        };
        check(repeated(9), Ok(10));
        check(repeated(10), Err("environment variable W9: with it the environment"));
        // A variable that is set repeatedly counts only once.
        let again = vec![json!({"name": "A", "value": "x".repeat(100_000)}); 50];
        check(json!({"env": again}), Ok(1));
    }

    #[test]
    fn one_key_under_many_names_is_counted_each_time() {
        let mut desired = desired();
        let map = json!({"data": {"large": "x".repeat(900_000), "k": "x".repeat(100_000)}});
        let object = Some(Arc::new(Object::read(ObjectKind::ConfigMap, &map)));
        let place = Ref { kind: ObjectKind::ConfigMap, namespace: "n".into(), name: "big".into() };
        Arc::make_mut(&mut desired.objects).known.insert(place, object);
        let check = |env: Value, words: &str| {
            let document = json!({
                "metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": {"containers": [env]},
            });
            let wanted = Wanted::new(Source::Master, document).unwrap();
            let container = &wanted.pod.spec.containers[0];
            let found = environment(&Node::default(), &desired, &wanted, container, "", &mut TextBudget::default());
            let message = found.unwrap_err().message;
            assert!(message.contains(words), "{message}");
        };
        let named = |key: &str, count: usize| {
            let from = json!({"configMapKeyRef": {"name": "big", "key": key}});
            let one = |at: usize| json!({"name": format!("V{at}"), "valueFrom": from});
            json!({"env": (0..count).map(one).collect::<Vec<_>>()})
        };
        check(named("large", 400), "key large of ConfigMap n/big: it comes to more than");
        check(named("k", 400), "environment variable V10: with it the environment");
        let prefixed: Vec<Value> =
            (0..20).map(|at| json!({"prefix": format!("P{at}_"), "configMapRef": {"name": "big"}})).collect();
        check(json!({"envFrom": prefixed}), "key large of ConfigMap n/big");
    }

    #[test]
    fn many_variables_and_many_dollars_take_no_square_of_time() {
        let map: serde_json::Map<String, Value> = (0..60_000).map(|at| (format!("k{at}"), Value::from("v"))).collect();
        let mut desired = desired();
        let object = Some(Arc::new(Object::read(ObjectKind::ConfigMap, &json!({"data": map}))));
        let place = Ref { kind: ObjectKind::ConfigMap, namespace: "n".into(), name: "wide".into() };
        Arc::make_mut(&mut desired.objects).known.insert(place, object);
        let container = json!({"envFrom": [{"configMapRef": {"name": "wide"}}]});
        let document =
            json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": {"containers": [container]}});
        let wanted = Wanted::new(Source::Master, document).unwrap();
        let container = &wanted.pod.spec.containers[0];
        let found =
            environment(&Node::default(), &desired, &wanted, container, "", &mut TextBudget::default()).unwrap();
        assert_eq!(found.value("k59999"), Some("v"));
        let open = "$(".repeat(500_000);
        assert_eq!(pieces(&open).filter(|piece| matches!(piece, TextPiece::Name(_))).count(), 0);
        let dollars = "$".repeat(500_000);
        assert_eq!(expand(&dollars, &Variables::default()), Err(TooLong));
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
