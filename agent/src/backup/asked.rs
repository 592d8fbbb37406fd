//! What the annotations of a pod or a claim ask of a backup. PURE.
//!
//!     on a claim    coracle.dev/backup: "true"
//!     on a pod      coracle.dev/backup: data,config      volumes by their names in the pod
//!                   coracle.dev/backup-before, coracle.dev/backup-after      commands that run in the pod
//!                   coracle.dev/backup-container, coracle.dev/backup-timeout
//!     on either     coracle.dev/backup-live: "true"      files may change while they are copied

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

pub use crate::facts::objects::BACKUP;

const LIVE: &str = "coracle.dev/backup-live";
const BEFORE: &str = "coracle.dev/backup-before";
const AFTER: &str = "coracle.dev/backup-after";
const CONTAINER: &str = "coracle.dev/backup-container";
const TIMEOUT: &str = "coracle.dev/backup-timeout";
const OF_PODS: [&str; 6] = [BACKUP, LIVE, BEFORE, AFTER, CONTAINER, TIMEOUT];
const OF_CLAIMS: [&str; 2] = [BACKUP, LIVE];

/// The time of a hook without a `timeout`.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(300);
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

pub type Annotations = BTreeMap<String, String>;

/// The annotations of a document that are about backups.
pub fn annotations(metadata: &Value) -> Annotations {
    let all = metadata["annotations"].as_object().into_iter().flatten();
    let own = all.filter(|(key, _)| key.starts_with(BACKUP));
    own.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfClaim {
    pub asked: bool,
    pub live: bool,
}

pub fn of_claim(annotations: &Annotations) -> Result<OfClaim, String> {
    known(annotations, &OF_CLAIMS)?;
    Ok(OfClaim { asked: is_yes(annotations, BACKUP)?, live: is_yes(annotations, LIVE)? })
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfPod {
    /// Volumes by their names in the pod.
    pub volumes: Vec<String>,
    pub live: bool,
    pub before: Option<Vec<String>>,
    pub after: Option<Vec<String>>,
    pub container: Option<String>,
    pub timeout: Duration,
}

impl OfPod {
    pub fn has_hooks(&self) -> bool {
        self.before.is_some() || self.after.is_some()
    }
}

pub fn of_pod(annotations: &Annotations) -> Result<OfPod, String> {
    known(annotations, &OF_PODS)?;
    let command = |key: &str| {
        let words = annotations.get(key).map(|text| words(text).map_err(|why| format!("{key}: {why}")));
        words.transpose()
    };
    let volumes = annotations.get(BACKUP).map(String::as_str).unwrap_or_default();
    let volumes = volumes.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
    let timeout = annotations.get(TIMEOUT).map(|text| timeout(text).map_err(|why| format!("{TIMEOUT}: {why}")));
    let asked = OfPod {
        volumes: volumes.collect(),
        live: is_yes(annotations, LIVE)?,
        before: command(BEFORE)?,
        after: command(AFTER)?,
        container: annotations.get(CONTAINER).cloned(),
        timeout: timeout.transpose()?.unwrap_or(TIMEOUT_DEFAULT),
    };
    let idle = [CONTAINER, TIMEOUT].into_iter().find(|key| annotations.contains_key(*key));
    match idle {
        Some(key) if !asked.has_hooks() => {
            Err(format!("{key} is of a hook, and there is none: write {BEFORE} or {AFTER}"))
        }
        _ => Ok(asked),
    }
}

fn known(annotations: &Annotations, all: &[&str]) -> Result<(), String> {
    match annotations.keys().find(|key| !all.contains(&key.as_str())) {
        Some(key) => Err(format!("{key} is no annotation here; there are {}", all.join(", "))),
        None => Ok(()),
    }
}

fn is_yes(annotations: &Annotations, key: &str) -> Result<bool, String> {
    match annotations.get(key).map(String::as_str) {
        Some("true") => Ok(true),
        Some("false") | None => Ok(false),
        Some(other) => Err(format!("{key}: {other:?} is neither \"true\" nor \"false\"")),
    }
}

/// `90s`, `5m`, `1h`, or a number of seconds.
fn timeout(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is no time such as 90s, 5m or 1h");
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    let seconds = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(unit)).ok_or_else(bad)?;
    match Duration::from_secs(seconds) {
        Duration::ZERO => Err(bad()),
        time if time > TIMEOUT_MAX => Err(format!("{text} is more than a day")),
        time => Ok(time),
    }
}

/// A command: a JSON list of words, or words as a shell reads them. A shell's own signs are refused, as no shell reads
/// them here.
fn words(text: &str) -> Result<Vec<String>, String> {
    let words = if text.trim_start().starts_with('[') {
        serde_json::from_str::<Vec<String>>(text).map_err(|error| format!("it is no list of words: {error}"))?
    } else {
        shell_words(text)?
    };
    match words.first() {
        Some(program) if !program.is_empty() => Ok(words),
        _ => Err("it names no program".to_owned()),
    }
}

const SIGNS: &[char] = &['|', '&', ';', '<', '>', '(', ')', '$', '`', '*', '?', '#', '~'];

fn shell_words(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(sign), letter) if sign == letter => quote = None,
            (Some('"'), '$' | '`') => return Err(for_a_shell(letter)),
            (Some('"') | None, '\\') => {
                let escaped = letters.next().ok_or("a backslash stands at its end")?;
                word.get_or_insert_default().push(escaped);
            }
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None, letter) if SIGNS.contains(&letter) => return Err(for_a_shell(letter)),
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(sign) = quote {
        return Err(format!("{sign} has no end"));
    }
    words.extend(word);
    Ok(words)
}

