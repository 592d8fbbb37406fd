//! The commands on a store: check, flush, salvage, backup, restore. `keys` has those on credentials.
//!
//! ```text
//! store fsck, verify, salvage, restore    the directory itself, with no master running
//! status                                  a running master, through the local socket
//! store flush, backup                     through the local socket while a master runs; the directory itself while
//!                                         none does
//! ```
//!
//! Root touches no directory of another's: it becomes its owner first. What root alone may open is opened before.

mod apply;
mod encryption;
mod keys;
mod reach;
mod rotation;

use self::reach::{Answered, Outcome, ask, open};
use crate::cluster_keys::files::KeyFolder;
use crate::config::{Config, Deed};
use crate::encryption::load;
use crate::owner;
use crate::page::{ADOPTION, BACKUP, FLUSH, PROBLEMS};
use crate::problems::Summary;
use crate::state;
use crate::store::{self, Backup, Findings, LeftOut};
use crate::store_rules::{sealing_by, with_rules};
use coracle_api::kinds::Kinds;
use coracle_program::command_line::OutputFormat;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of a page: the figures, or all nodes.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// The exit code of `status` where no master answers.
const UNREACHABLE: u8 = 3;
/// Done, but for what is named. 2 is the command line's.
const INCOMPLETE: u8 = 3;

/// Runs a command and gives its exit code; `usage` explains the codes.
pub fn run(deed: &Deed, config: &Config) -> ExitCode {
    let done = match deed {
        Deed::Fsck => inspect(config, true),
        Deed::Verify => inspect(config, false),
        Deed::Salvage => salvage(config),
        Deed::Flush => flush(config),
        Deed::Backup(file) => backup(config, file),
        Deed::Restore(file) => restore(config, file),
        Deed::Encryption(deed) => encryption::run(config, deed),
        Deed::Status(form) => status(config, *form),
        Deed::Apply(deed) => apply::run(config, *deed),
        Deed::Adopt { take } => adopt(config, *take),
        Deed::Credentials(deed) => keys::run(config, deed),
        Deed::Kubectl(arguments) => keys::kubectl(config, arguments),
    };
    let Outcome { mut text, code } =
        done.unwrap_or_else(|why| Outcome { text: format!("coracle-master: {why}"), code: 1 });
    if text.is_empty() {
        return ExitCode::from(code);
    }
    text.push('\n');
    // Nobody may be reading any more.
    let written =
        if code == 0 { io::stdout().write_all(text.as_bytes()) } else { io::stderr().write_all(text.as_bytes()) };
    drop(written);
    ExitCode::from(code)
}

fn inspect(config: &Config, deep: bool) -> Result<Outcome, String> {
    let keys = load(config.encryption_key.as_deref());
    owner::become_owner(&config.data_dir)?;
    let kinds = Kinds::builtin();
    let found = with_rules(&kinds, keys, |rules| store::inspect(&config.data_dir, rules, deep))
        .map_err(|error| error.to_string())?;
    Ok(Outcome { text: report(&config.data_dir, &found), code: u8::from(!found.whole()) })
}

