use super::*;

const DIGEST: &str = "d1";

/// A world in which decisions are tried.
struct Bench {
    kinds: Kinds,
    tree: Tree,
    inventory: Inventory,
    store: BTreeMap<Key, Live>,
    failed: BTreeMap<Key, Failure>,
    is_quiet: bool,
    is_confirmed: bool,
    again: bool,
    uids: u32,
}

fn named(word: &str) -> Named {
    let (kind, name) = word.split_once('/').expect("KIND/NAME");
    let (api_version, namespace) = match kind {
        "Namespace" | "Node" => ("v1", ""),
        "Deployment" => ("apps/v1", "n"),
        "Widget" => ("w.io/v1", "n"),
        _ => ("v1", "n"),
    };
    let (api_version, kind, namespace) = (api_version.to_owned(), kind.to_owned(), namespace.to_owned());
    Named { api_version, kind, namespace, name: name.to_owned() }
}

fn file(digest: &str, words: &[&str]) -> FileState {
    let named = words.iter().map(|word| named(word)).collect();
    FileState::Read(ReadFile { digest: digest.to_owned(), ends: true, named })
}

use super::super::tree::{ReadFile, folder_of};

impl Bench {
    fn new() -> Bench {
        let mut bench = Bench {
            kinds: Kinds::builtin(),
            tree: Tree { mark: Some("u".to_owned()), ..Tree::default() },
            inventory: Inventory { uid: "u".to_owned(), ..Inventory::default() },
            store: BTreeMap::new(),
            failed: BTreeMap::new(),
            is_quiet: true,
            is_confirmed: false,
            again: false,
            uids: 0,
        };
        bench.put_object("Namespace/n");
        bench
    }

    /// Files by path, as `DIGEST OBJECT...`.
    fn with(files: &[(&str, &str)]) -> Bench {
        let mut bench = Bench::new();
        for (path, text) in files {
            bench.put(path, text);
        }
        bench
    }

    fn put(&mut self, path: &str, text: &str) {
        let mut words = text.split(' ');
        let digest = words.next().expect("a digest");
        let words: Vec<&str> = words.collect();
        self.tree.files.insert(path.to_owned(), file(digest, &words));
        self.folders();
    }

    fn take(&mut self, path: &str) {
        self.tree.files.remove(path);
        let kept: Vec<String> = self.tree.folders.keys().cloned().collect();
        self.folders();
        // A folder does not go with its last file.
        kept.into_iter().for_each(|folder| _ = self.tree.folders.entry(folder).or_insert(false));
    }

    fn folders(&mut self) {
        let folders = self.tree.files.keys().map(|path| (folder_of(path).to_owned(), true));
        self.tree.folders = folders.chain([]).collect();
        let has_any = !self.tree.folders.is_empty();
        self.tree.folders.insert(String::new(), has_any);
    }

