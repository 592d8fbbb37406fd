//! The commands about credentials: kubeconfigs, tokens, users, and root's kubectl.
//!
//! They read and write the files of the keys as the owner of the data directory, whether a master runs or not. A
//! running master is told of a changed list; it would notice by itself some seconds later.

use super::reach::{Outcome, ask};
use super::rotation;
use crate::cluster_keys::files::read_any;
use crate::cluster_keys::tokens::TokenList;
use crate::cluster_keys::{ClusterKeys, KeyOptions, TOKENS, certificate, pem};
use crate::config::Config;
use crate::credentials::{self, Credentials, KubeconfigParts, KubeconfigWish};
use crate::encryption::load;
use crate::owner;
use crate::page::KEYS;
use crate::store::SharedKeys;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Root's kubeconfig.
pub const ADMIN_FILE: &str = "/etc/coracle/admin.kubeconfig";
/// The server on its own host, where the configuration names no secure port.
const SERVER: &str = "127.0.0.1:6443";

pub fn run(config: &Config, deed: &Credentials) -> Result<Outcome, String> {
    match deed {
        Credentials::Kubeconfig(wish) if wish.write => {
            write_admin(config, wish, Path::new(ADMIN_FILE)).map(|done| Outcome::good(done.to_owned()))
        }
        Credentials::Kubeconfig(wish) => kubeconfig(config, wish).map(|text| Outcome::good(text.trim_end().to_owned())),
        Credentials::TokenCreate(wish) => with_keys(config, |keys| {
            let (now_s, random) = (keys.now().seconds(), keys.random());
            let token = keys.folder().update(TOKENS, |text| {
                let mut list = TokenList::parse(text)?;
                let token = list.make(wish.clone(), now_s, random)?;
                Ok((Some(list.text()), token))
            })?;
            let hash = if wish.join { format!(":sha256:{}", keys.authority_hash()) } else { String::new() };
            Ok(format!("{token}{hash}"))
        }),
        Credentials::TokenList => with_keys(config, |keys| {
            let text = keys.folder().read(TOKENS)?.unwrap_or_default();
            Ok(credentials::tokens(&TokenList::parse(&text)?))
        }),
        Credentials::TokenRevoke(id) => with_keys(config, |keys| {
            // Whoever has the whole token at hand may name it.
            let id = id.split('.').next().unwrap_or(id);
            let was_there = keys.folder().update(TOKENS, |text| {
                let mut list = TokenList::parse(text)?;
                let was_there = list.revoke(id);
                Ok((was_there.then(|| list.text()), was_there))
            })?;
            match was_there {
                true => Ok(format!("token {id} counts no more")),
                false => Err(format!("there is no token {id}: coracle-master token list shows all")),
            }
        }),
        Credentials::UserList => with_keys(config, |keys| Ok(credentials::users(&keys.issued()?))),
        Credentials::Keys(deed) => rotation::run(config, *deed),
        Credentials::UserRevoke(name) => with_keys(config, |keys| match keys.revoke_user(name)? {
            0 => Err(format!("{name:?} has no certificate of this cluster: coracle-master user list shows all")),
            count => Ok(format!(
                "{count} certificates of {name:?} count no more; its static tokens are others' matter: \
                                 coracle-master token list"
            )),
        })
        .map(|done| told(config, done)),
    }
}

/// Tells a running master that the files of the keys have changed. One that cannot be told notices by itself.
pub fn told(config: &Config, outcome: Outcome) -> Outcome {
    match ask(config, "POST", KEYS) {
        Ok(_) => outcome,
        Err(why) => {
            let text = format!(
                "{}\nthe master has not taken it up yet, and tries again within ten seconds: {why}",
                outcome.text
            );
            Outcome { text, ..outcome }
        }
    }
}

/// With the keys of the data directory, as its owner.
pub fn with_keys(
    config: &Config,
    then: impl FnOnce(&ClusterKeys) -> Result<String, String>,
) -> Result<Outcome, String> {
    as_owner(config, then).map(Outcome::good)
}

pub fn as_owner<T>(config: &Config, then: impl FnOnce(&ClusterKeys) -> Result<T, String>) -> Result<T, String> {
    let sealing = SharedKeys::new(load(config.encryption_key.as_deref()));
    owner::as_owner(&config.data_dir, || {
        let options = KeyOptions { data_dir: config.data_dir.clone(), sealing, ..KeyOptions::default() };
        then(&ClusterKeys::of_directory(options)?)
    })
}

