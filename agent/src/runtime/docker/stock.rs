//! The engine's images: lists and removes them, records the images that the agent fetched, and loads archives.

pub mod ask;
pub mod collect;
pub mod record;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bollard::query_parameters::{ImportImageOptions, ListImagesOptions, RemoveImageOptions, TagImageOptions};
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::{mpsc, oneshot};

use super::connection::{Docker, failure, held};
use super::stock::ask::ArchiveAsk;
use super::stock::collect::{EngineImage, KEPT, free_percent, is_full, kept_name};
use super::stock::record::ImageRecord;
use crate::facts::engine::Failure;
use crate::facts::image_access::ImageAccess;
use crate::host::{files, private};

const NAME: &str = "images.json";
/// Some thousand images take less.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Questions that wait for their turn; who asks further waits as well.
const ASKS_MAX: usize = 16;
/// A gigabyte onto a slow card.
const LOAD: Duration = Duration::from_secs(1800);

/// The record of an earlier run. If the file cannot be read, no image counts as the agent's own.
pub(super) fn read_record(data_dir: &str) -> ImageRecord {
    let path = Path::new(data_dir).join(NAME);
    let read = || -> io::Result<ImageRecord> {
        if std::fs::metadata(&path)?.len() > FILE_BYTES_MAX {
            return Err(io::Error::other("it is too big"));
        }
        serde_json::from_slice(&std::fs::read(&path)?).map_err(io::Error::other)
    };
    read().unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            log::error!("{}: {error}; images that were fetched before are never removed", path.display());
        }
        ImageRecord::default()
    })
}

impl Docker {
    pub async fn images(&self) -> Result<Vec<EngineImage>, Failure> {
        let client = self.client().await?;
        let images = self.change("list images", client.list_images(Some(ListImagesOptions::default()))).await?;
        let plain = |names: Vec<String>| names.into_iter().filter(|name| !name.starts_with("<none>")).collect();
        let here = images.into_iter().map(|image| EngineImage {
            id: image.id,
            tags: plain(image.repo_tags),
            digests: plain(image.repo_digests),
            bytes: u64::try_from(image.size).unwrap_or(0),
        });
        Ok(here.collect())
    }

    /// The requests to load an archive, for the task that loads archives.
    pub fn archives_asked(&self) -> mpsc::Receiver<ArchiveAsk> {
        let (ask, asked) = mpsc::channel(ASKS_MAX);
        *held(&self.archives) = Some(ask);
        asked
    }

    /// False also if no task loads archives.
    pub(super) async fn ask_archives(&self, reference: &str) -> bool {
        let Some(archives) = held(&self.archives).clone() else { return false };
        let (answer, answered) = oneshot::channel();
        let ask = ArchiveAsk { reference: reference.to_owned(), answer };
        archives.send(ask).await.is_ok() && answered.await.unwrap_or(false)
    }

    pub fn record(&self) -> ImageRecord {
        held(&self.record).clone()
    }

    /// Written where it differs. What cannot be written now is written with the next change.
    pub fn change_record(&self, change: impl FnOnce(&mut ImageRecord)) {
        let mut record = held(&self.record);
        let mut new = record.clone();
        change(&mut new);
        if *record == new || self.settings.only_looks {
            return;
        }
        let folder = PathBuf::from(&self.settings.data_dir);
        let text = serde_json::to_vec(&new).map_err(io::Error::other);
        if serde_json::to_vec(&*record).is_ok_and(|before| text.as_ref().is_ok_and(|text| *text == before)) {
            *record = new;
            return;
        }
        if let Err(error) = text.and_then(|text| private::replace_files(&folder, [(NAME.into(), text)].into_iter())) {
            log::warn!("keep which images were fetched in {}: {error}", folder.join(NAME).display());
        }
        *record = new;
    }

