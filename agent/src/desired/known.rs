//! The services of the cluster on this host's own disk: after a reboot without a master they work as before.
//!
//!     what was heard
//!         -> a file, when services have changed (once a minute at most) and at a stop; never for readiness alone
//!     the file -> what is known until the master answers, with the endpoints of this host's own pods as they are now
//!
//! The kernel's table may be newer than the file: `network/net` says when the file's rules are loaded.

use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs, io};

use coracle_api::quantity::IntOrString;
use coracle_api::service::{EndpointSlice, Hint, Service, ServicePort, SliceEndpoint};
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::unkept::Unkept;
use crate::facts::heard::ClusterServices;
use crate::facts::view::ViewPart;
use crate::host::private;

const NAME: &str = "last-services.json";
/// Ten thousand services with ten endpoints each take less.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Between two writes: flash wears.
const PAUSE: Duration = Duration::from_secs(60);

/// The file.
#[derive(Clone)]
pub struct Known {
    folder: PathBuf,
    unkept: Unkept,
}

impl Known {
    pub fn new(data_dir: &str, unkept: Unkept) -> Known {
        Known { folder: data_dir.into(), unkept }
    }

    /// None: nothing is known.
    pub fn read(&self) -> Option<ClusterServices> {
        let path = self.folder.join(NAME);
        let read = || -> io::Result<File> {
            if fs::metadata(&path)?.len() > FILE_BYTES_MAX {
                return Err(io::Error::other("it is too big"));
            }
            serde_json::from_slice(&fs::read(&path)?).map_err(io::Error::other)
        };
        match read() {
            Ok(File { services, slices }) => {
                Some(ClusterServices { services: Arc::new(services.0), slices: slices.0, heard: false })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                log::error!(
                    "the services in {}: {error}; they are known again when the master answers",
                    path.display()
                );
                None
            }
        }
    }

    /// Whole and durable, or the old file stays.
    pub fn keep(&self, network: &ClusterServices) -> bool {
        self.write(file(network))
    }

    /// False: it could not be written.
    fn write(&self, text: Vec<u8>) -> bool {
        let written = private::replace_files(&self.folder, [(NAME.into(), text)].into_iter());
        self.unkept.note(&self.folder.join(NAME), "the services of the cluster", written)
    }

    /// At a stop: what was heard since the last write, endpoints too. What is on the disk already is not written again.
    pub fn keep_last(&self, network: Option<&ClusterServices>) {
        let Some(network) = network.filter(|network| network.heard) else { return };
        let (path, text) = (self.folder.join(NAME), file(network));
        // A different length means different content; a long file need not be read.
        let same_length = fs::metadata(&path).is_ok_and(|there| there.len() == text.len() as u64);
        if !same_length || fs::read(&path).ok().as_ref() != Some(&text) {
            self.write(text);
        }
    }

    /// Never ends.
    pub async fn follow(self, mut network: ViewPart<ClusterServices>) {
        let mut kept = None;
        loop {
            let now = network.now();
            if let Some(now) = now.filter(|now| now.heard)
                && kept.as_ref() != Some(&now.services)
            {
                // Only the first content needs a comparison with the file: later content is compared with `kept`.
                let first = kept.is_none();
                let same = first && self.read().is_some_and(|known| as_written(&known).eq(as_written(&now)));
                if !same {
                    kept = if self.keep(&now) { Some(now.services.clone()) } else { None };
                    sleep(PAUSE).await;
                    continue;
                }
                kept = Some(now.services.clone());
            }
            if network.changed().await.is_err() {
                return;
            }
        }
    }
}

fn as_written(network: &ClusterServices) -> impl Iterator<Item = Value> {
    network.services.iter().map(|service| of_service(service))
}

/// Writes the objects one after the other: all objects as JSON values at once would take many times their own memory.
fn file(network: &ClusterServices) -> Vec<u8> {
    let mut text = b"{\"services\":".to_vec();
    put(&mut text, as_written(network));
    text.extend_from_slice(b",\"slices\":");
    put(&mut text, network.slices.iter().map(|slice| of_slice(slice)));
    text.push(b'}');
    text
}