    fn key(&self, word: &str) -> Key {
        let named = named(word);
        let kind = self.kinds.by_kind(&named.api_version, &named.kind).expect("a kind");
        key_of(&self.kinds, kind, &named)
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    fn put_object(&mut self, word: &str) {
        let uid = self.uid();
        let key = self.key(word);
        self.store.insert(key, Live { uid, is_ours: true, ..Live::default() });
    }

    fn decide(&self) -> Decision {
        let standing = |key: &Key| self.store.get(key).cloned().map_or(Standing::Absent, Standing::There);
        decide(&Seen {
            directory: "/d",
            kinds: &self.kinds,
            tree: &self.tree,
            inventory: &self.inventory,
            standing: &standing,
            failed: &self.failed,
            is_quiet: self.is_quiet,
            is_confirmed: self.is_confirmed,
            again: self.again,
        })
    }

    /// Does what was decided.
    fn act(&mut self, decision: &Decision) {
        self.inventory = decision.inventory.clone();
        for apply in &decision.applies {
            let FileState::Read(file) = &self.tree.files[&apply.file] else { panic!("it was read") };
            let digest = file.digest.clone();
            if !self.store.contains_key(&apply.key) {
                let uid = self.uid();
                self.store.insert(apply.key.clone(), Live { uid, ..Live::default() });
            }
            let live = self.store.get_mut(&apply.key).expect("it is there");
            live.is_ours = true;
            let entry = self.inventory.entries.get_mut(&apply.key).expect("it is written first");
            (entry.uid, entry.digest) = (live.uid.clone(), digest);
        }
        for removal in &decision.removals {
            self.store.remove(&removal.key);
            self.inventory.entries.remove(&removal.key);
        }
    }

    /// Decides and does it until nothing is to be done.
    fn settle(&mut self) {
        for _ in 0..4 {
            let decision = self.decide();
            self.act(&decision);
        }
        let decision = self.decide();
        assert!(decision.applies.is_empty() && decision.removals.is_empty(), "{decision:?}");
        assert_eq!(decision.inventory, self.inventory);
    }

    fn check(&self, applies: &[&str], removals: &[&str], reasons: &[&str]) {
        let decision = self.decide();
        let found: Vec<String> = decision.applies.iter().map(|apply| apply.key.name.clone()).collect();
        assert_eq!(found, applies, "applies: {decision:?}");
        let found: Vec<&str> = decision.removals.iter().map(|removal| removal.key.name.as_str()).collect();
        assert_eq!(found, removals, "removals: {decision:?}");
        let found: BTreeSet<&str> = decision.problems.iter().map(|problem| problem.reason.as_str()).collect();
        assert_eq!(found, reasons.iter().copied().collect(), "problems: {:?}", decision.problems);
    }
}

fn settled(files: &[(&str, &str)]) -> Bench {
    let mut bench = Bench::with(files);
    bench.settle();
    bench
}

const FOUR: &str = "1 ConfigMap/a ConfigMap/b ConfigMap/c ConfigMap/d";

#[test]
fn what_others_need_is_applied_first() {
    let bench = Bench::with(&[("a.yaml", "1 Deployment/d Service/s"), ("z.yaml", "1 ConfigMap/c Namespace/m")]);
    bench.check(&["m", "c", "s", "d"], &[], &[]);
}

#[test]
fn a_file_that_did_not_change_does_nothing_and_a_changed_one_is_applied_whole() {
    let mut bench = settled(&[("a.yaml", FOUR), ("b.yaml", "1 Secret/s")]);
    bench.check(&[], &[], &[]);
    bench.put("a.yaml", "2 ConfigMap/a ConfigMap/b ConfigMap/c ConfigMap/d");
    bench.check(&["a", "b", "c", "d"], &[], &[]);
    bench.settle();
    bench.again = true;
    bench.check(&["s", "a", "b", "c", "d"], &[], &[]);
}

#[test]
fn a_hands_deletion_stays_until_the_file_changes() {
    let mut bench = settled(&[("a.yaml", FOUR)]);
    bench.store.remove(&bench.key("ConfigMap/b"));
    bench.check(&[], &[], &[]);
    bench.put("a.yaml", "2 ConfigMap/a ConfigMap/b ConfigMap/c ConfigMap/d");
    bench.check(&["a", "b", "c", "d"], &[], &[]);
}

#[test]
fn an_object_goes_when_its_file_does_not_name_it() {
    let mut bench = settled(&[("a.yaml", FOUR)]);
    bench.put("a.yaml", "2 ConfigMap/a ConfigMap/b ConfigMap/c");
    bench.check(&["a", "b", "c"], &["d"], &[]);
    bench.is_quiet = false;
    bench.check(&["a", "b", "c"], &[], &[]);
    assert!(bench.decide().waits_for_quiet);
}

#[test]
fn an_object_goes_with_its_file_from_a_marked_folder() {
    let files = [("a.yaml", FOUR), ("s/b.yaml", "1 Secret/s"), ("s/c.yaml", "1 Secret/t")];
    let mut bench = settled(&files);
    bench.take("s/b.yaml");
    bench.check(&[], &["s"], &[]);
    bench.tree.mark = Some("another".to_owned());
    bench.check(&[], &[], &["RemovalHeld"]);
    bench.tree.mark = None;
    bench.check(&[], &[], &["RemovalHeld"]);
}

#[test]
fn an_empty_or_missing_folder_removes_nothing_unasked() {
    let mut bench = settled(&[("a.yaml", FOUR), ("s/b.yaml", "1 Secret/s")]);
    bench.take("s/b.yaml");
    bench.check(&[], &[], &["RemovalAwaited"]);
    bench.tree.folders.remove("s");
    bench.check(&[], &[], &["RemovalAwaited"]);
    assert_eq!(bench.decide().awaited.len(), 1);
    bench.is_confirmed = true;
    bench.check(&[], &["s"], &[]);
    bench.is_confirmed = false;
    bench.take("a.yaml");
    bench.check(&[], &[], &["RemovalAwaited"]);
    bench.tree = Tree { trouble: Some(Trouble::new("FolderUnreadable", "gone", "")), ..Tree::default() };
    bench.is_confirmed = true;
    bench.check(&[], &[], &["FolderUnreadable"]);
}

#[test]
fn what_is_not_read_removes_nothing() {
    for state in [FileState::Refused(Trouble::new("FileUnreadable", "", "")), FileState::Writing] {
        let is_told = matches!(state, FileState::Refused(_));
        let mut bench = settled(&[("a.yaml", FOUR), ("b.yaml", "1 Secret/s")]);
        // Of the file itself, of another that went, and of another that names less.
        bench.tree.files.insert("b.yaml".to_owned(), state);
        bench.put("a.yaml", "1 ConfigMap/a ConfigMap/b ConfigMap/c");
        let reasons: &[&str] = if is_told { &["FileUnreadable", "RemovalHeld"] } else { &["RemovalHeld"] };
        bench.check(&[], &[], reasons);
        bench.is_confirmed = true;
        bench.check(&[], &[], reasons);
    }
    let mut bench = settled(&[("a.yaml", FOUR), ("b.yaml", "1 Secret/s")]);
    bench.take("b.yaml");
    bench.tree.unknown.push(("s".to_owned(), Trouble::new("FolderUnreadable", "", "")));
    bench.check(&[], &[], &["FolderUnreadable", "RemovalHeld"]);
}

#[test]
fn half_of_a_file_removes_nothing() {
    let mut bench = settled(&[("a.yaml", FOUR)]);
    bench.put("a.yaml", "2 ConfigMap/a ConfigMap/b ConfigMap/c");
    let Some(FileState::Read(file)) = bench.tree.files.get_mut("a.yaml") else { panic!("it was read") };
    file.ends = false;
    bench.check(&["a", "b", "c"], &[], &["FileCut", "RemovalHeld"]);
}

#[test]
fn a_move_is_no_removal() {
    let mut bench = settled(&[("a.yaml", FOUR), ("b.yaml", "1 Secret/s")]);
    bench.put("a.yaml", "2 ConfigMap/a ConfigMap/b ConfigMap/c");
    bench.put("b.yaml", "2 Secret/s ConfigMap/d");
    bench.check(&["s", "a", "b", "c", "d"], &[], &[]);
    bench.settle();
    // A renamed file is the same text: nothing is applied.
    let renamed = bench.tree.files.remove("a.yaml").expect("it is there");
    bench.tree.files.insert("z.yaml".to_owned(), renamed);
    bench.check(&[], &[], &[]);
    bench.settle();
    assert!(bench.inventory.entries.values().all(|entry| entry.file != "a.yaml"));
    // Named twice: the file from which it was applied counts.
    bench.put("c.yaml", "1 ConfigMap/d");
    bench.check(&[], &[], &["ObjectTwice"]);
}

#[test]
fn more_than_half_waits_for_a_word() {
    let mut bench = settled(&[("a.yaml", FOUR)]);
    bench.put("a.yaml", "2 ConfigMap/a ConfigMap/b");
    bench.check(&["a", "b"], &["d", "c"], &[]);
    bench.put("a.yaml", "2 ConfigMap/a");
    bench.check(&["a"], &[], &["RemovalAwaited"]);
    bench.is_confirmed = true;
    bench.check(&["a"], &["d", "c", "b"], &[]);
}

#[test]
fn data_and_what_holds_others_stay_unless_they_say_otherwise() {
    let mut bench = settled(&[("a.yaml", "1 Namespace/m PersistentVolumeClaim/p ConfigMap/a ConfigMap/b ConfigMap/c")]);
    bench.put("a.yaml", "1 ConfigMap/a ConfigMap/b ConfigMap/c");
    bench.check(&[], &[], &["NotPruned"]);
    assert_eq!(bench.decide().follows.len(), 2);
    bench.store.get_mut(&bench.key("PersistentVolumeClaim/p")).expect("it is there").prunes = true;
    bench.check(&[], &["p"], &["NotPruned"]);
}

#[test]
fn an_object_of_another_stays() {
    let mut bench = settled(&[("a.yaml", FOUR)]);
    bench.put("a.yaml", "1 ConfigMap/a ConfigMap/b ConfigMap/c");
    let key = bench.key("ConfigMap/d");
    bench.put_object("ConfigMap/d");
    bench.check(&[], &[], &[]);
    assert!(!bench.decide().inventory.entries.contains_key(&key), "it is forgotten");
    // It is not known whether it was made from here: it was not, unless it has fields from here.
    bench.inventory.entries.get_mut(&key).expect("it is there").uid = String::new();
    bench.check(&[], &["d"], &[]);
    bench.store.get_mut(&key).expect("it is there").is_ours = false;
    bench.check(&[], &[], &[]);
}

#[test]
fn what_waits_for_another_waits() {
    let mut bench = Bench::with(&[("a.yaml", "1 ConfigMap/a Widget/w")]);
    bench.store.clear();
    bench.check(&[], &[], &["NamespaceMissing", "KindUnknown"]);
    bench.put("b.yaml", "1 Namespace/n");
    bench.check(&["n", "a"], &[], &["KindUnknown"]);
    let failure = |is_due| Failure {
        digest: DIGEST.to_owned(),
        reason: "QuotaExceeded",
        why: String::new(),
        advice: String::new(),
        is_due,
    };
    let mut bench = Bench::with(&[("a.yaml", "d1 ConfigMap/a")]);
    let key = bench.key("ConfigMap/a");
    bench.failed.insert(key.clone(), failure(false));
    bench.check(&[], &[], &["QuotaExceeded"]);
    bench.failed.insert(key, failure(true));
    bench.check(&["a"], &[], &[]);
    bench.put("a.yaml", "d2 ConfigMap/a");
    bench.failed.values_mut().for_each(|failure| failure.is_due = false);
    bench.check(&["a"], &[], &[]);
}

/// Numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 20).unwrap_or_default() % sides
    }
}

