//! One request and its answer: check, identify, take the body, admit, run the handler, hold a share of what the answer
//! needs.
use super::access;
use super::body::{Content, Outgoing};
use super::connection::{ServedClient, TakenOver};
use super::port::{RationedPlace, RationedRequest, RequestSender, Unidentified};
use super::room::Room;
use crate::budget::{Held, Party};
use crate::outbound::{self, Reached};
use crate::refusal::Refusal;
use crate::sessions::{InProgress, Session};
use crate::upgrade::{self, tunnel};
use crate::{Answer, BODY_BYTES_MAX, Body, ClientCertificate, Identity, NO_SNIFFING, Request, Upgrade};
use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use hyper::upgrade::OnUpgrade;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Bytes of each answer that no budget counts: clients that fill a budget must not have the small requests of others
/// refused. The connections are counted themselves, so these have a bound too.
const UNCOUNTED_BYTES: usize = 32 * 1024;

/// The same for each request body. Fewer: every connection may be sending a body, and the received part is in memory.
const UNCOUNTED_BODY_BYTES: usize = 8 * 1024;

/// Fields that may hold a signed token; a browser's WebSocket has no other place for it than the second.
const CREDENTIALS: [HeaderName; 2] = [header::AUTHORIZATION, header::SEC_WEBSOCKET_PROTOCOL];

/// Health checks are answered at any load: otherwise a supervisor would restart a server that is only busy. No path
/// below these takes long.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

pub(crate) fn is_health(path: &str) -> bool {
    HEALTH.iter().any(|health| path.starts_with(health))
}

/// Bytes of a refused body that are still read, and dropped: who sends all before it reads, as Python does, finds the
/// answer then and no reset. Larger than what is sent by mistake, and for the one thread of all IO some milliseconds.
const DROPPED_BYTES_MAX: usize = 16 << 20;

/// A client that sends nothing for so long has read its refusal, or never will; Go's server waits as long.
const DROP_QUIET: Duration = Duration::from_millis(500);

/// The facts that an answer depends on beside the handler's.
struct Asked {
    /// Only the head is wanted.
    bare: bool,
    chunked: bool,
    /// The protocols that the client would go on with, and its connection then.
    upgrade: Option<(Vec<String>, OnUpgrade)>,
}

/// Who asks: the shares that it uses, and its entry among the requests in progress.
struct Asker {
    party: Party,
    identity: Arc<Identity>,
    session: Option<Session>,
}

pub(super) async fn exchange(
    client: Arc<ServedClient>,
    mut request: http::Request<Incoming>,
) -> Result<Response<Outgoing>, Infallible> {
    let (bare, chunked) = (request.method() == Method::HEAD, request.version() != Version::HTTP_10);
    let upgrade =
        upgrade::asked(request.version(), request.headers()).map(|asked| (asked, hyper::upgrade::on(&mut request)));
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    client.await_head(false);
    client.requested();
    client.seat.awaits_request(&client.plane);
    let (head, mut body) = request.into_parts();
    let answered = match admitted(&client, head, &mut body).await {
        Ok((answer, asker)) => response(&client, answer, asker, Asked { bare, chunked, upgrade }).await,
        Err(refusal) => {
            if !body.is_end_stream() {
                tokio::spawn(drop_rest(client.clone(), body));
            }
            Err(refusal)
        }
    };
    Ok(answered.unwrap_or_else(|refusal| {
        client.plane.journal.refused(&refusal, &client.peer);
        refusal.tell(&client.plane.refused, (&client.peer.caller(), method.as_str(), &path));
        if refusal == Refusal::Revoked {
            client.leave();
        }
        whole(&client, refusal.answer(&path), (None, None), bare)
    }))
}

