//! Conversations with what runs in a pod: exec, attach, portforward. The agent of its node holds them, the carrier
//! passes their bytes on.

use super::Serve;
use super::log::{agent, container, encoded, view};
use super::upgrade::{headers, upgrades};
use crate::authorize::Attributes;
use crate::call::{Call, Verb};
use crate::fault::Fault;
use coracle_api::pod::Pod;
use coracle_api::query::truth;
use coracle_api::status::Status;
use coracle_http::{Answer, FORWARD_FOLLOW_IDLE, Forward, Passes, PathAndQuery, Request};

/// Streams as clients name them, and as agents do.
const FLAGS: [(&str, &str); 4] = [("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty")];

pub fn stream(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let entry = Attributes::of_entry(call);
    serve.authorizer.refused(&entry, &request.identity).map_err(|status| *status)?;
    let pod: Pod = view(&serve.standing(call)?)?;
    let said = |name: &str| {
        call.options.of_node.iter().find(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str())
    };
    let place = format!("{}/{}", encoded(&call.namespace), encoded(&call.name));
    let path = match call.verb {
        Verb::PortForward => format!("/portForward/{place}"),
        verb => {
            let with = if verb == Verb::Exec { "exec" } else { "attach" };
            format!("/{with}/{place}/{}", encoded(&container(call, said("container").unwrap_or_default(), &pod)?))
        }
    };
    if pod.spec.node_name.is_empty() {
        return Err(Fault::bad_request(format!("pod {} does not have a host assigned", call.name)));
    }
    let agent = agent(serve, &pod.spec.node_name)?;
    if !upgrades(&request.headers) {
        return Err(Fault::bad_request("Upgrade request required".to_owned()));
    }
    let flags = FLAGS.iter().filter(|(name, _)| said(name).is_some_and(truth)).map(|(_, name)| format!("{name}=1"));
    let repeated = |name: &'static str| call.options.of_node.iter().filter(move |(parameter, _)| parameter == name);
    let words = ["command", "ports"].into_iter().flat_map(repeated);
    let words =
        words.map(|(name, value)| format!("{}={}", if name == "ports" { "port" } else { name }, encoded(value)));
    let query: Vec<String> = flags.chain(words).collect();
    let target = PathAndQuery::try_from(format!("{path}?{}", query.join("&")));
    let target = target.map_err(|error| Status::internal_error(format!("ask the agent: {error}")))?;
    let forward = Forward::get(agent, target, FORWARD_FOLLOW_IDLE);
    Ok(Answer::forward(Forward {
        method: request.method.clone(),
        headers: headers(request),
        passes: Passes::Upgrade,
        leaves_room: call.verb == Verb::PortForward,
        ..forward
    }))
}
