//! The links of a page that another server sends, as they are reached through here. PURE.
//!
//!     <a href="/next">  ->  <a href="/api/v1/namespaces/default/pods/web/proxy/next">
//!
//! A page comes in pieces of any length. Every byte that is not part of such a link goes on as it came.
use crate::passing::behind;

/// Of one tag. A longer one goes on as it is.
const TAG_BYTES_MAX: usize = 16 * 1024;

/// The prefix is written again at each link: a long prefix would turn a small page into a large page.
const PREFIX_BYTES_MAX: usize = 1024;

/// The attributes whose value is a single address, by element.
const ADDRESSES: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["formaction", "src", "usemap"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("track", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements that hold text alone, where `<a>` is no tag.
const TEXT_ALONE: [&str; 7] = ["script", "style", "textarea", "title", "xmp", "noembed", "noframes"];

enum State {
    Text,
    /// `held` begins with its `<`; within a value in quotes, or where a value is to begin.
    Tag {
        quote: Option<u8>,
        value_next: bool,
    },
    /// Up to the next `>`: an end, a document type, an instruction.
    Closing,
    /// Up to `-->`; the number counts the bytes of `-->` that have matched so far.
    Comment(usize),
    /// Up to `</` and the name `end`; `matched` counts the bytes so far.
    Within {
        end: Vec<u8>,
        matched: usize,
    },
}

pub(crate) struct Links {
    authority: String,
    prefix: String,
    state: State,
    held: Vec<u8>,
}

impl Links {
    /// `authority` is the `HOST:PORT` of the page, `prefix` the path through here. None: no path that a page is to
    /// hold.
    pub(crate) fn new(authority: &str, prefix: &str) -> Option<Links> {
        let plain = prefix.len() <= PREFIX_BYTES_MAX
            && prefix.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'<>&`".contains(&byte));
        plain.then(|| Links {
            authority: authority.to_owned(),
            prefix: prefix.to_owned(),
            state: State::Text,
            held: Vec::new(),
        })
    }

    /// What of the page goes on now. The rest of a tag that has begun is waited for.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(piece.len() + self.held.len());
        for byte in piece {
            self.step(*byte, &mut out);
        }
        out
    }

    /// What was waited for.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        match &mut self.state {
            State::Text if byte == b'<' => {
                self.held.push(byte);
                self.state = State::Tag { quote: None, value_next: false };
            }
            State::Text => out.push(byte),
            State::Tag { quote, value_next } => {
                let ends = match quote {
                    Some(_) if *quote == Some(byte) => {
                        *quote = None;
                        false
                    }
                    Some(_) => false,
                    None => {
                        if *value_next && matches!(byte, b'"' | b'\'') {
                            *quote = Some(byte);
                        }
                        *value_next = byte == b'=' || *value_next && byte.is_ascii_whitespace();
                        byte == b'>'
                    }
                };
                self.held.push(byte);
                self.in_tag(ends, out);
            }
            State::Closing => {
                out.push(byte);
                if byte == b'>' {
                    self.state = State::Text;
                }
            }
            State::Comment(matched) => {
                out.push(byte);
                *matched = match byte {
                    b'-' => *matched + 1,
                    b'>' if *matched >= 2 => return self.state = State::Text,
                    _ => 0,
                };
            }
            State::Within { end, matched } => {
                out.push(byte);
                *matched = match byte.to_ascii_lowercase() {
                    byte if byte == end[*matched] => *matched + 1,
                    b'<' => 1,
                    _ => 0,
                };
                if *matched == end.len() {
                    self.state = State::Closing;
                }
            }
        }
    }

    /// One more byte of a tag has come.
    fn in_tag(&mut self, ends: bool, out: &mut Vec<u8>) {
        let next = match self.held.get(1) {
            None => return,
            Some(first) if first.is_ascii_alphabetic() => {
                if !ends && self.held.len() < TAG_BYTES_MAX {
                    return;
                }
                let tag = std::mem::take(&mut self.held);
                let name = name(&tag);
                out.extend(if ends { self.rewritten(&tag, &name) } else { tag });
                match TEXT_ALONE.contains(&name.as_str()) && ends {
                    true => State::Within { end: format!("</{name}").into_bytes(), matched: 0 },
                    false => State::Text,
                }
            }
            Some(b'!') if self.held.len() < 4 && !ends && b"<!--".starts_with(&self.held) => return,
            Some(b'!') if self.held.starts_with(b"<!--") => State::Comment(2),
            // Anything else is no tag with attributes; a second `<` may begin one.
            Some(b'<') => {
                out.push(b'<');
                self.held.truncate(1);
                return self.state = State::Tag { quote: None, value_next: false };
            }
            Some(b'!' | b'/' | b'?') if !ends => State::Closing,
            Some(_) => State::Text,
        };
        out.append(&mut self.held);
        self.state = next;
    }

    /// The same tag, with its addresses as they are reached through here.
    fn rewritten(&self, tag: &[u8], name: &str) -> Vec<u8> {
        let Some((_, attributes)) = ADDRESSES.iter().find(|(element, _)| *element == name) else { return tag.to_vec() };
        let mut out = Vec::with_capacity(tag.len() + self.prefix.len());
        let mut done = 0;
        for (attribute, value) in values(tag, 1 + name.len()) {
            let text = std::str::from_utf8(&tag[value.clone()]).unwrap_or_default().trim();
            if !attributes.contains(&attribute.as_str()) {
                continue;
            }
            if let Some(moved) = behind(text, &self.authority, &self.prefix) {
                out.extend_from_slice(&tag[done..value.start]);
                out.extend_from_slice(moved.as_bytes());
                done = value.end;
            }
        }
        out.extend_from_slice(&tag[done..]);
        out
    }
}

