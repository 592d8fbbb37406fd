//! Answers requests: one synchronous function behind both carriers.
//!
//!     Request -> call (what is asked) -> body (decoded to v1) -> Registry::commit (the only way to Store::write)
//!         -> render (in the version of the request)
//!
//! One file a verb family; the verbs name no kind, and what is one kind's own (namespaces, bindings, tokens, logs,
//! streams, proxies) has its file. Every way out is an `Answer` or a `Fault`, which becomes a Status.

mod about;
mod accepted;
mod apply;
mod audited;
mod bind;
mod body;
mod bookmarks;
mod delete;
mod described;
mod description;
mod ends;
mod evict;
mod figures;
mod finish;
mod giving;
mod go_json;
mod health;
mod impersonate;
mod impersonation;
mod lists;
mod log;
mod metrics;
mod options;
mod pages;
mod patch;
mod places;
mod ports;
mod proxy;
mod read;
mod replay;
mod reply;
mod review;
mod scale;
mod selector;
mod server;
mod stream;
mod tag;
mod timer;
mod token;
mod turns;
mod upgrade;
mod watch;
mod watcher;
mod watches;
mod write;

pub use server::Serve;

use crate::authorize::Attributes;
use crate::call::{self, Call, Route, RouteError, Verb, Version};
use crate::fault::Fault;
use crate::form::{Form, Media, Subject, Unacceptable};
use crate::page::{HealthQuestion, ServerDocument};
use crate::prepare::Part;
use crate::store::indented;
use audited::Trail;
use bytes::Bytes;
use coracle_api::kinds::Kind;
use coracle_api::status::Status;
use coracle_http::budget::{Held, Party};
use coracle_http::{Answer, Body, Caller, HeaderMap, Identity, Request, header};
use reply::{compress, document, failure, nothing, shown, shown_as, warn};
use std::time::Instant;

/// Clients that are people: they get indented JSON without asking, as from kube-apiserver.
const PEOPLE: [&str; 3] = ["curl", "Wget", "Mozilla/5.0"];

/// Memory per byte of a document to indent: the document, and the buffer that `indented` allocates for the result.
const INDENTED: usize = 3;

/// Bytes of the longest document that is indented: people read no more, and it would take three times as much memory.
const INDENTED_BYTES_MAX: usize = 4 << 20;

impl Serve {
    pub fn answer(&self, request: &Request) -> Answer {
        let version = call::version(request.target.path());
        let mut pretty = is_person(&request.headers);
        let started = Instant::now();
        let mut asked = metrics::Series::page(request.method.as_str());
        let mut trail = Trail::begin(self);
        let mut answer = match self.route(request, &mut pretty, &mut asked, &mut trail) {
            Ok(answer) => answer,
            Err(fault) => {
                trail.failed(&fault);
                failure(Form::of_failure(version, &accept(&request.headers)), &fault)
            }
        };
        // Kept until the answer is as it goes out: then the carriers count it.
        let mut _room = None;
        if pretty && is_json(&answer) {
            match self.indent(request.party(), std::mem::replace(&mut answer.body, Body::Whole(Bytes::new()))) {
                Ok((body, room)) => (answer.body, _room) = (body, room),
                Err(fault) => answer = failure(Form::of_failure(version, &accept(&request.headers)), &fault),
            }
        }
        // Before it gets shorter.
        self.giving.worked(&self.watches.timer, &self.registry.store, giving::cost(request, &answer));
        compress(&request.headers, &mut answer);
        self.record(request, trail, &mut answer);
        self.metrics.count(asked, started.elapsed(), &mut answer);
        answer
    }

    /// Indents a document for people, unless the document is too long to be read. Meanwhile a long document is in
    /// memory as a whole, compact and indented: both copies take room among the lists.
    fn indent(&self, party: Party, body: Body) -> Result<(Body, Option<Held>), Fault> {
        Ok(match body {
            Body::Whole(document) if document.len() <= INDENTED_BYTES_MAX => {
                (Body::Whole(indented(&document).into()), None)
            }
            Body::Long(long) if long.bytes <= INDENTED_BYTES_MAX => {
                let room = self.lists.room_for(party, long.bytes * INDENTED)?;
                (Body::Whole(indented(&long.whole()).into()), Some(room))
            }
            body => (body, None),
        })
    }

    fn route(
        &self,
        request: &Request,
        pretty: &mut bool,
        asked: &mut metrics::Series,
        trail: &mut Trail,
    ) -> Result<Answer, Fault> {
        let (method, path, query) =
            (request.method.as_str(), request.target.path(), request.target.query().unwrap_or_default());
        let kinds = self.registry.kinds();
        let route = call::parse(&kinds, method, path, query);
        let attributes = Attributes::of(&route, method, path);
        if trail.is_kept() {
            trail.goes_to(&route);
            trail.attributes = Some(attributes.clone());
        }
        let acting = impersonate::acting(self, &attributes, request)?;
        trail.acting = acting.as_ref().map(|acting| acting.identity.clone());
        let request = acting.as_ref().unwrap_or(request);
        if let Some(answer) = self.unauthorized(&route, &attributes, &request.identity, trail)? {
            return Ok(answer);
        }
        match route? {
            Route::Upkeep(task) => match &self.upkeep {
                Some(upkeep) if request.caller == Caller::Local => Ok(upkeep.answer(task, request)),
                _ => Ok(nothing()),
            },
            Route::Page(page) => about::answer(self, &page, request),
            Route::ProxyRequest(through) => {
                *asked = metrics::Series::through(&through);
                proxy::answer(self, &through, request)
            }
            Route::Object(mut call) => {
                *asked = metrics::Series::of(&call, matches!(patch::language(request), Ok(None)));
                *pretty = call.options.pretty.unwrap_or(*pretty);
                call.form = form(&call, &request.headers)?;
                call.party = request.party();
                call.identity = request.identity.clone();
                let mut answer = match self.object(&call, request) {
                    Ok(answer) => answer,
                    Err(fault) => {
                        trail.failed(&fault);
                        failure(Form::of_failure(call.version, &accept(&request.headers)), &fault)
                    }
                };
                trail.told = call.told.take();
                if call.version == Version::V1
                    && let Some(words) = call.shown.deprecated
                {
                    warn(&mut answer, &[words.to_owned()]);
                }
                Ok(answer)
            }
        }
    }

