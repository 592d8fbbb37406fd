//! PURE. The table of options, and the texts of `--help`: of the program, and of each command.

use coracle_program::options::Options;

pub const OPTIONS: Options = Options {
    table: include_str!("options.txt"),
    unknown_option: "unknown flag --{}, see --help",
    no_key: "expected `key = value`, found {}",
    unknown_key: "unknown key {}; known are {keys}",
    second_time: "{} is set a second time",
};

const PROGRAM: &str = "\
coracle-master: API server, scheduler and controllers over one directory of JSON files

usage: coracle-master [flags]
       coracle-master status [-o json|wide] [flags]
       coracle-master apply [--confirm|--again|--mark [--yes]] [flags]
       coracle-master store fsck|verify|flush|salvage [flags]
       coracle-master backup FILE [flags]
       coracle-master restore FILE [flags]
       coracle-master encryption new-key|rotate|off [flags]
       coracle-master rbac adopt [--yes] [flags]
       coracle-master kubeconfig [--user NAME [--group GROUP]...] [--server URL] [--for T] [--write] [flags]
       coracle-master token create|list|revoke [flags]
       coracle-master user list|revoke [flags]
       coracle-master keys list|renew|renew-ca|drop-old-ca|renew-token-key|drop-old-token-keys [flags]
       coracle-master kubectl ARGUMENTS

  status                how the running master is: store, clients, nodes, pods, and what of all that was asked for is not there
  apply                 what is applied from apply-dir, and what waits; remove what waits, apply all again, mark the directory
  store verify          say what a start would find: whether everything that was acknowledged is there; changes nothing
  store fsck            the same, and check every object by the rules of its kind
  store flush           bring the object files up to the journal now, also while a master runs
  store salvage         where acknowledged writes are missing, go on with what there is; the journal goes to quarantine as it was
  backup FILE           one revision of everything durable, also while a master runs; lines of JSON, with the secrets in them
  restore FILE          fill an empty data directory from a backup, with no master running
  encryption            make, change and end the keys that seal Secrets on the disk
  rbac adopt            show the bindings and roles of before access rules counted, and with --yes let them count
  kubeconfig            print a kubeconfig with a new certificate in it: the administrator's, or a user's
  token                 make, list and end tokens, for users and for hosts that join
  user                  list the users with certificates, and end those of one
  keys                  show the cluster's own keys and certificates, make them anew, and end old ones
  kubectl ARGUMENTS     run the installed kubectl with root's kubeconfig
  (each with --help; exit code 0: done, and all is well; 1: not; 2: the command line is wrong; 3: the backup lacks something, or
   status reaches no master)

";

const FOOT: &str = "\
  --help                print this
  --version             print the version
";

const STATUS: &str = "\
usage: coracle-master status [-o json|wide] [--admin-socket PATH] [--data-dir DIR] [--config FILE]

Asks the running master through its socket: how full the store is, who is connected, its nodes and pods, and its problems: what was
asked for and is not there, since when, why, and what to do. Something that is starting is a problem until it is there. Warnings say
what comes near its end. Changes nothing. Without --config what the packaged master is started with is read.

  -o wide                cut no line
  -o json                one document for programs: problems as {severity, reason, subject, what, why, advice, since}

  --admin-socket PATH    the running master's socket (default /run/coracle/master/api.sock)
  --data-dir DIR         the directory that it is to serve (default /var/lib/coracle/master)

exit code 0: it runs, and all that was asked for is there
          1: something that was asked for is not there; it says what
          2: the command line is wrong
          3: no master answers
";

const STORE: &str = "\
usage: coracle-master store verify|fsck|flush|salvage [--data-dir DIR] [--admin-socket PATH] [--config FILE]

  verify     say what a start would find; changes nothing
  fsck       the same, and check every object by the rules of its kind
  flush      bring the object files up to the journal now
  salvage    where acknowledged writes are missing, go on with what there is

Each says more with --help, as in `coracle-master store flush --help`.
";

const VERIFY: &str = "\
usage: coracle-master store verify [--data-dir DIR] [--config FILE]

