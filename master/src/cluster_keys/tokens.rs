//! PURE. The static tokens and the bootstrap tokens that commands make: `ID.SECRET`, of which the file `tokens.json`
//! has the hash of the secret alone.

use super::revoked::{from_hex, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Letters of an id, as Kubernetes' bootstrap tokens have it.
const ID_LETTERS: usize = 6;
/// Letters of the secret of a bootstrap token, which Kubernetes fixes: 82 bits.
const JOIN_LETTERS: usize = 16;
/// Letters of another secret: 165 bits.
const SECRET_LETTERS: usize = 32;
const ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
/// Tokens in the file; each takes some 200 bytes.
pub const TOKENS_MAX: usize = 1000;
/// Before the id of a token, the user of its owner.
const BOOTSTRAP_USER: &str = "system:bootstrap:";
/// The group that may ask for a node's certificate.
const BOOTSTRAPPERS: &str = "system:bootstrappers";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenList {
    pub tokens: Vec<StaticToken>,
}

/// A token as the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StaticToken {
    pub id: String,
    /// SHA-256 of the secret, in hexadecimal digits.
    pub hash: String,
    pub user: String,
    #[serde(default)]
    pub groups: Vec<String>,
    #[serde(default)]
    pub uid: String,
    /// Seconds since 1970. 0: it never ends by the clock.
    #[serde(default)]
    pub expires: i64,
    /// Seconds that it counts for since it was made, also by running time. 0: without a limit.
    #[serde(default)]
    pub life_s: u64,
    /// For hosts that join, and for nothing else.
    #[serde(default)]
    pub join: bool,
    /// How many hosts may still join with it. 0: any number, unless it is used up.
    #[serde(default)]
    pub uses: u64,
    /// No host joins with it any more. The token is kept until its end: the last host reads its certificate with it.
    #[serde(default)]
    pub used_up: bool,
    /// The uid of the last request that was counted: to sign it again, after a failure, is no further use.
    #[serde(default)]
    pub used_by: String,
}

/// What somebody wants a token for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenWish {
    /// Not of a join token, which names itself.
    pub user: String,
    pub groups: Vec<String>,
    pub life_s: u64,
    pub join: bool,
    pub uses: u64,
}

impl TokenList {
    /// `Err`: the text is no list. It must not be taken for an empty one.
    pub fn parse(text: &str) -> Result<TokenList, String> {
        if text.trim().is_empty() {
            return Ok(TokenList::default());
        }
        let list: TokenList = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let whole = |token: &StaticToken| from_hex(&token.hash).is_some_and(|hash| hash.len() == 32);
        match list.tokens.iter().find(|token| !whole(token)) {
            Some(token) => Err(format!("token {:?}: hash is no SHA-256 in hexadecimal digits", token.id)),
            None => Ok(list),
        }
    }

    pub fn text(&self) -> String {
        format!("{:#}\n", serde_json::to_value(self).unwrap_or_default())
    }

    /// Makes a token. What is given back is the only copy of its secret. `random`: numbers that nobody can guess.
    pub fn make(&mut self, wish: TokenWish, now_s: i64, random: [u8; 64]) -> Result<String, String> {
        self.tokens.retain(|token| token.expires == 0 || token.expires > now_s);
        if self.tokens.len() >= TOKENS_MAX {
            return Err(format!("there are {TOKENS_MAX} tokens, which is the most: revoke some first"));
        }
        let length = if wish.join { JOIN_LETTERS } else { SECRET_LETTERS };
        let mut letters = letters(&random);
        let id: String = letters.by_ref().take(ID_LETTERS).collect();
        let secret: String = letters.take(length).collect();
        if id.len() + secret.len() < ID_LETTERS + length || self.tokens.iter().any(|token| token.id == id) {
            return Err("the random numbers were bad: try again".to_owned());
        }
        let user = if wish.join { format!("{BOOTSTRAP_USER}{id}") } else { wish.user };
        let groups = if wish.join { vec![BOOTSTRAPPERS.to_owned()] } else { wish.groups };
        let expires = match i64::try_from(wish.life_s).unwrap_or(i64::MAX) {
            0 => 0,
            life_s => now_s.saturating_add(life_s),
        };
        let hash = hex(&Sha256::digest(secret.as_bytes()));
        let (id_of, uses) = (id.clone(), if wish.join { wish.uses } else { 0 });
        self.tokens.push(StaticToken {
            id: id_of,
            hash,
            user,
            groups,
            uid: String::new(),
            expires,
            life_s: wish.life_s,
            join: wish.join,
            uses,
            used_up: false,
            used_by: String::new(),
        });
        Ok(format!("{id}.{secret}"))
    }

