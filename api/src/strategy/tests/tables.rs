//! Documents of many kinds that are nearly right, and what is wrong with them; and what is unusual, and right.

use super::recorded::made;
use crate::kinds::Kinds;
use coracle_schema::Problem;
use serde_json::{Value, json};

/// `of`: version and kind. The beginnings of all problems, in order.
fn check(of: &str, mut object: Value, expected: &[&str]) {
    let kinds = Kinds::builtin();
    let (version, name) = of.rsplit_once(' ').expect("a version and a kind");
    let kind = kinds.by_kind(version, name).unwrap_or_else(|| panic!("{of} is no kind"));
    if object["metadata"].is_null() {
        object["metadata"] = json!({"name": "a"});
    }
    let namespace = if kind.namespaced { "ns" } else { "" };
    let (_, found) = made(kind, namespace, object.clone()).unwrap_or_else(|why| panic!("{of} {object}: {why}"));
    let found: Vec<String> = found.iter().map(Problem::to_string).collect();
    let alike =
        found.len() == expected.len() && found.iter().zip(expected).all(|(found, start)| found.starts_with(start));
    assert!(alike, "{of} {object}:\n{found:#?}");
}

fn pod(spec: Value, expected: &[&str]) {
    let mut whole = json!({"containers": [{"name": "c", "image": "i:1"}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    check("v1 Pod", json!({"spec": whole}), expected);
}

fn container(more: Value, expected: &[&str]) {
    let mut whole = json!({"name": "c", "image": "i:1"});
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    pod(json!({"containers": [whole]}), expected);
}

#[test]
fn pods() {
    let container = json!({"name": "c", "image": "i:1"});
    pod(
        json!({"ephemeralContainers": [container]}),
        &[
            "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
        ],
    );
    let words = "may not be set for init containers without restartPolicy=Always";
    let init = json!({"name": "i", "image": "i:1", "readinessProbe": {"exec": {"command": ["a"]}}});
    pod(json!({"initContainers": [init]}), &[&format!("spec.initContainers[0].readinessProbe: Forbidden: {words}")]);
    let mut beside = init;
    beside["restartPolicy"] = "Always".into();
    pod(json!({"initContainers": [beside]}), &[]);
    let port = |name: &str| json!({"name": name, "image": "i:1", "ports": [{"containerPort": 1, "hostPort": 1}]});
    pod(json!({"initContainers": [port("x"), port("y")]}), &[]);
    pod(
        json!({"containers": [port("x"), port("y")]}),
        &["spec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//1\""],
    );
    let spread = |more: Value| {
        let mut one =
            json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}});
        one.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        one
    };
    let place = "spec.topologySpreadConstraints[0]";
    pod(
        json!({"topologySpreadConstraints": [spread(json!({"nodeTaintsPolicy": "Honor", "matchLabelKeys": ["app"]}))]}),
        &[],
    );
    pod(
        json!({"topologySpreadConstraints": [spread(json!({"minDomains": 2, "nodeAffinityPolicy": "Mind"}))]}),
        &[
            &format!(
                "{place}.minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not \
                 ScheduleAnyway"
            ),
            &format!(
                "{place}.nodeAffinityPolicy: Unsupported value: \"Mind\": supported values: \"Honor\", \"Ignore\""
            ),
        ],
    );
    pod(
        json!({"topologySpreadConstraints": [spread(json!({})), spread(json!({}))]}),
        &[&format!("{place}.{{topologyKey, whenUnsatisfiable}}: Duplicate value: \"{{zone, ScheduleAnyway}}\"")],
    );
    pod(
        json!({"topologySpreadConstraints": [spread(json!({"labelSelector": null, "matchLabelKeys": ["a"]}))]}),
        &[&format!("{place}.matchLabelKeys: Forbidden: must not be specified when labelSelector is not set")],
    );
    let fields = |rule: Value| {
        let terms = json!({"nodeSelectorTerms": [{"matchFields": [rule]}]});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}})
    };
    let place =
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0]";
    pod(fields(json!({"key": "metadata.name", "operator": "In", "values": ["n"]})), &[]);
    pod(
        fields(json!({"key": "spec.x", "operator": "Exists"})),
        &[
            &format!("{place}.operator: Invalid value: \"Exists\": not a valid selector operator"),
            &format!("{place}.key: Invalid value: \"spec.x\": not a valid field selector key"),
        ],
    );
    pod(
        json!({"overhead": {"cpu": "1", "gpu": "1"}}),
        &[
            "spec.overhead.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
            "spec.overhead.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for containers",
        ],
    );
    pod(
        json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2", "a.b/c": "1"}}}),
        &[
            "spec.resources.requests[a.b/c]: Unsupported value: \"a.b/c\": supported values: \"cpu\", \"hugepages-\", \
             \"memory\"",
            "spec.resources.limits: Required value: Limit must be set for non overcommitable resources",
            "spec.resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
        ],
    );
    let own = |limits: Value, requests: Value| {
        json!({
            "name": "c", "image": "i", "resources": {"limits": limits, "requests": requests},
        })
    };
    let two = json!([
        own(json!({"cpu": "2"}), json!({"cpu": "800m"})),
        {"name": "d", "image": "i", "resources": {"requests": {"cpu": "400m", "memory": "1Gi"}}},
    ]);
    pod(json!({"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1200m"}}, "containers": two}), &[]);
    pod(
        json!({
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}, "claims": [{"name": "x"}]},
            "containers": two,
        }),
        &[
            "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
            "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container \
             requests of 1200m",
            "spec.resources.containers[0][cpu].limits: Invalid value: \"2\": must be less than or equal to pod limits \
             of 1",
        ],
    );
    let pages = |pages: &str| json!({"cpu": "1", "hugepages-2Mi": pages});
    pod(
        json!({
            "resources": {"limits": pages("2Mi"), "requests": pages("2Mi")},
            "containers": [own(pages("4Mi"), pages("4Mi"))],
        }),
        &[
            "spec.resources.requests[hugepages-2Mi]: Invalid value: \"2Mi\": must be greater than or equal to \
             aggregate container requests of 4Mi",
            "spec.resources.limits[hugepages-2Mi]: Invalid value: \"2Mi\": must be greater than or equal to aggregate \
             container limits of 4Mi",
            "spec.resources.containers[0][hugepages-2Mi].limits: Invalid value: \"4Mi\": must be less than or equal to \
             pod limits of 2Mi",
        ],
    );
    pod(
        json!({"os": {"name": "windows"}, "resources": {"limits": {"foo": "1"}}}),
        &["spec.resources: Forbidden: may not be set for a windows pod"],
    );
    pod(
        json!({"runtimeClassName": "A", "hostnameOverride": "x".repeat(65)}),
        &["spec.runtimeClassName: Invalid value: \"A\"", "spec.hostnameOverride: Invalid value: \"xxx"],
    );
    pod(json!({"hostnameOverride": "a.b", "setHostnameAsFQDN": false, "hostNetwork": false}), &[]);
    pod(
        json!({"hostnameOverride": "a.b", "setHostnameAsFQDN": true, "hostNetwork": true}),
        &[
            "spec.hostnameOverride: Forbidden: may not be set when `setHostnameAsFQDN` is true",
            "spec.hostnameOverride: Forbidden: may not be set when `hostNetwork` is true",
        ],
    );
    let init = |restarts: &str, resize: &str| {
        let resize = json!([{"resourceName": "cpu", "restartPolicy": resize}]);
        json!({"initContainers": [{"name": "i", "image": "i", "restartPolicy": restarts, "resizePolicy": resize,
            "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}]})
    };
    pod(init("Always", "RestartContainer"), &[]);
    pod(init("OnFailure", "NotRequired"), &[]);
    pod(
        init("OnFailure", "RestartContainer"),
        &["spec.initContainers[0].resizePolicy: Invalid value: \"RestartContainer\""],
    );
}

#[test]
fn containers() {
    container(
        json!({
            "resources": {"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi"}, "requests": {"hugepages-2Mi": "4Mi"}},
        }),
        &[],
    );
    container(
        json!({"resources": {"limits": {"hugepages-2Mi": "3Mi"}}}),
        &[
            "spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer \
             multiple of hugepages-2Mi",
            "spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer \
             multiple of",
            "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
        ],
    );
    container(
        json!({"lifecycle": {"stopSignal": "SIGTERM"}}),
        &["spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty \
           `spec.os.name`"],
    );
    let rule = json!({"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}});
    container(json!({"restartPolicy": "Never", "restartPolicyRules": [rule]}), &[]);
    let codes = |count: usize| {
        json!([
            {"action": "Restart", "exitCodes": {"operator": "In", "values": (1..=count).collect::<Vec<_>>()}},
        ])
    };
    container(json!({"restartPolicy": "Never", "restartPolicyRules": codes(255)}), &[]);
    container(
        json!({"restartPolicy": "Never", "restartPolicyRules": codes(256)}),
        &["spec.containers[0].restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items"],
    );
    container(
        json!({"restartPolicyRules": [{"action": "Stop"}]}),
        &[
            "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used",
            "spec.containers[0].restartPolicyRules[0].action: Unsupported value: \"Stop\"",
            "spec.containers[0].restartPolicyRules[0].exitCodes: Required value",
        ],
    );
    container(
        json!({"resources": {"claims": [{"name": "x"}]}}),
        &["spec.containers[0].resources.claims[0]: Not found: \"x\": must be one of the names in \
           pod.spec.resourceClaims which is empty"],
    );
    container(
        json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}),
        &["spec.containers[0].volumeMounts[0].name: Not found: \"v\""],
    );
}

#[test]
fn what_others_name() {
    check("v1 ResourceQuota", json!({"spec": {"hard": {"pods": "1", "count/jobs.batch": "2", "a.b/gpu": "1"}}}), &[]);
    check(
        "v1 ResourceQuota",
        json!({"spec": {"hard": {"foo": "1", "a.b/gpu": "500m"}}}),
        &[
            "spec.hard[a.b/gpu]: Invalid value: \"500m\": must be an integer",
            "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
            "spec.hard[foo]: Invalid value: \"foo\": must be a standard resource for quota",
        ],
    );
    check("v1 LimitRange", json!({"metadata": {}, "spec": {"limits": []}}), &[]);
    check(
        "v1 LimitRange",
        json!({"spec": {"limits": [{"type": "Pod", "max": {"pods": "1"}}]}}),
        &["spec.limits[0].max[pods]: Invalid value: \"pods\": must be a standard resource for containers"],
    );
    check(
        "node.k8s.io/v1 RuntimeClass",
        json!({"handler": "h", "overhead": {"podFixed": {"cpu": "1"}}, "scheduling": {"nodeSelector": {"a": "b"}}}),
        &[],
    );
    check(
        "node.k8s.io/v1 RuntimeClass",
        json!({"handler": "h", "overhead": {"podFixed": {"gpu": "-1"}},
        "scheduling": {"nodeSelector": {"a b": ""},
            "tolerations": [{"key": "a"}, {"key": "a"}, {"operator": "Exists", "value": "v"}]}}),
        &[
            "overhead.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type",
            "overhead.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for",
            "overhead.limits[gpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "scheduling.nodeSelector: Invalid value: \"a b\"",
            "scheduling.tolerations[2].operator: Invalid value: \"v\": value must be empty",
            "scheduling.tolerations[1]: Duplicate value: \
             {\"Key\":\"a\",\"Operator\":\"\",\"Value\":\"\",\"Effect\":\"\",\"TolerationSeconds\":null}",
        ],
    );
    check(
        "scheduling.k8s.io/v1 PriorityClass",
        json!({"metadata": {"name": "system-node-critical"}, "value": 5}),
        &["metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. \
           error: value of system-node-critical PriorityClass must be 2000001000"],
    );
    check(
        "v1 Node",
        json!({
            "status": {
                "capacity": {"memory": "-5"},
                "addresses": [{"type": "Hostname", "address": "n"}, {"type": "Hostname", "address": "n"}],
            },
        }),
        &[
            "status.capacity.memory: Invalid value: \"-5\": must be greater than or equal to 0",
            "status.allocatable.memory: Invalid value: \"-5\": must be greater than or equal to 0",
        ],
    );
    check(
        "v1 Namespace",
        json!({"spec": {"finalizers": ["x"]}}),
        &["spec.finalizers: Invalid value: \"x\": name is neither a standard finalizer name nor is it fully qualified"],
    );
    check("v1 ConfigMap", json!({"metadata": {"name": "a", "finalizers": ["kubernetes", "orphan"]}}), &[]);
}

#[test]
fn what_is_reached() {
    check(
        "v1 Service",
        json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 10250}]}}),
        &["spec.ports[0]: Invalid value: 10250: may not expose port 10250 externally since it is used by kubelet"],
    );
    let backend = |backend: Value| json!({"spec": {"defaultBackend": backend}});
    check(
        "networking.k8s.io/v1 Ingress",
        backend(json!({"resource": {"apiGroup": "a.b", "kind": "Bucket", "name": "x"}})),
        &[],
    );
    check(
        "networking.k8s.io/v1 Ingress",
        backend(json!({"resource": {"apiGroup": "A", "kind": "", "name": "x/y"}})),
        &[
            "spec.defaultBackend.resource.apiGroup: Invalid value: \"A\"",
            "spec.defaultBackend.resource.kind: Required value",
            "spec.defaultBackend.resource.name: Invalid value: \"x/y\": may not contain '/'",
        ],
    );
    let class =
        |controller: &str, parameters: Value| json!({"spec": {"controller": controller, "parameters": parameters}});
    check(
        "networking.k8s.io/v1 IngressClass",
        class(&format!("a.b/{}", "x".repeat(250)), Value::Null),
        &["spec.controller: Too long"],
    );
    check(
        "networking.k8s.io/v1 IngressClass",
        class("a.b/c", json!({"kind": "K", "name": "n", "scope": "Namespace", "namespace": "A"})),
        &["spec.parameters.namespace: Invalid value: \"A\""],
    );
    let port = json!({"port": 80, "appProtocol": "a b"});
    check(
        "v1 Endpoints",
        json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [port]}]}),
        &["subsets[0].ports[0].appProtocol: Invalid value: \"a b\""],
    );
    check(
        "v1 Endpoints",
        json!({"subsets": [{"addresses": [{"ip": "010.0.0.1"}, {"ip": "::ffff:10.0.0.1"}]}]}),
        &[
            "subsets[0].addresses[0].ip: Invalid value: \"010.0.0.1\": must not have leading 0s",
            "subsets[0].addresses[1].ip: Invalid value: \"::ffff:10.0.0.1\"",
        ],
    );
    let csi = json!({"driver": "A_b", "volumeHandle": "h", "nodePublishSecretRef": {"name": "s"}});
    check(
        "v1 PersistentVolume",
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": csi}}),
        &["spec.csi.driver: Invalid value: \"A_b\"", "spec.csi.nodePublishSecretRef.namespace: Required value"],
    );
    let subject = |subject: Value| {
        json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [subject],
        })
    };
    let nobody = json!({"kind": "ServiceAccount", "name": "s"});
    // In a namespace an account without one is one of that namespace.
    check("rbac.authorization.k8s.io/v1 RoleBinding", subject(nobody.clone()), &[]);
    check(
        "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
        subject(nobody),
        &["subjects[0].namespace: Required value"],
    );
}

