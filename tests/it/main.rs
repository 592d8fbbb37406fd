//! In process: API transcripts, flows, simulation, tidy.

// Helpers of tests are tests too.
#![allow(clippy::unwrap_used)]

mod address;
mod api_v1;
mod api_v1beta1;
mod circles;
mod cluster;
mod control;
mod follow;
mod fuzz;
mod giving;
mod kubelet_events;
mod kubelet_status;
mod leases;
mod observed;
mod old_clients;
mod old_verbs;
mod openapi;
mod options;
mod proxy;
mod replay;
mod run_time_kinds;
mod service_rules;
mod simulation;
mod support;
mod tidy;
mod transcript;
