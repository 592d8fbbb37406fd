//! One request and its answer: check, admit, take the body, run the handler, hold a share of what the answer needs.
use super::Plane;
use super::access;
use super::body::{Content, Outgoing};
use super::connection::Client;
use crate::outbound;
use crate::refusal::Refusal;
use crate::{Answer, BODY_BYTES_MAX, Body, Caller, NO_SNIFFING, Request};
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Bytes of each answer that no budget counts: clients that fill a budget must not have the small requests of others refused. The
/// connections are counted themselves, so these have a bound too.
const UNCOUNTED_BYTES: usize = 32 * 1024;

/// The same of each body. Fewer: every connection may have one on its way, and what of it is there is in memory.
const UNCOUNTED_BODY_BYTES: usize = 8 * 1024;

/// Whoever watches over this server is heard however many others there are: it would be restarted for their sake.
const HEALTH: [&str; 3] = ["/healthz", "/livez", "/readyz"];

/// Bytes of a refused body that are still read, and dropped: who sends all before it reads, as Python does, finds the answer then and
/// no reset. Larger than what is sent by mistake, and for the one thread of all IO some milliseconds.
const DROPPED_BYTES_MAX: usize = 16 << 20;

/// Who sends nothing for so long has read its refusal, or never will; what Go's server waits as well.
const DROP_QUIET: Duration = Duration::from_millis(500);

pub(super) async fn exchange(client: Arc<Client>, request: http::Request<Incoming>) -> Result<Response<Outgoing>, Infallible> {
    let (bare, chunked) = (request.method() == Method::HEAD, request.version() != Version::HTTP_10);
    let path = request.uri().path().to_owned();
    client.wire.await_head(false);
    let (head, mut body) = request.into_parts();
    let answered = match admitted(&client, head, &mut body).await {
        Ok(answer) => response(&client, answer, bare, chunked).await,
        Err(refusal) => {
            if !body.is_end_stream() {
                tokio::spawn(drop_rest(body, client.plane.limits.body));
            }
            Err(refusal)
        }
    };
    Ok(answered.unwrap_or_else(|refusal| {
        client.plane.journal.refused(&refusal, &client.address);
        whole(&client, refusal.answer(&path), None, bare)
    }))
}

async fn admitted(client: &Arc<Client>, head: http::request::Parts, body: &mut Incoming) -> Result<Answer, Refusal> {
    let plane = &client.plane;
    let limits = &plane.limits;
    let target = head.uri.path_and_query().filter(|target| target.as_str().starts_with('/') && head.method != Method::CONNECT);
    let Some(target) = target.cloned() else {
        return Err(Refusal::Malformed("request target is not a path"));
    };
    access::check(plane.access, head.version, &head.uri, &head.headers)?;
    // hyper looks at the last coding alone, and would give the handler what the others made of the body.
    if head.headers.get_all(header::TRANSFER_ENCODING).iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        return Err(Refusal::Unspoken("of transfer codings this server knows chunked alone"));
    }
    let (body, held) = timeout(limits.body, take(plane, body)).await.map_err(|_| Refusal::Slow)??;
    client.wire.await_head(true);
    // In progress from here on: who sends its body slowly keeps nothing but its connection from others.
    let health = HEALTH.iter().any(|path| target.path().starts_with(path));
    let request = match plane.requests.clone().try_acquire_owned() {
        Err(_) if !health => return Err(Refusal::Busy("too many requests in progress")),
        counted => counted.ok(),
    };
    let share = plane.asking.enter(client.address.ip(), health);
    let share = share.ok_or(Refusal::Busy("too many requests in progress from this address"))?;
    let (own, any) = (share.places.of(&head.method), plane.places.of(&head.method));
    let places = async { (own.acquire_owned().await, any.acquire_owned().await) };
    let (own, any) = timeout(limits.slot, places).await.map_err(|_| Refusal::Busy("no handler is free"))?;
    let places = (own.map_err(|_| Refusal::Failed)?, any.map_err(|_| Refusal::Failed)?);
    let call = Request { method: head.method, target, headers: head.headers, body, caller: Caller::Network { address: client.address } };
    let handler = plane.handler.clone();
    let work = tokio::task::spawn_blocking(move || {
        // Inside: a handler goes on when its client has gone, and keeps its places as long.
        let _held = (places, held, share, request);
        handler(call)
    });
    // A panic: its message and place are in the log already.
    work.await.map_err(|_| Refusal::Failed)
}

