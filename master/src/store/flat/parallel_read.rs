//! The many files of a start, looked at by two threads: each takes the next stretch of them.
//!
//! Where they have to wait for the disk they take turns at it, and one works on what it has read while the other reads:
//! a card reads on where it has just read, and two that read at once would have it jump between two places.

use super::content::FILE_BYTES_MAX;
use super::disk::Disk;
use super::document;
use super::folders::OBJECTS;
use super::seal::{Form, Sealing};
use bytes::Bytes;
use coracle_api::meta::Key;
use nix::sys::resource::{UsageWho, getrusage};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// Taken together: neighbours on the disk.
const STRETCH: usize = 32;
/// For fewer a thread costs more than it saves.
const SHARED_MIN: usize = 256;
/// A thread that waited so often over one stretch waited for the disk: no more than now and then, where all is in
/// memory.
const WAITS_MIN: i64 = STRETCH as i64 / 4;
/// Read in one turn, and not worked on yet: few files are large, but a stretch of them would be.
const TURN_BYTES_MAX: usize = 1 << 20;

/// The content of an object's file.
pub struct FileText {
    /// Its text in the store's own order, if it is JSON. Empty if only its sum was asked for.
    pub compact: Bytes,
    /// The checksum of the text without white space, in the order of the file.
    pub crc: u32,
    /// How the object lies in the file; `compact` is opened where that can be.
    pub form: Form,
}

/// The results of `work` for each, in order. It is lent memory to work in.
pub fn gather<T: Sync, R: Send + Sync>(all: &[T], work: impl Fn(&T, &mut Vec<u8>) -> R + Sync) -> Vec<R> {
    share(all, || (), |(), stretch, scratch| stretch.iter().map(|one| work(one, scratch)).collect())
}

/// The same of what `read` brings of each from the disk.
pub fn gather_files<T: Sync, R: Send + Sync>(
    all: &[T],
    read: impl Fn(&T) -> io::Result<Vec<u8>> + Sync,
    work: impl Fn(&T, &[u8], &mut Vec<u8>) -> R + Sync,
) -> Vec<io::Result<R>> {
    gather_waiting(all, read, work, waits)
}

/// `waits`: how often this thread has had to wait.
fn gather_waiting<T: Sync, R: Send + Sync>(
    all: &[T],
    read: impl Fn(&T) -> io::Result<Vec<u8>> + Sync,
    work: impl Fn(&T, &[u8], &mut Vec<u8>) -> R + Sync,
    waits: impl Fn() -> i64 + Sync,
) -> Vec<io::Result<R>> {
    let (slow, turn) = (AtomicBool::new(false), Mutex::new(()));
    let worked =
        |(one, bytes): (&T, io::Result<Vec<u8>>), scratch: &mut Vec<u8>| bytes.map(|bytes| work(one, &bytes, scratch));
    let begin = || slow.load(Ordering::Relaxed).then(|| turn.lock().unwrap_or_else(PoisonError::into_inner));
    let make = |turn: Option<MutexGuard<()>>, stretch: &[T], scratch: &mut Vec<u8>| {
        if turn.is_none() {
            let before = waits();
            let all = stretch.iter().map(|one| worked((one, read(one)), scratch)).collect();
            if waits() - before >= WAITS_MIN {
                slow.store(true, Ordering::Relaxed);
            }
            return all;
        }
        let (mut all, mut held, mut bytes) = (Vec::with_capacity(stretch.len()), Vec::with_capacity(stretch.len()), 0);
        for one in stretch {
            let found = read(one);
            bytes += found.as_ref().map_or(0, Vec::len);
            held.push((one, found));
            if bytes > TURN_BYTES_MAX {
                all.extend(held.drain(..).map(|held| worked(held, scratch)));
                bytes = 0;
            }
        }
        drop(turn);
        all.extend(held.into_iter().map(|held| worked(held, scratch)));
        all
    };
    share(all, begin, make)
}

