//! Finds the pod of a name: by the agent of this host, and by its master.

use coracle_http::client::{CallError, Client, Target};
use coracle_http::{Method, StatusCode};
use serde_json::Value;

use super::named::{Named, NamedKind, encoded, name_for_agent, pick, selector};
use super::{Sockets, deed, unheard};

const USER_AGENT: &str = concat!("coracle/", env!("CARGO_PKG_VERSION"));

/// A pod.
pub enum Found {
    /// As the agent shows it, and the name by which the agent knows it.
    Here(Value, String),
    /// As the master shows it: on another node, or on none yet.
    There(Value),
}

/// Both programs of this host, whether they run or not.
pub struct Programs {
    pub sockets: Sockets,
    pub agent: Client,
    pub master: Client,
}

impl Programs {
    pub fn new(sockets: &Sockets) -> Programs {
        let client = |path: &std::path::Path| Client::new(Target::Unix(path.to_owned()), USER_AGENT);
        Programs { sockets: sockets.clone(), agent: client(&sockets.agent), master: client(&sockets.master) }
    }

    /// The pods of this host. The error says why the agent does not tell them.
    pub async fn pods(&self) -> Result<Value, String> {
        let reply = self.agent.call(Method::GET, "/pods", None).await;
        let reply = reply.map_err(|error| unheard(&self.sockets.agent, error))?;
        serde_json::from_slice(&reply.body).map_err(|error| format!("the agent's pods cannot be read: {error}"))
    }

    /// What the master has there. None: there is no such object, or no master on this host.
    pub async fn of_master(&self, path: &str) -> Result<Option<Value>, String> {
        let reply = match self.master.call(Method::GET, path, None).await {
            Ok(reply) => reply,
            Err(CallError::Unreachable(..)) => return Ok(None),
            Err(error) => return Err(unheard(&self.sockets.master, error)),
        };
        match reply.status {
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::OK => serde_json::from_slice(&reply.body)
                .map(Some)
                .map_err(|error| format!("the master's answer cannot be read: {error}")),
            _ => Err(format!("the master: {}", deed::refusal(&reply.body))),
        }
    }

    /// One pod. For a workload: the pod that kubectl would take.
    pub async fn find(&self, named: &Named) -> Result<Found, String> {
        let pods = self.pods().await;
        let none = Value::Null;
        let shown = pods.as_ref().unwrap_or(&none);
        let here = |pod: &Value| Found::Here(pod.clone(), name_for_agent(pod, shown));
        let local = || named.on_host(shown).first().map(|pod| here(pod));
        if named.kind == NamedKind::Pod
            && let Some(found) = local()
        {
            return Ok(found);
        }
        let far = match self.of_master(&named.path()).await? {
            None => None,
            Some(pod) if named.kind == NamedKind::Pod => Some(pod),
            Some(workload) => Some(self.one_of(named, &workload).await?),
        };
        match far {
            Some(pod) => {
                let uid = &pod["metadata"]["uid"];
                let mut all = shown["items"].as_array().into_iter().flatten();
                let found = all.find(|one| one["metadata"]["uid"] == *uid);
                Ok(found.map_or_else(|| Found::There(pod.clone()), here))
            }
            None => match local() {
                Some(found) => Ok(found),
                None => Err(nowhere(named, pods.as_ref().map_err(Clone::clone)?)),
            },
        }
    }

    async fn one_of(&self, named: &Named, workload: &Value) -> Result<Value, String> {
        let selector = selector(workload).ok_or_else(|| format!("{named} selects no pods"))?;
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector={selector}", encoded(&named.namespace));
        let pods = self.of_master(&path).await?.unwrap_or_default();
        pick(&pods).cloned().ok_or_else(|| format!("{named} has no pod now"))
    }
}

/// Names the pods that are there instead.
pub fn nowhere(named: &Named, pods: &Value) -> String {
    let here = pods["items"].as_array().into_iter().flatten();
    let here = here.filter(|pod| pod["metadata"]["namespace"] == named.namespace.as_str());
    let mut names: Vec<&str> = here.filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
    names.sort_unstable();
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!(
        "{} {:?} is not on this host; in namespace {:?} there are pods: {known}",
        named.kind.word(),
        named.name,
        named.namespace
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_there_instead() {
        let pod = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}});
        let pods = json!({"items": [pod("default", "q"), pod("default", "p"), pod("shop", "x")]});
        let said = |text: &str| nowhere(&Named::parse(text, None).unwrap(), &pods);
        assert_eq!(said("r"), "pod \"r\" is not on this host; in namespace \"default\" there are pods: p, q");
        assert_eq!(
            said("lab/deploy/r"),
            "deployment \"r\" is not on this host; in namespace \"lab\" there are pods: none"
        );
    }
}
