//! What the command line of `backup` and `restore` says beside the options of the agent. PURE.

use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The directory of the configuration and of manifests.
    pub etc: PathBuf,
    /// For a master with a configuration file in an unusual place.
    pub master_config: Option<String>,
    /// The node's name was given, and need not be that of the host.
    pub named: bool,
}
