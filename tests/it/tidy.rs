//! ARCHITECTURE.md, said mechanically: who may import whom, which files touch the system, how long a file may be.

mod inputs;
mod words;

use crate::circles::circles;
use std::fs;
use std::path::{Path, PathBuf};

/// Longer than `LINES_MAX` before their tests, and why that is still one room.
const LONG: &[(&str, &str)] = &[
    ("agent/src/runtime/fake.rs", "one engine in memory: its state, its faults and the trait's calls belong together"),
    (
        "http/src/local.rs",
        "one plane from its folder to its last stream: all of it shares the same counts and the same supervisor",
    ),
];
const LINES_MAX: usize = 400;
const LINES_MAX_WITH_REASON: usize = 600;

/// Files that may touch files, processes, sockets or system calls, and for what.
const SYSTEM: &[(&str, &str)] = &[
    ("api/build.rs", "turns the types' text into static tables at compile time"),
    ("packaging/link.rs", "asks cargo for which target the programs are linked"),
    ("http/src/network/", "the sockets of the network plane"),
    ("http/src/local.rs", "the local socket and its folder"),
    ("http/src/socket_file.rs", "opens the file of a Unix socket as it lies there"),
    ("http/src/outbound.rs", "outbound connections: the client's, and those of an answer that is fetched elsewhere"),
    ("http/src/client.rs", "the agent's calls"),
    ("http/src/target.rs", "reads the file of a client's token"),
    ("http/src/tls/", "carries TLS over a connection that somebody made"),
    (
        "program/src/resident.rs",
        "sets the allocator, for which it starts the program once more, and gives free memory and code at rest back",
    ),
    ("http/src/system.rs", "reads the limits of the system at the start"),
    ("program/src/notify.rs", "notifies systemd"),
    ("program/src/zones.rs", "reads the time zones of the host"),
    ("master/src/main.rs", "arguments, signals, exit code"),
    ("master/src/audit/lines.rs", "the file of the audit log"),
    ("master/src/command.rs", "backups"),
    ("master/src/command/reach.rs", "the local socket of a running master"),
    ("master/src/command/keys.rs", "root's kubeconfig, and becoming kubectl"),
    ("master/src/command/encryption.rs", "whose the file of encryption keys is"),
    ("master/src/encryption.rs", "the file of encryption keys"),
    ("master/src/cluster_keys/files.rs", "the folder of the cluster's keys"),
    ("master/src/cluster_keys/host.rs", "reads the addresses of this host"),
    ("master/src/config.rs", "reads the configuration file"),
    ("master/src/applied/folder.rs", "reads the manifests of apply-dir"),
    ("master/src/applied/hearing.rs", "hears of manifests of apply-dir that change"),
    ("master/src/command/apply.rs", "writes the mark of apply-dir"),
    ("master/src/memory.rs", "reads how much memory the host and its cgroups grant"),
    ("master/src/neighbours.rs", "reads the routes of this host"),
    ("master/src/doors.rs", "takes the listener of the plain port"),
    ("master/src/serve/access_tests.rs", "writes the table of who may take which route anew, where a person asks"),
    ("master/src/own_peers.rs", "the sockets of agents"),
    ("master/src/owner.rs", "whose the data directory is, and becoming them"),
    (
        "master/src/making.rs",
        "uids and suffixes come from the kernel's random device, and the name of this host from the kernel",
    ),
    ("master/src/control/clock.rs", "hears of the kernel when the clock is set"),
    ("master/src/store/flat/restore.rs", "takes away what a restore that failed has made"),
    ("master/src/store/flat/disk.rs", "the files of the store"),
    ("master/src/store/flat/parallel_read.rs", "asks how often a thread has waited for the disk"),
    ("master/src/store/flat/lock.rs", "the lock of the data directory"),
    ("master/src/store/flat/inspect.rs", "holds the lock of the directory that it looks at"),
    ("master/src/store/flat/open.rs", "holds the lock of the data directory"),
    ("master/src/serve/metrics.rs", "reads what the kernel says of this process"),
    ("agent/src/main.rs", "arguments, signals, exit code"),
    ("agent/src/backup/surroundings.rs", "finds the program of the master"),
    ("agent/src/backup/make.rs", "reads what a backup is of, and runs the master's"),
    ("agent/src/backup/place.rs", "the directory of a backup, renamed when it is complete"),
    ("agent/src/backup/archive.rs", "runs tar"),
    ("agent/src/backup/restore.rs", "brings a backup back where nothing is yet"),
    ("agent/src/host/file_system.rs", "on which file system a path is"),
    ("agent/src/command/readings.rs", "this host, for `doctor`"),
    ("agent/src/config.rs", "reads the configuration file"),
    ("agent/src/config/settings.rs", "reads the authorities of a manifest page"),
    ("agent/src/inside/terminal.rs", "runs stty"),
    ("agent/src/host/private.rs", "files and folders for the agent's own user alone"),
    ("agent/src/lib.rs", "takes the agent's port and socket"),
    ("agent/src/host/lock.rs", "one agent to an engine"),
    ("agent/src/network/address.rs", "hears of the kernel when an address of this host changes"),
    ("agent/src/network/heed.rs", "what listens on this host"),
    ("agent/src/network/net.rs", "which frames go back through the port of a bridge that they came from"),
    ("agent/src/host/tool.rs", "runs nft, ip and iptables"),
    ("agent/src/host/tree.rs", "removes and measures folders that containers have filled"),
    (
        "agent/src/network/pod_network/plug.rs",
        "pods' interfaces: the kernel's files about them, and `ip` in a pod's network",
    ),
    ("agent/src/network/netfilter.rs", "the kernel's flows and rules"),
    ("agent/src/network/health_ports.rs", "answers balancers at health check node ports"),
    ("agent/src/network/dns/serve.rs", "the sockets of the DNS server, and the kernel's random device"),
    ("agent/src/network/dns/upstream.rs", "asks the host's resolvers, and reads who they are"),
    ("agent/src/network/dns/names.rs", "reads the host's names, and the kernel's random device"),
    ("agent/src/host/disks.rs", "reads what is mounted where, without asking it"),
    ("agent/src/host/peers.rs", "the number of the master's user"),
    ("agent/src/images/files.rs", "reads archives of images"),
    ("agent/src/updates/shelf.rs", "the updates that have not ended well, on this host's disk"),
    ("agent/src/images/heard.rs", "hears of archives that come, and of disks that are mounted"),
    ("agent/src/host/machine.rs", "what this host is: memory, cores, addresses"),
    ("agent/src/pressure/gauge.rs", "how full the host's memory, disks and pods' directories are"),
    ("agent/src/host/files.rs", "the kernel's files about containers and the host"),
    ("agent/src/endpoints/streams.rs", "connects to a port inside a pod"),
    ("agent/src/desired/directory.rs", "lists manifest files, and keeps their last good versions"),
    ("agent/src/desired/file.rs", "reads manifest files"),
    ("agent/src/desired/page.rs", "keeps a page of manifests of another host"),
    ("agent/src/desired/inotify.rs", "hears of manifest files that change"),
    ("agent/src/desired/objects/kept.rs", "what pods use, on this host's disk"),
    ("agent/src/desired/file_services/address_file.rs", "the addresses of Services of files on this host's disk"),
    ("agent/src/desired/known.rs", "the services of the cluster on this host's disk"),
    ("agent/src/desired/last.rs", "the last assignment on this host's disk"),
    ("agent/src/desired/ended.rs", "which pods of files have ended, on this host's disk"),
    ("agent/src/desired/restarts.rs", "which pods are to be restarted, on this host's disk"),
    ("agent/src/runtime/docker", "the engine, volumes' folders, termination messages, probes"),
];

