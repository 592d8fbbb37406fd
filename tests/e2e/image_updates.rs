//! Images that follow: archives that come, newer images, updates and their way back. A registry stands in, whose tag
//! moves and which can be out of reach.

use crate::Test;
use crate::bed::{Bed, run};
use crate::images::BUSYBOX;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

pub const TESTS: &[Test] = &[
    ("images_archives_are_noticed", archives_are_noticed),
    ("images_update_and_way_back", update_and_way_back),
    ("images_update_outlives_the_agent", update_outlives_the_agent),
    ("images_sandboxes_heal", sandboxes_heal),
];

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const RUNS: &str = "trap 'exit 0' TERM; while true; do sleep 0.1; done";
const FAILS: &str = "echo broken; exit 3";

/// The documents of a registry by path. Empty: it is out of reach.
type Documents = BTreeMap<String, (&'static str, Vec<u8>)>;

struct Registry {
    port: u16,
    documents: Arc<Mutex<Documents>>,
    layer: Vec<u8>,
}

impl Registry {
    /// Serves until the process ends. It has no image yet.
    fn start(bed: &Bed) -> Registry {
        let container = bed.docker(&["create", BUSYBOX, "sh"]).trim().to_owned();
        let path = bed.path("layer.tar");
        bed.docker(&["export", "-o", &path.to_string_lossy(), &container]);
        bed.docker(&["rm", &container]);
        let layer = fs::read(&path).expect("a layer");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let documents: Arc<Mutex<Documents>> = Arc::default();
        let served = documents.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let documents = served.lock().expect("nobody fails with it").clone();
                std::thread::spawn(move || drop(answer(stream, &documents)));
            }
        });
        Registry { port, documents, layer }
    }

    fn image(&self) -> String {
        format!("127.0.0.1:{}/shop/app:1", self.port)
    }

    /// Moves the tag to an image with this command. The digest of its manifest.
    fn push(&self, bed: &Bed, version: &str, command: &str) -> String {
        let of_layer = digest(bed, &self.layer);
        let architecture = bed.docker(&["version", "--format", "{{.Server.Arch}}"]).trim().to_owned();
        let config = json!({"architecture": architecture, "os": "linux",
            "config": {"Env": ["PATH=/bin", format!("VERSION={version}")], "Cmd": ["sh", "-c", command]},
            "rootfs": {"type": "layers", "diff_ids": [of_layer]}})
        .to_string();
        let of_config = digest(bed, config.as_bytes());
        let layer_type = "application/vnd.oci.image.layer.v1.tar";
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": of_config,
                "size": config.len()},
            "layers": [{"mediaType": layer_type, "digest": of_layer, "size": self.layer.len()}]})
        .to_string();
        let of_manifest = digest(bed, manifest.as_bytes());
        let blob = |digest: &str| format!("/v2/shop/app/blobs/{digest}");
        let blobs = "application/octet-stream";
        let mut documents = self.documents.lock().expect("nobody fails with it");
        documents.extend([
            ("/v2/".to_owned(), ("application/json", b"{}".to_vec())),
            ("/v2/shop/app/manifests/1".to_owned(), (MANIFEST, manifest.clone().into_bytes())),
            (format!("/v2/shop/app/manifests/{of_manifest}"), (MANIFEST, manifest.into_bytes())),
            (blob(&of_config), (blobs, config.into_bytes())),
            (blob(&of_layer), (blobs, self.layer.clone())),
        ]);
        of_manifest
    }

    fn end(&self) {
        self.documents.lock().expect("nobody fails with it").clear();
    }
}

fn digest(bed: &Bed, bytes: &[u8]) -> String {
    let path = bed.path("digest");
    fs::write(&path, bytes).expect("a file");
    let said = run(Command::new("sha256sum").arg(&path)).expect("a sum");
    format!("sha256:{}", said.split(' ').next().expect("a digest"))
}

