//! Service addresses in the kernel: one nftables table of ours and a route for each address to the pods' bridge.
//!
//!     services and endpoints as last heard -> text (`services`, pure)
//!         -> one `nft -f -` transaction where the text changed
//!
//! Nothing is taken away when the agent stops: connections go on. At a start the table of the agent before stays until
//! the master's services are heard, because the file of services may be older (`services/standing`). Where there is no
//! table, as after a reboot, the rules of the file are loaded at once.
//!
//! The routes make the addresses work on a host without a default route, where a connection would fail before nft sees
//! it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::facts::happening::Happening;
use crate::facts::shown::Shown;
use crate::host::tool::run_tool;
use crate::host::trouble::Trouble;
use crate::network::kernel_table::{KernelTable, nft};
use crate::network::pod_network::{BRIDGE, plug};
use crate::network::services::flows;
use crate::network::services::standing::StandingTable;
use crate::network::services::{self, KernelRules, LeftOut, ServiceRules};
use crate::network::sieve::Sieve;

/// Is the table still as it was? Somebody may have flushed the rule set, or made the bridge anew.
const RECHECK: Duration = Duration::from_secs(60);
/// Rechecks at which services that were left out are tried again: what passes, as on a host that was busy, has passed
/// in some minutes.
const TRIED_AGAIN: u32 = 5;
/// Marks the agent's routes on the bridge. The number is used neither by the kernel nor by routing daemons.
const ROUTE_PROTOCOL: &str = "196";

struct Net {
    table: KernelTable,
    applied: Option<KernelRules>,
    /// The table is this agent's own, and no longer that of the agent before.
    has_loaded: bool,
    /// The rules of the file that were not loaded, because the table of the agent before stays.
    gave_way: Option<KernelRules>,
    /// The addresses of the services that the kernel accepted.
    addresses: BTreeSet<IpAddr>,
    /// The addresses that have a route.
    routed: Option<BTreeSet<IpAddr>>,
    hairpinned: BTreeSet<String>,
    left_out: BTreeSet<LeftOut>,
    /// How often they are still tried again.
    again: u32,
    trouble: Trouble,
}

/// Whether iptables rules see packets between ports of the same bridge.
pub fn bridges_are_seen() -> bool {
    std::fs::read_to_string("/proc/sys/net/bridge/bridge-nf-call-iptables").is_ok_and(|said| said.trim() == "1")
}

/// Never ends. None: nothing is known yet, so nothing is done.
pub async fn run(
    mut wanted: watch::Receiver<Option<KernelRules>>,
    mut shown: watch::Receiver<Arc<Shown>>,
    happenings: mpsc::Sender<Happening>,
) {
    let mut net = Net::new();
    let mut check_at = Instant::now() + RECHECK;
    loop {
        let rules = wanted.borrow_and_update().clone();
        let pods = pods(&shown.borrow_and_update());
        let recheck = Instant::now() >= check_at;
        if recheck {
            check_at = Instant::now() + RECHECK;
        }
        let known = rules.is_some();
        let mut result = match rules {
            Some(rules) => net.settle(rules, recheck, &happenings).await,
            None => Ok(()),
        };
        // Without services there is nothing to look after.
        let idle = net.addresses.is_empty() && net.applied.as_ref().is_none_or(|rules| rules.parts.is_empty());
        if !idle && (recheck || net.hairpinned != pods) {
            result = result.and(hairpin().await);
            net.hairpinned = pods;
        }
        if known {
            net.trouble.note(
                result,
                |text| log::warn!("service addresses do not work on this host: {text}"),
                || log::info!("service addresses work again"),
            );
        }
        let alive = tokio::select! {
            changed = wanted.changed() => changed.is_ok(),
            changed = shown.changed(), if !idle => changed.is_ok(),
            () = sleep_until(check_at), if !idle => true,
        };
        if !alive {
            return;
        }
    }
}

/// The sandboxes on the bridge, by the engine's id. A new sandbox has a new bridge port.
fn pods(shown: &Shown) -> BTreeSet<String> {
    shown.world.containers.iter().filter(|seen| seen.ip.is_some() && seen.lives()).map(|seen| seen.id.clone()).collect()
}

