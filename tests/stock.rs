//! Stock clients that are installed here, for the tests that drive them: every kubectl, helm, and a Python with
//! `kubernetes`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Kubectl {
    pub path: PathBuf,
    pub minor: u32,
}

/// CORACLE_KUBECTL, or what PATH leads to and what lies beside that under names like kubectl.1.30; newest last, one a
/// version.
pub fn kubectls() -> Result<Vec<Kubectl>, String> {
    let paths: Vec<PathBuf> = match env::var("CORACLE_KUBECTL") {
        Ok(named) => named.split_whitespace().map(PathBuf::from).collect(),
        Err(_) => beside(),
    };
    let mut kubectls = Vec::new();
    for path in paths {
        let minor = version(&path).ok_or_else(|| format!("{}: does not tell its version", path.display()))?;
        kubectls.push(Kubectl { path, minor });
    }
    kubectls.sort_by_key(|k| k.minor);
    kubectls.dedup_by_key(|k| k.minor);
    if kubectls.is_empty() {
        Err("no kubectl is found; run packaging/prerequisites.sh test".to_owned())
    } else {
        Ok(kubectls)
    }
}

/// Several versions are installed as siblings (kubectl.1.27, kubectl.1.28); then plain kubectl only chooses among them.
fn beside() -> Vec<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let plain: Vec<PathBuf> =
        env::split_paths(&folders).filter_map(|f| f.join("kubectl").canonicalize().ok()).collect();
    let siblings = |path: &PathBuf| -> Vec<PathBuf> {
        let entries = path.parent().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().to_string_lossy().starts_with("kubectl.1.")).map(|e| e.path()).collect()
    };
    let siblings: Vec<PathBuf> = plain.iter().flat_map(siblings).collect();
    if siblings.is_empty() { plain } else { siblings }
}

fn version(kubectl: &Path) -> Option<u32> {
    let output = Command::new(kubectl).args(["version", "--client", "-o", "json"]).output().ok()?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    minor(answer["clientVersion"]["gitVersion"].as_str()?)
}

/// `1.24` or `v1.24.3` -> 24.
pub fn minor(version: &str) -> Option<u32> {
    let rest = version.trim().trim_start_matches('v').strip_prefix("1.")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// CORACLE_HELM names some, or what PATH leads to; Debian has none, and nobody is asked to install it.
pub fn helms() -> Vec<PathBuf> {
    if let Ok(named) = env::var("CORACLE_HELM") {
        return named.split_whitespace().map(PathBuf::from).collect();
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join("helm")).find(|path| path.is_file()).into_iter().collect()
}

/// CORACLE_PYTHON, or the first that has the client: Debian's package belongs to Debian's own interpreter.
pub fn python() -> Result<PathBuf, String> {
    let named = std::env::var_os("CORACLE_PYTHON").map(PathBuf::from);
    let candidates = [PathBuf::from("/usr/bin/python3"), PathBuf::from("python3")];
    let candidates = named.map_or(candidates.to_vec(), |python| vec![python]);
    let has_client = |python: &&PathBuf| {
        Command::new(python).args(["-c", "import kubernetes"]).output().is_ok_and(|o| o.status.success())
    };
    let found = candidates.iter().find(has_client).cloned();
    found.ok_or_else(|| "no Python has the package kubernetes; run packaging/prerequisites.sh test".to_owned())
}
