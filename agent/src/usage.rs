//! PURE. The table of options, the table of commands, and the texts of `--help`: of the program under each of its names,
//! and of each command.

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

/// All commands, in the order of the help. A new command is a row here, a case where `config` or `inside::deed` reads the
/// command line, and the file that carries it out.
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

const CODES: &str =
    "  (each with --help; exit code 0: all is well; 1: something is wrong; 2: the command line is wrong)\n\n";

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
and what is wrong in plain words, each problem once. `coracle-agent status` tells of the agent alone. A program whose unit is enabled and
that does not answer is a problem. -o wide shows node, address and image of each pod.

exit code 0: all that should run here runs
          1: something does not; the problems are printed
          2: the command line is wrong
          3: neither program can be reached
";

const DOCTOR: &str = "\
usage: {} doctor [-o json] [--docker-host URL] [--data-dir DIR] [--listen ADDR:PORT] [--config FILE]

Looks at this host: engine, cgroups, disk, clock, ports, kernel, firewall, manifests, master. Says what is wrong and what to do.
Changes nothing. Some of it needs root.

exit code 0: there is no problem, at most warnings
          1: there is one
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
