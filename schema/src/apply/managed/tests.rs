//! Lives of small documents: who writes what, and who owns what then.

use super::super::lay::{LAST_APPLIED, Refusal, apply};
use super::super::writer::Form;
use super::super::{merge, shape};
use super::*;
use crate::patch::tests::Chance;
use serde_json::json;
use std::sync::LazyLock;

const TEXT: &str = "
[Thing]
  apiVersion 0 string
  kind 0 string
  metadata 1 Meta default={}
  data 2 {string}
  spec 3 Spec default={}
  status 4 Status default={}
[Meta]
  name 1 string
  labels 2 {string}
  annotations 3 {string}
  finalizers 4 [string] set
  owners 5 [Owner] keys=uid
  managedFields 6 [any]
[Owner atomic]
  uid 1 string
  name 2 string
[Spec]
  replicas 1 int32
  ports 2 [Port] keys=port,protocol
  args 3 [string]
  selector 4 {string} atomic
[Port]
  port 1 int32
  protocol 2 string default=\"TCP\"
  name 3 string
[Status]
  phase 1 string
[Later]
  apiVersion 0 string
  kind 0 string
  metadata 1 Meta default={}
  data 2 {string}
  spec 3 LaterSpec default={}
[LaterSpec]
  count 1 int32
";
static TYPES: LazyLock<Types> = LazyLock::new(|| Types::parse(TEXT, &Types::default()).unwrap());
static NOTHING: LazyLock<Fields> = LazyLock::new(Fields::default);
static STATUS: LazyLock<Fields> = LazyLock::new(|| Fields::named(&["status"]));

fn writer(manager: &'static str) -> Writer<'static> {
    Writer {
        manager,
        subresource: "",
        api_version: "v1",
        kind: "Thing",
        type_name: "Thing",
        now: "2026-01-01T00:00:00Z",
        ignored: &STATUS,
        other: None,
    }
}

fn thing(rest: Value) -> Value {
    let mut thing = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "t"}});
    crate::patch::merge(&mut thing, rest);
    thing
}

/// As a server keeps it: without nulls and what is empty.
fn kept(mut object: Value, managed: &Managed) -> Value {
    fn tidy(value: &mut Value) {
        if let Value::Object(map) = value {
            map.values_mut().for_each(tidy);
            map.retain(|name, value| {
                !value.is_null() && (value != &json!({}) || name == "metadata") && value != &json!([])
            });
        }
    }
    tidy(&mut object);
    managed.put(&mut object);
    object
}

fn applied(live: Option<&Value>, manager: &'static str, config: Value, force: bool) -> Result<Value, Refusal> {
    let zero = shape::zero(&TYPES, "Thing");
    apply(&TYPES, live.unwrap_or(&zero), &thing(config), writer(manager), force)
        .map(|applied| kept(applied.object, &applied.managed))
}

fn put(live: &Value, manager: &'static str, new: Value) -> Value {
    let new = thing(new);
    let managed = track(&TYPES, live, &new, Managed::of(live), writer(manager), false);
    kept(new, &managed)
}

/// `manager: its fields`, in order.
fn owners(object: &Value) -> Vec<String> {
    let one = |entry: &Entry| format!("{}: {}", entry.owner.manager, entry.fields.paths().join(" "));
    Managed::of(object).entries.iter().map(one).collect()
}

