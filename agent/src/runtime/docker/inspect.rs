//! Containers as the engine has them, in Docker's words.
//!
//! bollard refuses a whole answer for one state that Docker does not have. Then it is asked for once more, and read
//! with that word replaced.

use std::collections::HashMap;
use std::future::Future;

use bollard::errors::Error;
use bollard::models::{ContainerInspectResponse, ContainerSummary};
use bollard::query_parameters::ListContainersOptions;
use coracle_http::Method;
use coracle_http::client::{Client, Target};
use serde::de::DeserializeOwned;

use super::connection::Docker;
use super::dialect::{in_dockers_words, refusal};
use crate::facts::engine::Failure;

impl Docker {
    pub(super) async fn inspect(
        &self,
        client: &bollard::Docker,
        id: &str,
    ) -> Result<ContainerInspectResponse, Failure> {
        match self.ask("inspect", understood(client.inspect_container(id, None))).await? {
            Some(found) => Ok(found),
            None => self.ask_plainly("inspect", &format!("/containers/{id}/json")).await,
        }
    }

    /// All containers with a label, running or not. Without a label, every container of the engine.
    pub(super) async fn summaries(
        &self,
        client: &bollard::Docker,
        label: Option<&str>,
    ) -> Result<Vec<ContainerSummary>, Failure> {
        let filters = label.map(|label| HashMap::from([("label".to_owned(), vec![label.to_owned()])]));
        let options = ListContainersOptions { all: true, filters, ..Default::default() };
        match self.ask("list containers", understood(client.list_containers(Some(options)))).await? {
            Some(found) => Ok(found),
            None => {
                let filters =
                    label.map(|label| format!("&filters=%7B%22label%22%3A%5B%22{label}%22%5D%7D")).unwrap_or_default();
                self.ask_plainly("list containers", &format!("/containers/json?all=true{filters}")).await
            }
        }
    }

    /// Without bollard.
    async fn ask_plainly<T: DeserializeOwned>(&self, what: &str, path: &str) -> Result<T, Failure> {
        let lost = |why: String| Failure::Unavailable(format!("{what}: {why}"));
        let reply =
            self.plain_client()?.call(Method::GET, path, None).await.map_err(|error| lost(error.to_string()))?;
        if !reply.status.is_success() {
            let words: serde_json::Value = serde_json::from_slice(&reply.body).unwrap_or_default();
            let text = words["message"].as_str().map_or_else(|| format!("status {}", reply.status), str::to_owned);
            return Err(refusal(what, reply.status.as_u16(), text));
        }
        let answer = serde_json::from_slice(&reply.body).map(in_dockers_words);
        answer.and_then(serde_json::from_value).map_err(|error| lost(error.to_string()))
    }

    pub(super) fn plain_client(&self) -> Result<Client, Failure> {
        let host = &self.settings.host;
        let target = host.strip_prefix("tcp://").map_or_else(|| host.clone(), |rest| format!("http://{rest}"));
        let target: Target =
            target.parse().map_err(|error| Failure::Unavailable(format!("connect to {host}: {error}")))?;
        Ok(Client::new(target, concat!("coracle-agent/", env!("CARGO_PKG_VERSION"))))
    }
}

/// None: the answer has a word that bollard does not know.
async fn understood<T>(call: impl Future<Output = Result<T, Error>>) -> Result<Option<T>, Error> {
    match call.await {
        Err(Error::JsonDataError { .. } | Error::JsonSerdeError { .. }) => Ok(None),
        answer => answer.map(Some),
    }
}
