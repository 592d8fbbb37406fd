//! Reads an archive of images in Docker's or OCI's form, and writes the addition that an engine without support for
//! OCI's form needs. PURE.
//!
//! An OCI layout becomes Docker's form by a `manifest.json` that goes before it: configurations and layers stay where
//! they are.

use std::collections::BTreeMap;
use std::io::{self, Read};

use serde_json::{Value, json};

use crate::runtime::pause::entry;

const BLOCK: usize = 512;
/// The largest document of an archive: indexes, manifests and configurations have some kilobytes.
const DOCUMENT_BYTES_MAX: u64 = 1 << 20;
/// All documents together, as they are kept.
const DOCUMENTS_BYTES_MAX: usize = 16 << 20;
/// The same in number: an image has a few, and an archive some dozen images.
const DOCUMENTS_MAX: usize = 4096;
/// Memory of a kept document besides its bytes: the map entry, and the allocator's overhead.
const DOCUMENT_BYTES: usize = 128;
/// Bytes of an archive when it is unpacked: a few kilobytes can be made to unpack for hours.
const UNPACKED_BYTES_MAX: u64 = 32 << 30;
/// Indexes within indexes.
const DEPTH_MAX: usize = 4;
/// Documents that indexes name, each as often as it is named: an index may name another a thousand times.
const NAMED_MAX: usize = 1000;
const TITLE: &str = "org.opencontainers.image.ref.name";
const CONTAINERDS_TITLE: &str = "io.containerd.image.name";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Archive {
    /// Tags, and where there are none the ids of configurations.
    pub names: Vec<String>,
    /// Goes before the archive; empty where it is Docker's form.
    pub before: Vec<u8>,
}

/// `stem`: the file's name without its ending, which names an image that has a tag alone.
pub fn read(input: &mut impl Read, stem: &str, architecture: &str) -> Result<Archive, String> {
    read_at_most(UNPACKED_BYTES_MAX, input, stem, architecture)
}

fn read_at_most(bytes_max: u64, input: &mut impl Read, stem: &str, architecture: &str) -> Result<Archive, String> {
    let mut input = input.take(bytes_max);
    let read = documents(&mut input);
    if input.limit() == 0 {
        return Err(format!("it has more than {bytes_max} bytes when it is unpacked"));
    }
    let documents = read.map_err(|error| format!("it is no archive of images: {error}"))?;
    let parse = |name: &str| documents.get(name).and_then(|bytes| Some(coracle_schema::read(bytes).ok()?.0));
    if let Some(manifest) = parse("manifest.json") {
        return Ok(Archive { names: few(names(&manifest))?, before: Vec::new() });
    }
    let Some(index) = parse("index.json") else {
        return Err("it has neither manifest.json (docker save) nor index.json (OCI)".to_owned());
    };
    let (mut rows, mut left) = (Vec::new(), NAMED_MAX);
    images(&index, None, &parse, (stem, architecture), 0, (&mut rows, &mut left));
    if left == 0 {
        return Err(too_many());
    }
    if rows.is_empty() {
        return Err(format!("its index.json names no image for {architecture}"));
    }
    let manifest = Value::Array(rows);
    let mut before = Vec::new();
    entry(&mut before, "manifest.json", 0o644, manifest.to_string().as_bytes());
    Ok(Archive { names: few(names(&manifest))?, before })
}

/// The engine is asked for each.
fn few(names: Vec<String>) -> Result<Vec<String>, String> {
    if names.len() > NAMED_MAX { Err(too_many()) } else { Ok(names) }
}

fn too_many() -> String {
    format!("it names more than {NAMED_MAX} images")
}

/// The names in Docker's manifest.
fn names(manifest: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for image in manifest.as_array().into_iter().flatten() {
        let tags: Vec<String> = image["RepoTags"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tag| Some(tag.as_str()?.to_owned()))
            .collect();
        let config = image["Config"]
            .as_str()
            .unwrap_or_default()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".json");
        if tags.is_empty() && !config.is_empty() {
            names.push(format!("sha256:{config}"));
        }
        names.extend(tags);
    }
    names
}

