//! PURE. The file of `--authentication-config`: Kubernetes' `AuthenticationConfiguration`, in YAML or JSON. A field
//! that is not known, or that nothing here acts on, is an error: nothing that was asked for is passed over.

use super::expression::Expression;
use super::form::{ClaimOrExpression, ClaimRule, Extra, File, IssuerPart, Jwt, Mappings, UserRule};
use super::mapping::{Mapping, Rule, Rules};
use crate::cluster_keys::issuer;
use crate::cluster_keys::names::is_name;
use crate::cluster_keys::token::LEGACY_ISSUER;
use coracle_http::{HttpsUrl, check_authorities};
use coracle_schema::yaml;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

pub const FILE_BYTES_MAX: usize = 256 << 10;
/// As in Kubernetes.
const ISSUERS_MAX: usize = 64;
/// Rules, audiences, mappings and conditions, each.
const LIST_MAX: usize = 64;
const API_GROUP: &str = "apiserver.config.k8s.io/";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];
const KIND: &str = "AuthenticationConfiguration";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthenticationConfig {
    pub issuers: Vec<Issuer>,
    /// None: the file does not say.
    pub anonymous: Option<Anonymous>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Issuer {
    pub place: Place,
    pub rules: Rules,
    /// SHA-256 of this part of the file.
    pub print: [u8; 32],
}

/// Where the keys of an issuer are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// As tokens name the issuer.
    pub issuer: String,
    pub discovery: String,
    /// Certificates in PEM. None: those of the host.
    pub authority: Option<String>,
}

/// Who may come without credentials.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Anonymous {
    pub enabled: bool,
    /// Empty: to every path.
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    path: String,
}

impl Anonymous {
    pub fn admits(&self, path: &str) -> bool {
        self.enabled && (self.conditions.is_empty() || self.conditions.iter().any(|condition| condition.path == path))
    }
}

/// Error: the first field that is wrong, and what is wrong with it.
pub fn parse(text: &str) -> Result<AuthenticationConfig, String> {
    if text.len() > FILE_BYTES_MAX {
        return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
    }
    let (mut document, twice) = yaml::read_whole(text, 0)?;
    if let Some(path) = twice.first() {
        return Err(format!("{path} is set twice"));
    }
    without_nulls(&mut document);
    let file: File = serde_json::from_value(document).map_err(|error| error.to_string())?;
    let version = file.api_version.strip_prefix(API_GROUP);
    if file.kind != KIND || !version.is_some_and(|version| VERSIONS.contains(&version)) {
        return Err(format!(
            "apiVersion must be {API_GROUP}v1 and kind {KIND}, not {:?} and {:?}",
            file.api_version, file.kind
        ));
    }
    few("jwt", file.jwt.len(), ISSUERS_MAX)?;
    let issuers: Vec<Issuer> = file
        .jwt
        .into_iter()
        .enumerate()
        .map(|(at, jwt)| issuer(jwt, &format!("jwt[{at}]")))
        .collect::<Result<_, _>>()?;
    for (at, one) in issuers.iter().enumerate() {
        if issuers[..at].iter().any(|other| other.place.issuer == one.place.issuer) {
            return Err(format!("jwt[{at}].issuer.url: {:?} is there twice", one.place.issuer));
        }
        if issuers[..at].iter().any(|other| other.place.discovery == one.place.discovery) {
            return Err(format!("jwt[{at}].issuer.discoveryURL: {:?} is there twice", one.place.discovery));
        }
    }
    let anonymous: Option<Anonymous> = file.anonymous.map(|value| part(value, "anonymous")).transpose()?;
    if let Some(anonymous) = &anonymous {
        few("anonymous.conditions", anonymous.conditions.len(), LIST_MAX)?;
        if !anonymous.enabled && !anonymous.conditions.is_empty() {
            return Err("anonymous.conditions: enabled should be set to true when conditions are defined".to_owned());
        }
    }
    Ok(AuthenticationConfig { issuers, anonymous })
}

/// Kubernetes takes a null for a field that is not there.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn part<T: DeserializeOwned>(value: Value, path: &str) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| format!("{path}: {error}"))
}

fn parts<T: DeserializeOwned>(values: Vec<Value>, path: &str) -> Result<Vec<(String, T)>, String> {
    few(path, values.len(), LIST_MAX)?;
    let one = |(at, value)| {
        let path = format!("{path}[{at}]");
        part(value, &path).map(|found| (path, found))
    };
    values.into_iter().enumerate().map(one).collect()
}

fn few(path: &str, number: usize, most: usize) -> Result<(), String> {
    match number > most {
        true => Err(format!("{path}: {number} are too many, at most {most}")),
        false => Ok(()),
    }
}

