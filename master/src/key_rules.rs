//! How the parts of a master take part in the keys of the cluster.

use crate::authenticate::Authenticator;
use crate::authorize::Attributes;
use crate::authorize::Authorizer;
use crate::cluster_keys::issuer::Issuer;
use crate::cluster_keys::names::{NameSources, ServerNames};
use crate::cluster_keys::{self, ClusterKeys, KeyOptions};
use crate::commit::Registry;
use crate::config::Config;
use crate::control::{self, Permission, Wakes};
use crate::making;
use crate::store::Store;
use coracle_api::meta::Resource;
use std::net::IpAddr;
use std::sync::Arc;

/// Certificates of nodes that were deleted before a crash count no more, before anybody is served.
pub fn end_departed(keys: &ClusterKeys, store: &dyn Store) {
    if let Err(why) = keys.revoke_departed(|node| control::node_state(store, node)) {
        log::error!("the certificates of deleted nodes are not ended: {why}");
    }
}

/// Keys that a command or their age has changed are taken up by whoever holds something of them.
pub fn follow_keys(
    keys: &Arc<ClusterKeys>,
    (registry, authenticator): (&Arc<Registry>, &Arc<Authenticator>),
    wakes: &Wakes,
) {
    // The keys hold this: it must not hold the keys, and the authenticator does.
    let (registry, authenticator, theirs) =
        (Arc::downgrade(registry), Arc::downgrade(authenticator), Arc::downgrade(keys));
    let wakes = wakes.clone();
    keys.follow(Box::new(move |change| {
        if change.authorities
            && let (Some(keys), Some(registry)) = (theirs.upgrade(), registry.upgrade())
        {
            registry.trust(keys.trust());
            wakes.trust_changed();
        }
        if change.accounts
            && let Some(authenticator) = authenticator.upgrade()
        {
            authenticator.keys_changed();
        }
        Ok(())
    }));
}

/// Whether a user may have a node's certificate without a person's look.
pub fn may_request(authorizer: Arc<dyn Authorizer>) -> Permission {
    let requests = Resource { group: "certificates.k8s.io".into(), plural: "certificatesigningrequests".into() };
    Arc::new(move |identity, subresource| {
        let attributes = Attributes::resource("create", &requests, subresource, ("", ""));
        authorizer.authorize(&attributes, identity).allows()
    })
}

/// What the keys of the cluster are made for.
pub fn keys_of(config: &Config) -> KeyOptions {
    KeyOptions {
        data_dir: config.data_dir.clone(),
        names: server_names(config),
        issuer: Issuer::of_domain(&config.cluster_domain),
        server_files: config.tls_cert.clone().zip(config.tls_key.clone()),
        client_authorities: config.client_ca.clone(),
        ..KeyOptions::default()
    }
}

/// The names of the server, as this host is now.
pub fn server_names(config: &Config) -> ServerNames {
    let services: Vec<IpAddr> = config.service_cidr.nth(0).map(IpAddr::V4).into_iter().collect();
    ServerNames::of(&NameSources {
        host: making::host_name().as_deref(),
        addresses: &cluster_keys::host::addresses(),
        services: &services,
        domain: &config.cluster_domain,
        more: &config.tls_names,
    })
}
