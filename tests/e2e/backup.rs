//! Data that must not be lost: disks of claims, backups with hooks, and the way back on an emptied host.

use crate::Test;
use crate::bed::{Bed, Said, run};
use crate::images::BUSYBOX;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

pub const TESTS: &[Test] = &[
    ("backup_disk_that_is_away", disk_that_is_away),
    ("backup_hooks_fail_by_name", hooks_fail_by_name),
    ("backup_and_restore_of_a_host", backup_and_restore),
];

const CORE: &str = "/api/v1/namespaces/default";
const VOLUMES: &str = "/var/lib/coracle/volumes";

fn claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": {"coracle.dev/backup": "true"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}})
}

/// Keeps its state in memory, as a database does, and begins with its last dump.
fn database(name: &str, hooks: &[(&str, &str)]) -> Value {
    let hooks: serde_json::Map<String, Value> =
        hooks.iter().map(|(which, command)| (format!("coracle.dev/backup-{which}"), (*command).into())).collect();
    let line =
        "if [ -e /data/dump ]; then cp /data/dump /state/live; else echo empty > /state/live; fi; exec sleep 3600";
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "annotations": hooks},
        "spec": {"terminationGracePeriodSeconds": 0,
            "containers": [{"name": name, "image": BUSYBOX, "command": ["sh", "-c", line], "volumeMounts": [
                {"name": "data", "mountPath": "/data"}, {"name": "state", "mountPath": "/state"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("{name}-data")}},
                {"name": "state", "emptyDir": {}}]}})
}

fn id_of(bed: &Bed, name: &str) -> String {
    bed.until(&format!("{name} runs"), |bed| bed.running_of(name).pop().filter(|_| bed.ready(name) == Some(true)))
}

fn state(bed: &Bed, name: &str) -> String {
    let id = id_of(bed, name);
    bed.until("it has begun", |bed| bed.exec(&id, "cat /state/live").ok()).trim().to_owned()
}

/// `backup` or `restore` of the bed's programs.
fn ask(bed: &Bed, word: &str, dir: &Path, more: &[&str]) -> Said {
    let text = |name: &str| bed.path(name).display().to_string();
    let (data, manifests, etc) = (text("agent"), text("manifests"), text("etc"));
    let dir = dir.display().to_string();
    let own = [word, &dir, "--data-dir", &data, "--manifest-dir", &manifests];
    let of_backup = if word == "backup" { vec!["--etc", &etc] } else { Vec::new() };
    bed.ask_program(&[&own[..], &of_backup, more].concat(), b"")
}

fn file_pods(bed: &Bed, name: &str, hooks: &[(&str, &str)]) {
    let text = format!("{}\n---\n{}\n", claim(&format!("{name}-data")), database(name, hooks));
    bed.drop_manifest(&format!("{name}.yaml"), &text);
}

/// The directory of a claim of class `local`.
fn directory(bed: &Bed, name: &str) -> String {
    let claim = bed.until("the claim is bound", |bed| {
        let claim = bed.get(&format!("{CORE}/persistentvolumeclaims/{name}"));
        (claim["status"]["phase"] == "Bound").then_some(claim)
    });
    let volume = claim["spec"]["volumeName"].as_str().expect("a bound claim").to_owned();
    format!("{VOLUMES}/default_{name}_{volume}")
}

