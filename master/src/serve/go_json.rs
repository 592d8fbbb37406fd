//! Error messages of Go's JSON reader for a text that is not JSON: clients and people know them. PURE.

/// The objects and lists that are open around the current place.
#[derive(Clone, Copy, PartialEq)]
enum Around {
    Key,
    Value,
    Element,
}

/// The state of the reader: the token that must come next.
#[derive(Clone, Copy)]
enum Next {
    Value,
    /// Or the end of the list.
    ValueOrEnd,
    Key,
    /// Or the end of the object.
    KeyOrEnd,
    End,
}

/// Why the text is no JSON; none of one that is.
pub fn fault(json: &[u8]) -> Option<String> {
    let mut reader = Reader { rest: json };
    let mut around: Vec<Around> = Vec::new();
    let mut next = Next::Value;
    loop {
        reader.blanks();
        let Some(&byte) = reader.rest.first() else {
            return if matches!(next, Next::End) && around.is_empty() { None } else { Some(END.to_owned()) };
        };
        let step = match next {
            Next::ValueOrEnd if byte == b']' => reader.closed(&mut around),
            Next::KeyOrEnd if byte == b'}' => reader.closed(&mut around),
            Next::Value | Next::ValueOrEnd => reader.value(byte, &mut around),
            Next::Key | Next::KeyOrEnd => reader.key(byte, &mut around),
            Next::End => reader.end(byte, &mut around),
        };
        match step {
            Ok(step) => next = step,
            Err(why) => return Some(why),
        }
    }
}

