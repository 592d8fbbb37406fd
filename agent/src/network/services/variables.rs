//! The service variables that containers get. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_api::service::Service;

/// The service variables of 2014 and of v1, for all services in a namespace with an address.
pub fn variables(services: &[Arc<Service>], namespace: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    // Pods in every namespace get the service `kubernetes`, as always; a service with the same name in their own
    // namespace wins.
    let everybody = services
        .iter()
        .filter(|service| service.metadata.namespace == "default" && service.metadata.name == "kubernetes");
    let own = services.iter().filter(|service| service.metadata.namespace == namespace);
    for service in everybody.chain(own) {
        let address = &service.spec.cluster_ip;
        let Some(first) = service.spec.ports.first() else { continue };
        if address.is_empty() || service.spec.headless() {
            continue;
        }
        let prefix = variable_name(&service.metadata.name);
        let mut set = |name: String, value: String| variables.insert(format!("{prefix}_{name}"), value);
        set("SERVICE_HOST".to_owned(), address.clone());
        set("SERVICE_PORT".to_owned(), first.port.to_string());
        for (index, port) in service.spec.ports.iter().enumerate() {
            if !port.name.is_empty() {
                set(format!("SERVICE_PORT_{}", variable_name(&port.name)), port.port.to_string());
            }
            let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
            let lower = protocol.to_lowercase();
            let url = format!("{lower}://{address}:{}", port.port);
            if index == 0 {
                set("PORT".to_owned(), url.clone());
            }
            let link = format!("PORT_{}_{protocol}", port.port);
            set(link.clone(), url);
            set(format!("{link}_PROTO"), lower);
            set(format!("{link}_PORT"), port.port.to_string());
            set(format!("{link}_ADDR"), address.clone());
        }
    }
    variables
}

/// `redis-master` -> `REDIS_MASTER`
fn variable_name(name: &str) -> String {
    name.to_uppercase().replace(['-', '.'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn as_in_2014_and_as_today() {
        let service = |document| Arc::new(Service::read(&document).unwrap());
        let services = [
            service(json!({"metadata": {"namespace": "default", "name": "redis-master"},
                "spec": {"clusterIP": "10.96.0.9", "ports":
                    [{"port": 6379, "name": "db"}, {"port": 53, "protocol": "UDP"}]}})),
            service(json!({
                "metadata": {"namespace": "default", "name": "none"},
                "spec": {"clusterIP": "None", "ports": [{"port": 1}]},
            })),
            service(json!({
                "metadata": {"namespace": "other", "name": "x"},
                "spec": {"clusterIP": "10.96.0.10", "ports": [{"port": 1}]},
            })),
        ];
        let found: Vec<String> =
            variables(&services, "default").into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let wanted = [
            "REDIS_MASTER_PORT=tcp://10.96.0.9:6379",
            "REDIS_MASTER_PORT_53_UDP=udp://10.96.0.9:53",
            "REDIS_MASTER_PORT_53_UDP_ADDR=10.96.0.9",
            "REDIS_MASTER_PORT_53_UDP_PORT=53",
            "REDIS_MASTER_PORT_53_UDP_PROTO=udp",
            "REDIS_MASTER_PORT_6379_TCP=tcp://10.96.0.9:6379",
            "REDIS_MASTER_PORT_6379_TCP_ADDR=10.96.0.9",
            "REDIS_MASTER_PORT_6379_TCP_PORT=6379",
            "REDIS_MASTER_PORT_6379_TCP_PROTO=tcp",
            "REDIS_MASTER_SERVICE_HOST=10.96.0.9",
            "REDIS_MASTER_SERVICE_PORT=6379",
            "REDIS_MASTER_SERVICE_PORT_DB=6379",
        ];
        assert_eq!(found, wanted);
        assert_eq!(variables(&services, "empty"), BTreeMap::new());
    }
}
