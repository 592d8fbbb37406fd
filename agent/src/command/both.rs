//! Asks both programs of this host, whichever is there.

use std::path::Path;

use coracle_http::client::{Client, Target};
use coracle_http::{Method, StatusCode};
use serde_json::Value;

use super::{Unable, told, top, whole};
use crate::config::Config;
use crate::inside::deed::refusal;

/// What both programs of this host say of themselves.
pub async fn status(config: &Config) -> whole::Seen {
    let said = async |path: &str| match told(config, path).await {
        Ok(page) => Ok(page),
        Err(Unable::Fails(why) | Unable::Unreachable(why)) => Err(why),
    };
    let agent = match (said("/node").await, said("/pods").await) {
        (Ok(node), Ok(pods)) => Ok(whole::OfAgent { node, pods, problems: said("/problems").await }),
        (Err(why), _) | (_, Err(why)) => Err(why),
    };
    let master = match of_master(config, "/api/v1/nodes").await {
        Ok(nodes) => Ok(whole::OfMaster {
            nodes,
            pods: of_master(config, "/api/v1/pods").await.map_err(|why| why.text),
            problems: match of_master(config, "/coracle/problems").await {
                Ok(problems) => Ok(Some(problems)),
                Err(Silence { absent: true, .. }) => Ok(None),
                Err(why) => Err(why.text),
            },
        }),
        Err(why) => Err(why.text),
    };
    let expected =
        |unit: &str| Path::new(&format!("/etc/systemd/system/multi-user.target.wants/{unit}.service")).exists();
    let sockets = config.sockets();
    whole::Seen {
        node_name: config.node_name.clone(),
        agent,
        master,
        agent_expected: expected("coracle-agent") || sockets.agent.exists(),
        master_expected: expected("coracle-master") || sockets.master.exists(),
    }
}

/// By the agent, and where there is none by the master.
pub async fn used(config: &Config) -> Result<top::Figures, String> {
    let why = match told(config, "/usage").await {
        Ok(usage) => match (told(config, "/node").await, told(config, "/pods").await) {
            (Ok(node), Ok(pods)) => return Ok(top::of_agent(&usage, &node, &pods)),
            (Err(why), _) | (_, Err(why)) => why,
        },
        Err(why) => why,
    };
    let (Unable::Fails(why) | Unable::Unreachable(why)) = why;
    let nodes = of_master(config, "/apis/metrics.k8s.io/v1beta1/nodes").await;
    let pods = of_master(config, "/apis/metrics.k8s.io/v1beta1/pods").await;
    let (Ok(nodes), Ok(pods)) = (nodes, pods) else { return Err(why) };
    Ok(top::of_master(&nodes, &pods))
}

/// Why the master says nothing.
struct Silence {
    /// It answers, and has no such path.
    absent: bool,
    text: String,
}

/// Asks the master of this host.
async fn of_master(config: &Config, path: &str) -> Result<Value, Silence> {
    let socket = config.sockets().master;
    let silent = |text: String| Silence { absent: false, text };
    let client = Client::new(Target::Unix(socket.clone()), concat!("coracle/", env!("CARGO_PKG_VERSION")));
    let reply = client.call(Method::GET, path, None).await;
    let reply = reply.map_err(|error| silent(format!("{error}: no master runs, or you are not root")))?;
    let text = String::from_utf8_lossy(&reply.body).trim().to_owned();
    match reply.status {
        StatusCode::OK => serde_json::from_str(&text).map_err(|error| silent(format!("{}: {error}", socket.display()))),
        status => Err(Silence {
            absent: status == StatusCode::NOT_FOUND,
            text: format!("the master answers {path} with {status}: {}", refusal(text.as_bytes())),
        }),
    }
}
