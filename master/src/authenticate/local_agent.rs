//! The agent of this host: it comes through a port where reaching the port is the proof, and says for which node it
//! speaks. PURE.
//!
//!     coracle-node: NODE      -> system:node:NODE, with the rights of a node alone
//!
//! Whoever may be the administrator may be less, so nothing proves the name. The header binds an agent to the rules of
//! its node; it is no barrier against a program of root. An older master does not know the header, and an older agent
//! does not send it: both are served as the administrator.

use coracle_api::strategy::is_subdomain;
use coracle_http::{HeaderMap, Identity, NODE_HEADER};

/// `Ok(None)`: the client names no node. `Err`: the header names none.
pub fn identity(headers: &HeaderMap) -> Result<Option<Identity>, String> {
    let mut values = headers.get_all(NODE_HEADER).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let node = value.to_str().ok().filter(|node| is_subdomain(node) && values.next().is_none());
    let node = node.ok_or_else(|| format!("the header {NODE_HEADER} names no node"))?;
    Ok(Some(Identity::agent(node)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_http::{HeaderName, HeaderValue};

    #[test]
    fn nodes_that_are_named() {
        let check = |values: &[&'static str], expected: Result<Option<&str>, ()>| {
            let field = |value: &&'static str| (HeaderName::from_static(NODE_HEADER), HeaderValue::from_static(value));
            let found = identity(&values.iter().map(field).collect());
            let user = found.map(|found| found.map(|identity| identity.user)).map_err(drop);
            assert_eq!(user, expected.map(|user| user.map(str::to_owned)), "{values:?}");
        };
        check(&[], Ok(None));
        check(&["n1"], Ok(Some("system:node:n1")));
        check(&["shop-pc.example.com"], Ok(Some("system:node:shop-pc.example.com")));
        for wrong in ["", "N1", "a b", "../n1", "n1,n2"] {
            check(&[wrong], Err(()));
        }
        check(&["n1", "n2"], Err(()));
        let identity = Identity::agent("n1");
        assert!(identity.is_node() && identity.groups.iter().any(|group| group == Identity::AGENTS));
        assert!(!identity.groups.iter().any(|group| group == "system:masters"));
    }
}