fn disk_that_is_away(bed: &mut Bed) {
    fs::create_dir_all(VOLUMES).expect("a folder");
    mount(Some("tmpfs"), VOLUMES, Some("tmpfs"), MsFlags::empty(), Some("size=16m")).expect("a disk");
    bed.start();
    let pod = database("db", &[]);
    bed.post(&format!("{CORE}/persistentvolumeclaims"), &claim("db-data").to_string());
    bed.post(&format!("{CORE}/pods"), &pod.to_string());
    let id = id_of(bed, "db");
    bed.exec(&id, "echo precious > /data/dump").expect("it writes");
    let directory = directory(bed, "db-data");
    let record = fs::read_to_string(bed.path("agent/claims-disks").join(directory.rsplit('/').next().expect("a name")));
    assert!(record.expect("a record").contains("\"tmpfs\""));
    let copy = bed.path("copy");
    run(Command::new("cp").arg("-a").arg(&directory).arg(&copy)).expect("a copy");
    bed.stop_agent();
    bed.docker(&["rm", "-f", &id]);
    // What runs in the sandbox has no volume.
    umount2(VOLUMES, MntFlags::empty()).expect("the disk goes");
    bed.start_agent();
    let waits = |bed: &Bed, words: &[&str]| {
        bed.until(&format!("the pod says {words:?}"), |bed| {
            let status = bed.pod_like("db")?["status"].to_string();
            words.iter().all(|word| status.contains(word)).then_some(())
        });
        assert_eq!(bed.ask_program(&["status"], b"").code, 1);
        assert!(bed.running_of("db").is_empty());
    };
    waits(bed, &["does not exist", "mount its disk (tmpfs, tmpfs, mounted at /var/lib/coracle/volumes)"]);
    assert!(!Path::new(&directory).exists(), "nothing is made anew");
    // An old copy below the mount point has the mark.
    run(Command::new("cp").arg("-a").arg(&copy).arg(&directory)).expect("a copy");
    waits(bed, &["lies on another disk", "mount its disk (tmpfs", "on purpose"]);
    let record = bed.path("agent/claims-disks").join(directory.rsplit('/').next().expect("a name"));
    fs::remove_file(&record).expect("the keeper accepts the disk");
    assert_eq!(state(bed, "db"), "precious");
    assert!(!fs::read_to_string(&record).expect("a new record").contains("\"tmpfs\""));
    let _ = fs::remove_dir_all(&directory);
}

fn hooks_fail_by_name(bed: &mut Bed) {
    fs::create_dir_all(bed.path("etc")).expect("a folder");
    bed.start_agent_with(&[]);
    let after = ("after", "[\"sh\", \"-c\", \"echo after >> /data/after\"]");
    file_pods(bed, "good", &[("before", "cp /state/live /data/dump"), after]);
    file_pods(bed, "bad", &[("before", "[\"sh\", \"-c\", \"echo no server >&2; exit 3\"]"), after]);
    file_pods(bed, "slow", &[("before", "sleep 3600"), ("timeout", "1s"), after]);
    for name in ["good", "bad", "slow"] {
        id_of(bed, name);
    }
    let dir = bed.path("monday");
    let said = ask(bed, "backup", &dir, &[]);
    let text = said.text();
    assert_eq!(said.code, 1, "{said:?}");
    for line in [
        "not in it: claim default/bad-data: hook backup-before of pod \
         default/bad (container bad): exit code 3: no server",
        "not in it: claim default/slow-data: hook backup-before of pod \
         default/slow (container slow): it has not ended in 1 s",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(!text.contains("good-data"), "{text}");
    for name in ["good", "bad", "slow"] {
        let path = bed.path(&format!("agent/claims/default/{name}-data/after"));
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), "after\n", "{name}");
    }
    let incomplete = bed.path("monday.incomplete");
    assert!(!dir.exists() && incomplete.join("volumes/default_good-data.tar").exists());
    assert!(!incomplete.join("volumes/default_bad-data.tar").exists());
    // With the bad ones gone it is whole, and the other goes.
    for name in ["bad", "slow"] {
        bed.remove_manifest(&format!("{name}.yaml"));
        bed.until("it is gone", |bed| bed.pod_like(name).is_none().then_some(()));
    }
    let said = ask(bed, "backup", &dir, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(dir.join("backup.json").exists() && !incomplete.exists());
    // A hook after that fails, an unknown volume, and an agent that is away.
    file_pods(bed, "good", &[("after", "false"), ("before", "true")]);
    bed.until("the new pod runs", |bed| {
        let pod = bed.pod_like("good")?;
        (pod["metadata"]["annotations"]["coracle.dev/backup-after"] == "false" && bed.ready("good") == Some(true))
            .then_some(())
    });
    let said = ask(bed, "backup", &dir, &[]);
    assert!(said.code == 1 && said.text().contains("not in it: hook backup-after of pod default/good"), "{said:?}");
    bed.stop_agent();
    let said = ask(bed, "backup", &dir, &[]);
    assert!(said.code == 1 && said.text().contains("not in it: volumes of pods: no agent answers"), "{said:?}");
}

