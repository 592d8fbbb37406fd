//! What a first start makes: the authorities, and the first key of service accounts.

use super::authorities::NAME;
use super::files::{ACCOUNTS, AUTHORITY, AUTHORITY_KEY, KeyFolder, PROXY_AUTHORITY, PROXY_AUTHORITY_KEY};
use super::{account_keys, certificate, pem};
use crate::making::Entropy;

/// The authority of proxies that speak for users, as kubeadm calls it.
const PROXY_NAME: &str = "front-proxy-ca";
/// Random numbers that are no key of the curve come up once in 2^32.
const DRAWS_MAX: usize = 4;

/// Makes the authorities and the first key of accounts, unless they are there.
pub fn make_missing(folder: &KeyFolder, entropy: &Entropy) -> Result<(), String> {
    if make_authority(folder, entropy, (AUTHORITY, AUTHORITY_KEY), NAME)? {
        log::info!("{} is made: this cluster has an identity of its own", folder.path(AUTHORITY).display());
    }
    if let Err(why) = make_authority(folder, entropy, (PROXY_AUTHORITY, PROXY_AUTHORITY_KEY), PROXY_NAME) {
        // Whoever needs no proxy needs no authority of proxies.
        log::error!("{why}");
    }
    if folder.read(ACCOUNTS)?.is_none() {
        folder.write(ACCOUNTS, &draw(entropy)?)?;
    }
    Ok(())
}

/// Whether it was made.
fn make_authority(
    folder: &KeyFolder,
    entropy: &Entropy,
    (certificate, key_file): (&str, &str),
    name: &str,
) -> Result<bool, String> {
    let key = match (folder.read(key_file)?, folder.read(certificate)?) {
        (Some(_), Some(_)) => return Ok(false),
        // A crash came between the two.
        (Some(key), None) => key,
        (None, None) => {
            let key = draw(entropy)?;
            folder.write(key_file, &key)?;
            key
        }
        (None, Some(_)) => {
            return Err(format!(
                "{} is not there, and {certificate} is: put it back, or remove {certificate} for an authority that \
                 nobody knows yet",
                folder.path(key_file).display()
            ));
        }
    };
    let key = account_keys::read(&key).map_err(|why| format!("{}: {why}", folder.path(key_file).display()))?;
    let der = certificate::authority(name, certificate::serial(entropy.bytes()), &key)?;
    folder.write(certificate, &pem::pem(certificate::LABEL, &der))?;
    Ok(true)
}

pub fn draw(entropy: &Entropy) -> Result<String, String> {
    let key = (0..DRAWS_MAX).find_map(|_| account_keys::written(&entropy.bytes()));
    key.ok_or_else(|| "the kernel's random numbers are no keys: start again".to_owned())
}
