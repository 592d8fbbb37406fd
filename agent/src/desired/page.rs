//! Fetches a page of manifests from another host periodically. The page is kept on this host's disk, where the
//! directory's reader treats the page as a further file. Therefore the page has a last good version, and a start
//! without the other host runs the same pods.
//!
//!     look -> 304, or the same as before: nothing · another: to the disk, the directory is told
//!         · an error: said once, nothing ends

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use std::{fmt, fs};

use coracle_http::client::{Client, Target};
use coracle_http::{Clock, HeaderMap, TlsTarget, TlsTrust, header};
use tokio::sync::watch;
use tokio::time::sleep;

use super::file::FILE_BYTES_MAX;
use crate::host::private;

/// As often as a kubelet looks.
const PERIOD: Duration = Duration::from_secs(20);
/// The name of the page among the files of the directory.
pub const NAME: &str = "coracle-manifest-url";

/// Where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    pub target: Target,
    pub path: String,
}

/// The address of a page, taken apart.
#[derive(Debug, PartialEq)]
pub struct PageAddress {
    pub secure: bool,
    /// An IPv6 address has brackets.
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl FromStr for PageAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<PageAddress, String> {
        let bad = || format!("{text:?} is neither https://HOST:PORT/PATH nor http://HOST:PORT/PATH");
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let (secure, usual) = match scheme {
            "https" => (true, 443),
            "http" => (false, 80),
            _ => return Err(bad()),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let has_port = authority.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
        let whole = if has_port { authority.to_owned() } else { format!("{authority}:{usual}") };
        let target = format!("http://{whole}").parse::<Target>().map_err(|error| error.to_string())?;
        let Target::Tcp { host, port } = target else { return Err(bad()) };
        if path.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!("{text:?}: what is no letter of an address is written as %20"));
        }
        Ok(PageAddress { secure, host, port, path: if path.is_empty() { "/".to_owned() } else { path.to_owned() } })
    }
}

impl PageAddress {
    /// The page, if nobody on the way can answer in the place of its server: whoever does is root on this host.
    /// `authorities`: the certificates, in PEM, of which one has signed the server's.
    pub fn page(self, authorities: impl FnOnce() -> Result<Vec<u8>, String>, clock: Clock) -> Result<Page, String> {
        let PageAddress { secure, host, port, path } = self;
        let target = match secure {
            false => Target::Tcp { host, port },
            true => {
                let pem = authorities()?;
                let trust = TlsTrust { ca_pem: &pem, server_name: None, certificate: None, token_file: None, clock };
                let target = TlsTarget::new(&host, port, trust).map_err(|error| error.to_string())?;
                Target::Tls(Box::new(target))
            }
        };
        match target.is_safe() {
            true => Ok(Page { target, path }),
            false => Err(format!(
                "{target} is another host, and over plain http whoever answers in its place is root here: use https:// \
                 (manifest-ca names the authority), or a loopback address to which ssh or WireGuard leads"
            )),
        }
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.target, self.path)
    }
}

/// Where it is kept.
pub fn place(data_dir: &str) -> PathBuf {
    Path::new(data_dir).join("manifest-url").join(NAME)
}

/// The known version of the page, and the headers that name it to the server.
#[derive(Debug, Default, PartialEq)]
struct Known {
    bytes: Option<Vec<u8>>,
    fields: HeaderMap,
}

/// The outcome of one fetch.
#[derive(Debug, PartialEq)]
enum News {
    Same,
    Changed(Vec<u8>),
}

