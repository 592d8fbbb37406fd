//! PURE. The answer to a check's request, as its bytes come.

/// What heads may have in bytes, those of interim answers with the last one's.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// A kubelet reads no more of a body.
pub const BODY_BYTES_MAX: usize = 10 * 1024;
/// Of a line that says how long the next piece of a body is, and of the lines behind the last one.
const CHUNK_LINE_BYTES_MAX: usize = 4096;

/// What a head says.
#[derive(Debug, PartialEq, Eq)]
pub struct Head {
    pub code: u16,
    pub location: Option<String>,
    body: Framing,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
    WithConnection,
}

/// Whether the answer is complete.
#[derive(Debug, PartialEq, Eq)]
pub enum GetStep {
    /// More has to come.
    More,
    Done,
}

/// Reads one answer.
#[derive(Debug, Default)]
pub struct GetAnswer {
    pub head: Option<Head>,
    pub body: Vec<u8>,
    /// Not looked at yet.
    read: Vec<u8>,
    heads_bytes: usize,
    /// See `head_end`: a head that comes byte by byte is looked at once.
    looked: (usize, usize),
    chunk: Chunk,
}

/// Where in a body of pieces a reader is.
#[derive(Debug, Default, PartialEq, Eq)]
enum Chunk {
    #[default]
    Length,
    Data(u64),
    DataEnd,
    /// The lines behind the last piece.
    Trailer,
}

impl GetAnswer {
    /// Takes what was read. `Err`: the bytes are no HTTP answer.
    pub fn take(&mut self, bytes: &[u8]) -> Result<GetStep, String> {
        self.read.extend_from_slice(bytes);
        while self.head.is_none() {
            let Some(end) = head_end(&self.read, &mut self.looked) else {
                if self.heads_bytes + self.read.len() > HEAD_BYTES_MAX {
                    return Err(format!("net/http: server response headers exceeded {HEAD_BYTES_MAX} bytes; aborted"));
                }
                return match self.read.first() {
                    Some(first) if !b"HTTP/".contains(first) => Err(malformed(&self.read)),
                    _ => Ok(GetStep::More),
                };
            };
            let head: Vec<u8> = self.read.drain(..end).collect();
            self.heads_bytes += head.len();
            self.looked = (0, 0);
            if self.heads_bytes > HEAD_BYTES_MAX {
                return Err(format!("net/http: server response headers exceeded {HEAD_BYTES_MAX} bytes; aborted"));
            }
            let head = Head::read(&head)?;
            // The answer proper comes behind it.
            if !(100..200).contains(&head.code) || head.code == 101 {
                self.head = Some(head);
            }
        }
        self.take_body()
    }

    /// The server says no more. `Err`: it had more to say.
    pub fn end(&self) -> Result<(), String> {
        match &self.head {
            None if self.read.is_empty() && self.heads_bytes == 0 => Err("EOF".to_owned()),
            Some(Head { body: Framing::WithConnection, .. }) => Ok(()),
            _ => Err("unexpected EOF".to_owned()),
        }
    }

    fn take_body(&mut self) -> Result<GetStep, String> {
        let Some(head) = &self.head else { return Ok(GetStep::More) };
        let room = BODY_BYTES_MAX - self.body.len();
        match head.body {
            Framing::Length(length) => {
                let left = length.saturating_sub(self.body.len() as u64);
                let taken = self.read.len().min(room).min(usize::try_from(left).unwrap_or(usize::MAX));
                self.body.extend(self.read.drain(..taken));
                let whole = self.body.len() as u64 == length;
                Ok(if whole || self.body.len() == BODY_BYTES_MAX { GetStep::Done } else { GetStep::More })
            }
            Framing::WithConnection => {
                let taken = self.read.len().min(room);
                self.body.extend(self.read.drain(..taken));
                Ok(if self.body.len() == BODY_BYTES_MAX { GetStep::Done } else { GetStep::More })
            }
            Framing::Chunked => self.take_chunks(),
        }
    }

