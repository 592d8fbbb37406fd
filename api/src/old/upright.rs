//! v1beta3, of 2015: metadata, spec and status as in v1, a few names that v1 gave up, and none of what came later. The
//! fields are told one by one all the same: clients of v1beta3 drop unknown fields before a PUT.

use super::common::REFERENCE;
use super::container::{EXEC, FIELD_SELECTOR, MOUNT, PORT, SECURITY, TCP_SOCKET};
use super::endpoints;
use super::minion::{ABOUT, ADDRESS};
use super::place::get;
use super::pod::{RUNNING, SECRET_NAME, TERMINATION, WAITING};
use super::service::{BALANCER, TYPE};
use super::shape::{Blank, Field, Form, Own, Shape, field, ignored, own, said, same};
use super::volume::{
    BLOCK_STORE, DISK, EMPTY_DIR, GLUSTERFS, ISCSI, NFS, PATH, RBD, REPOSITORY, VOLUME_CLAIM, merge_source_of,
};

/// The same of a place in the spec or the status: `under! { "spec": "phase": Form::Text }`.
macro_rules! under {
    ($above:literal: $($name:literal: $form:expr),* $(,)?) => {
        &[$(field($name, &[$above, $name], $form)),*]
    };
}

/// The metadata of every kind.
pub(super) const META: &[Field] = &[
    ignored("kind").also(&["apiVersion"]),
    field("metadata", &["metadata"], Form::Object(&METADATA)).blank(Blank::Map),
];

static METADATA: Shape = Shape(&[&[
    field("name", &["name"], Form::Text).given(),
    field("generateName", &["generateName"], Form::Text).given(),
    field("namespace", &["namespace"], Form::Text).given(),
    field("uid", &["uid"], Form::Text).given(),
    field("generation", &["generation"], Form::Number).given(),
    field("creationTimestamp", &["creationTimestamp"], Form::Text).given().blank(Blank::Null),
    field("deletionTimestamp", &["deletionTimestamp"], Form::Text).given(),
    field("resourceVersion", &["resourceVersion"], Form::Text),
    field("labels", &["labels"], Form::TextMap),
    field("annotations", &["annotations"], Form::TextMap),
    ignored("selfLink"),
]]);

/// The metadata of the pods that a template makes.
static TEMPLATE_METADATA: Shape = Shape(&[
    same! { "name": Form::Text, "generateName": Form::Text, "namespace": Form::Text, "labels": Form::TextMap,
    "annotations": Form::TextMap },
    &[ignored("creationTimestamp").also(&["uid", "resourceVersion", "selfLink", "generation", "deletionTimestamp"])],
]);

pub(super) static POD: Shape =
    Shape(&[META, SPEC_OF_PODS, &[field("status", &[], Form::Object(&POD_STATUS)).observed().lax()]]);

const SPEC_OF_PODS: &[Field] = &[field("spec", &[], Form::Object(&POD_SPEC))];

static TEMPLATE: Shape =
    Shape(&[&[field("metadata", &["metadata"], Form::Object(&TEMPLATE_METADATA)).blank(Blank::Map)], SPEC_OF_PODS]);

pub(super) static POD_TEMPLATE: Shape = Shape(&[META, same! { "template": Form::Object(&TEMPLATE) }]);

static POD_SPEC: Shape = Shape(&[
    under! { "spec":
        "volumes": Form::List(&VOLUME, &["name"]),
        "containers": Form::List(&CONTAINER, &["name"]),
        "restartPolicy": Form::Text,
        "terminationGracePeriodSeconds": Form::Count,
        "activeDeadlineSeconds": Form::Count,
        "dnsPolicy": Form::Text,
        "nodeSelector": Form::TextMap,
        "hostNetwork": Form::Flag,
        "imagePullSecrets": Form::List(&SECRET_NAME, &["name"]),
    },
    &[
        field("serviceAccount", &["spec", "serviceAccountName"], Form::Text).also(&["serviceAccountName"]),
        field("host", &["spec", "nodeName"], Form::Text).given().also(&["nodeName"]),
    ],
]);

static CONTAINER: Shape = Shape(&[
    same! {
        "name": Form::Text,
        "image": Form::Text,
        "command": Form::Texts,
        "args": Form::Texts,
        "workingDir": Form::Text,
        "ports": Form::List(&PORT, &["containerPort", "protocol"]),
        "env": Form::List(&ENV, &["name"]),
        "resources": Form::Object(&RESOURCES),
        "volumeMounts": Form::List(&MOUNT, &["name", "mountPath"]),
        "livenessProbe": Form::Present(&PROBE),
        "readinessProbe": Form::Present(&PROBE),
        "lifecycle": Form::Object(&LIFECYCLE),
        "terminationMessagePath": Form::Text,
        "imagePullPolicy": Form::Text,
    },
    &[own("privileged", &["capabilities", "securityContext"], &SECURITY)],
]);