fn kubeconfig(config: &Config, wish: &KubeconfigWish) -> Result<String, String> {
    as_owner(config, |keys| {
        let (certificate, key) = keys.sign_client(&wish.user, &wish.groups, wish.life)?;
        Ok(credentials::kubeconfig(&KubeconfigParts {
            server: &wish.server.clone().unwrap_or_else(|| own_server(config)),
            authority: &keys.authority(),
            user: &wish.user,
            certificate: &certificate,
            key: &key,
        }))
    })
}

/// Where a client on this host reaches the server.
fn own_server(config: &Config) -> String {
    match config.secure_listen {
        Some(address) if address.ip().is_unspecified() => format!("https://127.0.0.1:{}", address.port()),
        Some(address) => format!("https://{address}"),
        None => format!("https://{SERVER}"),
    }
}

/// Writes root's kubeconfig, unless the one that is there counts.
fn write_admin(config: &Config, wish: &KubeconfigWish, path: &Path) -> Result<&'static str, String> {
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        _ => Some(read_any(path)?),
    };
    let asks_for_more = wish.server.is_some() || wish.life.is_some();
    let is_for_this_port = |there: &String| there.contains(&format!("server: \"{}\"\n", own_server(config)));
    if let Some(there) = there.filter(|there| !asks_for_more && is_for_this_port(there))
        && as_owner(config, |keys| Ok(counts(keys, &there)))?
    {
        return Ok("");
    }
    let text = kubeconfig(config, wish)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let written = (|| {
        let _ = fs::remove_file(&partial);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    })();
    written.map_err(|error| format!("write {}: {error}", path.display()))?;
    Ok("/etc/coracle/admin.kubeconfig is written: kubectl of root uses it")
}

/// Whether root's kubeconfig is of this cluster: it names an authority that counts.
pub fn admin_is_ours(keys: &ClusterKeys) -> bool {
    let named = read_any(Path::new(ADMIN_FILE)).ok().and_then(|text| {
        let authorities = credentials::read_data(&text, "certificate-authority-data")?;
        Some(pem::blocks(certificate::LABEL, &authorities).collect::<Vec<_>>())
    });
    let ours: Vec<Vec<u8>> = pem::blocks(certificate::LABEL, &keys.authority()).collect();
    named.is_some_and(|named| named.iter().any(|one| ours.contains(one)))
}

/// Root's kubeconfig anew, with the authorities of now.
pub fn refresh_admin(config: &Config) -> Result<(), String> {
    let path = Path::new(ADMIN_FILE);
    if !nix::unistd::Uid::effective().is_root() {
        return Ok(());
    }
    // Somebody's own server in it stays.
    let text = read_any(path)?;
    let server = text.lines().find_map(|line| line.trim().strip_prefix("server: "));
    let server = server.map(|server| server.trim_matches('"').to_owned());
    let admin = credentials::parse(&["kubeconfig"], &[("write".to_owned(), String::new())])?;
    match admin {
        Credentials::Kubeconfig(wish) => write_admin(config, &KubeconfigWish { server, ..wish }, path).map(drop),
        _ => Ok(()),
    }
}

/// Whether a kubeconfig is of this cluster, and its certificate counts.
fn counts(keys: &ClusterKeys, kubeconfig: &str) -> bool {
    let data = |key: &str| credentials::read_data(kubeconfig, key);
    let of_this = data("certificate-authority-data").is_some_and(|authority| authority == *keys.authority());
    let certificate = data("client-certificate-data")
        .and_then(|text| pem::unpem(certificate::LABEL, &text))
        .and_then(|der| certificate::parse(&der).ok());
    let counts = |certificate: x509_cert::Certificate| {
        let tbs = certificate.tbs_certificate();
        let end = tbs.validity().not_after.to_unix_duration().as_secs();
        let has_ended = i64::try_from(end).is_ok_and(|end| end <= keys.now().seconds());
        !has_ended && !keys.is_revoked(tbs.serial_number().as_bytes())
    };
    of_this && certificate.is_some_and(counts)
}

/// Becomes kubectl, with root's kubeconfig. An option `--kubeconfig` of its own wins.
pub fn kubectl(config: &Config, arguments: &[String]) -> Result<Outcome, String> {
    if nix::unistd::Uid::effective().is_root() && fs::symlink_metadata(ADMIN_FILE).is_err() {
        let admin = credentials::parse(&["kubeconfig"], &[("write".to_owned(), String::new())])?;
        if let Credentials::Kubeconfig(wish) = admin {
            write_admin(config, &wish, Path::new(ADMIN_FILE))?;
        }
    }
    let error = Command::new("kubectl").args(arguments).env("KUBECONFIG", ADMIN_FILE).exec();
    Err(match error.kind() {
        io::ErrorKind::NotFound => {
            "kubectl is not installed: install Kubernetes' client, such as the package kubernetes-client".to_owned()
        }
        _ => format!("kubectl: {error}"),
    })
}
