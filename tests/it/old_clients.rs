//! What kubecfg 0.4 and 0.10 and kubectl 0.5 to 0.17 send, request by request, as it was seen on the wire: no header
//! names a type, nothing is discovered, and an object that is put back has lost what its client does not know.

use crate::transcript::{Bed, ask};
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// Nothing here takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fields that came after the client, wherever they stand.
const AFTER_KUBECFG_0_4: &[&str] = &[
    "resources",
    "capabilities",
    "entrypoint",
    "securityContext",
    "dnsPolicy",
    "terminationGracePeriodSeconds",
    "nodeSelector",
    "serviceAccount",
    "terminationMessagePath",
    "Condition",
    "ports",
    "portName",
    "portalIP",
    "sessionAffinity",
    "type",
    "loadBalancerStatus",
    "creationToken",
];
const AFTER_KUBECTL_0_10: &[&str] = &[
    "requests",
    "entrypoint",
    "securityContext",
    "terminationGracePeriodSeconds",
    "serviceAccount",
    "Condition",
    "ports",
    "portName",
    "type",
    "loadBalancerStatus",
    "creationToken",
];

struct Client<'b> {
    bed: &'b Bed,
    /// Appended to every path: `namespace=default`.
    query: &'static str,
    unknown: &'static [&'static str],
}

impl Client<'_> {
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let sign = if path.contains('?') { "&" } else { "?" };
        let path = if self.query.is_empty() { path.to_owned() } else { format!("{path}{sign}{}", self.query) };
        let reply = ask(self.bed.network(), method, &path, &[], body);
        (reply.code, String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// Any 2xx is success to these clients, and whatever comes is decoded.
    fn must(&self, method: &str, path: &str, body: &str) -> Value {
        let (code, text) = self.send(method, path, body);
        assert!((200..300).contains(&code), "{method} {path}: {code} {text}");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}"))
    }

    fn get(&self, path: &str) -> Value {
        self.must("GET", path, "")
    }

    /// As it comes through the types of the client.
    fn read(&self, path: &str) -> Value {
        let mut object = self.get(path);
        forget(&mut object, self.unknown);
        object
    }

    fn put(&self, path: &str, object: &Value) -> Value {
        self.must("PUT", path, &object.to_string())
    }

    fn gone(&self, path: &str) -> bool {
        self.send("GET", path, "").0 == 404
    }

    /// Read, changed, put, as often as it takes: the controllers write, too, and who loses the race reads again, as the
    /// user did by hand. The answer: what was put.
    fn change(&self, path: &str, change: impl Fn(&mut Value)) -> Value {
        let begun = Instant::now();
        loop {
            let mut object = self.read(path);
            change(&mut object);
            match self.send("PUT", path, &object.to_string()) {
                (200, _) => return object,
                (409, _) if begun.elapsed() < PATIENCE => {}
                (code, text) => panic!("PUT {path}: {code} {text}"),
            }
        }
    }

    /// `resize`: read, another number, put.
    fn resize(&self, controller: &str, replicas: u64) {
        let path = format!("/api/v1beta1/replicationControllers/{controller}");
        self.change(&path, |object| object["desiredState"]["replicas"] = json!(replicas));
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn replicas_seen(&self, controller: &str) -> u64 {
        let object = self.get(&format!("/api/v1beta1/replicationControllers/{controller}"));
        object["currentState"]["replicas"].as_u64().unwrap_or_default()
    }

    fn pods_of(&self, label: &str) -> Vec<String> {
        let list = self.get(&format!("/api/v1beta1/pods?labels={label}"));
        assert_eq!(list["kind"], "PodList");
        list["items"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|pod| pod["id"].as_str().expect("an id").to_owned())
            .collect()
    }
}

fn forget(value: &mut Value, unknown: &[&str]) {
    match value {
        Value::Object(map) => {
            // A container's ports came with the first version, a service's list of them later.
            let is_service = map.contains_key("selector") && map.contains_key("port");
            map.retain(|name, _| !unknown.contains(&name.as_str()) || (name == "ports" && !is_service));
            map.values_mut().for_each(|value| forget(value, unknown));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| forget(value, unknown)),
        _ => {}
    }
}

