//! Flags and the configuration file -> `Config`. A flag wins over the file, the file over the environment, that over
//! the default.
//!
//! The file has a line `key = value` for each, with the names of the flags; `#` begins a comment line.

mod values;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs};

use coracle_api::node::agent_socket;
use coracle_api::strategy::Cidr;
use coracle_http::client::Target;
use coracle_program::command_line::{CommandLine, FILE_BYTES_MAX, OutputFormat, from_here};
use coracle_program::options::{FILE, Given, Row};

use crate::desired::page::{Page, PageAddress};
use crate::facts::clock::wall_ms;
use crate::facts::thresholds::{self, Threshold};
use crate::facts::world::Devices;
use crate::images;
use crate::inside::deed::{self, Deed};
use crate::network::pod_network::Owner;
use crate::usage::{self, OPTIONS};

/// Where the locks of engines are, common to all agents of a host.
const RUN_DIR: &str = "/run/coracle";
/// The configuration file of the packaged agent.
const PACKAGED: &str = "/etc/coracle/agent.conf";

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
    pub pod_cidr: Cidr,
    pub pod_network: Owner,
    /// Networks whose addresses services may have on this host.
    pub external_ips: Vec<Cidr>,
    /// None: the address of the cluster's DNS service, where the agent has a master.
    pub cluster_dns: Option<IpAddr>,
    /// None: as the master says.
    pub cluster_domain: Option<String>,
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
    Help(String),
    /// A command for the running agent, with the agent's socket.
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

/// A command for the running agent: the agent's configuration file says where its socket is.
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
    let mut line = CommandLine::default();
    let mut rest = arguments.iter().cloned();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--help" | "-h" => {
                let word = line.words.into_iter().next().or_else(|| rest.next());
                return Ok(Invocation::Help(usage::of(word.as_deref())));
            }
            "--version" => return Ok(Invocation::Version),
            format if format.starts_with("-o") => {
                let joined = Some(format[2..].trim_start_matches('=')).filter(|_| format != "-o").map(str::to_owned);
                let format = joined.or_else(|| rest.next()).unwrap_or_default();
                line.format = Some(OutputFormat::parse(&format).map_err(BadConfig)?);
            }
            _ => line.read(OPTIONS, argument, &mut rest).map_err(BadConfig)?,
        }
    }
    let command = command(&line.words.iter().map(String::as_str).collect::<Vec<_>>())?;
    if line.format.is_some() && command.is_none() {
        return Err(BadConfig("-o is for a command that tells something: see --help".to_owned()));
    }
    let mut flags = flags(line.given)?;
    let packaged = || Some(PACKAGED.to_owned()).filter(|path| command.is_some() && Path::new(path).exists());
    let mut given = match flags.remove(FILE).map(|file| file.value).or_else(packaged) {
        Some(file) => read_file(&file)?,
        None => BTreeMap::new(),
    };
    given.extend(flags);
    let config = Box::new(Settings { given, host }.config()?);
    Ok(match command {
        Some(command) => Invocation::Do(command, line.format.unwrap_or_default(), config),
        None => Invocation::Run(config),
    })
}

/// The options of the command line by their keys.
fn flags(given: Vec<Given>) -> Result<BTreeMap<&'static str, Given>, BadConfig> {
    let mut flags = BTreeMap::new();
    for mut given in given {
        if !given.value.is_empty() && OPTIONS.row(given.key).is_some_and(Row::is_relative) {
            let path = from_here(&given.value);
            given.value = path.map_err(|why| BadConfig(format!("{} {}: {why}", given.at, given.value)))?;
        }
        if let Some(earlier) = flags.insert(given.key, given) {
            return Err(BadConfig(format!("{} is given twice", earlier.at)));
        }
    }
    Ok(flags)
}