/// The whole body, and the share of the budget that it holds.
async fn take(plane: &Plane, body: &mut Incoming) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(Refusal::TooLarge);
    }
    let mut whole = Vec::new();
    let mut held: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| Refusal::Malformed("request body is broken"))?.into_data() else { continue };
        if whole.len() + data.len() > BODY_BYTES_MAX {
            return Err(Refusal::TooLarge);
        }
        whole.extend_from_slice(&data);
        let has = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = whole.len().saturating_sub(UNCOUNTED_BODY_BYTES + has);
        let more = budget(&plane.bodies, more).ok_or(Refusal::Busy("too many request bodies in progress"))?;
        match &mut held {
            None => held = Some(more),
            Some(held) => held.merge(more),
        }
    }
    Ok((whole.into(), held))
}

/// Reads on while the refusal goes out: a connection that is closed with bytes unread is reset, and with it goes an answer that the
/// client has not looked at yet. Of the budgets this holds the connection alone, and for no longer than a body may take.
async fn drop_rest(mut body: Incoming, patience: Duration) {
    let mut left = DROPPED_BYTES_MAX;
    let read = async {
        while left > 0
            && let Ok(Some(Ok(frame))) = timeout(DROP_QUIET, body.frame()).await
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    };
    let _ = timeout(patience, read).await;
    if left == 0 {
        sleep(DROP_QUIET).await;
    }
}

fn budget(of: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    of.clone().try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
}

async fn response(client: &Arc<Client>, answer: Answer, bare: bool, chunked: bool) -> Result<Response<Outgoing>, Refusal> {
    let plane = &client.plane;
    let Answer { status, headers, body } = answer;
    let stream = || plane.streams.clone().try_acquire_owned().map_err(|_| Refusal::Busy("too many streams in progress"));
    let (status, headers, content, held) = match body {
        body @ (Body::Whole(_) | Body::Long(_)) => {
            // One answer that is larger than the whole budget goes out when it is alone.
            let counted = length(&body).saturating_sub(UNCOUNTED_BYTES).min(plane.limits.answers_bytes_max);
            let held = budget(&plane.answers, counted);
            let held = held.ok_or(Refusal::Busy("too many answers wait for their readers"))?;
            return Ok(whole(client, Answer { status, headers, body }, Some(held), bare));
        }
        Body::Stream(stream_of) => {
            let held = stream()?;
            if !bare {
                client.wire.begin(stream_of, chunked);
            }
            (status, headers, Content::Stream, held)
        }
        Body::Forward(forward) => {
            let held = stream()?;
            let forwarded = outbound::forward(&forward).await?;
            (forwarded.status, forwarded.headers.clone(), Content::Forwarded(Box::new(forwarded)), held)
        }
    };
    let content = if bare { Content::Whole(Bytes::new()) } else { content };
    Ok(assemble(client, status, headers, content, Some(held)))
}

/// An answer in one piece: the handler's, or a refusal, which is small and holds no budget.
fn whole(client: &Arc<Client>, answer: Answer, held: Option<OwnedSemaphorePermit>, bare: bool) -> Response<Outgoing> {
    let Answer { status, mut headers, body } = answer;
    let content = if bare {
        // hyper would say length 0, which is not what a GET would get.
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length(&body)));
        Content::Whole(Bytes::new())
    } else {
        client.pace.due_ms.store(client.plane.due_after(client.plane.limits.answer), std::sync::atomic::Ordering::Relaxed);
        match body {
            Body::Whole(bytes) => Content::Whole(bytes),
            Body::Long(long) => Content::Long(long),
            Body::Stream(_) | Body::Forward(_) => Content::Whole(Bytes::new()),
        }
    };
    assemble(client, status, headers, content, held)
}

/// Of a document.
fn length(body: &Body) -> usize {
    match body {
        Body::Whole(bytes) => bytes.len(),
        Body::Long(long) => long.bytes,
        Body::Stream(_) | Body::Forward(_) => 0,
    }
}

fn assemble(
    client: &Arc<Client>,
    status: StatusCode,
    mut headers: http::HeaderMap,
    content: Content,
    held: Option<OwnedSemaphorePermit>,
) -> Response<Outgoing> {
    let (name, value) = NO_SNIFFING;
    headers.insert(name, value);
    let mut response = Response::new(Outgoing { content, client: client.clone(), _held: held });
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
