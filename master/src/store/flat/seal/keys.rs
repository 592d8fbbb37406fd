//! PURE. The keys of a key file, and bytes that one of them has sealed.
//!
//! ```text
//! key (32 bytes of the file) -> HMAC-SHA256 -> a key for salts, a key for records
//! salt   = HMAC(key for salts, place, revision, plain text), 192 bits
//! sealed = salt, ChaCha20-Poly1305(HMAC(key for records, salt), nonce 0, place as associated data, plain text), tag
//! ```
//!
//! Every salt has a cipher key of its own, and the salt follows from what is sealed. So no number is drawn and none is
//! counted: a host without chance, a power cut and a directory that is put back never encrypt two texts by one key and
//! nonce, and 2^64 texts are safe. Who has no key learns at most that a text is the very text of before, at the same
//! revision. A text sealed for one place does not open in another.

use coracle_schema::base64;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hmac::{self, HMAC_SHA256};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

pub const KEY_BYTES: usize = 32;
/// Bytes of a key file: comments and all.
pub const KEY_FILE_BYTES_MAX: usize = 64 << 10;
/// Keys of one file: a rotation needs two, and old backups some more.
const KEYS_MAX: usize = 32;
const ID_BYTES_MAX: usize = 32;
const SALT_BYTES: usize = 24;
/// A line of its own before the keys: what is written is plain from now on, and the keys open what was sealed.
const PLAIN: &str = "plain";
/// How a sealed text begins: the form, the id of its key, and base64.
const TEXT_BEGINS: &str = "coracle-sealed:1:";

/// One key of the file, made ready.
pub struct SealKey {
    pub id: Arc<str>,
    salts: hmac::Key,
    records: hmac::Key,
}

/// Nobody is shown a key.
impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.id)
    }
}

impl SealKey {
    pub fn new(id: &str, secret: &[u8; KEY_BYTES]) -> SealKey {
        let secret = hmac::Key::new(HMAC_SHA256, secret);
        let derived = |purpose: &str| hmac::Key::new(HMAC_SHA256, hmac::sign(&secret, purpose.as_bytes()).as_ref());
        SealKey { id: id.into(), salts: derived("coracle seal 1: salts"), records: derived("coracle seal 1: records") }
    }

    /// `place`: where alone it opens. `revision`: the same text at another revision shows nothing of that.
    pub fn seal(&self, place: &str, revision: &str, plain: &[u8]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.salts);
        for part in [place.as_bytes(), revision.as_bytes(), plain] {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let salt = context.sign();
        let salt = &salt.as_ref()[..SALT_BYTES];
        let mut text = plain.to_vec();
        let done = self.cipher(salt).seal_in_place_append_tag(nonce(), Aad::from(place), &mut text);
        done.expect("a text is shorter than the cipher's 256 GiB");
        [salt, &text].concat()
    }

    /// `None`: it was sealed by another key or for another place, or was changed since.
    pub fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (salt, text) = sealed.split_at_checked(SALT_BYTES)?;
        let mut text = text.to_vec();
        let length = self.cipher(salt).open_in_place(nonce(), Aad::from(place), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }

    fn cipher(&self, salt: &[u8]) -> LessSafeKey {
        let key = hmac::sign(&self.records, salt);
        LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).expect("32 bytes are a key"))
    }
}

/// One text a key: see above.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// The keys of a file. The first one seals, all open.
#[derive(Debug)]
pub struct KeyRing {
    keys: Vec<Arc<SealKey>>,
    plain: bool,
}

impl KeyRing {
    /// Lines `ID BASE64`; `#` begins a comment.
    pub fn parse(text: &str) -> Result<KeyRing, String> {
        let mut ring = KeyRing { keys: Vec::new(), plain: false };
        for (at, line) in text.lines().enumerate() {
            let wrong = |why: &str| format!("line {}: {why}", at + 1);
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if line == PLAIN && ring.keys.is_empty() && !ring.plain {
                ring.plain = true;
                continue;
            }
            let (id, key) = line.split_once(char::is_whitespace).ok_or_else(|| wrong("expected an id and a key"))?;
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if id.len() > ID_BYTES_MAX || !id.bytes().all(is_letter) {
                return Err(wrong("an id has up to 32 letters, digits and -_."));
            }
            let key = base64::decode(key.trim()).ok().and_then(|key| <[u8; KEY_BYTES]>::try_from(key).ok());
            let key = key.ok_or_else(|| wrong("the key is not 32 bytes in base64"))?;
            if ring.find(id).is_some() {
                return Err(wrong(&format!("id {id} stands there twice")));
            }
            ring.keys.push(Arc::new(SealKey::new(id, &key)));
        }
        match ring.keys.len() {
            0 => Err("it holds no key".to_owned()),
            many if many > KEYS_MAX => Err(format!("it holds {many} keys, at most {KEYS_MAX}")),
            _ => Ok(ring),
        }
    }

    /// The key that seals. `None`: what is written stays plain.
    pub fn current(&self) -> Option<&Arc<SealKey>> {
        self.keys.first().filter(|_| !self.plain)
    }

