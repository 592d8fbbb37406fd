//! PURE. The table of options, the table of commands, and the texts of `--help`: of the program under each of its
//! names, and of each command.

use coracle_program::options::Options;

pub const OPTIONS: Options = Options {
    table: include_str!("options.txt"),
    unknown_option: "--{} is no option: see --help",
    no_key: "{} is not `key = value`",
    unknown_key: "there is no key {}; the keys are {keys}",
    second_time: "{} stands there twice",
};

/// The name by which the program is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// `coracle-agent`: without a command it runs.
    Agent,
    /// `coracle`: the commands alone, for both programs of this host.
    Coracle,
}

impl Called {
    /// By the first word of the command line.
    pub fn of(path: &str) -> Called {
        if path.rsplit('/').next() == Some("coracle") { Called::Coracle } else { Called::Agent }
    }

    pub fn name(self) -> &'static str {
        match self {
            Called::Agent => "coracle-agent",
            Called::Coracle => "coracle",
        }
    }
}

/// A command. `{}` in the texts is the name by which the program is called.
pub struct CommandRow {
    pub name: &'static str,
    /// What stands behind the name.
    pub form: &'static str,
    /// One line of the program's own help.
    pub tells: &'static str,
    /// `{} COMMAND --help`
    pub text: &'static str,
}

/// All commands, in the order of the help. A new command is a row here, a case where `config` or `inside::deed` reads
/// the command line, and the file that carries it out.
pub const COMMANDS: &[CommandRow] = &[
    CommandRow {
        name: "status",
        form: "[-o json|wide] [flags]",
        tells: "say how this host and its pods are, and what is wrong",
        text: STATUS,
    },
    CommandRow {
        name: "logs",
        form: "[-fp] [-n NAMESPACE] [-c CONTAINER | --all-containers] [--tail N] POD|WORKLOAD",
        tells: "say what a container wrote",
        text: LOGS,
    },
    CommandRow {
        name: "exec",
        form: "[-it] [-n NAMESPACE] [-c CONTAINER] POD|WORKLOAD -- COMMAND...",
        tells: "run a command in a pod of this host",
        text: EXEC,
    },
    CommandRow {
        name: "restart",
        form: "[-n NAMESPACE] [--no-wait] [--timeout 5m] POD|WORKLOAD",
        tells: "start a pod, or the pods of a workload, anew",
        text: RESTART,
    },
    CommandRow {
        name: "images",
        form: "[-o json] [flags]",
        tells: "say which image each container runs, and whether there is a newer one",
        text: IMAGES,
    },
    CommandRow {
        name: "update",
        form: "[--dry-run] [-n NAMESPACE] [--deadline 5m] POD|WORKLOAD",
        tells: "pull the newer images of a pod and replace it; goes back if it does not become ready",
        text: UPDATE,
    },
    CommandRow {
        name: "backup",
        form: "DIR [-o json] [flags]",
        tells: "save objects, files and the data of volumes that ask for it",
        text: BACKUP,
    },
    CommandRow {
        name: "restore",
        form: "DIR [-o json] [flags]",
        tells: "bring all of it back on a host where nothing is yet",
        text: RESTORE,
    },
    CommandRow {
        name: "apply",
        form: "[--confirm|--again|--mark [--yes]]",
        tells: "what coracle-master applies from its directory of manifests, and what waits",
        text: APPLY,
    },
    CommandRow {
        name: "top",
        form: "[--sort-by cpu|memory] [-o json] [flags]",
        tells: "say what this host and its pods use of processor and memory",
        text: TOP,
    },
    CommandRow {
        name: "doctor",
        form: "[-o json] [flags]",
        tells: "name the problems of this host, and what to do",
        text: DOCTOR,
    },
    CommandRow {
        name: "check",
        form: "FILE... [-o json]",
        tells: "say what is wrong with manifest files; a directory stands for the files in it",
        text: CHECK,
    },
    CommandRow {
        name: "plan",
        form: "[-o json] [flags]",
        tells: "say what an agent that starts now would do, and why; does nothing",
        text: PLAN,
    },
];

const OF_AGENT: &str = "\
coracle-agent: runs Kubernetes pods on this host's Docker

usage: coracle-agent [flags]
";

const OF_CORACLE: &str = "\
coracle: the pods of this host, of manifest files and of the Kubernetes API alike

usage: coracle COMMAND ...
";

const CODES: &str = "  (each with --help; exit code 0: all is well; 1: something is wrong; \
                     2: the command line is wrong; 3: not reachable)\n\n";

const CHECK: &str = "\
usage: {} check FILE... [-o json]

Reads manifest files as the agent does, and says of each problem where it is and what to do: a line a problem. What the format does
not have is dropped, which is a warning, as is one host port for two pods: the second waits while the first has it. A pod with a field
that the agent does not act on is not started, which is a problem.
A directory stands for the files in it. Needs neither engine nor root.

exit code 0: every file gives what it asks for
          1: something is wrong; a line a problem
          2: the command line is wrong
