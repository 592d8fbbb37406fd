//! Tests the numbered promises of the trait `Store` on any backend. They know nothing of the backend but how to open
//! it.

use crate::store::flat::tests::*;
use crate::store::*;
use coracle_api::meta::{Durable, Key, Resource, Revision};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Where a backend keeps its objects, and what can be done to it from outside.
pub struct Home {
    /// Each call closes what the one before opened, and opens it again.
    pub open: Box<dyn FnMut() -> Arc<dyn Store>>,
    /// Its disk takes nothing any more, or does again. None: that cannot be had.
    pub fail: Option<Box<dyn Fn(bool)>>,
    /// Closes it, and spoils what it keeps of an object. None: that cannot be had.
    pub damage: Option<Spoiling>,
}

pub type Spoiling = Box<dyn Fn(&Key)>;

impl Home {
    fn open(&mut self) -> Arc<dyn Store> {
        (self.open)()
    }
}

/// The flat store that is open, to be closed before it is opened again.
type Tenant = Rc<RefCell<Option<FlatStore>>>;

fn leave(tenant: &Tenant) {
    if let Some(store) = tenant.take() {
        store.close().expect("the disk is well");
    }
}

/// Threads that write against each other.
const WRITERS: usize = 4;
const WRITES_EACH: usize = 40;
/// A backend that tells its watchers later may take so long.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn flat_files_on_a_disk() {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let base = std::env::temp_dir().join(format!("coracle-conformance-{}", std::process::id()));
    conformance(&|| {
        let dir = base.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        let (tenant, place) = (Tenant::default(), dir.clone());
        let damaged = tenant.clone();
        let open = move || -> Arc<dyn Store> {
            leave(&tenant);
            let store = FlatStore::open(&dir, None, &rules()).expect("it opens").store;
            *tenant.borrow_mut() = Some(store.clone());
            Arc::new(store)
        };
        let damage = move |key: &Key| {
            leave(&damaged);
            std::fs::write(place.join("objects").join(flat::names::path(key)), "{").expect("ours");
        };
        Home { open: Box::new(open), fail: None, damage: Some(Box::new(damage)) }
    });
    std::fs::remove_dir_all(&base).ok();
}

#[test]
fn flat_files_on_a_simulated_disk() {
    conformance(&simulated);
}

pub fn simulated() -> Home {
    let (disk, tenant) = (sim::SimDisk::new(7), Tenant::default());
    let (failing, damaged, spoilt) = (disk.clone(), disk.clone(), tenant.clone());
    let open = move || -> Arc<dyn Store> {
        leave(&tenant);
        let store = memory_on(&disk);
        *tenant.borrow_mut() = Some(store.clone());
        Arc::new(store)
    };
    let fail = move |fails: bool| if fails { failing.fail(0..u64::MAX, sim::EIO) } else { failing.heal() };
    let damage = move |key: &Key| {
        leave(&spoilt);
        damaged.place(&format!("objects/{}", flat::names::path(key)), b"{");
    };
    Home { open: Box::new(open), fail: Some(Box::new(fail)), damage: Some(Box::new(damage)) }
}

pub type Check = fn(Home);

pub const CHECKS: [(&str, Check); 15] = [
    ("one_revision_over_everything", one_revision_over_everything),
    ("a_moment_ends", a_moment_ends),
    ("compare_and_write", compare_and_write),
    ("claims_are_part_of_the_write", claims_are_part_of_the_write),
    ("visible_means_durable", visible_means_durable),
    ("nothing_changed_is_nothing_done", nothing_changed_is_nothing_done),
    ("a_page_shows_one_moment", a_page_shows_one_moment),
    ("events_come_in_order", events_come_in_order),
    ("many_writers", many_writers),
    ("any_name", any_name),
    ("a_rehearsal_leaves_nothing", a_rehearsal_leaves_nothing),
    ("what_is_refused_is_not_seen", what_is_refused_is_not_seen),
    ("unknown_is_not_absent", unknown_is_not_absent),
    ("changes_are_known", changes_are_known),
    ("any_kind", any_kind),
];

