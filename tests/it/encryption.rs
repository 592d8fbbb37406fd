//! Secrets that are sealed on the disk, through the API and the commands of a master.

use crate::transcript::{Bed, ask};
use coracle_master::command;
use coracle_master::config::{Config, Deed, EncryptionDeed};
use coracle_master::credentials::Credentials;
use coracle_master::credentials::keys::KeyDeed;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// "hunter2", as a Secret has it.
const WORD: &str = "aHVudGVyMg==";

fn bed(folder: &Path, key: Option<&Path>) -> Bed {
    let key = key.map(Path::to_owned);
    // A thread of the master before may still hold the directory.
    if let Ok(lock) = fs::File::open(folder.join("data/LOCK")) {
        lock.lock().expect("it is free once that thread has ended");
    }
    Bed::living_so(folder, |config| config.encryption_key = key)
}

/// The same master for the command line.
fn command_line(folder: &Path, key: Option<&Path>) -> Config {
    Config {
        data_dir: folder.join("data"),
        admin_socket: folder.join("run/api.sock"),
        encryption_key: key.map(Path::to_owned),
        ..Config::default()
    }
}

fn run(config: &Config, deed: Deed) -> bool {
    let code = command::run(&deed, config);
    format!("{code:?}") == format!("{:?}", ExitCode::SUCCESS)
}

fn get(bed: &Bed, path: &str) -> (u16, Value) {
    let reply = ask(bed.network(), "GET", path, &[], "");
    (reply.code, serde_json::from_slice(&reply.body).unwrap_or_default())
}

fn send(bed: &Bed, method: &str, path: &str, body: &Value) -> (u16, String) {
    let headers = [("Content-Type".to_owned(), "application/json".to_owned())];
    let reply = ask(bed.network(), method, path, &headers, &body.to_string());
    (reply.code, String::from_utf8_lossy(&reply.body).into_owned())
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"word": WORD}})
}

/// The files below a folder that have a text in them.
fn with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("ours").map(|entry| entry.expect("there").path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let has = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).contains(text);
                    found.extend(has.then_some(path));
                }
            }
        }
    }
    found
}

#[test]
fn a_master_seals_rotates_and_starts_without_its_key() {
    let folder = Bed::empty_folder();
    let (data, file, backup) = (folder.join("data"), folder.join("key"), folder.join("backup"));
    let line = command_line(&folder, Some(&file));
    let plain = bed(&folder, None);
    assert_eq!(send(&plain, "POST", SECRETS, &secret("db")).0, 201);
    let db = format!("{SECRETS}/db");
    let before = get(&plain, &db);
    drop(plain);
    assert!(!with(&data, WORD).is_empty() && !with(&data.join("keys"), "PRIVATE KEY").is_empty());

    assert!(run(&line, Deed::Encryption(EncryptionDeed::NewKey(Some(file.clone())))));
    assert!(!run(&line, Deed::Encryption(EncryptionDeed::NewKey(Some(file.clone())))), "no key is written over");
    let first = fs::read_to_string(&file).expect("there");
    let sealed = bed(&folder, Some(&file));
    assert_eq!(get(&sealed, &db), before);
    assert!(run(&line, Deed::Encryption(EncryptionDeed::Rotate { keep_old: false })));
    assert_ne!(fs::read_to_string(&file).expect("there"), first);
    assert_eq!(get(&sealed, &db), before);
    assert_eq!(with(&data, WORD), Vec::<PathBuf>::new());
    assert_eq!(with(&data, "PRIVATE KEY"), Vec::<PathBuf>::new());
    // The commands on sealed keys know the key file, too.
    for deed in [KeyDeed::Renew, KeyDeed::RenewAuthority { now: true }] {
        assert!(run(&line, Deed::Credentials(Credentials::Keys(deed))), "{deed:?}");
    }
    assert!(run(&line, Deed::Backup(backup.clone())));
    assert!(with(&folder, WORD).is_empty() && with(&folder, "PRIVATE KEY").is_empty());
    assert_eq!(fs::metadata(&backup).expect("there").mode() & 0o777, 0o600);
    drop(sealed);

    without_the_key(&folder, &file, &db);
    assert!(!run(&Config { data_dir: folder.join("restored"), ..line.clone() }, Deed::Restore(backup.clone())));
    assert!(!folder.join("restored").exists());

    fs::rename(folder.join("away"), &file).expect("ours");
    let again = bed(&folder, Some(&file));
    assert_eq!(get(&again, &db), before, "all is as before");
    off_that_fails_changes_no_file(&again, &folder, &line);
    assert!(run(&line, Deed::Encryption(EncryptionDeed::Off)));
    assert!(with(&data, "\"sealed\"").is_empty());
    drop(again);
    // The key file says `plain`: who sets it again hears it.
    let unsealed = bed(&folder, Some(&file));
    let metrics = ask(unsealed.network(), "GET", "/metrics", &[], "");
    assert!(String::from_utf8_lossy(&metrics.body).contains("the key file begins with `plain`"));
    // The backup needs the old key.
    assert!(run(&line, Deed::Encryption(EncryptionDeed::Rotate { keep_old: true })));
    assert_eq!((get(&unsealed, &db), with(&data, WORD)), (before.clone(), Vec::new()), "and seals again");
    assert!(run(&line, Deed::Encryption(EncryptionDeed::Off)));
    drop(unsealed);
    assert_eq!(get(&bed(&folder, None), &db), before);

    let restored = Config { data_dir: folder.join("restored"), ..line };
    assert!(run(&restored, Deed::Restore(backup)));
    assert!(with(&restored.data_dir, WORD).is_empty() && with(&restored.data_dir, "PRIVATE KEY").is_empty());
    fs::remove_dir_all(folder).expect("ours");
}

