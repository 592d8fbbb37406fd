//! Names and networks, roles, classes, certificates, leases.

use super::kind::{Kind, Verb};
use super::row::PART_VERBS;
use super::row::{Group, field};
use crate::strategy::{self, advice};
use std::borrow::Cow;

const ADMISSION: Group =
    Group { name: "admissionregistration.k8s.io", version: "v1", package: "admissionregistration" };
const FLOW: Group = Group { name: "flowcontrol.apiserver.k8s.io", version: "v1", package: "flowcontrol" };
const DEVICES: Group = Group { name: "resource.k8s.io", version: "v1", package: "resource" };
const SERVERS: Group = Group { name: "apiregistration.k8s.io", version: "v1", package: "apiregistration" };
const EXTENSIONS: Group = Group { name: "apiextensions.k8s.io", version: "v1", package: "apiextensions" };
const CERTIFICATES: Group = Group { name: "certificates.k8s.io", version: "v1", package: "certificates" };
const LEASES: Group = Group { name: "coordination.k8s.io", version: "v1", package: "coordination" };
const DISCOVERY: Group = Group { name: "discovery.k8s.io", version: "v1", package: "discovery" };
const NETWORKING: Group = Group { name: "networking.k8s.io", version: "v1", package: "networking" };
const RUNTIMES: Group = Group { name: "node.k8s.io", version: "v1", package: "node" };
const RBAC: Group = Group { name: "rbac.authorization.k8s.io", version: "v1", package: "rbac" };
const SCHEDULING: Group = Group { name: "scheduling.k8s.io", version: "v1", package: "scheduling" };

pub fn rows() -> Vec<Kind> {
    let mut rows = policies();
    rows.extend(flows());
    rows.extend(addresses());
    rows.extend(devices());
    rows.extend(vec![
        webhooks("mutatingwebhookconfigurations", "mutatingwebhookconfiguration", "MutatingWebhookConfiguration"),
        webhooks("validatingwebhookconfigurations", "validatingwebhookconfiguration", "ValidatingWebhookConfiguration"),
        definitions(),
        servers(),
        CERTIFICATES
            .row(
                "certificatesigningrequests",
                "certificatesigningrequest",
                "CertificateSigningRequest",
                &strategy::SIGNING_REQUEST,
            )
            .of_cluster()
            .short(&["csr"])
            .share(&strategy::APPROVAL, PART_VERBS)
            .with_status()
            .selectable([field("spec.signerName")])
            .unowned(&["spec"]),
        LEASES.row("leases", "lease", "Lease", &strategy::LEASE).put_creates().put_names_revision(),
        DISCOVERY
            .row("endpointslices", "endpointslice", "EndpointSlice", &strategy::ENDPOINT_SLICE)
            .taken(&["endpoints", "ports"])
            .advised(advice::slice),
        NETWORKING.row("ingressclasses", "ingressclass", "IngressClass", &strategy::INGRESS_CLASS).of_cluster().idle(),
        NETWORKING
            .row("ingresses", "ingress", "Ingress", &strategy::INGRESS)
            .advised(advice::ingress)
            .given(&["spec.ingressClassName"])
            .short(&["ing"])
            .with_status()
            .idle(),
        NETWORKING
            .row("networkpolicies", "networkpolicy", "NetworkPolicy", &strategy::NETWORK_POLICY)
            .short(&["netpol"])
            .advised(advice::network_policy)
            .idle(),
        RUNTIMES
            .row("runtimeclasses", "runtimeclass", "RuntimeClass", &strategy::RUNTIME_CLASS)
            .of_cluster()
            .advised(advice::runtime_class)
            .put_creates()
            .put_names_revision(),
        RBAC.row("clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding", &strategy::CLUSTER_ROLE_BINDING)
            .of_cluster()
            .put_creates(),
        RBAC.row("clusterroles", "clusterrole", "ClusterRole", &strategy::CLUSTER_ROLE)
            .of_cluster()
            .put_creates()
            .taken(&["rules"]),
        RBAC.row("rolebindings", "rolebinding", "RoleBinding", &strategy::ROLE_BINDING).put_creates(),
        RBAC.row("roles", "role", "Role", &strategy::ROLE).put_creates().taken(&["rules"]),
        SCHEDULING
            .row("priorityclasses", "priorityclass", "PriorityClass", &strategy::PRIORITY_CLASS)
            .of_cluster()
            .short(&["pc"]),
    ]);
    rows
}