#[test]
fn what_is_any_text() {
    let spread = |key: &str| {
        json!({
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}],
        })
    };
    pod(spread("a/b/c"), &[]);
    pod(spread("-1"), &[]);
    pod(spread(""), &["spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty"]);
}

#[test]
fn where_volumes_are() {
    let term = |key: &str, values: &[&str]| json!({"matchLabelExpressions": [{"key": key, "values": values}]});
    let class = |terms: &[Value]| json!({"provisioner": "p", "allowedTopologies": terms});
    check("storage.k8s.io/v1 StorageClass", class(&[term("z", &["a"]), term("z", &["b"])]), &[]);
    let twice = &["allowedTopologies[1].matchLabelExpressions: Duplicate value: \"\""];
    check("storage.k8s.io/v1 StorageClass", class(&[term("z", &["a", "b"]), term("z", &["b", "a"])]), twice);
    let attachment = |attacher: &str, node: &str, volume: &str| {
        json!({
            "spec": {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}},
        })
    };
    check("storage.k8s.io/v1 VolumeAttachment", attachment("CSI.example.com", "n", "v"), &[]);
    let all = ["attacher", "nodeName", "source.persistentVolumeName"]
        .map(|field| format!("spec.{field}: Invalid value: \"A_B!\""));
    check(
        "storage.k8s.io/v1 VolumeAttachment",
        attachment("A_B!", "A_B!", "A_B!"),
        &all.each_ref().map(String::as_str),
    );
    check(
        "storage.k8s.io/v1 VolumeAttachment",
        attachment("", "", ""),
        &[
            "spec.attacher: Required value",
            "spec.source.persistentVolumeName: Required value: must specify non empty persistentVolumeName",
            "spec.nodeName: Invalid value: \"\"",
            "spec.source.persistentVolumeName: Invalid value: \"\"",
        ],
    );
}