const OBJECTS: [&str; 8] = [
    "ConfigMap/a",
    "ConfigMap/b",
    "Secret/c",
    "Service/d",
    "Deployment/e",
    "PersistentVolumeClaim/f",
    "Namespace/g",
    "Widget/h",
];
const FILES: [&str; 4] = ["a.yaml", "b.yaml", "s/c.yaml", "s/d.yaml"];

/// Something happens to the files or the objects.
fn happens(bench: &mut Bench, dice: &mut Dice, round: usize) {
    let path = FILES[dice.roll(FILES.len())];
    match dice.roll(9) {
        0..=3 => {
            // An object of one file is in no other, mostly.
            let words: Vec<&str> = OBJECTS.into_iter().filter(|_| dice.roll(3) == 0).collect();
            bench.put(path, format!("{round} {}", words.join(" ")).trim_end());
        }
        4 => bench.take(path),
        5 => {
            let refused = FileState::Refused(Trouble::new("FileUnreadable", "", ""));
            bench.tree.files.insert(path.to_owned(), if dice.roll(2) == 0 { refused } else { FileState::Writing });
        }
        6 => {
            let at = dice.roll(bench.store.len().max(1));
            if let Some(key) = bench.store.keys().nth(at).cloned() {
                bench.store.remove(&key);
            }
        }
        7 => {
            let at = dice.roll(OBJECTS.len() - 1);
            bench.put_object(OBJECTS[at]);
        }
        _ => {
            bench.tree.mark = if dice.roll(2) == 0 { Some("u".to_owned()) } else { None };
            if dice.roll(4) == 0 {
                bench.store.values_mut().for_each(|live| live.prunes = true);
            }
        }
    }
    bench.put_object("Namespace/n");
    (bench.is_quiet, bench.is_confirmed) = (dice.roll(4) > 0, dice.roll(6) == 0);
}

