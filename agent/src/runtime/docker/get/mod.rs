//! The GET request of a probe or hook, as a kubelet makes it: redirections on the same host are followed, the body is
//! read up to a limit, certificates are not verified, and no proxy is asked.
//!
//!     url, request, answer PURE: addresses, what is sent, what comes

mod answer;
mod request;
mod url;

use std::time::Duration;

use coracle_http::tls;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::check::{dial, failed, passed, plain, within};
use crate::facts::engine::{CheckOutcome, Purpose};
use crate::network::dns::names::Names;
use answer::{GetAnswer, GetStep, Head};
use request::{GetFields, head};
use url::Url;

/// The requests of one check: a redirection behind the last of them is not followed.
const REQUESTS_MAX: usize = 10;
/// The size of a single read.
const READ_BYTES: usize = 4 * 1024;
/// What a server without TLS is told by.
const NO_TLS: &str = "http: server gave HTTP response to HTTPS client";

/// What a check asks for.
pub(super) struct Get<'a> {
    pub(super) scheme: &'a str,
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(String, String)],
}

/// How far an exchange has come, for the words of one that took too long.
#[derive(Debug, Default)]
struct Progress {
    /// Of the last request.
    url: String,
    head: bool,
}

/// What a check was answered, redirections followed.
struct Found {
    code: u16,
    body: Vec<u8>,
}

pub(super) async fn get(names: &Names, get: &Get<'_>, purpose: Purpose, at_most: Duration) -> CheckOutcome {
    let mut progress = Progress::default();
    let begun = within(at_most, found(names, get, purpose, &mut progress)).await;
    let Progress { url, head } = progress;
    match begun {
        Some(Ok((found, note))) => outcome(&found, purpose, note),
        Some(Err(error)) if head => failed(error),
        Some(Err(error)) => failed(format!("Get \"{url}\": {error}")),
        None if head => {
            failed("context deadline exceeded (Client.Timeout or context cancellation while reading body)".to_owned())
        }
        None => {
            failed(format!("Get \"{url}\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"))
        }
    }
}

/// With what whoever asked for a hook has to know.
async fn found(
    names: &Names,
    get: &Get<'_>,
    purpose: Purpose,
    progress: &mut Progress,
) -> Result<(Found, Option<String>), String> {
    let mut url = Url::of_check(get.scheme, get.host, get.port, get.path)?;
    progress.url = url.shown();
    let fields = GetFields::of_check(get.headers, purpose)?;
    match follow(names, url.clone(), &fields, purpose, progress).await {
        Err(error) if error == NO_TLS && purpose == Purpose::Hook => {
            "http".clone_into(&mut url.scheme);
            let note = format!(
                "request to HTTPS lifecycle hook {} got HTTP response, retry with HTTP succeeded",
                url.authority
            );
            let found = follow(names, url, &fields.without_login(), purpose, progress).await?;
            Ok((found, Some(note)))
        }
        found => Ok((found?, None)),
    }
}

async fn follow(
    names: &Names,
    first: Url,
    asked: &GetFields,
    purpose: Purpose,
    progress: &mut Progress,
) -> Result<Found, String> {
    let (mut url, mut fields) = (first.clone(), asked.clone());
    let mut host = asked.get("Host").map(str::to_owned);
    for number in 1.. {
        (progress.url, progress.head) = (url.shown(), false);
        let text = head(&url, host.as_deref(), &fields)?;
        if !["http", "https"].contains(&url.scheme.as_str()) {
            return Err(format!("unsupported protocol scheme {:?}", url.scheme));
        }
        let port = url.port().ok_or_else(|| format!("dial tcp: address {}: invalid port", url.authority))?;
        let wire = dial(names, url.host(), port).await?;
        // Whatever a hook is answered has been done.
        let enough = |head: &Head| purpose == Purpose::Hook || !matches!(next(&first, &url, head), Ok(None));
        let (head, body) = match url.scheme.as_str() {
            "https" => exchange(tls::open(wire, url.host()).await?, &text, enough, progress).await?,
            _ => exchange(wire, &text, enough, progress).await?,
        };
        progress.head = false;
        let Some((to, relative)) = next(&first, &url, &head)? else { return Ok(Found { code: head.code, body }) };
        if number >= REQUESTS_MAX {
            progress.url = head.location.unwrap_or_default();
            return Err(format!("stopped after {REQUESTS_MAX} redirects"));
        }
        host = host.filter(|_| relative);
        fields = asked.clone().with_referer(&url, &to);
        url = to;
    }
    Err("no request was made".to_owned())
}