fn issuer(jwt: Value, path: &str) -> Result<Issuer, String> {
    let print = Sha256::digest(jwt.to_string()).into();
    let jwt: Jwt = part(jwt, path)?;
    let (place, audiences) = place(part(jwt.issuer, &format!("{path}.issuer"))?, &format!("{path}.issuer"))?;
    let (required, of_claims) = claim_rules(jwt.claim_validation_rules, &format!("{path}.claimValidationRules"))?;
    let at = format!("{path}.claimMappings");
    let mappings: Mappings = part(jwt.claim_mappings, &at)?;
    let username = prefixed(mappings.username, &format!("{at}.username"))?;
    let username = username.ok_or_else(|| format!("{at}.username: claim or expression is required"))?;
    let groups = mappings.groups.map(|groups| prefixed(groups, &format!("{at}.groups"))).transpose()?.flatten();
    let uid = mappings.uid.map(|uid| plain(uid, &format!("{at}.uid"))).transpose()?.flatten();
    let extra = extra(mappings.extra, &format!("{at}.extra"))?;
    let of_users = user_rules(jwt.user_validation_rules, &format!("{path}.userValidationRules"))?;
    let rules = Rules { audiences, required, of_claims, username, groups, uid, extra, of_users };
    check_email(&rules, &at)?;
    Ok(Issuer { place, rules, print })
}

fn place(issuer: IssuerPart, path: &str) -> Result<(Place, Vec<String>), String> {
    let url = |text: &str, field: &str| {
        HttpsUrl::parse(text).map_err(|why| format!("{path}.{field}: {text:?}: {why}")).and_then(|url| {
            match url.query() {
                None => Ok(()),
                Some(_) => Err(format!("{path}.{field}: {text:?}: URL must not contain a query")),
            }
        })
    };
    let IssuerPart { url: name, discovery_url, certificate_authority, audiences, audience_match_policy, .. } = issuer;
    if name.is_empty() {
        return Err(format!("{path}.url: it is required"));
    }
    if issuer::Issuer::is_one(&name) || name == LEGACY_ISSUER {
        return Err(format!("{path}.url: {name:?} is the issuer of this cluster's own tokens"));
    }
    url(&name, "url")?;
    let bare = name.trim_end_matches('/');
    let discovery = match discovery_url.as_str() {
        "" => format!("{bare}/.well-known/openid-configuration"),
        other if other.trim_end_matches('/') == bare => {
            return Err(format!("{path}.discoveryURL: discoveryURL must be different from URL"));
        }
        other => {
            url(other, "discoveryURL")?;
            other.to_owned()
        }
    };
    if !issuer.egress_selector_type.is_empty() {
        return Err(format!("{path}.egressSelectorType: this server has no egress selectors: leave the field out"));
    }
    few(&format!("{path}.audiences"), audiences.len(), LIST_MAX)?;
    if audiences.is_empty() || audiences.iter().any(String::is_empty) {
        return Err(format!("{path}.audiences: at least one audience is required, and none may be empty"));
    }
    if let Some(at) = (0..audiences.len()).find(|at| audiences[..*at].contains(&audiences[*at])) {
        return Err(format!("{path}.audiences[{at}]: {:?} is there twice", audiences[at]));
    }
    match (audiences.len(), audience_match_policy.as_str()) {
        (_, "MatchAny") | (1, "") => {}
        (1, _) => return Err(format!("{path}.audienceMatchPolicy: it must be empty or MatchAny for single audience")),
        _ => return Err(format!("{path}.audienceMatchPolicy: it must be MatchAny for multiple audiences")),
    }
    let authority = Some(certificate_authority).filter(|pem| !pem.is_empty());
    if let Some(pem) = &authority {
        check_authorities(pem.as_bytes()).map_err(|why| format!("{path}.certificateAuthority: {why}"))?;
    }
    Ok((Place { issuer: name, discovery, authority }, audiences))
}

type ClaimRules = (Vec<(String, String)>, Vec<Rule>);

fn claim_rules(rules: Vec<Value>, path: &str) -> Result<ClaimRules, String> {
    let (mut required, mut of_claims) = (Vec::<(String, String)>::new(), Vec::<Rule>::new());
    for (path, ClaimRule { claim, required_value, expression, message }) in parts(rules, path)? {
        match (claim.is_empty(), expression.is_empty()) {
            (true, true) => return Err(format!("{path}: claim or expression is required")),
            (false, false) => return Err(format!("{path}: claim and expression can't both be set")),
            (false, true) if !message.is_empty() => {
                return Err(format!("{path}.message: may not be specified when claim is set"));
            }
            (false, true) if required.iter().any(|(known, _)| *known == claim) => {
                return Err(format!("{path}.claim: {claim:?} is there twice"));
            }
            (false, true) => required.push((claim, required_value)),
            (true, false) if !required_value.is_empty() => {
                return Err(format!("{path}.requiredValue: may not be specified when expression is set"));
            }
            (true, false) => of_claims.push(rule(&expression, message, "claims", &of_claims, &path)?),
        }
    }
    Ok((required, of_claims))
}

