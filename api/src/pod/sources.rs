//! The configuration of containers: variables, and volumes made of objects and of the pod itself.

use super::{ObjectFieldSelector, ResourceFieldSelector};
use serde::Deserialize;
use serde_json::Value;

/// All variables of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EnvFromSource {
    pub prefix: String,
    pub config_map_ref: Option<OptionalObject>,
    pub secret_ref: Option<OptionalObject>,
}

/// A ConfigMap or Secret of the pod's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OptionalObject {
    pub name: String,
    pub optional: Option<bool>,
}

/// One key of a ConfigMap or Secret of the pod's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KeySelector {
    pub name: String,
    pub key: String,
    pub optional: Option<bool>,
}

/// A volume of a ConfigMap, or the part of one in a projected volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConfigMapProjection {
    pub name: String,
    /// None: every key is a file.
    pub items: Vec<KeyToPath>,
    pub optional: Option<bool>,
    /// The default mode, of a volume alone.
    pub default_mode: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecretVolumeSource {
    pub secret_name: String,
    pub items: Vec<KeyToPath>,
    pub optional: Option<bool>,
    pub default_mode: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KeyToPath {
    pub key: String,
    pub path: String,
    pub mode: Option<i32>,
}

/// A downward API volume, or the downward API source in a projected volume.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DownwardApiProjection {
    pub items: Vec<DownwardApiFile>,
    /// Of a volume alone.
    pub default_mode: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DownwardApiFile {
    pub path: String,
    pub field_ref: Option<ObjectFieldSelector>,
    pub resource_field_ref: Option<ResourceFieldSelector>,
    pub mode: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProjectedVolumeSource {
    pub sources: Vec<VolumeProjection>,
    pub default_mode: Option<i32>,
}

/// Exactly one is given.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeProjection {
    pub secret: Option<ConfigMapProjection>,
    pub config_map: Option<ConfigMapProjection>,
    #[serde(rename = "downwardAPI")]
    pub downward_api: Option<DownwardApiProjection>,
    pub service_account_token: Option<ServiceAccountTokenProjection>,
    pub cluster_trust_bundle: Option<Value>,
    pub pod_certificate: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceAccountTokenProjection {
    /// Empty: the API server's own.
    pub audience: String,
    pub expiration_seconds: Option<i64>,
    pub path: String,
}

/// Durable storage that the pod does not describe itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaimVolumeSource {
    pub claim_name: String,
    pub read_only: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NfsVolumeSource {
    pub server: String,
    pub path: String,
    pub read_only: bool,
}

/// A directory of a host, of a PersistentVolume alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LocalVolumeSource {
    pub path: String,
}
