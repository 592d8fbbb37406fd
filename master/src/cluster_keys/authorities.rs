//! PURE. The authorities of the cluster, and the steps by which a new one takes the place of an old one.
//!
//!     Single    ca.crt: A       ca.key: A        A signs
//!     Waiting   ca.crt: A B     ca.key: A B      A signs; B is published, and counts          ca-cross.crt: B by A
//!     Overlap   ca.crt: B A     ca.key: B        B signs; A counts until somebody drops it    ca-cross.crt: B by A
//!     Single    ca.crt: B       ca.key: B
//!
//! The authority that signs is the first of `ca.crt` whose key is in `ca.key`. Each step is one file, written in an
//! order that makes every moment between two steps one of these stages. A server sends `ca-cross.crt` behind its own
//! certificate while B signs: a client that knows A alone then finds a way from B to A.

use super::account_keys;
use super::certificate::{self, Serial};
use super::files::{AUTHORITY, AUTHORITY_KEY, CROSS};
use super::pem::{blocks, pem};
use p256::ecdsa::SigningKey;
use p256::pkcs8::{EncodePrivateKey, SecretDocument};
use x509_cert::Certificate;
use x509_cert::der::Encode;
use x509_cert::name::Name;

/// What the first authority is called; later ones have a number behind it.
pub const NAME: &str = "coracle";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// One authority signs, and no other one comes or goes.
    Single,
    /// The old authority signs until everybody has heard of the new one.
    Waiting,
    /// The new authority signs, and what the old one signed counts.
    Overlap,
}

/// The content of a file, or its absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    pub name: &'static str,
    /// `None`: the file is to be removed.
    pub text: Option<String>,
}

/// The authorities as the files say.
pub struct Authorities {
    /// In the order of the file.
    all: Vec<Certificate>,
    /// The index of the signing authority.
    signer: usize,
    /// The new authority's certificate by the old one.
    cross: Option<Certificate>,
    pub stage: Stage,
}

impl Authorities {
    /// `keys` is the text of `ca.key`, `cross` the text of `ca-cross.crt`.
    pub fn parse(bundle: &str, keys: &str, cross: Option<&str>) -> Result<Authorities, String> {
        let ders: Vec<Vec<u8>> = blocks(certificate::LABEL, bundle).collect();
        let all: Vec<Certificate> = ders.iter().map(|der| certificate::parse(der)).collect::<Result<_, _>>()?;
        if all.is_empty() {
            return Err("it is no certificate".to_owned());
        }
        let signer = match all.len() {
            // The usual case takes no arithmetic.
            1 => 0,
            _ => {
                let keys = private_keys(keys);
                all.iter().position(|one| keys.iter().any(|key| is_key_of(key, one))).unwrap_or_default()
            }
        };
        let cross = cross.and_then(|text| blocks(certificate::LABEL, text).next());
        let cross = cross.and_then(|der| certificate::parse(&der).ok()).filter(|cross| {
            let is_newer = |one: &&Certificate| same_key(one, cross);
            let is_older = |one: &&Certificate| certificate::is_by(cross, one);
            // One that a step left over belongs to no pair of the list.
            all.iter().any(|one| is_newer(&one)) && all.iter().any(|one| is_older(&one))
        });
        let stage = match &cross {
            None => Stage::Single,
            Some(cross) if same_key(&all[signer], cross) => Stage::Overlap,
            Some(_) => Stage::Waiting,
        };
        Ok(Authorities { all, signer, cross, stage })
    }

    /// The authority that signs.
    pub fn signer(&self) -> &Certificate {
        &self.all[self.signer]
    }

    /// What a server sends behind its own certificate, as PEM.
    pub fn between(&self) -> Result<String, String> {
        match (&self.cross, self.stage) {
            (Some(cross), Stage::Overlap) => text_of(cross),
            _ => Ok(String::new()),
        }
    }

    /// The certificate of the new authority by the old one, while there are two.
    pub fn cross(&self) -> Option<&Certificate> {
        self.cross.as_ref()
    }

    /// The authority that is to be dropped.
    pub fn old(&self) -> Option<&Certificate> {
        let cross = self.cross.as_ref().filter(|_| self.stage == Stage::Overlap)?;
        self.all.iter().find(|one| certificate::is_by(cross, one))
    }

    /// The names of all, in order.
    pub fn names(&self) -> Vec<String> {
        self.all.iter().map(certificate::common_name).collect()
    }

    /// The key of the authority that signs, out of `ca.key`.
    pub fn signing_key(&self, keys: &str) -> Result<SigningKey, String> {
        let found = private_keys(keys).into_iter().find(|key| is_key_of(key, self.signer()));
        found.ok_or_else(|| format!("it holds no P-256 key in PKCS #8 of the authority in {AUTHORITY}"))
    }