Says what a start would find in the data directory: how many objects at which revision, which files are damaged, whether an
acknowledged write is missing. Changes nothing. No master may run on the directory.

  --data-dir DIR    the store's directory (default /var/lib/coracle/master)
  --config FILE     read it from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: everything that was acknowledged is there
          1: something is damaged or missing, or nobody could look; it says what, and what to do
          2: the command line is wrong
";

const FSCK: &str = "\
usage: coracle-master store fsck [--data-dir DIR] [--config FILE]

Says what `store verify` says, and holds every object against its kind as well: each field's name and type. Changes nothing.
No master may run on the directory.

  --data-dir DIR    the store's directory (default /var/lib/coracle/master)
  --config FILE     read it from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: everything that was acknowledged is there, and every object fits its kind
          1: something is damaged, missing or misshapen, or nobody could look; it says what, and what to do
          2: the command line is wrong
";

const FLUSH: &str = "\
usage: coracle-master store flush [--data-dir DIR] [--admin-socket PATH] [--config FILE]

Brings the files below objects/ up to the journal now, for who wants to read or copy them. A running master is asked through its
socket and goes on meanwhile; where none runs, the directory itself is opened. A master behind the socket that serves another
directory is left alone.

  --data-dir DIR         the store's directory (default /var/lib/coracle/master)
  --admin-socket PATH    the running master's socket (default /run/coracle/master/api.sock)
  --config FILE          read both from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: the files say all that the journal does
          1: they do not; it says why
          2: the command line is wrong
";

const SALVAGE: &str = "\
usage: coracle-master store salvage [--data-dir DIR] [--config FILE]

The way out where acknowledged writes are provably missing, so that a master would serve reads alone. Everything that can be read
goes on; what is missing is given up; the journal as it was found goes to quarantine. What a start has told that may be missing
(quarantine/NNNN-may-be-missing), and you have looked for, is told no more. Where nothing is missing nothing is changed.
Restoring a backup may save more. No master may run on the directory.

  --data-dir DIR    the store's directory (default /var/lib/coracle/master)
  --config FILE     read it from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: the next start serves reads and writes
          1: it could not be done; it says why
          2: the command line is wrong
";

const BACKUP: &str = "\
usage: coracle-master backup FILE [--data-dir DIR] [--admin-socket PATH] [--config FILE]

Writes everything durable at one revision to FILE, as lines of JSON with a checksum at the end. The secrets are in it: FILE is for
its owner alone (mode 0600). A running master is asked through its socket and goes on meanwhile; where none runs, the directory
itself is opened. A master behind the socket that serves another directory is left alone.

Not in it, as nowhere on disk: what lives in memory alone (events, leases, statuses that are seen anew). Each file that should be
in it and is not, because it is damaged or of a kind that this version does not know, is named with the reason; so is where
acknowledged writes are missing. FILE says the same to whoever restores it.

  --data-dir DIR         the store's directory (default /var/lib/coracle/master)
  --admin-socket PATH    the running master's socket (default /run/coracle/master/api.sock)
  --config FILE          read both from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: FILE holds everything
          1: there is no backup, and FILE is as it was; it says why
          2: the command line is wrong
          3: FILE is a whole backup of all but the files that are named
";

const RESTORE: &str = "\
usage: coracle-master restore FILE [--data-dir DIR] [--config FILE]

Fills a data directory that holds no store yet from a backup, with no master running. FILE is read to its end and its checksum
compared before anything is written; where it cannot be done, nothing is left behind. Revisions go on far beyond the backup's, so
that everybody who saw later ones looks again.

  --data-dir DIR    the directory to fill (default /var/lib/coracle/master)
  --config FILE     read it from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: the directory is filled; start the master
          1: it is not; it says why
          2: the command line is wrong
          3: it is filled with all that FILE holds, which is not what is named: FILE lacked it when it was made
";

const ENCRYPTION: &str = "\
usage: coracle-master encryption new-key [FILE] [--data-dir DIR] [--config FILE]
       coracle-master encryption rotate [--keep-old] [--encryption-key FILE] [--data-dir DIR] [--admin-socket PATH] [--config FILE]
       coracle-master encryption off [--encryption-key FILE] [--data-dir DIR] [--admin-socket PATH] [--config FILE]

  new-key    make a key: to standard output, or to FILE for the owner of the data directory alone (mode 0600)
  rotate     seal everything by a new key. It goes in front of the others in the key file, which leave it once nothing is sealed by
             them. A running master is asked through its socket; where none runs, the directory itself is opened
  off        write everything in clear text; then take encryption-key out of the configuration