    fn take_chunks(&mut self) -> Result<GetStep, String> {
        loop {
            if self.body.len() == BODY_BYTES_MAX {
                return Ok(GetStep::Done);
            }
            if let Chunk::Data(left) = self.chunk {
                let room = BODY_BYTES_MAX - self.body.len();
                let taken = self.read.len().min(room).min(usize::try_from(left).unwrap_or(usize::MAX));
                self.body.extend(self.read.drain(..taken));
                let left = left - taken as u64;
                self.chunk = if left == 0 { Chunk::DataEnd } else { Chunk::Data(left) };
                if left > 0 && self.read.is_empty() && self.body.len() < BODY_BYTES_MAX {
                    return Ok(GetStep::More);
                }
                continue;
            }
            let Some(end) = self.read.iter().position(|byte| *byte == b'\n') else {
                let long = self.read.len() > CHUNK_LINE_BYTES_MAX;
                return if long { Err("http: chunk line too long".to_owned()) } else { Ok(GetStep::More) };
            };
            let line: Vec<u8> = self.read.drain(..=end).collect();
            let line = line.trim_ascii();
            self.chunk = match self.chunk {
                Chunk::Length => match chunk_length(line)? {
                    0 => Chunk::Trailer,
                    length => Chunk::Data(length),
                },
                Chunk::DataEnd if line.is_empty() => Chunk::Length,
                Chunk::DataEnd => return Err("malformed chunked encoding".to_owned()),
                Chunk::Trailer if line.is_empty() => return Ok(GetStep::Done),
                Chunk::Trailer | Chunk::Data(_) => Chunk::Trailer,
            };
        }
    }
}

fn chunk_length(line: &[u8]) -> Result<u64, String> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    let fits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let length = u64::from_str_radix(digits, 16).ok().filter(|_| fits);
    length.ok_or_else(|| "invalid byte in chunk length".to_owned())
}

/// Behind the blank line. `looked`: where the last line begins, and how far an end of it was looked for.
fn head_end(read: &[u8], looked: &mut (usize, usize)) -> Option<usize> {
    loop {
        let (line, from) = *looked;
        let Some(end) = read[from..].iter().position(|byte| *byte == b'\n').map(|at| from + at) else {
            looked.1 = read.len();
            return None;
        };
        if line > 0 && matches!(&read[line..end], b"" | b"\r") {
            return Some(end + 1);
        }
        *looked = (end + 1, end + 1);
    }
}

fn malformed(read: &[u8]) -> String {
    let line = read.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = &line[..line.len().min(128)];
    format!("malformed HTTP response {:?}", String::from_utf8_lossy(line.trim_ascii_end()))
}

