//! The commands that look at this host once: each reads, decides and prints, and changes nothing.
//!
//!     look: files, the last assignment and the engine -> the very plan -> plan PURE: in words
//!     readings: this host -> doctor PURE: what stands in the way, and what to do
//!     the agent's socket -> status PURE · manifest files -> check PURE

mod check;
mod doctor;
mod look;
mod plan;
mod readings;
mod report;
mod status;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use coracle_api::printable;
use coracle_http::client::{Client, Target};
use coracle_http::{Method, StatusCode};
use coracle_program::command_line::OutputFormat;
use serde_json::Value;

use crate::config::{Command, Config};
use report::Report;

/// Runs a command and gives its exit code; `usage` explains the codes.
pub fn run(command: &Command, form: OutputFormat, config: &Config) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = match runtime {
        Ok(runtime) => tokio::task::LocalSet::new().block_on(&runtime, report(command, config)),
        Err(error) => Err(format!("start the runtime: {error}")),
    };
    match report {
        Ok(report) => {
            let text = match form {
                OutputFormat::Json => format!("{:#}\n", report.document),
                // What containers, images and the engine said is among it.
                OutputFormat::Text => report.lines.iter().map(|line| format!("{}\n", printable::lines(line))).collect(),
            };
            // Nobody may be reading any more.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::from(u8::from(!report.well))
        }
        Err(why) => {
            eprintln!("coracle-agent: {}", printable::lines(&why));
            ExitCode::FAILURE
        }
    }
}

async fn report(command: &Command, config: &Config) -> Result<Report, String> {
    Ok(match command {
        Command::Check(files) => check::report(&check::all(&look::files(files, &config.node_name))),
        Command::Plan => {
            let seen = look::world(config).await?;
            plan::report(&seen.round(), &seen.desired, &seen.world, &seen.notes)
        }
        Command::Status => {
            let node = ask(config, "/node").await?;
            let health = ask(config, "/healthz").await?;
            let pods = ask(config, "/pods").await?;
            let remarks = check::all(&look::files(&[PathBuf::from(&config.manifest_dir)], &config.node_name));
            let parse = |text: &str| {
                serde_json::from_str::<Value>(text).map_err(|error| format!("the agent's answer: {error}"))
            };
            let trouble = (health.0 != StatusCode::OK).then_some(health.1);
            status::report(&parse(&node.1)?, trouble.as_deref(), &parse(&pods.1)?, &remarks)
        }
        Command::Doctor => {
            let answers = matches!(ask(config, "/healthz").await, Ok((StatusCode::OK, _)));
            doctor::report(&doctor::judge(&readings::read(config, answers).await))
        }
    })
}

/// Asks the running agent.
async fn ask(config: &Config, path: &str) -> Result<(StatusCode, String), String> {
    let client = Client::new(Target::Unix(config.socket.clone()), concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
    let reply = client.call(Method::GET, path, None).await.map_err(|error| {
        format!(
            "{error}: no agent runs as node {}, or you are not root (systemctl status coracle-agent)",
            config.node_name
        )
    })?;
    Ok((reply.status, String::from_utf8_lossy(&reply.body).trim().to_owned()))
}
