//! Logins for registries, from the file that `docker login` writes. Read at each pull: a new login counts at once.

use std::path::PathBuf;

use bollard::auth::DockerCredentials;
use serde_json::Value;

/// The host's credentials for one registry.
#[derive(Debug, PartialEq)]
pub enum FoundLogin {
    Nothing,
    Login(DockerCredentials),
    /// The host has a login that this agent cannot use. The reason is added to the error of the pull without a login.
    Unusable(String),
}

/// A login file has some hundred bytes. A bigger file is no login file.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub fn of_host(registry: &str) -> FoundLogin {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".docker")));
    let path = folder.unwrap_or_else(|| PathBuf::from("/root/.docker")).join("config.json");
    let text = match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return FoundLogin::Nothing,
        Err(error) => return FoundLogin::Unusable(format!("{}: {error}", path.display())),
        Ok(file) if file.len() > FILE_BYTES_MAX => {
            return FoundLogin::Unusable(format!("{} is too big", path.display()));
        }
        Ok(_) => std::fs::read_to_string(&path),
    };
    let parsed = text
        .map_err(|error| error.to_string())
        .and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    match parsed {
        Ok(config) => login(&config, registry),
        Err(error) => FoundLogin::Unusable(format!("{}: {error}", path.display())),
    }
}

fn login(config: &Value, registry: &str) -> FoundLogin {
    let names = config["auths"].as_object();
    let entry =
        names.into_iter().flatten().find(|(name, _)| host(name) == registry).map(|(name, entry)| (name.clone(), entry));
    if let Some((name, entry)) = entry {
        let text = |field: &str| entry[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let login = DockerCredentials {
            username: text("username"),
            password: text("password"),
            identitytoken: text("identitytoken"),
            serveraddress: Some(name),
            ..Default::default()
        };
        if let Some((username, password)) = text("auth").and_then(|auth| decode(&auth)) {
            return FoundLogin::Login(DockerCredentials {
                username: Some(username),
                password: Some(password),
                ..login
            });
        }
        if login.username.is_some() || login.identitytoken.is_some() {
            return FoundLogin::Login(login);
        }
    }
    let helper = config["credHelpers"][registry].as_str().or_else(|| config["credsStore"].as_str());
    match helper {
        Some(helper) => FoundLogin::Unusable(format!(
            "Docker's config.json keeps the login of {registry} in the helper {helper}; log in without one"
        )),
        None => FoundLogin::Nothing,
    }
}

/// Logins are listed under hosts, URLs, and for Docker Hub under its first address of all.
fn host(name: &str) -> &str {
    let name = name.split_once("://").map_or(name, |(_, rest)| rest);
    match name.split('/').next().unwrap_or(name) {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    }
}

/// `user:password` in base64.
fn decode(text: &str) -> Option<(String, String)> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(value)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).ok()?);
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.trim_end_matches('\0').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn logins() {
        let config = json!({
            "auths": {
                "https://index.docker.io/v1/": { "auth": "dXNlcjpwYXNzOndvcmQ=" },
                "localhost:5000": { "auth": "YTpi" },
                "gcr.io": {},
            },
            "credsStore": "desktop",
        });
        let check = |registry: &str| match login(&config, registry) {
            FoundLogin::Login(login) => format!("{} {}", login.username.unwrap(), login.password.unwrap()),
            other => format!("{other:?}"),
        };
        assert_eq!(check("docker.io"), "user pass:word");
        assert_eq!(check("localhost:5000"), "a b");
        assert!(check("gcr.io").contains("desktop"), "{}", check("gcr.io"));
        assert_eq!(login(&json!({}), "gcr.io"), FoundLogin::Nothing);
        assert_eq!(decode("!"), None);
    }
}