/// Folders in which every file decides: no system, no clock, no log, no randomness. Elsewhere a file says so in its
/// first lines: PURE.
const PURE: &[&str] = &["schema/src/", "api/src/", "keeper/src/", "master/src/render/", "agent/src/plan/"];

/// Which room of the master may use which. Tests may use all.
const ROOMS: &[(&str, &[&str])] = &[
    ("store", &[]),
    ("making", &["store"]),
    ("prepare", &["store"]),
    ("admit", &["authorize"]),
    ("agents", &[]),
    ("applied", &["commit", "making", "store"]),
    ("audit", &["authorize"]),
    ("flow", &["authorize", "store"]),
    ("commit", &["admit", "authorize", "making", "prepare", "store"]),
    ("cluster_keys", &["commit", "making", "store"]),
    ("authenticate", &["cluster_keys", "making", "store"]),
    ("authorize", &["call", "page", "query", "store", "through"]),
    ("control", &["agents", "authorize", "cluster_keys", "commit", "figures", "making", "prepare", "store"]),
    ("figures", &[]),
    ("form", &[]),
    ("gauges", &["problems"]),
    ("call", &["form", "page", "query", "through"]),
    ("page", &[]),
    ("problems", &["store"]),
    ("query", &["call"]),
    ("through", &["call", "query"]),
    ("render", &["form", "store"]),
    ("fault", &["call", "prepare", "store"]),
    (
        "serve",
        &[
            "agents",
            "audit",
            "authenticate",
            "authorize",
            "call",
            "cluster_keys",
            "commit",
            "fault",
            "figures",
            "flow",
            "form",
            "making",
            "page",
            "prepare",
            "query",
            "render",
            "store",
            "through",
        ],
    ),
];