fn answer(mut stream: TcpStream, documents: &Documents) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().transpose().ok().flatten().unwrap_or_default();
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
    let (status, kind, body) = match documents.get(path) {
        // A client that tries TLS first is told that this is none.
        _ if !matches!(method, "GET" | "HEAD") => ("400 Bad Request", "text/plain", &[][..]),
        None => ("503 Service Unavailable", "text/plain", &[][..]),
        Some((kind, body)) => ("200 OK", *kind, body.as_slice()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Docker-Distribution-Api-Version: registry/2.0\r\n\r\n",
        body.len()
    )?;
    if method == "GET" { stream.write_all(body) } else { Ok(()) }
}

fn pod(name: &str, image: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 1,
        "initContainers": [{"name": "i", "image": BUSYBOX, "command": ["sh", "-c", "date +%s%N >> /v/starts"],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "containers": [{"name": name, "image": image, "imagePullPolicy": "IfNotPresent",
            "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}]}})
}

/// The value of VERSION in the one container that runs and is ready.
fn version(bed: &Bed, name: &str) -> Option<String> {
    let [id] = bed.running_of(name).try_into().ok()?;
    bed.ready(name).filter(|ready| *ready)?;
    Some(bed.exec(&id, "echo $VERSION").ok()?.trim().to_owned())
}

fn runs(bed: &Bed, name: &str, expected: &str) {
    bed.until(&format!("{name} runs {expected}"), |bed| (version(bed, name)? == expected).then_some(()));
}

/// What `images` says of a container, which has the name of its pod.
fn newer(bed: &Bed, name: &str) -> String {
    let said = bed.ask_program(&["images"], b"");
    assert_eq!(said.code, 0, "{said:?}");
    let text = said.text();
    let own = |line: &&str| line.split_whitespace().any(|word| word == name);
    text.lines().find(own).unwrap_or_else(|| panic!("{text}")).to_owned()
}

fn gone(bed: &Bed, name: &str) {
    bed.remove_manifest(name);
    bed.until("it is gone", |bed| bed.docker(&["ps", "-aq"]).trim().is_empty().then_some(()));
}

/// An archive of an image of this version; the image itself is taken away.
fn archive(bed: &Bed, version: &str) -> Vec<u8> {
    const ARCHIVED: &str = "coracle/follows:1";
    let changes = [format!("ENV VERSION={version} PATH=/bin"), format!("CMD [\"sh\", \"-c\", \"{RUNS}\"]")];
    crate::images::busybox_with(bed.engine, ARCHIVED, &changes).expect("an image");
    let path = bed.path("whole.tar");
    bed.docker(&["save", "-o", &path.display().to_string(), ARCHIVED]);
    bed.docker(&["image", "rm", "-f", ARCHIVED]);
    fs::read(path).expect("an archive")
}

fn archives_are_noticed(bed: &mut Bed) {
    // The folder appears while the agent runs, as with a USB stick.
    let folder = bed.path("stick/images");
    let (first, second) = (archive(bed, "one"), archive(bed, "two"));
    bed.start_agent_with(&["--images-dir", &folder.display().to_string()]);
    let mut pod = pod("s", "coracle/follows:1");
    pod["spec"]["containers"][0]["imagePullPolicy"] = "Never".into();
    bed.drop_manifest("s", &pod.to_string());
    bed.until("it waits for its image", |bed| {
        let shown = bed.pod_like("s")?["status"]["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
        (shown == "ErrImageNeverPull").then_some(())
    });
    fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("follows.tar");
    let mut file = File::create(&path).expect("an archive");
    let (half, rest) = first.split_at(first.len() / 2);
    file.write_all(half).expect("half an archive");
    file.sync_all().expect("half an archive");
    // A whole one beside it shows that the agent has looked.
    let other = folder.join("other.tar");
    fs::write(&other, "no archive").expect("a file");
    bed.until("it has looked", |bed| bed.log("agent").contains("other.tar").then_some(()));
    assert!(!bed.log("agent").contains("follows.tar"), "half an archive is not read\n{}", bed.log("agent"));
    fs::remove_file(&other).expect("it is there");
    file.write_all(rest).expect("an archive");
    drop(file);
    runs(bed, "s", "one");
    assert!(newer(bed, "s").contains("the newest of this host"), "{}", newer(bed, "s"));
    // New content under the same tag.
    fs::write(bed.path("new.tar"), &second).expect("an archive");
    fs::rename(bed.path("new.tar"), &path).expect("an archive");
    bed.until("it is known as newer", |bed| newer(bed, "s").contains("newer in follows.tar").then_some(()));
    assert_eq!(version(bed, "s").as_deref(), Some("one"), "nobody asked for an update");
    let said = bed.ask_program(&["update", "s"], b"");
    assert_eq!(said.code, 0, "{said:?}");
    runs(bed, "s", "two");
    // Its image is taken away with its containers: the archive is loaded again, also where no registry may be asked.
    let all: Vec<String> = bed.docker(&["ps", "-aq"]).split_whitespace().map(str::to_owned).collect();
    bed.docker(&[&["rm", "-f"][..], &all.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    let _ = bed.engine.docker(&["image", "rm", "-f", "coracle/follows:1"]);
    runs(bed, "s", "two");
    gone(bed, "s");
    bed.docker(&["image", "rm", "-f", "coracle/follows:1"]);
}

fn update_and_way_back(bed: &mut Bed) {
    let registry = Registry::start(bed);
    let first = registry.push(bed, "one", RUNS);
    bed.start_agent_with(&[]);
    bed.drop_manifest("app", &pod("app", &registry.image()).to_string());
    runs(bed, "app", "one");
    assert!(newer(bed, "app").ends_with("the newest") && newer(bed, "app").contains(&first[..19]));
    let said = bed.ask_program(&["update", "app"], b"");
    assert!(said.code == 0 && said.text().contains("no newer image"), "{said:?}");

    let second = registry.push(bed, "two", RUNS);
    assert!(
        newer(bed, "app").contains(&format!("newer in the registry ({})", &second[7..19])),
        "{}",
        newer(bed, "app")
    );
    let said = bed.ask_program(&["update", "--dry-run", "app"], b"");
    assert!(said.code == 0 && said.text().contains("would be pulled"), "{said:?}");
    assert_eq!(version(bed, "app").as_deref(), Some("one"), "a dry run changes nothing");
    let said = bed.ask_program(&["update", "app"], b"");
    assert!(said.code == 0 && said.text().contains("it is ready"), "{said:?}");
    runs(bed, "app", "two");
    // The pod was replaced as a whole: its init container ran again, and its volume stayed.
    let id = bed.running_of("app").pop().expect("it runs");
    assert_eq!(bed.exec(&id, "wc -l < /v/starts").as_deref().map(str::trim), Ok("2"));

    registry.push(bed, "three", FAILS);
    let said = bed.ask_program(&["update", "--deadline", "8s", "app"], b"");
    let text = said.text();
    assert!(
        said.code == 1 && text.contains("exit code 3") && text.contains("runs from the image before again"),
        "{said:?}"
    );
    runs(bed, "app", "two");
    let status = bed.ask_program(&["status"], b"");
    assert!(status.text().contains("did not become ready"), "{status:?}");
    // A container that ends starts from the image before again, although its name means the newer one.
    let id = bed.running_of("app").pop().expect("it runs");
    bed.docker(&["kill", &id]);
    bed.until("another one runs", |bed| bed.running_of("app").into_iter().find(|other| *other != id));
    runs(bed, "app", "two");

    registry.end();
    assert!(newer(bed, "app").contains("registry not known"), "{}", newer(bed, "app"));
    let id = bed.running_of("app");
    let said = bed.ask_program(&["update", "app"], b"");
    assert!(said.code == 1 && said.text().contains("nothing has changed"), "{said:?}");
    assert_eq!(bed.running_of("app"), id);

    registry.push(bed, "four", RUNS);
    let said = bed.ask_program(&["update", "app"], b"");
    assert_eq!(said.code, 0, "{said:?}");
    runs(bed, "app", "four");
    let status = bed.ask_program(&["status"], b"");
    assert!(!status.text().contains("did not become ready"), "{status:?}");
    let kept = bed.docker(&["images", "-q", "coracle.dev/kept"]);
    assert_eq!(kept.trim(), "", "no image is kept for an update any more");
    gone(bed, "app");
    let _ = bed.engine.docker(&["image", "rm", "-f", &registry.image()]);
}

/// The agent is killed in the middle of an update that goes wrong.
fn update_outlives_the_agent(bed: &mut Bed) {
    let registry = Registry::start(bed);
    registry.push(bed, "one", RUNS);
    bed.start_agent_with(&[]);
    bed.drop_manifest("app", &pod("app", &registry.image()).to_string());
    runs(bed, "app", "one");
    registry.push(bed, "two", FAILS);
    let socket = bed.path("sockets/n1.sock").display().to_string();
    let path = "http://localhost/update/default/app?deadlineSeconds=8";
    run(Command::new("curl").args(["-sSf", "-m", "5", "-X", "POST", "--unix-socket", &socket, path]))
        .expect("it begins");
    let trying = |bed: &Bed| fs::read_to_string(bed.path("agent/updates.json")).unwrap_or_default().contains("trying");
    bed.until("it is under way", |bed| trying(bed).then_some(()));
    bed.kill_agent();
    registry.end();
    bed.start_agent_with(&[]);
    bed.until("it has gone back", |bed| bed.log("agent").contains("runs from the image before again").then_some(()));
    runs(bed, "app", "one");
    // An edit of the image ends what the update holds.
    let mut edited = pod("app", BUSYBOX);
    edited["spec"]["containers"][0]["command"] = json!(["sh", "-c", format!("export VERSION=none; {RUNS}")]);
    bed.drop_manifest("app", &edited.to_string());
    bed.until("nothing is held any more", |bed| {
        let text = fs::read_to_string(bed.path("agent/updates.json")).unwrap_or_default();
        (text == "{}").then_some(())
    });
    gone(bed, "app");
    let _ = bed.engine.docker(&["image", "rm", "-f", &registry.image()]);
}

/// Somebody removes or renames what holds a pod's network, or its image.
fn sandboxes_heal(bed: &mut Bed) {
    bed.start_agent_with(&[]);
    let mut document = pod("s", BUSYBOX);
    document["spec"]["containers"][0]["command"] = json!(["sh", "-c", format!("export VERSION=one; {RUNS}")]);
    bed.drop_manifest("s", &document.to_string());
    let running = |bed: &Bed| {
        bed.until("it runs and is ready", |bed| {
            let id = bed.running_of("s").pop()?;
            let shown = bed.pod_like("s")?["status"]["containerStatuses"][0].clone();
            (shown["ready"] == true && shown["containerID"] == format!("docker://{id}")).then_some(id)
        })
    };
    let id = running(bed);
    let sandbox = bed.running_of("POD").pop().expect("a sandbox");
    bed.docker(&["rename", &sandbox, "somebodys"]);
    assert_eq!(running(bed), id, "a new name changes nothing");
    // A member that starts anew joins the sandbox by its id.
    bed.docker(&["rm", "-f", &id]);
    let next = bed.until("the next one runs", |bed| bed.running_of("s").into_iter().find(|other| *other != id));
    assert_eq!(bed.running_of("POD"), [sandbox.clone()]);
    bed.docker(&["rm", "-f", &sandbox]);
    bed.until("all runs in a new sandbox", |bed| {
        let id = bed.running_of("s").pop()?;
        (id != next && bed.running_of("POD").pop()? != sandbox && bed.ready("s")?).then_some(())
    });
    // The engine has no container that could hold the pause image.
    gone(bed, "s");
    bed.docker(&["system", "prune", "-f"]);
    bed.drop_manifest("s", &document.to_string());
    running(bed);
    gone(bed, "s");
}