/// Rows of Docker's manifest for the images of an index. An image with a stated architecture other than the engine's is
/// left out.
fn images(
    index: &Value,
    title: Option<&str>,
    parse: &impl Fn(&str) -> Option<Value>,
    (stem, architecture): (&str, &str),
    depth: usize,
    (rows, left): (&mut Vec<Value>, &mut usize),
) {
    for one in index["manifests"].as_array().into_iter().flatten() {
        let said = one["platform"]["architecture"].as_str();
        let Some(blob) = one["digest"].as_str().and_then(place) else { continue };
        if said.is_some_and(|said| said != architecture) || depth > DEPTH_MAX {
            continue;
        }
        let notes = &one["annotations"];
        let own = notes[CONTAINERDS_TITLE].as_str().or_else(|| notes[TITLE].as_str());
        let title = own.or(title);
        *left = left.saturating_sub(1);
        if *left == 0 {
            return;
        }
        let Some(document) = parse(&blob) else { continue };
        if document["manifests"].is_array() {
            images(&document, title, parse, (stem, architecture), depth + 1, (rows, left));
            continue;
        }
        let Some(config) = document["config"]["digest"].as_str().and_then(place) else { continue };
        let layers: Option<Vec<String>> = document["layers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|layer| layer["digest"].as_str().and_then(place))
            .collect();
        let Some(layers) = layers else { continue };
        let tag =
            title.map(|title| if title.contains([':', '/']) { title.to_owned() } else { format!("{stem}:{title}") });
        rows.push(json!({"Config": config, "RepoTags": tag.into_iter().collect::<Vec<_>>(), "Layers": layers}));
    }
}

/// `sha256:abc` -> `blobs/sha256/abc`
fn place(digest: &str) -> Option<String> {
    let (kind, hex) = digest.split_once(':')?;
    let plain = !hex.is_empty()
        && hex.chars().all(|c| c.is_ascii_hexdigit())
        && kind.chars().all(|c| c.is_ascii_alphanumeric());
    plain.then(|| format!("blobs/{kind}/{hex}"))
}

/// The small JSON documents of a tar archive, by name.
fn documents(input: &mut impl Read) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let (mut found, mut total) = (BTreeMap::new(), 0);
    let mut header = [0; BLOCK];
    let mut first = true;
    loop {
        match input.read_exact(&mut header) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !first => break,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(io::Error::other("it is shorter than any"));
            }
            read => read?,
        }
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        if &header[257..262] != b"ustar" {
            return Err(io::Error::other("it is not in tar's form"));
        }
        first = false;
        let size = size(&header[124..136]).ok_or_else(|| io::Error::other("an entry has no size"))?;
        let name = String::from_utf8_lossy(&header[..100]).trim_end_matches('\0').trim_start_matches("./").to_owned();
        let padded =
            size.checked_next_multiple_of(BLOCK as u64).ok_or_else(|| io::Error::other("an entry has no size"))?;
        let mut rest = input.take(padded);
        let is_file = matches!(header[156], b'0' | 0);
        if is_file && size <= DOCUMENT_BYTES_MAX {
            let mut bytes = Vec::new();
            rest.read_to_end(&mut bytes)?;
            bytes.truncate(usize::try_from(size).unwrap_or(0));
            if matches!(bytes.first(), Some(b'{' | b'[')) {
                bytes.shrink_to_fit();
                total += bytes.len() + name.len() + DOCUMENT_BYTES;
                found.insert(name, bytes);
                if total > DOCUMENTS_BYTES_MAX || found.len() > DOCUMENTS_MAX {
                    let text = format!(
                        "it has more than {DOCUMENTS_MAX} documents, or {} MiB of them",
                        DOCUMENTS_BYTES_MAX >> 20
                    );
                    return Err(io::Error::other(text));
                }
            }
        }
        io::copy(&mut rest, &mut io::sink())?;
        if rest.limit() > 0 {
            return Err(io::Error::other("it is cut off"));
        }
    }
    Ok(found)
}