pub(super) static RESOURCES: Shape = Shape(&[same! { "limits": Form::Plain, "requests": Form::Plain }]);

static ENV: Shape =
    Shape(&[same! { "name": Form::Text, "value": Form::Text, "valueFrom": Form::Object(&VALUE_SOURCE) }]);

/// Earlier in 2015 it was called as in the flat versions.
static VALUE_SOURCE: Shape =
    Shape(&[&[field("fieldRef", &["fieldRef"], Form::Present(&FIELD_SELECTOR)).also(&["fieldPath"])]]);

static PROBE: Shape =
    Shape(&[HANDLER_FIELDS, same! { "initialDelaySeconds": Form::Number, "timeoutSeconds": Form::Number }]);

static LIFECYCLE: Shape = Shape(&[same! { "postStart": Form::Present(&HANDLER), "preStop": Form::Present(&HANDLER) }]);

static HANDLER: Shape = Shape(&[HANDLER_FIELDS]);

const HANDLER_FIELDS: &[Field] = same! { "exec": Form::Present(&EXEC), "httpGet": Form::Present(&HTTP_GET),
"tcpSocket": Form::Present(&TCP_SOCKET) };

static HTTP_GET: Shape =
    Shape(&[same! { "path": Form::Text, "port": Form::PortOrName, "host": Form::Text, "scheme": Form::Text }]);

static VOLUME: Shape = Shape(&[same! { "name": Form::Text }, &[own("hostPath", OTHER_SOURCES, &SOURCE)]]);

/// All but the first.
const OTHER_SOURCES: &[&str] = &[
    "emptyDir",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
];

const SOURCE_FIELDS: &[Field] = same! {
    "hostPath": Form::Present(&PATH),
    "emptyDir": Form::Present(&EMPTY_DIR),
    "gcePersistentDisk": Form::Present(&DISK),
    "awsElasticBlockStore": Form::Present(&BLOCK_STORE),
    "gitRepo": Form::Present(&REPOSITORY),
    "secret": Form::Present(&SECRET_BY_NAME),
    "nfs": Form::Present(&NFS),
    "iscsi": Form::Present(&ISCSI),
    "glusterfs": Form::Present(&GLUSTERFS),
    "persistentVolumeClaim": Form::Present(&VOLUME_CLAIM),
    "rbd": Form::Present(&RBD),
};

pub(super) static SOURCES: Shape = Shape(&[SOURCE_FIELDS]);

static SECRET_BY_NAME: Shape = Shape(&[same! { "secretName": Form::Text }]);

static SOURCE: Own = Own {
    read: |from, into, path, seen| {
        let is_source = |name: &str| SOURCE_FIELDS.iter().any(|field| field.name == name);
        let sources =
            from.iter().filter(|(name, _)| is_source(name)).map(|(name, value)| (name.clone(), value.clone()));
        SOURCES.read(&sources.collect(), into, path, seen);
    },
    show: |v1, out| out.extend(SOURCES.show(v1)),
    governs: &[],
    words: SOURCE_FIELDS,
    merge: Some(|stored, new| merge_source_of(&SOURCES, stored, new)),
};

static POD_STATUS: Shape = Shape(&[
    under! { "status":
        "phase": Form::Text,
        "message": Form::Text,
        "reason": Form::Text,
        "hostIP": Form::Text,
        "podIP": Form::Text,
        "startTime": Form::Text,
        "containerStatuses": Form::List(&CONTAINER_STATUS, &["name"]),
    },
    &[
        // The capital is this version's.
        field("Condition", &["status", "conditions"], Form::List(&POD_CONDITION, &["type"])).also(&["conditions"]),
        // Of early 2015; v1 knows one node name, the desired one.
        said("host", |v1| get(v1, &["spec", "nodeName"]).filter(|host| *host != "").cloned()),
    ],
]);

static POD_CONDITION: Shape = Shape(&[same! { "type": Form::Text, "status": Form::Text }]);

static CONTAINER_STATUS: Shape = Shape(&[&[
    field("name", &["name"], Form::Text).blank(NONE),
    field("state", &["state"], Form::Object(&STATE)),
    field("lastState", &["lastState"], Form::Object(&STATE)),
    field("ready", &["ready"], Form::Flag).blank(Blank::False),
    field("restartCount", &["restartCount"], Form::Count).blank(Blank::Zero),
    field("image", &["image"], Form::Text).blank(NONE),
    field("imageID", &["imageID"], Form::Text).blank(NONE),
    field("containerID", &["containerID"], Form::Text),
]]);

const NONE: Blank = Blank::Text("");

static STATE: Shape = Shape(&[&[
    field("waiting", &["waiting"], Form::Present(&WAITING)),
    field("running", &["running"], Form::Present(&RUNNING)),
    field("termination", &["terminated"], Form::Present(&TERMINATION)),
]]);

