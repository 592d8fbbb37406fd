//! What keeps this master itself from its work: the disk of its store, files that nobody can read, ports, keys. PURE.

use super::context::{Found, Words, later};
use crate::store::{Damage, Health};
use coracle_api::meta::Time;
use coracle_keeper::problem::{Problem, Subject};

/// The share of the store's limit above which the next thousand objects may not fit.
const FULL_PERCENT: u64 = 90;
/// Files that are named one by one; of more their number is told.
const FILES_NAMED_MAX: usize = 20;
const DAY_S: i64 = 24 * 3600;
/// A certificate that ends within so many days is told.
const NEAR_DAYS: i64 = 30;

/// What this master knows of itself.
#[derive(Default)]
pub struct Own {
    pub data_dir: String,
    pub health: Health,
    /// Why the secure port is not open.
    pub secure: Option<String>,
    /// What is wrong with outside issuers.
    pub issuers: Vec<String>,
    /// Why the keys of the cluster cannot be used.
    pub keyless: Option<String>,
    /// Certificates that the keeper has made, by their files. `Err`: why a file cannot be read.
    pub certificates: Vec<(String, Result<Time, String>)>,
    /// Bindings and roles that do not count, a line each.
    pub unadopted: Vec<String>,
    /// Problems that other parts of the master tell.
    pub more: Vec<Problem>,
}

pub fn tell(own: &Own, now: Time, found: &mut Found) {
    of_store(own, found);
    of_files(own, found);
    let master = |name: &str| Subject::new("master", "", name);
    let said = |what: &str, why: &str, advice: &str| Words {
        what: what.to_owned(),
        why: why.to_owned(),
        advice: advice.to_owned(),
        since: None,
    };
    if let Some(why) = &own.secure {
        found.tell("SecurePortClosed", master("secure-listen"), said("the secure port is not served", why, ""));
    }
    for why in &own.issuers {
        let what = "tokens of outside issuers are refused";
        found.tell("IssuerTrouble", master("authentication-config"), said(what, why, ""));
    }
    if let Some(why) = &own.keyless {
        let what = "the keys of this cluster cannot be used: no token counts, and the secure port is closed";
        found.tell("KeysUnusable", master("keys"), said(what, why, "journalctl -u coracle-master"));
    }
    if let Some(why) = &own.health.keyless {
        found.tell("EncryptionTrouble", master("encryption-key"), said("Secrets are not written", why, ""));
    }
    for (file, ends) in &own.certificates {
        of_certificate(file, ends, now, found);
    }
    if !own.unadopted.is_empty() {
        let what = format!("{} from before access rules counted give nothing", bindings(own.unadopted.len()));
        let words = said(&what, &own.unadopted.join("; "), "coracle-master rbac adopt");
        found.warn("BindingsUnadopted", master("rbac"), words);
    }
    found.problems.extend(own.more.iter().cloned());
}

fn bindings(count: usize) -> String {
    if count == 1 { "1 binding or role".to_owned() } else { format!("{count} bindings and roles") }
}

fn of_store(own: &Own, found: &mut Found) {
    let (dir, health) = (&own.data_dir, &own.health);
    let store = || Subject::new("store", "", dir);
    let words = |what: String, why: &str, advice: &str| Words {
        what,
        why: why.to_owned(),
        advice: advice.to_owned(),
        since: None,
    };
    if let Some(why) = &health.degraded {
        let what = "takes no writes, reads go on".to_owned();
        found.tell("StoreReadOnly", store(), words(what, why, &format!("make room: df -h {dir}")));
    }
    if let Some(why) = &health.behind {
        let what = "its files cannot be brought up to the journal, which holds everything".to_owned();
        found.tell("StoreFilesStuck", store(), words(what, why, ""));
    }
    let percent = (health.fill.bytes * 100).checked_div(health.fill.bytes_max).unwrap_or_default();
    if percent >= FULL_PERCENT {
        let what = format!("is full to {percent} %");
        found.tell("StoreFull", store(), words(what, "", "delete what is not needed, or raise store-limit"));
    }
    if !health.shut.is_empty() {
        let what = format!("{} Secrets are sealed, and their key is not here", health.shut.len());
        found.tell("SecretsSealed", store(), words(what, "", "bring the file of encryption-key back"));
    }
}

fn of_files(own: &Own, found: &mut Found) {
    let advised = |damage: &Damage, advice: &str| {
        if damage.remedy.is_empty() { advice.to_owned() } else { damage.remedy.clone() }
    };
    let subject = |damage: &Damage| match &damage.key {
        Some(key) => Subject::new(&key.resource.plural, &key.namespace, &key.name),
        None => Subject::new("file", "", &damage.file),
    };
    let told = |damage: &Damage, what: &str| Words {
        what: what.to_owned(),
        why: format!("{} ({})", damage.why, damage.file),
        advice: advised(damage, "coracle-master store verify"),
        since: None,
    };
    let damaged = &own.health.damaged;
    for damage in damaged.iter().take(FILES_NAMED_MAX) {
        found.tell("ObjectDamaged", subject(damage), told(damage, "is damaged: nobody can read it"));
    }
    if damaged.len() > FILES_NAMED_MAX {
        let words = Words {
            what: format!("{} more objects are damaged", damaged.len() - FILES_NAMED_MAX),
            advice: "coracle-master store verify".to_owned(),
            ..Words::default()
        };
        found.tell("ObjectsDamaged", Subject::new("store", "", &own.data_dir), words);
    }
    for edit in own.health.edits.iter().take(FILES_NAMED_MAX) {
        found.warn("EditedFile", Subject::new("file", "", &edit.file), told(edit, "was edited, and does not count so"));
    }
}

fn of_certificate(file: &str, ends: &Result<Time, String>, now: Time, found: &mut Found) {
    let subject = || Subject::new("file", "", file);
    let advice = "renew it; the master takes up the new file by itself".to_owned();
    let ends = match ends {
        Ok(ends) => *ends,
        Err(why) => {
            let words = Words { what: "holds no certificate".to_owned(), why: why.clone(), ..Words::default() };
            return found.tell("CertificateUnreadable", subject(), words);
        }
    };
    let near = later(ends, -NEAR_DAYS * DAY_S);
    if now >= ends {
        let what = format!("its certificate ended at {ends}");
        found.tell("CertificateEnded", subject(), Words { what, advice, since: Some(ends), ..Words::default() });
    } else if now >= near {
        found.look_again(ends);
        let what = format!("its certificate ends at {ends}");
        found.warn("CertificateEnds", subject(), Words { what, advice, since: Some(near), ..Words::default() });
    } else {
        found.look_again(near);
    }
}
