//! Runs a tool of the host, such as nft or ip.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::host::trace::TracedCall;

/// nft took 0.15 s for 1000 services.
const RUN: Duration = Duration::from_secs(20);

/// The standard output, or the error in one line.
pub async fn run_tool(tool: &str, arguments: &[&str], input: Option<&str>) -> Result<String, String> {
    let traced = TracedCall::begins(tool);
    let mut command = Command::new(tool);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no program {tool} (Debian has it in {})", package(tool)),
        _ => format!("run {tool}: {error}"),
    })?;
    if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
        // A tool that ends early says why below.
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = timeout(RUN, child.wait_with_output())
        .await
        .map_err(|_| format!("{tool} did not end in {} s", RUN.as_secs()))?;
    traced.ends();
    let output = output.map_err(|error| format!("run {tool}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{tool}: {}", first_line(&output.stderr)))
}

/// The limit for the output of a failed tool in messages.
pub fn first_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it failed without a word").to_owned()
}

pub fn package(tool: &str) -> &'static str {
    match tool {
        "nft" => "nftables",
        "iptables" | "iptables-restore" => "iptables",
        "tar" => "tar",
        _ => "iproute2",
    }
}
