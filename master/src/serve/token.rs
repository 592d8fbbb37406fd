//! Tokens of service accounts: given out for a TokenRequest, and judged by a TokenReview.
//!
//! A token is bound to what it names: see `authenticate` for the ways in which it ends.

use super::body::{self, Expected};
use super::{Serve, options, shown, warn, write};
use crate::authenticate::Accepted;
use crate::call::Call;
use crate::cluster_keys::ClusterKeys;
use crate::cluster_keys::issuer::Issuer;
use crate::cluster_keys::token::{Bearer, Bound, Claims, Life};
use crate::fault::Fault;
use crate::prepare;
use crate::render::{self, Message};
use coracle_api::kinds::Kind;
use coracle_api::meta::{Key, Resource, Time};
use coracle_api::status::Status;
use coracle_api::strategy::token;
use coracle_api::types::MACHINERY;
use coracle_http::{Answer, Identity, Request, StatusCode};
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

const REQUEST: Expected<'static> = Expected {
    group: "authentication.k8s.io",
    version: "v1",
    kind: "TokenRequest",
    type_name: "authentication.v1.TokenRequest",
    types: &MACHINERY,
};

/// An object that a token may be bound to: the token ends with it.
const BINDINGS: [(&str, &str); 3] = [("Pod", "pods"), ("Node", "nodes"), ("Secret", "secrets")];

pub fn give(serve: &Serve, call: &Call, request: &Request) -> Result<Answer, Fault> {
    let wish = options::wish(call, &request.headers, "CreateOptions")?;
    let mut sent = body::document(serve, call, request, REQUEST)?;
    let mut object = sent.object_mut().take();
    write::right_namespace(call, &object)?;
    token::complete(&mut object);
    let named = object["metadata"]["name"].as_str().unwrap_or_default();
    if !named.is_empty() && named != call.name {
        let problem =
            Problem::invalid(&Path::new("metadata.name"), named, "must match the service account name if specified");
        return Err(Status::invalid_of(REQUEST.group, REQUEST.kind, &call.name, &[problem]).into());
    }
    let reference = &object["spec"]["boundObjectRef"];
    if !reference.is_null() {
        may_hold(reference)?;
    }
    let problems = token::problems(&object);
    if !problems.is_empty() {
        return Err(Status::invalid_of(REQUEST.group, REQUEST.kind, "", &problems).into());
    }
    let account = write::parsed(&serve.standing(call)?)?;
    let about = ("token", call.namespace.as_str(), call.name.as_str());
    let admitted = serve.registry.admits(call.kind, about, &mut object, &request.identity);
    admitted.map_err(|refusal| Fault::unfit(call, &call.name, refusal))?;
    let now = serve.authenticator.now();
    prepare::answered(&mut object, (REQUEST.type_name, "token"), &wish.manager, now);
    let bearer = bearer(serve, call, &account, &object["spec"]["boundObjectRef"])?;
    let issuer = serve.authenticator.issuer();
    if object["spec"]["audiences"].as_array().is_none_or(Vec::is_empty) {
        object["spec"]["audiences"] = json!([issuer.name()]);
    }
    let audiences = texts(&object["spec"]["audiences"]);
    let asked_s = object["spec"]["expirationSeconds"].as_i64().unwrap_or_default();
    let life = Life::of(asked_s, bearer.pod.is_some() && audiences.iter().all(|audience| Issuer::is_one(audience)));
    let told_s = life.told_s();
    if told_s < asked_s {
        sent.warnings.push(format!("requested expiration of {asked_s} seconds shortened to {told_s} seconds"));
        object["spec"]["expirationSeconds"] = told_s.into();
    }
    let claims = Claims::new(&issuer, bearer, audiences, serve.registry.maker.uuid(), (now, life));
    let meta = &account["metadata"];
    object["metadata"]["name"] = meta["name"].clone();
    object["metadata"]["namespace"] = meta["namespace"].clone();
    object["metadata"]["uid"] = meta["uid"].clone();
    object["metadata"]["creationTimestamp"] = now.to_string().into();
    let until = Time::from_seconds(now.seconds().saturating_add(told_s)).unwrap_or(now);
    // A rehearsal makes nothing that counts.
    let token = if wish.rehearsal { String::new() } else { keys(serve)?.token(&claims) };
    object["status"] = json!({"token": token, "expirationTimestamp": until.to_string()});
    let mut answer = shown(
        call,
        StatusCode::CREATED,
        render::document(call.form, Message::Machinery(REQUEST.type_name), &object, now),
    );
    warn(&mut answer, &sent.warnings);
    Ok(answer)
}

