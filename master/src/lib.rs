//! The master: API server, scheduler and controllers over one store of JSON files.

pub mod store;
