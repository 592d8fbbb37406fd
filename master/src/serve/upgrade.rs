//! Requests that want to speak something else than HTTP on their connection, and their headers on the way to an agent.

use crate::authenticate::without_token;
use coracle_http::{HeaderMap, HeaderName, Request, header};

/// The headers by which both ends agree on a protocol, beside `Connection` and `Upgrade`.
const PROTOCOL: [HeaderName; 4] = [
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_PROTOCOL,
    header::SEC_WEBSOCKET_VERSION,
    HeaderName::from_static("x-stream-protocol-version"),
];

/// Whether a client wants to speak something else than HTTP on this connection.
pub fn upgrades(headers: &HeaderMap) -> bool {
    let connection = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    headers.contains_key(header::UPGRADE)
        && connection.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("upgrade"))
}

/// Of a request that goes on to an agent, and may take over its connection. Its Host and Origin are this server's, not
/// the agent's.
pub fn headers(request: &Request) -> HeaderMap {
    let goes = |name: &HeaderName| PROTOCOL.contains(name) || [header::CONNECTION, header::UPGRADE].contains(name);
    let mut headers = HeaderMap::new();
    for (name, value) in request.headers.iter().filter(|(name, _)| goes(name)) {
        // A token is for this server alone.
        let value = if *name == header::SEC_WEBSOCKET_PROTOCOL { without_token(value) } else { Some(value.clone()) };
        value.map(|value| headers.append(name.clone(), value));
    }
    headers
}
