use super::super::tests::Chance;
use super::*;
use serde_json::json;

const TEXT: &str = "
[Pod]
  metadata 1 Meta
  spec 2 Spec
[Meta]
  labels 1 {string}
  finalizers 2 [string] set patch=merge
  owners 3 {Container}
[Spec]
  containers 1 [Container] keys=name patch=merge:name
  volumes 2 [Volume] keys=name patch=merge,retainKeys:name
  tolerations 3 [Toleration]
  strategy 4 Volume patch=retainKeys
  whole 5 Meta patch=replace
  odd 6 [Volume] patch=merge
[Container]
  name 1 string
  image 2 string
  args 3 [string]
  env 4 [Env] keys=name patch=merge:name
  ports 5 [Port] keys=port,protocol patch=merge:port
[Env]
  name 1 string
  value 2 string
[Port]
  port 1 int32
  protocol 2 string
[Volume]
  name 1 string
  empty 2 Toleration
  secret 3 Toleration
[Toleration]
  key 1 string
";

static TYPES: std::sync::LazyLock<Types> = std::sync::LazyLock::new(|| Types::parse(TEXT, &Types::default()).unwrap());

fn done(document: &Value, patch: &Value) -> Result<Value, Unpatched> {
    apply(&TYPES, "Pod", document.clone(), patch.as_object().unwrap().clone())
}

/// Patches of `spec`.
fn check(spec: Value, patch: Value, expected: Result<Value, &str>) {
    let found = done(&json!({"spec": spec}), &json!({"spec": patch}));
    match expected {
        Ok(expected) => assert_eq!(found.map(|found| found["spec"].clone()), Ok(expected), "{patch}"),
        Err(why) => assert_eq!(found.unwrap_err().to_string(), why, "{patch}"),
    }
}

#[test]
fn lists_by_key() {
    let standing = json!({"containers": [{"name": "web", "image": "a",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "side", "image": "b"}]});
    let names = |list: Value| {
        let mut spec = standing.clone();
        spec["containers"] = list;
        Ok(spec)
    };
    let web = standing["containers"][0].clone();
    let side = standing["containers"][1].clone();
    for (patch, expected) in [
        (json!({"containers": [{"name": "side", "image": "c"}]}), names(json!([web, {"name": "side", "image": "c"}]))),
        // New ones first, the last word on one counts.
        (
            json!({"containers": [{"name": "n", "image": "x"}, {"name": "n", "image": "y"}]}),
            names(json!([{"name": "n", "image": "y"}, web, side])),
        ),
        (
            json!({"containers": [{"name": "side", "$patch": "delete"}, {"name": "nope", "$patch": "delete"}]}),
            names(json!([web])),
        ),
        (json!({"containers": [{"$patch": "replace"}, {"name": "n"}]}), names(json!([{"name": "n"}]))),
        (json!({"containers": [{"name": "web", "$patch": "replace"}]}), names(json!([]))),
        (
            json!({"containers": [{"name": "web", "env": [{"name": "A", "value": "9"}, {"name": "N"}]}]}),
            names(json!([
                {
                    "name": "web", "image": "a",
                    "env": [{"name": "A", "value": "9"}, {"name": "N"}, {"name": "B", "value": "2"}],
                }, side,
            ])),
        ),
        // As kubectl apply says it.
        (
            json!({"$setElementOrder/containers": [{"name": "web"}], "containers": [{"name": "web",
                "$setElementOrder/env": [{"name": "B"}, {"name": "C"}],
                "env": [{"name": "A", "$patch": "delete"}, {"name": "C"}]}, {"name": "side", "$patch": "delete"}]}),
            names(json!([{"name": "web", "image": "a", "env": [{"name": "B", "value": "2"}, {"name": "C"}]}])),
        ),
        (json!({"$setElementOrder/containers": [{"name": "side"}, {"name": "web"}]}), names(json!([side, web]))),
        (
            json!({"$setElementOrder/containers": [{"name": "n"}, {"name": "side"}], "containers": [{"name": "n"}]}),
            names(json!([{"name": "n"}, web, side])),
        ),
        (json!({"containers": null}), Ok(json!({}))),
        (
            json!({"containers": [{"name": "web", "args": ["a"]}]}),
            names(json!([{"name": "web", "image": "a", "env": web["env"], "args": ["a"]}, side])),
        ),
        // Where nothing stands, directives direct nothing.
        (
            json!({
                "containers": [
                    {
                        "name": "n", "$setElementOrder/env": [{"name": "A"}],
                        "env": [{"name": "A"}, {"name": "Z", "$patch": "delete"}],
                    },
                ],
            }),
            names(json!([{"name": "n", "env": [{"name": "A"}]}, web, side])),
        ),
        // Mistakes.
        (json!({"containers": [{"image": "x"}]}), Err("map: map[image:x] does not contain declared merge key: name")),
        (
            json!({"containers": [{"$patch": "delete"}]}),
            Err("map: map[$patch:delete] does not contain declared merge key: name"),
        ),
        (
            json!({"containers": [{"name": "a", "$patch": "frob"}]}),
            Err("unknown patch type: frob in map: map[$patch:frob name:a]"),
        ),
        (
            json!({"containers": [{"name": "a", "$patch": "merge"}]}),
            Err("merging lists cannot yet be specified in the patch"),
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "x"}], "containers": [{"name": "y"}]}),
            Err("The order in patch list:\n[map[name:y]]\n doesn't match $setElementOrder list:\n[map[name:x]]\n"),
        ),
        (json!({"$setElementOrder/containers": "x"}), Err("expected a []interface {}, but received a string")),
        (json!({"$setElementOrder": []}), Err("invalid patch format of setElementOrder list")),
        (
            json!({"$setElementOrder/nope": []}),
            Err("unable to find api field in struct Spec for the json field \"nope\""),
        ),
        (
            json!({"containers": ["web"]}),
            Err("list element types are not identical: [[map[env:[map[name:A value:1] map[name:B value:2]] image:a \
                 name:web] map[image:b name:side]] [web]]"),
        ),
        (
            json!({"containers": [[]]}),
            Err("list element types are not identical: [[map[env:[map[name:A value:1] map[name:B value:2]] image:a \
                 name:web] map[image:b name:side]] [[]]]"),
        ),
    ] {
        check(standing.clone(), patch, expected);
    }
    let ports = json!({
        "containers": [{"name": "c", "ports": [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}],
    });
    // The merge key is the port alone, and what two entries share tells them not apart.
    check(
        ports.clone(),
        json!({"containers": [{"name": "c", "ports": [{"port": 53, "$patch": "delete"}]}]}),
        Ok(json!({"containers": [{"name": "c", "ports": []}]})),
    );
    check(
        ports,
        json!({"containers": [{"name": "c", "ports": [{"port": 53, "protocol": "x"}]}]}),
        Ok(json!({
            "containers": [
                {"name": "c", "ports": [{"port": 53, "protocol": "x"}, {"port": 53, "protocol": "UDP"}]},
            ],
        })),
    );
    check(
        json!({"odd": [{"name": "a"}]}),
        json!({"odd": [{"name": "b"}]}),
        Err("cannot merge lists without merge key for type struct"),
    );
}

