//! The identity of a client: the user and groups of access rules. PURE. The port determines it.

use std::collections::BTreeMap;
use std::sync::Arc;

const ADMINISTRATOR: &str = "system:admin";
/// The group of all nodes.
const NODES: &str = "system:nodes";
/// The header by which an agent without credentials of its own names its node. Servers that do not know the header take
/// the agent for whoever the port says.
pub const NODE_HEADER: &str = "coracle-node";

/// A user with a name, uid, groups and extra values. The default is nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    /// Empty: users with the same name cannot be told apart.
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
    /// Names the credential that the client showed, in the words of whoever identified the client: open streams end
    /// when it does. It is told to nobody. `None`: nothing was shown.
    pub credential: Option<Arc<str>>,
}

impl Identity {
    pub const ANONYMOUS: &str = "system:anonymous";
    pub const AUTHENTICATED: &str = "system:authenticated";
    pub const UNAUTHENTICATED: &str = "system:unauthenticated";
    /// The group of the nodes that an agent of coracle runs.
    pub const AGENTS: &str = "coracle:agents";

    /// Nobody.
    pub const fn none() -> Identity {
        Identity {
            user: String::new(),
            uid: String::new(),
            groups: Vec::new(),
            extra: BTreeMap::new(),
            credential: None,
        }
    }

    /// Whether it is one client's alone. Many have no credentials, and on a port without authentication all are the
    /// administrator.
    pub fn is_personal(&self) -> bool {
        !["", Identity::ANONYMOUS, ADMINISTRATOR].contains(&self.user.as_str())
    }

    /// An agent of a host of this cluster.
    pub fn is_node(&self) -> bool {
        self.groups.iter().any(|group| group == NODES)
    }

    /// The user of a port without authentication, where reaching the port is the proof: the user may do everything.
    pub fn administrator() -> Identity {
        let groups = ["system:masters", Identity::AUTHENTICATED];
        Identity { user: ADMINISTRATOR.to_owned(), groups: groups.map(str::to_owned).to_vec(), ..Identity::none() }
    }

    /// The agent of a node.
    pub fn agent(node: &str) -> Identity {
        let groups = [NODES, Identity::AGENTS, Identity::AUTHENTICATED];
        let groups = groups.map(str::to_owned).to_vec();
        Identity { user: format!("system:node:{node}"), groups, ..Identity::none() }
    }

    /// The client of a port with authentication that shows nothing.
    pub fn anonymous() -> Identity {
        let groups = vec![Identity::UNAUTHENTICATED.to_owned()];
        Identity { user: Identity::ANONYMOUS.to_owned(), groups, ..Identity::none() }
    }
}
