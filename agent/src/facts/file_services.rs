//! The Services of this host's manifest files: as the files have them, and as this host serves them. PURE.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use coracle_api::service::Service;
use coracle_keeper::problem::{Problem, Severity, Subject};

/// A Service, and the manifest file that asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct FileService {
    pub file: String,
    pub service: Arc<Service>,
}

/// The Services of files that this host serves, and the Services that wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileServices {
    /// With their addresses, in the order of the files.
    pub services: Arc<Vec<Arc<Service>>>,
    pub waiting: Vec<ServiceWait>,
    /// The address at which the agent answers for names because no master gives another address.
    pub dns: Option<IpAddr>,
    /// The same address, since a master or the configuration gives another one: pods that run still ask there.
    pub former_dns: Option<IpAddr>,
    /// False: no file of this host ever asked for a Service or for names. Then nothing of theirs is in the kernel.
    pub ever: bool,
}

/// A Service of a file that is not served, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceWait {
    pub namespace: String,
    pub name: String,
    pub file: String,
    /// What is in the way, and what to do.
    pub why: String,
}

impl ServiceWait {
    /// For `status`, metrics and `notify`.
    pub fn problem(&self) -> Problem {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        Problem {
            severity: Severity::Problem,
            reason: "ServiceWaits".to_owned(),
            subject: Subject { kind: "service".to_owned(), namespace, name },
            what: format!("the Service of {} is not served", self.file),
            why: self.why.clone(),
            advice: String::new(),
            since: None,
        }
    }
}

impl fmt::Display for ServiceWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ServiceWait { namespace, name, file, why } = self;
        write!(f, "service {namespace}/{name} of {file} waits: {why}")
    }
}
