//! Every kubectl that is found, through every script, each on a master of its own.

use crate::bed::Bed;
use crate::script::{Script, parse};
use crate::{Verdict, run as runner};
use coracle_tests::stock::{Kubectl, kubectls};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use std::{fs, thread};

pub fn run(wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Verdict>, String> {
    let scripts = scripts("kubectl")?;
    let kubectls = kubectls()?;
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
        "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts:\n\
         - name: here\n  context: {{cluster: here, user: here, namespace: default}}\nclusters:\n\
         - name: here\n  cluster: {{server: '{}'}}\nusers:\n- name: here\n  user: {{}}\n",
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
