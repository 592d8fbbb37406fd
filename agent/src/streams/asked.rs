//! PURE. The streams that a client asks for, and the protocol that carries them.

use coracle_api::query::truth;
use coracle_http::websocket::Offer;
use coracle_http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::channels::ChannelProtocol;
use super::forward::PORTS_MAX;
use super::spdy;
use crate::runtime::conversation::Streams;

/// The protocols of commands over WebSocket, as far as clients name them.
const CHANNELS: [(&str, ChannelProtocol); 5] = [
    ("v5.channel.k8s.io", ChannelProtocol { base64: false, status: true, closes: true }),
    ("v4.channel.k8s.io", ChannelProtocol { base64: false, status: true, closes: false }),
    ("v4.base64.channel.k8s.io", ChannelProtocol { base64: true, status: true, closes: false }),
    ("channel.k8s.io", OLDEST),
    ("base64.channel.k8s.io", ChannelProtocol { base64: true, status: false, closes: false }),
];
/// The protocol for a client without a protocol header.
const OLDEST: ChannelProtocol = ChannelProtocol { base64: false, status: false, closes: false };

/// The SPDY headers of requests and answers.
const SPDY: &str = "SPDY/3.1";
const STREAM_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
const ACCEPTED_VERSIONS: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// The protocols of commands over SPDY.
const STREAMS: [(&str, spdy::SpdyProtocol); 4] = [
    ("v4.channel.k8s.io", spdy::SpdyProtocol { status: true, sizes: true }),
    ("v3.channel.k8s.io", spdy::SpdyProtocol { status: false, sizes: true }),
    ("v2.channel.k8s.io", spdy::SpdyProtocol { status: false, sizes: false }),
    ("channel.k8s.io", spdy::SpdyProtocol { status: false, sizes: false }),
];

/// Protocols of port forwarding: plain SPDY, SPDY tunnelled in a WebSocket, and channels of a WebSocket.
const PORTS: [&str; 1] = ["portforward.k8s.io"];
const PORTS_TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const PORTS_CHANNELS: [(&str, bool); 2] = [("v4.channel.k8s.io", false), ("v4.base64.channel.k8s.io", true)];

/// Protocols of a log: binary and base64.
const LOGS: [(&str, bool); 2] = [("binary.k8s.io", false), ("base64.binary.k8s.io", true)];

/// How the streams of a command are carried.
#[derive(Debug, PartialEq)]
pub enum Carrier {
    Channels(ChannelProtocol),
    Spdy(spdy::SpdyProtocol),
}

/// How connections to ports are carried.
#[derive(Debug, PartialEq)]
pub enum Way {
    Spdy,
    Tunnel,
    /// These ports and no others.
    Channels {
        base64: bool,
        ports: Vec<u16>,
    },
}

/// The header fields of the upgrade answer; `Upgrade` comes first.
pub type Fields = Vec<(HeaderName, HeaderValue)>;

/// Why a request does not go on.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    pub code: StatusCode,
    pub why: String,
    /// What would have been accepted.
    pub fields: Fields,
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal { code: StatusCode::BAD_REQUEST, why, fields: Vec::new() }
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Refusal {
        why.to_owned().into()
    }
}

/// Of a command.
pub fn carrier(method: &Method, headers: &HeaderMap) -> Result<(Carrier, Fields), Refusal> {
    match Offer::of(method, headers) {
        Some(offer) => {
            let offer = offer?;
            let (form, name) = chosen(&offer, &CHANNELS)?.unwrap_or((OLDEST, ""));
            Ok((Carrier::Channels(form), websocket(&offer, name)))
        }
        None => {
            let names = STREAMS.map(|(name, _)| name);
            let name = version(headers, &names)?;
            let (name, form) = STREAMS.into_iter().find(|(known, _)| *known == name).unwrap_or(STREAMS[0]);
            Ok((Carrier::Spdy(form), spdy_fields(name)))
        }
    }
}

/// Of ports; `parameters` are of the query.
pub fn way(method: &Method, headers: &HeaderMap, parameters: &[(String, String)]) -> Result<(Way, Fields), Refusal> {
    let Some(offer) = Offer::of(method, headers) else {
        let name = version(headers, &PORTS)?;
        return Ok((Way::Spdy, spdy_fields(name)));
    };
    let offer = offer?;
    if offer.protocols.iter().any(|name| name == PORTS_TUNNEL) {
        return Ok((Way::Tunnel, websocket(&offer, PORTS_TUNNEL)));
    }
    let ports = ports(parameters)?;
    let (base64, name) = chosen(&offer, &PORTS_CHANNELS)?.unwrap_or((false, ""));
    Ok((Way::Channels { base64, ports }, websocket(&offer, name)))
}

