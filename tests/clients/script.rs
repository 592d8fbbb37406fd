//! A script: what somebody types, and what must come of it. One line a thing:
//!
//!     # a comment
//!     file web.yaml              the indented lines below it are the file
//!     $ kubectl get pods         run by sh; indented lines below go on with it
//!     & w kubectl get pods -w    the same, in the background, under the name w
//!     seen w web                 waits until what w printed has this text
//!
//! and after a `$` line what must come of it (without `exit` that is success):
//!
//!     = pod/web created          all that is printed, a `=` line a line (the warning that nothing acts on a kind yet
//!                                is left out)
//!     ~ web 1/1 Running          printed somewhere; runs of blanks count as one
//!     !~ Error                   printed nowhere
//!     exit 1                     the exit code
//!     eventually                 looked at again and again, since a controller has to act first
//!     since 1.24, before 1.30    only for these versions of kubectl
//!     later why                  known not to work yet, and why: it is run, and told when it works

use coracle_tests::stock::minor;

/// Each kind loses this warning when something acts on it, and each field of a pod the other; no script has to change
/// then.
const OWN_WARNINGS: [&str; 2] = ["Warning: nothing acts on ", "Warning: no agent will start "];

pub struct Script {
    pub name: String,
    pub steps: Vec<Step>,
}

#[derive(Debug, PartialEq)]
pub struct Step {
    pub line: usize,
    pub act: Act,
    pub expected: Vec<Expectation>,
    pub exit: i32,
    pub eventually: bool,
    /// Minor versions: from this one, and below that one.
    pub since: u32,
    pub before: u32,
    pub later: Option<String>,
}

#[derive(Debug, PartialEq)]
pub enum Act {
    File { name: String, text: String },
    Run(String),
    Start { name: String, command: String },
    Seen { name: String, text: String },
}

#[derive(Debug, PartialEq)]
pub enum Expectation {
    /// Every line, in order.
    Exactly(String),
    Has(String),
    HasNot(String),
}

pub fn parse(name: &str, text: &str) -> Result<Script, String> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |why: &str| format!("{name}.txt:{}: {why}: {line}", number + 1);
        if let Some(more) = line.strip_prefix("    ") {
            let step = steps.last_mut().ok_or_else(|| wrong("belongs to nothing"))?;
            go_on(step, more).map_err(wrong)?;
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.to_owned();
        let act = match word {
            "" if matches!(steps.last(), Some(Step { act: Act::File { .. }, .. })) => continue,
            "" | "#" => continue,
            "file" => Some(Act::File { name: rest.clone(), text: String::new() }),
            "$" => Some(Act::Run(rest.clone())),
            "&" => {
                let (name, command) = rest.split_once(' ').ok_or_else(|| wrong("needs a name and a command"))?;
                Some(Act::Start { name: name.to_owned(), command: command.to_owned() })
            }
            "seen" => {
                let (name, text) = rest.split_once(' ').ok_or_else(|| wrong("needs a name and a text"))?;
                Some(Act::Seen { name: name.to_owned(), text: text.to_owned() })
            }
            _ => None,
        };
        match act {
            Some(act) => steps.push(fresh(number + 1, act)),
            None => {
                let step = steps.last_mut().ok_or_else(|| wrong("comes before any command"))?;
                attribute(step, word, rest).map_err(wrong)?;
            }
        }
    }
    Ok(Script { name: name.to_owned(), steps })
}

fn fresh(line: usize, act: Act) -> Step {
    Step { line, act, expected: Vec::new(), exit: 0, eventually: false, since: 0, before: u32::MAX, later: None }
}

fn go_on(step: &mut Step, more: &str) -> Result<(), &'static str> {
    match &mut step.act {
        Act::File { text, .. } => {
            text.push_str(more);
            text.push('\n');
        }
        Act::Run(command) | Act::Start { command, .. } if step.expected.is_empty() => {
            command.push('\n');
            command.push_str(more);
        }
        _ => return Err("goes on with nothing"),
    }
    Ok(())
}

fn attribute(step: &mut Step, word: &str, rest: String) -> Result<(), &'static str> {
    match word {
        "=" => step.expected.push(Expectation::Exactly(rest)),
        "~" => step.expected.push(Expectation::Has(rest)),
        "!~" => step.expected.push(Expectation::HasNot(rest)),
        "exit" => step.exit = rest.parse().map_err(|_| "not an exit code")?,
        "eventually" => step.eventually = true,
        "since" => step.since = minor(&rest).ok_or("not a version")?,
        "before" => step.before = minor(&rest).ok_or("not a version")?,
        "later" if !rest.is_empty() => step.later = Some(rest),
        _ => return Err("is not known"),
    }
    Ok(())
}

impl Step {
    /// What of this is not as expected.
    pub fn judge(&self, code: i32, printed: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        if code != self.exit {
            wrong.push(format!("exit code {code}, not {}", self.exit));
        }
        let exact: Vec<&str> = self
            .expected
            .iter()
            .filter_map(|e| if let Expectation::Exactly(l) = e { Some(l.as_str()) } else { None })
            .collect();
        let own = |line: &&str| OWN_WARNINGS.iter().any(|own| line.starts_with(own));
        let shown_lines: Vec<&str> = printed.lines().map(str::trim_end).filter(|line| !own(line)).collect();
        if !exact.is_empty() && exact != shown_lines {
            wrong.push(format!("printed is not exactly: {}", exact.join(" | ")));
        }
        let blanks = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown = blanks(printed);
        for expectation in &self.expected {
            match expectation {
                Expectation::Has(text) if !shown.contains(&blanks(text)) => wrong.push(format!("not printed: {text}")),
                Expectation::HasNot(text) if shown.contains(&blanks(text)) => wrong.push(format!("printed: {text}")),
                _ => {}
            }
        }
        wrong
    }
}
