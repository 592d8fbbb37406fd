//! Chooses the images to remove when the disk fills up: only unused images that the agent fetched itself. PURE.

use std::collections::{BTreeMap, BTreeSet};

use super::record::ImageRecord;
use crate::host::files::Disk;
use crate::plan::images::full_name;

/// Percent of the disk that pulls must leave free: running containers need room for logs and data. On a large disk the
/// number of bytes is enough.
const FREE_PERCENT_MIN: u64 = 5;
const FREE_BYTES_MIN: u64 = 2 << 30;
/// An image with its layers has some thousand files.
const FREE_FILES_MIN: u64 = 50_000;
/// An image that was used so lately may be needed again at once.
const REST_MS: i64 = 120_000;

/// The repository of the names that the agent itself gives to images.
pub const KEPT: &str = "coracle.dev/kept";

/// The agent's own name for an image.
pub fn kept_name(id: &str) -> String {
    let hex = id.rsplit(':').next().unwrap_or(id);
    format!("{KEPT}:{}", hex.get(..12).unwrap_or(hex))
}

/// An image as the engine has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineImage {
    pub id: String,
    /// Its tags, `NAME:TAG`.
    pub tags: Vec<String>,
    /// `NAME@DIGEST`
    pub digests: Vec<String>,
    pub bytes: u64,
}

pub struct CollectionCase<'a> {
    pub disk: Disk,
    /// Percent of the disk in use: the removal of images begins at `high` and ends at `low`.
    pub high: u64,
    pub low: u64,
    pub here: &'a [EngineImage],
    pub record: &'a ImageRecord,
    /// As pods name them.
    pub wanted: &'a BTreeSet<String>,
    /// Image ids of all containers, running or not.
    pub used: &'a BTreeSet<String>,
    /// By id.
    pub last_used_ms: &'a BTreeMap<String, i64>,
    pub now_ms: i64,
}

/// Percent in use.
pub fn used_percent(disk: Disk) -> u64 {
    let used = u128::from(disk.bytes.saturating_sub(disk.free)) * 100;
    u64::try_from(used.checked_div(u128::from(disk.bytes)).unwrap_or_default()).unwrap_or(100)
}

/// The free percentages of bytes and of inodes. A file system without inodes never runs out of them.
pub fn free_percent(disk: Disk) -> (u64, u64) {
    let percent = |free: u64, of: u64| {
        (u128::from(free) * 100).checked_div(u128::from(of)).map_or(100, |free| free.min(100) as u64)
    };
    (percent(disk.free, disk.bytes), percent(disk.files_free, disk.files))
}

/// No image should come now.
pub fn is_full(disk: Disk) -> bool {
    let (bytes, files) = free_percent(disk);
    bytes < FREE_PERCENT_MIN && disk.free < FREE_BYTES_MIN
        || files < FREE_PERCENT_MIN && disk.files_free < FREE_FILES_MIN
}

/// Whether a pod wants the image, or a container was made from it.
pub fn in_use(image: &EngineImage, wanted: &BTreeSet<String>, used: &BTreeSet<String>) -> bool {
    let names = image.tags.iter().chain(&image.digests).map(|name| full_name(name)).collect::<BTreeSet<_>>();
    used.contains(&image.id) || wanted.iter().any(|name| *name == image.id || names.contains(&full_name(name)))
}

/// Longest unused first, as many as bring the disk down.
pub fn collect<'a>(case: &CollectionCase<'a>) -> Vec<&'a EngineImage> {
    if used_percent(case.disk) < case.high {
        return Vec::new();
    }
    let may_be_used = u128::from(case.disk.bytes) * u128::from(case.low) / 100;
    let mut too_much = u128::from(case.disk.bytes.saturating_sub(case.disk.free)).saturating_sub(may_be_used);
    let last = |image: &EngineImage| case.last_used_ms.get(&image.id).copied().unwrap_or(case.now_ms);
    let mut may_go = unused(case.here, case.record, case.wanted, case.used);
    may_go.retain(|image| case.now_ms - last(image) >= REST_MS);
    may_go.sort_by_key(|image| (last(image), &image.id));
    let goes = |image: &&EngineImage| {
        let goes = too_much > 0;
        too_much = too_much.saturating_sub(u128::from(image.bytes));
        goes
    };
    may_go.into_iter().take_while(goes).collect()
}

/// Unused images that this agent fetched. An image with an archive on this host stays: the image would be loaded again.
pub fn unused<'a>(
    here: &'a [EngineImage],
    record: &ImageRecord,
    wanted: &BTreeSet<String>,
    used: &BTreeSet<String>,
) -> Vec<&'a EngineImage> {
    let preloaded = record.preloaded();
    let ours = here.iter().filter(|image| is_ours(image, record) && !preloaded.contains(image.id.as_str()));
    ours.filter(|image| !in_use(image, wanted, used)).collect()
}

