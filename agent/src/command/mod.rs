//! The commands that look at this host once: each reads, decides and prints.
//!
//!     look: files, the last assignment and the engine -> the very plan -> plan PURE: in words
//!     readings: this host -> doctor PURE: what stands in the way, and what to do
//!     the agent's socket -> status PURE, images PURE · manifest files -> check PURE
//!     the sockets of both programs -> whole PURE: the status of both in one; rows PURE: their pods · top PURE
//!
//! `update` alone asks the running agent for something, and prints how it goes.

mod both;
mod check;
mod doctor;
mod images;
mod look;
mod plan;
mod readings;
pub(crate) mod report;
mod rows;
mod status;
mod top;
mod update;
mod whole;

use std::io::Write;
use std::process::ExitCode;

use coracle_api::printable;
use coracle_http::client::{CallError, Client, Target};
use coracle_http::{Method, StatusCode};
use coracle_program::command_line::OutputFormat;
use serde_json::Value;

use crate::config::{Command, Config};
use report::Report;

/// The exit code of a command that asks the running programs, where none answers.
const UNREACHABLE: u8 = 3;

/// Why a command has nothing to tell.
enum Unable {
    Fails(String),
    /// No program answers.
    Unreachable(String),
}

impl From<String> for Unable {
    fn from(why: String) -> Unable {
        Unable::Fails(why)
    }
}

/// Runs a command and gives its exit code; `usage` explains the codes. `name`: how this program is called.
pub fn run(name: &str, command: &Command, form: OutputFormat, config: &Config) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = match runtime {
        Ok(runtime) => tokio::task::LocalSet::new().block_on(&runtime, report(command, form, config)),
        Err(error) => Err(Unable::Fails(format!("start the runtime: {error}"))),
    };
    match report {
        Ok(report) => {
            let text = match form {
                OutputFormat::Json => format!("{:#}\n", report.document),
                // What containers, images and the engine said is among it.
                OutputFormat::Text | OutputFormat::Wide => {
                    report.lines.iter().map(|line| format!("{}\n", printable::lines(line))).collect()
                }
            };
            // Nobody may be reading any more.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::from(u8::from(!report.well))
        }
        Err(unable) => {
            let (Unable::Fails(why) | Unable::Unreachable(why)) = &unable;
            eprintln!("{name}: {}", printable::lines(why));
            match unable {
                Unable::Fails(_) => ExitCode::FAILURE,
                Unable::Unreachable(_) => ExitCode::from(UNREACHABLE),
            }
        }
    }
}

async fn report(command: &Command, form: OutputFormat, config: &Config) -> Result<Report, Unable> {
    Ok(match command {
        Command::Check(files) => check::report(&check::all(&look::files(files, config))),
        Command::Plan => {
            let seen = look::world(config).await?;
            plan::report(&seen.round(), &seen.desired, &seen.world, &seen.notes)
        }
        Command::Status => {
            let (node, pods) = (told(config, "/node").await?, told(config, "/pods").await?);
            let mut answer = told(config, "/problems").await?;
            let problems = serde_json::from_value(answer["problems"].take())
                .map_err(|error| format!("the agent's answer on its problems: {error}"))?;
            status::report(&node, &pods, problems, form)
        }
        Command::Whole => {
            let seen = both::status(config).await;
            if !seen.answers() {
                return Err(Unable::Unreachable(seen.silence()));
            }
            whole::report(&seen, form)
        }
        Command::Top(by) => top::report(&both::used(config).await.map_err(Unable::Unreachable)?, *by),
        Command::Backup(dir, options) => crate::backup::backup(config, dir, options).await?,
        Command::Restore(dir, options) => crate::backup::restore(config, dir, options).await?,
        Command::Images => images::report(&told(config, "/images").await?),
        Command::Update(wish) => update::run(wish, form == OutputFormat::Json, config).await?,
        Command::Doctor => {
            // An agent that is not well answers, too.
            let answers = ask(config, "/healthz").await.is_ok();
            doctor::report(&doctor::judge(&readings::read(config, answers).await))
        }
    })
}

/// A page of the running agent.
async fn told(config: &Config, path: &str) -> Result<Value, Unable> {
    let (status, text) = ask(config, path).await.map_err(Unable::Unreachable)?;
    if status != StatusCode::OK {
        let why = format!(
            "the agent answers {status} for {path}: is it of another version? (systemctl restart coracle-agent)"
        );
        return Err(Unable::Fails(why));
    }
    Ok(serde_json::from_str(&text).map_err(|error| format!("the agent's answer for {path}: {error}"))?)
}

fn unheard(error: &CallError, config: &Config) -> String {
    let node = &config.node_name;
    format!("{error}: no agent runs as node {node}, or you are not root (systemctl status coracle-agent)")
}

/// Asks the running agent.
async fn ask(config: &Config, path: &str) -> Result<(StatusCode, String), String> {
    let client = Client::new(Target::Unix(config.socket.clone()), concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
    let reply = client.call(Method::GET, path, None).await.map_err(|error| unheard(&error, config))?;
    Ok((reply.status, String::from_utf8_lossy(&reply.body).trim().to_owned()))
}