pub(super) static CONTROLLER: Shape = Shape(&[
    META,
    &[
        field("spec", &[], Form::Object(&CONTROLLER_SPEC)),
        field("status", &[], Form::Object(&CONTROLLER_STATUS)).observed().lax(),
    ],
]);

static CONTROLLER_SPEC: Shape = Shape(&[under! { "spec":
    "replicas": Form::Count,
    "selector": Form::TextMap,
    "template": Form::Object(&TEMPLATE),
}]);

static CONTROLLER_STATUS: Shape = Shape(&[&[
    field("replicas", &["status", "replicas"], Form::Count).blank(Blank::Zero),
    field("observedGeneration", &["status", "observedGeneration"], Form::Number),
]]);

pub(super) static SERVICE: Shape = Shape(&[
    META,
    &[
        field("spec", &[], Form::Object(&SERVICE_SPEC)),
        field("status", &[], Form::Object(&SERVICE_STATUS)).observed().lax(),
    ],
]);

static SERVICE_SPEC: Shape = Shape(&[
    under! { "spec":
        "ports": Form::List(&SERVICE_PORT, &["name"]),
        "selector": Form::TextMap,
    },
    &[
        own("type", &["createExternalLoadBalancer"], &TYPE),
        field("portalIP", &["spec", "clusterIP"], Form::Text).given().also(&["clusterIP"]),
        field("publicIPs", &["spec", "externalIPs"], Form::Texts),
        field("sessionAffinity", &["spec", "sessionAffinity"], Form::Text).blank(Blank::Text("None")),
    ],
]);

static SERVICE_PORT: Shape = Shape(&[&[
    field("name", &["name"], Form::Text),
    field("protocol", &["protocol"], Form::Upper),
    field("port", &["port"], Form::Number).blank(Blank::Zero),
    field("targetPort", &["targetPort"], Form::PortOrName).also(&["containerPort"]),
    field("nodePort", &["nodePort"], Form::Number).given(),
]]);

static SERVICE_STATUS: Shape = Shape(&[under! { "status": "loadBalancer": Form::Object(&BALANCER) }]);

pub(super) static ENDPOINTS: Shape =
    Shape(&[META, &[field("subsets", &["subsets"], Form::List(&endpoints::SUBSET, &[])).blank(Blank::Null)]]);

pub(super) static NODE: Shape = Shape(&[
    META,
    &[field("spec", &[], Form::Object(&NODE_SPEC)), field("status", &[], Form::Object(&NODE_STATUS)).observed()],
]);

static NODE_SPEC: Shape = Shape(&[
    under! { "spec": "unschedulable": Form::Flag },
    &[
        field("podCIDR", &["spec", "podCIDR"], Form::Text).given(),
        field("providerID", &["spec", "providerID"], Form::Text).given(),
        field("externalID", &["spec", "externalID"], Form::Text),
    ],
]);

static NODE_STATUS: Shape = Shape(&[under! { "status":
    "capacity": Form::Plain,
    "phase": Form::Text,
    "conditions": Form::List(&NODE_CONDITION, &["type"]),
    "addresses": Form::List(&ADDRESS, &["type", "address"]),
    "nodeInfo": Form::Object(&NODE_INFO),
}]);

static NODE_CONDITION: Shape = Shape(&[
    same! { "type": Form::Text, "status": Form::Text, "lastTransitionTime": Form::Text, "reason": Form::Text,
    "message": Form::Text },
    &[field("lastHeartbeatTime", &["lastHeartbeatTime"], Form::Text).also(&["lastProbeTime"])],
]);

static NODE_INFO: Shape = Shape(&[ABOUT, &[field("kubeProxyVersion", &["kubeProxyVersion"], Form::Text).blank(NONE)]]);

pub(super) static EVENT: Shape = Shape(&[
    META,
    same! {
        "involvedObject": Form::Object(&REFERENCE),
        "reason": Form::Text,
        "message": Form::Text,
        "source": Form::Object(&EVENT_SOURCE),
        "firstTimestamp": Form::Text,
        "lastTimestamp": Form::Text,
        "count": Form::Number,
    },
]);

static EVENT_SOURCE: Shape = Shape(&[same! { "component": Form::Text, "host": Form::Text }]);

pub(super) static NAMESPACE: Shape = Shape(&[
    META,
    &[
        field("spec", &["spec"], Form::Object(&NAMESPACE_SPEC)).blank(Blank::Map),
        field("status", &["status"], Form::Object(&NAMESPACE_STATUS)).blank(Blank::Map).observed().lax(),
    ],
]);

pub(super) static NAMESPACE_SPEC: Shape = Shape(&[&[field("finalizers", &["finalizers"], Form::Texts).given()]]);

pub(super) static NAMESPACE_STATUS: Shape = Shape(&[same! { "phase": Form::Text }]);

pub(super) static BINDING: Shape = Shape(&[META, same! { "target": Form::Object(&REFERENCE) }]);