/// A pointer to an empty text says something: a value that a chart left empty, mostly.
#[test]
fn what_is_said_empty() {
    let refused =
        |of: &str, object: Value, place: &str, words: &str| check(of, object, &[&format!("{place}: {words}")]);
    let unsupported = "Unsupported value: \"\": supported values: ";
    let (capacity, modes, class) =
        (json!({"storage": "1Gi"}), json!(["ReadWriteOnce"]), "storage.k8s.io/v1 StorageClass");
    let volume = json!({"capacity": capacity, "accessModes": modes, "hostPath": {"path": "/a"}, "volumeMode": ""});
    refused("v1 PersistentVolume", json!({"spec": volume}), "spec.volumeMode", unsupported);
    let claim = json!({"resources": {"requests": capacity}, "accessModes": modes, "volumeMode": ""});
    refused("v1 PersistentVolumeClaim", json!({"spec": claim}), "spec.volumeMode", unsupported);
    refused(class, json!({"provisioner": "p", "volumeBindingMode": ""}), "volumeBindingMode", unsupported);
    refused(
        "scheduling.k8s.io/v1 PriorityClass",
        json!({"value": 1, "preemptionPolicy": ""}),
        "preemptionPolicy",
        "Required value",
    );
    let driver =
        json!({"attachRequired": true, "podInfoOnMount": false, "storageCapacity": false, "fsGroupPolicy": ""});
    refused("storage.k8s.io/v1 CSIDriver", json!({"spec": driver}), "spec.fsGroupPolicy", unsupported);
    let policy = json!({"podSelector": {}, "ingress": [{"ports": [{"protocol": ""}]}]});
    refused(
        "networking.k8s.io/v1 NetworkPolicy",
        json!({"spec": policy}),
        "spec.ingress[0].ports[0].protocol",
        unsupported,
    );
    let mount = json!({"name": "v", "mountPath": "/a", "mountPropagation": ""});
    let pod = json!({"containers": [{"name": "c", "image": "i", "volumeMounts": [mount]}], "volumes": [{"name": "v"}]});
    refused("v1 Pod", json!({"spec": pod}), "spec.containers[0].volumeMounts[0].mountPropagation", unsupported);
    let pod = json!({"containers": [{"name": "c", "image": "i"}], "securityContext": {"fsGroupChangePolicy": ""}});
    refused("v1 Pod", json!({"spec": pod}), "spec.securityContext.fsGroupChangePolicy", unsupported);
    let name =
        ["name part must be non-empty", "name part must consist"].map(|words| format!("Invalid value: \"\": {words}"));
    let port = ["spec.ports[0].appProtocol: ", "subsets[0].ports[0].appProtocol: "]
        .map(|place| name.each_ref().map(|words| place.to_owned() + words));
    let service = json!({"spec": {"ports": [{"port": 80, "appProtocol": ""}]}});
    check("v1 Service", service, &port[0].each_ref().map(String::as_str));
    let subset = |address: Value, port: Value| json!({"subsets": [{"addresses": [address], "ports": [port]}]});
    let endpoints = subset(json!({"ip": "10.0.0.1"}), json!({"port": 80, "appProtocol": ""}));
    check("v1 Endpoints", endpoints, &port[1].each_ref().map(String::as_str));
    let endpoints = subset(json!({"ip": "10.0.0.1", "nodeName": ""}), json!({"port": 80}));
    check("v1 Endpoints", endpoints, &["subsets[0].addresses[0].nodeName: Invalid value: \"\""]);
    let path = json!({"path": "/", "pathType": "", "backend": {"service": {"name": "s", "port": {"number": 80}}}});
    let ingress = json!({"spec": {"rules": [{"http": {"paths": [path]}}]}});
    refused("networking.k8s.io/v1 Ingress", ingress, "spec.rules[0].http.paths[0].pathType", unsupported);
}

