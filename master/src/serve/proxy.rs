//! The way through the master to a pod, a service or a node: the carrier asks there and passes everything on.
//!
//! Only GETs of what agents answer reach an agent, and only at its own socket. A pod is asked where the agent of its
//! node runs it (`through::place`), whatever objects say, and a node at no other port than its agent's.

use super::server::key_of;
use super::upgrade::upgrades;
use super::{Serve, log};
use crate::fault::Fault;
use crate::store::Stored;
use crate::through::{self, Named, ProxyError, ProxyKind, ProxyRequest};
use coracle_api::kinds::ProxyTarget;
use coracle_api::meta::{Key, Resource};
use coracle_api::status::Status;
use coracle_http::{
    Answer, Body, Caller, FORWARD_FOLLOW_IDLE, FORWARD_PROXY_HEAD, Forward, HeaderMap, HeaderName, HeaderValue, Method,
    Passes, PathAndQuery, Request, Server, StatusCode, end_to_end, header,
};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

/// The port that agents of 2014 listened on, and that clients name when they mean the agent.
const AGENT_PORT: &str = "10250";
/// The paths that agents answer.
const AGENT_PATHS: [&str; 8] = [
    "/healthz",
    "/pods",
    "/stats/summary",
    "/metrics",
    "/metrics/resource",
    "/metrics/cadvisor",
    "/metrics/probes",
    AGENT_LOGS,
];
const AGENT_LOGS: &str = "/containerLogs/";
/// Headers that identify the client to this server only, not to a server behind the proxy; headers with one of the
/// `ASKER_PREFIXES` do the same.
const ASKER: [HeaderName; 3] = [header::AUTHORIZATION, header::COOKIE, header::SEC_WEBSOCKET_PROTOCOL];
const ASKER_PREFIXES: [&str; 2] = ["impersonate-", "x-remote-"];
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

pub fn answer(serve: &Serve, through: &ProxyRequest, request: &Request) -> Result<Answer, Fault> {
    if upgrades(&request.headers) {
        return Err(refused(
            StatusCode::NOT_IMPLEMENTED,
            "a connection cannot be upgraded on the way through this server",
        ));
    }
    let Named { name, secure, .. } = &through.named;
    let key = key_of(through.kind, &through.namespace, name);
    let stored = serve.registry.store.get(&key).map_err(|damaged| Fault::damaged(&key, &damaged.why))?;
    let stored = stored.ok_or_else(|| Fault::from(Status::not_found(&key.resource, name)))?;
    let to_agent = through.way == ProxyTarget::Node && ["", AGENT_PORT].contains(&through.named.port.as_str());
    if to_agent && let ProxyKind::Proxy { rest, .. } = &through.means {
        return ask_agent(serve, name, rest, request);
    }
    if to_agent {
        return Err(refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "agents listen to their own host alone: ask for it with proxy",
        ));
    }
    let address = address(serve, through, &stored).map_err(|nowhere| lost(through, nowhere))?;
    match &through.means {
        ProxyKind::Redirect => {
            redirect(&format!("{}://{address}", if *secure { "https" } else { "http" }), StatusCode::TEMPORARY_REDIRECT)
        }
        // A page's own links would lead beside it.
        ProxyKind::Proxy { rest, .. } if rest.is_empty() && [Method::GET, Method::HEAD].contains(&request.method) => {
            let query = request.target.query().map(|query| format!("?{query}")).unwrap_or_default();
            redirect(&format!("{}/{query}", request.target.path()), StatusCode::MOVED_PERMANENTLY)
        }
        ProxyKind::Proxy { prefix, rest } => {
            let server = if *secure { Server::Tls(address) } else { address.into() };
            Ok(Answer::forward(forward(server, prefix, rest, request)?))
        }
    }
}

/// Where the object is to be reached.
fn address(serve: &Serve, through: &ProxyRequest, stored: &Stored) -> Result<SocketAddr, ProxyError> {
    let unread = |_| ProxyError::Unplaced("its document cannot be read");
    match through.way {
        ProxyTarget::Pod => through::of_pod(&log::view(stored).map_err(unread)?, &through.named, serve),
        ProxyTarget::Node => {
            let why = format!("address not allowed: of a node nothing but its agent is asked, at port {AGENT_PORT}");
            Err(ProxyError::Forbidden(why))
        }
        ProxyTarget::Service => {
            let key = Key { resource: Resource::core("endpoints"), ..(*stored.key).clone() };
            let endpoints =
                serve.registry.store.get(&key).map_err(|_| ProxyError::Unplaced("its endpoints cannot be read"))?;
            let endpoints = endpoints.map(|endpoints| log::view(&endpoints)).transpose().map_err(unread)?;
            let turn = serve.turn.fetch_add(1, Ordering::Relaxed);
            let pod = |name: &str| {
                let key = Key { resource: Resource::core("pods"), name: name.to_owned(), ..(*stored.key).clone() };
                log::view(&serve.registry.store.get(&key).ok()??).ok()
            };
            let service = log::view(stored).map_err(unread)?;
            through::of_service(&service, endpoints.as_ref(), (&through.named, turn), &pod, serve)
        }
    }
}

