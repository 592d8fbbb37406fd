//! Through the API: replicas, services, the guestbook of 2014, stock kubectl.

use crate::Test;
use crate::bed::{AGENT, Bed, MASTER, place, run};
use crate::images::BUSYBOX;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::process::Command;
use std::time::Duration;

pub const TESTS: &[Test] = &[
    ("cluster_replicas_come_back", replicas_come_back),
    ("cluster_service_balances", service_balances),
    ("cluster_pod_reaches_itself", pod_reaches_itself),
    ("cluster_service_without_endpoints_rejects", service_without_endpoints_rejects),
    ("cluster_logs", logs),
    ("cluster_debugging", debugging),
    ("cluster_delete_is_graceful", delete_is_graceful),
    ("cluster_static_pod_has_a_mirror", static_pod_has_a_mirror),
    ("cluster_guestbook_of_2014", guestbook_of_2014),
    ("cluster_stock_kubectl", stock_kubectl),
];

/// Replicas that say their own name.
fn web(replicas: u64) -> String {
    let command = ["sh", "-c", "mkdir /www; hostname > /www/index.html; httpd -f -p 8080 -h /www"];
    let container =
        json!({"name": "web", "image": BUSYBOX, "command": command, "ports": [{"name": "www", "containerPort": 8080}]});
    let manifest =
        json!({"version": "v1beta1", "id": "web", "containers": [container], "terminationGracePeriodSeconds": 1});
    let template = json!({"desiredState": {"manifest": manifest}, "labels": {"name": "web"}});
    let desired = json!({"replicas": replicas, "replicaSelector": {"name": "web"}, "podTemplate": template});
    json!({"kind": "ReplicationController", "apiVersion": "v1beta1", "id": "web", "desiredState": desired}).to_string()
}

fn service(port: u64, to: Value) -> String {
    json!({
        "kind": "Service", "apiVersion": "v1beta1", "id": "web", "port": port, "containerPort": to,
        "selector": {"name": "web"},
    })
    .to_string()
}

