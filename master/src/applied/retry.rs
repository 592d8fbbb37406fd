//! Why an object could not be applied, and when it is tried again. PURE.

use super::ask::Reply;
use super::decide::Failure;
use coracle_api::meta::Key;
use std::time::Duration;

/// The first pause after a failure that may pass by itself, and the longest.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// The shortest pause between two tries that a change elsewhere asks for.
const PAUSE_AFTER_CHANGE: Duration = Duration::from_secs(3);

/// The beginnings of messages about documents that do not fit their kind.
const UNTYPED: [&str; 2] = ["failed to create typed patch object", "failed to convert new object"];

/// A failure with its tries. Times are uptimes of the thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Try {
    pub failure: Failure,
    pub at: Duration,
    pub count: u32,
    /// Whether it passes by itself: then it is tried again without a change of the object or its file.
    pub passes: bool,
    /// A change elsewhere may have mended it.
    pub is_stirred: bool,
}

impl Try {
    /// When it is tried again. None: when something changes.
    pub fn next(&self) -> Option<Duration> {
        let by_itself = self.passes.then(|| {
            let doubled = PAUSE_MIN.saturating_mul(1 << self.count.min(20));
            self.at + doubled.min(PAUSE_MAX)
        });
        let after_change = self.is_stirred.then_some(self.at + PAUSE_AFTER_CHANGE);
        by_itself.into_iter().chain(after_change).min()
    }
}

/// The failure that an answer means, and whether it passes by itself.
pub fn failure(reply: &Reply, key: &Key, digest: &str, path: &str) -> (Failure, bool) {
    let message = reply.message();
    let (reason, why, advice, passes) = match reply.code {
        _ if reply.is_conflict_of_fields() => (
            "FieldConflict",
            format!("others have set fields of it: {}", message.replace('\n', " ")),
            format!(
                "take these fields out of the file, or take them over: kubectl apply --server-side \
                 --field-manager=coracle-apply --force-conflicts -f {path}"
            ),
            false,
        ),
        // Kubernetes answers 500 to a field that the kind does not have.
        500 if UNTYPED.iter().any(|words| message.starts_with(words)) => {
            ("ObjectRefused", message, "mend it in its file".to_owned(), false)
        }
        400 | 405 | 406 | 413 | 415 | 422 => ("ObjectRefused", message, "mend it in its file".to_owned(), false),
        403 if message.contains("exceeded quota") => {
            ("QuotaExceeded", message, format!("kubectl describe quota -n {}", key.namespace), true)
        }
        _ => ("ApplyFailed", message, "it is tried again by itself".to_owned(), true),
    };
    (Failure { digest: digest.to_owned(), reason, why, advice, is_due: false }, passes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coracle_api::meta::Resource;
    use serde_json::json;

    fn check(code: u16, document: serde_json::Value, reason: &str, passes: bool) {
        let key = Key { resource: Resource::core("pods"), namespace: "n".to_owned(), name: "a".to_owned() };
        let (failure, found) = failure(&Reply { code, document }, &key, "d", "/a.yaml");
        assert_eq!((failure.reason, found), (reason, passes), "{code}: {failure:?}");
    }

    #[test]
    fn answers() {
        let cause = json!({"reason": "FieldManagerConflict"});
        check(409, json!({"message": "m", "details": {"causes": [cause]}}), "FieldConflict", false);
        check(409, json!({"message": "m"}), "ApplyFailed", true);
        check(400, json!({"message": "unknown field \"spec.x\""}), "ObjectRefused", false);
        check(500, json!({"message": "failed to create typed patch object (a): x"}), "ObjectRefused", false);
        check(500, json!({"message": "no space"}), "ApplyFailed", true);
        check(422, json!({}), "ObjectRefused", false);
        check(403, json!({"message": "exceeded quota: q"}), "QuotaExceeded", true);
        check(403, json!({"message": "it is being terminated"}), "ApplyFailed", true);
        check(507, json!({}), "ApplyFailed", true);
    }

    #[test]
    fn pauses_grow_and_a_change_cuts_them_short() {
        let failure =
            Failure { digest: String::new(), reason: "R", why: String::new(), advice: String::new(), is_due: false };
        let tried = |count, passes, is_stirred| {
            let at = Duration::from_secs(100);
            Try { failure: failure.clone(), at, count, passes, is_stirred }.next().map(|next| next.as_secs())
        };
        let found: Vec<Option<u64>> = [0, 1, 4, 40].into_iter().map(|count| tried(count, true, false)).collect();
        assert_eq!(found, [Some(101), Some(102), Some(116), Some(700)]);
        assert_eq!(
            (tried(0, false, false), tried(0, false, true), tried(40, true, true)),
            (None, Some(103), Some(103))
        );
    }
}