/// Of a log: whether it is base64. None: not over WebSocket.
pub fn log(method: &Method, headers: &HeaderMap) -> Option<Result<(bool, Fields), Refusal>> {
    let offer = Offer::of(method, headers)?;
    let accepted = |offer: Offer| {
        let (base64, name) = chosen(&offer, &LOGS)?.unwrap_or((false, ""));
        Ok((base64, websocket(&offer, name)))
    };
    Some(offer.map_err(Refusal::from).and_then(accepted))
}

/// The first that the client names and that is known. None: it names none.
fn chosen<F: Copy>(offer: &Offer, known: &[(&'static str, F)]) -> Result<Option<(F, &'static str)>, Refusal> {
    if offer.protocols.is_empty() {
        return Ok(None);
    }
    let found = offer.protocols.iter().find_map(|name| known.iter().find(|(known, _)| known == name));
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let unsupported = || {
        format!(
            "requested protocol(s) are not supported: [{}]; supports [{}]",
            offer.protocols.join(" "),
            names.join(" ")
        )
    };
    found.map(|(name, form)| Some((*form, *name))).ok_or_else(|| unsupported().into())
}

/// `protocol`: empty where the client names none.
fn websocket(offer: &Offer, protocol: &str) -> Fields {
    let upgrade = (header::UPGRADE, HeaderValue::from_static("websocket"));
    [upgrade].into_iter().chain(offer.accept(Some(protocol).filter(|name| !name.is_empty()))).collect()
}

fn spdy_fields(version: &'static str) -> Fields {
    vec![(header::UPGRADE, HeaderValue::from_static(SPDY)), (STREAM_VERSION, HeaderValue::from_static(version))]
}

/// The first known protocol in the list of an SPDY client.
fn version(headers: &HeaderMap, known: &[&'static str]) -> Result<&'static str, Refusal> {
    let words = |name: &HeaderName| -> Vec<String> {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .map(|word| word.trim().to_owned())
            .filter(|word| !word.is_empty())
            .collect()
    };
    if !words(&header::UPGRADE).iter().any(|protocol| protocol.eq_ignore_ascii_case(SPDY)) {
        return Err("Upgrade request required".into());
    }
    let asked = words(&STREAM_VERSION);
    if asked.is_empty() {
        let count = headers.keys_len();
        let words = format!(
            "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with {count} headers"
        );
        return Err(words.into());
    }
    let found = asked.iter().find_map(|name| known.iter().find(|known| *known == name));
    found.copied().ok_or_else(|| Refusal {
        code: StatusCode::FORBIDDEN,
        why: format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
            asked.join(" "),
            known.join(" ")
        ),
        fields: known.iter().map(|name| (ACCEPTED_VERSIONS, HeaderValue::from_static(name))).collect(),
    })
}

fn ports(parameters: &[(String, String)]) -> Result<Vec<u16>, Refusal> {
    let said: Vec<&str> =
        parameters.iter().filter(|(name, _)| name == "port").map(|(_, value)| value.as_str()).collect();
    if said.is_empty() {
        return Err("query parameter \"port\" is required".into());
    }
    let mut ports = Vec::new();
    for said in said {
        if said.is_empty() {
            return Err("query parameter \"port\" cannot be empty".into());
        }
        for port in said.split(',') {
            let number: u16 = port.parse().map_err(|error| format!("unable to parse {said:?} as a port: {error}"))?;
            if number == 0 {
                return Err(format!("port {said:?} must be > 0").into());
            }
            ports.push(number);
        }
    }
    if ports.len() > PORTS_MAX {
        return Err(format!("at most {PORTS_MAX} ports are forwarded over one WebSocket").into());
    }
    Ok(ports)
}

/// Of a query in the kubelet's words.
pub fn streams(parameters: &[(String, String)]) -> Result<Streams, String> {
    let flag = |name: &str| parameters.iter().any(|(parameter, value)| parameter == name && truth(value));
    let tty = flag("tty");
    // A terminal has one output.
    let streams = Streams { stdin: flag("input"), stdout: flag("output"), stderr: flag("error") && !tty, tty };
    if !(streams.stdin || streams.stdout || streams.stderr) {
        return Err("you must specify at least 1 of stdin, stdout, stderr".to_owned());
    }
    Ok(streams)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let base = [
            ("connection", "Upgrade"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        let mut headers = HeaderMap::new();
        for (name, value) in base.iter().chain(fields) {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    /// The name that the answer gives the protocol.
    fn named(fields: &Fields) -> String {
        let named = fields.iter().find(|(name, _)| [header::SEC_WEBSOCKET_PROTOCOL, STREAM_VERSION].contains(name));
        named.map(|(_, value)| value.to_str().unwrap().to_owned()).unwrap_or_default()
    }

    fn ask(fields: &[(&'static str, &'static str)]) -> Result<(Carrier, String), String> {
        let (carrier, fields) = carrier(&Method::GET, &head(fields)).map_err(|refusal| refusal.why)?;
        Ok((carrier, named(&fields)))
    }

    #[test]
    fn carriers() {
        let asks = |protocols: &'static str| ask(&[("upgrade", "websocket"), ("sec-websocket-protocol", protocols)]);
        let (carrier, named) = asks("v5.channel.k8s.io,v4.channel.k8s.io").unwrap();
        assert_eq!((carrier, named.as_str()), (Carrier::Channels(CHANNELS[0].1), "v5.channel.k8s.io"));
        let (carrier, named) = asks("other, base64.channel.k8s.io").unwrap();
        assert_eq!((carrier, named.as_str()), (Carrier::Channels(CHANNELS[4].1), "base64.channel.k8s.io"));
        assert_eq!(ask(&[("upgrade", "websocket")]).unwrap(), (Carrier::Channels(OLDEST), String::new()));
        assert!(
            asks("other").unwrap_err().starts_with("requested protocol(s) are not supported: [other]; supports [v5.")
        );
        assert_eq!(ask(&[]).unwrap_err(), "Upgrade request required");
        let spdy = ("upgrade", "SPDY/3.1");
        let versions =
            [("x-stream-protocol-version", "v5.channel.k8s.io"), ("x-stream-protocol-version", STREAMS[0].0)];
        let (carrier, named) = ask(&[spdy, versions[0], versions[1]]).unwrap();
        assert_eq!((carrier, named.as_str()), (Carrier::Spdy(STREAMS[0].1), "v4.channel.k8s.io"));
        assert!(
            ask(&[spdy]).unwrap_err().starts_with("unable to upgrade: header X-Stream-Protocol-Version does not exist")
        );
        assert!(
            ask(&[spdy, ("x-stream-protocol-version", "v9")])
                .unwrap_err()
                .contains("client supports [v9], server accepts [v4.")
        );
    }

    #[test]
    fn ways_to_ports() {
        let ask = |fields: &[(&'static str, &'static str)], query: &[(&str, &str)]| {
            let query: Vec<(String, String)> =
                query.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            let (way, fields) = way(&Method::GET, &head(fields), &query).map_err(|refusal| refusal.why)?;
            Ok::<_, String>((way, named(&fields)))
        };
        let spdy = [("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "portforward.k8s.io")];
        assert_eq!(ask(&spdy, &[]), Ok((Way::Spdy, PORTS[0].to_owned())));
        let tunnel = [("upgrade", "websocket"), ("sec-websocket-protocol", PORTS_TUNNEL)];
        assert_eq!(ask(&tunnel, &[]), Ok((Way::Tunnel, PORTS_TUNNEL.to_owned())));
        let channels = [("upgrade", "websocket"), ("sec-websocket-protocol", "v4.channel.k8s.io")];
        let way = Way::Channels { base64: false, ports: vec![80, 443, 8080] };
        assert_eq!(ask(&channels, &[("port", "80,443"), ("port", "8080")]), Ok((way, "v4.channel.k8s.io".to_owned())));
        for (query, why) in [
            (&[][..], "query parameter \"port\" is required"),
            (&[("port", "")], "query parameter \"port\" cannot be empty"),
            (&[("port", "0")], "port \"0\" must be > 0"),
            (&[("port", "1,".repeat(33).trim_end_matches(','))], "at most 32 ports are forwarded over one WebSocket"),
        ] {
            assert_eq!(ask(&channels, query), Err(why.to_owned()));
        }
    }

    #[test]
    fn queries() {
        let read = |pairs: &[(&str, &str)]| {
            streams(&pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect::<Vec<_>>())
        };
        let all = Streams { stdin: true, stdout: true, stderr: false, tty: true };
        assert_eq!(read(&[("input", "1"), ("output", "1"), ("error", "1"), ("tty", "1")]), Ok(all));
        assert_eq!(read(&[("error", "true")]), Ok(Streams { stderr: true, ..Streams::default() }));
        assert!(read(&[("tty", "1"), ("error", "1")]).is_err());
        assert!(read(&[("input", "0")]).is_err());
    }
}
