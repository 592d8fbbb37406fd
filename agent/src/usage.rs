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
       coracle-agent status [-o json|wide] [flags]
       coracle-agent doctor [-o json] [flags]
       coracle-agent images [-o json] [flags]
       coracle-agent update [--dry-run] [-n NAMESPACE] [--deadline 5m] POD|WORKLOAD
       coracle-agent exec [-it] [-n NAMESPACE] [-c CONTAINER] POD -- COMMAND...
       coracle-agent logs [-fp] [-n NAMESPACE] [-c CONTAINER | --all-containers] [--tail N] POD
       coracle-agent apply [--confirm|--again|--mark [--yes]]
       coracle-agent backup DIR [-o json] [flags]
       coracle-agent restore DIR [-o json] [flags]

  check FILE...          say what is wrong with manifest files; a directory stands for the files in it
  plan                   say what an agent that starts now would do, and why; does nothing
  status                 say how this node and its pods are, and what is wrong
  doctor                 name the problems of this host, and what to do
  images                 say which image each container runs, and whether there is a newer one
  update POD|WORKLOAD    pull the newer images of a pod and replace it; goes back if it does not become ready
  exec, logs             run a command in a pod of this host, say what it wrote; no master is needed
  apply                  what coracle-master applies from its directory of manifests, and what waits; see coracle-master apply
  backup DIR             save objects, files and the data of volumes that ask for it
  restore DIR            bring all of it back on a host where nothing is yet
  (each with --help; exit code 0: all is well; 1: something is wrong; 2: the command line is wrong; 3: no agent answers)

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
usage: coracle-agent status [-o json|wide] [--socket-dir DIR] [--node-name NAME] [--config FILE]

Asks the running agent through its socket: the node, its engine, its pods, and what is wrong: what is missing, since when, why, and what
to do. Manifest files that the agent cannot use are named, too. Long lines are cut, with ... at their end; -o wide and -o json cut
nothing. A warning, such as a disk near its end, changes nothing about the exit code.

exit code 0: the agent runs, and so does everything that it should run
          1: something that was asked for is missing; the problems are printed
          2: the command line is wrong
          3: no agent answers
";

const DOCTOR: &str = "\
usage: coracle-agent doctor [-o json] [--docker-host URL] [--data-dir DIR] [--listen ADDR:PORT] [--config FILE]

Looks at this host: engine, cgroups, disk, clock, ports, kernel, firewall, manifests, master. Says what is wrong and what to do.
Changes nothing. Some of it needs root.

exit code 0: there is no problem, at most warnings
          1: there is one
          2: the command line is wrong
";

const IMAGES: &str = "\
usage: coracle-agent images [-o json] [--socket-dir DIR] [--node-name NAME] [--config FILE]

Asks the running agent, as root, which image each container of this host runs, by its digest, and whether there is a newer one under
the same name: in the engine, in an archive of images-dir, or in the registry. The registry is asked now, and has 10 seconds; one that
does not answer is shown as not known. An image that was built here or loaded from an archive is asked of no registry.

exit code 0: the images are printed
          1: the agent does not answer
          2: the command line is wrong
";

const UPDATE: &str = "\
usage: coracle-agent update [--dry-run] [-n NAMESPACE] [--deadline 5m] [-o json] [--socket-dir DIR] [--node-name NAME] [--config FILE]
                            POD|WORKLOAD

Asks the running agent, as root, to pull the images of a pod again and to replace the pod in place if one of them is newer. All pods
of a workload (web, deployment/web) are updated one after the other. A pod that is not ready within the deadline goes back to the
images before, and stays with them. A registry out of reach changes nothing. --dry-run says what would be done.

exit code 0: the pods run from the newest images
          1: an update failed; what runs is said
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

const BACKUP: &str = "\
usage: coracle-agent backup DIR [-o json] [--etc DIR] [--master-config FILE] [--socket-dir DIR] [--node-name NAME] [--config FILE]

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
usage: coracle-agent restore DIR [-o json] [--master-config FILE] [--node-name NAME] [--config FILE]

Brings back what `backup` has saved, as root, each directory to its place. Both programs have to be stopped, the directories to be
empty or not there, and the host to have the name of the node that the backup is of. Sums and places are judged first: until then, and until
everything is unpacked, an error leaves nothing behind.

exit code 0: everything is back
          1: it is not, and why; or the backup itself lacked something, which is named
          2: the command line is wrong
";

pub fn of(word: Option<&str>) -> String {
    let text = match word {
        Some("check") => CHECK,
        Some("plan") => PLAN,
        Some("status") => STATUS,
        Some("doctor") => DOCTOR,
        Some("images") => IMAGES,
        Some("update") => UPDATE,
        Some("exec") => EXEC,
        Some("logs") => LOGS,
        Some("backup") => BACKUP,
        Some("restore") => RESTORE,
        _ => return format!("{PROGRAM}{}  --help, --version\n", OPTIONS.help()),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_own() {
        for command in ["check", "plan", "status", "doctor", "images", "update", "exec", "logs", "backup", "restore"] {
            let text = of(Some(command));
            assert!(text.starts_with(&format!("usage: coracle-agent {command}")), "{text}");
            assert!(text.contains("exit code 0") && text.contains("2: the command line is wrong"), "{text}");
            assert!(PROGRAM.contains(&format!("coracle-agent {command}")), "the program's own help names {command}");
        }
        assert_eq!(of(Some("frob")), of(None));
    }
}
