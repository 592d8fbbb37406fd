//! One row a kind that has few rules of its own.

use super::{Strategy, general, nothing, without_status};

const IN_NAMESPACE: Strategy = general::strategy::<false, false>();
const IN_NAMESPACE_COUNTED: Strategy = general::strategy::<false, true>();
const OF_CLUSTER: Strategy = general::strategy::<true, false>();
const OF_CLUSTER_COUNTED: Strategy = general::strategy::<true, true>();

pub static COMPONENT_STATUS: Strategy = OF_CLUSTER;
pub static CONFIG_MAP: Strategy = IN_NAMESPACE;
pub static SECRET: Strategy = IN_NAMESPACE;
pub static SERVICE_ACCOUNT: Strategy = IN_NAMESPACE;
pub static LIMIT_RANGE: Strategy = IN_NAMESPACE;
pub static RESOURCE_QUOTA: Strategy = Strategy { durable: without_status, ..IN_NAMESPACE };
pub static POD_TEMPLATE: Strategy = IN_NAMESPACE_COUNTED;
pub static CLAIM: Strategy = IN_NAMESPACE;
pub static VOLUME: Strategy = OF_CLUSTER;

pub static CONTROLLER_REVISION: Strategy = IN_NAMESPACE;
pub static JOB: Strategy = IN_NAMESPACE_COUNTED;
pub static CRON_JOB: Strategy = IN_NAMESPACE_COUNTED;
pub static AUTOSCALER: Strategy = Strategy { durable: without_status, ..IN_NAMESPACE };
pub static DISRUPTION_BUDGET: Strategy = Strategy { durable: without_status, ..IN_NAMESPACE_COUNTED };

pub static SIGNING_REQUEST: Strategy = OF_CLUSTER;
pub static LEASE: Strategy = Strategy { durable: nothing, ..IN_NAMESPACE };
pub static ENDPOINT_SLICE: Strategy = IN_NAMESPACE_COUNTED;
pub static INGRESS: Strategy = Strategy { durable: without_status, ..IN_NAMESPACE_COUNTED };
pub static INGRESS_CLASS: Strategy = OF_CLUSTER_COUNTED;
pub static NETWORK_POLICY: Strategy = IN_NAMESPACE_COUNTED;
pub static RUNTIME_CLASS: Strategy = OF_CLUSTER;
pub static CLUSTER_ROLE: Strategy = OF_CLUSTER;
pub static CLUSTER_ROLE_BINDING: Strategy = OF_CLUSTER;
pub static ROLE: Strategy = IN_NAMESPACE;
pub static ROLE_BINDING: Strategy = IN_NAMESPACE;
pub static PRIORITY_CLASS: Strategy = OF_CLUSTER_COUNTED;

pub static CSI_DRIVER: Strategy = OF_CLUSTER;
pub static CSI_NODE: Strategy = OF_CLUSTER;
pub static CSI_CAPACITY: Strategy = IN_NAMESPACE;
pub static STORAGE_CLASS: Strategy = OF_CLUSTER;
pub static VOLUME_ATTACHMENT: Strategy = Strategy { durable: without_status, ..OF_CLUSTER };
pub static ATTRIBUTES_CLASS: Strategy = OF_CLUSTER;