/// Where an answer leads that is followed, and whether its own host is named there.
fn next(first: &Url, here: &Url, head: &Head) -> Result<Option<(Url, bool)>, String> {
    let location = head.location.as_deref().filter(|location| !location.is_empty());
    let Some(location) = location.filter(|_| matches!(head.code, 301 | 302 | 303 | 307 | 308)) else { return Ok(None) };
    Ok(Some(here.follow(location)?).filter(|(to, _)| to.host() == first.host()))
}

/// One request and its answer, whose body is left out where its head is enough.
async fn exchange(
    mut wire: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
    enough: impl Fn(&Head) -> bool,
    progress: &mut Progress,
) -> Result<(Head, Vec<u8>), String> {
    wire.write_all(request.as_bytes()).await.map_err(|error| plain(&error))?;
    let (mut answer, mut read) = (GetAnswer::default(), [0; READ_BYTES]);
    loop {
        let length = wire.read(&mut read).await.map_err(|error| plain(&error))?;
        let step = if length == 0 { answer.end().map(|()| GetStep::Done) } else { answer.take(&read[..length]) };
        progress.head = answer.head.is_some();
        if answer.head.as_ref().is_some_and(&enough) || step? == GetStep::Done {
            break;
        }
    }
    let GetAnswer { head, body, .. } = answer;
    Ok((head.ok_or_else(|| "EOF".to_owned())?, body))
}

