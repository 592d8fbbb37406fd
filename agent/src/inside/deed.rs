//! PURE. Turns the command line of `exec`, `logs` and `restart` into requests to the agent or the master, and their
//! answers into output.
//!
//!     coracle exec [OPTIONS] POD [--] COMMAND...      coracle logs [OPTIONS] POD      coracle restart [OPTIONS] POD

use std::time::Duration;

use serde_json::Value;

use super::named::{Named, encoded};

/// The annotation that names a pod's default container, as kubectl reads it.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Agent options that determine the paths of the sockets.
const OF_AGENT: [&str; 4] = ["config", "node-name", "socket-dir", "master"];
/// As long as a pod may take until it is ready again.
const PATIENCE: Duration = Duration::from_secs(300);
/// A day: a longer wait is a mistake.
const PATIENCE_MAX: Duration = Duration::from_secs(86_400);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    pub named: Named,
    pub container: Option<String>,
    pub all_containers: bool,
    pub what: DeedKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeedKind {
    Exec {
        stdin: bool,
        tty: bool,
        command: Vec<String>,
    },
    /// With what the API calls them in a query.
    Logs(Vec<(&'static str, String)>),
    /// None: nobody waits until it is over.
    Restart {
        patience: Option<Duration>,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Word {
    #[default]
    Exec,
    Logs,
    Restart,
}

/// An existing container of a pod, by the agent's names.
#[derive(Debug, PartialEq, Eq)]
pub struct PodContainer {
    pub pod: String,
    pub container: String,
}

/// A command line without the program's name. None: it is none of these. The other words are those for the agent's own
/// options.
pub fn read(arguments: &[String]) -> Option<Result<(Deed, Vec<String>), String>> {
    let (word, rest) = arguments.split_first()?;
    let word = match word.as_str() {
        "exec" => Word::Exec,
        "logs" => Word::Logs,
        "restart" => Word::Restart,
        _ => return None,
    };
    Some(Words { word, ..Words::default() }.read(rest))
}

/// The part of a command line that has been parsed.
#[derive(Default)]
struct Words {
    word: Word,
    no_wait: bool,
    patience: Option<Duration>,
    namespace: Option<String>,
    container: Option<String>,
    all_containers: bool,
    stdin: bool,
    tty: bool,
    query: Vec<(&'static str, String)>,
    of_agent: Vec<String>,
}

impl Words {
    fn read(mut self, arguments: &[String]) -> Result<(Deed, Vec<String>), String> {
        let mut rest = arguments.iter();
        let (mut pod, mut command) = (None, Vec::new());
        while let Some(word) = rest.next() {
            if word == "--" {
                break;
            }
            if let Some(long) = word.strip_prefix("--") {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
                self.option(name, value, &mut || rest.next().cloned())?;
            } else if let Some(short) = word.strip_prefix('-').filter(|short| !short.is_empty()) {
                for letter in short.chars() {
                    self.option(&letter.to_string(), None, &mut || rest.next().cloned())?;
                }
            } else if pod.is_none() {
                pod = Some(word.clone());
            } else {
                // From here on every word is the command's, also one that looks like an option.
                command.push(word.clone());
                break;
            }
        }
        command.extend(rest.cloned());
        let pod = pod.ok_or("a pod's name is missing: see --help")?;
        let what = match (self.word, command.first()) {
            (Word::Exec, None) => return Err("a command is missing: exec POD -- COMMAND".to_owned()),
            (Word::Exec, Some(_)) => DeedKind::Exec { stdin: self.stdin, tty: self.tty, command },
            (_, Some(word)) => {
                return Err(format!("{word:?} stands behind the pod, of which there is one: see --help"));
            }
            (Word::Logs, None) => DeedKind::Logs(self.query),
            (Word::Restart, None) if self.no_wait && self.patience.is_some() => {
                return Err("--no-wait and --timeout do not go together".to_owned());
            }
            (Word::Restart, None) => {
                DeedKind::Restart { patience: (!self.no_wait).then(|| self.patience.unwrap_or(PATIENCE)) }
            }
        };
        if self.all_containers && self.container.is_some() {
            return Err("--container names one, and --all-containers all: they do not go together".to_owned());
        }
        let named = Named::parse(&pod, self.namespace.as_deref())?;
        Ok((Deed { named, container: self.container, all_containers: self.all_containers, what }, self.of_agent))
    }

    fn option(
        &mut self,
        name: &str,
        given: Option<String>,
        next: &mut dyn FnMut() -> Option<String>,
    ) -> Result<(), String> {
        let mut value = || given.clone().or_else(&mut *next).ok_or_else(|| format!("{name} needs a value"));
        match (self.word, name) {
            (_, "namespace" | "n") => self.namespace = Some(value()?),
            (Word::Exec | Word::Logs, "container" | "c") => self.container = Some(value()?),
            (Word::Exec, "stdin" | "i") => self.stdin = true,
            (Word::Exec, "tty" | "t") => self.tty = true,
            (Word::Logs, "follow" | "f") => self.query.push(("follow", "true".to_owned())),
            (Word::Logs, "previous" | "p") => self.query.push(("previous", "true".to_owned())),
            (Word::Logs, "all-containers") => self.all_containers = true,
            (Word::Logs, "stream") => self.query.push(("stream", stream(&value()?)?)),
            (Word::Logs, "timestamps") => self.query.push(("timestamps", "true".to_owned())),
            (Word::Logs, "tail") => self.query.push(("tailLines", number(name, &value()?)?)),
            (Word::Logs, "limit-bytes") => self.query.push(("limitBytes", number(name, &value()?)?)),
            (Word::Logs, "since") => self.query.push(("sinceSeconds", seconds(name, &value()?)?.to_string())),
            (Word::Logs, "since-time") => self.query.push(("sinceTime", value()?)),
            (Word::Restart, "no-wait") => self.no_wait = true,
            (Word::Restart, "timeout") => self.patience = Some(patience(&value()?)?),
            (_, name) if OF_AGENT.contains(&name) => self.of_agent.extend([format!("--{name}"), value()?]),
            (_, name) => {
                return Err(format!(
                    "{}{name} is no option here: see --help",
                    if name.len() == 1 { "-" } else { "--" }
                ));
            }
        }
        Ok(())
    }
}

fn number(name: &str, text: &str) -> Result<String, String> {
    text.parse::<u64>().map(|number| number.to_string()).map_err(|_| format!("--{name}: {text:?} is no number"))
}

fn stream(text: &str) -> Result<String, String> {
    let known = ["All", "Stdout", "Stderr"].into_iter().find(|known| known.eq_ignore_ascii_case(text));
    known.map(str::to_owned).ok_or_else(|| format!("--stream: {text:?} is none of stdout, stderr and all"))
}

fn patience(text: &str) -> Result<Duration, String> {
    let patience = Duration::from_secs(seconds("timeout", text)?);
    let fits = !patience.is_zero() && patience <= PATIENCE_MAX;
    if fits { Ok(patience) } else { Err(format!("--timeout: {text:?} is not between a second and a day")) }
}

/// `90s`, `5m`, `1h30m`.
fn seconds(name: &str, text: &str) -> Result<u64, String> {
    let bad = || format!("--{name}: {text:?} is no time such as 90s, 5m or 1h30m");
    let (mut sum, mut digits) = (0u64, String::new());
    for letter in text.chars() {
        let unit = match letter {
            '0'..='9' => {
                digits.push(letter);
                continue;
            }
            's' => 1,
            'm' => 60,
            'h' => 3600,
            _ => return Err(bad()),
        };
        let count: u64 = digits.parse().map_err(|_| bad())?;
        sum = count.checked_mul(unit).and_then(|part| sum.checked_add(part)).ok_or_else(bad)?;
        digits.clear();
    }
    if digits.is_empty() && !text.is_empty() { Ok(sum) } else { Err(bad()) }
}

impl Deed {
    /// Selects the containers of a pod, which is called `name`: a single container, or all in the order of start.
    pub fn places(&self, pod: &Value, name: &str) -> Vec<PodContainer> {
        let usual = || {
            let named = pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str();
            named.or_else(|| pod["spec"]["containers"][0]["name"].as_str()).unwrap_or_default().to_owned()
        };
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let all = || {
            lists
                .iter()
                .flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
                .filter_map(|one| one["name"].as_str())
        };
        let containers: Vec<String> = match &self.container {
            Some(named) => vec![named.clone()],
            None if self.all_containers => all().map(str::to_owned).collect(),
            None => vec![usual()],
        };
        containers.into_iter().map(|container| PodContainer { pod: name.to_owned(), container }).collect()
    }

    /// Its answer goes on as long as the containers run.
    pub fn follows(&self) -> bool {
        matches!(&self.what, DeedKind::Logs(query) if query.iter().any(|(name, _)| *name == "follow"))
    }

    /// The path of the request to the agent.
    pub fn target(&self, place: &PodContainer) -> String {
        let (namespace, pod) = (encoded(&self.named.namespace), encoded(&place.pod));
        let path = format!("{namespace}/{pod}/{}", encoded(&place.container));
        match &self.what {
            DeedKind::Exec { stdin, tty, command } => {
                let flags = [("input", *stdin), ("output", true), ("error", !tty), ("tty", *tty)];
                let flags = flags.into_iter().filter(|(_, is)| *is).map(|(name, _)| format!("{name}=1"));
                let words = command.iter().map(|word| format!("command={}", encoded(word)));
                format!("/exec/{path}?{}", flags.chain(words).collect::<Vec<_>>().join("&"))
            }
            DeedKind::Logs(query) => format!("/containerLogs/{path}?{}", joined(query)),
            DeedKind::Restart { .. } => format!("/restart/{namespace}/{pod}"),
        }
    }

    /// The path of the request to the master, for the log of a container on another node.
    pub fn far_log(&self, place: &PodContainer) -> String {
        let mut query = vec![("container", place.container.clone())];
        if let DeedKind::Logs(asked) = &self.what {
            query.extend(asked.iter().cloned());
        }
        let path = format!("{}/pods/{}", encoded(&self.named.namespace), encoded(&place.pod));
        format!("/api/v1/namespaces/{path}/log?{}", joined(&query))
    }
}

fn joined(query: &[(&str, String)]) -> String {
    query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}

/// The end of a command by the final Status: the exit code, or the reason for a missing exit code.
pub fn ended(status: &[u8]) -> Result<u8, String> {
    let status: Value =
        serde_json::from_slice(status).map_err(|_| "the agent has gone before the command ended".to_owned())?;
    if status["status"] == "Success" {
        return Ok(0);
    }
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let code = causes
        .filter(|cause| cause["reason"] == "ExitCode")
        .find_map(|cause| cause["message"].as_str()?.parse::<u8>().ok());
    code.ok_or_else(|| status["message"].as_str().unwrap_or("the command failed, and nobody says why").to_owned())
}

/// The message of a refusal: of a Status, or bare text.
pub fn refusal(body: &[u8]) -> String {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    status["message"].as_str().map_or_else(|| String::from_utf8_lossy(body).trim().to_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn command_lines() {
        let deed = |text: &str| read(&words(text)).unwrap().map(|(deed, of_agent)| (deed, of_agent.join(" ")));
        let of = |namespace: &str, container: Option<&str>, what| Deed {
            named: Named::parse("p", Some(namespace)).unwrap(),
            container: container.map(str::to_owned),
            all_containers: false,
            what,
        };
        let exec = |stdin, tty, command: &str| DeedKind::Exec { stdin, tty, command: words(command) };
        assert_eq!(deed("exec p -- ls -l"), Ok((of("default", None, exec(false, false, "ls -l")), String::new())));
        assert_eq!(deed("exec -it -n x -c=c pod/p sh").unwrap_err(), "-= is no option here: see --help");
        let ls = exec(false, false, "ls -c");
        assert_eq!(deed("exec p -c c -- ls -c"), Ok((of("default", Some("c"), ls.clone()), String::new())));
        assert_eq!(deed("exec p -c c ls -c"), Ok((of("default", Some("c"), ls), String::new())));
        assert_eq!(
            deed("exec -it -n x -c c pod/p sh"),
            Ok((of("x", Some("c"), exec(true, true, "sh")), String::new()))
        );
        let given = deed("logs --socket-dir /s --node-name=n1 -fp --tail 5 p --since=1h30m");
        let query = vec![
            ("follow", "true".to_owned()),
            ("previous", "true".to_owned()),
            ("tailLines", "5".to_owned()),
            ("sinceSeconds", "5400".to_owned()),
        ];
        assert_eq!(
            given,
            Ok((of("default", None, DeedKind::Logs(query)), "--socket-dir /s --node-name n1".to_owned()))
        );
        let restart = |patience: Option<u64>| DeedKind::Restart { patience: patience.map(Duration::from_secs) };
        assert_eq!(deed("restart p"), Ok((of("default", None, restart(Some(300))), String::new())));
        assert_eq!(deed("restart x/p --no-wait"), Ok((of("x", None, restart(None)), String::new())));
        assert_eq!(deed("restart -n x p --timeout=90s"), Ok((of("x", None, restart(Some(90))), String::new())));
        for (text, why) in [
            ("exec", "a pod's name is missing: see --help"),
            ("exec p", "a command is missing: exec POD -- COMMAND"),
            ("exec p --", "a command is missing: exec POD -- COMMAND"),
            ("exec -f p sh", "-f is no option here: see --help"),
            ("logs p q", "\"q\" stands behind the pod, of which there is one: see --help"),
            ("exec -- p ls", "a pod's name is missing: see --help"),
            ("logs --tail x p", "--tail: \"x\" is no number"),
            ("logs --since 5 p", "--since: \"5\" is no time such as 90s, 5m or 1h30m"),
            ("logs -n", "n needs a value"),
            ("logs --stream both p", "--stream: \"both\" is none of stdout, stderr and all"),
            (
                "logs --all-containers -c c p",
                "--container names one, and --all-containers all: they do not go together",
            ),
            ("exec --all-containers p ls", "--all-containers is no option here: see --help"),
            ("exec --no-wait p ls", "--no-wait is no option here: see --help"),
            ("restart", "a pod's name is missing: see --help"),
            ("restart p q", "\"q\" stands behind the pod, of which there is one: see --help"),
            ("restart -c x p", "-c is no option here: see --help"),
            ("restart --timeout 5 p", "--timeout: \"5\" is no time such as 90s, 5m or 1h30m"),
            ("restart --timeout 0s p", "--timeout: \"0s\" is not between a second and a day"),
            ("restart --timeout 5m --no-wait p", "--no-wait and --timeout do not go together"),
            ("logs -n shop lab/p", "\"lab/p\" names the namespace lab, and -n the namespace shop"),
        ] {
            assert_eq!(deed(text), Err(why.to_owned()), "{text}");
        }
        assert_eq!(read(&words("--config exec")), None);
        assert_eq!(read(&[]), None);
    }

    #[test]
    fn which_container_is_asked_and_how() {
        let pod = |name: &str, annotations: Value| {
            let metadata = json!({"namespace": "default", "name": name, "annotations": annotations});
            json!({"metadata": metadata, "spec": {"nodeName": "n1", "containers": [{"name": "a"}, {"name": "b"}]}})
        };
        let (p, q) = (pod("p", json!({})), pod("q", json!({DEFAULT_CONTAINER: "b"})));
        let place = |text: &str, pod: &Value| {
            let (deed, _) = read(&words(text)).unwrap().unwrap();
            deed.places(pod, pod["metadata"]["name"].as_str().unwrap())
                .iter()
                .map(|place| deed.target(place))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(place("logs p", &p), "/containerLogs/default/p/a?");
        assert_eq!(place("logs --tail 1 q", &q), "/containerLogs/default/q/b?tailLines=1");
        assert_eq!(
            place("exec -i -c x/y p a=b &", &p),
            "/exec/default/p/x%2Fy?input=1&output=1&error=1&command=a%3Db&command=%26"
        );
        assert_eq!(place("exec -t deploy/p sh", &p), "/exec/default/p/a?output=1&tty=1&command=sh");
        let all = "/containerLogs/default/p/a?stream=Stderr /containerLogs/default/p/b?stream=Stderr";
        assert_eq!(place("logs --all-containers --stream=stderr p", &p), all);
        assert_eq!(place("restart p", &p), "/restart/default/p");
        let (far, _) = read(&words("logs -f shop/q")).unwrap().unwrap();
        let places = far.places(&q, "q");
        assert_eq!(far.far_log(&places[0]), "/api/v1/namespaces/shop/pods/q/log?container=b&follow=true");
    }

    #[test]
    fn last_words() {
        assert_eq!(ended(br#"{"status":"Success"}"#), Ok(0));
        let failed = json!({
            "status": "Failure", "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
        });
        assert_eq!(ended(failed.to_string().as_bytes()), Ok(7));
        assert_eq!(ended(br#"{"status":"Failure","message":"no such command"}"#), Err("no such command".to_owned()));
        assert_eq!(ended(b""), Err("the agent has gone before the command ended".to_owned()));
        assert_eq!(refusal(br#"{"kind":"Status","message":"not there"}"#), "not there");
        assert_eq!(refusal(b"pod does not exist\n"), "pod does not exist");
    }
}
