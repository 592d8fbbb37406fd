//! `/containerLogs/{namespace}/{pod}/{container}`, with the query that a client may send to the API.

use coracle_api::meta::Time;
use coracle_api::query::{LogOptions, Since};
use coracle_api::status::{Reason, Status};
use coracle_http::channel::{Receiver, channel};
use coracle_http::{Answer, Body, Request, STREAM_ITEMS_MAX, StatusCode, Stream};
use serde_json::Value;

use super::place::{parameters, pods_called, runs_of, segments};
use super::streams;
use super::view::View;
use crate::facts::clock::now;
use crate::facts::engine::{SeenContainer, State};
use crate::facts::shown::Shown;
use crate::runtime::docker::logs::Wish;

pub fn answer(view: &View, path: &str, request: &Request) -> Answer {
    let query = request.target.query().unwrap_or_default();
    let Some(parts) = segments(path) else {
        return refuse(Status::bad_request("a path has no segments . and .. here, and no slash inside of one"));
    };
    let [namespace, pod, container] = parts.as_slice() else {
        return Answer::text(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    let options = match parse(query, pod) {
        Ok(options) => options,
        Err(status) => return refuse(status),
    };
    let found = find(&view.shown.borrow(), &view.node_name, namespace, pod, container, options.previous);
    let id = match found {
        Ok(id) => id,
        Err(status) => return refuse(status),
    };
    let begin = || lines(view, id.clone(), wish(&options, now()));
    if let Some(answer) = streams::log(request, begin) {
        return answer;
    }
    // The output of a container is sent as plain text, whatever the content looks like.
    let events = begin();
    Answer::new(StatusCode::OK, "text/plain; charset=utf-8", Body::Stream(Stream { events, lease: Box::new(()) }))
}

/// Streams the engine's log of a container.
fn lines(view: &View, id: String, wish: Wish) -> Receiver {
    let (out, events) = channel(STREAM_ITEMS_MAX);
    let docker = view.docker.clone();
    view.runtime.spawn(async move {
        if let Err(failure) = docker.send_log(&id, &wish, &out).await {
            // The head has gone out: what went wrong can only be said here and in the text itself.
            log::warn!("the log of {id}: {failure}");
            let _ = out.send(format!("coracle: the rest of this log cannot be read: {failure}\n").into()).await;
        }
    });
    events
}

/// The container for the log: the newest container, or with `previous` the newest dead container.
fn find(
    shown: &Shown,
    node_name: &str,
    namespace: &str,
    pod: &str,
    container: &str,
    previous: bool,
) -> Result<String, Status> {
    let mut runs: Vec<(u32, &SeenContainer)> = Vec::new();
    let mut waiting = None;
    let mut ended = None;
    for wanted in pods_called(shown, node_name, namespace, pod) {
        let waits = shown.waits.get(&wanted.name.uid);
        let reason = waits
            .and_then(|waits| waits.containers.get(container).or(waits.pod.as_ref()))
            .map(|waiting| waiting.reason.name());
        waiting = Some(reason.unwrap_or("ContainerCreating"));
        if wanted.member(container).is_none() {
            return Err(not_found(format!("container \"{container}\" not found in pod \"{pod}\"")));
        }
        let started = |(_, seen): &(u32, &SeenContainer)| !matches!(seen.state, State::Created { .. });
        ended = ended.or_else(|| end_of(shown.statuses.get(&wanted.name.uid)?, container));
        runs.extend(runs_of(shown, &wanted.name.uid, container).filter(started));
    }
    let Some(waiting) = waiting else {
        return Err(not_found(format!("pod \"{pod}\" does not exist")));
    };
    runs.sort_by_key(|(attempt, _)| std::cmp::Reverse(*attempt));
    let mut newest = runs.into_iter().map(|(_, seen)| seen);
    // A container that waits for its next start has its last death as previous.
    let chosen = if previous { newest.find(|seen| !seen.lives()) } else { newest.next() };
    chosen.map(|seen| seen.id.clone()).ok_or_else(|| {
        let waits = match waiting {
            "ErrImagePull" => "image can't be pulled",
            "ImagePullBackOff" => "trying and failing to pull image",
            other => other,
        };
        let text = match ended {
            _ if previous => format!("previous terminated container \"{container}\" in pod \"{pod}\" not found"),
            // The container was removed, together with its log.
            Some(id) if !id.is_empty() => format!("unable to retrieve container logs for {id}"),
            Some(_) => format!("container \"{container}\" in pod \"{pod}\" is terminated"),
            None => format!("container \"{container}\" in pod \"{pod}\" is waiting to start: {waits}"),
        };
        Status::bad_request(text)
    })
}

/// The id of a terminated container, from the status of its pod. The id may be empty.
fn end_of(status: &Value, container: &str) -> Option<String> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| status[list].as_array().into_iter().flatten());
    let own = all.find(|status| status["name"] == container)?;
    let ended = own["state"]["terminated"].as_object()?;
    let id = ended.get("containerID").or_else(|| own.get("containerID"));
    Some(id.and_then(Value::as_str).unwrap_or_default().to_owned())
}