fn example(path: &str) -> String {
    let path = format!("{}/data/v1beta1/examples/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Makes the guestbook, resizes, updates, rolls and takes it away: kubecfg in both its years.
fn kubecfg(client: &Client) {
    assert!(client.get("/version")["gitVersion"].is_string());
    for (resource, file) in [
        ("pods", "redis-master"),
        ("services", "redis-master-service"),
        ("replicationControllers", "redis-slave-controller"),
        ("services", "redis-slave-service"),
        ("replicationControllers", "frontend-controller"),
        ("services", "frontend-service"),
    ] {
        let made =
            client.must("POST", &format!("/api/v1beta1/{resource}"), &example(&format!("guestbook/{file}.json")));
        assert!(made["id"].is_string() && made["kind"].is_string(), "{made}");
    }
    for (resource, kind) in [
        ("pods", "PodList"),
        ("services", "ServiceList"),
        ("replicationControllers", "ReplicationControllerList"),
        ("minions", "MinionList"),
    ] {
        assert_eq!(client.get(&format!("/api/v1beta1/{resource}?labels="))["kind"], kind);
    }
    let of_frontend = "name%3Dfrontend";
    client.resize("frontendController", 2);
    client.until("two frontends", || client.pods_of(of_frontend).len() == 2);

    // update: read, changed, put with the revision that was read; and as it was left, which is stale.
    let pod = client.change("/api/v1beta1/pods/redis-master-2", |pod| pod["labels"]["tier"] = json!("backend"));
    assert_eq!(client.get("/api/v1beta1/pods/redis-master-2")["labels"]["tier"], "backend");
    let (code, status) = client.send("PUT", "/api/v1beta1/pods/redis-master-2", &pod.to_string());
    assert!(code == 409 && status.contains("Conflict"), "a second put of the same is stale: {code} {status}");
    let mut service = client.read("/api/v1beta1/services/frontend");
    service["port"] = json!(8000);
    assert_eq!(client.put("/api/v1beta1/services/frontend", &service)["port"], 8000);

    // rollingupdate: each pod goes, and another comes for it.
    let before = client.pods_of(of_frontend);
    for name in &before {
        client.must("DELETE", &format!("/api/v1beta1/pods/{name}"), "");
    }
    client.until("other frontends", || {
        let now = client.pods_of(of_frontend);
        now.len() == 2 && now.iter().all(|name| !before.contains(name))
    });

    // stop, and rm, which looks first.
    client.resize("frontendController", 0);
    client.until("no frontends", || client.pods_of(of_frontend).is_empty());
    let path = "/api/v1beta1/replicationControllers/frontendController";
    assert_eq!(client.get(path)["desiredState"]["replicas"], 0);
    assert_eq!(client.must("DELETE", path, "")["status"], "Success");
    assert!(client.gone(path));
    for path in ["/api/v1beta1/services/frontend", "/api/v1beta1/pods/redis-master-2"] {
        client.must("DELETE", path, "");
        assert!(client.gone(path), "{path}");
    }
    let (code, status) = client.send("GET", "/api/v1beta1/pods/nope", "");
    let status: Value = serde_json::from_str(&status).expect("a Status");
    assert_eq!(
        (code, &status["message"], &status["details"]["id"]),
        (404, &json!("pods \"nope\" not found"), &json!("nope"))
    );
}

#[test]
fn kubecfg_0_4() {
    let bed = Bed::new();
    kubecfg(&Client { bed: &bed, query: "", unknown: AFTER_KUBECFG_0_4 });
}

#[test]
fn kubecfg_0_10() {
    let bed = Bed::new();
    kubecfg(&Client { bed: &bed, query: "namespace=default", unknown: AFTER_KUBECTL_0_10 });
}

/// Writes that may take their time were asked for so.
#[test]
fn kubecfg_waits_for_its_writes() {
    let bed = Bed::new();
    let client = Client { bed: &bed, query: "", unknown: AFTER_KUBECFG_0_4 };
    let pod = example("api/pod.json");
    client.must("POST", "/api/v1beta1/pods?sync=true&timeout=20s", &pod);
    let id = serde_json::from_str::<Value>(&pod).expect("JSON")["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        client.must("DELETE", &format!("/api/v1beta1/pods/{id}?sync=true&timeout=abc"), "")["status"],
        "Success"
    );
    let operations = client.get("/api/v1beta1/operations");
    assert_eq!((&operations["kind"], &operations["items"]), (&json!("ServerOpList"), &json!([])));
    assert_eq!(client.get("/api/v1beta1/operations/3")["status"], "Success");
}

#[test]
fn kubectl_0_5_to_0_13() {
    let bed = Bed::new();
    let client = Client { bed: &bed, query: "namespace=default", unknown: AFTER_KUBECTL_0_10 };
    // create -f, of either language: the file goes as it is.
    let controller = "kind: ReplicationController\napiVersion: v1beta1\nid: web\nlabels: {name: web}\n\
                      desiredState:\n  replicas: 2\n  replicaSelector: {name: web}\n  podTemplate:\n    \
                      desiredState:\n      manifest:\n        version: v1beta1\n        id: web\n        \
                      containers:\n        - {name: c, image: i}\n    labels: {name: web}\n";
    client.must("POST", "/api/v1beta1/replicationControllers", controller);
    client.until("two of them", || client.pods_of("name%3Dweb").len() == 2 && client.replicas_seen("web") == 2);
    assert_eq!(client.get("/api/v1beta1/pods?labels=")["kind"], "PodList");
    let name = client.pods_of("name%3Dweb").remove(0);

    // describe: the pod, its controllers, its events.
    let pod = client.get(&format!("/api/v1beta1/pods/{name}"));
    assert_eq!(pod["currentState"]["status"], "Waiting");
    client.get("/api/v1beta1/replicationControllers?labels=");
    let involved =
        format!("involvedObject.name%3D{name}%2CinvolvedObject.namespace%3Ddefault%2CinvolvedObject.kind%3DPod");
    let uid = pod["uid"].as_str().expect("a uid");
    let events = client.get(&format!("/api/v1beta1/events?fields={involved}%2CinvolvedObject.uid%3D{uid}"));
    assert_eq!(events["kind"], "EventList");

    // resize --current-replicas, and stop: down to none, seen, then gone.
    client.resize("web", 1);
    client.until("one of them", || client.replicas_seen("web") == 1);
    // rollingupdate keeps its place in annotations, and asks without a namespace.
    let bare = Client { query: "", ..client };
    bare.change("/api/v1beta1/replicationControllers/web", |object| {
        object["annotations"] = json!({"kubernetes.io/desired-replicas": "1", "web-v2/update-partner": "web"});
    });
    assert_eq!(
        bare.get("/api/v1beta1/replicationControllers/web")["annotations"]["kubernetes.io/desired-replicas"],
        "1"
    );
    bare.resize("web", 0);
    bare.until("none of them", || bare.replicas_seen("web") == 0);
    let client = Client { query: "namespace=default", ..bare };
    client.must("DELETE", "/api/v1beta1/replicationControllers/web", "");
    assert!(client.gone("/api/v1beta1/replicationControllers/web"));

    // A watch, as `get -w`.
    let (code, text) = client.send("GET", "/api/v1beta1/watch/services?labels=&resourceVersion=0&timeoutSeconds=1", "");
    assert_eq!(code, 200, "{text}");
}

#[test]
fn kubectl_0_16_and_0_17() {
    let bed = Bed::new();
    let client = Client { bed: &bed, query: "", unknown: &[] };
    let versions = client.get("/api");
    for version in ["v1beta1", "v1beta2", "v1beta3"] {
        assert!(versions["versions"].as_array().expect("a list").contains(&json!(version)), "{versions}");
    }
    assert_eq!(client.get("/api/v1beta1/namespaces")["kind"], "NamespaceList");
    let client = Client { query: "namespace=default", ..client };
    client.must(
        "POST",
        "/api/v1beta1/pods",
        &json!({"kind": "Pod", "apiVersion": "v1beta1", "id": "web",
        "labels": {"name": "web"},
        "desiredState": {"manifest": {"version": "v1beta2",
            "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}}})
        .to_string(),
    );
    // expose: a service of the labels of what is exposed.
    let service = json!({"kind": "Service", "apiVersion": "v1beta1", "id": "web", "port": 80, "portName": "",
        "protocol": "TCP", "containerPort": 80, "selector": {"name": "web"},
        "ports": [{"name": "", "protocol": "TCP", "port": 80, "containerPort": 80}]});
    assert!(client.must("POST", "/api/v1beta1/services", &service.to_string())["portalIP"].is_string());
    // label: read and put, as often as it takes.
    client.change("/api/v1beta1/pods/web", |pod| pod["labels"]["new"] = json!("label"));
    // patch, which came with 0.17.
    let patch = json!({"desiredState": {"manifest": {"containers": [{"name": "c", "image": "j"}]}}}).to_string();
    let header = [("Content-Type".to_owned(), "application/strategic-merge-patch+json".to_owned())];
    let reply = ask(bed.network(), "PATCH", "/api/v1beta1/pods/web?namespace=default", &header, &patch);
    let pod: Value = serde_json::from_slice(&reply.body).expect("JSON");
    let container = &pod["desiredState"]["manifest"]["containers"][0];
    assert_eq!(
        (reply.code, &container["image"], &container["ports"][0]["containerPort"]),
        (200, &json!("j"), &json!(80)),
        "{pod}"
    );

    // The same with --api-version=v1beta3.
    let client = Client { query: "", ..client };
    let base = "/api/v1beta3/namespaces/default";
    let pod = client.get(&format!("{base}/pods/web"));
    assert_eq!(
        (&pod["metadata"]["labels"]["new"], &pod["spec"]["containers"][0]["image"]),
        (&json!("label"), &json!("j"))
    );
    client.change(&format!("{base}/pods/web"), |pod| pod["metadata"]["labels"]["new"] = json!("other"));
    assert_eq!(client.get(&format!("{base}/pods?labelSelector=new%3Dother"))["items"][0]["metadata"]["name"], "web");
    assert_eq!(client.get(&format!("{base}/services/web"))["spec"]["ports"][0]["targetPort"], 80);
    client.must("DELETE", &format!("{base}/services/web"), "");
    client.must("DELETE", &format!("{base}/pods/web"), "");
    assert!(client.gone(&format!("{base}/services/web")));
}
