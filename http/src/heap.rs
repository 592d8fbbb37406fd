//! The allocator's settings. It takes them from the environment alone, as a program begins: one that was started without them starts itself
//! again with them, before it does anything else. And what it keeps after a burst, though nobody uses it: that goes back when asked for.
use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// One arena, so that what threads have given up is one heap, and thresholds that stay where they are: by itself the allocator learns from
/// one large piece to keep two of that size. Above the first a piece goes back by itself; above the other, what is free at the heap's end.
pub const SETTINGS: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "1"), ("MALLOC_MMAP_THRESHOLD_", "131072"), ("MALLOC_TRIM_THRESHOLD_", "131072")];

/// The other way to tell the allocator.
const TUNABLES: &str = "GLIBC_TUNABLES";

/// That a program has been started again: where the system takes the settings out of the environment, as it does for a program that has
/// more rights than its user, it would start itself for ever.
const AGAIN: &str = "CORACLE_STARTED_AGAIN";

/// Comes back where the settings are made, or cannot be: then the program only keeps more.
pub fn settle() {
    if is_settled(|name| env::var_os(name).is_some()) {
        return;
    }
    let mut arguments = env::args_os();
    let (Ok(program), Some(name)) = (env::current_exe(), arguments.next()) else { return };
    let error = Command::new(&program).arg0(name).args(arguments).envs(SETTINGS).env(AGAIN, "1").exec();
    log::debug!("start {} again with the allocator's settings: {error}", program.display());
}

/// Whoever sets anything chooses for himself.
fn is_settled(is_set: impl Fn(&str) -> bool) -> bool {
    is_set(AGAIN) || is_set(TUNABLES) || SETTINGS.iter().any(|(name, _)| is_set(name))
}

/// Gives back to the host all whole pages that nobody uses, wherever in the heap they are: some milliseconds. By itself the allocator does
/// so at the heap's end alone.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(
    unsafe_code,
    reason = "no library has it as a safe call; it takes a number, touches nothing that is in use, and locks what it has to"
)]
pub fn give_back() {
    unsafe extern "C" {
        safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
    }
    malloc_trim(0);
}

/// Other allocators have no such call.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_is_free_below_something_in_use_goes_back() {
        const PIECES: usize = 32 << 10;
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").expect("the kernel says it");
            statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
        };
        let mut pieces: Vec<Box<[u8]>> = (0..PIECES).map(|_| vec![1; 1024].into_boxed_slice()).collect();
        // The last one of all holds the heap's end where it is.
        let last = pieces.pop();
        drop(pieces);
        let before = resident();
        give_back();
        let after = resident();
        assert!(after + (PIECES << 10) / 2 < before, "{before} bytes before, {after} after");
        drop(last);
    }

    #[test]
    fn whoever_sets_anything_chooses_for_himself() {
        for (set, expected) in [("", false), ("PATH", false), ("GLIBC_TUNABLES", true), ("MALLOC_ARENA_MAX", true), (AGAIN, true)] {
            assert_eq!(is_settled(|name| name == set), expected, "{set}");
        }
        for (name, _) in SETTINGS {
            assert!(is_settled(|set| set == name), "{name}: else it would start itself for ever");
        }
    }
}