To begin: `encryption new-key FILE`, `encryption-key = FILE` in the master's configuration, and a restart of the master. Backups hold
Secrets as they lie on the disk: keep a copy of the key file for each, apart from it. Without its key a Secret is lost.

  --keep-old               leave the old keys in the file, for backups of before
  --encryption-key FILE    the key file (default: as the configuration has it)
  --data-dir DIR           the store's directory (default /var/lib/coracle/master)
  --admin-socket PATH      the running master's socket (default /run/coracle/master/api.sock)
  --config FILE            read all from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: it is done
          1: it is not, or not wholly, and can be run again; it says why
          2: the command line is wrong
";

const APPLY: &str = "\
usage: coracle-master apply [--confirm|--again|--mark [--yes]] [--admin-socket PATH] [--data-dir DIR] [--config FILE]

Without a flag it says how many objects are applied from apply-dir, what is wrong, and which objects wait to be removed.

  --confirm              remove the objects that wait: more than half of all at once, or those of a folder that is gone or empty
  --again                apply all files again: what was deleted or changed by hand comes back
  --mark                 mark the directory, as root: a file that is gone from a marked directory was taken away on purpose
  --yes                  mark it though files are missing in it from which objects were applied
  --admin-socket PATH    the running master's socket (default /run/coracle/master/api.sock)
  --data-dir DIR         the directory that it is to serve (default /var/lib/coracle/master)
  --config FILE          read all from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: it is done, and all is well
          1: it is not, or files are not applied; it says why
          2: the command line is wrong
";

const RBAC: &str = "\
usage: coracle-master rbac adopt [--yes] [--admin-socket PATH] [--data-dir DIR] [--config FILE]

Shows the RoleBindings and ClusterRoleBindings that were made before access rules counted. Whoever reached the master could make them,
so they give nothing until they are taken. With --yes all of them count from now on; delete first what should not.

  --yes                  take them
  --admin-socket PATH    the running master's socket (default /run/coracle/master/api.sock)
  --data-dir DIR         the directory that it is to serve (default /var/lib/coracle/master)

exit code 0: they are shown, or taken
          1: they are not; it says why
          2: the command line is wrong
";

const KUBECONFIG: &str = "\
usage: coracle-master kubeconfig [--user NAME [--group GROUP]...] [--server URL] [--for T] [--write]
                                 [--data-dir DIR] [--config FILE]

