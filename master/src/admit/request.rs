//! The question about a change that admission answers. PURE.

use super::event_rate::EventCount;
use super::remarks::Remarks;
use crate::authorize::{Attributes, Authorizer};
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource};
use coracle_http::Identity;
use serde_json::Value;
use std::sync::Arc;

/// The stored objects that admission reads. `Err`: an object exists but is unreadable.
pub trait ClusterView {
    fn get(&self, key: &Key) -> Result<Option<Value>, String>;
    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Result<Arc<Vec<Value>>, String>;
}

/// The question about a change, like the AdmissionRequest of Kubernetes.
#[derive(Clone)]
pub struct AdmissionRequest<'a> {
    pub view: &'a dyn ClusterView,
    /// Asked about the rights that a document grants, or that its fields need.
    pub authorizer: &'a dyn Authorizer,
    pub kind: &'a Kind,
    /// Empty: the object as a whole.
    pub subresource: &'static str,
    pub operation: AdmissionOperation,
    pub namespace: &'a str,
    /// Empty: the name of a new object, which stands in its document or is generated.
    pub name: &'a str,
    /// The stored object. None: nothing is stored, or nobody can read it.
    pub old: Option<&'a Value>,
    pub identity: &'a Identity,
    /// Letters for the name of a pod's token volume. None: the pod gets no such volume.
    pub suffix: Option<&'a dyn Fn() -> String>,
    /// Counts an event in the buckets of its source. None: nobody counts the events of this writer.
    pub events: Option<&'a EventCount>,
    pub options: AdmissionOptions,
    /// What admission says besides its judgement.
    pub remarks: &'a Remarks,
}

impl AdmissionRequest<'_> {
    /// Whether the client may do this, too.
    pub fn may(&self, attributes: &Attributes) -> bool {
        self.authorizer.authorize(attributes, self.identity).allows()
    }
}

/// The admission plugins that are off unless an option turns them on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// No service takes an external address that it does not have.
    pub deny_service_external_ips: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionOperation {
    Create,
    Update,
    Delete,
}

impl AdmissionOperation {
    /// As Kubernetes calls it.
    pub(super) fn wire(self) -> &'static str {
        match self {
            AdmissionOperation::Create => "CREATE",
            AdmissionOperation::Update => "UPDATE",
            AdmissionOperation::Delete => "DELETE",
        }
    }
}
