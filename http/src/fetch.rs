//! Fetches one document from a verified server, for a thread that may wait. A redirect is not followed: the caller
//! named the server that it trusts.
use crate::client::Client;
use crate::target::Target;
use crate::tls::{Clock, TlsTarget, TlsTrust};
use crate::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use std::fmt;
use std::time::Duration;
use tokio::time::timeout;

/// The port of https.
const PORT: u16 = 443;

/// The address of a document: a server, and what to ask it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpsUrl {
    host: String,
    port: u16,
    path_and_query: String,
}

/// Whose certificates are trusted, in PEM.
#[derive(Clone, Copy)]
pub enum Authorities<'a> {
    Only(&'a [u8]),
    /// A host's collection: what cannot be read of it is passed over.
    OfHost(&'a [u8]),
}

pub struct Fetch<'a> {
    pub url: &'a HttpsUrl,
    pub authorities: Authorities<'a>,
    /// Judges the dates of the server's certificate.
    pub clock: Clock,
    pub bytes_max: usize,
    /// For all of it.
    pub patience: Duration,
}

impl HttpsUrl {
    pub fn parse(text: &str) -> Result<HttpsUrl, &'static str> {
        if text.contains('#') {
            return Err("URL must not contain a fragment");
        }
        let uri: http::Uri = text.parse().map_err(|_| "it is no URL")?;
        if uri.scheme_str() != Some("https") {
            return Err("URL scheme must be https");
        }
        let authority = uri.authority().ok_or("URL has no host")?;
        if authority.as_str().contains('@') {
            return Err("URL must not contain a username or password");
        }
        if authority.host().is_empty() || authority.port_u16() == Some(0) {
            return Err("URL has no host, or no port that can be reached");
        }
        let port = authority.port_u16().unwrap_or(PORT);
        let path_and_query = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(HttpsUrl { host: authority.host().to_owned(), port, path_and_query })
    }

    pub fn query(&self) -> Option<&str> {
        self.path_and_query.split_once('?').map(|(_, query)| query)
    }
}

impl fmt::Display for HttpsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            PORT => write!(f, "https://{}{}", self.host, self.path_and_query),
            port => write!(f, "https://{}:{port}{}", self.host, self.path_and_query),
        }
    }
}

/// Waits for the whole document. The error names the address.
pub fn fetch(asked: Fetch<'_>) -> Result<Bytes, String> {
    let Fetch { url, authorities, clock, bytes_max, patience } = asked;
    let target = match authorities {
        Authorities::Only(ca_pem) => {
            let trust = TlsTrust { ca_pem, server_name: None, certificate: None, token_file: None, clock };
            TlsTarget::new(&url.host, url.port, trust)
        }
        Authorities::OfHost(pem) => TlsTarget::of_host(&url.host, url.port, pem, clock),
    };
    let target = target.map_err(|why| format!("{url}: {why}"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|error| format!("{url}: {error}"))?;
    let client = Client::new(Target::Tls(Box::new(target)), "coracle");
    let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("application/json"))]);
    let reply =
        runtime.block_on(async { timeout(patience, client.look(&url.path_and_query, &headers, bytes_max)).await });
    // A name that is being resolved is not waited for.
    runtime.shutdown_background();
    let reply = reply.map_err(|_| format!("{url}: the document did not come within {} s", patience.as_secs()))?;
    let reply = reply.map_err(|error| format!("{url}: {error}"))?;
    match reply.status {
        StatusCode::OK => Ok(reply.body),
        status if status.is_redirection() => Err(format!("{url}: it answers {status}, and no redirect is followed")),
        status => Err(format!("{url}: it answers {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, expected) in [
            ("https://a.example", Ok("https://a.example/")),
            ("https://a.example:443/b", Ok("https://a.example/b")),
            ("https://a.example:8443/b?c=d", Ok("https://a.example:8443/b?c=d")),
            ("https://[::1]:8443/b", Ok("https://[::1]:8443/b")),
            ("http://a.example", Err("https")),
            ("a.example", Err("https")),
            ("/b", Err("https")),
            ("https://", Err("no URL")),
            ("https://u@a.example", Err("username")),
            ("https://a.example#b", Err("fragment")),
            ("https://a.example:0", Err("no port")),
            ("https://a b", Err("no URL")),
        ] {
            match (HttpsUrl::parse(text), expected) {
                (Ok(found), expected) => assert_eq!(Ok(found.to_string().as_str()), expected, "{text}"),
                (Err(why), expected) => assert!(why.contains(expected.expect_err(text)), "{text}: {why}"),
            }
        }
    }
}
