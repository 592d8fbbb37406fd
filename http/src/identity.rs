//! The identity of a client: the user and groups of access rules. PURE. The port determines it.

use std::collections::BTreeMap;

/// A user, and what else is known of them. The default is nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    /// Empty: users of that name are told apart by nothing.
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// Nobody.
    pub const fn none() -> Identity {
        Identity { user: String::new(), uid: String::new(), groups: Vec::new(), extra: BTreeMap::new() }
    }

    /// Whoever comes through a port that shows who they are by nothing else than that they reach it: they may do
    /// everything.
    pub fn administrator() -> Identity {
        let groups = ["system:masters", "system:authenticated"];
        Identity { user: "system:admin".to_owned(), groups: groups.map(str::to_owned).to_vec(), ..Identity::none() }
    }
}
