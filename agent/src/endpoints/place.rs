//! PURE. Parses a path and its query: parameters, pods and the runs of their containers.

use crate::facts::engine::SeenContainer;
use crate::facts::naming::{SANDBOX, Source, Tag};
use crate::facts::shown::Shown;
use crate::facts::wanted::Wanted;

/// Pods by their name in the API, where the pod of a file has the name of its mirror. If none match: pods by the name
/// in their file.
pub fn pods_called<'s>(
    shown: &'s Shown,
    node_name: &str,
    namespace: &str,
    pod: &str,
) -> impl Iterator<Item = &'s Wanted> {
    let of_file = pod.strip_suffix(node_name).and_then(|rest| rest.strip_suffix('-'));
    let in_api = |wanted: &&Wanted| match wanted.name.source {
        Source::File => of_file == Some(wanted.name.name.as_str()),
        Source::Master => wanted.name.name == pod,
    };
    let here =
        || shown.desired.pods.values().map(AsRef::as_ref).filter(|wanted: &&Wanted| wanted.name.namespace == namespace);
    let mut found: Vec<&Wanted> = here().filter(in_api).collect();
    if found.is_empty() {
        found = here().filter(|wanted| wanted.name.name == pod).collect();
    }
    found.into_iter()
}

/// All containers of the engine for one container of a pod, with their attempt numbers.
pub fn runs_of<'s>(shown: &'s Shown, uid: &str, container: &str) -> impl Iterator<Item = (u32, &'s SeenContainer)> {
    shown.world.containers.iter().filter_map(move |seen| {
        let tag = Tag::read(&seen.name, &seen.labels)?;
        (tag.pod.uid == uid && tag.container == container).then_some((tag.attempt, seen))
    })
}

/// The engine's running container for one container of a pod.
pub fn running<'s>(shown: &'s Shown, uid: &str, container: &str) -> Option<&'s SeenContainer> {
    runs_of(shown, uid, container)
        .filter(|(_, seen)| seen.lives())
        .max_by_key(|(attempt, _)| *attempt)
        .map(|(_, seen)| seen)
}

/// What holds a pod's network.
pub fn sandbox<'s>(shown: &'s Shown, uid: &str) -> Option<&'s SeenContainer> {
    running(shown, uid, SANDBOX)
}

/// Names and decoded values. `Err`: a message with the name of the badly encoded value.
pub fn parameters(query: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value).ok_or_else(|| format!("the value of {key} is not well encoded"))?;
            Ok((key.to_owned(), value))
        })
        .collect()
}

/// The decoded segments. None: a segment is badly encoded, or would lead out of its place in a path, as `..` does.
pub fn segments(path: &str) -> Option<Vec<String>> {
    let plain = |segment: &String| !matches!(segment.as_str(), "" | "." | "..") && !segment.contains(['/', '\\', '\0']);
    path.trim_end_matches('/').split('/').map(|segment| decode(segment).filter(plain)).collect()
}

/// Percent-decoding; None for what is not UTF-8 or badly encoded.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(rest.next()?)? * 16 + digit(rest.next()?)?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::desired::Desired;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn a_name_is_that_of_the_api_first() {
        let pod = |source, name: &str, uid: &str| {
            let document =
                json!({"metadata": {"namespace": "default", "name": name, "uid": uid}, "spec": {"containers": []}});
            (uid.to_owned(), Arc::new(Wanted::new(source, document).unwrap()))
        };
        let file = pod(Source::File, "hello", "file");
        let both = [file.clone(), pod(Source::Master, "hello", "posted")];
        for (pods, asked, expected) in [
            (&both[..], "hello", Some("posted")),
            (&both, "hello-n1", Some("file")),
            (&both[..1], "hello", Some("file")),
            (&both[..1], "hello-n1", Some("file")),
            (&both[1..], "hello-n1", None),
        ] {
            let desired = Desired { pods: pods.iter().cloned().collect(), ..Desired::default() };
            let shown = Shown { desired: Arc::new(desired), ..Shown::default() };
            let found: Vec<&str> =
                pods_called(&shown, "n1", "default", asked).map(|wanted| wanted.name.uid.as_str()).collect();
            assert_eq!(found, Vec::from_iter(expected), "{asked}");
        }
    }

    #[test]
    fn paths() {
        assert_eq!(segments("default/p/c/"), Some(vec!["default".to_owned(), "p".to_owned(), "c".to_owned()]));
        assert_eq!(segments("a%2Db/p/c").map(|parts| parts[0].clone()).as_deref(), Some("a-b"));
        for path in [
            "../secret",
            "default/../c",
            "default/%2e%2E/c",
            "default/./c",
            "default/..%2fp/c",
            "a//c",
            "a/%zz/c",
            "a/%00/c",
            "",
        ] {
            assert_eq!(segments(path), None, "{path}");
        }
    }

    #[test]
    fn queries() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            parameters("command=a%20b&command=&tty"),
            Ok(vec![pair("command", "a b"), pair("command", ""), pair("tty", "")])
        );
        assert_eq!(parameters("&&"), Ok(Vec::new()));
        assert_eq!(parameters("a=%zz"), Err("the value of a is not well encoded".to_owned()));
    }
}