/// Which room of the agent may use which; those that are not here use any.
const ROOMS_OF_AGENT: &[(&str, &[&str])] = &[
    ("facts", &[]),
    ("host", &["facts"]),
    ("network", &["facts", "host", "runtime"]),
    ("spec", &["facts", "network"]),
    ("plan", &["facts", "spec"]),
    ("status", &["facts", "plan"]),
    ("runtime", &["facts", "host", "network", "plan", "spec"]),
    ("desired", &["facts", "host", "network", "spec"]),
    ("reclaim", &["desired", "facts", "runtime"]),
    ("figures", &["facts", "host", "runtime", "spec"]),
    ("images", &["facts", "host", "plan", "runtime"]),
    ("updates", &["facts", "host", "plan", "runtime", "spec"]),
    ("running", &["facts", "figures", "host", "plan", "runtime", "status"]),
    ("telling", &["desired", "facts", "host", "plan", "running", "status", "updates"]),
    ("streams", &["runtime"]),
    ("inside", &[]),
];

/// Files that use each other directly or through others: of so many a reader can hold all in mind at once.
const CIRCLE_FILES_MAX: usize = 3;

const TOUCHES_SYSTEM: &[&str] = &[
    "std::fs",
    "fs::",
    "process::Command",
    "Command::new",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "UnixDatagram",
    "nix::",
    "env::var",
];
const IMPURE: &[&str] = &[
    "std::fs",
    "process::Command",
    "TcpStream",
    "UnixStream",
    "nix::",
    "tokio",
    "Instant::now",
    "SystemTime",
    "Timestamp::now",
    "log::",
    "env::var",
    "std::thread",
    "Mutex",
];

/// A crate's name in source, and where alone it may stand.
const ONLY_IN: &[(&str, &str)] = &[
    ("hyper::", "http/"),
    ("tiny_http::", "http/src/local"),
    ("bollard::", "agent/src/runtime/docker"),
    ("domain::", "agent/src/network/dns/"),
    ("rustls::", "http/"),
    ("socket2::", "http/"),
];

/// A package and those of ours that it may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("http", &[]),
    ("program", &[]),
    ("schema", &[]),
    ("api", &["coracle-schema"]),
    ("keeper", &["coracle-schema", "coracle-api"]),
    ("master", &["coracle-http", "coracle-program", "coracle-schema", "coracle-api", "coracle-keeper"]),
    ("agent", &["coracle-http", "coracle-program", "coracle-schema", "coracle-api", "coracle-keeper"]),
];

struct Source {
    /// From the top of the tree, with slashes.
    path: String,
    /// Whether its first lines say that it is pure.
    pure: bool,
    /// Up to the first `#[cfg(test)]`, comment lines taken out.
    code: Vec<(usize, String)>,
    lines: usize,
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the tree").to_owned()
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for room in ["http", "program", "schema", "api", "keeper", "master", "agent", "packaging"] {
        walk(&top().join(room), &mut found);
    }
    assert!(found.len() > 20, "the walk finds the sources");
    found
}

fn walk(folder: &Path, found: &mut Vec<Source>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder of the tree").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() && !["target", "tests", "testdata", "fuzz"].contains(&name.as_str()) {
            walk(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = fs::read_to_string(&path).expect("a source file");
            let before: Vec<&str> = text.lines().take_while(|l| !l.starts_with("#[cfg(test)]")).collect();
            let code = before
                .iter()
                .enumerate()
                .filter(|(_, l)| !l.trim_start().starts_with("//"))
                .map(|(n, l)| (n + 1, l.to_string()))
                .collect();
            let path = path.strip_prefix(top()).expect("below the top").to_string_lossy().replace('\\', "/");
            let pure = PURE.iter().any(|folder| path.starts_with(folder)) || says_pure(&before);
            found.push(Source { path, pure, code, lines: before.len() });
        }
    }
}

/// Whether a sentence of the first lines is "PURE", or ends with it.
fn says_pure(lines: &[&str]) -> bool {
    let said: Vec<&str> = lines
        .iter()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let said = said.join(" ");
    said.match_indices("PURE.").any(|(at, _)| said[..at].is_empty() || said[..at].ends_with(['.', ' ']))
}

fn listed<'a>(list: &'a [(&str, &str)], path: &str) -> Option<&'a str> {
    list.iter()
        .find(|(prefix, _)| path == *prefix || (path.starts_with(prefix) && !prefix.ends_with(".rs")))
        .map(|(_, why)| *why)
}