    pub fn find(&self, id: &str) -> Option<&Arc<SealKey>> {
        self.keys.iter().find(|key| *key.id == *id)
    }
}

/// A line of a key file.
pub fn line(id: &str, secret: &[u8; KEY_BYTES]) -> String {
    format!("{id} {}\n", base64::encode(secret))
}

/// The key file of a keeper who turned encryption off and has not taken the option away, or has set it again.
const PLAIN_TROUBLE: &str = "Secrets are written in clear text: the key file begins with `plain`, as `coracle-master \
                             encryption off` leaves it; take encryption-key out of master.conf, or seal again by \
                             `coracle-master encryption rotate`";

/// Whether, and by which keys, what lies on the disk is sealed.
#[derive(Clone, Debug, Default)]
pub enum SealKeys {
    /// Nothing is asked for.
    #[default]
    Off,
    Ring(Arc<KeyRing>),
    /// A key file is asked for and cannot be used, and why. What is sealed stays closed, and nothing that should be
    /// sealed is written.
    Lost(String),
}

impl SealKeys {
    /// The key that seals.
    pub fn current(&self) -> Option<&Arc<SealKey>> {
        match self {
            SealKeys::Ring(ring) => ring.current(),
            SealKeys::Off | SealKeys::Lost(_) => None,
        }
    }

    /// Why a key file that is asked for cannot be used.
    pub fn why_lost(&self) -> Option<&str> {
        if let SealKeys::Lost(why) = self { Some(why) } else { None }
    }

    /// Why Secrets are not sealed though a key file is named, in words.
    pub fn trouble(&self) -> Option<String> {
        match self {
            SealKeys::Off => None,
            SealKeys::Lost(why) => Some(format!("Secrets are not written, and sealed ones not read: {why}")),
            SealKeys::Ring(ring) if ring.current().is_some() => None,
            SealKeys::Ring(_) => Some(PLAIN_TROUBLE.to_owned()),
        }
    }

    /// The key of this id; or why it is not at hand.
    pub fn find(&self, id: &str) -> Result<&Arc<SealKey>, String> {
        match self {
            SealKeys::Off => {
                Err(format!("it is sealed by key {id}, and no key file is named: set encryption-key to the key file"))
            }
            SealKeys::Lost(why) => Err(format!("it is sealed by key {id}, and there is no key: {why}")),
            SealKeys::Ring(ring) => {
                let why = || format!("it is sealed by key {id}, which the key file does not have: put its line back");
                ring.find(id).ok_or_else(why)
            }
        }
    }

    /// A small file, as one line. Without a key it stays as it is.
    pub fn seal_text(&self, name: &str, text: &str) -> String {
        match self.current() {
            Some(key) => {
                let sealed = base64::encode(&key.seal(&place_of_file(name), "", text.as_bytes()));
                format!("{TEXT_BEGINS}{}:{sealed}\n", key.id)
            }
            None => text.to_owned(),
        }
    }

    /// The text of a file that may be sealed.
    pub fn open_text(&self, name: &str, text: String) -> Result<String, String> {
        let Some(sealed) = text.strip_prefix(TEXT_BEGINS) else { return Ok(text) };
        let (id, sealed) = sealed.trim_end().split_once(':').ok_or("it is sealed, and not whole")?;
        let key = self.find(id)?;
        let plain = base64::decode(sealed).ok().and_then(|sealed| key.open(&place_of_file(name), &sealed));
        let plain = plain.and_then(|plain| String::from_utf8(plain).ok());
        plain.ok_or_else(|| format!("key {id} does not open it: it was changed, or sealed as another file"))
    }

    /// Whether a file that lies like this is to be written anew.
    pub fn wants_text(&self, text: &str) -> bool {
        let by = text.strip_prefix(TEXT_BEGINS).and_then(|sealed| sealed.split_once(':')).map(|(id, _)| id);
        match self {
            SealKeys::Off | SealKeys::Lost(_) => false,
            SealKeys::Ring(ring) => ring.current().map(|key| &*key.id) != by,
        }
    }
}

/// Whether a file of the folder of keys is a secret, which is sealed on the disk: private keys. The other files hold
/// certificates, hashes and lists.
pub fn is_secret_file(name: &str) -> bool {
    name.ends_with(".key")
}

pub fn is_sealed_text(text: &str) -> bool {
    text.starts_with(TEXT_BEGINS)
}

fn place_of_file(name: &str) -> String {
    format!("file\0{name}")
}

/// The keys of a running master, which a rotation changes for all who hold them.
#[derive(Clone, Debug, Default)]
pub struct SharedKeys(Arc<RwLock<SealKeys>>);

impl SharedKeys {
    pub fn new(keys: SealKeys) -> SharedKeys {
        SharedKeys(Arc::new(RwLock::new(keys)))
    }

