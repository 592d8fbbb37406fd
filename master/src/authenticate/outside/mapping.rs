//! PURE. Whom the claims of a token name: the audiences, rules and mappings of one issuer.

use super::expression::{Expression, Value};
use super::jwt::Claims;
use coracle_http::Identity;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Groups of one user: a token has no room for more.
const GROUPS_MAX: usize = 1024;

/// The rules for the tokens of an issuer, and the identity that a token gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    pub audiences: Vec<String>,
    /// Claims with their values.
    pub required: Vec<(String, String)>,
    pub of_claims: Vec<Rule>,
    pub username: Mapping,
    pub groups: Option<Mapping>,
    pub uid: Option<Mapping>,
    pub extra: Vec<(String, Expression)>,
    pub of_users: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Mapping {
    Claim { name: String, prefix: String },
    Expression(Expression),
}

/// A truth, and what is said where it is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub expression: Expression,
    pub message: String,
}

impl Rules {
    /// Whose token this is, once its signature and its times are found good.
    pub fn identity(&self, claims: &Claims) -> Result<Identity, String> {
        self.check_audience(claims)?;
        let all = Json::Object(claims.clone());
        let mut identity = Identity {
            user: self.user(claims, &all)?,
            groups: self.groups(claims, &all)?,
            uid: self.uid(claims, &all)?,
            extra: self.extra(&all)?,
            ..Identity::none()
        };
        for (name, wanted) in &self.required {
            let found =
                claims.get(name).ok_or_else(|| format!("oidc: required claim {name} not present in ID token"))?;
            if found.as_str() != Some(wanted) {
                return Err(format!(
                    "oidc: required claim {name} value does not match. Got = {found}, want = {wanted}"
                ));
            }
        }
        holds(&self.of_claims, "claims", &all)?;
        let user = json!({
            "username": identity.user, "uid": identity.uid, "groups": identity.groups, "extra": identity.extra,
        });
        holds(&self.of_users, "user", &user)?;
        if !identity.groups.iter().any(|group| group == Identity::AUTHENTICATED) {
            identity.groups.push(Identity::AUTHENTICATED.to_owned());
        }
        Ok(identity)
    }

    fn check_audience(&self, claims: &Claims) -> Result<(), String> {
        let of = match claims.get("aud") {
            Some(Json::String(one)) => vec![one.as_str()],
            Some(Json::Array(list)) => list.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        };
        match of.iter().any(|one| self.audiences.iter().any(|wanted| wanted == one)) {
            true => Ok(()),
            false => Err(format!("oidc: expected audience in {:?} got {of:?}", self.audiences)),
        }
    }

    fn user(&self, claims: &Claims, all: &Json) -> Result<String, String> {
        let user = match &self.username {
            Mapping::Expression(expression) => match value(expression, "claims", all)? {
                Json::String(user) => user,
                _ => return Err(failed(expression, "it gives no text for the username")),
            },
            Mapping::Claim { name, prefix } => {
                let user =
                    claim_text(claims, name).map_err(|why| format!("oidc: parse username claims {name:?}: {why}"))?;
                if name == "email" {
                    check_email(claims)?;
                }
                format!("{prefix}{user}")
            }
        };
        match user.is_empty() {
            true => Err("oidc: the username is empty".to_owned()),
            false => Ok(user),
        }
    }

    fn groups(&self, claims: &Claims, all: &Json) -> Result<Vec<String>, String> {
        let groups = match &self.groups {
            None => Vec::new(),
            Some(Mapping::Expression(expression)) => {
                texts(value(expression, "claims", all)?).map_err(|why| failed(expression, why))?
            }
            Some(Mapping::Claim { name, prefix }) => match claims.get(name) {
                None | Some(Json::Null) => Vec::new(),
                Some(Json::String(one)) => vec![format!("{prefix}{one}")],
                Some(Json::Array(list)) => {
                    let texts: Option<Vec<String>> =
                        list.iter().map(|one| Some(format!("{prefix}{}", one.as_str()?))).collect();
                    texts.ok_or_else(|| format!("oidc: parse groups claim {name:?}: it holds more than texts"))?
                }
                Some(_) => {
                    return Err(format!("oidc: parse groups claim {name:?}: it is no text and no list of texts"));
                }
            },
        };
        match groups.len() > GROUPS_MAX {
            true => Err(format!("the token names {} groups, at most {GROUPS_MAX}", groups.len())),
            false => Ok(groups),
        }
    }

