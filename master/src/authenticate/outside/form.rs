//! PURE. The form of Kubernetes' `AuthenticationConfiguration`, part by part: a field that is not here is an error.
//! Parts that stand below others are values, so that an error can name their place.

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct File {
    pub api_version: String,
    pub kind: String,
    #[serde(default)]
    pub jwt: Vec<Value>,
    pub anonymous: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Jwt {
    pub issuer: Value,
    #[serde(default)]
    pub claim_validation_rules: Vec<Value>,
    pub claim_mappings: Value,
    #[serde(default)]
    pub user_validation_rules: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct IssuerPart {
    pub url: String,
    #[serde(rename = "discoveryURL")]
    pub discovery_url: String,
    pub certificate_authority: String,
    pub audiences: Vec<String>,
    pub audience_match_policy: String,
    pub egress_selector_type: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ClaimRule {
    pub claim: String,
    pub required_value: String,
    pub expression: String,
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mappings {
    pub username: Value,
    pub groups: Option<Value>,
    pub uid: Option<Value>,
    #[serde(default)]
    pub extra: Vec<Value>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimOrExpression {
    pub claim: String,
    pub prefix: Option<String>,
    pub expression: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Extra {
    pub key: String,
    pub value_expression: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserRule {
    pub expression: String,
    pub message: String,
}
