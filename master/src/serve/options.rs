//! What a client says about a write beside the document: whether it is only a rehearsal, and who writes.

use crate::call::Call;
use crate::fault::Fault;
use coracle_api::status::Status;
use coracle_schema::{Path, Problem, Reason};
use serde_json::json;

/// Whether everything is to be done but the writing. `kind`: which options the client is told of when they are wrong.
pub fn rehearsal(call: &Call, kind: &str) -> Result<bool, Fault> {
    is_rehearsal(&call.options.dry_run, kind)
}

/// `dry_run`: as the client sent it, once or several times.
pub fn is_rehearsal(dry_run: &[String], kind: &str) -> Result<bool, Fault> {
    if dry_run.iter().all(|run| run == "All") {
        return Ok(!dry_run.is_empty());
    }
    let problem = Problem::new(&Path::new("dryRun"), Reason::NotSupported, Some(json!(dry_run)), "supported values: \"All\"");
    Err(wrong(kind, &[problem]))
}

pub fn wrong(kind: &str, problems: &[Problem]) -> Fault {
    Status::invalid_of("meta.k8s.io", kind, "", problems).into()
}
