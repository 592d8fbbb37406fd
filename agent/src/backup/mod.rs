//! `coracle-agent backup DIR` and `restore DIR`: objects, files and the data of volumes of this host, in one directory.
//!
//!     offered PURE    what the running agent tells of its pods · asked PURE: annotations -> plan PURE
//!     make            the backup · hook: runs in a pod · archive: by tar, told PURE · place: renamed when complete
//!     contents PURE   backup.json · restore: back on a bare host · fits PURE: whether it may begin

mod archive;
mod asked;
mod contents;
mod fits;
mod hook;
mod make;
pub mod offered;
pub mod options;
mod place;
mod plan;
mod restore;
mod surroundings;
mod told;

use std::path::Path;

use serde_json::json;

use crate::command::report::Report;
use crate::config::Config;
use contents::{Contents, Kind, size};
use options::Options;

pub async fn backup(config: &Config, dir: &Path, options: &Options) -> Result<Report, String> {
    let (name, contents) = make::make(config, dir, options).await?;
    let mut lines = vec![format!("{}: {}", name.display(), summary(&contents))];
    lines.extend(contents.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(contents.missing.iter().map(|what| format!("not in it: {what}")));
    if !contents.missing.is_empty() {
        lines.push(format!("this backup is not whole; {} is as it was", dir.display()));
    }
    let document = json!({"directory": name.display().to_string(), "backup": contents});
    Ok(Report { lines, well: contents.missing.is_empty(), document })
}

pub async fn restore(config: &Config, dir: &Path, options: &Options) -> Result<Report, String> {
    let (contents, done) = restore::restore(config, dir, options).await?;
    let mut lines = done;
    lines.extend(contents.missing.iter().map(|what| format!("was not in the backup: {what}")));
    lines.extend(contents.left_out.iter().map(|path| format!("was left out of the backup: {path}")));
    lines.push("start the programs: systemctl start coracle-master coracle-agent".to_owned());
    let document = json!({"directory": dir.display().to_string(), "backup": contents, "done": lines});
    Ok(Report { lines, well: contents.missing.is_empty(), document })
}

fn summary(contents: &Contents) -> String {
    let volumes = contents.parts.iter().filter(|part| part.kind == Kind::Volume).count();
    let bytes = contents.parts.iter().map(|part| part.bytes).sum();
    let has = |kind| contents.parts.iter().any(|part| part.kind == kind);
    let mut what = Vec::new();
    what.extend(has(Kind::Objects).then(|| "the objects of the API".to_owned()));
    what.extend(has(Kind::Files).then(|| "the files".to_owned()));
    what.push(format!("{volumes} volume{}", if volumes == 1 { "" } else { "s" }));
    format!("{}, {}", what.join(", "), size(bytes))
}