    fn uid(&self, claims: &Claims, all: &Json) -> Result<String, String> {
        match &self.uid {
            None => Ok(String::new()),
            Some(Mapping::Claim { name, .. }) => {
                claim_text(claims, name).map_err(|why| format!("oidc: parse uid claim {name:?}: {why}"))
            }
            Some(Mapping::Expression(expression)) => match value(expression, "claims", all)? {
                Json::String(uid) => Ok(uid),
                _ => Err(failed(expression, "it gives no text for the uid")),
            },
        }
    }

    fn extra(&self, all: &Json) -> Result<BTreeMap<String, Vec<String>>, String> {
        let mut extra = BTreeMap::new();
        for (key, expression) in &self.extra {
            let found = texts(value(expression, "claims", all)?).map_err(|why| failed(expression, why))?;
            if !found.is_empty() {
                extra.insert(key.clone(), found);
            }
        }
        Ok(extra)
    }
}

/// An address that nobody has verified is not the user's.
fn check_email(claims: &Claims) -> Result<(), String> {
    match claims.get("email_verified") {
        None | Some(Json::Bool(true)) => Ok(()),
        Some(Json::Bool(false) | Json::Null) => Err("oidc: email not verified".to_owned()),
        Some(_) => Err("oidc: parse 'email_verified' claim: it is neither true nor false".to_owned()),
    }
}

fn claim_text(claims: &Claims, name: &str) -> Result<String, &'static str> {
    let value = claims.get(name).ok_or("claim not present")?;
    value.as_str().map(str::to_owned).ok_or("it is no text")
}

fn failed(expression: &Expression, why: &str) -> String {
    format!("oidc: error evaluating {:?}: {why}", expression.text())
}

fn value(expression: &Expression, variable: &str, of: &Json) -> Result<Json, String> {
    match expression.evaluate(&[(variable, of)]).map_err(|why| failed(expression, &why))? {
        Value::Json(value) => Ok(value),
        Value::Optional(_) => Err(failed(expression, "it gives an optional value, which orValue() would make a value")),
    }
}

fn holds(rules: &[Rule], variable: &str, of: &Json) -> Result<(), String> {
    for rule in rules {
        if value(&rule.expression, variable, of)? != Json::Bool(true) {
            let Rule { expression, message } = rule;
            return Err(format!("oidc: validation expression '{}' failed: {message}", expression.text()));
        }
    }
    Ok(())
}

