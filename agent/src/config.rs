//! Flags and the configuration file -> `Config`. A flag wins over the file, the file over the environment, that over
//! the default.
//!
//! The file has a line `key = value` for each, with the names of the flags; `#` begins a comment line.

mod file;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use coracle_api::node::agent_socket;
use coracle_api::strategy::Cidr;
use coracle_http::client::Target;

use crate::desired::page::Page;
use crate::facts::thresholds::{self, Threshold};
use crate::facts::world::Devices;
use crate::inside::deed::{self, Deed};
use crate::network::pod_network::Owner;
use crate::{images, usage};
use file::{Given, read_file};
use values::{address, devices, is_node_name, is_pod_cidr, node_ip, pids_max, pod_network, sysctls};

/// Where the locks of engines are, common to all agents of a host.
const RUN_DIR: &str = "/run/coracle";
/// The configuration file of the packaged agent.
const PACKAGED: &str = "/etc/coracle/agent.conf";
/// Those that are paths.
const PATHS: [&str; 2] = ["data-dir", "manifest-dir"];
const KEYS: [&str; 24] = [
    "manifest-dir",
    "manifest-url",
    "data-dir",
    "docker-host",
    "node-name",
    "node-ip",
    "listen",
    "socket-dir",
    "master",
    "pod-cidr",
    "pod-network",
    "external-ips",
    "cluster-dns",
    "cluster-domain",
    "secrets-on-disk",
    "allowed-unsafe-sysctls",
    "eviction-hard",
    "devices",
    "pod-pids-limit",
    "net-raw",
    "images-dir",
    "serialize-image-pulls",
    "image-gc-high-threshold",
    "image-gc-low-threshold",
];

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub manifest_dir: String,
    /// More manifests, on another host.
    pub manifest_url: Option<Page>,
    pub data_dir: String,
    pub docker_host: String,
    pub node_name: String,
    /// None: as the kernel says.
    pub node_ip: Option<IpAddr>,
    pub listen: SocketAddr,
    /// Where pods and logs are asked for.
    pub socket: PathBuf,
    pub master: Option<Target>,
    pub pod_cidr: String,
    pub pod_network: Owner,
    /// Networks whose addresses services may have on this host.
    pub external_ips: Vec<Cidr>,
    /// None: that of the service, where there is a master.
    pub cluster_dns: Option<IpAddr>,
    pub cluster_domain: String,
    /// Secrets that pods use may stand on this host's disk.
    pub secrets_on_disk: bool,
    pub run_dir: String,
    /// Of the network and IPC of a pod.
    pub unsafe_sysctls: Vec<String>,
    pub eviction_hard: Vec<Threshold>,
    pub devices: Vec<Devices>,
    /// Of each container; None: as many as the kernel has.
    pub pids_max: Option<i64>,
    /// Containers may send packets of their own making, as the engine lets them unless they are told otherwise.
    pub net_raw: bool,
    pub images: images::ImageSettings,
    pub serial_pulls: bool,
}

/// A parsed command line.
#[derive(Debug, PartialEq)]
pub enum Invocation {
    Run(Box<Config>),
    Do(Command, OutputFormat, Box<Config>),
    /// What to say.
    Help(&'static str),
    /// Of the agent that runs, on this socket.
    Inside(Box<Deed>, PathBuf),
    Version,
}

/// Looked at once, and told; nothing is changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Check(Vec<PathBuf>),
    Plan,
    Status,
    Doctor,
}

/// The format of a command's output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OutputFormat {
    #[default]
    Text,
    Json,
}

#[derive(Debug, PartialEq)]
pub struct BadConfig(String);

impl fmt::Display for BadConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadConfig {}

/// The defaults that depend on this host.
pub struct HostDefaults {
    pub name: String,
    /// `DOCKER_HOST`
    pub docker_host: Option<String>,
}

/// Reads the command line, and the file that it names. A command reads the packaged agent's file where none is named.
pub fn read(arguments: &[String], host: &HostDefaults) -> Result<Invocation, BadConfig> {
    match (deed::read(arguments), arguments) {
        (Some(_), [word, help, ..]) if ["--help", "-h"].contains(&help.as_str()) => {
            Ok(Invocation::Help(usage::of(Some(word))))
        }
        (Some(deed), _) => of_running(deed.map_err(BadConfig)?, host),
        (None, _) => read_flags(arguments, host),
    }
}

