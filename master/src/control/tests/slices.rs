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
