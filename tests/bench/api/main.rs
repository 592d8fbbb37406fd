//! `make bench-api`: what the API costs, in one run: how soon it is there, what it keeps in memory, what a request
//! takes, as ratios to a kube-apiserver with its etcd, where one can be built, and to what lies below it: the store
//! alone, in this process, and an etcd alone, over its socket.
//!
//! Nothing is asserted of time; a row that could not be measured says so and fails the bench.

#[allow(dead_code)]
mod client;
#[allow(dead_code)]
#[path = "../store/etcd.rs"]
mod etcd;
#[allow(dead_code)]
#[path = "../store/layers.rs"]
mod layers;
#[allow(dead_code)]
#[path = "../store/objects.rs"]
mod objects;
#[allow(dead_code)]
#[path = "../process.rs"]
mod process;
mod requests;
mod rest;
mod server;
mod watchers;

use server::Which;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

type Row = (&'static str, fn(&Ground) -> Result<String, String>);

const ROWS: &[Row] = &[
    ("ready after a start", rest::ready),
    ("memory", rest::memory),
    ("watchers", watchers::table),
    ("requests", requests::table),
];

fn main() -> ExitCode {
    let ground = match Ground::new() {
        Ok(ground) => ground,
        Err(why) => {
            eprintln!("bench: {why}");
            return ExitCode::FAILURE;
        }
    };
    if Which::all().len() == 1 {
        println!("no kube-apiserver is here (packaging/kube-apiserver.sh): measured without it\n");
    }
    // `make bench-api ROWS=memory` measures what has the word in its name.
    let wanted = std::env::var("ROWS").unwrap_or_default();
    let mut failed = 0;
    for (name, measure) in ROWS.iter().filter(|(name, _)| name.contains(&wanted)) {
        match measure(&ground) {
            Ok(text) => println!("{name}\n{text}"),
            Err(why) => {
                println!("{name}: NOT MEASURED: {why}\n");
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A folder on this host's disk that goes with the run.
pub struct Ground {
    folder: PathBuf,
}

impl Ground {
    fn new() -> Result<Ground, String> {
        let folder = PathBuf::from("/var/tmp").join(format!("coracle-bench-api-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Ground { folder })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn remove(&self, path: &Path) {
        let _ = std::fs::remove_dir_all(path);
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.remove(&self.folder);
    }
}
