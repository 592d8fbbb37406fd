//! How a container is made: (pod, container, facts of the host) -> the complete configuration for the engine. PURE.

pub mod claims;
pub mod container;
pub mod downward;
pub mod env_file;
pub mod environment;
pub mod file_variables;
pub mod hosts;
pub mod mounts;
pub mod oom_score;
pub mod projection;
pub mod pull_secrets;
pub mod runtime_class;
pub mod security;
pub mod volumes;
