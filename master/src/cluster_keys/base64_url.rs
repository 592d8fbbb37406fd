//! Base64 as tokens have it: for paths, without padding. PURE.

use coracle_schema::base64;

pub fn url_safe(bytes: &[u8]) -> String {
    base64::encode(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

pub fn from_url_safe(text: &str) -> Option<Vec<u8>> {
    if text.contains(['+', '/', '=', '\n', '\r']) {
        return None;
    }
    let padding = "=".repeat((4 - text.len() % 4) % 4);
    base64::decode(&(text.replace('-', "+").replace('_', "/") + &padding)).ok()
}
