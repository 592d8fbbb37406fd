//! In process: API transcripts, flows, simulation, tidy.

mod tidy;