fn for_a_shell(sign: char) -> String {
    format!("{sign} is for a shell, and no shell reads it: write [\"sh\", \"-c\", \"...\"]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(pairs: &[(&str, &str)]) -> Annotations {
        pairs.iter().map(|(key, value)| (format!("{BACKUP}{key}"), (*value).to_owned())).collect()
    }

    #[test]
    fn commands() {
        for (text, expected) in [
            ("pg_dump -f /b/x app", Ok(vec!["pg_dump", "-f", "/b/x", "app"])),
            ("  a  'b c' \"d\\\"e\" f\\ g '' ", Ok(vec!["a", "b c", "d\"e", "f g", ""])),
            ("[\"sh\", \"-c\", \"a > b\"]", Ok(vec!["sh", "-c", "a > b"])),
            ("a > b", Err("> is for a shell")),
            ("a \"$B\"", Err("$ is for a shell")),
            ("a '$B'", Ok(vec!["a", "$B"])),
            ("a 'b", Err("' has no end")),
            ("a \\", Err("a backslash")),
            ("", Err("it names no program")),
            ("[]", Err("it names no program")),
            ("['a']", Err("it is no list of words")),
        ] {
            match (words(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(why), Err(word)) => assert!(why.contains(word), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn times() {
        for (text, seconds) in [("90s", Some(90)), ("5m", Some(300)), ("1h", Some(3600)), ("7", Some(7))] {
            assert_eq!(timeout(text).ok().map(|time| time.as_secs()), seconds, "{text}");
        }
        for text in ["", "s", "0", "-1s", "1.5h", "25h", "99999999999999999999h", "5x"] {
            assert!(timeout(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_claims_and_pods_ask_for() {
        assert_eq!(of_claim(&of(&[])), Ok(OfClaim::default()));
        assert_eq!(of_claim(&of(&[("", "true"), ("-live", "true")])), Ok(OfClaim { asked: true, live: true }));
        assert!(of_claim(&of(&[("", "yes")])).unwrap_err().contains("neither"));
        assert!(of_claim(&of(&[("-before", "x")])).unwrap_err().contains("coracle.dev/backup-before is no annotation"));
        let pod =
            of_pod(&of(&[("", "data, conf"), ("-before", "a b"), ("-container", "c"), ("-timeout", "1m")])).unwrap();
        assert_eq!((pod.volumes.as_slice(), pod.timeout.as_secs()), (&["data".to_owned(), "conf".to_owned()][..], 60));
        assert_eq!(
            (pod.before.unwrap(), pod.after, pod.container.as_deref()),
            (vec!["a".to_owned(), "b".to_owned()], None, Some("c"))
        );
        assert_eq!(of_pod(&of(&[])).unwrap().timeout, TIMEOUT_DEFAULT);
        for (bad, word) in [
            (("-befor", "x"), "coracle.dev/backup-befor is no annotation here"),
            (("-before", "a | b"), "coracle.dev/backup-before: | is for a shell"),
            (("-timeout", "1m"), "there is none"),
            (("-container", "c"), "there is none"),
            (("-live", "1"), "neither"),
        ] {
            assert!(of_pod(&of(&[bad])).unwrap_err().contains(word), "{bad:?}");
        }
        let metadata = json!({"annotations": {"coracle.dev/backup": "true", "other": "x"}});
        assert_eq!(annotations(&metadata), of(&[("", "true")]));
        assert_eq!(annotations(&json!({})), of(&[]));
    }
}
