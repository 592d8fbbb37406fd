//! Stock kubectl as people type it: the oldest that is here, 1.31 and the newest, each on every carrier that it speaks.

use crate::bed::{MASTER, Said, place};
use coracle_tests::stock::kubectls;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

static GOING: AtomicU32 = AtomicU32::new(0);

/// Longer than anything here takes, and than all patience: what hangs is ended by it.
const COMMAND_S_MAX: &str = "120";
/// The first that forwards ports over WebSocket.
const PORTS_OVER_WEBSOCKET: u32 = 31;
/// The first that runs commands over WebSocket.
const COMMANDS_OVER_WEBSOCKET: u32 = 30;

pub struct Client {
    path: PathBuf,
    minor: u32,
    spdy: bool,
}

pub fn clients() -> Vec<Client> {
    let found = kubectls().expect("a kubectl");
    let (oldest, newest) = (found[0].minor, found[found.len() - 1].minor);
    let of_interest = |minor: u32| [oldest, PORTS_OVER_WEBSOCKET, newest].contains(&minor);
    let chosen = found.into_iter().filter(|kubectl| of_interest(kubectl.minor));
    let both = chosen.flat_map(|kubectl| {
        let carriers = if kubectl.minor >= COMMANDS_OVER_WEBSOCKET { &[false, true][..] } else { &[true] };
        carriers.iter().map(move |spdy| Client { path: kubectl.path.clone(), minor: kubectl.minor, spdy: *spdy })
    });
    both.collect()
}

pub fn newest() -> Client {
    let newest = kubectls().expect("a kubectl").pop().expect("one");
    Client { path: newest.path, minor: newest.minor, spdy: false }
}

impl Client {
    pub fn name(&self) -> String {
        format!("kubectl 1.{} over {}", self.minor, if self.spdy { "SPDY" } else { "WebSocket" })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A word for names of objects and files.
    pub fn word(&self) -> String {
        format!("{}-{}", self.minor, if self.spdy { "spdy" } else { "ws" })
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "5", COMMAND_S_MAX]).arg(&self.path).args(["-s", &format!("http://{MASTER}")]);
        command.arg("--cache-dir").arg(place().join("kubectl")).args(arguments);
        self.environment(&mut command);
        command
    }

    fn environment(&self, command: &mut Command) {
        let carrier = if self.spdy { "false" } else { "true" };
        command.env("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", carrier).env("KUBECTL_PORT_FORWARD_WEBSOCKETS", carrier);
        command.env_remove("KUBECONFIG").env("HOME", place());
    }

    /// To its end; `input` is all that it gets to read.
    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Said {
        Said::of(&mut self.command(arguments), input)
    }

    /// What it prints, where it succeeds.
    pub fn must(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments, b"");
        assert_eq!(said.code, 0, "{} {arguments:?}: {said:?}", self.name());
        said.text()
    }

    /// At a terminal of 31 lines and 97 columns, where `typed` is typed.
    pub fn at_terminal(&self, arguments: &[&str], typed: &str) -> Said {
        let quoted = |word: &&str| format!("'{}'", word.replace('\'', r"'\''"));
        let words: Vec<String> = arguments.iter().map(quoted).collect();
        let cache = place().join("kubectl");
        let kubectl = format!("{} -s http://{MASTER} --cache-dir {}", self.path.display(), cache.display());
        let line = format!(
            "stty cols 97 rows 31; exec timeout --foreground -k 5 {COMMAND_S_MAX} {kubectl} {}",
            words.join(" ")
        );
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.environment(&mut command);
        let mut child = command.spawn().expect("script starts (apt-get install bsdutils)");
        // Whoever sits there stays until the end.
        let mut stdin: ChildStdin = child.stdin.take().expect("it is piped");
        stdin.write_all(typed.as_bytes()).expect("it is typed");
        let output = child.wait_with_output().expect("script ends");
        drop(stdin);
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        Said { code: output.status.code().unwrap_or(-1), out: output.stdout, err }
    }
}

/// A command that goes on until this is dropped.
pub struct Going {
    child: Child,
    lines: BufReader<ChildStdout>,
    errors: PathBuf,
    /// Its input, until it is taken.
    pub input: Option<ChildStdin>,
}

impl Going {
    pub fn start(client: &Client, arguments: &[&str]) -> Going {
        // Nothing is around it: the process that is killed is kubectl itself.
        let mut command = Command::new(&client.path);
        command.args(["-s", &format!("http://{MASTER}"), "--cache-dir"]).arg(place().join("kubectl")).args(arguments);
        client.environment(&mut command);
        let errors = place().join(format!("errors-{}", GOING.fetch_add(1, Ordering::Relaxed)));
        let file = File::create(&errors).expect("a file for its errors");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file).spawn().expect("kubectl starts");
        let (lines, input) = (BufReader::new(child.stdout.take().expect("it is piped")), child.stdin.take());
        Going { child, lines, errors, input }
    }

    /// The next that it prints; empty at its end.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("its output is text");
        line
    }

    /// What it has complained of so far.
    pub fn errors(&self) -> String {
        std::fs::read_to_string(&self.errors).expect("the file is there")
    }

    /// The number of the port that `port-forward` listens to.
    pub fn port(&mut self) -> u16 {
        let line = self.line();
        let port =
            line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("port-forward says no port: {line:?}"))
    }

    /// Its exit code, once it has ended.
    pub fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().expect("it is our child").map(|status| status.code().unwrap_or(-1))
    }

    /// Without a chance to say goodbye.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.end();
    }
}
