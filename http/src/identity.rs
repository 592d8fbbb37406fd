//! The identity of a client: the user and groups of access rules. PURE. The port determines it.

use std::collections::BTreeMap;

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

    /// The user of a port without authentication, where reaching the port is the proof: the user may do everything.
    pub fn administrator() -> Identity {
        let groups = ["system:masters", "system:authenticated"];
        Identity { user: "system:admin".to_owned(), groups: groups.map(str::to_owned).to_vec(), ..Identity::none() }
    }
}
