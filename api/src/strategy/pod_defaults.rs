//! Defaults of a pod. A template gets fewer: what depends on the pod itself is set when the pod is made.

use super::doc::{default_to, has, is_empty, list, list_at, map_at, number, text, yes};
use super::qos::{self, Amounts};
use serde_json::{Value, json};

/// Defaults for the spec of a pod.
pub fn pod(spec: &mut Value) {
    template(spec);
    default_to(spec, "enableServiceLinks", true);
    requests(spec);
    if yes(spec, "hostNetwork") {
        for field in ["initContainers", "containers"] {
            list_at(spec, field).for_each(publish_ports);
        }
    }
}

/// The default requests of a pod: a container requests its limits. A pod with resources of its own requests the sum of
/// its containers' cpu and memory requests, and its own limits of all further resources. Huge pages cannot be
/// overcommitted: the pod's limits get the containers' huge pages first.
pub fn requests(spec: &mut Value) {
    for field in ["initContainers", "containers"] {
        list_at(spec, field).for_each(request_limits);
    }
    if !qos::is_whole(spec) {
        return;
    }
    let mut limits = qos::of_containers(spec, "limits");
    limits.retain(|name, _| name.starts_with("hugepages-") && !has(&spec["resources"]["requests"], name));
    fill(&mut spec["resources"], "limits", limits);
    if is_empty(&spec["resources"]["limits"]) {
        return;
    }
    let mut requests = qos::of_containers(spec, "requests");
    requests.retain(|name, _| matches!(name.as_str(), "cpu" | "memory"));
    fill(&mut spec["resources"], "requests", requests);
    request_limits(spec);
}

fn fill(resources: &mut Value, which: &str, amounts: Amounts) {
    for (name, amount) in amounts {
        map_at(resources, which).entry(name).or_insert_with(|| amount.to_string().into());
    }
}

/// The defaults of a new pod, with or without a template: a service account and a priority.
pub fn admitted(spec: &mut Value) {
    default_to(spec, "serviceAccountName", "default");
    spec["serviceAccount"] = spec["serviceAccountName"].clone();
    // Priority classes are not looked up: a pod with a priority class keeps its own priority and policy.
    if text(spec, "priorityClassName").is_empty() {
        default_to(spec, "priority", 0);
        default_to(spec, "preemptionPolicy", "PreemptLowerPriority");
    }
}

