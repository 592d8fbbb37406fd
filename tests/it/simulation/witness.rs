//! What may never be, at any step: told from what the engine noted, in its order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coracle_agent::facts::naming::Tag;
use coracle_agent::runtime::fake::{Note, Noted};
use serde_json::Value;
use tokio::time::Instant;

use super::pods::{FILLED, container, has_restart_all, is_init, is_sidecar, is_source, starts_again};

/// What was under way when people changed their mind may still happen.
const UNDER_WAY: Duration = Duration::from_secs(10);
/// What a pod takes to end, with its graces and what was under way; a hook that hangs takes longer.
const END: Duration = Duration::from_secs(120);
/// How the loop tells that it ends a container for no fault of its own.
const STOPS: &str = "Stopping container ";
const ALL_START_ANEW: &str = "killing";

/// What is asked of one pod, as far as it is checked here.
#[derive(Clone, Debug)]
pub struct Asked {
    pub document: Value,
    /// From then on nothing of it may start: it was evicted, or its time is over.
    pub over_since: Option<Instant>,
    /// Since then it is to end, whatever its hooks wait for.
    pub ends_since: Option<Instant>,
    /// Not before then may its time be over.
    pub may_run_out_at: Option<Instant>,
    /// It came when the host took none of its kind.
    pub kept_out: bool,
    /// Containers whose end is on record with the master since then, with the code.
    pub recorded: BTreeMap<String, (Instant, i32)>,
}

/// All that a note is held against.
pub struct View<'a> {
    /// By uid.
    pub asked: &'a BTreeMap<String, Asked>,
    /// No call was ever lost, no listing late, and the engine was always there.
    pub calm: bool,
    /// How many agents there were.
    pub agent: u32,
}

/// Results of one probe in a row, as one agent had them.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    agent: u32,
    passed: u64,
    failed: u64,
    verdict: Option<bool>,
}

/// One container, from its start to its end.
#[derive(Debug)]
struct Life {
    tag: Tag,
    runs: bool,
    rows: BTreeMap<String, Row>,
    /// The agents that ran its preStop hook.
    pre_stops: Vec<u32>,
    hook_failed: bool,
    signalled: bool,
    /// It ends for a reason of its own, not with its pod.
    own_fault: bool,
    /// It ends without its hook.
    unhooked: bool,
    /// Somebody started it, beside the agent, at that time.
    by_hand: Option<Instant>,
}

/// A rule had all of a pod start anew: what carries a lower number ends.
#[derive(Debug)]
struct Round {
    number: u32,
    since: Instant,
}

/// The end of an init container that has succeeded is one for good, by what the API says of its policy.
fn is_final(document: &Value, name: &str) -> bool {
    let own = container(document, name).and_then(|container| container["restartPolicy"].as_str());
    is_init(name) && own.or(document["spec"]["restartPolicy"].as_str()) != Some("Always")
}

#[derive(Default)]
pub struct Witness {
    pub wrongs: Vec<String>,
    /// By the engine's id.
    lives: BTreeMap<String, Life>,
    /// By uid and container: the hash, the sandbox and the exit code of what ended last.
    ends: BTreeMap<(String, String), (String, u32, i32)>,
    /// By uid, sandbox and container: init containers that have succeeded, and sidecars that were up.
    passed: BTreeSet<(String, u32, String)>,
    /// By uid, of pods that were to start anew: the round that is to run.
    rounds: BTreeMap<String, Round>,
    /// Pods of which somebody took away what tells that they are to start anew.
    unsure: BTreeSet<String>,
    /// By path: the files that the agent wrote.
    filled: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
}

impl Witness {
    /// A pod that is there again has nothing behind it, unless something of it is still here.
    pub fn forget(&mut self, uid: &str, is_left: bool) {
        self.ends.retain(|(of, _), _| of != uid);
        if is_left {
            // What told the round may be removed, or not.
            self.unsure.insert(uid.to_owned());
            return;
        }
        self.passed.retain(|(of, ..)| of != uid);
        self.rounds.remove(uid);
        self.unsure.remove(uid);
    }

    /// Nobody but the engine knew of its end.
    pub fn removed(&mut self, uid: &str, name: &str) {
        self.unsure.insert(uid.to_owned());
        self.ends.remove(&(uid.to_owned(), name.to_owned()));
    }

    /// Somebody removed it, running or not.
    pub fn gone(&mut self, id: &str) {
        self.lives.remove(id);
    }

    /// The verdict of a probe of a container that runs; None: it has none yet.
    pub fn verdict(&self, id: &str, check: &str) -> Option<bool> {
        self.lives.get(id)?.rows.get(check)?.verdict
    }