#[test]
fn what_secrets_hold() {
    let key = |value: &str| json!({"type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": value}});
    check("v1 Secret", key("YQ=="), &[]);
    check("v1 Secret", key(""), &["data[ssh-privatekey]: Required value"]);
    check("v1 Secret", json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}), &[]);
}

#[test]
fn what_keeps_pods_in_number() {
    let workload = |more: Value| {
        let template =
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
        let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"spec": spec})
    };
    let strategy =
        |field: &str, rolling: Value| workload(json!({field: {"type": "RollingUpdate", "rollingUpdate": rolling}}));
    let deployment =
        |rolling: Value, expected: &[&str]| check("apps/v1 Deployment", strategy("strategy", rolling), expected);
    deployment(json!({"maxSurge": "150%", "maxUnavailable": 0}), &[]);
    deployment(
        json!({"maxSurge": "0%", "maxUnavailable": 0}),
        &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0"],
    );
    deployment(
        json!({"maxSurge": ""}),
        &["spec.strategy.rollingUpdate.maxSurge: Invalid value: \"\": a valid percent string"],
    );
    deployment(
        json!({"maxSurge": 1, "maxUnavailable": "101%"}),
        &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\""],
    );
    let daemons =
        |rolling: Value, expected: &[&str]| check("apps/v1 DaemonSet", strategy("updateStrategy", rolling), expected);
    daemons(json!({"maxSurge": 1, "maxUnavailable": 0}), &[]);
    let place = "spec.updateStrategy.rollingUpdate";
    daemons(
        json!({"maxSurge": 1, "maxUnavailable": 1}),
        &[&format!("{place}.maxSurge: Invalid value: 1: may not be set when maxUnavailable")],
    );
    daemons(
        json!({"maxSurge": 0, "maxUnavailable": "0%"}),
        &[&format!("{place}.maxUnavailable: Required value: cannot be 0 when maxSurge")],
    );
    check(
        "apps/v1 StatefulSet",
        strategy("updateStrategy", json!({"maxUnavailable": 0})),
        // Dropped, since its gate is shut.
        &[],
    );
    check(
        "apps/v1 StatefulSet",
        workload(json!({"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Keep"}})),
        &["spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: \"Keep\""],
    );
    let storage = |amount: &str| json!({"requests": {"storage": amount}});
    check(
        "apps/v1 StatefulSet",
        workload(json!({"volumeClaimTemplates": [
            {"metadata": {"name": "a"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage("1Gi")}},
            {"metadata": {"name": "b"}, "spec": {"accessModes": ["Some"], "resources": storage("0"),
                "storageClassName": "A B"}},
            {"metadata": {"name": "c"}, "spec": {}}]})),
        &[
            "spec.volumeClaimTemplates[1].spec.accessModes: Unsupported value: \"Some\"",
            "spec.volumeClaimTemplates[1].spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            "spec.volumeClaimTemplates[1].spec.storageClassName: Invalid value: \"A B\"",
            "spec.volumeClaimTemplates[2].spec.accessModes: Required value: at least 1 access mode is required",
            "spec.volumeClaimTemplates[2].spec.resources[storage]: Required value",
        ],
    );
    pod(json!({"imagePullSecrets": [{"name": ""}]}), &[]);
}