Prints a kubeconfig that holds a new client certificate, its key, and the certificate of the cluster's authority. Whoever has it is
NAME in the cluster, until `coracle-master user revoke NAME`. What NAME may do is said by roles and bindings.

  --user NAME       the user (default kubernetes-admin of group system:masters, who may do everything)
  --group GROUP     a group of the user; more than once for more groups
  --server URL      where the server is reached (default https://127.0.0.1:6443, from this host)
  --for T           how long the certificate counts, like 30d or 12h (default: for ever)
  --write           write the administrator's to /etc/coracle/admin.kubeconfig (mode 0600), unless a good one is there
  --data-dir DIR    the master's directory, where the keys are (default /var/lib/coracle/master)
  --config FILE     read it from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: it is done
          1: it is not; it says why
          2: the command line is wrong
";

const TOKEN: &str = "\
usage: coracle-master token create --user NAME [--group GROUP]... [--for T] [--data-dir DIR] [--config FILE]
       coracle-master token create --join [--for T] [--uses N] [--data-dir DIR] [--config FILE]
       coracle-master token list [--data-dir DIR] [--config FILE]
       coracle-master token revoke ID [--data-dir DIR] [--config FILE]

  create    make a token and print it, ID.SECRET, once: the cluster keeps a hash of the secret
  list      every token that counts: its id, user, groups, end, and how often it may be used
  revoke    end a token, and whatever it has open

  --user NAME       the user that the token is for
  --group GROUP     a group of the user; more than once for more groups
  --join            for a host that joins: printed with the hash of the cluster's authority, by which the host knows it
  --for T           how long it counts, like 30d or 60m (default: for ever; with --join 60m)
  --uses N          how many hosts may join with it; 0: any number (default 1)
  --data-dir DIR    the master's directory, where the tokens are (default /var/lib/coracle/master)
  --config FILE     read it from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: it is done
          1: it is not; it says why
          2: the command line is wrong
";

const USER: &str = "\
usage: coracle-master user list|revoke NAME [--data-dir DIR] [--config FILE]

  list      the users that have certificates of this cluster, their groups, and when the last one ends
  revoke    end every certificate that NAME has now, and whatever they have open; certificates made later count

  --data-dir DIR    the master's directory, where the lists are (default /var/lib/coracle/master)
  --config FILE     read it from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: it is done
          1: it is not; it says why
          2: the command line is wrong
";

const KEYS: &str = "\
usage: coracle-master keys list|renew [flags]
       coracle-master keys renew-ca [--now] [flags]
       coracle-master keys drop-old-ca [--yes] [flags]
       coracle-master keys renew-token-key [flags]
       coracle-master keys drop-old-token-keys [--yes] [flags]

  list                   the authorities, the certificates of this host, how old they are, and what comes next
  renew                  make the certificates of this host anew: the server's, and those of the master as a client
  renew-ca               publish a new authority; it signs after 30 days of running time, and the old one counts all the while
  drop-old-ca            show whose certificates the old authority signed, and with --yes end it and them
  renew-token-key        a new key signs tokens of service accounts; what older keys signed counts
  drop-old-token-keys    with --yes end the older keys, and every token that they signed

A running master takes all of it up at once, and drops no connection.

  --now                  the new authority signs at once
  --yes                  do it
  --data-dir DIR         the master's directory, where the keys are (default /var/lib/coracle/master)
  --admin-socket PATH    the running master's socket (default /run/coracle/master/api.sock)
  --config FILE          read both from the master's configuration (default /etc/coracle/master.conf, unless --data-dir is given)

exit code 0: it is done
          1: it is not; it says why
          2: the command line is wrong
";

/// `words`: what of the command line is no flag.
pub fn of(words: &[String]) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let text = match words.as_slice() {
        ["store", "verify", ..] => VERIFY,
        ["store", "fsck", ..] => FSCK,
        ["store", "flush", ..] => FLUSH,
        ["store", "salvage", ..] => SALVAGE,
        ["store", ..] => STORE,
        ["status", ..] => STATUS,
        ["encryption", ..] => ENCRYPTION,
        ["apply", ..] => APPLY,
        ["rbac", ..] => RBAC,
        ["backup", ..] => BACKUP,
        ["restore", ..] => RESTORE,
        ["kubeconfig", ..] => KUBECONFIG,
        ["token", ..] => TOKEN,
        ["user", ..] => USER,
        ["keys", ..] => KEYS,
        _ => return format!("{PROGRAM}{}{FOOT}", OPTIONS.help()),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &str, first: &str) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let text = of(&words);
        assert!(text.lines().any(|line| line.starts_with(first)), "{words:?}: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 140), "{words:?}: a line is too long");
        let codes = text.contains("exit code 0") && text.contains("2: the command line is wrong");
        assert!(codes || first.contains("store verify|"), "{words:?} tells its exit codes");
    }

    #[test]
    fn every_command_has_its_own() {
        check("", "usage: coracle-master [flags]");
        check("serve", "usage: coracle-master [flags]");
        check("store", "usage: coracle-master store verify|");
        check("store frob", "usage: coracle-master store verify|");
        check("apply --mark", "usage: coracle-master apply [");
        for command in ["status", "store verify", "store fsck", "store flush", "store salvage", "kubeconfig"] {
            check(command, &format!("usage: coracle-master {command} ["));
        }
        check("token", "usage: coracle-master token create ");
        check("encryption rotate", "usage: coracle-master encryption new-key ");
        check("token list", "usage: coracle-master token create ");
        check("user", "usage: coracle-master user list|");
        check("keys", "usage: coracle-master keys list|");
        check("keys renew-ca", "usage: coracle-master keys list|");
        for command in ["backup", "restore"] {
            check(command, &format!("usage: coracle-master {command} FILE ["));
        }
        check("backup a.jsonl", "usage: coracle-master backup FILE [");
    }
}
