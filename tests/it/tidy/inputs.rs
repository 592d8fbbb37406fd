//! What a pod can reach into, said mechanically: `docs/internals/inputs.md` has a row with a bound for each file of the
//! agent that reads below pods' directories, connects to where pods say, or starts something.

use super::{Source, assert_none, sources, top};
use std::collections::BTreeSet;
use std::fs;

/// Files of the agent that touch the system where no pod has a say, and why.
const NOT_OF_PODS: &[(&str, &str)] = &[
    ("main.rs", "signals"),
    ("lib.rs", "its own port"),
    ("network/address.rs", "hears the kernel of this host's addresses"),
    ("command/readings.rs", "asked for by root, once"),
    ("config.rs", "a file of root"),
    ("backup/make.rs", "asked for by root, once; the trees of volumes are tar's"),
    ("backup/place.rs", "a folder of root"),
    ("backup/restore.rs", "asked for by root, while no pod runs"),
    ("backup/surroundings.rs", "signals"),
    ("desired/ended.rs", "its own file, in a folder of root"),
    ("desired/file_services/address_file.rs", "its own file, in a folder of root"),
    ("desired/inotify.rs", "the folder of manifests is root's"),
    ("images/heard.rs", "the folders of archives are root's"),
    ("updates/shelf.rs", "its own file, in a folder of root"),
    ("desired/known.rs", "its own file, in a folder of root"),
    ("desired/last.rs", "its own file, in a folder of root"),
    ("desired/objects/kept.rs", "its own files, in a folder of root"),
    ("inside/mod.rs", "the command of a person at this host, in a process of its own"),
    ("inside/terminal.rs", "the same"),
    ("host/lock.rs", "its own file, in a folder of root"),
    (
        "network/net.rs",
        "runs nft and ip with what `services` made; the rows of `host/tool.rs` and `network/services/nft.rs` hold",
    ),
    ("config/settings.rs", "files of root"),
    ("desired/restarts.rs", "its own files, in a folder of root"),
    ("host/peers.rs", "the users of this host"),
    ("host/private.rs", "its own files, in folders of root"),
    ("runtime/docker/connection.rs", "the socket of the engine, which is root's; each call has its time"),
    ("runtime/docker/credentials.rs", "a file of root"),
    ("runtime/docker/stock.rs", "its own file, in a folder of root"),
    ("runtime/docker/volatile.rs", "mounts one file system, once"),
];

/// Code that reads, connects, or starts a process or a thread.
const REACHES: &[&str] = &[
    "fs::",
    "File::open",
    "OpenOptions",
    "Command::new",
    "thread::Builder",
    "thread::spawn",
    "spawn_blocking",
    "disks::work(",
    "TcpStream",
    "TcpSocket",
    "TcpListener",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "UdpSocket",
    "lookup_host",
    "to_socket_addrs",
    ".connect(",
    "run_tool(",
    "nix::",
];

/// A row of the page.
struct Row {
    /// Below `agent/src`.
    file: String,
    bound: String,
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(top().join("docs/internals/inputs.md")).expect("docs/internals/inputs.md");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let lines = page.lines().filter(|line| line.starts_with("| `")).map(cells);
    let rows: Vec<Row> = lines
        .map(|cells| {
            assert_eq!(cells.len(), 5, "{}: a row has a file, what pods can do there, and the bound", cells[1]);
            Row { file: cells[1].trim_matches('`').to_owned(), bound: cells[3].clone() }
        })
        .collect();
    assert!(rows.len() > 20, "the page has its rows");
    rows
}

fn of_agent(source: &Source) -> Option<&str> {
    source.path.strip_prefix("agent/src/")
}

fn reaches(source: &Source) -> bool {
    source.code.iter().any(|(_, line)| REACHES.iter().any(|word| line.contains(word)))
}

#[test]
fn whatever_pods_can_reach_into_has_a_bound() {
    let rows = rows();
    let known: BTreeSet<&str> =
        rows.iter().map(|row| row.file.as_str()).chain(NOT_OF_PODS.iter().map(|(file, _)| *file)).collect();
    let sources = sources();
    let without = sources.iter().filter(|source| reaches(source)).filter_map(of_agent);
    assert_none(
        without.filter(|file| !known.contains(file)).map(str::to_owned).collect(),
        "give it a row in docs/internals/inputs.md with its bounds, or say in NOT_OF_PODS why no pod has a say there",
    );
}

#[test]
fn rows_are_of_files_and_constants_that_exist() {
    let sources = sources();
    let reach: BTreeSet<&str> = sources.iter().filter(|source| reaches(source)).filter_map(of_agent).collect();
    let files: BTreeSet<&str> = sources.iter().filter_map(of_agent).collect();
    let rows = rows();
    let no_file = rows.iter().map(|row| row.file.as_str()).filter(|file| !files.contains(file));
    assert_none(no_file.map(str::to_owned).collect(), "docs/internals/inputs.md: no such file of the agent");
    let over = NOT_OF_PODS.iter().map(|(file, _)| *file).filter(|file| !reach.contains(file));
    assert_none(over.map(str::to_owned).collect(), "NOT_OF_PODS: there is no such file, or it reaches nothing");
    let consts: BTreeSet<&str> = sources.iter().flat_map(constants).collect();
    let mut gone = Vec::new();
    for row in &rows {
        let named = row.bound.split('`').skip(1).step_by(2);
        let is_constant = |word: &&str| word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        gone.extend(
            named.filter(is_constant).filter(|word| !consts.contains(word)).map(|word| format!("{}: {word}", row.file)),
        );
        if row.bound.is_empty() {
            gone.push(format!("{}: no bound", row.file));
        }
    }
    assert_none(gone, "docs/internals/inputs.md: name constants that exist");
}

/// `pub(super) const NAME: u64 = 1;`: the name.
fn constants(source: &Source) -> impl Iterator<Item = &str> {
    source.code.iter().filter_map(|(_, line)| line.split_once("const ")?.1.split_once(':').map(|(name, _)| name.trim()))
}
