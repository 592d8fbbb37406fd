//! Images of this host: loaded from files, and taken away when the disk fills up.
//!
//!     files of images -> archive PURE -> the engine, once each by digest -> record PURE
//!     the disk, the engine's images, what pods name -> collect PURE -> those that go
//!
//! Looks when the kernel tells of a file or a disk (`heard`), once a minute, and when a pod needs an image that is not
//! here: it may have been removed since. Where nothing is new and the disk has room, no question goes to the engine and
//! nothing is written. A file that is still being written waits until it is closed, or keeps its size for a moment.

pub mod archive;
mod files;
mod heard;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::facts::clock::wall_ms;
use crate::facts::engine::Failure;
use crate::facts::shown::Shown;
use crate::host::files::disk;
use crate::plan::images::full_name;
use crate::runtime::Runtime;
use crate::runtime::docker::Docker;
use crate::runtime::docker::stock::collect::{CollectionCase, EngineImage, collect, unused, used_percent};
use crate::runtime::docker::stock::record::Loaded;
use files::{FILES_MAX, candidates, is_settled, pieces};
use heard::Heard;

const LOOK: Duration = Duration::from_secs(60);
/// A file that is being written is looked at again after this.
const SETTLE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq)]
pub struct ImageSettings {
    pub folders: Vec<PathBuf>,
    /// Percent of the disk in use: image collection begins above `high`, and ends at `low`.
    pub high: u64,
    pub low: u64,
}

struct Room {
    docker: Arc<Docker>,
    about: ImageSettings,
    /// False before the first look: what was loaded before may be gone by now.
    looked: bool,
    /// Files that could not be loaded, as they were then.
    failed: BTreeMap<PathBuf, String>,
    started: Instant,
    last_used_ms: BTreeMap<String, i64>,
    /// Said once.
    full: bool,
    /// Why files wait, said once.
    held_up: Option<String>,
    /// How many files are too many, said when it changes.
    left_out: usize,
    heard: Heard,
    /// At the last look there were files of which only their time tells when they are whole.
    unsettled: bool,
    /// For the loop: images have come.
    wake: Arc<Notify>,
}

/// Never ends. `wake` is notified when images have come: pods that wait for them start at once.
pub async fn run(docker: Arc<Docker>, about: ImageSettings, mut shown: watch::Receiver<Arc<Shown>>, wake: Arc<Notify>) {
    if shown.wait_for(|shown| shown.looked).await.is_err() {
        return;
    }
    let mut asked = docker.archives_asked();
    let mut room = Room {
        heard: Heard::open(&about.folders),
        docker,
        about,
        looked: false,
        failed: BTreeMap::new(),
        started: Instant::now(),
        last_used_ms: BTreeMap::new(),
        full: false,
        held_up: None,
        left_out: 0,
        unsettled: false,
        wake,
    };
    loop {
        let loaded = room.load().await;
        room.say(loaded);
        let seen = shown.borrow().clone();
        if let Err(failure) = room.collect(&seen).await {
            log::debug!("image collection: {failure}");
        }
        // Pods that go meanwhile are not to be kept in memory.
        drop(seen);
        let look_at = Instant::now() + if room.unsettled { SETTLE } else { LOOK };
        loop {
            tokio::select! {
                () = sleep_until(look_at) => break,
                () = room.heard.changed() => break,
                Some(ask) = asked.recv() => {
                    // The receiver of the answer may be gone.
                    let _ = ask.answer.send(room.load_again(&ask.reference).await);
                }
            }
        }
    }
}

impl Room {
    /// Logs each reason once, and the end of the trouble.
    fn say(&mut self, loaded: Result<(), Failure>) {
        let why = loaded.err().map(|failure| failure.to_string());
        if why.as_deref().map(without_digits) != self.held_up.as_deref().map(without_digits) {
            match &why {
                Some(why) => log::warn!("archives of images wait: {why}; it is tried again every {} s", LOOK.as_secs()),
                None => log::info!("archives of images are loaded again"),
            }
        }
        self.held_up = why;
    }

