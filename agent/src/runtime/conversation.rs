//! PURE. The messages between a client and a command in a container, independent of protocol and engine.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

/// Messages that wait in each direction between a client and its command, each at most some 16 KiB. The slower side
/// keeps the faster side waiting.
pub const WAITING_MAX: usize = 4;

/// The streams that are connected to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Size {
    pub width: u16,
    pub height: u16,
}

/// A message from the client.
#[derive(Debug, PartialEq)]
pub enum ClientMessage {
    Stdin(Bytes),
    /// The end of standard input.
    StdinEnd,
    Size(Size),
}

/// A message to the client.
#[derive(Debug, PartialEq)]
pub enum ToClient {
    Stdout(Bytes),
    Stderr(Bytes),
    Outcome(CommandOutcome),
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandOutcome {
    Success,
    Exit(i64),
    /// The command could not be run, or its result is unknown.
    Failed(String),
}

impl CommandOutcome {
    /// The Status that clients read since version 4 of the protocol.
    pub fn status(&self) -> Value {
        match self {
            CommandOutcome::Success => json!({ "metadata": {}, "status": "Success" }),
            CommandOutcome::Exit(code) => json!({
                "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode", "message": self.message(),
                "details": { "causes": [{ "reason": "ExitCode", "message": code.to_string() }] },
            }),
            CommandOutcome::Failed(_) => json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError", "message": self.message(), "code": 500,
            }),
        }
    }

    /// The reason for the end; empty for a success.
    pub fn message(&self) -> String {
        match self {
            CommandOutcome::Success => String::new(),
            CommandOutcome::Exit(code) => format!("command terminated with non-zero exit code: exit status {code}"),
            CommandOutcome::Failed(why) => format!("Internal error occurred: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_told_as_kubernetes_tells_them() {
        let exit = CommandOutcome::Exit(3);
        assert_eq!(exit.status()["details"]["causes"][0], json!({ "reason": "ExitCode", "message": "3" }));
        assert_eq!(exit.message(), "command terminated with non-zero exit code: exit status 3");
        assert_eq!(
            (CommandOutcome::Success.message().as_str(), &CommandOutcome::Success.status()["status"]),
            ("", &json!("Success"))
        );
        let failed = CommandOutcome::Failed("error executing command in container: no".to_owned());
        assert_eq!(failed.status()["message"], "Internal error occurred: error executing command in container: no");
    }
}