fn backup_and_restore(bed: &mut Bed) {
    let (etc, dir, partial) = (bed.path("etc"), bed.path("monday"), bed.path("monday.partial"));
    fs::create_dir_all(&etc).expect("a folder");
    let conf = bed.path("etc/master.conf").display().to_string();
    let place = |name: &str| bed.path(name).display().to_string();
    fs::write(&conf, format!("data-dir = {}\nadmin-socket = {}\n", place("master"), place("run/api.sock")))
        .expect("a file");
    let of_master = ["--master-config", &conf];
    bed.start();
    let dumps = [(
        "before",
        "[\"sh\", \"-c\", \"[ ! -e /data/wait ] || { touch /data/waits; sleep 60; }; cp /state/live /data/dump\"]",
    )];
    bed.post(&format!("{CORE}/persistentvolumeclaims"), &claim("db-data").to_string());
    bed.post(&format!("{CORE}/pods"), &database("db", &dumps).to_string());
    file_pods(bed, "own", &dumps);
    let (db, own) = (id_of(bed, "db"), id_of(bed, "own"));
    assert_eq!((state(bed, "db").as_str(), state(bed, "own").as_str()), ("empty", "empty"));
    bed.exec(&db, "echo in-db > /state/live").expect("it writes");
    bed.exec(&own, "echo in-own > /state/live").expect("it writes");
    let folder = directory(bed, "db-data");
    let said = ask(bed, "backup", &dir, &of_master);
    assert_eq!(said.code, 0, "{said:?}");
    // One that is killed in the middle leaves the whole one, and nothing that looks like one.
    bed.exec(&db, "touch /data/wait; echo later > /state/live").expect("it writes");
    kill_in_the_middle(bed, &dir, &conf, &folder);
    assert!(partial.exists() && !partial.join("backup.json").exists());
    bed.exec(&db, "rm /data/wait").expect("it goes on");
    let refused = |bed: &Bed, dir: &Path, word: &str| {
        let said = ask(bed, "restore", dir, &of_master);
        assert!(said.code == 1 && said.err.contains(word), "{word}: {said:?}");
    };
    refused(bed, &partial, "no whole backup");
    refused(bed, &dir, "stop both first");
    bed.stop_agent();
    bed.stop_master();
    let all = bed.docker(&["ps", "-aq"]);
    bed.docker(&[&["rm", "-f"][..], &all.lines().collect::<Vec<_>>()].concat());
    refused(bed, &dir, "is not empty");
    for path in ["master", "agent", "manifests", "etc", "sockets"] {
        fs::remove_dir_all(bed.path(path)).expect("the disk is gone");
    }
    fs::remove_dir_all(&folder).expect("the disk is gone");
    // A damaged archive restores nothing.
    let archive = dir.join("files.tar");
    let whole = fs::read(&archive).expect("an archive");
    fs::write(&archive, [&whole[..whole.len() - 1], b"x"].concat()).expect("a fault");
    refused(bed, &dir, "it is damaged");
    fs::write(&archive, whole).expect("it is whole again");
    assert!(["master", "agent", "etc"].iter().all(|path| !bed.path(path).exists()), "nothing was done");
    let said = ask(bed, "restore", &dir, &["--master-config", &bed.path("again.conf").display().to_string()]);
    assert_eq!(said.code, 1, "there is no such file: {said:?}");
    assert!(["master", "agent", "etc"].iter().all(|path| !bed.path(path).exists()), "nothing was done");
    let said = ask(bed, "restore", &dir, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    bed.start();
    assert_eq!((state(bed, "db").as_str(), state(bed, "own").as_str()), ("in-db", "in-own"));
    assert_eq!(directory(bed, "db-data"), folder);
    for record in [folder.rsplit('/').next().expect("a name"), "default_own-data"] {
        assert!(["claims-made", "claims-disks"].iter().all(|of| bed.path("agent").join(of).join(record).exists()));
    }
    let _ = fs::remove_dir_all(&folder);
}

fn kill_in_the_middle(bed: &Bed, dir: &Path, conf: &str, folder: &str) {
    let text = |name: &str| bed.path(name).display().to_string();
    let mut killed = bed.launch_program(&[
        "backup",
        &dir.display().to_string(),
        "--data-dir",
        &text("agent"),
        "--manifest-dir",
        &text("manifests"),
        "--etc",
        &text("etc"),
        "--master-config",
        conf,
    ]);
    bed.until("the hook of db waits", |_| Path::new(folder).join("waits").exists().then_some(()));
    killed.kill().expect("it runs");
    killed.wait().expect("it ended");
}
