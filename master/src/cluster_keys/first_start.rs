//! What a first start makes: the authority, and the first key of service accounts.

use super::files::KeyFolder;
use super::{ACCOUNTS, AUTHORITY, AUTHORITY_KEY, account_keys, certificate, pem};
use crate::making::Entropy;

const AUTHORITY_NAME: &str = "coracle";
/// Random numbers that are no key of the curve come up once in 2^32.
const DRAWS_MAX: usize = 4;

/// Makes the authority and the first key of accounts, unless they are there.
pub fn make_missing(folder: &KeyFolder, entropy: &Entropy) -> Result<(), String> {
    let key = match (folder.read(AUTHORITY_KEY)?, folder.read(AUTHORITY)?) {
        (Some(_), Some(_)) => None,
        // A crash came between the two.
        (Some(key), None) => Some(key),
        (None, None) => {
            let key = draw(entropy)?;
            folder.write(AUTHORITY_KEY, &key)?;
            Some(key)
        }
        (None, Some(_)) => {
            return Err(format!(
                "{} is not there, and {AUTHORITY} is: put it back, or remove {AUTHORITY} for an authority that nobody \
                 knows yet",
                folder.path(AUTHORITY_KEY).display()
            ));
        }
    };
    if let Some(key) = key {
        let key = account_keys::read(&key).map_err(|why| format!("{}: {why}", folder.path(AUTHORITY_KEY).display()))?;
        let der = certificate::authority(AUTHORITY_NAME, certificate::serial(entropy.bytes()), &key)?;
        folder.write(AUTHORITY, &pem::pem(certificate::LABEL, &der))?;
        log::info!("{} is made: this cluster has an identity of its own", folder.path(AUTHORITY).display());
    }
    if folder.read(ACCOUNTS)?.is_none() {
        folder.write(ACCOUNTS, &draw(entropy)?)?;
    }
    Ok(())
}

pub fn draw(entropy: &Entropy) -> Result<String, String> {
    let key = (0..DRAWS_MAX).find_map(|_| account_keys::written(&entropy.bytes()));
    key.ok_or_else(|| "the kernel's random numbers are no keys: start again".to_owned())
}
