//! Real clients against the real master: every kubectl that is found, through the scripts of `tests/data/clients`,
//! `helm` where there is one, Python's `kubernetes` and the crate `kube`; and recorded scenarios of controllers and
//! scheduler. No engine is needed: nothing runs, and where a status matters the script says what an agent would.
//!
//!     make test-clients
//!     cargo test -p coracle-tests --features clients --test clients -- 1.33/apply   what has the word in its name
//!     CORACLE_KUBECTL="/path/a /path/b" ...   these kubectls, whatever is installed
//!     CORACLE_HELM=/path/to/helm ...          this helm
//!     CORACLE_PYTHON=/path/to/python3 ...     this Python, with its `kubernetes`
//!     CORACLE_BINARIES=target/debug ...       another folder with coracle-master

mod bed;
mod crate_kube;
mod helm;
mod kubectl;
mod python;
mod recorded;
mod run;
mod script;

use std::process::ExitCode;

/// A name and what is wrong, a line each; nothing wrong is a pass.
pub struct Verdict {
    pub name: String,
    pub wrong: Vec<String>,
    /// What is still marked as waiting and works already, or waits.
    pub notes: Vec<String>,
}

fn main() -> ExitCode {
    let filters: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str()));
    // Each has masters of its own, and waits most of the time.
    let (kubectls, others) = std::thread::scope(|scope| {
        let kubectls = scope.spawn(|| kubectl::run(&wanted));
        let others = helm::run(&wanted).map(|mut verdicts| {
            verdicts.extend(python::run(&wanted));
            verdicts.extend(crate_kube::run(&wanted));
            verdicts.extend(recorded::run(&wanted));
            verdicts
        });
        (kubectls.join().expect("the thread of the kubectls"), others)
    });
    let verdicts = match kubectls.and_then(|first| Ok((first, others?))) {
        Ok((first, second)) => first.into_iter().chain(second).collect::<Vec<_>>(),
        Err(why) => {
            eprintln!("clients: {why}");
            return ExitCode::FAILURE;
        }
    };
    let failed = verdicts.iter().filter(|v| !v.wrong.is_empty()).count();
    for verdict in &verdicts {
        for line in verdict.notes.iter().chain(&verdict.wrong) {
            println!("{}: {line}", verdict.name);
        }
    }
    for verdict in verdicts.iter().filter(|v| !v.wrong.is_empty()) {
        println!("failed: {}", verdict.name);
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {word}. {} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out",
        verdicts.len() - failed
    );
    // A filter that fits nothing must not look like success.
    if failed == 0 && !verdicts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
