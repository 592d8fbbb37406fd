//! PURE. The head of a check's request, as a kubelet writes it.

use coracle_schema::base64;

use super::url::Url;
use crate::facts::engine::Purpose;

/// The header fields of a request, in the order in which they are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetFields(Vec<(String, String)>);

impl GetFields {
    /// The check's header fields, with `User-Agent` and `Accept` added where the check does not set them.
    pub fn of_check(asked: &[(String, String)], purpose: Purpose) -> Result<GetFields, String> {
        let mut fields = GetFields::default();
        for (name, value) in asked {
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(format!("net/http: invalid header field name {name:?}"));
            }
            if value.bytes().any(|byte| byte != b'\t' && (byte < b' ' || byte == 0x7f)) {
                return Err(format!("net/http: invalid header field value for {name:?}"));
            }
            fields.0.push((canonical(name), value.trim_matches([' ', '\t']).to_owned()));
        }
        if fields.get("User-Agent").is_none() {
            let name = match purpose {
                Purpose::Probe => "probe",
                Purpose::Hook => "lifecycle",
            };
            fields.0.push(("User-Agent".to_owned(), format!("kube-{name}/1.{}", coracle_api::KUBERNETES_MINOR)));
        }
        match fields.get("Accept") {
            None => fields.0.push(("Accept".to_owned(), "*/*".to_owned())),
            Some("") => fields.0.retain(|(name, _)| name != "Accept"),
            Some(_) => {}
        }
        fields.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(fields)
    }

    /// The first value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    fn set(&mut self, name: &str, value: String) {
        self.0.retain(|(other, _)| other != name);
        self.0.push((name.to_owned(), value));
        self.0.sort_by(|(one, _), (other, _)| one.cmp(other));
    }

    /// The fields for the request after a redirection.
    pub fn with_referer(mut self, from: &Url, to: &Url) -> GetFields {
        if !(from.scheme == "https" && to.scheme == "http") {
            self.set("Referer", from.shown());
        }
        self
    }

    /// The fields for a hook that goes on without TLS: credentials must not be sent in clear text.
    pub fn without_login(mut self) -> GetFields {
        self.0.retain(|(name, _)| name != "Authorization");
        self
    }
}

/// The whole request. `host`: the value of the `Host` header; none: the host in the URL.
pub fn head(url: &Url, host: Option<&str>, fields: &GetFields) -> Result<String, String> {
    let host = host.filter(|host| !host.is_empty()).unwrap_or(&url.authority);
    // The zone of an address is this host's own affair.
    let host = match host.split_once('%') {
        Some((address, zone)) if host.starts_with('[') => {
            format!("{address}{}", zone.find(']').map_or("", |at| &zone[at..]))
        }
        _ => host.to_owned(),
    };
    if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"/<>?@\\^`{|}".contains(&byte)) {
        return Err("http: invalid Host header".to_owned());
    }
    let mut text = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n", url.target());
    if let Some(agent) = fields.get("User-Agent").filter(|agent| !agent.is_empty()) {
        text += &format!("User-Agent: {agent}\r\n");
    }
    if let Some(user) = url.user.as_ref().filter(|_| fields.get("Authorization").is_none_or(str::is_empty)) {
        let pair = if user.contains(':') { user.clone() } else { format!("{user}:") };
        text += &format!("Authorization: Basic {}\r\n", base64::encode(pair.as_bytes()));
    }
    // What frames a request is not the pod's to say.
    let framing = ["Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer"];
    for (name, value) in fields.0.iter().filter(|(name, _)| !framing.contains(&name.as_str())) {
        text += &format!("{name}: {value}\r\n");
    }
    let closes = fields.get("Connection").is_some_and(|value| value.to_ascii_lowercase().contains("close"));
    Ok(text + if closes { "\r\n" } else { "Connection: close\r\n\r\n" })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// `x-my-name` -> `X-My-Name`
fn canonical(name: &str) -> String {
    let mut upper = true;
    let letters = name.chars().map(|letter| {
        let made = if upper { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        upper = letter == '-';
        made
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str, headers: &[(&str, &str)], purpose: Purpose) -> Result<String, String> {
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (url, fields) = (Url::of_check("http", "10.0.0.1", 80, path)?, GetFields::of_check(&headers, purpose)?);
        head(&url, fields.get("Host"), &fields)
    }

    #[test]
    fn heads() {
        let check = |headers: &[(&str, &str)], expected: &str| {
            let expected = format!("GET / HTTP/1.1\r\n{}\r\n\r\n", expected.replace('\n', "\r\n"));
            assert_eq!(asked("/", headers, Purpose::Probe), Ok(expected), "{headers:?}");
        };
        let version = format!("1.{}", coracle_api::KUBERNETES_MINOR);
        let agent = format!("User-Agent: kube-probe/{version}");
        check(&[], &format!("Host: 10.0.0.1:80\n{agent}\nAccept: */*\nConnection: close"));
        check(&[("host", "a.example"), ("accept", ""), ("user-agent", "")], "Host: a.example\nConnection: close");
        check(
            &[("Host", ""), ("Accept", "text/html"), ("User-Agent", "me")],
            "Host: 10.0.0.1:80\nUser-Agent: me\nAccept: text/html\nConnection: close",
        );
        // Sorted by name. Equal names keep their order.
        check(
            &[("x-b", "2"), ("X-A", "1"), ("X-B", "1"), ("content-length", "9"), ("Transfer-Encoding", "chunked")],
            &format!("Host: 10.0.0.1:80\n{agent}\nAccept: */*\nX-A: 1\nX-B: 2\nX-B: 1\nConnection: close"),
        );
        check(
            &[("Connection", "Close"), ("A", " x\t")],
            &format!("Host: 10.0.0.1:80\n{agent}\nA: x\nAccept: */*\nConnection: Close\n").trim_end(),
        );
        let hook = asked("/", &[], Purpose::Hook).unwrap();
        assert!(hook.contains(&format!("User-Agent: kube-lifecycle/{version}\r\n")), "{hook}");
        let login = asked("//me@x/", &[], Purpose::Probe).unwrap();
        assert!(login.contains("Authorization: Basic bWU6\r\n"), "{login}");
    }

    #[test]
    fn a_field_cannot_end_its_line() {
        for bad in [("a b", "x"), ("", "x"), ("A", "x\r\nEvil: 1"), ("A", "\0"), ("Host", "a b"), ("Host", "a/b")] {
            assert!(asked("/", &[bad], Purpose::Probe).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn redirections_say_where_they_come_from() {
        let url = |scheme: &str| Url::of_check(scheme, "h", 1, "/a").unwrap();
        let referer = |from: &str, to: &str| {
            let fields = GetFields::of_check(&[], Purpose::Probe).unwrap().with_referer(&url(from), &url(to));
            fields.get("Referer").map(str::to_owned)
        };
        assert_eq!(referer("http", "https").as_deref(), Some("http://h:1/a"));
        assert_eq!(referer("https", "http"), None);
    }
}
