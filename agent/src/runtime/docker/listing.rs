//! All containers of ours, as the engine has them now.
//!
//! A single list call returns all containers with their states. The details come from an inspect of each container,
//! which is kept until an event of that container, a new state, or a silence of the engine makes it stale. A converged
//! host costs one call a round.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};

use bollard::models::{
    ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, ContainerSummary, HostConfig,
};
use bollard::query_parameters::RemoveContainerOptions;
use coracle_api::meta::Time;

use super::connection::{Docker, held};
use super::ready::NETWORK;
use super::volumes;
use crate::facts::engine::{Beside, EndBefore, Failure, Limits, SeenContainer, State};
use crate::facts::naming::{LABEL_KIND, Tag, hosts_file};

/// The limit of a termination message; a longer one loses its beginning, as with the kubelet.
const MESSAGE_BYTES_MAX: u64 = 4096;
/// The limits for the end of the log that replaces a missing termination message.
const MESSAGE_LOG_BYTES_MAX: usize = 2048;
const MESSAGE_LOG_LINES_MAX: usize = 80;

impl Docker {
    pub(super) async fn list_containers(&self) -> Result<Vec<SeenContainer>, Failure> {
        let client = self.client().await?;
        let summaries = self.summaries(&client, Some(LABEL_KIND)).await?;
        let mut containers = Vec::with_capacity(summaries.len());
        let mut ids = Vec::with_capacity(summaries.len());
        for summary in &summaries {
            let Some(id) = &summary.id else { continue };
            ids.push(id.as_str());
            if held(&self.leftovers).contains(id) {
                continue;
            }
            let state = state_word(summary);
            let kept = held(&self.cache).seen.get(id).filter(|(word, _)| *word == state).map(|(_, seen)| seen.clone());
            let seen = match kept {
                Some(seen) => Some(seen),
                None => self.look_at(&client, id, &state).await?,
            };
            containers.extend(seen);
        }
        held(&self.cache).keep(&ids);
        held(&self.leftovers).retain(|id| ids.contains(&id.as_str()));
        held(&self.renamed).retain(|_, (id, _)| ids.contains(&id.as_str()));
        Ok(containers)
    }

    /// Removes dead containers without dependents. A failed removal is repeated with the next removal.
    pub(super) async fn remove_leftovers(&self, client: &bollard::Docker) {
        let leftovers: Vec<String> = held(&self.leftovers).iter().cloned().collect();
        for id in leftovers {
            let options = RemoveContainerOptions { v: true, ..Default::default() };
            if let Ok(()) | Err(Failure::NotFound(_)) =
                self.change("remove", client.remove_container(&id, Some(options))).await
            {
                held(&self.leftovers).remove(&id);
            }
        }
    }

    /// A sandbox gets its address at its start. The address is then written to the pod's hosts file.
    fn complete_hosts(&self, seen: &SeenContainer, address: &str) -> Result<(), Failure> {
        let Some(tag) = Tag::read(&seen.name, &seen.labels).filter(Tag::is_sandbox) else { return Ok(()) };
        volumes::complete_hosts(&hosts_file(&self.settings.data_dir, &tag.pod.uid), address)
    }

    /// None: it went away meanwhile.
    pub(super) async fn look_at(
        &self,
        client: &bollard::Docker,
        id: &str,
        state: &str,
    ) -> Result<Option<SeenContainer>, Failure> {
        let looked = self.look(client, id, state).await?;
        if let Some((seen, Some(why))) = &looked {
            log::warn!("{}: its network: {why}", seen.name);
        }
        Ok(looked.map(|(seen, _)| seen))
    }

    /// And why a sandbox that runs has not the network that it should have.
    pub(super) async fn look(
        &self,
        client: &bollard::Docker,
        id: &str,
        state: &str,
    ) -> Result<Option<(SeenContainer, Option<String>)>, Failure> {
        let before = held(&self.cache).changes;
        let found = match self.inspect(client, id).await {
            Ok(found) => found,
            Err(Failure::NotFound(_)) => return Ok(None),
            Err(failure) => return Err(failure),
        };
        let Some(mut seen) = self.ours(client, id, &found).await? else { return Ok(None) };
        match self.plugged(&seen, &found).await {
            Ok(Some(address)) => seen.ip = Some(address.to_string()),
            Ok(None) => {}
            // Not kept: the next look tries again.
            Err(why) => return Ok(Some((seen, Some(why)))),
        }
        if let Some(address) = &seen.ip {
            self.complete_hosts(&seen, address)?;
        }
        if let State::Exited { exit_code, .. } = seen.state {
            seen.message = self.termination_message(&seen, exit_code).await;
        }
        let mut cache = held(&self.cache);
        if cache.changes == before {
            cache.seen.insert(id.to_owned(), (state.to_owned(), seen.clone()));
        }
        Ok(Some((seen, None)))
    }