/// Every place where `bad` holds, as `path:line: text`.
fn places(sources: &[Source], applies: impl Fn(&str) -> bool, bad: impl Fn(&str) -> bool) -> Vec<String> {
    let lines = sources.iter().filter(|s| applies(&s.path)).flat_map(|s| s.code.iter().map(move |(n, l)| (s, n, l)));
    lines.filter(|(_, _, l)| bad(l)).map(|(s, n, l)| format!("{}:{n}: {}", s.path, l.trim())).collect()
}

fn assert_none(places: Vec<String>, rule: &str) {
    assert!(places.is_empty(), "{rule}:\n{}", places.join("\n"));
}

#[test]
fn files_are_short() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|s| s.lines > if listed(LONG, &s.path).is_some() { LINES_MAX_WITH_REASON } else { LINES_MAX })
        .map(|s| format!("{}: {} lines before its tests", s.path, s.lines))
        .collect();
    assert_none(long, "a file has one reason to exist; cut it, or give the reason in LONG");
}

const LINE_COLUMNS_MAX: usize = 120;

#[test]
fn lines_are_short() {
    let mut long = Vec::new();
    let mut folders = vec![top()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the tree") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(".rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                let shown = path.strip_prefix(top()).expect("below the top").display();
                long.extend(long_lines(&text).into_iter().map(|number| format!("{shown}:{number}")));
            }
        }
    }
    assert_none(long, &format!("a line has at most {LINE_COLUMNS_MAX} columns; break it"));
}

/// What a line begins in: code or a comment, a string, or a raw string with what closes it.
enum Inside {
    Code,
    Text,
    Raw(String),
}

impl Inside {
    /// Behind a quote, by what stands before it.
    fn quote(before: &str) -> Inside {
        let stem = before.trim_end_matches('#');
        let raw = stem.strip_suffix('r').map(|stem| stem.strip_suffix('b').unwrap_or(stem));
        let is_raw = raw.is_some_and(|stem| !stem.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        if is_raw { Inside::Raw(format!("\"{}", &before[stem.len()..])) } else { Inside::Text }
    }
}

/// The bytes of `'x'` and its like: a quote in it opens no string.
fn character(code: &str) -> Option<usize> {
    let inner = code.strip_prefix('\'')?;
    if let Some(escaped) = inner.strip_prefix('\\') {
        return escaped.char_indices().skip(1).find(|(_, c)| *c == '\'').map(|(at, _)| at + 3);
    }
    let first = inner.chars().next()?.len_utf8();
    inner[first..].starts_with('\'').then_some(first + 2)
}

/// The numbers of the lines that are too long. Of an URL, a raw string and a string with line ends of its own every
/// column counts, so lines with a part of one may be longer.
fn long_lines(text: &str) -> Vec<usize> {
    let (mut long, mut inside, mut ends_inside) = (Vec::new(), Inside::Code, false);
    for (number, line) in text.lines().enumerate() {
        let mut counts = ends_inside || matches!(inside, Inside::Raw(_));
        let mut at = 0;
        while at < line.len() {
            let rest = &line[at..];
            let width = rest.chars().next().map_or(1, char::len_utf8);
            match &inside {
                Inside::Code if rest.starts_with("//") => break,
                Inside::Code if rest.starts_with('"') => {
                    inside = Inside::quote(&line[..at]);
                    counts |= matches!(inside, Inside::Raw(_));
                    at += 1;
                }
                Inside::Code => at += character(rest).unwrap_or(width),
                Inside::Text if rest.starts_with('\\') => at += 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                Inside::Text if rest.starts_with('"') => (at, inside) = (at + 1, Inside::Code),
                Inside::Raw(end) if rest.starts_with(end) => (at, inside) = (at + end.len(), Inside::Code),
                Inside::Text | Inside::Raw(_) => at += width,
            }
        }
        ends_inside = matches!(inside, Inside::Text) && !line.ends_with('\\');
        if line.chars().count() > LINE_COLUMNS_MAX && !counts && !ends_inside && !line.contains("://") {
            long.push(number + 1);
        }
    }
    long
}

#[test]
fn strings_that_cannot_be_broken_make_long_lines() {
    let x = "x".repeat(LINE_COLUMNS_MAX);
    let check = |text: &str, expected: &[usize]| assert_eq!(long_lines(text), expected, "{text}");
    check(&format!("{x}\n{x}x\n// {x}\nsee a://{x}"), &[2, 3]);
    check(&format!("'\"' r#\"\"{x}\n{x}x\n{x}\"# x\n{x}x"), &[4]);
    check(&format!("\"{x}\n{x}x\n{x}x\"\n\"{x}\""), &[4]);
    check(&format!("\"{x}\\\n{x}x\\\n{x}x\""), &[1, 2, 3]);
}

#[test]
fn crates_stay_in_their_rooms() {
    for (name, room) in ONLY_IN {
        assert_none(
            places(&sources(), |p| !p.starts_with(room), |l| has_word(l, name)),
            &format!("{name} only in {room}"),
        );
    }
}

/// `hyper::` but not `hyper_util::`, `fs::` but not `ffs::`.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[test]
fn the_system_is_touched_where_the_list_says() {
    let touches = |l: &str| TOUCHES_SYSTEM.iter().any(|word| has_word(l, word));
    assert_none(
        places(&sources(), |p| listed(SYSTEM, p).is_none(), touches),
        "a file that touches the system stands in SYSTEM with its reason",
    );
    for (path, _) in SYSTEM {
        assert!(sources().iter().any(|s| s.path.starts_with(path)), "SYSTEM lists {path}, which is gone");
    }
}

#[test]
fn pure_files_are_pure() {
    let sources = sources();
    let pure = |p: &str| sources.iter().any(|source| source.pure && source.path == p);
    assert_none(
        places(&sources, pure, |l| IMPURE.iter().any(|word| has_word(l, word))),
        "a pure file knows no system, clock, log or lock",
    );
    for folder in PURE {
        assert!(sources.iter().any(|s| s.path.starts_with(folder)), "PURE lists {folder}, which is gone");
    }
    for file in ["master/src/prepare.rs", "master/src/store/flat/state.rs", "agent/src/facts/naming.rs"] {
        assert!(pure(file), "{file} says no longer that it is PURE");
    }
}

/// `master/src/serve/get.rs` and `master/src/serve.rs` are of the room `serve`.
fn room<'a>(program: &str, path: &'a str) -> Option<&'a str> {
    path.strip_prefix(program)?.strip_prefix("/src/")?.split(['/', '.']).next()
}