async fn admitted(
    client: &Arc<ServedClient>,
    head: http::request::Parts,
    body: &mut Incoming,
) -> Result<(Answer, Asker), Refusal> {
    let plane = &client.plane;
    let limits = &plane.limits;
    let target =
        head.uri.path_and_query().filter(|target| target.as_str().starts_with('/') && head.method != Method::CONNECT);
    let Some(target) = target.cloned() else {
        return Err(Refusal::Malformed("request target is not a path"));
    };
    access::check(plane.access, head.version, &head.uri, &head.headers)?;
    let (identity, headers) = identified(client, &target, head.headers).await?;
    let caller = client.peer.caller();
    client.seat.is_known(&identity);
    let session = client.session(InProgress {
        identity: identity.clone(),
        certificate: client.certificate.clone(),
        caller: caller.clone(),
        method: head.method.clone(),
        target: target.clone(),
        impersonation: InProgress::impersonation(&headers),
    });
    let asker = Asker { party: client.peer.party_of(&identity), session, identity };
    let room = plane.room(&asker.identity);
    // hyper looks at the last coding alone, and would give the handler what the others made of the body.
    if headers
        .get_all(header::TRANSFER_ENCODING)
        .iter()
        .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked"))
    {
        return Err(Refusal::Unspoken("of transfer codings this server knows chunked alone"));
    }
    let taken = timeout(limits.body, take(client, room, asker.party, body)).await;
    let (body, held) = taken.map_err(|_| Refusal::Slow)??;
    client.await_head(true);
    client.seat.works();
    // The request is in progress only from here on: a client that sends its body slowly occupies its connection, but no
    // place for requests.
    let health = is_health(target.path());
    let request = match room.requests.clone().try_acquire_owned() {
        Err(_) if !health => return Err(Refusal::Busy("too many requests in progress")),
        counted => counted.ok(),
    };
    let ration = (!health).then(|| {
        let (method, target) = (&head.method, &target);
        (plane.ration)(&RationedRequest { party: asker.party, identity: &asker.identity, method, target })
    });
    let ration = ration.transpose().map_err(Refusal::OverShare)?;
    let (headers_of_share, ration) = ration.map(|RationedPlace { headers, held }| (headers, held)).unzip();
    let share = room.asking.enter(asker.party, health);
    let share = share.ok_or(Refusal::Busy("too many requests in progress from this client"))?;
    let places = match health {
        true => [Some(plane.health.clone()), None],
        false => [Some(share.places.of(&head.method)), Some(room.places.of(&head.method))],
    };
    let places = timeout(limits.slot, entered(places)).await.map_err(|_| Refusal::Busy("no handler is free"))?;
    let identity = asker.identity.clone();
    let call = Request { method: head.method, target, headers, body, caller, identity };
    let handler = plane.handler.clone();
    let work = tokio::task::spawn_blocking(move || {
        // Inside: a handler goes on when its client has gone, and keeps its places as long.
        let _held = (places, held, share, request, ration);
        handler(call)
    });
    // A panic: its message and place are in the log already.
    let mut answer = work.await.map_err(|_| Refusal::Failed)?;
    answer.headers.extend(headers_of_share.into_iter().flatten());
    Ok((answer, asker))
}

/// Credentials in a head may be signed: they are checked on another thread, for a check takes longer than all else that
/// this thread does with a request, and a stranger may send as many as he likes. Who sends none is told at once.
async fn identified(
    client: &Arc<ServedClient>,
    target: &PathAndQuery,
    headers: http::HeaderMap,
) -> Result<(Arc<Identity>, http::HeaderMap), Refusal> {
    let plane = &client.plane;
    let refused = |certificate: &Arc<ClientCertificate>| {
        !certificate.still_counts() || plane.tls.as_ref().is_some_and(|tls| (tls.is_revoked)(certificate))
    };
    if client.certificate.as_ref().is_some_and(refused) {
        return Err(Refusal::Revoked);
    }
    let (caller, uid, certificate) = (client.peer.caller(), client.peer.uid(), client.certificate.clone());
    let (identify, target) = (plane.identify.clone(), target.clone());
    let answer = move |headers: &http::HeaderMap| {
        let (path, certificate) = (target.path(), certificate.as_deref());
        let sender = RequestSender { caller: &caller, uid, path, headers, certificate };
        identify(&sender).map_err(|Unidentified(why)| Refusal::Unidentified(why))
    };
    if !CREDENTIALS.iter().any(|name| headers.contains_key(name)) {
        return answer(&headers).map(|identity| (identity, headers));
    }
    let share = plane.checking.enter(client.party, false);
    let share = share.ok_or(Refusal::Busy("too many credentials are checked for this address"))?;
    let places = entered([Some(share.places.of(&Method::GET)), Some(plane.check_places.clone())]);
    let places = timeout(plane.limits.slot, places).await;
    let places = places.map_err(|_| Refusal::Busy("too many credentials are checked"))?;
    let checked = tokio::task::spawn_blocking(move || {
        let _held = (places, share);
        answer(&headers).map(|identity| (identity, headers))
    });
    checked.await.map_err(|_| Refusal::Failed)?
}

