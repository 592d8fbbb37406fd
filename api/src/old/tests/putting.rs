//! Tests of PUT: the fields that it replaces, and those that it leaves.

use super::*;

/// What a PUT of `sent` over `stored` changes, as (new, gone).
fn check_put(stored: &Value, sent: Value, new: &[&str], gone: &[&str]) {
    let kind = stored["kind"].as_str().unwrap_or_default();
    let decoded = decode(kind, &sent).unwrap_or_else(|e| panic!("{e}"));
    let (was, is) = (leaves("", stored), leaves("", &merge_put(stored, &decoded)));
    let differ = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect::<Vec<_>>();
    assert_eq!(
        (differ(&is, &was), differ(&was, &is)),
        (new.iter().map(|s| s.to_string()).collect(), gone.iter().map(|s| s.to_string()).collect()),
        "{sent}"
    );
}

/// A document of `rich` and what v1beta1 shows of it.
fn rich(file: &str) -> (Value, Value) {
    let stored = documents("rich").into_iter().find(|(name, _)| name.ends_with(file)).expect("a document of rich").1;
    let shown = encode(&stored);
    (stored, shown)
}

#[test]
fn a_put_replaces_what_v1beta1_can_say() {
    let (stored, shown) = rich("/pod.json");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut sent = shown.clone();
        change(&mut sent);
        sent
    };
    let container = "/desiredState/manifest/containers/0";
    let at = |sent: &mut Value, pointer: &str, value: Value| {
        *sent.pointer_mut(pointer).expect("a field that is shown") = value
    };
    check_put(
        &stored,
        changed(&|sent| at(sent, &format!("{container}/image"), json!("nginx:2"))),
        &[".spec.containers[0].image = \"nginx:2\""],
        &[".spec.containers[0].image = \"nginx:1\""],
    );
    check_put(&stored, changed(&|sent| at(sent, "/labels", json!({}))), &[], &[".metadata.labels.app = \"web\""]);
    check_put(
        &stored,
        changed(&|sent| at(sent, "/resourceVersion", json!(0))),
        &[],
        &[".metadata.resourceVersion = \"42\""],
    );
    // The token, the uid and the address stay; so does all that was observed.
    check_put(
        &stored,
        changed(&|sent| {
            for name in ["uid", "creationTimestamp", "currentState", "creationToken", "namespace", "id", "generateName"]
            {
                sent[name] = Value::Null;
            }
            sent["annotations"] = json!({"a": "b"});
            sent["desiredState"]["host"] = json!("");
        }),
        &[],
        &[],
    );
    check_put(
        &stored,
        changed(&|sent| at(sent, &format!("{container}/env"), json!([{"name": "D"}, {"key": "N", "value": "n"}]))),
        &[
            ".spec.containers[0].env[0].name = \"D\"",
            ".spec.containers[0].env[0].valueFrom.secretKeyRef.key = \"k\"",
            ".spec.containers[0].env[0].valueFrom.secretKeyRef.name = \"s\"",
            ".spec.containers[0].env[1].name = \"N\"",
            ".spec.containers[0].env[1].value = \"n\"",
        ],
        &[
            ".spec.containers[0].env[0].name = \"A\"",
            ".spec.containers[0].env[0].value = \"1\"",
            ".spec.containers[0].env[1].name = \"B\"",
            ".spec.containers[0].env[2].name = \"C\"",
            ".spec.containers[0].env[2].value = \"\"",
            ".spec.containers[0].env[3].name = \"D\"",
            ".spec.containers[0].env[3].valueFrom.secretKeyRef.key = \"k\"",
            ".spec.containers[0].env[3].valueFrom.secretKeyRef.name = \"s\"",
            ".spec.containers[0].env[4].name = \"E\"",
            ".spec.containers[0].env[4].valueFrom.fieldRef.apiVersion = \"v1\"",
            ".spec.containers[0].env[4].valueFrom.fieldRef.fieldPath = \"metadata.name\"",
        ],
    );
    // A volume of a kind that v1beta1 cannot say is replaced by one that it can, and not by the empty directory that
    // clients see in it.
    check_put(
        &stored,
        changed(&|sent| {
            at(sent, "/desiredState/manifest/volumes/3/source", json!({"emptyDir": {"medium": ""}}));
            at(sent, "/desiredState/manifest/volumes/5/source", json!({"hostDir": {"path": "/y"}}));
            at(sent, "/desiredState/manifest/volumes/2/source/hostDir/path", json!("/z"));
        }),
        &[".spec.volumes[2].hostPath.path = \"/z\"", ".spec.volumes[5].hostPath.path = \"/y\""],
        &[".spec.volumes[2].hostPath.path = \"/x\"", ".spec.volumes[5].projected.sources = []"],
    );
    check_put(
        &stored,
        changed(&|sent| at(sent, &format!("{container}/livenessProbe"), Value::Null)),
        &[],
        &[
            ".spec.containers[0].livenessProbe.failureThreshold = 5",
            ".spec.containers[0].livenessProbe.httpGet.httpHeaders[0].name = \"X\"",
            ".spec.containers[0].livenessProbe.httpGet.httpHeaders[0].value = \"y\"",
            ".spec.containers[0].livenessProbe.httpGet.path = \"/\"",
            ".spec.containers[0].livenessProbe.httpGet.port = \"http\"",
            ".spec.containers[0].livenessProbe.httpGet.scheme = \"HTTPS\"",
            ".spec.containers[0].livenessProbe.periodSeconds = 3",
        ],
    );
    // A client of 2015 makes a limit of `cpu` and sends both back: no change. Another amount is one.
    check_put(
        &stored,
        changed(&|sent| {
            at(
                sent,
                "/desiredState/manifest/containers/1/resources",
                json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
            )
        }),
        &[],
        &[],
    );
    check_put(
        &stored,
        changed(&|sent| at(sent, "/desiredState/manifest/containers/1/resources", json!({"limits": {"cpu": "1"}}))),
        &[],
        &[],
    );
    check_put(
        &stored,
        changed(&|sent| {
            at(sent, "/desiredState/manifest/containers/1/cpu", json!(2000));
            at(sent, "/desiredState/manifest/containers/1/resources", json!({}));
        }),
        &[".spec.containers[1].resources.requests.cpu = \"2\""],
        &[".spec.containers[1].resources.requests.cpu = \"1\""],
    );
}

