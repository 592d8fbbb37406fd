//! The table of controllers, and its lookups: from a change to the keys that it concerns, from a key to its decision.
//! PURE.
//!
//! A new controller is a file and a row here. Rows that stand earlier are looked at earlier.

use super::balanced::BalancedView;
use super::cluster::{Before, Cluster};
use super::controller::{Controller, Follow, News, ObservedChange, Patience, all, itself};
use super::cron::CronJobView;
use super::daemon::{self, DaemonSetView};
use super::deployment::{self, DeploymentView};
use super::job::{self, JobView};
use super::names::Actor;
use super::ranges::RangeView;
use super::references::References;
use super::replication::ReplicationView;
use super::revisions::{self, RevisionView};
use super::settings::Settings;
use super::shelf::Shelves;
use super::signing::SigningRequestView;
use super::stateful::{self, OwnedClaimView, StatefulSetView};
use super::storage::view::{ClaimView, ClassView, CsiNodeView, VolumeView};
use super::storage::{binding, ephemeral, volumes};
use super::view::{EndpointsView, LeaseView, NamespaceView, ServiceView, SliceView};
use super::{
    addresses, autoscale, balancer, budgets, cron, disruption, endpoints, events, evictions, expulsion, garbage,
    namespaces, node_certificates, nodes, own, pod_garbage, quotas, ranges, replicas, replication, roles, schedule,
    signing, token_secrets, ttl, unplaced,
};
use coracle_api::kinds::Kinds;
use coracle_api::meta::{Key, Resource};
use std::collections::BTreeSet;
use std::fmt;

/// The rows that a master is built with.
fn rows() -> Vec<Controller> {
    [workloads(), placement(), network(), housekeeping()].into_iter().flatten().collect()
}

/// What makes pods.
fn workloads() -> Vec<Controller> {
    let row = Controller::new;
    vec![
        row("replication", all::<ReplicationView>, replication::decide)
            .follows(Follow::view::<ReplicationView>(itself))
            .follows(Follow::pods(replicas::by_pod::<ReplicationView>))
            .workload()
            .telling(replication::refused),
        row("jobs", all::<JobView>, job::decide)
            .follows(Follow::view::<JobView>(itself))
            .follows(Follow::pods(replicas::by_pod::<JobView>))
            .workload()
            .patient(Patience::JOBS)
            .telling(job::refused),
        row("job pods", job::orphans::all, job::orphans::decide)
            .follows(Follow::view::<JobView>(job::orphans::by_job))
            .follows(Follow::pods(job::orphans::by_pod)),
        row("cron jobs", all::<CronJobView>, cron::decide)
            .follows(Follow::view::<CronJobView>(itself))
            .follows(Follow::view::<JobView>(cron::by_job))
            .follows(Follow::News(News::ClockSet))
            .workload()
            .telling(cron::refused),
        row("ended jobs", all::<JobView>, ttl::decide).follows(Follow::view::<JobView>(itself)),
        row("deployments", all::<DeploymentView>, deployment::decide)
            .follows(Follow::view::<DeploymentView>(itself))
            .follows(Follow::view::<ReplicationView>(deployment::by_set))
            .follows(Follow::pods(deployment::by_pod))
            .workload()
            .telling(deployment::refused),
        row("statefulsets", all::<StatefulSetView>, stateful::decide)
            .follows(Follow::view::<StatefulSetView>(itself))
            .follows(Follow::view::<RevisionView>(revisions::by_revision::<StatefulSetView>))
            .follows(Follow::view::<OwnedClaimView>(stateful::by_claim))
            .follows(Follow::pods(stateful::by_pod))
            .workload()
            .telling(stateful::refused),
        row("daemonsets", all::<DaemonSetView>, daemon::decide)
            .follows(Follow::view::<DaemonSetView>(itself))
            .follows(Follow::view::<RevisionView>(revisions::by_revision::<DaemonSetView>))
            .follows(Follow::pods(replicas::by_pod::<DaemonSetView>))
            .follows(Follow::nodes(daemon::by_node))
            .workload()
            .telling(daemon::refused),
    ]
}

