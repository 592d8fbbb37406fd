//! Arguments, log, signals, exit code; everything else is in the library.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;
use std::time::Duration;

use coracle_agent::config::{self, Config, Invocation};
use coracle_agent::host::disks::THREADS_MAX;
use coracle_agent::host::machine;
use coracle_agent::inside::Sockets;
use coracle_agent::inside::deed::Deed;
use coracle_agent::usage::Called;
use coracle_agent::{command, inside, run};
use coracle_http::network::HANDLER_STACK_BYTES;
use coracle_program::resident;
use tokio::signal::unix::{SignalKind, signal};

/// Handlers of the port and of the socket and those of their health, some to spare, and what waits for disks.
const BLOCKING_THREADS_MAX: usize = 12 + THREADS_MAX;

#[expect(clippy::print_stdout, reason = "--help and --version are asked for on standard output")]
fn main() -> ExitCode {
    let mut arguments = std::env::args();
    let called = Called::of(&arguments.next().unwrap_or_default());
    let arguments: Vec<String> = arguments.collect();
    if arguments.first().is_some_and(|word| word == "apply") {
        return of_master(&arguments);
    }
    let docker_host = std::env::var("DOCKER_HOST").ok();
    let host = config::HostDefaults { name: machine::name(), docker_host, called };
    let name = called.name();
    match config::read(&arguments, &host) {
        Ok(Invocation::Help(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Ok(Invocation::Version) => {
            println!("{name} {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
        Ok(Invocation::Do(command, form, config)) => {
            start_log(log::LevelFilter::Off);
            command::run(name, &command, form, &config)
        }
        Ok(Invocation::Run(config)) => {
            resident::settle();
            start(*config)
        }
        Ok(Invocation::Inside(deed, sockets)) => ask(name, &deed, &sockets),
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::from(2)
        }
    }
}

/// A command of the master's program, which this process becomes.
fn of_master(arguments: &[String]) -> ExitCode {
    let error = std::process::Command::new("coracle-master").args(arguments).exec();
    eprintln!("coracle-agent: {} is a command of coracle-master, which does not start: {error}", arguments[0]);
    ExitCode::from(3)
}

fn start(config: Config) -> ExitCode {
    start_log(log::LevelFilter::Info);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_stack_size(HANDLER_STACK_BYTES)
        .thread_keep_alive(Duration::from_secs(10))
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("coracle-agent: start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = tokio::task::LocalSet::new().block_on(&runtime, run(config, asked_to_stop()));
    // A removal that runs is not waited for: the next agent finds what is left.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("coracle-agent: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Asks the running programs. Does not wait for input that is still being typed when the answer is complete.
fn ask(name: &str, deed: &Deed, sockets: &Sockets) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("{name}: start the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    runtime.block_on(inside::run(name, deed, sockets))
}

/// SIGTERM or SIGINT.
async fn asked_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        log::error!("signals cannot be heard: only a kill stops this agent");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// The journal has times of its own, and takes levels as numbers.
fn start_log(level: log::LevelFilter) {
    let journal = std::env::var_os("JOURNAL_STREAM").is_some();
    env_logger::Builder::new()
        .filter_level(level)
        .parse_default_env()
        .format(move |out, record| {
            let level = match record.level() {
                log::Level::Error => 3,
                log::Level::Warn => 4,
                log::Level::Info => 6,
                log::Level::Debug | log::Level::Trace => 7,
            };
            // One line, whatever an engine, a container or a command said.
            let text = record.args().to_string();
            let text = coracle_api::printable::line(&text);
            if journal {
                writeln!(out, "<{level}>{text}")
            } else {
                let time = coracle_agent::facts::clock::now();
                writeln!(out, "{time} {:5} {text}", record.level())
            }
        })
        .init();
}
