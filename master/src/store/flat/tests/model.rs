//! The door against a plain map: every answer, every list and every watcher's story, over seeded histories; and claims.

use super::sim::Dice;
use super::*;
use std::collections::BTreeMap;

/// What a watcher was told: revision, name, JSON if it is there afterwards.
type Story = Arc<Mutex<Vec<(Revision, String, Option<bytes::Bytes>)>>>;

struct Watcher {
    story: Story,
    name: Option<String>,
    from: Revision,
    _handle: WatchHandle,
}

fn tell(story: &Story, event: &Event) {
    let new = event.new.as_ref().map(|stored| stored.json.clone());
    locked(story).push((event.revision, event.key.name.clone(), new));
}

fn follow(store: &FlatStore, name: Option<String>, after: Option<Revision>) -> Watcher {
    let story = Story::default();
    let scope = Scope { resource: PODS, namespace: Some("default".to_owned()), name: name.clone() };
    let live = story.clone();
    let sink = Box::new(move |event: &Event| {
        tell(&live, event);
        true
    });
    let watch = store.watch(scope, after, sink).expect("it is young");
    watch.replay.iter().for_each(|event| tell(&story, event));
    Watcher { story, name, from: after.unwrap_or(watch.revision), _handle: watch.handle }
}

#[test]
fn a_map_would_answer_the_same() {
    for seed in 0..150 {
        one_history(seed);
    }
}

fn one_history(seed: u64) {
    let mut dice = Dice::new(seed);
    let store = FlatStore::in_memory(&rules());
    let mut model: BTreeMap<String, (Value, Revision)> = BTreeMap::new();
    // Everything that ever happened.
    let mut log: Vec<(Revision, String, Option<bytes::Bytes>)> = Vec::new();
    let mut watchers = Vec::new();
    let mut last = Revision(0);
    for step in 0..120 {
        let name = format!("p{}", dice.below(5));
        let object = pod(&name, &dice.below(3).to_string(), dice.one_in(2).then_some("up"));
        let had = model.get(&name).cloned();
        let stale = dice.one_in(6);
        let seen =
            had.as_ref().map_or(Revision(0), |(_, revision)| if stale { Revision(revision.0 + 1) } else { *revision });
        match dice.below(8) {
            0 | 1 => match (store.write(create(object.clone())), had) {
                (Ok(stored), None) => {
                    log.push((stored.revision, name.clone(), Some(stored.json.clone())));
                    last = newer(last, &stored);
                    model.insert(name, (object, stored.revision));
                }
                (Err(Refused::Exists { revision: Some(now) }), Some((_, revision))) => assert_eq!(now, revision),
                other => panic!("seed {seed} step {step}: {other:?}"),
            },
            2..=4 => match (store.write(update(object.clone(), seen)), had) {
                (Err(Refused::Missing), None) => {}
                (Err(Refused::Stale { now }), Some((_, revision))) if stale => assert_eq!(now.revision, revision),
                (Ok(stored), Some((former, revision))) if former == object => assert_eq!(stored.revision, revision),
                (Ok(stored), Some(_)) if !stale => {
                    log.push((stored.revision, name.clone(), Some(stored.json.clone())));
                    last = newer(last, &stored);
                    model.insert(name, (object, stored.revision));
                }
                other => panic!("seed {seed} step {step}: {other:?}"),
            },
            5 => match (store.write(Write::Delete { key: key(&name), seen }), had) {
                (Err(Refused::Missing), None) => {}
                (Err(Refused::Stale { .. }), Some(_)) if stale => {}
                (Ok(stored), Some(_)) if !stale => {
                    log.push((stored.revision, name.clone(), None));
                    last = newer(last, &stored);
                    model.remove(&name);
                }
                other => panic!("seed {seed} step {step}: {other:?}"),
            },
            6 => {
                let after = Revision(dice.below(last.0 + 1));
                watchers.push(follow(&store, dice.one_in(3).then_some(name), Some(after)));
            }
            _ => {
                let watcher = follow(&store, None, None);
                let replayed: Vec<String> = locked(&watcher.story).drain(..).map(|(_, name, _)| name).collect();
                assert_eq!(replayed, model.keys().cloned().collect::<Vec<_>>());
                watchers.push(watcher);
            }
        }
        let listed = store.list(&PODS, dice.one_in(2).then_some("default"));
        assert_eq!(listed.revision, last);
        let listed: Vec<_> =
            listed.items.into_iter().map(|stored| (stored.key.name.clone(), stored.revision)).collect();
        assert_eq!(listed, model.iter().map(|(name, (_, revision))| (name.clone(), *revision)).collect::<Vec<_>>());
    }
    for watcher in &watchers {
        let expected: Vec<_> = log
            .iter()
            .filter(|(revision, name, _)| {
                *revision > watcher.from && watcher.name.as_ref().is_none_or(|only| only == name)
            })
            .cloned()
            .collect();
        assert_eq!(*locked(&watcher.story), expected, "seed {seed} from {}", watcher.from);
    }
}