    pub fn get(&self) -> SealKeys {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn set(&self, keys: SealKeys) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(text: &str) -> SealKeys {
        SealKeys::Ring(Arc::new(KeyRing::parse(text).expect("keys")))
    }

    #[test]
    fn a_key_file_that_seals_nothing_is_a_trouble() {
        let line = line("a", &[1; KEY_BYTES]);
        for (keys, expected) in [
            (SealKeys::Off, None),
            (ring(&line), None),
            (ring(&format!("plain\n{line}")), Some("written in clear text: the key file begins with `plain`")),
            (
                SealKeys::Lost("/k is gone".to_owned()),
                Some("Secrets are not written, and sealed ones not read: /k is gone"),
            ),
        ] {
            let found = keys.trouble();
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(
                expected.is_none_or(|expected| found.as_ref().is_some_and(|found| found.contains(expected))),
                "{found:?}"
            );
        }
    }

    #[test]
    fn what_is_sealed_opens_by_its_key_in_its_place_alone() {
        let (one, other) = (SealKey::new("a", &[1; KEY_BYTES]), SealKey::new("a", &[2; KEY_BYTES]));
        for plain in [&b""[..], b"x", &[7; 5000]] {
            let sealed = one.seal("here", "5", plain);
            assert_eq!(sealed.len(), SALT_BYTES + plain.len() + 16);
            assert_eq!(one.open("here", &sealed).as_deref(), Some(plain));
            assert_eq!(one.seal("here", "5", plain), sealed, "what lies there need not be kept in memory");
            assert_eq!(one.open("there", &sealed), None);
            assert_eq!(other.open("here", &sealed), None);
            assert_ne!(one.seal("here", "6", plain)[..SALT_BYTES], sealed[..SALT_BYTES]);
            for at in 0..sealed.len().min(200) {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(one.open("here", &changed), None, "byte {at}");
                assert_eq!(one.open("here", &sealed[..at]), None, "cut at {at}");
            }
        }
        // Where one part ends and the next begins counts.
        assert_ne!(one.seal("a", "b", b"c")[..SALT_BYTES], one.seal("ab", "", b"c")[..SALT_BYTES]);
    }

    #[test]
    fn key_files_are_read_strictly() {
        let (a, b) = (line("a", &[1; KEY_BYTES]), line("b", &[2; KEY_BYTES]));
        let good = |text: &str| {
            let ring = KeyRing::parse(text).expect("it is good");
            let current = ring.current().map(|key| key.id.to_string());
            (current, ring.find("a").is_some(), ring.find("b").is_some())
        };
        assert_eq!(good(&a), (Some("a".to_owned()), true, false));
        assert_eq!(good(&format!("# mine\n\n {b}{a}")), (Some("b".to_owned()), true, true));
        assert_eq!(good(&format!("plain\n{a}")), (None, true, false));
        for (text, why) in [
            (String::new(), "it holds no key"),
            ("plain\n".to_owned(), "it holds no key"),
            (format!("{a}plain\n"), "line 2: expected an id and a key"),
            ("a\n".to_owned(), "line 1: expected an id and a key"),
            ("a/b AAAA\n".to_owned(), "line 1: an id has"),
            ("a AAAA\n".to_owned(), "line 1: the key is not 32 bytes"),
            ("a nonsense!\n".to_owned(), "line 1: the key is not 32 bytes"),
            (format!("{a}{a}"), "line 2: id a stands there twice"),
            (
                (0..=KEYS_MAX).map(|nth| line(&format!("k{nth}"), &[1; KEY_BYTES])).collect(),
                "it holds 33 keys, at most 32",
            ),
        ] {
            let refused = KeyRing::parse(&text).map(drop).expect_err("refused");
            assert!(refused.contains(why), "{text:?}: {refused}");
        }
    }

    #[test]
    fn a_small_file_is_one_line() {
        let (a, b) = (line("a", &[1; KEY_BYTES]), line("b", &[2; KEY_BYTES]));
        let (old, both, plain) = (ring(&a), ring(&format!("{b}{a}")), ring(&format!("plain\n{a}")));
        let sealed = old.seal_text("ca.key", "secret");
        assert!(sealed.starts_with("coracle-sealed:1:a:") && sealed.ends_with('\n') && !sealed.contains("secret"));
        for keys in [&old, &both, &plain] {
            assert_eq!(keys.open_text("ca.key", sealed.clone()).as_deref(), Ok("secret"));
            assert_eq!(keys.open_text("ca.key", "secret".to_owned()).as_deref(), Ok("secret"));
        }
        let why = old.open_text("server.key", sealed.clone()).expect_err("it is another file");
        assert!(why.starts_with("key a does not open it"), "{why}");
        for (keys, expected) in [
            (SealKeys::Off, "no key file is named"),
            (SealKeys::Lost("/k is gone".to_owned()), "/k is gone"),
            (ring(&b), "the key file does not have"),
        ] {
            let why = keys.open_text("ca.key", sealed.clone()).expect_err("no key");
            assert!(why.contains(expected) && why.contains("key a"), "{why}");
        }
        let wants = |keys: &SealKeys| (keys.wants_text(&sealed), keys.wants_text("secret"));
        assert_eq!(wants(&old), (false, true));
        assert_eq!(wants(&both), (true, true));
        assert_eq!(wants(&plain), (true, false));
        assert_eq!((wants(&SealKeys::Off), plain.seal_text("a", "b").as_str()), ((false, false), "b"));
    }
}
