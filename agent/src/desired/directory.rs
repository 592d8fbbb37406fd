//! The directory of manifest files: a source of pods.
//!
//!     inotify or the slow rescan -> read the whole directory -> file by file its objects, or their last good versions
//!         -> SourceState
//!
//! The last good version of each file is kept on this host's disk, object by object, so that a file which does not
//! parse and an object which is refused stop nothing, also over a restart of the agent. What was never read well is
//! unknown, not absent. A file that was taken away is a deletion that was seen, and so is an object that a file which
//! parses has no more.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use tokio::sync::{mpsc, watch};

use super::file::{ReadSettings, Stamp, last_good_versions, names, stamp, take};
use super::file_services::gathered;
use super::good::{Good, renewed};
use super::inotify::{Change, Watch};
use super::manifest::{Entry, Fault};
use super::{PodName, complaints, file_problems, page};
use crate::facts::happening::Happening;
use crate::facts::objects::{Object, Ref};
use crate::facts::source_state::{FileProblem, FilesSeen, SourceState};
use crate::facts::uid_set::UidSet;
use crate::facts::wanted::Wanted;
use crate::host::{private, trace};

/// Finds what inotify does not tell: network file systems, hard links, a directory that was mounted over.
const RESCAN: Duration = Duration::from_secs(60);
/// While the directory is missing.
const RETRY: Duration = Duration::from_secs(5);
/// An editor takes a file away and writes it anew: a file that is missing for so long was not removed.
const SETTLE: Duration = Duration::from_millis(20);
/// Far more files than one host runs pods.
const FILES_MAX: usize = 1000;
/// Uids of pods from removed files; a uid matters only until the pod's containers are gone.
const GONE_MAX: usize = 1000;

pub struct Directory {
    path: PathBuf,
    last_good: PathBuf,
    node_name: String,
    /// `allow-unknown-fields`
    allow_unknown: bool,
    files: BTreeMap<OsString, File>,
    gone: UidSet,
    /// And their namespaces and names.
    gone_names: BTreeSet<(String, String)>,
    /// Files that ask for a pod which an earlier one asks for, said once.
    doubles: BTreeSet<String>,
    /// The problem of the directory itself, logged once.
    trouble: Option<String>,
    /// The directory and files that users other than root can write, with the users, logged once.
    open: BTreeMap<PathBuf, String>,
    /// Files whose last good version is not on the disk yet.
    unsaved: BTreeSet<OsString>,
    /// Nothing is written, for commands that only report.
    only_looks: bool,
    /// The kept copy of a manifest page from another host, read as a further file.
    page: Option<PathBuf>,
}

/// The last reading of one manifest file.
struct File {
    stamp: Stamp,
    /// Its last good version.
    good: Option<Good>,
    /// An object that may ask for pods was never read well.
    lacks: bool,
    problems: Vec<FileProblem>,
}

impl Directory {
    /// Reads what the last agent knew. A missing directory is made only if no pod ever came from the directory:
    /// otherwise a mount may be missing.
    pub fn open(path: &str, data_dir: &str, node_name: &str) -> Directory {
        let directory = Directory::known(path, data_dir, node_name);
        let path = &directory.path;
        if directory.files.is_empty() && !path.exists() {
            match private::make_manifest_directory(path) {
                Ok(()) => log::info!("made the manifest directory {}", path.display()),
                Err(error) => log::warn!("make the manifest directory {}: {error}", path.display()),
            }
        }
        directory
    }

    /// Reads as an agent that starts now would; nothing is written. The error is the directory's own.
    pub fn look(path: &str, data_dir: &str, settings: ReadSettings<'_>, page: bool) -> (SourceState, Option<String>) {
        let known = Directory::known(path, data_dir, settings.node_name).allowing_unknown(settings.allow_unknown);
        let mut directory = Directory { only_looks: true, ..known }.with_page(data_dir, page);
        let state = directory.read();
        (state, directory.trouble)
    }