/// Never ends. Each change on the disk is told.
pub async fn follow(page: Page, data_dir: &str, changed: watch::Sender<()>) {
    let client = Client::new(page.target.clone(), concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
    let place = place(data_dir);
    let mut known = Known { bytes: fs::read(&place).ok(), fields: HeaderMap::new() };
    let mut trouble: Option<String> = None;
    loop {
        let looked = match look(&client, &page.path, &mut known).await {
            Ok(News::Changed(bytes)) => keep(&place, &bytes).map(|()| {
                log::info!("{page} has changed");
                known.bytes = Some(bytes);
                changed.send_replace(());
            }),
            Ok(News::Same) => Ok(()),
            Err(why) => Err(why),
        };
        match looked {
            Ok(()) if trouble.take().is_some() => log::info!("{page} answers again"),
            Ok(()) => {}
            Err(why) => {
                if trouble.as_ref() != Some(&why) {
                    log::error!("manifests of {page}: {why}; what runs of it goes on");
                    trouble = Some(why);
                }
                // What could not be kept is asked for whole.
                known.fields.clear();
            }
        }
        sleep(PERIOD).await;
    }
}

async fn look(client: &Client, path: &str, known: &mut Known) -> Result<News, String> {
    let bytes_max = usize::try_from(FILE_BYTES_MAX).unwrap_or(usize::MAX);
    let reply = client.look(path, &known.fields, bytes_max).await.map_err(|error| error.to_string())?;
    match reply.status.as_u16() {
        304 if known.bytes.is_some() => return Ok(News::Same),
        200 => {}
        _ => return Err(format!("it answers {}", reply.status)),
    }
    // A server that is being set up: whoever wants no pods serves an empty list.
    if reply.body.is_empty() {
        return Err("zero-length data received".to_owned());
    }
    known.fields = fields(&reply.headers);
    let same = known.bytes.as_deref() == Some(&*reply.body);
    Ok(if same { News::Same } else { News::Changed(reply.body.to_vec()) })
}

/// The validators of this answer (`ETag`, `Last-Modified`), sent with the next request.
fn fields(headers: &HeaderMap) -> HeaderMap {
    let pairs = [(header::ETAG, header::IF_NONE_MATCH), (header::LAST_MODIFIED, header::IF_MODIFIED_SINCE)];
    pairs.into_iter().filter_map(|(given, asked)| Some((asked, headers.get(given)?.clone()))).collect()
}

fn keep(place: &Path, bytes: &[u8]) -> Result<(), String> {
    let (Some(folder), name) = (place.parent(), OsString::from(NAME)) else { return Ok(()) };
    private::replace_files(folder, std::iter::once((name, bytes.to_vec())))
        .map_err(|error| format!("keep it in {}: {error}", place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    fn page(text: &str) -> Result<Page, String> {
        let none = || Err("no authority".to_owned());
        text.parse::<PageAddress>().and_then(|address| address.page(none, Arc::new(|| Duration::ZERO)))
    }

    #[test]
    fn addresses() {
        let check =
            |text: &str, expected: &str| assert_eq!(page(text).map(|page| page.to_string()), Ok(expected.to_owned()));
        check("http://127.0.0.1:8000/pods/a.yaml?x=1", "http://127.0.0.1:8000/pods/a.yaml?x=1");
        check("http://localhost", "http://localhost:80/");
        check("http://[::1]/m", "http://[::1]:80/m");
        for far in ["http://box/m", "http://127.0.0.1.example/m", "http://192.0.2.1:8000/m"] {
            assert!(page(far).is_err_and(|why| why.contains("whoever answers in its place is root here")), "{far}");
        }
        assert_eq!(page("https://box/m"), Err("no authority".to_owned()));
        let secure = "https://box/m".parse::<PageAddress>().unwrap();
        assert_eq!((secure.host.as_str(), secure.port, secure.path.as_str()), ("box", 443, "/m"));
        for bad in ["ftp://box/m", "box/m", "http:///m", "http://a@b/m", "http://localhost/a b", "unix:///a"] {
            assert!(page(bad).is_err(), "{bad}");
        }
    }

    /// A server that answers one connection with `answer`, and returns the request in lower case.
    async fn serve(listener: &TcpListener, answer: &str) -> String {
        let (mut wire, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            assert_ne!(wire.read_buf(&mut asked).await.unwrap(), 0);
        }
        wire.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(asked).unwrap().to_ascii_lowercase()
    }

    #[tokio::test]
    async fn what_has_not_changed_is_not_sent() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let target = Target::Tcp { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        let client = Client::new(target, "test");
        let mut known = Known::default();
        let whole =
            |more: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{more}Content-Length: {}\r\n\r\n{body}", body.len());
        let (changed, same) = (|text: &str| Ok(News::Changed(text.as_bytes().to_vec())), || Ok(News::Same));
        let mut seen: Vec<(String, Result<News, String>, &str)> = vec![
            (whole("ETag: \"1\"\r\n", "a"), changed("a"), ""),
            ("HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(), same(), "if-none-match: \"1\""),
            (whole("Last-Modified: then\r\n", "b"), changed("b"), "if-none-match: \"1\""),
            (whole("", "b"), same(), "if-modified-since: then"),
            (
                "HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n".to_owned(),
                Err("it answers 500 Internal Server Error".to_owned()),
                "",
            ),
            (whole("", ""), Err("zero-length data received".to_owned()), ""),
        ];
        for (answer, expected, asks) in seen.drain(..) {
            let (found, asked) = tokio::join!(look(&client, "/m", &mut known), serve(&listener, &answer));
            assert!(asked.starts_with("get /m http/1.1") && asked.contains(asks), "{asked}");
            assert_eq!(found, expected, "{answer}");
            if let Ok(News::Changed(bytes)) = found {
                known.bytes = Some(bytes);
            }
        }
    }
}
