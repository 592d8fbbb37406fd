//! PURE. The table of options, and the texts of `--help`: of the program, and of each command.

use coracle_program::options::Options;

pub const OPTIONS: Options = Options {
    table: include_str!("options.txt"),
    unknown_option: "--{} is no option: see --help",
    no_key: "{} is not `key = value`",
    unknown_key: "there is no key {}; the keys are {keys}",
    second_time: "{} stands there twice",
};

const PROGRAM: &str = "\
coracle-agent: runs Kubernetes pods on this host's Docker

usage: coracle-agent [flags]
       coracle-agent check FILE... [-o json]
       coracle-agent plan [-o json] [flags]
       coracle-agent status [-o json] [flags]
       coracle-agent doctor [-o json] [flags]
       coracle-agent exec [-it] [-n NAMESPACE] [-c CONTAINER] POD -- COMMAND...
       coracle-agent logs [-fp] [-n NAMESPACE] [-c CONTAINER | --all-containers] [--tail N] POD

  check FILE...          say what is wrong with manifest files; a directory stands for the files in it
  plan                   say what an agent that starts now would do, and why; does nothing
  status                 say how this node and its pods are, and what is wrong
  doctor                 name the problems of this host, and what to do
  exec, logs             run a command in a pod of this host, say what it wrote; no master is needed
  (each with --help; exit code 0: all is well; 1: something is wrong; 2: the command line is wrong)

";

const CHECK: &str = "\
usage: coracle-agent check FILE... [-o json]

Reads manifest files as the agent does, and says of each problem where it is and what to do: a line a problem. What the format does
not have is dropped, which is a warning, as is one host port for two pods: the second waits while the first has it. A pod with a field
that the agent does not act on is not started, which is a problem.
A directory stands for the files in it. Needs neither engine nor root.

exit code 0: every file gives what it asks for
          1: something is wrong; a line a problem
          2: the command line is wrong
";

const PLAN: &str = "\
usage: coracle-agent plan [-o json] [--manifest-dir DIR] [--data-dir DIR] [--docker-host URL] [--config FILE]

Prints what an agent that starts now would do, and why, and what pods wait for. It runs the agent's own code on the manifest directory,
the last assignment of the master (kept in the data directory) and the engine. Changes nothing. Back-offs that a running agent has in
memory are not known here.

exit code 0: the plan is printed, also if there is nothing to do
          1: the engine, or a file, cannot be read; it says which
          2: the command line is wrong
";

const STATUS: &str = "\
usage: coracle-agent status [-o json] [--socket-dir DIR] [--node-name NAME] [--config FILE]

Asks the running agent through its socket: the node, its engine, its pods, and what is wrong in plain words. Manifest files that the
agent cannot use are named, too.

exit code 0: the agent runs, and so does everything that it should run
          1: something does not; the problems are printed
          2: the command line is wrong
";

const DOCTOR: &str = "\
usage: coracle-agent doctor [-o json] [--docker-host URL] [--data-dir DIR] [--listen ADDR:PORT] [--config FILE]

Looks at this host: engine, cgroups, disk, clock, ports, kernel, firewall, manifests, master. Says what is wrong and what to do.
Changes nothing. Some of it needs root.

exit code 0: there is no problem, at most warnings
          1: there is one
          2: the command line is wrong
";

const EXEC: &str = "\
usage: coracle-agent exec [-i] [-t] [-n NAMESPACE] [-c CONTAINER] [--socket-dir DIR] [--node-name NAME] [--config FILE] POD -- COMMAND...

Asks the running agent through its socket, as root, to run a command in a pod of this host: -i with what is typed here, -t at a
terminal. A pod of a manifest file goes by its own name. The options are those of kubectl.

exit code 0: the command ended well; else it is the command's own, or
          1: it could not be run
          2: the command line is wrong
";

const LOGS: &str = "\
usage: coracle-agent logs [-f] [-p] [-n NAMESPACE] [-c CONTAINER | --all-containers] [--tail N] [--since 5m] [--since-time TIME]
                          [--timestamps] [--limit-bytes N] [--stream stdout|stderr] [--socket-dir DIR] [--node-name NAME]
                          [--config FILE] POD

Asks the running agent through its socket, as root, what a container of a pod of this host wrote: -f goes on with it, -p is of the
container before. The options are those of kubectl; --stream, which takes no --tail beside it, is the API's.

exit code 0: the log was printed
          1: it cannot be read
          2: the command line is wrong
";

pub fn of(word: Option<&str>) -> String {
    let text = match word {
        Some("check") => CHECK,
        Some("plan") => PLAN,
        Some("status") => STATUS,
        Some("doctor") => DOCTOR,
        Some("exec") => EXEC,
        Some("logs") => LOGS,
        _ => return format!("{PROGRAM}{}  --help, --version\n", OPTIONS.help()),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_own() {
        for command in ["check", "plan", "status", "doctor", "exec", "logs"] {
            let text = of(Some(command));
            assert!(text.starts_with(&format!("usage: coracle-agent {command}")), "{text}");
            assert!(text.contains("exit code 0") && text.contains("2: the command line is wrong"), "{text}");
            assert!(PROGRAM.contains(&format!("coracle-agent {command}")), "the program's own help names {command}");
        }
        assert_eq!(of(Some("frob")), of(None));
    }
}
