//! `make test-crash`: power cuts below real file systems. A workload runs through the real store on ext4 and on xfs, on
//! a disk that writes down everything that reaches it. Then, for random moments, the disk is put together as a power
//! cut could have left it, the kernel replays its own journal, and the store is opened and judged.
//!
//! ```text
//! work (several writers, marks in the record) -> cut (an image: all up to the last flush, some of the later writes)
//!     -> mount -> subject
//! (open; open again; checkpoint and open) -> judge PURE (is this a state between acknowledged and asked for?)
//! ```
//!
//! After that (ailing) a whole master runs on a disk that answers EIO, then on one that is mounted read-only, then on
//! one that is well.
//!
//! CORACLE_TRIAL=word makes those alone that have the word in their name.
//!
//! It fails on a violation, and also when a layer whose rules are broken on purpose passes: then it proves nothing.

// What a test cannot go on without may panic: the mounts go with the process.
#![allow(clippy::unwrap_used)]

mod ailing;
mod cut;
mod judge;
mod subject;
mod work;

use coracle_master::store::trial::{Protocol, ProtocolRule};
use coracle_tests::block::card::{Card, Pace, serve_if_asked};
use coracle_tests::block::host::{Host, Kind, Mounted};
use coracle_tests::block::log::{FLUSH_RECORD, Record};
use coracle_tests::block::plain;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use subject::Subject;

/// Moments at which the power is cut, a file system.
const POINTS: usize = 200;
/// For a layer that has to be caught, and for the one that shows that what is right passes.
const POINTS_CONTROL: usize = 80;
/// Tests that could not be made say nothing: so many of a hundred images have to be mountable.
const MOUNTABLE_PERCENT: usize = 90;
/// The record of one workload, one image, and some room.
const MEMORY_MB: u64 = 2048;

const AILING: &str = "a master whose disk fails";

struct Trial {
    name: &'static str,
    subject: Subject,
    kind: Kind,
    points: usize,
    /// It is broken on purpose.
    broken: bool,
}

fn trials() -> Vec<Trial> {
    let trial = |name, subject, kind| Trial { name, subject, kind, points: POINTS, broken: false };
    let broken = |name, protocol| Trial {
        name,
        subject: Subject::Store(protocol),
        kind: Kind::Ext4,
        points: POINTS_CONTROL,
        broken: true,
    };
    let plain = |name, rules, broken| Trial {
        name,
        subject: Subject::Plain(rules, Arc::default()),
        kind: Kind::Ext4,
        points: POINTS_CONTROL,
        broken,
    };
    vec![
        trial("the store", Subject::Store(Protocol::WHOLE), Kind::Ext4),
        trial("the store", Subject::Store(Protocol::WHOLE), Kind::Xfs),
        broken("the store, answers before the fdatasync", Protocol::WHOLE.without(ProtocolRule::SyncBeforeAnswer)),
        broken("the store, files not synced", Protocol::WHOLE.without(ProtocolRule::SyncObjects)),
        broken("the store, HEAD.json not synced", Protocol::WHOLE.without(ProtocolRule::SyncHead)),
        plain("a file an object, all rules", plain::Rules::ALL, false),
        plain("a file an object, folder not synced", plain::Rules { sync_folder: false, ..plain::Rules::ALL }, true),
    ]
}

fn main() -> ExitCode {
    if serve_if_asked() {
        return ExitCode::SUCCESS;
    }
    let host = match Host::enter(MEMORY_MB) {
        Ok(host) => host,
        Err(why) => {
            eprintln!("crash: {why}; run `make test-crash`");
            return ExitCode::FAILURE;
        }
    };
    if let Some(image) = std::env::var_os("CORACLE_IMAGE") {
        return show(&host, Path::new(&image));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seed = std::env::var("CORACLE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(now);
    println!("seed {seed} (CORACLE_SEED={seed} repeats the choices; the order of the writers is the scheduler's)");
    let mut failed = 0;
    let only = std::env::var("CORACLE_TRIAL").unwrap_or_default();
    for trial in trials().iter().filter(|trial| trial.name.contains(&only)) {
        let begun = Instant::now();
        let outcome = run(&host, trial, seed);
        let seconds = begun.elapsed().as_secs();
        match outcome {
            Ok(text) => println!("ok    {:<4} {}: {text}, {seconds} s", trial.kind.name(), trial.name),
            Err(why) => {
                println!("FAIL  {:<4} {}: {why}", trial.kind.name(), trial.name);
                failed += 1;
            }
        }
    }
    for kind in [Kind::Ext4, Kind::Xfs].into_iter().filter(|_| AILING.contains(&only)) {
        let begun = Instant::now();
        match ailing::run(&host, kind) {
            Ok(text) => println!("ok    {:<4} {AILING}: {text}, {} s", kind.name(), begun.elapsed().as_secs()),
            Err(why) => {
                println!("FAIL  {:<4} {AILING}: {why}", kind.name());
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the store finds in an image that was kept.
fn show(host: &Host, image: &Path) -> ExitCode {
    let kind = if image.to_string_lossy().contains(Kind::Xfs.name()) { Kind::Xfs } else { Kind::Ext4 };
    let copy = host.memory().join("shown.img");
    let seen = std::fs::copy(image, &copy)
        .map_err(|e| format!("{}: {e}", image.display()))
        .and_then(|_| Mounted::image(kind, &copy, &host.memory().join("shown")))
        .and_then(|mounted| Subject::Store(Protocol::WHOLE).look(&mounted.at));
    match seen {
        Ok(seen) => {
            println!("revision {:?}", seen.revision);
            seen.objects.iter().for_each(|(key, text)| println!("{key} {:.150}", text));
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(host: &Host, trial: &Trial, seed: u64) -> Result<String, String> {
    let memory = host.memory();
    let record = memory.join("record");
    let history = {
        let card = Card::start(&memory.join("card"), trial.kind.megabytes(), Pace::NONE, Some(&record), None)?;
        let mounted = Mounted::card(trial.kind, card, &memory.join("mounted"))?;
        let history = work::run(&trial.subject, &mounted, &memory, seed)?;
        mounted.mark(FLUSH_RECORD)?;
        history
    };
    let record = Record::read(&record)?;
    let cuts = cut::all(host, trial.kind, &record, seed, trial.points, !trial.broken, |at, done| {
        let moment = history.moment(&record, done);
        judge::judge(&history, &moment, &mut || trial.subject.look(at), &mut || trial.subject.settle(at))
    })?;
    let what = format!("{} writes recorded, {}", history.done.len(), cuts.said());
    if cuts.mountable() * 100 < trial.points * MOUNTABLE_PERCENT {
        return Err(format!("too few images could be mounted: {what}"));
    }
    match (trial.broken, cuts.violations()) {
        (false, 0) => Ok(what),
        (false, _) => Err(format!("{what}\n{}", cuts.examples())),
        (true, 0) => Err(format!("its rules are broken, and nothing was noticed: {what}")),
        (true, _) => Ok(format!("caught, as it must be: {what}")),
    }
}
