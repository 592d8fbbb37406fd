//! Hears the master: everything that it says to this host becomes a part of `ClusterView`.
//!
//!     the pods of this node    `master`
//!     what these pods use      `objects`
//!     every other resource     a row of `watched`

use std::sync::Arc;

use coracle_http::client::Client;
use futures_util::future::join_all;
use tokio::sync::watch;

use super::follow::Voice;
use super::master::{self, FollowFacts};
use super::objects::door;
use super::objects::kept::Kept;
use super::refusals::Refusals;
use super::unkept::Unkept;
use super::watched::{ViewShelves, WATCHED};
use crate::facts::shown::Shown;
use crate::facts::view::ViewWriter;

/// Never ends.
pub async fn run(
    client: Client,
    about: FollowFacts,
    shown: watch::Receiver<Arc<Shown>>,
    view: ViewWriter,
    (unkept, refusals): (Unkept, Refusals),
) {
    let voice = Voice::new(refusals);
    let shelves = ViewShelves::new(view.clone());
    let kept = Kept::open(&about.data_dir, about.secrets_on_disk, unkept.clone());
    let watches = WATCHED.iter().map(|row| row.follow(&client, &voice, &about.node_name, &shelves));
    tokio::join!(
        master::run((&client, &voice), &about, shown, &view, &unkept),
        door::run(client.clone(), voice.clone(), kept, view.clone()),
        join_all(watches),
    );
}
