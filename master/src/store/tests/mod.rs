//! Tests of the trait `Store`, for any back end.

pub mod conformance;