#[test]
fn maps_and_other_lists() {
    for (standing, patch, expected) in [
        (
            json!({"tolerations": [{"key": "a"}]}),
            json!({"tolerations": [{"key": "b"}]}),
            Ok(json!({"tolerations": [{"key": "b"}]})),
        ),
        (json!({"strategy": {"name": "a"}}), json!({"strategy": {"$patch": "delete"}}), Ok(json!({"strategy": {}}))),
        (
            json!({"strategy": {"name": "a"}}),
            json!({"strategy": {"$patch": "replace", "empty": {}}}),
            Ok(json!({"strategy": {"empty": {}}})),
        ),
        (json!({}), json!({"strategy": {"$patch": "delete"}}), Ok(json!({}))),
        (
            json!({"whole": {"labels": {"a": "b"}}}),
            json!({"whole": {"labels": {"c": "d"}}}),
            Ok(json!({"whole": {"labels": {"c": "d"}}})),
        ),
        (
            json!({"strategy": {"name": "a", "empty": {"key": "x"}}}),
            json!({"strategy": {"$retainKeys": ["name", "secret"], "secret": {"key": "y"}}}),
            Ok(json!({"strategy": {"name": "a", "secret": {"key": "y"}}})),
        ),
        (
            json!({"volumes": [{"name": "v", "empty": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {}}]}),
            Ok(json!({"volumes": [{"name": "v", "secret": {}}]})),
        ),
        (
            json!({"strategy": {"name": "a"}}),
            json!({"strategy": {"$retainKeys": ["name"], "secret": {}}}),
            Err("invalid patch format of retainKeys"),
        ),
        (
            json!({"strategy": {"name": "a"}}),
            json!({"strategy": {"$retainKeys": "name"}}),
            Err("invalid patch format of retainKeys"),
        ),
        (
            json!({"strategy": {"name": "a"}}),
            json!({"strategy": {"$patch": 5}}),
            Err("unknown patch type: %!s(int64=5) in map: map[$patch:5]"),
        ),
        // The types say later that it is none.
        (json!({"strategy": {"name": "a"}}), json!({"strategy": "x"}), Ok(json!({"strategy": "x"}))),
        (json!({}), json!({"nope": {"a": 1}}), Ok(json!({"nope": {"a": 1}}))),
        (
            json!({"tolerations": [{}]}),
            json!({"$deleteFromPrimitiveList/tolerations": [{}]}),
            Err("cannot merge lists without merge key for type struct"),
        ),
    ] {
        check(standing, patch, expected);
    }
    let document = json!({"metadata": {"owners": {"a": {"name": "x", "env": [{"name": "A"}]}}}});
    let patch = json!({"metadata": {"owners": {"a": {"env": [{"name": "B"}]}, "b": {"name": "y"}}}});
    let expected = json!({
        "metadata": {"owners": {"a": {"name": "x", "env": [{"name": "B"}, {"name": "A"}]}, "b": {"name": "y"}}},
    });
    assert_eq!(done(&document, &patch), Ok(expected));
}

