//! The end of the host: its pods end before the engine does, and begin again with both.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::facts::shown::Shown;
use crate::host::machine;

/// How long the end of the host waits for pods; `TimeoutStopSec` of the unit is a little more.
const LEAVE_MAX: Duration = Duration::from_secs(590);

/// Where the host stops, and not this program alone: pods end as at a deletion, their preStop hooks first, before the
/// engine is stopped.
pub async fn leave(leaving: &watch::Sender<bool>, mut shown: watch::Receiver<Arc<Shown>>) {
    if !machine::is_stopping().await {
        return;
    }
    log::info!("the host stops: pods end within their graces, and begin again when it is back");
    leaving.send_replace(true);
    let ended = async {
        let runs =
            |shown: &Shown| shown.engine_trouble.is_none() && shown.world.containers.iter().any(|seen| seen.runs());
        while runs(&shown.borrow_and_update()) && shown.changed().await.is_ok() {}
    };
    if timeout(LEAVE_MAX, ended).await.is_err() {
        log::warn!("not all pods have ended after {} s: the engine ends the rest", LEAVE_MAX.as_secs());
    }
}
