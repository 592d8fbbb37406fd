//! Questions: a create that is answered and stores nothing.

use super::{Serve, body, options, shown, token};
use crate::authorize::{Attributes, Decision, Rule, RuleList};
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
    match &*call.kind.kind {
        "SelfSubjectRulesReview" => question = rules(serve, &question, &request.identity),
        "SelfSubjectAccessReview" => question["status"] = access(serve, &question["spec"], &request.identity),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            question["status"] = access(serve, &question["spec"], &about(&question["spec"]));
        }
        _ => {}
    }
    if token::is_review(call.kind) {
        question["status"] = token::review(serve, &question["spec"]);
    }
    let rendered = render::document(call.form, Message::of(call.shown), &question, wall_clock());
    let mut answer = shown(call, StatusCode::CREATED, rendered);
    super::warn(&mut answer, &sent.warnings);
    Ok(answer)
}

/// The identity that a review is about.
fn about(spec: &Value) -> Identity {
    let named = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let texts =
        |list: &Value| list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let extra = spec["extra"].as_object().into_iter().flatten().map(|(key, said)| (key.clone(), texts(said)));
    Identity {
        user: named("user"),
        uid: named("uid"),
        groups: texts(&spec["groups"]),
        extra: extra.collect(),
        ..Identity::none()
    }
}

/// The status of an access review.
fn access(serve: &Serve, spec: &Value, identity: &Identity) -> Value {
    // Validation has found what is asked about.
    let Some(attributes) = Attributes::of_review(spec) else { return json!({"allowed": false}) };
    let decision = serve.authorizer.authorize(&attributes, identity);
    let mut status = json!({"allowed": decision.allows()});
    if matches!(decision, Decision::Denied(_)) {
        status["denied"] = true.into();
    }
    if !decision.reason().is_empty() {
        status["reason"] = decision.reason().into();
    }
    let ignored = Attributes::ignored_in_review(spec);
    match &*ignored {
        [] => {}
        [one] => status["evaluationError"] = one.as_str().into(),
        more => status["evaluationError"] = format!("[{}]", more.join(", ")).into(),
    }
    status
}

/// The answer to a rules review, which repeats nothing of the question.
fn rules(serve: &Serve, question: &Value, identity: &Identity) -> Value {
    let namespace = question["spec"]["namespace"].as_str().unwrap_or_default();
    let RuleList { rules, incomplete, error } = serve.authorizer.rules(identity, namespace);
    let of = |paths: bool| {
        let rules =
            rules.iter().filter(move |rule| if paths { !rule.paths.is_empty() } else { !rule.resources.is_empty() });
        rules.map(Rule::document).collect::<Vec<Value>>()
    };
    let mut status = json!({"resourceRules": of(false), "nonResourceRules": of(true), "incomplete": incomplete});
    if !error.is_empty() {
        status["evaluationError"] = error.into();
    }
    json!({
        "kind": question["kind"], "apiVersion": question["apiVersion"], "metadata": {}, "spec": {}, "status": status,
    })
}
