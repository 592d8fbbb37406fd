//! The views of namespaces, services, endpoints and slices. PURE.

use super::*;

impl View for NamespaceView {
    const OF: &'static [Resource] = &[NAMESPACES];

    fn read(stored: &Stored, _: Option<&NamespaceView>, _: Duration) -> Option<NamespaceView> {
        Some(NamespaceView { labels: stored.labels.clone(), ends: is_ending(&document(stored)) })
    }
}

impl View for ServiceView {
    const OF: &'static [Resource] = &[SERVICES];
    const SELECTS: bool = true;

    fn wanted(&self) -> Vec<(&str, &str)> {
        self.selector.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    fn read(stored: &Stored, _: Option<&ServiceView>, _: Duration) -> Option<ServiceView> {
        let service: Service = read(stored)?;
        Some(ServiceView {
            name: service.metadata.name,
            created: service.metadata.creation_timestamp,
            uid: service.metadata.uid,
            deleting: service.metadata.deletion_timestamp.is_some(),
            external: service.spec.kind == "ExternalName",
            headless: service.spec.headless(),
            distribution: service.spec.traffic_distribution,
            selector: service.spec.selector,
            publish_not_ready: service.spec.publish_not_ready_addresses,
            labels: service.metadata.labels,
            ports: service.spec.ports,
        })
    }
}

impl View for EndpointsView {
    const OF: &'static [Resource] = &[ENDPOINTS];

    fn read(stored: &Stored, _: Option<&EndpointsView>, _: Duration) -> Option<EndpointsView> {
        let Endpoints { metadata, subsets } = read(stored)?;
        Some(EndpointsView {
            revision: stored.revision,
            uid: metadata.uid,
            labels: metadata.labels,
            subsets,
            truncated: metadata.annotations.contains_key(TRUNCATED.0),
            document: stored.clone(),
        })
    }
}

impl View for SliceView {
    const OF: &'static [Resource] = &[SLICES];
    // Slices are found by their service, as if a slice selected the service.
    const SELECTS: bool = true;

    fn wanted(&self) -> Vec<(&str, &str)> {
        vec![(lease::SERVICE, &self.service)]
    }

    fn read(stored: &Stored, _: Option<&SliceView>, _: Duration) -> Option<SliceView> {
        let service = stored.labels.get(lease::SERVICE).unwrap_or_default().to_owned();
        Some(SliceView { revision: stored.revision, service, document: stored.clone() })
    }
}
