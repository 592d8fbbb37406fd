//! Volumes of the class `local` that are given up: their directories on this node go, and then they themselves.
//!
//!     the master's volumes (`desired/watched`) -> the volume as the master has it now -> judge PURE -> the directory
//!         -> the finalizer

pub mod judge;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coracle_http::client::{Client, Reply};
use coracle_http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::desired::given_up::is_given_up;
use crate::facts::heard::GivenUp;
use crate::facts::node_said::NodeSaid;
use crate::facts::view::ViewPart;
use crate::runtime::docker::Docker;
use judge::{Reclaim, others, reclaim};

/// Between two tries, while a container still has a directory or the engine does not answer.
const RETRY: Duration = Duration::from_secs(10);
const RETRY_MAX: Duration = Duration::from_secs(300);
const MERGE_PATCH: &str = "application/merge-patch+json";

/// Ends with the channels.
pub async fn run(docker: Arc<Docker>, client: Client, mut volumes: ViewPart<GivenUp>, mut node: ViewPart<NodeSaid>) {
    let (mut retry, mut said) = (RETRY, BTreeMap::new());
    loop {
        let (all, known) = (volumes.now().unwrap_or_default(), node.now());
        said.retain(|name, _| all.contains_key(name));
        let mut left = false;
        for (name, heard) in &*all {
            let Some(node) = known.as_ref().filter(|node| reclaim(heard, &node.labels).is_some()) else { continue };
            let Err(Stays { why, again }) = give_up(&docker, &client, name, heard, node).await else { continue };
            left |= again;
            if said.get(name) != Some(&why) {
                let then = if again { "it is tried again" } else { "see what it is, and let the volume go yourself" };
                log::warn!("volume {name} is to go and cannot yet: {why}; {then}");
                said.insert(name.clone(), why);
            }
        }
        let (alive, next) = tokio::select! {
            changed = volumes.changed() => (changed.is_ok(), RETRY),
            changed = node.changed() => (changed.is_ok(), RETRY),
            () = sleep(retry), if left => (true, (retry * 2).min(RETRY_MAX)),
        };
        if !alive {
            return;
        }
        retry = next;
    }
}

/// Why a volume is not gone, and whether that may change without a change of the volume.
struct Stays {
    why: String,
    again: bool,
}

impl From<String> for Stays {
    fn from(why: String) -> Stays {
        Stays { why, again: true }
    }
}

/// What was heard may be long ago: a container had the directory, or the master was away. By now somebody may keep the
/// data, so the master is asked before anything goes.
async fn give_up(docker: &Docker, client: &Client, name: &str, heard: &Value, node: &NodeSaid) -> Result<(), Stays> {
    let path = format!("/api/v1/persistentvolumes/{name}");
    let reply = client.call(Method::GET, &path, None).await.map_err(|error| error.to_string())?;
    if reply.status == StatusCode::NOT_FOUND {
        return Ok(());
    }
    let volume = said(&reply)?;
    if volume["metadata"]["uid"] != heard["metadata"]["uid"] || !is_given_up(&volume) {
        return Ok(());
    }
    let Some(reclaim) = reclaim(&volume, &node.labels) else { return Ok(()) };
    match reclaim {
        Reclaim::Remove(directory) => {
            docker.remove_directory(&directory).await.map_err(|failure| failure.text().to_owned())?;
            log::info!("volume {name}: its directory {directory} is removed");
        }
        Reclaim::Release => {}
        Reclaim::Refuse(why) => return Err(Stays { why, again: false }),
    }
    let meta = &volume["metadata"];
    // The uid and the revision pin the volume as read: after a concurrent change of the finalizers the patch fails, and
    // the next attempt reads them.
    let patch = json!({
        "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "finalizers": others(&volume)},
    });
    match client.patch(&path, MERGE_PATCH, patch.to_string().into()).await {
        Ok(reply) if reply.status.is_success() || reply.status == StatusCode::NOT_FOUND => Ok(()),
        Ok(reply) => Err(format!("the master says {}", reply.status).into()),
        Err(error) => Err(error.to_string().into()),
    }
}

fn said(reply: &Reply) -> Result<Value, String> {
    if !reply.status.is_success() {
        return Err(format!("the master says {}", reply.status));
    }
    serde_json::from_slice(&reply.body).map_err(|error| format!("the master's answer cannot be read: {error}"))
}