#[test]
fn finalizers_that_nobody_qualifies() {
    let held = || json!({"metadata": {"name": "a", "finalizers": ["bad"]}, "webhooks": []});
    let words = "metadata.finalizers[0]: Invalid value: \"bad\": name is neither a standard finalizer name nor is it \
                 fully qualified";
    check("v1 ConfigMap", json!({"metadata": held()["metadata"]}), &[words]);
    check("coordination.k8s.io/v1 Lease", json!({"metadata": held()["metadata"]}), &[]);
    check("v1 Event", json!({"metadata": held()["metadata"], "involvedObject": {"namespace": "ns"}}), &[]);
    check("admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration", held(), &[]);
    check("admissionregistration.k8s.io/v1 MutatingWebhookConfiguration", held(), &[]);
    let odd = json!({"metadata": {"name": "a", "finalizers": ["a b"]}});
    check(
        "coordination.k8s.io/v1 Lease",
        odd,
        &["metadata.finalizers: Invalid value: \"a b\": name part must consist of"],
    );
}

#[test]
fn second_causes() {
    let scaled = |least: i64, metrics: Value| {
        json!({"spec": {"minReplicas": least, "maxReplicas": 2, "metrics": metrics,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}})
    };
    let none = "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1";
    let unmeasured = "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling \
                      to zero replicas";
    let outside =
        json!([{"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1"}}}]);
    check("autoscaling/v2 HorizontalPodAutoscaler", scaled(0, json!([])), &[none, unmeasured]);
    check("autoscaling/v2 HorizontalPodAutoscaler", scaled(0, outside), &[none]);
    let role =
        json!({"aggregationRule": {"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Foo"}]}]}});
    let place = "aggregationRule.clusterRoleSelectors[0]";
    let bad = [
        &*format!("{place}.matchExpressions[0].operator: Invalid value: \"Foo\": not a valid selector operator"),
        &*format!("{place}: Invalid value: null: invalid label selector."),
    ];
    check("rbac.authorization.k8s.io/v1 ClusterRole", role, &bad);
}