#[test]
fn rooms_use_each_other_as_drawn() {
    for (program, rooms) in [("master", ROOMS), ("agent", ROOMS_OF_AGENT)] {
        let sources = sources();
        for (name, allowed) in rooms {
            let foreign = |line: &str| {
                let mut used = line
                    .match_indices("crate::")
                    .map(|(at, word)| line[at + word.len()..].split(|c: char| !c.is_alphanumeric() && c != '_'));
                used.any(|mut rest| {
                    rest.next().is_some_and(|used| {
                        let is_room = program == "agent" || rooms.iter().any(|(room, _)| *room == used);
                        used != *name && is_room && !allowed.contains(&used)
                    })
                })
            };
            let tests = |path: &str| path.contains("/tests") || path.ends_with("round_trip.rs");
            let of = |path: &str| room(program, path) == Some(name) && !tests(path);
            let found = places(&sources, of, foreign);
            assert_none(found, &format!("{program}: {name} may use {allowed:?} alone; see ARCHITECTURE.md"));
            assert!(sources.iter().any(|source| of(&source.path)), "{program} has no room {name}");
        }
    }
}

/// Where alone the master writes: what goes another way would be held by no quota and by no rule of access.
const WRITES: &str = "master/src/commit/mod.rs";

#[test]
fn one_file_of_the_master_writes() {
    let writes = |l: &str| ["store.write(", ".rehearse("].iter().any(|word| l.contains(word));
    let outside = |p: &str| p.starts_with("master/src/") && !p.starts_with("master/src/store/") && p != WRITES;
    assert_none(
        places(&sources(), outside, writes),
        &format!("only {WRITES} writes: hand a change to Registry::commit"),
    );
    assert!(!places(&sources(), |p| p == WRITES, writes).is_empty(), "{WRITES} writes");
}

/// Whatever a container has put into a folder, and whatever is mounted there.
const REMOVES: &str = "agent/src/host/tree.rs";
/// Of the packages and of what is tried with them; what such a script made a moment ago, in a folder of its own, it may
/// remove as it likes.
const REMOVES_OF_PACKAGES: &str = "packaging/remove.sh";
/// The master's own folders, of which it holds the lock, and which nobody else writes in.
const REMOVE_THEIR_OWN: &[&str] = &["master/src/store/flat/disk.rs", "master/src/store/flat/restore.rs"];