/// The scheduler, and the controllers for volumes and claims.
fn placement() -> Vec<Controller> {
    let row = Controller::new;
    vec![
        row("scheduler", schedule::all, schedule::decide)
            .follows(Follow::pods(schedule::when_waiting))
            .follows(Follow::nodes(schedule::when_waiting))
            .follows(Follow::view::<ClaimView>(schedule::when_waiting))
            .follows(Follow::view::<VolumeView>(schedule::when_waiting))
            .follows(Follow::view::<ClassView>(schedule::when_waiting))
            .follows(Follow::view::<CsiNodeView>(schedule::when_waiting))
            .follows(Follow::view::<BalancedView>(schedule::when_waiting))
            .workload(),
        row("ephemeral", ephemeral::all, ephemeral::decide)
            .follows(Follow::pods(ephemeral::by_pod))
            .follows(Follow::view::<ClaimView>(ephemeral::by_claim))
            .workload(),
        row("volumes", volumes::all, volumes::decide)
            .follows(Follow::view::<VolumeView>(itself))
            .follows(Follow::view::<ClaimView>(volumes::by_claim))
            .workload(),
        row("claims", binding::all, binding::decide)
            .follows(Follow::view::<ClaimView>(itself))
            .follows(Follow::view::<VolumeView>(binding::by_volume))
            .follows(Follow::view::<ClassView>(binding::by_class))
            .follows(Follow::pods(binding::by_pod))
            .workload(),
    ]
}

/// Services, their addresses, balancer and endpoints.
fn network() -> Vec<Controller> {
    let row = Controller::new;
    vec![
        row("own", own::all, own::decide)
            .follows(Follow::view::<RangeView>(own::always))
            .follows(Follow::view::<ServiceView>(own::by_name))
            .follows(Follow::view::<own::OwnServiceView>(own::always))
            .follows(Follow::view::<EndpointsView>(own::by_name))
            .follows(Follow::view::<SliceView>(own::by_slice))
            .follows(Follow::view::<NamespaceView>(own::by_namespace))
            .follows(Follow::nodes(own::always)),
        row("addresses", addresses::all, addresses::decide)
            .follows(Follow::view::<addresses::AddressedView>(addresses::by_service))
            .follows(Follow::view::<addresses::AddressView>(itself)),
        row("ranges", all::<RangeView>, ranges::decide)
            .follows(Follow::view::<RangeView>(ranges::by_range))
            .follows(Follow::view::<addresses::AddressedView>(ranges::by_service)),
        row("balancer", balancer::all, balancer::decide)
            .follows(Follow::view::<BalancedView>(balancer::by_service))
            .follows(Follow::pods(balancer::by_pod))
            .follows(Follow::nodes(balancer::by_node)),
        row("endpoints", endpoints::all, endpoints::decide)
            .follows(Follow::view::<ServiceView>(itself))
            .follows(Follow::view::<EndpointsView>(endpoints::by_name))
            .follows(Follow::view::<SliceView>(endpoints::by_slice))
            .follows(Follow::pods(endpoints::by_pod))
            .follows(Follow::nodes(endpoints::by_node)),
    ]
}

