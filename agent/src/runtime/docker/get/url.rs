//! PURE. An address of HTTP as Go reads, resolves and sends it: a kubelet's probes are programs of Go.

/// The URL as sent: all necessary escapes are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    /// `NAME:PASSWORD`, decoded.
    pub user: Option<String>,
    /// With its port, and an address of IPv6 in brackets.
    pub authority: String,
    pub path: String,
    pub query: Option<String>,
}

/// A parsed URL text, absolute or relative.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reference {
    scheme: Option<String>,
    user: Option<String>,
    authority: Option<String>,
    path: String,
    query: Option<String>,
}

impl Url {
    /// The address of a check. A path that cannot be read as part of one is sent as it is, with escapes.
    pub fn of_check(scheme: &str, host: &str, port: u16, path: &str) -> Result<Url, String> {
        let read = match read(path) {
            Ok(Some(reference)) => reference,
            Ok(None) => return Err("http: no Host in request URL".to_owned()),
            Err(_) => Reference { path: escaped(path.bytes()), ..Reference::default() },
        };
        let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let slash = if read.path.is_empty() || read.path.starts_with('/') { "" } else { "/" };
        let path = format!("{slash}{}", read.path);
        Ok(Url { scheme: scheme.to_ascii_lowercase(), user: read.user, authority, path, query: read.query })
    }

    /// Where a `Location` leads from here, and whether it names no host of its own.
    pub fn follow(&self, location: &str) -> Result<(Url, bool), String> {
        let wrong = |why: String| format!("failed to parse Location header {location:?}: {why}");
        let read = read(location).map_err(wrong)?;
        let read = read.ok_or_else(|| wrong("it names no host".to_owned()))?;
        let relative = read.scheme.is_none();
        let scheme = read.scheme.unwrap_or_else(|| self.scheme.clone());
        if !relative || read.authority.is_some() {
            let (authority, path) = (read.authority.unwrap_or_default(), joined(&read.path, ""));
            return Ok((Url { scheme, user: read.user, authority, path, query: read.query }, relative));
        }
        let query = if read.path.is_empty() && read.query.is_none() { self.query.clone() } else { read.query };
        let path = joined(&self.path, &read.path);
        Ok((Url { scheme, user: self.user.clone(), authority: self.authority.clone(), path, query }, relative))
    }

    /// Without brackets.
    pub fn host(&self) -> &str {
        match self.authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, _)) => host,
            None => self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host),
        }
    }

    /// None: it is no number.
    pub fn port(&self) -> Option<u16> {
        let behind = self.authority.rsplit_once(']').map_or(self.authority.as_str(), |(_, behind)| behind);
        match behind.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.is_empty()) {
            Some(port) => port.parse().ok(),
            None => Some(if self.scheme == "https" { 443 } else { 80 }),
        }
    }

    /// The target of a request.
    pub fn target(&self) -> String {
        let query = self.query.as_ref().map_or_else(String::new, |query| format!("?{}", query.replace(' ', "%20")));
        format!("{}{query}", if self.path.is_empty() { "/" } else { &self.path })
    }

    /// For people, and for `Referer`: no password.
    pub fn shown(&self) -> String {
        let query = self.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        format!("{}://{}{}{query}", self.scheme, self.authority, self.path)
    }
}

/// None: it has a scheme and neither host nor path, as `mailto:x`. What is behind `#` is for the reader alone.
fn read(text: &str) -> Result<Option<Reference>, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    decoded(fragment)?;
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query.to_owned())));
    let mut found = Reference { scheme: scheme.map(str::to_ascii_lowercase), query, ..Reference::default() };
    if !rest.starts_with('/') {
        if found.scheme.is_some() {
            return Ok(None);
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let names_host = found.scheme.is_some() || !rest.starts_with("///");
    let path = match rest.strip_prefix("//").filter(|_| names_host) {
        None => rest,
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
            found.user = user.map(decoded).transpose()?.map(|user| String::from_utf8_lossy(&user).into_owned());
            found.authority = Some(host_and_port(host)?);
            path
        }
    };
    found.path = escaped_once(path)?;
    Ok(Some(found))
}

fn scheme(text: &str) -> Result<(Option<&str>, &str), String> {
    for (at, letter) in text.char_indices() {
        match letter {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((Some(&text[..at]), &text[at + 1..])),
            _ => break,
        }
    }
    Ok((None, text))
}

fn host_and_port(text: &str) -> Result<String, String> {
    let host = text.rsplit_once(']').map_or(text, |(_, behind)| behind);
    let port = host.rsplit_once(':').map_or("", |(_, port)| port);
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("invalid port {:?} after host", format!(":{port}")));
    }
    let odd = |letter: char| letter.is_whitespace() || letter.is_control() || "<>\"\\^`{|}/%".contains(letter);
    if let Some(letter) = text.chars().find(|letter| odd(*letter)) {
        return Err(format!("invalid character {:?} in host name", letter.to_string()));
    }
    Ok(text.to_owned())
}

/// Keeps a path without unescaped special characters as it is. Decodes and escapes any other path anew.
fn escaped_once(path: &str) -> Result<String, String> {
    let plain = decoded(path)?;
    let fits = |byte: u8| is_plain(byte) || b"!'()*[]%".contains(&byte);
    Ok(if path.bytes().all(fits) { path.to_owned() } else { escaped(plain.into_iter()) })
}

