//! `backup.json`: what a backup holds. It is written last, so a directory without it is no whole backup. PURE.

use serde::{Deserialize, Serialize};

/// The form that this program writes.
pub const FORM: u32 = 1;
pub const NAME: &str = "backup.json";
pub const OBJECTS: &str = "objects.jsonl";
/// Bytes of backup.json, whose parts have a few hundred each.
pub const BYTES_MAX: u64 = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    pub form: u32,
    /// The version of the program at the time of the backup.
    pub version: String,
    pub host: String,
    pub node: String,
    pub began: String,
    pub ended: String,
    /// The agent's own directory, below which claims of files lie.
    pub data_dir: String,
    pub parts: Vec<Part>,
    /// What was asked for and is not in it.
    pub missing: Vec<String>,
    pub notes: Vec<String>,
    /// Files that were left out on purpose.
    pub left_out: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// What the master's own backup writes.
    Objects,
    /// The directory of the configuration and of manifests.
    #[default]
    Files,
    /// Files of the agent whose content is known nowhere else.
    Facts,
    Volume,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Part {
    pub kind: Kind,
    /// In words.
    pub of: String,
    /// Within the backup.
    pub file: String,
    /// The directory that an archive is of. Empty: it is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub directory: String,
    pub bytes: u64,
    pub sha256: String,
    /// When it was complete.
    pub time: String,
    /// Files that changed while they were read, sockets that were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Reads backup.json, and refuses what would write outside of the directories that it names.
pub fn read(text: &[u8]) -> Result<Contents, String> {
    let contents: Contents = serde_json::from_slice(text).map_err(|error| format!("{NAME}: {error}"))?;
    if contents.form > FORM {
        return Err(format!("{NAME}: a newer program wrote it (form {}); upgrade this one", contents.form));
    }
    for part in &contents.parts {
        let inside = |path: &str| !path.is_empty() && path.split('/').all(|step| !matches!(step, "" | "." | ".."));
        let absolute = |path: &str| path.strip_prefix('/').is_some_and(inside);
        if !inside(&part.file) {
            return Err(format!("{NAME}: {:?} is no file of the backup", part.file));
        }
        if part.kind != Kind::Objects && !absolute(&part.directory) {
            return Err(format!("{NAME}: {:?} is no directory to restore {} to", part.directory, part.of));
        }
    }
    Ok(contents)
}

/// `14.2 MiB`.
pub fn size(bytes: u64) -> String {
    let (mut value, mut units) = (bytes as f64, ["B", "KiB", "MiB", "GiB"].iter());
    let mut unit = units.next().copied().unwrap_or_default();
    for next in units {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, *next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let part =
            Part { kind: Kind::Volume, file: "volumes/a.tar".into(), directory: "/v/a".into(), ..Part::default() };
        let written = |part: &Part, form| {
            let contents = Contents { form, parts: vec![part.clone()], ..Contents::default() };
            (serde_json::to_vec(&contents).unwrap(), contents)
        };
        let (text, contents) = written(&part, FORM);
        assert_eq!(read(&text), Ok(contents));
        let refused = |part: Part, form, word: &str| {
            let why = read(&written(&part, form).0).unwrap_err();
            assert!(why.contains(word), "{why}");
        };
        refused(part.clone(), FORM + 1, "upgrade this one");
        for file in ["", "/etc/passwd", "../x", "a/../../x", "a//b"] {
            refused(Part { file: file.into(), ..part.clone() }, FORM, "is no file of the backup");
        }
        for directory in ["", "v", "/", "/v/../etc", "/v/"] {
            refused(Part { directory: directory.into(), ..part.clone() }, FORM, "is no directory to restore");
        }
        let objects = Part { kind: Kind::Objects, file: OBJECTS.into(), ..Part::default() };
        assert!(read(&written(&objects, FORM).0).is_ok());
        assert!(read(b"{}").is_err() && read(b"").is_err());
    }

    #[test]
    fn sizes() {
        for (bytes, expected) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (14 << 20, "14.0 MiB"), (5 << 40, "5120.0 GiB")]
        {
            assert_eq!(size(bytes), expected);
        }
    }
}