pub fn conformance(home: &dyn Fn() -> Home) {
    for (_, check) in CHECKS {
        check(home());
    }
}

/// What a watcher was told: revision, name, whether it is there afterwards.
type Story = Arc<Mutex<Vec<(Revision, String, bool)>>>;

fn tale(event: &Event) -> (Revision, String, bool) {
    (event.revision, event.key.name.clone(), event.new.is_some())
}

fn follow(store: &dyn Store, scope: Scope, after: Option<Revision>) -> Result<(Story, WatchHandle), Unwatched> {
    let live = Story::default();
    let sink_story = live.clone();
    let watch = store.watch(
        scope,
        after,
        Box::new(move |event| {
            locked(&sink_story).push(tale(event));
            true
        }),
    )?;
    // The sink may have been called already, but never before what is replayed.
    locked(&live).splice(0..0, watch.replay.iter().map(tale));
    Ok((live, watch.handle))
}

fn pods() -> Scope {
    Scope { resource: PODS, namespace: None, name: None }
}

/// Until everybody has been told of what was written.
fn wait_for_delivery(store: &dyn Store) {
    let (wanted, begun) = (store.revision(), Instant::now());
    while store.delivered() < wanted {
        assert!(begun.elapsed() < PATIENCE, "watchers are told up to {}, the store is at {wanted}", store.delivered());
        thread::yield_now();
    }
}

fn inside(stored: &Stored) -> Revision {
    flat::document::revision(&serde_json::from_slice(&stored.json).expect("JSON")).expect("a resourceVersion")
}

fn make(store: &dyn Store, name: &str) -> Stored {
    store.write(create(pod(name, "a", None))).expect("it is new")
}

fn delete(store: &dyn Store, stored: &Stored) -> Stored {
    store.write(Write::Delete { key: Key::clone(&stored.key), seen: stored.revision }).expect("it was seen")
}

/// Promise 1.
fn one_revision_over_everything(mut home: Home) {
    let last = Cell::new(Revision(0));
    let next = |stored: &Stored| {
        assert!(stored.revision > last.get(), "{} after {}", stored.revision, last.get());
        assert_eq!(inside(stored), stored.revision);
        last.set(stored.revision);
    };
    for life in 0..3 {
        let store = home.open();
        let made = make(&*store, &format!("p{life}"));
        next(&made);
        let changed =
            store.write(update(pod(&format!("p{life}"), "b", Some("up")), made.revision)).expect("it was seen");
        next(&changed);
        let other = Write::Create {
            key: Key { resource: Resource::core("events"), namespace: "default".to_owned(), name: format!("e{life}") },
            object: json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("e{life}"), "namespace": "default"},
            }),
            durable: Durable::Nothing,
            claims: Vec::new(),
        };
        next(&store.write(other).expect("it is new"));
        next(&delete(&*store, &changed));
        assert_eq!(store.revision(), last.get());
    }
}

/// `move_past`: a revision that nothing was written at, and that is nobody's after a restart either.
fn a_moment_ends(mut home: Home) {
    for life in 0..3 {
        let store = home.open();
        let made = make(&*store, &format!("p{life}"));
        let (heard, _handle) = follow(&*store, pods(), Some(made.revision)).expect("it is the present");
        store.move_past(Revision(made.revision.0 - 1));
        assert_eq!(store.revision(), made.revision, "that is over already");
        // More than are reserved at a time.
        for _ in 0..3_000 {
            let then = store.revision();
            store.move_past(then);
            assert!(store.revision() > then);
        }
        let shown = store.revision();
        let pods = PODS;
        let listing = Listing { at: Some(made.revision), ..Listing::all(&pods, None) };
        assert_eq!(store.page(&listing).expect("it is remembered").items.len(), life + 1);
        assert!(store.list(&PODS, None).revision >= shown);
        let next = make(&*store, &format!("q{life}"));
        assert!(next.revision > shown, "{} was shown already", next.revision);
        wait_for_delivery(&*store);
        assert_eq!(*locked(&heard), [(next.revision, format!("q{life}"), true)]);
        delete(&*store, &next);
        store.move_past(store.revision());
    }
}

