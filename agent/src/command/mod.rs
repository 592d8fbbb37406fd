//! The commands that look at this host once: each reads, decides and prints, and changes nothing.
//!
//!     look: files, the last assignment and the engine -> the very plan -> plan PURE: in words
//!     readings: this host -> doctor PURE: what stands in the way, and what to do
//!     the agent's socket -> status PURE · manifest files -> check PURE
//!     the sockets of both programs -> whole PURE: the status of both in one; rows PURE: their pods · top PURE

mod both;
mod check;
mod doctor;
mod look;
mod plan;
mod readings;
mod report;
mod rows;
mod status;
mod top;
mod whole;

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
        Command::Check(files) => check::report(&check::all(&look::files(files, &config.node_name))),
        Command::Plan => {
            let seen = look::world(config).await?;
            plan::report(&seen.round(), &seen.desired, &seen.world, &seen.notes)
        }
        Command::Status => of_agent(config).await?,
        Command::Whole => {
            let seen = both::status(config).await;
            if !seen.answers() {
                return Err(Unable::Unreachable(seen.silence()));
            }
            whole::report(&seen, form == OutputFormat::Wide)
        }
        Command::Top(by) => top::report(&both::used(config).await.map_err(Unable::Unreachable)?, *by),
        Command::Doctor => {
            let answers = matches!(ask(config, "/healthz").await, Ok((StatusCode::OK, _)));
            doctor::report(&doctor::judge(&readings::read(config, answers).await))
        }
    })
}

fn parse(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("the agent's answer: {error}"))
}

/// The status of the agent.
async fn of_agent(config: &Config) -> Result<Report, String> {
    let node = ask(config, "/node").await?;
    let health = ask(config, "/healthz").await?;
    let pods = ask(config, "/pods").await?;
    let remarks = check::all(&look::files(&[PathBuf::from(&config.manifest_dir)], &config.node_name));
    let trouble = (health.0 != StatusCode::OK).then_some(health.1);
    Ok(status::report(&parse(&node.1)?, trouble.as_deref(), &parse(&pods.1)?, &remarks))
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