";

const PLAN: &str = "\
usage: {} plan [-o json] [--manifest-dir DIR] [--data-dir DIR] [--docker-host URL] [--config FILE]

Prints what an agent that starts now would do, and why, and what pods wait for. It runs the agent's own code on the manifest directory,
the last assignment of the master (kept in the data directory) and the engine. Changes nothing. Back-offs that a running agent has in
memory are not known here.

exit code 0: the plan is printed, also if there is nothing to do
          1: the engine, or a file, cannot be read; it says which
          2: the command line is wrong
";

const STATUS: &str = "\
usage: {} status [-o json|wide] [--socket-dir DIR] [--node-name NAME] [--config FILE]

`coracle status` asks both programs of this host, whichever is there, through their sockets: the pods of manifest files and of the API,
and what is wrong: what is missing, since when, why, and what to do, each problem once. `coracle-agent status` tells of the agent alone.
Manifest files that the agent cannot use are named, too. A program whose unit is enabled and that does not answer is a problem. Long
lines are cut, with ... at their end; -o wide and -o json cut nothing, and show node, address and image of each pod. A warning, such as a
disk near its end, changes nothing about the exit code.

exit code 0: all that should run here runs
          1: something that was asked for is missing; the problems are printed
          2: the command line is wrong
          3: the agent cannot be reached; of coracle: neither program can be reached
";

const DOCTOR: &str = "\
usage: {} doctor [-o json] [--docker-host URL] [--data-dir DIR] [--listen ADDR:PORT] [--config FILE]

Looks at this host: engine, cgroups, disk, clock, ports, kernel, firewall, manifests, master. Says what is wrong and what to do.
Changes nothing. Some of it needs root.

exit code 0: there is no problem, at most warnings
          1: there is one
          2: the command line is wrong
";

const IMAGES: &str = "\
usage: {} images [-o json] [--socket-dir DIR] [--node-name NAME] [--config FILE]

Asks the running agent, as root, which image each container of this host runs, by its digest, and whether there is a newer one under
the same name: in the engine, in an archive of images-dir, or in the registry. The registry is asked now, and has 10 seconds; one that
does not answer is shown as not known. An image that was built here or loaded from an archive is asked of no registry.

exit code 0: the images are printed
          1: the agent does not answer
          2: the command line is wrong
";

const UPDATE: &str = "\
usage: {} update [--dry-run] [-n NAMESPACE] [--deadline 5m] [-o json] [--socket-dir DIR] [--node-name NAME] [--config FILE]
                            POD|WORKLOAD

Asks the running agent, as root, to pull the images of a pod again and to replace the pod in place if one of them is newer. All pods
of a workload (web, deployment/web) are updated one after the other. A pod that is not ready within the deadline goes back to the
images before, and stays with them. A registry out of reach changes nothing. --dry-run says what would be done.

exit code 0: the pods run from the newest images
          1: an update failed; what runs is said
          2: the command line is wrong
";

const EXEC: &str = "\
usage: {} exec [-i] [-t] [-n NAMESPACE] [-c CONTAINER] [--socket-dir DIR] [--node-name NAME] [--config FILE] POD|WORKLOAD -- COMMAND...

Asks the running agent through its socket, as root, to run a command in a pod of this host: -i with what is typed here, -t at a
terminal. POD is a name, or NAMESPACE/NAME; a pod of a manifest file goes by its own name. WORKLOAD is deployment/web, deploy/web, sts/db
or ds/agent: one of its pods. The options are those of kubectl.

exit code 0: the command ended well; else it is the command's own, or
          1: it could not be run
          2: the command line is wrong
";

const LOGS: &str = "\
usage: {} logs [-f] [-p] [-n NAMESPACE] [-c CONTAINER | --all-containers] [--tail N] [--since 5m] [--since-time TIME]
       [--timestamps] [--limit-bytes N] [--stream stdout|stderr] [--socket-dir DIR] [--node-name NAME] [--config FILE] POD|WORKLOAD

Asks the running agent through its socket, as root, what a container of a pod of this host wrote, and the master of this host where the
pod is on another node: -f goes on with it, -p is of the container before. POD is a name, or NAMESPACE/NAME; WORKLOAD is deployment/web,
deploy/web, sts/db, ds/agent or job/dump: one of its pods. The options are those of kubectl; --stream, which takes no --tail beside it, is
the API's.

exit code 0: the log was printed
          1: it cannot be read
          2: the command line is wrong
";

const BACKUP: &str = "\
usage: {} backup DIR [-o json] [--etc DIR] [--master-config FILE] [--socket-dir DIR] [--node-name NAME] [--config FILE]

Saves this host in a new directory DIR, as root: the objects of the API, if a master runs on this host, /etc/coracle (--etc), what the
agent alone knows, and the data of volumes that ask for it by annotation, between the hooks of their pods:
  on a claim   coracle.dev/backup: \"true\"
  on a pod     coracle.dev/backup: VOLUME,VOLUME
               coracle.dev/backup-before, -after: a command; -container, -timeout (300s)
  on either    coracle.dev/backup-live: \"true\": its files may change meanwhile