#[test]
fn one_function_removes_trees() {
    let removes = |l: &str| ["remove_dir_all", "\"rm\"", "Command::new(\"rm"].iter().any(|word| l.contains(word));
    let elsewhere = |p: &str| p != REMOVES && !REMOVE_THEIR_OWN.contains(&p);
    assert_none(places(&sources(), elsewhere, removes), &format!("folders go by `remove` of {REMOVES} alone"));
    let mut plain = Vec::new();
    for name in ["deb.sh", "demo.sh", "sweep.sh", "remove.sh"] {
        let text = fs::read_to_string(top().join("packaging").join(name)).expect("a script of the packages");
        let lines = text.lines().filter(|line| line.contains("rm -r") && !line.trim_start().starts_with('#'));
        // Folders of the build, which a variable names: those of a host have a path.
        let built = |line: &&str| ["\"$out\"", "\"$root\""].iter().any(|own| line.contains(own));
        plain.extend(lines.filter(|line| !built(line)).map(|line| format!("packaging/{name}: {}", line.trim())));
    }
    let only = format!("{REMOVES_OF_PACKAGES}: rm -rf --one-file-system -- \"$path\"");
    assert_eq!(plain, [only], "packages remove folders by `remove_tree` of {REMOVES_OF_PACKAGES} alone");
}

#[test]
fn circles_of_files_are_short() {
    let mut long = Vec::new();
    for package in ["http", "program", "schema", "api", "keeper", "master", "agent"] {
        for circle in circles(&top().join(package).join("src/lib.rs")) {
            if circle.files.len() > CIRCLE_FILES_MAX {
                let edges: Vec<String> = circle.edges.iter().map(|(from, to)| format!("    {from} -> {to}")).collect();
                long.push(format!(
                    "{package}/src: {} files: {}\n{}",
                    circle.files.len(),
                    circle.files.join(" "),
                    edges.join("\n")
                ));
            }
        }
    }
    assert_none(long, "move what several of these files share to one that uses none of them");
}

/// The path says the rest: `CONTRIBUTING.md`.
#[test]
fn a_public_name_stands_once_in_a_room() {
    let sources = sources();
    let mut twice = Vec::new();
    for (package, _) in ARROWS {
        let mut files: std::collections::BTreeMap<(&str, &str), Vec<&str>> = std::collections::BTreeMap::new();
        for source in &sources {
            let Some(room) = room(package, &source.path) else { continue };
            for name in source.code.iter().filter_map(|(_, line)| public_type(line)) {
                files.entry((room, name)).or_default().push(&source.path);
            }
        }
        assert!(!files.is_empty(), "{package} has public types");
        let named_twice = files.iter().filter(|(_, files)| files.len() > 1);
        twice.extend(named_twice.map(|((_, name), files)| format!("{package}: {name}: {}", files.join(" "))));
    }
    assert_none(twice, "name a type after the noun of its file, so that its room has no other type of this name");
}

/// The files that comments name are there.
#[test]
fn paths_in_comments_exist() {
    let mut gone = Vec::new();
    for source in sources() {
        let text = fs::read_to_string(top().join(&source.path)).expect("a source file");
        for (number, line) in text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//")) {
            for word in line.split(|c: char| c.is_whitespace() || "`(),;".contains(c)) {
                let path = word.trim_end_matches(['.', ':']);
                let is_ours = ARROWS.iter().any(|(package, _)| path.starts_with(&format!("{package}/src/")));
                let is_ours = is_ours || ["tests/", "docs/", "packaging/"].iter().any(|top| path.starts_with(top));
                let plain = !path.contains(['*', '<', '{', '$']) && path.contains('.');
                if is_ours && plain && !top().join(path).exists() {
                    gone.push(format!("{}:{}: {path}", source.path, number + 1));
                }
            }
        }
    }
    assert_none(gone, "a comment names a file that does not exist");
}

/// `pub struct Name`, `pub(super) enum Name`: the name.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1 } else { rest };
    let (word, rest) = rest.strip_prefix(' ')?.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    (["struct", "enum", "trait", "type", "union"].contains(&word) && !name.is_empty()).then_some(name)
}

const FUNCTION_LINES_MAX: usize = 75;

#[test]
fn functions_are_short() {
    let mut long = Vec::new();
    for source in &sources() {
        let mut begun: Option<(usize, &str)> = None;
        for (number, line) in &source.code {
            let indent = &line[..line.len() - line.trim_start().len()];
            match begun {
                None if has_word(line, "fn ") && !line.ends_with(['}', ';', ',']) => begun = Some((*number, indent)),
                // Of a trait: it has no body.
                Some((_, of)) if indent == of && line.ends_with(';') => begun = None,
                Some((first, of)) if line.trim_end() == format!("{of}}}") => {
                    if number - first + 1 > FUNCTION_LINES_MAX {
                        long.push(format!("{}:{first}: {} lines", source.path, number - first + 1));
                    }
                    begun = None;
                }
                _ => {}
            }
        }
    }
    assert_none(long, "a function does one thing; cut it");
}