fn not_found(message: String) -> Status {
    Status { code: Reason::NotFound.code(), reason: Some(Reason::NotFound), message, details: None, continues: None }
}

/// As a Status and not, as the kubelet does, as bare text: the master passes it on as it is, and clients show its
/// message.
fn refuse(status: Status) -> Answer {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Answer::json(code, status.to_v1().to_string())
}

fn parse(query: &str, pod: &str) -> Result<LogOptions, Status> {
    let mut parameters = parameters(query).map_err(Status::bad_request)?;
    // The kubelet of 2014 called the parameter `tail`, and accepted the value `all`.
    parameters.retain(|(key, value)| !(["tailLines", "tail"].contains(&key.as_str()) && value == "all"));
    for (key, _) in parameters.iter_mut().filter(|(key, _)| key == "tail") {
        "tailLines".clone_into(key);
    }
    LogOptions::read(&parameters, pod)
}

fn wish(options: &LogOptions, now: Time) -> Wish {
    let since = options.since.and_then(|since| match since {
        Since::Time(time) => Some(time),
        Since::SecondsAgo(seconds) => Time::from_seconds(now.seconds().saturating_sub(seconds).max(0)),
    });
    let LogOptions { follow, timestamps, tail_lines, bytes_max, stream, .. } = *options;
    Wish { follow, timestamps, tail_lines, since, bytes_max, stream }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use crate::facts::wanted::Wanted;
    use coracle_api::query::Stream;
    use std::sync::Arc;

    #[test]
    fn the_log_of_a_container_that_is_gone() {
        let document = serde_json::json!({
            "metadata": {"namespace": "default", "name": "p", "uid": "u"},
            "spec": {"initContainers": [{"name": "i", "image": "x"}], "containers": [{"name": "c", "image": "x"}]},
        });
        let wanted = Wanted::new(Source::Master, document).unwrap();
        let check = |state: Value, previous: bool, expected: &str| {
            let statuses = serde_json::json!({"initContainerStatuses": [{"name": "i", "state": state}]});
            let mut shown = Shown { statuses: [("u".to_owned(), statuses)].into(), ..Shown::default() };
            Arc::make_mut(&mut shown.desired).pods.insert("u".to_owned(), Arc::new(wanted.clone()));
            let message = find(&shown, "n1", "default", "p", "i", previous).unwrap_err().message;
            assert_eq!(message, expected);
        };
        let ended = |id: Value| serde_json::json!({"terminated": {"exitCode": 0, "containerID": id}});
        check(ended("docker://1".into()), false, "unable to retrieve container logs for docker://1");
        check(ended(Value::Null), false, "container \"i\" in pod \"p\" is terminated");
        check(ended("docker://1".into()), true, "previous terminated container \"i\" in pod \"p\" not found");
        let waits = serde_json::json!({"waiting": {"reason": "PodInitializing"}});
        check(waits, false, "container \"i\" in pod \"p\" is waiting to start: ContainerCreating");
    }

    #[test]
    fn queries() {
        let now = Time::from_seconds(1000).unwrap();
        let read = |query: &str| parse(query, "p").map(|options| (wish(&options, now), options.previous));
        let stream = Stream::default();
        let wish = Wish {
            follow: true,
            timestamps: true,
            tail_lines: Some(5),
            since: Time::from_seconds(940),
            bytes_max: Some(9),
            stream,
        };
        assert_eq!(
            read("follow=true&tailLines=5&timestamps=1&sinceSeconds=60&limitBytes=9&previous=false"),
            Ok((wish, false))
        );
        let wish = Wish { since: Time::from_seconds(7), stream: Stream::Stderr, ..Wish::default() };
        assert_eq!(read("sinceTime=1970-01-01T00%3A00%3A07Z&previous&stream=Stderr&tail=all"), Ok((wish, true)));
        assert_eq!(read("tail=3"), Ok((Wish { tail_lines: Some(3), ..Wish::default() }, false)));
        assert_eq!(read("tailLines=-1").map_err(|status| status.code), Err(422));
        assert_eq!(read("limitBytes=0").map_err(|status| status.code), Err(422));
        assert_eq!(read("tail=%zz").map_err(|status| status.code), Err(400));
    }
}
