//! `/exec/{namespace}/{pod}/{container}`, `/attach/...` and `/portForward/{namespace}/{pod}`, in the kubelet's words.
//!
//! What can be said before the connection changes hands is an answer of HTTP; what goes wrong later is told on the
//! connection.

use std::sync::Arc;
use std::time::Duration;

use coracle_http::{Answer, HeaderMap, Request, StatusCode, Upgrade, channel};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use super::place::{parameters, pods_called, running, sandbox, segments};
use super::view::View;
use crate::facts::memory::KILLED_CODE;
use crate::facts::shown::Shown;
use crate::runtime::conversation::CommandOutcome;
use crate::runtime::docker::Docker;
use crate::runtime::docker::reach::{NetworkNamespace, lingers};
use crate::streams::asked::{self, Fields, Refusal, Way, carrier, streams, way};
use crate::streams::forward::{Reach, over_channels, over_spdy};
use crate::streams::{converse, log};

/// Time for the last output of a command that ended with its container.
const LAST_WORDS: Duration = Duration::from_secs(2);

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
    let (docker, shown) = (view.docker.clone(), view.shown.clone());
    let upgrade = Upgrade::new(move |upgraded| {
        converse(upgraded, carrier, streams, async move |heard, to_client| {
            let speak = async {
                match with {
                    With::Exec => docker.run_command(&id, &command, streams, heard, &to_client).await,
                    With::Attach => docker.attach(&id, streams, heard, &to_client).await,
                }
            };
            tokio::select! {
                outcome = speak => outcome,
                () = ended(shown, &id) => CommandOutcome::Exit(i64::from(KILLED_CODE)),
            }
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
    let inside = Inside { docker: view.docker.clone(), network: Arc::default(), id: id.clone() };
    let shown = view.shown.clone();
    let upgrade = Upgrade::new(async move |upgraded| {
        let forward = async {
            match way {
                Way::Spdy => over_spdy(upgraded, false, inside).await,
                Way::Tunnel => over_spdy(upgraded, true, inside).await,
                Way::Channels { base64, ports } => over_channels(upgraded, base64, ports, inside).await,
            }
        };
        // Ends with the sandbox: an open handle would keep a removed network namespace in the kernel.
        tokio::select! {
            () = forward => {}
            () = ended(shown, &id) => {}
        }
    })
    .leaving_room();
    Ok(goes_on(fields, upgrade))
}

/// Until a container is heard to have ended, and what it still had to say has come. A command may outlive its container
/// where the processes of a pod are common to all, and an engine would wait for it for ever.
async fn ended(mut shown: Receiver<Arc<Shown>>, id: &str) {
    let runs = |shown: &Shown| shown.world.containers.iter().any(|seen| seen.id == id && seen.runs());
    if shown.wait_for(|shown| shown.looked && !runs(shown)).await.is_err() {
        // An agent that ends is no end of a container.
        return std::future::pending().await;
    }
    sleep(LAST_WORDS).await;
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

    fn ended_well(wire: &TcpStream) {
        lingers(wire);
    }

    fn name(&self) -> &str {
        &self.id
    }
}

/// A log as messages of a WebSocket. None: the request asks for no WebSocket.
pub fn log(request: &Request, lines: impl FnOnce() -> channel::Receiver) -> Option<Answer> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::engine::{SeenContainer, State};
    use crate::facts::world::World;
    use std::collections::BTreeMap;
    use tokio::sync::watch;
    use tokio::time::timeout;

    fn shown(looked: bool, state: Option<State>) -> Arc<Shown> {
        let seen = |state| SeenContainer {
            id: "1".to_owned(),
            name: String::new(),
            labels: BTreeMap::new(),
            image: String::new(),
            image_id: String::new(),
            created_ms: 0,
            state,
            ip: None,
            limits: None,
            message: None,
            beside: Default::default(),
        };
        let world = World { containers: state.map(seen).into_iter().collect(), ..World::default() };
        Arc::new(Shown { world: Arc::new(world), looked, ..Shown::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_conversation_ends_with_its_container() {
        let long = Duration::from_secs(3600);
        let runs = || Some(State::Running { started_ms: 0 });
        let died = State::Exited { exit_code: 0, out_of_memory: false, started_ms: 0, finished_ms: 0 };
        for (end, ends) in [(shown(true, Some(died)), true), (shown(true, None), true), (shown(false, None), false)] {
            let (tell, heard) = watch::channel(shown(true, runs()));
            assert!(timeout(long, ended(heard.clone(), "1")).await.is_err(), "it runs");
            tell.send_replace(end);
            assert_eq!(timeout(long, ended(heard.clone(), "1")).await.is_ok(), ends);
            // An agent that ends tells nothing.
            tell.send_replace(shown(true, runs()));
            drop(tell);
            assert!(timeout(long, ended(heard, "1")).await.is_err());
        }
    }
}
