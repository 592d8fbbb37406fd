//! Finds what is in the way of services and pods on this host, and reports each finding once, in the log and as an
//! event.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use coracle_api::service::Service;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::facts::happening::Happening;
use crate::network::firewall::{self, Chain};
use crate::network::host_ports::{Listening, Trouble, asked, listening, troubles};
use crate::network::kernel_table;
use crate::network::pod_network::plug;
use crate::network::served::Served;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Of the kernel's list of sockets, which pods on the host's network can make long: a hundred thousand of them.
const SOCKETS_BYTES_MAX: u64 = 16 << 20;

/// Never ends. Looks when services ask for something else of this host: never by the clock.
pub async fn run(mut served: watch::Receiver<Served>, node: String, happenings: mpsc::Sender<Happening>) {
    tell_of_firewalls(&node, &happenings).await;
    let (mut last, mut announced) = (None, BTreeSet::new());
    let mut seen: Option<Arc<Vec<Arc<Service>>>> = None;
    loop {
        let heard = served.borrow_and_update().clone();
        // Changed endpoints need no new look at the host.
        if let Some(network) =
            heard.filter(|heard| seen.as_ref().is_none_or(|seen| !Arc::ptr_eq(seen, &heard.services)))
        {
            seen = Some(network.services.clone());
            let wanted = asked(&network.services);
            if last.as_ref() != Some(&wanted) {
                let found = troubles(&network.services, &sockets(), &plug::networks());
                for trouble in found.difference(&announced) {
                    let Trouble { namespace, name, uid, reason, what } = trouble;
                    log::warn!("service {namespace}/{name}: {what}");
                    // A queue that is full loses events, never more.
                    let _ = happenings.try_send(Happening::of_service([namespace, name, uid], reason, what.clone()));
                }
                (last, announced) = (Some(wanted), found);
                // Many services come one after another, and a look is long on a host with many connections.
                sleep(PAUSE).await;
            }
        }
        if served.changed().await.is_err() {
            return;
        }
    }
}

pub fn sockets() -> Listening {
    let text = |name: &str| {
        let mut text = String::new();
        let file = File::open(format!("/proc/net/{name}"));
        let read = file.and_then(|file| file.take(SOCKETS_BYTES_MAX).read_to_string(&mut text));
        read.map(|_| text).unwrap_or_default()
    };
    listening([&text("tcp"), &text("tcp6")], [&text("udp"), &text("udp6")])
}

async fn tell_of_firewalls(node: &str, happenings: &mpsc::Sender<Happening>) {
    // Where nft cannot be run, services say so.
    let Ok(chains) = chains().await else { return };
    for obstacle in firewall::obstacles(&chains, false) {
        let message = format!("{} ({})", obstacle.says, obstacle.mend);
        log::warn!("firewall: {message}");
        let _ = happenings.try_send(Happening::of_node(node, "FirewallInTheWay", message));
    }
}

/// Every chain of the kernel with a hook; one whose table lets the pods' bridge through drops nothing of theirs.
pub async fn chains() -> Result<Vec<Chain>, String> {
    let mut chains = firewall::chains(&kernel_table::rule_set().await?);
    let tables: BTreeSet<String> = firewall::closed(&chains).map(|chain| chain.table.clone()).collect();
    for table in tables {
        let Ok(text) = kernel_table::table(&table).await else { continue };
        let of = chains.iter_mut().filter(|chain| chain.table == table && firewall::lets_bridge_through(chain, &text));
        of.for_each(|chain| chain.drops = false);
    }
    Ok(chains)
}
