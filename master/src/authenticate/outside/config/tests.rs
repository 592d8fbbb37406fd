use super::*;
use serde_json::json;

fn good() -> Value {
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": [{
            "issuer": {"url": "https://id.example.com/", "audiences": ["kube"]},
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        }],
    })
}

/// The good file with other values at these pointers; null removes one.
fn changed(changes: &[(&str, Value)]) -> Result<AuthenticationConfig, String> {
    let mut document = good();
    for (pointer, value) in changes {
        let (above, field) = pointer.rsplit_once('/').expect("a pointer");
        let above = document.pointer_mut(above).expect("it is there");
        match above {
            Value::Array(list) => list.push(value.clone()),
            above => above[field] = value.clone(),
        }
    }
    parse(&document.to_string())
}

#[test]
fn a_file_in_yaml() {
    let text = "
apiVersion: apiserver.config.k8s.io/v1beta1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: https://id.example.com
    discoveryURL: https://inside.example.com:8443/keys
    audiences: [kube, other]
    audienceMatchPolicy: MatchAny
  claimValidationRules:
  - claim: hd
    requiredValue: example.com
  - expression: claims.?email_verified.orValue(true) == true
    message: verify the address
  claimMappings:
    username:
      expression: '\"oidc:\" + claims.email'
    groups:
      claim: roles
      prefix: 'oidc:'
    uid:
      claim: sub
    extra:
    - key: example.com/tenant
      valueExpression: claims.tenant
  userValidationRules:
  - expression: '!user.username.startsWith(\"system:\")'
    message: reserved
anonymous:
  enabled: true
  conditions:
  - path: /livez
";
    let found = parse(text).expect("a file");
    let [one] = found.issuers.as_slice() else { panic!("{found:?}") };
    assert_eq!(one.place.discovery, "https://inside.example.com:8443/keys");
    assert_eq!(one.rules.audiences, ["kube", "other"]);
    assert_eq!((one.rules.required.len(), one.rules.of_claims.len(), one.rules.of_users.len()), (1, 1, 1));
    let anonymous = found.anonymous.expect("it is said");
    assert_eq!(["/livez", "/livez/", "/"].map(|path| anonymous.admits(path)), [true, false, false]);
    let plain = changed(&[]).expect("a file");
    assert_eq!(plain.issuers[0].place.discovery, "https://id.example.com/.well-known/openid-configuration");
    assert_eq!(plain.anonymous, None);
    assert_ne!(one.print, plain.issuers[0].print);
}