/// Takes a permit from each semaphore, in order.
async fn entered(of: [Option<Arc<Semaphore>>; 2]) -> Vec<OwnedSemaphorePermit> {
    let mut places = Vec::with_capacity(of.len());
    for of in of.into_iter().flatten() {
        // The semaphores are never closed.
        places.extend(of.acquire_owned().await);
    }
    places
}

/// The whole body, and the share of the budget that it holds.
async fn take(
    client: &ServedClient,
    room: &Room,
    party: Party,
    body: &mut Incoming,
) -> Result<(Bytes, Option<Held>), Refusal> {
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(Refusal::TooLarge);
    }
    let mut whole = Vec::new();
    let mut held = room.bodies.take(party, 0);
    let mut has = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::Malformed("request body is broken"))?.into_data() else { continue };
        client.sent(data.len());
        if whole.len() + data.len() > BODY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        whole.extend_from_slice(&data);
        let more = whole.len().saturating_sub(UNCOUNTED_BODY_BYTES + has);
        has += more;
        if !held.as_mut().is_some_and(|held| held.grow(more)) {
            return Err(Refusal::Busy("too many request bodies in progress"));
        }
    }
    Ok((whole.into(), held))
}

/// Reads on while the refusal goes out: a connection that is closed with bytes unread is reset, and with it goes an
/// answer that the client has not looked at yet. Of the budgets this holds the connection alone, and for no longer than
/// a body may take.
async fn drop_rest(client: Arc<ServedClient>, mut body: Incoming) {
    let mut left = DROPPED_BYTES_MAX;
    let read = async {
        while left > 0
            && let Ok(Some(Ok(frame))) = timeout(DROP_QUIET, body.frame()).await
        {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            client.sent(bytes);
            left = left.saturating_sub(bytes);
        }
    };
    let _ = timeout(client.plane.limits.body, read).await;
    if left == 0 {
        sleep(DROP_QUIET).await;
    }
}

async fn response(
    client: &Arc<ServedClient>,
    answer: Answer,
    asker: Asker,
    asked: Asked,
) -> Result<Response<Outgoing>, Refusal> {
    let Asker { party, ref identity, .. } = asker;
    let room = client.plane.room(identity);
    let Answer { status, headers, body } = answer;
    let Asked { bare, chunked, upgrade } = asked;
    let stream = || room.streams.take(party, 1).ok_or(Refusal::Busy("too many streams in progress"));
    let (status, headers, content, held) = match body {
        body @ (Body::Whole(_) | Body::Long(_)) => {
            let held = room.answers.take_most(party, length(&body).saturating_sub(UNCOUNTED_BYTES));
            let held = held.ok_or(Refusal::Busy("too many answers wait for their readers"))?;
            return Ok(whole(client, Answer { status, headers, body }, (Some(held), asker.session), bare));
        }
        Body::Stream(stream_of) => {
            let held = stream()?;
            let content = match &client.wire {
                // HTTP/1.0 knows no chunks.
                Some(wire) if chunked && !bare => {
                    wire.begin(stream_of);
                    Content::Wired(wire.clone())
                }
                _ => Content::Stream(stream_of),
            };
            (status, headers, content, held)
        }
        Body::Forward(forward) => {
            let held = stream()?;
            match outbound::forward(&forward).await? {
                Reached::Answer(forwarded) => {
                    (forwarded.status, forwarded.headers.clone(), Content::Forwarded(Box::new(forwarded)), held)
                }
                Reached::Upgraded(headers, far) => {
                    let idle = forward.idle;
                    let tunnel = Upgrade::new(move |near| tunnel(near, far, idle));
                    let tunnel = if forward.leaves_room { tunnel.leaving_room() } else { tunnel };
                    return take_over(client, headers, tunnel, upgrade, (asker, held));
                }
            }
        }
        Body::Upgrade(taken_over) => {
            let held = stream()?;
            return take_over(client, headers, taken_over, upgrade, (asker, held));
        }
    };
    let content = if bare { Content::Whole(Bytes::new()) } else { content };
    Ok(assemble(client, status, headers, content, (Some(held), asker.session)))
}

