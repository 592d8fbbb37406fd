//! Services that lead nowhere. PURE.

use super::context::{Context, Found, Words};
use super::objects::PodLook;
use coracle_api::meta::ObjectMeta;
use coracle_api::service::Service;
use coracle_keeper::problem::Subject;
use std::collections::{BTreeMap, HashSet};

type Labels = BTreeMap<String, String>;

pub fn tell(context: &Context<'_>, found: &mut Found) {
    let ready = ready(context);
    for service in context.objects.services.iter().filter(|service| !context.goes(&service.metadata)) {
        let (metadata, spec) = (&service.metadata, &service.spec);
        let subject = || Subject::new("service", &metadata.namespace, &metadata.name);
        let leads = ready.contains(&(metadata.namespace.as_str(), metadata.name.as_str()));
        if spec.kind != "ExternalName" && !spec.selector.is_empty() && !leads && !rests(context, service) {
            found.tell("ServiceWithoutEndpoints", subject(), nowhere(context, service));
        }
        if spec.kind == "LoadBalancer" && service.status.load_balancer.ingress.is_empty() {
            let warned = context.warned("Service", metadata, &["SyncLoadBalancerFailed"], None);
            let words = Words {
                what: "waits for an address of a load balancer".to_owned(),
                why: warned.map(|one| one.message.to_owned()).unwrap_or_default(),
                advice: format!("kubectl -n {} describe service {}", metadata.namespace, metadata.name),
                since: metadata.creation_timestamp,
            };
            found.tell("LoadBalancerPending", subject(), words);
        }
    }
}

/// The services with an endpoint that is ready, by namespace and name.
fn ready<'o>(context: &Context<'o>) -> HashSet<(&'o str, &'o str)> {
    let slices = context.objects.slices.iter();
    let filled = slices.filter(|slice| slice.endpoints.iter().flatten().any(|endpoint| endpoint.is_ready()));
    filled.map(|slice| (slice.metadata.namespace.as_str(), slice.service())).collect()
}

/// Whether all that could be behind a service is scaled to zero: somebody wants it to lead nowhere.
fn rests(context: &Context<'_>, service: &Service) -> bool {
    let objects = context.objects;
    let set = |set: &coracle_api::workload::ReplicaSet| set.spec.replicas;
    let one = objects.deployments.iter().map(|one| (&one.metadata, &one.spec.template.metadata, one.spec.replicas));
    let two = objects.stateful_sets.iter().map(|one| (&one.metadata, &one.spec.template.metadata, one.spec.replicas));
    let three =
        objects.replication_controllers.iter().map(|one| (&one.metadata, &one.spec.template.metadata, set(one)));
    let mut behind = one
        .chain(two)
        .chain(three)
        .filter(|(metadata, template, _)| {
            metadata.namespace == service.metadata.namespace && selects(&service.spec.selector, &template.labels)
        })
        .peekable();
    behind.peek().is_some()
        && behind.all(|(.., replicas)| replicas == Some(0))
        && pods(context, service).next().is_none()
}

fn selects(selector: &Labels, labels: &Labels) -> bool {
    selector.iter().all(|(name, value)| labels.get(name) == Some(value))
}

fn pods<'o>(context: &Context<'o>, service: &'o Service) -> impl Iterator<Item = &'o PodLook> {
    let is_behind = move |of: &ObjectMeta| {
        of.namespace == service.metadata.namespace && selects(&service.spec.selector, &of.labels)
    };
    context.objects.pods.iter().filter(move |pod| is_behind(&pod.metadata) && !pod.status.terminal())
}

fn nowhere(context: &Context<'_>, service: &Service) -> Words {
    let metadata = &service.metadata;
    let count = pods(context, service).count();
    let selector: Vec<String> = service.spec.selector.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let (why, advice) = match count {
        0 => (format!("no pod has its labels {}", selector.join(",")), String::new()),
        1 => ("its pod is not ready".to_owned(), format!(" -l {}", selector.join(","))),
        count => (format!("none of its {count} pods is ready"), format!(" -l {}", selector.join(","))),
    };
    let shown = if advice.is_empty() { " --show-labels".to_owned() } else { advice };
    Words {
        what: "leads nowhere: it has no endpoint that is ready".to_owned(),
        why,
        advice: format!("kubectl -n {} get pods{shown}", metadata.namespace),
        since: pods(context, service)
            .filter_map(|pod| pod.status.condition("Ready").and_then(|ready| ready.last_transition_time))
            .max()
            .or(metadata.creation_timestamp),
    }
}
