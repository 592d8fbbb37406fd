//! The configuration: flags, and a file whose keys are the flags without their dashes.
//!
//!     arguments -> (--config FILE -> lines) -> Invocation::Run(Config)
//!
//! A flag wins over the file. Every mistake is one line that names the flag, or the file and the line.

mod values;

use self::values::{address, audit_level, bytes, cidr, domain, grace, listen, path, secure_clients, tls_names, yes};
use crate::audit::AuditOptions;
use crate::credentials::{self, Credentials};
use crate::usage::{self, OPTIONS};
use coracle_api::strategy::{Cidr, NodePorts};
use coracle_program::command_line::{CommandLine, FILE_BYTES_MAX, OutputFormat, from_here};
use coracle_program::options::{FILE, Row};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const SERVICE_CIDR: &str = "10.96.0.0/16";
/// As Kubernetes has it: five beats of an agent.
const NODE_MONITOR_GRACE: Duration = Duration::from_secs(50);
/// What the packaged master is started with.
const PACKAGED: &str = "/etc/coracle/master.conf";

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub data_dir: PathBuf,
    pub listen: Option<SocketAddr>,
    /// The secure port. None: there is none.
    pub secure_listen: Option<SocketAddr>,
    pub secure_clients: SecureClients,
    pub admin_socket: PathBuf,
    /// The directory of the agents' sockets, `NODE.sock` each.
    pub agent_sockets: PathBuf,
    pub service_cidr: Cidr,
    pub node_ports: NodePorts,
    /// Services of type LoadBalancer get the nodes' addresses. False: an external controller balances such services.
    pub balancer: bool,
    /// Bytes that the store may hold. None: a share of the memory that this process may use.
    pub store_limit: Option<u64>,
    /// Silence after which a node counts as gone.
    pub node_monitor_grace: Duration,
    /// The domain of services' names.
    pub cluster_domain: String,
    /// More names and addresses of the server's certificate.
    pub tls_names: Vec<String>,
    /// A certificate of the keeper's own for the server, and its key: both or none.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// More authorities for client certificates.
    pub client_ca: Option<PathBuf>,
    /// The file of the keys that seal Secrets and private keys on the disk. None: they lie there in clear text.
    pub encryption_key: Option<PathBuf>,
    /// Kubernetes' `AuthenticationConfiguration`: outside issuers, and who may come without credentials.
    pub authentication_config: Option<PathBuf>,
    /// What is recorded of requests, and where.
    pub audit: AuditOptions,
    /// The directory of manifests that are applied. None: there is none.
    pub apply_dir: Option<PathBuf>,
    /// No service takes an external address that it does not have.
    pub deny_service_external_ips: bool,
    /// Whether pods are placed, replicated and guarded. Without a flag: an API server alone is for tests.
    pub workloads: bool,
}

/// Whose connections the secure port takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecureClients {
    /// Programs of this host and pods of its agents.
    Host,
    /// Everybody who reaches the port.
    Network,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            data_dir: "/var/lib/coracle/master".into(),
            listen: None,
            secure_listen: None,
            secure_clients: SecureClients::Host,
            admin_socket: "/run/coracle/master/api.sock".into(),
            agent_sockets: "/run/coracle/agent".into(),
            service_cidr: Cidr::parse(SERVICE_CIDR).expect("the default is a network"),
            node_ports: NodePorts::default(),
            balancer: true,
            store_limit: None,
            node_monitor_grace: NODE_MONITOR_GRACE,
            cluster_domain: "cluster.local".to_owned(),
            tls_names: Vec::new(),
            tls_cert: None,
            tls_key: None,
            client_ca: None,
            encryption_key: None,
            authentication_config: None,
            audit: AuditOptions::default(),
            apply_dir: None,
            deny_service_external_ips: false,
            workloads: true,
        }
    }
}

#[derive(Debug, PartialEq)]
pub enum Invocation {
    Run(Config),
    Do(Deed, Config),
    /// What to say.
    Help(String),
    Version,
}

/// Something done once to the store.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    Fsck,
    Verify,
    Flush,
    Salvage,
    Backup(PathBuf),
    Restore(PathBuf),
    Encryption(EncryptionDeed),
    Status(OutputFormat),
    Apply(ApplyDeed),
    /// Shows the bindings from before access rules counted, and takes them.
    Adopt {
        take: bool,
    },
    Credentials(Credentials),
    /// With these arguments.
    Kubectl(Vec<String>),
}