/// What is asked of the agent that runs: its file says where it answers.
fn of_running((deed, mut flags): (Deed, Vec<String>), host: &HostDefaults) -> Result<Invocation, BadConfig> {
    if !flags.iter().any(|flag| flag == "--config") && Path::new(PACKAGED).exists() {
        flags.extend(["--config".to_owned(), PACKAGED.to_owned()]);
    }
    Ok(match read_flags(&flags, host)? {
        Invocation::Run(config) => Invocation::Inside(Box::new(deed), config.socket),
        other => other,
    })
}

fn read_flags(arguments: &[String], host: &HostDefaults) -> Result<Invocation, BadConfig> {
    let mut flags = BTreeMap::new();
    let (mut words, mut form) = (Vec::new(), None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--help" || argument == "-h" {
            return Ok(Invocation::Help(usage::of(words.first().copied().or_else(|| rest.next().map(String::as_str)))));
        }
        if argument == "--version" {
            return Ok(Invocation::Version);
        }
        if let Some(value) = argument.strip_prefix("-o").filter(|_| !argument.starts_with("--")) {
            let value =
                if value.is_empty() { rest.next().map_or("", String::as_str) } else { value.trim_start_matches('=') };
            form = Some(self::form(value)?);
            continue;
        }
        let Some(flag) = argument.strip_prefix("--") else {
            words.push(argument.as_str());
            continue;
        };
        let (key, value) = match flag.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (flag, None),
        };
        if key != "config" && !KEYS.contains(&key) {
            return Err(BadConfig(format!("--{key} is no option: see --help")));
        }
        let value =
            value.or_else(|| rest.next().cloned()).ok_or_else(|| BadConfig(format!("--{key} needs a value")))?;
        let value = if PATHS.contains(&key) { from_here(value, key)? } else { value };
        if flags.insert(key.to_owned(), Given { value, at: format!("--{key}") }).is_some() {
            return Err(BadConfig(format!("--{key} is given twice")));
        }
    }
    let command = command(&words)?;
    if form.is_some() && command.is_none() {
        return Err(BadConfig("-o is for a command that tells something: see --help".to_owned()));
    }
    let packaged = || Some(PACKAGED.to_owned()).filter(|path| command.is_some() && Path::new(path).exists());
    let mut given = match flags.remove("config").map(|file| file.value).or_else(packaged) {
        Some(file) => read_file(&file)?,
        None => BTreeMap::new(),
    };
    given.extend(flags);
    let config = Box::new(config(&given, host)?);
    Ok(match command {
        Some(command) => Invocation::Do(command, form.unwrap_or_default(), config),
        None => Invocation::Run(config),
    })
}

/// None: it is to run.
fn command(words: &[&str]) -> Result<Option<Command>, BadConfig> {
    let alone = |command: Command| match words {
        [_] => Ok(Some(command)),
        [word, more, ..] => Err(BadConfig(format!("{more:?}: {word} takes options alone, see {word} --help"))),
        [] => Ok(None),
    };
    match words {
        [] => Ok(None),
        ["check"] => Err(BadConfig("check needs a manifest file, or a directory of them: see check --help".to_owned())),
        ["check", files @ ..] => Ok(Some(Command::Check(files.iter().map(PathBuf::from).collect()))),
        ["plan", ..] => alone(Command::Plan),
        ["status", ..] => alone(Command::Status),
        ["doctor", ..] => alone(Command::Doctor),
        [word, ..] => Err(BadConfig(format!("{word:?} is no option and no command: see --help"))),
    }
}

fn form(value: &str) -> Result<OutputFormat, BadConfig> {
    match value {
        "json" => Ok(OutputFormat::Json),
        "text" => Ok(OutputFormat::Text),
        other => Err(BadConfig(format!("-o {other}: it is json or text"))),
    }
}

/// A path of the command line begins where its writer stands; a file is read from anywhere, so its paths are absolute.
fn from_here(value: String, key: &str) -> Result<String, BadConfig> {
    if value.is_empty() {
        return Ok(value);
    }
    let path = std::path::absolute(&value).map_err(|error| BadConfig(format!("--{key} {value}: {error}")))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| BadConfig(format!("--{key} {}: it is not UTF-8", path.display())))
}

