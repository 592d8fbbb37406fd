//! Requests for tokens and what is said of tokens. PURE.

use super::doc::{default_to, list, map_at, number, text};
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

const LIFE_S_DEFAULT: i64 = 3600;
/// A shorter life would be over before clocks agree.
const LIFE_S_MIN: i64 = 600;
const LIFE_S_MAX: i64 = 1 << 32;

/// Sets the defaults of a token request.
pub fn complete(request: &mut Value) {
    map_at(request, "spec");
    default_to(&mut request["spec"], "expirationSeconds", LIFE_S_DEFAULT);
    default_to(request, "apiVersion", "authentication.k8s.io/v1");
    default_to(request, "kind", "TokenRequest");
    default_to(request, "metadata", json!({}));
    if request["spec"].get("boundObjectRef").is_none() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
}

/// Every problem of a request.
pub fn problems(request: &Value) -> Vec<Problem> {
    let (spec, path) = (&request["spec"], Path::new("spec"));
    let mut found = Vec::new();
    let life_s = number(spec, "expirationSeconds").unwrap_or_default();
    let words = match life_s {
        ..LIFE_S_MIN => Some("may not specify a duration less than 10 minutes"),
        LIFE_S_MIN..=LIFE_S_MAX => None,
        _ => Some("may not specify a duration larger than 2^32 seconds"),
    };
    found.extend(words.map(|words| Problem::invalid(&path.field("expirationSeconds"), life_s, words)));
    for (at, _) in list(spec, "audiences").iter().enumerate().filter(|(_, audience)| audience.as_str() == Some("")) {
        found.push(Problem::required(&path.field("audiences").index(at), ""));
    }
    if spec["boundObjectRef"].is_object() && text(&spec["boundObjectRef"], "name").is_empty() {
        found.push(Problem::required(&path.field("boundObjectRef").field("name"), ""));
    }
    found
}

/// The status of a review: the token is this user's, and for these audiences.
pub fn accepted(user: &Value, audiences: &[String]) -> Value {
    json!({"authenticated": true, "user": user, "audiences": audiences})
}

/// The status of a review: the token is nobody's.
pub fn refused(why: &str) -> Value {
    json!({"user": {}, "error": why})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives() {
        for (life_s, expected) in [
            (json!(null), ""),
            (json!(600), ""),
            (json!(1i64 << 32), ""),
            (json!(599), "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes"),
            (
                json!((1i64 << 32) + 1),
                "spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 \
                 seconds",
            ),
        ] {
            let mut request = json!({"spec": {"expirationSeconds": life_s}});
            complete(&mut request);
            assert_eq!(problems(&request).iter().map(Problem::to_string).collect::<String>(), expected);
        }
    }
}