/// Promises 2 and 4.
fn compare_and_write(mut home: Home) {
    let store = home.open();
    let missing = store.write(update(pod("a", "a", None), Revision(1)));
    assert!(matches!(missing, Err(Refused::Missing)), "{missing:?}");
    let first = make(&*store, "a");
    let again = store.write(create(pod("a", "b", None)));
    assert!(matches!(again, Err(Refused::Exists { .. })), "{again:?}");
    let second = store.write(update(pod("a", "b", None), first.revision)).expect("it was seen");
    for stale in [update(pod("a", "c", None), first.revision), Write::Delete { key: key("a"), seen: first.revision }] {
        match store.write(stale) {
            Err(Refused::Stale { now }) => assert_eq!(now.revision, second.revision),
            other => panic!("{other:?}"),
        }
    }
    let read = store.get(&key("a")).expect("it is whole").expect("it is there");
    assert_eq!((read.revision, &read.json), (second.revision, &second.json));
    let gone = delete(&*store, &second);
    assert_eq!(inside(&gone), gone.revision, "a deletion has its own revision");
    assert!(store.get(&key("a")).expect("nothing is damaged").is_none());
    let large = store.write(create(pod("large", &"x".repeat(OBJECT_BYTES_MAX), None)));
    assert!(matches!(large, Err(Refused::TooLarge { .. })), "{large:?}");
    assert!(store.list(&PODS, None).items.is_empty());
    assert_eq!(store.revision(), gone.revision, "what was refused spent nothing");
}

fn claiming(name: &str, claims: &[&str]) -> Value {
    let mut object = pod(name, "a", None);
    for claim in claims {
        object["metadata"]["annotations"][*claim] = Value::String(String::new());
    }
    object
}

/// Promise 2, of claims.
fn claims_are_part_of_the_write(mut home: Home) {
    let store = home.open();
    let owner = |answer: Result<Stored, Refused>| match answer {
        Err(Refused::Claimed { owner, .. }) => owner.name,
        other => panic!("not claimed: {other:?}"),
    };
    let a = store.write(create(claiming("a", &["claim/x", "claim/y"]))).expect("free");
    assert_eq!(owner(store.write(create(claiming("b", &["claim/z", "claim/x"])))), "a");
    // Nothing was done of it, nor claimed.
    assert!(store.get(&key("b")).expect("nothing is damaged").is_none());
    let c = store.write(create(claiming("c", &["claim/z"]))).expect("free");
    assert_eq!(owner(store.write(update(claiming("c", &["claim/z", "claim/y"]), c.revision))), "a");
    let a = store.write(update(claiming("a", &["claim/x"]), a.revision)).expect("its own");
    let c = store.write(update(claiming("c", &["claim/y"]), c.revision)).expect("given up");
    assert_eq!(store.claimed("token"), [("x".to_owned(), key("a")), ("y".to_owned(), key("c"))]);
    drop(store);
    let store = home.open();
    assert_eq!(store.claimed("token"), [("x".to_owned(), key("a")), ("y".to_owned(), key("c"))]);
    assert_eq!(owner(store.write(create(claiming("d", &["claim/y"])))), "c");
    let now = |name: &str| store.get(&key(name)).expect("it is whole").expect("it is there");
    delete(&*store, &now("a"));
    delete(&*store, &now("c"));
    assert!(c.revision > a.revision && store.claimed("token").is_empty());
}

