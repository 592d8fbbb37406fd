//! How an answer looks: an object or a refusal in the form of the call, its warnings, and whether it is compressed.

use crate::call::Call;
use crate::fault::Fault;
use crate::form::Form;
use crate::making;
use crate::render;
use crate::render::gzip;
use crate::store::Stored;
use bytes::Bytes;
use coracle_http::{Answer, Body, HeaderMap, HeaderValue, StatusCode, header};

const NOT_FOUND: &str = "404 page not found\n";

/// One object in the form of the call.
pub fn document(call: &Call, status: StatusCode, stored: &Stored) -> Answer {
    shown(call, status, render::object(call.form, call.shown, stored, making::wall_clock()))
}

/// The answer in the form of the call.
pub fn shown(call: &Call, status: StatusCode, rendered: Bytes) -> Answer {
    shown_as(call, status, Body::Whole(rendered))
}

pub fn shown_as(call: &Call, status: StatusCode, body: Body) -> Answer {
    Answer::new(status, call.form.media.content_type(), body)
}

pub fn failure(form: Form, fault: &Fault) -> Answer {
    let code = StatusCode::from_u16(fault.status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = Answer::new(code, form.media.content_type(), Body::Whole(render::status(form, &fault.status)));
    if let Some(location) = fault.location.as_deref().and_then(|path| HeaderValue::from_str(path).ok()) {
        answer.headers.insert(header::LOCATION, location);
    }
    if let Some(seconds) = fault.status.details.as_ref().and_then(|details| details.retry_after_s) {
        answer.headers.insert(header::RETRY_AFTER, seconds.into());
    }
    warn(&mut answer, &fault.warnings);
    answer
}

/// Text for a Warning header, each in its own: as kubectl prints them.
pub fn warn(answer: &mut Answer, warnings: &[String]) {
    for warning in warnings {
        let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
            answer.headers.append(header::WARNING, value);
        }
    }
}

/// Nothing is at this path.
pub fn nothing() -> Answer {
    Answer::text(StatusCode::NOT_FOUND, NOT_FOUND)
}

/// Streams are not compressed: each event must be readable as it comes. Each answer worth compressing has the header
/// Vary with Accept-Encoding, also for a client that accepts no compression: a cache on the way keeps the answer for
/// other clients.
pub fn compress(asked: &HeaderMap, answer: &mut Answer) {
    let bytes = match &answer.body {
        Body::Whole(whole) => whole.len(),
        Body::Long(long) => long.bytes,
        Body::Stream(_) | Body::Forward(_) | Body::Upgrade(_) => return,
    };
    if !gzip::is_worth(bytes) {
        return;
    }
    answer.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    let accepted = asked.get(header::ACCEPT_ENCODING).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    if !gzip::is_accepted(accepted) {
        return;
    }
    let compressed = match std::mem::replace(&mut answer.body, Body::Whole(Bytes::new())) {
        Body::Whole(whole) => gzip::compressed(bytes, std::iter::once(whole)),
        Body::Long(long) => gzip::compressed(bytes, long.pieces),
        body => return answer.body = body,
    };
    answer.body = Body::Whole(compressed.into());
    answer.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
}
