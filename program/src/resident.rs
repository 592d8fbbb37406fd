//! The program's resident memory: settings of glibc's allocator, and what goes back to the host once a burst of work is
//! over.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;

/// Parameters of `mallopt` by their numbers in glibc's malloc.h, with the variables of the environment that say the
/// same.
///
/// One arena, so that memory freed by any thread is free for all. Fixed thresholds: left alone, the allocator raises
/// them after one large allocation and keeps twice its size. An allocation above the first goes back when it is freed;
/// so does free memory at the heap's end above the second.
const SETTINGS: [(&str, i32, i32); 3] =
    [("MALLOC_ARENA_MAX", -8, 1), ("MALLOC_MMAP_THRESHOLD_", -3, 128 << 10), ("MALLOC_TRIM_THRESHOLD_", -1, 128 << 10)];

/// The other variable by which the allocator is set.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// Each thread keeps up to seven freed pieces of each size for itself, and `malloc_trim` does not see them: after a
/// burst more than half of the heap's pages were held by nothing else. No function switches this off.
const NO_PIECES_PER_THREAD: &str = "glibc.malloc.tcache_count=0";

/// Says that this is the program's second start. Where a program gains rights by its start, glibc takes away the
/// variable above, and by that alone it would start for ever.
const STARTED_ONCE_MORE: &str = "CORACLE_STARTED_ONCE_MORE";

/// Sets the allocator, unless the environment does. Call it first of all: for what only the environment can say, the
/// program is started once more in the same process, which takes a millisecond.
pub fn settle() {
    let is_set = |name: &str| env::var_os(name).is_some();
    if !is_set(STARTED_ONCE_MORE) {
        if is_set_by_user(is_set) {
            return;
        }
        system::start_once_more(&[(TUNABLES, NO_PIECES_PER_THREAD), (STARTED_ONCE_MORE, "1")]);
    }
    for (_, parameter, value) in SETTINGS {
        system::set_allocator(parameter, value);
    }
}

fn is_set_by_user(is_set: impl Fn(&str) -> bool) -> bool {
    is_set(TUNABLES) || SETTINGS.iter().any(|(name, ..)| is_set(name))
}

/// Around each page of a file that is used the kernel maps 64 KiB, but never beyond a mapping. With pieces of two pages
/// both programs hold 1.5 MB more at rest; pieces of one cost the kernel some 0.3 MB more for its list of mappings.
const PIECE_BYTES: usize = 4 << 10;

/// Gives free memory back to the host wherever in the heap it lies, and unmaps the program's code: the kernel maps
/// again what runs. Takes some milliseconds.
///
/// A start runs nearly all code once and a rest little of it, scattered over the program; the kernel never unmaps code
/// by itself. Cut into pieces and unmapped, master and agent keep 6.6 MB at rest together instead of 18
/// (`make bench ROWS=memory`).
pub fn give_back() {
    if let (Ok(program), Ok(maps)) = (env::current_exe(), File::open("/proc/self/smaps")) {
        // Of so many mappings the text is over a megabyte, and read whole it lay in the heap that is to shrink.
        let lines = BufReader::new(maps).lines().map_while(Result::ok);
        for range in unchanged(lines, &program.to_string_lossy()) {
            pieces(range.clone()).filter(|piece| piece.start / PIECE_BYTES % 2 == 1).for_each(system::set_apart);
            system::unmap(range);
        }
    }
    system::trim_heap();
}

fn pieces(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = move |start: usize| ((start / PIECE_BYTES + 1) * PIECE_BYTES).min(range.end);
    std::iter::successors(Some(range.start..end(range.start)), move |piece| Some(piece.end..end(piece.end)))
        .take_while(|piece| !piece.is_empty())
}

/// The addresses at which `program` is mapped, is not writable and no page differs from the file, by the text of
/// /proc/PID/smaps.
fn unchanged(smaps: impl Iterator<Item = String>, program: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in smaps {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        match words[..] {
            // Pages of our own would be lost: relocated tables look like read-only data, and are not what the file
            // says.
            ["Anonymous:", "0", "kB"] => found.extend(candidate.take()),
            [key, ..] if key.ends_with(':') => {}
            [addresses, rights, _, _, _, ..] => {
                candidate = mapped(addresses, rights).filter(|_| line.ends_with(&format!(" {program}")))
            }
            _ => {}
        }
    }
    found
}

fn mapped(addresses: &str, rights: &str) -> Option<Range<usize>> {
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    (!rights.contains('w')).then_some(address(start)?..address(end)?)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "no library offers these three calls as safe ones")]
mod system {
    use std::env;
    use std::ffi::{c_int, c_void};
    use std::ops::Range;
    use std::os::unix::process::CommandExt;
    use std::path::PathBuf;
    use std::process::Command;

    const MADV_DONTNEED: c_int = 4;
    const MADV_DONTDUMP: c_int = 16;

    unsafe extern "C" {
        safe fn mallopt(parameter: c_int, value: c_int) -> c_int;
        safe fn malloc_trim(pad: usize) -> c_int;
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }

    pub fn set_allocator(parameter: i32, value: i32) {
        mallopt(parameter, value);
    }

