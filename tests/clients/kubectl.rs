//! Every kubectl that is found, through every script, each on a master of its own.

use crate::bed::Bed;
use crate::script::{Script, minor, parse};
use crate::{Verdict, run as runner};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{env, fs, thread};

pub struct Kubectl {
    path: PathBuf,
    minor: u32,
}

pub fn run(wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Verdict>, String> {
    let scripts = scripts("kubectl")?;
    let kubectls = found()?;
    let pairs: Vec<(&Kubectl, &Script)> = kubectls.iter().flat_map(|k| scripts.iter().map(move |s| (k, s))).collect();
    let pairs: Vec<(&Kubectl, &Script)> = pairs.into_iter().filter(|(k, s)| wanted(&name(k, s))).collect();
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((kubectl, script)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let verdict = one(kubectl, script);
                    let word = if verdict.wrong.is_empty() { "ok" } else { "FAILED" };
                    println!("test {} ... {word} ({} s)", verdict.name, begun.elapsed().as_secs());
                    verdicts.lock().expect("no test panics with it").push(verdict);
                }
            });
        }
    });
    Ok(verdicts.into_inner().expect("no test panics with it"))
}

fn name(kubectl: &Kubectl, script: &Script) -> String {
    format!("kubectl-1.{}/{}", kubectl.minor, script.name)
}

fn one(kubectl: &Kubectl, script: &Script) -> Verdict {
    let mut verdict = Verdict { name: name(kubectl, script), wrong: Vec::new(), notes: Vec::new() };
    let prepared = Bed::start(&verdict.name).and_then(|bed| {
        let bin = bed.tool("kubectl", &kubectl.path)?;
        configure(&bed)?;
        Ok((bed, bin))
    });
    match prepared {
        Ok((bed, bin)) => {
            runner::run(&bed, &bin, kubectl.minor, script, &mut verdict);
            if !verdict.wrong.is_empty() {
                verdict.wrong.push(format!("the master's log:\n{}", bed.log()));
            }
        }
        Err(why) => verdict.wrong.push(why),
    }
    verdict
}

/// What every client of Go reads: where the master is.
pub fn configure(bed: &Bed) -> Result<(), String> {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n- name: here\n  context: {{cluster: here, user: here, namespace: default}}\n\
         clusters:\n- name: here\n  cluster: {{server: '{}'}}\nusers:\n- name: here\n  user: {{}}\n",
        bed.url()
    );
    fs::write(bed.folder.join("kubeconfig"), text).map_err(|e| format!("{}/kubeconfig: {e}", bed.folder.display()))
}

/// All scripts of a client.
pub fn scripts(client: &str) -> Result<Vec<Script>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/clients").join(client);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?.flatten().map(|e| e.path()).collect();
    files.sort();
    let mut scripts = Vec::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "txt")) {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        scripts.push(parse(&file.file_stem().unwrap_or_default().to_string_lossy(), &text)?);
    }
    Ok(scripts)
}

/// CORACLE_KUBECTL, or what PATH leads to and what lies beside that under names like kubectl.1.30; newest last, one a version.
fn found() -> Result<Vec<Kubectl>, String> {
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
    if kubectls.is_empty() { Err("no kubectl is found; run packaging/prerequisites.sh test".to_owned()) } else { Ok(kubectls) }
}

/// Several versions are installed as siblings (kubectl.1.27, kubectl.1.28); then plain kubectl only chooses among them.
fn beside() -> Vec<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    let plain: Vec<PathBuf> = env::split_paths(&folders).filter_map(|f| f.join("kubectl").canonicalize().ok()).collect();
    let siblings = |path: &PathBuf| -> Vec<PathBuf> {
        let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
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