/// Another key file than that of the running master.
fn off_that_fails_changes_no_file(_running: &Bed, folder: &Path, line: &Config) {
    let other = folder.join("other");
    assert!(run(line, Deed::Encryption(EncryptionDeed::NewKey(Some(other.clone())))));
    let text = fs::read_to_string(&other).expect("there");
    let wrong = Config { encryption_key: Some(other.clone()), ..line.clone() };
    assert!(!run(&wrong, Deed::Encryption(EncryptionDeed::Off)));
    assert_eq!(fs::read_to_string(&other).expect("there"), text);
}

/// Closed to all, and absent to nobody; the rest is served.
fn without_the_key(folder: &Path, file: &Path, db: &str) {
    fs::set_permissions(file, PermissionsExt::from_mode(0o644)).expect("ours");
    let open = bed(folder, Some(file));
    assert_eq!(get(&open, db).0, 500, "a file that others may read is not used");
    drop(open);
    fs::set_permissions(file, PermissionsExt::from_mode(0o600)).expect("ours");
    fs::rename(file, folder.join("away")).expect("ours");
    let bed = bed(folder, Some(file));
    let named = |name: &str| format!("{SECRETS}?fieldSelector=metadata.name%3D{name}");
    for path in [db, SECRETS, "/api/v1/secrets", &named("db"), "/api/v1/secrets?watch=1", &named("db&watch=1")] {
        let (code, status) = get(&bed, path);
        let message = status["message"].as_str().unwrap_or_default();
        assert!(code == 500 && message.contains("unable to transform key secrets/default/db"), "{path}: {status}");
        assert_eq!(status["reason"], "InternalError");
    }
    let (code, list) = get(&bed, &named("other"));
    assert_eq!((code, &list["items"]), (200, &json!([])));
    assert_eq!(send(&bed, "POST", SECRETS, &secret("db")).0, 409);
    for (method, path, body) in [
        ("POST", SECRETS, secret("new")),
        ("PUT", db, secret("db")),
        ("DELETE", db, json!({})),
        ("DELETE", SECRETS, json!({})),
    ] {
        let (code, text) = send(&bed, method, path, &body);
        assert_eq!(code, 500, "{method} {path}: {text}");
    }
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
    assert_eq!(send(&bed, "POST", "/api/v1/namespaces/default/configmaps", &map).0, 201);
    assert_eq!(get(&bed, "/readyz").0, 200);
    let metrics = ask(bed.network(), "GET", "/metrics", &[], "");
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(metrics.contains("coracle_store_closed_objects 1") && metrics.contains("coracle_encryption_trouble{"));
}