/// The results of `make` for each stretch, in order. It is lent memory, and the result of `begin` before the stretch
/// was taken.
fn share<T: Sync, R: Send + Sync, B>(
    all: &[T],
    begin: impl Fn() -> B + Sync,
    make: impl Fn(B, &[T], &mut Vec<u8>) -> Vec<R> + Sync,
) -> Vec<R> {
    let stretches: Vec<(&[T], OnceLock<Vec<R>>)> =
        all.chunks(STRETCH).map(|stretch| (stretch, OnceLock::new())).collect();
    let next = AtomicUsize::new(0);
    let run = || {
        let mut scratch = Vec::new();
        loop {
            let begun = begin();
            let Some((stretch, done)) = stretches.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
            done.get_or_init(|| make(begun, stretch, &mut scratch));
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

/// How often this thread has had to wait, above all for the disk; 0 where nobody says.
fn waits() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |used| used.voluntary_context_switches())
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

impl FileText {
    /// What is sealed is opened.
    pub fn opened(self, key: &Key, sealing: &Sealing) -> FileText {
        let (compact, form) = sealing.opened(key, self.compact);
        FileText { compact, form, ..self }
    }

    /// The object of a record of the journal.
    pub fn of_record(key: &Key, object: &Bytes, sealing: &Sealing) -> FileText {
        let text = FileText { compact: object.clone(), crc: document::crc32(object), form: Form::Plain };
        text.opened(key, sealing)
    }
}

/// An object's file as it lies there.
pub fn read(disk: &dyn Disk, path: &str) -> io::Result<Vec<u8>> {
    disk.read(&format!("{OBJECTS}/{path}"), FILE_BYTES_MAX)
}

/// An object's file without its white space. `scratch`: memory to work in.
pub fn text(bytes: &[u8], scratch: &mut Vec<u8>) -> FileText {
    let FileText { crc, .. } = sum(bytes, scratch);
    // In the store's own order it need not be read whole later on, and held twice until then.
    let ordered = if document::leads(scratch) { None } else { document::ordered(bytes) };
    FileText { compact: ordered.unwrap_or_else(|| Bytes::copy_from_slice(scratch)), crc, form: Form::Plain }
}

/// The checksum alone, for a file whose content is known from elsewhere.
pub fn sum(bytes: &[u8], scratch: &mut Vec<u8>) -> FileText {
    document::stripped(bytes, scratch);
    FileText { compact: Bytes::new(), crc: document::crc32(scratch), form: Form::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicI64;

    #[test]
    fn all_are_there_in_their_order() {
        for count in [0, 1, STRETCH, SHARED_MIN - 1, SHARED_MIN, 3 * SHARED_MIN + 7] {
            let all: Vec<usize> = (0..count).collect();
            assert_eq!(gather(&all, |one, _| one * 2), all.iter().map(|one| one * 2).collect::<Vec<_>>());
        }
    }

    /// How many read at once, of what comes after each thread's first stretch; and whether that was in order. `free`:
    /// they need not take turns, so the two next stretches are begun by both.
    fn readers(waits: i64, free: bool) -> (usize, bool) {
        let all: Vec<usize> = (0..100 * STRETCH).collect();
        let (waited, reading, most) = (AtomicI64::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let order = Mutex::new(Vec::new());
        let begun = Barrier::new(2);
        let read = |one: &usize| {
            if *one == 0 || *one == STRETCH {
                begun.wait();
            }
            if *one >= 2 * STRETCH {
                order.lock().expect("nobody panics").push(*one);
                most.fetch_max(reading.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            }
            if free && (*one == 2 * STRETCH || *one == 3 * STRETCH) {
                begun.wait();
            }
            thread::yield_now();
            if *one >= 2 * STRETCH {
                reading.fetch_sub(1, Ordering::SeqCst);
            }
            // Some are as large as all that is held at a time.
            Ok(vec![1; if one.is_multiple_of(7 * STRETCH) { TURN_BYTES_MAX + 1 } else { 1 }])
        };
        let made = gather_waiting(
            &all,
            read,
            |one, bytes, _| one * usize::from(bytes[0]),
            || waited.fetch_add(waits, Ordering::SeqCst),
        );
        assert_eq!(made.into_iter().map(|made| made.expect("it was read")).collect::<Vec<_>>(), all);
        (most.into_inner(), order.into_inner().expect("nobody panics").is_sorted())
    }

    #[test]
    fn threads_that_wait_for_the_disk_take_turns_at_it() {
        assert_eq!(readers(WAITS_MIN, false), (1, true));
        assert_eq!(readers(0, true), (2, false));
    }

    #[test]
    fn what_cannot_be_read_is_said_in_its_place() {
        let all: Vec<usize> = (0..SHARED_MIN).collect();
        for waits in [0, WAITS_MIN] {
            let waited = AtomicI64::new(0);
            let read = |one: &usize| if *one == 99 { Err(io::ErrorKind::NotFound.into()) } else { Ok(Vec::new()) };
            let made = gather_waiting(&all, read, |one, _, _| *one, || waited.fetch_add(waits, Ordering::SeqCst));
            assert!(
                made.iter().enumerate().all(|(at, made)| made.as_ref().ok() == Some(&at).filter(|at| **at != 99)),
                "{waits}"
            );
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
