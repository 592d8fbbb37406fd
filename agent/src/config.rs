//! Flags and the configuration file -> `Config`. A flag wins over the file, the file over the environment, that over
//! the default.
//!
//! The file has a line `key = value` for each, with the names of the flags; `#` begins a comment line.

mod settings;
mod update;
mod values;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use coracle_api::strategy::Cidr;
use coracle_http::client::Target;
use coracle_program::command_line::{CommandLine, FILE_BYTES_MAX, OutputFormat, from_here};
use coracle_program::options::{FILE, Given, Row};

use crate::backup::options::Options as BackupOptions;
use crate::desired::file::ReadSettings;
use crate::desired::file_services::decide::FileRange;
use crate::desired::page::Page;
use crate::facts::thresholds::Threshold;
use crate::facts::world::Devices;
use crate::images;
use crate::inside::Sockets;
use crate::inside::deed::{self, Deed};
use crate::network::pod_network::Owner;
use crate::usage::{self, Called, OPTIONS};
use settings::Settings;
pub use update::UpdateWish;

/// Where the locks of engines are, common to all agents of a host.
const RUN_DIR: &str = "/run/coracle";
/// The configuration file of the packaged agent.
const PACKAGED: &str = "/etc/coracle/agent.conf";
/// The configuration and the manifests of the packages.
const ETC: &str = "/etc/coracle";
/// That of the packaged master, and its key and default for the socket of root.
const PACKAGED_MASTER: &str = "/etc/coracle/master.conf";
const MASTER_SOCKET: (&str, &str) = ("admin-socket", "/run/coracle/master/api.sock");

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub manifest_dir: String,
    /// Fields of manifests that v1 does not have are left out with a warning, not refused.
    pub allow_unknown_fields: bool,
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
    /// Where Services of manifest files have their addresses, and the agent its DNS server without a master.
    pub file_service_cidr: FileRange,
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

impl Config {
    /// How manifest files are read.
    pub fn reading(&self) -> ReadSettings<'_> {
        ReadSettings { node_name: &self.node_name, allow_unknown: self.allow_unknown_fields }
    }
}

/// A parsed command line.
#[derive(Debug, PartialEq)]
pub enum Invocation {
    Run(Box<Config>),
    Do(Command, OutputFormat, Box<Config>),
    /// What to say.
    Help(String),
    /// A command for the running programs, with their sockets.
    Inside(Box<Deed>, Sockets),
    Version,
}

/// Done once, and told. All but `Backup`, `Restore` and `Update` only look.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Check(Vec<PathBuf>),
    Plan,
    /// Of the agent.
    Status,
    /// Of both programs.
    Whole,
    Doctor,
    Backup(PathBuf, BackupOptions),
    Restore(PathBuf, BackupOptions),
    Images,
    /// Asks the running agent to replace pods.
    Update(UpdateWish),
    Top(SortBy),
}

/// The largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    #[default]
    Cpu,
    Memory,
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
#[derive(Clone, Debug)]
pub struct HostDefaults {
    pub name: String,
    /// `DOCKER_HOST`
    pub docker_host: Option<String>,
    pub called: Called,
}