/// Something done about what is applied from `apply-dir`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyDeed {
    /// Says what was applied, what is wrong, and what waits.
    Show,
    /// Removes what waits for it.
    Confirm,
    /// Applies everything again.
    Again,
    /// Marks the directory as that of the inventory. `anyway`: also where files of it are missing.
    Mark { anyway: bool },
}

/// Something done to the keys that seal Secrets on the disk.
#[derive(Clone, Debug, PartialEq)]
pub enum EncryptionDeed {
    /// Makes a key: to standard output, or a file of its own.
    NewKey(Option<PathBuf>),
    /// Seals everything by a new key.
    Rotate { keep_old: bool },
    /// Writes everything in clear text.
    Off,
}

/// `arguments` without the program's name; `read` gives the text of a file.
pub fn parse(
    arguments: impl IntoIterator<Item = String>,
    read: impl Fn(&Path) -> std::io::Result<String>,
) -> Result<Invocation, String> {
    let mut line = CommandLine::default();
    let (mut arguments, mut flags) = (arguments.into_iter(), Vec::new());
    let mut kubectl = None;
    while let Some(argument) = arguments.next() {
        let is_of_credentials = line.words.first().is_some_and(|word| credentials::COMMANDS.contains(&word.as_str()));
        if is_of_credentials && let Some(flag) = credentials::flag(&argument, &mut arguments)? {
            flags.push(flag);
            continue;
        }
        match argument.split('=').next() {
            // All that follows is kubectl's.
            Some("kubectl") if line.words.is_empty() => {
                kubectl = Some(arguments.collect());
                break;
            }
            Some("--help") => {
                line.words.extend(arguments.filter(|argument| !argument.starts_with("--")));
                return Ok(Invocation::Help(usage::of(&line.words)));
            }
            Some("--version") => return Ok(Invocation::Version),
            _ if argument == "-o" => line.format = Some(OutputFormat::parse(&arguments.next().unwrap_or_default())?),
            Some("--yes") if line.words.first().is_some_and(|word| word == "rbac") => line.words.push(argument),
            Some("--confirm" | "--again" | "--mark" | "--yes")
                if line.words.first().is_some_and(|word| word == "apply") =>
            {
                line.words.push(argument)
            }
            Some("--keep-old") if line.words.first().is_some_and(|word| word == "encryption") => {
                line.words.push(argument)
            }
            _ => line.read(OPTIONS, argument, &mut arguments)?,
        }
    }
    let deed = match kubectl {
        Some(arguments) => Some(Deed::Kubectl(arguments)),
        None => deed(&line.words, &flags)?,
    };
    let deed = match (deed, line.format) {
        (Some(Deed::Status(_)), format) => Some(Deed::Status(format.unwrap_or_default())),
        (deed, None) => deed,
        _ => return Err("-o is for status, see --help".to_owned()),
    };
    let (mut files, given): (Vec<_>, Vec<_>) = line.given.into_iter().partition(|given| given.key == FILE);
    let named = given.iter().any(|given| given.key == "data-dir");
    let file = files.pop().map(|file| file.value.into()).or_else(|| packaged(deed.as_ref(), named, &read));
    let mut config = Config::default();
    if let Some(path) = file {
        read_file(&mut config, &path, read)?;
    }
    for given in given {
        let wrong = |why| format!("{} {}: {why}", given.at, given.value);
        let is_relative = OPTIONS.row(given.key).is_some_and(Row::is_relative);
        let path = is_relative.then(|| from_here(&given.value)).transpose().map_err(wrong)?;
        set(&mut config, given.key, path.as_ref().unwrap_or(&given.value)).map_err(wrong)?;
    }
    if config.tls_cert.is_some() != config.tls_key.is_some() {
        return Err("--tls-cert and --tls-key belong together: give both, or none".to_owned());
    }
    Ok(match deed {
        None => Invocation::Run(config),
        Some(deed) => Invocation::Do(deed, config),
    })
}

/// Who names no directory means the packaged master's. A file that is there and cannot be read is said, not passed
/// over: a restore would go somewhere else. With a directory named the file is left alone, and its mistakes stand in
/// nobody's way.
fn packaged(deed: Option<&Deed>, named: bool, read: impl Fn(&Path) -> std::io::Result<String>) -> Option<PathBuf> {
    let wanted = match deed {
        None => false,
        Some(Deed::Status(_)) => true,
        Some(_) => !named,
    };
    let path = PathBuf::from(PACKAGED);
    let there = || !matches!(read(&path), Err(error) if error.kind() == std::io::ErrorKind::NotFound);
    (wanted && there()).then_some(path)
}

