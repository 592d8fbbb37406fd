//! Looks after the pods' own network while its sandboxes run: host ports, rules beside other programs' rules, wires on
//! the bridge.
//!
//! This also runs if new pods are on the engine's network: earlier pods keep the agent's network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use coracle_api::strategy::Cidr;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::nft::{self, Mapping};
use super::{BRIDGE, LABEL_ADDRESS, plug, wires_of};
use crate::facts::engine::SeenContainer;
use crate::facts::naming::Tag;
use crate::facts::pod_cidr::PodCidr;
use crate::facts::shown::Shown;
use crate::host::trouble::Trouble;
use crate::network::kernel_table::KernelTable;
use crate::network::netfilter;
use crate::network::services::ends::Led;
use crate::runtime::docker::Docker;

/// Are table, rules and wires still as they were?
const RECHECK: Duration = Duration::from_secs(60);

struct Keep {
    table: KernelTable,
    pods: Cidr,
    docker: Arc<Docker>,
    applied: Option<BTreeSet<Mapping>>,
    /// The generation of the kernel's rules when the wires were last guarded. An unchanged generation means unchanged
    /// rules.
    guarded: Option<u32>,
    trouble: Trouble,
}

/// Never ends, and begins when the pod CIDR is known. A wire that is gone: the engine's containers are looked at anew,
/// which plugs them in.
pub async fn run(mut pods: PodCidr, mut shown: watch::Receiver<Arc<Shown>>, docker: Arc<Docker>, wake: Arc<Notify>) {
    let known = pods.wait_for(Option::is_some).await.ok().and_then(|pods| *pods);
    let Some(pods) = known else { return };
    let table = KernelTable::new(nft::TABLE, str::to_owned);
    let mut keep =
        Keep { table, pods, docker: docker.clone(), applied: None, guarded: None, trouble: Trouble::default() };
    let mut check_at = Instant::now() + RECHECK;
    loop {
        let now = shown.borrow_and_update().clone();
        let own: Vec<&SeenContainer> = now
            .world
            .containers
            .iter()
            .filter(|seen| seen.lives() && seen.labels.contains_key(LABEL_ADDRESS))
            .collect();
        // Of a host that never had such a pod nothing is touched.
        let idle = !now.looked || own.is_empty() && keep.applied.is_none();
        if !idle {
            let recheck = Instant::now() >= check_at;
            if recheck {
                check_at = Instant::now() + RECHECK;
                let there = plug::wires();
                if own.iter().any(|seen| !there.iter().any(|name| name.starts_with(&wires_of(&seen.id)))) {
                    docker.look_anew();
                    wake.notify_one();
                }
            }
            let first = keep.applied.is_none();
            let result = keep.settle(mappings(&own), recheck).await;
            let guarded = if first || recheck { keep.guard().await } else { Ok(()) };
            keep.trouble.note(
                result.and(guarded),
                |text| log::warn!("the pods' network: {text}"),
                || log::info!("the pods' network works again"),
            );
        }
        let alive = tokio::select! {
            changed = shown.changed() => changed.is_ok(),
            () = sleep_until(check_at), if !idle => true,
        };
        if !alive {
            return;
        }
    }
}

/// The host ports of running sandboxes.
fn mappings(own: &[&SeenContainer]) -> BTreeSet<Mapping> {
    let of = |seen: &&SeenContainer| {
        let pod: IpAddr = seen.ip.as_deref()?.parse().ok()?;
        let ports = Tag::read(&seen.name, &seen.labels)?.host_ports;
        Some(ports.into_iter().filter_map(move |port| {
            let host = Mapping::at(&port.host_ip)?;
            Some(Mapping { protocol: port.protocol, host, host_port: port.host_port, pod, port: port.container_port })
        }))
    };
    own.iter().filter_map(of).flatten().collect()
}

/// The UDP mappings, by the host addresses at which clients reach them.
fn led(mappings: &BTreeSet<Mapping>, local: &[IpAddr]) -> Led {
    let mut led: Led = BTreeMap::new();
    for mapping in mappings.iter().filter(|mapping| mapping.protocol == "udp") {
        for address in mapping.host.as_ref().map_or(local, std::slice::from_ref) {
            led.entry((Some(*address), mapping.host_port)).or_default().insert((mapping.pod, mapping.port));
        }
    }
    led
}

impl Keep {
    async fn settle(&mut self, mappings: BTreeSet<Mapping>, recheck: bool) -> Result<(), String> {
        let first = self.applied.is_none();
        if recheck && self.table.was_changed().await {
            self.applied = None;
            self.table.forget_flows();
        }
        if self.applied.as_ref() != Some(&mappings) {
            self.table.load(&nft::script(self.pods, &mappings)).await?;
            self.end_stale(&mappings).await;
            self.applied = Some(mappings);
        }
        if first || recheck { plug::let_through().await } else { Ok(()) }
    }

    /// After a start, and where somebody has changed rules since: each wire has its own addresses.
    async fn guard(&mut self) -> Result<(), String> {
        let _ = plug::close_routes(BRIDGE);
        let generation = netfilter::generation();
        if generation.is_some() && self.guarded == generation {
            return Ok(());
        }
        let mut wires = self.docker.wires().await;
        plug::forget_gone(&mut wires);
        plug::guard_all(self.pods, &wires)
            .await
            .map_err(|why| format!("pods are not kept from using the addresses of others: {why}"))?;
        self.guarded = netfilter::generation();
        Ok(())
    }

    /// A flow over UDP goes on to where it was led first, also where that was nobody.
    async fn end_stale(&mut self, mappings: &BTreeSet<Mapping>) {
        let now = led(mappings, &plug::local());
        if let Err(why) = self.table.end_stale(now, &BTreeSet::new(), &[]).await {
            log::warn!("{why}; clients of a host port over UDP may be led to a pod that is gone");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_led_at_every_address() {
        let pod = IpAddr::from([10, 244, 0, 9]);
        let local = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 168, 1, 7])];
        let mapping =
            |protocol: &str, host, host_port| Mapping { protocol: protocol.into(), host, host_port, pod, port: 53 };
        let all = [mapping("udp", None, 53), mapping("tcp", None, 53), mapping("udp", Some(local[1]), 54)]
            .into_iter()
            .collect();
        let ends = BTreeSet::from([(pod, 53)]);
        let expected =
            [((Some(local[0]), 53), ends.clone()), ((Some(local[1]), 53), ends.clone()), ((Some(local[1]), 54), ends)];
        assert_eq!(led(&all, &local), Led::from(expected));
    }
}
