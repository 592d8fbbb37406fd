//! Questions: a create that is answered and stores nothing.

use super::{Serve, body, options, shown, token};
use crate::call::Call;
use crate::fault::Fault;
use crate::making::wall_clock;
use crate::prepare;
use crate::render;
use coracle_api::strategy::review::{Answer as Reply, Asker};
use coracle_http::{Answer, Request, StatusCode};

pub fn answer(serve: &Serve, call: &Call, request: &Request, reply: Reply) -> Result<Answer, Fault> {
    let mut sent = body::object(serve, call, request)?;
    super::write::right_namespace(call, sent.object())?;
    let wish = options::wish(call, &request.headers, "CreateOptions")?;
    let now = wall_clock();
    let question = sent.object_mut().take();
    let mut question = prepare::question(call.kind, &call.namespace, question, serve.rules(call), now, wish.ownership())
        .map_err(|unfit| Fault::unfit(call, "", unfit))?;
    reply(&mut question, &Asker::administrator(), now).map_err(Fault::bad_request)?;
    if token::is_review(call.kind) {
        question["status"] = token::review(serve, &question["spec"], now);
    }
    let rendered = render::document(call.form, &call.shown.type_name, &question, wall_clock());
    let mut answer = shown(call, StatusCode::CREATED, rendered);
    super::warn(&mut answer, &sent.warnings);
    Ok(answer)
}
