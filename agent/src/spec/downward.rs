//! The downward API: (field or resource, pod, facts of the host) -> the value of a variable. PURE.

use std::collections::BTreeMap;

use coracle_api::pod::{Container, ObjectFieldSelector, ResourceFieldSelector};
use coracle_api::quantity::Quantity;

use crate::facts::members::members;
use crate::facts::wanted::Wanted;
use crate::facts::world::Node;

/// Whether it can only be told when the pod has its address.
pub fn needs_address(container: &Container) -> bool {
    let fields = container.env.iter().filter_map(|variable| variable.value_from.as_ref()?.field_ref.as_ref());
    fields.into_iter().any(|field| matches!(field.field_path.as_str(), "status.podIP" | "status.podIPs"))
}

/// The error says why there is no value.
pub fn field(selector: &ObjectFieldSelector, wanted: &Wanted, node: &Node, address: &str) -> Result<String, String> {
    let (meta, spec) = (&wanted.pod.metadata, &wanted.pod.spec);
    let path = selector.field_path.as_str();
    if let Some((list, key)) = keyed(path) {
        let list = match list {
            "metadata.labels" => &meta.labels,
            "metadata.annotations" => &meta.annotations,
            _ => return Err(format!("field label does not support subscript: {path}")),
        };
        return Ok(list.get(key).cloned().unwrap_or_default());
    }
    Ok(match path {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "metadata.labels" => lines(&meta.labels),
        "metadata.annotations" => lines(&meta.annotations),
        "spec.nodeName" => node.name.clone(),
        "spec.serviceAccountName" => spec.service_account_name.clone(),
        "status.hostIP" | "status.hostIPs" => node.address.clone(),
        "status.podIP" | "status.podIPs" => address.to_owned(),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    })
}

/// An unset cpu or memory limit of a container resolves to the pod's limit, or else to the node's capacity.
pub fn resource(
    selector: &ResourceFieldSelector,
    wanted: &Wanted,
    own: &Container,
    node: &Node,
) -> Result<String, String> {
    let name = &selector.container_name;
    let named = || members(&wanted.pod.spec).map(|member| member.spec).find(|container| container.name == *name);
    let container = if name.is_empty() { Some(own) } else { named() };
    let resources = &container.ok_or_else(|| format!("container {name} not found"))?.resources;
    let (limits, requests) = (&resources.limits, &resources.requests);
    let whole = |kind: &str| wanted.pod.spec.resources.limits.get(kind).copied().filter(|amount| amount.value() > 0);
    let of = |amounts: &BTreeMap<String, Quantity>, kind: &str| amounts.get(kind).copied();
    let milli = |amount: Quantity| u128::from(amount.milli().unsigned_abs());
    let value = |amount: Quantity| u128::from(amount.value().unsigned_abs());
    let amount = match selector.resource.as_str() {
        "limits.cpu" => of(limits, "cpu").or(whole("cpu")).map_or(u128::from(node.cpu_milli), milli),
        "requests.cpu" => of(requests, "cpu").or(of(limits, "cpu")).map_or(0, milli),
        "limits.memory" => of(limits, "memory").or(whole("memory")).map_or(u128::from(node.memory_bytes), value),
        "requests.memory" => of(requests, "memory").or(of(limits, "memory")).map_or(0, value),
        "limits.ephemeral-storage" => of(limits, "ephemeral-storage").map_or(u128::from(node.disk_bytes), value),
        "requests.ephemeral-storage" => {
            of(requests, "ephemeral-storage").or(of(limits, "ephemeral-storage")).map_or(0, value)
        }
        other => match other.split_once('.') {
            Some(("limits", kind)) if kind.starts_with("hugepages-") => of(limits, kind).map_or(0, value),
            Some(("requests", kind)) if kind.starts_with("hugepages-") => {
                of(requests, kind).or(of(limits, kind)).map_or(0, value)
            }
            _ => return Err(format!("unsupported container resource : {other}")),
        },
    };
    let is_cpu = selector.resource.ends_with(".cpu");
    let divisor = selector.divisor.map(|divisor| if is_cpu { milli(divisor) } else { value(divisor) });
    let divisor = divisor.filter(|divisor| *divisor > 0).unwrap_or(if is_cpu { 1000 } else { 1 });
    Ok(amount.div_ceil(divisor).to_string())
}

