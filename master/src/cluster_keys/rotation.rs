//! The change of an authority, and of the key that signs tokens. Each step is a file, written while the folder is held:
//! commands and the running master may both do it.

use super::account_keys::AccountKeys;
use super::authorities::{Authorities, FileChange, Stage};
use super::files::{ACCOUNTS, AUTHORITY, AUTHORITY_KEY, CROSS, needed};
use super::issued::IssuedCertificate;
use super::{ClusterKeys, certificate, first_start};

impl ClusterKeys {
    /// Makes a new authority and publishes it. The old one signs until `switch_authority`.
    pub fn publish_authority(&self) -> Result<(), String> {
        let new = first_start::draw(&self.entropy)?;
        let numbers = [(); 2].map(|()| certificate::serial(self.entropy.bytes()));
        self.change_authorities(|authorities, keys| authorities.begin(keys, &new, numbers))?;
        log::info!("a new authority is published ({}): the old one signs for now", self.authority_names().join(", "));
        Ok(())
    }

    /// Lets the new authority sign. What the old one signed counts.
    pub fn switch_authority(&self) -> Result<(), String> {
        self.change_authorities(Authorities::switch)?;
        log::info!("the new authority signs ({})", self.authority_names().join(", "));
        Ok(())
    }

    /// Ends the old authority, and every certificate that it signed. Open connections end by the list of revoked
    /// certificates.
    pub fn drop_old_authority(&self) -> Result<(), String> {
        let signer = self.signer_name();
        self.change_authorities(|authorities, _| authorities.drop_old())?;
        self.revoke_where(|one| one.authority != signer).map(drop)
    }

    /// Ends what a crash has left of a change.
    pub(super) fn finish_authorities(&self) -> Result<(), String> {
        if self.current().authorities.stage != Stage::Overlap {
            return Ok(());
        }
        self.change_authorities(Authorities::finish)
    }

    fn change_authorities(
        &self,
        change: impl FnOnce(&Authorities, &str) -> Result<Vec<FileChange>, String>,
    ) -> Result<(), String> {
        let held = self.folder.hold()?;
        let (bundle, keys) = (needed(&self.folder, AUTHORITY)?, needed(&self.folder, AUTHORITY_KEY)?);
        let cross = self.folder.read(CROSS)?;
        let authorities = Authorities::parse(&bundle, &keys, cross.as_deref());
        let authorities = authorities.map_err(|why| format!("{}: {why}", self.folder.path(AUTHORITY).display()))?;
        for FileChange { name, text } in change(&authorities, &keys)? {
            match text {
                Some(text) => self.folder.write(name, &text)?,
                None => self.folder.remove(name)?,
            }
        }
        drop(held);
        self.look();
        Ok(())
    }

    /// How far a change of the authority is.
    pub fn stage(&self) -> Stage {
        self.current().authorities.stage
    }

    /// The names of the authorities; the one that signs is `signer_name`.
    pub fn authority_names(&self) -> Vec<String> {
        self.current().authorities.names()
    }

    pub fn signer_name(&self) -> String {
        certificate::common_name(self.current().authorities.signer())
    }

    /// The certificates that end with the old authority.
    pub fn signed_by_old(&self) -> Result<Vec<IssuedCertificate>, String> {
        let (signer, list) = (self.signer_name(), self.issued()?);
        let now_s = self.now().seconds();
        let counts = |one: &IssuedCertificate| one.expires == 0 || one.expires > now_s;
        Ok(list.certificates.into_iter().filter(|one| one.authority != signer && counts(one)).collect())
    }

    /// A new key signs tokens; what older keys signed counts.
    pub fn renew_account_key(&self) -> Result<(), String> {
        let new = first_start::draw(&self.entropy)?;
        self.change_accounts(|accounts| accounts.renewed(&new))
    }

    /// Ends every token that an older key has signed. The number of keys that go.
    pub fn drop_old_account_keys(&self) -> Result<usize, String> {
        let count = self.old_account_keys();
        if count > 0 {
            self.change_accounts(AccountKeys::newest_alone)?;
        }
        Ok(count)
    }

    /// Keys that verify tokens and sign none.
    pub fn old_account_keys(&self) -> usize {
        self.current().accounts.old_count()
    }

    fn change_accounts(&self, change: impl FnOnce(&AccountKeys) -> Result<String, String>) -> Result<(), String> {
        self.folder.update(ACCOUNTS, |text| Ok((Some(change(&AccountKeys::parse(text)?)?), ())))?;
        self.look();
        Ok(())
    }
}
