//! What is wrong with manifest files, for the log and for events: each problem once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

use crate::facts::happening::Happening;
use crate::facts::source_state::{FileProblem, FilesSeen};
use crate::host::private;

/// Says once what is wrong with a file, and when the file is well again.
pub(super) fn say(path: &Path, before: &[FileProblem], now: &[FileProblem]) {
    for problem in now.iter().filter(|problem| !before.contains(problem)) {
        let level = if problem.warning { log::Level::Warn } else { log::Level::Error };
        log::log!(level, "manifest {}", problem.sentence());
    }
    let is_bad = |problems: &[FileProblem]| problems.iter().any(|problem| !problem.warning);
    if is_bad(before) && !is_bad(now) {
        log::info!("manifest {}: it reads well again", path.display());
    }
}

/// An event of this node for each new problem.
pub(super) fn tell(node_name: &str, teller: &mpsc::Sender<Happening>, before: &FilesSeen, now: &FilesSeen) {
    let new = now.problems.iter().filter(|problem| !problem.warning && !before.problems.contains(problem));
    for problem in new {
        let _ = teller.try_send(Happening::of_node(node_name, "FailedManifest", problem.sentence()));
    }
}

/// Whoever may write a manifest is root on this host: says once who that is. Returns the paths that users other than
/// root can write, with the users.
pub(super) fn of_writers(
    paths: impl Iterator<Item = PathBuf>,
    before: &BTreeMap<PathBuf, String>,
) -> BTreeMap<PathBuf, String> {
    let open: BTreeMap<PathBuf, String> =
        paths.filter_map(|path| Some((path.clone(), private::writers(&path)?))).collect();
    for (path, who) in open.iter().filter(|(path, who)| before.get(*path) != Some(who)) {
        let path = path.display();
        log::warn!(
            "{path} can be written by {who}, who can start anything as root on this host: `chown root:root {path}; \
             chmod go-w {path}`"
        );
    }
    open
}
