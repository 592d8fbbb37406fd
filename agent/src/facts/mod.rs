//! The nouns of the agent: what is asked for, what is there, a container engine's words, this node, and the values that
//! a plan is made of. PURE.

pub mod again;
pub mod backoff;
pub mod checks;
pub mod clock;
pub mod content;
pub mod desired;
pub mod engine;
pub mod happening;
pub mod hash;
pub mod heard;
pub mod huge_pages;
pub mod image_access;
pub mod logins;
pub mod members;
pub mod memory;
pub mod naming;
pub mod node_said;
pub mod objects;
pub mod pod_cidr;
pub mod ports;
pub mod recorded;
pub mod resolv;
pub mod round;
pub mod seen;
pub mod shown;
pub mod source_state;
pub mod strain;
pub mod thresholds;
pub mod uid_set;
pub mod usage;
pub mod view;
pub mod waiting;
pub mod wanted;
pub mod world;
