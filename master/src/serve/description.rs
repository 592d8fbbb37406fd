//! `/openapi/v2`, `/openapi/v3`: the documents are made when they are asked for, and not kept; what is kept is a hash
//! of each.

use super::Serve;
use super::accepted::plain;
use super::described::{Hashes, hash};
use super::reply::nothing;
use super::tag::{known, mark, unchanged};
use crate::fault::Fault;
use crate::render::openapi;
use coracle_http::{Answer, Body, HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, json};
use std::sync::Arc;

/// The document that clients before 1.29 ask for, under its older and its newer name.
const MESSAGES: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
];
/// Bytes to begin with: the largest documents have so many, and growing would copy them.
const DOCUMENT_BYTES: usize = 1 << 20;

/// `/openapi/v3`: the URL of each document, with a hash by which clients recognize a cached document.
pub fn index(serve: &Serve, headers: &HeaderMap) -> Result<Answer, Fault> {
    plain(headers)?;
    let mut paths = Map::new();
    for ((group, version), hash) in described(serve).groups() {
        let path = place(group, version);
        let url = format!("/openapi/v3/{path}?hash={hash}");
        paths.insert(path, json!({"serverRelativeURL": url}));
    }
    Ok(Answer::json(StatusCode::OK, json!({ "paths": paths }).to_string()))
}

pub fn of_group(
    serve: &Serve,
    headers: &HeaderMap,
    group: &str,
    version: &str,
    hash: Option<&str>,
) -> Result<Answer, Fault> {
    plain(headers)?;
    let hashes = described(serve);
    let Some((_, tag)) = hashes.groups().iter().find(|((known, of), _)| known == group && of == version) else {
        return Ok(nothing());
    };
    if hash.is_some_and(|hash| hash != tag) {
        let mut answer = Answer { status: StatusCode::MOVED_PERMANENTLY, ..unchanged() };
        if let Ok(place) = HeaderValue::from_str(&format!("/openapi/v3/{}?hash={tag}", place(group, version))) {
            answer.headers.insert(header::LOCATION, place);
        }
        return Ok(answer);
    }
    let mut answer =
        made(headers, tag, "application/json", |into| openapi::document(&hashes.kinds, group, version, into));
    if hash.is_some() {
        // At this address there will never be anything else.
        answer.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    Ok(answer)
}

/// `/openapi/v2`.
pub fn of_all(serve: &Serve, headers: &HeaderMap) -> Result<Answer, Fault> {
    let given = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let message = given
        .flat_map(|value| value.split(','))
        .any(|wanted| MESSAGES.contains(&wanted.split(';').next().unwrap_or_default().trim()));
    let hashes = described(serve);
    let kinds = &hashes.kinds;
    if message {
        let tag = hashes.message.get_or_init(|| hash(|into| openapi::swagger_message(kinds, into)));
        return Ok(made(headers, tag, MESSAGES[1], |into| openapi::swagger_message(kinds, into)));
    }
    plain(headers)?;
    let tag = hashes.swagger.get_or_init(|| hash(|into| openapi::swagger(kinds, into)));
    Ok(made(headers, tag, "application/json", |into| openapi::swagger(kinds, into)))
}

fn place(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn described(serve: &Serve) -> Arc<Hashes> {
    serve.described.of(serve.registry.kinds())
}

fn made(headers: &HeaderMap, tag: &str, content_type: &'static str, write: impl Fn(openapi::Output)) -> Answer {
    let mut answer = if known(headers, tag) {
        unchanged()
    } else {
        let mut document = Vec::with_capacity(DOCUMENT_BYTES);
        write(&mut |bytes| document.extend_from_slice(bytes));
        Answer::new(StatusCode::OK, content_type, Body::Whole(document.into()))
    };
    mark(&mut answer, tag);
    answer
}