fn ready_pods(bed: &Bed, selector: &str) -> Vec<Value> {
    let list = bed.get(&format!("/api/v1/namespaces/default/pods?labelSelector={selector}"));
    let ready = |pod: &Value| {
        pod["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    };
    list["items"]
        .as_array()
        .cloned()
        .unwrap_or_default()
        .into_iter()
        .filter(|p| ready(p) && p["metadata"]["deletionTimestamp"].is_null())
        .collect()
}

fn replicas_come_back(bed: &mut Bed) {
    bed.start();
    bed.post("/api/v1beta1/replicationControllers", &web(3));
    let pods = bed.until("three are ready", |bed| Some(ready_pods(bed, "name%3Dweb")).filter(|pods| pods.len() == 3));
    let lost = pods[0]["metadata"]["name"].as_str().expect("a name").to_owned();
    let (code, _) = bed.send("DELETE", &format!("/api/v1beta1/pods/{lost}"), "");
    assert_eq!(code, 200);
    bed.until("three are ready again, the lost one not among them", |bed| {
        let names: Vec<Value> = ready_pods(bed, "name%3Dweb").iter().map(|p| p["metadata"]["name"].clone()).collect();
        (names.len() == 3 && !names.contains(&lost.clone().into())).then_some(())
    });
    // Fewer, as kubecfg does it: GET, PUT.
    let mut controller = bed.get("/api/v1beta1/replicationControllers/web");
    controller["desiredState"]["replicas"] = 1.into();
    let (code, answer) = bed.send("PUT", "/api/v1beta1/replicationControllers/web", &controller.to_string());
    assert_eq!(code, 200, "{answer}");
    bed.until("one runs", |bed| (bed.running_of("web").len() == 1).then_some(()));
    let (_, list) = bed.send("GET", "/api/v1beta1/replicationControllers/web", "");
    bed.until("and is counted", |bed| {
        (bed.get("/api/v1beta1/replicationControllers/web")["currentState"]["replicas"] == 1).then_some(())
    });
    assert_eq!(list["desiredState"]["replicas"], 1);
}

fn portal(bed: &Bed) -> String {
    bed.get("/api/v1beta1/services/web")["portalIP"].as_str().expect("an address with the POST").to_owned()
}

/// What fetches a page inside a container; Debian's static busybox has a wget that crashes.
fn page(address: &str) -> String {
    format!("printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 {address} 80 | tail -n 1")
}

fn service_balances(bed: &mut Bed) {
    bed.start();
    bed.post("/api/v1beta1/replicationControllers", &web(2));
    bed.post("/api/v1beta1/services", &service(80, "www".into()));
    let address = portal(bed);
    bed.until("both answer in turn, from the host", |bed| {
        let names: BTreeSet<String> = (0..20).filter_map(|_| bed.try_get(&format!("http://{address}/")).ok()).collect();
        (names.len() == 2).then_some(())
    });
    let client = bed.docker(&["run", "-d", "--network", &bed.pod_network(), BUSYBOX, "sleep", "3600"]);
    let ask = page(&address);
    bed.until("and from a container on the pods' network", |bed| {
        let names = (0..20).filter_map(|_| bed.exec(client.trim(), &ask).ok());
        let names: BTreeSet<String> = names.filter(|name| name.starts_with("web-")).collect();
        (names.len() == 2).then_some(())
    });
    // A pod that starts now is told of the service.
    bed.post(
        "/api/v1beta1/pods",
        &json!({"kind": "Pod", "apiVersion": "v1beta1", "id": "told",
            "desiredState": {"manifest": {"version": "v1beta1",
        "containers": [{"name": "told", "image": BUSYBOX, "command": ["sleep", "3600"]}]}}})
        .to_string(),
    );
    let container = bed.until("it runs", |bed| bed.running_of("told").pop());
    assert_eq!(
        bed.exec(&container, "echo $WEB_SERVICE_HOST $WEB_SERVICE_PORT $WEB_PORT_80_TCP").as_deref(),
        Ok(format!("{address} 80 tcp://{address}:80\n").as_str())
    );
}

fn pod_reaches_itself(bed: &mut Bed) {
    bed.start();
    bed.post("/api/v1beta1/replicationControllers", &web(1));
    bed.post("/api/v1beta1/services", &service(80, 8080.into()));
    let address = portal(bed);
    let id = bed.until("it runs", |bed| bed.running_of("web").pop());
    bed.until("it reaches itself through its service", |bed| {
        bed.exec(&id, &page(&address)).ok().filter(|text| text.starts_with("web-"))
    });
}

fn service_without_endpoints_rejects(bed: &mut Bed) {
    bed.start();
    // The way to service addresses leads over the bridge of the pods, which comes with the first of them.
    let other = json!({"containers": [{"name": "other", "image": BUSYBOX, "command": ["sleep", "3600"]}]});
    bed.post("/api/v1/namespaces/default/pods", &json!({"metadata": {"name": "other"}, "spec": other}).to_string());
    bed.until("a pod runs", |bed| bed.running_of("other").pop());
    bed.post("/api/v1beta1/services", &service(80, 8080.into()));
    let address = portal(bed);
    let address = (address.as_str(), 80).to_socket_addrs().expect("an address").next().expect("one");
    bed.until("it is refused, not swallowed", |_| {
        let error = TcpStream::connect_timeout(&address, Duration::from_secs(2)).err()?;
        (error.kind() == ErrorKind::ConnectionRefused).then_some(())
    });
}

fn logs(bed: &mut Bed) {
    bed.start();
    let spec = json!({
        "containers": [{"name": "c", "image": BUSYBOX, "command": ["sh", "-c", "echo one; echo two; sleep 3600"]}],
    });
    bed.post("/api/v1/namespaces/default/pods", &json!({"metadata": {"name": "talks"}, "spec": spec}).to_string());
    let url = format!("http://{MASTER}/api/v1/namespaces/default/pods/talks/log");
    bed.until("the log is there", |bed| bed.try_get(&url).ok().filter(|text| text == "one\ntwo\n"));
    assert_eq!(bed.try_get(&format!("{url}?tailLines=1")).as_deref(), Ok("two\n"));
    let kubectl = run(Command::new("kubectl").args(["-s", &format!("http://{MASTER}"), "logs", "talks"]));
    assert_eq!(kubectl.as_deref(), Ok("one\ntwo\n"));

    // Of the agent itself: root is answered on its socket, nobody else, and nobody on its port.
    assert_eq!(bed.ask_agent("/containerLogs/default/talks/c").as_deref(), Ok("one\ntwo\n"));
    for path in ["/pods", "/containerLogs/default/talks/c"] {
        let refused = bed.try_get(&format!("http://{AGENT}{path}")).expect_err("the port has none of it");
        assert!(refused.contains("404"), "{refused}");
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-sS", "-m", "5", "--unix-socket"]);
        run(nobody.arg(bed.path("sockets/n1.sock")).arg(format!("http://localhost{path}"))).expect_err("he is nobody");
    }
    // How curl names a connection that is closed at once depends on the moment; the agent says that he reached the
    // socket.
    bed.until("he reached the socket, and was not heard", |bed| {
        bed.log("agent").contains("closed a connection of user 65534").then_some(())
    });
    assert_eq!(bed.health(AGENT), (200, "ok".to_owned()));
}

/// A container that is put into a pod that runs sees another's processes, starts once, and the pod does not notice.
fn debugging(bed: &mut Bed) {
    bed.start();
    let spec = json!({"containers": [{"name": "c", "image": BUSYBOX, "command": ["sleep", "3601"]}]});
    bed.post("/api/v1/namespaces/default/pods", &json!({"metadata": {"name": "watched"}, "spec": spec}).to_string());
    let id = bed.until("it runs", |bed| bed.running_of("c").pop());
    let kubectl = |arguments: &[&str]| {
        let said = run(Command::new("kubectl")
            .args(["-s", &format!("http://{MASTER}"), "--cache-dir", &cache()])
            .args(arguments));
        said.unwrap_or_else(|e| panic!("kubectl {arguments:?}: {e}"))
    };
    let look = |bed: &Bed, name: &str| {
        let image = format!("--image={BUSYBOX}");
        kubectl(&[
            "debug",
            "watched",
            "--attach=false",
            "--target=c",
            &image,
            "-c",
            name,
            "--",
            "sh",
            "-c",
            "ps; exit 3",
        ]);
        bed.until("it has ended", |bed| {
            let pod = bed.get("/api/v1/namespaces/default/pods/watched");
            let states = pod["status"]["ephemeralContainerStatuses"].as_array().cloned().unwrap_or_default();
            states.into_iter().find(|state| state["name"] == name && state["state"]["terminated"]["exitCode"] == 3)
        });
        assert!(kubectl(&["logs", "watched", "-c", name]).contains("sleep 3601"), "it saw the other's process");
    };
    look(bed, "first");
    bed.kill_agent();
    bed.start_agent();
    // When this one has ended the agent has looked at the first again.
    look(bed, "second");
    let started = bed.docker(&["ps", "-aq", "--filter", "label=io.kubernetes.container.name=first"]);
    assert_eq!(started.lines().count(), 1, "it was started once");
    assert_eq!(bed.running_of("c"), [id], "and the pod's own container is the one that it was");
}

fn delete_is_graceful(bed: &mut Bed) {
    bed.start();
    let slow = "trap 'echo asked; sleep 1; echo done; exit 0' TERM; echo up; while true; do sleep 0.1; done";
    let spec = json!({
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "slow", "image": BUSYBOX, "command": ["sh", "-c", slow]}],
    });
    bed.post("/api/v1/namespaces/default/pods", &json!({"metadata": {"name": "slow"}, "spec": spec}).to_string());
    let id = bed.until("it runs", |bed| bed.running_of("slow").pop());
    bed.until("it is up", |bed| bed.docker(&["logs", &id]).contains("up").then_some(()));
    let (code, answer) = bed.send("DELETE", "/api/v1/namespaces/default/pods/slow", "");
    assert_eq!(code, 200);
    assert!(answer["metadata"]["deletionTimestamp"].is_string(), "{answer}");
    bed.until("it is gone", |bed| (bed.send("GET", "/api/v1/namespaces/default/pods/slow", "").0 == 404).then_some(()));
    bed.until("its containers too", |bed| bed.docker(&["ps", "-aq"]).trim().is_empty().then_some(()));
}