/// Nothing, a text or a list of texts. Empty texts do not count.
fn texts(value: Json) -> Result<Vec<String>, &'static str> {
    let list = match value {
        Json::Null => Vec::new(),
        Json::Array(list) => list,
        one => vec![one],
    };
    let texts = list.into_iter().map(|one| match one {
        Json::String(text) => Ok(text),
        _ => Err("expression must return a string or a list of strings"),
    });
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str, prefix: &str) -> Mapping {
        Mapping::Claim { name: name.to_owned(), prefix: prefix.to_owned() }
    }

    fn expression(text: &str, variable: &str) -> Expression {
        Expression::parse(text, variable).expect("an expression")
    }

    fn rules() -> Rules {
        Rules {
            audiences: vec!["kube".into(), "other".into()],
            required: Vec::new(),
            of_claims: Vec::new(),
            username: claim("sub", "oidc:"),
            groups: Some(claim("groups", "g:")),
            uid: None,
            extra: Vec::new(),
            of_users: Vec::new(),
        }
    }

    fn check(rules: &Rules, change: Json, expected: Result<(&str, &[&str]), &str>) {
        let mut claims = json!({"aud": "kube", "sub": "ann"});
        for (name, value) in change.as_object().into_iter().flatten() {
            claims[name] = value.clone();
        }
        let found = rules.identity(claims.as_object().expect("claims"));
        match (found, expected) {
            (Ok(found), Ok((user, groups))) => {
                let groups: Vec<&str> = groups.iter().copied().chain([Identity::AUTHENTICATED]).collect();
                assert_eq!(
                    (found.user.as_str(), found.groups),
                    (user, groups.into_iter().map(str::to_owned).collect())
                );
            }
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{change}: {why}"),
            (found, expected) => panic!("{change}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn claims_as_kubernetes_reads_them() {
        let plain = rules();
        check(&plain, json!({}), Ok(("oidc:ann", &[])));
        check(&plain, json!({"aud": ["x", "other"]}), Ok(("oidc:ann", &[])));
        check(&plain, json!({"aud": "x"}), Err("expected audience in [\"kube\", \"other\"] got [\"x\"]"));
        check(&plain, json!({"aud": null}), Err("expected audience"));
        check(&plain, json!({"groups": "a"}), Ok(("oidc:ann", &["g:a"])));
        check(&plain, json!({"groups": ["a", "b"]}), Ok(("oidc:ann", &["g:a", "g:b"])));
        check(&plain, json!({"groups": ["a", 1]}), Err("parse groups claim \"groups\""));
        check(&plain, json!({"groups": 1}), Err("parse groups claim \"groups\""));
        check(&plain, json!({"groups": vec!["a"; GROUPS_MAX + 1]}), Err("at most 1024"));
        check(&plain, json!({"sub": 1}), Err("parse username claims \"sub\""));
        let bare = Rules { username: claim("name", ""), ..rules() };
        check(&bare, json!({}), Err("claim not present"));
        check(&bare, json!({"name": ""}), Err("the username is empty"));
        let email = Rules { username: claim("email", ""), ..rules() };
        check(&email, json!({"email": "a@b.c"}), Ok(("a@b.c", &[])));
        check(&email, json!({"email": "a@b.c", "email_verified": true}), Ok(("a@b.c", &[])));
        check(&email, json!({"email": "a@b.c", "email_verified": false}), Err("email not verified"));
        check(&email, json!({"email": "a@b.c", "email_verified": null}), Err("email not verified"));
        check(&email, json!({"email": "a@b.c", "email_verified": "true"}), Err("parse 'email_verified' claim"));
        let required = Rules { required: vec![("hd".into(), "x".into())], ..rules() };
        check(&required, json!({"hd": "x"}), Ok(("oidc:ann", &[])));
        check(&required, json!({}), Err("required claim hd not present"));
        check(&required, json!({"hd": "y"}), Err("value does not match"));
        check(&required, json!({"hd": ["x"]}), Err("value does not match"));
    }

    #[test]
    fn expressions() {
        let all = Rules {
            username: Mapping::Expression(expression("'u:' + claims.sub", "claims")),
            groups: Some(Mapping::Expression(expression("claims.?roles.orValue([])", "claims"))),
            uid: Some(Mapping::Expression(expression("claims.oid", "claims"))),
            extra: vec![("example.com/tenant".into(), expression("claims.?tenant.orValue('')", "claims"))],
            of_claims: vec![Rule { expression: expression("claims.level > 1", "claims"), message: "too low".into() }],
            of_users: vec![Rule {
                expression: expression("user.groups.all(g, !g.startsWith('system:'))", "user"),
                message: "reserved".into(),
            }],
            ..rules()
        };
        check(&all, json!({"oid": "1", "level": 2, "roles": ["a", ""]}), Ok(("u:ann", &["a"])));
        check(&all, json!({"oid": "1", "level": 1}), Err("'claims.level > 1' failed: too low"));
        check(&all, json!({"oid": "1"}), Err("no such key: level"));
        check(&all, json!({"oid": 1, "level": 2}), Err("no text for the uid"));
        check(&all, json!({"level": 2}), Err("no such key: oid"));
        check(&all, json!({"oid": "1", "level": 2, "roles": ["system:masters"]}), Err("failed: reserved"));
        check(&all, json!({"oid": "1", "level": 2, "roles": [1]}), Err("a string or a list of strings"));
        let claims = json!({"aud": "kube", "sub": "ann", "oid": "1", "level": 2, "tenant": "t"});
        let found = all.identity(claims.as_object().expect("claims")).expect("it fits");
        assert_eq!((found.uid.as_str(), &found.extra["example.com/tenant"]), ("1", &vec!["t".to_owned()]));
    }
}
