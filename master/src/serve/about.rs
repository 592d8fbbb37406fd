//! Pages about the server: which document, in which form, and whether the client has it already.

use super::accepted::{AGGREGATED, Clause, OFFERED, accepted, plain};
use super::metrics::Troubles;
use super::reply::nothing;
use super::tag::{hex, known, mark, unchanged};
use super::{Serve, description, health, metrics};
use crate::cluster_keys::{ClusterKeys, issuer};
use crate::fault::Fault;
use crate::page::ServerDocument;
use crate::render::discovery;
use coracle_api::kinds::Kinds;
use coracle_api::old;
use coracle_api::status::Status;
use coracle_http::{Answer, Body, HeaderMap, HeaderValue, Request, StatusCode, header};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub fn answer(serve: &Serve, page: &ServerDocument, request: &Request) -> Result<Answer, Fault> {
    let kinds = &serve.registry.kinds();
    let headers = &request.headers;
    let document = match page {
        ServerDocument::Health(asked) => {
            return Ok(health::answer(&*serve.registry.store, asked).unwrap_or_else(nothing));
        }
        ServerDocument::Metrics => {
            let troubles = Troubles { secure: serve.secure.trouble(), issuers: serve.authenticator.troubles() };
            let (store, audit) = (&*serve.registry.store, serve.audit.figures());
            return Ok(serve.metrics.answer((store, kinds), &troubles, audit));
        }
        ServerDocument::Gauges => {
            let text = serve.desk.as_ref().map(|desk| desk.gauges());
            return Ok(text.map_or_else(nothing, metrics::answer));
        }
        ServerDocument::Nothing => return Ok(nothing()),
        ServerDocument::Issuer => {
            return of_issuer(serve, "application/json", |keys| issuer::configuration(keys.issuer()));
        }
        ServerDocument::KeySet => {
            return of_issuer(serve, issuer::KEY_SET_TYPE, |keys| issuer::key_set(&keys.verifying()));
        }
        ServerDocument::Versions => return listed(kinds, true, headers),
        ServerDocument::Groups => return listed(kinds, false, headers),
        ServerDocument::Swagger => return description::of_all(serve, headers),
        ServerDocument::OpenApiIndex => return description::index(serve, headers),
        ServerDocument::OpenApi { group, version, hash } => {
            return description::of_group(serve, headers, group, version, hash.as_deref());
        }
        ServerDocument::Root => discovery::root(kinds, &health::paths()),
        ServerDocument::Version => discovery::version(),
        ServerDocument::Group { group } => discovery::one_group(kinds, group),
        ServerDocument::Resources { group, version } => discovery::resources(kinds, group, version),
        ServerDocument::Operations(version) => discovery::operations(*version),
        // No write here is answered before it is done.
        ServerDocument::Operation(version) => old::encode_status(*version, &Status::success(200).to_v1()),
        ServerDocument::OldResources(version) => discovery::old_resources(*version),
    };
    // Who asks what this is may hold anything for an answer.
    if *page != ServerDocument::Version {
        plain(headers)?;
    }
    Ok(Answer::json(StatusCode::OK, document.to_string()))
}

/// A document for whoever verifies this cluster's tokens elsewhere: an hour old it is still good.
fn of_issuer(
    serve: &Serve,
    content_type: &'static str,
    document: impl Fn(&ClusterKeys) -> Value,
) -> Result<Answer, Fault> {
    let why = "this cluster's signing key cannot be used, see the master's log";
    let keys = serve.keys.as_deref().ok_or_else(|| Status::internal_error(why))?;
    let mut answer = Answer::new(StatusCode::OK, content_type, Body::Whole(document(keys).to_string().into()));
    answer.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    Ok(answer)
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
        Some(Some((version, content_type))) => {
            Ok(tagged(discovery::aggregated(kinds, core, version), content_type, headers))
        }
        Some(None) => {
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            let document = if core { discovery::versions(host) } else { discovery::group_list(kinds) };
            let mut answer = Answer::json(StatusCode::OK, document.to_string());
            answer.headers.insert(header::VARY, HeaderValue::from_static("Accept"));
            Ok(answer)
        }
    }
}

/// A client that already has the document with this ETag gets no second copy.
fn tagged(document: Value, content_type: &'static str, headers: &HeaderMap) -> Answer {
    let text = document.to_string();
    let tag = hex(&Sha256::digest(&text));
    let mut answer = if known(headers, &tag) {
        unchanged()
    } else {
        Answer::new(StatusCode::OK, content_type, Body::Whole(text.into()))
    };
    mark(&mut answer, &tag);
    answer
}