#[test]
fn what_is_refused() {
    let issuer = |field: &str, value: Value| vec![(format!("/jwt/0/issuer/{field}"), value)];
    let jwt = |field: &str, value: Value| vec![(format!("/jwt/0/{field}"), value)];
    let mapping = |field: &str, value: Value| vec![(format!("/jwt/0/claimMappings/{field}"), value)];
    let rules = |rules: Value| jwt("claimValidationRules", rules);
    let username = |value: Value| mapping("username", value);
    let extra = |key: &str| mapping("extra", json!([{"key": key, "valueExpression": "claims.a"}]));
    let checks: Vec<(Vec<(String, Value)>, &str)> = vec![
        (vec![("/kind".into(), json!("Other"))], "apiVersion must be apiserver.config.k8s.io/v1"),
        (vec![("/apiVersion".into(), json!("apiserver.config.k8s.io/v2"))], "apiVersion must be"),
        (vec![("/more".into(), json!(1))], "unknown field `more`"),
        (
            vec![("/jwt/-".into(), good()["jwt"][0].clone())],
            "jwt[1].issuer.url: \"https://id.example.com/\" is there twice",
        ),
        (vec![("/jwt".into(), json!(vec![1; 65]))], "jwt: 65 are too many, at most 64"),
        (issuer("url", json!("")), "jwt[0].issuer.url: it is required"),
        (issuer("url", json!("http://id.example.com")), "must be https"),
        (issuer("url", json!("https://u:p@id.example.com")), "username or password"),
        (issuer("url", json!("https://id.example.com?a=b")), "must not contain a query"),
        (issuer("url", json!("https://id.example.com#a")), "must not contain a fragment"),
        (issuer("url", json!(issuer::Issuer::default().name())), "the issuer of this cluster's own tokens"),
        (issuer("url", json!(LEGACY_ISSUER)), "the issuer of this cluster's own tokens"),
        (issuer("discoveryURL", json!("https://id.example.com")), "must be different from URL"),
        (issuer("discoveryURL", json!("ldap://x")), "jwt[0].issuer.discoveryURL"),
        (issuer("audiences", json!([])), "at least one audience"),
        (issuer("audiences", json!([""])), "none may be empty"),
        (issuer("audiences", json!(["a", "a"])), "is there twice"),
        (issuer("audiences", json!(["a", "b"])), "must be MatchAny for multiple audiences"),
        (issuer("audienceMatchPolicy", json!("All")), "must be empty or MatchAny"),
        (issuer("certificateAuthority", json!("x")), "jwt[0].issuer.certificateAuthority: "),
        (issuer("egressSelectorType", json!("cluster")), "no egress selectors"),
        (issuer("more", json!(1)), "jwt[0].issuer: unknown field `more`"),
        (rules(json!([{}])), "claimValidationRules[0]: claim or expression is required"),
        (rules(json!([{"claim": "a", "expression": "true"}])), "can't both be set"),
        (rules(json!([{"claim": "a", "message": "m"}])), "claimValidationRules[0].message"),
        (rules(json!([{"claim": "a"}, {"claim": "a"}])), "claimValidationRules[1].claim: \"a\" is there twice"),
        (rules(json!([{"expression": "true", "requiredValue": "m"}])), "requiredValue: may not"),
        (rules(json!([{"expression": "true"}, {"expression": "true"}])), "[1].expression: \"true\" is there twice"),
        (
            rules(json!([{"expression": "claims.a.matches('x')"}])),
            "jwt[0].claimValidationRules[0].expression: \"claims.a.matches('x')\" is no expression of the supported \
             part of CEL: the function matches() is not known here",
        ),
        (jwt("userValidationRules", json!([{}])), "userValidationRules[0].expression: it is required"),
        (jwt("userValidationRules", json!([{"expression": "claims.a"}])), "undeclared reference to \"claims\""),
        (username(json!({})), "claimMappings.username: claim or expression is required"),
        (username(json!({"claim": "sub"})), "prefix is required when claim is set"),
        (username(json!({"claim": "sub", "prefix": "", "expression": "claims.sub"})), "can't both be set"),
        (username(json!({"prefix": "a", "expression": "claims.sub"})), "username.prefix: may not be specified"),
        (username(json!({"expression": "claims.email"})), "claims.email_verified must be used"),
        (mapping("groups", json!({"claim": "g"})), "claimMappings.groups.prefix: prefix is required"),
        (mapping("groups", json!({"prefix": "g"})), "claimMappings.groups.claim"),
        (mapping("uid", json!({"claim": "g", "prefix": ""})), "claimMappings.uid: unknown field `prefix`"),
        (mapping("uid", json!({"claim": "g", "expression": "claims.a"})), "can't both be set"),
        (mapping("extra", json!([{"key": "a.b/c"}])), "extra[0].valueExpression: it is required"),
        (extra("c"), "domain-prefixed path"),
        (extra("a.b/C"), "must be lowercase"),
        (extra("x.k8s.io/c"), "reserved for Kubernetes"),
        (vec![("/anonymous".into(), json!({}))], "anonymous: missing field `enabled`"),
        (
            vec![("/anonymous".into(), json!({"enabled": false, "conditions": [{"path": "/"}]}))],
            "enabled should be set to true",
        ),
    ];
    for (changes, expected) in checks {
        let changes: Vec<(&str, Value)> = changes.iter().map(|(at, value)| (at.as_str(), value.clone())).collect();
        let why = changed(&changes).map(|_| ()).expect_err(expected);
        assert!(why.contains(expected), "{changes:?}: {why}");
    }
    let text = good().to_string();
    for (text, expected) in [
        (String::new(), "invalid type"),
        ("a: [".to_owned(), ""),
        (format!("{text}\n---\n{text}"), ""),
        (text.replacen("\"kind\"", "\"kind\":\"x\",\"kind\"", 1), "kind is set twice"),
        (" ".repeat(FILE_BYTES_MAX + 1), "more than"),
    ] {
        let why = parse(&text).map(|_| ()).expect_err(expected);
        assert!(why.contains(expected), "{text}: {why}");
    }
}