/// What people do to files while the master runs is never shown, never lost without a word, and never in the way of
/// what is written.
#[test]
fn what_people_write_beside_it_changes_nothing_that_is_shown() {
    let mut kept = 0;
    for seed in 0..60 {
        let mut dice = Dice::new(seed);
        let disk = sim::SimDisk::new(seed);
        let store = memory_on(&disk);
        let mut model: BTreeMap<String, (Value, Revision)> = BTreeMap::new();
        let mut edits = BTreeMap::new();
        for step in 0..150 {
            let name = format!("p{}", dice.below(4));
            let path = format!("objects/{}", names::path(&key(&name)));
            let now = model.get(&name).map(|(_, revision)| *revision);
            match (dice.below(6), now) {
                (0, Some(seen)) => {
                    store.write(Write::Delete { key: key(&name), seen }).expect("seen");
                    model.remove(&name);
                }
                (1 | 2, _) => {
                    let object = pod(&name, &step.to_string(), None);
                    let written =
                        store.write(now.map_or_else(|| create(object.clone()), |seen| update(object.clone(), seen)));
                    model.insert(name, (object, written.expect("nobody else writes").revision));
                }
                (3, _) => store.checkpoint().expect("the disk is well"),
                (4, _) if dice.one_in(2) => {
                    let theirs = pod(&name, &format!("{step} by hand"), None).to_string();
                    match disk.peek(&path) {
                        Some(_) if dice.one_in(2) => disk.overwrite(&path, theirs.as_bytes()),
                        _ => disk.place(&path, theirs.as_bytes()),
                    }
                    // Who writes over his own work has it no more.
                    edits.insert(path, theirs);
                }
                _ => {}
            }
            for (name, (object, revision)) in &model {
                let stored = store.get(&key(name)).expect("whole").expect("there");
                assert_eq!(
                    (super::crash::spec_of(&stored), stored.revision),
                    (object["spec"]["is"].as_str().expect("a spec").to_owned(), *revision)
                );
            }
            assert_eq!(store.list(&PODS, None).items.len(), model.len(), "seed {seed}");
        }
        let texts: Vec<Vec<u8>> = disk.tree().iter().filter_map(|path| disk.peek(path)).collect();
        let lies = |theirs: &str| texts.iter().any(|text| text == theirs.as_bytes());
        assert!(
            edits.values().all(|theirs: &String| lies(theirs)),
            "seed {seed}: the last edit of each file lies somewhere"
        );
        kept += store.health().remarks.len();
    }
    assert!(kept > 100, "{kept}");
}

/// A client with a buffer that is too small: what it believes is there comes of lists, replays and events alone.
struct Client {
    believes: BTreeMap<String, bytes::Bytes>,
    seen: Revision,
    buffer: Arc<Mutex<Buffer>>,
    handle: Option<WatchHandle>,
}

#[derive(Default)]
struct Buffer {
    events: Vec<Event>,
    let_go: bool,
}

/// Events that a client's buffer holds, and those that the store remembers.
const BUFFER_EVENTS: usize = 4;
const HISTORY_EVENTS: usize = 12;

/// What happened to clients.
#[derive(Default, Debug)]
struct Fates {
    let_go: u64,
    resumed: u64,
    gone: u64,
}

impl Client {
    fn new(store: &FlatStore) -> Client {
        let mut client = Client { believes: BTreeMap::new(), seen: Revision(0), buffer: Arc::default(), handle: None };
        client.relist(store);
        client
    }

    fn relist(&mut self, store: &FlatStore) {
        let page = store.list(&PODS, None);
        self.believes = page.items.iter().map(|stored| (stored.key.name.clone(), stored.json.clone())).collect();
        self.seen = page.revision;
    }

    fn hear(&mut self, event: &Event) {
        assert!(event.revision > self.seen, "{} after {}", event.revision, self.seen);
        self.seen = event.revision;
        let name = event.key.name.clone();
        assert_eq!(event.old.as_ref().map(|old| &old.json), self.believes.get(&name), "{name} was as it believed");
        match &event.new {
            Some(new) => _ = self.believes.insert(name, new.json.clone()),
            None => _ = self.believes.remove(&name),
        }
    }