/// Octal digits, or bytes where the first says so.
fn size(field: &[u8]) -> Option<u64> {
    if field.first().is_some_and(|first| first & 0x80 != 0) {
        return Some(field[4..].iter().fold(0, |size, byte| size << 8 | u64::from(*byte)));
    }
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches(|c: char| c == '\0' || c == ' '), 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar(files: &[(&str, Value)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (name, content) in files {
            entry(&mut bytes, name, 0o644, content.to_string().as_bytes());
        }
        entry(&mut bytes, "layer", 0o644, &[7; 3000]);
        bytes.resize(bytes.len() + 2 * BLOCK, 0);
        bytes
    }

    fn read_of(files: &[(&str, Value)]) -> Result<Archive, String> {
        read(&mut tar(files).as_slice(), "web", "amd64")
    }

    #[test]
    fn dockers_form_stays_as_it_is() {
        let manifest = json!([
            {"Config": "ab.json", "RepoTags": ["a:1", "a:2"], "Layers": ["l"]},
            {"Config": "blobs/sha256/cd", "RepoTags": null},
        ]);
        let found = read_of(&[("manifest.json", manifest), ("index.json", json!({}))]).unwrap();
        assert_eq!((found.names, found.before), (["a:1", "a:2", "sha256:cd"].map(str::to_owned).to_vec(), Vec::new()));
    }

    #[test]
    fn an_oci_layout_gets_the_manifest_that_it_lacks() {
        let check = |annotations: Value, named: &str| {
            let index = json!({"manifests": [
                {"digest": "sha256:0a", "platform": {"architecture": "amd64"}, "annotations": annotations},
                {"digest": "sha256:0b", "platform": {"architecture": "arm64"}},
            ]});
            let image = json!({
                "config": {"digest": "sha256:0c"}, "layers": [{"digest": "sha256:0d"}, {"digest": "sha256:0e"}],
            });
            let found =
                read_of(&[("index.json", index), ("blobs/sha256/0a", image.clone()), ("blobs/sha256/0b", image)])
                    .unwrap();
            assert_eq!(found.names, [named]);
            let put = String::from_utf8_lossy(&found.before).into_owned();
            assert!(
                put.contains("blobs/sha256/0c") && put.contains(r#""Layers":["blobs/sha256/0d","blobs/sha256/0e"]"#),
                "{put}"
            );
            assert_eq!(found.before.len() % BLOCK, 0);
            // An engine reads both as one archive.
            let both: Vec<u8> = found.before.into_iter().chain(tar(&[])).collect();
            assert_eq!(read(&mut both.as_slice(), "web", "amd64").unwrap().names, [named]);
        };
        check(json!({TITLE: "docker.io/library/x:1"}), "docker.io/library/x:1");
        check(json!({TITLE: "1.0"}), "web:1.0");
        check(json!({TITLE: "1.0", CONTAINERDS_TITLE: "quay.io/a/b:2"}), "quay.io/a/b:2");
        check(json!({}), "sha256:0c");
    }

    #[test]
    fn an_index_of_indexes() {
        let outer = json!({"manifests": [{"digest": "sha256:01", "annotations": {TITLE: "x:1"}}]});
        let inner = json!({"manifests": [{"digest": "sha256:02", "platform": {"architecture": "amd64"}}]});
        let image = json!({"config": {"digest": "sha256:03"}, "layers": []});
        let found = read_of(&[("index.json", outer), ("blobs/sha256/01", inner), ("blobs/sha256/02", image)]).unwrap();
        assert_eq!(found.names, ["x:1"]);
    }

    #[test]
    fn what_is_kept_of_an_archive_is_bounded() {
        let mut many = Vec::new();
        for at in 0..=DOCUMENTS_MAX {
            entry(&mut many, &format!("blobs/sha256/{at:x}"), 0o644, b"{}");
        }
        let mut large = Vec::new();
        let document = json!({"a": "x".repeat(1_000_000)}).to_string();
        for at in 0..18 {
            entry(&mut large, &format!("blobs/sha256/{at:x}"), 0o644, document.as_bytes());
        }
        for bytes in [many, large] {
            let why = read(&mut bytes.as_slice(), "web", "amd64").unwrap_err();
            assert!(why.contains("more than 4096 documents, or 16 MiB"), "{why}");
        }
        // Each index names the next a hundred times.
        let index = |next: &str| json!({"manifests": vec![json!({"digest": format!("sha256:{next}")}); 100]});
        let laugh = [("index.json", index("01")), ("blobs/sha256/01", index("02")), ("blobs/sha256/02", index("01"))];
        assert_eq!(read_of(&laugh), Err(too_many()));
        let tags: Vec<String> = (0..=NAMED_MAX).map(|at| format!("a:{at}")).collect();
        assert_eq!(read_of(&[("manifest.json", json!([{"Config": "c.json", "RepoTags": tags}]))]), Err(too_many()));
        let whole = tar(&[("manifest.json", json!([]))]);
        let why = read_at_most(4 * BLOCK as u64, &mut whole.as_slice(), "web", "amd64").unwrap_err();
        assert!(why.contains("when it is unpacked"), "{why}");
    }

    #[test]
    fn what_is_no_archive_of_images_is_told() {
        let refused = |bytes: &[u8], word: &str| {
            let why = read(&mut &*bytes, "web", "amd64").unwrap_err();
            assert!(why.contains(word), "{why}");
        };
        refused(b"", "no archive");
        refused(&[b'x'; 2000], "not in tar's form");
        refused(&tar(&[]), "neither manifest.json");
        refused(&tar(&[("index.json", json!({"manifests": []}))]), "names no image");
        let whole = tar(&[("manifest.json", json!([]))]);
        refused(&whole[..whole.len() - 3 * BLOCK], "cut off");
    }
}
