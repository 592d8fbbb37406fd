//! The commands about the keys that seal Secrets on the disk.
//!
//! ```text
//! rotate: a new key in front of the others in the file -> everything is written anew (by the running master, or here)
//!         -> the earlier keys leave the file
//! ```
//!
//! Cut anywhere, the file has every key that something is sealed by, and the command can be run again.

use super::reach::{Answered, Outcome, ask, open};
use crate::cluster_keys::files::KeyFolder;
use crate::config::{Config, EncryptionDeed};
use crate::encryption::{self, load, new_line, read, with_new, with_none};
use crate::owner;
use crate::page::RESEAL;
use crate::store::{KeyRing, SealKeys, SharedKeys};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub fn run(config: &Config, deed: &EncryptionDeed) -> Result<Outcome, String> {
    match deed {
        EncryptionDeed::NewKey(None) => new_line().map(|line| Outcome::good(line.trim_end().to_owned())),
        EncryptionDeed::NewKey(Some(file)) => new_file(config, file),
        EncryptionDeed::Rotate { keep_old } => rotate(config, *keep_old),
        EncryptionDeed::Off => off(config),
    }
}

/// A key file for the owner of the data directory.
fn new_file(config: &Config, file: &Path) -> Result<Outcome, String> {
    let shown = file.display();
    if fs::symlink_metadata(file).is_ok() {
        return Err(format!("{shown} is there: a key that is written over opens nothing any more; name another file"));
    }
    let owner = owner::of(&config.data_dir);
    encryption::write(file, &new_line()?, owner)?;
    Ok(Outcome::good(format!(
        "{shown}: a new key; keep a copy of the file apart from the data, write `encryption-key = {shown}` to \
         master.conf, and restart the master"
    )))
}

fn rotate(config: &Config, keep_old: bool) -> Result<Outcome, String> {
    let (file, text) = key_file(config)?;
    let line = new_line()?;
    replace(file, &with_new(&text, &line))?;
    let done = reseal(config).map_err(|why| {
        format!("{why}; {} has the new key in front of the old ones: run `encryption rotate` again", file.display())
    })?;
    if keep_old {
        return Ok(Outcome::good(format!("{done}\n{} has the old keys still", file.display())));
    }
    replace(file, &line)?;
    Ok(Outcome::good(format!(
        "{done}\nthe old keys have left {}: backups of before need a copy of the file as it was",
        file.display()
    )))
}

fn off(config: &Config) -> Result<Outcome, String> {
    let (file, text) = key_file(config)?;
    replace(file, &with_none(&text))?;
    // With its line `plain` the file would let a later start write Secrets in clear text.
    let done = reseal(config).map_err(|why| match replace(file, &text) {
        Ok(()) => format!("{why}; {} is as before, and the next start of the master seals by it", file.display()),
        Err(again) => format!("{why}; and the line `plain` in {} has to go by hand: {again}", file.display()),
    })?;
    Ok(Outcome::good(format!("{done}\ntake encryption-key out of master.conf and restart the master")))
}

fn key_file(config: &Config) -> Result<(&Path, String), String> {
    let file = config.encryption_key.as_deref();
    let file = file.ok_or("encryption-key is not set: coracle-master encryption --help says how to begin")?;
    let text = read(file)?;
    KeyRing::parse(&text).map_err(|why| format!("{}: {why}", file.display()))?;
    Ok((file, text))
}

/// The file keeps its owner.
fn replace(file: &Path, text: &str) -> Result<(), String> {
    let found = fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    encryption::write(file, text, Some((found.uid(), found.gid())))
}

/// Writes everything anew that is not sealed by the first key of the file.
fn reseal(config: &Config) -> Result<String, String> {
    let keys = load(config.encryption_key.as_deref());
    let wanted = encryption::sealed_by(&keys);
    let said = match ask(config, "POST", RESEAL)? {
        Some(Answered { mut body, .. }) => {
            let mut text = String::new();
            body.read_to_string(&mut text).map_err(|error| format!("the master's answer broke off: {error}"))?;
            text
        }
        None => owner::as_owner(&config.data_dir, || reseal_here(config, keys))?,
    };
    match said == wanted {
        true => Ok(said.trim_end().to_owned()),
        false => Err(format!("the running master has another key file: {}", said.trim_end())),
    }
}

fn reseal_here(config: &Config, keys: SealKeys) -> Result<String, String> {
    let store = open(config, keys.clone())?;
    if let Some(why) = store.frozen() {
        return Err(format!("{}: {why}", config.data_dir.display()));
    }
    KeyFolder::of(&config.data_dir).sealed_by(SharedKeys::new(keys.clone())).reseal()?;
    store.reseal(keys.clone()).map_err(|error| error.to_string())?;
    store.close().map_err(|error| error.to_string())?;
    Ok(encryption::sealed_by(&keys))
}
