//! `/exec/{namespace}/{pod}/{container}`, `/attach/...` and `/portForward/{namespace}/{pod}`, in the kubelet's words.
//!
//! What can be said before the connection changes hands is an answer of HTTP; what goes wrong later is told on the
//! connection.

use std::sync::Arc;

use coracle_http::channel::Receiver;
use coracle_http::{Answer, HeaderMap, Request, StatusCode, Upgrade};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use super::place::{parameters, pods_called, running, sandbox, segments};
use super::view::View;
use crate::runtime::docker::Docker;
use crate::runtime::docker::reach::NetworkNamespace;
use crate::streams::asked::{self, Fields, Refusal, Way, carrier, streams, way};
use crate::streams::forward::{Reach, over_channels, over_spdy};
use crate::streams::{converse, log};

/// What a client would speak with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// A command of its own.
    Exec,
    /// The container's own process.
    Attach,
}

pub fn answer(view: &View, with: With, path: &str, request: &Request) -> Answer {
    match conversation(view, with, path, request) {
        Ok(answer) | Err(answer) => answer,
    }
}

fn conversation(view: &View, with: With, path: &str, request: &Request) -> Result<Answer, Answer> {
    let parts = segments(path).unwrap_or_default();
    let [namespace, pod, container] = parts.as_slice() else { return Err(nowhere()) };
    let parameters = parameters(request.target.query().unwrap_or_default()).map_err(bad)?;
    let streams = streams(&parameters).map_err(bad)?;
    let id = {
        let shown = view.shown.borrow();
        let wanted = pods_called(&shown, &view.node_name, namespace, pod).next().ok_or_else(no_pod)?;
        let seen = running(&shown, &wanted.name.uid, container);
        let lost = || Answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("container not found ({container:?})"));
        seen.ok_or_else(lost)?.id.clone()
    };
    let (carrier, fields) = carrier(&request.method, &request.headers).map_err(refused)?;
    let command: Vec<String> =
        parameters.into_iter().filter(|(name, _)| name == "command").map(|(_, value)| value).collect();
    let docker = view.docker.clone();
    let upgrade = Upgrade::new(move |upgraded| {
        converse(upgraded, carrier, streams, async move |heard, to_client| match with {
            With::Exec => docker.run_command(&id, &command, streams, heard, &to_client).await,
            With::Attach => docker.attach(&id, streams, heard, &to_client).await,
        })
    });
    Ok(goes_on(fields, upgrade))
}

/// `/portForward/{namespace}/{pod}`
pub fn ports(view: &View, path: &str, request: &Request) -> Result<Answer, Answer> {
    let parts = segments(path).unwrap_or_default();
    let [namespace, pod] = parts.as_slice() else { return Err(nowhere()) };
    let parameters = parameters(request.target.query().unwrap_or_default()).map_err(bad)?;
    let id = {
        let shown = view.shown.borrow();
        let wanted = pods_called(&shown, &view.node_name, namespace, pod).next().ok_or_else(no_pod)?;
        let lost = || {
            Answer::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("sandbox of pod {pod:?} not found: it does not run"),
            )
        };
        sandbox(&shown, &wanted.name.uid).ok_or_else(lost)?.id.clone()
    };
    let (way, fields) = way(&request.method, &request.headers, &parameters).map_err(refused)?;
    let inside = Inside { docker: view.docker.clone(), network: Arc::default(), id };
    let upgrade = Upgrade::new(async move |upgraded| match way {
        Way::Spdy => over_spdy(upgraded, false, inside).await,
        Way::Tunnel => over_spdy(upgraded, true, inside).await,
        Way::Channels { base64, ports } => over_channels(upgraded, base64, ports, inside).await,
    });
    Ok(goes_on(fields, upgrade))
}

/// A pod whose ports are asked for, and its network from the first connection on.
#[derive(Clone)]
struct Inside {
    docker: Arc<Docker>,
    network: Arc<OnceCell<NetworkNamespace>>,
    /// Of its sandbox.
    id: String,
}

impl Reach for Inside {
    type Wire = TcpStream;

    async fn connect(&self, port: u16) -> Result<TcpStream, String> {
        let network = self
            .network
            .get_or_try_init(|| self.docker.network_of(&self.id))
            .await
            .map_err(|failure| failure.to_string())?;
        network.connect(port).await
    }

    fn name(&self) -> &str {
        &self.id
    }
}

/// A log that goes on as messages of a WebSocket. None: it is not asked for so.
pub fn log(request: &Request, lines: impl FnOnce() -> Receiver) -> Option<Answer> {
    Some(match asked::log(&request.method, &request.headers)? {
        Ok((base64, fields)) => {
            let lines = lines();
            goes_on(fields, Upgrade::new(move |upgraded| log::carry(upgraded, base64, lines)))
        }
        Err(refusal) => refused(refusal),
    })
}

fn nowhere() -> Answer {
    Answer::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn no_pod() -> Answer {
    Answer::text(StatusCode::NOT_FOUND, "pod does not exist")
}

fn bad(why: String) -> Answer {
    Answer::text(StatusCode::BAD_REQUEST, why)
}

fn refused(refusal: Refusal) -> Answer {
    let mut answer = Answer::text(refusal.code, refusal.why);
    for (name, value) in refusal.fields {
        answer.headers.append(name, value);
    }
    answer
}

/// The head of the 101.
fn goes_on(fields: Fields, upgrade: Upgrade) -> Answer {
    let mut fields = fields.into_iter();
    let protocol = fields.next().map(|(_, protocol)| protocol);
    let mut answer = Answer::upgrade(protocol.expect("the first field names it"), upgrade);
    answer.headers.extend(fields.collect::<HeaderMap>());
    answer
}
