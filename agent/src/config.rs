//! Flags and the configuration file -> `Config`. A flag wins over the file, the file over the environment, that over the default.
//!
//! The file has a line `key = value` for each, with the names of the flags; `#` begins a comment line.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use coracle_api::node::agent_socket;
use coracle_http::client::Target;

/// Where the locks of engines are, common to all agents of a host.
const RUN_DIR: &str = "/run/coracle";
/// A configuration file has nine keys; what is bigger is another file.
const FILE_BYTES_MAX: u64 = 64 * 1024;

pub const HELP: &str = "\
coracle-agent: runs Kubernetes pods on this host's Docker

  --config FILE          read `key = value` lines with the names below; a flag wins
  --manifest-dir DIR     manifests and pods, YAML or JSON, a file each (default /etc/coracle/manifests)
  --data-dir DIR         the agent's own files (default /var/lib/coracle/agent)
  --docker-host URL      the engine (default: DOCKER_HOST, else unix:///var/run/docker.sock)
  --node-name NAME       this host's name among the nodes (default: its host name)
  --listen ADDR:PORT     /healthz; loopback only (default 127.0.0.1:10250)
  --socket-dir DIR       NODE.sock there answers root and the master: /pods, /containerLogs (default /run/coracle/agent)
  --master URL           unix:///PATH or http://HOST:PORT (default: none, only manifest files are run)
  --pod-cidr CIDR        addresses for this host's pods (default 10.244.0.0/24)
  --help, --version
";

/// Those that are paths.
const PATHS: [&str; 2] = ["data-dir", "manifest-dir"];
const KEYS: [&str; 8] = ["manifest-dir", "data-dir", "docker-host", "node-name", "listen", "socket-dir", "master", "pod-cidr"];

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub manifest_dir: String,
    pub data_dir: String,
    pub docker_host: String,
    pub node_name: String,
    pub listen: SocketAddr,
    /// Where pods and logs are asked for.
    pub socket: PathBuf,
    pub master: Option<Target>,
    pub pod_cidr: String,
    pub run_dir: String,
}

/// What a command line asks for.
#[derive(Debug, PartialEq)]
pub enum Asked {
    Run(Box<Config>),
    Help,
    Version,
}

#[derive(Debug, PartialEq)]
pub struct BadConfig(String);

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadConfig {}

/// What this host says where nothing is given.
pub struct Host {
    pub name: String,
    /// `DOCKER_HOST`
    pub docker_host: Option<String>,
}

/// Reads the command line, and the file that it names.
pub fn read(arguments: &[String], host: &Host) -> Result<Asked, BadConfig> {
    let mut flags = BTreeMap::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--help" || argument == "-h" {
            return Ok(Asked::Help);
        }
        if argument == "--version" {
            return Ok(Asked::Version);
        }
        let Some(flag) = argument.strip_prefix("--") else {
            return Err(BadConfig(format!("{argument:?} is no option: see --help")));
        };
        let (key, value) = match flag.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (flag, None),
        };
        if key != "config" && !KEYS.contains(&key) {
            return Err(BadConfig(format!("--{key} is no option: see --help")));
        }
        let value = value.or_else(|| rest.next().cloned()).ok_or_else(|| BadConfig(format!("--{key} needs a value")))?;
        let value = if PATHS.contains(&key) { from_here(value, key)? } else { value };
        if flags.insert(key.to_owned(), Given { value, at: format!("--{key}") }).is_some() {
            return Err(BadConfig(format!("--{key} is given twice")));
        }
    }
    let mut given = match flags.remove("config") {
        Some(file) => read_file(&file.value)?,
        None => BTreeMap::new(),
    };
    given.extend(flags);
    config(&given, host).map(|config| Asked::Run(Box::new(config)))
}

/// A path of the command line begins where its writer stands; a file is read from anywhere, so its paths are absolute.
fn from_here(value: String, key: &str) -> Result<String, BadConfig> {
    if value.is_empty() {
        return Ok(value);
    }
    let path = std::path::absolute(&value).map_err(|error| BadConfig(format!("--{key} {value}: {error}")))?;
    path.into_os_string().into_string().map_err(|path| BadConfig(format!("--{key} {}: it is not UTF-8", path.display())))
}

