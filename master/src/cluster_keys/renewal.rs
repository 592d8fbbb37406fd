//! The certificates of this host: the server's, and those by which the master is known to others. They are made anew
//! when the host has other names or another authority signs, after a year of running time, and on a command.

use super::authorities::Stage;
use super::files::{LIFE, SERVER, SERVER_KEY, needed, read_any};
use super::life::{Aging, Due};
use super::names::ServerNames;
use super::own_clients::OwnClient;
use super::{ClusterKeys, certificate, pem};
use crate::store::locked;
use coracle_api::meta::Time;
use coracle_api::strategy::pem::mismatch;
use std::path::{Path, PathBuf};
use std::time::Duration;
use x509_cert::Certificate;

/// When the first certificate of a file ends.
fn first_end(file: &Path) -> Result<Time, String> {
    let text = read_any(file)?;
    let mut ends = Vec::new();
    for block in pem::blocks(certificate::LABEL, &text) {
        let end = certificate::parse(&block)?.tbs_certificate().validity().not_after.to_unix_duration();
        ends.extend(i64::try_from(end.as_secs()).ok().and_then(Time::from_seconds));
    }
    ends.into_iter().min().ok_or_else(|| format!("{}: no certificate is in it", file.display()))
}

impl ClusterKeys {
    /// The certificate and the key of the server, as PEM.
    pub fn server(&self) -> Result<(String, String), String> {
        let (chain, key) = match &self.options.server_files {
            None => (needed(&self.folder, SERVER)?, needed(&self.folder, SERVER_KEY)?),
            Some((chain, key)) => (read_any(chain)?, read_any(key)?),
        };
        match mismatch(&chain, &key) {
            None => Ok((chain, key)),
            Some(why) => Err(format!("{}: {why}", self.server_paths().0.display())),
        }
    }

    fn server_paths(&self) -> (PathBuf, PathBuf) {
        let own = || (self.folder.path(SERVER), self.folder.path(SERVER_KEY));
        self.options.server_files.clone().unwrap_or_else(own)
    }

    /// The authorities whose certificates tell who a client is, as PEM.
    pub fn client_authorities_pem(&self) -> Result<String, String> {
        let more = self.options.client_authorities.as_deref().map(read_any).transpose()?;
        Ok(format!("{}{}", self.current().bundle, more.unwrap_or_default()))
    }

    /// The certificates that the keeper has made, by their files, and when the first of each file ends. Those of this
    /// master do not end by date.
    pub fn keepers_certificates(&self) -> Vec<(String, Result<Time, String>)> {
        let server = self.options.server_files.as_ref().map(|(chain, _)| chain.as_path());
        let files = server.into_iter().chain(self.options.client_authorities.as_deref());
        files.map(|file| (file.display().to_string(), first_end(file))).collect()
    }

    /// The authority whose clients speak for users, as PEM. Empty: there is none.
    pub fn proxy_authority_pem(&self) -> std::sync::Arc<str> {
        self.current().proxies.clone()
    }

    /// Makes the server's certificate anew unless it is by the authority that signs and for these names. Whether it was
    /// made anew.
    pub fn renew_server(&self, names: &ServerNames) -> Result<bool, String> {
        if self.options.server_files.is_some() || self.has_current_server(names)? {
            return Ok(false);
        }
        self.make_server(names).map(|()| true)
    }

    fn make_server(&self, names: &ServerNames) -> Result<(), String> {
        let (text, key) = self.new_key()?;
        let leaf = certificate::of_server(names, certificate::public_key(&key)?)?;
        let signed = self.sign(leaf)?;
        let chain = format!("{}{}", pem::pem(certificate::LABEL, &signed.der), signed.between);
        let _held = self.folder.hold()?;
        // A crash between the two leaves a pair that does not fit, which the next start finds.
        self.folder.write(SERVER_KEY, &text)?;
        self.folder.write(SERVER, &chain)?;
        log::info!("the server has a new certificate, for {} names", names.names.len() + names.addresses.len());
        Ok(())
    }

    fn has_current_server(&self, names: &ServerNames) -> Result<bool, String> {
        let (Some(chain), Some(key)) = (self.folder.read(SERVER)?, self.folder.read(SERVER_KEY)?) else {
            return Ok(false);
        };
        if mismatch(&chain, &key).is_some() {
            return Ok(false);
        }
        let current = self.current();
        let (first, rest) = split_chain(&chain);
        let signer = current.authorities.signer();
        let is_current = first.is_some_and(|first| certificate::is_current(&first, signer, names));
        Ok(is_current && rest == current.authorities.between()?)
    }