/// None: it is to serve.
fn deed(words: &[String], flags: &[(String, String)]) -> Result<Option<Deed>, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Ok(Some(match words.as_slice() {
        [] => return Ok(None),
        [first, ..] if credentials::COMMANDS.contains(first) => Deed::Credentials(credentials::parse(&words, flags)?),
        ["store", "fsck"] => Deed::Fsck,
        ["store", "verify"] => Deed::Verify,
        ["store", "flush"] => Deed::Flush,
        ["store", "salvage"] => Deed::Salvage,
        ["backup", file] => Deed::Backup(file.into()),
        ["restore", file] => Deed::Restore(file.into()),
        ["store", "fsck" | "verify" | "flush" | "salvage", more, ..] => {
            return Err(format!(
                "unexpected argument {more:?}: store {0} takes flags alone, see store {0} --help",
                words[1]
            ));
        }
        ["encryption", rest @ ..] => Deed::Encryption(encryption(rest)?),
        ["apply", rest @ ..] => Deed::Apply(applied(rest)?),
        ["rbac", "adopt"] => Deed::Adopt { take: false },
        ["rbac", "adopt", "--yes"] => Deed::Adopt { take: true },
        ["rbac", ..] => return Err("rbac takes adopt, and --yes behind it, see rbac --help".to_owned()),
        ["status"] => Deed::Status(OutputFormat::default()),
        ["status", more, ..] => {
            return Err(format!("unexpected argument {more:?}: status takes flags alone, see status --help"));
        }
        ["store", ..] => return Err("store takes one of fsck, verify, flush and salvage, see store --help".to_owned()),
        ["backup" | "restore", ..] => return Err(format!("{} takes one file, see {} --help", words[0], words[0])),
        [word, ..] => return Err(format!("unexpected argument {word:?}: flags begin with --, see --help")),
    }))
}

fn applied(words: &[&str]) -> Result<ApplyDeed, String> {
    match words {
        [] => Ok(ApplyDeed::Show),
        ["--confirm"] => Ok(ApplyDeed::Confirm),
        ["--again"] => Ok(ApplyDeed::Again),
        ["--mark"] => Ok(ApplyDeed::Mark { anyway: false }),
        ["--mark", "--yes"] => Ok(ApplyDeed::Mark { anyway: true }),
        _ => Err("apply takes one of --confirm, --again and --mark [--yes], see apply --help".to_owned()),
    }
}

fn encryption(words: &[&str]) -> Result<EncryptionDeed, String> {
    match words {
        ["new-key"] => Ok(EncryptionDeed::NewKey(None)),
        ["new-key", file] => Ok(EncryptionDeed::NewKey(Some(file.into()))),
        ["rotate"] => Ok(EncryptionDeed::Rotate { keep_old: false }),
        ["rotate", "--keep-old"] => Ok(EncryptionDeed::Rotate { keep_old: true }),
        ["off"] => Ok(EncryptionDeed::Off),
        _ => {
            Err("encryption takes one of new-key [FILE], rotate [--keep-old] and off, see encryption --help".to_owned())
        }
    }
}

fn read_file(config: &mut Config, path: &Path, read: impl Fn(&Path) -> std::io::Result<String>) -> Result<(), String> {
    let shown = path.display();
    let text = read(path).map_err(|error| format!("--config {shown}: {error}"))?;
    if text.len() > FILE_BYTES_MAX {
        return Err(format!("--config {shown}: {} bytes, at most {FILE_BYTES_MAX}", text.len()));
    }
    for given in OPTIONS.file_lines(&shown.to_string(), &text) {
        let given = given?;
        set(config, given.key, &given.value).map_err(|why| format!("{} = {}: {why}", given.at, given.value))?;
    }
    Ok(())
}

