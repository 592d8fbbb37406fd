//! Images: looks them up in the engine, and has the engine pull them.

use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;

use super::connection::{Docker, failure};
use super::credentials::{self, FoundLogin};
use crate::facts::engine::{Failure, Image};
use crate::facts::logins::Login;
use crate::plan::images::is_reference;

/// A pull whose progress stands still for so long has died with its connection; the engine itself tries for about 30 s.
const PULL_SILENCE: Duration = Duration::from_secs(120);

/// A pull that takes longer has failed. The wait for its turn does not count.
const PULL_MAX: Duration = Duration::from_secs(1800);

/// A registry that does not say within this which image it has is out of reach.
const DIGEST: Duration = Duration::from_secs(10);

pub(super) async fn in_time<T>(pull: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = |_| Err(Failure::Registry(format!("no end after {} s", PULL_MAX.as_secs())));
    tokio::time::timeout(PULL_MAX, pull).await.unwrap_or_else(late)
}

impl Docker {
    pub(super) async fn find_image(&self, reference: &str) -> Result<Option<Image>, Failure> {
        // It is a part of a path, and an archive or a pod says what it is.
        if !is_reference(reference) {
            return Ok(None);
        }
        let client = self.client().await?;
        let found = match self.ask("look for an image", client.inspect_image(reference)).await {
            Ok(found) => found,
            // What this engine takes for no name of an image is not here; the pull says why. The others go on.
            Err(Failure::NotFound(_) | Failure::Refused(_)) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let config = found.config.unwrap_or_default();
        let id = found.id.unwrap_or_default();
        Ok(Some(Image {
            access: self.access(reference, &id),
            id,
            user: config.user.unwrap_or_default(),
            stop_signal: config.stop_signal.filter(|signal| !signal.is_empty()),
            size_bytes: found.size.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0),
        }))
    }

    /// The login that the registry took. None: the pull needed none of them.
    pub(super) async fn pull_image<'a>(
        &self,
        reference: &str,
        logins: &'a [Login],
    ) -> Result<Option<&'a Login>, Failure> {
        let mut refused = None;
        for login in logins {
            match self.pull_as(reference, Some(of_login(reference, login)), None).await {
                Err(failure @ (Failure::Registry(_) | Failure::Refused(_))) => refused = Some(failure),
                ended => return ended.map(|()| Some(login)),
            }
        }
        let (credentials, remark) = match credentials::of_host(registry(reference)) {
            FoundLogin::Login(login) => (Some(login), None),
            // Who has logins of his own is not let in as nobody either.
            FoundLogin::Nothing if refused.is_some() => return refused.map_or(Ok(None), Err),
            FoundLogin::Nothing => (None, None),
            FoundLogin::Unusable(why) => (None, Some(why)),
        };
        self.pull_as(reference, credentials, remark).await.map(|()| None)
    }

    async fn pull_as(
        &self,
        reference: &str,
        credentials: Option<DockerCredentials>,
        remark: Option<String>,
    ) -> Result<(), Failure> {
        let client = self.client().await?;
        let name = with_tag(reference);
        let options = CreateImageOptions { from_image: Some(name), ..Default::default() };
        let mut progress = std::pin::pin!(client.create_image(Some(options), None, credentials));
        let explain = |text: String| match &remark {
            Some(why) => format!("{text} (without credentials: {why})"),
            None => text,
        };
        loop {
            match tokio::time::timeout(PULL_SILENCE, progress.next()).await {
                Ok(None) => return Ok(()),
                Ok(Some(Ok(message))) => {
                    if let Some(text) = message.error_detail.and_then(|detail| detail.message) {
                        return Err(Failure::Registry(explain(text)));
                    }
                }
                Ok(Some(Err(Error::DockerResponseServerError { status_code: 400, message }))) => {
                    return Err(Failure::Refused(message));
                }
                Ok(Some(Err(error))) => {
                    return Err(match failure("pull", error) {
                        Failure::Unavailable(text) => Failure::Unavailable(text),
                        other => Failure::Registry(explain(other.text().to_owned())),
                    });
                }
                Err(_) => {
                    return Err(Failure::Registry(explain(format!("no progress for {} s", PULL_SILENCE.as_secs()))));
                }
            }
        }
    }
}

impl Docker {
    /// The digest that a registry has under this name now. Nothing is pulled.
    pub async fn registry_digest(&self, reference: &str, logins: &[Login]) -> Result<String, Failure> {
        let late = |_| Err(Failure::Registry(format!("no answer within {} s", DIGEST.as_secs())));
        tokio::time::timeout(DIGEST, self.ask_registry(reference, logins)).await.unwrap_or_else(late)
    }

    async fn ask_registry(&self, reference: &str, logins: &[Login]) -> Result<String, Failure> {
        let client = self.client().await?;
        let name = with_tag(reference);
        let mut tries: Vec<Option<DockerCredentials>> =
            logins.iter().map(|login| Some(of_login(reference, login))).collect();
        tries.push(match credentials::of_host(registry(reference)) {
            FoundLogin::Login(login) => Some(login),
            FoundLogin::Nothing | FoundLogin::Unusable(_) => None,
        });
        let mut last = Failure::Registry("it was not asked".to_owned());
        for credentials in tries {
            match client.inspect_registry_image(&name, credentials).await {
                Ok(found) => {
                    let digest = found.descriptor.digest.filter(|digest| !digest.is_empty());
                    return digest.ok_or_else(|| Failure::Registry("it gives no digest".to_owned()));
                }
                Err(error) => last = failure("ask the registry", error),
            }
        }
        Err(last)
    }
}

fn of_login(reference: &str, login: &Login) -> DockerCredentials {
    DockerCredentials {
        username: Some(login.username.clone()),
        password: Some(login.password.clone()),
        serveraddress: Some(registry(reference).to_owned()),
        ..Default::default()
    }
}

/// The host part of a reference; Docker Hub's names have none.
fn registry(reference: &str) -> &str {
    match reference.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "docker.io",
    }
}

/// A name with neither tag nor digest means `latest`; asked without it the engine would fetch every tag.
fn with_tag(reference: &str) -> String {
    let last = reference.rsplit('/').next().unwrap_or(reference);
    if last.contains([':', '@']) { reference.to_owned() } else { format!("{reference}:latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |reference: &str, host: &str, asked: &str| {
            assert_eq!((registry(reference), with_tag(reference).as_str()), (host, asked));
        };
        check("busybox", "docker.io", "busybox:latest");
        check("redis:3", "docker.io", "redis:3");
        check("dockerfile/redis", "docker.io", "dockerfile/redis:latest");
        check("docker.io/library/nginx", "docker.io", "docker.io/library/nginx:latest");
        check("localhost:5000/a", "localhost:5000", "localhost:5000/a:latest");
        check("gcr.io/google_containers/pause:0.8.0", "gcr.io", "gcr.io/google_containers/pause:0.8.0");
        check("a@sha256:00", "docker.io", "a@sha256:00");
    }
}
