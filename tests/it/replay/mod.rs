//! Conversations that were recorded with a kube-apiserver 1.36 (`tests/data/v1/cases`), played against masters of our
//! own. An answer is alike when it is the same to the letter after what varies from run to run is replaced by words
//! (`words`).
//!
//! What differs stands in `tests/data/v1/intended.txt`, each with its reason. The list only shrinks: a case that
//! differs and is not in it fails the test, and so does one in it that is alike.
//!
//!     CORACLE_REPLAY=apply/force     this case only (or all whose names begin so), and show what differs, path by path
//!     CORACLE_REPLAY=prune           take what is alike now out of the list
//!     CORACLE_REPLAY_WITHOUT=managedFields,uid
//!                                    leave these keys out wherever they are; the list is not looked at then

mod run;
mod wire;
mod words;

use crate::transcript::Bed;
use run::{Case, differences};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

/// Most of the time is spent waiting for watches to stay quiet.
const AT_ONCE: usize = 12;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/v1")
}

/// `area/name` and the text of its file.
fn cases() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for area in fs::read_dir(data().join("cases")).expect("the recorded cases") {
        for file in fs::read_dir(area.expect("an area").path()).expect("an area is a folder") {
            let path = file.expect("a case").path();
            let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
            let title = format!("{}/{}", name(path.parent().expect("an area")), name(&path));
            found.push((title, fs::read_to_string(&path).expect("a case is text")));
        }
    }
    found.sort();
    found
}

/// The list of differences: title and reason.
fn intended() -> BTreeMap<String, String> {
    let text = fs::read_to_string(data().join("intended.txt")).expect("the list of intended differences");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once(": ").unwrap_or_else(|| panic!("intended.txt: {line:?} gives no reason")))
        .map(|(t, r)| (t.to_owned(), r.to_owned()))
        .collect()
}

/// Empty: alike. Else what differs.
fn play(text: &str, without: &[&str]) -> Option<String> {
    let case = Case::read(text);
    if case.manual {
        return None;
    }
    let bed = Bed::without_workloads();
    let answers = match case.play(&bed) {
        Ok(answers) => answers,
        Err(why) => return Some(format!("  {why}\n")),
    };
    let mut shown = String::new();
    for (at, ((title, recorded), answer)) in case.recorded().iter().zip(&answers).enumerate() {
        let mut lines = String::new();
        differences(&less(recorded, without), &less(answer, without), "", &mut lines);
        if !lines.is_empty() {
            shown.push_str(&format!("  step {at} {title}\n{lines}"));
        }
    }
    Some(shown)
}

fn less(value: &Value, without: &[&str]) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(key, _)| !without.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), less(value, without)))
            .collect(),
        Value::Array(list) => list.iter().map(|value| less(value, without)).collect(),
        _ => value.clone(),
    }
}

/// What came of every case that was played, by title.
fn play_all(cases: &[(String, String)], without: &[&str]) -> BTreeMap<String, String> {
    let (next, played) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(cases.len()) {
            scope.spawn(|| {
                while let Some((title, text)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(shown) = play(text, without) {
                        played.lock().unwrap().insert(title.clone(), shown);
                    }
                }
            });
        }
    });
    played.into_inner().unwrap()
}

#[test]
fn answers_are_those_of_kubernetes() {
    let wanted = env::var("CORACLE_REPLAY").unwrap_or_default();
    let (prune, prefix) = (wanted == "prune", if wanted == "prune" { "" } else { wanted.as_str() });
    let cases: Vec<_> = cases().into_iter().filter(|(title, _)| title.starts_with(prefix)).collect();
    assert!(!cases.is_empty(), "no case begins with {prefix}");
    let without = env::var("CORACLE_REPLAY_WITHOUT").unwrap_or_default();
    let without: Vec<&str> = without.split(',').filter(|key| !key.is_empty()).collect();
    let played = play_all(&cases, &without);
    if !prefix.is_empty() {
        for (title, shown) in &played {
            println!("{title}: {}\n{shown}", if shown.is_empty() { "alike" } else { "differs" });
        }
    }
    tell(&played);
    if !without.is_empty() {
        return;
    }
    let listed = intended();
    if prune {
        return take_out_of_list(&played);
    }
    let mut wrong = String::new();
    for (title, shown) in &played {
        let at_times = listed.get(title).is_some_and(|reason| reason.starts_with("at times"));
        match (shown.is_empty(), listed.contains_key(title)) {
            (true, true) if at_times => {}
            (true, true) => {
                wrong.push_str(&format!("{title} is alike: take it out of intended.txt (CORACLE_REPLAY=prune does)\n"))
            }
            (false, false) => wrong.push_str(&format!("{title} differs:\n{shown}")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    if prefix.is_empty() {
        let unknown: Vec<_> = listed.keys().filter(|title| !played.contains_key(*title)).collect();
        assert!(unknown.is_empty(), "intended.txt names what is not played: {unknown:?}");
    }
}

/// Counts by area.
fn tell(played: &BTreeMap<String, String>) {
    let mut areas: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (title, shown) in played {
        let area = areas.entry(title.split('/').next().unwrap_or_default()).or_default();
        area.0 += usize::from(shown.is_empty());
        area.1 += 1;
    }
    for (area, (alike, all)) in &areas {
        println!("{area:20} {alike:3} of {all:3}");
    }
    let alike = played.values().filter(|shown| shown.is_empty()).count();
    println!(
        "{:20} {alike:3} of {:3}: {:.1} %",
        "all",
        played.len(),
        100.0 * alike as f64 / played.len().max(1) as f64
    );
}

fn take_out_of_list(played: &BTreeMap<String, String>) {
    let path = data().join("intended.txt");
    let text = fs::read_to_string(&path).expect("the list");
    let alike =
        |line: &str| line.split_once(": ").is_some_and(|(title, _)| played.get(title).is_some_and(String::is_empty));
    let mut kept: String = text.lines().filter(|line| !alike(line)).collect::<Vec<_>>().join("\n");
    kept.push('\n');
    fs::write(&path, kept).expect("the list is written");
}