#[test]
fn lists_of_plain_values() {
    let standing = json!({"metadata": {"finalizers": ["a", "b"]}});
    for (patch, expected) in [
        (json!({"finalizers": ["c"]}), json!(["c", "a", "b"])),
        (json!({"finalizers": ["b"]}), json!(["a", "b"])),
        (json!({"$deleteFromPrimitiveList/finalizers": ["a", "z"]}), json!(["b"])),
        (json!({"$setElementOrder/finalizers": ["b", "a"]}), json!(["b", "a"])),
        (json!({"$setElementOrder/finalizers": ["d", "b"], "finalizers": ["d"]}), json!(["d", "a", "b"])),
    ] {
        let found = done(&standing, &json!({"metadata": patch})).unwrap();
        assert_eq!(found["metadata"]["finalizers"], expected, "{patch}");
    }
}

fn any_patch(chance: &mut Chance) -> Value {
    let name = |chance: &mut Chance| json!(["a", "b", "c", "d"][chance.below(4)]);
    let entry = |chance: &mut Chance| match chance.below(6) {
        0 => json!({"name": name(chance), "$patch": "delete"}),
        1 => json!({"name": name(chance), "env": [{"name": name(chance), "value": "x"}]}),
        2 => json!({"name": name(chance), "env": [{"name": "b", "value": null}], "args": ["x"]}),
        _ => json!({"name": name(chance), "image": "x"}),
    };
    let mut spec = Map::new();
    if chance.below(4) > 0 {
        let mut entries: Vec<Value> = (0..chance.below(4)).map(|_| entry(chance)).collect();
        // What is deleted and made in one patch is made anew each time.
        let mut seen = std::collections::HashSet::new();
        entries.retain(|entry| seen.insert(entry["name"].to_string()));
        // An order that is given is kept.
        entries.sort_by_key(|entry| entry["name"].to_string());
        spec.insert("containers".into(), entries.into());
    }
    if chance.below(3) == 0 {
        spec.insert(
            "$setElementOrder/containers".into(),
            ["a", "b", "c", "d"].iter().map(|name| json!({"name": name})).collect(),
        );
    }
    if chance.below(8) == 0 {
        spec.insert("strategy".into(), json!({"$retainKeys": ["name"], "name": "x"}));
    }
    let mut finalizers: Vec<Value> = (0..chance.below(4)).map(|_| name(chance)).collect();
    finalizers.sort_by_key(Value::to_string);
    finalizers.dedup();
    let list = ["finalizers", "$deleteFromPrimitiveList/finalizers"][chance.below(2)];
    json!({"metadata": {list: finalizers}, "spec": spec})
}

/// As decoding leaves it.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.into_iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| (name, without_nulls(value))).collect::<Map<_, _>>().into()
        }
        Value::Array(list) => list.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Done to its own result a patch changes nothing.
#[test]
fn again_changes_nothing() {
    let mut chance = Chance(3);
    let mut document = json!({});
    let mut changed = 0;
    for _ in 0..20_000 {
        let patch = any_patch(&mut chance);
        // A list that contradicts the order which it gives is refused.
        let Ok(once) = done(&document, &patch) else { continue };
        let once = without_nulls(once);
        assert_eq!(done(&once, &patch).map(without_nulls), Ok(once.clone()), "{document} and {patch}");
        changed += usize::from(once != document);
        document = if chance.below(20) == 0 { json!({}) } else { once };
    }
    assert!(changed > 1000, "{changed}");
}

#[test]
fn any_document_and_any_patch() {
    let mut chance = Chance(5);
    for _ in 0..20_000 {
        let (document, patch) = (chance.value(5), chance.value(5));
        if let Value::Object(patch) = patch {
            drop(apply(&TYPES, "Spec", document, patch));
        }
    }
}