DIR has its name when the backup is complete and whole; an earlier backup of that name is replaced. Where something is missing it is
named, and the directory is DIR.incomplete. Needs the agent to run, and tar. --master-config is of a master with options of its own.

exit code 0: everything that was asked for is in it
          1: something is missing; it is named
          2: the command line is wrong
";

const RESTORE: &str = "\
usage: {} restore DIR [-o json] [--master-config FILE] [--node-name NAME] [--config FILE]

Brings back what `backup` has saved, as root, each directory to its place. Both programs have to be stopped, the directories to be
empty or not there, and the host to have the name of the node that the backup is of. Sums and places are judged first: until then, and until
everything is unpacked, an error leaves nothing behind.

exit code 0: everything is back
          1: it is not, and why; or the backup itself lacked something, which is named
          2: the command line is wrong
";

const APPLY: &str = "\
usage: {} apply [--confirm|--again|--mark [--yes]]

What coracle-master applies from its directory of manifests, and what waits. --confirm removes what waits, --again applies all anew, --mark
marks the directory. It is a command of coracle-master, whose help has more: coracle-master apply --help.

exit code 0: every file is applied
          1: something is not, or waits; it is named
          2: the command line is wrong
          3: the master cannot be reached
";

const RESTART: &str = "\
usage: {} restart [-n NAMESPACE] [--no-wait] [--timeout 5m] [--socket-dir DIR] [--node-name NAME] [--config FILE] POD|WORKLOAD

Starts a pod of this host anew, and waits until it is ready. Its containers end by the pod's own grace, and start again, init containers
first. A pod of a manifest file begins in a new sandbox. A pod of the API, which Kubernetes cannot restart, keeps its address, and its
restart counts go up. The pods of a file's workload (deploy/web) are restarted one after the other; a Deployment, StatefulSet or
DaemonSet of the API rolls as by `kubectl rollout restart`. A pod that has ended, or runs once (restartPolicy), is not restarted.

exit code 0: it is ready again; with --no-wait: it was asked for
          1: it was not ready in time, or cannot be restarted
          2: the command line is wrong
";

const TOP: &str = "\
usage: {} top [--sort-by cpu|memory] [-o json] [--socket-dir DIR] [--node-name NAME] [--config FILE]

Says what this host and its pods use of processor and memory now, the largest first: by the agent, and where there is none by the
master. 1000m is one processor.

exit code 0: the figures are printed
          1: they cannot be read
          2: the command line is wrong
          3: neither program can be reached
";

pub fn row(name: &str) -> Option<&'static CommandRow> {
    COMMANDS.iter().find(|row| row.name == name)
}

/// The help of a command. None, or no command: that of the program.
pub fn of(called: Called, word: Option<&str>) -> String {
    let name = called.name();
    if let Some(row) = word.and_then(row) {
        return row.text.replace("{}", name);
    }
    let mut text = match called {
        Called::Agent => OF_AGENT,
        Called::Coracle => OF_CORACLE,
    }
    .to_owned();
    for row in COMMANDS {
        text.push_str(&format!("       {name} {} {}\n", row.name, row.form));
    }
    text.push('\n');
    let width = COMMANDS.iter().map(|row| row.name.len()).max().unwrap_or_default();
    for row in COMMANDS {
        text.push_str(&format!("  {:width$}  {}\n", row.name, row.tells));
    }
    text.push_str(CODES);
    match called {
        Called::Agent => text.push_str(&OPTIONS.help()),
        Called::Coracle => text.push_str("  [flags] are those of coracle-agent, see coracle-agent --help\n"),
    }
    text.push_str("  --help, --version\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_own() {
        for (called, row) in COMMANDS.iter().flat_map(|row| [(Called::Agent, row), (Called::Coracle, row)]) {
            let (program, command) = (called.name(), row.name);
            let text = of(called, Some(command));
            assert!(text.starts_with(&format!("usage: {program} {command} ")) && !text.contains("{}"), "{text}");
            assert!(text.contains("exit code 0") && text.contains("2: the command line is wrong"), "{text}");
            assert!(
                of(called, None).contains(&format!("{program} {command} ")),
                "the program's own help names {command}"
            );
        }
        assert_eq!(of(Called::Agent, Some("frob")), of(Called::Agent, None));
        assert!(
            of(Called::Agent, None).contains("--manifest-dir") && !of(Called::Coracle, None).contains("--manifest")
        );
    }

    #[test]
    fn by_its_name() {
        for (path, called) in [
            ("coracle", Called::Coracle),
            ("/usr/bin/coracle", Called::Coracle),
            ("/usr/bin/coracle-agent", Called::Agent),
            ("coracle/it", Called::Agent),
            ("", Called::Agent),
        ] {
            assert_eq!(Called::of(path), called, "{path}");
        }
    }
}
