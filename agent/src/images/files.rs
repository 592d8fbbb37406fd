//! The files of archives: which there are, whether they are whole, and their bytes.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::archive::{self, Archive};

/// The limit of all folders together.
pub(super) const FILES_MAX: usize = 200;
const PIECE_BYTES: usize = 64 * 1024;
/// Pieces on their way to the engine.
const PIECES_MAX: usize = 4;
const ENDINGS: [&str; 5] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst"];
/// A file that nobody has changed for so long is whole.
const SETTLED_MS: i64 = 2_000;

/// Archives in these folders by name, each with a stamp, and the count of archives above the limit. A missing folder
/// has no archives.
pub(super) fn candidates(folders: &[PathBuf]) -> (Vec<(PathBuf, String)>, usize) {
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok));
    let named = entries.map(|entry| entry.path()).filter(|path| is_archive(path));
    let mut files: Vec<(PathBuf, String)> = named
        .filter_map(|path| {
            let stamp = stamp(&path)?;
            Some((path, stamp))
        })
        .collect();
    files.sort();
    let left_out = files.len().saturating_sub(FILES_MAX);
    files.truncate(FILES_MAX);
    (files, left_out)
}

/// Length, time and inode. None: it is no file.
pub(super) fn stamp(path: &Path) -> Option<String> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(format!("{} {}.{} {}", found.len(), found.mtime(), found.mtime_nsec(), found.ino()))
}

/// By its name.
pub(super) fn is_archive(path: &Path) -> bool {
    let fits = |name: &str| !name.starts_with('.') && ENDINGS.iter().any(|ending| name.ends_with(ending));
    path.file_name().and_then(|name| name.to_str()).is_some_and(fits)
}

/// By its time: nobody has changed the file for a moment. A clock that was put back does not hold a file up.
pub(super) fn is_settled(path: &Path, now_ms: i64) -> bool {
    let changed_ms = |found: fs::Metadata| found.mtime().saturating_mul(1000) + found.mtime_nsec() / 1_000_000;
    fs::metadata(path).is_ok_and(|found| now_ms.abs_diff(changed_ms(found)) >= SETTLED_MS.unsigned_abs())
}

/// The bytes of the file as a tar archive, decompressed if needed.
fn unpacked(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut magic)?;
    let file = BufReader::with_capacity(PIECE_BYTES, File::open(path)?);
    Ok(match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(ruzstd::decoding::StreamingDecoder::new(file).map_err(io::Error::other)?),
        _ => Box::new(file),
    })
}

/// On a helper thread: an archive and the digest of its file.
pub(super) async fn read(path: &Path) -> Result<(Archive, String), String> {
    let path = path.to_owned();
    spawn_blocking(move || look_into(&path)).await.map_err(|error| error.to_string())?
}

fn look_into(path: &Path) -> Result<(Archive, String), String> {
    let digest = digest(path).map_err(|error| error.to_string())?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name).to_lowercase();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let mut input = unpacked(path).map_err(|error| error.to_string())?;
    Ok((archive::read(&mut input, &stem, architecture)?, digest))
}

fn digest(path: &Path) -> io::Result<String> {
    let (mut file, mut sum, mut piece) = (File::open(path)?, Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        sum.update(&piece[..read]);
    }
}

/// Read by a thread of its own, no faster than the engine takes them.
pub(super) fn pieces(path: PathBuf, before: Vec<u8>) -> mpsc::Receiver<io::Result<Bytes>> {
    let (out, pieces) = mpsc::channel(PIECES_MAX);
    spawn_blocking(move || {
        let read = || -> io::Result<()> {
            let mut input = before.as_slice().chain(unpacked(&path)?);
            loop {
                let mut piece = Vec::with_capacity(PIECE_BYTES);
                (&mut input).take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
                // Who no longer listens has said why.
                if piece.is_empty() || out.blocking_send(Ok(piece.into())).is_err() {
                    return Ok(());
                }
            }
        };
        if let Err(error) = read() {
            let _ = out.blocking_send(Err(error));
        }
    });
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn archives_are_read_however_they_are_packed() {
        let folder = std::env::temp_dir().join(format!("coracle-images-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut tar = Vec::new();
        crate::runtime::pause::entry(&mut tar, "manifest.json", 0o644, br#"[{"Config":"a.json","RepoTags":["x:1"]}]"#);
        tar.resize(tar.len() + 1024, 0);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&tar).unwrap();
        let zst = ruzstd::encoding::compress_to_vec(tar.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
        let files = [("a.tar", tar.clone()), ("b.tar.gz", packed.finish().unwrap()), ("c.tar.zst", zst)];
        for (name, bytes) in &files {
            fs::write(folder.join(name), bytes).unwrap();
            let (archive, digest) = look_into(&folder.join(name)).unwrap();
            assert_eq!((archive.names, digest.len()), (vec!["x:1".to_owned()], 64), "{name}");
            let mut all = Vec::new();
            unpacked(&folder.join(name)).unwrap().read_to_end(&mut all).unwrap();
            assert!(all == tar, "{name}");
        }
        for other in ["notes.txt", ".d.tar"] {
            fs::write(folder.join(other), "x").unwrap();
        }
        let (found, left_out) = candidates(&[folder.clone(), "/nonexistent".into()]);
        assert_eq!(left_out, 0);
        assert_eq!(
            found.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect::<Vec<_>>(),
            files.map(|(name, _)| name)
        );
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn of_too_many_the_first_by_name_are_taken_and_the_rest_is_counted() {
        let folder = std::env::temp_dir().join(format!("coracle-many-images-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for number in (0..FILES_MAX + 3).rev() {
            fs::write(folder.join(format!("{number:04}.tar")), "x").unwrap();
        }
        let (found, left_out) = candidates(std::slice::from_ref(&folder));
        let last = found.last().map(|(path, _)| path.clone());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(
            (found.len(), left_out, last),
            (FILES_MAX, 3, Some(folder.join(format!("{:04}.tar", FILES_MAX - 1))))
        );
    }
}