#[test]
fn limit_ranges_hold_what_they_promise() {
    let limits = |limits: Value, expected: &[&str]| {
        let mut one = json!({"type": "Container"});
        one.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        check("v1 LimitRange", json!({"spec": {"limits": [one]}}), expected);
    };
    let ratio = |least: &str, most: &str, ratio: &str| {
        json!({
            "min": {"memory": least}, "max": {"memory": most}, "maxLimitRequestRatio": {"memory": ratio},
        })
    };
    let place = "spec.limits[0].maxLimitRequestRatio[memory]: Invalid value: \"10\": ratio 10 is greater than max/min";
    limits(ratio("512Mi", "2Gi", "4"), &[]);
    limits(ratio("512Mi", "2Gi", "10"), &[&format!("{place} = 4.000000")]);
    limits(ratio("1Ei", "5Ei", "10"), &[&format!("{place} = 5.000000")]);
    limits(ratio("0", "2Gi", "10"), &[]);
    let devices = |limit: &str| json!({"default": {"a.b/c": limit}, "defaultRequest": {"a.b/c": "1"}});
    limits(devices("1"), &[]);
    let place = "spec.limits[0].defaultRequest[a.b/c]: Invalid value: \"1\"";
    limits(devices("2"), &[&format!("{place}: default value 2 must equal to defaultRequest value 1 in a.b/c")]);
}
