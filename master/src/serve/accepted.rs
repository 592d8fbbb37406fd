//! What the Accept header of a request for a page asks for.

use crate::fault::Fault;
use coracle_api::status::Status;
use coracle_http::{HeaderMap, header};

pub const OFFERED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The forms of the document of all resources: the version, and the media type by which alone clients recognize the
/// version.
pub const AGGREGATED: [(&str, &str); 2] = [
    ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
    ("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
];

/// One media range of an Accept header.
pub enum Clause {
    Plain,
    /// By its place in `AGGREGATED`.
    Aggregated(usize),
    Other,
}

/// Its media ranges, in their order.
pub fn accepted(headers: &HeaderMap) -> impl Iterator<Item = Clause> {
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