/// The defaults of a pod at each write: tolerations of nodes that are not ready or unreachable.
pub fn patience(spec: &mut Value) {
    for away in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list(spec, "tolerations").iter().any(|one| {
            (text(one, "key") == away || text(one, "key").is_empty()) && matches!(text(one, "effect"), "NoExecute" | "")
        });
        if !tolerated {
            let one = json!({"key": away, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            match spec["tolerations"].as_array_mut() {
                Some(all) => all.push(one),
                None => spec["tolerations"] = json!([one]),
            }
        }
    }
}

/// Defaults for the pod spec of a template.
pub fn template(spec: &mut Value) {
    map_at(spec, "securityContext");
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
    ] {
        default_to(spec, field, value);
    }
    // Below zero says the same as in a DELETE: the shortest grace.
    if number(spec, "terminationGracePeriodSeconds").is_some_and(|grace| grace < 0) {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    // The old name of a field, kept equal to the new one.
    let account =
        [text(spec, "serviceAccountName"), text(spec, "serviceAccount")].into_iter().find(|name| !name.is_empty());
    if let Some(account) = account.map(str::to_owned) {
        default_to(spec, "serviceAccountName", account);
        spec["serviceAccount"] = spec["serviceAccountName"].clone();
    }
    for volume in list_at(spec, "volumes") {
        if volume
            .as_object()
            .is_some_and(|volume| volume.iter().all(|(field, source)| field == "name" || source.is_null()))
        {
            volume["emptyDir"] = json!({});
        }
        if has(volume, "hostPath") && !has(&volume["hostPath"], "type") {
            map_at(volume, "hostPath").insert("type".into(), "".into());
        }
    }
    for field in ["initContainers", "containers"] {
        list_at(spec, field).for_each(container);
    }
    ephemeral(spec);
}

/// The defaults of ephemeral containers alone.
pub fn ephemeral(spec: &mut Value) {
    list_at(spec, "ephemeralContainers").for_each(container);
}

fn container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    map_at(container, "resources");
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
    let policy = if names_latest(text(container, "image")) { "Always" } else { "IfNotPresent" };
    default_to(container, "imagePullPolicy", policy);
    list_at(container, "ports").for_each(|port| default_to(port, "protocol", "TCP"));
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(field).filter(|probe| probe.is_object()) {
            for (field, value) in
                [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
            {
                // A zero counts as left open.
                if number(probe, field).unwrap_or(0) == 0 {
                    probe[field] = value.into();
                }
            }
            http_get(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if has(&container["lifecycle"], hook) {
            http_get(&mut container["lifecycle"][hook]);
        }
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet").filter(|get| get.is_object()) {
        default_to(get, "path", "/");
        default_to(get, "scheme", "HTTP");
    }
}

/// A limit without a request is a request as well, of a container or of a pod.
fn request_limits(of: &mut Value) {
    let Some(limits) = of["resources"]["limits"].as_object().filter(|limits| !limits.is_empty()).cloned() else {
        return;
    };
    let requests = map_at(&mut of["resources"], "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// In the host's network a container's port is the host's.
fn publish_ports(container: &mut Value) {
    for port in list_at(container, "ports") {
        if number(port, "hostPort").unwrap_or(0) == 0 && has(port, "containerPort") {
            port["hostPort"] = port["containerPort"].clone();
        }
    }
}

/// Whether an image is named without a tag, or with `latest`: such a name may mean a different image tomorrow.
fn names_latest(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or(image);
    match name.split_once(':') {
        _ if name.contains('@') => false,
        Some((_, tag)) => tag == "latest",
        None => true,
    }
}

/// All host ports of a pod's containers: `(protocol, address, port)`, an empty address meaning every one.
pub fn host_ports(spec: &Value) -> impl Iterator<Item = (&str, &str, i64)> {
    let ports = list(spec, "containers").iter().flat_map(|container| list(container, "ports"));
    ports.filter_map(|port| {
        let number = number(port, "hostPort").filter(|port| *port != 0)?;
        let protocol = Some(text(port, "protocol")).filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
        Some((protocol, text(port, "hostIP"), number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags() {
        for (image, expected) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1", false),
            ("reg:5000/x/y", true),
            ("reg:5000/x/y:1", false),
            ("nginx@sha256:aa", false),
            ("nginx:latest@sha256:aa", false),
        ] {
            assert_eq!(names_latest(image), expected, "{image}");
        }
    }

    #[test]
    fn defaults() {
        fn check(mut spec: Value, at: &str, expected: Value) {
            pod(&mut spec);
            assert_eq!(spec.pointer(at).cloned().unwrap_or_default(), expected, "{at} of {spec}");
            let once = spec.clone();
            pod(&mut spec);
            assert_eq!(spec, once, "a second time changes nothing");
        }
        check(json!({}), "/restartPolicy", json!("Always"));
        check(json!({"terminationGracePeriodSeconds": -1}), "/terminationGracePeriodSeconds", json!(1));
        check(json!({"terminationGracePeriodSeconds": 0}), "/terminationGracePeriodSeconds", json!(0));
        check(json!({"serviceAccount": "a"}), "/serviceAccountName", json!("a"));
        check(json!({"serviceAccountName": "b", "serviceAccount": "a"}), "/serviceAccount", json!("b"));
        check(json!({"volumes": [{"name": "a"}]}), "/volumes/0/emptyDir", json!({}));
        check(
            json!({"volumes": [{"name": "a", "hostPath": {"path": "/x"}}]}),
            "/volumes/0",
            json!({"name": "a", "hostPath": {"path": "/x", "type": ""}}),
        );
        let port = json!({"containerPort": 80});
        let ports = json!([{"ports": [port]}]);
        check(json!({"containers": ports}), "/containers/0/ports/0", json!({"containerPort": 80, "protocol": "TCP"}));
        check(json!({"containers": ports, "hostNetwork": true}), "/containers/0/ports/0/hostPort", json!(80));
        let limited = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}});
        let both = json!({"cpu": "500m", "memory": "1Gi"});
        check(json!({"containers": [{"resources": limited}]}), "/containers/0/resources/requests", both);
        for (own, containers, expected) in [
            (
                json!({"limits": {"cpu": "1"}}),
                vec![json!({})],
                json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}),
            ),
            (
                json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
                vec![json!({"requests": {"cpu": "100m", "a.b/c": "1"}}), json!({"limits": {"cpu": "300m"}})],
                json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "400m", "memory": "1Gi"}}),
            ),
            (
                json!({"requests": {"cpu": "1"}}),
                vec![json!({"requests": {"memory": "1Gi"}})],
                json!({"requests": {"cpu": "1"}}),
            ),
            (json!({}), vec![json!({"limits": {"cpu": "1"}})], json!({})),
            (
                json!({"requests": {"cpu": "5m"}}),
                vec![json!({"limits": {"hugepages-2Mi": "4Mi"}}), json!({"limits": {"hugepages-2Mi": "2Mi"}})],
                json!({"limits": {"hugepages-2Mi": "6Mi"}, "requests": {"cpu": "5m", "hugepages-2Mi": "6Mi"}}),
            ),
        ] {
            let containers: Vec<Value> =
                containers.into_iter().map(|resources| json!({"resources": resources})).collect();
            check(json!({"resources": own, "containers": containers}), "/resources", expected);
        }
        let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 7});
        let whole = json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 7,
            "timeoutSeconds": 1,
            "successThreshold": 1, "failureThreshold": 3});
        check(json!({"containers": [{"livenessProbe": probe}]}), "/containers/0/livenessProbe", whole);
        let hook = json!({"postStart": {"httpGet": {"port": 80}}});
        let whole = json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}});
        check(json!({"containers": [{"lifecycle": hook}]}), "/containers/0/lifecycle/postStart", whole);
    }
}