    /// Publishes a new authority; `new`: its key.
    pub fn begin(&self, keys: &str, new: &str, numbers: [Serial; 2]) -> Result<Vec<FileChange>, String> {
        if self.stage != Stage::Single {
            return Err(format!(
                "there are two authorities already: `coracle-master keys drop-old-ca` ends the old one first ({})",
                self.names().join(", ")
            ));
        }
        let (old_key, new_key) = (self.signing_key(keys)?, account_keys::read(new)?);
        let der = certificate::authority(&next_name(&certificate::common_name(self.signer())), numbers[0], &new_key)?;
        let newer = certificate::parse(&der)?;
        let cross = certificate::crossed(&newer, numbers[1], self.signer(), &old_key)?;
        let bundle: String = self.all.iter().map(text_of).collect::<Result<_, _>>()?;
        Ok(vec![
            FileChange { name: AUTHORITY_KEY, text: Some(format!("{}{new}", key_text(&old_key)?)) },
            FileChange { name: CROSS, text: Some(pem(certificate::LABEL, &cross)) },
            FileChange { name: AUTHORITY, text: Some(format!("{bundle}{}", pem(certificate::LABEL, &der))) },
        ])
    }

    /// Lets the new authority sign. The key of the old one goes: nobody needs it any more.
    pub fn switch(&self, keys: &str) -> Result<Vec<FileChange>, String> {
        let newer = self.cross.as_ref().filter(|_| self.stage == Stage::Waiting);
        let newer = newer.ok_or("no new authority waits: `coracle-master keys renew-ca` makes one")?;
        let key = private_keys(keys).into_iter().find(|key| is_key_of(key, newer));
        let key = key.ok_or_else(|| format!("{AUTHORITY_KEY} holds no key of the new authority"))?;
        let (first, others): (Vec<&Certificate>, Vec<_>) = self.all.iter().partition(|one| same_key(one, newer));
        let bundle: String = first.into_iter().chain(others).map(text_of).collect::<Result<_, _>>()?;
        Ok(vec![
            FileChange { name: AUTHORITY, text: Some(bundle) },
            FileChange { name: AUTHORITY_KEY, text: Some(key_text(&key)?) },
        ])
    }

    /// Ends the old authority, and all that it signed.
    pub fn drop_old(&self) -> Result<Vec<FileChange>, String> {
        let old = self.old().ok_or("there is no old authority: nothing is to be dropped")?;
        let left: String = self.all.iter().filter(|one| !same_key(one, old)).map(text_of).collect::<Result<_, _>>()?;
        Ok(vec![FileChange { name: AUTHORITY, text: Some(left) }, FileChange { name: CROSS, text: None }])
    }

    /// What a step that broke off has left: the key of an old authority that signs no more.
    pub fn finish(&self, keys: &str) -> Result<Vec<FileChange>, String> {
        if self.stage != Stage::Overlap || private_keys(keys).len() < 2 {
            return Ok(Vec::new());
        }
        let key = key_text(&self.signing_key(keys)?)?;
        Ok(vec![FileChange { name: AUTHORITY_KEY, text: Some(key) }])
    }
}

/// `coracle`, `coracle-2`, `coracle-3`: authorities of different names are never mistaken for each other.
fn next_name(name: &str) -> String {
    let numbered = name.rsplit_once('-').and_then(|(name, number)| Some((name, number.parse::<u32>().ok()?)));
    match numbered.and_then(|(name, number)| Some((name, number.checked_add(1)?))) {
        Some((name, next)) => format!("{name}-{next}"),
        None if name.is_empty() => format!("{NAME}-2"),
        None => format!("{name}-2"),
    }
}

fn private_keys(text: &str) -> Vec<SigningKey> {
    let one = |der: Vec<u8>| account_keys::read(&pem(account_keys::LABEL, &der)).ok();
    blocks(account_keys::LABEL, text).filter_map(one).collect()
}

fn key_text(key: &SigningKey) -> Result<String, String> {
    let der: SecretDocument = key.to_pkcs8_der().map_err(|error| error.to_string())?;
    Ok(pem(account_keys::LABEL, der.as_bytes()))
}

fn is_key_of(key: &SigningKey, of: &Certificate) -> bool {
    certificate::public_key(key).is_ok_and(|public| public == *of.tbs_certificate().subject_public_key_info())
}

fn same_key(one: &Certificate, other: &Certificate) -> bool {
    let key = |of: &Certificate| of.tbs_certificate().subject_public_key_info().clone();
    let name = |of: &Certificate| -> Name { of.tbs_certificate().subject().clone() };
    key(one) == key(other) && name(one) == name(other)
}

