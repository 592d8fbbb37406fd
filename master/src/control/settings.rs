//! What the controllers know besides objects. PURE.

use super::rules::ControlRules;
use crate::cluster_keys::ClusterKeys;
use crate::cluster_keys::token::{Bound, LegacyClaims};
use coracle_api::strategy::Cidr;
use coracle_api::strategy::furniture::Trust;
use coracle_http::Identity;
use jiff::tz::TimeZone;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// What a master that keeps the cluster's own objects was started with.
#[derive(Clone, Debug)]
pub struct Own {
    /// The range of service addresses.
    pub range: Cidr,
    /// The master's host name, if known.
    pub host: Option<String>,
    /// Services of type LoadBalancer are this cluster's to balance.
    pub balancer: bool,
    /// The domain of the cluster's names.
    pub domain: String,
}

/// Whether a user may create this subresource of certificatesigningrequests.
pub type Permission = Arc<dyn Fn(&Identity, &str) -> bool + Send + Sync>;

/// Ids of ClusterRoles that no role gathers at present.
pub type UnadoptedRoles = Arc<dyn Fn() -> HashSet<String> + Send + Sync>;

/// What the controllers know besides objects.
#[derive(Clone)]
pub struct Settings {
    /// Silence after which a node counts as gone.
    pub node_grace: Duration,
    /// `None`: this master does not keep the cluster's own objects.
    pub own: Option<Arc<Own>>,
    /// The authorities that `kube-root-ca.crt` and others hold. `None`: this master has none.
    pub trust: Option<Arc<Trust>>,
    /// `None`: no key signs tokens.
    pub signer: Option<TokenSigner>,
    /// `None`: no request for a certificate is approved by rule.
    pub may_request: Option<Permission>,
    pub zones: Zones,
    /// Agents report the usage of pods to this master.
    pub measured: bool,
    pub rules: ControlRules,
    /// Ids of ClusterRoles from before access rules counted: no role gathers them.
    pub unadopted: Arc<HashSet<String>>,
}

/// Whose the token of a Secret is.
pub struct TokenSubject<'a> {
    pub namespace: &'a str,
    pub secret: &'a str,
    pub account: &'a str,
    pub uid: &'a str,
}

/// Signs the token of a Secret: the same subject gives the same token.
#[derive(Clone)]
pub struct TokenSigner(pub Arc<dyn Fn(&TokenSubject<'_>) -> String + Send + Sync>);

impl TokenSigner {
    pub fn of(keys: Arc<ClusterKeys>) -> TokenSigner {
        TokenSigner(Arc::new(move |subject| {
            let account = Bound { name: subject.account.to_owned(), uid: subject.uid.to_owned() };
            keys.legacy_token(&LegacyClaims::new(subject.namespace, subject.secret, &account))
        }))
    }
}

/// Time zones by name; an empty name is the zone of this host.
#[derive(Clone, Copy)]
pub struct Zones(pub fn(&str) -> Result<TimeZone, String>);

impl Default for Zones {
    /// A host without any.
    fn default() -> Zones {
        let none =
            |name: &str| if name.is_empty() { Ok(TimeZone::UTC) } else { Err(format!("unknown time zone {name}")) };
        Zones(none)
    }
}

impl Settings {
    /// As Kubernetes has it.
    pub const NODE_GRACE: Duration = Duration::from_secs(50);
    /// Nodes are looked after at moments so far apart at most.
    const ROUND_MAX: Duration = Duration::from_secs(5);

    /// How far apart the moments are at which silences are noticed and pods expelled: nodes that fall silent together
    /// are seen together.
    pub fn node_round(&self) -> Duration {
        (self.node_grace / 10).clamp(Duration::from_secs(1), Self::ROUND_MAX)
    }

    /// The first such moment that is no earlier.
    pub fn round_after(&self, at: Duration) -> Duration {
        let round = self.node_round().as_millis().max(1);
        let millis = at.as_millis().div_ceil(round) * round;
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            node_grace: Settings::NODE_GRACE,
            own: None,
            trust: None,
            signer: None,
            may_request: None,
            zones: Zones::default(),
            measured: false,
            rules: ControlRules::default(),
            unadopted: Arc::default(),
        }
    }
}
