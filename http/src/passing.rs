//! PURE. Selects the headers that are passed on to another server and back.
//!
//!     there   `end_to_end`: all but what belongs to the client's connection
//!     back    `passed`: the same, and nothing that speaks of this server's origin, for a browser takes what comes from
//!             here for ours
use crate::{HeaderMap, HeaderName, HeaderValue, Passes, StatusCode, header};

/// Headers that belong to one connection and are not passed on (RFC 9110, 7.6.1, and older names); `Connection` may
/// name more.
const OF_ONE_CONNECTION: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers by which a server speaks to browsers about its whole origin, which here is this server's: cookies and stored
/// data, later connections, access from other origins, service workers.
const OF_THE_ORIGIN: [&str; 11] = [
    "accept-ch",
    "alt-svc",
    "clear-site-data",
    "nel",
    "public-key-pins",
    "report-to",
    "reporting-endpoints",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
];

/// The same, all that begin with it.
const OF_OTHER_ORIGINS: &str = "access-control-";

/// A page from a different server runs in a separate origin, although the page comes from our address: its scripts read
/// nothing from the API.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox allow-scripts allow-forms allow-popups");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Without what belongs to one connection alone, and without the length: each carrier says its own. Who adds fields
/// does so after this: a client's `Connection` names what goes.
pub fn end_to_end(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<String> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let stays = |name: &HeaderName| {
        !OF_ONE_CONNECTION.contains(&name.as_str())
            && *name != header::CONTENT_LENGTH
            && !named.iter().any(|other| name.as_str() == other)
    };
    headers.iter().filter(|(name, _)| stays(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The headers of the answer of the server `HOST:PORT` that are passed on.
pub(crate) fn passed(passes: &Passes, authority: &str, status: StatusCode, headers: &HeaderMap) -> HeaderMap {
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(JSON.as_bytes()));
    match passes {
        Passes::Log if status.is_success() => HeaderMap::from_iter([(header::CONTENT_TYPE, TEXT)]),
        Passes::Log | Passes::ContentType | Passes::Upgrade => {
            let content = if is_json { JSON } else { TEXT };
            HeaderMap::from_iter([(header::CONTENT_TYPE, content), (header::CONTENT_SECURITY_POLICY, SANDBOX)])
        }
        Passes::Everything { prefix } => {
            let all = end_to_end(headers);
            let mut passed: HeaderMap = all
                .iter()
                .filter(|(name, _)| !of_origin(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            if is_page(status, headers) {
                changed(&mut passed);
            }
            // Added to the server's own policy, which may forbid more.
            passed.append(header::CONTENT_SECURITY_POLICY, SANDBOX);
            let location = passed.get(header::LOCATION).and_then(|value| value.to_str().ok());
            let moved = location.and_then(|value| behind(value, authority, prefix));
            if let Some(moved) = moved.and_then(|moved| HeaderValue::from_str(&moved).ok()) {
                passed.insert(header::LOCATION, moved);
            }
            passed
        }
    }
}

/// The headers of a message that takes over the connection: both ends must know everything about their protocol.
pub(crate) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let own = [header::UPGRADE, header::CONNECTION].map(|name| (name.clone(), headers.get(name).cloned()));
    let mut passed: HeaderMap = end_to_end(headers)
        .into_iter()
        .filter_map(|(name, value)| Some((name?, value)))
        .filter(|(name, _)| !of_origin(name))
        .collect();
    passed.extend(own.into_iter().filter_map(|(name, value)| Some((name, value?))));
    passed
}

/// Whether the links of what comes are those of a page, to be read as it came.
pub(crate) fn is_page(status: StatusCode, headers: &HeaderMap) -> bool {
    let said = |name: HeaderName| {
        headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_ascii_lowercase()
    };
    let html = said(header::CONTENT_TYPE).split(';').next().is_some_and(|kind| kind.trim() == "text/html");
    html && status != StatusCode::PARTIAL_CONTENT && ["", "identity"].contains(&said(header::CONTENT_ENCODING).as_str())
}

/// For a page with rewritten links: the ranges, digests and strong tag from the server do not fit the new bytes.
fn changed(headers: &mut HeaderMap) {
    for name in ["accept-ranges", "content-md5", "digest", "content-digest", "repr-digest"] {
        headers.remove(name);
    }
    let strong = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok()).filter(|tag| !tag.starts_with("W/"));
    if let Some(weak) = strong.and_then(|tag| HeaderValue::from_str(&format!("W/{tag}")).ok()) {
        headers.insert(header::ETAG, weak);
    }
}

/// Whether a client asks for pages. Pages are fetched uncompressed, because links in a compressed page cannot be read.
pub(crate) fn asks_for_pages(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.to_ascii_lowercase().contains("text/html"))
}

fn of_origin(name: &HeaderName) -> bool {
    OF_THE_ORIGIN.contains(&name.as_str()) || name.as_str().starts_with(OF_OTHER_ORIGINS)
}

/// A link to that server, changed to lead through this proxy. None: the link leads to a different host, is relative to
/// its page, or leads through this proxy already.
pub(crate) fn behind(location: &str, authority: &str, prefix: &str) -> Option<String> {
    let of_http = ["http://", "https://", "//"].iter().find_map(|scheme| location.strip_prefix(scheme));
    let path = match of_http {
        Some(rest) => {
            // An address without a port has the scheme's usual port.
            let usual = if location.starts_with("https") { ":443" } else { ":80" };
            let bare = authority.strip_suffix(usual).unwrap_or(authority);
            rest.strip_prefix(authority)
                .or_else(|| rest.strip_prefix(bare))
                .filter(|path| path.is_empty() || path.starts_with(['/', '?', '#']))?
        }
        None => Some(location).filter(|path| path.starts_with('/'))?,
    };
    if path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#'])) {
        return None;
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Some(format!("{prefix}{slash}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(table: &[(&'static str, &'static str)]) -> HeaderMap {
        table.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_belongs_to_one_connection_stays_there() {
        let headers = head(&[
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("keep-alive", "5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("content-length", "5"),
            ("proxy-authorization", "x"),
            ("warning", "a"),
            ("warning", "c"),
            ("x-other", "2"),
        ]);
        assert_eq!(names(&end_to_end(&headers)), ["warning", "warning", "x-other"]);
    }

    #[test]
    fn a_page_from_elsewhere_says_nothing_of_this_origin_and_stands_in_a_sandbox() {
        let headers = head(&[
            ("content-type", "text/html"),
            ("content-security-policy", "default-src 'self'"),
            ("set-cookie", "a=b"),
            ("service-worker-allowed", "/"),
            ("clear-site-data", "\"*\""),
            ("strict-transport-security", "max-age=1"),
            ("access-control-allow-origin", "*"),
            ("access-control-allow-credentials", "true"),
            ("x-other", "2"),
        ]);
        let address = "10.1.2.3:80";
        let passed = passed(&Passes::Everything { prefix: "/p".to_owned() }, address, StatusCode::OK, &headers);
        assert_eq!(names(&passed), ["content-security-policy", "content-security-policy", "content-type", "x-other"]);
        let policies: Vec<&[u8]> =
            passed.get_all(header::CONTENT_SECURITY_POLICY).iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(policies, [b"default-src 'self'".as_slice(), SANDBOX.as_bytes()]);
    }

    #[test]
    fn logs_are_text_and_an_agents_other_answers_text_or_json() {
        let address = "127.0.0.1:10250";
        for (passes, code, said, expected) in [
            (Passes::Log, 200, Some("text/html"), "text/plain; charset=utf-8"),
            (Passes::Log, 200, Some("application/json"), "text/plain; charset=utf-8"),
            (Passes::Log, 200, None, "text/plain; charset=utf-8"),
            (Passes::Log, 404, Some("application/json"), "application/json"),
            (Passes::Log, 404, Some("text/html"), "text/plain; charset=utf-8"),
            (Passes::ContentType, 200, Some("application/json; charset=utf-8"), "application/json"),
            (Passes::ContentType, 200, Some("image/svg+xml"), "text/plain; charset=utf-8"),
            (Passes::ContentType, 200, None, "text/plain; charset=utf-8"),
        ] {
            let headers: HeaderMap =
                said.map(|said| (header::CONTENT_TYPE, HeaderValue::from_static(said))).into_iter().collect();
            let status = StatusCode::from_u16(code).expect("a code");
            let passed = passed(&passes, address, status, &headers);
            assert_eq!(
                passed.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes),
                Some(expected.as_bytes()),
                "{passes:?} {code} {said:?}"
            );
        }
    }

    #[test]
    fn a_page_is_html_that_comes_whole_and_plain() {
        for (code, headers, expected) in [
            (200, &[("content-type", "text/html")][..], true),
            (404, &[("content-type", "Text/HTML; charset=utf-8")], true),
            (200, &[("content-type", "text/html"), ("content-encoding", "identity")], true),
            (200, &[("content-type", "text/html"), ("content-encoding", "gzip")], false),
            (206, &[("content-type", "text/html")], false),
            (200, &[("content-type", "text/html-sandboxed")], false),
            (200, &[("content-type", "application/json")], false),
            (200, &[], false),
        ] {
            assert_eq!(
                is_page(StatusCode::from_u16(code).expect("a code"), &head(headers)),
                expected,
                "{code} {headers:?}"
            );
        }
        let of_page = head(&[
            ("content-type", "text/html"),
            ("etag", "\"a\""),
            ("accept-ranges", "bytes"),
            ("digest", "sha-256=x"),
        ]);
        let through = passed(&Passes::Everything { prefix: "/p".to_owned() }, "10.1.2.3:80", StatusCode::OK, &of_page);
        assert_eq!(names(&through), ["content-security-policy", "content-type", "etag"]);
        assert_eq!(through[header::ETAG], "W/\"a\"");
        assert!(asks_for_pages(&head(&[("accept", "text/html,application/xhtml+xml,*/*;q=0.8")])));
        assert!(!asks_for_pages(&head(&[("accept", "*/*")])) && !asks_for_pages(&head(&[])));
    }

    #[test]
    fn links_to_that_server_lead_through_here() {
        let (web, other) = ("10.1.2.3:80", "[fd00::1]:8080");
        for (location, address, expected) in [
            ("/login?x=1", web, Some("/p/login?x=1")),
            ("http://10.1.2.3/login", web, Some("/p/login")),
            ("http://10.1.2.3:80", web, Some("/p/")),
            ("https://10.1.2.3/login", "10.1.2.3:443", Some("/p/login")),
            ("http://10.1.2.3:8080/", web, None),
            ("http://10.1.2.30/", web, None),
            ("//10.1.2.3/a", web, Some("/p/a")),
            ("//elsewhere/a", web, None),
            ("https://10.1.2.3/", web, None),
            ("http://elsewhere/", web, None),
            ("/p/login", web, None),
            ("/page", web, Some("/p/page")),
            ("next", web, None),
            ("?page=2", web, None),
            ("http://[fd00::1]:8080/a", other, Some("/p/a")),
        ] {
            assert_eq!(behind(location, address, "/p").as_deref(), expected, "{location}");
        }
    }
}
