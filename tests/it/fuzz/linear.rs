//! Work grows with the input and not with its square: four times the input takes about four times the CPU. What is
//! compared is the CPU time of this thread for one input and for one of four times the size, in the same run; sixteen
//! would be the square.

use coracle_api::kinds::Kinds;
use coracle_api::selector::{Grammar, LabelSelector};
use coracle_api::strategy::Rules;
use coracle_api::types;
use coracle_schema::apply::{Fields, Writer, apply};
use coracle_schema::patch::{json as operations, merge, strategic};
use coracle_schema::types::{Container, Element, Types};
use coracle_schema::{check, decode, default, protobuf, read, tidy};
use coracle_tests::fuzz::Dice;
use coracle_tests::fuzz::documents::document;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Between 4 (in proportion) and 16 (the square).
const RATIO_MAX: f64 = 10.0;
/// Less than this is noise.
const NOISE: Duration = Duration::from_millis(4);
const TRIES: usize = 30;

fn cpu(work: impl FnOnce()) -> Duration {
    let now = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("every thread has this clock"));
    let begun = now();
    work();
    now() - begun
}

/// None: in proportion. Others share the machine and its caches, which only ever adds: of each size the least of some
/// tries counts.
fn growth<T>(size: usize, input: impl Fn(usize) -> T, work: impl Fn(T)) -> Option<f64> {
    let (mut least_small, mut least_large) = (Duration::MAX, Duration::MAX);
    for _ in 0..TRIES {
        let (small, large) = (input(size), input(4 * size));
        least_small = least_small.min(cpu(|| work(small)));
        least_large = least_large.min(cpu(|| work(large)));
        if least_large < NOISE || least_large.as_secs_f64() < RATIO_MAX * least_small.max(NOISE / 16).as_secs_f64() {
            return None;
        }
    }
    Some(least_large.as_secs_f64() / least_small.max(NOISE / 16).as_secs_f64())
}

fn in_proportion<T>(what: &str, size: usize, input: impl Fn(usize) -> T, work: impl Fn(T)) {
    if let Some(ratio) = growth(size, input, work) {
        panic!("{what}: four times the input ({size} and {}) takes {ratio:.1} times the work", 4 * size);
    }
}

fn env(count: usize) -> Vec<Value> {
    (0..count).map(|at| json!({"name": format!("N{at}"), "value": "x"})).collect()
}

fn pod(count: usize) -> Value {
    let labels: Map<String, Value> = (0..count).map(|at| (format!("l{at}"), json!("x"))).collect();
    let mounts: Vec<Value> =
        (0..count).map(|at| json!({"name": format!("v{at}"), "mountPath": format!("/m{at}")})).collect();
    let volumes: Vec<Value> = (0..count).map(|at| json!({"name": format!("v{at}"), "emptyDir": {}})).collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "labels": labels,
            "finalizers": (0..count).map(|at| format!("x.y/f{at}")).collect::<Vec<_>>()},
        "spec": {"volumes": volumes, "containers":
            [{"name": "c", "image": "x", "env": env(count), "volumeMounts": mounts}]},
    })
}

#[test]
fn reading() {
    let types = types::builtin();
    in_proportion("JSON", 1_000, |n| pod(n).to_string(), |text| drop(read(text.as_bytes())));
    let doubled = |n: usize| format!("{{{}\"z\":1}}", "\"a\":1,".repeat(n));
    in_proportion("JSON, one field many times", 5_000, doubled, |text| drop(read(text.as_bytes())));
    in_proportion("YAML", 1_000, |n| pod(n).to_string(), |text| drop(coracle_schema::yaml::read(&text)));
    let block = |n: usize| (0..n).map(|at| format!("k{at}:\n- a\n- {{b: \"c\\n\"}}\n")).collect::<String>();
    in_proportion("YAML in blocks", 2_000, block, |text| drop(coracle_schema::yaml::read(&text)));
    let aliases = |n: usize| format!("a: &a x\nl:\n{}", "- *a\n".repeat(n));
    in_proportion("YAML with aliases", 2_000, aliases, |text| drop(coracle_schema::yaml::read(&text)));
    in_proportion(
        "protobuf",
        2_000,
        |n| protobuf::encode(&types, "Pod", &pod(n)),
        |bytes| drop(protobuf::decode(&types, "Pod", &bytes)),
    );
    let parts = |n: usize| b"\x0a\x03\x0a\x01a".repeat(n);
    in_proportion("protobuf in parts", 10_000, parts, |bytes| drop(protobuf::decode(&types, "Pod", &bytes)));
    in_proportion("writing protobuf", 2_000, pod, |pod| drop(protobuf::encode(&types, "Pod", &pod)));
}

