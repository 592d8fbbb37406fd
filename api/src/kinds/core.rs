//! The core group, and events in their other form.

use super::kind::{Alias, Kind, Old, ProxyTarget, SelectableField, Verb};
use super::row::{ALL, Group, PART_VERBS, field, field_or};
use crate::strategy::{self, BuiltinStrategy, advice, forms};
use coracle_schema::apply::Form;
use std::borrow::Cow;

const CORE: Group = Group { name: "", version: "v1", package: "" };
const NAMED: &[Verb] = &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch];
const CREATE: &[Verb] = &[Verb::Create];
const GET: &[Verb] = &[Verb::Get];
/// A POST, and a GET for browsers and WebSocket.
const STREAM: &[Verb] = &[Verb::Create, Verb::Get];

pub fn rows() -> Vec<Kind> {
    vec![
        bindings(),
        componentstatuses(),
        CORE.row("configmaps", "configmap", "ConfigMap", &strategy::CONFIG_MAP).short(&["cm"]),
        endpoints(),
        events(),
        events_of_their_group(),
        limits(),
        namespaces(),
        nodes(),
        claims(),
        volumes(),
        pods(),
        CORE.row("podtemplates", "podtemplate", "PodTemplate", &strategy::POD_TEMPLATE)
            .advised(advice::pod_template)
            .known_as("")
            .delete_shows(),
        replicationcontrollers(),
        quotas(),
        secrets(),
        serviceaccounts(),
        services(),
    ]
}

/// A kind that the older versions know by the same names.
fn row(plural: &'static str, singular: &'static str, kind: &'static str, strategy: &'static BuiltinStrategy) -> Kind {
    CORE.row(plural, singular, kind, strategy).known_as(plural)
}

fn limits() -> Kind {
    let row = CORE.row("limitranges", "limitrange", "LimitRange", &strategy::LIMIT_RANGE).known_as("limitRanges");
    row.short(&["limits"]).put_creates().taken(&["spec.limits"])
}

fn bindings() -> Kind {
    Kind {
        verbs: Cow::Borrowed(CREATE),
        fields: Vec::new(),
        ..row("bindings", "binding", "Binding", &strategy::BINDING)
    }
}

fn componentstatuses() -> Kind {
    let row = CORE
        .row("componentstatuses", "componentstatus", "ComponentStatus", &strategy::COMPONENT_STATUS)
        .known_as("componentStatuses");
    Kind {
        verbs: Cow::Borrowed(&[Verb::Get, Verb::List]),
        deprecated: Some("v1 ComponentStatus is deprecated in v1.19+"),
        ..row.of_cluster().short(&["cs"])
    }
}

fn endpoints() -> Kind {
    Kind {
        deprecated: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        ..row("endpoints", "endpoints", "Endpoints", &strategy::ENDPOINTS).short(&["ep"]).put_creates()
    }
}

fn events() -> Kind {
    let fields = [
        field("involvedObject.apiVersion"),
        field("involvedObject.fieldPath"),
        field("involvedObject.kind"),
        field("involvedObject.name"),
        field("involvedObject.namespace"),
        field("involvedObject.resourceVersion"),
        field("involvedObject.uid"),
        field("reason"),
        field("reportingComponent"),
        SelectableField {
            path: Cow::Borrowed("source.component"),
            or: Cow::Borrowed("reportingComponent"),
            ..field("source")
        },
        field("type"),
    ];
    let (convert, back) = (forms::show_event, forms::read_event);
    let other_form = Some(Form { api_version: "events.k8s.io/v1", type_name: "events.v1.Event", convert, back });
    Kind {
        fate: None,
        other_form,
        ..row("events", "event", "Event", &strategy::EVENT).short(&["ev"]).selectable(fields).put_creates()
    }
}

/// A field of the document as it is stored.
fn stored_as(label: &'static str, path: &'static str) -> SelectableField {
    SelectableField { label: Cow::Borrowed(label), ..field(path) }
}

fn events_of_their_group() -> Kind {
    let group = Group { name: "events.k8s.io", version: "v1", package: "events" };
    let fields = [
        field("reason"),
        stored_as("regarding.apiVersion", "involvedObject.apiVersion"),
        stored_as("regarding.fieldPath", "involvedObject.fieldPath"),
        stored_as("regarding.kind", "involvedObject.kind"),
        stored_as("regarding.name", "involvedObject.name"),
        stored_as("regarding.namespace", "involvedObject.namespace"),
        stored_as("regarding.resourceVersion", "involvedObject.resourceVersion"),
        stored_as("regarding.uid", "involvedObject.uid"),
        stored_as("reportingController", "reportingComponent"),
        field("type"),
    ];
    let row = group.row("events", "event", "Event", &strategy::EVENT).short(&["ev"]).selectable(fields).put_creates();
    let (convert, back) = (forms::read_event, forms::show_event);
    Kind {
        other_form: Some(Form { api_version: "v1", type_name: "Event", convert, back }),
        alias: Some(Alias { of: ("v1", "Event"), read: forms::read_event, show: forms::show_event }),
        ..row
    }
}