#[test]
fn a_put_of_a_service_leaves_the_ports_that_old_clients_do_not_know() {
    let (stored, shown) = rich("/service.json");
    // What kubectl 0.10 reads and sends back.
    let mut old = shown.clone();
    for name in ["ports", "portName", "type"] {
        old.as_object_mut().expect("an object").remove(name);
    }
    check_put(&stored, old.clone(), &[], &[]);
    old["port"] = json!(8080);
    check_put(&stored, old.clone(), &[".spec.ports[0].port = 8080"], &[".spec.ports[0].port = 80"]);
    // And kubecfg 0.4, which knows of no address either.
    for name in ["portalIP", "sessionAffinity", "publicIPs"] {
        old.as_object_mut().expect("an object").remove(name);
    }
    check_put(
        &stored,
        old,
        &[".spec.ports[0].port = 8080"],
        &[".spec.externalIPs[0] = \"1.2.3.4\"", ".spec.ports[0].port = 80", ".spec.sessionAffinity = \"ClientIP\""],
    );
    let mut fewer = shown;
    fewer["ports"].as_array_mut().expect("a list").remove(1);
    fewer["createExternalLoadBalancer"] = json!(true);
    fewer["type"] = Value::Null;
    check_put(
        &stored,
        fewer,
        &[".spec.type = \"LoadBalancer\""],
        &[
            ".spec.ports[1].name = \"s\"",
            ".spec.ports[1].port = 443",
            ".spec.ports[1].protocol = \"TCP\"",
            ".spec.type = \"NodePort\"",
        ],
    );
}
