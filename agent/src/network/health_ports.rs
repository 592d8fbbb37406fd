//! Health check node ports: a balancer outside asks each node whether it has a pod of a service whose traffic stays on
//! its node.
//!
//!     services and slices -> `ports` (pure) -> a socket each, as long as the service has the port
//!         -> 200 or 503, in kube-proxy's words
//!
//! Whoever reaches the node may ask: the answer is the number of endpoints here.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};

use crate::facts::happening::Happening;
use crate::network::services::RuleHost;
use crate::network::services::ends::ends;
use crate::network::services::group::Group;

/// The limit for all ports together; a balancer asks one at a time.
const CONNECTIONS_MAX: usize = 32;
/// The limit of a request's head; a longer one is no balancer's.
const HEAD_BYTES_MAX: usize = 4096;
/// The time limit of a whole request.
const PATIENCE: Duration = Duration::from_secs(5);
/// The port may be somebody else's, for now.
const RETRY: Duration = Duration::from_secs(30);

/// The answer at a health check port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortAnswer {
    namespace: String,
    name: String,
    uid: String,
    endpoints: usize,
}

pub type HealthPorts = BTreeMap<u16, PortAnswer>;

/// The ports of all services that have one, with their endpoints on this node.
pub fn ports(groups: &[Group], here: &RuleHost) -> HealthPorts {
    let of = |Group { service, slices }: &Group| -> Option<(u16, PortAnswer)> {
        let spec = &service.spec;
        let wanted = spec.kind == "LoadBalancer" && spec.external_traffic_policy == "Local";
        let port = u16::try_from(spec.health_check_node_port).ok().filter(|port| wanted && *port > 0)?;
        let ready = spec.ports.iter().map(|port| ends(port, slices, here)).flat_map(|ends| ends.local);
        let endpoints = ready.map(|(ip, _)| ip).collect::<std::collections::BTreeSet<_>>().len();
        let meta = &service.metadata;
        Some((
            port,
            PortAnswer { namespace: meta.namespace.clone(), name: meta.name.clone(), uid: meta.uid.clone(), endpoints },
        ))
    };
    groups.iter().filter_map(of).collect()
}

impl PortAnswer {
    /// A whole answer of HTTP.
    fn answer(&self) -> String {
        let status = if self.endpoints > 0 { "200 OK" } else { "503 Service Unavailable" };
        let service = json!({"namespace": self.namespace, "name": self.name});
        let body =
            json!({"service": service, "localEndpoints": self.endpoints, "serviceProxyHealthy": true}).to_string();
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n\
             X-Load-Balancing-Endpoint-Weight: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.endpoints,
            body.len()
        )
    }
}

/// Ends with the sender.
pub async fn run(mut wanted: watch::Receiver<Arc<HealthPorts>>, happenings: mpsc::Sender<Happening>) {
    let mut open: BTreeMap<u16, JoinHandle<()>> = BTreeMap::new();
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let ports = wanted.borrow_and_update().clone();
        open.retain(|port, task| {
            let stays = ports.contains_key(port);
            if !stays {
                task.abort();
            }
            stays
        });
        for port in ports.keys() {
            open.entry(*port)
                .or_insert_with(|| spawn_local(serve(*port, wanted.clone(), connections.clone(), happenings.clone())));
        }
        if wanted.changed().await.is_err() {
            open.values().for_each(JoinHandle::abort);
            return;
        }
    }
}