fn report(dir: &Path, found: &Findings) -> String {
    let mut lines = vec![format!(
        "{}: {} objects at revision {}, store {}",
        dir.display(),
        found.objects,
        found.revision,
        found.store
    )];
    if found.records > 0 {
        lines.push(format!(
            "{} records of the journal are not in the files yet; the next start reads them",
            found.records
        ));
    }
    lines.extend(found.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(found.damage.iter().map(|damage| format!("damaged: {damage}")));
    lines.extend(found.unknown.iter().map(|why| format!("unknown: {why}")));
    lines.push(match &found.missing {
        Some(missing) => {
            format!(
                "{missing}\nacknowledged writes are not there: a master would serve reads alone; restore a backup, or \
                 run `coracle-master store salvage` to go on with what there is"
            )
        }
        None if !found.unknown.is_empty() => {
            "a master would serve reads alone, and what is unknown not at all".to_owned()
        }
        None if found.damage.is_empty() && found.gone => "everything that was acknowledged is there, but what people \
                                                          took away"
            .to_owned(),
        None if found.damage.is_empty() => "everything that was acknowledged is there".to_owned(),
        None => "a master would serve everything but what is damaged".to_owned(),
    });
    lines.join("\n")
}

fn salvage(config: &Config) -> Result<Outcome, String> {
    let keys = load(config.encryption_key.as_deref());
    owner::become_owner(&config.data_dir)?;
    let kinds = Kinds::builtin();
    let salvaged =
        with_rules(&kinds, keys, |rules| store::salvage(&config.data_dir, rules)).map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    if let Some((missing, evidence)) = salvaged.lost {
        let objects = salvaged.objects;
        lines.push(format!(
            "{missing}\n{objects} objects go on, as new as they could be read; writes since that record may be lost"
        ));
        lines.push(format!("the journal as it was found: {}/{evidence}", config.data_dir.display()));
    }
    lines.extend(salvaged.settled.iter().map(|folder| format!("quarantine/{folder}: it is told no more")));
    if lines.is_empty() {
        lines.push("no acknowledged record is missing: there is nothing to salvage, nothing was changed".to_owned());
    }
    Ok(Outcome::good(lines.join("\n")))
}

fn flush(config: &Config) -> Result<Outcome, String> {
    match ask(config, "POST", FLUSH)? {
        Some(Answered { mut body, .. }) => {
            let mut text = String::new();
            body.read_to_string(&mut text).map_err(|error| format!("the master's answer broke off: {error}"))?;
            Ok(Outcome::good(text.trim_end().to_owned()))
        }
        None => {
            let keys = load(config.encryption_key.as_deref());
            owner::become_owner(&config.data_dir)?;
            let store = open(config, keys)?;
            if let Some(why) = store.frozen() {
                return Err(format!("{}: {why}; the files stay as they are", config.data_dir.display()));
            }
            store.close().map_err(|error| error.to_string())?;
            Ok(Outcome::good(format!("{}: the files say all that the journal does", config.data_dir.display())))
        }
    }
}

fn status(config: &Config, form: OutputFormat) -> Result<Outcome, String> {
    let asked = page(config, "GET", "/metrics").and_then(|metrics| Ok((metrics, page(config, "GET", PROBLEMS)?)));
    // Nobody knows how a master is that does not answer.
    let (metrics, problems) = match asked {
        Ok(pages) => pages,
        Err(why) => return Ok(Outcome { text: format!("coracle-master: {why}"), code: UNREACHABLE }),
    };
    let summary: Summary =
        serde_json::from_str(&problems).map_err(|error| format!("the master's answer on its problems: {error}"))?;
    let report = state::report(&config.data_dir.display().to_string(), &metrics, &summary, form);
    let text = match form {
        OutputFormat::Text | OutputFormat::Wide => report.lines.join("\n"),
        OutputFormat::Json => format!("{:#}", report.document),
    };
    // What was asked for, also where it is not well.
    let _ = writeln!(io::stdout(), "{text}");
    Ok(Outcome { text: String::new(), code: u8::from(!report.well) })
}

/// The whole answer of a running master.
fn page(config: &Config, method: &str, path: &str) -> Result<String, String> {
    match ask(config, method, path)? {
        Some(Answered { body, .. }) => {
            let mut text = String::new();
            body.take(PAGE_BYTES_MAX)
                .read_to_string(&mut text)
                .map_err(|error| format!("the master's answer broke off: {error}"))?;
            Ok(text)
        }
        None => Err(format!("no master answers on {}: systemctl status coracle-master", config.admin_socket.display())),
    }
}

fn adopt(config: &Config, take: bool) -> Result<Outcome, String> {
    let list = serde_json::from_str(&page(config, "GET", ADOPTION)?)
        .map_err(|error| format!("the master's answer on bindings: {error}"))?;
    let lines = state::unadopted(&list);
    if lines.is_empty() {
        return Ok(Outcome::good("all bindings and roles count: none is left from before access rules did".to_owned()));
    }
    let shown = lines.join("\n");
    Ok(Outcome::good(match take {
        false => format!("{shown}\nthese do not count; take them: coracle-master rbac adopt --yes"),
        true => format!("{shown}\n{}", page(config, "POST", ADOPTION)?.trim_end()),
    }))
}

fn backup(config: &Config, file: &Path) -> Result<Outcome, String> {
    let shown = file.display();
    if fs::symlink_metadata(file).is_ok_and(|there| !there.is_file()) {
        return Err(format!("{shown}: it is there and no regular file; name a file to write"));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if lies_in(folder, &config.data_dir) {
        return Err(format!("{shown}: it lies in the data directory; name a file outside of it, best on another disk"));
    }
    // Always the same name: what one that was killed has left is written over by the next.
    let mut tmp = file.as_os_str().to_owned();
    tmp.push(".partial");
    let tmp = PathBuf::from(tmp);
    // The file stays locked until the rename.
    let mut out = begin_backup(&tmp).map_err(|why| format!("{}: {why}", tmp.display()))?;
    let written = write_backup(config, &mut out).and_then(|warned| {
        let copy = File::open(&tmp).map_err(|error| error.to_string())?;
        let contents = store::read_backup(BufReader::new(copy), |_, _| Ok(()), |_, _| Ok(()))?;
        fs::rename(&tmp, file).map_err(|error| error.to_string())?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| error.to_string())?;
        Ok((contents, warned))
    });
    let (contents, warned) = written.map_err(|why| {
        fs::remove_file(&tmp).ok();
        format!("{shown}: {why}")
    })?;
    let mut text = format!("{shown}: {} objects at revision {}", contents.objects, contents.revision);
    warned.iter().for_each(|warning| text.push_str(&format!("\nthe master says: {warning}")));
    Ok(but_for(text, &contents.left_out))
}

/// Symbolic links are followed; a missing folder lies nowhere.
fn lies_in(folder: &Path, dir: &Path) -> bool {
    folder.canonicalize().is_ok_and(|folder| dir.canonicalize().is_ok_and(|dir| folder.starts_with(dir)))
}

/// The outcome of a backup, and the objects that it lacks.
fn but_for(mut text: String, left_out: &[LeftOut]) -> Outcome {
    for left in left_out {
        text.push_str(&format!("\nnot in it: {}: {}", left.file, left.why));
    }
    Outcome { text, code: if left_out.is_empty() { 0 } else { INCOMPLETE } }
}

fn begin_backup(tmp: &Path) -> Result<File, String> {
    // A backup contains every Secret, so only the owner may read the file.
    let out = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(tmp)
        .map_err(|error| error.to_string())?;
    match out.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err("another backup is being written there; wait for it, or name another file".to_owned())
        }
        Err(TryLockError::Error(error)) => Err(error.to_string()),
        Ok(()) => out.set_len(0).map(|()| out).map_err(|error| error.to_string()),
    }
}

