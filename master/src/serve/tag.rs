//! The tag of a page, by which a client that has it already is not sent it again.

use bytes::Bytes;
use coracle_http::{Answer, Body, HeaderMap, HeaderValue, StatusCode, header};

/// Whether the client has what has this tag.
pub fn known(headers: &HeaderMap, tag: &str) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|known| known.trim().trim_start_matches("W/").trim_matches('"') == tag)
}

pub fn unchanged() -> Answer {
    Answer { status: StatusCode::NOT_MODIFIED, headers: HeaderMap::new(), body: Body::Whole(Bytes::new()) }
}

/// The headers with which a client asks again only for a newer version.
pub fn mark(answer: &mut Answer, tag: &str) {
    answer.headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    answer.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        answer.headers.insert(header::ETAG, tag);
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