    /// The archives that are whole.
    fn whole(&mut self, mut files: Vec<(PathBuf, String)>) -> Vec<(PathBuf, String)> {
        let (now_ms, record) = (wall_ms(), self.docker.record());
        let mut unsettled = false;
        files.retain(|(path, stamp)| {
            let known = record.files.get(&*path.to_string_lossy()).is_some_and(|file| file.stamp == *stamp);
            if known || self.heard.was_closed(path, stamp) {
                return true;
            }
            // The end of a file that is being written is heard.
            let (written, settled) = (self.heard.is_being_written(path), is_settled(path, now_ms));
            unsettled |= !written && !settled;
            !written && settled
        });
        self.unsettled = unsettled;
        files
    }

    async fn load(&mut self) -> Result<(), Failure> {
        let (files, left_out) = candidates(&self.about.folders);
        if left_out != self.left_out && left_out > 0 {
            let last = files.last().map(|(path, _)| path.display().to_string()).unwrap_or_default();
            log::warn!(
                "{left_out} archives of images are left out: of all folders the first {FILES_MAX} by name are loaded, \
                 up to {last}"
            );
        }
        self.left_out = left_out;
        self.failed.retain(|path, _| files.iter().any(|(one, _)| one == path));
        let there = |path: &String| files.iter().any(|(one, _)| one.to_string_lossy() == path.as_str());
        self.docker.change_record(|record| record.files.retain(|path, _| there(path)));
        let here = if self.looked || files.is_empty() { None } else { Some(self.ids().await?) };
        let files = self.whole(files);
        for (path, stamp) in &files {
            let known = self.docker.record().files.get(&*path.to_string_lossy()).cloned();
            let whole = |known: &Loaded| here.as_ref().is_none_or(|here| known.images.is_subset(here));
            if known.is_some_and(|known| known.stamp == *stamp && whole(&known)) || self.failed.get(path) == Some(stamp)
            {
                continue;
            }
            match self.load_one(path, stamp, false).await {
                Ok(()) => drop(self.failed.remove(path)),
                // The engine is gone for now: the next look tries again.
                Err(Failure::Unavailable(why)) => return Err(Failure::Unavailable(why)),
                Err(failure) => {
                    log::warn!("images of {}: {failure}; it is tried again when the file changes", path.display());
                    self.failed.insert(path.clone(), stamp.clone());
                }
            }
        }
        self.looked = true;
        Ok(())
    }

    /// An image that was removed since its archive was loaded.
    async fn load_again(&mut self, reference: &str) -> bool {
        let (files, _) = candidates(&self.about.folders);
        let files = self.whole(files);
        for (path, stamp) in &files {
            let known = self.docker.record().files.get(&*path.to_string_lossy()).cloned();
            let other = known.is_some_and(|known| known.stamp == *stamp && !known.may_have(reference));
            if other || self.failed.get(path) == Some(stamp) {
                continue;
            }
            match self.load_one(path, stamp, true).await {
                Ok(()) if matches!(self.docker.image(reference).await, Ok(Some(_))) => return true,
                Ok(()) => {}
                Err(Failure::Unavailable(why)) => {
                    log::warn!("{reference} is not loaded from {}: {why}", path.display());
                    return false;
                }
                Err(failure) => {
                    log::warn!("images of {}: {failure}; it is tried again when the file changes", path.display());
                    self.failed.insert(path.clone(), stamp.clone());
                }
            }
        }
        false
    }

    /// `again`: loads the archive even if the engine has all images of the archive.
    async fn load_one(&self, path: &Path, stamp: &str, again: bool) -> Result<(), Failure> {
        let (archive, digest) = files::read(path).await.map_err(Failure::Config)?;
        let before = self.ids().await?;
        let same = self
            .docker
            .record()
            .files
            .into_values()
            .find(|file| !again && file.digest == digest && file.images.is_subset(&before));
        let images = match same {
            Some(file) => file.images,
            None => {
                if let Some(why) = self.docker.too_full() {
                    return Err(Failure::Unavailable(why));
                }
                self.docker.load_archive(pieces(path.to_owned(), archive.before)).await?;
                self.loaded(path, &archive.names, &before).await?
            }
        };
        let names = archive.names.iter().map(|name| full_name(name)).collect();
        let loaded = Loaded { stamp: stamp.to_owned(), digest, images, names };
        self.docker.change_record(|record| drop(record.files.insert(path.to_string_lossy().into_owned(), loaded)));
        Ok(())
    }