    /// The container with the name from its labels, even if it was renamed in the engine.
    async fn ours(
        &self,
        client: &bollard::Docker,
        id: &str,
        found: &ContainerInspectResponse,
    ) -> Result<Option<SeenContainer>, Failure> {
        let Some(mut seen) = seen(id, found) else { return Ok(None) };
        let Some(name) = Tag::of(&seen.labels).map(|tag| tag.name()) else { return Ok(Some(seen)) };
        if name == seen.name {
            held(&self.renamed).retain(|_, (other, _)| other != id);
            return Ok(Some(seen));
        }
        let image = match self.ask("look at an image", client.inspect_image(&seen.image_id)).await {
            Ok(image) => image.config.and_then(|config| config.labels).unwrap_or_default().into_iter().collect(),
            // Without the image's labels the owner is unknown.
            Err(Failure::NotFound(_) | Failure::Refused(_)) => return Ok(Some(seen)),
            Err(failure) => return Err(failure),
        };
        if Tag::of_renamed(&seen.labels, &image).is_some() {
            let now = (id.to_owned(), seen.name.clone());
            let before = held(&self.renamed).insert(name.clone(), now.clone());
            if before != Some(now) && !seen.name.starts_with(&name) {
                log::warn!("container {name} was renamed to {} by somebody; it is known by its labels", seen.name);
            }
            seen.name = name;
        }
        Ok(Some(seen))
    }

    /// The name or id to join a container: a renamed container is joined by its id.
    pub(super) fn called(&self, name: &str) -> String {
        held(&self.renamed).get(name).map_or_else(|| name.to_owned(), |(id, _)| id.clone())
    }

    /// The file that goes with this container: a pod that restarts for years has no more of them than containers.
    pub(super) async fn message_file_of(&self, client: &bollard::Docker, id: &str) -> Result<Option<String>, Failure> {
        let kept = held(&self.cache).seen.get(id).map(|(_, seen)| seen.clone());
        let seen = match kept {
            Some(seen) => Some(seen),
            None => match self.inspect(client, id).await {
                Ok(found) => self.ours(client, id, &found).await?,
                Err(Failure::NotFound(_)) => None,
                Err(failure) => return Err(failure),
            },
        };
        let tag = seen.and_then(|seen| Tag::read(&seen.name, &seen.labels));
        Ok(tag.and_then(|tag| tag.own_message_file(&self.settings.data_dir).map(str::to_owned)))
    }

    /// The end of the file; of the log where the policy says so, the file is empty and the container failed.
    async fn termination_message(&self, seen: &SeenContainer, exit_code: i32) -> Option<String> {
        // What only carries our labels names any file of this host.
        let tag = Tag::read(&seen.name, &seen.labels)?;
        let file = tag.message_file.and_then(|path| read_end(&path).ok()).unwrap_or_default();
        if !file.is_empty() {
            return Some(file);
        }
        if exit_code == 0 || !tag.message_from_log {
            return None;
        }
        let log = self.read_log_tail(&seen.id, MESSAGE_LOG_BYTES_MAX, MESSAGE_LOG_LINES_MAX).await.unwrap_or_default();
        (!log.is_empty()).then_some(log)
    }
}

