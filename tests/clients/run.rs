//! Runs one script on one bed, and collects what is not as it says: a step that fails does not stop the rest.

use crate::Verdict;
use crate::bed::{Bed, LOOK_AGAIN, PATIENCE};
use crate::script::{Act, Script, Step};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Longer than anything here takes; a command that hangs is ended by it, and one in the background if this test is
/// killed.
const COMMAND_S_MAX: &str = "60";
const BACKGROUND_S_MAX: &str = "600";
/// What scripts may use beside the client: a status as an agent would report it, and any other request.
const WORDS: &str = r#"
status() { curl -sSf -X PATCH -H 'Content-Type: application/merge-patch+json' -d "$2" -o /dev/null "$MASTER$1/status"; }
send() { curl -sS -X "$1" -H 'Content-Type: application/json' -d "$3" "$MASTER$2"; }
"#;

pub struct Running<'a> {
    bed: &'a Bed,
    path: String,
    version: u32,
    started: BTreeMap<String, (Child, PathBuf)>,
}

/// `bin` stands first in PATH; steps for other versions than `version` are left out.
pub fn run(bed: &Bed, bin: &Path, version: u32, script: &Script, verdict: &mut Verdict) {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    fs::create_dir_all(bed.folder.join("work")).expect("a folder to work in");
    let mut running = Running { bed, path, version, started: BTreeMap::new() };
    for step in script.steps.iter().filter(|step| (step.since..step.before).contains(&version)) {
        running.step(step, script, verdict);
    }
}

impl Running<'_> {
    fn step(&mut self, step: &Step, script: &Script, verdict: &mut Verdict) {
        let place = format!("{}.txt:{}", script.name, step.line);
        match &step.act {
            Act::File { name, text } => {
                fs::write(self.bed.folder.join("work").join(name), text).expect("a file of the script")
            }
            Act::Run(command) => {
                let (wrong, printed) = self.until(step, || self.printed(command));
                match (&step.later, wrong.is_empty()) {
                    (Some(why), true) => verdict.notes.push(format!("{place}: works now, turn it on ({why})")),
                    (Some(why), false) => verdict.notes.push(format!("{place}: waits: {why}")),
                    (None, true) => {}
                    (None, false) => verdict.wrong.push(format!(
                        "{place}: $ {command}\n    {}\n{}",
                        wrong.join("\n    "),
                        indented(&printed)
                    )),
                }
            }
            Act::Start { name, command } => {
                let output = self.bed.folder.join(format!("{name}.out"));
                let file = fs::File::create(&output).expect("a file for its output");
                let mut shell = self.shell(command, BACKGROUND_S_MAX);
                let child = shell.stdout(file.try_clone().expect("a file")).stderr(file).spawn().expect("sh is there");
                self.started.insert(name.clone(), (child, output));
            }
            Act::Seen { name, text } => {
                let Some((_, output)) = self.started.get(name) else {
                    verdict.wrong.push(format!("{place}: nothing was started as {name}"));
                    return;
                };
                let begun = Instant::now();
                let read = || fs::read_to_string(output).unwrap_or_default();
                let blanks = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
                while !blanks(&read()).contains(&blanks(text)) {
                    if begun.elapsed() > PATIENCE {
                        verdict.wrong.push(format!("{place}: {name} never printed: {text}\n{}", indented(&read())));
                        return;
                    }
                    std::thread::sleep(LOOK_AGAIN);
                }
            }
        }
    }

    /// Once, or until nothing is wrong where the script says so.
    fn until(&self, step: &Step, once: impl Fn() -> (i32, String)) -> (Vec<String>, String) {
        let begun = Instant::now();
        loop {
            let (code, printed) = once();
            let wrong = step.judge(code, &printed);
            // What is not built yet is not waited for.
            if wrong.is_empty() || !step.eventually || step.later.is_some() || begun.elapsed() > PATIENCE {
                return (wrong, printed);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn printed(&self, command: &str) -> (i32, String) {
        let output = self.shell(command, COMMAND_S_MAX).output().expect("sh is there");
        let (answer, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let between = if answer.is_empty() || answer.ends_with('\n') { "" } else { "\n" };
        (output.status.code().unwrap_or(-1), format!("{answer}{between}{said}"))
    }

    fn shell(&self, command: &str, limit_s: &str) -> Command {
        let folder = &self.bed.folder;
        let mut shell = Command::new("timeout");
        shell
            .args([limit_s, "sh", "-c", &format!("{WORDS}{command}")])
            .current_dir(folder.join("work"))
            .stdin(Stdio::null());
        // Nothing of who runs the test reaches the client: no configuration, cache, proxy or language.
        shell.env_clear().env("PATH", &self.path).env("HOME", folder).env("KUBECONFIG", folder.join("kubeconfig"));
        shell.env("MASTER", self.bed.url()).env("KUBECTL_MINOR", self.version.to_string()).env("TZ", "UTC");
        shell
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        for (child, _) in self.started.values_mut() {
            // `timeout` hands the signal on to what it runs.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

fn indented(printed: &str) -> String {
    let lines: Vec<String> = printed.lines().take(40).map(|line| format!("      | {line}")).collect();
    lines.join("\n")
}