#[test]
fn shaping() {
    let types = types::builtin();
    let unknown = |n: usize| {
        let mut pod = pod(n);
        pod["spec"] = (0..n).map(|at| (format!("u{at}"), json!(at))).collect::<Map<_, _>>().into();
        pod
    };
    for (what, input) in [("a pod", &pod as &dyn Fn(usize) -> Value), ("unknown fields", &unknown)] {
        in_proportion(&format!("decode, {what}"), 2_000, input, |mut pod| drop(decode(&types, "Pod", &mut pod)));
        in_proportion(&format!("default, {what}"), 2_000, input, |mut pod| default(&types, "Pod", &mut pod));
        in_proportion(&format!("tidy, {what}"), 2_000, input, |mut pod| tidy(&types, "Pod", &mut pod));
        in_proportion(&format!("check, {what}"), 2_000, input, |pod| drop(check(&types, "Pod", &pod)));
    }
}

#[test]
fn patching() {
    let types = types::builtin();
    let object = |value: Value| if let Value::Object(object) = value { object } else { Map::new() };
    let both = |n: usize| (pod(n), object(pod(n)));
    in_proportion("strategic", 1_500, both, |(pod, patch)| drop(strategic::apply(&types, "Pod", pod, patch)));
    let order = |n: usize| {
        let names: Vec<Value> = (0..n).rev().map(|at| json!({"name": format!("N{at}")})).collect();
        let patch = json!({"spec": {"containers": [{"name": "c", "$setElementOrder/env": names, "env": env(n)}]}});
        (pod(n), object(patch))
    };
    in_proportion("strategic with an order", 1_500, order, |(pod, patch)| {
        drop(strategic::apply(&types, "Pod", pod, patch))
    });
    let gone = |n: usize| {
        let names: Vec<Value> = (0..n).map(|at| json!({"name": format!("N{at}"), "$patch": "delete"})).collect();
        let finalizers: Vec<String> = (0..n).map(|at| format!("x.y/f{at}")).collect();
        let patch = json!({
            "metadata": {"$deleteFromPrimitiveList/finalizers": finalizers},
            "spec": {"containers": [{"name": "c", "env": names}]},
        });
        (pod(n), object(patch))
    };
    in_proportion("strategic that deletes", 1_500, gone, |(pod, patch)| {
        drop(strategic::apply(&types, "Pod", pod, patch))
    });
    in_proportion("merge", 3_000, |n| (pod(n), pod(n)), |(mut pod, patch)| merge(&mut pod, patch));
    // The number of operations has a limit of its own: what grows is the document.
    let few = json!([
        {"op": "add", "path": "/spec/volumes/0", "value": {}}, {"op": "move", "from": "/metadata/labels", "path": "/x"},
    ]);
    let (few, _) = operations::parse(few).expect("operations");
    in_proportion("JSON patch", 3_000, pod, |pod| drop(operations::apply(pod, &few)));
}

#[test]
fn applying() {
    let types = types::builtin();
    let nothing = Fields::default();
    let writer = |manager| Writer {
        manager,
        subresource: "",
        api_version: "v1",
        kind: "Pod",
        type_name: "Pod",
        now: "2026-01-01T00:00:00Z",
        ignored: &nothing,
        other: None,
    };
    let lay = |live: &Value, config: &Value, manager| {
        let applied = apply(&types, live, config, writer(manager), true).expect("it fits its type");
        let mut object = applied.object;
        applied.managed.put(&mut object);
        object
    };
    let fresh = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    in_proportion("apply", 500, pod, |pod| drop(lay(&fresh, &pod, "one")));
    in_proportion(
        "apply again",
        500,
        |n| (lay(&fresh, &pod(n), "one"), pod(n)),
        |(live, pod)| drop(lay(&live, &pod, "one")),
    );
    in_proportion(
        "apply over another's",
        500,
        |n| (lay(&fresh, &pod(n), "one"), pod(n)),
        |(live, pod)| drop(lay(&live, &pod, "two")),
    );
    in_proportion("apply of nothing", 500, |n| lay(&fresh, &pod(n), "one"), |live| drop(lay(&live, &fresh, "one")));
}

