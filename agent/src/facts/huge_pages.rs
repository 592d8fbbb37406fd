//! Large pages: the resource names that pods request, and the volumes on huge pages. PURE.
//!
//! The engine has no limit of large pages for a container: the node counts them when it takes a pod, and a volume holds
//! no more than its pod asks for.

use std::collections::BTreeMap;

use coracle_api::pod::{EmptyDirVolumeSource, Volume};
use coracle_api::quantity::Quantity;
use coracle_api::strategy::{amounts, qos};

const MEDIUM: &str = "HugePages";
const RESOURCE: &str = "hugepages-";

/// By resource (`hugepages-2Mi`): bytes of all of them.
pub type HugePages = BTreeMap<String, u64>;

/// One folder of `/sys/kernel/mm/hugepages`, such as `hugepages-2048kB`, and how many pages there are.
pub fn resource(folder: &str, pages: u64) -> Option<(String, u64)> {
    let kib = folder.strip_prefix(RESOURCE)?.strip_suffix("kB")?.parse::<u64>().ok()?;
    let shown = match kib {
        kib if kib.is_multiple_of(1 << 20) => format!("{}Gi", kib >> 20),
        kib if kib.is_multiple_of(1 << 10) => format!("{}Mi", kib >> 10),
        kib => format!("{kib}Ki"),
    };
    Some((format!("{RESOURCE}{shown}"), kib.saturating_mul(1024).saturating_mul(pages)))
}

pub fn is_medium(medium: &str) -> bool {
    medium == MEDIUM || medium.strip_prefix(MEDIUM).is_some_and(|size| size.starts_with('-'))
}

/// Bytes of a page of the medium `HugePages-2Mi`.
pub fn page_bytes(medium: &str) -> Option<u64> {
    let size = medium.strip_prefix(MEDIUM)?.strip_prefix('-')?;
    u64::try_from(amounts::page_bytes(&format!("{RESOURCE}{size}"))?.value()).ok()
}

/// Fills in the page size and the size limit of an emptyDir on huge pages. Other volumes stay unchanged. The error is
/// the kubelet's.
pub fn resolved(volume: &Volume, asked: &qos::Amounts) -> Result<Volume, String> {
    let Some(empty) = volume.empty_dir.as_ref().filter(|empty| is_medium(&empty.medium)) else {
        return Ok(volume.clone());
    };
    let failed = |text: String| format!("MountVolume.SetUp failed for volume \"{}\" : {text}", volume.name);
    let medium = &empty.medium;
    let fits = |name: &str| {
        *medium == MEDIUM
            || page_bytes(medium) == amounts::page_bytes(name).and_then(|size| u64::try_from(size.value()).ok())
    };
    let mut sizes = asked.iter().filter(|(name, _)| name.starts_with(RESOURCE) && fits(name));
    let none =
        || format!("medium {medium}: hugePages storage requested, but there is no resource request for huge pages");
    let (name, amount) = sizes.next().ok_or_else(|| failed(none()))?;
    if sizes.next().is_some() {
        return Err(failed(format!("medium: {medium} can't be used if container requests multiple huge page sizes")));
    }
    let whole = Quantity::from_value(amount.amount().value());
    let size_limit = empty.size_limit.filter(|limit| Quantity::ZERO < *limit && *limit < whole).or(Some(whole));
    let medium = name.replacen(RESOURCE, "HugePages-", 1);
    Ok(Volume { empty_dir: Some(EmptyDirVolumeSource { medium, size_limit }), ..volume.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn names_of_pages() {
        for (folder, pages, expected) in [
            ("hugepages-2048kB", 3, Some(("hugepages-2Mi", 6 << 20))),
            ("hugepages-1048576kB", 1, Some(("hugepages-1Gi", 1 << 30))),
            ("hugepages-64kB", 0, Some(("hugepages-64Ki", 0))),
            ("other", 1, None),
        ] {
            assert_eq!(resource(folder, pages), expected.map(|(name, bytes)| (name.to_owned(), bytes)), "{folder}");
        }
        assert_eq!(
            (page_bytes("HugePages-2Mi"), page_bytes("HugePages"), page_bytes("Memory")),
            (Some(2 << 20), None, None)
        );
        assert!(
            is_medium("HugePages") && is_medium("HugePages-2Mi") && !is_medium("Memory") && !is_medium("HugePagesX")
        );
    }

    #[test]
    fn volumes_of_pages() {
        let check = |empty: Value, requests: Value, expected: Result<(&str, i64), &str>| {
            let volume: Volume = serde_json::from_value(json!({"name": "v", "emptyDir": empty})).unwrap();
            let found = resolved(&volume, &qos::amounts(&requests)).map(|volume| volume.empty_dir.unwrap());
            let found = found.map(|empty| (empty.medium, empty.size_limit.map_or(0, |size| size.value())));
            let expected = expected.map(|(medium, size)| (medium.to_owned(), size));
            assert_eq!(
                found,
                expected.map_err(|text| format!("MountVolume.SetUp failed for volume \"v\" : {text}")),
                "{empty}"
            );
        };
        let (small, both) = (json!({"hugepages-2Mi": "4Mi"}), json!({"hugepages-2Mi": "4Mi", "hugepages-1Gi": "1Gi"}));
        check(json!({"medium": "HugePages"}), small.clone(), Ok(("HugePages-2Mi", 4 << 20)));
        check(json!({"medium": "HugePages-1Gi"}), both.clone(), Ok(("HugePages-1Gi", 1 << 30)));
        check(json!({"medium": "HugePages-2Mi", "sizeLimit": "2Mi"}), both.clone(), Ok(("HugePages-2Mi", 2 << 20)));
        check(json!({"medium": "HugePages-2Mi", "sizeLimit": "8Mi"}), small.clone(), Ok(("HugePages-2Mi", 4 << 20)));
        let text = "medium: HugePages can't be used if container requests multiple huge page sizes";
        check(json!({"medium": "HugePages"}), both, Err(text));
        let text = "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages";
        check(json!({"medium": "HugePages-1Gi"}), small.clone(), Err(text));
        check(json!({"medium": "Memory"}), small, Ok(("Memory", 0)));
    }
}