/// Promise 3.
fn visible_means_durable(mut home: Home) {
    let store = home.open();
    let whole = make(&*store, "Whole");
    let part = store.write(create(pod("part", "a", Some("up")))).expect("it is new");
    let gone = make(&*store, "gone");
    delete(&*store, &gone);
    let (last, uuid) = (store.revision(), store.uuid().to_owned());
    drop(store);
    let store = home.open();
    assert_eq!(store.uuid(), uuid, "it is the same store");
    assert!(store.revision() >= last);
    let same = store.get(&key("Whole")).expect("it is whole").expect("it is there");
    assert_eq!((same.revision, &same.json), (whole.revision, &whole.json));
    let kept = store.get(&key("part")).expect("it is whole").expect("it is there");
    let document: Value = serde_json::from_slice(&kept.json).expect("JSON");
    assert_eq!(document["spec"]["is"], "a");
    // Its status was not to be durable: it is there as it was, or gone, and then nobody has seen this revision.
    match document["status"]["is"].as_str() {
        Some(status) => assert_eq!((status, kept.revision), ("up", part.revision)),
        None => assert!(kept.revision > last),
    }
    assert!(store.get(&key("gone")).expect("nothing is damaged").is_none(), "a deletion is durable, too");
}

/// Promise 5.
fn nothing_changed_is_nothing_done(mut home: Home) {
    let store = home.open();
    let a = make(&*store, "a");
    let (story, _handle) = follow(&*store, pods(), Some(a.revision)).expect("it is young");
    let same = store.write(update(pod("a", "a", None), a.revision)).expect("it was seen");
    assert_eq!((same.revision, store.revision()), (a.revision, a.revision));
    let b = make(&*store, "b");
    wait_for_delivery(&*store);
    assert_eq!(*locked(&story), [(b.revision, "b".to_owned(), true)]);
}

fn names(page: &Page) -> Vec<&str> {
    page.items.iter().map(|stored| stored.key.name.as_str()).collect()
}

/// Promise 6.
fn a_page_shows_one_moment(mut home: Home) {
    let store = home.open();
    let made: Vec<Stored> = ["e", "a", "c", "b", "d"].iter().map(|name| make(&*store, name)).collect();
    let resource = PODS;
    let two = Listing { limit: NonZeroUsize::new(2), ..Listing::all(&resource, Some("default")) };
    let first = store.page(&two).expect("it is now");
    assert_eq!((names(&first), first.revision), (vec!["a", "b"], store.revision()));
    let more = first.more.expect("there is more");
    assert_eq!((more.after.name.as_str(), more.remaining), ("b", Some(3)));
    delete(&*store, &made[2]);
    store.write(update(pod("d", "z", None), made[4].revision)).expect("it was seen");
    make(&*store, "bb");
    let rest = Listing { at: Some(first.revision), after: Some(&more.after), limit: None, ..two };
    let rest = store.page(&rest).expect("it was just now");
    assert_eq!((names(&rest), rest.revision), (vec!["c", "d", "e"], first.revision));
    assert_eq!(rest.items[1].revision, made[4].revision, "as it was then");
    assert!(rest.more.is_none());
    let selected = |stored: &Stored| stored.key.name != "bb";
    let page =
        store.page(&Listing { matches: Some(&selected), limit: NonZeroUsize::new(3), ..two }).expect("it is now");
    assert_eq!(names(&page), ["a", "b", "d"]);
    assert!(page.more.is_some_and(|more| more.remaining.is_none()));
    assert!(store.list(&PODS, Some("other")).items.is_empty());
    let now = store.revision();
    assert_eq!(
        names(&store.page(&Listing { at: Some(now), ..Listing::all(&PODS, None) }).expect("it is now")),
        ["a", "b", "bb", "d", "e"]
    );
    let future = store.page(&Listing { at: Some(Revision(now.0 + 1)), ..Listing::all(&PODS, None) });
    assert!(matches!(future, Err(Unlisted::Future { now: known }) if known == now), "{future:?}");
    drop(store);
    // What another life knew may be forgotten, but is never answered otherwise.
    match home.open().page(&Listing { at: Some(first.revision), ..Listing::all(&PODS, None) }) {
        Ok(page) => assert_eq!(names(&page), ["a", "b", "c", "d", "e"]),
        Err(Unlisted::Gone(gone)) => assert!(gone.oldest > first.revision),
        Err(other) => panic!("{other:?}"),
    }
}

