//! The identity of a client: the user and groups of access rules. PURE. The port determines it.

use std::collections::BTreeMap;

const ADMINISTRATOR: &str = "system:admin";
const ANONYMOUS: &str = "system:anonymous";
/// The group of all nodes.
const NODES: &str = "system:nodes";

/// A user with a name, uid, groups and extra values. The default is nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    /// Empty: users with the same name cannot be told apart.
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Nobody.
    pub const fn none() -> Identity {
        Identity { user: String::new(), uid: String::new(), groups: Vec::new(), extra: BTreeMap::new() }
    }

    /// Whether it is one client's alone. Many have no credentials, and on a port without authentication all are the
    /// administrator.
    pub fn is_personal(&self) -> bool {
        !["", ANONYMOUS, ADMINISTRATOR].contains(&self.user.as_str())
    }

    /// An agent of a host of this cluster.
    pub fn is_node(&self) -> bool {
        self.groups.iter().any(|group| group == NODES)
    }

    /// The user of a port without authentication, where reaching the port is the proof: the user may do everything.
    pub fn administrator() -> Identity {
        let groups = ["system:masters", "system:authenticated"];
        Identity { user: ADMINISTRATOR.to_owned(), groups: groups.map(str::to_owned).to_vec(), ..Identity::none() }
    }
}