fn text_of(certificate: &Certificate) -> Result<String, String> {
    certificate.to_der().map(|der| pem(certificate::LABEL, &der)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    type Files = BTreeMap<&'static str, String>;

    fn key(number: u8) -> String {
        account_keys::written(&[number; 32]).expect("a key")
    }

    fn read(files: &Files) -> Authorities {
        Authorities::parse(&files[AUTHORITY], &files[AUTHORITY_KEY], files.get(CROSS).map(String::as_str))
            .expect("authorities")
    }

    fn single() -> Files {
        let signing = account_keys::read(&key(1)).expect("a key");
        let der = certificate::authority(NAME, [0x41; 16], &signing).expect("made");
        Files::from([(AUTHORITY, pem(certificate::LABEL, &der)), (AUTHORITY_KEY, key(1))])
    }

    /// Carries out the first of the changes.
    fn apply(files: &mut Files, changes: &[FileChange]) {
        for change in changes {
            match &change.text {
                Some(text) => drop(files.insert(change.name, text.clone())),
                None => drop(files.remove(change.name)),
            }
        }
    }

    fn steps(files: &Files, deed: &str) -> Result<Vec<FileChange>, String> {
        let (authorities, keys) = (read(files), &files[AUTHORITY_KEY]);
        match deed {
            "begin" => authorities.begin(keys, &key(2), [[0x42; 16], [0x43; 16]]),
            "switch" => authorities.switch(keys),
            _ => authorities.drop_old(),
        }
    }

    #[test]
    fn a_new_authority_takes_the_place_of_an_old_one() {
        let mut files = single();
        for (deed, stage, names, signer) in [
            ("begin", Stage::Waiting, "coracle coracle-2", "coracle"),
            ("switch", Stage::Overlap, "coracle-2 coracle", "coracle-2"),
            ("drop", Stage::Single, "coracle-2", "coracle-2"),
            ("begin", Stage::Waiting, "coracle-2 coracle-3", "coracle-2"),
        ] {
            let changes = steps(&files, deed).expect(deed);
            apply(&mut files, &changes);
            let found = read(&files);
            assert_eq!((found.stage, found.names().join(" ").as_str()), (stage, names), "{deed}");
            assert_eq!(certificate::common_name(found.signer()), signer, "{deed}");
            found.signing_key(&files[AUTHORITY_KEY]).expect("its key is there");
            assert_eq!(found.between().expect("a text").is_empty(), stage != Stage::Overlap, "{deed}");
            for other in ["begin", "switch", "drop"] {
                let fits = matches!(
                    (stage, other),
                    (Stage::Single, "begin") | (Stage::Waiting, "switch") | (Stage::Overlap, "drop")
                );
                assert_eq!(steps(&files, other).is_ok(), fits, "{deed}, then {other}");
            }
        }
    }

    /// Whatever step is the last one before a power cut: the authority that signs has a key, both count that have
    /// signed something, and the deed can be done again.
    #[test]
    fn a_crash_between_two_steps_leaves_a_working_set() {
        let mut files = single();
        for deed in ["begin", "switch", "drop"] {
            let (changes, before) = (steps(&files, deed).expect(deed), read(&files));
            for done in 0..changes.len() {
                let mut cut = files.clone();
                apply(&mut cut, &changes[..done]);
                let found = read(&cut);
                found.signing_key(&cut[AUTHORITY_KEY]).unwrap_or_else(|why| panic!("{deed} after {done}: {why}"));
                let is_kept = found.all.iter().any(|one| same_key(one, before.signer()));
                assert!(is_kept, "{deed} after {done}: what the authority signed counts");
                let is_over = found.stage != before.stage;
                match steps(&cut, deed) {
                    Ok(again) => {
                        assert!(!is_over, "{deed} after {done}");
                        apply(&mut cut, &again);
                    }
                    Err(_) => assert!(is_over, "{deed} after {done}"),
                }
                let rest = read(&cut).finish(&cut[AUTHORITY_KEY]).expect("finished");
                apply(&mut cut, &rest);
                let whole = read(&cut);
                let mut expected = files.clone();
                apply(&mut expected, &changes);
                let expected = read(&expected);
                assert_eq!((whole.stage, whole.names()), (expected.stage, expected.names()), "{deed} after {done}");
                let keys = blocks(account_keys::LABEL, &cut[AUTHORITY_KEY]).count();
                assert_eq!(keys, if whole.stage == Stage::Waiting { 2 } else { 1 }, "{deed} after {done}");
            }
            apply(&mut files, &changes);
        }
    }

    #[test]
    fn somebody_s_own_lists() {
        let mut files = single();
        let signing = account_keys::read(&key(9)).expect("a key");
        let more = certificate::authority("partner", [0x49; 16], &signing).expect("made");
        // One more authority that everybody trusts stays in the list, wherever it stands.
        let own = files[AUTHORITY].clone();
        files.insert(AUTHORITY, format!("{}{own}", pem(certificate::LABEL, &more)));
        assert_eq!((read(&files).stage, read(&files).signer), (Stage::Single, 1));
        for deed in ["begin", "switch", "drop"] {
            let changes = steps(&files, deed).expect(deed);
            apply(&mut files, &changes);
            assert!(read(&files).names().contains(&"partner".to_owned()), "{deed}");
        }
        assert!(Authorities::parse("", &key(1), None).is_err());
        let wrong = read(&single()).signing_key(&key(3)).map(drop).expect_err("another key");
        assert!(wrong.contains("ca.crt"), "{wrong}");
        for (name, expected) in [("coracle", "coracle-2"), ("a-9", "a-10"), ("a-b", "a-b-2"), ("", "coracle-2")] {
            assert_eq!(next_name(name), expected);
        }
    }
}