fn outcome(found: &Found, purpose: Purpose, note: Option<String>) -> CheckOutcome {
    let Found { code, body } = found;
    match (purpose, code) {
        (Purpose::Hook, _) => CheckOutcome { note, ..passed(String::new()) },
        (Purpose::Probe, 200..300) => passed(String::new()),
        (Purpose::Probe, 300..400) => {
            let body = String::from_utf8_lossy(body);
            let note = Some(format!("Probe terminated redirects, Response body: {body}"));
            CheckOutcome { note, ..passed(String::new()) }
        }
        _ => failed(format!("HTTP probe failed with statuscode: {code}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use tokio::net::TcpListener;

    /// What a server says at a path; `Holds`: and then nothing, for ever.
    #[derive(Clone, Copy)]
    enum Says {
        All(&'static str),
        Holds(&'static str),
    }

    /// Runs a check. Returns its outcome and the heads of the received requests.
    async fn asked(purpose: Purpose, scheme: &str, path: &str, says: fn(&str) -> Says) -> (CheckOutcome, Vec<String>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heads, open) = (RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let serve = async {
            loop {
                let (mut wire, _) = listener.accept().await.unwrap();
                let mut read = vec![0; 4096];
                let length = wire.read(&mut read).await.unwrap();
                let head = String::from_utf8_lossy(&read[..length]).into_owned();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                heads.borrow_mut().push(head);
                let (Says::All(text) | Says::Holds(text)) = says(&path);
                let _ = wire.write_all(text.replace("PORT", &port.to_string()).as_bytes()).await;
                if matches!(says(&path), Says::Holds(_)) {
                    open.borrow_mut().push(wire);
                }
            }
        };
        let (names, headers) = (Names::default(), [("X-A".to_owned(), "b".to_owned())]);
        let get_of = Get { scheme, host: "127.0.0.1", port, path, headers: &headers };
        let limit = if path == "/holds" || path == "/silent" { 300 } else { 20_000 };
        let outcome = tokio::select! {
            () = serve => unreachable!(),
            outcome = get(&names, &get_of, purpose, Duration::from_millis(limit)) => outcome,
        };
        (outcome, heads.into_inner())
    }

    fn says(path: &str) -> Says {
        match path {
            "/" => Says::All("HTTP/1.1 302 F\r\nLocation: /down\r\nContent-Length: 0\r\n\r\n"),
            "/down" => Says::All("HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"),
            "/a/b" => Says::All("HTTP/1.1 307 F\r\nLocation: ../up?x#y\r\n\r\n"),
            "/up?x" => Says::All("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            "/loop" => Says::All("HTTP/1.1 301 F\r\nLocation: /loop\r\nContent-Length: 0\r\n\r\n"),
            "/away" => Says::All("HTTP/1.1 302 F\r\nLocation: http://localhost:PORT/\r\nContent-Length: 2\r\n\r\nhi"),
            "/ftp" => Says::All("HTTP/1.1 302 F\r\nLocation: ftp://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"),
            "/nowhere" => Says::All("HTTP/1.1 302 F\r\nContent-Length: 0\r\n\r\n"),
            "/other" => Says::All("HTTP/1.1 304 F\r\n\r\n"),
            "/holds" => Says::Holds("HTTP/1.1 200 OK\r\nContent-Length: 90000\r\n\r\nhalf"),
            "/silent" => Says::Holds(""),
            "/half" => Says::All("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nhalf"),
            "/early" => Says::All("HTTP/1.1 103 E\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            "/switch" => Says::All("HTTP/1.1 101 S\r\n\r\n"),
            "/ssh" => Says::Holds("SSH-2.0\r\n"),
            _ => Says::All("HTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n"),
        }
    }

    #[tokio::test]
    async fn probes_as_a_kubelet_makes_them() {
        for (path, passes, words, requests) in [
            ("/", false, "HTTP probe failed with statuscode: 500", 2),
            ("/a/b", true, "", 2),
            ("/loop", false, "Get \"/loop\": stopped after 10 redirects", 10),
            ("/away", true, "Probe terminated redirects, Response body: hi", 1),
            ("/ftp", false, "unsupported protocol scheme \"ftp\"", 1),
            ("/nowhere", true, "Probe terminated redirects, Response body: ", 1),
            ("/other", true, "Probe terminated redirects, Response body: ", 1),
            ("/holds", false, "context deadline exceeded (Client.Timeout or context cancellation while reading", 1),
            ("/silent", false, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)", 1),
            ("/half", false, "unexpected EOF", 1),
            ("/early", true, "", 1),
            ("/switch", false, "HTTP probe failed with statuscode: 101", 1),
            ("/ssh", false, "malformed HTTP response \"SSH-2.0\"", 1),
            ("/up?x#y", true, "", 1),
            ("/%zz", false, "HTTP probe failed with statuscode: 404", 1),
        ] {
            let (outcome, heads) = asked(Purpose::Probe, "HTTP", path, says).await;
            let said = outcome.note.clone().unwrap_or(outcome.output);
            assert_eq!((outcome.passed, heads.len()), (passes, requests), "{path}: {said}");
            assert!(said.contains(words) && (!passes || words.is_empty() == outcome.note.is_none()), "{path}: {said}");
            assert!(heads.iter().all(|head| head.contains("\r\nX-A: b\r\n")), "{heads:?}");
        }
    }

    #[tokio::test]
    async fn a_hook_passes_with_any_answer() {
        for (path, passes) in
            [("/down", true), ("/", true), ("/holds", true), ("/switch", true), ("/loop", false), ("/ssh", false)]
        {
            let (outcome, heads) = asked(Purpose::Hook, "http", path, says).await;
            assert_eq!(outcome.passed, passes, "{path}: {outcome:?}");
            assert!(heads[0].contains("\r\nUser-Agent: kube-lifecycle/1."), "{heads:?}");
        }
        // An HTTPS hook at a server without TLS is repeated without TLS.
        let plain = |path: &str| match path {
            "/up?x" => Says::All("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            _ => Says::All("HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server."),
        };
        let (outcome, heads) = asked(Purpose::Hook, "HTTPS", "/up?x", plain).await;
        assert!(outcome.passed && heads.len() == 2, "{outcome:?} {heads:?}");
        let note = outcome.note.unwrap();
        assert!(
            note.starts_with("request to HTTPS lifecycle hook 127.0.0.1:") && note.ends_with("succeeded"),
            "{note}"
        );
        let (outcome, _) = asked(Purpose::Probe, "HTTPS", "/up?x", plain).await;
        assert!(outcome.output.contains(NO_TLS), "{outcome:?}");
    }
}