    fn known(path: &str, data_dir: &str, node_name: &str) -> Directory {
        let last_good = Path::new(data_dir).join("last-good");
        let file = |good| File { stamp: Stamp::NONE, good, lacks: false, problems: Vec::new() };
        let files = last_good_versions(&last_good).map(|(name, good)| (name, file(good))).collect();
        Directory {
            path: PathBuf::from(path),
            last_good,
            node_name: node_name.to_owned(),
            allow_unknown: false,
            files,
            gone: UidSet::default(),
            gone_names: BTreeSet::new(),
            doubles: BTreeSet::new(),
            trouble: None,
            open: BTreeMap::new(),
            unsaved: BTreeSet::new(),
            only_looks: false,
            page: None,
        }
    }

    /// Whether fields that v1 does not have are left out with a warning.
    pub fn allowing_unknown(self, allow_unknown: bool) -> Directory {
        Directory { allow_unknown, ..self }
    }

    /// With a page of another host, see `page`.
    pub fn with_page(self, data_dir: &str, asked: bool) -> Directory {
        let page = page::place(data_dir);
        if !asked && !self.only_looks {
            // Nobody is to find it when the page is asked for again.
            let _ = fs::remove_file(&page);
        }
        Directory { page: asked.then_some(page), ..self }
    }

