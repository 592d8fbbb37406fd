//! PURE. The commands `keys`: their words and flags, and the texts that they print.

use super::{one, table, users};
use crate::cluster_keys::authorities::Stage;
use crate::cluster_keys::issued::IssuedList;
use crate::cluster_keys::life::{AUTHORITY_S, Aging, LEAF_S, WAIT_S};

/// What is done to the cluster's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDeed {
    List,
    /// The certificates of this host.
    Renew,
    /// `now`: the new authority signs at once.
    RenewAuthority {
        now: bool,
    },
    /// Without `take` it is only shown what would end.
    DropOldAuthority {
        take: bool,
    },
    RenewTokenKey,
    DropOldTokenKeys {
        take: bool,
    },
}

const WORDS: &str = "keys takes one of list, renew, renew-ca, drop-old-ca, renew-token-key and \
                         drop-old-token-keys, see keys --help";

/// `words`: what follows `keys`.
pub fn parse(
    words: &[&str],
    flags: &[(String, String)],
    allow: impl Fn(&[&str]) -> Result<(), String>,
) -> Result<KeyDeed, String> {
    let has = |name: &str| one(flags, name).map(|value| value.is_some());
    match words {
        ["list"] => allow(&[]).map(|()| KeyDeed::List),
        ["renew"] => allow(&[]).map(|()| KeyDeed::Renew),
        ["renew-ca"] => allow(&["now"]).and_then(|()| Ok(KeyDeed::RenewAuthority { now: has("now")? })),
        ["drop-old-ca"] => allow(&["yes"]).and_then(|()| Ok(KeyDeed::DropOldAuthority { take: has("yes")? })),
        ["renew-token-key"] => allow(&[]).map(|()| KeyDeed::RenewTokenKey),
        ["drop-old-token-keys"] => allow(&["yes"]).and_then(|()| Ok(KeyDeed::DropOldTokenKeys { take: has("yes")? })),
        _ => Err(WORDS.to_owned()),
    }
}

/// The age of something, in days of running time.
fn days(seconds: u64) -> String {
    format!("{} days", seconds / (24 * 3600))
}

/// The facts of `keys list`.
pub struct KeysReport {
    pub stage: Stage,
    /// The names of the authorities, the one that signs first.
    pub authorities: Vec<String>,
    pub ages: Vec<(Aging, u64)>,
    pub running_s: u64,
    /// Keys that verify tokens and sign none.
    pub old_token_keys: usize,
}

/// The lines of `keys list`.
pub fn listed(report: &KeysReport) -> String {
    let age = |of: Aging| report.ages.iter().find(|(thing, _)| *thing == of).map_or(0, |(_, age_s)| *age_s);
    let row = |name: &str, of: Aging, next: String| vec![name.to_owned(), days(age(of)), next];
    let left = |of: Aging, life_s: u64| format!("in {}", days(life_s.saturating_sub(age(of))));
    let leaf = |name: &str, of: Aging| row(name, of, format!("made anew {}", left(of, LEAF_S)));
    let signer = report.authorities.first().map(String::as_str).unwrap_or_default();
    let other = report.authorities.get(1).map(String::as_str).unwrap_or_default();
    let mut rows = vec![row(
        &format!("authority {signer}"),
        Aging::Authority,
        match report.stage {
            Stage::Single => format!("signs; a new one is made {}", left(Aging::Authority, AUTHORITY_S)),
            Stage::Waiting | Stage::Overlap => "signs".to_owned(),
        },
    )];
    match report.stage {
        Stage::Single => {}
        Stage::Waiting => {
            let signs =
                format!("signs {}, or now: coracle-master keys renew-ca --now", left(Aging::NextAuthority, WAIT_S));
            rows.push(row(&format!("authority {other}"), Aging::NextAuthority, signs));
        }
        Stage::Overlap => rows.push(vec![
            format!("authority {other}"),
            "-".to_owned(),
            "counts until coracle-master keys drop-old-ca".to_owned(),
        ]),
    }
    rows.push(leaf("server", Aging::Server));
    rows.push(leaf("client of kubelets", Aging::KubeletClient));
    rows.push(leaf("proxy", Aging::FrontProxyClient));
    let old = match report.old_token_keys {
        0 => "one key signs tokens".to_owned(),
        old => format!("one key signs tokens; {old} older ones count until coracle-master keys drop-old-token-keys"),
    };
    format!("{}\n{old}\nmasters have run for {}", table(&["KEY", "AGE", "NEXT"], &rows), days(report.running_s))
}

