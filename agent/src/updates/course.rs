//! The course of one update: the images come, the pod is replaced, and stays or goes back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::board::Wish;
use super::judge::{self, Progress};
use super::record::{Exchange, Record, Stage};
use super::{Room, table};
use crate::facts::happening::{Event, Happening};
use crate::facts::logins::fitting;
use crate::facts::shown::Shown;
use crate::facts::update::{PinnedImage, PodUpdate};
use crate::facts::wanted::Wanted;
use crate::runtime::Runtime;
use crate::spec::pull_secrets::pull_secrets;

/// A pod that stays ready for so long, with the same containers, is taken for ready: a program without a readiness
/// probe is ready at once, and may fail a moment later.
const STEADY: Duration = Duration::from_secs(10);

impl Room {
    /// A dry run.
    pub(super) async fn only_tell(&self, wanted: &Wanted, shown: &Shown, job: u64) -> bool {
        let name = title(wanted);
        if let Some(why) = judge::refusal(shown, wanted) {
            self.board.say(job, format!("{name}: {why}"));
            return false;
        }
        for row in table::of_pod(&self.docker, shown, wanted).await {
            self.board.say(job, format!("{name}: {}", row.dry_words()));
        }
        true
    }

    /// True: the pod runs from the newest images now, or did so before.
    pub(super) async fn update(&mut self, wanted: &Wanted, shown: &Shown, wish: &Wish) -> bool {
        let (name, uid) = (title(wanted), &wanted.name.uid);
        if let Some(why) = judge::refusal(shown, wanted) {
            self.say(wish.job, &name, &why);
            return false;
        }
        let running = judge::running(shown, wanted);
        // A container that fails while the images come does not start from a newer one unguarded.
        let pin = |one: &judge::Running| {
            let id = one.id.clone()?;
            Some((one.container.clone(), PinnedImage { reference: one.reference.clone(), id }))
        };
        let update = self.records.get(uid).map(Record::asks).unwrap_or_default();
        self.ask_of_pods(Some((uid, PodUpdate { images: running.iter().filter_map(pin).collect(), ..update })));
        let exchanges = self.bring(wanted, shown, &running, wish.job).await;
        let exchanges = match exchanges {
            Ok(exchanges) => exchanges,
            Err(why) => {
                self.ask_of_pods(None);
                self.say(wish.job, &name, &format!("{why}; nothing has changed"));
                return false;
            }
        };
        let before = self.records.get(uid);
        let known = wish.scheduled && before.is_some_and(|record| record.gave_up(&exchanges));
        if exchanges.is_empty() || known {
            self.ask_of_pods(None);
            let text = if known { "the newer image is the one that was given up" } else { "no newer image" };
            self.say(wish.job, &name, text);
            return true;
        }
        if let Err(why) = self.begin(wanted, exchanges, wish).await {
            self.ask_of_pods(None);
            self.say(wish.job, &name, &format!("{why}; nothing has changed"));
            return false;
        }
        self.finish(uid, wish.job).await
    }

    /// Has the images come, and gives those containers whose images are newer than what they run.
    async fn bring(
        &self,
        wanted: &Wanted,
        shown: &Shown,
        running: &[judge::Running],
        job: u64,
    ) -> Result<BTreeMap<String, Exchange>, String> {
        let name = title(wanted);
        let movable = || running.iter().filter(|one| !one.is_fixed());
        let references: BTreeSet<&str> = movable().map(|one| one.reference.as_str()).collect();
        for reference in references {
            let never = movable().any(|one| one.reference == reference && one.never_pulls);
            if never || table::is_local(&self.docker, reference).await.map_err(|failure| failure.to_string())? {
                continue;
            }
            if self.docker.image(reference).await.is_ok_and(|image| image.is_none())
                && matches!(self.docker.load(reference).await, Ok(true))
            {
                continue;
            }
            self.say(job, &name, &format!("pull {reference}"));
            let logins = fitting(&pull_secrets(&shown.desired.objects, wanted).logins, reference);
            let pulled = self.docker.pull(reference, &logins).await;
            pulled.map_err(|failure| format!("{reference} cannot be pulled: {failure}"))?;
        }
        let mut exchanges = BTreeMap::new();
        for one in movable() {
            let image = self.docker.image(&one.reference).await.map_err(|failure| failure.to_string())?;
            let new = image.map(|image| image.id).ok_or_else(|| format!("{} is not on this host", one.reference))?;
            if let Some(old) = one.id.clone().filter(|old| *old != new) {
                exchanges.insert(one.container.clone(), Exchange { reference: one.reference.clone(), old, new });
            }
        }
        Ok(exchanges)
    }

