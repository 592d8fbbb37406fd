//! Logs of pods: the node has them, the carrier fetches them.

use super::Serve;
use super::upgrade::{headers, upgrades};
use crate::call::Call;
use crate::fault::Fault;
use crate::store::Stored;
use coracle_api::meta::{Key, Resource};
use coracle_api::pod::Pod;
use coracle_api::query::LogOptions;
use coracle_api::status::Status;
use coracle_http::{
    Answer, Body, FORWARD_FOLLOW_IDLE, FORWARD_IDLE, Forward, HeaderMap, Passes, PathAndQuery, Request, Server,
    StatusCode,
};
use serde::de::DeserializeOwned;

pub fn log(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let options = LogOptions::read(&call.options.of_node, &call.name)?;
    let pod: Pod = view(&serve.standing(call)?)?;
    let container = container(call, &options.container, &pod)?;
    if pod.spec.node_name.is_empty() {
        return Ok(Answer {
            status: StatusCode::NO_CONTENT,
            headers: HeaderMap::new(),
            body: Body::Whole(Default::default()),
        });
    }
    let agent = agent(serve, &pod.spec.node_name)?;
    let place = format!("{}/{}/{}", encoded(&call.namespace), encoded(&call.name), encoded(&container));
    let target = PathAndQuery::try_from(format!("/containerLogs/{place}?{}", options.query()));
    let target = target.map_err(|error| Status::internal_error(format!("ask the agent: {error}")))?;
    let forward = Forward::get(agent, target, if options.follow { FORWARD_FOLLOW_IDLE } else { FORWARD_IDLE });
    // Over WebSocket its pieces are messages.
    if upgrades(&request.headers) {
        return Ok(Answer::forward(Forward { headers: headers(request), passes: Passes::Upgrade, ..forward }));
    }
    Ok(Answer::forward(Forward { passes: Passes::Log, ..forward }))
}

/// `asked`: by the client; empty: the only one.
pub fn container(call: &Call, asked: &str, pod: &Pod) -> Result<String, Fault> {
    let spec = &pod.spec;
    let all = spec.init_containers.iter().chain(&spec.containers).chain(&spec.ephemeral_containers);
    let names: Vec<&str> = all.map(|container| container.name.as_str()).collect();
    match spec.containers.as_slice() {
        _ if names.contains(&asked) => Ok(asked.to_owned()),
        _ if !asked.is_empty() => {
            Err(Fault::bad_request(format!("container {asked} is not valid for pod {}", call.name)))
        }
        [one] => Ok(one.name.clone()),
        _ => {
            let message = format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                call.name,
                names.join(" ")
            );
            Err(Fault::bad_request(message))
        }
    }
}

/// The agent of a node, by the node's name.
pub fn agent(serve: &Serve, node: &str) -> Result<Server, Fault> {
    let key = Key { resource: Resource::core("nodes"), namespace: String::new(), name: node.to_owned() };
    let stored = serve.registry.store.get(&key).map_err(|damaged| Fault::damaged(&key, &damaged.why))?;
    let unknown =
        |why: &str| Fault::from(Status::unavailable(format!("the agent of node {node:?} cannot be asked: {why}")));
    stored.ok_or_else(|| unknown("the node is not registered"))?;
    serve.agents.reach(node).ok_or_else(|| unknown("no socket can have that name"))
}

pub fn view<T: DeserializeOwned>(stored: &Stored) -> Result<T, Fault> {
    serde_json::from_slice(&stored.json).map_err(|error| Fault::damaged(&stored.key, &error.to_string()))
}

pub fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { (byte as char).to_string() } else { format!("%{byte:02X}") }).collect()
}