/// Promise 7.
fn events_come_in_order(mut home: Home) {
    let store = home.open();
    let a = make(&*store, "a");
    let b = make(&*store, "b");
    let from_state = follow(&*store, pods(), None).expect("it is now");
    let from_a = follow(&*store, pods(), Some(a.revision)).expect("it is young");
    let only_b = follow(&*store, Scope { name: Some("b".to_owned()), ..pods() }, Some(Revision(a.revision.0)))
        .expect("it is young");
    let elsewhere = follow(&*store, Scope { namespace: Some("other".to_owned()), ..pods() }, None).expect("it is now");
    let future = follow(&*store, pods(), Some(Revision(b.revision.0 + 1))).err();
    assert_eq!(future, Some(Unwatched::Future { now: b.revision }), "who saw it saw another store");
    let dropped = follow(&*store, pods(), None).expect("it is now");
    let once = Arc::new(AtomicU64::new(0));
    let counted = once.clone();
    let _refuses =
        store.watch(pods(), None, Box::new(move |_| counted.fetch_add(1, Ordering::Relaxed) > 100)).expect("it is now");
    drop(dropped.1);
    let changed = store.write(update(pod("b", "z", None), b.revision)).expect("it was seen");
    let gone = delete(&*store, &a);
    wait_for_delivery(&*store);
    let row = |stored: &Stored, there: bool| (stored.revision, stored.key.name.clone(), there);
    let live = [row(&changed, true), row(&gone, false)];
    assert_eq!(*locked(&from_state.0), [vec![row(&a, true), row(&b, true)], live.to_vec()].concat());
    assert_eq!(*locked(&from_a.0), [vec![row(&b, true)], live.to_vec()].concat());
    assert_eq!(*locked(&only_b.0), [row(&b, true), row(&changed, true)]);
    assert!(locked(&elsewhere.0).is_empty());
    assert_eq!(locked(&dropped.0).len(), 2, "its state, and nothing since");
    assert_eq!(once.load(Ordering::Relaxed), 1, "who says no is told no more");
    let replayed = follow(&*store, pods(), Some(b.revision)).expect("it is young");
    assert_eq!(*locked(&replayed.0), live);
    let (revision, names) = (store.revision(), Scope { name: Some("a".to_owned()), ..pods() });
    drop(store);
    // Another life goes on where this one ended, or says that it cannot.
    let store = home.open();
    match follow(&*store, names, Some(a.revision)) {
        Ok(story) => assert_eq!(*locked(&story.0), [row(&gone, false)]),
        Err(Unwatched::Gone(Gone { oldest })) => {
            assert!(oldest > a.revision && oldest <= store.revision().max(revision))
        }
        Err(other) => panic!("{other:?}"),
    }
    assert!(follow(&*store, pods(), Some(store.revision())).is_ok(), "the present is never gone");
}

