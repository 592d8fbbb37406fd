//! Authorization: who may do what.
//!
//! `serve` asks before it answers anything, admission asks about what a document grants or names. An authorizer decides
//! on the attributes of a request and the identity of its client.
//!
//!     attributes      what a request asks for, in the words of RBAC · request_path: where its path leads nowhere
//!     chain           several authorizers in order
//!     rbac            roles and bindings · rule: one rule · aggregate: rules that a role gathers
//!     stored          RBAC of the store's objects
//!     node            what a node may do · node_pods: the pods of each node
//!     bootstrap       the roles and bindings of every cluster
//!     parts           the rights of the master's own parts

pub mod aggregate;
mod attributes;
pub mod bootstrap;
mod chain;
mod node;
mod node_pods;
mod parts;
mod rbac;
mod request_path;
pub mod rule;
mod stored;

pub use attributes::Attributes;
pub use chain::{Chain, MASTERS, Masters};
pub use node::node_of;
pub use node_pods::NodeAuthorizer;
pub use parts::{OWN_PARTS, identity_of};
pub use rbac::binding_id;
pub use rule::Rule;
pub use stored::Rbac;

use coracle_api::meta::Revision;
use coracle_api::status::Status;
use coracle_http::Identity;

/// The answer of an authorizer. The text is its reason, and may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allowed(String),
    /// Nothing allows the request, and the next authorizer is asked. From the last authorizer it is a refusal.
    NoOpinion(String),
    /// Refused, whatever the other authorizers say.
    Denied(String),
}

impl Decision {
    pub fn allows(&self) -> bool {
        matches!(self, Decision::Allowed(_))
    }

    pub fn reason(&self) -> &str {
        let (Decision::Allowed(reason) | Decision::NoOpinion(reason) | Decision::Denied(reason)) = self;
        reason
    }

    /// The refusal of a request, as Kubernetes words it.
    pub fn refusal(&self, attributes: &Attributes, identity: &Identity) -> Result<(), Box<Status>> {
        match self {
            Decision::Allowed(_) => Ok(()),
            Decision::NoOpinion(why) | Decision::Denied(why) => Err(Box::new(attributes.refusal(identity, why))),
        }
    }
}

/// The rules of an identity in a namespace, as a SelfSubjectRulesReview shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleList {
    pub rules: Vec<Rule>,
    /// The list does not say all that the identity may do.
    pub incomplete: bool,
    /// Why not.
    pub error: String,
}

pub trait Authorizer: Send + Sync {
    fn authorize(&self, attributes: &Attributes, identity: &Identity) -> Decision;

    /// The rules of the identity in a namespace. An authorizer that decides without rules says that its list is
    /// incomplete for an identity that it may allow something.
    fn rules(&self, _: &Identity, _namespace: &str) -> RuleList {
        RuleList::default()
    }

    /// The refusal of a request, as Kubernetes words it.
    fn refused(&self, attributes: &Attributes, identity: &Identity) -> Result<(), Box<Status>> {
        self.authorize(attributes, identity).refusal(attributes, identity)
    }

    /// When what it decides by has changed last: a request in progress is asked about again after that. An authorizer
    /// that decides by nothing that is stored never changes.
    fn changed(&self) -> Revision {
        Revision::default()
    }
}

impl<F: Fn(&Attributes, &Identity) -> Decision + Send + Sync> Authorizer for F {
    fn authorize(&self, attributes: &Attributes, identity: &Identity) -> Decision {
        self(attributes, identity)
    }
}

/// Allows everything: for a master without access rules.
pub struct AllowAll;

impl Authorizer for AllowAll {
    fn authorize(&self, _: &Attributes, _: &Identity) -> Decision {
        Decision::Allowed(String::new())
    }
}
