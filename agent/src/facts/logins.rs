//! Logins for registries, read out of Secrets. PURE.
//!
//! A login is for a registry, or for a part of it; hosts may have wildcards. Of several that fit the narrowest is tried
//! first.

use std::fmt;

use coracle_schema::base64;
use serde_json::Value;

use crate::facts::objects::Object;

/// The registry for image names without a registry.
const DEFAULT_HOST: &str = "index.docker.io";

/// Under which name, and as whom.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// `HOST[:PORT][/PATH]`
    pub place: String,
    pub username: String,
    pub password: String,
    /// `NAMESPACE/NAME/UID` of its Secret. The Secret of a file has no uid.
    pub secret: String,
}

/// It stands in no log.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a login for {}", self.place)
    }
}

/// A Secret that is unreadable or has another type gives no login: the pull runs without a login, and the registry's
/// error is shown.
pub fn of_secret(secret: &Object) -> Vec<Login> {
    let read = |key: &str| serde_json::from_slice::<Value>(secret.data.get(key)?).ok();
    let entries = match secret.type_name.as_str() {
        "kubernetes.io/dockerconfigjson" => read(".dockerconfigjson").map(|mut config| config["auths"].take()),
        "kubernetes.io/dockercfg" => read(".dockercfg"),
        _ => None,
    };
    let entries = entries.unwrap_or_default();
    entries.as_object().into_iter().flatten().filter_map(|(name, entry)| login(name, entry)).collect()
}

fn login(name: &str, entry: &Value) -> Option<Login> {
    let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let (mut username, mut password) = (text("username"), text("password"));
    if let Some(pair) = base64::decode(&text("auth")).ok().and_then(|bytes| String::from_utf8(bytes).ok())
        && let Some((user, secret)) = pair.split_once(':')
    {
        (username, password) = (user.to_owned(), secret.trim_end_matches('\0').to_owned());
    }
    let name = name.split_once("://").map_or(name, |(_, rest)| rest);
    let (host, path) = name.split_once('/').unwrap_or((name, ""));
    // Registries of old are listed under the version of their API.
    let path = path.strip_prefix("v1/").or(path.strip_prefix("v2/")).unwrap_or(path);
    let place = if path.is_empty() { host.to_owned() } else { format!("{host}/{path}") };
    (!username.is_empty() || !password.is_empty()).then_some(Login { place, username, password, secret: String::new() })
}

/// The logins that fit an image name, in the order to try.
pub fn fitting(logins: &[Login], image: &str) -> Vec<Login> {
    let mut fitting: Vec<&Login> = logins.iter().filter(|login| fits(&login.place, image)).collect();
    fitting.sort_by(|a, b| b.place.cmp(&a.place));
    if fitting.is_empty() && is_of_default(image) {
        fitting = logins.iter().filter(|login| login.place == DEFAULT_HOST).collect();
    }
    fitting.into_iter().cloned().collect()
}

fn fits(place: &str, image: &str) -> bool {
    let split = |name: &str| -> (Vec<String>, String, String) {
        let (host, path) = name.split_once('/').unwrap_or((name, ""));
        let (host, port) = host.split_once(':').unwrap_or((host, ""));
        (host.split('.').map(str::to_owned).collect(), port.to_owned(), path.to_owned())
    };
    let ((hosts, port, path), (image_hosts, image_port, image_path)) = (split(place), split(image));
    let alike = |(one, other): (&String, &String)| glob(one.as_bytes(), other.as_bytes());
    port == image_port
        && hosts.len() == image_hosts.len()
        && image_path.starts_with(&path)
        && hosts.iter().zip(&image_hosts).all(alike)
}

/// `*` stands for any letters, `?` for one. Only the last `*` is gone back to, so no pattern takes long.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen, mut star) = (0, 0, None);
    while seen < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(one) if *one == b'?' || *one == text[seen] => (at, seen) = (at + 1, seen + 1),
            _ => {
                let Some((before, from)) = star else { return false };
                star = Some((before, from + 1));
                (at, seen) = (before + 1, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

fn is_of_default(image: &str) -> bool {
    match image.split_once('/') {
        None => true,
        Some((first, _)) => {
            ["docker.io", DEFAULT_HOST].contains(&first) || (!first.is_empty() && !first.contains(['.', ':']))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn logins_of_secrets() {
        let check = |type_name: &str, key: &str, text: &str, expected: &[(&str, &str, &str)]| {
            let data = [(key.to_owned(), text.as_bytes().into())].into();
            let found = of_secret(&Object { type_name: type_name.into(), data, ..Object::default() });
            let found: Vec<_> =
                found.iter().map(|one| (one.place.as_str(), one.username.as_str(), one.password.as_str())).collect();
            assert_eq!(found, expected, "{text}");
        };
        let entries = json!({
            "https://index.docker.io/v1/": {"auth": "dXNlcjpwYXNzOndvcmQ="},
            "quay.io/org": {"username": "u", "password": "p"}, "gcr.io": {},
        });
        let expected = [("index.docker.io", "user", "pass:word"), ("quay.io/org", "u", "p")];
        check("kubernetes.io/dockercfg", ".dockercfg", &entries.to_string(), &expected);
        check("kubernetes.io/dockerconfigjson", ".dockerconfigjson", &json!({"auths": entries}).to_string(), &expected);
        check("kubernetes.io/dockerconfigjson", ".dockerconfigjson", "torn", &[]);
        check("Opaque", ".dockerconfigjson", &json!({"auths": entries}).to_string(), &[]);
    }

    #[test]
    fn the_narrowest_is_tried_first() {
        let login = |place: &str| Login {
            place: place.into(),
            username: "u".into(),
            password: "p".into(),
            secret: String::new(),
        };
        let logins = ["quay.io", "quay.io/org", "*.example.com", "localhost:5000", "index.docker.io"].map(login);
        let check = |image: &str, expected: &[&str]| {
            let found = fitting(&logins, image);
            assert_eq!(found.iter().map(|one| one.place.as_str()).collect::<Vec<_>>(), expected, "{image}");
        };
        check("quay.io/org/app:1", &["quay.io/org", "quay.io"]);
        check("quay.io/other/app", &["quay.io"]);
        check("a.example.com/x", &["*.example.com"]);
        check("a.b.example.com/x", &[]);
        check("localhost:5000/x", &["localhost:5000"]);
        check("localhost:5001/x", &[]);
        check("busybox", &["index.docker.io"]);
        check("org/app", &["index.docker.io"]);
        check("docker.io/library/busybox", &["index.docker.io"]);
    }
}
