//! The user for whom a proxy speaks. Headers count if the client's certificate is by the authority of proxies, as with
//! the request header authentication of kube-apiserver. PURE.
//!
//!     X-Remote-User: ann     X-Remote-Group: team     X-Remote-Uid: u1     X-Remote-Extra-example.com%2fproject: x

use super::credential::Credential;
use coracle_api::strategy::furniture::{FRONT_PROXY, REMOTE_EXTRA, REMOTE_GROUP, REMOTE_UID, REMOTE_USER};
use coracle_http::{ClientCertificate, HeaderMap, HeaderName, HeaderValue, Identity};
use std::collections::BTreeMap;

/// `Ok(None)`: the proxy speaks for nobody, or the client is no proxy. `Err`: it is not believed.
pub fn identity(certificate: &ClientCertificate, headers: &HeaderMap) -> Result<Option<Identity>, String> {
    if !certificate.front_proxy {
        return Ok(None);
    }
    if certificate.common_name != FRONT_PROXY {
        return Err(format!("x509: subject with cn={} is not in the allowed list", certificate.common_name));
    }
    let Some(user) = values(headers, REMOTE_USER)?.into_iter().find(|user| !user.is_empty()) else { return Ok(None) };
    let uid = values(headers, REMOTE_UID)?.into_iter().find(|uid| !uid.is_empty()).unwrap_or_default();
    let mut groups = values(headers, REMOTE_GROUP)?;
    let knows = |group: &String| group == Identity::AUTHENTICATED || group == Identity::UNAUTHENTICATED;
    if user != Identity::ANONYMOUS && !groups.iter().any(knows) {
        groups.push(Identity::AUTHENTICATED.to_owned());
    }
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in headers.keys() {
        let Some(key) = without_prefix(name, REMOTE_EXTRA) else { continue };
        extra.entry(unescaped(key)).or_default().extend(values(headers, name.as_str())?);
    }
    let ClientCertificate { serial, fingerprint, end_s, .. } = certificate;
    let credential = Credential::Certificate { serial: serial.clone(), fingerprint: *fingerprint, end: *end_s };
    Ok(Some(credential.of(Identity { user, uid, groups, extra, credential: None })))
}

/// Names of headers are in small letters.
fn without_prefix<'n>(name: &'n HeaderName, prefix: &str) -> Option<&'n str> {
    name.as_str().strip_prefix(prefix.to_ascii_lowercase().as_str())
}

fn values(headers: &HeaderMap, name: &str) -> Result<Vec<String>, String> {
    let text = |value: &HeaderValue| {
        String::from_utf8(value.as_bytes().to_vec()).map_err(|_| format!("the value of {name} is no text"))
    };
    headers.get_all(name).iter().map(text).collect()
}

/// A key with its `%2f` as letters; as it stands where that makes no text.
fn unescaped(key: &str) -> String {
    let bytes = key.as_bytes();
    let (mut text, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = (*byte == b'%').then(|| key.get(at + 1..at + 3));
        match digits.map(|digits| digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            None => text.push(*byte),
            Some(Some(escaped)) => {
                text.push(escaped);
                at += 2;
            }
            Some(None) => return key.to_owned(),
        }
        at += 1;
    }
    String::from_utf8(text).unwrap_or_else(|_| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_http::Standing;

    fn check(name: &str, front_proxy: bool, fields: &[(&'static str, &str)], expected: Result<Option<&str>, &str>) {
        let headers: HeaderMap = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value")))
            .collect();
        let (common_name, organizations) = (name.to_owned(), vec!["system:masters".to_owned()]);
        let (serial, fingerprint, end_s, standing) = (vec![7], [1; 32], 9, Standing::default());
        let certificate =
            ClientCertificate { common_name, organizations, serial, fingerprint, end_s, front_proxy, standing };
        let told = |of: Identity| format!("{} {} {} {:?}", of.user, of.uid, of.groups.join(","), of.extra);
        let found = identity(&certificate, &headers).map(|found| found.map(told));
        let expected = expected.map(|found| found.map(str::to_owned)).map_err(str::to_owned);
        assert_eq!(found, expected, "{name} {front_proxy} {fields:?}");
    }

    #[test]
    fn for_whom_a_proxy_speaks() {
        let ann = ("x-remote-user", "ann");
        check(FRONT_PROXY, true, &[ann], Ok(Some("ann  system:authenticated {}")));
        check(
            FRONT_PROXY,
            true,
            &[
                ("x-remote-user", ""),
                ann,
                ("x-remote-user", "bob"),
                ("x-remote-group", "g"),
                ("x-remote-group", "h"),
                ("x-remote-uid", "u1"),
                ("x-remote-extra-example.com%2fproject", "x"),
                ("x-remote-extra-example.com%2fproject", "y"),
                ("x-remote-extra-bad%zz", "z"),
            ],
            Ok(Some("ann u1 g,h,system:authenticated {\"bad%zz\": [\"z\"], \"example.com/project\": [\"x\", \"y\"]}")),
        );
        let anonymous = [("x-remote-user", "system:anonymous"), ("x-remote-group", "system:unauthenticated")];
        check(FRONT_PROXY, true, &anonymous, Ok(Some("system:anonymous  system:unauthenticated {}")));
        // Requests without a user, and clients whose certificate is of another authority.
        check(FRONT_PROXY, true, &[], Ok(None));
        check(FRONT_PROXY, true, &[("x-remote-group", "system:masters")], Ok(None));
        check(FRONT_PROXY, false, &[ann], Ok(None));
        check("ann", true, &[ann], Err("x509: subject with cn=ann is not in the allowed list"));
    }
}
