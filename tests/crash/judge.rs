//! PURE but for the looking. Whether what is found after a power cut is a state that the store may have been in:
//! everything up to some revision, at least up to the last that somebody was told of, and nothing that nobody had asked
//! for.

use crate::subject::{Effect, Seen};
use crate::work::{History, Moment};
use std::collections::BTreeMap;

type Objects<'a> = BTreeMap<&'a str, &'a str>;

/// `look` opens what the cut left; `settle` opens it, writes, brings everything to its place and closes.
pub fn judge(
    history: &History,
    moment: &Moment,
    look: &mut dyn FnMut() -> Result<Seen, String>,
    settle: &mut dyn FnMut() -> Result<Option<u64>, String>,
) -> Result<(), String> {
    let first = look()?;
    possible(history, moment, &first)?;
    let second = look().map_err(|why| format!("opened again: {why}"))?;
    if second.objects != first.objects {
        return Err(format!("opened again it differs: {}", difference(&view(&first), &view(&second))));
    }
    if second.revision < first.revision {
        return Err(format!("opened again its revision goes from {:?} to {:?}", first.revision, second.revision));
    }
    if let Some(revision) = settle().map_err(|why| format!("opened to be settled: {why}"))?
        && revision <= moment.acknowledged
    {
        return Err(format!("revision {revision} is given again: {} was acknowledged", moment.acknowledged));
    }
    let third = look().map_err(|why| format!("settled: {why}"))?;
    if third.objects != first.objects {
        return Err(format!("settled it differs: {}", difference(&view(&first), &view(&third))));
    }
    Ok(())
}

fn possible(history: &History, moment: &Moment, seen: &Seen) -> Result<(), String> {
    let mut objects = Objects::new();
    let (certain, later): (Vec<_>, Vec<_>) =
        history.done.iter().partition(|done| done.written.revision <= moment.acknowledged);
    for done in certain {
        apply(&mut objects, &done.written.key, &done.written.effect);
    }
    let found = view(seen);
    let at_least = objects.clone();
    let mut later = later.into_iter().take_while(|done| moment.asked.contains(&done.id));
    while objects != found {
        let Some(done) = later.next() else {
            let what = difference(&at_least, &found);
            return Err(format!("no state between revision {} and what was asked for: {what}", moment.acknowledged));
        };
        apply(&mut objects, &done.written.key, &done.written.effect);
    }
    match seen.revision {
        Some(revision) if revision < moment.acknowledged => {
            Err(format!("its revision is {revision}, and {} was acknowledged", moment.acknowledged))
        }
        _ => Ok(()),
    }
}

fn apply<'a>(objects: &mut Objects<'a>, key: &'a str, effect: &'a Effect) {
    match effect {
        Effect::Put(text) => drop(objects.insert(key, text)),
        Effect::Removed => drop(objects.remove(key)),
        Effect::Nothing => {}
    }
}

fn view(seen: &Seen) -> Objects<'_> {
    seen.objects.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect()
}

/// The first object that is not as it was.
fn difference(was: &Objects, found: &Objects) -> String {
    let keys = was.keys().chain(found.keys());
    let Some(key) = keys.min_by_key(|key| (was.get(*key) == found.get(*key), **key)) else {
        return "nothing is left".to_owned();
    };
    match (was.get(key), found.get(key)) {
        (Some(was), Some(found)) => format!("{key} says {} and not {}", start(found), start(was)),
        (Some(_), None) => format!("{key} is lost"),
        (None, Some(_)) => format!("{key} is back, or was never asked for"),
        (None, None) => "nothing was left".to_owned(),
    }
}

/// Enough to tell which write it was.
fn start(text: &str) -> String {
    let said = text.split("\"text\":").nth(1).unwrap_or(text);
    said.chars().take(12).collect()
}
