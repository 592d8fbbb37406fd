//! `coracle-master apply`: what was applied from `apply-dir`, the word of a person where removals wait for it, and the
//! mark of the directory.

use super::page;
use super::reach::Outcome;
use crate::applied::{MARK, mark_in};
use crate::config::{ApplyDeed, Config};
use crate::page::{APPLIED, APPLY_AGAIN, APPLY_CONFIRM};
use coracle_keeper::problem::{Problem, Severity};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub fn run(config: &Config, deed: ApplyDeed) -> Result<Outcome, String> {
    let told: Value = serde_json::from_str(&page(config, "GET", APPLIED)?).map_err(|error| error.to_string())?;
    if told["directory"].is_null() && matches!(deed, ApplyDeed::Mark { .. }) {
        // The unit asks at each start.
        return Ok(Outcome::good("the master applies no directory: nothing is to be marked".to_owned()));
    }
    if told["directory"].is_null() {
        return Err("the master applies no directory: set apply-dir in its configuration".to_owned());
    }
    match deed {
        ApplyDeed::Show => Ok(show(&told)),
        ApplyDeed::Confirm => {
            let named: Vec<String> = serde_json::from_str(&page(config, "POST", APPLY_CONFIRM)?).unwrap_or_default();
            Ok(Outcome::good(match named.as_slice() {
                [] => "no removal waits for a confirmation".to_owned(),
                named => format!("these objects are removed now:\n    {}", named.join("\n    ")),
            }))
        }
        ApplyDeed::Again => page(config, "POST", APPLY_AGAIN).map(|text| Outcome::good(text.trim_end().to_owned())),
        ApplyDeed::Mark { anyway } => mark(&told, anyway).map(Outcome::good),
    }
}

/// The problems of a page, as the master tells them.
pub fn problems(told: &Value) -> Vec<Problem> {
    serde_json::from_value(told["problems"].clone()).unwrap_or_default()
}

fn texts(told: &Value, field: &str) -> Vec<String> {
    serde_json::from_value(told[field].clone()).unwrap_or_default()
}

fn show(told: &Value) -> Outcome {
    let (problems, awaited) = (problems(told), texts(told, "awaited"));
    let directory = told["directory"].as_str().unwrap_or_default();
    let files = texts(told, "files").len();
    let mut lines = vec![format!("{directory}: {} objects of {files} files are applied", told["objects"])];
    if !awaited.is_empty() {
        lines.push("these objects wait to be removed, coracle-master apply --confirm removes them:".to_owned());
        lines.extend(awaited.iter().map(|object| format!("    {object}")));
    }
    lines.push(if problems.is_empty() { "all is well".to_owned() } else { "problems:".to_owned() });
    lines.extend(problems.iter().map(|problem| format!("    {}", problem.line())));
    let is_well = problems.iter().all(|problem| problem.severity != Severity::Problem);
    Outcome { text: lines.join("\n"), code: u8::from(!is_well) }
}

/// The directory is that of the inventory from now on: what is missing in it was taken away on purpose. By itself only
/// a directory is marked in which every file of the inventory is: another one may be a disk that is not mounted.
fn mark(told: &Value, anyway: bool) -> Result<String, String> {
    let (directory, uid) = (told["directory"].as_str().unwrap_or_default(), told["uid"].as_str().unwrap_or_default());
    let directory = Path::new(directory);
    let path = directory.join(MARK);
    if uid.is_empty() {
        return Err(format!("{}: there is no inventory yet: coracle-master apply says why", directory.display()));
    }
    if fs::read_to_string(&path).is_ok_and(|text| mark_in(&text).as_deref() == Some(uid)) {
        return Ok(format!("{}: it is marked already", directory.display()));
    }
    let missing = texts(told, "files").into_iter().filter(|file| !directory.join(file).is_file());
    let missing: Vec<String> = missing.collect();
    if !missing.is_empty() && !anyway {
        return Err(format!(
            "{}: it is not marked: files are missing in it from which objects were applied, so it may be another \
             directory; if it is the right one, and they were taken away on purpose: \
             coracle-master apply --mark --yes\n    {}",
            directory.display(),
            missing.join("\n    ")
        ));
    }
    write_mark(&path, uid).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(format!("{}: it is marked", directory.display()))
}

fn write_mark(path: &Path, uid: &str) -> std::io::Result<()> {
    let text = format!(
        "# The mark of coracle's apply-dir: without it no object is removed because its file is gone.\n\
         # coracle-master apply --mark writes it anew.\n{uid}\n"
    );
    let new = path.with_extension("partial");
    // A file of that name that another has left goes first: a link is not followed.
    fs::remove_file(&new).ok();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?;
    file.write_all(text.as_bytes())?;
    // The umask of who runs it is another's.
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