    pub fn hook_failed(&self, id: &str) -> bool {
        self.lives.get(id).is_some_and(|life| life.hook_failed)
    }

    /// The files of a pod's filled volume.
    pub fn files(&self, uid: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
        self.filled
            .iter()
            .find(|(path, _)| path.contains(&format!("/{uid}/")) && path.ends_with(FILLED))
            .map(|(_, files)| files)
    }

    pub fn take(&mut self, note: &Note, view: &View<'_>) {
        let Some(seen) = &note.seen else {
            match &note.what {
                Noted::Filled { path, files } => drop(self.filled.insert(path.clone(), files.clone())),
                Noted::Told(happening) => {
                    let name = happening.container.as_deref().unwrap_or_default();
                    self.told(note.at, &happening.uid, name, &happening.reason, &happening.message, view);
                }
                _ => {}
            }
            return;
        };
        let Some(tag) = Tag::read(&seen.name, &seen.labels) else { return };
        match &note.what {
            Noted::Started { again } => self.started(note.at, &seen.id, tag, *again, view),
            Noted::Ended { code } => self.ended(note.at, &seen.id, &tag, *code, view),
            Noted::Signalled { signal } if !tag.is_sandbox() => {
                self.signalled(&seen.id, &tag, signal == "SIGKILL", view)
            }
            Noted::Asked { check } => self.asked(&seen.id, &tag, check, view),
            Noted::Answered { check, passed } => self.answered(&seen.id, &tag, check, *passed, view),
            _ => {}
        }
    }

    fn wrong(&mut self, at: Instant, text: String) {
        self.wrongs.push(format!("{:.3}: {text}", super::history::seconds_at(at)));
    }

    fn started(&mut self, at: Instant, id: &str, tag: Tag, again: bool, view: &View<'_>) {
        let (uid, name) = (tag.pod.uid.clone(), tag.container.clone());
        if again {
            // Of the end before it the engine may tell no more than its time.
            self.removed(&uid, &name);
        }
        let mut found = Vec::new();
        let late = self.is_of_earlier_round(&tag);
        if let Some(asked) = view.asked.get(&uid).filter(|_| !again) {
            if asked.over_since.is_some_and(|since| at > since + UNDER_WAY) {
                found.push("starts although its pod is over");
            }
            if asked.kept_out {
                found.push("starts although the host takes no such pods");
            }
            let sure = !has_restart_all(&asked.document) || !self.unsure.contains(&uid);
            if late && sure {
                // It ends with the others.
                found.extend(self.began_by(&uid, at, UNDER_WAY).then_some("starts as of the round before"));
            } else if !tag.is_sandbox() && container(&asked.document, &name).is_some() && sure {
                found.extend(self.left_over(&uid));
                found.extend(self.order(asked, &tag));
                found.extend(self.end_before(at, asked, &tag));
                let fills = asked.document["spec"]["volumes"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|volume| volume["name"] == FILLED);
                if fills && self.files(&uid).is_none() {
                    found.push("starts before its volume is filled");
                }
            }
        }
        found.into_iter().for_each(|text| self.wrong(at, format!("{uid}/{name} {text}")));
        let asked = view.asked.get(&uid);
        if !late
            && is_sidecar(&name)
            && asked
                .and_then(|asked| container(&asked.document, &name))
                .is_some_and(|spec| spec["startupProbe"].is_null())
        {
            self.passed.insert((uid, tag.sandbox, name));
        }
        let life = Life {
            tag,
            runs: true,
            rows: BTreeMap::new(),
            pre_stops: Vec::new(),
            hook_failed: false,
            signalled: false,
            own_fault: again,
            unhooked: again,
            by_hand: again.then_some(at),
        };
        self.lives.insert(id.to_owned(), life);
    }

