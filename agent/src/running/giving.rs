//! Gives the memory that a burst of changes took back to the host when the burst is over. See `Lull`.

use std::sync::Arc;
use std::time::Duration;

use coracle_program::lull::{Lull, WORTH_BYTES};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::facts::heard::ClusterServices;
use crate::facts::shown::Shown;
use crate::facts::view::ViewPart;

/// The weight of a status change: the start of a pod makes about as many changes as a burst.
const CHANGE_BYTES: u64 = WORTH_BYTES / CHANGES;
pub const CHANGES: u64 = 4;

/// By then events of pods that are gone are forgotten, and threads that read files have ended.
const LATER: &[Duration] = &[Duration::from_secs(90)];

/// The weight of a change of services or their endpoints: nft rules and DNS names are made anew.
const SERVICES_BYTES: u64 = WORTH_BYTES / SERVICES_CHANGES;
pub const SERVICES_CHANGES: u64 = 16;

/// Ends with the loop, and waits for no time where nothing changes.
pub async fn run(mut shown: watch::Receiver<Arc<Shown>>, mut network: ViewPart<ClusterServices>, give_back: impl Fn()) {
    let (started, mut lull) = (Instant::now(), Lull::new(LATER));
    // A start is a burst, too.
    let mut due = lull.worked(WORTH_BYTES, Duration::ZERO).map(|wait| started + wait);
    loop {
        let (changed, bytes) = tokio::select! {
            changed = shown.changed() => (changed, CHANGE_BYTES),
            changed = network.changed() => (changed, SERVICES_BYTES),
            () = sleep_until(due.unwrap_or(started)), if due.is_some() => {
                let look = lull.look(started.elapsed());
                if look.gives_back {
                    give_back();
                }
                due = look.again.map(|wait| Instant::now() + wait);
                continue;
            }
        };
        if changed.is_err() {
            return;
        }
        if let Some(wait) = lull.worked(bytes, started.elapsed()) {
            due = Some(Instant::now() + wait);
        }
    }
}