fn policies() -> Vec<Kind> {
    let row = |plural, singular, kind, strategy| {
        let row = ADMISSION.row(plural, singular, kind, strategy).of_cluster().in_category("api-extensions");
        row.put_names_revision().idle()
    };
    vec![
        row(
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicy",
            "MutatingAdmissionPolicy",
            &strategy::MUTATING_POLICY,
        ),
        row(
            "mutatingadmissionpolicybindings",
            "mutatingadmissionpolicybinding",
            "MutatingAdmissionPolicyBinding",
            &strategy::MUTATING_BINDING,
        ),
        row(
            "validatingadmissionpolicies",
            "validatingadmissionpolicy",
            "ValidatingAdmissionPolicy",
            &strategy::VALIDATING_POLICY,
        )
        .with_status(),
        row(
            "validatingadmissionpolicybindings",
            "validatingadmissionpolicybinding",
            "ValidatingAdmissionPolicyBinding",
            &strategy::VALIDATING_BINDING,
        ),
    ]
}

fn flows() -> Vec<Kind> {
    vec![
        FLOW.row("flowschemas", "flowschema", "FlowSchema", &strategy::FLOW_SCHEMA)
            .of_cluster()
            .with_status()
            .put_creates()
            .put_names_revision(),
        FLOW.row(
            "prioritylevelconfigurations",
            "prioritylevelconfiguration",
            "PriorityLevelConfiguration",
            &strategy::PRIORITY_LEVEL,
        )
        .of_cluster()
        .with_status()
        .put_creates()
        .put_names_revision(),
    ]
}

fn addresses() -> Vec<Kind> {
    vec![
        NETWORKING.row("ipaddresses", "ipaddress", "IPAddress", &strategy::IP_ADDRESS).of_cluster().short(&["ip"]),
        NETWORKING
            .row("servicecidrs", "servicecidr", "ServiceCIDR", &strategy::SERVICE_RANGE)
            .of_cluster()
            .with_status(),
    ]
}

fn devices() -> Vec<Kind> {
    vec![
        DEVICES
            .row("deviceclasses", "deviceclass", "DeviceClass", &strategy::DEVICE_CLASS)
            .of_cluster()
            .delete_shows()
            .idle(),
        DEVICES
            .row("resourceclaims", "resourceclaim", "ResourceClaim", &strategy::RESOURCE_CLAIM)
            .with_status()
            .delete_shows()
            .idle(),
        DEVICES
            .row("resourceclaimtemplates", "resourceclaimtemplate", "ResourceClaimTemplate", &strategy::CLAIM_TEMPLATE)
            .delete_shows()
            .idle(),
        DEVICES
            .row("resourceslices", "resourceslice", "ResourceSlice", &strategy::RESOURCE_SLICE)
            .of_cluster()
            .delete_shows()
            .selectable([field("spec.driver"), field("spec.nodeName")])
            .idle(),
    ]
}

/// There are none yet, and none can be made. kubectl lists them for every kind that knows no PATCH (reviews, bindings)
/// before it checks a manifest, and gives up where that is not found.
fn definitions() -> Kind {
    let row = EXTENSIONS.row(
        "customresourcedefinitions",
        "customresourcedefinition",
        "CustomResourceDefinition",
        &strategy::DEFINITION,
    );
    Kind {
        verbs: Cow::Borrowed(&[Verb::Get, Verb::List, Verb::Watch]),
        ..row.of_cluster().short(&["crd", "crds"]).in_category("api-extensions")
    }
}

/// Nor these. Clients check for the group before a discovery of the kinds.
fn servers() -> Kind {
    let row = SERVERS.row("apiservices", "apiservice", "APIService", &strategy::DEFINITION);
    Kind {
        verbs: Cow::Borrowed(&[Verb::Get, Verb::List, Verb::Watch]),
        ..row.of_cluster().in_category("api-extensions")
    }
}

/// Stored as data only: manifests of today contain webhook configurations, and the installation of such a manifest must
/// not fail.
fn webhooks(plural: &'static str, singular: &'static str, kind: &'static str) -> Kind {
    ADMISSION
        .row(plural, singular, kind, &strategy::WEBHOOKS)
        .of_cluster()
        .in_category("api-extensions")
        .put_names_revision()
        .idle()
}
