//! What controllers and scheduler make of objects: scenarios that were recorded with Kubernetes 1.36, played against
//! masters by the programs that recorded them, with nodes and a kubelet of their own. Compared are answers, settled
//! states and events, and of the controllers decisions: what they wrote, object by object, in its order.
//!
//! `intended.txt` beside the scenarios names those that may differ, each with its reason.

use crate::Verdict;
use crate::bed::Bed;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::slice;
use std::thread;

/// Each scenario, and what differs in it.
type Verdicts = BTreeMap<String, Option<String>>;

/// How many events come of a change depends on what was seen together, so on the load of the machine: a scenario that
/// differs is played again by itself, so many times.
const AGAIN: usize = 3;
const ALONE: &[&str] = &["--parallel", "1"];
/// Longer than all scenarios of one play take.
const PLAY_S_MAX: &str = "900";

/// Scenarios that one master plays.
struct Play {
    name: &'static str,
    /// Beside it stand the program and what may differ.
    folder: &'static str,
    cases: &'static str,
    master: &'static [&'static str],
    player: &'static [&'static str],
}

/// Each with a master of its own, all beside each other: most of the time of a scenario is spent waiting for quiet.
const PLAYS: [Play; 5] = [
    Play {
        name: "controllers",
        folder: "controllers",
        cases: "cases",
        master: &[],
        player: &["--decisions", "--parallel", "10"],
    },
    Play { name: "cluster-scheduler", folder: "cluster", cases: "cases/scheduler", master: &[], player: CLUSTER },
    Play { name: "cluster-placement", folder: "cluster", cases: "cases/placement", master: &[], player: CLUSTER },
    Play { name: "cluster-services", folder: "cluster", cases: "cases/services", master: &[], player: CLUSTER },
    Play {
        name: "cluster-nodes",
        folder: "cluster",
        cases: "cases/nodes",
        master: &["--node-monitor-grace", "6s"],
        player: CLUSTER,
    },
];

/// Of nodes that are as good as each other any may be chosen.
const CLUSTER: &[&str] = &["--token", "", "--any-node", "--needs", "short-grace"];

impl Play {
    fn data(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(self.folder)
    }
}

pub fn run(wanted: &dyn Fn(&str) -> bool) -> Vec<Verdict> {
    let plays: Vec<&Play> = PLAYS.iter().filter(|play| wanted(play.name)).collect();
    thread::scope(|scope| {
        let playing: Vec<_> = plays.iter().map(|play| scope.spawn(|| verdict(play))).collect();
        playing.into_iter().map(|play| play.join().expect("a play does not panic")).collect()
    })
}

fn verdict(of: &Play) -> Verdict {
    let mut verdict = Verdict { name: of.name.to_owned(), wrong: Vec::new(), notes: Vec::new() };
    if let Err(why) = play(of, &mut verdict) {
        verdict.wrong.push(why);
    }
    println!("test {} ... {}", of.name, if verdict.wrong.is_empty() { "ok" } else { "FAILED" });
    verdict
}

fn play(of: &Play, verdict: &mut Verdict) -> Result<(), String> {
    let bed = Bed::start_with(of.name, of.master)?;
    let cases = of.data().join(of.cases);
    let (mut verdicts, errors) = played(of, &bed, &[], slice::from_ref(&cases))?;
    let expected = fs::read_dir(&cases).map_err(|e| e.to_string())?.count();
    if verdicts.len() != expected {
        return Err(format!(
            "{} of {expected} scenarios were played:\n{errors}\nthe master's log:\n{}",
            verdicts.len(),
            bed.log()
        ));
    }
    let intended = intended(of)?;
    for _ in 0..AGAIN {
        let differ = verdicts.iter().filter(|(name, differs)| differs.is_some() && !intended.contains_key(*name));
        let again: Vec<PathBuf> = differ.map(|(name, _)| cases.join(format!("{name}.json"))).collect();
        if again.is_empty() {
            break;
        }
        verdicts.extend(played(of, &bed, ALONE, &again)?.0);
    }
    let agree = verdicts.values().filter(|differs| differs.is_none()).count();
    println!("{}: {agree} of {expected} scenarios agree ({} %)", of.name, 100 * agree / expected.max(1));
    for (name, differs) in verdicts {
        match (differs, intended.get(&name)) {
            (Some(lines), None) => verdict.wrong.push(format!("{name} differs:\n{lines}")),
            (None, Some(_)) => verdict.notes.push(format!("{name} is in intended.txt and agrees")),
            _ => {}
        }
    }
    Ok(())
}

/// What the program that recorded the scenarios says of them, and of itself.
fn played(of: &Play, bed: &Bed, player: &[&str], cases: &[PathBuf]) -> Result<(Verdicts, String), String> {
    let mut command = Command::new("timeout");
    command.arg(PLAY_S_MAX).args(["python3", "-B"]).arg(of.data().join("record.py")).arg(bed.url());
    command.args(of.player).args(player).args(cases).env_remove("http_proxy");
    let output = command.output().map_err(|e| format!("python3: {e}"))?;
    Ok((scenarios(&String::from_utf8_lossy(&output.stdout)), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Each scenario, and what differs in it.
fn scenarios(printed: &str) -> Verdicts {
    let mut found: Verdicts = BTreeMap::new();
    let mut last = String::new();
    for line in printed.lines() {
        if line.starts_with(' ') {
            if let Some(Some(lines)) = found.get_mut(&last) {
                lines.push_str(line);
                lines.push('\n');
            }
            continue;
        }
        let mut words = line.split_whitespace();
        if let (Some(name), Some(word @ ("ok" | "differs"))) = (words.next(), words.next()) {
            last = name.to_owned();
            found.insert(last.clone(), (word == "differs").then(String::new));
        }
    }
    found
}

fn intended(of: &Play) -> Result<BTreeMap<String, String>, String> {
    let text = fs::read_to_string(of.data().join("intended.txt")).map_err(|e| format!("intended.txt: {e}"))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let parted =
        lines.map(|line| line.split_once(": ").ok_or_else(|| format!("intended.txt: {line:?} gives no reason")));
    parted.map(|parted| parted.map(|(name, why)| (name.to_owned(), why.to_owned()))).collect()
}