#[test]
fn selecting() {
    let many = |n: usize| (0..n).map(|at| format!("k{at} in (a,b),")).collect::<String>() + "z";
    let parse = |text: String| drop(LabelSelector::parse(&text, Grammar::V1));
    in_proportion("a selector of many parts", 2_000, many, parse);
    let values = |n: usize| format!("k in ({}z)", (0..n).map(|at| format!("v{at},")).collect::<String>());
    in_proportion("a selector of many values", 4_000, values, parse);
    let old = |n: usize| (0..n).map(|at| format!("k{at}=v,")).collect::<String>();
    in_proportion("a selector of 2014", 4_000, old, |text| drop(LabelSelector::parse(&text, Grammar::Old)));
}

#[test]
fn types_at_run_time() {
    let text = |n: usize| (0..n).map(|at| format!("[T{at}]\n  a 1 T{}\n  b 2 [string]\n", at / 2)).collect::<String>();
    in_proportion("text of types", 500, text, |text| drop(Types::parse(&text, &Types::default())));
}

/// Every list and map of every kind, made long, goes through everything that a create does.
#[test]
fn every_list_of_every_kind() {
    let types = types::builtin();
    let mut bad = Vec::new();
    for kind in Kinds::builtin().stored() {
        let mut places = Vec::new();
        lists(&types, &kind.type_name, &mut Vec::new(), &mut places);
        for place in &places {
            let input = |n: usize| {
                let mut object = long(&types, &kind.type_name, place, n);
                object["metadata"]["name"] = json!("a");
                default(&types, &kind.type_name, &mut object);
                object
            };
            let work = |object: Value| {
                kind.strategy.validate(&object, Rules::default());
                kind.strategy.validate_update(&object, &object, Rules::default());
                kind.strategy.claims(&object);
            };
            if let Some(ratio) = growth(150, input, work) {
                bad.push(format!("{} {}: {ratio:.1}", kind.kind, place.join(".")));
            }
        }
    }
    assert!(bad.is_empty(), "four times the entries take so many times the work:\n{}", bad.join("\n"));
}

/// Lists and maps below a type, each by its fields from the top; a type that comes again is not gone into.
fn lists(types: &Types, name: &str, above: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    const DEPTH_MAX: usize = 7;
    let Some(row) = types.get(name).filter(|_| above.len() < DEPTH_MAX) else { return };
    for field in row.fields.iter() {
        above.push(field.name.to_string());
        if field.container != Container::One {
            found.push(above.clone());
        }
        if let Element::Named(inner) = &field.element {
            // Templates hold the same pod everywhere: once through a pod and a deployment is enough.
            lists(types, inner, above, found);
        }
        above.pop();
    }
}

/// An object with one long list, each entry different, and on the way to it one entry of everything.
fn long(types: &Types, name: &str, place: &[String], count: usize) -> Value {
    let row = types.get(name).expect("a type that is named is there");
    let mut fields = Map::new();
    let Some((first, rest)) = place.split_first() else { return Value::Object(fields) };
    let field = row.field(first).expect("a field of the type");
    let entry = |at: usize| match &field.element {
        Element::Named(inner) if rest.is_empty() => different(types, inner, at),
        Element::Named(inner) => long(types, inner, rest, count),
        Element::Int32 | Element::Int64 => json!(at),
        _ => json!(format!("e{at}")),
    };
    let many = if rest.is_empty() { count } else { 1 };
    let value = match field.container {
        Container::One => entry(0),
        Container::List => (0..many).map(entry).collect(),
        Container::Map => Value::Object((0..many).map(|at| (format!("k{at}"), entry(at))).collect()),
        Container::MapOfLists => Value::Object((0..many).map(|at| (format!("k{at}"), json!([entry(at)]))).collect()),
    };
    fields.insert(first.clone(), value);
    Value::Object(fields)
}

fn different(types: &Types, name: &str, at: usize) -> Value {
    let mut entry = document(types, name, &mut Dice::of(7), 2);
    let row = types.get(name).expect("a type that is named is there");
    for field in row.fields.iter().filter(|field| field.container == Container::One) {
        match field.element {
            Element::Text if field.rules.choices.is_empty() => entry[&*field.name] = json!(format!("e{at}")),
            Element::Int32 => entry[&*field.name] = json!(at + 1),
            _ => {}
        }
    }
    entry
}