impl Net {
    fn new() -> Net {
        Net {
            table: KernelTable::new(services::nft::TABLE, services::nft::lasting),
            applied: None,
            has_loaded: false,
            gave_way: None,
            addresses: BTreeSet::new(),
            routed: None,
            hairpinned: BTreeSet::new(),
            left_out: BTreeSet::new(),
            again: 0,
            trouble: Trouble::default(),
        }
    }

    async fn settle(
        &mut self,
        rules: KernelRules,
        recheck: bool,
        happenings: &mpsc::Sender<Happening>,
    ) -> Result<(), String> {
        let again = recheck && !self.left_out.is_empty() && self.again > 0;
        let was_changed = recheck && self.table.was_changed().await && self.applied.is_some();
        if again || was_changed {
            self.applied = None;
            self.table.forget_flows();
            self.again = self.again.saturating_sub(1);
        }
        if self.gives_way(&rules, recheck).await {
            return self.set_routes(recheck).await;
        }
        let nothing = rules.parts.is_empty() && self.applied.is_none();
        if self.applied.as_ref().is_none_or(|applied| applied.parts != rules.parts)
            && !(nothing && self.table.is_missing().await)
        {
            let (kept, left_out) = match self.change(&rules).await {
                Some(kept) => (kept, BTreeSet::new()),
                None => self.load(&rules).await?,
            };
            self.addresses = kept.iter().map(|part| part.address).collect();
            self.end_stale(&rules).await;
            log::info!("service rules: {} addresses", self.addresses.len());
            for service in left_out.difference(&self.left_out) {
                log::warn!("{service}");
                // A queue that is full loses events, never more.
                let _ = happenings.try_send(service.happening());
            }
            if self.left_out != left_out {
                (self.left_out, self.again) = (left_out, TRIED_AGAIN);
            }
        }
        (self.applied, self.has_loaded, self.gave_way) = (Some(rules), true, None);
        self.set_routes(recheck).await
    }

    async fn set_routes(&mut self, recheck: bool) -> Result<(), String> {
        if self.routed.as_ref() != Some(&self.addresses) || recheck {
            self.routed = None;
            self.routed = route(&self.addresses).await?.then(|| self.addresses.clone());
        }
        Ok(())
    }

    async fn end_stale(&mut self, rules: &KernelRules) {
        match self.table.end_stale(flows::led(&rules.parts), &self.addresses, &plug::local()).await {
            Ok(0) => {}
            Ok(count) => log::info!("service rules: {count} flows over UDP are led anew"),
            Err(why) => log::warn!("{why}; clients of a service over UDP may be led to a pod that is gone"),
        }
    }

    /// Where the table holds everything as it was asked for before, what is another now. None: it has to be loaded.
    async fn change(&mut self, rules: &KernelRules) -> Option<Vec<Arc<ServiceRules>>> {
        let applied = self.applied.as_ref().filter(|applied| applied.here == rules.here && self.left_out.is_empty())?;
        let script = services::change(&applied.parts, &rules.parts);
        if !script.is_empty() {
            self.table
                .load(&script)
                .await
                .inspect_err(|why| log::debug!("a change of service rules: {why}; all are loaded"))
                .ok()?;
        }
        Some(rules.parts.clone())
    }

    /// Loads the rules of all services, or of all that the kernel accepts: a refused service must not keep the old
    /// rules of the rest.
    async fn load(&mut self, rules: &KernelRules) -> Result<(Vec<Arc<ServiceRules>>, BTreeSet<LeftOut>), String> {
        let (parts, here) = (&rules.parts, &rules.here);
        let Err(why) = self.table.load(&services::script(parts, here)).await else {
            return Ok((parts.clone(), BTreeSet::new()));
        };
        // Where nothing at all is taken, it is not because of a service.
        nft(&services::trial(&[])).await.map_err(|_| why.clone())?;
        let mut sieve = Sieve::new(parts.len(), &why);
        while let Some(these) = sieve.next() {
            let these: Vec<Arc<ServiceRules>> = these.into_iter().map(|index| parts[index].clone()).collect();
            sieve.judge(nft(&services::trial(&these)).await);
        }
        let (kept, refused) = sieve.end();
        let kept: Vec<Arc<ServiceRules>> = kept.into_iter().map(|index| parts[index].clone()).collect();
        self.table.load(&services::script(&kept, here)).await?;
        let left_out = refused.into_iter().map(|(index, why)| {
            let part = &parts[index];
            LeftOut { namespace: part.namespace.clone(), name: part.name.clone(), uid: part.uid.clone(), why }
        });
        Ok((kept, left_out.collect()))
    }