/// Reads the command line, and the file that it names. A command reads the packaged agent's file where none is named.
pub fn read(arguments: &[String], host: &HostDefaults) -> Result<Invocation, BadConfig> {
    if let Some(taken) = update::take(arguments) {
        let (wish, others) = taken.map_err(BadConfig)?;
        return Ok(match read_flags(&others, host)? {
            Invocation::Do(_, form, config) => Invocation::Do(Command::Update(wish), form, config),
            other => other,
        });
    }
    match (deed::read(arguments), arguments) {
        (Some(_), [word, help, ..]) if ["--help", "-h"].contains(&help.as_str()) => {
            Ok(Invocation::Help(usage::of(host.called, Some(word))))
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
    // The options alone, as for an agent that runs.
    let host = HostDefaults { called: Called::Agent, ..host.clone() };
    Ok(match read_flags(&flags, &host)? {
        Invocation::Run(config) => Invocation::Inside(Box::new(deed), config.sockets()),
        other => other,
    })
}

impl Config {
    /// Where the programs of this host answer root. The master: as this agent has it, else as the master's file says.
    pub fn sockets(&self) -> Sockets {
        let master = match &self.master {
            Some(Target::Unix(path)) => path.clone(),
            _ => {
                fs::read_to_string(PACKAGED_MASTER).map_or_else(|_| MASTER_SOCKET.1.into(), |text| master_socket(&text))
            }
        };
        Sockets { agent: self.socket.clone(), master }
    }
}

/// The socket that the text of a master's configuration file names.
fn master_socket(text: &str) -> PathBuf {
    let (key, default) = MASTER_SOCKET;
    let value = text.lines().find_map(|line| line.trim().strip_prefix(key)?.trim_start().strip_prefix('='));
    value.map(str::trim).filter(|value| !value.is_empty()).unwrap_or(default).into()
}

fn read_flags(arguments: &[String], host: &HostDefaults) -> Result<Invocation, BadConfig> {
    let mut line = CommandLine::default();
    let mut sort_by = None;
    if host.called == Called::Coracle && arguments.is_empty() {
        return Ok(Invocation::Help(usage::of(host.called, None)));
    }
    let mut rest = arguments.iter().cloned();
    let mut of_backup = BTreeMap::new();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--help" | "-h" => {
                let word = line.words.into_iter().next().or_else(|| rest.next());
                return Ok(Invocation::Help(usage::of(host.called, word.as_deref())));
            }
            "--version" => return Ok(Invocation::Version),
            format if format.starts_with("-o") => {
                let joined = Some(format[2..].trim_start_matches('=')).filter(|_| format != "-o").map(str::to_owned);
                let format = joined.or_else(|| rest.next()).unwrap_or_default();
                line.format = Some(OutputFormat::parse(&format).map_err(BadConfig)?);
            }
            flag if is_of_backup(&line.words, flag) => {
                let (key, value) =
                    flag.split_once('=').map_or((flag, None), |(key, value)| (key, Some(value.to_owned())));
                let value = value.or_else(|| rest.next()).ok_or_else(|| BadConfig(format!("{key} needs a value")))?;
                of_backup.insert(key.to_owned(), from_here(&value).map_err(|why| BadConfig(format!("{key}: {why}")))?);
            }
            by if by == "--sort-by" || by.starts_with("--sort-by=") => {
                let value = by.split_once('=').map(|(_, value)| value.to_owned()).or_else(|| rest.next());
                sort_by = Some(sorted(&value.unwrap_or_default())?);
            }
            _ => line.read(OPTIONS, argument, &mut rest).map_err(BadConfig)?,
        }
    }
    let options = BackupOptions {
        etc: of_backup.remove("--etc").unwrap_or_else(|| ETC.to_owned()).into(),
        master_config: of_backup.remove("--master-config"),
        named: line.given.iter().any(|given| given.key == "node-name"),
    };
    let command = command(&line.words.iter().map(String::as_str).collect::<Vec<_>>(), options)?;
    let command = as_called(command, sort_by, host.called)?;
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

/// Options of `backup` and `restore` alone, behind these words.
fn is_of_backup(words: &[String], flag: &str) -> bool {
    match (words.first().map(String::as_str), flag.split('=').next()) {
        (Some("backup"), Some("--etc")) => true,
        (Some("backup" | "restore"), Some("--master-config")) => true,
        _ => false,
    }
}

/// The command under the name by which the program is called: the status of `coracle` is that of both programs.
fn as_called(command: Option<Command>, by: Option<SortBy>, called: Called) -> Result<Option<Command>, BadConfig> {
    match (command, by) {
        (Some(Command::Top(_)), _) => Ok(Some(Command::Top(by.unwrap_or_default()))),
        (_, Some(_)) => Err(BadConfig("--sort-by is for top: see top --help".to_owned())),
        (Some(Command::Status), None) if called == Called::Coracle => Ok(Some(Command::Whole)),
        (None, None) if called == Called::Coracle => Err(BadConfig("a command is missing: see --help".to_owned())),
        (command, None) => Ok(command),
    }
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
fn command(words: &[&str], options: BackupOptions) -> Result<Option<Command>, BadConfig> {
    let path = |dir: &str| from_here(dir).map(PathBuf::from).map_err(|why| BadConfig(format!("{dir}: {why}")));
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
        ["top", ..] => alone(Command::Top(SortBy::default())),
        ["doctor", ..] => alone(Command::Doctor),
        ["backup", dir] => Ok(Some(Command::Backup(path(dir)?, options))),
        ["restore", dir] => Ok(Some(Command::Restore(path(dir)?, options))),
        [word @ ("backup" | "restore"), ..] => Err(BadConfig(format!("{word} takes one directory, see {word} --help"))),
        ["images", ..] => alone(Command::Images),
        ["update", ..] => alone(Command::Update(UpdateWish::default())),
        [word, ..] => Err(BadConfig(format!("{word:?} is no option and no command: see --help"))),
    }
}