/// Nodes, and what ends, is counted or is kept in bounds.
fn housekeeping() -> Vec<Controller> {
    use Follow::{Departures, References};
    let row = Controller::new;
    vec![
        row("nodes", nodes::all, nodes::decide)
            .follows(Follow::nodes(itself))
            .follows(Follow::pods(nodes::by_pod))
            .follows(Follow::view::<LeaseView>(nodes::by_lease)),
        row("expulsion", expulsion::all, expulsion::decide).follows(Follow::nodes(expulsion::by_node)).workload(),
        row("evictions", evictions::all, evictions::decide)
            .follows(Follow::nodes(evictions::by_node))
            .follows(Follow::pods(evictions::by_pod))
            .workload(),
        row("namespaces", all::<NamespaceView>, namespaces::decide)
            .follows(Follow::view::<NamespaceView>(itself))
            .follows(Follow::view::<namespaces::FurnitureView>(namespaces::by_namespace))
            .follows(Follow::News(News::Trust))
            .follows(Departures { awaited: namespaces::ending, keys: namespaces::by_departure }),
        row("token secrets", token_secrets::all, token_secrets::decide)
            .follows(Follow::view::<token_secrets::SecretView>(itself))
            .follows(Follow::view::<token_secrets::AccountView>(token_secrets::by_account))
            .follows(Follow::News(News::Trust))
            .follows(Follow::News(News::ClockSet)),
        row("quotas", quotas::all, quotas::decide)
            .follows(Follow::view::<quotas::QuotaView>(quotas::itself))
            .follows(Follow::view::<ServiceView>(quotas::by_service))
            .follows(Follow::pods(quotas::by_pod))
            .follows(Departures { awaited: quotas::any, keys: quotas::by_departure }),
        row("events", events::all, events::decide).follows(Follow::events(|_, _| vec![events::key()])),
        row("pod garbage", pod_garbage::all, pod_garbage::decide).follows(Follow::pods(pod_garbage::by_pod)).workload(),
        row("unplaced", unplaced::all, unplaced::decide).follows(Follow::pods(unplaced::by_pod)).workload(),
        row("garbage", garbage::all, garbage::decide).follows(References).follows(Follow::pods(garbage::by_pod)),
        row("budgets", all::<budgets::BudgetView>, budgets::decide)
            .follows(Follow::view::<budgets::BudgetView>(itself))
            .follows(Follow::view::<budgets::ScaleView>(budgets::by_scale))
            .follows(Follow::pods(budgets::by_pod))
            .workload(),
        row("autoscalers", all::<autoscale::AutoscalerView>, autoscale::decide)
            .follows(Follow::view::<autoscale::AutoscalerView>(itself))
            .follows(Follow::view::<budgets::ScaleView>(autoscale::by_target))
            .follows(Follow::News(News::Measured))
            .workload(),
        row("roles", roles::all, roles::decide).follows(Follow::view::<roles::ClusterRoleView>(roles::by_role)),
        row("signing requests", all::<SigningRequestView>, signing::decide)
            .follows(Follow::view::<SigningRequestView>(itself))
            .follows(Follow::Kind { of: signing::RIGHTS, only: |_| true, shelf: None, keys: signing::by_rights })
            .follows(Follow::nodes(signing::by_node)),
        row("node certificates", node_certificates::all, node_certificates::decide)
            .follows(Follow::nodes(node_certificates::by_node)),
        row("disruption", disruption::all, disruption::decide).follows(Follow::pods(disruption::by_pod)).workload(),
    ]
}

pub struct Controllers {
    rows: Vec<Controller>,
}

/// The unit of work: a controller with a single key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The place of the row in the table.
    row: usize,
    pub controller: &'static str,
    pub key: Key,
}

impl Owner {
    pub fn actor(&self) -> Actor<'_> {
        Actor { controller: self.controller, of: &self.key.resource }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A controller that looks at all objects at once has one key, without a name.
        if self.key.name.is_empty() { f.write_str(self.controller) } else { self.key.fmt(f) }
    }
}

impl Controllers {
    pub fn builtin() -> Controllers {
        Controllers::of(rows())
    }

    pub fn of(rows: Vec<Controller>) -> Controllers {
        Controllers { rows }
    }

    /// An empty cluster with room for all that these controllers follow.
    pub fn cluster(&self, kinds: &Kinds, settings: Settings) -> Cluster {
        let mut shelves = Shelves::default();
        for follow in self.rows.iter().flat_map(|row| &row.follows) {
            if let Follow::Kind { shelf: Some(shelf), .. } = follow {
                shelf(&mut shelves);
            }
        }
        Cluster::new(settings, References::of(kinds), shelves)
    }

