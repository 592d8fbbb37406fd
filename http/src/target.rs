//! Where a client's server listens, and how safe the way there is.
use crate::network::is_loopback;
use crate::tls::TlsTarget;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Bytes of a bearer token and of the file that holds it.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    Unix(PathBuf),
    Tcp {
        host: String,
        port: u16,
    },
    /// A verified server. No text makes one: it needs the authority of the server.
    Tls(Box<TlsTarget>),
}

/// The text of a target, and what is wrong with it.
#[derive(Debug, PartialEq)]
pub struct BadTarget(String, &'static str);

impl Target {
    /// The token that the client shows, as its file has it now.
    pub(crate) fn token(&self) -> io::Result<Option<String>> {
        match self {
            Target::Tls(target) => target.token_file.as_deref().map(token).transpose(),
            Target::Unix(_) | Target::Tcp { .. } => Ok(None),
        }
    }

    /// For the Host field: over a Unix socket there is only this host.
    pub(crate) fn host(&self) -> String {
        match self {
            Target::Unix(_) => "localhost".into(),
            Target::Tcp { host, port } => format!("{host}:{port}"),
            // Some servers know their name without the usual port alone.
            Target::Tls(target) if target.port == 443 => target.host.clone(),
            Target::Tls(target) => format!("{}:{}", target.host, target.port),
        }
    }

    /// Whether nobody on the way can be taken for this server: its connection does not leave this host, or it shows a
    /// certificate that is verified.
    pub fn is_safe(&self) -> bool {
        match self {
            Target::Unix(_) | Target::Tls(_) => true,
            Target::Tcp { host, .. } => {
                let host = host.trim_matches(['[', ']']);
                host.eq_ignore_ascii_case("localhost")
                    || host.parse().is_ok_and(|address: IpAddr| is_loopback((address, 0).into()))
            }
        }
    }
}

/// The token in a file: Kubernetes renews those of pods in their files.
fn token(path: &Path) -> io::Result<String> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("read the token in {}: {error}", path.display()));
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut text)).map_err(named)?;
    let token = text.trim();
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(named(io::Error::new(io::ErrorKind::InvalidData, "it holds no token")));
    }
    Ok(token.to_owned())
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Target, BadTarget> {
        let bad = |why| Err(BadTarget(text.to_owned(), why));
        if let Some(path) = text.strip_prefix("unix://") {
            return match path.starts_with('/') && path.len() > 1 {
                true => Ok(Target::Unix(path.into())),
                false => bad("after unix:// an absolute path is needed"),
            };
        }
        if text.starts_with("https://") {
            return bad("https is not supported: use http://HOST:PORT or unix:///PATH");
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return bad("it must be http://HOST:PORT or unix:///PATH");
        };
        let Ok(authority) = rest.strip_suffix('/').unwrap_or(rest).parse::<http::uri::Authority>() else {
            return bad("after http:// HOST:PORT is needed, and nothing else");
        };
        match (authority.host(), authority.port_u16()) {
            _ if authority.as_str().contains('@') => bad("it must not hold a user or a password"),
            ("", _) => bad("it has no host"),
            (_, None | Some(0)) => bad("it has no port"),
            (host, Some(port)) => Ok(Target::Tcp { host: host.to_owned(), port }),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Unix(path) => write!(f, "unix://{}", path.display()),
            Target::Tcp { host, port } => write!(f, "http://{host}:{port}"),
            Target::Tls(target) => target.fmt(f),
        }
    }
}

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0, self.1)
    }
}

impl std::error::Error for BadTarget {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        let tcp = |host: &str, port| Ok(Target::Tcp { host: host.into(), port });
        let check = |text: &str, want: Result<Target, &str>| {
            let got: Result<Target, BadTarget> = text.parse();
            assert_eq!(got.as_ref().map_err(|e| e.1), want.as_ref().map_err(|why| *why), "{text}");
            if let Ok(target) = got {
                assert_eq!(target.to_string().parse(), Ok(target), "{text} printed and read again");
            }
        };
        check("unix:///run/api.sock", Ok(Target::Unix("/run/api.sock".into())));
        check("http://127.0.0.1:8080", tcp("127.0.0.1", 8080));
        check("http://localhost:8080/", tcp("localhost", 8080));
        check("http://[::1]:8080", tcp("[::1]", 8080));
        check("unix://run/api.sock", Err("after unix:// an absolute path is needed"));
        check("unix://", Err("after unix:// an absolute path is needed"));
        check("unix:///", Err("after unix:// an absolute path is needed"));
        check("https://localhost:6443", Err("https is not supported: use http://HOST:PORT or unix:///PATH"));
        check("localhost:8080", Err("it must be http://HOST:PORT or unix:///PATH"));
        check("", Err("it must be http://HOST:PORT or unix:///PATH"));
        check("http://localhost", Err("it has no port"));
        check("http://localhost:0", Err("it has no port"));
        check("http://localhost:8080/api", Err("after http:// HOST:PORT is needed, and nothing else"));
        check("http://u:p@localhost:8080", Err("it must not hold a user or a password"));
        check("http://:8080", Err("it has no host"));
    }
    #[test]
    fn who_may_be_asked_without_a_certificate() {
        for (target, safe) in [
            ("unix:///run/api.sock", true),
            ("http://127.0.0.1:8080", true),
            ("http://127.9.9.9:8080", true),
            ("http://[::1]:8080", true),
            ("http://LOCALHOST:8080", true),
            ("http://10.0.0.1:8080", false),
            ("http://127.0.0.1.example.com:8080", false),
            ("http://master:8080", false),
            ("http://0.0.0.0:8080", false),
        ] {
            assert_eq!(target.parse::<Target>().expect("a target").is_safe(), safe, "{target}");
        }
    }

    #[test]
    fn tokens_in_files() {
        let path = std::env::temp_dir().join(format!("coracle-token-{}", std::process::id()));
        let read = |text: &[u8]| {
            std::fs::write(&path, text).expect("a file");
            token(&path).map_err(|error| error.to_string())
        };
        assert_eq!(read(b"a.b.c\n"), Ok("a.b.c".to_owned()));
        assert_eq!(read(b"later"), Ok("later".to_owned()));
        for bad in [&b""[..], b"\n", b"a b", b"a\nb", b"\xff"] {
            assert!(read(bad).expect_err("no token").contains("coracle-token"), "{bad:?}");
        }
        std::fs::remove_file(&path).expect("the file");
        assert!(token(&path).expect_err("no file").to_string().contains("read the token in"));
    }
}
