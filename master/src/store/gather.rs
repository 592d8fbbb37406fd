//! The many files of a start, looked at by two threads: each takes the next stretch of them.

use super::disk::Disk;
use super::document;
use super::files::OBJECTS;
use super::judge::FILE_BYTES_MAX;
use bytes::Bytes;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Taken together: neighbours on the disk.
const STRETCH: usize = 32;
/// For fewer a thread costs more than it saves.
const SHARED_MIN: usize = 256;

/// What an object's file says.
pub struct Text {
    /// In the store's own order, where it is JSON. Empty where its sum alone was asked for.
    pub compact: Bytes,
    /// Of the file, whatever its order.
    pub crc: u32,
}

/// What `work` makes of each, in their order. It is lent memory to work in.
pub fn gather<T: Sync, R: Send + Sync>(all: &[T], work: impl Fn(&T, &mut Vec<u8>) -> R + Sync) -> Vec<R> {
    let stretches: Vec<(&[T], OnceLock<Vec<R>>)> = all.chunks(STRETCH).map(|stretch| (stretch, OnceLock::new())).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        let mut scratch = Vec::new();
        while let Some((stretch, done)) = stretches.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.get_or_init(|| stretch.iter().map(|one| work(one, &mut scratch)).collect());
        }
    };
    thread::scope(|scope| {
        if all.len() >= SHARED_MIN {
            // Where there is no second thread this one does it all.
            thread::Builder::new().name("store-load".to_owned()).spawn_scoped(scope, run).ok();
        }
        run();
    });
    stretches.into_iter().filter_map(|(_, done)| done.into_inner()).flatten().collect()
}

/// Both, at the same time where there are so many files that it is worth a thread.
pub fn both<A, B: Send>(files: u64, one: impl FnOnce() -> A, other: impl Fn() -> B + Sync) -> (A, B) {
    thread::scope(|scope| {
        let spawn = || thread::Builder::new().name("store-load".to_owned()).spawn_scoped(scope, &other).ok();
        let beside = if files >= SHARED_MIN as u64 { spawn() } else { None };
        let one = one();
        (one, beside.and_then(|thread| thread.join().ok()).unwrap_or_else(&other))
    })
}

/// An object's file without its white space. `scratch`: memory to work in.
pub fn text(disk: &dyn Disk, path: &str, scratch: &mut Vec<u8>) -> io::Result<Text> {
    let bytes = read(disk, path, scratch)?;
    let crc = document::crc32(scratch);
    // In the store's own order it need not be read whole later on, and held twice until then.
    let ordered = if document::leads(scratch) { None } else { document::ordered(&bytes) };
    Ok(Text { compact: ordered.unwrap_or_else(|| Bytes::copy_from_slice(scratch)), crc })
}

/// The same of a file of which more is known than it says.
pub fn sum(disk: &dyn Disk, path: &str, scratch: &mut Vec<u8>) -> io::Result<Text> {
    read(disk, path, scratch)?;
    Ok(Text { compact: Bytes::new(), crc: document::crc32(scratch) })
}

/// As it lies there, and in `scratch` without its white space.
fn read(disk: &dyn Disk, path: &str, scratch: &mut Vec<u8>) -> io::Result<Vec<u8>> {
    let bytes = disk.read(&format!("{OBJECTS}/{path}"), FILE_BYTES_MAX)?;
    document::stripped(&bytes, scratch);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_there_in_their_order() {
        for count in [0, 1, STRETCH, SHARED_MIN - 1, SHARED_MIN, 3 * SHARED_MIN + 7] {
            let all: Vec<usize> = (0..count).collect();
            assert_eq!(gather(&all, |one, _| one * 2), all.iter().map(|one| one * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn both_are_done_once_each() {
        for files in [0, SHARED_MIN as u64] {
            let (mut ones, others) = (0, AtomicUsize::new(0));
            assert_eq!(both(files, || ones += 1, || others.fetch_add(1, Ordering::Relaxed)), ((), 0));
            assert_eq!((ones, others.into_inner()), (1, 1));
        }
    }
}
