//! PURE. The requests that a port takes by their heads, whoever sends them: of programs, and of no web page but the
//! port's own.
//!
//! A page of a foreign site can make a browser send requests to 127.0.0.1, and by rebinding its own name also read the
//! answers. Both show in the head: the origin is the page's, the host is the foreign name. A page of another port of
//! this host is as foreign: any container serves one. Over TLS a foreign name does not pass, for the certificate does
//! not have it; but a browser shows its user's client certificate to whoever makes it ask, as it does with cookies.
use crate::refusal::Refusal;
use crate::{HeaderMap, header};
use http::uri::Authority;
use http::{Uri, Version};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// How every browser that speaks WebSocket begins its name.
const BROWSERS: &[u8] = b"Mozilla/";

/// The origin that programs in Go give where they must give one. No port: a page of this origin comes from port 80.
const MADE_UP: &str = "http://localhost";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Host must name this host's loopback, and Origin, where a browser sends one, this very port.
    LoopbackOnly,
    /// Any one host, over TLS; Origin, where a browser sends one, must be this very port.
    AnyHost,
}

impl Access {
    fn takes_host(self, host: &str) -> bool {
        match self {
            Access::LoopbackOnly => names_loopback(host),
            Access::AnyHost => !host.is_empty(),
        }
    }

    /// The beginning of this port's own origin.
    fn scheme(self) -> &'static str {
        match self {
            Access::LoopbackOnly => "http://",
            Access::AnyHost => "https://",
        }
    }

    /// Whether a foreign origin is the invention of a program: a page that opens a WebSocket cannot choose a header,
    /// and its browser says what it is. Over TLS, where credentials may be ambient, none is but the one that Go's
    /// library makes up.
    fn takes_made_up(self, origin: &str, headers: &HeaderMap) -> bool {
        is_program(headers)
            && match self {
                Access::LoopbackOnly => true,
                Access::AnyHost => origin == MADE_UP || headers.contains_key(header::AUTHORIZATION),
            }
    }
}

/// Whether a listener here is out of reach for other hosts.
pub fn is_loopback(address: SocketAddr) -> bool {
    match address.ip().to_canonical() {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => address.is_loopback(),
    }
}

pub(crate) fn check(access: Access, version: Version, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    let foreign = |what, value: &str| Err(Refusal::Foreign(what, value.to_owned()));
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next().map(|host| host.to_str().unwrap_or_default()), hosts.next(), uri.authority()) {
        (Some(host), None, _) if access.takes_host(host) => host,
        (Some(host), None, _) => return foreign("host", host),
        // HTTP/2 has an authority in the place of Host.
        (None, None, Some(authority)) if version == Version::HTTP_2 => authority.as_str(),
        // HTTP/1.0 knows no Host, and browsers do not speak it.
        (None, ..) if version == Version::HTTP_10 => "",
        _ => return Err(Refusal::Malformed("exactly one Host is needed")),
    };
    // The absolute form names the host twice; a proxy would go by this one.
    if let Some(authority) = uri.authority().filter(|authority| !access.takes_host(authority.as_str())) {
        return foreign("host", authority.as_str());
    }
    // Programs and kubectl send none: it is a page's, and only pages of this port may ask. But for some that speak
    // WebSocket: Go's library makes one up.
    for origin in headers.get_all(header::ORIGIN) {
        let origin = origin.to_str().unwrap_or_default();
        let own = origin.strip_prefix(access.scheme()).is_some_and(|rest| !rest.is_empty() && rest == host);
        if !own && !access.takes_made_up(origin, headers) {
            return foreign("origin", origin);
        }
    }
    // Browsers leave Origin out of some requests, this one out of none. `none`: a person typed the address.
    for site in headers.get_all("sec-fetch-site") {
        if site != "none" && site != "same-origin" {
            return foreign("Sec-Fetch-Site", site.to_str().unwrap_or_default());
        }
    }
    // It would stay in the browser and stand between it and all that this port answers.
    if headers.get_all("service-worker").iter().any(|said| said == "script") {
        return Err(Refusal::Barred("no service worker is served here"));
    }
    Ok(())
}