fn decoded(text: &str) -> Result<Vec<u8>, String> {
    let (bytes, mut at, mut plain) = (text.as_bytes(), 0, Vec::with_capacity(text.len()));
    while at < bytes.len() {
        if bytes[at] != b'%' {
            plain.push(bytes[at]);
            at += 1;
            continue;
        }
        let digits = text.get(at + 1..at + 3).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let wrong = || format!("invalid URL escape {:?}", text.get(at..at + 3).unwrap_or("%"));
        plain.push(byte.ok_or_else(wrong)?);
        at += 3;
    }
    Ok(plain)
}

fn escaped(bytes: impl Iterator<Item = u8>) -> String {
    let mut text = String::new();
    for byte in bytes {
        match is_plain(byte) {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte)
}

/// The path of a reference from where it stands, without `.` and `..`.
fn joined(base: &str, path: &str) -> String {
    let full = match path {
        "" => base.to_owned(),
        path if path.starts_with('/') => path.to_owned(),
        path => format!("{}{path}", &base[..base.rfind('/').map_or(0, |at| at + 1)]),
    };
    if full.is_empty() {
        return full;
    }
    let steps: Vec<&str> = full.strip_prefix('/').unwrap_or(&full).split('/').collect();
    let mut kept: Vec<&str> = Vec::new();
    for step in &steps {
        match *step {
            "." => {}
            ".." => drop(kept.pop()),
            step => kept.push(step),
        }
    }
    let end = if matches!(steps.last(), Some(&("." | "..")) if !kept.is_empty()) { "/" } else { "" };
    format!("/{}{end}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_checks() {
        let check = |path: &str, target: &str, shown: &str| {
            let url = Url::of_check("HTTP", "10.0.0.1", 80, path).unwrap();
            assert_eq!((url.target().as_str(), url.shown().as_str()), (target, shown), "{path:?}");
        };
        check("/", "/", "http://10.0.0.1:80/");
        check("", "/", "http://10.0.0.1:80");
        check("healthz", "/healthz", "http://10.0.0.1:80/healthz");
        check("/a b", "/a%20b", "http://10.0.0.1:80/a%20b");
        check("/a%2Fb?c=d&e", "/a%2Fb?c=d&e", "http://10.0.0.1:80/a%2Fb?c=d&e");
        check("/a?b c", "/a?b%20c", "http://10.0.0.1:80/a?b c");
        check("/a#part", "/a", "http://10.0.0.1:80/a");
        check("/a?b#part", "/a?b", "http://10.0.0.1:80/a?b");
        check("?b", "/?b", "http://10.0.0.1:80?b");
        check("/a?", "/a?", "http://10.0.0.1:80/a?");
        // The text is no valid URL part: it is escaped as a path.
        check("/%zz?#", "/%25zz%3F%23", "http://10.0.0.1:80/%25zz%3F%23");
        check("/a\r\nEvil: 1", "/a%0D%0AEvil:%201", "http://10.0.0.1:80/a%0D%0AEvil:%201");
        check("/ü", "/%C3%BC", "http://10.0.0.1:80/%C3%BC");
        // The host is the check's, whatever the path says.
        check("//other:1/x", "/x", "http://10.0.0.1:80/x");
        check("https://other/x", "/x", "http://10.0.0.1:80/x");
        let url = Url::of_check("https", "fd00::1", 8443, "//me:se%20cret@x/").unwrap();
        assert_eq!((url.host(), url.port(), url.authority.as_str()), ("fd00::1", Some(8443), "[fd00::1]:8443"));
        assert_eq!((url.user.as_deref(), url.shown().as_str()), (Some("me:se cret"), "https://[fd00::1]:8443/"));
        assert!(Url::of_check("http", "h", 80, "foo:bar").is_err());
    }

    #[test]
    fn locations() {
        let base = Url::of_check("http", "10.0.0.1", 8080, "/a/b?q").unwrap();
        let check = |location: &str, expected: &str, relative: bool| {
            let (url, found) = base.follow(location).unwrap();
            assert_eq!((url.shown().as_str(), found), (expected, relative), "{location:?}");
        };
        check("/down", "http://10.0.0.1:8080/down", true);
        check("c", "http://10.0.0.1:8080/a/c", true);
        check("../c?x#y", "http://10.0.0.1:8080/c?x", true);
        check("./", "http://10.0.0.1:8080/a/", true);
        check("../../../c/..", "http://10.0.0.1:8080/", true);
        check("?x", "http://10.0.0.1:8080/a/b?x", true);
        check("#y", "http://10.0.0.1:8080/a/b?q", true);
        check("//10.0.0.1/x", "http://10.0.0.1/x", true);
        check("https://10.0.0.1/x", "https://10.0.0.1/x", false);
        check("HTTP://other:81", "http://other:81", false);
        check("/a b", "http://10.0.0.1:8080/a%20b", true);
        for bad in ["http://h:x/", "/%zz", "a\nb", ":x", "a:b", "http://a b/"] {
            assert!(base.follow(bad).unwrap_err().starts_with("failed to parse Location header"), "{bad:?}");
        }
        let port = |location: &str| base.follow(location).unwrap().0.port();
        assert_eq!([port("http://h/"), port("https://h/"), port("http://[::1]:9/")], [Some(80), Some(443), Some(9)]);
        assert_eq!(base.follow("http://[::1]/").unwrap().0.host(), "::1");
        assert_eq!(port("http://h:99999/"), None);
    }
}