fn check(object: &Value, rest: Value, expected: &[&str]) {
    let mut bare = object.clone();
    bare["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!((bare, owners(object)), (thing(rest), expected.iter().map(|text| (*text).to_owned()).collect()));
}

#[test]
fn what_is_applied_no_more_goes_unless_somebody_else_owns_it() {
    let a = applied(None, "a", json!({"data": {"x": "1", "y": "2"}}), false).unwrap();
    check(&a, json!({"data": {"x": "1", "y": "2"}}), &["a: .data.x .data.y"]);
    let b = applied(Some(&a), "b", json!({"data": {"x": "1", "z": "3"}}), false).unwrap();
    check(&b, json!({"data": {"x": "1", "y": "2", "z": "3"}}), &["a: .data.x .data.y", "b: .data.x .data.z"]);
    let c = applied(Some(&b), "a", json!({}), false).unwrap();
    check(&c, json!({"data": {"x": "1", "z": "3"}}), &["b: .data.x .data.z"]);
    let mut config = thing(json!({}));
    config["data"] = Value::Null;
    let d = apply(&TYPES, &c, &config, writer("b"), false).unwrap();
    check(&kept(d.object, &d.managed), json!({}), &["b: .data"]);
}

#[test]
fn conflicts_are_told_and_forced() {
    let a = applied(None, "a", json!({"spec": {"replicas": 1, "selector": {"x": "y"}}}), false).unwrap();
    let refused = applied(Some(&a), "b", json!({"spec": {"replicas": 2, "selector": {"x": "z"}}}), false).unwrap_err();
    let Refusal::Conflicts(conflicts) = refused else { panic!("{refused:?}") };
    let shown: Vec<String> = conflicts.iter().map(|one| format!("{} {}", one.owner.shown(), one.path)).collect();
    assert_eq!(shown, ["\"a\" .spec.replicas", "\"a\" .spec.selector"]);
    let b = applied(Some(&a), "b", json!({"spec": {"replicas": 2}}), true).unwrap();
    check(&b, json!({"spec": {"replicas": 2, "selector": {"x": "y"}}}), &["a: .spec.selector", "b: .spec.replicas"]);
    // A plain write takes without asking, and what it takes away is nobody's.
    let c = put(&b, "c", json!({"spec": {"replicas": 3}}));
    check(&c, json!({"spec": {"replicas": 3}}), &["c: .spec.replicas"]);
    let refused = applied(Some(&c), "a", json!({"spec": {"replicas": 1}}), false).unwrap_err();
    let Refusal::Conflicts(conflicts) = refused else { panic!("{refused:?}") };
    assert_eq!(conflicts[0].owner.shown(), "\"c\" using v1");
}

#[test]
fn lists_by_their_kind() {
    let ports = |list: Value| json!({"spec": {"ports": list}});
    let a = applied(None, "a", ports(json!([{"port": 53, "protocol": "UDP"}, {"port": 53}])), false).unwrap();
    let expected = "a: .spec.ports[port=53,protocol=\"TCP\"] .spec.ports[port=53,protocol=\"TCP\"].port \
                    .spec.ports[port=53,protocol=\"UDP\"] .spec.ports[port=53,protocol=\"UDP\"].port \
                    .spec.ports[port=53,protocol=\"UDP\"].protocol";
    assert_eq!(owners(&a), [expected]);
    let b = applied(Some(&a), "a", ports(json!([{"port": 80}, {"port": 53, "protocol": "UDP", "name": "dns"}])), false)
        .unwrap();
    assert_eq!(b["spec"]["ports"], json!([{"port": 80}, {"port": 53, "protocol": "UDP", "name": "dns"}]));
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let a = applied(None, "a", finalizers(json!(["x"])), false).unwrap();
    let b = applied(Some(&a), "b", finalizers(json!(["y", "x"])), false).unwrap();
    assert_eq!(b["metadata"]["finalizers"], json!(["y", "x"]));
    let c = applied(Some(&b), "a", finalizers(json!([])), false).unwrap();
    assert_eq!((c["metadata"]["finalizers"].clone(), owners(&c).len()), (json!(["y", "x"]), 1));
    let owner = |uid: &str| json!({"metadata": {"owners": [{"uid": uid, "name": "n"}]}});
    let a = applied(None, "a", owner("1"), false).unwrap();
    assert_eq!(owners(&a), ["a: .metadata.owners[uid=\"1\"]"]);
    let a = applied(None, "a", json!({"spec": {"args": ["x", "y"]}}), false).unwrap();
    assert_eq!(owners(&a), ["a: .spec.args"]);
}

#[test]
fn what_does_not_fit_is_refused() {
    for (config, why) in [
        (json!({"nope": 1}), ".nope: field not declared in schema"),
        (json!({"data": {"a": 5}}), ".data.a: expected string, got &value.valueUnstructured{Value:5}"),
        (json!({"spec": {"replicas": "x"}}), ".spec.replicas: expected numeric (int or float), got string"),
        (
            json!({"spec": {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}}),
            ".spec.ports: duplicate entries for key [port=1,protocol=\"TCP\"]",
        ),
        (json!({"metadata": {"finalizers": ["a", "a"]}}), ".metadata.finalizers: duplicate entries for key [=\"a\"]"),
        (
            json!({"spec": {"ports": {}}, "nope": 1}),
            "errors:\n  .nope: field not declared in schema\n  .spec.ports: expected list, got &{map[]}",
        ),
    ] {
        assert_eq!(applied(None, "a", config, false), Err(Refusal::Mistyped(why.to_owned())));
    }
    assert_eq!(
        applied(None, "a", json!({"kind": "Other"}), false),
        Err(Refusal::Malformed("invalid object type: /v1, Kind=Other".to_owned()))
    );
    let list = json!({"metadata": {"managedFields": []}});
    assert_eq!(
        applied(None, "a", list, false),
        Err(Refusal::Malformed("metadata.managedFields must be nil".to_owned()))
    );
}

#[test]
fn plain_writes() {
    let zero = shape::zero(&TYPES, "Thing");
    let new = thing(json!({"data": {"a": "1"}, "spec": {"replicas": 1}, "status": {"phase": "x"}}));
    let managed = track(&TYPES, &zero, &new, Managed::default(), writer("a"), true);
    let a = kept(new, &managed);
    assert_eq!(owners(&a), ["a: .data .data.a .spec.replicas"], "what it cannot write it does not own");
    let same = put(&a, "b", json!({"data": {"a": "1"}, "spec": {"replicas": 1}}));
    assert_eq!(owners(&same), owners(&a));
    // An object of which nobody is known to own anything is left so.
    let unknown = thing(json!({"data": {"a": "1"}}));
    assert_eq!(owners(&put(&unknown, "b", json!({"data": {"a": "2"}}))), [""; 0]);
    let first = applied(Some(&unknown), "b", json!({"data": {"a": "1"}}), false).unwrap();
    assert_eq!(owners(&first), ["b: .data.a", "before-first-apply: .data .data.a"]);
    // The list as a client sends it.
    for (sent, left) in
        [(json!([]), 0), (json!([{}]), 0), (json!(null), 1), (json!([{"manager": "x"}]), 1), (managed.to_value(), 1)]
    {
        assert_eq!(Managed::sent(&sent, &a).entries.len(), left, "{sent}");
    }
}

#[test]
fn writers_are_bounded() {
    let mut object = thing(json!({"data": {"a": "0"}}));
    Managed {
        entries: vec![Entry { owner: Owner::of(writer("first"), false), time: None, fields: Fields::named(&["data"]) }],
    }
    .put(&mut object);
    for at in 0..40 {
        let manager: &'static str = Box::leak(format!("m{at:02}").into_boxed_str());
        let mut data = object["data"].clone();
        data[manager] = "1".into();
        object = put(&object, manager, json!({"data": data}));
    }
    let found = owners(&object);
    assert_eq!(found.len(), UPDATERS_MAX);
    assert!(found.iter().any(|owner| owner.starts_with("ancient-changes: .data ")), "{found:?}");
    assert_eq!(found.iter().map(|owner| owner.split(' ').count() - 1).sum::<usize>(), 41, "nobody's field is lost");
}

#[test]
fn kubectl_takes_over_what_it_applied_itself() {
    let note = |text: &str| json!({"metadata": {"annotations": {LAST_APPLIED: text}}, "data": {"a": "1", "b": "2"}});
    let zero = shape::zero(&TYPES, "Thing");
    let new = thing(note(r#"{"apiVersion":"v1","kind":"Thing","metadata":{"name":"t"},"data":{"a":"1"}}"#));
    let managed = track(&TYPES, &zero, &new, Managed::default(), writer("kubectl-client-side-apply"), true);
    let old = kept(new, &managed);
    let config = json!({"data": {"a": "9"}});
    assert!(matches!(applied(Some(&old), "other", config.clone(), false), Err(Refusal::Conflicts(_))));
    let taken = applied(Some(&old), "kubectl", config, false).unwrap();
    assert_eq!((&taken["data"]["a"], &taken["data"]["b"]), (&json!("9"), &json!("2")));
    let noted = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"9\"},\"kind\":\"Thing\",\"metadata\":{\"name\":\"t\"}}\n";
    assert_eq!(taken["metadata"]["annotations"][LAST_APPLIED], noted);
    // What it did not apply itself stays a conflict.
    assert!(matches!(applied(Some(&old), "kubectl", json!({"data": {"b": "9"}}), false), Err(Refusal::Conflicts(_))));
}

#[test]
fn times_alone_are_no_change() {
    let a = applied(None, "a", json!({"data": {"x": "1"}}), false).unwrap();
    let mut later = a.clone();
    later["metadata"]["managedFields"][0]["time"] = "2027-01-01T00:00:00Z".into();
    assert!(same_but_times(&a, &later) && !same_but_times(&a, &a));
    later["data"]["x"] = "2".into();
    assert!(!same_but_times(&a, &later));
}

fn any_config(chance: &mut Chance) -> Value {
    let text = |chance: &mut Chance| json!(["1", "2"][chance.below(2)]);
    let mut config = json!({});
    if chance.below(3) > 0 {
        config["data"] = (0..=chance.below(3))
            .map(|_| (["x", "y", "z"][chance.below(3)].to_owned(), text(chance)))
            .collect::<Map<_, _>>()
            .into();
    }
    if chance.below(3) > 0 {
        let mut ports: Vec<u64> = (0..=chance.below(3)).map(|_| chance.below(4) as u64).collect();
        ports.sort_unstable();
        ports.dedup();
        if chance.below(2) == 0 {
            ports.reverse();
        }
        config["spec"]["ports"] =
            ports.into_iter().map(|port| json!({"port": port, "protocol": "TCP", "name": text(chance)})).collect();
    }
    if chance.below(3) == 0 {
        config["spec"]["selector"] = json!({"a": text(chance)});
    }
    config
}

/// Whoever applies: what it says is there, doing it again changes nothing, only owned fields go, and everything that
/// somebody owns is there.
#[test]
fn laws_of_apply() {
    let mut chance = Chance(13);
    let mut live: Option<Value> = None;
    let mut done = 0;
    for _ in 0..3_000 {
        let manager = ["a", "b", "c"][chance.below(3)];
        let (config, force) = (any_config(&mut chance), chance.below(3) == 0);
        if let Some(standing) = live.as_ref().filter(|_| chance.below(4) == 0) {
            live = Some(put(standing, "editor", config));
            continue;
        }
        let Ok(next) = applied(live.as_ref(), manager, config.clone(), force) else {
            assert!(!force, "force knows no conflict");
            continue;
        };
        done += 1;
        let said = compare::fields_of(&TYPES, "Thing", &thing(config.clone()));
        let there = compare::fields_of(&TYPES, "Thing", &next);
        let differing =
            compare::compare(&TYPES, "Thing", &next, &merge::merge(&TYPES, "Thing", &next, &thing(config.clone())));
        let other = said.intersection(&differing.changed);
        assert!(other.is_empty(), "{config} is not all there: {:?} in {next}", other.paths());
        let again = applied(Some(&next), manager, config.clone(), false).expect("nobody objects to what is so");
        assert_eq!(again, next, "{config}");
        for entry in Managed::of(&next).entries {
            let lost: Vec<String> = entry
                .fields
                .difference(&there)
                .paths()
                .into_iter()
                .filter(|path| !matches!(path.as_str(), ".data" | ".spec" | ".spec.ports"))
                .collect();
            assert!(lost.is_empty(), "{} owns what is not there: {lost:?} in {next}", entry.owner.manager);
        }
        live = if chance.below(30) == 0 { None } else { Some(next) };
    }
    assert!(done > 500, "{done}");
    assert!(NOTHING.is_empty());
}

/// In `v2` the number of replicas is told as `spec.count`.
#[test]
fn owners_in_two_versions() {
    fn later(thing: &mut Value) {
        (thing["apiVersion"], thing["kind"]) = ("v2".into(), "Later".into());
        if let Some(count) =
            thing.get_mut("spec").and_then(Value::as_object_mut).and_then(|spec| spec.remove("replicas"))
        {
            thing["spec"]["count"] = count;
        }
    }
    fn earlier(thing: &mut Value) {
        (thing["apiVersion"], thing["kind"]) = ("v1".into(), "Thing".into());
        if let Some(count) = thing.get_mut("spec").and_then(Value::as_object_mut).and_then(|spec| spec.remove("count"))
        {
            thing["spec"]["replicas"] = count;
        }
    }
    let form = Form { api_version: "v2", type_name: "Later", convert: later, back: earlier };
    let v1 = |manager| Writer { other: Some(form), ..writer(manager) };
    let v2 = |manager| Writer { kind: "Later", ..v1(manager).turned(form) };
    let lay = |live: &Value, config: Value, writer: Writer<'_>, force: bool| {
        let mut config = thing(config);
        let mut live = live.clone();
        if writer.api_version == "v2" {
            later(&mut live);
            (config["apiVersion"], config["kind"]) = ("v2".into(), "Later".into());
        }
        apply(&TYPES, &live, &config, writer, force).map(|applied| {
            let mut object = kept(applied.object, &applied.managed);
            earlier(&mut object);
            object
        })
    };
    let two = |count: i64| json!({"spec": {"count": count}, "data": {"x": "1"}});
    let a = lay(&shape::zero(&TYPES, "Thing"), two(2), v2("a"), false).unwrap();
    check(&a, json!({"data": {"x": "1"}, "spec": {"replicas": 2}}), &["a: .data.x .spec.count"]);
    // What was said in the one is a conflict in the other, and told as its owner said it.
    let refused = lay(&a, json!({"spec": {"replicas": 3}}), v1("b"), false).unwrap_err();
    let owner = Owner::of(v2("a"), true);
    assert_eq!(refused, Refusal::Conflicts(vec![crate::apply::Conflict { owner, path: ".spec.count".to_owned() }]));
    let b = lay(&a, json!({"spec": {"replicas": 3}}), v1("b"), true).unwrap();
    check(&b, json!({"data": {"x": "1"}, "spec": {"replicas": 3}}), &["a: .data.x", "b: .spec.replicas"]);
    let shared = lay(&b, two(3), v2("a"), false).unwrap();
    assert_eq!(owners(&shared), ["a: .data.x .spec.count", "b: .spec.replicas"]);
    // It stays while another owns it in the other version; then it goes.
    let given_up = lay(&shared, json!({"data": {"x": "1"}}), v2("a"), false).unwrap();
    check(&given_up, json!({"data": {"x": "1"}, "spec": {"replicas": 3}}), &["a: .data.x", "b: .spec.replicas"]);
    // Who applies in the other version now owns what it says there, and gives up what it said here.
    let turned = lay(&given_up, json!({"data": {"y": "2"}}), v2("b"), false).unwrap();
    check(&turned, json!({"data": {"x": "1", "y": "2"}}), &["a: .data.x", "b: .data.y"]);
    // A plain write takes it from both.
    let mut new = thing(json!({"data": {"x": "1"}, "spec": {"replicas": 9}}));
    new["metadata"]["managedFields"] = shared["metadata"]["managedFields"].clone();
    let managed = track(&TYPES, &shared, &new, Managed::of(&shared), v1("c"), false);
    assert_eq!(owners(&kept(new, &managed)), ["a: .data.x", "c: .spec.replicas"]);
}