    /// Takes what has come; where it was let go of it begins where it was, or looks again.
    fn catch_up(&mut self, store: &FlatStore, fates: &mut Fates) {
        let (events, let_go) = {
            let mut buffer = locked(&self.buffer);
            (std::mem::take(&mut buffer.events), std::mem::take(&mut buffer.let_go))
        };
        for event in &events {
            self.hear(event);
        }
        fates.let_go += u64::from(let_go);
        if let_go {
            self.handle = None;
        }
        if self.handle.is_some() {
            return;
        }
        loop {
            let buffer = self.buffer.clone();
            let sink = Box::new(move |event: &Event| {
                let mut buffer = locked(&buffer);
                let full = buffer.events.len() >= BUFFER_EVENTS;
                if full {
                    buffer.let_go = true;
                } else {
                    buffer.events.push(event.clone());
                }
                !full
            });
            let scope = Scope { resource: PODS, namespace: None, name: None };
            match store.watch(scope, Some(self.seen), sink) {
                Ok(watch) => {
                    fates.resumed += 1;
                    watch.replay.iter().for_each(|event| self.hear(event));
                    self.handle = Some(watch.handle);
                    return;
                }
                Err(Unwatched::Gone(gone)) => {
                    assert!(gone.oldest > self.seen, "it is remembered still");
                    fates.gone += 1;
                    self.relist(store);
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn who_falls_behind_is_let_go_and_comes_to_believe_what_is_so() {
    let mut fates = Fates::default();
    for seed in 0..100 {
        let mut dice = Dice::new(seed);
        let setup = Setup { history_events_max: HISTORY_EVENTS, ..Setup::SMALL };
        let ids = start::Ids { fresh_store: "store".to_owned(), boot: "boot".to_owned() };
        let store = FlatStore::open_on(Arc::new(sim::SimDisk::new(seed)), None, None, ids, &rules(), setup)
            .expect("it opens")
            .store;
        let mut clients: Vec<Client> = (0..4).map(|_| Client::new(&store)).collect();
        for step in 0..200 {
            let name = format!("p{}", dice.below(4));
            let object = pod(&name, &step.to_string(), None);
            let now = store.get(&key(&name)).expect("whole");
            match now {
                None => store.write(create(object)).map(drop),
                Some(now) if dice.one_in(4) => {
                    store.write(Write::Delete { key: key(&name), seen: now.revision }).map(drop)
                }
                Some(now) => store.write(update(object, now.revision)).map(drop),
            }
            .expect("nobody else writes");
            // The first is quick, the others ever slower.
            for (nth, client) in clients.iter_mut().enumerate() {
                if dice.one_in(1 + 6 * nth as u64) {
                    client.catch_up(&store, &mut fates);
                }
            }
        }
        let so: BTreeMap<_, _> =
            store.list(&PODS, None).items.iter().map(|stored| (stored.key.name.clone(), stored.json.clone())).collect();
        for client in &mut clients {
            // Once for what has come, once more where it was let go of.
            client.catch_up(&store, &mut fates);
            assert_eq!(client.believes, so, "seed {seed}");
            assert_eq!(client.seen, store.revision());
        }
    }
    eprintln!("{fates:?}");
    assert!(fates.let_go > 100 && fates.gone > 100 && fates.resumed > fates.gone, "{fates:?}");
}

fn newer(last: Revision, stored: &Stored) -> Revision {
    assert!(stored.revision > last);
    assert_eq!(document::revision(&serde_json::from_slice(&stored.json).expect("JSON")), Some(stored.revision));
    stored.revision
}

#[test]
fn a_dropped_handle_and_a_refusing_sink_hear_no_more() {
    let store = FlatStore::in_memory(&rules());
    let scope = || Scope { resource: PODS, namespace: None, name: None };
    let heard = Arc::new(Mutex::new(0));
    let count = |goes_on: bool| {
        let heard = heard.clone();
        Box::new(move |_: &Event| {
            *locked(&heard) += 1;
            goes_on
        })
    };
    let dropped = store.watch(scope(), None, count(true)).expect("young");
    let _once = store.watch(scope(), None, count(false)).expect("young");
    let _panics = store.watch(scope(), None, Box::new(|_| panic!("a watcher's own fault"))).expect("young");
    drop(dropped.handle);
    store.write(create(pod("a", "a", None))).expect("new");
    store.write(create(pod("b", "b", None))).expect("new");
    assert_eq!(*locked(&heard), 1);
    assert_eq!(Arc::strong_count(&heard), 1, "the dropped sinks let go of what they held");
}

#[test]
fn history_is_bounded_and_says_from_where() {
    let store = FlatStore::in_memory(&rules());
    let mut seen = store.write(create(pod("a", "0", None))).expect("new").revision;
    for round in 0..HISTORY_EVENTS_MAX {
        seen = store.write(update(pod("a", "0", Some(&round.to_string())), seen)).expect("seen").revision;
    }
    let scope = Scope { resource: PODS, namespace: None, name: None };
    let gone = store.watch(scope.clone(), Some(Revision(0)), Box::new(|_| true)).err();
    assert_eq!(gone, Some(Unwatched::Gone(Gone { oldest: Revision(1) })));
    let watch = store.watch(scope, Some(Revision(1)), Box::new(|_| true)).expect("just held");
    assert_eq!(watch.replay.len(), HISTORY_EVENTS_MAX);
}

fn claiming(name: &str, claims: &[&str]) -> Value {
    let mut object = pod(name, "a", None);
    for claim in claims {
        object["metadata"]["annotations"][*claim] = Value::String(String::new());
    }
    object
}

fn owner(answer: Result<Stored, Refused>) -> String {
    match answer {
        Err(Refused::Claimed { owner, .. }) => owner.name,
        other => panic!("not claimed: {other:?}"),
    }
}

#[test]
fn a_claim_has_one_owner() {
    let store = FlatStore::in_memory(&rules());
    let a = store.write(create(claiming("a", &["claim/x", "keep/t"]))).expect("free");
    assert_eq!(owner(store.write(create(claiming("b", &["claim/x"])))), "a");
    let b = store.write(create(claiming("b", &["claim/y"]))).expect("free");
    assert_eq!(owner(store.write(update(claiming("b", &["claim/x"]), b.revision))), "a");
    // An update replaces what its object claimed.
    let a = store.write(update(claiming("a", &["claim/z", "keep/t"]), a.revision)).expect("its own");
    let b = store.write(update(claiming("b", &["claim/x"]), b.revision)).expect("free again");
    store.write(Write::Delete { key: key("a"), seen: a.revision }).expect("seen");
    store.write(update(claiming("b", &["claim/z"]), b.revision)).expect("free at its death");
    // A token outlives its object, for a new object of that very name too.
    assert_eq!(owner(store.write(create(claiming("a", &["keep/t"])))), "a");
    let claimed = store.claimed("token");
    assert_eq!(claimed, [("t".to_owned(), key("a")), ("z".to_owned(), key("b"))]);
}

#[test]
fn a_token_is_forgotten_after_its_hour_and_the_oldest_of_too_many() {
    let hour = Duration::from_secs(3600);
    let mut state = StoreState::default();
    let mut write = |write: Write, uptime: Duration| {
        let entry::WriteVerdict::Change(change) =
            state.decide(draft::PreparedWrite::of(write), Revision(state.revision().0 + 1), uptime)?
        else {
            panic!("it changes something")
        };
        let answer = change.answer.clone();
        state.apply(*change, uptime);
        Ok::<_, Refused>(answer)
    };
    let mut live_and_die = |name: &str, token: &str, uptime: Duration| {
        let made = write(create(claiming(name, &[token])), uptime)?;
        write(Write::Delete { key: key(name), seen: made.revision }, uptime)
    };
    live_and_die("a", "keep/t", Duration::ZERO).expect("free");
    assert_eq!(owner(live_and_die("b", "keep/t", hour - Duration::from_secs(1))), "a");
    live_and_die("b", "keep/t", hour).expect("its hour is over");
    for number in 0..GRAVES_MAX {
        live_and_die("c", &format!("keep/{number}"), hour).expect("free");
    }
    live_and_die("d", "keep/t", hour).expect("too many died since");
    assert_eq!(owner(live_and_die("e", &format!("keep/{}", GRAVES_MAX - 1), hour)), "c");
}

#[test]
fn an_object_has_a_size() {
    let store = FlatStore::in_memory(&rules());
    let Err(Refused::TooLarge { bytes }) = store.write(create(pod("a", &"x".repeat(OBJECT_BYTES_MAX), None))) else {
        panic!("it fits")
    };
    assert!(bytes > OBJECT_BYTES_MAX);
    assert_eq!(store.list(&PODS, None).items.len(), 0);
}