async fn serve(
    port: u16,
    ports: watch::Receiver<Arc<HealthPorts>>,
    connections: Arc<Semaphore>,
    happenings: mpsc::Sender<Happening>,
) {
    let mut said = false;
    let listener = loop {
        match TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await {
            Ok(listener) => break listener,
            Err(error) if !said => {
                said = true;
                let what = format!(
                    "health check node port {port}: {error}; balancers are told nothing of its service, and it is \
                     tried again"
                );
                tell(what, ports.borrow().get(&port), &happenings);
            }
            Err(_) => {}
        }
        sleep(RETRY).await;
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // No file descriptor is free: waiting is all that helps.
            sleep(PATIENCE).await;
            continue;
        };
        let answer = ports.borrow().get(&port).map(PortAnswer::answer);
        if let (Some(answer), Ok(place)) = (answer, connections.clone().try_acquire_owned()) {
            spawn_local(async move {
                let _place = place;
                let _ = timeout(PATIENCE, converse(stream, &answer)).await;
            });
        }
    }
}

fn tell(what: String, of: Option<&PortAnswer>, happenings: &mpsc::Sender<Happening>) {
    let Some(PortAnswer { namespace, name, uid, .. }) = of else { return };
    log::warn!("service {namespace}/{name}: {what}");
    // A queue that is full loses events, never more.
    let _ = happenings.try_send(Happening::of_service([namespace, name, uid], "PortTaken", what));
}

/// Whatever is asked, the answer is the same; it is given when the question has ended.
async fn converse(mut stream: TcpStream, answer: &str) -> std::io::Result<()> {
    let (mut head, mut piece) = (Vec::new(), [0; 512]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = stream.read(&mut piece).await?;
        if length == 0 || head.len() + length > HEAD_BYTES_MAX {
            return Ok(());
        }
        head.extend_from_slice(&piece[..length]);
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::service::{EndpointSlice, Service};
    use serde_json::Value;

    #[test]
    fn a_port_says_how_many_serve_here() {
        let check = |spec: Value, expected: Option<usize>| {
            let mut service = json!({"metadata": {"namespace": "shop", "name": "web"},
                "spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30100,
                    "clusterIP": "10.96.0.7",
                    "ports": [{"name": "http", "port": 80}, {"name": "other", "port": 81}]}});
            for (field, value) in spec.as_object().into_iter().flatten() {
                service["spec"][field] = value.clone();
            }
            let endpoint = |ip: &str, node: &str, ready: bool| {
                json!({
                    "addresses": [ip], "nodeName": node, "conditions": {"ready": ready},
                })
            };
            let slice = json!({"metadata": {"namespace": "shop", "name": "web-1",
                "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"},
                    {"name": "other", "port": 8081, "protocol": "TCP"}],
                "endpoints": [endpoint("10.244.0.1", "n1", true), endpoint("10.244.0.2", "n1", false),
                    endpoint("10.244.1.1", "n2", true)]});
            let here = RuleHost { node: "n1".to_owned(), pod_cidr: "10.244.0.0/24".to_owned(), ..RuleHost::default() };
            let slices = vec![Arc::new(EndpointSlice::read(&slice).unwrap())];
            let found = ports(&[Group { service: Arc::new(Service::read(&service).unwrap()), slices }], &here);
            assert_eq!(found.get(&30100).map(|said| said.endpoints), expected, "{spec}");
        };
        check(json!({}), Some(1));
        check(json!({"ports": [{"name": "none", "port": 80}]}), Some(0));
        check(json!({"externalTrafficPolicy": "Cluster"}), None);
        check(json!({"healthCheckNodePort": 0}), None);
        check(json!({"type": "ClusterIP"}), None);
    }

    #[test]
    fn words_of_the_answer() {
        let said = |endpoints| {
            PortAnswer { namespace: "shop".to_owned(), name: "web".to_owned(), uid: String::new(), endpoints }.answer()
        };
        assert!(
            said(2).starts_with("HTTP/1.1 200 OK\r\n") && said(2).contains("X-Load-Balancing-Endpoint-Weight: 2\r\n"),
            "{}",
            said(2)
        );
        let body = r#"{"localEndpoints":0,"service":{"name":"web","namespace":"shop"},"serviceProxyHealthy":true}"#;
        assert!(said(0).starts_with("HTTP/1.1 503 ") && said(0).ends_with(body), "{}", said(0));
    }
}