/// Whom the end of an old authority concerns.
pub fn ends_with_authority(list: &IssuedList) -> String {
    match list.certificates.is_empty() {
        true => "no certificate of a user or a node in the list was signed by the old authority".to_owned(),
        false => format!("{}\nthese certificates end", users(list)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Credentials, parse};
    use super::*;

    #[test]
    fn words_and_flags() {
        let check = |words: &str, flags: &[&str], expected: Result<KeyDeed, &str>| {
            let words: Vec<&str> = words.split_whitespace().collect();
            let flags: Vec<(String, String)> = flags.iter().map(|flag| ((*flag).to_owned(), String::new())).collect();
            match (parse(&words, &flags), expected) {
                (Ok(found), expected) => assert_eq!(Ok(found), expected.map(Credentials::Keys), "{words:?}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{words:?}: {why}"),
                (Err(why), Ok(_)) => panic!("{words:?}: {why}"),
            }
        };
        check("keys list", &[], Ok(KeyDeed::List));
        check("keys renew", &[], Ok(KeyDeed::Renew));
        check("keys renew-ca", &[], Ok(KeyDeed::RenewAuthority { now: false }));
        check("keys renew-ca", &["now"], Ok(KeyDeed::RenewAuthority { now: true }));
        check("keys drop-old-ca", &["yes"], Ok(KeyDeed::DropOldAuthority { take: true }));
        check("keys renew-token-key", &[], Ok(KeyDeed::RenewTokenKey));
        check("keys drop-old-token-keys", &[], Ok(KeyDeed::DropOldTokenKeys { take: false }));
        check("keys renew", &["now"], Err("--now is not for keys renew"));
        check("keys drop-old-ca", &["yes", "yes"], Err("a second time"));
        check("keys", &[], Err("keys takes one of list, "));
        check("keys renew now", &[], Err("keys takes one of list, "));
        check("user list", &["yes"], Err("--yes is not for user list"));
    }

    #[test]
    fn what_people_read() {
        let day = 24 * 3600;
        let ages = vec![(Aging::Authority, 400 * day), (Aging::NextAuthority, 10 * day), (Aging::Server, 5 * day)];
        let report = |stage, authorities: &[&str], old_token_keys| KeysReport {
            stage,
            authorities: authorities.iter().map(|name| (*name).to_owned()).collect(),
            ages: ages.clone(),
            running_s: 500 * day,
            old_token_keys,
        };
        let text = listed(&report(Stage::Single, &["coracle"], 0));
        assert!(text.contains("authority coracle    400 days   signs; a new one is made in 3250 days\n"), "{text}");
        assert!(text.contains("server               5 days     made anew in 360 days\n"), "{text}");
        assert!(text.ends_with("one key signs tokens\nmasters have run for 500 days"), "{text}");
        let text = listed(&report(Stage::Waiting, &["coracle", "coracle-2"], 2));
        assert!(
            text.contains("authority coracle-2   10 days    signs in 20 days, or now: coracle-master keys"),
            "{text}"
        );
        assert!(text.contains("2 older ones count until coracle-master keys drop-old-token-keys"), "{text}");
        let text = listed(&report(Stage::Overlap, &["coracle-2", "coracle"], 0));
        assert!(text.contains("counts until coracle-master keys drop-old-ca\n"), "{text}");
    }
}
