//! Tests of reading: variants that are accepted, and values that are refused by name.

use super::*;

/// The part of a container that a v1beta1 container becomes.
fn container(v1beta1: Value) -> Value {
    let pod = json!({"id": "p", "desiredState": {"manifest": {"containers": [v1beta1]}}});
    decoded(&pod).object["spec"]["containers"][0].clone()
}

#[test]
fn containers_are_read_liberally() {
    let table = [
        (json!({"command": "sleep 1"}), json!({"args": ["sleep 1"]})),
        (json!({"command": ["sleep", 1, true]}), json!({"args": ["sleep", "1", "true"]})),
        (json!({"entrypoint": ["a"], "command": []}), json!({"command": ["a"]})),
        (
            json!({
                "env": [{"name": "A", "value": 1}, {"key": "B", "value": true}, {"name": "", "key": "C", "value": 1.5}],
            }),
            json!({
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "true"}, {"name": "C", "value": "1.5"}],
            }),
        ),
        (
            json!({"volumeMounts": [{"name": "v", "path": "/a", "mountType": "HOST"}]}),
            json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}),
        ),
        (
            json!({"ports": [{"containerPort": 80, "hostPort": 0, "protocol": "tcp", "hostIP": ""}]}),
            json!({"ports": [{"containerPort": 80, "protocol": "TCP"}]}),
        ),
        (json!({"image": "x"}), json!({"image": "x", "imagePullPolicy": "IfNotPresent"})),
        (json!({"image": "x:latest"}), json!({"image": "x:latest", "imagePullPolicy": "Always"})),
        (
            json!({"image": "h:5000/latest", "imagePullPolicy": ""}),
            json!({"image": "h:5000/latest", "imagePullPolicy": "IfNotPresent"}),
        ),
        (json!({"imagePullPolicy": "PullNever"}), json!({"imagePullPolicy": "Never"})),
        (json!({"imagePullPolicy": "Always"}), json!({"imagePullPolicy": "Always"})),
        (json!({"imagePullPolicy": "pullAlways"}), json!({"imagePullPolicy": "Always"})),
        (json!({"imagePullPolicy": "Bogus"}), json!({"imagePullPolicy": "Bogus"})),
        (json!({"cpu": 100}), json!({"resources": {"requests": {"cpu": "100m"}}})),
        (
            json!({"cpu": 2000, "memory": 64}),
            json!({"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "64"}}}),
        ),
        (json!({"cpu": 0, "memory": 0, "resources": {}}), json!({})),
        (
            json!({"resources": {"limits": {"cpu": 0.5, "memory": "64Mi"}}}),
            json!({"resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}}),
        ),
        (
            json!({"cpu": 500, "resources": {"limits": {"cpu": "500m"}}}),
            json!({"resources": {"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}}}),
        ),
        (
            json!({"cpu": 500, "resources": {"limits": {"cpu": "0.5"}, "requests": {"cpu": "0.1"}}}),
            json!({"resources": {"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}}),
        ),
        (json!({"privileged": true}), json!({"securityContext": {"privileged": true}})),
        (json!({"capabilities": {}, "livenessProbe": null}), json!({})),
        (
            json!({"livenessProbe": {"type": "http", "httpGet": {"port": "8080"}}}),
            json!({"livenessProbe": {"httpGet": {"port": 8080}}}),
        ),
        (
            json!({"livenessProbe": {"tcpSocket": {"port": "web"}}}),
            json!({"livenessProbe": {"tcpSocket": {"port": "web"}}}),
        ),
    ];
    for (sent, expected) in table {
        assert_eq!(container(sent.clone()), expected, "{sent}");
    }
}

#[test]
fn documents_are_read_liberally() {
    let table = [
        ("Pod", json!({}), json!({})),
        (
            "Pod",
            json!({"id": 7, "labels": {"a": 1, "b": null}}),
            json!({"metadata": {"name": "7", "labels": {"a": "1", "b": ""}}}),
        ),
        (
            "Pod",
            json!({"resourceVersion": "12", "uid": "", "selfLink": "x", "creationTimestamp": null}),
            json!({"metadata": {"resourceVersion": "12"}}),
        ),
        ("Pod", json!({"resourceVersion": 0}), json!({})),
        ("Pod", json!({"creationToken": "t"}), json!({"metadata": {"annotations": {CREATION_TOKEN: "t"}}})),
        (
            "Pod",
            json!({"desiredState": {"restartpolicy": {"type": "RestartNever"}}}),
            json!({"spec": {"restartPolicy": "Never"}}),
        ),
        (
            "Pod",
            json!({
                "desiredState": {
                    "manifest": {"restartPolicy": {}, "volumes": [{"name": "v"}, {"name": "w", "source": {}}]},
                },
            }),
            json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]}}),
        ),
        // What a client observed is never a reason to refuse.
        (
            "Pod",
            json!({"currentState": {"info": {"c": "docker"}, "status": ["x"], "podIP": "1.1.1.1", "host": "n"}}),
            json!({"status": {"podIP": "1.1.1.1"}}),
        ),
        ("ReplicationController", json!({}), json!({"spec": {"replicas": 0}})),
        ("Service", json!({"port": 80}), json!({"spec": {"ports": [{"port": 80}]}})),
        (
            "Service",
            json!({"port": 80, "protocol": "udp", "containerPort": "53"}),
            json!({"spec": {"ports": [{"port": 80, "protocol": "UDP", "targetPort": 53}]}}),
        ),
        (
            "Service",
            json!({"port": 80, "containerPort": 0, "createExternalLoadBalancer": true}),
            json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
        ),
        (
            "Service",
            json!({"createExternalLoadBalancer": false, "publicIPs": "1.2.3.4", "proxyPort": 5}),
            json!({"spec": {"externalIPs": ["1.2.3.4"]}}),
        ),
        (
            "Endpoints",
            json!({"endpoints": ["1.1.1.1:80", "1.1.1.2:81", "1.1.1.3:80"]}),
            json!({"subsets": [
            {"addresses": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.3"}], "ports": [{"port": 80, "protocol": "TCP"}]},
            {"addresses": [{"ip": "1.1.1.2"}], "ports": [{"port": 81, "protocol": "TCP"}]}]}),
        ),
        (
            "Node",
            json!({
                "kind": "Node", "id": "n", "hostIP": "1.1.1.1", "externalID": "n",
                "resources": {"capacity": {"cpu": 2, "memory": 1048576}},
            }),
            json!({
                "metadata": {"name": "n"},
                "status": {
                    "addresses": [{"type": "InternalIP", "address": "1.1.1.1"}],
                    "capacity": {"cpu": "2", "memory": "1048576"},
                },
            }),
        ),
        (
            "Event",
            json!({"timestamp": "2015-01-01T00:00:00Z", "source": "me", "host": "h"}),
            json!({
                "source": {"component": "me", "host": "h"}, "firstTimestamp": "2015-01-01T00:00:00Z",
                "lastTimestamp": "2015-01-01T00:00:00Z", "count": 1,
            }),
        ),
        (
            "Binding",
            json!({"podID": "p", "host": "n"}),
            json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
        ),
    ];
    for (kind, sent, mut expected) in table {
        let row = row(kind).expect("a kind of ours");
        for (name, value) in [("apiVersion", json!("v1")), ("kind", json!(row.v1))] {
            expected[name] = value;
        }
        if expected.get("metadata").is_none() {
            expected["metadata"] = json!({});
        }
        assert_eq!(decode(kind, &sent).expect(kind).object, expected, "{sent}");
    }
}

/// All that is wrong with a document, or what was dropped from it.
fn check_read(kind: &str, document: Value, expected: &[&str]) {
    let found: Vec<String> = match decode(kind, &document) {
        Ok(decoded) => decoded.unknown.iter().map(|path| format!("{path} is dropped")).collect(),
        Err(DecodeError::Malformed(problems)) => problems.iter().map(Problem::to_string).collect(),
        Err(other) => vec![other.to_string()],
    };
    assert_eq!(found, expected, "{document}");
}

#[test]
fn what_is_malformed_is_named_all_at_once() {
    let in_container = |container: Value| json!({"desiredState": {"manifest": {"containers": [container]}}});
    check_read("Pod", json!([]), &["the body must be a JSON object"]);
    check_read("Pod", json!({"kind": "Service"}), &["Service in version v1beta1 cannot be handled as a Pod"]);
    check_read("Node", json!({"kind": "Pod"}), &["Pod in version v1beta1 cannot be handled as a Minion"]);
    check_read("Pod", json!({"apiVersion": "v1"}), &["apiVersion \"v1\" is not known here: write v1beta1"]);
    check_read("Pod", json!({"apiVersion": "v1beta2", "currentState": {"bogus": 1}}), &[]);
    check_read(
        "Pod",
        json!({"spec": {}, "desiredState": {"manifest": {"x": 1}}}),
        &["desiredState.manifest.x is dropped", "spec is dropped"],
    );
    check_read(
        "Pod",
        json!({
            "id": ["a"], "labels": {"a": {}},
            "desiredState": {"manifest": {"containers": {"name": "x"}, "volumes": ["v"], "hostNetwork": "yes"}},
        }),
        &[
            "id: Invalid value: \"a list\": must be a string",
            "labels[a]: Invalid value: \"a map\": must be a string",
            "desiredState.manifest.volumes[0]: Invalid value: \"v\": must be a map",
            "desiredState.manifest.containers: Invalid value: \"a map\": must be a list",
            "desiredState.manifest.hostNetwork: Invalid value: \"yes\": must be true or false",
        ],
    );
    check_read(
        "Pod",
        json!({"desiredState": [], "resourceVersion": "x"}),
        &[
            "resourceVersion: Invalid value: \"x\": must be a whole number as a read showed it",
            "desiredState: Invalid value: \"a list\": must be a map",
        ],
    );
    check_read(
        "Pod",
        in_container(json!({
            "name": {}, "ports": [{"containerPort": "80"}], "cpu": 0.5, "livenessProbe": {"httpGet": {"port": []}},
            "imagePullPolicy": [],
        })),
        &[
            "desiredState.manifest.containers[0].name: Invalid value: \"a map\": must be a string",
            "desiredState.manifest.containers[0].ports[0].containerPort: Invalid value: \"80\": must be a whole number",
            "desiredState.manifest.containers[0].cpu: Invalid value: 0.5: must be a whole number",
            "desiredState.manifest.containers[0].livenessProbe.httpGet.port: Invalid value: \"a list\": must be a port \
             number or the name of a port",
            "desiredState.manifest.containers[0].imagePullPolicy: Invalid value: \"a list\": must be a string",
        ],
    );
    check_read(
        "Pod",
        in_container(json!({
            "memory": 5, "cpu": 5, "resources": {"limits": {"memory": 6, "cpu": 6}}, "privileged": true,
            "securityContext": {"privileged": false}, "env": [{"name": "A", "key": "B"}],
        })),
        &[
            "desiredState.manifest.containers[0].env[0].key: Invalid value: \"B\": differs from name: both are the \
             same field, give one",
            "desiredState.manifest.containers[0].cpu: Invalid value: 5: differs from cpu in resources: give one, or \
             the same",
            "desiredState.manifest.containers[0].memory: Invalid value: 5: differs from resources.limits.memory: give \
             one, or the same",
            "desiredState.manifest.containers[0].privileged: Invalid value: true: differs from \
             securityContext.privileged: give one, or the same",
        ],
    );
    let manifest = |manifest: Value| json!({"desiredState": {"manifest": manifest}});
    check_read(
        "Pod",
        manifest(json!({"restartPolicy": "always"})),
        &["desiredState.manifest.restartPolicy: Invalid value: \"always\": must be a map: write {always: {}}"],
    );
    check_read(
        "Pod",
        manifest(json!({"restartPolicy": {"always": {}, "never": {}}})),
        &["desiredState.manifest.restartPolicy: Invalid value: \"a map\": must have exactly one of always, \
             onFailure, never"],
    );
    check_read(
        "Pod",
        manifest(json!({"restartPolicy": {"sometimes": {}}})),
        &["desiredState.manifest.restartPolicy.sometimes: Unsupported value: must be one of always, onFailure, never"],
    );
    check_read(
        "Pod",
        manifest(json!({
            "volumes": [
                {"name": "a", "source": {"emptyDir": {}, "hostDir": {"path": "/x"}}},
                {"name": "b", "hostPath": {"path": "/x"}}, {"name": "c", "source": {"configMap": {}}},
            ],
        })),
        &[
            "desiredState.manifest.volumes[0].source: Invalid value: [\"emptyDir\",\"hostPath\"]: must have exactly \
             one source",
            "desiredState.manifest.volumes[1].hostPath: Forbidden: a volume of v1beta1 has it one level deeper: write \
             source: {hostPath: ...}",
            "desiredState.manifest.volumes[2].source: Unsupported value: must have one of emptyDir, hostDir, \
             persistentDisk, awsElasticBlockStore, gitRepo, secret, nfs, iscsi, glusterfs, persistentVolumeClaim, rbd",
        ],
    );
    check_read(
        "Service",
        json!({"port": 81, "ports": [{"port": 80}], "createExternalLoadBalancer": true, "type": "NodePort"}),
        &[
            "port: Invalid value: 81: differs from ports[0]: change both, or leave port out",
            "createExternalLoadBalancer: Invalid value: true: differs from type: createExternalLoadBalancer means type \
             LoadBalancer, give one",
        ],
    );
    check_read(
        "Endpoints",
        json!({"endpoints": ["1.1.1.1"]}),
        &["endpoints[0]: Invalid value: \"1.1.1.1\": must be ADDRESS:PORT, such as 10.0.0.1:80"],
    );
    check_read(
        "Endpoints",
        json!({"endpoints": ["1.1.1.1:80"], "subsets": [{"addresses": [{"IP": "1.1.1.2"}], "ports": [{"port": 80}]}]}),
        &["endpoints: Invalid value: \"a list\": differs from subsets: change both, or leave one out"],
    );
    check_read(
        "Pod",
        json!({"creationToken": "a", "annotations": {CREATION_TOKEN: "b"}}),
        &["creationToken: Invalid value: \"a\": differs from annotations[coracle.dev/creation-token]: give one"],
    );
    check_read(
        "Minion",
        json!({"resources": {"capacity": {"cpu": "many"}}}),
        &["resources.capacity[cpu]: Invalid value: \"many\": must be a number of cores, or a quantity such as 250m"],
    );
}
