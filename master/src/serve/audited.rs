//! What the audit log is told of a request while the request is answered.

use super::Serve;
use crate::audit::{AuditEvent, Outcome};
use crate::authorize::Attributes;
use crate::call::{self, Route, RouteError, Told};
use crate::fault::Fault;
use crate::making;
use coracle_http::network::RefusedRequest;
use coracle_http::{Answer, Body, HeaderMap, HeaderName, HeaderValue, Identity, Request, header};
use std::sync::Arc;

/// The header by which an answer names its line.
const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// A client may choose the id, so that it finds the line of its request.
const ID_BYTES_MAX: usize = 64;

/// Of a request, gathered on its way.
#[derive(Default)]
pub struct Trail {
    /// When the request came. None: nothing is recorded.
    received: Option<String>,
    pub attributes: Option<Attributes>,
    pub version: String,
    pub acting: Option<Arc<Identity>>,
    pub decision: Option<(bool, String)>,
    pub told: Told,
    reason: String,
    message: String,
}

impl Trail {
    pub fn begin(serve: &Serve) -> Trail {
        let received = serve.audit.is_on().then(making::precise_time);
        Trail { received, ..Trail::default() }
    }

    pub fn is_kept(&self) -> bool {
        self.received.is_some()
    }

    /// The version of the API that a route belongs to.
    pub fn goes_to(&mut self, route: &Result<Route<'_>, RouteError>) {
        let (kind, version) = match route {
            Ok(Route::Object(call)) => (call.shown, call.version),
            Ok(Route::ProxyRequest(through)) => (through.kind, through.version),
            Ok(Route::Page(_) | Route::Upkeep(_)) | Err(_) => return,
        };
        let named = if version == call::Version::V1 { &*kind.version } else { version.name() };
        self.version = named.to_owned();
    }

    /// The words of a refusal because of who asks. Those of others may repeat values of a document.
    pub fn failed(&mut self, fault: &Fault) {
        if !self.is_kept() {
            return;
        }
        self.reason = fault.status.reason.map(|reason| format!("{reason:?}")).unwrap_or_default();
        if matches!(fault.status.code, 401 | 403) {
            self.message.clone_from(&fault.status.message);
        }
    }
}

impl Serve {
    /// Records a request that was answered, and names the line in the answer.
    pub(super) fn record(&self, request: &Request, trail: Trail, answer: &mut Answer) {
        let (Some(received), Some(attributes)) = (&trail.received, &trail.attributes) else { return };
        let streams = matches!(answer.body, Body::Stream(_) | Body::Forward(_) | Body::Upgrade(_));
        let (reason, message) = (trail.reason, trail.message);
        let outcome = Outcome { code: answer.status.as_u16(), reason, message, streams };
        let client = &*request.identity;
        let Some(left_out) = self.audit.records(attributes, (&request.caller, client), &outcome) else { return };
        let id = chosen_id(&request.headers).unwrap_or_else(|| self.registry.maker.uuid());
        self.audit.record(&AuditEvent {
            id: &id,
            method: &request.method,
            path: request.target.path(),
            is_dry_run: request.target.query().is_some_and(|query| query.split('&').any(|one| one == "dryRun=All")),
            user_agent: text(&request.headers, &header::USER_AGENT),
            caller: &request.caller,
            client: Some(client),
            acting: trail.acting.as_deref(),
            attributes: Some(attributes),
            version: &trail.version,
            name: &trail.told.name,
            outcome: &outcome,
            decision: trail.decision.as_ref().map(|(allowed, why)| (*allowed, why.as_str())),
            notes: &trail.told.notes,
            left_out,
            received,
            answered: &making::precise_time(),
        });
        if let Ok(id) = HeaderValue::from_str(&id) {
            answer.headers.insert(AUDIT_ID, id);
        }
    }

    /// Records a request that a port refused.
    pub fn refused(&self, refused: &RefusedRequest<'_>) {
        if !self.audit.is_on() {
            return;
        }
        let RefusedRequest { caller, method, path, code, why } = *refused;
        let reason = if code == 401 { "Unauthorized" } else { "Forbidden" };
        let outcome = Outcome { code, reason: reason.to_owned(), message: why.to_owned(), streams: false };
        let verb = method.as_str().to_ascii_lowercase();
        let attributes = Attributes::Path { verb, path: path.to_owned() };
        let nobody = Identity::none();
        let Some(left_out) = self.audit.records(&attributes, (caller, &nobody), &outcome) else { return };
        let now = making::precise_time();
        self.audit.record(&AuditEvent {
            id: &self.registry.maker.uuid(),
            method,
            path,
            is_dry_run: false,
            user_agent: "",
            caller,
            client: None,
            acting: None,
            attributes: None,
            version: "",
            name: "",
            outcome: &outcome,
            decision: None,
            notes: &[],
            left_out,
            received: &now,
            answered: &now,
        });
    }
}

/// The id that a client gives its request.
fn chosen_id(headers: &HeaderMap) -> Option<String> {
    let chosen = text(headers, &AUDIT_ID);
    let fits = !chosen.is_empty() && chosen.len() <= ID_BYTES_MAX;
    fits.then(|| chosen.to_owned())
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