impl Head {
    fn read(bytes: &[u8]) -> Result<Head, String> {
        let wrong = || malformed(bytes);
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.lines();
        let (version, rest) = lines.next().and_then(|line| line.split_once(' ')).ok_or_else(wrong)?;
        let number = version.strip_prefix("HTTP/").and_then(|number| number.split_once('.')).ok_or_else(wrong)?;
        let code = rest.trim_start().split(' ').next().unwrap_or_default();
        if code.len() != 3 || !code.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("malformed HTTP status code {code:?}"));
        }
        let code: u16 = code.parse().map_err(|_| wrong())?;
        let (mut location, mut lengths, mut chunked) = (None, Vec::new(), false);
        for line in lines.filter(|line| !line.is_empty()) {
            // A line that begins with a blank continues the previous header and is skipped.
            let Some((name, value)) = line.split_once(':').filter(|_| !line.starts_with([' ', '\t'])) else { continue };
            let value = value.trim_matches([' ', '\t']);
            match name.to_ascii_lowercase().as_str() {
                "location" => drop(location.get_or_insert_with(|| value.to_owned())),
                "content-length" => lengths.push(value.to_owned()),
                "transfer-encoding" if number >= ("1", "1") => chunked = value.eq_ignore_ascii_case("chunked"),
                _ => {}
            }
        }
        lengths.dedup();
        let body = match lengths.as_slice() {
            _ if matches!(code, 100..200 | 204 | 304) => Framing::Length(0),
            _ if chunked => Framing::Chunked,
            [] => Framing::WithConnection,
            [length] => Framing::Length(length.parse().map_err(|_| format!("bad Content-Length {length:?}"))?),
            lengths => {
                return Err(format!("http: message cannot contain multiple Content-Length headers; got {lengths:?}"));
            }
        };
        Ok(Head { code, location, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In pieces of each size, until it has ended or the server has.
    fn read(bytes: &str, ends: bool) -> Result<(u16, String, bool), String> {
        let once = |size: usize| {
            let mut answer = GetAnswer::default();
            for piece in bytes.as_bytes().chunks(size) {
                if answer.take(piece)? == GetStep::Done {
                    let code = answer.head.as_ref().unwrap().code;
                    return Ok((code, String::from_utf8_lossy(&answer.body).into_owned(), true));
                }
            }
            if ends {
                answer.end()?;
            }
            let code = answer.head.as_ref().map_or(0, |head| head.code);
            Ok((code, String::from_utf8_lossy(&answer.body).into_owned(), ends))
        };
        let whole = once(bytes.len().max(1));
        for size in [1, 7, 100] {
            assert_eq!(once(size).is_ok(), whole.is_ok(), "{bytes:.60} {size}");
            if let (Ok(one), Ok(other)) = (once(size), &whole) {
                assert_eq!(one, *other, "{bytes:.60} {size}");
            }
        }
        whole
    }

    #[test]
    fn bodies() {
        let check = |bytes: &str, ends: bool, code: u16, body: &str, whole: bool| {
            assert_eq!(read(bytes, ends), Ok((code, body.to_owned(), whole)), "{bytes:?}");
        };
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more", false, 200, "ok", true);
        check("HTTP/1.0 404\r\n\r\nall of it", true, 404, "all of it", true);
        check("HTTP/1.1 200 OK\n\nbare", true, 200, "bare", true);
        check("HTTP/1.1 204 No\r\n\r\n", false, 204, "", true);
        check("HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", false, 304, "", true);
        check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", false, 200, "half", false);
        check(
            "HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            false,
            200,
            "",
            true,
        );
        check("HTTP/1.1 103 Early\r\n\r\n", false, 0, "", false);
        check("HTTP/1.1 101 Other\r\n\r\n", false, 101, "", true);
        let pieces = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n\
                      3;x\r\nabc\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n";
        check(pieces, false, 200, "abc0123456789", true);
        check(&pieces[..pieces.len() - 2], false, 200, "abc0123456789", false);
    }

    #[test]
    fn no_more_than_a_kubelet_reads() {
        let much = "x".repeat(BODY_BYTES_MAX + 5);
        let part = much[5..].to_owned();
        for head in ["Content-Length: 99999999999999", "Content-Length: 10245", "Transfer-Encoding: chunked", "X: y"] {
            let size = if head.starts_with("Tr") { "FFFFFFFF\r\n" } else { "" };
            let bytes = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{size}{much}");
            assert_eq!(read(&bytes, false), Ok((200, part.clone(), true)), "{head}");
        }
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(HEAD_BYTES_MAX));
        assert!(read(&long, false).unwrap_err().contains("exceeded"));
        let many = "HTTP/1.1 103 Early\r\nX: 0123456789\r\n\r\n".repeat(HEAD_BYTES_MAX / 30);
        assert!(read(&many, false).unwrap_err().contains("exceeded"));
    }

    #[test]
    fn what_is_no_answer() {
        let check = |bytes: &str, expected: &str| {
            let found = read(bytes, true).unwrap_err();
            assert!(found.contains(expected), "{bytes:?}: {found}");
        };
        check("", "EOF");
        check("SSH-2.0-OpenSSH\r\n", "malformed HTTP response");
        check("HTTP/1.1 abc\r\n\r\n", "malformed HTTP status code");
        check("HTTP/1.1\r\n\r\n", "malformed HTTP response");
        check("HTTP/1.1 200 OK\r\n", "unexpected EOF");
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx", "unexpected EOF");
        check("HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nx", "bad Content-Length");
        check("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "multiple Content-Length");
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na", "unexpected EOF");
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", "invalid byte");
        check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", "malformed chunked");
    }

    #[test]
    fn locations() {
        let mut answer = GetAnswer::default();
        answer
            .take(b"HTTP/1.1 302 Found\r\nlocation:  /down \r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
        assert_eq!(answer.head.unwrap().location.as_deref(), Some("/down"));
    }
}