    /// Removes an image name by name, so that a name given meanwhile keeps the image. Never forced, and parent images
    /// stay.
    pub async fn remove_image(&self, image: &EngineImage) -> Result<(), Failure> {
        let client = self.client().await?;
        let names = if image.tags.is_empty() { std::slice::from_ref(&image.id) } else { &image.tags };
        for name in names {
            let options = RemoveImageOptions { noprune: true, ..Default::default() };
            match self.change("remove an image", client.remove_image(name, Some(options), None)).await {
                Ok(_) | Err(Failure::NotFound(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
        let here = self.ids().await?;
        self.change_record(|record| {
            record.images.remove(&image.id);
            record.private.retain(|id, _| here.contains(id));
        });
        Ok(())
    }

    pub async fn load_archive(&self, pieces: mpsc::Receiver<io::Result<Bytes>>) -> Result<(), Failure> {
        let client = self.client().await?;
        let body = futures_util::stream::unfold(pieces, async |mut pieces| Some((pieces.recv().await?, pieces)));
        let load = async {
            let mut answers = std::pin::pin!(client.import_image_stream(ImportImageOptions::default(), body, None));
            while let Some(answer) = answers.next().await {
                let answer = answer.map_err(|error| failure("load images", error))?;
                if let Some(text) = answer.error_detail.and_then(|detail| detail.message) {
                    return Err(Failure::Refused(text));
                }
            }
            Ok(())
        };
        let ended = tokio::time::timeout(LOAD, load).await;
        ended.unwrap_or_else(|_| Err(Failure::Refused(format!("load images: no end after {} s", LOAD.as_secs()))))
    }

    /// Gives an image a name of the agent's own, so that neither the agent nor a prune takes it away while an update
    /// may go back to it.
    pub async fn keep_image(&self, id: &str) -> Result<(), Failure> {
        let client = self.client().await?;
        let name = kept_name(id);
        let tag = name.rsplit(':').next().map(str::to_owned);
        let options = TagImageOptions { repo: Some(KEPT.to_owned()), tag };
        self.change("keep an image", client.tag_image(id, Some(options))).await
    }

    /// Takes the agent's own names from all images but these. What has no other name and no container goes.
    pub async fn keep_only(&self, ids: &std::collections::BTreeSet<String>) -> Result<(), Failure> {
        let client = self.client().await?;
        let kept: std::collections::BTreeSet<String> = ids.iter().map(|id| kept_name(id)).collect();
        for image in self.images().await? {
            for name in image.tags.iter().filter(|name| name.starts_with(KEPT) && !kept.contains(*name)) {
                // By force: a container that has ended may still hold the image.
                let options = RemoveImageOptions { force: true, noprune: false, ..Default::default() };
                match self.change("let an image go", client.remove_image(name, Some(options), None)).await {
                    Ok(_) | Err(Failure::NotFound(_)) => {}
                    // A container that runs from it: the next update takes the name away.
                    Err(Failure::Conflict(text)) => log::debug!("{name}: {text}"),
                    Err(failure) => return Err(failure),
                }
            }
        }
        Ok(())
    }

    /// Why no image should come now. An engine elsewhere has a disk that nobody here knows.
    pub fn too_full(&self) -> Option<String> {
        let root = self.root().filter(|_| self.settings.host.starts_with("unix:"))?;
        let disk = files::disk(&root)?;
        let (bytes, files) = free_percent(disk);
        let text = || {
            format!(
                "no room for images: {bytes} % of {root} is free, {files} % of its inodes; make room, it is tried \
                 again by itself"
            )
        };
        is_full(disk).then(text)
    }

    /// What pods need to use an image.
    pub(super) fn access(&self, reference: &str, id: &str) -> Option<ImageAccess> {
        let is_cut = held(&self.record).is_cut(reference, id);
        if is_cut {
            self.change_record(|record| drop(record.private.insert(id.to_owned(), ImageAccess::default())));
        }
        held(&self.record).private.get(id).cloned()
    }

    pub(super) async fn ids(&self) -> Result<std::collections::BTreeSet<String>, Failure> {
        Ok(self.images().await?.into_iter().map(|image| image.id).collect())
    }
}
