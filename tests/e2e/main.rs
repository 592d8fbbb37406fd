//! End to end: the real binaries on a real Docker (or Podman, with CORACLE_ENGINE=podman), in a network namespace of
//! their own, so that nothing on this host is touched and everything (engine, bridge, nft table, routes, host ports) is
//! gone with the namespace.
//!
//! `cargo test -p coracle-tests --features e2e --test e2e -- [FILTER]`: one test after the other on one engine. Many
//! tests are shared out to two processes with an engine each, as most of their time is spent waiting.

mod backup;
mod bed;
mod beside;
mod clock;
mod cluster;
mod command;
#[cfg(feature = "clients")]
mod crate_kube;
mod engine;
mod file_services;
mod helm;
mod image_updates;
mod images;
mod in_cluster;
mod kubectl;
mod lan;
mod life;
mod manifests;
mod network;
mod parts;
mod podman;
mod pods;
mod private_images;
mod secure;
mod services;
mod setups;
mod status;
mod streams;
mod vanish;
mod whole_files;
mod workloads;

use bed::Bed;
use engine::Brand;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// A name and what it does with a fresh pair of programs on an engine that holds nothing of ours.
pub type Test = (&'static str, fn(&mut Bed));

const SUITES: &[&[Test]] = &[
    manifests::TESTS,
    whole_files::TESTS,
    life::TESTS,
    backup::TESTS,
    beside::TESTS,
    cluster::TESTS,
    streams::TESTS,
    status::TESTS,
    vanish::TESTS,
    helm::TESTS,
    setups::TESTS,
    network::TESTS,
    pods::TESTS,
    private_images::TESTS,
    image_updates::TESTS,
    workloads::TESTS,
    clock::TESTS,
    command::TESTS,
    secure::TESTS,
    in_cluster::TESTS,
    services::TESTS,
    file_services::TESTS,
    CRATE_KUBE,
];

/// Built with the feature `clients` alone, as everything of that crate.
#[cfg(feature = "clients")]
const CRATE_KUBE: &[Test] = crate_kube::TESTS;
#[cfg(not(feature = "clients"))]
const CRATE_KUBE: &[Test] = &[];

fn main() -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()));
    let mut tests: Vec<&Test> = SUITES.iter().flat_map(|s| s.iter()).filter(|(name, _)| wanted(name)).collect();
    if Brand::asked() == Brand::Podman {
        podman::leave_out(&mut tests);
    }
    if let Some(code) = parts::run(tests.len()) {
        return code;
    }
    let tests = parts::own(tests);
    let engine = match engine::Engine::start() {
        Ok(engine) => engine,
        Err(why) => {
            eprintln!("e2e: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = Vec::new();
    for (name, test) in &tests {
        let mut bed = Bed::new(&engine, name);
        match catch_unwind(AssertUnwindSafe(|| test(&mut bed))) {
            Ok(()) => println!("test {name} ... ok"),
            Err(_) => {
                println!("test {name} ... FAILED\n{}", bed.logs());
                failed.push(*name);
            }
        }
        bed.clean();
    }
    for name in &failed {
        println!("failed: {name}");
    }
    let verdict = if failed.is_empty() { "ok" } else { "FAILED" };
    println!(
        "test result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; 0 filtered out",
        tests.len() - failed.len(),
        failed.len()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
