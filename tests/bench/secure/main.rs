//! `make bench-secure`: what TLS and access rules cost, in one run: a GET of 2 KB, handshakes, idle connections, the
//! share of authorization, a start. As ratios to the same network side without TLS, and to Debian's nginx, which serves
//! a file of 2 KB with the very same certificate.
//!
//! Nothing is asserted of time; a row that could not be measured says so and fails the bench.

mod authorization;
mod gets;
mod hands;
mod load;
#[allow(dead_code)]
#[path = "../process.rs"]
mod process;
mod servers;
#[allow(dead_code)]
#[path = "../../it/tls.rs"]
mod tls;

use servers::Ground;
use std::process::ExitCode;

type Row = (&'static str, fn(&Ground) -> Result<String, String>);

const ROWS: &[Row] = &[
    ("GET of 2 KB", gets::table),
    ("handshakes", hands::handshakes),
    ("idle connections", hands::idle),
    ("authorization", authorization::share),
    ("ready after a start", hands::ready),
];

fn main() -> ExitCode {
    if servers::serve_bare_if_asked() {
        return ExitCode::SUCCESS;
    }
    // Both sides of a thousand connections, the servers' by inheritance.
    coracle_http::system::granted();
    let ground = match Ground::new() {
        Ok(ground) => ground,
        Err(why) => {
            eprintln!("bench: {why}");
            return ExitCode::FAILURE;
        }
    };
    // `make bench-secure ROWS=handshakes` measures what has the word in its name.
    let wanted = std::env::var("ROWS").unwrap_or_default();
    let mut failed = 0;
    for (name, measure) in ROWS.iter().filter(|(name, _)| name.contains(&wanted)) {
        match measure(&ground) {
            Ok(text) => println!("{name}\n{text}"),
            Err(why) => {
                println!("{name}: NOT MEASURED: {why}\n");
                failed += 1;
            }
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

pub fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}
