//! PURE. The two streams of each forwarded connection, as a client opens them one after the other.

use std::collections::HashMap;

/// The request in the headers of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct StreamHeaders {
    pub is_data: bool,
    pub port: u16,
    /// Common to the two of a pair.
    request: String,
}

/// Pairs that still miss the data or the error stream; `H` is held for the data.
#[derive(Debug)]
pub struct Pairs<H> {
    halves: HashMap<String, Half<H>>,
}

#[derive(Debug)]
struct Half<H> {
    data: Option<(u32, u16, H)>,
    error: Option<u32>,
}

#[derive(Debug, PartialEq)]
pub struct Whole<H> {
    pub port: u16,
    pub data: u32,
    pub error: u32,
    pub held: H,
}

impl<H> Default for Pairs<H> {
    fn default() -> Pairs<H> {
        Pairs { halves: HashMap::new() }
    }
}

impl StreamHeaders {
    /// `Err`: why the stream is rejected.
    pub fn read(stream: u32, headers: &[(String, String)]) -> Result<StreamHeaders, String> {
        let said = |name: &str| {
            headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        let needed = |name: &str| match said(name) {
            "" => Err(format!("{name:?} header is required")),
            value => Ok(value),
        };
        let port = needed("port")?;
        let port: u16 = port.parse().map_err(|error| format!("unable to parse {port:?} as a port: {error}"))?;
        if port == 0 {
            return Err("port \"0\" must be > 0".to_owned());
        }
        let is_data = match needed("streamtype")? {
            "data" => true,
            "error" => false,
            other => return Err(format!("invalid stream type {other:?}")),
        };
        let request = match said("requestid") {
            // Clients older than 2015 open the error stream first, and the data stream next.
            "" => stream.saturating_sub(if is_data { 2 } else { 0 }).to_string(),
            id => id.to_owned(),
        };
        Ok(StreamHeaders { is_data, port, request })
    }
}

impl<H> Pairs<H> {
    pub fn len(&self) -> usize {
        self.halves.len()
    }

    pub fn data(&mut self, stream: u32, asked: StreamHeaders, held: H) -> Result<Option<Whole<H>>, String> {
        let half = self.half(&asked);
        if half.data.is_some() {
            return Err("data stream already assigned".to_owned());
        }
        half.data = Some((stream, asked.port, held));
        Ok(self.whole(&asked.request))
    }

    pub fn error(&mut self, stream: u32, asked: StreamHeaders) -> Result<Option<Whole<H>>, String> {
        let half = self.half(&asked);
        if half.error.is_some() {
            return Err("error stream already assigned".to_owned());
        }
        half.error = Some(stream);
        Ok(self.whole(&asked.request))
    }

    /// The client wants it no more.
    pub fn forget(&mut self, stream: u32) {
        self.halves.retain(|_, half| {
            half.error != Some(stream) && half.data.as_ref().is_none_or(|(data, ..)| *data != stream)
        });
    }

    fn half(&mut self, asked: &StreamHeaders) -> &mut Half<H> {
        self.halves.entry(asked.request.clone()).or_insert(Half { data: None, error: None })
    }

    fn whole(&mut self, request: &str) -> Option<Whole<H>> {
        let half = self.halves.get(request)?;
        half.error.filter(|_| half.data.is_some())?;
        match self.halves.remove(request)? {
            Half { data: Some((data, port, held)), error: Some(error) } => Some(Whole { port, data, error, held }),
            Half { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn asked(stream: u32, kind: &str, request: &str) -> StreamHeaders {
        StreamHeaders::read(stream, &headers(&[("streamtype", kind), ("port", "80"), ("requestid", request)])).unwrap()
    }

    #[test]
    fn two_streams_make_a_connection() {
        let mut pairs = Pairs::default();
        assert_eq!(pairs.error(1, asked(1, "error", "0")), Ok(None));
        assert_eq!(pairs.error(3, asked(3, "error", "1")), Ok(None));
        assert_eq!(
            pairs.data(7, asked(7, "data", "1"), 'b'),
            Ok(Some(Whole { port: 80, data: 7, error: 3, held: 'b' }))
        );
        assert_eq!(pairs.error(9, asked(9, "error", "0")), Err("error stream already assigned".to_owned()));
        assert_eq!(
            pairs.data(5, asked(5, "data", "0"), 'a'),
            Ok(Some(Whole { port: 80, data: 5, error: 1, held: 'a' }))
        );
        assert_eq!(pairs.len(), 0);
        // Without numbers of requests.
        assert_eq!(pairs.error(11, asked(11, "error", "")), Ok(None));
        assert_eq!(
            pairs.data(13, asked(13, "data", ""), 'c'),
            Ok(Some(Whole { port: 80, data: 13, error: 11, held: 'c' }))
        );
        assert_eq!(pairs.error(15, asked(15, "error", "2")), Ok(None));
        pairs.forget(15);
        assert_eq!(pairs.len(), 0);
    }

    #[test]
    fn streams_that_are_rejected() {
        for (given, why) in [
            (&[("streamtype", "data")][..], "\"port\" header is required"),
            (&[("port", "80")], "\"streamtype\" header is required"),
            (&[("port", "0"), ("streamtype", "data")], "port \"0\" must be > 0"),
            (&[("port", "80"), ("streamtype", "other")], "invalid stream type \"other\""),
        ] {
            assert_eq!(StreamHeaders::read(1, &headers(given)), Err(why.to_owned()));
        }
        assert!(StreamHeaders::read(1, &headers(&[("port", "70000"), ("streamtype", "data")])).is_err());
    }
}