    /// Never ends. The first state is sent before the first wait. `fetched`: the page is another one.
    pub async fn follow(
        mut self,
        out: watch::Sender<Option<SourceState>>,
        mut fetched: watch::Receiver<()>,
        teller: mpsc::Sender<Happening>,
    ) {
        let (mut watch, mut told) = (None, Arc::default());
        loop {
            if watch.is_none() {
                watch = Watch::open(&self.path);
            }
            let state = self.read();
            trace::step("manifest directory", &"read");
            complaints::tell(&self.node_name, &teller, &told, &state.files);
            told = state.files.clone();
            out.send_if_modified(|was| {
                let differs = was.as_ref() != Some(&state);
                if differs {
                    *was = Some(state);
                }
                differs
            });
            let wait = if self.trouble.is_some() { RETRY } else { RESCAN };
            let changed = async {
                match &mut watch {
                    Some(open) => open.changed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = changed => match changed {
                    Change::Written => trace::step("manifest directory", &"a file was written"),
                    Change::Taken => tokio::time::sleep(SETTLE).await,
                    Change::Lost => watch = None,
                },
                Ok(()) = fetched.changed() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn read(&mut self) -> SourceState {
        let names = match names(&self.path) {
            Ok(names) => {
                if self.trouble.take().is_some() {
                    log::info!("the manifest directory {} is there again", self.path.display());
                }
                names
            }
            Err(error) => {
                let text = format!("{error}; what runs of it goes on");
                if self.trouble.as_ref() != Some(&text) {
                    log::error!("read the manifest directory {}: {text}", self.path.display());
                    self.trouble = Some(text);
                }
                return self.state(false, false);
            }
        };
        let files = names.iter().take(FILES_MAX).map(|name| self.path.join(name));
        self.open = complaints::of_writers(std::iter::once(self.path.clone()).chain(files), &self.open);
        let mut names = names;
        // A page that was never fetched is unknown; pods that an earlier agent knew from the page go on.
        let unknown = self.page.as_ref().is_some_and(|page| !page.exists());
        names.remove(OsStr::new(page::NAME));
        let page = self.page.as_ref().filter(|_| !unknown || self.files.contains_key(OsStr::new(page::NAME)));
        names.extend(page.map(|_| page::NAME.into()));
        let whole = names.len() <= FILES_MAX;
        let removed: Vec<OsString> = self.files.keys().filter(|name| !names.contains(*name)).cloned().collect();
        for name in removed.into_iter().filter(|_| whole) {
            self.remove(&name);
        }
        for name in names.into_iter().take(FILES_MAX).filter(|name| !(unknown && name == page::NAME)) {
            self.read_file(&name);
        }
        if !whole {
            log::warn!("{} has more than {FILES_MAX} files: the rest is not read", self.path.display());
        }
        self.save();
        self.state(whole, unknown)
    }

    fn place_of(&self, name: &OsStr) -> PathBuf {
        self.page.clone().filter(|_| name == page::NAME).unwrap_or_else(|| self.path.join(name))
    }

    fn read_file(&mut self, name: &OsString) {
        let path = self.place_of(name);
        let stamp = stamp(&path);
        let known = self.files.get(name);
        if let (Ok(stamp), Some(known)) = (&stamp, known)
            && known.stamp == *stamp
        {
            return;
        }
        let settings = ReadSettings { node_name: &self.node_name, allow_unknown: self.allow_unknown };
        let read = stamp.as_ref().map_err(|error| vec![Fault::of_file(error.to_string())]);
        let read = read.and_then(|stamp| take(&path, *stamp, settings));
        let none = File { stamp: Stamp::NONE, good: None, lacks: false, problems: Vec::new() };
        let file = self.files.entry(name.clone()).or_insert(none);
        file.stamp = stamp.unwrap_or(Stamp::NONE);
        let place = path.display().to_string();
        let problem = |fault, goes_on, warning| FileProblem { path: place.clone(), fault, goes_on, warning };
        let problems: Vec<FileProblem> = match read {
            Ok(entries) => self.take_entries(name, entries, problem),
            Err(faults) => {
                let goes_on = file.good.is_some();
                faults.into_iter().map(|fault| problem(fault, goes_on, false)).collect()
            }
        };
        let Some(file) = self.files.get_mut(name) else { return };
        complaints::say(&path, &file.problems, &problems);
        file.problems = problems;
    }

    /// Takes the objects of a file that parses. Returns the messages for the log.
    fn take_entries(
        &mut self,
        name: &OsString,
        entries: Vec<Entry>,
        problem: impl Fn(Fault, bool, bool) -> FileProblem,
    ) -> Vec<FileProblem> {
        let old = self.files.get(name).and_then(|file| file.good.as_ref());
        let renewed = renewed(entries, old);
        let was_good = old.is_some() || !renewed.good.units.is_empty() || !renewed.lacks;
        let refused = renewed.refused.into_iter().map(|(fault, goes_on)| problem(fault, goes_on, false));
        let warnings = renewed.warnings.into_iter().map(|fault| problem(fault, false, true));
        let problems = refused.chain(warnings).collect();
        if let Some(file) = self.files.get_mut(name) {
            file.lacks = renewed.lacks;
        }
        if was_good {
            self.keep(name, renewed.good);
        }
        problems
    }

    /// Stores the new good version; pods that are missing in the new version end. What has not changed stays the very
    /// same.
    fn keep(&mut self, name: &OsString, mut good: Good) {
        let Some(file) = self.files.get_mut(name) else { return };
        if file.good.as_ref() == Some(&good) {
            return;
        }
        self.unsaved.insert(name.clone());
        let old = file.good.take();
        for pod in good.units.iter_mut().flat_map(|unit| &mut unit.pods) {
            if let Some(same) = old.iter().flat_map(Good::pods).find(|old| *old == pod) {
                *pod = same.clone();
            }
        }
        file.good = Some(good);
        if let Some(old) = old {
            self.mark_gone(&old);
        }
    }

    /// Durable before it is acted on. Where nothing changed nothing is written: a start costs no wait for the disk,
    /// however many files there are, and a bad file never does.
    fn save(&mut self) {
        let unsaved = std::mem::take(&mut self.unsaved);
        if unsaved.is_empty() || self.only_looks {
            return;
        }
        let bytes = |name: OsString| {
            let good = self.files.get(&name)?.good.as_ref()?;
            Some((name, good.document().to_string().into_bytes()))
        };
        if let Err(error) = private::replace_files(&self.last_good, unsaved.into_iter().filter_map(bytes)) {
            log::warn!("keep the last good versions of manifests in {}: {error}", self.last_good.display());
        }
    }

    fn remove(&mut self, name: &OsString) {
        if let Some(good) = self.files.remove(name).and_then(|file| file.good) {
            self.mark_gone(&good);
        }
        if self.only_looks {
            return;
        }
        match fs::remove_file(self.last_good.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                log::warn!("remove {} from {}: {error}", name.to_string_lossy(), self.last_good.display());
            }
            _ => {}
        }
    }

    fn mark_gone(&mut self, good: &Good) {
        for wanted in good.pods() {
            if self.gone.len() < GONE_MAX {
                self.gone.insert(&wanted.name.uid);
                self.gone_names.insert((wanted.name.namespace.clone(), wanted.name.name.clone()));
            }
        }
    }

    /// `whole`: the names of all files are known. `page_unknown`: the page of another host was never fetched.
    fn state(&mut self, whole: bool, page_unknown: bool) -> SourceState {
        let mut pods: Vec<Arc<Wanted>> = Vec::new();
        let mut objects: BTreeMap<Ref, Arc<Object>> = BTreeMap::new();
        let mut complete = whole && !page_unknown;
        let mut files = FilesSeen { whole, ..FilesSeen::default() };
        files.unread.extend(page_unknown.then(|| page::NAME.to_owned()));
        let mut owners: BTreeMap<String, &OsString> = BTreeMap::new();
        let mut doubles = BTreeSet::new();
        let too_many = (!whole).then_some(FILES_MAX);
        let mut problems = file_problems::of_directory(&self.path, self.trouble.as_deref(), too_many, page_unknown);
        for (name, file) in &self.files {
            files.problems.extend(file.problems.iter().cloned());
            let since = file.stamp.modified_at();
            problems.extend(file.problems.iter().map(|found| file_problems::of_file(found, since.clone())));
            if file.good.is_none() || file.lacks {
                complete = false;
                files.unread.insert(name.to_string_lossy().into_owned());
            }
            let Some(good) = &file.good else { continue };
            let mut double = |first: &OsString, what: String, how: &str| {
                let (path, first) = (self.place_of(name), first.to_string_lossy());
                let why = format!("{first} asks for the same {what} and comes first: {how}");
                doubles.insert(format!("manifest {}: {why}", path.display()));
                problems.push(file_problems::double(&path, why));
            };
            for wanted in good.pods() {
                let PodName { uid, namespace, name: pod, .. } = &wanted.name;
                match owners.get(uid) {
                    None => {
                        owners.insert(uid.clone(), name);
                        files.of.insert(uid.clone(), name.to_string_lossy().into_owned());
                        pods.push(wanted.clone());
                    }
                    Some(first) => {
                        double(first, format!("pod {namespace}/{pod}"), "give one of them another id (metadata.name)")
                    }
                }
            }
            for (place, object) in good.objects() {
                let what = format!("{} {}/{}", place.kind.name(), place.namespace, place.name);
                match owners.get(&what) {
                    None => {
                        owners.insert(what, name);
                        objects.insert(place.clone(), object.clone());
                    }
                    Some(first) => double(first, what, "give one of them another name"),
                }
            }
        }
        for text in doubles.difference(&self.doubles) {
            log::error!("{text}");
        }
        self.doubles = doubles;
        self.gone.retain(|uid| !pods.iter().any(|wanted| wanted.name.uid == *uid));
        let asked = |namespace: &str, name: &str| {
            pods.iter().any(|wanted| wanted.name.namespace == namespace && wanted.name.name == name)
        };
        self.gone_names.retain(|(namespace, name)| !asked(namespace, name));
        files.gone = self.gone_names.clone();
        let services = gathered(self.files.iter().map(|(name, file)| (name, file.good.as_ref())));
        let (gone, files) = (self.gone.clone(), Arc::new(files));
        SourceState { pods, complete, gone, objects, services, files, problems, ..SourceState::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "version: v1beta2\nid: web\ncontainers: [{name: c, image: x}]\n";

    struct Bed {
        root: PathBuf,
    }

    impl Bed {
        fn new(name: &str) -> Bed {
            let root = std::env::temp_dir().join(format!("coracle-directory-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&root);
            Bed { root }
        }

        fn open(&self) -> Directory {
            let text = |path: PathBuf| path.to_str().unwrap().to_owned();
            Directory::open(&text(self.root.join("m")), &text(self.root.join("d")), "n1")
        }

        fn put(&self, name: &str, text: &str) {
            // Rename gives a new inode, even within one tick of the clock.
            fs::write(self.root.join("new"), text).unwrap();
            fs::rename(self.root.join("new"), self.root.join("m").join(name)).unwrap();
        }
    }

    impl Drop for Bed {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }

    #[test]
    fn a_page_is_a_file_more_and_unknown_until_it_was_fetched() {
        let bed = Bed::new("page");
        let data = bed.root.join("d").to_str().unwrap().to_owned();
        let open = |asked: bool| bed.open().with_page(&data, asked);
        let mut directory = open(true);
        bed.put("web.yaml", GOOD);
        assert_eq!(names(&directory.read()), (vec!["web"], false, 0));
        let place = page::place(&data);
        let fetched = |text: &str| {
            private::replace_files(place.parent().unwrap(), [(page::NAME.into(), text.into())].into_iter()).unwrap()
        };
        fetched(&GOOD.replace("id: web", "id: far"));
        assert_eq!(names(&directory.read()), (vec!["far", "web"], true, 0));
        fetched("version: [");
        assert_eq!(names(&directory.read()), (vec!["far", "web"], true, 0));
        fs::remove_file(&place).unwrap();
        assert_eq!(
            names(&open(true).read()),
            (vec!["far", "web"], false, 0),
            "after a restart without what was fetched"
        );
        fetched("kind: List\napiVersion: v1\nitems: []\n");
        assert_eq!(names(&directory.read()), (vec!["web"], true, 1));
        fetched(&GOOD.replace("id: web", "id: far"));
        assert_eq!(names(&directory.read()), (vec!["far", "web"], true, 0));
        assert_eq!(names(&open(false).read()), (vec!["web"], true, 1), "it is asked for no more");
        assert!(!place.exists());
    }

    fn names(state: &SourceState) -> (Vec<&str>, bool, usize) {
        (state.pods.iter().map(|wanted| wanted.name.name.as_str()).collect(), state.complete, state.gone.len())
    }

    #[test]
    fn a_file_that_breaks_keeps_its_last_good_version_over_a_restart() {
        let bed = Bed::new("breaks");
        let mut directory = bed.open();
        bed.put("web.yaml", GOOD);
        bed.put(".hidden", "nonsense");
        assert_eq!(names(&directory.read()), (vec!["web"], true, 0));
        bed.put("web.yaml", "version: [");
        assert_eq!(names(&directory.read()), (vec!["web"], true, 0));
        assert_eq!(names(&bed.open().read()), (vec!["web"], true, 0), "after a restart");
        fs::remove_file(bed.root.join("m/web.yaml")).unwrap();
        assert_eq!(names(&directory.read()), (vec![], true, 1));
        assert_eq!(names(&bed.open().read()), (vec![], true, 0));
    }

    #[test]
    fn a_file_that_cannot_be_read_hides_no_other() {
        let bed = Bed::new("hides");
        let mut directory = bed.open();
        bed.put("README", "This folder holds the pods of the shop.");
        bed.put("web.yaml", GOOD);
        let state = directory.read();
        let uid = state.pods[0].name.uid.clone();
        assert_eq!(state.files.of, BTreeMap::from([(uid, "web.yaml".to_owned())]));
        fs::remove_file(bed.root.join("m/web.yaml")).unwrap();
        let lacks = |state: &SourceState, file: Option<&str>| state.files.lack("default", "web", file);
        let state = directory.read();
        assert_eq!((names(&state), lacks(&state, None)), ((vec![], false, 1), true));
        // The next agent does not know what went, but whose it was.
        let state = bed.open().read();
        assert_eq!((names(&state), lacks(&state, None)), ((vec![], false, 0), false));
        assert_eq!((lacks(&state, Some("web.yaml")), lacks(&state, Some("README"))), (true, false));
        bed.put("web.yaml", GOOD);
        let state = directory.read();
        assert!(!lacks(&state, None) && state.pods.len() == 1);
        fs::rename(bed.root.join("m"), bed.root.join("away")).unwrap();
        assert!(!lacks(&bed.open().read(), Some("gone.yaml")), "the directory is not mounted");
    }

    #[test]
    fn manifests_and_their_copies_are_for_root_and_who_else_writes_them_is_named() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let bed = Bed::new("modes");
        let mut directory = bed.open();
        bed.put("web.yaml", GOOD);
        let mode = |path: &str| fs::metadata(bed.root.join(path)).unwrap().mode() & 0o777;
        directory.read();
        assert_eq!(["m", "d/last-good", "d/last-good/web.yaml"].map(mode), [0o750, 0o700, 0o600]);
        assert_eq!(directory.open, BTreeMap::new());
        for path in ["m", "m/web.yaml"] {
            fs::set_permissions(bed.root.join(path), fs::Permissions::from_mode(0o777)).unwrap();
        }
        directory.read();
        let everybody = |path: &str| (bed.root.join(path), "everybody".to_owned());
        assert_eq!(directory.open, BTreeMap::from([everybody("m"), everybody("m/web.yaml")]));
    }

    /// Many at once go another way to the disk than few.
    #[test]
    fn of_many_files_what_changed_is_kept_and_nothing_else_is_written() {
        const FILES: usize = 40;
        let bed = Bed::new("many");
        let mut directory = bed.open();
        for number in 0..FILES {
            bed.put(&format!("bad-{number}.yaml"), "x: [");
        }
        directory.read();
        assert!(!bed.root.join("d").exists(), "bad files are written nowhere");
        for number in 0..FILES {
            bed.put(&format!("good-{number}.yaml"), &GOOD.replace("id: web", &format!("id: web-{number}")));
        }
        assert_eq!(directory.read().pods.len(), FILES);
        let inodes = || -> BTreeMap<OsString, u64> {
            use std::os::unix::fs::DirEntryExt;
            let entries = fs::read_dir(bed.root.join("d/last-good")).unwrap().map(Result::unwrap);
            entries.map(|entry| (entry.file_name(), entry.ino())).collect()
        };
        let before = inodes();
        assert_eq!(before.len(), FILES);
        let mut again = bed.open();
        assert_eq!(again.read().pods.len(), FILES);
        assert_eq!(inodes(), before, "a start with the same files writes nothing");
        bed.put("good-7.yaml", &GOOD.replace("image: x", "image: y"));
        again.read();
        let written: Vec<OsString> =
            inodes().into_iter().filter(|(name, inode)| before[name] != *inode).map(|(name, _)| name).collect();
        assert_eq!(written, ["good-7.yaml"]);
    }

    #[test]
    fn what_was_never_read_well_is_unknown_and_removals_still_count() {
        let bed = Bed::new("unknown");
        let mut directory = bed.open();
        bed.put("bad.yaml", "x: [");
        bed.put("web.yaml", GOOD);
        assert_eq!(names(&directory.read()), (vec!["web"], false, 0));
        fs::remove_file(bed.root.join("m/web.yaml")).unwrap();
        assert_eq!(names(&directory.read()), (vec![], false, 1));
    }

    #[test]
    fn of_two_files_with_one_pod_the_first_counts_and_the_other_steps_in() {
        let bed = Bed::new("doubles");
        let mut directory = bed.open();
        bed.put("a.yaml", GOOD);
        bed.put("b.yaml", GOOD);
        assert_eq!(names(&directory.read()), (vec!["web"], true, 0));
        let said: Vec<String> = directory.doubles.iter().cloned().collect();
        assert!(said.len() == 1 && said[0].contains("m/b.yaml: a.yaml asks for the same pod default/web"), "{said:?}");
        fs::remove_file(bed.root.join("m/a.yaml")).unwrap();
        assert_eq!(names(&directory.read()), (vec!["web"], true, 0));
        assert!(directory.doubles.is_empty());
    }

    #[test]
    fn a_removal_is_heard_whatever_the_uid_looks_like() {
        let bed = Bed::new("uid");
        let mut directory = bed.open();
        bed.put("bad.yaml", "x: [");
        bed.put("web.yaml", &format!("{GOOD}uuid: my own/uid\n"));
        let uid = directory.read().pods[0].name.uid.clone();
        fs::remove_file(bed.root.join("m/web.yaml")).unwrap();
        assert_eq!(directory.read().gone.iter().collect::<Vec<_>>(), [uid]);
    }

    #[test]
    fn another_name_in_the_same_file_ends_the_first_pod() {
        let bed = Bed::new("rename");
        let mut directory = bed.open();
        bed.put("web.yaml", GOOD);
        directory.read();
        bed.put("web.yaml", &GOOD.replace("id: web", "id: other"));
        assert_eq!(names(&directory.read()), (vec!["other"], true, 1));
    }

    #[test]
    fn a_file_of_many_things_keeps_all_of_them_over_a_restart() {
        let bed = Bed::new("many-things");
        let mut directory = bed.open();
        let text = |replicas: u32| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{a: b}}\n---\napiVersion: apps/v1\n\
                 kind: Deployment\nmetadata: {{name: w}}\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: \
                 {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}}}\n    spec: {{containers: [{{name: c, \
                 image: x}}]}}\n"
            )
        };
        bed.put("all.yaml", &text(2));
        let before = directory.read();
        assert_eq!(before.files.problems, []);
        assert_eq!((names(&before), before.objects.len()), ((vec!["w-0", "w-1"], true, 0), 1));
        let mut again = bed.open();
        let after = again.state(true, false);
        assert_eq!((&after.pods, &after.objects), (&before.pods, &before.objects), "after a restart");
        bed.put("all.yaml", &text(1));
        bed.put("more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: other}\n");
        let state = again.read();
        assert_eq!((names(&state), &state.objects), ((vec!["w-0"], true, 1), &before.objects));
        assert!(again.doubles.iter().any(|text| text.contains("ConfigMap default/m")), "{:?}", again.doubles);
    }

    #[test]
    fn a_missing_directory_is_made_once_and_unknown_afterwards() {
        let bed = Bed::new("missing");
        let mut directory = bed.open();
        bed.put("web.yaml", GOOD);
        directory.read();
        fs::remove_dir_all(bed.root.join("m")).unwrap();
        assert_eq!(names(&directory.read()), (vec!["web"], false, 0));
        assert_eq!(names(&bed.open().read()), (vec!["web"], false, 0), "it is not made again");
        assert!(!bed.root.join("m").exists());
    }

    fn pod(name: &str, image: &str, more: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
             spec: {{containers: [{{name: c, image: {image}{more}}}]}}\n"
        )
    }

