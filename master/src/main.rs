//! Arguments, the log, signals, the exit code.

use coracle_api::printable;
use coracle_master::command;
use coracle_master::config::{self, Invocation};
use coracle_program::resident;
use nix::sys::signal::{SigSet, Signal};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    start_log();
    // What a limit on files stops is an error as any other of the disk's, and no reason to die: held back, the signal
    // does nothing.
    let mut held = SigSet::empty();
    held.add(Signal::SIGXFSZ);
    if let Err(error) = held.thread_block() {
        log::warn!("block SIGXFSZ: {error}");
    }
    let config = match config::parse(std::env::args().skip(1), |path| std::fs::read_to_string(path)) {
        Ok(Invocation::Run(config)) => {
            resident::settle();
            config
        }
        Ok(Invocation::Do(deed, config)) => return command::run(&deed, &config),
        Ok(Invocation::Help(text)) => return say(&text),
        Ok(Invocation::Version) => return say(concat!("coracle-master ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(why) => {
            eprintln!("coracle-master: {}", printable::lines(&why.to_string()));
            return ExitCode::from(2);
        }
    };
    // Blocked before the first thread starts, so that all inherit it and only `wait` takes them.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    if let Err(error) = signals.thread_block() {
        log::error!("block signals: {error}");
        return ExitCode::FAILURE;
    }
    coracle_master::run(&config, || match signals.wait() {
        Ok(signal) => log::info!("{signal}: stopping"),
        Err(error) => log::error!("wait for signals: {error}"),
    })
}

/// One line an entry, whatever the names of clients are and engines say.
fn start_log() {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info"))
        .format(|out, record| {
            let text = record.args().to_string();
            writeln!(out, "[{:5} {}] {}", record.level(), record.target(), printable::line(&text))
        })
        .init();
}

#[expect(clippy::print_stdout, reason = "what was asked for goes to standard output")]
fn say(text: &str) -> ExitCode {
    print!("{text}");
    ExitCode::SUCCESS
}