    /// Whether there was such a token.
    pub fn revoke(&mut self, id: &str) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.id != id);
        self.tokens.len() < before
    }

    /// The id in the name of a user who has shown a bootstrap token.
    pub fn bootstrap_id(user: &str) -> Option<&str> {
        user.strip_prefix(BOOTSTRAP_USER)
    }

    /// Whether a host may join by a request of this user: a use of the join token that the user has shown. Tokens of
    /// Secrets are not in the list, and are not counted.
    pub fn joined(&mut self, user: &str, request_uid: &str) -> bool {
        let id = TokenList::bootstrap_id(user);
        match id.filter(|id| self.tokens.iter().any(|token| token.id == *id && token.join)) {
            Some(id) => self.used(id, request_uid),
            None => true,
        }
    }

    /// Counts a use of a join token. `false`: there is no such token, or no use is left.
    pub fn used(&mut self, id: &str, request_uid: &str) -> bool {
        let Some(token) = self.tokens.iter_mut().find(|token| token.id == id && token.join) else { return false };
        if !request_uid.is_empty() && token.used_by == request_uid {
            return true;
        }
        if token.used_up {
            return false;
        }
        token.used_by = request_uid.to_owned();
        match token.uses {
            0 => {}
            1 => {
                token.uses = 0;
                token.used_up = true;
            }
            _ => token.uses -= 1,
        }
        true
    }
}

/// Letters, each as likely as any other: bytes beyond the last multiple of 36 are passed over.
fn letters(random: &[u8]) -> impl Iterator<Item = char> + '_ {
    let fair = random.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < 252);
    fair.map(|byte| char::from(ALPHABET[byte % ALPHABET.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random() -> [u8; 64] {
        std::array::from_fn(|nth| (nth as u8).wrapping_mul(7))
    }

    #[test]
    fn a_token_is_kept_as_a_hash() {
        let mut list = TokenList::default();
        let wish = TokenWish { user: "ann".into(), groups: vec!["staff".into()], life_s: 60, ..TokenWish::default() };
        let token = list.make(wish, 1000, random()).expect("a token");
        let (id, secret) = token.split_once('.').expect("two parts");
        assert_eq!((id.len(), secret.len()), (ID_LETTERS, SECRET_LETTERS));
        let text = list.text();
        assert!(!text.contains(secret) && text.contains(&hex(&Sha256::digest(secret))), "{text}");
        let read = TokenList::parse(&text).expect("a list");
        assert_eq!(read, list);
        assert_eq!((read.tokens[0].expires, read.tokens[0].user.as_str()), (1060, "ann"));
        // The same numbers again are the same id.
        assert!(list.make(TokenWish::default(), 1000, random()).is_err());
        assert!(list.revoke(id) && !list.revoke(id));
    }

    #[test]
    fn a_join_token_has_the_form_of_kubernetes_and_is_used_up() {
        let mut list = TokenList::default();
        let wish = TokenWish { join: true, uses: 2, user: "system:admin".into(), ..TokenWish::default() };
        let token = list.make(wish, 0, random()).expect("a token");
        let (id, secret) = token.split_once('.').expect("two parts");
        assert_eq!((id.len(), secret.len()), (6, 16));
        assert_eq!(list.tokens[0].user, format!("system:bootstrap:{id}"));
        assert_eq!(list.tokens[0].groups, [BOOTSTRAPPERS]);
        // The second attempt to sign for a host is no second use.
        assert_eq!(["a", "a", "b", "b", "c"].map(|uid| list.used(id, uid)), [true, true, true, true, false]);
        // It stays in the list.
        assert!(TokenList::parse(&list.text()).expect("a list").tokens[0].used_up);
    }

    #[test]
    fn whose_requests_are_uses() {
        let join = StaticToken { id: "abcdef".into(), join: true, uses: 1, ..StaticToken::default() };
        let plain = StaticToken { id: "plain1".into(), ..StaticToken::default() };
        let free = StaticToken { id: "free01".into(), join: true, ..StaticToken::default() };
        let mut list = TokenList { tokens: vec![join, plain, free] };
        for (user, uid, expected) in [
            ("system:bootstrap:abcdef", "1", true),
            ("system:bootstrap:abcdef", "2", false),
            ("system:bootstrap:free01", "1", true),
            ("system:bootstrap:free01", "2", true),
            // Of a Secret.
            ("system:bootstrap:plain1", "1", true),
            ("system:bootstrap:secret", "1", true),
            ("abcdef", "3", true),
            ("system:node:abcdef", "3", true),
        ] {
            assert_eq!(list.joined(user, uid), expected, "{user} {uid}");
        }
        assert_eq!(list.tokens.len(), 3);
    }

    #[test]
    fn a_damaged_list_is_no_empty_list() {
        for bad in ["x", "{}", r#"{"tokens":[{"id":"a","hash":"00","user":""}]}"#] {
            assert!(TokenList::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(TokenList::parse("\n"), Ok(TokenList::default()));
    }
}
