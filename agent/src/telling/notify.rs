//! How the agent is, in a line that systemd shows.

use coracle_program::notify::notify;

use super::sources::ProblemSources;

/// Sends one line for `systemctl status`, again at each change of the line; ends with the loop.
pub async fn tell(mut sources: ProblemSources) {
    let mut said = String::new();
    loop {
        let line = sources.line();
        if line != said {
            notify(&format!("STATUS={}", line.replace('\n', " ")));
            said = line;
        }
        if !sources.changed().await {
            return;
        }
    }
}