const END: &str = "unexpected end of JSON input";

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// The next byte is taken if it is one of these.
    fn take(&mut self, good: impl Fn(u8) -> bool, place: &str) -> Result<u8, String> {
        match self.rest.split_first() {
            None => Err(END.to_owned()),
            Some((&byte, rest)) if good(byte) => {
                self.rest = rest;
                Ok(byte)
            }
            Some((&byte, _)) => Err(invalid(byte, place)),
        }
    }

    fn digits(&mut self) {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = &self.rest[count..];
    }

    fn closed(&mut self, around: &mut Vec<Around>) -> Result<Next, String> {
        self.rest = &self.rest[1..];
        around.pop();
        Ok(Next::End)
    }

    fn value(&mut self, byte: u8, around: &mut Vec<Around>) -> Result<Next, String> {
        self.rest = &self.rest[1..];
        match byte {
            b'{' => {
                around.push(Around::Key);
                return Ok(Next::KeyOrEnd);
            }
            b'[' => {
                around.push(Around::Element);
                return Ok(Next::ValueOrEnd);
            }
            b'"' => self.string()?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            b'-' | b'0'..=b'9' => self.number(byte)?,
            _ => return Err(invalid(byte, "looking for beginning of value")),
        }
        Ok(Next::End)
    }

    fn key(&mut self, byte: u8, around: &mut [Around]) -> Result<Next, String> {
        if byte != b'"' {
            return Err(invalid(byte, "looking for beginning of object key string"));
        }
        self.rest = &self.rest[1..];
        self.string()?;
        if let Some(last) = around.last_mut() {
            *last = Around::Key;
        }
        Ok(Next::End)
    }

    fn end(&mut self, byte: u8, around: &mut Vec<Around>) -> Result<Next, String> {
        let (next, place) = match (around.last().copied(), byte) {
            (Some(Around::Key), b':') => {
                around.pop();
                around.push(Around::Value);
                (Some(Next::Value), "")
            }
            (Some(Around::Value), b',') => {
                around.pop();
                around.push(Around::Key);
                (Some(Next::Key), "")
            }
            (Some(Around::Element), b',') => (Some(Next::Value), ""),
            (Some(Around::Value), b'}') | (Some(Around::Element), b']') => return self.closed(around),
            (Some(Around::Key), _) => (None, "after object key"),
            (Some(Around::Value), _) => (None, "after object key:value pair"),
            (Some(Around::Element), _) => (None, "after array element"),
            (None, _) => (None, "after top-level value"),
        };
        self.rest = &self.rest[1..];
        next.ok_or_else(|| invalid(byte, place))
    }

    fn word(&mut self, word: &str) -> Result<(), String> {
        for wanted in word.bytes().skip(1) {
            self.take(|byte| byte == wanted, &format!("in literal {word} (expecting '{}')", wanted as char))?;
        }
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.take(|byte| byte >= b' ', "in string literal")? {
                b'"' => return Ok(()),
                b'\\' => self.escape()?,
                _ => {}
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        if self.take(|byte| b"\"\\/bfnrtu".contains(&byte), "in string escape code")? == b'u' {
            for _ in 0..4 {
                self.take(|byte| byte.is_ascii_hexdigit(), "in \\u hexadecimal character escape")?;
            }
        }
        Ok(())
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let leading =
            if first == b'-' { self.take(|byte| byte.is_ascii_digit(), "in numeric literal")? } else { first };
        if leading != b'0' {
            self.digits();
        }
        if self.rest.first() == Some(&b'.') {
            self.rest = &self.rest[1..];
            self.take(|byte| byte.is_ascii_digit(), "after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.rest.first(), Some(b'e' | b'E')) {
            self.rest = &self.rest[1..];
            if matches!(self.rest.first(), Some(b'+' | b'-')) {
                self.rest = &self.rest[1..];
            }
            self.take(|byte| byte.is_ascii_digit(), "in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }
}

fn invalid(byte: u8, place: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'\\' => "\\\\".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'\t' => "\\t".to_owned(),
        0..b' ' | 0x7f => format!("\\x{byte:02x}"),
        _ => char::from(byte).to_string(),
    };
    format!("invalid character '{shown}' {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_words_of_go() {
        let value = "looking for beginning of value";
        let key = "looking for beginning of object key string";
        for (json, expected) in [
            ("", END.to_owned()),
            ("{", END.to_owned()),
            ("{\"a\"", END.to_owned()),
            ("[1,", END.to_owned()),
            ("\"a", END.to_owned()),
            ("tr", END.to_owned()),
            ("{} {}", "invalid character '{' after top-level value".to_owned()),
            ("{\"a\":1} trailing", "invalid character 't' after top-level value".to_owned()),
            ("{'a':1}", format!("invalid character '\\'' {key}")),
            ("{\"a\":1,}", format!("invalid character '}}' {key}")),
            ("[1,]", format!("invalid character ']' {value}")),
            ("// c\n{}", format!("invalid character '/' {value}")),
            ("{\"a\":NaN}", format!("invalid character 'N' {value}")),
            ("kind: ConfigMap", format!("invalid character 'k' {value}")),
            ("\u{feff}{}", format!("invalid character 'ï' {value}")),
            ("{\"a\" 1}", "invalid character '1' after object key".to_owned()),
            ("{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair".to_owned()),
            ("[1 2]", "invalid character '2' after array element".to_owned()),
            ("\"a\nb\"", "invalid character '\\n' in string literal".to_owned()),
            ("\"\\x\"", "invalid character 'x' in string escape code".to_owned()),
            ("\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape".to_owned()),
            ("nul1", "invalid character '1' in literal null (expecting 'l')".to_owned()),
            ("-a", "invalid character 'a' in numeric literal".to_owned()),
            ("1.a", "invalid character 'a' after decimal point in numeric literal".to_owned()),
            ("1ea", "invalid character 'a' in exponent of numeric literal".to_owned()),
            ("01", "invalid character '1' after top-level value".to_owned()),
        ] {
            assert_eq!(fault(json.as_bytes()), Some(expected), "{json}");
        }
    }

    #[test]
    fn json_has_no_fault() {
        for json in [
            "{}",
            " [] ",
            "{\"a\": [1, -0.5e+10, true, false, null, \"\\u00e4\\n\"], \"b\": {\"c\": {}}}",
            "0",
            "\"x\"",
        ] {
            assert_eq!(fault(json.as_bytes()), None, "{json}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(fault(deep.as_bytes()).as_deref(), Some(END));
    }
}