fn sorted(text: &str) -> Result<SortBy, BadConfig> {
    match text {
        "cpu" => Ok(SortBy::Cpu),
        "memory" => Ok(SortBy::Memory),
        other => Err(BadConfig(format!("--sort-by {other:?}: it is cpu or memory"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostDefaults {
        HostDefaults { name: "Box".into(), docker_host: None, called: Called::Agent }
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
        assert_eq!(config.eviction_hard.len(), crate::facts::thresholds::SIGNALS.len());
        assert_eq!((config.pids_max, run(&["--pod-pids-limit", "1024"]).unwrap().pids_max), (None, Some(1024)));
        assert_eq!(
            (config.node_ip, run(&["--node-ip", "192.168.1.7"]).unwrap().node_ip),
            (None, "192.168.1.7".parse().ok())
        );
        let networks = run(&["--external-ips", "192.168.1.240/28, 203.0.113.7/32"]).unwrap().external_ips;
        let shown: Vec<String> = networks.iter().map(ToString::to_string).collect();
        assert_eq!((shown.join(" ").as_str(), config.external_ips.len()), ("192.168.1.240/28 203.0.113.7/32", 0));
        let lenient = run(&["--allow-unknown-fields=yes"]).unwrap().allow_unknown_fields;
        assert_eq!((config.allow_unknown_fields, lenient), (false, true));
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
        check("top --sort-by memory", Command::Top(SortBy::Memory), OutputFormat::Text);
        check("top --sort-by=cpu -ojson", Command::Top(SortBy::Cpu), OutputFormat::Json);
        let help = read(&["plan".to_owned(), "--help".to_owned()], &host()).unwrap();
        assert!(
            matches!(help, Invocation::Help(ref text) if text.starts_with("usage: coracle-agent plan")),
            "{help:?}"
        );
    }

    #[test]
    fn under_the_other_name() {
        let coracle = |line: &str| {
            let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let host = HostDefaults { called: Called::Coracle, ..host() };
            read(&arguments, &host).map_err(|error| error.to_string())
        };
        let helps = |line: &str, begin: &str| {
            let told = coracle(line);
            assert!(matches!(told, Ok(Invocation::Help(ref text)) if text.starts_with(begin)), "{line}: {told:?}");
        };
        helps("", "coracle: the pods of this host");
        helps("--help", "coracle: the pods of this host");
        helps("top --help", "usage: coracle top");
        helps("logs --help", "usage: coracle logs");
        assert_eq!(coracle("--version"), Ok(Invocation::Version));
        assert_eq!(coracle("--node-name x"), Err("a command is missing: see --help".to_owned()));
        assert!(matches!(coracle("status -o wide"), Ok(Invocation::Do(Command::Whole, OutputFormat::Wide, _))));
        assert!(matches!(coracle("doctor"), Ok(Invocation::Do(Command::Doctor, ..))));
        let Ok(Invocation::Inside(deed, sockets)) = coracle("logs --socket-dir /s --master unix:///m.sock shop/web")
        else {
            panic!("logs is for the running programs")
        };
        assert_eq!(deed.named.to_string(), "pod shop/web");
        assert_eq!(sockets, Sockets { agent: "/s/box.sock".into(), master: "/m.sock".into() });
    }

    #[test]
    fn where_the_master_answers() {
        for (text, expected) in [
            ("", "/run/coracle/master/api.sock"),
            ("#admin-socket = /x\n", "/run/coracle/master/api.sock"),
            ("a = b\n  admin-socket = /y/api.sock \n", "/y/api.sock"),
            ("admin-socket=/z", "/z"),
            ("admin-socket =\n", "/run/coracle/master/api.sock"),
            ("admin-socket-x = /w", "/run/coracle/master/api.sock"),
        ] {
            assert_eq!(master_socket(text), Path::new(expected), "{text}");
        }
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
        refused(&["plan", "--sort-by", "cpu"], "--sort-by is for top");
        refused(&["--sort-by", "cpu"], "--sort-by is for top");
        refused(&["top", "--sort-by", "name"], "cpu or memory");
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