fn put(text: &mut Vec<u8>, objects: impl Iterator<Item = Value>) {
    text.push(b'[');
    for (index, object) in objects.enumerate() {
        if index > 0 {
            text.push(b',');
        }
        text.extend_from_slice(object.to_string().as_bytes());
    }
    text.push(b']');
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    services: Objects<Service>,
    slices: Objects<EndpointSlice>,
}

/// Those that can be read.
struct Objects<T>(Vec<Arc<T>>);

impl<T> Default for Objects<T> {
    fn default() -> Objects<T> {
        Objects(Vec::new())
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Objects<T> {
    fn deserialize<D: Deserializer<'de>>(file: D) -> Result<Objects<T>, D::Error> {
        struct List<T>(PhantomData<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for List<T> {
            type Value = Objects<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Objects<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(object) = list.next_element::<Value>()? {
                    all.extend(T::deserialize(object).ok().map(Arc::new));
                }
                Ok(Objects(all))
            }
        }
        file.deserialize_seq(List(PhantomData))
    }
}

/// The fields of a service that this host uses.
fn of_service(service: &Service) -> Value {
    let (meta, spec) = (&service.metadata, &service.spec);
    let target = |port: &ServicePort| match &port.target_port {
        None => Value::Null,
        Some(IntOrString::Int(number)) => json!(number),
        Some(IntOrString::String(name)) => json!(name),
    };
    let port = |port: &ServicePort| {
        json!({
            "name": port.name, "protocol": port.protocol, "port": port.port, "targetPort": target(port),
            "nodePort": port.node_port,
        })
    };
    let ingress = service.status.load_balancer.ingress.iter().map(|one| json!({"ip": one.ip, "ipMode": one.ip_mode}));
    json!({
        "metadata": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
        "spec": {
            "type": spec.kind, "clusterIP": spec.cluster_ip, "clusterIPs": spec.cluster_ips,
            "externalIPs": spec.external_ips,
            "externalName": spec.external_name, "sessionAffinity": spec.session_affinity,
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": spec.affinity_timeout_s()}},
            "externalTrafficPolicy": spec.external_traffic_policy,
            "internalTrafficPolicy": spec.internal_traffic_policy,
            "publishNotReadyAddresses": spec.publish_not_ready_addresses, "selector": spec.selector,
            "loadBalancerSourceRanges": spec.load_balancer_source_ranges,
            "healthCheckNodePort": spec.health_check_node_port,
            "ports": spec.ports.iter().map(port).collect::<Vec<_>>(),
        },
        "status": {"loadBalancer": {"ingress": ingress.collect::<Vec<_>>()}},
    })
}

fn of_slice(slice: &EndpointSlice) -> Value {
    let named = |hints: &Option<Vec<Hint>>| {
        json!(hints.as_ref().map(|all| all.iter().map(|hint| json!({"name": hint.name})).collect::<Vec<_>>()))
    };
    let endpoint = |endpoint: &SliceEndpoint| {
        let conditions = &endpoint.conditions;
        json!({
            "addresses": endpoint.addresses, "hostname": endpoint.hostname, "nodeName": endpoint.node_name,
            "conditions": {"ready": conditions.ready, "serving": conditions.serving,
                "terminating": conditions.terminating},
            "hints": endpoint.hints.as_ref().map(|hints| json!({
                "forNodes": named(&hints.for_nodes), "forZones": named(&hints.for_zones),
            })),
            "targetRef": endpoint.target_ref.as_ref().map(|target| json!({"kind": target.kind, "uid": target.uid})),
        })
    };
    let port = |port: &coracle_api::service::SlicePort| {
        json!({
            "name": port.name, "protocol": port.protocol, "port": port.port,
        })
    };
    json!({
        "metadata": {"namespace": slice.metadata.namespace, "name": slice.metadata.name,
            "labels": {"kubernetes.io/service-name": slice.service()}},
        "addressType": slice.address_type,
        "endpoints": slice.endpoints.iter().flatten().map(endpoint).collect::<Vec<_>>(),
        "ports": slice.ports.iter().flatten().map(port).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::wanted::Wanted;
    use crate::network::known_ends::as_they_are;
    use std::collections::BTreeMap;
    use std::os::unix::fs::MetadataExt;

    fn heard() -> ClusterServices {
        let service = json!({"metadata": {"namespace": "default", "name": "web", "uid": "s", "annotations": {"a": "b"}},
            "spec": {"clusterIP": "10.96.0.7", "type": "LoadBalancer", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}, "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "nodePort": 30080, "targetPort": "www"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "ipMode": "VIP"}]}}});
        let endpoint = |ip: &str, node: &str, uid: &str| {
            json!({
                "addresses": [ip], "nodeName": node, "targetRef": {"kind": "Pod", "uid": uid},
            })
        };
        let slice = json!({"metadata": {"namespace": "default", "name": "web-x",
            "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [endpoint("10.244.0.2", "n1", "a"), endpoint("10.244.0.3", "n1", "b"),
                endpoint("10.244.1.2", "n2", "c"),
                {"addresses": ["192.0.2.9"]}],
            "ports": [{"name": "http", "port": 8080}]});
        let slices = vec![Arc::new(EndpointSlice::read(&slice).unwrap())];
        ClusterServices { services: Arc::new(vec![Arc::new(Service::read(&service).unwrap())]), slices, heard: true }
    }

    fn addresses(network: &ClusterServices) -> Vec<String> {
        let endpoints = network.slices.iter().flat_map(|slice| slice.endpoints.iter().flatten());
        endpoints.map(|endpoint| format!("{} {}", endpoint.addresses[0], endpoint.is_ready())).collect()
    }

    /// A folder of its own, gone with the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("coracle-known-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }

        fn known(&self) -> Known {
            Known { folder: self.0.clone(), unkept: Unkept::default() }
        }

        /// Every write makes another file.
        fn file(&self) -> u64 {
            fs::metadata(self.0.join(NAME)).unwrap().ino()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_read_makes_the_same_rules() {
        let folder = Folder::new("rules");
        let known = folder.known();
        assert!(known.read().is_none());
        known.keep(&heard());
        let read = known.read().unwrap();
        assert!(!read.heard);
        let rules = |network: &ClusterServices| {
            let groups = crate::network::services::group::grouped(&network.services, &network.slices);
            crate::network::services::rules(
                &groups,
                &crate::network::services::RuleHost::default(),
                None,
                &mut Default::default(),
            )
        };
        assert_eq!(rules(&read), rules(&heard()));
        assert_eq!(file(&read), file(&heard()));
    }

    #[test]
    fn a_stop_keeps_what_was_heard_last() {
        let folder = Folder::new("stop");
        let known = folder.known();
        known.keep(&heard());
        let first = folder.file();
        known.keep_last(Some(&heard()));
        assert_eq!(folder.file(), first, "it stands there already");
        let mut other = ClusterServices { slices: Vec::new(), heard: false, ..heard() };
        known.keep_last(Some(&other));
        known.keep_last(None);
        assert_eq!(folder.file(), first, "nothing was heard");
        other.heard = true;
        known.keep_last(Some(&other));
        assert_eq!(file(&known.read().unwrap()), file(&other), "endpoints alone have changed");
        let service = json!({
            "metadata": {"namespace": "default", "name": "new"}, "spec": {"ports": [{"port": 1, "targetPort": 2}]},
        });
        other.services = Arc::new(vec![Arc::new(Service::read(&service).unwrap())]);
        known.keep_last(Some(&other));
        assert_eq!(file(&known.read().unwrap()), file(&other), "a service is new");
    }

    /// Pods of this host, and their statuses.
    fn here() -> (BTreeMap<String, Arc<Wanted>>, BTreeMap<String, Value>) {
        let pod = |uid: &str, app: &str, spec: Value| {
            let metadata = json!({"namespace": "default", "name": uid, "uid": uid, "labels": {"app": app}});
            let document = json!({"metadata": metadata, "spec": spec});
            (uid.to_owned(), Arc::new(Wanted::new(crate::facts::naming::Source::Master, document).unwrap()))
        };
        let named =
            || json!({"containers": [{"name": "c", "image": "i", "ports": [{"name": "www", "containerPort": 8081}]}]});
        let bare = || json!({"containers": [{"name": "c", "image": "i"}]});
        let sidecar = json!({"containers": [{"name": "c", "image": "i"}], "initContainers": [{"name": "s", "image": "i",
            "restartPolicy": "Always", "ports": [{"name": "www", "protocol": "UDP", "containerPort": 1},
                {"name": "www", "containerPort": 8082}]}]});
        let status = |ip: &str, ready: &str| json!({"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]});
        let pods = [
            (pod("a", "web", named()), status("10.244.0.7", "True")),
            (pod("b", "web", named()), status("10.244.0.8", "False")),
            (pod("d", "other", named()), status("10.244.0.9", "True")),
            (pod("e", "web", named()), json!({"phase": "Pending"})),
            (pod("f", "web", sidecar), status("10.244.0.10", "True")),
            (pod("g", "web", bare()), status("10.244.0.11", "True")),
        ];
        let statuses = pods.iter().map(|((uid, _), status)| (uid.clone(), status.clone())).collect();
        (pods.into_iter().map(|(pod, _)| pod).collect(), statuses)
    }

    #[test]
    fn own_pods_are_as_they_are_now() {
        let (pods, statuses) = here();
        let folder = Folder::new("pods");
        folder.known().keep(&heard());
        for network in [heard(), folder.known().read().unwrap()] {
            let now = as_they_are(&network, "n1", &pods, &statuses);
            // The last pod of `here` has no port with the name `www`.
            let own = ["10.244.0.7 true", "10.244.0.8 false", "10.244.0.10 true"];
            assert_eq!(addresses(&now), [["10.244.1.2 true", "192.0.2.9 true"].as_slice(), own.as_slice()].concat());
            let ports = |slice: &Arc<EndpointSlice>| slice.ports.as_ref().unwrap()[0].port.unwrap();
            assert_eq!(now.slices.iter().map(ports).collect::<Vec<_>>(), [8080, 8081, 8081, 8082]);
            assert_eq!(
                addresses(&as_they_are(&network, "n1", &BTreeMap::new(), &BTreeMap::new())),
                ["10.244.1.2 true", "192.0.2.9 true"]
            );
        }
    }

    #[test]
    fn a_file_leads_to_the_ports_that_were_asked_for() {
        let (pods, statuses) = here();
        let folder = Folder::new("ports");
        let leads = |target: Value, kept: &dyn Fn(&mut Value), slices: bool, expected: &[i32]| {
            let mut network = heard();
            let mut service = json!({"metadata": {"namespace": "default", "name": "web"},
                "spec": {"selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80}]}});
            service["spec"]["ports"][0]["targetPort"] = target.clone();
            network.services = Arc::new(vec![Arc::new(Service::read(&service).unwrap())]);
            network.slices.retain(|_| slices);
            folder.known().keep(&network);
            let path = folder.0.join(NAME);
            let mut text: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            kept(&mut text);
            fs::write(&path, text.to_string()).unwrap();
            let now = as_they_are(&folder.known().read().unwrap(), "n1", &pods, &statuses);
            let of_a = now.slices.iter().filter(|slice| slice.metadata.name == "web-a");
            assert_eq!(
                of_a.flat_map(|slice| slice.ports.iter().flatten()).filter_map(|port| port.port).collect::<Vec<_>>(),
                expected,
                "{target}"
            );
        };
        let as_written = |_: &mut Value| {};
        let of_before = |file: &mut Value| {
            file["services"][0]["spec"]["ports"][0].as_object_mut().unwrap().remove("targetPort").unwrap();
        };
        leads(json!(8080), &as_written, false, &[8080]);
        leads(json!("www"), &as_written, true, &[8081]);
        leads(json!("gone"), &as_written, true, &[]);
        leads(json!(0), &as_written, true, &[80]);
        leads(json!(8080), &of_before, true, &[8080]);
        leads(json!("www"), &of_before, true, &[8080]);
        leads(json!(80), &of_before, false, &[80]);
    }
}
