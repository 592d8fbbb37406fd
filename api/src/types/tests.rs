use super::builtin;
use crate::kinds::Kinds;
use coracle_schema::types::{Container, Element};
use coracle_schema::{Path, Problem, Types, check, decode, default};
use serde_json::{Map, Value, json};

/// The steps of a conversation recorded from Kubernetes.
fn steps(case: &str) -> Vec<Value> {
    let path = format!("{}/../tests/data/v1/cases/{case}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let case: Value = serde_json::from_str(&text).unwrap();
    case["steps"].as_array().unwrap().clone()
}

fn sent(step: &Value) -> Value {
    match &step["body"] {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        body => body.clone(),
    }
}

/// What is not the types' to say: pointers into the document, with `*` for every entry of a list.
fn without(value: &mut Value, pointer: &str) {
    let (first, rest) = pointer.split_once('/').unwrap_or((pointer, ""));
    match value {
        Value::Array(list) if first == "*" => list.iter_mut().for_each(|entry| without(entry, rest)),
        Value::Object(map) if rest.is_empty() => drop(map.remove(first)),
        Value::Object(map) => {
            if let Some(inner) = map.get_mut(first) {
                without(inner, rest);
            }
        }
        _ => {}
    }
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(map) = value {
        map.retain(|_, inner| !inner.is_null());
    }
    match value {
        Value::Object(map) => map.values_mut().for_each(without_nulls),
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// What was sent, decoded and defaulted, is what Kubernetes answered but for what its strategies and admission set.
fn check_made(case: &str, kind: &str, strategies: &[&str]) {
    let types = builtin();
    for step in steps(case).iter().filter(|step| step["method"] == "POST") {
        let mut ours = sent(step);
        let decoded = decode(&types, kind, &mut ours);
        assert_eq!((decoded.faults, decoded.unknown), (vec![], vec![]), "{case}");
        default(&types, kind, &mut ours);
        assert_eq!(check(&types, kind, &ours), [], "{case}");
        let mut theirs = step["answer"]["body"].clone();
        without_nulls(&mut theirs);
        without_nulls(&mut ours);
        let metadata = [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "managedFields",
            "namespace",
            "name",
            "generateName",
        ];
        let metadata = metadata.map(|field| format!("metadata/{field}"));
        for pointer in metadata.iter().map(String::as_str).chain(strategies.iter().copied()) {
            without(&mut ours, pointer);
            without(&mut theirs, pointer);
        }
        assert_eq!(ours, theirs, "{case}");
    }
}

#[test]
fn documents_become_what_kubernetes_makes_of_them() {
    let pod = [
        "status",
        "spec/serviceAccount",
        "spec/serviceAccountName",
        "spec/tolerations",
        "spec/priority",
        "spec/preemptionPolicy",
        "spec/enableServiceLinks",
        "spec/containers/*/imagePullPolicy",
        "spec/initContainers/*/imagePullPolicy",
        "spec/containers/*/resources/requests/cpu",
        "spec/volumes/*/emptyDir",
    ];
    check_made("kinds/pod-minimal", "Pod", &pod);
    check_made("kinds/pod-rich", "Pod", &pod);
    let service = [
        "spec/clusterIP",
        "spec/clusterIPs",
        "spec/ipFamilies",
        "spec/ipFamilyPolicy",
        "spec/internalTrafficPolicy",
        "spec/sessionAffinityConfig",
        "spec/ports/*/nodePort",
        "spec/ports/*/targetPort",
    ];
    check_made("kinds/service-minimal", "Service", &service);
    check_made("kinds/service-rich", "Service", &service);
    check_made("kinds/endpoints", "Endpoints", &[]);
    check_made("kinds/node", "Node", &["spec/taints", "spec/podCIDRs", "status/allocatable"]);
    check_made("kinds/namespace", "Namespace", &["spec/finalizers", "metadata/labels"]);
    check_made("kinds/event-core", "Event", &[]);
}

/// The first fault or problem of each step, as the message of a Status tells it.
fn check_refused(case: &str, kind: &str) {
    let types = builtin();
    let mut refused = 0;
    for step in steps(case).iter().filter(|step| step["method"] == "POST") {
        let theirs = step["answer"]["body"]["message"].as_str().unwrap_or_default();
        let mut document = sent(step);
        let decoded = decode(&types, kind, &mut document);
        default(&types, kind, &mut document);
        let problems: Vec<String> = check(&types, kind, &document).iter().map(Problem::to_string).collect();
        let ours = match decoded.message() {
            Some(why) => format!("{kind} in version \"v1\" cannot be handled as a {kind}: {why}"),
            None if problems.is_empty() => continue,
            None => format!("{kind} {:?} is invalid: {}", "p", problems.join(", ")),
        };
        assert_eq!(ours, theirs, "{case}");
        refused += 1;
    }
    assert!(refused > 0, "{case} refuses nothing");
}

#[test]
fn documents_are_refused_with_the_words_of_kubernetes() {
    check_refused("validation/pod-enums", "Pod");
    check_refused("validation/pod-bad-quantity", "Pod");
}

#[test]
fn unknown_fields_are_listed_and_gone() {
    let types = builtin();
    let step = &steps("errors/field-case")[2];
    let mut document = sent(step);
    let decoded = decode(&types, "Pod", &mut document);
    let unknown: Vec<&str> = decoded.unknown.iter().map(Path::as_str).collect();
    assert_eq!(unknown, ["spec.containers[0].Image", "spec.containers[0].imagepullpolicy"]);
    assert_eq!(document["spec"]["containers"], json!([{"image": "nginx:1.27", "name": "web"}]));
}

#[test]
fn times_of_a_status() {
    let types = builtin();
    for step in steps("content/times").iter().filter(|step| step["path"].as_str().unwrap().ends_with("/pods/p/status"))
    {
        let mut document = step["body"].clone();
        let decoded = decode(&types, "Pod", &mut document);
        match decoded.faults.first() {
            None => assert_eq!(document["status"]["startTime"], step["answer"]["body"]["$.status.startTime"][0]),
            Some(fault) => {
                let theirs = step["answer"]["body"]["message"].as_str().unwrap();
                assert!(theirs.ends_with(&fault.message), "{} is not the end of {theirs}", fault.message);
            }
        }
    }
}

#[test]
fn every_kind_has_its_type() {
    let types = builtin();
    let kinds = Kinds::builtin();
    for row in kinds.iter() {
        assert!(types.get(&row.type_name).is_some(), "no type {}", row.type_name);
        let of_kind = types.get(&kinds.stored_as(row).type_name).expect("it is a row, too");
        for field in &row.fields {
            let mut at = of_kind;
            for name in field.path.split('.') {
                let found = at.field(name).unwrap_or_else(|| panic!("{} has no {}", row.kind, field.path));
                if let Element::Named(name) = &found.element {
                    at = types.get(name).unwrap();
                }
            }
        }
    }
    for name in ["DeleteOptions", "Status", "PodList", "ObjectReference", "policy.v1.Eviction", "autoscaling.v1.Scale"]
    {
        assert!(types.get(name).is_some(), "{name}");
    }
}

/// A small generator of numbers; the same ones from the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    /// Of the type most of the time, and of anything the rest of it.
    fn value(&mut self, types: &Types, element: &Element, container: Container, depth: usize) -> Value {
        if self.below(40) == 0 {
            return self.junk(depth);
        }
        match container {
            Container::List => {
                (0..self.below(3)).map(|_| self.value(types, element, Container::One, depth + 1)).collect()
            }
            Container::Map => (0..self.below(3))
                .map(|n| (format!("k{n}"), self.value(types, element, Container::One, depth + 1)))
                .collect(),
            Container::MapOfLists => (0..self.below(3))
                .map(|n| (format!("k{n}"), self.value(types, element, Container::List, depth + 1)))
                .collect(),
            Container::One => match element {
                Element::Named(name) => self.object(types, name, depth),
                Element::Bool => json!(self.below(2) == 0),
                Element::Int32 | Element::Int64 | Element::Float => json!(self.below(1000)),
                Element::Quantity => json!(["1", "100m", "1.5Gi", "5e3", "x", "1e99", "-0.1"][self.below(7)]),
                Element::Time => json!(
                    ["2020-01-01T00:00:00Z", "2020-02-30T00:00:00Z", "2020-01-01T00:00:00.5+01:00"][self.below(3)]
                ),
                Element::MicroTime => json!(["2020-01-01T00:00:00.000001Z", "x"][self.below(2)]),
                _ => json!(["", "a", "TCP", "Always"][self.below(4)]),
            },
        }
    }

    fn object(&mut self, types: &Types, name: &str, depth: usize) -> Value {
        let mut object = Map::new();
        for field in types.get(name).unwrap().fields.iter() {
            if depth < 8 && self.below(4) == 0 {
                object.insert(field.name.to_string(), self.value(types, &field.element, field.container, depth + 1));
            }
        }
        if self.below(10) == 0 {
            object.insert("unheard-of".to_owned(), self.junk(depth));
        }
        object.into()
    }

    fn junk(&mut self, depth: usize) -> Value {
        match self.below(8) {
            0 => Value::Null,
            1 => json!(-1.5),
            2 => json!(u64::MAX),
            3 => json!(true),
            4 => json!("\u{fffd}\0é"),
            5 if depth < 12 => json!([self.junk(depth + 1)]),
            6 if depth < 12 => json!({"metadata": self.junk(depth + 1), "": self.junk(depth + 1)}),
            _ => json!({}),
        }
    }
}

#[test]
fn whatever_comes_in_is_decoded_once_and_stays() {
    let types = builtin();
    let (mut good, mut bad) = (0, 0);
    for seed in 1..=3000 {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed));
        let name = [
            "Pod",
            "Service",
            "Node",
            "Event",
            "ReplicationController",
            "Endpoints",
            "DeleteOptions",
            "apps.v1.StatefulSet",
            "networking.v1.Ingress",
            "authorization.v1.SubjectAccessReview",
            "autoscaling.v2.HorizontalPodAutoscaler",
        ][numbers.below(11)];
        let mut document = numbers.object(&types, name, 0);
        let decoded = decode(&types, name, &mut document);
        default(&types, name, &mut document);
        let problems = check(&types, name, &document);
        if !decoded.faults.is_empty() {
            bad += 1;
            continue;
        }
        good += 1;
        let mut again = document.clone();
        assert_eq!(decode(&types, name, &mut again), Default::default(), "seed {seed}");
        default(&types, name, &mut again);
        assert_eq!(again, document, "seed {seed}");
        assert_eq!(check(&types, name, &again), problems, "seed {seed}");
    }
    assert!(good > 300 && bad > 300, "{good} good and {bad} bad documents: one side is not tried");
}