    /// Returns where it cannot: the program runs all the same, and holds more memory.
    pub fn start_once_more(variables: &[(&str, &str)]) {
        let (Ok(program), mut arguments) = (env::current_exe(), env::args_os()) else { return };
        let name = arguments.next().unwrap_or_else(|| program.clone().into());
        // By its path, so that the kernel calls the process as before where the path is a link.
        let program = Some(PathBuf::from(&name)).filter(|path| path.is_absolute()).unwrap_or(program);
        let mut command = Command::new(&program);
        let error = command.arg0(name).args(arguments).envs(variables.iter().copied()).exec();
        log::debug!("{} does not start once more: {error}", program.display());
    }

    pub fn trim_heap() {
        malloc_trim(0);
    }

    /// For a range that is mapped from a file as long as the program runs, cannot be written, and equals the file.
    pub fn unmap(range: Range<usize>) {
        advise(range, MADV_DONTNEED);
    }

    /// For code: a piece that core dumps leave out is a mapping of its own, between neighbours that they include. Dumps
    /// lose nothing, the program's file has it.
    pub fn set_apart(piece: Range<usize>) {
        advise(piece, MADV_DONTDUMP);
    }

    fn advise(range: Range<usize>, advice: c_int) {
        // SAFETY: both callers name parts of the program's file that nobody writes to; when a byte there is used, the
        // kernel reads it from the file again.
        unsafe { madvise(std::ptr::with_exposed_provenance_mut(range.start), range.len(), advice) };
    }
}

/// Other allocators have no such calls.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod system {
    pub fn set_allocator(_: i32, _: i32) {}
    pub fn start_once_more(_: &[(&str, &str)]) {}
    pub fn trim_heap() {}
    pub fn unmap(_: std::ops::Range<usize>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn status_kb(key: &str) -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("the kernel says it");
        let line = status.lines().find(|line| line.starts_with(key)).expect("it is there");
        line.split_ascii_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn free_memory_goes_back_though_something_above_it_is_in_use() {
        const PIECES: usize = 32 << 10;
        let mut pieces: Vec<Box<[u8]>> = (0..PIECES).map(|_| vec![1; 1024].into_boxed_slice()).collect();
        // The last piece holds the heap's end where it is.
        let last = pieces.pop();
        drop(pieces);
        let before = status_kb("RssAnon:");
        give_back();
        let after = status_kb("RssAnon:");
        assert!(after + PIECES / 2 < before, "{before} kB before, {after} after");
        drop(last);
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn code_at_rest_is_unmapped_and_runs_again() {
        let before = status_kb("RssFile:");
        give_back();
        let after = status_kb("RssFile:");
        assert!(after < before, "{before} kB before, {after} after");
    }

    #[test]
    fn only_unchanged_read_only_parts_of_the_program_are_unmapped() {
        let entry = |head: &str, anonymous: &str| {
            format!("{head}\nSize:  4 kB\nAnonymous:  {anonymous} kB\nVmFlags: rd mr mw me\n")
        };
        for (case, head, anonymous, expected) in [
            ("code", "1000-3000 r-xp 00000000 fe:00 12 /usr/bin/coracle-master", "0", Some(0x1000..0x3000)),
            ("constants", "1000-3000 r--p 00000000 fe:00 12 /usr/bin/coracle-master", "0", Some(0x1000..0x3000)),
            ("relocated tables", "1000-3000 r--p 00000000 fe:00 12 /usr/bin/coracle-master", "8", None),
            ("data", "1000-3000 rw-p 00000000 fe:00 12 /usr/bin/coracle-master", "0", None),
            ("a library", "1000-3000 r-xp 00000000 fe:00 13 /usr/lib/libc.so.6", "0", None),
            (
                "a program that was replaced",
                "1000-3000 r-xp 00000000 fe:00 12 /usr/bin/coracle-master (deleted)",
                "0",
                None,
            ),
            ("memory of no file", "1000-3000 r--p 00000000 00:00 0", "0", None),
        ] {
            let smaps = entry("500-600 rw-p 0 00:00 0 [heap]", "4") + &entry(head, anonymous);
            let found = unchanged(smaps.lines().map(str::to_owned), "/usr/bin/coracle-master");
            assert_eq!(found, Vec::from_iter(expected), "{case}");
        }
    }

    #[test]
    fn pieces_cover_a_range_and_end_at_fixed_addresses() {
        for (range, ends) in [
            (0x1000..0x4000, vec![0x2000, 0x3000, 0x4000]),
            (0x1800..0x2800, vec![0x2000, 0x2800]),
            (0x2000..0x3000, vec![0x3000]),
            (0x2000..0x2000, vec![]),
        ] {
            let all = Vec::from_iter(pieces(range.clone()));
            assert_eq!(Vec::from_iter(all.iter().map(|piece| piece.end)), ends, "{range:x?}");
            let starts = std::iter::once(range.start).chain(ends);
            assert!(all.iter().map(|piece| piece.start).eq(starts.take(all.len())), "{range:x?}: none is left out");
        }
    }

    #[test]
    fn a_user_who_sets_the_allocator_is_obeyed() {
        for (set, expected) in [("", false), ("PATH", false), (TUNABLES, true), ("MALLOC_ARENA_MAX", true)] {
            assert_eq!(is_set_by_user(|name| name == set), expected, "{set}");
        }
    }
}