/// Promises 1, 2 and 7, with writers against each other.
fn many_writers(mut home: Home) {
    let store = home.open();
    let (story, _handle) = follow(&*store, pods(), None).expect("it is now");
    make(&*store, "shared");
    let write = |nth: usize| {
        let mut done = 0;
        for round in 0..WRITES_EACH {
            let own = format!("w{nth}-{round}");
            make(&*store, &own);
            let now = store.get(&key("shared")).expect("it is whole").expect("it is there");
            match store.write(update(pod("shared", &own, None), now.revision)) {
                Ok(stored) => {
                    assert!(stored.revision > now.revision);
                    done += 1;
                }
                Err(Refused::Stale { now: newer }) => assert!(newer.revision > now.revision),
                Err(other) => panic!("{other:?}"),
            }
        }
        done
    };
    let done: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS).map(|nth| scope.spawn(move || write(nth))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a writer does not panic")).sum()
    });
    wait_for_delivery(&*store);
    let story = locked(&story);
    assert!(story.windows(2).all(|pair| pair[0].0 < pair[1].0), "each revision once, and in order");
    assert_eq!(story.len(), 1 + WRITERS * WRITES_EACH + done);
    assert_eq!(story.iter().filter(|(_, name, _)| name == "shared").count(), 1 + done, "no update was lost");
    assert_eq!(store.list(&PODS, None).items.len(), 1 + WRITERS * WRITES_EACH);
}

/// Names are any text without a slash, and are listed in the order of their paths.
fn any_name(mut home: Home) {
    let store = home.open();
    let long = "x".repeat(253);
    let paths = ["a-b/z", "a/.hidden", "a/A", "a/a", "a/a%2Fb", "a/system:node:n1", &format!("a/{long}"), "a/ä", "b/a"];
    for path in paths.iter().rev() {
        let (namespace, name) = path.split_once('/').expect("a namespace");
        let key = Key { resource: PODS, namespace: namespace.to_owned(), name: name.to_owned() };
        let object =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": {}});
        store.write(Write::Create { key, object, durable: Durable::Whole, claims: Vec::new() }).expect("it is new");
    }
    let listed = |store: &dyn Store| -> Vec<String> {
        let items = store.list(&PODS, None).items;
        items.iter().map(|stored| format!("{}/{}", stored.key.namespace, stored.key.name)).collect()
    };
    assert_eq!(listed(&*store), paths);
    drop(store);
    assert_eq!(listed(&*home.open()), paths);
}

