//! `update`: asks the running agent to update pods, and prints the course line by line until it is over. The update
//! goes on where this program ends.

use std::io::Write;
use std::time::Duration;

use coracle_api::printable;
use coracle_http::client::{CallError, Client, Target};
use coracle_http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Unable;
use super::report::Report;
use crate::config::{Config, UpdateWish};

/// Between two questions how far it is.
const LOOK: Duration = Duration::from_millis(300);
/// An agent that restarts meanwhile is back within this.
const SILENT_MAX: u32 = 100;

pub async fn run(wish: &UpdateWish, quiet: bool, config: &Config) -> Result<Report, Unable> {
    let client = Client::new(Target::Unix(config.socket.clone()), concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
    let mut path = format!("/update/{}/{}?dryRun={}", wish.namespace, wish.name, wish.dry_run);
    if let Some(seconds) = wish.deadline_seconds {
        path.push_str(&format!("&deadlineSeconds={seconds}"));
    }
    let begun = match client.call(Method::POST, &path, None).await {
        Ok(reply) => reply,
        Err(CallError::Refused(_, reply)) => return Err(refusal(&reply.body).into()),
        Err(error) => return Err(Unable::Unreachable(super::unheard(&error, config))),
    };
    let begun: Value = serde_json::from_slice(&begun.body).map_err(|error| format!("the agent's answer: {error}"))?;
    let Some(job) = begun["job"].as_u64() else { return Err(refusal(begun.to_string().as_bytes()).into()) };
    let (mut lines, mut silent): (Vec<String>, u32) = (Vec::new(), 0);
    loop {
        let said = match client.call(Method::GET, &format!("/updates/{job}"), None).await {
            Ok(reply) if reply.status == StatusCode::OK => serde_json::from_slice::<Value>(&reply.body).ok(),
            Ok(reply) => return Err(refusal(&reply.body).into()),
            Err(CallError::Refused(_, reply)) => return Err(format!("{}: {LOST}", refusal(&reply.body)).into()),
            Err(_) => None,
        };
        silent = if said.is_some() { 0 } else { silent + 1 };
        if silent > SILENT_MAX {
            return Err(Unable::Unreachable(format!("the agent does not answer any more: {LOST}")));
        }
        let said = said.unwrap_or_default();
        let told: Vec<String> =
            said["lines"].as_array().into_iter().flatten().filter_map(|line| Some(line.as_str()?.to_owned())).collect();
        for line in told.iter().skip(lines.len()) {
            if !quiet {
                // Nobody may be reading any more.
                let _ = writeln!(std::io::stdout(), "{}", printable::lines(line));
            }
        }
        if told.len() > lines.len() {
            lines = told;
        }
        if said["ended"] == true {
            let well = said["well"] == true;
            let document = json!({"lines": lines, "well": well});
            return Ok(Report { lines: Vec::new(), document, well });
        }
        sleep(LOOK).await;
    }
}

const LOST: &str = "the update goes on when the agent is back: coracle status says how it ended, journalctl -u \
                    coracle-agent each step";

fn refusal(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body).trim().to_owned();
    let status: Option<Value> = serde_json::from_slice(body).ok();
    status.and_then(|status| Some(status["message"].as_str()?.to_owned())).unwrap_or(text)
}
