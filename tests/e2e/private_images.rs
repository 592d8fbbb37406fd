//! Private images: a pod starts from the image of another pod's login only if a registry would give it the image.

use crate::Test;
use crate::bed::{Bed, run};
use crate::images::BUSYBOX;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;

pub const TESTS: &[Test] = &[("private_images_stay_private", private_images_stay_private)];

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// `u:p`
const LOGIN: &str = "dTpw";

/// The documents of a registry by path, for whoever has the login.
type Documents = BTreeMap<String, (&'static str, Vec<u8>)>;

fn digest(bed: &Bed, bytes: &[u8]) -> String {
    let path = bed.path("digest");
    fs::write(&path, bytes).expect("a file");
    let said = run(Command::new("sha256sum").arg(&path)).expect("a sum");
    format!("sha256:{}", said.split(' ').next().expect("a digest"))
}

/// A registry with one image, `private/app:1`, of the files of busybox.
fn documents(bed: &Bed) -> Documents {
    let container = bed.docker(&["create", BUSYBOX, "sh"]).trim().to_owned();
    let path = bed.path("layer.tar");
    bed.docker(&["export", "-o", &path.to_string_lossy(), &container]);
    bed.docker(&["rm", &container]);
    let layer = fs::read(&path).expect("a layer");
    let of_layer = digest(bed, &layer);
    let architecture = bed.docker(&["version", "--format", "{{.Server.Arch}}"]).trim().to_owned();
    let config = json!({"architecture": architecture, "os": "linux", "config": {"Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [of_layer]}})
    .to_string();
    let of_config = digest(bed, config.as_bytes());
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": of_config, "size": config.len()},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": of_layer, "size": layer.len()}]})
    .to_string();
    let of_manifest = digest(bed, manifest.as_bytes());
    let blob = |digest: &str| format!("/v2/private/app/blobs/{digest}");
    let blobs = "application/octet-stream";
    [
        ("/v2/".to_owned(), ("application/json", b"{}".to_vec())),
        ("/v2/private/app/manifests/1".to_owned(), (MANIFEST, manifest.clone().into_bytes())),
        (format!("/v2/private/app/manifests/{of_manifest}"), (MANIFEST, manifest.into_bytes())),
        (blob(&of_config), (blobs, config.into_bytes())),
        (blob(&of_layer), (blobs, layer)),
    ]
    .into()
}

/// Serves until the process ends.
fn registry(documents: Documents) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let documents = Arc::new(documents);
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            let documents = documents.clone();
            std::thread::spawn(move || drop(answer(stream, &documents)));
        }
    });
    port
}

fn answer(mut stream: TcpStream, documents: &Documents) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose().ok().flatten().unwrap_or_default();
    let mut knows = false;
    // A client that tries TLS first is told that this is none.
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    for line in lines.map_while(Result::ok).take_while(|line| !line.is_empty()) {
        knows |= line.to_lowercase().starts_with("authorization:") && line.ends_with(LOGIN);
    }
    let (status, kind, body) = match documents.get(path) {
        _ if !matches!(method, "GET" | "HEAD") => ("400 Bad Request", "text/plain", &[][..]),
        _ if !knows => ("401 Unauthorized", "text/plain", &[][..]),
        None => ("404 Not Found", "text/plain", &[][..]),
        Some((kind, body)) => ("200 OK", *kind, body.as_slice()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Docker-Distribution-Api-Version: registry/2.0\r\nWWW-Authenticate: Basic realm=\"r\"\r\n\r\n",
        body.len()
    )?;
    if method == "GET" { stream.write_all(body) } else { Ok(()) }
}

fn secret(bed: &Bed, namespace: &str, name: &str, port: u16) {
    let login = json!({"auths": {format!("127.0.0.1:{port}"): {"auth": LOGIN}}}).to_string();
    let secret = json!({"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": login}});
    bed.post(&format!("/api/v1/namespaces/{namespace}/secrets"), &secret.to_string());
}

fn pod(bed: &Bed, (namespace, name): (&str, &str), (image, policy): (&str, &str), secret: Option<&str>) {
    let secrets: Vec<Value> = secret.iter().map(|name| json!({ "name": name })).collect();
    let spec = json!({"terminationGracePeriodSeconds": 1, "imagePullSecrets": secrets, "containers": [
        {"name": name, "image": image, "imagePullPolicy": policy, "command": ["sleep", "3600"]}]});
    let pod = json!({"metadata": {"name": name}, "spec": spec});
    bed.post(&format!("/api/v1/namespaces/{namespace}/pods"), &pod.to_string());
}

fn waits(bed: &Bed, (namespace, name): (&str, &str), reasons: &[&str]) {
    bed.until(&format!("{name} waits: {reasons:?}"), |bed| {
        let pod = bed.get(&format!("/api/v1/namespaces/{namespace}/pods/{name}"));
        let reason = pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
        reasons.iter().any(|one| reason == **one).then_some(())
    });
    assert_eq!(bed.running_of(name), Vec::<String>::new(), "{name}");
}

fn private_images_stay_private(bed: &mut Bed) {
    let port = registry(documents(bed));
    let image = format!("127.0.0.1:{port}/private/app:1");
    bed.start();
    bed.post("/api/v1/namespaces", &json!({"metadata": {"name": "other"}}).to_string());
    secret(bed, "default", "login", port);
    let runs = |bed: &Bed, name: &str| drop(bed.until(&format!("{name} runs"), |bed| bed.running_of(name).pop()));
    let refused = ["ErrImagePull", "ImagePullBackOff"];
    pod(bed, ("default", "owner"), (&image, "IfNotPresent"), Some("login"));
    runs(bed, "owner");
    pod(bed, ("other", "stranger"), (&image, "IfNotPresent"), None);
    pod(bed, ("other", "always"), (&image, "Always"), None);
    pod(bed, ("other", "never"), (&image, "Never"), None);
    waits(bed, ("other", "stranger"), &refused);
    waits(bed, ("other", "always"), &refused);
    waits(bed, ("other", "never"), &["ErrImageNeverPull"]);
    let id = bed.docker(&["inspect", "-f", "{{.Id}}", &image]).trim().to_owned();
    pod(bed, ("other", "by-id"), (&id, "Never"), None);
    waits(bed, ("other", "by-id"), &["ErrImageNeverPull"]);
    // The next agent knows it, too.
    bed.kill_agent();
    bed.start_agent();
    pod(bed, ("other", "later"), (&image, "Never"), None);
    waits(bed, ("other", "later"), &["ErrImageNeverPull"]);
    pod(bed, ("default", "same-secret"), (&image, "Never"), Some("login"));
    runs(bed, "same-secret");
    secret(bed, "other", "of-their-own", port);
    pod(bed, ("other", "same-login"), (&image, "Never"), Some("of-their-own"));
    runs(bed, "same-login");
    pod(bed, ("other", "public"), (BUSYBOX, "Never"), None);
    runs(bed, "public");
}
