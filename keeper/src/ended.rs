//! How a container ended, in words: the exit code, the signal behind it, a kill for memory, a kill by a probe. PURE.
//!
//! Both programs read the same field for it: `terminated` of a container's `state` or `lastState`.

use serde_json::Value;

/// The codes above this number are signals: 128 + the signal's number.
const SIGNALS_FROM: i64 = 128;
/// SIGKILL.
const KILL: i64 = 9;
/// The code of a container whose end nobody saw.
const UNKNOWN: &str = "ContainerStatusUnknown";

/// The probe for which a container was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedProbe<'a> {
    /// `Liveness` or `Startup`.
    pub probe: &'a str,
    /// The words of the last failure.
    pub output: &'a str,
}

/// Whether a container ended by a failure. An unknown end counts as one.
pub fn failed(terminated: &Value) -> bool {
    terminated["exitCode"].as_i64() != Some(0)
}

/// `terminated`: the end, as a v1 ContainerStatus shows it. `probe`: the probe that the container was ended for.
pub fn words(terminated: &Value, probe: Option<FailedProbe<'_>>) -> String {
    let code = terminated["exitCode"].as_i64();
    let reason = terminated["reason"].as_str().unwrap_or_default();
    let message = terminated["message"].as_str().unwrap_or_default().trim();
    if let Some(FailedProbe { probe, output }) = probe {
        return format!("killed because its {} probe failed: {}", probe.to_lowercase(), output.trim());
    }
    let said = |words: String| match message {
        "" => words,
        message => format!("{words}; it left the message: {message}"),
    };
    match (reason, code) {
        ("OOMKilled", code) => {
            let limit = "it took more memory than its limit, or than the host had";
            said(format!("killed for memory: {limit} (OOMKilled, exit code {})", code.unwrap_or(SIGNALS_FROM + KILL)))
        }
        ("StartError" | "ContainerCannotRun", _) => not_started(message),
        (UNKNOWN, _) if message.is_empty() => "ended, and nobody saw how".to_owned(),
        (UNKNOWN, _) => format!("ended, and nobody saw how: {message}"),
        (_, Some(code)) => said(format!("exit code {code} ({})", meaning(code))),
        (_, None) => said("ended, and its exit code is not known".to_owned()),
    }
}

/// The engine refused the start. The engines of Docker and Podman say the same two causes in many words.
fn not_started(message: &str) -> String {
    let lower = message.to_lowercase();
    let cause = if lower.contains("exec format error") {
        "its program is made for another processor"
    } else if lower.contains("gathering device information") || lower.contains("no such device") {
        "a device is missing"
    } else if lower.contains("executable file not found") || program_is_missing(&lower) {
        "its program is missing in the image"
    } else if lower.contains("permission denied") && lower.contains("exec") {
        "its program may not be executed"
    } else {
        return format!(
            "could not be started: {}",
            if message.is_empty() { "the engine gave no reason" } else { message }
        );
    };
    format!("could not be started, {cause}: {message}")
}

/// `exec: "/x": stat /x: no such file or directory`
fn program_is_missing(lower: &str) -> bool {
    lower.contains("exec: ") && lower.contains("no such file or directory")
}

/// The meaning of an exit code. The codes from 125 to 127 are those of engines and shells.
pub fn meaning(code: i64) -> String {
    let of_program = "the program ended itself with an error";
    match code {
        0 => "the program ended by itself, without an error".to_owned(),
        1 => of_program.to_owned(),
        2 => format!("{of_program}, often a wrong option or argument"),
        125 => "the engine could not run the container".to_owned(),
        126 => "the program was found and could not be executed".to_owned(),
        127 => "the program, or a library of it, was not found".to_owned(),
        128 => "the container could not be started".to_owned(),
        _ => match signal(code - SIGNALS_FROM) {
            Some((name, meaning)) => format!("killed by signal {}, {name}: {meaning}", code - SIGNALS_FROM),
            None => of_program.to_owned(),
        },
    }
}