fn config(given: &BTreeMap<String, Given>, host: &HostDefaults) -> Result<Config, BadConfig> {
    let text = |key: &str, default: &str| {
        given
            .get(key)
            .map(|given| given.value.clone())
            .filter(|value| !value.is_empty())
            .unwrap_or_else(|| default.to_owned())
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
    let docker_host = engine(text, bad, host)?;
    let node_name = text("node-name", &host.name.to_lowercase());
    if !is_node_name(&node_name) {
        return Err(bad(
            "node-name",
            &format!("{node_name:?} is not a name of lower-case letters, digits, '-' and '.'"),
        ));
    }
    let socket = agent_socket(&node_name)
        .ok_or_else(|| bad("node-name", &format!("{node_name:?} is too long for the name of a socket")))?;
    let node_ip = node_ip(&text("node-ip", "")).map_err(|why| bad("node-ip", &why))?;
    let listen = values::listen(&text("listen", "127.0.0.1:10250")).map_err(|why| bad("listen", &why))?;
    let named = |key: &str| Some(text(key, "")).filter(|value| !value.is_empty());
    let master =
        named("master").map(|master| master.parse()).transpose().map_err(|error| bad("master", &format!("{error}")))?;
    let manifest_url =
        named("manifest-url").map(|page| page.parse()).transpose().map_err(|why: String| bad("manifest-url", &why))?;
    let whether = |key: &str, default: &str| match text(key, default).as_str() {
        "yes" => Ok(true),
        "no" => Ok(false),
        other => Err(bad(key, &format!("{other:?} is neither yes nor no"))),
    };
    let eviction_hard =
        thresholds::parse(&text("eviction-hard", thresholds::DEFAULT)).map_err(|why| bad("eviction-hard", &why))?;
    let cluster_dns = address(&text("cluster-dns", "")).map_err(|why| bad("cluster-dns", &why))?;
    Ok(Config {
        manifest_dir: folder("manifest-dir", "/etc/coracle/manifests")?,
        data_dir: folder("data-dir", "/var/lib/coracle/agent")?,
        manifest_url,
        docker_host,
        node_name,
        node_ip,
        listen,
        socket: Path::new(&folder("socket-dir", "/run/coracle/agent")?).join(socket),
        master,
        pod_cidr: pod_cidr(text, bad)?,
        pod_network: pod_network(&text("pod-network", "own")).map_err(|why| bad("pod-network", &why))?,
        external_ips: values::networks(&text("external-ips", "")).map_err(|why| bad("external-ips", &why))?,
        cluster_dns,
        cluster_domain: cluster_domain(text, bad)?,
        secrets_on_disk: whether("secrets-on-disk", "yes")?,
        run_dir: RUN_DIR.to_owned(),
        unsafe_sysctls: sysctls(&text("allowed-unsafe-sysctls", ""))
            .map_err(|why| bad("allowed-unsafe-sysctls", &why))?,
        eviction_hard,
        devices: devices(&text("devices", "")).map_err(|why| bad("devices", &why))?,
        pids_max: pids_max(&text("pod-pids-limit", "-1")).map_err(|why| bad("pod-pids-limit", &why))?,
        net_raw: whether("net-raw", "yes")?,
        images: images(text, bad)?,
        serial_pulls: whether("serialize-image-pulls", "no")?,
    })
}

fn engine(
    text: impl Fn(&str, &str) -> String,
    bad: impl Fn(&str, &str) -> BadConfig,
    host: &HostDefaults,
) -> Result<String, BadConfig> {
    let docker_host = text(
        "docker-host",
        host.docker_host.as_deref().filter(|host| !host.is_empty()).unwrap_or("unix:///var/run/docker.sock"),
    );
    if !["unix:///", "tcp://", "http://"].iter().any(|scheme| docker_host.starts_with(scheme)) {
        return Err(bad(
            "docker-host",
            &format!("{docker_host:?} is not unix:///PATH, tcp://HOST:PORT or http://HOST:PORT"),
        ));
    }
    Ok(docker_host)
}

fn pod_cidr(text: impl Fn(&str, &str) -> String, bad: impl Fn(&str, &str) -> BadConfig) -> Result<String, BadConfig> {
    let cidr = text("pod-cidr", "10.244.0.0/24");
    if is_pod_cidr(&cidr) {
        return Ok(cidr);
    }
    Err(bad("pod-cidr", &format!("{cidr:?} is not an IPv4 network of /8 to /29, such as 10.244.0.0/24")))
}

fn cluster_domain(
    text: impl Fn(&str, &str) -> String,
    bad: impl Fn(&str, &str) -> BadConfig,
) -> Result<String, BadConfig> {
    let domain = text("cluster-domain", "cluster.local").trim_end_matches('.').to_ascii_lowercase();
    if is_node_name(&domain) {
        return Ok(domain);
    }
    Err(bad("cluster-domain", &format!("{domain:?} is not a domain of lower-case letters, digits, '-' and '.'")))
}

fn images(
    text: impl Fn(&str, &str) -> String,
    bad: impl Fn(&str, &str) -> BadConfig,
) -> Result<images::ImageSettings, BadConfig> {
    let percent = |key: &str, default: &str| {
        let number = text(key, default).trim_end_matches('%').parse::<u64>().ok().filter(|number| *number <= 100);
        number.ok_or_else(|| bad(key, "it is a percentage of the disk, 0 to 100"))
    };
    let (high, low) = (percent("image-gc-high-threshold", "85")?, percent("image-gc-low-threshold", "80")?);
    if low > high {
        return Err(bad("image-gc-low-threshold", "it is above image-gc-high-threshold"));
    }
    let folders: Vec<PathBuf> =
        text("images-dir", "/var/lib/coracle/images").split(',').map(|path| path.trim().into()).collect();
    if let Some(path) = folders.iter().find(|path| !path.is_absolute()) {
        return Err(bad("images-dir", &format!("{:?} is not an absolute path", path.display().to_string())));
    }
    Ok(images::ImageSettings { folders, high, low })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostDefaults {
        HostDefaults { name: "Box".into(), docker_host: None }
    }

    fn run(arguments: &[&str]) -> Result<Config, String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        match read(&arguments, &host()) {
            Ok(Invocation::Run(config)) => Ok(*config),
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
        let page = run(&["--manifest-url", "http://box:8000/m"]).unwrap().manifest_url.map(|page| page.to_string());
        assert_eq!(page.as_deref(), Some("http://box:8000/m"));
        assert!(run(&["--manifest-url", "https://box/m"]).unwrap_err().contains("https is not supported"));
        let relative = run(&["--data-dir", "data", "--manifest-dir=../pods"]).unwrap();
        assert_eq!(
            (relative.data_dir, relative.manifest_dir),
            (here.join("data").display().to_string(), here.join("../pods").display().to_string())
        );
        assert_eq!(
            (config.pod_network, run(&["--pod-network=engine"]).unwrap().pod_network),
            (Owner::Own, Owner::Engine)
        );
        refused(&["--pod-network", "docker"], "neither engine nor own");
        assert_eq!((config.listen.to_string().as_str(), config.master), ("127.0.0.1:10250", None));
        assert_eq!(config.socket, Path::new("/run/coracle/agent/box.sock"));
        assert_eq!((config.pids_max, run(&["--pod-pids-limit", "1024"]).unwrap().pids_max), (None, Some(1024)));
        assert_eq!(
            (config.node_ip, run(&["--node-ip", "192.168.1.7"]).unwrap().node_ip),
            (None, "192.168.1.7".parse().ok())
        );
        let networks = run(&["--external-ips", "192.168.1.240/28, 203.0.113.7/32"]).unwrap().external_ips;
        let shown: Vec<String> = networks.iter().map(ToString::to_string).collect();
        assert_eq!((shown.join(" ").as_str(), config.external_ips.len()), ("192.168.1.240/28 203.0.113.7/32", 0));
        assert_eq!((config.net_raw, run(&["--net-raw=no"]).unwrap().net_raw), (true, false));
        let devices = |resource: &str, count, paths: &[&str]| {
            let paths = paths.iter().map(|path| (*path).to_owned()).collect();
            Devices { resource: resource.to_owned(), count, paths }
        };
        let some =
            run(&["--devices", "example.com/serial=1:/dev/ttyUSB0; example.com/gpu = 4: /dev/dri/a, /dev/dri/b;"])
                .unwrap()
                .devices;
        let expected = [
            devices("example.com/serial", 1, &["/dev/ttyUSB0"]),
            devices("example.com/gpu", 4, &["/dev/dri/a", "/dev/dri/b"]),
        ];
        assert_eq!(some, expected);
    }

    #[test]
    fn the_manual_and_the_help_name_every_option() {
        let manual = include_str!("../../packaging/man/coracle-agent.8");
        for key in KEYS {
            assert!(usage::PROGRAM.contains(&format!("--{key} ")), "--help names {key}");
            assert!(manual.contains(&format!("\\-\\-{}", key.replace('-', "\\-"))), "the manual names {key}");
        }
    }

    #[test]
    fn commands() {
        let asked = |line: &str| {
            let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
            match read(&arguments, &host()).unwrap() {
                Invocation::Do(command, form, config) => (command, form, config.data_dir),
                other => panic!("{other:?}"),
            }
        };
        let check = |line: &str, command: Command, form: OutputFormat| {
            assert_eq!(asked(&format!("{line} --data-dir /d")), (command, form, "/d".to_owned()), "{line}");
        };
        check("check a.yaml b", Command::Check(vec!["a.yaml".into(), "b".into()]), OutputFormat::Text);
        check("status -o json", Command::Status, OutputFormat::Json);
        check("-ojson plan", Command::Plan, OutputFormat::Json);
        check("doctor -o=text", Command::Doctor, OutputFormat::Text);
        let help = read(&["plan".to_owned(), "--help".to_owned()], &host()).unwrap();
        assert!(matches!(help, Invocation::Help(text) if text.starts_with("usage: coracle-agent plan")), "{help:?}");
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
        refused(&["check"], "check needs");
        refused(&["plan", "now"], "now");
        refused(&["status", "-o", "yaml"], "yaml");
        refused(&["-o", "json"], "-o is for a command");
        refused(&["--listen"], "needs a value");
        refused(&["--listen", "0.0.0.0:10250"], "loopback");
        refused(&["--listen", "10250"], "ADDR:PORT");
        refused(&["--node-name", "A_b"], "A_b");
        refused(&["--node-name", "../docker"], "../docker");
        refused(&["--node-name", &["a"; 126].join(".")], "too long for the name of a socket");
        refused(&["--socket-dir", "here"], "absolute");
        refused(&["--pod-cidr", "10.244.0.1/24"], "10.244.0.1/24");
        refused(&["--node-ip", "eth0"], "IPv4");
        refused(&["--node-ip", "127.0.0.1"], "no other host");
        refused(&["--external-ips", "192.168.1.7"], "192.168.1.240/28");
        refused(&["--net-raw", "0"], "neither yes nor no");
        refused(&["--cluster-dns", "kube-dns"], "--cluster-dns");
        refused(&["--cluster-domain", "a..b"], "a..b");
        refused(&["--allowed-unsafe-sysctls", "net.*, vm.swappiness"], "vm.swappiness");
        refused(&["--devices", "example.com/serial=/dev/ttyUSB0"], "NAME=COUNT:PATH");
        refused(&["--devices", "cpu=1:/dev/ttyUSB0"], "no name of a resource");
        refused(&["--images-dir", "/a, b"], "absolute");
        refused(&["--pod-pids-limit", "many"], "no number of processes");
        refused(&["--pod-pids-limit", "0"], "no number of processes");
        refused(&["--serialize-image-pulls", "2"], "neither yes nor no");
        refused(&["--image-gc-high-threshold", "101"], "percentage");
        refused(&["--image-gc-high-threshold", "70"], "above image-gc-high-threshold");
        refused(&["--devices", "a.b/c=1:/dev/a;a.b/c=2:/dev/b"], "twice");
        refused(&["--master", "ftp://x"], "--master");
        refused(&["--docker-host", "ssh://x"], "--docker-host");
        refused(&["--secrets-on-disk", "maybe"], "neither yes nor no");
        refused(&["--config", "/nonexistent"], "/nonexistent");
        refused(&["--data-dir", "/a", "--data-dir", "/b"], "twice");
        let in_file = |text: &str| file::parse_file("f", text).err().unwrap().to_string();
        assert!(in_file("a\n").starts_with("f line 1"));
        assert!(in_file("\nnope = 1\n").contains("nope"));
        let path = std::env::temp_dir().join(format!("coracle-config-relative-{}", std::process::id()));
        std::fs::write(&path, "data-dir = here\n").unwrap();
        refused(&["--config", path.to_str().unwrap()], "absolute");
        std::fs::remove_file(path).unwrap();
    }
}