    fn images(state: &SourceState) -> Vec<(&str, &str)> {
        let image = |wanted: &'_ Wanted| wanted.document["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
        let pairs = state.pods.iter().map(|wanted| (wanted.name.name.as_str(), image(wanted)));
        pairs.map(|(name, image)| (name, &*image.leak())).collect()
    }

    #[test]
    fn an_object_that_is_refused_goes_on_over_a_restart_and_the_others_are_taken() {
        let bed = Bed::new("objects");
        let mut directory = bed.open();
        bed.put("all.yaml", &format!("{}---\n{}", pod("a", "x", ""), pod("b", "x", "")));
        assert_eq!(images(&directory.read()), [("a", "x"), ("b", "x")]);
        bed.put("all.yaml", &format!("{}---\n{}", pod("a", "w", ", comand: [z]"), pod("b", "w", "")));
        for state in [directory.read(), bed.open().read()] {
            assert_eq!((images(&state), state.complete), (vec![("b", "w"), ("a", "x")], true));
            let told: Vec<String> = state.files.problems.iter().map(FileProblem::sentence).collect();
            assert!(told.len() == 1, "{told:?}");
            for words in
                ["m/all.yaml: Pod default/a (line 1)", "comand (line 4): unknown", "its last good version goes on"]
            {
                assert!(told[0].contains(words), "{told:?}");
            }
        }
        bed.put("all.yaml", &pod("a", "w", ", comand: [z]"));
        assert_eq!((images(&directory.read()), names(&directory.read()).2), (vec![("a", "x")], 1), "b is gone");
        // Nobody knows whether this is pod a.
        bed.put("all.yaml", &pod("a", "w", "").replace("metadata", "metdata"));
        assert_eq!(images(&directory.read()), [("a", "x")]);
        bed.put("all.yaml", &pod("a", "w", ""));
        let state = directory.read();
        assert_eq!((images(&state), state.files.problems.len()), (vec![("a", "w")], 0));
    }