fn read_file(path: &str) -> Result<BTreeMap<&'static str, Given>, BadConfig> {
    let fail = |why: &dyn fmt::Display| BadConfig(format!("read the configuration {path}: {why}"));
    if std::fs::metadata(path).map_err(|error| fail(&error))?.len() > FILE_BYTES_MAX as u64 {
        return Err(fail(&format!("more than {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fail(&error))?;
    let lines = OPTIONS.file_lines(path, &text).map(|given| given.map(|given| (given.key, given)));
    lines.collect::<Result<_, _>>().map_err(BadConfig)
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

/// The values that are given, and the defaults where none is.
struct Settings<'a> {
    given: BTreeMap<&'static str, Given>,
    host: &'a HostDefaults,
}

impl Settings<'_> {
    /// An empty value is none.
    fn named(&self, key: &str) -> Option<&str> {
        self.given.get(key).map(|given| given.value.as_str()).filter(|value| !value.is_empty())
    }

    fn text(&self, key: &str) -> &str {
        self.named(key).or_else(|| OPTIONS.row(key)?.fact("default")).unwrap_or_default()
    }

    fn bad(&self, key: &str, why: &str) -> BadConfig {
        let at = self.given.get(key).map_or_else(|| format!("the default of {key}"), |given| given.at.clone());
        BadConfig(format!("{at}: {why}"))
    }

    fn value<T>(&self, key: &str, parse: fn(&str) -> Result<T, String>) -> Result<T, BadConfig> {
        parse(self.text(key)).map_err(|why| self.bad(key, &why))
    }

    fn optional<T>(&self, key: &str, parse: fn(&str) -> Result<T, String>) -> Result<Option<T>, BadConfig> {
        if self.text(key).is_empty() { Ok(None) } else { self.value(key, parse).map(Some) }
    }

    fn config(&self) -> Result<Config, BadConfig> {
        let docker_host =
            self.named("docker-host").or(self.host.docker_host.as_deref().filter(|host| !host.is_empty()));
        let docker_host = values::engine(docker_host.unwrap_or(self.text("docker-host")))
            .map_err(|why| self.bad("docker-host", &why))?;
        let (node_name, socket) = self.node_name()?;
        Ok(Config {
            docker_host,
            node_name,
            node_ip: self.optional("node-ip", values::node_ip)?,
            listen: self.value("listen", values::listen)?,
            master: self.master()?,
            manifest_url: self.page()?,
            eviction_hard: self.value("eviction-hard", thresholds::parse)?,
            cluster_dns: self.optional("cluster-dns", values::address)?,
            manifest_dir: self.value("manifest-dir", values::folder)?,
            data_dir: self.value("data-dir", values::folder)?,
            socket: Path::new(&self.value("socket-dir", values::folder)?).join(socket),
            pod_cidr: self.value("pod-cidr", values::pod_cidr)?,
            pod_network: self.value("pod-network", values::pod_network)?,
            external_ips: self.value("external-ips", values::networks)?,
            cluster_domain: self.optional("cluster-domain", values::domain)?,
            secrets_on_disk: self.value("secrets-on-disk", values::is_yes)?,
            run_dir: RUN_DIR.to_owned(),
            unsafe_sysctls: self.value("allowed-unsafe-sysctls", values::sysctls)?,
            devices: self.value("devices", values::devices)?,
            pids_max: self.value("pod-pids-limit", values::pids_max)?,
            net_raw: self.value("net-raw", values::is_yes)?,
            images: self.images()?,
            serial_pulls: self.value("serialize-image-pulls", values::is_yes)?,
        })
    }

    /// The node's name, and the name of the agent's socket.
    fn node_name(&self) -> Result<(String, String), BadConfig> {
        let name = self.named("node-name").map_or_else(|| self.host.name.to_lowercase(), str::to_owned);
        if !values::is_node_name(&name) {
            let why = format!("{name:?} is not a name of lower-case letters, digits, '-' and '.'");
            return Err(self.bad("node-name", &why));
        }
        match agent_socket(&name) {
            Some(socket) => Ok((name, socket)),
            None => Err(self.bad("node-name", &format!("{name:?} is too long for the name of a socket"))),
        }
    }

    /// Whoever answers in the master's place says which containers this host runs.
    fn master(&self) -> Result<Option<Target>, BadConfig> {
        let master: Option<Target> = self.optional("master", values::parse)?;
        if let Some(far) = master.as_ref().filter(|master| !master.is_safe()) {
            let why = format!(
                "{far} is another host, and without TLS anybody on the way could answer for it: use unix:///PATH, or \
                 http:// with a loopback address"
            );
            return Err(self.bad("master", &why));
        }
        Ok(master)
    }

    fn page(&self) -> Result<Option<Page>, BadConfig> {
        let Some(address) = self.optional::<PageAddress>("manifest-url", values::parse)? else { return Ok(None) };
        let path = self.value("manifest-ca", values::folder)?;
        let authorities = || fs::read(&path).map_err(|error| format!("manifest-ca: {path}: {error}"));
        let since_1970 = || Duration::from_millis(u64::try_from(wall_ms()).unwrap_or_default());
        let page = address.page(authorities, Arc::new(since_1970));
        page.map(Some).map_err(|why| self.bad("manifest-url", &why))
    }

    fn images(&self) -> Result<images::ImageSettings, BadConfig> {
        let high = self.value("image-gc-high-threshold", values::percent)?;
        let low = self.value("image-gc-low-threshold", values::percent)?;
        if low > high {
            return Err(self.bad("image-gc-low-threshold", "it is above image-gc-high-threshold"));
        }
        Ok(images::ImageSettings { folders: self.value("images-dir", values::folders)?, high, low })
    }
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
        let page = run(&["--manifest-url", "http://127.0.0.1:8000/m"]).unwrap().manifest_url;
        assert_eq!(page.map(|page| page.to_string()).as_deref(), Some("http://127.0.0.1:8000/m"));
        refused(&["--manifest-url", "http://box:8000/m"], "whoever answers in its place is root here");
        refused(&["--manifest-url", "https://box/m", "--manifest-ca", "/nonexistent"], "manifest-ca: /nonexistent");
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
        assert_eq!(config.eviction_hard.len(), thresholds::SIGNALS.len());
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
        assert!(
            matches!(help, Invocation::Help(ref text) if text.starts_with("usage: coracle-agent plan")),
            "{help:?}"
        );
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
        refused(&["--master", "http://10.0.0.1:8080"], "without TLS");
        refused(&["--master", "http://master:8080"], "without TLS");
        assert!(run(&["--master", "http://127.0.0.1:8080"]).is_ok());
        refused(&["--docker-host", "ssh://x"], "--docker-host");
        refused(&["--secrets-on-disk", "maybe"], "neither yes nor no");
        refused(&["--config", "/nonexistent"], "/nonexistent");
        refused(&["--data-dir", "/a", "--data-dir", "/b"], "twice");
        let in_file = |text: &str| OPTIONS.file_lines("f", text).find_map(Result::err).unwrap();
        assert!(in_file("a\n").starts_with("f line 1"));
        assert!(in_file("\nnope = 1\n").contains("nope"));
        let path = std::env::temp_dir().join(format!("coracle-config-relative-{}", std::process::id()));
        std::fs::write(&path, "data-dir = here\n").unwrap();
        refused(&["--config", path.to_str().unwrap()], "absolute");
        std::fs::remove_file(path).unwrap();
    }
}