fn set(config: &mut Config, key: &str, value: &str) -> Result<(), String> {
    match key {
        "data-dir" => config.data_dir = path(value)?,
        "admin-socket" => config.admin_socket = path(value)?,
        "agent-sockets" => config.agent_sockets = path(value)?,
        "listen" if value.is_empty() => config.listen = None,
        "listen" => config.listen = Some(listen(value)?),
        "secure-listen" if value.is_empty() => config.secure_listen = None,
        "secure-listen" => config.secure_listen = Some(address(value)?),
        "secure-clients" => config.secure_clients = secure_clients(value)?,
        "service-cidr" => config.service_cidr = cidr(value)?,
        "service-node-port-range" => config.node_ports = NodePorts::parse(value)?,
        "load-balancer" => config.balancer = yes(value)?,
        "store-limit" => config.store_limit = Some(bytes(value)?),
        "node-monitor-grace" => config.node_monitor_grace = grace(value)?,
        "cluster-domain" => config.cluster_domain = domain(value)?,
        "tls-san" => config.tls_names = tls_names(value)?,
        "tls-cert" => config.tls_cert = Some(path(value)?),
        "tls-key" => config.tls_key = Some(path(value)?),
        "client-ca" => config.client_ca = Some(path(value)?),
        "encryption-key" => config.encryption_key = Some(path(value)?),
        "authentication-config" => config.authentication_config = Some(path(value)?),
        "audit" => config.audit.level = audit_level(value)?,
        "audit-file" => config.audit.file = Some(path(value)?),
        "apply-dir" if value.is_empty() => config.apply_dir = None,
        "apply-dir" => config.apply_dir = Some(path(value)?),
        "deny-service-external-ips" => config.deny_service_external_ips = yes(value)?,
        _ => return Err("unknown key".to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AuditLevel;

    const FILE: &str = "# where\n\ndata-dir = /srv/coracle\nlisten=127.0.0.1:8080\n";

    fn check(arguments: &str, expected: Result<Invocation, &str>) {
        let read = |path: &Path| match path.to_str() {
            Some("/good") => Ok(FILE.to_owned()),
            Some("/twice") => Ok("listen = [::1]:1\nlisten = [::1]:2\n".to_owned()),
            Some("/unknown") => Ok("lisen = 1\n".to_owned()),
            Some("/shapeless") => Ok("listen\n".to_owned()),
            Some("/relative") => Ok("data-dir = here\n".to_owned()),
            Some("/far") => Ok("\nlisten = 0.0.0.0:80\n".to_owned()),
            _ => Err(std::io::Error::from(std::io::ErrorKind::NotFound)),
        };
        let found = parse(arguments.split_whitespace().map(str::to_owned), read);
        match (found, expected) {
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{arguments}: {found}"),
            (found, expected) => assert_eq!(found, expected.map_err(str::to_owned), "{arguments}"),
        }
    }

    #[test]
    fn flags_and_files() {
        let plain = Config::default();
        check("", Ok(Invocation::Run(plain.clone())));
        check("--help", Ok(Invocation::Help(usage::of(&[]))));
        check("--data-dir /a --version", Ok(Invocation::Version));
        let node_ports = NodePorts::parse("20000-20999").unwrap();
        let other = Config { node_ports, balancer: false, ..plain.clone() };
        check("--service-node-port-range 20000-20999 --load-balancer=no", Ok(Invocation::Run(other)));
        let listen = Some("127.0.0.1:8080".parse().unwrap());
        check(
            "--config /good",
            Ok(Invocation::Run(Config { data_dir: "/srv/coracle".into(), listen, ..plain.clone() })),
        );
        check(
            "--data-dir=/b --config /good",
            Ok(Invocation::Run(Config { data_dir: "/b".into(), listen, ..plain.clone() })),
        );
        let here = std::env::current_dir().unwrap();
        let relative = Config { data_dir: here.join("data"), admin_socket: here.join("run/api.sock"), ..plain.clone() };
        check("--data-dir data --admin-socket ./run/api.sock", Ok(Invocation::Run(relative)));
        let service_cidr = Cidr::parse("10.0.0.0/24").unwrap();
        check("--service-cidr 10.0.0.0/24", Ok(Invocation::Run(Config { service_cidr, ..plain.clone() })));
        check("--store-limit 128M", Ok(Invocation::Run(Config { store_limit: Some(128 << 20), ..plain.clone() })));
        check("--store-limit=2G", Ok(Invocation::Run(Config { store_limit: Some(2 << 30), ..plain.clone() })));
        let patient = Config { node_monitor_grace: Duration::from_secs(120), ..plain.clone() };
        check("--node-monitor-grace 2m", Ok(Invocation::Run(patient)));
        let copy = Config { data_dir: "/copy".into(), ..plain.clone() };
        let open = Config {
            secure_listen: Some("0.0.0.0:6443".parse().unwrap()),
            secure_clients: SecureClients::Network,
            ..plain.clone()
        };
        check("--secure-listen 0.0.0.0:6443 --secure-clients network", Ok(Invocation::Run(open)));
        check("store verify --data-dir /copy", Ok(Invocation::Do(Deed::Verify, copy.clone())));
        check("--data-dir /copy store fsck", Ok(Invocation::Do(Deed::Fsck, copy)));
        check("store flush", Ok(Invocation::Do(Deed::Flush, plain.clone())));
        check("store salvage", Ok(Invocation::Do(Deed::Salvage, plain.clone())));
        check("backup a.jsonl", Ok(Invocation::Do(Deed::Backup("a.jsonl".into()), plain.clone())));
        let kubectl = vec!["get".to_owned(), "--help".to_owned(), "-o=json".to_owned()];
        check("kubectl get --help -o=json", Ok(Invocation::Do(Deed::Kubectl(kubectl), plain.clone())));
        let revoked = Deed::Credentials(Credentials::TokenRevoke("abcdef".into()));
        check("token revoke abcdef", Ok(Invocation::Do(revoked, plain.clone())));
        let names = Config { tls_names: vec!["a.b".into(), "::1".into()], ..plain.clone() };
        check("--tls-san a.b,::1", Ok(Invocation::Run(names)));
        let own = Config { tls_cert: Some("/c".into()), tls_key: Some("/k".into()), ..plain.clone() };
        check("--tls-cert /c --tls-key /k", Ok(Invocation::Run(own)));
        let audit = AuditOptions { level: AuditLevel::Writes, file: Some("/a".into()) };
        let audited = Config { audit, deny_service_external_ips: true, ..plain.clone() };
        check("--audit writes --audit-file /a --deny-service-external-ips yes", Ok(Invocation::Run(audited)));
        check("status", Ok(Invocation::Do(Deed::Status(OutputFormat::Text), plain.clone())));
        check("status -o json", Ok(Invocation::Do(Deed::Status(OutputFormat::Json), plain.clone())));
        check("rbac adopt", Ok(Invocation::Do(Deed::Adopt { take: false }, plain.clone())));
        check("rbac adopt --yes", Ok(Invocation::Do(Deed::Adopt { take: true }, plain.clone())));
        check("rbac", Err("rbac takes adopt, and --yes behind it, see rbac --help"));
        check("restore /a", Ok(Invocation::Do(Deed::Restore("/a".into()), plain.clone())));
        check("store fsck --help", Ok(Invocation::Help(usage::of(&["store".to_owned(), "fsck".to_owned()]))));
        check("--data-dir /a --help backup", Ok(Invocation::Help(usage::of(&["backup".to_owned()]))));
        check(
            "--agent-sockets /tmp/a",
            Ok(Invocation::Run(Config { agent_sockets: "/tmp/a".into(), ..plain.clone() })),
        );
        check(
            "--listen localhost:0",
            Ok(Invocation::Run(Config { listen: Some("127.0.0.1:0".parse().unwrap()), ..plain })),
        );
    }

    #[test]
    fn commands_are_about_the_packaged_master() {
        let parse = |arguments: &str, text: Result<&str, std::io::ErrorKind>| {
            let read = |path: &Path| {
                assert_eq!(path, Path::new(PACKAGED), "{arguments}");
                text.map(str::to_owned).map_err(std::io::Error::from)
            };
            match super::parse(arguments.split_whitespace().map(str::to_owned), read)? {
                Invocation::Run(config) | Invocation::Do(_, config) => Ok((config.data_dir, config.admin_socket)),
                other => panic!("{arguments}: {other:?}"),
            }
        };
        let file = Ok("data-dir = /srv/coracle\nadmin-socket = /srv/api.sock\n");
        let moved: (PathBuf, PathBuf) = ("/srv/coracle".into(), "/srv/api.sock".into());
        let plain = (Config::default().data_dir, Config::default().admin_socket);
        for command in ["status", "store fsck", "store verify", "store flush", "store salvage", "backup a", "restore a"]
        {
            assert_eq!(parse(command, file), Ok(moved.clone()), "{command}");
            assert_eq!(parse(command, Err(std::io::ErrorKind::NotFound)), Ok(plain.clone()), "{command}");
            let refused: String = parse(command, Err(std::io::ErrorKind::PermissionDenied)).unwrap_err();
            assert!(refused.starts_with("--config /etc/coracle/master.conf: "), "{command}: {refused}");
            let refused: String = parse(command, Ok("nonsense")).unwrap_err();
            assert!(refused.starts_with("/etc/coracle/master.conf line 1: "), "{command}: {refused}");
        }
        // A copy elsewhere ignores the file of the packaged master; a serving master reads only the file in `--config`.
        let copy = ("/copy".into(), plain.1.clone());
        assert_eq!(parse("store verify --data-dir /copy", Ok("nonsense")), Ok(copy.clone()));
        assert_eq!(parse("restore a --data-dir=/copy", Ok("nonsense")), Ok(copy));
        assert_eq!(parse("", file), Ok(plain));
    }

    #[test]
    fn defaults_are_those_of_the_table() {
        for row in OPTIONS.rows() {
            let mut config = Config::default();
            if let Some(value) = row.fact("default") {
                set(&mut config, row.key(), value).unwrap();
            }
            assert_eq!(config, Config::default(), "{}", row.key());
        }
    }

    #[test]
    fn mistakes_are_named() {
        check("--frob 1", Err("unknown flag --frob"));
        check("--audit some", Err("off, writes or all"));
        check("--user ann kubeconfig", Err("unknown flag --user"));
        check("kubeconfig ann", Err("kubeconfig takes flags alone"));
        check("token", Err("one of create, list and revoke ID"));
        check("--tls-cert /a", Err("--tls-cert and --tls-key belong together"));
        check("--tls-san a,-b", Err("\"-b\" is no name of DNS and no address"));
        check("--cluster-domain *.a", Err("a name of DNS"));
        check("store", Err("one of fsck, verify, flush and salvage"));
        check("store verify here", Err("unexpected argument \"here\": store verify takes flags alone"));
        check("store frob", Err("one of fsck, verify, flush and salvage"));
        check("backup", Err("backup takes one file"));
        check("restore a b", Err("restore takes one file"));
        check("encryption", Err("one of new-key [FILE], rotate [--keep-old] and off"));
        check("encryption rotate now", Err("one of new-key"));
        check("rotate --keep-old", Err("unknown flag --keep-old"));
        check("status now", Err("status takes flags alone"));
        check("status -o yaml", Err("json, text or wide"));
        check("-o json", Err("-o is for status"));
        check("serve", Err("unexpected argument \"serve\""));
        check("--data-dir", Err("--data-dir needs a value"));
        check("--agent-sockets here", Err("absolute path"));
        check("--data-dir=", Err("--data-dir : "));
        check("--config /relative", Err("/relative line 1: data-dir = here: must be an absolute path"));
        check("--listen 0.0.0.0:80", Err("only loopback"));
        check("--listen 80", Err("an address and a port"));
        check("--service-node-port-range 20000", Err("30000-32767"));
        check("--service-node-port-range 20000-19999", Err("30000-32767"));
        check("--secure-listen here", Err("an address and a port"));
        check("--secure-clients all", Err("host or network"));
        check("--load-balancer maybe", Err("yes or no"));
        check("--service-cidr 10.96.0.0", Err("an IPv4 network"));
        check("--service-cidr 10.96.0.1/16", Err("which is 10.96.0.0/16"));
        check("--service-cidr 10.96.0.0/31", Err("between /12 and /30"));
        check("--node-monitor-grace 4s", Err("--node-monitor-grace 4s: must be between 5s and 60m"));
        check("--node-monitor-grace 50", Err("must be a number of seconds or minutes, like 50s or 5m"));
        check("--node-monitor-grace xs", Err("must be between"));
        check("--store-limit 128", Err("--store-limit 128: must be a number of megabytes or gigabytes"));
        check("--store-limit 0M", Err("a whole number with M or G"));
        check("--store-limit 1.5G", Err("a whole number with M or G"));
        check("--store-limit MM", Err("a whole number with M or G"));
        check("--config /none", Err("--config /none: "));
        check("--config /twice", Err("/twice line 2: listen is set a second time"));
        check("--config /unknown", Err("/unknown line 1: unknown key \"lisen\""));
        check("--config /shapeless", Err("/shapeless line 1: expected `key = value`"));
        check("--config /far", Err("/far line 2: listen = 0.0.0.0:80: only loopback"));
    }
}