fn read_end(path: &str) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MESSAGE_BYTES_MAX)))?;
    let mut bytes = Vec::new();
    file.take(MESSAGE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn state_word(summary: &ContainerSummary) -> String {
    summary.state.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn seen(id: &str, found: &ContainerInspectResponse) -> Option<SeenContainer> {
    let config = found.config.as_ref()?;
    let labels: BTreeMap<String, String> = config.labels.clone().unwrap_or_default().into_iter().collect();
    let networks = found.network_settings.as_ref().and_then(|settings| settings.networks.as_ref());
    let ip = networks.and_then(|networks| networks.get(NETWORK)?.ip_address.clone()).filter(|ip| !ip.is_empty());
    Some(SeenContainer {
        id: id.to_owned(),
        name: found.name.as_deref().unwrap_or_default().trim_start_matches('/').to_owned(),
        labels,
        image: config.image.clone().unwrap_or_default(),
        image_id: found.image.clone().unwrap_or_default(),
        created_ms: found.created.as_ref().and_then(|time| milliseconds(&time.to_string())).unwrap_or_default(),
        state: state(found.state.as_ref()?),
        ip,
        limits: found.host_config.as_ref().map(limits),
        message: None,
        beside: beside(found.state.as_ref()?, found.restart_count),
    })
}

/// `restarts`: restarts by the engine's own policy. A restart about to happen is counted already.
fn beside(found: &ContainerState, restarts: Option<i64>) -> Beside {
    let restarts = restarts.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let (runs, about_to) = (found.running.unwrap_or_default(), found.restarting.unwrap_or_default());
    let finished_ms = found.finished_at.as_deref().and_then(milliseconds).filter(|_| runs);
    let exit_code = found.exit_code.and_then(|code| i32::try_from(code).ok()).filter(|_| about_to);
    let begun = match finished_ms {
        Some(_) if !about_to => restarts.max(1),
        _ => restarts.saturating_sub(1),
    };
    Beside {
        paused: runs && found.paused.unwrap_or_default(),
        ended: finished_ms.map(|finished_ms| EndBefore { finished_ms, exit_code }),
        restarts: begun,
        ..Beside::default()
    }
}

fn limits(host: &HostConfig) -> Limits {
    let amount = |amount: Option<i64>| amount.unwrap_or(0).max(0);
    Limits {
        cpu_shares: amount(host.cpu_shares),
        cpu_quota_us: amount(host.cpu_quota),
        cpu_period_us: amount(host.cpu_period),
        memory_bytes: amount(host.memory),
    }
}

fn state(found: &ContainerState) -> State {
    let time = |text: &Option<String>| text.as_deref().and_then(milliseconds);
    let started = time(&found.started_at);
    if found.running.unwrap_or_default() {
        return State::Running { started_ms: started.unwrap_or_default() };
    }
    let exit_code = found.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1);
    let error = found.error.clone().filter(|text| !text.is_empty());
    match (found.status, started) {
        // A start that was refused leaves it `created` with an error; Docker's year 1 for a time means never.
        (Some(ContainerStateStatusEnum::CREATED), _) | (_, None) => State::Created { refused: error },
        (_, Some(started_ms)) => State::Exited {
            exit_code,
            out_of_memory: found.oom_killed.unwrap_or_default(),
            started_ms,
            finished_ms: time(&found.finished_at).unwrap_or(started_ms),
        },
    }
}

/// None for Docker's zero time, 0001-01-01T00:00:00Z.
fn milliseconds(text: &str) -> Option<i64> {
    Time::parse(text).map(|time| time.0.as_millisecond()).filter(|ms| *ms > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(state_json: Value, expected: State) {
        assert_eq!(state(&serde_json::from_value(state_json).unwrap()), expected);
    }

    #[test]
    fn what_somebody_did_beside_the_agent() {
        let check = |state_json: Value, restarts: i64, expected: Beside| {
            let found: ContainerState = serde_json::from_value(state_json).unwrap();
            assert_eq!(beside(&found, Some(restarts)), expected, "{found:?}");
        };
        let times = |mut state: Value, finished: &str| {
            state["StartedAt"] = json!("2026-01-01T00:00:03Z");
            state["FinishedAt"] = json!(finished);
            state
        };
        let ended = |exit_code| Some(EndBefore { finished_ms: 1_767_225_602_000, exit_code });
        let (running, then) = (json!({ "Status": "running", "Running": true, "ExitCode": 0 }), "2026-01-01T00:00:02Z");
        check(times(running.clone(), NEVER), 0, Beside::default());
        let again = Beside { ended: ended(None), restarts: 1, ..Beside::default() };
        check(times(running.clone(), then), 0, again.clone());
        check(times(running, then), 3, Beside { restarts: 3, ..again.clone() });
        let paused = json!({ "Status": "paused", "Running": true, "Paused": true });
        check(times(paused.clone(), NEVER), 0, Beside { paused: true, ..Beside::default() });
        check(times(paused, then), 0, Beside { paused: true, ..again });
        // The engine's policy is about to start it once more.
        let about = json!({ "Status": "restarting", "Running": true, "Restarting": true, "ExitCode": 7 });
        check(times(about, then), 1, Beside { ended: ended(Some(7)), ..Beside::default() });
        let exited = json!({ "Status": "exited", "Running": false, "ExitCode": 7 });
        check(times(exited.clone(), then), 0, Beside::default());
        check(times(exited, then), 2, Beside { restarts: 1, ..Beside::default() });
    }

    const NEVER: &str = "0001-01-01T00:00:00Z";

    #[test]
    fn states() {
        check(
            json!({ "Status": "running", "Running": true, "StartedAt": "2026-01-01T00:00:00.5Z", "FinishedAt": NEVER }),
            State::Running { started_ms: 1_767_225_600_500 },
        );
        check(
            json!({ "Status": "paused", "Running": true, "Paused": true, "StartedAt": "2026-01-01T00:00:00Z" }),
            State::Running { started_ms: 1_767_225_600_000 },
        );
        check(
            json!({ "Status": "created", "StartedAt": NEVER, "FinishedAt": NEVER, "Error": "" }),
            State::Created { refused: None },
        );
        check(
            json!({ "Status": "created", "StartedAt": NEVER, "ExitCode": 127, "Error": "exec: no such file" }),
            State::Created { refused: Some("exec: no such file".into()) },
        );
        check(
            json!({
                "Status": "exited", "StartedAt": "2026-01-01T00:00:00Z", "FinishedAt": "2026-01-01T00:00:02Z",
                "ExitCode": 137, "OOMKilled": true,
            }),
            State::Exited {
                exit_code: 137,
                out_of_memory: true,
                started_ms: 1_767_225_600_000,
                finished_ms: 1_767_225_602_000,
            },
        );
    }
}
