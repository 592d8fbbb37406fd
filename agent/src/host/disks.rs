//! File system work that may block its thread: a share whose server is away never answers, and a thread that waits for
//! the share never ends. So each file system has one thread at a time, and all of them have a number.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Threads that may wait for disks at once. Requests have separate threads.
pub const THREADS_MAX: usize = 64;
/// A thread that has not come back after so long is no longer waited for; its work goes on.
const PATIENCE: Duration = Duration::from_secs(30);
const MOUNTS: &str = "/proc/self/mountinfo";

/// By what is waited for: one place each.
static PLACES: Mutex<Option<HashMap<String, Arc<Semaphore>>>> = Mutex::new(None);

/// Work on what is below `path`. The error names the file system that does not answer.
pub async fn work<T: Send + 'static>(path: &Path, work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let mounts = std::fs::read_to_string(MOUNTS).unwrap_or_default();
    let path = path.to_string_lossy();
    // Work on this host's own disks goes on side by side.
    let mount = mount_of(&mounts, &path).filter(|mount| *mount != "/").unwrap_or(&path).to_owned();
    work_as(format!("the file system at {mount}"), PATIENCE, work).await
}

/// Runs `work` on a thread. Work with the same `name` runs in turn.
pub async fn work_as<T: Send + 'static>(
    name: String,
    patience: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let late = || format!("{name} has not answered for {} s", patience.as_secs());
    let done = async {
        let place = place(&name).await?;
        let threaded = tokio::task::spawn_blocking(move || {
            let done = work();
            // A hanging thread keeps its place.
            drop(place);
            done
        });
        threaded.await.map_err(|error| format!("{name}: {error}"))
    };
    let done = timeout(patience, done).await.unwrap_or_else(|_| Err(late()));
    forget(&name);
    done
}

async fn place(name: &str) -> Result<OwnedSemaphorePermit, String> {
    let place = {
        let mut places = places();
        let places = places.get_or_insert_with(HashMap::new);
        if places.len() >= THREADS_MAX {
            // Drops places whose threads came back late.
            places.retain(|_, place| Arc::strong_count(place) > 1);
        }
        if !places.contains_key(name) && places.len() >= THREADS_MAX {
            return Err(format!("{THREADS_MAX} file systems do not answer, {name} is not asked"));
        }
        places.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    };
    place.acquire_owned().await.map_err(|error| error.to_string())
}

/// Drops the place of a file system without work that runs or waits.
fn forget(name: &str) {
    let mut places = places();
    let Some(places) = places.as_mut() else { return };
    if places.get(name).is_some_and(|place| Arc::strong_count(place) == 1) {
        places.remove(name);
    }
}

fn places() -> MutexGuard<'static, Option<HashMap<String, Arc<Semaphore>>>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The mount point above a path, from the kernel's list of mounts. The file system itself is not asked.
fn mount_of<'a>(mounts: &'a str, path: &str) -> Option<&'a str> {
    let within = |mount: &str| {
        let rest = path.strip_prefix(mount.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let all = mounts.lines().filter_map(|line| line.split(' ').nth(4));
    all.filter(|mount| within(mount)).max_by_key(|mount| mount.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn mounts() {
        let text = "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:5 / /mnt/share rw - nfs4 s:/x rw\n\
                    3 2 0:6 / /mnt/share/in rw - nfs4 s:/y rw\n4 1 0:7 / /mnt/s rw - tmpfs t rw\n";
        let check = |path: &str, expected: &str| assert_eq!(mount_of(text, path), Some(expected), "{path}");
        check("/mnt/share", "/mnt/share");
        check("/mnt/share/a/b", "/mnt/share");
        check("/mnt/share/in/b", "/mnt/share/in");
        check("/mnt/shares/b", "/");
        check("/mnt/s", "/mnt/s");
        check("/", "/");
        assert_eq!(mount_of("", "/a"), None);
    }

    #[tokio::test]
    async fn a_share_that_hangs_holds_one_thread_and_nobody_else() {
        let (goes_on, hangs) = mpsc::channel::<()>();
        let short = Duration::from_millis(20);
        let hung = work_as("a share".to_owned(), short, move || {
            let _ = hangs.recv();
        })
        .await;
        assert_eq!(hung, Err("a share has not answered for 0 s".to_owned()));
        for _ in 0..3 {
            let refused = work_as("a share".to_owned(), short, || panic!("it is not asked again")).await;
            assert!(refused.is_err_and(|why: String| why.contains("has not answered")));
        }
        assert_eq!(work_as("another".to_owned(), PATIENCE, || 1).await, Ok(1));
        goes_on.send(()).unwrap();
        assert_eq!(work_as("a share".to_owned(), PATIENCE, || 2).await, Ok(2));
        assert!(places().as_ref().is_none_or(|places| !places.contains_key("another")), "its place is given back");
    }
}
