//! In process: API transcripts, flows, simulation, tidy.

mod simulation;
mod tidy;