fn static_pod_has_a_mirror(bed: &mut Bed) {
    bed.start();
    bed.drop_manifest(
        "static",
        &format!(
            "version: v1beta2\nid: static\ncontainers: [{{name: static, image: '{BUSYBOX}', command: [sleep, \
             '3600']}}]\n"
        ),
    );
    bed.until("the master shows it", |bed| {
        let pod = bed.send("GET", "/api/v1/namespaces/default/pods/static-n1", "").1;
        (pod["status"]["phase"] == "Running").then_some(())
    });
    let id = bed.running_of("static");
    assert_eq!(bed.send("DELETE", "/api/v1/namespaces/default/pods/static-n1", "").0, 200);
    bed.until("the mirror is back", |bed| {
        (bed.send("GET", "/api/v1/namespaces/default/pods/static-n1", "").1["status"]["phase"] == "Running")
            .then_some(())
    });
    assert_eq!(bed.running_of("static"), id, "and the container untouched");
    bed.remove_manifest("static");
    bed.until("the mirror goes with the file", |bed| {
        (bed.send("GET", "/api/v1/namespaces/default/pods/static-n1", "").0 == 404).then_some(())
    });
}

/// The files of October 2014, as they stand. One host has each host port once: one frontend, the master, one slave.
fn guestbook_of_2014(bed: &mut Bed) {
    bed.start();
    for (file, resource) in [
        ("redis-master", "pods"),
        ("redis-master-service", "services"),
        ("redis-slave-controller", "replicationControllers"),
        ("redis-slave-service", "services"),
        ("frontend-controller", "replicationControllers"),
        ("frontend-service", "services"),
    ] {
        let path = format!("{}/data/v1beta1/examples/guestbook/{file}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        bed.post(&format!("/api/v1beta1/{resource}"), &text);
    }
    let running = |bed: &Bed, name: &str| ready_pods(bed, &format!("name%3D{name}")).len();
    bed.until("one frontend, the master and one slave run", |bed| {
        ["frontend", "redis-master", "redisslave"].iter().all(|name| running(bed, name) == 1).then_some(())
    });
    bed.until("two frontends and one slave wait for a node whose ports are free", |bed| {
        let list = bed.get("/api/v1/namespaces/default/pods");
        let waiting = |name: &str| {
            let pods =
                list["items"].as_array().into_iter().flatten().filter(|pod| pod["metadata"]["labels"]["name"] == name);
            pods.filter(|p| {
                p["status"]["conditions"].to_string().contains("free ports") && p["spec"]["nodeName"].is_null()
            })
            .count()
        };
        (waiting("frontend") == 2 && waiting("redisslave") == 1).then_some(())
    });
    bed.until("a value is written through the frontend", |bed| {
        bed.try_get("http://127.0.0.1:8000/set?ahoy").ok().filter(|text| text.trim() == "+OK")
    });
    let slave = bed.get("/api/v1beta1/services/redisslave");
    let (address, port) = (slave["portalIP"].as_str().expect("an address"), slave["port"].as_u64().expect("a port"));
    bed.until("and read back through the slave's service address", |_| {
        let ask = format!("printf 'GET message\\r\\n' | busybox nc -w 2 {address} {port}");
        run(Command::new("sh").args(["-c", &ask])).ok().filter(|text| text.contains("ahoy"))
    });
    bed.until("and by the frontend itself", |bed| {
        bed.try_get("http://127.0.0.1:8000/get").ok().filter(|text| text == "ahoy")
    });
}

/// Where kubectl keeps what it has learned of the API.
fn cache() -> String {
    place().join("kubectl").display().to_string()
}

fn stock_kubectl(bed: &mut Bed) {
    bed.start();
    let server = format!("http://{MASTER}");
    let kubectl = |arguments: &str| {
        run(Command::new("kubectl").args(["-s", &server, "--cache-dir", &cache()]).args(arguments.split(' ')))
    };
    let must = |arguments: &str| kubectl(arguments).unwrap_or_else(|e| panic!("kubectl {arguments}: {e}"));
    let file = bed.path("pod.yaml.json");
    let spec = json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": BUSYBOX, "command": ["sleep", "3600"]}],
    });
    std::fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "k", "labels": {"a": "b"}}, "spec": spec})
            .to_string(),
    )
    .expect("a file");
    must(&format!("create --validate=false -f {}", file.display()));
    bed.until("it runs", |_| kubectl("get pod k -o jsonpath={.status.phase}").ok().filter(|phase| phase == "Running"));
    assert!(must("get pods").contains('k'));
    assert!(must("get pods -A -l a=b -o name").contains("pod/k"));
    assert!(must("get nodes -o yaml").contains("n1"));
    let described = must("describe pod k");
    assert!(
        described.contains("Started container") || described.contains("Container started"),
        "events are there: {described}"
    );
    assert!(must("describe node n1").contains("Ready"));
    assert!(must("api-resources").contains("replicationcontrollers"));
    assert!(must("version").contains("Server Version"));
    let watching = run(Command::new("timeout").args(["2", "kubectl", "-s", &server, "get", "pods", "-w"]));
    assert!(watching.unwrap_or_else(|text| text).contains('k'), "a watch shows what is there");
    must("delete pod k");
    assert!(kubectl("get pod k").expect_err("it is gone").contains("NotFound"));
}
