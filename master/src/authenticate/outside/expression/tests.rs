use super::*;
use serde_json::json;

#[test]
fn values() {
    let claims = json!({"sub": "ann", "email": "ann@example.com", "roles": ["a", "b", ""], "role": "x,y", "exp": 200,
        "nbf": 100, "rate": 1.5, "deep": {"er": {"still": true}}, "odd-name": "o", "none": null});
    for (text, expected) in [
        ("claims.sub", Ok(json!("ann"))),
        ("claims['odd-name']", Ok(json!("o"))),
        ("\"oidc:\" + claims.sub", Ok(json!("oidc:ann"))),
        ("claims.sub == 'ann' && claims.exp - claims.nbf <= 100", Ok(json!(true))),
        ("claims.exp > 199 || claims.missing", Ok(json!(true))),
        ("claims.missing || claims.exp > 199", Ok(json!(true))),
        ("claims.missing && claims.exp < 199", Ok(json!(false))),
        ("claims.missing || false", Err("no such key: missing")),
        ("claims.?email_verified.orValue(true) == true", Ok(json!(true))),
        ("!claims.?email_verified", Err("orValue() would make a value")),
        ("claims.?deep.er.?still.orValue(false)", Ok(json!(true))),
        ("has(claims.deep.er) && !has(claims.deep.no)", Ok(json!(true))),
        ("claims.role.split(',')", Ok(json!(["x", "y"]))),
        ("claims.roles + claims.role.split(',')", Ok(json!(["a", "b", "", "x", "y"]))),
        ("claims.roles.all(r, !r.startsWith('system:'))", Ok(json!(true))),
        ("claims.roles.exists(r, r == 'b')", Ok(json!(true))),
        ("claims.roles.filter(r, r != '').map(r, 'p:' + r)", Ok(json!(["p:a", "p:b"]))),
        ("claims.roles.map(r, r.upperAscii()).join('-')", Ok(json!("A-B-"))),
        ("'a' in claims.roles && 'sub' in claims && !('c' in claims.roles)", Ok(json!(true))),
        ("size(claims.roles) == 3 && claims.sub.size() == 3", Ok(json!(true))),
        ("claims.exp == 200 && claims.rate < 2 && -1 < 0", Ok(json!(true))),
        ("claims.sub == 'bob' ? 'b' : claims.sub == 'ann' ? 'a' : 'c'", Ok(json!("a"))),
        ("claims.none == null", Ok(json!(true))),
        ("claims.roles[1]", Ok(json!("b"))),
        ("claims.roles[9]", Err("out of bounds")),
        ("claims.sub.er", Err("no such overload")),
        ("claims.sub + 1", Err("no such overload")),
        ("claims.roles.all(r, r)", Err("no such overload")),
        ("!claims.sub", Err("no such overload")),
        ("claims.exp + 9223372036854775807", Err("overflow")),
    ] {
        let parsed = Expression::parse(text, "claims").unwrap_or_else(|why| panic!("{text}: {why}"));
        match (parsed.evaluate(&[("claims", &claims)]), expected) {
            (Ok(found), expected) => assert_eq!(Ok(found), expected.map(Value::Json).map_err(str::to_owned), "{text}"),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{text}: {why}"),
            (Err(why), Ok(_)) => panic!("{text}: {why}"),
        }
    }
}

#[test]
fn what_is_not_known_is_refused() {
    for (text, variable, expected) in [
        ("", "claims", "ends too early"),
        ("claims.", "claims", "a name is expected"),
        ("claims.a claims.b", "claims", "\"claims\" is not expected"),
        ("user.username", "claims", "undeclared reference to \"user\""),
        ("user.name", "user", "undefined field \"name\""),
        ("user['name']", "user", "undefined field \"name\""),
        ("claims.a.matches('x')", "claims", "matches() is not known"),
        ("int(claims.a)", "claims", "int() is not known"),
        ("claims.a.startsWith()", "claims", "startsWith() is not known"),
        ("{'a': 1}", "claims", "\"{\" is not expected"),
        ("claims.a * 2", "claims", "'*' is not known"),
        ("1.5 < 2", "claims", "a name is expected"),
        ("0x10", "claims", "not known"),
        ("'a", "claims", "no end"),
        ("'\\u0041'", "claims", "escape"),
        ("claims.a.all(claims, true)", "claims", "cannot be the name"),
        ("has(claims)", "claims", "takes a field"),
        (&"(".repeat(5000), "claims", "at most 4096"),
        (&"(".repeat(4000), "claims", "nested deeper"),
        (&"!".repeat(4000), "claims", "not expected"),
        (&"-".repeat(4000), "claims", "not expected"),
        (&"1+".repeat(2000), "claims", "more than 128"),
    ] {
        let why = Expression::parse(text, variable).map(|_| ()).expect_err(text);
        assert!(why.contains(expected), "{text}: {why}");
    }
}

#[test]
fn steps_are_bounded() {
    let claims = json!({"l": vec!["x"; 1000]});
    let text = "claims.l.all(a, claims.l.all(b, a == b))";
    let found = Expression::parse(text, "claims").expect("it is known").evaluate(&[("claims", &claims)]);
    assert!(found.expect_err("it is too much").contains("steps"));
}

#[test]
fn reading_fields() {
    for (text, expected) in [
        ("claims.email", true),
        ("claims['email']", true),
        ("claims.?email.orValue('')", true),
        ("claims.a == 'x' ? claims.b : claims.email", true),
        ("[claims.a, claims.email].all(x, x != '')", true),
        ("claims.a.email", false),
        ("claims.emails", false),
    ] {
        let parsed = Expression::parse(text, "claims").unwrap_or_else(|why| panic!("{text}: {why}"));
        assert_eq!(parsed.reads("claims", "email"), expected, "{text}");
    }
}