fn namespaces() -> Kind {
    let row =
        row("namespaces", "namespace", "Namespace", &strategy::NAMESPACE).of_cluster().short(&["ns"]).with_status();
    let row =
        row.share(&strategy::namespace::FINALIZE, &[Verb::Update]).selectable([field("status.phase")]).delete_shows();
    Kind {
        verbs: Cow::Borrowed(NAMED),
        keeps_status: false,
        given_unnamed: &["metadata|labels|kubernetes.io/metadata.name"],
        ..row.given(&["spec.finalizers"])
    }
}

fn nodes() -> Kind {
    Kind {
        old: Some(Old { plural: "minions".into(), kind: "Minion".into(), aliases: vec!["nodes".into()] }),
        heartbeats: true,
        keeps_status: false,
        ..row("nodes", "node", "Node", &strategy::NODE)
            .of_cluster()
            .short(&["no"])
            .advised(advice::node)
            .reached(ProxyTarget::Node, "NodeProxyOptions")
            .with_status()
            .selectable([field_or("spec.unschedulable", "false")])
            .given(&["spec.taints"])
    }
}

fn claims() -> Kind {
    let row = CORE
        .row("persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim", &strategy::CLAIM)
        .known_as("persistentVolumeClaims");
    let row = row.given(&["metadata.finalizers", "spec.storageClassName", "spec.dataSourceRef"]);
    row.short(&["pvc"]).advised(advice::claim).with_status().delete_shows()
}

fn volumes() -> Kind {
    let row = CORE
        .row("persistentvolumes", "persistentvolume", "PersistentVolume", &strategy::VOLUME)
        .known_as("persistentVolumes");
    let row = row.given(&["metadata.finalizers"]);
    row.of_cluster().short(&["pv"]).advised(advice::volume).with_status().delete_shows()
}

fn pods() -> Kind {
    let fields = [
        field_or("spec.hostNetwork", "false"),
        field("spec.nodeName"),
        field("spec.restartPolicy"),
        field("spec.schedulerName"),
        field("spec.serviceAccountName"),
        field("status.nominatedNodeName"),
        field("status.phase"),
        field("status.podIP"),
        field("status.podIPs"),
    ];
    let row = row("pods", "pod", "Pod", &strategy::POD).short(&["po"]).in_all().advised(advice::pod);
    let row = row
        .part("binding", "Binding", None, CREATE)
        .part("log", "Pod", None, GET)
        .reached(ProxyTarget::Pod, "PodProxyOptions");
    let row = row.part("attach", "PodAttachOptions", None, STREAM).part("exec", "PodExecOptions", None, STREAM);
    let row = row.part("portforward", "PodPortForwardOptions", None, STREAM);
    let row = row.share(&strategy::ephemeral::EPHEMERAL, PART_VERBS).share(&strategy::resize::RESIZE, PART_VERBS);
    let row = row.with_status().status_keeps(&["ownerReferences"]).evicted(("policy/v1", "PodDisruptionBudget"));
    let given = &[
        "spec.tolerations",
        "spec.serviceAccountName",
        "spec.serviceAccount",
        "spec.priority",
        "spec.preemptionPolicy",
        "spec.nodeName",
    ];
    Kind { keeps_status: false, ..row.selectable(fields).delete_shows().given(given) }
}

fn replicationcontrollers() -> Kind {
    Kind {
        keeps_status: false,
        ..row(
            "replicationcontrollers",
            "replicationcontroller",
            "ReplicationController",
            &strategy::REPLICATION_CONTROLLER,
        )
        .known_as("replicationControllers")
        .short(&["rc"])
        .in_all()
        .with_status()
        .with_scale("spec.selector", Some("autoscaling"))
        .selectable([field_or("status.replicas", "0")])
        .advised(advice::workload)
        .orphans()
    }
}

fn quotas() -> Kind {
    let row = CORE
        .row("resourcequotas", "resourcequota", "ResourceQuota", &strategy::RESOURCE_QUOTA)
        .known_as("resourceQuotas");
    row.short(&["quota"]).with_status().delete_shows()
}

fn secrets() -> Kind {
    row("secrets", "secret", "Secret", &strategy::SECRET).selectable([field("type")]).advised(advice::secret)
}

fn serviceaccounts() -> Kind {
    let row = CORE
        .row("serviceaccounts", "serviceaccount", "ServiceAccount", &strategy::SERVICE_ACCOUNT)
        .known_as("serviceAccounts");
    row.short(&["sa"])
        .advised(advice::account)
        .part("token", "TokenRequest", Some(("authentication.k8s.io", "v1")), CREATE)
        .delete_shows()
}

fn services() -> Kind {
    let row = row("services", "service", "Service", &strategy::SERVICE)
        .short(&["svc"])
        .in_all()
        .advised(advice::service)
        .with_status();
    let row = row.reached(ProxyTarget::Service, "ServiceProxyOptions");
    let row = row.selectable([field("spec.clusterIP"), field("spec.type")]).put_creates().delete_shows();
    let row = row.given(&[
        "spec.clusterIP",
        "spec.clusterIPs",
        "spec.ipFamilies",
        "spec.ipFamilyPolicy",
        "spec.healthCheckNodePort",
        "spec.ports.*.nodePort",
    ]);
    let row =
        row.taken(&["spec.allocateLoadBalancerNodePorts", "spec.externalTrafficPolicy", "spec.internalTrafficPolicy"]);
    Kind { verbs: Cow::Borrowed(ALL), keeps_status: false, ..row }
}
