//! The request of a client that acts as another user: what follows sees only the user that the client has become.

use super::Serve;
use super::impersonation::{Attempt, Mode, wanted};
use crate::authorize::Attributes;
use crate::fault::Fault;
use coracle_http::{HeaderName, Request};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Clients of which the mode is remembered.
const CLIENTS_MAX: usize = 256;

/// By which mode each client was allowed to act as another user last.
#[derive(Default)]
pub struct Impersonations(Mutex<BTreeMap<String, Mode>>);

impl Impersonations {
    fn last(&self, client: &str) -> Option<Mode> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(client).copied()
    }

    fn note(&self, client: &str, mode: Mode) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Only the words of a refusal depend on the memory, and one more question to the authorizer.
        if last.len() >= CLIENTS_MAX && !last.contains_key(client) {
            last.clear();
        }
        last.insert(client.to_owned(), mode);
    }
}

/// The request as the wanted user's. `Ok(None)`: the client acts for itself.
pub fn acting(serve: &Serve, attributes: &Attributes, request: &Request) -> Result<Option<Request>, Fault> {
    let Some(wanted) = wanted(&request.headers).map_err(Fault::bad_request)? else { return Ok(None) };
    let (client, authorizer) = (&*request.identity, &*serve.authorizer);
    let attempt = Attempt { wanted: &wanted, attributes, client, authorizer };
    let (identity, mode) =
        attempt.decide(serve.impersonations.last(&client.user)).map_err(|status| Fault::from(*status))?;
    serve.impersonations.note(&client.user, mode);
    let mut headers = request.headers.clone();
    let asked: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
    asked.iter().for_each(|name| drop(headers.remove(name)));
    let (method, target, body) = (request.method.clone(), request.target.clone(), request.body.clone());
    Ok(Some(Request { method, target, headers, body, caller: request.caller.clone(), identity: Arc::new(identity) }))
}

#[cfg(test)]
mod tests {
    use super::super::tests::serve;
    use coracle_http::{Body, Caller, HeaderMap, HeaderName, HeaderValue, Identity, Method, Request};
    use serde_json::{Value, json};
    use std::sync::Arc;

    #[test]
    fn what_follows_sees_the_wanted_user() {
        let (serve, _) = serve();
        let ask = |fields: &[(&'static str, &'static str)]| {
            let field = |(name, value): &(&'static str, &'static str)| {
                (HeaderName::from_static(name), HeaderValue::from_static(value))
            };
            let headers: HeaderMap = fields.iter().map(field).collect();
            let identity = Arc::new(Identity { credential: Some("shown".into()), ..Identity::administrator() });
            let target = "/apis/authentication.k8s.io/v1/selfsubjectreviews".parse().expect("a path");
            let (method, body, caller) = (Method::POST, "{}".into(), Caller::Local);
            let answer = serve.answer(&Request { method, target, headers, body, caller, identity });
            let Body::Whole(body) = answer.body else { panic!("it is whole") };
            let document: Value = serde_json::from_slice(&body).expect("JSON");
            let told = if answer.status.is_success() { &document["status"]["userInfo"] } else { &document["message"] };
            (answer.status.as_u16(), told.clone())
        };
        let bob = json!({"username": "bob", "uid": "u1", "groups": ["g", "system:authenticated"],
            "extra": {"example.com/a": ["x"]}});
        let fields = [
            ("impersonate-user", "bob"),
            ("impersonate-group", "g"),
            ("impersonate-uid", "u1"),
            ("impersonate-extra-example.com%2fa", "x"),
        ];
        assert_eq!(ask(&fields), (201, bob));
        assert_eq!(ask(&[]).1["username"], "system:admin");
        let words = "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, \
                     Extra:map[string][]string(nil)} without impersonating a user name";
        assert_eq!(ask(&fields[1..2]), (400, words.into()));
    }
}