    /// A test for the objects of this kind that controllers follow.
    pub fn followed(&self, resource: &Resource) -> impl Fn(&Key) -> bool + Send + use<> {
        let mut tests: Vec<fn(&Key) -> bool> = Vec::new();
        for follow in self.rows.iter().flat_map(|row| &row.follows) {
            if let Follow::Kind { of, only, .. } = follow
                && of.contains(resource)
            {
                tests.push(*only);
            }
        }
        move |key| tests.iter().any(|test| test(key))
    }

    /// Whether a controller waits for objects to go, of whatever kind.
    pub fn departures_awaited(&self, cluster: &Cluster) -> bool {
        let awaits = |follow: &Follow| matches!(follow, Follow::Departures { awaited, .. } if awaited(cluster));
        self.rows.iter().any(|row| row.follows.iter().any(awaits))
    }

    /// The keys that a change concerns.
    pub fn concerned(&self, cluster: &Cluster, key: &Key, gone: bool, before: &Before) -> BTreeSet<Owner> {
        let change = ObservedChange { key, gone, before };
        let mut owners = self.referring(&before.references);
        for (row, controller) in self.rows.iter().enumerate() {
            for follow in &controller.follows {
                let keys = match follow {
                    Follow::Kind { of, only, keys, .. } if of.contains(&key.resource) && only(key) => keys,
                    Follow::Departures { keys, .. } if gone => keys,
                    _ => continue,
                };
                let owner = |key| Owner { row, controller: controller.name, key };
                owners.extend(keys(cluster, &change).into_iter().map(owner));
            }
        }
        owners
    }

    /// The same of objects whose references have changed.
    pub fn referring(&self, changed: &BTreeSet<Key>) -> BTreeSet<Owner> {
        let rows = self.rows.iter().enumerate();
        let rows = rows.filter(|(_, row)| row.follows.iter().any(|follow| matches!(follow, Follow::References)));
        let owner = |(row, controller): (usize, &Controller), key: &Key| Owner {
            row,
            controller: controller.name,
            key: key.clone(),
        };
        rows.flat_map(|row| changed.iter().map(move |key| owner(row, key))).collect()
    }

    /// Every key of the controllers that follow this news.
    pub fn hearing(&self, news: News, cluster: &Cluster) -> BTreeSet<Owner> {
        let rows = self.rows.iter().enumerate();
        let rows =
            rows.filter(|(_, row)| row.follows.iter().any(|follow| matches!(follow, Follow::News(of) if *of == news)));
        let owner = |row, controller: &Controller, key| Owner { row, controller: controller.name, key };
        rows.flat_map(|(row, controller)| {
            (controller.all)(cluster).into_iter().map(move |key| owner(row, controller, key))
        })
        .collect()
    }

    /// Every key of every controller.
    pub fn all(&self, cluster: &Cluster) -> BTreeSet<Owner> {
        let rows = self.rows.iter().enumerate();
        let owner = |row, controller: &Controller, key| Owner { row, controller: controller.name, key };
        rows.flat_map(|(row, controller)| {
            (controller.all)(cluster).into_iter().map(move |key| owner(row, controller, key))
        })
        .collect()
    }

    /// The names of the rows.
    #[cfg(test)]
    pub fn names(&self) -> Vec<&'static str> {
        self.rows.iter().map(|row| row.name).collect()
    }

    /// The key of a controller of this name.
    pub fn owner(&self, controller: &str, key: Key) -> Option<Owner> {
        let row = self.rows.iter().position(|row| row.name == controller)?;
        Some(Owner { row, controller: self.rows[row].name, key })
    }

    pub fn row(&self, owner: &Owner) -> &Controller {
        &self.rows[owner.row]
    }
}
