//! What a test stands on: an engine of its own, and a master and an agent that it may start, kill and look at.

pub use crate::engine::{Engine, place, run};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing that is awaited here takes longer unless it is broken; how long it takes is never judged.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
pub const MASTER: &str = "127.0.0.1:8080";
pub const AGENT: &str = "127.0.0.1:10250";

/// What came of a program.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Said {
    /// `input` is all that it gets to read.
    pub fn of(command: &mut Command, input: &[u8]) -> Said {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut stdin = child.stdin.take().expect("it is piped");
        let input = input.to_vec();
        // What a program does not read is lost.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("it ends");
        writer.join().expect("it writes");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        Said { code: output.status.code().unwrap_or(-1), out: output.stdout, err }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }
}

pub struct Bed<'a> {
    pub engine: &'a Engine,
    folder: PathBuf,
    master: Option<Child>,
    agent: Option<Child>,
}

impl<'a> Bed<'a> {
    pub fn new(engine: &'a Engine, test: &str) -> Bed<'a> {
        let folder = engine.folder.join("beds").join(test);
        // Both make their own, which nobody else may enter.
        fs::create_dir_all(folder.join("manifests")).expect("a folder for the test");
        Bed { engine, folder, master: None, agent: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns at once; `start_master` waits until it answers.
    pub fn spawn_master(&mut self) {
        self.spawn_master_with(&[]);
    }

    /// `flags` after the usual ones.
    pub fn spawn_master_with(&mut self, flags: &[&str]) {
        self.spawn_master_in(flags, &[]);
    }

    /// With these variables in its environment.
    pub fn spawn_master_in(&mut self, flags: &[&str], environment: &[(&str, &str)]) {
        let (data, socket) = (self.path("master"), self.path("run/api.sock"));
        let mut command = program("coracle-master");
        command.arg("--data-dir").arg(data).arg("--admin-socket").arg(socket).args(["--listen", MASTER]);
        command.arg("--agent-sockets").arg(self.path("sockets")).args(flags).envs(environment.iter().copied());
        self.master = Some(self.launch(&mut command, "master"));
    }

    pub fn start_master(&mut self) {
        self.start_master_with(&[]);
    }

    pub fn start_master_with(&mut self, flags: &[&str]) {
        self.spawn_master_with(flags);
        self.until_master_answers();
    }

    pub fn until_master_answers(&self) {
        self.until("the master answers", |bed| bed.try_get(&format!("http://{MASTER}/healthz")).ok());
    }

    /// `flags` after the usual ones.
    pub fn start_agent_with(&mut self, flags: &[&str]) {
        let mut command = program("coracle-agent");
        command.arg("--data-dir").arg(self.path("agent")).arg("--manifest-dir").arg(self.path("manifests"));
        command.args(["--docker-host", &self.engine.socket(), "--listen", AGENT, "--node-name", "n1"]);
        // The disk of whoever runs the tests may be nearly full.
        command
            .arg("--socket-dir")
            .arg(self.path("sockets"))
            .args(["--eviction-hard", "memory.available<1Mi", "--external-ips", "192.0.2.64/26"])
            .args(flags);
        if let Ok(owner) = std::env::var("CORACLE_POD_NETWORK")
            && !flags.contains(&"--pod-network")
        {
            command.args(["--pod-network", &owner]);
        }
        self.agent = Some(self.launch(&mut command, "agent"));
        self.until("the agent answers", |bed| bed.ask_agent("/pods").ok());
    }

    /// An agent that follows the bed's master over its local socket.
    pub fn start_agent(&mut self) {
        let master = format!("unix://{}", self.path("run/api.sock").display());
        self.start_agent_with(&["--master", &master]);
    }

    pub fn start(&mut self) {
        self.start_master();
        self.start_agent();
    }

    fn launch(&self, command: &mut Command, name: &str) -> Child {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path(&format!("{name}.log")))
            .expect("a log file");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log file")).stderr(log);
        command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"))
    }

    pub fn master_pid(&self) -> u32 {
        self.master.as_ref().expect("the master was started").id()
    }

    pub fn agent_pid(&self) -> u32 {
        self.agent.as_ref().expect("the agent was started").id()
    }

    pub fn kill_master(&mut self) {
        kill(&mut self.master, "KILL");
    }

    pub fn kill_agent(&mut self) {
        kill(&mut self.agent, "KILL");
    }

    pub fn stop_master(&mut self) {
        kill(&mut self.master, "TERM");
    }

    pub fn stop_agent(&mut self) {
        kill(&mut self.agent, "TERM");
    }

    /// Writes a manifest file as an editor does: under another name, then renamed.
    pub fn drop_manifest(&self, name: &str, text: &str) {
        let hidden = self.path(&format!("manifests/.{name}"));
        fs::write(&hidden, text).expect("a manifest file");
        fs::rename(hidden, self.path(&format!("manifests/{name}"))).expect("a manifest file");
    }

    pub fn remove_manifest(&self, name: &str) {
        fs::remove_file(self.path(&format!("manifests/{name}"))).expect("the manifest file was there");
    }

    /// Looks until there is an answer; what it waited for, and the logs, are in the failure.
    pub fn until<T>(&self, what: &str, mut look: impl FnMut(&Bed) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "waited {PATIENCE:?} for: {what}");
            // A program that ended by itself will bring nothing more.
            for (name, child) in [("master", &self.master), ("agent", &self.agent)] {
                let gone =
                    child.as_ref().is_some_and(|child| !Path::new(&format!("/proc/{}/exe", child.id())).exists());
                assert!(!gone, "coracle-{name} ended while waiting for: {what}");
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    pub fn try_get(&self, url: &str) -> Result<String, String> {
        run(Command::new("curl").args(["-sSf", "-m", "5", url]))
    }

    /// Over the agent's socket.
    pub fn ask_agent(&self, path: &str) -> Result<String, String> {
        let socket = self.path("sockets/n1.sock");
        run(Command::new("curl")
            .args(["-sSf", "-m", "5", "--unix-socket"])
            .arg(socket)
            .arg(format!("http://localhost{path}")))
    }

    /// What the agent's own program is told by the agent that runs.
    pub fn ask_program(&self, arguments: &[&str], input: &[u8]) -> Said {
        let mut command = Command::new("timeout");
        command.arg("60").arg(program("coracle-agent").get_program()).arg(arguments[0]);
        command.arg("--socket-dir").arg(self.path("sockets")).args(["--node-name", "n1"]).args(&arguments[1..]);
        Said::of(&mut command, input)
    }

    /// The same, which goes on beside the test.
    pub fn launch_program(&self, arguments: &[&str]) -> Child {
        let mut command = program("coracle-agent");
        command.arg(arguments[0]).arg("--socket-dir").arg(self.path("sockets")).args(["--node-name", "n1"]);
        self.launch(command.args(&arguments[1..]), "agent")
    }

    /// The agent's program under its other name.
    pub fn coracle(&self, arguments: &[&str]) -> Said {
        let link = self.path("coracle");
        if !link.exists() {
            std::os::unix::fs::symlink(program("coracle-agent").get_program(), &link).expect("a link");
        }
        let mut command = Command::new("timeout");
        command.arg("120").arg(link).arg(arguments[0]);
        command.arg("--socket-dir").arg(self.path("sockets")).args(["--node-name", "n1"]);
        command.arg("--master").arg(format!("unix://{}", self.path("run/api.sock").display()));
        if arguments[0] == "status" {
            command.arg("--manifest-dir").arg(self.path("manifests"));
        }
        Said::of(command.args(&arguments[1..]), &[])
    }

    /// What a command of the master's program says about the bed's master.
    pub fn ask_master(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new("timeout");
        command.arg("60").arg(program("coracle-master").get_program()).args(arguments);
        command.arg("--data-dir").arg(self.path("master"));
        command.arg("--admin-socket").arg(self.path("run/api.sock"));
        Said::of(&mut command, &[])
    }

    pub fn get(&self, path: &str) -> Value {
        let text = self.try_get(&format!("http://{MASTER}{path}")).unwrap_or_else(|e| panic!("GET {path}: {e}"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("GET {path}: {e}: {text}"))
    }

    /// The status code and the body, whatever they are.
    pub fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let url = format!("http://{MASTER}{path}");
        let mut command = Command::new("curl");
        command.args([
            "-sS",
            "-m",
            "10",
            "-H",
            "Content-Type: application/json",
            "-X",
            method,
            "-w",
            "\n%{http_code}",
            "--data-binary",
            body,
            &url,
        ]);
        let text = run(&mut command).unwrap_or_else(|e| panic!("{method} {path}: {e}"));
        let (body, code) = text.rsplit_once('\n').expect("curl prints the code last");
        (code.parse().expect("a status code"), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    pub fn post(&self, path: &str, body: &str) -> Value {
        let (code, answer) = self.send("POST", path, body);
        assert!((200..300).contains(&code), "POST {path}: {code} {answer}");
        answer
    }

    /// The pods that the agent itself reports, by name.
    pub fn agent_pods(&self) -> Vec<Value> {
        let text = self.ask_agent("/pods").unwrap_or_default();
        let list: Value = serde_json::from_str(&text).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub fn docker(&self, arguments: &[&str]) -> String {
        self.engine.docker(arguments).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Ids of the running containers of that name, of any pod.
    pub fn running_of(&self, container: &str) -> Vec<String> {
        let filter = format!("label=io.kubernetes.container.name={container}");
        let listed = self.engine.docker(&["ps", "-q", "--no-trunc", "--filter", &filter]).unwrap_or_default();
        listed.lines().map(str::to_owned).collect()
    }

    /// What a shell line prints inside a container, if it succeeds.
    pub fn exec(&self, id: &str, line: &str) -> Result<String, String> {
        self.engine.docker(&["exec", id, "sh", "-c", line])
    }

    /// The pod that the agent reports under this name, or this and its node's.
    pub fn pod_like(&self, name: &str) -> Option<Value> {
        let full = format!("{name}-n1");
        self.agent_pods().into_iter().find(|p| p["metadata"]["name"] == name || p["metadata"]["name"] == full.as_str())
    }

    pub fn ready(&self, pod: &str) -> Option<bool> {
        let pod = self.pod_like(pod)?;
        let conditions = pod["status"]["conditions"].as_array()?;
        conditions.iter().find(|c| c["type"] == "Ready").map(|c| c["status"] == "True")
    }

    /// Status code and text of /healthz; 0 where nobody answers.
    pub fn health(&self, address: &str) -> (u16, String) {
        let text = run(Command::new("curl").args([
            "-sS",
            "-m",
            "5",
            "-w",
            "\n%{http_code}",
            &format!("http://{address}/healthz"),
        ]));
        let text = text.unwrap_or_default();
        let (body, code) = text.rsplit_once('\n').unwrap_or_default();
        (code.parse().unwrap_or_default(), body.to_owned())
    }

    /// What the engine calls the network that the pods are on.
    pub fn pod_network(&self) -> String {
        let sandbox = self.running_of("POD").pop().expect("a pod runs");
        match self.docker(&["inspect", "-f", "{{.HostConfig.NetworkMode}}", &sandbox]).trim() {
            // The agent's own, of which the engine knows nothing.
            "none" => format!("container:{sandbox}"),
            name => name.to_owned(),
        }
    }

    /// Another agent on the same engine: its exit code, and what it says.
    pub fn second_agent(&self) -> (Option<i32>, String) {
        let mut command = Command::new("timeout");
        command.arg("20").arg(program("coracle-agent").get_program());
        command.arg("--data-dir").arg(self.path("second")).arg("--manifest-dir").arg(self.path("manifests"));
        command.args(["--docker-host", &self.engine.socket(), "--listen", "127.0.0.1:10260", "--node-name", "n2"]);
        command.arg("--socket-dir").arg(self.path("sockets"));
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default()
    }

    pub fn logs(&self) -> String {
        let last = |name: &str| {
            let text = self.log(name);
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(40)..].join("\n")
        };
        format!("--- master\n{}\n--- agent\n{}", last("master"), last("agent"))
    }

    /// Nothing of this test stays on the engine, nor in the kernel.
    pub fn clean(mut self) {
        kill(&mut self.agent, "KILL");
        kill(&mut self.master, "KILL");
        self.engine.signal("CONT");
        self.until("an engine without containers", |bed| {
            let ids = bed.engine.docker(&["ps", "-aq"]).ok()?;
            let ids: Vec<&str> = ids.lines().collect();
            // The engine may be removing some already, as the agent had asked.
            (ids.is_empty() || bed.engine.docker(&[&["rm", "-f", "-v"][..], &ids[..]].concat()).is_ok()).then_some(())
        });
        let _ = self.engine.docker(&["network", "rm", "coracle"]);
        for (family, table) in
            [("ip", "coracle"), ("ip", "coracle_pods"), ("bridge", "coracle_pods"), ("netdev", "coracle_pods")]
        {
            let _ = run(Command::new("nft").args(["delete", "table", family, table]));
        }
        let _ = run(Command::new("ip").args(["link", "delete", "coracle0"]));
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The release binaries, as a user runs them; CORACLE_BINARIES names another folder of them.
fn program(name: &str) -> Command {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let release = std::env::var_os("CARGO_TARGET_DIR").map_or(target, PathBuf::from).join("release");
    let path = std::env::var_os("CORACLE_BINARIES").map_or(release, PathBuf::from).join(name);
    assert!(path.exists(), "{} is missing; run `make e2e`", path.display());
    Command::new(path)
}

fn kill(child: &mut Option<Child>, signal: &str) {
    if let Some(mut child) = child.take() {
        let _ = run(Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]));
        let _ = child.wait();
    }
}

/// A test that failed half-way leaves no program behind.
impl Drop for Bed<'_> {
    fn drop(&mut self) {
        kill(&mut self.agent, "KILL");
        kill(&mut self.master, "KILL");
    }
}

/// Whether a file of that name lies anywhere below.
pub fn find(folder: &Path, name: &str) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| entry.file_name() == name || (entry.path().is_dir() && find(&entry.path(), name)))
}