/// What no decision may do.
fn judge(bench: &Bench, decision: &Decision) {
    let read = |state: &FileState| matches!(state, FileState::Read(_));
    let is_whole = bench.tree.files.values().all(read) && bench.tree.unknown.is_empty();
    assert!(decision.removals.is_empty() || is_whole, "what is not read removes nothing");
    assert!(decision.removals.is_empty() || bench.is_quiet, "nothing is removed while files change");
    for removal in &decision.removals {
        let names = |state: &FileState| match state {
            FileState::Read(file) => file.named.iter().any(|named| named.name == removal.key.name),
            _ => true,
        };
        assert!(!bench.tree.files.values().any(names), "{removal:?} is named");
        let (entry, live) = (&bench.inventory.entries[&removal.key], &bench.store[&removal.key]);
        assert!(live.uid == removal.uid && (entry.uid.is_empty() || entry.uid == live.uid), "{removal:?} is another");
        let kind = bench.kinds.by_resource(&removal.key.resource).expect("a kind");
        assert!(live.prunes || !super::super::order::is_guarded(&kind.kind), "{removal:?} is guarded");
        let is_gone = !bench.tree.files.contains_key(&removal.file);
        assert!(!is_gone || bench.tree.mark.as_deref() == Some("u"), "{removal:?} of a directory without a mark");
        let is_there = bench.tree.folders.get(folder_of(&removal.file)) == Some(&true);
        assert!(!is_gone || is_there || bench.is_confirmed, "{removal:?} of a folder that is not there");
    }
    let are_few = decision.removals.len() * 2 <= bench.inventory.entries.len();
    assert!(are_few || bench.is_confirmed, "more than half goes unasked");
}

#[test]
fn whatever_happens_nothing_goes_that_is_wanted() {
    let (mut removed, mut awaited, mut held) = (0, 0, 0);
    for seed in 1..=40 {
        let (mut dice, mut bench) = (Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed)), Bench::new());
        for round in 0..60 {
            happens(&mut bench, &mut dice, round);
            let decision = bench.decide();
            judge(&bench, &decision);
            removed += decision.removals.len();
            awaited += decision.awaited.len();
            held += decision.problems.iter().filter(|problem| problem.reason == "RemovalHeld").count();
            bench.act(&decision);
            bench.is_confirmed = false;
            bench.settle();
        }
    }
    // The histories reach what they are about.
    assert!(removed > 100 && awaited > 20 && held > 100, "{removed} {awaited} {held}");
}
