//! The slices of a service's endpoints, made and mirrored.

use super::*;

/// What is done about slices, in short; the objects as they are afterwards.
fn slices(objects: &mut Vec<(&'static str, Value)>) -> Vec<String> {
    let decision = decide(&cluster(objects), "endpoints", key("services", "web"), at(MINUTE));
    let spots = |object: &Value| {
        let spots = object["endpoints"].as_array().into_iter().flatten().map(|spot| {
            let conditions = &spot["conditions"];
            let said = [("ready", '+'), ("serving", 's'), ("terminating", 't')];
            let said: String =
                said.into_iter().filter(|(field, _)| conditions[*field] == true).map(|(_, sign)| sign).collect();
            format!("{}{said}", spot["addresses"][0].as_str().unwrap())
        });
        let spots: Vec<String> = spots.collect();
        let ports: Vec<String> =
            object["ports"].as_array().into_iter().flatten().map(|port| port["port"].to_string()).collect();
        let spots = if spots.len() > 3 { spots.len().to_string() } else { spots.join(",") };
        format!("{spots}:{}", ports.join(","))
    };
    let mut done = Vec::new();
    for intent in decision.intents {
        match intent {
            Intent::Create { resource, mut object, .. } if resource == SLICES => {
                done.push(format!("+{}", spots(&object)));
                assert_eq!(object["metadata"]["generateName"], "web-");
                assert_ne!(object["metadata"].get("annotations"), Some(&Value::Null));
                object["metadata"]["name"] = format!("web-{}", objects.len()).into();
                for list in ["endpoints", "ports"] {
                    // As the store has it.
                    if object[list] == json!([]) {
                        object[list] = Value::Null;
                    }
                }
                objects.push(("endpointslices", object));
            }
            Intent::Update { key, object, .. } if key.resource == SLICES => {
                done.push(format!("={}", spots(&object)));
                let standing =
                    objects.iter_mut().find(|(_, standing)| standing["metadata"]["name"] == key.name.as_str());
                standing.expect("it stands").1 = object;
            }
            Intent::Delete { key, .. } if key.resource == SLICES => {
                done.push("-".to_owned());
                objects.retain(|(_, standing)| standing["metadata"]["name"] != key.name.as_str());
            }
            _ => {}
        }
    }
    done
}

#[test]
fn slices_follow_their_pods() {
    let mut objects = vec![service(json!({"metadata": {"uid": "uid-web"}})), node("n1", json!({}))];
    assert_eq!(slices(&mut objects), ["+:"]);
    assert_eq!(slices(&mut objects), [""; 0], "an empty one stays");
    let mut leaving = running("c", "n1", "10.0.0.4", true);
    merge(&mut leaving.1, json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}}));
    objects.extend([running("a", "n1", "10.0.0.2", true), running("b", "n1", "10.0.0.3", false), leaving]);
    assert_eq!(slices(&mut objects), ["=10.0.0.2+s,10.0.0.3,10.0.0.4st:8080"]);
    let made = &objects.iter().find(|(plural, _)| *plural == "endpointslices").unwrap().1;
    let labels = json!({
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    assert_eq!(
        (&made["metadata"]["labels"], &made["metadata"]["ownerReferences"][0]["uid"]),
        (&labels, &json!("uid-web"))
    );
    assert_eq!(
        (&made["endpoints"][0]["nodeName"], &made["endpoints"][0]["targetRef"]["uid"]),
        (&json!("n1"), &json!("uid-a"))
    );
    assert_eq!(slices(&mut objects), [""; 0]);
    objects.retain(|(_, object)| object["metadata"]["name"] != "c");
    assert_eq!(slices(&mut objects), ["=10.0.0.2+s,10.0.0.3:8080"]);
    objects.retain(|(plural, _)| *plural != "pods");
    assert_eq!(slices(&mut objects), ["=:"], "nobody serves");
    assert_eq!(slices(&mut objects), [""; 0]);
    objects.retain(|(plural, _)| *plural != "services");
    assert_eq!(slices(&mut objects), ["-"]);
}

#[test]
fn one_pod_is_one_slice() {
    let mut objects = vec![service(json!({})), node("n1", json!({}))];
    let of = |nth: usize| running(&format!("p{nth:03}"), "n1", &format!("10.0.{}.{}", nth / 200, nth % 200), true);
    objects.extend((0..250).map(of));
    assert_eq!(slices(&mut objects), ["+100:8080", "+100:8080", "+50:8080"]);
    assert_eq!(slices(&mut objects), [""; 0]);
    objects.retain(|(_, object)| object["metadata"]["name"] != "p007");
    assert_eq!(slices(&mut objects), ["=99:8080"]);
    // Where there is room, whatever its name.
    objects.push(of(300));
    assert_eq!(slices(&mut objects), ["=100:8080"]);
    objects.retain(|(_, object)| !object["metadata"]["name"].as_str().unwrap().starts_with("p2"));
    assert_eq!(slices(&mut objects), ["-"]);
    assert_eq!(slices(&mut objects), [""; 0]);
}

#[test]
fn endpoints_made_by_hand_are_mirrored() {
    let subsets = json!([
        {"addresses": [{"ip": "192.0.2.1"}], "notReadyAddresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 5432}]},
        {"addresses": [{"ip": "2001:db8::1"}]},
    ]);
    let mut bare = service(json!({}));
    bare.1["spec"].as_object_mut().unwrap().remove("selector");
    let by_hand = |subsets: &Value, label: &str| {
        ("endpoints", json!({"metadata": {"name": "web", "labels": {label: "true"}}, "subsets": subsets}))
    };
    let mut objects = vec![bare.clone(), by_hand(&subsets, "a")];
    assert_eq!(slices(&mut objects), ["+192.0.2.1+,192.0.2.2:5432", "+2001:db8::1+:"]);
    assert_eq!(slices(&mut objects), [""; 0]);
    // With a selector the other controller's come in their place.
    objects[0] = service(json!({}));
    assert_eq!(slices(&mut objects), ["-", "-", "+:"]);
    let mut objects = vec![bare, by_hand(&subsets, "endpointslice.kubernetes.io/skip-mirror")];
    assert_eq!(slices(&mut objects), [""; 0]);
}

fn of_kind<'a>(objects: &'a mut [(&'static str, Value)], plural: &str) -> Vec<&'a mut Value> {
    objects.iter_mut().filter(|(of, _)| *of == plural).map(|(_, object)| object).collect()
}

/// A service without a selector, and its Endpoints.
fn by_hand(subsets: &Value) -> Vec<(&'static str, Value)> {
    let mut bare = service(json!({}));
    bare.1["spec"].as_object_mut().unwrap().remove("selector");
    let metadata = json!({"name": "web", "uid": "e", "labels": {"a": "1"}, "annotations": {"n": "1"}});
    vec![bare, ("endpoints", json!({"metadata": metadata, "subsets": subsets}))]
}

#[test]
fn a_mirror_shows_its_endpoints_and_nothing_else() {
    let address = |ip: &str| json!({"ip": ip});
    let target = json!({"kind": "Pod", "name": "p", "fieldPath": "x", "resourceVersion": "7", "apiVersion": "v1"});
    let port = |name: &str, port: i32, protocol: &str| json!({"name": name, "port": port, "protocol": protocol});
    let mut objects = by_hand(&json!([
        {"addresses": [{"ip": "192.0.2.1", "hostname": "h", "nodeName": "n", "targetRef": target}],
            "notReadyAddresses": [address("192.0.2.2")], "ports": [port("a", 53, "TCP"), port("b", 53, "UDP")]},
        // Another word about the same port: who is not ready anywhere is not.
        {"addresses": [address("192.0.2.2"), address("192.0.2.3")], "ports": [port("b", 53, "UDP")]},
        {"addresses": [address("192.0.2.9")], "ports": [port("c", 9, "SCTP"), port("d", 10, "TCP")]},
        // The same addresses once more: their ports are together.
        {"addresses": [address("192.0.2.9")], "ports": [port("e", 11, "TCP")]},
        {"addresses": [address("192.0.2.8")]},
    ]));
    let made = slices(&mut objects);
    assert_eq!(
        made,
        ["+192.0.2.8+:", "+192.0.2.2,192.0.2.1+:53", "+192.0.2.2,192.0.2.3+,192.0.2.1+:53", "+192.0.2.9+:9,10,11",]
            .map(str::to_owned)
    );
    assert_eq!(slices(&mut objects), [""; 0]);
    let first = of_kind(&mut objects, "endpointslices").into_iter().find(|slice| slice["ports"][0]["name"] == "a");
    let slice = first.unwrap();
    let spot = slice["endpoints"].as_array().unwrap().iter().find(|spot| spot["hostname"] == "h").unwrap();
    assert_eq!(
        (&spot["targetRef"], &spot["nodeName"], &spot["conditions"]),
        (&target, &json!("n"), &json!({"ready": true}))
    );
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"a": "1", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io"})
    );
    assert_eq!(slice["metadata"]["annotations"], json!({"n": "1"}));
    // What somebody wrote into it goes.
    slice["metadata"]["annotations"]["own"] = "1".into();
    slice["endpoints"][0]["addresses"][0] = "192.0.2.77".into();
    assert_eq!(slices(&mut objects), ["=192.0.2.2,192.0.2.1+:53"]);
    let all = of_kind(&mut objects, "endpointslices");
    let slice = all.into_iter().find(|slice| slice["ports"][0]["name"] == "a").unwrap();
    assert_eq!(slice["metadata"]["annotations"], json!({"n": "1"}));
    assert_eq!(slice["metadata"]["generateName"], Value::Null, "as in Kubernetes");
}

#[test]
fn a_mirror_follows_its_endpoints() {
    let subset = |ip: &str, port: i32| json!([{"addresses": [{"ip": ip}], "ports": [{"port": port}]}]);
    let mut objects = by_hand(&subset("192.0.2.1", 80));
    assert_eq!(slices(&mut objects), ["+192.0.2.1+:80"]);
    of_kind(&mut objects, "endpoints")[0]["metadata"]["annotations"] = json!({"n": "2"});
    assert_eq!(slices(&mut objects), ["=192.0.2.1+:80"], "annotations");
    of_kind(&mut objects, "endpoints")[0]["metadata"]["labels"] = json!({});
    assert_eq!(slices(&mut objects), ["=192.0.2.1+:80"], "labels");
    let trigger = json!({"n": "2", "endpoints.kubernetes.io/last-change-trigger-time": "x",
        "kubectl.kubernetes.io/last-applied-configuration": "y"});
    of_kind(&mut objects, "endpoints")[0]["metadata"]["annotations"] = trigger;
    assert_eq!(slices(&mut objects), [""; 0], "these tell of the Endpoints themselves");
    // Other ports: the slice is used again.
    of_kind(&mut objects, "endpoints")[0]["subsets"] = subset("192.0.2.1", 81);
    assert_eq!(slices(&mut objects), ["=192.0.2.1+:81"]);
    of_kind(&mut objects, "endpoints")[0]["subsets"] = subset("2001:db8::1", 81);
    assert_eq!(slices(&mut objects), ["-", "+2001:db8::1+:81"], "another family");
    // A second owner is nobody's business; Endpoints that are made anew own it.
    let second = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"});
    let slice = &mut of_kind(&mut objects, "endpointslices")[0];
    slice["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second);
    assert_eq!(slices(&mut objects), [""; 0]);
    of_kind(&mut objects, "endpoints")[0]["metadata"]["uid"] = "e2".into();
    assert_eq!(slices(&mut objects), ["=2001:db8::1+:81"]);
    let owners = &of_kind(&mut objects, "endpointslices")[0]["metadata"]["ownerReferences"];
    assert_eq!((owners.as_array().map(Vec::len), &owners[0]["uid"]), (Some(1), &json!("e2")));
    // Somebody deletes it, or makes a second one.
    objects.retain(|(plural, _)| *plural != "endpointslices");
    assert_eq!(slices(&mut objects), ["+2001:db8::1+:81"]);
    let mut copy = of_kind(&mut objects, "endpointslices")[0].clone();
    copy["metadata"]["name"] = "web-zz".into();
    objects.push(("endpointslices", copy));
    assert_eq!(slices(&mut objects), ["-"]);
    // A name may have addresses, too.
    objects[0].1["spec"]["type"] = "ExternalName".into();
    assert_eq!(slices(&mut objects), [""; 0]);
    // Nothing is made any more of Endpoints that are being deleted.
    objects.retain(|(plural, _)| *plural != "endpointslices");
    of_kind(&mut objects, "endpoints")[0]["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
    assert_eq!(slices(&mut objects), [""; 0]);
}

/// Kubernetes mirrors a thousand addresses with the same ports, into one slice, and says how many more there are.
#[test]
fn more_addresses_than_a_mirror_holds() {
    let many = |count: usize| (0..count).map(|n| json!({"ip": format!("10.0.{}.{}", n / 200, n % 200)}));
    let subsets = json!([{"addresses": many(1001).collect::<Value>(),
        "notReadyAddresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 80}]}]);
    let objects = by_hand(&subsets);
    let decision = decide(&cluster(&objects), "endpoints", key("services", "web"), at(MINUTE));
    let told: Vec<String> = decision
        .intents
        .iter()
        .filter_map(|intent| match intent {
            Intent::Announce(tale) => Some(tale.message.to_string()),
            _ => None,
        })
        .collect();
    let words = "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were \
                 skipped";
    assert_eq!(told, [words]);
    assert_eq!(slices(&mut objects.clone()), ["+1000:80"]);
}

#[test]
fn slices_that_somebody_edits_or_deletes() {
    let mut objects =
        vec![service(json!({"metadata": {"uid": "u"}})), node("n1", json!({})), running("a", "n1", "10.0.0.2", true)];
    let whole = "10.0.0.2+s:8080";
    assert_eq!(slices(&mut objects), [format!("+{whole}")]);
    let edit = |objects: &mut Vec<(&'static str, Value)>, change: &dyn Fn(&mut Value)| {
        change(of_kind(objects, "endpointslices")[0]);
        slices(objects)
    };
    let again = [format!("={whole}")];
    assert_eq!(edit(&mut objects, &|slice| slice["endpoints"] = json!([])), again);
    assert_eq!(edit(&mut objects, &|slice| slice["endpoints"][0]["conditions"]["ready"] = false.into()), again);
    assert_eq!(edit(&mut objects, &|slice| slice["ports"][0]["port"] = 1.into()), again);
    assert_eq!(edit(&mut objects, &|slice| slice["metadata"]["labels"]["x"] = "y".into()), again);
    assert_eq!(edit(&mut objects, &|slice| slice["metadata"]["annotations"] = json!({"x": "y"})), [""; 0]);
    // With other ports it is a new one, but for its name.
    assert_eq!(edit(&mut objects, &|slice| slice["ports"][0]["port"] = 1.into()), again);
    assert_eq!(of_kind(&mut objects, "endpointslices")[0]["metadata"].get("annotations"), None);
    // One that is not of this service goes, and one of its own comes.
    let foreign = edit(&mut objects, &|slice| slice["metadata"]["ownerReferences"][0]["uid"] = "other".into());
    assert_eq!(foreign, ["-".to_owned(), format!("+{whole}")]);
    // A second owner is nobody's business.
    let second = edit(&mut objects, &|slice| {
        let owners = slice["metadata"]["ownerReferences"].as_array_mut().unwrap();
        owners.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"}));
    });
    assert_eq!(second, [""; 0]);
    // Deleted, it may wait for somebody: another takes its place.
    let ends = edit(&mut objects, &|slice| slice["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z".into());
    assert_eq!(ends, [format!("+{whole}")]);
    assert_eq!(slices(&mut objects), [""; 0]);
    objects.retain(|(plural, _)| *plural != "endpointslices");
    assert_eq!(slices(&mut objects), [format!("+{whole}")]);
    // Of a service that is being deleted the slices follow the pods; no new ones come.
    merge(&mut objects[0].1, json!({"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}}));
    objects.push(running("b", "n1", "10.0.0.3", true));
    assert_eq!(slices(&mut objects), ["=10.0.0.2+s,10.0.0.3+s:8080"]);
    objects.retain(|(plural, _)| *plural != "endpointslices");
    assert_eq!(slices(&mut objects), [""; 0]);
}

/// A pod that has none of the ports stands in a slice all the same, and in no Endpoints.
#[test]
fn a_pod_without_the_ports() {
    let ports = json!([{"name": "a", "port": 53, "protocol": "UDP", "targetPort": "dns"}]);
    let mut objects = vec![service(json!({"spec": {"ports": ports}})), node("n1", json!({}))];
    objects.push(running("a", "n1", "10.0.0.2", true));
    assert_eq!(slices(&mut objects), ["+10.0.0.2+s:"]);
    assert_eq!(slices(&mut objects), [""; 0]);
}

/// Endpoints end at a thousand and say so; what is not ready gives way first. The slices hold all.
#[test]
fn more_places_than_endpoints_hold() {
    const ANNOTATION: &str = "endpoints.kubernetes.io/over-capacity";
    let mut objects = vec![service(json!({})), node("n1", json!({}))];
    let pod =
        |nth: usize, ready| running(&format!("p{nth:04}"), "n1", &format!("10.0.{}.{}", nth / 200, nth % 200), ready);
    objects.extend((0..1001).map(|nth| pod(nth, nth > 0)));
    let written = |objects: &[(&'static str, Value)]| {
        let decision = decide(&cluster(objects), "endpoints", key("services", "web"), at(MINUTE));
        let endpoints = |object: &Value| object["addressType"].is_null();
        decision.intents.into_iter().find_map(|intent| match intent {
            Intent::Create { object, .. } | Intent::Update { object, .. } if endpoints(&object) => Some(object),
            _ => None,
        })
    };
    let mut cut = written(&objects).expect("endpoints");
    let subset = &cut["subsets"][0];
    assert_eq!(
        (subset["addresses"].as_array().map(Vec::len), &subset["notReadyAddresses"]),
        (Some(1000), &Value::Null)
    );
    assert_eq!(cut["metadata"]["annotations"][ANNOTATION], "truncated");
    let pieces = slices(&mut objects.clone());
    assert_eq!((pieces.iter().filter(|piece| *piece == "+100:8080").count(), pieces.len()), (10, 11));
    cut["metadata"]["name"] = "web".into();
    objects.push(("endpoints", cut));
    assert_eq!(written(&objects), None, "as it should be");
    objects.retain(|(_, object)| object["metadata"]["name"] != "p0001");
    let whole = written(&objects).expect("endpoints");
    assert_eq!(
        (whole["subsets"][0]["notReadyAddresses"].as_array().map(Vec::len), &whole["metadata"]["annotations"]),
        (Some(1), &Value::Null)
    );
}