#[test]
fn no_unwrap_no_todo() {
    let bad = |l: &str| [".unwrap()", "todo!(", "unimplemented!(", "dbg!("].iter().any(|word| l.contains(word));
    assert_none(places(&sources(), |_| true, bad), "say why it holds with expect(), or return the error");
}

/// The compiler denies it, and whoever allows it for himself has to stand here.
const ALLOWS_UNSAFE: &str = "program/src/resident.rs";

#[test]
fn one_file_may_make_one_call_that_is_unsafe() {
    let allows = |l: &str| l.contains("unsafe_code");
    assert_none(places(&sources(), |p| p != ALLOWS_UNSAFE, allows), &format!("only {ALLOWS_UNSAFE} has unsafe code"));
    let says = |text: &str, word: &str| {
        text.lines().filter(|l| !l.trim_start().starts_with("//") && has_word(l, word)).count()
    };
    let resident = fs::read_to_string(top().join(ALLOWS_UNSAFE)).expect("it is there");
    assert_eq!(
        (says(&resident, "unsafe_code"), says(&resident, "unsafe ")),
        (1, 2),
        "{ALLOWS_UNSAFE} has one declaration, and one call"
    );
    let whole = fs::read_to_string(top().join("Cargo.toml")).expect("the workspace's manifest");
    assert!(whole.contains("\nunsafe_code = \"deny\"\n"), "Cargo.toml denies unsafe code to all packages");
    for package in ["http", "program", "schema", "api", "keeper", "master", "agent", "tests"] {
        let manifest = fs::read_to_string(top().join(package).join("Cargo.toml")).expect("a manifest");
        assert!(manifest.contains("[lints]\nworkspace = true\n"), "{package} takes the workspace's lints");
    }
}

#[test]
fn packages_depend_as_drawn() {
    for (package, allowed) in ARROWS {
        let manifest = fs::read_to_string(top().join(package).join("Cargo.toml")).expect("a manifest");
        let ours: Vec<&str> = manifest
            .lines()
            .filter_map(|l| l.split(['.', ' ', '=']).next())
            .filter(|n| n.starts_with("coracle-"))
            .collect();
        for name in ours {
            assert!(allowed.contains(&name), "{package} must not depend on {name}");
        }
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let architecture = fs::read_to_string(top().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let reasons = architecture.split("## Dependencies, and why").nth(1).expect("the table of dependencies");
    for package in ["http", "program", "schema", "api", "keeper", "master", "agent"] {
        let manifest = fs::read_to_string(top().join(package).join("Cargo.toml")).expect("a manifest");
        let section =
            manifest.split("[dependencies]").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
        for name in section
            .lines()
            .filter_map(|l| l.split(['.', ' ', '=']).next())
            .filter(|n| !n.is_empty() && !n.starts_with("coracle-") && !n.starts_with('#'))
        {
            let words = |l: &str| l.split('|').nth(1).unwrap_or_default().split(',').any(|w| w.trim() == name);
            assert!(reasons.lines().any(words), "{package} depends on {name}: give its reason in ARCHITECTURE.md");
        }
    }
}

/// Exactly two set-up commands, so that a stranger has nothing to choose.
#[test]
fn the_readme_names_two_commands() {
    let readme = fs::read_to_string(top().join("README.md")).expect("README.md");
    for command in ["make run", "make test"] {
        assert!(readme.contains(command), "README.md names `{command}`");
    }
    let typed: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("    make ")).collect();
    assert_eq!(
        typed,
        ["run"],
        "README.md has one make command to type; the other, `make test`, is for who changes the code"
    );
}

/// Tests that no command runs fail unseen.
#[test]
fn the_makefile_runs_every_test() {
    let makefile = fs::read_to_string(top().join("Makefile")).expect("Makefile");
    let mut missed = Vec::new();
    for package in ["http", "program", "schema", "api", "keeper", "master", "agent", "tests"] {
        let file = top().join(package).join("Cargo.toml");
        let manifest = fs::read_to_string(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
        for part in manifest.split("[[test]]").skip(1) {
            let name = part.split('"').nth(1).expect("a test has a name");
            if !makefile.split_whitespace().collect::<Vec<_>>().windows(2).any(|pair| pair == ["--test", name]) {
                missed.push(format!("{package}: {name}"));
            }
        }
        let found = fs::read_dir(top().join(package).join("tests")).into_iter().flatten().filter_map(Result::ok);
        missed.extend(
            found
                .filter(|entry| entry.path().extension().is_some_and(|end| end == "rs"))
                .map(|entry| format!("{}", entry.path().display())),
        );
    }
    assert_none(missed, "name it in its manifest as [[test]] and in the Makefile as --test");
}

/// The pages that a reader meets, from the tree's top.
fn pages() -> Vec<(PathBuf, String)> {
    let mut folders = vec![top(), top().join("docs"), top().join("docs/internals")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder of pages") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|end| end == "md") {
                found.push((path.clone(), fs::read_to_string(path).expect("a page")));
            }
        }
    }
    found
}