    /// Makes the certificates of this host anew, whatever their age is.
    pub fn renew(&self, names: &ServerNames) -> Result<(), String> {
        if self.options.server_files.is_none() {
            self.make_server(names)?;
        }
        OwnClient::ALL.iter().try_for_each(|of| self.make_own_client(*of).map(drop))?;
        self.take_up()
    }

    /// Looks after everything that ages, at a start and every few minutes.
    pub fn tend(&self, names: &ServerNames) -> Result<(), String> {
        self.tend_after(self.started.elapsed(), names)
    }

    /// `run`: how long this master has run.
    pub(super) fn tend_after(&self, run: Duration, names: &ServerNames) -> Result<(), String> {
        self.look();
        let (stage, things) = self.aging()?;
        let due = locked(&self.life).due(run, stage, &things);
        let mut done: Vec<Result<(), String>> = due.iter().map(|due| self.carry_out(*due, names)).collect();
        done.push(self.renew_server(names).map(drop));
        done.extend(OwnClient::ALL.map(|of| self.own_client(of).map(drop)));
        // What was made has an age of its own, and counts from now on.
        self.look();
        let (stage, things) = self.aging()?;
        locked(&self.life).due(run, stage, &things);
        done.push(self.keep_life(run, false));
        // One that fails keeps no other from being made.
        done.into_iter().collect()
    }

    fn carry_out(&self, due: Due, names: &ServerNames) -> Result<(), String> {
        match due {
            Due::NewAuthority => self.publish_authority(),
            Due::Switch => self.switch_authority(),
            // A certificate of the keeper's own is the keeper's.
            Due::Leaf(Aging::Server) if self.options.server_files.is_some() => Ok(()),
            Due::Leaf(Aging::Server) => self.make_server(names),
            Due::Leaf(Aging::KubeletClient) => self.make_own_client(OwnClient::Kubelet).map(drop),
            Due::Leaf(Aging::FrontProxyClient) => self.make_own_client(OwnClient::Extension).map(drop),
            Due::Leaf(Aging::Authority | Aging::NextAuthority) => Ok(()),
        }
    }

    /// A stop: the running time is kept.
    pub fn stopped(&self) {
        self.keep_life(self.started.elapsed(), true).unwrap_or_else(|why| log::warn!("{why}"));
    }

    fn keep_life(&self, run: Duration, stops: bool) -> Result<(), String> {
        let text = locked(&self.life).keep(run, stops);
        text.map_or(Ok(()), |text| self.folder.write(LIFE, &text))
    }

    /// The certificates that age, with their serial numbers.
    fn aging(&self) -> Result<(Stage, Vec<(Aging, String)>), String> {
        let current = self.current();
        let authorities = &current.authorities;
        let mut things = vec![(Aging::Authority, certificate::serial_of(authorities.signer()))];
        if let Some(cross) = authorities.cross().filter(|_| authorities.stage == Stage::Waiting) {
            things.push((Aging::NextAuthority, certificate::serial_of(cross)));
        }
        let [kubelet, extension] = [OwnClient::Kubelet, OwnClient::Extension].map(OwnClient::certificate_file);
        for (thing, file) in
            [(Aging::Server, SERVER.to_owned()), (Aging::KubeletClient, kubelet), (Aging::FrontProxyClient, extension)]
        {
            let text = self.folder.read(&file)?.unwrap_or_default();
            things.extend(split_chain(&text).0.map(|first| (thing, certificate::serial_of(&first))));
        }
        Ok((authorities.stage, things))
    }

    /// For people: the running time, and the ages of what there is, in seconds.
    pub fn ages(&self) -> Result<(u64, Vec<(Aging, u64)>), String> {
        let run = self.started.elapsed();
        let (_, things) = self.aging()?;
        let life = locked(&self.life);
        let age = |(thing, serial): &(Aging, String)| Some((*thing, life.age_s(run, serial)?));
        Ok((life.running_s(run), things.iter().filter_map(age).collect()))
    }
}

/// The first certificate of a chain, and the text behind it.
fn split_chain(chain: &str) -> (Option<Certificate>, String) {
    let end = format!("-----END {}-----\n", certificate::LABEL);
    let (first, rest) = match chain.split_once(&end) {
        Some((first, rest)) => (format!("{first}{end}"), rest.to_owned()),
        None => (chain.to_owned(), String::new()),
    };
    (pem::unpem(certificate::LABEL, &first).and_then(|der| certificate::parse(&der).ok()), rest)
}