fn keys(serve: &Serve) -> Result<&ClusterKeys, Fault> {
    let why = "this cluster's signing key cannot be used, see the master's log";
    serve.keys.as_deref().ok_or_else(|| Status::internal_error(why).into())
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn bearer(serve: &Serve, call: &Call, account: &Value, reference: &Value) -> Result<Bearer, Fault> {
    let (namespace, serviceaccount) = (call.namespace.clone(), bound(account));
    let mut bearer = Bearer { namespace, node: None, pod: None, secret: None, serviceaccount, warnafter: None };
    if reference.is_null() {
        return Ok(bearer);
    }
    let said = |field: &str| reference[field].as_str().unwrap_or_default();
    let (kind, plural) = may_hold(reference)?;
    let namespace = if *kind == "Node" { "" } else { &call.namespace };
    let object = object(serve, plural, namespace, said("name"))?;
    let object = object.ok_or_else(|| Fault::from(Status::not_found(&Resource::core(plural), said("name"))))?;
    let found = bound(&object);
    if !said("uid").is_empty() && said("uid") != found.uid {
        let why = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The object might have been \
             deleted and then recreated",
            said("uid")
        );
        return Err(Status::conflict(&Resource::core(kind), said("name"), &why).into());
    }
    match *kind {
        "Pod" => {
            if object["spec"]["serviceAccountName"] != *call.name {
                let why = format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    call.name
                );
                return Err(Fault::bad_request(why));
            }
            let node = object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty());
            bearer.node = node.map(|name| {
                let uid = self::object(serve, "nodes", "", name)
                    .ok()
                    .flatten()
                    .map(|node| bound(&node).uid)
                    .unwrap_or_default();
                Bound { name: name.to_owned(), uid }
            });
            bearer.pod = Some(found);
        }
        "Node" => bearer.node = Some(found),
        _ => bearer.secret = Some(found),
    }
    Ok(bearer)
}

/// The object that a token is to be bound to, by its reference.
fn may_hold(reference: &Value) -> Result<&'static (&'static str, &'static str), Fault> {
    let said = |field: &str| reference[field].as_str().unwrap_or_default();
    BINDINGS.iter().find(|(kind, _)| *kind == said("kind") && said("apiVersion") == "v1").ok_or_else(|| {
        let (group, version) = said("apiVersion").split_once('/').unwrap_or(("", said("apiVersion")));
        Fault::bad_request(format!("cannot bind token to object of type {group}/{version}, Kind={}", said("kind")))
    })
}

fn bound(object: &Value) -> Bound {
    let said = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    Bound { name: said("name"), uid: said("uid") }
}

fn object(serve: &Serve, plural: &'static str, namespace: &str, name: &str) -> Result<Option<Value>, Fault> {
    let key = Key { resource: Resource::core(plural), namespace: namespace.to_owned(), name: name.to_owned() };
    let stored = serve.registry.store.get(&key).map_err(|damaged| Fault::damaged(&key, &damaged.why))?;
    stored.map(|stored| write::parsed(&stored)).transpose()
}

pub fn is_review(kind: &Kind) -> bool {
    kind.resource.plural == "tokenreviews"
}

/// The status of a review: whose token it is, or why it is nobody's.
pub fn review(serve: &Serve, spec: &Value) -> Value {
    let own = || vec![serve.authenticator.issuer().name().to_owned()];
    let wanted = Some(texts(&spec["audiences"])).filter(|wanted| !wanted.is_empty()).unwrap_or_else(own);
    match serve.authenticator.token(spec["token"].as_str().unwrap_or_default(), &wanted) {
        Ok(Accepted { identity, audiences }) => token::accepted(&user(&identity), &audiences),
        Err(refused) => token::refused(&refused.to_string()),
    }
}

fn user(identity: &Identity) -> Value {
    let Identity { user, uid, groups, extra, .. } = identity;
    let mut shown = json!({"username": user});
    if !uid.is_empty() {
        shown["uid"] = uid.clone().into();
    }
    shown["groups"] = json!(groups);
    if !extra.is_empty() {
        shown["extra"] = json!(extra);
    }
    shown
}