    /// From here on the update has an end, whatever becomes of the agent.
    async fn begin(
        &mut self,
        wanted: &Wanted,
        containers: BTreeMap<String, Exchange>,
        wish: &Wish,
    ) -> Result<(), String> {
        let uid = &wanted.name.uid;
        for exchange in containers.values() {
            let kept = self.docker.keep_image(&exchange.old).await;
            kept.map_err(|failure| format!("the image of {} that runs cannot be kept: {failure}", exchange.reference))?;
        }
        let newest = judge::sandbox(&self.shown.borrow(), uid);
        let text: Vec<String> = containers.iter().map(|(name, exchange)| in_words(name, exchange)).collect();
        let record = Record {
            source: wanted.name.source.name().to_owned(),
            namespace: wanted.name.namespace.clone(),
            name: wanted.name.name.clone(),
            stage: Stage::Trying,
            sandbox: newest.map_or(0, |newest| newest.saturating_add(1)),
            deadline_seconds: wish.deadline.as_secs(),
            containers,
            why: String::new(),
        };
        let mut records = self.records.clone();
        records.insert(uid.clone(), record);
        self.shelf.write(&records).map_err(|error| format!("the update cannot be kept on disk: {error}"))?;
        self.records = records;
        self.ask_of_pods(None);
        self.say(wish.job, &title(wanted), &text.join(", "));
        Ok(())
    }

    /// Waits for the end of an update that is on disk. True: the pod runs from the newer images.
    pub(super) async fn finish(&mut self, uid: &str, job: u64) -> bool {
        self.ask_of_pods(None);
        loop {
            let Some(record) = self.records.get(uid).cloned() else { return false };
            let name = format!("{}/{}", record.namespace, record.name);
            let settled = self.settle(uid, &record).await;
            match (record.stage, settled) {
                (Stage::Held, _) => return false,
                (_, Err(End::Over(why))) => {
                    self.say(job, &name, &why);
                    self.put(uid, None).await;
                    return false;
                }
                (Stage::Trying, Ok(())) => {
                    self.say(job, &name, "it is ready");
                    self.happen(uid, |message| Event::Updated { message }, "The pod runs from newer images");
                    self.put(uid, None).await;
                    return true;
                }
                (Stage::Trying, Err(End::Late(why))) => {
                    let text = format!("not ready within {} s: {why}", record.deadline_seconds);
                    self.say(job, &name, &format!("{text}; goes back to the image before"));
                    self.happen(uid, |message| Event::Waits { reason: "UpdateGivenUp", message }, &text);
                    let mut back = record;
                    let newest = judge::sandbox(&self.shown.borrow(), uid).unwrap_or(0);
                    back.go_back(&text, newest);
                    self.put(uid, Some(back)).await;
                }
                (Stage::Back, settled) => {
                    let text = match settled {
                        Ok(()) => "it runs from the image before again".to_owned(),
                        Err(End::Late(why) | End::Over(why)) => format!("nor is it ready with the image before: {why}"),
                    };
                    self.say(job, &name, &text);
                    self.put(uid, Some(Record { stage: Stage::Held, ..record })).await;
                    return false;
                }
            }
        }
    }

    /// Keeps or ends a record. A record that cannot be written holds until this agent ends, and is written with the
    /// next.
    async fn put(&mut self, uid: &str, record: Option<Record>) {
        match record {
            Some(record) => drop(self.records.insert(uid.to_owned(), record)),
            None => drop(self.records.remove(uid)),
        }
        if let Err(error) = self.shelf.write(&self.records) {
            log::warn!("keep the course of an update: {error}");
        }
        self.ask_of_pods(None);
        self.let_go().await;
    }

    fn happen(&self, uid: &str, event: impl Fn(String) -> Event, text: &str) {
        if let Some(wanted) = self.shown.borrow().desired.pods.get(uid) {
            // A queue that is full loses events, never actions.
            let _ = self.happenings.try_send(Happening::of_pod(&wanted.name, None, event(text.to_owned())));
        }
    }

    /// Waits until the pod has been ready for a while, or its deadline is over.
    async fn settle(&mut self, uid: &str, record: &Record) -> Result<(), End> {
        let late_at = Instant::now() + Duration::from_secs(record.deadline_seconds);
        let mut steady: Option<(Instant, BTreeSet<String>)> = None;
        loop {
            let progress = judge::progress(record, uid, &self.shown.borrow_and_update());
            let now = Instant::now();
            match progress {
                Progress::Over(why) => return Err(End::Over(why)),
                Progress::Not(why) if now >= late_at => return Err(End::Late(why)),
                Progress::Not(_) => steady = None,
                Progress::Ready(ids) => {
                    let since = steady.take().filter(|(_, known)| *known == ids).map_or(now, |(since, _)| since);
                    if now >= since + STEADY {
                        return Ok(());
                    }
                    steady = Some((since, ids));
                }
            }
            let wake_at = steady.as_ref().map_or(late_at, |(since, _)| *since + STEADY);
            tokio::select! {
                changed = self.shown.changed() => if changed.is_err() {
                    // The agent ends; the next one goes on.
                    return std::future::pending().await;
                },
                () = sleep_until(wake_at) => {}
            }
        }
    }
}

/// Why a stage ends without a ready pod.
enum End {
    Over(String),
    Late(String),
}

fn title(wanted: &Wanted) -> String {
    format!("{}/{}", wanted.name.namespace, wanted.name.name)
}

fn in_words(container: &str, exchange: &Exchange) -> String {
    let Exchange { reference, old, new } = exchange;
    format!("{container}: {reference}: {} -> {}", table::short(old), table::short(new))
}
