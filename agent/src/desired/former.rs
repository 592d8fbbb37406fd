//! The names that this host's node had before: told until the API has those nodes no more, or until another host has
//! taken the name.

use coracle_http::client::Client;
use serde_json::Value;
use tokio::sync::watch;

use super::follow::{News, Voice, follow};

/// Ends when each of these nodes has gone.
pub(super) async fn forget(
    client: &Client,
    voice: &Voice,
    (names, machine_id): (Vec<String>, &str),
    gone: impl AsyncFn(&str),
) {
    for name in names {
        let (ended, mut end) = watch::channel(false);
        let selector = format!("fieldSelector=metadata.name%3D{name}");
        let tell = async |news: News| {
            let here = match &news {
                News::Listed(list) => list.first(),
                News::Event { gone, object } => Some(object).filter(|_| !gone),
            };
            if here.is_none_or(|node| is_of_another(node, machine_id)) {
                ended.send_replace(true);
            }
            true
        };
        tokio::select! {
            () = follow(client, voice, "/api/v1/nodes", &selector, tell) => {}
            _ = end.changed() => gone(&name).await,
        }
    }
}

/// By the machine id: a different host uses the node name now.
fn is_of_another(node: &Value, machine_id: &str) -> bool {
    let of = node["status"]["nodeInfo"]["machineID"].as_str().unwrap_or_default();
    !of.is_empty() && !machine_id.is_empty() && of != machine_id
}
