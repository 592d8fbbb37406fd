//! Pages about the server: which document, in which form, and whether the client has it already.

use super::{Serve, description, health};
use crate::fault::Fault;
use crate::page::AboutPage;
use crate::render::discovery;
use bytes::Bytes;
use coracle_api::kinds::Kinds;
use coracle_api::old;
use coracle_api::status::Status;
use coracle_http::{Answer, Body, HeaderMap, HeaderValue, Request, StatusCode, header};
use serde_json::Value;
use sha2::{Digest, Sha256};

const NOT_FOUND: &str = "404 page not found\n";
const OFFERED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// One form of the document of all resources: the version of it, and the type by which alone clients know it.
const AGGREGATED: [(&str, &str); 2] = [
    ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    ("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
];

pub fn answer(serve: &Serve, page: &AboutPage, request: &Request) -> Result<Answer, Fault> {
    let kinds = &serve.registry.kinds();
    let headers = &request.headers;
    let document = match page {
        AboutPage::Health(asked) => return Ok(health::answer(&*serve.registry.store, asked).unwrap_or_else(nothing)),
        AboutPage::Metrics => return Ok(serve.metrics.answer(&*serve.registry.store, kinds)),
        AboutPage::Nothing => return Ok(nothing()),
        AboutPage::Versions => return listed(kinds, true, headers),
        AboutPage::Groups => return listed(kinds, false, headers),
        AboutPage::Swagger => return description::of_all(serve, headers),
        AboutPage::OpenApiIndex => return description::index(serve, headers),
        AboutPage::OpenApi { group, version, hash } => return description::of_group(serve, headers, group, version, hash.as_deref()),
        AboutPage::Root => discovery::root(kinds, &health::paths()),
        AboutPage::Version => discovery::version(),
        AboutPage::Group { group } => discovery::one_group(kinds, group),
        AboutPage::Resources { group, version } => discovery::resources(kinds, group, version),
        AboutPage::Operations(version) => discovery::operations(*version),
        // No write here is answered before it is done.
        AboutPage::Operation(version) => old::encode_status(*version, &Status::success(200).to_v1()),
        AboutPage::OldResources(version) => discovery::old_resources(*version),
    };
    // Who asks what this is may hold anything for an answer.
    if *page != AboutPage::Version {
        plain(headers)?;
    }
    Ok(Answer::json(StatusCode::OK, document.to_string()))
}

pub fn nothing() -> Answer {
    Answer::text(StatusCode::NOT_FOUND, NOT_FOUND)
}

/// `/api` and `/apis`, in the first form of the Accept header that can be had.
fn listed(kinds: &Kinds, core: bool, headers: &HeaderMap) -> Result<Answer, Fault> {
    let aggregated = accepted(headers).find_map(|clause| match clause {
        Clause::Plain => Some(None),
        Clause::Aggregated(at) => Some(Some(AGGREGATED[at])),
        Clause::Other => None,
    });
    match aggregated {
        None => Err(Status::not_acceptable(OFFERED).into()),
        Some(Some((version, content_type))) => Ok(tagged(discovery::aggregated(kinds, core, version), content_type, headers)),
        Some(None) => {
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            let document = if core { discovery::versions(host) } else { discovery::group_list(kinds) };
            let mut answer = Answer::json(StatusCode::OK, document.to_string());
            answer.headers.insert(header::VARY, HeaderValue::from_static("Accept"));
            Ok(answer)
        }
    }
}

/// Whoever has it by its tag is not sent it again.
fn tagged(document: Value, content_type: &'static str, headers: &HeaderMap) -> Answer {
    let text = document.to_string();
    let tag = hex(&Sha256::digest(&text));
    let mut answer = if known(headers, &tag) { unchanged() } else { Answer::new(StatusCode::OK, content_type, Body::Whole(text.into())) };
    mark(&mut answer, &tag);
    answer
}

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

/// One media range of an Accept header.
enum Clause {
    Plain,
    /// By its place in `AGGREGATED`.
    Aggregated(usize),
    Other,
}

fn accepted(headers: &HeaderMap) -> impl Iterator<Item = Clause> {
    let given = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let all = given.collect::<Vec<_>>().join(",");
    let all = if all.trim().is_empty() { "*/*".to_owned() } else { all };
    all.split(',').map(clause).collect::<Vec<_>>().into_iter()
}

fn clause(text: &str) -> Clause {
    let mut parts = text.split(';').map(str::trim);
    let json = matches!(parts.next(), Some("application/json" | "application/*" | "*/*"));
    let parts: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let value = |name: &str| parts.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| *value);
    match (json, value("as"), value("g")) {
        (true, "", _) => Clause::Plain,
        (true, "APIGroupDiscoveryList", "apidiscovery.k8s.io") => {
            AGGREGATED.iter().position(|(version, _)| *version == value("v")).map_or(Clause::Other, Clause::Aggregated)
        }
        _ => Clause::Other,
    }
}

/// Pages of one form are JSON.
pub fn plain(headers: &HeaderMap) -> Result<(), Fault> {
    if accepted(headers).any(|clause| matches!(clause, Clause::Plain)) {
        return Ok(());
    }
    Err(Status::not_acceptable(OFFERED).into())
}