/// The name and the meaning of a signal of Linux.
pub fn signal(number: i64) -> Option<(&'static str, &'static str)> {
    Some(match number {
        1 => ("SIGHUP", "its terminal closed"),
        2 => ("SIGINT", "somebody interrupted it"),
        3 => ("SIGQUIT", "somebody asked it to quit"),
        4 => ("SIGILL", "an instruction that this processor does not have"),
        5 => ("SIGTRAP", "a trap of a debugger"),
        6 => ("SIGABRT", "the program found a fault of its own and gave up"),
        7 => ("SIGBUS", "an access to memory that is not there, such as a file that became shorter"),
        8 => ("SIGFPE", "arithmetic without a result, such as a division by zero"),
        9 => ("SIGKILL", "its grace was over, somebody killed it, or the host had no memory"),
        10 => ("SIGUSR1", "a signal of the user, which the program does not handle"),
        11 => ("SIGSEGV", "an access to memory that is not the program's"),
        12 => ("SIGUSR2", "a signal of the user, which the program does not handle"),
        13 => ("SIGPIPE", "nobody read its output any more"),
        14 => ("SIGALRM", "a timer of its own ran out"),
        15 => ("SIGTERM", "somebody asked it to end"),
        24 => ("SIGXCPU", "it took more processor time than it may"),
        25 => ("SIGXFSZ", "it wrote a larger file than it may"),
        31 => ("SIGSYS", "a system call that it may not make"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ends_in_words() {
        let check = |terminated: Value, expected: &str| assert_eq!(words(&terminated, None), expected, "{terminated}");
        let code = |code: i64| json!({"exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }});
        check(code(0), "exit code 0 (the program ended by itself, without an error)");
        check(code(1), "exit code 1 (the program ended itself with an error)");
        check(code(3), "exit code 3 (the program ended itself with an error)");
        check(code(125), "exit code 125 (the engine could not run the container)");
        check(code(126), "exit code 126 (the program was found and could not be executed)");
        check(code(127), "exit code 127 (the program, or a library of it, was not found)");
        check(
            code(137),
            "exit code 137 (killed by signal 9, SIGKILL: its grace was over, somebody killed it, or the host had no \
             memory)",
        );
        check(code(139), "exit code 139 (killed by signal 11, SIGSEGV: an access to memory that is not the program's)");
        check(code(143), "exit code 143 (killed by signal 15, SIGTERM: somebody asked it to end)");
        check(code(255), "exit code 255 (the program ended itself with an error)");
        check(
            json!({"exitCode": 1, "reason": "Error", "message": "no database\n"}),
            "exit code 1 (the program ended itself with an error); it left the message: no database",
        );
        check(
            json!({"exitCode": 137, "reason": "OOMKilled"}),
            "killed for memory: it took more memory than its limit, or than the host had (OOMKilled, exit code 137)",
        );
        let missing = "OCI runtime create failed: exec: \"frob\": executable file not found in $PATH: unknown";
        check(
            json!({"exitCode": 128, "reason": "StartError", "message": missing}),
            &format!("could not be started, its program is missing in the image: {missing}"),
        );
        let missing = "exec: \"/frob\": stat /frob: no such file or directory";
        check(
            json!({"exitCode": 128, "reason": "StartError", "message": missing}),
            &format!("could not be started, its program is missing in the image: {missing}"),
        );
        let device =
            "error gathering device information while adding custom device \"/dev/ttyUSB0\": no such file or directory";
        check(
            json!({"exitCode": 128, "reason": "StartError", "message": device}),
            &format!("could not be started, a device is missing: {device}"),
        );
        check(
            json!({"exitCode": 128, "reason": "StartError", "message": "exec /x: exec format error"}),
            "could not be started, its program is made for another processor: exec /x: exec format error",
        );
        check(json!({"exitCode": 128, "reason": "StartError"}), "could not be started: the engine gave no reason");
        check(
            json!({"exitCode": 137, "reason": "ContainerStatusUnknown", "message": "it is gone"}),
            "ended, and nobody saw how: it is gone",
        );
        check(json!({}), "ended, and its exit code is not known");
    }

    #[test]
    fn a_probe_is_named_before_the_signal_that_it_sent() {
        let probe = Some(FailedProbe { probe: "Liveness", output: "HTTP probe failed with statuscode: 500\n" });
        let end = json!({"exitCode": 137, "reason": "Error"});
        assert_eq!(
            words(&end, probe),
            "killed because its liveness probe failed: HTTP probe failed with statuscode: 500"
        );
    }

    #[test]
    fn only_a_zero_is_no_failure() {
        assert!(!failed(&json!({"exitCode": 0})));
        assert!(failed(&json!({"exitCode": 1})) && failed(&json!({})));
    }
}
