//! PURE. The certificates of clients that the authority has signed, so that a user's can be found and revoked.

use super::revoked::from_hex;
use serde::{Deserialize, Serialize};

/// Certificates in the list; each takes some 200 bytes.
pub const ISSUED_MAX: usize = 10_000;
/// Certificates of one user: no user keeps others from theirs.
pub const ISSUED_OF_USER_MAX: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedList {
    pub certificates: Vec<IssuedCertificate>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IssuedCertificate {
    /// In hexadecimal digits.
    pub serial: String,
    pub user: String,
    #[serde(default)]
    pub groups: Vec<String>,
    /// Seconds since 1970.
    #[serde(default)]
    pub made: i64,
    /// Seconds since 1970. 0: it never ends.
    #[serde(default)]
    pub expires: i64,
}

impl IssuedList {
    /// `Err`: the text is no list. It must not be taken for an empty one.
    pub fn parse(text: &str) -> Result<IssuedList, String> {
        if text.trim().is_empty() {
            return Ok(IssuedList::default());
        }
        let list: IssuedList = serde_json::from_str(text).map_err(|error| error.to_string())?;
        match list.certificates.iter().find(|one| from_hex(&one.serial).is_none()) {
            Some(one) => Err(format!("certificate of {:?}: {:?} is no serial number", one.user, one.serial)),
            None => Ok(list),
        }
    }

    /// One certificate in a line.
    pub fn text(&self) -> String {
        let lines: Vec<String> =
            self.certificates.iter().map(|one| serde_json::to_string(one).unwrap_or_default()).collect();
        format!("{{\"certificates\":[\n{}\n]}}\n", lines.join(",\n"))
    }

    /// Adds a certificate; those that have ended go.
    pub fn add(&mut self, one: IssuedCertificate, now_s: i64) -> Result<(), String> {
        self.certificates.retain(|one| one.expires == 0 || one.expires > now_s);
        let of_user = self.certificates.iter().filter(|other| other.user == one.user).count();
        if of_user >= ISSUED_OF_USER_MAX {
            return Err(format!(
                "{:?} has {ISSUED_OF_USER_MAX} certificates, which is the most: `coracle-master user revoke` ends them",
                one.user
            ));
        }
        if self.certificates.len() >= ISSUED_MAX {
            return Err(format!("there are {ISSUED_MAX} certificates, which is the most: revoke some first"));
        }
        self.certificates.push(one);
        Ok(())
    }

    /// Takes out the certificates of a user, and gives their serial numbers.
    pub fn take(&mut self, user: &str) -> Vec<Vec<u8>> {
        let (of_user, others) = std::mem::take(&mut self.certificates).into_iter().partition(|one| one.user == user);
        self.certificates = others;
        let of_user: Vec<IssuedCertificate> = of_user;
        of_user.iter().filter_map(|one| from_hex(&one.serial)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(serial: usize, user: &str, expires: i64) -> IssuedCertificate {
        let serial = format!("{serial:08x}");
        IssuedCertificate { serial, user: user.into(), groups: vec!["g".into()], made: 1, expires }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let mut list = IssuedList::default();
        list.add(one(1, "ann", 0), 10).expect("room");
        list.add(one(2, "bob", 20), 10).expect("room");
        assert_eq!(IssuedList::parse(&list.text()), Ok(list.clone()));
        assert_eq!(IssuedList::parse(&IssuedList::default().text()), Ok(IssuedList::default()));
        assert_eq!(list.take("ann"), [vec![0, 0, 0, 1]]);
        // One that has ended makes room.
        list.add(one(3, "ann", 0), 20).expect("room");
        assert_eq!(list.certificates.len(), 1);
        for bad in ["x", "{}", r#"{"certificates":[{"serial":"z","user":"a"}]}"#] {
            assert!(IssuedList::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_user_has_a_limit() {
        let mut list = IssuedList::default();
        for serial in 0..ISSUED_OF_USER_MAX {
            list.add(one(serial, "ann", 0), 10).expect("room");
        }
        assert!(list.add(one(900, "ann", 0), 10).is_err());
        list.add(one(900, "bob", 0), 10).expect("others have room");
    }
}