fn lost(through: &ProxyRequest, nowhere: ProxyError) -> Fault {
    let (name, what) = (&through.named.name, &through.kind.singular);
    match nowhere {
        ProxyError::Forbidden(why) => Fault::bad_request(why),
        ProxyError::NoPort(port) => {
            Status::unavailable(format!("no {what} port {port} found for {what} {name:?}")).into()
        }
        ProxyError::NoEndpoints | ProxyError::NoneReady => {
            Status::unavailable(format!("no endpoints available for {what} {name:?}")).into()
        }
        ProxyError::Unplaced(why) => Status::unavailable(format!("{what} {name:?} cannot be reached: {why}")).into(),
    }
}

/// Only the client's Accept header goes to the agent: the client's Host and Origin name this server, not the agent.
fn ask_agent(serve: &Serve, node: &str, rest: &str, request: &Request) -> Result<Answer, Fault> {
    if ![Method::GET, Method::HEAD].contains(&request.method) {
        return Err(Status::method_not_allowed().into());
    }
    let known =
        |path: &&str| if path.ends_with('/') { rest.starts_with(*path) } else { rest.trim_end_matches('/') == *path };
    if !AGENT_PATHS.iter().any(known) {
        let words = "an agent answers nothing but /healthz, /pods, /stats/summary, /metrics and its kin, and \
                     /containerLogs/ through this server";
        return Err(Status::forbidden(&Resource::core("nodes"), node, words).into());
    }
    let agent = log::agent(serve, node)?;
    let headers =
        request.headers.get(header::ACCEPT).map(|accept| (header::ACCEPT, accept.clone())).into_iter().collect();
    let forward = Forward::get(agent, target(rest, request)?, FORWARD_FOLLOW_IDLE);
    let passes = if rest.starts_with(AGENT_LOGS) { Passes::Log } else { Passes::ContentType };
    Ok(Answer::forward(Forward { method: request.method.clone(), headers, passes, ..forward }))
}

fn forward(address: Server, prefix: &str, rest: &str, request: &Request) -> Result<Forward, Fault> {
    Ok(Forward {
        address,
        method: request.method.clone(),
        target: target(rest, request)?,
        headers: headers(request),
        body: request.body.clone(),
        head: FORWARD_PROXY_HEAD,
        idle: FORWARD_FOLLOW_IDLE,
        passes: Passes::Everything { prefix: prefix.to_owned() },
        leaves_room: false,
    })
}

fn target(rest: &str, request: &Request) -> Result<PathAndQuery, Fault> {
    let rest = if rest.is_empty() { "/" } else { rest };
    let text = match request.target.query() {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    };
    PathAndQuery::try_from(text).map_err(|error| Fault::bad_request(format!("what to ask for is no path: {error}")))
}

/// Headers that identify the client to this server are removed; headers that the target server needs for correct links
/// are added, even if a client names such a header in `Connection`.
fn headers(request: &Request) -> HeaderMap {
    let mut headers = end_to_end(&request.headers);
    let asker: Vec<HeaderName> = headers.keys().filter(|name| tells_the_asker(name)).cloned().collect();
    for name in asker {
        headers.remove(name);
    }
    let mut say = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    let text = |name: &HeaderName| request.headers.get(name).and_then(|value| value.to_str().ok());
    say(HeaderName::from_static("x-forwarded-uri"), request.target.path());
    say(HeaderName::from_static("x-forwarded-proto"), "http");
    if let Some(host) = text(&header::HOST) {
        say(HeaderName::from_static("x-forwarded-host"), host);
    }
    if let Caller::Network { address } = &request.caller {
        let before = text(&FORWARDED_FOR).map(|before| format!("{before}, ")).unwrap_or_default();
        say(FORWARDED_FOR, &format!("{before}{}", address.ip()));
    }
    headers
}

/// Programs behind CGI take an underscore for a hyphen.
fn tells_the_asker(name: &HeaderName) -> bool {
    let plain = name.as_str().replace('_', "-");
    ASKER.contains(name) || ASKER_PREFIXES.iter().any(|prefix| plain.starts_with(prefix))
}

fn redirect(to: &str, status: StatusCode) -> Result<Answer, Fault> {
    let location = HeaderValue::from_str(to)
        .map_err(|error| Fault::bad_request(format!("{to:?} is no address to send to: {error}")))?;
    let headers = HeaderMap::from_iter([(header::LOCATION, location)]);
    Ok(Answer { status, headers, body: Body::Whole(Default::default()) })
}

fn refused(code: StatusCode, message: &str) -> Fault {
    let mut status = Status::unavailable(message);
    status.code = code.as_u16();
    if code == StatusCode::NOT_IMPLEMENTED {
        status.reason = None;
    }
    status.into()
}
