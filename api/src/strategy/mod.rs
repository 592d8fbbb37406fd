//! The rules of each kind that a schema cannot express: the fields that a create or an update sets, keeps or refuses,
//! the names and addresses that the object claims, the part of it that is durable, and how it is deleted.
//!
//!     create:  schema defaults -> Strategy::create -> Strategy::validate -> claims -> Store::write
//!     update:  schema defaults -> Strategy::update -> Strategy::validate_update -> claims -> Store::write
//!     status:  Strategy::status_update -> schema defaults -> Strategy::validate_update -> ...
//!
//! Metadata is covered by each kind's functions (they call `meta`), so whoever writes calls the kind's strategy and
//! nothing else. All of it is PURE: what would have to be invented (time, uid, addresses) comes in `Making`.

pub mod addresses;
pub mod advice;
mod affinity;
pub mod amounts;
mod annotated;
mod apps;
mod batch;
pub mod binding;
mod checks;
pub mod claim;
mod classes;
mod conditions;
mod config;
mod container;
mod counts;
mod creation_token;
pub mod cron;
mod csi;
mod custom;
mod devices;
mod diff;
pub mod doc;
mod endpoint_slice;
mod endpoints;
mod env;
pub mod ephemeral;
mod event;
pub mod eviction;
pub mod finalizer;
mod flow;
pub mod forms;
pub mod furniture;
mod general;
mod inner;
mod job_failure_policy;
mod job_rules;
mod kinds;
pub mod label_selector;
pub mod lease;
mod limits;
pub mod meta;
mod mounts;
pub(crate) mod names;
pub mod namespace;
mod network;
mod networking;
mod node;
pub mod owner_references;
pub mod pem;
pub mod pod;
pub mod pod_defaults;
mod pod_parts;
mod pod_spec;
pub mod pod_status;
mod policies;
mod port_advice;
pub mod qos;
pub mod rbac;
mod replicationcontroller;
pub(crate) mod resize;
pub mod review;
mod rules;
pub mod scale;
mod scaling;
mod security;
pub mod service;
mod service_ports;
mod service_rules;
mod signing;
mod stateful;
mod subject;
mod systems;
mod templates;
mod time_zone;
pub mod token;
mod volume;
mod volume_source;
mod webhooks;

pub use network::{Cidr, NodePorts, Ranges};

use coracle_schema::Problem;

pub use addresses::{IP_ADDRESS, SERVICE_RANGE};
pub use apps::{DAEMON_SET, DEPLOYMENT, REPLICA_SET, TEMPLATE_GENERATION};
pub use batch::{CRON_JOB, JOB};
pub use binding::{BINDING, bind, no_target};
pub use claim::{CLAIM, VOLUME};
pub use classes::{ATTRIBUTES_CLASS, PRIORITY_CLASS, RUNTIME_CLASS, STORAGE_CLASS, VOLUME_ATTACHMENT, system_classes};
pub use config::{CONFIG_MAP, SECRET};
pub use creation_token::{CREATION_TOKEN, CREATION_TOKEN_BYTES_MAX, creation_token};
pub use csi::{CSI_CAPACITY, CSI_DRIVER, CSI_NODE};
pub use custom::{Check, Custom};
pub use devices::{CLAIM_TEMPLATE, DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE};
pub use endpoint_slice::ENDPOINT_SLICE;
pub use endpoints::{ENDPOINTS, elsewhere};
pub use event::EVENT;
pub use flow::{FLOW_SCHEMA, PRIORITY_LEVEL};
pub use kinds::*;
pub use lease::LEASE;
pub use limits::{LIMIT_RANGE, RESOURCE_QUOTA};
pub use names::is_subdomain;
pub use namespace::NAMESPACE;
pub use networking::{INGRESS, INGRESS_CLASS, NETWORK_POLICY};
pub use node::NODE;
pub use pod::POD;
pub use policies::{MUTATING_BINDING, MUTATING_POLICY, VALIDATING_BINDING, VALIDATING_POLICY};
pub use rbac::{CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING};
pub use replicationcontroller::REPLICATION_CONTROLLER;
pub use review::REVIEW;
pub use rules::{
    BuiltinStrategy, Deleting, Deletion, DeletionPropagation, Making, Rules, Share, Strategy, StrategyRef,
    keep_metadata, keep_status,
};
pub use scale::SCALE;
pub use scaling::{AUTOSCALER, DISRUPTION_BUDGET};
pub use service::SERVICE;
pub use signing::{APPROVAL, CLIENT_SIGNER, SIGNING_REQUEST, wants_masters};
pub use stateful::STATEFUL_SET;
pub use subject::{KUBELET_SIGNERS, common_name};
pub use templates::{CONTROLLER_REVISION, POD_TEMPLATE};
pub use time_zone::ZoneFault;
pub use webhooks::WEBHOOKS;

/// Whether a strategy has reported a problem that the type finds as well: at the same path, at the path without its
/// indexes, of the whole whose type it is, or elsewhere in the same words.
pub fn covers(by_strategy: &Problem, of_type: &Problem) -> bool {
    let (reported, found) = (by_strategy.path.as_str(), of_type.path.as_str());
    let bare: String = found.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)).collect();
    let alike = by_strategy.reason == of_type.reason
        && by_strategy.value == of_type.value
        && by_strategy.detail == of_type.detail;
    // A strategy's `field is immutable` says nothing about the type of the value.
    let same_path = (reported == found || reported == bare) && by_strategy.detail != "field is immutable";
    same_path || (by_strategy.shown.is_some() && found.strip_suffix(".type") == Some(reported)) || alike
}

#[cfg(test)]
mod tests;
