//! How the agent is, in a line that systemd shows.

use std::sync::Arc;

use coracle_program::notify::notify;
use tokio::sync::watch;

use crate::facts::shown::Shown;
use crate::telling::summary;

/// Sends one line for `systemctl status`, again at each change of the line; ends with the loop.
pub async fn tell(mut shown: watch::Receiver<Arc<Shown>>) {
    let mut said = String::new();
    loop {
        let line = summary::line(&shown.borrow_and_update());
        if line != said {
            notify(&format!("STATUS={}", line.replace('\n', " ")));
            said = line;
        }
        if shown.changed().await.is_err() {
            return;
        }
    }
}