fn name(tag: &[u8]) -> String {
    let name = tag[1..].iter().take_while(|byte| !byte.is_ascii_whitespace() && !b"/>".contains(byte));
    name.map(|byte| byte.to_ascii_lowercase() as char).collect()
}

/// The attributes of a whole tag: their names in small letters, and where their values stand.
fn values(tag: &[u8], from: usize) -> Vec<(String, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let mut at = from;
    let skip = |at: usize, stays: &dyn Fn(u8) -> bool| at + tag[at..].iter().take_while(|byte| stays(**byte)).count();
    while at < tag.len() {
        at = skip(at, &|byte| byte.is_ascii_whitespace() || byte == b'/');
        let begun = at;
        at = skip(at, &|byte| !byte.is_ascii_whitespace() && !b"=/>".contains(&byte));
        let name = String::from_utf8_lossy(&tag[begun..at]).to_ascii_lowercase();
        at = skip(at, &|byte| byte.is_ascii_whitespace());
        if tag.get(at) != Some(&b'=') {
            // One without a value, or the end; one byte on in any case.
            at = at.max(begun + 1);
            continue;
        }
        at = skip(at + 1, &|byte| byte.is_ascii_whitespace());
        let value = match tag.get(at) {
            Some(quote @ (b'"' | b'\'')) => {
                let end = skip(at + 1, &|byte| byte != *quote);
                at + 1..end
            }
            _ => at..skip(at, &|byte| !byte.is_ascii_whitespace() && byte != b'>'),
        };
        at = value.end + 1;
        found.push((name, value));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(page: &str, bytes: usize) -> String {
        let mut links = Links::new("10.1.2.3:80", "/p").expect("a path");
        let mut out: Vec<u8> = page.as_bytes().chunks(bytes).flat_map(|piece| links.push(piece)).collect();
        out.extend(links.end());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn addresses_of_that_server_lead_through_here() {
        for (page, expected) in [
            ("<a href=\"/next\">n</a>", "<a href=\"/p/next\">n</a>"),
            ("<A class='x' HREF = '/next'>n</A>", "<A class='x' HREF = '/p/next'>n</A>"),
            ("<a href=/next>n", "<a href=/p/next>n"),
            ("<a href=\"http://10.1.2.3/next?a=1&amp;b\">", "<a href=\"/p/next?a=1&amp;b\">"),
            ("<a href=\"//10.1.2.3:80/\">", "<a href=\"/p/\">"),
            ("<img alt=\"a > b\" src=\"/i.png\"/>", "<img alt=\"a > b\" src=\"/p/i.png\"/>"),
            (
                "<form method=post action=\"/do\"><input type=image src='/b' formaction='/c'>",
                "<form method=post action=\"/p/do\"><input type=image src='/p/b' formaction='/p/c'>",
            ),
            (
                "<base href=\"/\"><script async src=\"/a.js\"></script><link href=' /s.css '>",
                "<base href=\"/p/\"><script async src=\"/p/a.js\"></script><link href='/p/s.css'>",
            ),
            ("<!DOCTYPE html>\n<html><head></head><a href='/'>", "<!DOCTYPE html>\n<html><head></head><a href='/p/'>"),
            ("a < b <<a href='/x'>", "a < b <<a href='/p/x'>"),
            (
                "<script>if (a < b) { s = \"<a href='/x'>\"; }</SCRIPT ><a href='/x'>",
                "<script>if (a < b) { s = \"<a href='/x'>\"; }</SCRIPT ><a href='/p/x'>",
            ),
        ] {
            for bytes in [1, 2, 3, 7, page.len()] {
                assert_eq!(through(page, bytes), expected, "{bytes} bytes at a time");
            }
        }
    }

    #[test]
    fn everything_else_goes_on_as_it_came() {
        let long = format!("<a title=\"{}\" href=\"/x\">", "x".repeat(TAG_BYTES_MAX));
        for page in [
            "<a href=\"next\">",
            "<a href=\"?page=2\">",
            "<a href=\"#top\">",
            "<a href=\"\">",
            "<a href=\"http://elsewhere/x\">",
            "<a href=\"//elsewhere/x\">",
            "<a href=\"mailto:a@b\">",
            // It leads through here already.
            "<a href=\"/p/next\">",
            "<a href=\"/p\">",
            // The element has no address in this attribute.
            "<a src=\"/x\" data-href=\"/x\">",
            "<p href=\"/x\">",
            "</a href=\"/x\">",
            "<!-- <a href=\"/x\"> -- > <a href='/x'> -->",
            "<!-->",
            "<textarea><a href=\"/x\"></textarea>",
            "<? <a ?>",
            "<a href=\"/unfinished",
            "<a",
            "<",
            "<!",
            "<!-",
            "a < b, a <= b, a <",
            "<a =/x>",
            "<a href>",
            "<a href=>",
            "\u{feff}\u{e9}",
            &long,
        ] {
            for bytes in [1, 2, 5, page.len()] {
                assert_eq!(through(page, bytes), page, "{bytes} bytes at a time");
            }
        }
        assert!(Links::new("10.1.2.3:80", "/p\"onload=").is_none());
        assert!(Links::new("10.1.2.3:80", &"/p".repeat(PREFIX_BYTES_MAX)).is_none());
    }

    /// Whatever comes, in pieces or whole: the same goes on.
    #[test]
    fn pieces_of_any_length_make_the_same_page() {
        let words =
            ["<", "a", " href=", "\"/x\"", "'", ">", "</", "!--", "-->", "script", "/", "=", " ", "<img src=/y>", "\n"];
        let mut seed = 7_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        for _ in 0..3_000 {
            let page: String = (0..next(24)).map(|_| words[next(words.len())]).collect();
            let whole = through(&page, page.len().max(1));
            assert_eq!(through(&page, 1), whole, "{page}");
            assert_eq!(whole.replace("/p/", "/"), page);
        }
    }
}