    #[test]
    fn an_object_that_was_never_read_well_is_unknown() {
        let bed = Bed::new("never");
        let mut directory = bed.open();
        bed.put("all.yaml", &format!("{}---\n{}", pod("a", "x", ", comand: [z]"), pod("b", "x", "")));
        for state in [directory.read(), bed.open().read()] {
            assert_eq!((images(&state), state.complete), (vec![("b", "x")], false));
            assert!(state.files.unread.contains("all.yaml"));
        }
        bed.put("all.yaml", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: i}\n");
        let state = directory.read();
        assert_eq!((images(&state), state.complete), (vec![], true), "an Ingress asks for no pod");
        assert!(state.files.problems[0].sentence().contains("kind Ingress: this directory takes"));
    }

    /// What the agents before this one left on the disk: they dropped unknown fields, and noted no objects.
    #[test]
    fn an_upgrade_changes_no_pod_for_a_field_that_the_older_agent_dropped() {
        let bed = Bed::new("upgrade");
        let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec:\n  replicas: 2\n  \
                          replica: 2\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n\
                          \x20   spec: {containers: [{name: c, image: x, colour: red}]}\n";
        let text = format!("{}---\n{deployment}", pod("a", "x", ", comand: [z]"));
        let data = bed.root.join("d").to_str().unwrap().to_owned();
        let lenient = bed.open().allowing_unknown(true).read_once(&bed, "all.yaml", &text);
        let alone = bed.open().allowing_unknown(true).read_once(&bed, "one.yaml", &pod("one", "x", ", comand: [z]"));
        let page = bed.open().with_page(&data, true).allowing_unknown(true);
        let place = page::place(&data);
        let fetched = pod("far", "x", ", comand: [z]");
        private::replace_files(place.parent().unwrap(), [(page::NAME.into(), fetched.into())].into_iter()).unwrap();
        let before = { page }.read();
        assert_eq!((lenient.len(), alone.len(), before.pods.len()), (3, 4, 5));
        for file in ["all.yaml", "one.yaml", page::NAME] {
            let path = bed.root.join("d/last-good").join(file);
            let mut kept: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            if let Some(kept) = kept.as_object_mut() {
                ["of", "units", "others"].iter().for_each(|field| drop(kept.remove(*field)));
            }
            fs::write(&path, kept.to_string()).unwrap();
        }
        let mut upgraded = bed.open().with_page(&data, true);
        let after = upgraded.read();
        let hashes = |state: &SourceState| -> BTreeMap<String, String> {
            let of = |wanted: &Arc<Wanted>| (wanted.name.uid.clone(), wanted.manifest_hash.clone());
            state.pods.iter().map(of).collect()
        };
        assert_eq!((hashes(&after), after.complete, after.gone.len()), (hashes(&before), true, 0));
        let told: Vec<String> = after.files.problems.iter().map(FileProblem::sentence).collect();
        assert_eq!(told.iter().filter(|text| text.contains("its last good version goes on")).count(), 4, "{told:?}");
        let again = bed.open().with_page(&data, true).read();
        assert_eq!((hashes(&again), again.complete), (hashes(&before), true), "and over a restart");
    }

    impl Directory {
        fn read_once(mut self, bed: &Bed, name: &str, text: &str) -> Vec<Arc<Wanted>> {
            bed.put(name, text);
            self.read().pods
        }
    }
}