#[test]
fn links_of_the_pages_lead_to_files() {
    let mut gone = Vec::new();
    for (path, text) in pages() {
        let folder = path.parent().expect("a page lies in a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !folder.join(file).exists() {
                gone.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(gone.is_empty(), "links that lead nowhere:\n{}", gone.join("\n"));
}

/// The packages hold README.md without its row for developers, SUPPORT.md and the pages of `docs/` itself:
/// packaging/deb.sh.
#[test]
fn links_of_installed_pages_lead_to_installed_pages() {
    let is_installed = |path: &Path| {
        let folder = path.parent().unwrap_or(Path::new(""));
        path == Path::new("README.md") || path == Path::new("SUPPORT.md") || folder == Path::new("docs")
    };
    let mut gone = Vec::new();
    for (path, text) in pages() {
        let page = path.strip_prefix(top()).expect("below the top").to_owned();
        let lines = text.lines().filter(|line| page != Path::new("README.md") || !line.contains("CONTRIBUTING.md"));
        for link in lines.flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split([')', '#']).next()) {
            let target = link.strip_prefix("../").map_or_else(|| page.with_file_name(link), PathBuf::from);
            if is_installed(&page) && !link.is_empty() && !link.contains("://") && !is_installed(&target) {
                gone.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(gone.is_empty(), "the packages do not have what these links lead to:\n{}", gone.join("\n"));
}

/// What stands indented after an empty line, and is typed: a block in a list belongs to the text, one with a line of a
/// drawing shows something.
fn has_commands(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    let begins =
        |at: &usize| lines[*at].starts_with("    ") && !lines[*at].starts_with("     ") && lines[at - 1].is_empty();
    (1..lines.len()).filter(begins).any(|at| lines[at].is_ascii())
}

#[test]
fn commands_of_the_pages_are_run() {
    let followed = fs::read_to_string(top().join("packaging/pages.sh")).expect("packaging/pages.sh");
    let makefile = fs::read_to_string(top().join("Makefile")).expect("Makefile");
    let mut not_run = Vec::new();
    for (path, text) in pages() {
        let page = path.strip_prefix(top()).expect("below the top").display().to_string();
        let is_followed = followed.lines().any(|line| line.trim().starts_with(&format!("follow {page}")));
        // What developers type is make's, and ARCHITECTURE.md shows signatures.
        let is_for_developers =
            page.starts_with("docs/internals/") || !page.starts_with("docs/") && page != "README.md";
        if has_commands(&text) && !is_followed && !is_for_developers {
            not_run.push(format!("{page}: name it in packaging/pages.sh"));
        }
        for target in text.split(['`', '\n']).filter_map(|part| part.trim().strip_prefix("make ")) {
            let target = target.split([' ', ',']).next().unwrap_or_default();
            if !makefile.lines().any(|line| line.starts_with(&format!("{target}:"))) {
                not_run.push(format!("{page}: make {target}: no such target"));
            }
        }
    }
    assert!(not_run.is_empty(), "{}", not_run.join("\n"));
}

#[test]
fn the_glossary_names_types_that_exist() {
    let glossary = fs::read_to_string(top().join("docs/internals/glossary.md")).expect("the glossary");
    let is_type = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(|c| c.is_ascii_alphanumeric())
    };
    // Between backquotes: every second part.
    let named: Vec<&str> =
        glossary.split('`').skip(1).step_by(2).filter(|word| is_type(word) && *word != "Name").collect();
    assert!(named.len() > 20, "{named:?}: the glossary names types in backquotes");
    let sources = sources();
    let defines = |source: &Source, name: &str| {
        let is_definition =
            |line: &str| ["struct", "enum", "trait"].iter().any(|word| line.starts_with(&format!("pub {word} ")));
        source.code.iter().any(|(_, line)| is_definition(line) && has_word(line, name))
    };
    let gone: Vec<&&str> = named.iter().filter(|name| !sources.iter().any(|source| defines(source, name))).collect();
    assert!(gone.is_empty(), "docs/internals/glossary.md names types that do not exist: {gone:?}");
}