    async fn loaded(
        &self,
        path: &Path,
        names: &[String],
        before: &BTreeSet<String>,
    ) -> Result<BTreeSet<String>, Failure> {
        let mut images = BTreeSet::new();
        for name in names {
            if let Some(image) = self.docker.image(name).await? {
                self.docker.change_record(|record| {
                    record.private.remove(&image.id);
                    record.fetched(&image.id, name, before);
                });
                images.insert(image.id);
            }
        }
        if images.is_empty() {
            return Err(Failure::Refused(format!("it was loaded, and the engine has none of {}", names.join(", "))));
        }
        log::info!("loaded {} from {}", names.join(", "), path.display());
        self.wake.notify_one();
        Ok(images)
    }

    async fn ids(&self) -> Result<BTreeSet<String>, Failure> {
        Ok(self.docker.images().await?.into_iter().map(|image| image.id).collect())
    }

    async fn collect(&mut self, shown: &Shown) -> Result<(), Failure> {
        let now_ms = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let used = used(shown);
        self.last_used_ms.extend(used.iter().map(|id| (id.clone(), now_ms)));
        let Some((root, disk)) = self.docker.root().and_then(|root| Some((root.clone(), disk(&root)?))) else {
            return Ok(());
        };
        let percent = used_percent(disk);
        if percent < self.about.high {
            self.full = false;
            return Ok(());
        }
        let here = self.docker.images().await?;
        let ids: BTreeSet<String> = here.iter().map(|image| image.id.clone()).collect();
        self.last_used_ms.retain(|id, _| ids.contains(id));
        for id in &ids {
            self.last_used_ms.entry(id.clone()).or_insert(now_ms);
        }
        self.docker.change_record(|record| record.keep(&ids));
        let record = self.docker.record();
        let wanted = named(shown);
        let (high, low) = (self.about.high, self.about.low);
        let last_used_ms = &self.last_used_ms;
        let case = CollectionCase {
            disk,
            high,
            low,
            here: &here,
            record: &record,
            wanted: &wanted,
            used: &used,
            last_used_ms,
            now_ms,
        };
        let goes = collect(&case);
        if goes.is_empty() && !self.full {
            log::warn!("{percent} % of {root} is in use, and no image that this agent fetched can go: make room");
        }
        self.full = goes.is_empty();
        for image in goes {
            remove(&self.docker, image, &format!("{percent} % of {root} is in use")).await;
        }
        Ok(())
    }
}

/// Removes all unused images, at any level of the disk: otherwise pods would be evicted.
pub async fn free_unused(docker: &Docker, shown: &Shown) {
    let here = match docker.images().await {
        Ok(here) => here,
        Err(failure) => return log::debug!("image collection: {failure}"),
    };
    let (wanted, used) = (named(shown), used(shown));
    for image in unused(&here, &docker.record(), &wanted, &used) {
        remove(docker, image, "the disk is short").await;
    }
}

async fn remove(docker: &Docker, image: &EngineImage, why: &str) {
    let names = if image.tags.is_empty() { image.id.clone() } else { image.tags.join(", ") };
    match docker.remove_image(image).await {
        Ok(()) => log::info!("removed the image {names}: no pod names it, and {why}"),
        // A client has made a container or a derived image from the image.
        Err(failure) => log::debug!("the image {names} stays: {failure}"),
    }
}

/// As pods name them.
fn named(shown: &Shown) -> BTreeSet<String> {
    let pods = shown.desired.pods.values();
    pods.flat_map(|wanted| wanted.members().map(|member| member.spec.image.clone())).collect()
}

/// The ids of images with a container.
fn used(shown: &Shown) -> BTreeSet<String> {
    shown.world.containers.iter().map(|seen| seen.image_id.clone()).collect()
}

/// A disk that fills up further has the same reason.
fn without_digits(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_same_while_only_its_figures_change() {
        let full = |percent: u64| format!("no room for images: {percent} % of /d is free");
        assert_eq!(without_digits(&full(4)), without_digits(&full(3)));
        assert_ne!(without_digits(&full(4)), without_digits("the engine does not answer"));
    }
}