/// An image with a name that the agent did not fetch stays: a user named the image to keep it.
fn is_ours(image: &EngineImage, record: &ImageRecord) -> bool {
    record
        .images
        .get(&image.id)
        .is_some_and(|names| image.tags.iter().all(|tag| tag.starts_with(KEPT) || names.contains(&full_name(tag))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(id: &str, tags: &[&str]) -> EngineImage {
        EngineImage {
            id: id.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            bytes: 10,
            ..EngineImage::default()
        }
    }

    fn set(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    /// A disk of 100 bytes; images of 10 each: `pulled` and `other` are ours, `built` is somebody's.
    fn check(
        free: u64,
        wanted: &[&str],
        used: &[&str],
        change: impl Fn(&mut ImageRecord, &mut Vec<EngineImage>),
        expected: &[&str],
    ) {
        let mut images = vec![here("built", &["mine:1"]), here("other", &["other:1"]), here("pulled", &["pulled:1"])];
        let mut record = ImageRecord::default();
        record.fetched("other", "other:1", &BTreeSet::new());
        record.fetched("pulled", "pulled:1", &BTreeSet::new());
        change(&mut record, &mut images);
        let last_used_ms = [("built", 0), ("other", 1000), ("pulled", 500)].map(|(id, at)| (id.to_owned(), at)).into();
        let disk = Disk { bytes: 100, free, files: 0, files_free: 0 };
        let (wanted, used) = (set(wanted), set(used));
        let case = CollectionCase {
            disk,
            high: 85,
            low: 80,
            here: &images,
            record: &record,
            wanted: &wanted,
            used: &used,
            last_used_ms: &last_used_ms,
            now_ms: REST_MS + 1000,
        };
        assert_eq!(collect(&case).iter().map(|image| image.id.as_str()).collect::<Vec<_>>(), expected, "{free} free");
    }

    #[test]
    fn only_what_we_fetched_and_nobody_wants() {
        let as_is = |_: &mut ImageRecord, _: &mut Vec<EngineImage>| {};
        check(16, &[], &[], as_is, &[]);
        check(15, &[], &[], as_is, &["pulled"]);
        check(5, &[], &[], as_is, &["pulled", "other"]);
        check(0, &[], &[], as_is, &["pulled", "other"]);
        check(0, &["pulled:1"], &[], as_is, &["other"]);
        check(0, &["docker.io/library/pulled:1", "other"], &["other"], as_is, &[]);
        check(0, &["sha256:x", "pulled:2"], &[], as_is, &["pulled", "other"]);
        check(
            0,
            &["pulled@sha256:1"],
            &["other"],
            |_, images| images[2].digests = vec!["pulled@sha256:1".to_owned()],
            &[],
        );
        check(0, &[], &["other"], |_, images| images[2].tags.push("kept:by-me".to_owned()), &[]);
        check(0, &[], &["other"], |_, images| images[2].tags.clear(), &["pulled"]);
        let lies_there = |record: &mut ImageRecord, _: &mut Vec<EngineImage>| {
            let file = crate::runtime::docker::stock::record::Loaded { images: set(&["pulled"]), ..Default::default() };
            record.files.insert("/a.tar".to_owned(), file);
        };
        check(0, &[], &[], lies_there, &["other"]);
    }

    #[test]
    fn a_disk_is_full_where_little_of_it_is_free() {
        let check = |[bytes, free, files, files_free]: [u64; 4], full: bool| {
            let disk = Disk { bytes, free, files, files_free };
            assert_eq!(is_full(disk), full, "{disk:?}");
        };
        check([8 << 30, 300 << 20, 100, 100], true);
        check([8 << 30, 500 << 20, 100, 100], false);
        check([256 << 30, 5 << 30, 100, 100], false);
        check([8 << 30, 4 << 30, 500_000, 20_000], true);
        check([8 << 30, 4 << 30, 5_000_000, 200_000], false);
        check([8 << 30, 4 << 30, 0, 0], false);
        assert_eq!(free_percent(Disk { bytes: 200, free: 50, files: 0, files_free: 0 }), (25, 100));
    }

    #[test]
    fn what_was_used_a_moment_ago_stays() {
        let (images, mut record) = ([here("pulled", &["pulled:1"])], ImageRecord::default());
        record.fetched("pulled", "pulled:1", &BTreeSet::new());
        let (nobody, never) = (BTreeSet::new(), BTreeMap::new());
        let disk = Disk { bytes: 100, free: 1, files: 0, files_free: 0 };
        let case = CollectionCase {
            disk,
            high: 85,
            low: 80,
            here: &images,
            record: &record,
            wanted: &nobody,
            used: &nobody,
            last_used_ms: &never,
            now_ms: 0,
        };
        assert!(collect(&case).is_empty());
        let before = [("pulled".to_owned(), -REST_MS)].into();
        assert_eq!(collect(&CollectionCase { last_used_ms: &before, ..case }).len(), 1);
    }
}