fn user_rules(rules: Vec<Value>, path: &str) -> Result<Vec<Rule>, String> {
    let mut of_users = Vec::new();
    for (path, UserRule { expression, message }) in parts(rules, path)? {
        of_users.push(rule(&expression, message, "user", &of_users, &path)?);
    }
    Ok(of_users)
}

fn rule(text: &str, message: String, variable: &str, known: &[Rule], path: &str) -> Result<Rule, String> {
    if known.iter().any(|known| known.expression.text() == text) {
        return Err(format!("{path}.expression: {text:?} is there twice"));
    }
    Ok(Rule { expression: expression(text, variable, &format!("{path}.expression"))?, message })
}

fn expression(text: &str, variable: &str, path: &str) -> Result<Expression, String> {
    if text.is_empty() {
        return Err(format!("{path}: it is required"));
    }
    Expression::parse(text, variable)
        .map_err(|why| format!("{path}: {text:?} is no expression of the supported part of CEL: {why}"))
}

/// A claim with a prefix, or an expression. None: neither is set.
fn prefixed(mapping: Value, path: &str) -> Result<Option<Mapping>, String> {
    let ClaimOrExpression { claim, prefix, expression: text } = part(mapping, path)?;
    match (claim.is_empty(), text.is_empty(), prefix) {
        (false, false, _) => Err(format!("{path}: claim and expression can't both be set")),
        (true, true, None) => Ok(None),
        (true, true, Some(_)) => Err(format!("{path}.claim: it is required where prefix is set")),
        (true, false, Some(_)) => Err(format!("{path}.prefix: may not be specified when expression is set")),
        (true, false, None) => {
            expression(&text, "claims", &format!("{path}.expression")).map(Mapping::Expression).map(Some)
        }
        (false, true, None) => Err(format!(
            "{path}.prefix: prefix is required when claim is set. It can be set to an empty string to disable prefixing"
        )),
        (false, true, Some(prefix)) => Ok(Some(Mapping::Claim { name: claim, prefix })),
    }
}

/// A claim or an expression. None: neither is set.
fn plain(mapping: Value, path: &str) -> Result<Option<Mapping>, String> {
    let ClaimOrExpression { claim, prefix, expression: text } = part(mapping, path)?;
    match (claim.is_empty(), text.is_empty()) {
        _ if prefix.is_some() => Err(format!("{path}: unknown field `prefix`")),
        (false, false) => Err(format!("{path}: claim and expression can't both be set")),
        (true, true) => Ok(None),
        (false, true) => Ok(Some(Mapping::Claim { name: claim, prefix: String::new() })),
        (true, false) => expression(&text, "claims", &format!("{path}.expression")).map(Mapping::Expression).map(Some),
    }
}

fn extra(mappings: Vec<Value>, path: &str) -> Result<Vec<(String, Expression)>, String> {
    let mut found = Vec::<(String, Expression)>::new();
    for (path, Extra { key, value_expression }) in parts(mappings, path)? {
        let wrong = |why: &str| Err(format!("{path}.key: {key:?}: {why}"));
        let Some((domain, rest)) = key.split_once('/').filter(|(_, rest)| !rest.is_empty()) else {
            return wrong("must be a domain-prefixed path (such as \"acme.io/foo\")");
        };
        if key != key.to_lowercase() {
            return wrong("must be lowercase");
        }
        let is_path = rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#[]\"<>\\^`{|}".contains(&byte));
        if !is_name(domain) || domain.starts_with("*.") || !is_path {
            return wrong("must be a domain-prefixed path (such as \"acme.io/foo\")");
        }
        if ["k8s.io", "kubernetes.io"].iter().any(|own| domain == *own || domain.ends_with(&format!(".{own}"))) {
            return wrong("k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use");
        }
        if found.iter().any(|(known, _)| *known == key) {
            return wrong("it is there twice");
        }
        let expression = expression(&value_expression, "claims", &format!("{path}.valueExpression"))?;
        found.push((key, expression));
    }
    Ok(found)
}

/// An address that nobody has verified could be anybody's.
fn check_email(rules: &Rules, path: &str) -> Result<(), String> {
    let reads = |expression: &Expression, claim: &str| expression.reads("claims", claim);
    let Mapping::Expression(username) = &rules.username else { return Ok(()) };
    let extra = rules.extra.iter().map(|(_, expression)| expression);
    let mut all = rules.of_claims.iter().map(|rule| &rule.expression).chain(extra).chain([username]);
    match reads(username, "email") && !all.any(|expression| reads(expression, "email_verified")) {
        true => Err(format!(
            "{path}.username.expression: claims.email_verified must be used in claimMappings.username.expression or \
             claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used \
             in claimMappings.username.expression"
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