/// Whether this opens a WebSocket, and nothing in it is of a browser.
fn is_program(headers: &HeaderMap) -> bool {
    let websocket =
        headers.get(header::UPGRADE).is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let called = headers.get_all(header::USER_AGENT).iter().any(|name| name.as_bytes().starts_with(BROWSERS));
    let browser = called || headers.keys().any(|name| name.as_str().starts_with("sec-fetch-"));
    websocket && !browser
}

/// `localhost`, `127.0.0.0/8` or `[::1]`, with any port or none.
fn names_loopback(authority: &str) -> bool {
    let Ok(parsed) = authority.parse::<Authority>() else { return false };
    if authority.contains('@') {
        return false;
    }
    let host = parsed.host();
    host.eq_ignore_ascii_case("localhost")
        || host == "[::1]"
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn check_head(target: &str, fields: &[(&str, &str)]) -> u16 {
        check_version(Version::HTTP_11, target, fields)
    }

    fn check_version(version: Version, target: &str, fields: &[(&str, &str)]) -> u16 {
        check_access(Access::LoopbackOnly, version, target, fields)
    }

    fn check_access(access: Access, version: Version, target: &str, fields: &[(&str, &str)]) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        match check(access, version, &target.parse().unwrap(), &headers) {
            Ok(()) => 200,
            Err(refusal) => refusal.answer("/").status.as_u16(),
        }
    }

    #[test]
    fn hosts() {
        for (host, code) in [
            ("localhost", 200),
            ("LOCALHOST:8080", 200),
            ("127.0.0.1", 200),
            ("127.9.8.7:1", 200),
            ("[::1]", 200),
            ("[::1]:8080", 200),
            ("example.com", 403),
            ("localhost.example.com", 403),
            ("127.0.0.1.example.com", 403),
            ("example.com:8080", 403),
            ("10.0.0.1", 403),
            ("[::2]", 403),
            ("user@localhost", 403),
            ("localhost@example.com", 403),
            ("0.0.0.0", 403),
            ("127.1", 403),
            ("", 403),
            ("localhost:8080/path", 403),
        ] {
            assert_eq!(check_head("/", &[("host", host)]), code, "{host}");
        }
        assert_eq!(check_head("/", &[]), 400);
        assert_eq!(check_head("/", &[]), 400);
        assert_eq!(check_version(Version::HTTP_10, "/", &[]), 200);
        assert_eq!(check_version(Version::HTTP_10, "/", &[("host", "example.com")]), 403);
        assert_eq!(check_version(Version::HTTP_10, "http://example.com/", &[]), 403);
        assert_eq!(check_version(Version::HTTP_10, "/", &[("origin", "http://example.com")]), 403);
        assert_eq!(check_head("/", &[("host", "localhost"), ("host", "localhost")]), 400);
        assert_eq!(check_head("http://localhost:80/x", &[("host", "localhost")]), 200);
        assert_eq!(check_head("http://example.com/x", &[("host", "localhost")]), 403);
    }

    #[test]
    fn origins() {
        for (host, name, value, code) in [
            ("localhost", "origin", "http://localhost", 200),
            ("localhost:8080", "origin", "http://localhost:8080", 200),
            ("[::1]:8080", "origin", "http://[::1]:8080", 200),
            ("localhost:8080", "origin", "http://localhost:30080", 403),
            ("localhost:8080", "origin", "http://localhost", 403),
            ("localhost:8080", "origin", "http://127.0.0.1:8080", 403),
            ("localhost:8080", "origin", "https://localhost:8080", 403),
            ("localhost", "origin", "http://localhost.example.com", 403),
            ("localhost", "origin", "http://example.com", 403),
            ("localhost", "origin", "http://", 403),
            ("localhost", "origin", "null", 403),
            ("localhost", "origin", "", 403),
            ("localhost", "origin", "file://localhost", 403),
            ("localhost", "sec-fetch-site", "cross-site", 403),
            ("localhost", "sec-fetch-site", "same-site", 403),
            ("localhost", "sec-fetch-site", "", 403),
            ("localhost", "sec-fetch-site", "same-origin", 200),
            ("localhost", "sec-fetch-site", "none", 200),
            ("localhost", "service-worker", "script", 403),
        ] {
            assert_eq!(check_head("/", &[("host", host), (name, value)]), code, "{host} {name}: {value}");
        }
        assert_eq!(
            check_head("/", &[("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://example.com")]),
            403
        );
        assert_eq!(
            check_head("/", &[("host", "localhost"), ("sec-fetch-site", "none"), ("sec-fetch-site", "same-site")]),
            403
        );
        assert_eq!(check_version(Version::HTTP_10, "/", &[("origin", "http://")]), 403);
        // Go's WebSocket has an origin that it made up; a browser has a name, too.
        let program = [("host", "localhost:8080"), ("origin", "http://localhost"), ("upgrade", "websocket")];
        assert_eq!(check_head("/", &program), 200);
        assert_eq!(check_head("/", &[&program[..], &[("user-agent", "e2e.test/v1.36")]].concat()), 200);
        assert_eq!(check_head("/", &program[..2]), 403);
        for browser in [("user-agent", "Mozilla/5.0"), ("sec-fetch-mode", "websocket"), ("host", "example.com")] {
            assert_eq!(check_head("/", &[&program[..], &[browser]].concat()) / 100, 4, "{browser:?}");
        }
    }

    #[test]
    fn over_tls_any_host_and_no_foreign_page() {
        let h1 = Version::HTTP_11;
        let websocket = [("host", "box:6443"), ("upgrade", "websocket")];
        let table: [(Version, &str, &[(&str, &str)], u16); 17] = [
            (h1, "/", &[("host", "10.0.0.1:6443")], 200),
            (h1, "/", &[("host", "kubernetes.default.svc")], 200),
            (h1, "https://box/x", &[("host", "box")], 200),
            (h1, "/", &[], 400),
            (h1, "/", &[("host", "")], 403),
            (h1, "/", &[("host", "box"), ("host", "box")], 400),
            (Version::HTTP_2, "https://box:6443/", &[], 200),
            (Version::HTTP_2, "https://box:6443/", &[("host", "box:6443")], 200),
            (Version::HTTP_2, "/", &[], 400),
            (Version::HTTP_2, "https://box/", &[("origin", "https://box")], 200),
            (Version::HTTP_2, "https://box/", &[("origin", "https://example.com")], 403),
            (h1, "/", &[("host", "box"), ("origin", "http://box")], 403),
            (h1, "/", &[("host", "box"), ("sec-fetch-site", "cross-site")], 403),
            (h1, "/", &[&websocket[..], &[("origin", "http://localhost")]].concat(), 200),
            (h1, "/", &[&websocket[..], &[("origin", "http://localhost:8000")]].concat(), 403),
            (h1, "/", &[&websocket[..], &[("origin", "http://a"), ("authorization", "Bearer x")]].concat(), 200),
            (
                h1,
                "/",
                &[&websocket[..], &[("origin", "http://localhost"), ("user-agent", "Mozilla/5.0")]].concat(),
                403,
            ),
        ];
        for (version, target, fields, code) in table {
            assert_eq!(check_access(Access::AnyHost, version, target, fields), code, "{version:?} {target} {fields:?}");
        }
    }

    #[test]
    fn loopback_addresses() {
        for (address, loopback) in [
            ("127.0.0.1:80", true),
            ("127.1.2.3:80", true),
            ("[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
            ("10.0.0.1:80", false),
            ("[fe80::1]:80", false),
        ] {
            assert_eq!(is_loopback(address.parse().unwrap()), loopback, "{address}");
        }
    }
}