fn a_rehearsal_leaves_nothing(mut home: Home) {
    let store = home.open();
    let a = make(&*store, "a");
    let b = store.rehearse(create(claiming("b", &["claim/x"]))).expect("it would be new");
    assert_eq!(b.key.name, "b");
    let changed = store.rehearse(update(pod("a", "b", None), a.revision)).expect("it was seen");
    assert!(String::from_utf8_lossy(&changed.json).contains(r#""is":"b""#));
    store.rehearse(Write::Delete { key: key("a"), seen: a.revision }).expect("it was seen");
    let stale = store.rehearse(update(pod("a", "b", None), Revision(a.revision.0 + 1)));
    assert!(matches!(stale, Err(Refused::Stale { .. })), "{stale:?}");
    let exists = store.rehearse(create(pod("a", "b", None)));
    assert!(matches!(exists, Err(Refused::Exists { .. })), "{exists:?}");
    let now = store.get(&key("a")).expect("it is whole").expect("it is there");
    assert_eq!((&now.json, store.revision(), store.claimed("token").len()), (&a.json, a.revision, 0));
    assert!(store.get(&key("b")).expect("nothing is damaged").is_none());
}

/// Promise 8.
fn what_is_refused_is_not_seen(mut home: Home) {
    let store = home.open();
    let Some(fail) = &home.fail else { return };
    let a = make(&*store, "a");
    let (story, _handle) = follow(&*store, pods(), Some(a.revision)).expect("it is young");
    fail(true);
    let writes = [
        create(pod("b", "b", None)),
        update(pod("a", "b", None), a.revision),
        Write::Delete { key: key("a"), seen: a.revision },
    ];
    for write in writes {
        let refused = store.write(write);
        assert!(matches!(refused, Err(Refused::Disk { .. })), "{refused:?}");
    }
    let unchanged = || {
        let now = store.get(&key("a")).expect("it is whole").expect("it is there");
        assert_eq!((now.revision, &now.json), (a.revision, &a.json));
        assert!(store.get(&key("b")).expect("nothing is damaged").is_none());
        assert_eq!(names(&store.list(&PODS, None)), ["a"]);
        assert!(locked(&story).is_empty(), "nobody hears of what is not so");
    };
    unchanged();
    assert!(store.health().degraded.is_some(), "it says that it cannot write");
    fail(false);
    unchanged();
    // It heals by itself.
    let begun = Instant::now();
    let c = loop {
        match store.write(create(pod("c", "c", None))) {
            Ok(stored) => break stored,
            Err(refused) => assert!(begun.elapsed() < PATIENCE, "{refused}"),
        }
    };
    assert!(c.revision > a.revision && store.health().degraded.is_none());
    wait_for_delivery(&*store);
    assert_eq!(*locked(&story), [(c.revision, "c".to_owned(), true)]);
    drop(store);
    let store = home.open();
    assert_eq!(names(&store.list(&PODS, None)), ["a", "c"], "what was refused does not come back");
}

/// Promise 10: an object of a resource that the store was never told of.
fn any_kind(mut home: Home) {
    let resource = Resource { group: Cow::Borrowed("acme.example"), plural: Cow::Borrowed("rockets") };
    let key = Key { resource: resource.clone(), namespace: "default".to_owned(), name: "a".to_owned() };
    let metadata = json!({"name": "a", "namespace": "default"});
    let object = json!({"apiVersion": "acme.example/v1", "kind": "Rocket", "metadata": metadata, "spec": {"is": "a"}});
    let create = Write::Create { key: key.clone(), object, durable: Durable::Whole, claims: Vec::new() };
    let made = home.open().write(create).expect("it is new");
    for _ in 0..2 {
        let store = home.open();
        let found = store.get(&key).expect("it is whole").expect("it is there");
        assert_eq!((found.revision, &found.json), (made.revision, &made.json));
        assert_eq!(store.list(&resource, None).items.len(), 1);
    }
}

/// Promise 4: `changed` is at the revision of each write that was answered, and stays there for other resources.
fn changes_are_known(mut home: Home) {
    let store = home.open();
    let (a, services) = (make(&*store, "a"), Resource::core("services"));
    assert_eq!((store.changed(&PODS), store.changed(&services)), (a.revision, Revision(0)));
    let b = store.write(update(pod("a", "b", None), a.revision)).expect("it was seen");
    assert_eq!(store.changed(&PODS), b.revision);
    let gone = delete(&*store, &b);
    assert_eq!((store.changed(&PODS), store.changed(&services)), (gone.revision, Revision(0)));
}

/// Promise 9.
fn unknown_is_not_absent(mut home: Home) {
    if home.damage.is_none() {
        return;
    }
    let store = home.open();
    for name in ["a", "b"] {
        make(&*store, name);
    }
    drop(store);
    if let Some(damage) = &home.damage {
        damage(&key("a"));
    }
    let store = home.open();
    assert!(store.get(&key("a")).is_err(), "nobody can say what it is");
    let page = store.list(&PODS, None);
    assert_eq!((names(&page), &page.damaged), (vec!["b"], &vec![key("a")]));
    let refused = store.write(create(pod("a", "a", None)));
    assert!(matches!(refused, Err(Refused::Damaged { .. } | Refused::Exists { .. })), "{refused:?}");
    let refused = store.write(update(pod("a", "a", None), Revision(1)));
    assert!(matches!(refused, Err(Refused::Damaged { .. })), "{refused:?}");
    let given_up = store.write(Write::Delete { key: key("a"), seen: Revision(0) }).expect("a person gives it up");
    assert!(given_up.key.name == "a" && given_up.revision == store.revision());
    assert!(store.get(&key("a")).expect("it is gone").is_none() && store.list(&PODS, None).damaged.is_empty());
    make(&*store, "a");
    assert_eq!(names(&store.list(&PODS, None)), ["a", "b"]);
}