/// The head after which the connection is another's. It is given away by the connection itself, which keeps its place.
fn take_over(
    client: &Arc<ServedClient>,
    headers: http::HeaderMap,
    upgrade: Upgrade,
    asked: Option<(Vec<String>, OnUpgrade)>,
    (asker, stream): (Asker, Held),
) -> Result<Response<Outgoing>, Refusal> {
    let agreed = asked.filter(|(asked, _)| upgrade::is_agreed(asked, &headers));
    let (_, connection) =
        agreed.ok_or(Refusal::Malformed("this is answered to a request alone that upgrades its connection"))?;
    let busy = || Refusal::Busy("too many connections that were upgraded");
    let held = client.plane.upgrades.take(asker.party, 1).ok_or_else(busy)?;
    let room = if upgrade.leaves_room { 1 } else { 0 };
    let room = client.plane.tunnels.take(asker.party, room).ok_or_else(busy)?;
    client.await_head(false);
    let _held = [stream, held, room];
    client.give_to(TakenOver { connection, upgrade, _held, _session: asker.session });
    Ok(assemble(client, StatusCode::SWITCHING_PROTOCOLS, headers, Content::Whole(Bytes::new()), (None, None)))
}

/// The part of a budget that an answer holds, and the entry of its request, until it is taken.
type Kept = (Option<Held>, Option<Session>);

/// An answer in one piece: the handler's, or a refusal, which is small and holds no budget.
fn whole(client: &Arc<ServedClient>, answer: Answer, kept: Kept, bare: bool) -> Response<Outgoing> {
    client.seat.awaits_taking(&client.plane);
    let Answer { status, mut headers, body } = answer;
    let content = if bare {
        // hyper would say length 0, which is not what a GET would get.
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length(&body)));
        Content::Whole(Bytes::new())
    } else {
        client
            .pace
            .due_ms
            .store(client.plane.due_after(client.plane.limits.answer), std::sync::atomic::Ordering::Relaxed);
        match body {
            Body::Whole(bytes) => Content::Whole(bytes),
            Body::Long(long) => Content::Long(long),
            Body::Stream(_) | Body::Forward(_) | Body::Upgrade(_) => Content::Whole(Bytes::new()),
        }
    };
    assemble(client, status, headers, content, kept)
}

/// Of a document.
fn length(body: &Body) -> usize {
    match body {
        Body::Whole(bytes) => bytes.len(),
        Body::Long(long) => long.bytes,
        Body::Stream(_) | Body::Forward(_) | Body::Upgrade(_) => 0,
    }
}

fn assemble(
    client: &Arc<ServedClient>,
    status: StatusCode,
    mut headers: http::HeaderMap,
    content: Content,
    (held, session): Kept,
) -> Response<Outgoing> {
    let (name, value) = NO_SNIFFING;
    headers.insert(name, value);
    let mut response = Response::new(Outgoing { content, client: client.clone(), _held: held, _session: session });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
