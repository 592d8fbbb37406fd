//! Many tests in two processes beside each other, each with an engine and a network namespace of its own.

use crate::engine::called;
use std::process::{Child, Command, ExitCode};

/// `NUMBER/COUNT`: the process runs this part of the tests.
const PART: &str = "CORACLE_E2E_PART";
const PARTS: usize = 2;
/// A second engine takes longer to start than so few tests last.
const TESTS_MIN: usize = 12;

/// Runs each part in a process of its own. None: this process runs its tests itself.
pub fn run(tests: usize) -> Option<ExitCode> {
    if std::env::var_os(PART).is_some() || tests < TESTS_MIN {
        return None;
    }
    let program = std::env::current_exe().expect("the path of this program");
    let children: Vec<Child> = (0..PARTS)
        .map(|number| {
            let mut command = Command::new(&program);
            command.args(std::env::args().skip(1)).env(PART, format!("{number}/{PARTS}"));
            command.env("CORACLE_E2E", format!("{}-{number}", called()));
            command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display()))
        })
        .collect();
    let all_passed = children
        .into_iter()
        .map(|mut child| child.wait().is_ok_and(|status| status.success()))
        .fold(true, |before, passed| before && passed);
    Some(if all_passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The tests of this process.
pub fn own<T>(tests: Vec<T>) -> Vec<T> {
    let part = std::env::var(PART).ok();
    let numbers = part.as_deref().and_then(|part| part.split_once('/'));
    let numbers = numbers.and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
    let (number, count): (usize, usize) = numbers.unwrap_or((0, 1));
    tests.into_iter().enumerate().filter(|(index, _)| index % count == number).map(|(_, test)| test).collect()
}