    /// The answer to a client that may not hear more. None: the request is allowed.
    fn unauthorized(
        &self,
        route: &Result<Route<'_>, RouteError>,
        attributes: &Attributes,
        identity: &Identity,
        trail: &mut Trail,
    ) -> Result<Option<Answer>, Fault> {
        let decision = self.authorizer.authorize(attributes, identity);
        if trail.is_kept() {
            trail.decision = Some((decision.allows(), decision.reason().to_owned()));
        }
        let refused = decision.refusal(attributes, identity);
        let Ok(Route::Page(ServerDocument::Health(asked))) = route else {
            return refused.map(|()| None).map_err(|refusal| (*refusal).into());
        };
        let bare = |asked: &HealthQuestion| health::bare(&*self.registry.store, asked).unwrap_or_else(nothing);
        match refused {
            // Whoever watches over this server would restart it.
            Err(_) if asked.check.is_none() => Ok(Some(bare(&HealthQuestion { verbose: false, ..asked.clone() }))),
            Err(refusal) => Err((*refusal).into()),
            Ok(()) => {
                // As Kubernetes has it, everybody hears of the health, and monitors hear of the single checks.
                let path = format!("/{}/{}", asked.endpoint, health::DETAILED);
                let details = Attributes::Path { verb: "get".to_owned(), path };
                Ok((!self.authorizer.authorize(&details, identity).allows()).then(|| bare(asked)))
            }
        }
    }

    fn object(&self, call: &Call, request: &Request) -> Result<Answer, Fault> {
        match call.verb {
            Verb::Get | Verb::List if call.kind.read_from_nodes => figures::answer(self, call),
            Verb::Get | Verb::GetStatus | Verb::GetPart => read::get(self, call),
            Verb::List => read::list(self, call),
            Verb::Watch => watch::watch(self, call),
            Verb::Create => match call.kind.answer {
                Some(reply) => review::answer(self, call, request, reply),
                None => write::create(self, call, request),
            },
            Verb::Update => write::update(self, call, request),
            Verb::UpdateStatus => write::update_part(self, call, Part::Status, request),
            Verb::UpdatePart => write::update_part(self, call, part(call), request),
            Verb::Patch => patch::patch(self, call, Part::Main, request),
            Verb::PatchStatus => patch::patch(self, call, Part::Status, request),
            Verb::PatchPart => patch::patch(self, call, part(call), request),
            Verb::GetScale => scale::get(self, call),
            Verb::UpdateScale => scale::update(self, call, request),
            Verb::PatchScale => scale::patch(self, call, request),
            Verb::Evict => evict::evict(self, call, request),
            Verb::Bind => bind::bind(self, call, request),
            Verb::Token => token::give(self, call, request),
            Verb::Delete => delete::delete(self, call, request),
            Verb::DeleteCollection => delete::collection(self, call, request),
            Verb::Log => log::log(self, call, request),
            Verb::Exec | Verb::Attach | Verb::PortForward => stream::stream(self, call, request),
        }
    }
}

/// The part of the object that a call names.
fn part(call: &Call) -> Part {
    call.share.map_or(Part::Main, Part::Share)
}

fn is_person(headers: &HeaderMap) -> bool {
    let agent = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    PEOPLE.iter().any(|name| agent.starts_with(name))
}

fn is_json(answer: &Answer) -> bool {
    answer.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

fn accept(headers: &HeaderMap) -> String {
    headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(",")
}

/// The form of the answer, from the Accept header. Logs are text, whatever is accepted.
fn form(call: &Call, headers: &HeaderMap) -> Result<Form, Fault> {
    let subject = match call.verb {
        Verb::Log | Verb::Exec | Verb::Attach | Verb::PortForward => return Ok(call.form),
        Verb::List | Verb::DeleteCollection => Subject::List,
        Verb::Watch => Subject::Watch,
        _ if call.kind.answer.is_some() => Subject::Reply,
        _ => Subject::One,
    };
    Form::negotiate(call.version, subject, &accept(headers), &call.options.include_object)
        .map_err(|why| unacceptable(call.shown, why))
}

fn unacceptable(kind: &Kind, why: Unacceptable) -> Fault {
    match why {
        Unacceptable::Media => Status::not_representable(&Media::offered()),
        Unacceptable::Shape => Status::not_acceptable(&Media::offered()),
        Unacceptable::Stream => {
            Status::not_acceptable("application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch")
        }
        Unacceptable::Number { asked, list } => {
            let group = kind.resource.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            let (what, number) =
                if list { ("a list", kind.list_kind()) } else { ("not a list", kind.kind.to_string()) };
            Status::other_number(&format!(
                "you requested {asked}, but the requested object is {what} (*{group}.{number})"
            ))
        }
        Unacceptable::Include(given) => Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {given:?}: must be 'Metadata', \
             'Object', 'None', or empty"
        )),
    }
    .into()
}

#[cfg(test)]
mod access_tests;

#[cfg(test)]
pub(crate) mod tests;
