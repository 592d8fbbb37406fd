//! In process: API transcripts, flows, simulation, tidy.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod address;
mod api_v1;
mod api_v1beta1;
mod applied;
mod circles;
mod cluster;
mod cluster_keys;
mod control;
mod encryption;
mod follow;
mod fuzz;
mod giving;
mod hostile;
mod kubelet_events;
mod kubelet_status;
mod leases;
mod local_agent;
mod observed;
mod old_clients;
mod old_verbs;
mod openapi;
mod options;
mod problems;
mod proxy;
mod replay;
mod rights;
mod run_time_kinds;
mod service_rules;
mod simulation;
mod stolen;
mod support;
mod tidy;
mod tls;
mod transcript;
