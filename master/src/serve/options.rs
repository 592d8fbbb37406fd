//! Options of a write beside its document: dry run and field manager.

use crate::call::Call;
use crate::fault::Fault;
use crate::prepare::Ownership;
use coracle_api::kinds::Kind;
use coracle_api::status::Status;
use coracle_http::{HeaderMap, header};
use coracle_schema::apply::{MANAGER_BYTES_MAX, manager_problems};
use coracle_schema::{Path, Problem, Reason};
use serde_json::json;

/// The agent of this project: its writes get no field owners, because observations repeat and the observer is known.
const AGENT: &str = "coracle-agent";

/// The group of all nodes.
const NODES: &str = "system:nodes";

/// How a write is meant.
pub struct WriteOptions<'k> {
    /// Everything is to be done but the writing.
    pub rehearsal: bool,
    /// The field manager of the write.
    pub manager: String,
    /// The version of the document, if it is not the stored one.
    shown: Option<&'k Kind>,
}

impl WriteOptions<'_> {
    /// Whether a node says it: our own agent, or whoever comes as one.
    pub fn of_node(&self, call: &Call) -> bool {
        self.manager == AGENT || call.identity.groups.iter().any(|group| group == NODES)
    }

    pub fn ownership(&self) -> Ownership<'_> {
        if self.manager == AGENT { Ownership::Untold } else { Ownership::Written(&self.manager, self.shown) }
    }
}

/// `kind`: which options the client is told of when they are wrong.
pub fn wish<'k>(call: &Call<'k>, headers: &HeaderMap, kind: &str) -> Result<WriteOptions<'k>, Fault> {
    let mut problems = Vec::new();
    let named = call.options.field_manager.as_deref().unwrap_or_default();
    problems.extend(manager_problems(&Path::new("fieldManager"), named));
    problems.extend(run_problem(&call.options.dry_run));
    problems.extend(call.options.field_validation_wrong.as_deref().map(validation_problem));
    if !problems.is_empty() {
        return Err(wrong(kind, &problems));
    }
    let manager = if named.is_empty() { from_agent(headers) } else { named.to_owned() };
    let shown = call.shown.alias.is_some().then_some(call.shown);
    Ok(WriteOptions { rehearsal: !call.options.dry_run.is_empty(), manager, shown })
}

/// Whether everything is to be done but the writing.
pub fn rehearsal(call: &Call, kind: &str) -> Result<bool, Fault> {
    is_rehearsal(&call.options.dry_run, kind)
}

/// `dry_run`: as the client sent it, once or several times.
pub fn is_rehearsal(dry_run: &[String], kind: &str) -> Result<bool, Fault> {
    match run_problem(dry_run) {
        None => Ok(!dry_run.is_empty()),
        Some(problem) => Err(wrong(kind, &[problem])),
    }
}

pub fn wrong(kind: &str, problems: &[Problem]) -> Fault {
    Status::invalid_of("meta.k8s.io", kind, "", problems).into()
}

fn run_problem(dry_run: &[String]) -> Option<Problem> {
    let wrong = dry_run.iter().any(|run| run != "All");
    wrong.then(|| {
        Problem::new(&Path::new("dryRun"), Reason::NotSupported, Some(json!(dry_run)), "supported values: \"All\"")
    })
}

fn validation_problem(given: &str) -> Problem {
    let words = "supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    Problem::new(&Path::new("fieldValidation"), Reason::NotSupported, Some(given.into()), words)
}

/// A client that does not name itself is called as its program: what its User-Agent says before the first slash.
fn from_agent(headers: &HeaderMap) -> String {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let name = agent.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control());
    let mut text = String::new();
    for c in name {
        if text.len() + c.len_utf8() > MANAGER_BYTES_MAX {
            break;
        }
        text.push(c);
    }
    text
}