/// Writes the backup. Returns the master's warnings.
fn write_backup(config: &Config, out: &mut File) -> Result<Vec<String>, String> {
    let mut warned = Vec::new();
    let keys = load(config.encryption_key.as_deref());
    match ask(config, "GET", BACKUP)? {
        Some(mut answer) => {
            warned = answer.warned;
            io::copy(&mut answer.body, out).map(drop).map_err(|error| error.to_string())?;
        }
        None => owner::as_owner(&config.data_dir, || {
            let store = open(config, keys)?;
            let pieces: Backup = store.backup(KeyFolder::of(&config.data_dir).all()?);
            for piece in pieces {
                out.write_all(&piece).map_err(|error| error.to_string())?;
            }
            // The copy is whole all the same, also of a directory that cannot be written to.
            store.close().unwrap_or_else(|error| log::warn!("{error}"));
            Ok(())
        })?,
    }
    out.sync_all().map_err(|error| error.to_string())?;
    Ok(warned)
}

fn restore(config: &Config, file: &Path) -> Result<Outcome, String> {
    let failed = |why: String| format!("{}: {why}", file.display());
    let opened = File::open(file).map_err(|error| failed(error.to_string()))?;
    let again = || (&opened).rewind().map(|()| BufReader::new(&opened));
    let sealing = sealing_by(load(config.encryption_key.as_deref()));
    owner::become_owner(&config.data_dir)?;
    owner::refuse(&config.data_dir)?;
    let restored = store::restore(&config.data_dir, again, &sealing).map_err(failed)?;
    let text = format!(
        "{}: {} objects of revision {}{}; start the master",
        config.data_dir.display(),
        restored.objects,
        restored.revision,
        match restored.keys {
            0 => {
                ", and no keys of the cluster, which older backups do not have: unless they are here or among its \
                 Secrets, the next start makes new ones, and no token or kubeconfig of before counts"
            }
            _ => ", with the keys of the cluster",
        }
    );
    Ok(but_for(text, &restored.left_out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_lies_outside_of_what_it_is_of() {
        let place = std::env::temp_dir().join(format!("coracle-command-{}-lies", std::process::id()));
        let (data, objects) = (place.join("data"), place.join("data/objects"));
        fs::create_dir_all(&objects).expect("ours");
        std::os::unix::fs::symlink(&data, place.join("link")).expect("ours");
        let within = |folder: &Path| lies_in(folder, &data);
        assert!(within(&data) && within(&objects) && within(&place.join("link")) && within(&objects.join("..")));
        assert!(!within(&place) && !within(&place.join("none")));
        fs::remove_dir_all(place).expect("ours");
    }
}
