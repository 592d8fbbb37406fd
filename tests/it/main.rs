//! In process: API transcripts, flows, simulation, tidy.

mod api_v1;
mod api_v1beta1;
mod control;
mod kubelet_status;
mod simulation;
mod tidy;
mod transcript;