    /// Init containers come one after another, the sidecars among them up before the next, and all of them before the
    /// main ones.
    fn order(&self, asked: &Asked, tag: &Tag) -> Option<&'static str> {
        let inits = asked.document["spec"]["initContainers"].as_array().into_iter().flatten();
        let inits: Vec<&str> = inits.map(|init| init["name"].as_str().unwrap()).collect();
        let ephemeral = tag.container.starts_with('e');
        let before = inits.iter().take_while(|name| **name != tag.container);
        // Where its master takes no other word of its end, it does not run again.
        let told = |name: &str| {
            let ended = asked.recorded.get(name).is_some_and(|(_, code)| *code == 0);
            ended && is_final(&asked.document, name) && !has_restart_all(&asked.document)
        };
        let passed =
            |name: &&str| self.passed.contains(&(tag.pod.uid.clone(), tag.sandbox, (*name).to_owned())) || told(name);
        if !ephemeral && !before.copied().all(|name| passed(&name)) {
            return Some("starts before the init containers before it are through");
        }
        let beside = |which: &dyn Fn(&str) -> bool| {
            // What somebody just started beside the agent may meet what was under way.
            let counts = |life: &&Life| life.by_hand.is_none_or(|at| at.elapsed() > UNDER_WAY);
            let others = self.lives.values().filter(counts).filter(|life| life.runs && life.tag.pod.uid == tag.pod.uid);
            others.filter(|life| life.tag.container != tag.container).any(|life| which(&life.tag.container))
        };
        if !ephemeral && !is_sidecar(&tag.container) && beside(&is_init) {
            return Some("starts beside an init container");
        }
        (is_init(&tag.container) && beside(&|name| name.starts_with('c'))).then_some("starts beside a main container")
    }

    /// It ran when all were to start anew, or its start was under way. Ephemeral containers stay.
    fn is_of_earlier_round(&self, tag: &Tag) -> bool {
        let stays = tag.is_sandbox() || tag.container.starts_with('e');
        !stays && self.rounds.get(&tag.pod.uid).is_some_and(|round| tag.renewal < round.number)
    }

    /// Whether the last round of a pod was to begin more than that long before.
    fn began_by(&self, uid: &str, at: Instant, long: Duration) -> bool {
        self.rounds.get(uid).is_some_and(|round| round.since + long < at)
    }

    /// Nothing starts beside what was to end first.
    fn left_over(&self, uid: &str) -> Option<&'static str> {
        let earlier = |life: &Life| {
            let own = life.by_hand.is_none() && life.tag.pod.uid == uid;
            life.runs && own && self.is_of_earlier_round(&life.tag)
        };
        self.lives.values().any(earlier).then_some("runs beside what was to end before all start anew")
    }

    /// What was to end before all started anew, and has not, although there was time.
    pub fn overdue(&self, uid: &str) -> Option<&'static str> {
        let sure = !self.unsure.contains(uid) && self.began_by(uid, Instant::now(), 2 * UNDER_WAY);
        self.left_over(uid).filter(|_| sure)
    }

    /// Whether its last end, or the one on record, was one for good.
    fn end_before(&self, at: Instant, asked: &Asked, tag: &Tag) -> Option<&'static str> {
        let name = &tag.container;
        if let Some((since, code)) = asked.recorded.get(name).filter(|_| !has_restart_all(&asked.document))
            && at > *since + UNDER_WAY
            && !starts_again(&asked.document, name, *code)
            && !is_init(name)
        {
            return Some("starts although its end is on record");
        }
        let (hash, sandbox, code) = self.ends.get(&(tag.pod.uid.clone(), name.clone()))?;
        let once_a_sandbox = is_init(name) && *code == 0 && *sandbox != tag.sandbox;
        let again = once_a_sandbox || *hash != tag.hash || starts_again(&asked.document, name, *code);
        (!again && !name.starts_with('e')).then_some("starts again although it has ended for good")
    }

    fn ended(&mut self, at: Instant, id: &str, tag: &Tag, code: i32, view: &View<'_>) {
        let (uid, name) = (tag.pod.uid.clone(), tag.container.clone());
        if let Some(life) = self.lives.get_mut(id) {
            life.runs = false;
            // It had ended before, which is what counts.
            if life.by_hand.is_some() {
                return;
            }
        }
        let ends = view.asked.get(&uid).and_then(|asked| asked.ends_since).filter(|_| view.calm);
        if ends.is_some_and(|since| at > since + END) {
            self.wrong(at, format!("{uid}/{name} ends long after its pod was to"));
        }
        // What ended so that all start anew is forgotten.
        if self.is_of_earlier_round(tag) {
            return;
        }
        if is_init(&name) && code == 0 {
            self.passed.insert((uid.clone(), tag.sandbox, name.clone()));
        }
        self.ends.insert((uid.clone(), name.clone()), (tag.hash.clone(), tag.sandbox, code));
        let spec = view.asked.get(&uid).and_then(|asked| container(&asked.document, &name));
        if code == 3 && spec.is_some_and(is_source) {
            self.begin_anew(&uid, Round { number: tag.renewal + 1, since: at });
        }
    }

    /// All that the pod has behind it counts no more.
    fn begin_anew(&mut self, uid: &str, round: Round) {
        self.rounds.insert(uid.to_owned(), round);
        self.passed.retain(|(of, ..)| of != uid);
        self.ends.retain(|(of, _), _| of != uid);
    }

    fn signalled(&mut self, id: &str, tag: &Tag, kill: bool, view: &View<'_>) {
        let name = format!("{}/{}", tag.pod.uid, tag.container);
        let sandbox_runs =
            self.lives.values().any(|life| life.runs && life.tag.is_sandbox() && life.tag.pod.uid == tag.pod.uid);
        let earlier = |life: &Life| {
            let own = life.by_hand.is_none() && life.tag.pod.uid == tag.pod.uid;
            life.runs && own && life.tag.end_turn < tag.end_turn
        };
        // Those that somebody looks in with stay where all start anew.
        let anew = self.lives.get(id).is_some_and(|life| life.unhooked);
        let stays = |life: &Life| anew && life.tag.container.starts_with('e');
        let needs = |life: &Life| earlier(life) && !life.tag.is_sandbox() && !stays(life);
        let needed = sandbox_runs && self.lives.values().any(needs);
        let Some(life) = self.lives.get_mut(id) else { return };
        let first = !std::mem::replace(&mut life.signalled, true);
        if !first || kill || !view.calm {
            return;
        }
        let (own_fault, unhooked) =
            (life.own_fault, tag.pre_stop.is_some() && life.pre_stops.is_empty() && !life.unhooked);
        let at = Instant::now();
        if needed && !own_fault {
            self.wrong(at, format!("{name} ends before those that need it"));
        }
        if unhooked {
            self.wrong(at, format!("{name} gets its signal before its preStop hook"));
        }
    }

    fn asked(&mut self, id: &str, tag: &Tag, check: &str, view: &View<'_>) {
        let Some(life) = self.lives.get_mut(id) else { return };
        let name = format!("{}/{}", tag.pod.uid, tag.container);
        let spec = view.asked.get(&tag.pod.uid).and_then(|asked| container(&asked.document, &tag.container));
        let mut found = None;
        if check == "preStop" {
            if life.pre_stops.contains(&view.agent) {
                found = Some(format!("the preStop hook of {name} runs twice"));
            }
            life.pre_stops.push(view.agent);
        }
        let started = life.rows.get("startup").is_some_and(|row| row.agent == view.agent && row.verdict == Some(true));
        if matches!(check, "live" | "ready") && spec.is_some_and(|spec| !spec["startupProbe"].is_null()) && !started {
            found = Some(format!("{name} is probed ({check}) before it has started"));
        }
        if let Some(text) = found {
            self.wrong(Instant::now(), text);
        }
    }

    fn answered(&mut self, id: &str, tag: &Tag, check: &str, passed: bool, view: &View<'_>) {
        let spec = view.asked.get(&tag.pod.uid).and_then(|asked| container(&asked.document, &tag.container));
        let (Some(life), Some(spec)) = (self.lives.get_mut(id), spec) else { return };
        life.hook_failed |= check == "postStart" && !passed;
        let field = match check {
            "startup" => "startupProbe",
            "live" => "livenessProbe",
            "ready" => "readinessProbe",
            _ => return,
        };
        let row = life.rows.entry(check.to_owned()).or_default();
        if row.agent != view.agent {
            *row = Row { agent: view.agent, ..Row::default() };
        }
        let threshold = |name: &str, or: u64| spec[field][name].as_u64().unwrap_or(or);
        if passed {
            (row.passed, row.failed) = (row.passed + 1, 0);
        } else {
            (row.passed, row.failed) = (0, row.failed + 1);
        }
        if row.passed >= threshold("successThreshold", 1) {
            row.verdict = Some(true);
        } else if row.failed >= threshold("failureThreshold", 3) {
            row.verdict = Some(false);
        }
        let up = check == "startup" && row.verdict == Some(true) && is_sidecar(&tag.container);
        if up && !self.is_of_earlier_round(tag) {
            self.passed.insert((tag.pod.uid.clone(), tag.sandbox, tag.container.clone()));
        }
    }

    /// Why the loop ends a container, and that it says so of one that has a fault.
    fn told(&mut self, at: Instant, uid: &str, name: &str, reason: &str, message: &str, view: &View<'_>) {
        if reason == "DeadlineExceeded"
            && view.asked.get(uid).and_then(|asked| asked.may_run_out_at).is_some_and(|due| at < due)
        {
            self.wrong(at, format!("the time of {uid} is over before it is"));
        }
        if reason != "Killing" || message.starts_with(STOPS) {
            return;
        }
        let mut running =
            self.lives.values_mut().filter(|life| life.runs && life.tag.pod.uid == uid && life.tag.container == name);
        let Some(life) = running.next() else { return };
        if message == ALL_START_ANEW {
            life.unhooked = true;
            return;
        }
        life.own_fault = true;
        let failed = |check: &str| life.rows.get(check).is_some_and(|row| row.verdict == Some(false));
        let just = if message.contains("liveness") {
            failed("live")
        } else if message.contains("startup") {
            failed("startup")
        } else {
            life.hook_failed
        };
        if !just {
            self.wrong(at, format!("{uid}/{name} ends without a fault: {message}"));
        }
    }
}
