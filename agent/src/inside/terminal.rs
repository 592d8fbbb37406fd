//! The terminal that a command is typed at, by `stty`, which every Debian has: while a command has it, each key goes to
//! the command.

use std::process::{Command, Stdio};

/// Dropped, the terminal is as it was.
pub struct Terminal {
    before: String,
}

impl Terminal {
    pub fn take() -> Result<Terminal, String> {
        let before = stty(&["-g"]).ok_or("-t needs a terminal: standard input is none")?;
        let terminal = Terminal { before: before.trim().to_owned() };
        stty(&["raw", "-echo"]).ok_or("the terminal takes no raw mode")?;
        Ok(terminal)
    }

    /// Lines and columns.
    pub fn size(&self) -> Option<(u16, u16)> {
        let said = stty(&["size"])?;
        let (lines, columns) = said.trim().split_once(' ')?;
        Some((lines.parse().ok()?, columns.parse().ok()?))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = stty(&[&self.before]);
    }
}

/// The output of stty, if it succeeds.
fn stty(words: &[&str]) -> Option<String> {
    let output = Command::new("stty").args(words).stdin(Stdio::inherit()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
