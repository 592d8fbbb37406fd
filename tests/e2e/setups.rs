//! What people run at home and beside machines, applied as they publish it: `tests/data/setups`, on images of busybox
//! under their names.

use crate::Test;
use crate::bed::Bed;
use crate::images::stand_in;
use crate::kubectl::newest;
use std::fs;
use std::path::Path;

pub const TESTS: &[Test] = &[("setups_of_homes_and_factories", setups)];

/// Each serves a page at the port of what it stands for.
const IMAGES: &[(&str, u16)] = &[
    ("busybox:1.36", 80),
    ("dperson/samba:latest", 445),
    ("eclipse-mosquitto:2.0", 1883),
    ("ghcr.io/home-assistant/home-assistant:2026.7", 8123),
    ("grafana/grafana:11.1.0", 3000),
    ("jellyfin/jellyfin:10.9", 8096),
    ("nextcloud:29", 80),
    ("nodered/node-red:4.0", 1880),
    ("pihole/pihole:2026.07.2", 80),
    ("postgres:16-alpine", 5432),
    ("prom/prometheus:v3.1.0", 9090),
    ("quay.io/prometheus/node-exporter:v1.8.2", 9100),
    ("redis:7", 6379),
    ("restic/restic:0.17.0", 80),
];
/// What one application calls the others.
const NAMES: &[&str] = &[
    "mosquitto:1883",
    "mosquitto.default:1883",
    "home-assistant:8123",
    "grafana.default.svc.cluster.local:3000",
    "prometheus-0.prometheus:9090",
    "node-exporter:9100",
    "node-red:1880",
    "pihole:80",
    "postgres-0.postgres.default.svc:5432",
    "redis:6379",
    "jellyfin:8096",
];

/// The manifests with a folder of this bed for what somebody has made by hand.
fn manifests(bed: &Bed) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/setups");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("the setups").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    let texts: Vec<String> = files.iter().map(|path| fs::read_to_string(path).expect("a setup")).collect();
    texts.join("---\n").replace("path: MEDIA", &format!("path: {}", bed.path("media").display()))
}

/// The pods that are not yet what they are to become.
fn waiting(bed: &Bed) -> Vec<String> {
    let list = bed.get("/api/v1/namespaces/default/pods");
    let done = |pod: &serde_json::Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        pod["status"]["phase"] == "Succeeded"
            || conditions.clone().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    let pods = list["items"].as_array().into_iter().flatten().filter(|pod| !done(pod));
    pods.map(|pod| format!("{}: {}", pod["metadata"]["name"], pod["status"])).collect()
}

fn count(bed: &Bed, path: &str) -> usize {
    bed.get(path)["items"].as_array().map_or(0, Vec::len)
}

fn setups(bed: &mut Bed) {
    for (image, port) in IMAGES {
        stand_in(bed.engine, image, *port).expect("an image");
    }
    bed.start();
    let all = bed.path("setups.yaml");
    fs::write(&all, manifests(bed)).expect("one file of all");
    let all = all.display().to_string();
    let client = newest();
    client.must(&["apply", "-f", &all]);
    client.must(&["create", "job", "backup-once", "--from=cronjob/backup"]);
    // Twelve pods that stay, and two that end.
    bed.until("all run", |bed| {
        (count(bed, "/api/v1/namespaces/default/pods") >= 14 && waiting(bed).is_empty()).then_some(())
    });
    for name in NAMES {
        let page = format!("http://{name}/");
        let command = ["exec", "deploy/nextcloud", "-c", "nextcloud", "--", "wget", "-q", "-O", "-", &page];
        // Rules follow a pod that has become ready.
        bed.until(name, |_| (client.run(&command, b"").text() == "hello\n").then_some(()));
    }
    let read = |pod: &str, command: &str| client.must(&["exec", pod, "--", "sh", "-c", command]);
    assert_eq!(read("deploy/mosquitto", "head -n 1 /mosquitto/config/mosquitto.conf"), "listener 1883\n");
    assert_eq!(read("deploy/mosquitto", "touch /mosquitto/data/kept; stat -c %g /mosquitto/data/kept"), "1883\n");
    assert_eq!(
        read("deploy/grafana", "echo $GF_SECURITY_ADMIN_PASSWORD $GF_SERVER_ROOT_URL"),
        "secret http://grafana.home\n"
    );
    assert_eq!(read("deploy/node-red", "head -c 3 /dev/ttyUSB0 | wc -c; echo $MEMORY_MB"), "3\n128\n");
    assert_eq!(
        read("deploy/pihole", "grep -c nas.home /etc/hosts; head -n 1 /etc/resolv.conf"),
        "1\nnameserver 127.0.0.1\n"
    );
    assert_eq!(read("postgres-0", "stat -c '%u %a' $PGDATA"), "999 700\n");
    assert_eq!(read("deploy/jellyfin", "cat /media/new"), "shared\n");
    assert_eq!(fs::read_to_string(bed.path("media/new")).expect("what samba wrote"), "shared\n");
    // The same again changes nothing; kubectl sends stringData and templates of claims each time.
    let again = client.must(&["apply", "-f", &all]);
    let sent = |line: &&str| {
        !line.ends_with("unchanged") && !line.starts_with("secret/") && !line.starts_with("statefulset.apps/")
    };
    assert_eq!(again.lines().filter(sent).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(waiting(bed), [""; 0], "nothing was made anew");
    // The old one is gone before the new one comes, and both use the same claim and Secret.
    client.must(&["rollout", "restart", "deploy/node-red", "deploy/mosquitto", "statefulset/postgres"]);
    for one in ["deploy/node-red", "deploy/mosquitto", "statefulset/postgres"] {
        client.must(&["rollout", "status", one, "--timeout=60s"]);
    }
    assert_eq!(read("deploy/mosquitto", "ls /mosquitto/data"), "kept\n");
    assert_eq!(read("deploy/node-red", "cat /data/saved"), "saved\n", "the hook before its stop");
    client.must(&["delete", "job/backup-once"]);
    client.must(&["delete", "--wait=false", "--grace-period=1", "-f", &all]);
    bed.until("no pod is left", |bed| (count(bed, "/api/v1/namespaces/default/pods") == 0).then_some(()));
}
