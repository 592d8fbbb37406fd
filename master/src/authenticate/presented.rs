//! The token that a request shows, by Kubernetes' rules. PURE.
//!
//!     Authorization: Bearer TOKEN
//!     Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.TOKEN-IN-BASE64, ANOTHER      of browsers

use crate::cluster_keys::from_url_safe;
use crate::cluster_keys::token::TOKEN_BYTES_MAX;
use coracle_http::{HeaderMap, HeaderValue, header};

/// The subprotocol of WebSocket that carries a token: a page in a browser cannot set `Authorization`.
const SUBPROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// The token. `Ok(None)`: the request shows none; other schemes than Bearer do not count. `Err`: the request shows
/// something that can be no token.
pub fn token(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    match bearer(headers)? {
        Some(token) => Ok(Some(token)),
        None => of_websocket(headers),
    }
}

fn bearer(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let mut words = value.as_bytes().trim_ascii().split(|byte| *byte == b' ');
    let is_bearer = words.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"));
    let token = words.next().unwrap_or_default();
    if !is_bearer || token.is_empty() {
        return Ok(None);
    }
    text(token.to_vec()).map(Some)
}

fn of_websocket(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    let asks = headers.get(header::UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    if !asks {
        return Ok(None);
    }
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let named: Vec<&str> =
        values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim).collect();
    let mut tokens = named.iter().filter_map(|protocol| protocol.strip_prefix(SUBPROTOCOL));
    let Some(encoded) = tokens.next() else { return Ok(None) };
    if tokens.next().is_some() {
        return Err("several subprotocols carry a token");
    }
    // The server must not answer with the protocol that is the token.
    if named.len() == 1 {
        return Err("no subprotocol stands beside the token");
    }
    text(from_url_safe(encoded).ok_or("the token in the subprotocol is not base64")?).map(Some)
}

/// A header of subprotocols without those that carry a token. `None`: nothing is left.
pub fn without_token(value: &HeaderValue) -> Option<HeaderValue> {
    let Ok(text) = value.to_str() else { return Some(value.clone()) };
    if !text.contains(SUBPROTOCOL) {
        return Some(value.clone());
    }
    let left: Vec<&str> = text.split(',').map(str::trim).filter(|one| !one.starts_with(SUBPROTOCOL)).collect();
    Some(left).filter(|left| !left.is_empty()).and_then(|left| HeaderValue::from_str(&left.join(", ")).ok())
}

fn text(token: Vec<u8>) -> Result<String, &'static str> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err("the token is too long");
    }
    String::from_utf8(token).ok().filter(|token| !token.is_empty()).ok_or("the token is no text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_shows() {
        let check = |fields: &[(&'static str, &[u8])], expected: Result<Option<&str>, &'static str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in fields {
                headers.append(*name, HeaderValue::from_bytes(value).expect("a value"));
            }
            assert_eq!(token(&headers), expected.map(|token| token.map(str::to_owned)), "{fields:?}");
        };
        let authorization = |value: &'static [u8], expected| check(&[("authorization", value)], expected);
        check(&[], Ok(None));
        authorization(b"Bearer a.b", Ok(Some("a.b")));
        authorization(b"  bEARER  a.b", Ok(None));
        authorization(b"bearer a.b more", Ok(Some("a.b")));
        authorization(b"Bearer", Ok(None));
        authorization(b"Bearer ", Ok(None));
        authorization(b"Basic YTpi", Ok(None));
        authorization(b"Bearer \xff", Err("the token is no text"));
        let upgrade = |protocols: &'static [u8], expected| {
            check(&[("upgrade", b"WebSocket"), ("sec-websocket-protocol", protocols)], expected);
            check(&[("sec-websocket-protocol", protocols)], Ok(None));
        };
        upgrade(b"base64url.bearer.authorization.k8s.io.YS5i, v5.channel.k8s.io", Ok(Some("a.b")));
        upgrade(b"v5.channel.k8s.io", Ok(None));
        upgrade(b"base64url.bearer.authorization.k8s.io.YS5i", Err("no subprotocol stands beside the token"));
        upgrade(b"base64url.bearer.authorization.k8s.io.YS5i=, x", Err("the token in the subprotocol is not base64"));
        upgrade(b"base64url.bearer.authorization.k8s.io., x", Err("the token is no text"));
        upgrade(
            b"base64url.bearer.authorization.k8s.io.YQ, base64url.bearer.authorization.k8s.io.Yg",
            Err("several subprotocols carry a token"),
        );
        check(
            &[
                ("authorization", b"Bearer first"),
                ("upgrade", b"websocket"),
                ("sec-websocket-protocol", b"base64url.bearer.authorization.k8s.io.YS5i, x"),
            ],
            Ok(Some("first")),
        );
    }

    #[test]
    fn no_token_goes_on() {
        for (value, expected) in [
            ("v5.channel.k8s.io", Some("v5.channel.k8s.io")),
            ("base64url.bearer.authorization.k8s.io.YQ,v5.channel.k8s.io, v4", Some("v5.channel.k8s.io, v4")),
            ("base64url.bearer.authorization.k8s.io.YQ", None),
        ] {
            let left = without_token(&HeaderValue::from_static(value));
            assert_eq!(left, expected.map(HeaderValue::from_static), "{value}");
        }
    }
}
