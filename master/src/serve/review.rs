//! Questions: a create that is answered and stores nothing.

use super::{Serve, body, options, shown, token};
use crate::authorize::{Attributes, Decision};
use crate::call::Call;
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::prepare;
use crate::render::{self, Message};
use coracle_api::strategy::review::{Answer as Reply, Asker};
use coracle_http::{Answer, Identity, Request, StatusCode};
use serde_json::{Value, json};

pub fn answer(serve: &Serve, call: &Call, request: &Request, reply: Reply) -> Result<Answer, Fault> {
    let mut sent = body::object(serve, call, request)?;
    super::write::right_namespace(call, sent.object())?;
    let wish = options::wish(call, &request.headers, "CreateOptions")?;
    let now = wall_clock();
    let question = sent.object_mut().take();
    let mut question =
        prepare::question(call.kind, &call.namespace, question, serve.rules(call), now, wish.ownership())
            .map_err(|unfit| Fault::unfit(call, "", unfit))?;
    let Identity { user, uid, groups, extra, .. } = (*request.identity).clone();
    reply(&mut question, &Asker { name: user, uid, groups, extra }, now).map_err(Fault::bad_request)?;
    if let Some(attributes) = Attributes::of_review(&question["spec"]) {
        question["status"] = access(serve, &attributes, &about(&question["spec"], &request.identity));
    }
    if token::is_review(call.kind) {
        question["status"] = token::review(serve, &question["spec"]);
    }
    let rendered = render::document(call.form, Message::of(call.shown), &question, wall_clock());
    let mut answer = shown(call, StatusCode::CREATED, rendered);
    super::warn(&mut answer, &sent.warnings);
    Ok(answer)
}

/// The identity that a review is about: the named identity, or the client's own.
fn about(spec: &Value, asker: &Identity) -> Identity {
    let named = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let texts =
        |list: &Value| list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let (user, groups): (String, Vec<String>) = (named("user"), texts(&spec["groups"]));
    if user.is_empty() && groups.is_empty() {
        return asker.clone();
    }
    let extra = spec["extra"].as_object().into_iter().flatten().map(|(key, said)| (key.clone(), texts(said)));
    Identity { user, uid: named("uid"), groups, extra: extra.collect(), ..Identity::none() }
}

/// The status of an access review.
fn access(serve: &Serve, attributes: &Attributes, identity: &Identity) -> Value {
    let decision = serve.authorizer.authorize(attributes, identity);
    let mut status = json!({"allowed": decision.allows()});
    if matches!(decision, Decision::Denied(_)) {
        status["denied"] = true.into();
    }
    if !decision.reason().is_empty() {
        status["reason"] = decision.reason().into();
    }
    status
}
