//! How the agent of a node is reached. PURE.

use coracle_api::node::agent_socket;
use coracle_http::Server;
use std::path::{Path, PathBuf};

/// The agents of this host: each has a socket that is called like its node.
#[derive(Clone)]
pub struct Agents {
    sockets: PathBuf,
}

impl Agents {
    /// `sockets`: the directory of the sockets.
    pub fn of_this_host(sockets: PathBuf) -> Agents {
        Agents { sockets }
    }

    /// The agent of a node, by the name of the node. The directory is the master's own setting, so nothing that a
    /// client may write leads anywhere else. `None`: no socket can have that name.
    pub fn reach(&self, node: &str) -> Option<Server> {
        agent_socket(node).map(|socket| Server::Socket(self.sockets.join(socket)))
    }

    /// The directory of the sockets.
    pub fn directory(&self) -> &Path {
        &self.sockets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_the_directory() {
        let agents = Agents::of_this_host("/run/coracle/agent".into());
        for (node, expected) in [("n1", Some("/run/coracle/agent/n1.sock")), ("", None), ("../n1", None), ("a/b", None)]
        {
            let socket = agents.reach(node).map(|server| match server {
                Server::Socket(socket) => socket,
                Server::Address(_) | Server::Tls(_) => panic!("{node}: not of this host"),
            });
            assert_eq!(socket, expected.map(PathBuf::from), "{node}");
        }
    }
}