/// A value, and where it stands: for messages.
struct Given {
    value: String,
    at: String,
}

fn read_file(path: &str) -> Result<BTreeMap<String, Given>, BadConfig> {
    let fail = |error: std::io::Error| BadConfig(format!("read the configuration {path}: {error}"));
    if std::fs::metadata(path).map_err(fail)?.len() > FILE_BYTES_MAX {
        return Err(BadConfig(format!("read the configuration {path}: more than {FILE_BYTES_MAX} bytes")));
    }
    parse_file(path, &std::fs::read_to_string(path).map_err(fail)?)
}

fn parse_file(path: &str, text: &str) -> Result<BTreeMap<String, Given>, BadConfig> {
    let mut given = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let at = format!("{path} line {}", index + 1);
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            return Err(BadConfig(format!("{at}: {line:?} is not `key = value`")));
        };
        let (key, value) = (key.trim(), value.trim());
        if !KEYS.contains(&key) {
            return Err(BadConfig(format!("{at}: there is no key {key:?}; the keys are {}", KEYS.join(", "))));
        }
        if given.insert(key.to_owned(), Given { value: value.to_owned(), at: format!("{at}: {key}") }).is_some() {
            return Err(BadConfig(format!("{at}: {key} stands there twice")));
        }
    }
    Ok(given)
}

fn config(given: &BTreeMap<String, Given>, host: &Host) -> Result<Config, BadConfig> {
    let text = |key: &str, default: &str| {
        given.get(key).map(|given| given.value.clone()).filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
    };
    let bad = |key: &str, why: &str| {
        let at = given.get(key).map_or_else(|| format!("the default of {key}"), |given| given.at.clone());
        BadConfig(format!("{at}: {why}"))
    };
    let folder = |key: &str, default: &str| {
        let path = text(key, default);
        if path.starts_with('/') {
            Ok(path.trim_end_matches('/').to_owned())
        } else {
            Err(bad(key, &format!("{path:?} is not an absolute path")))
        }
    };
    let docker_host =
        text("docker-host", host.docker_host.as_deref().filter(|host| !host.is_empty()).unwrap_or("unix:///var/run/docker.sock"));
    if !["unix:///", "tcp://", "http://"].iter().any(|scheme| docker_host.starts_with(scheme)) {
        return Err(bad("docker-host", &format!("{docker_host:?} is not unix:///PATH, tcp://HOST:PORT or http://HOST:PORT")));
    }
    let node_name = text("node-name", &host.name.to_lowercase());
    if !is_node_name(&node_name) {
        return Err(bad("node-name", &format!("{node_name:?} is not a name of lower-case letters, digits, '-' and '.'")));
    }
    let socket =
        agent_socket(&node_name).ok_or_else(|| bad("node-name", &format!("{node_name:?} is too long for the name of a socket")))?;
    let listen = text("listen", "127.0.0.1:10250");
    let listen: SocketAddr = listen.parse().map_err(|_| bad("listen", &format!("{listen:?} is not ADDR:PORT, such as 127.0.0.1:10250")))?;
    if !listen.ip().is_loopback() {
        return Err(bad(
            "listen",
            &format!("{} is not a loopback address, and this port is for programs of this host alone: use 127.0.0.1", listen.ip()),
        ));
    }
    let master = text("master", "");
    let master = if master.is_empty() { None } else { Some(master.parse().map_err(|error| bad("master", &format!("{error}")))?) };
    let pod_cidr = text("pod-cidr", "10.244.0.0/24");
    if !is_pod_cidr(&pod_cidr) {
        return Err(bad("pod-cidr", &format!("{pod_cidr:?} is not an IPv4 network of /8 to /29, such as 10.244.0.0/24")));
    }
    Ok(Config {
        manifest_dir: folder("manifest-dir", "/etc/coracle/manifests")?,
        data_dir: folder("data-dir", "/var/lib/coracle/agent")?,
        docker_host,
        node_name,
        listen,
        socket: Path::new(&folder("socket-dir", "/run/coracle/agent")?).join(socket),
        master,
        pod_cidr,
        run_dir: RUN_DIR.to_owned(),
    })
}

