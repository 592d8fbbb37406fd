//! The usual Python client: one interpreter, one script of tests, one master.

use crate::Verdict;
use crate::bed::Bed;
use coracle_tests::stock::python;
use std::path::Path;
use std::process::Command;

const NAME: &str = "python";
/// Longer than anything here takes.
const SCRIPT_S_MAX: &str = "180";

pub fn run(wanted: &dyn Fn(&str) -> bool) -> Vec<Verdict> {
    if !wanted(NAME) {
        return Vec::new();
    }
    let wrong = match one() {
        Ok(()) => Vec::new(),
        Err(why) => vec![why],
    };
    println!("test {NAME} ... {}", if wrong.is_empty() { "ok" } else { "FAILED" });
    vec![Verdict { name: NAME.to_owned(), wrong, notes: Vec::new() }]
}

fn one() -> Result<(), String> {
    let interpreter = python()?;
    let bed = Bed::start(NAME)?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/clients/python/client.py");
    let mut command = Command::new("timeout");
    command.arg(SCRIPT_S_MAX).arg(interpreter).arg("-B").arg(script).arg(bed.url());
    let output = command.env_remove("http_proxy").output().map_err(|e| e.to_string())?;
    let printed = [output.stdout, output.stderr].concat();
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{}\nthe master's log:\n{}", String::from_utf8_lossy(&printed), bed.log()))
}