/// `metadata.labels['app']` -> `metadata.labels`, `app`
fn keyed(path: &str) -> Option<(&str, &str)> {
    let (list, rest) = path.split_once("['")?;
    Some((list, rest.strip_suffix("']")?))
}

/// `key="value"`, one on a line.
fn lines(map: &BTreeMap<String, String>) -> String {
    map.iter().map(|(key, value)| format!("{key}={value:?}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use serde_json::{Value, json};

    fn wanted() -> Wanted {
        let document = json!({
            "metadata": {"namespace": "d", "name": "p", "uid": "u", "labels": {"app": "web", "tier": "1"},
                "annotations": {"a/b": "x"}},
            "spec": {"serviceAccountName": "sa", "containers": [
                {"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}},
                {"name": "plain"}, {"name": "pages", "resources": {"limits": {"hugepages-2Mi": "4Mi"}}}]},
        });
        Wanted::new(Source::Master, document).unwrap()
    }

    fn node() -> Node {
        Node {
            name: "n1".into(),
            address: "192.0.2.1".into(),
            cpu_milli: 4000,
            memory_bytes: 8 << 30,
            ..Node::default()
        }
    }

    #[test]
    fn fields_of_a_pod() {
        let check = |path: &str, expected: Result<&str, &str>| {
            let selector = ObjectFieldSelector { field_path: path.to_owned() };
            let found = field(&selector, &wanted(), &node(), "10.244.0.9");
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{path}");
        };
        check("metadata.name", Ok("p"));
        check("metadata.uid", Ok("u"));
        check("metadata.labels", Ok("app=\"web\"\ntier=\"1\""));
        check("metadata.labels['app']", Ok("web"));
        check("metadata.labels['nope']", Ok(""));
        check("metadata.annotations['a/b']", Ok("x"));
        check("spec.nodeName", Ok("n1"));
        check("spec.serviceAccountName", Ok("sa"));
        check("status.hostIP", Ok("192.0.2.1"));
        check("status.podIPs", Ok("10.244.0.9"));
        check("spec.hostname", Err("unsupported fieldPath: spec.hostname"));
        check("spec.x['y']", Err("field label does not support subscript: spec.x['y']"));
    }

    #[test]
    fn resources_of_a_container() {
        let check = |selector: Value, expected: Result<&str, &str>| {
            let read: ResourceFieldSelector = serde_json::from_value(selector.clone()).unwrap();
            let wanted = wanted();
            let found = resource(&read, &wanted, &wanted.pod.spec.containers[0], &node());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{selector}");
        };
        check(json!({"resource": "limits.cpu"}), Ok("2"));
        check(json!({"resource": "limits.cpu", "divisor": "1m"}), Ok("1500"));
        check(json!({"resource": "requests.cpu", "divisor": "0"}), Ok("1"));
        check(json!({"resource": "limits.memory", "divisor": "1Mi"}), Ok("64"));
        check(json!({"resource": "requests.memory"}), Ok("67108864"));
        check(json!({"containerName": "plain", "resource": "limits.cpu"}), Ok("4"));
        check(json!({"containerName": "plain", "resource": "limits.memory", "divisor": "1Gi"}), Ok("8"));
        check(json!({"containerName": "plain", "resource": "requests.memory"}), Ok("0"));
        check(json!({"resource": "limits.hugepages-2Mi", "divisor": "1Mi"}), Ok("0"));
        check(json!({"containerName": "pages", "resource": "requests.hugepages-2Mi", "divisor": "1Mi"}), Ok("4"));
        check(
            json!({"resource": "limits.example.com/gpu"}),
            Err("unsupported container resource : limits.example.com/gpu"),
        );
        check(json!({"containerName": "nope", "resource": "limits.cpu"}), Err("container nope not found"));
    }
}