    /// Whether these are rules of the file, and the table of the agent before stays.
    async fn gives_way(&mut self, rules: &KernelRules, recheck: bool) -> bool {
        if self.has_loaded || !rules.from_file {
            return false;
        }
        if recheck || self.gave_way.as_ref() != Some(rules) {
            let listing = self.table.listing().await;
            let standing = listing.as_deref().map(StandingTable::read).filter(|table| table.stays(rules));
            self.gave_way = standing.as_ref().map(|_| rules.clone());
            self.addresses = standing.map(|table| table.addresses()).unwrap_or_default();
        }
        self.gave_way.is_some()
    }
}

pub async fn routes() -> Result<(), String> {
    run_tool("ip", &["route", "list"], None).await.map(drop)
}

/// A pod that is its own service's endpoint: the kernel rewrites the address on the bridge itself, and would not send a
/// frame back through the port it came from.
async fn hairpin() -> Result<(), String> {
    let Ok(ports) = std::fs::read_dir(format!("/sys/class/net/{BRIDGE}/brif")) else { return Ok(()) };
    for port in ports.filter_map(Result::ok) {
        let (name, switch) = (port.file_name(), port.path().join("hairpin_mode"));
        let is_on = std::fs::read_to_string(&switch).is_ok_and(|mode| mode.trim() == "1");
        // Where /sys is read-only, netlink does the same.
        if !is_on && std::fs::write(&switch, "1").is_err() {
            run_tool("bridge", &["link", "set", "dev", &name.to_string_lossy(), "hairpin", "on"], None).await?;
        }
    }
    Ok(())
}

/// Makes the host accept packets to an address without an interface that announces the address. The change lasts until
/// the next boot.
pub async fn make_local(address: IpAddr) -> Result<(), String> {
    if !address.is_ipv4() {
        return Err("only IPv4 addresses are served by this version".to_owned());
    }
    run_tool(
        "ip",
        &["-4", "route", "replace", "local", &format!("{address}/32"), "dev", "lo", "proto", ROUTE_PROTOCOL],
        None,
    )
    .await
    .map(drop)
}

/// Adds what is missing and takes away what is ours and not wanted any more. False: the bridge does not exist yet.
async fn route(addresses: &BTreeSet<IpAddr>) -> Result<bool, String> {
    // Without the bridge no pod runs here yet. The first pod leads to a new call.
    let shown = match run_tool("ip", &["-4", "route", "show", "dev", BRIDGE, "proto", ROUTE_PROTOCOL], None).await {
        Ok(shown) => shown,
        Err(text) if text.contains("Cannot find device") => return Ok(false),
        Err(text) => return Err(text),
    };
    let present = shown.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    let batch = route_batch(addresses, &present);
    if batch.is_empty() {
        return Ok(true);
    }
    match run_tool("ip", &["-4", "-force", "-batch", "-"], Some(&batch)).await {
        Ok(_) => Ok(true),
        // The engine has made the bridge this moment and not yet brought it up.
        Err(text) if text.contains("nexthop is not up") => Ok(false),
        Err(text) => Err(text),
    }
}

fn route_batch(wanted: &BTreeSet<IpAddr>, present: &BTreeSet<IpAddr>) -> String {
    let lines = |verb: &'static str, list: Vec<&IpAddr>| {
        list.into_iter()
            .map(move |address| format!("route {verb} {address}/32 dev {BRIDGE} proto {ROUTE_PROTOCOL}\n"))
            .collect::<String>()
    };
    lines("del", present.difference(wanted).collect()) + &lines("replace", wanted.difference(present).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_are_routed() {
        let set =
            |list: &[&str]| list.iter().map(|address| address.parse::<IpAddr>().unwrap()).collect::<BTreeSet<_>>();
        let check = |wanted, present, expected: &str| assert_eq!(route_batch(&set(wanted), &set(present)), expected);
        check(&["10.96.0.1"], &["10.96.0.1"], "");
        check(
            &["10.96.0.1"],
            &["10.96.0.2"],
            "route del 10.96.0.2/32 dev coracle0 proto 196\nroute replace 10.96.0.1/32 dev coracle0 proto 196\n",
        );
    }
}