/// A DNS subdomain.
fn is_node_name(name: &str) -> bool {
    let label = |label: &str| {
        let end = |c: Option<char>| c.is_some_and(|c| c != '-');
        label.len() <= 63
            && end(label.chars().next())
            && end(label.chars().last())
            && label.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

fn is_pod_cidr(cidr: &str) -> bool {
    let Some((address, bits)) = cidr.split_once('/') else { return false };
    let (Ok(IpAddr::V4(address)), Ok(bits)) = (address.parse(), bits.parse::<u32>()) else { return false };
    (8..=29).contains(&bits) && u32::from(address) & (u32::MAX >> bits) == 0 && address != Ipv4Addr::UNSPECIFIED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host { name: "Box".into(), docker_host: None }
    }

    fn run(arguments: &[&str]) -> Result<Config, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        match read(&arguments, &host()) {
            Ok(Asked::Run(config)) => Ok(*config),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    fn refused(arguments: &[&str], word: &str) {
        let error = run(arguments).unwrap_err();
        assert!(error.contains(word) && !error.contains('\n'), "{error}");
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let config = run(&[]).unwrap();
        assert_eq!((config.node_name.as_str(), config.docker_host.as_str()), ("box", "unix:///var/run/docker.sock"));
        let here = std::env::current_dir().unwrap();
        let relative = run(&["--data-dir", "data", "--manifest-dir=../pods"]).unwrap();
        assert_eq!(
            (relative.data_dir, relative.manifest_dir),
            (here.join("data").display().to_string(), here.join("../pods").display().to_string())
        );
        assert_eq!((config.listen.to_string().as_str(), config.master), ("127.0.0.1:10250", None));
        assert_eq!(config.socket, Path::new("/run/coracle/agent/box.sock"));
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let path = std::env::temp_dir().join(format!("coracle-config-{}", std::process::id()));
        std::fs::write(&path, "# comment\n\nnode-name = one\ndata-dir=/d/\nmaster = unix:///m.sock\n").unwrap();
        let config = run(&["--config", path.to_str().unwrap(), "--node-name=two"]).unwrap();
        assert_eq!((config.node_name.as_str(), config.data_dir.as_str()), ("two", "/d"));
        assert_eq!(config.master, Some(Target::Unix("/m.sock".into())));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn each_mistake_is_one_line_that_names_its_place() {
        refused(&["--nod-name", "x"], "--nod-name");
        refused(&["stray"], "stray");
        refused(&["--listen"], "needs a value");
        refused(&["--listen", "0.0.0.0:10250"], "loopback");
        refused(&["--listen", "10250"], "ADDR:PORT");
        refused(&["--node-name", "A_b"], "A_b");
        refused(&["--node-name", "../docker"], "../docker");
        refused(&["--node-name", &["a"; 126].join(".")], "too long for the name of a socket");
        refused(&["--socket-dir", "here"], "absolute");
        refused(&["--pod-cidr", "10.244.0.1/24"], "10.244.0.1/24");
        refused(&["--master", "ftp://x"], "--master");
        refused(&["--docker-host", "ssh://x"], "--docker-host");
        refused(&["--config", "/nonexistent"], "/nonexistent");
        refused(&["--data-dir", "/a", "--data-dir", "/b"], "twice");
        let in_file = |text: &str| parse_file("f", text).err().unwrap().to_string();
        assert!(in_file("a\n").starts_with("f line 1"));
        assert!(in_file("\nnope = 1\n").contains("nope"));
        let path = std::env::temp_dir().join(format!("coracle-config-relative-{}", std::process::id()));
        std::fs::write(&path, "data-dir = here\n").unwrap();
        refused(&["--config", path.to_str().unwrap()], "absolute");
        std::fs::remove_file(path).unwrap();
    }
}
