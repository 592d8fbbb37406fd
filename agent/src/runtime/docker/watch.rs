//! Hears the engine: every event of a container of ours wakes the loop, and so does every silence that ended.
//!
//!     connect -> look again -> events ... -> the stream ends or a ping goes unanswered -> forget everything -> connect
//!
//! An engine that hangs keeps its event stream open and says nothing on it, hence the ping.

use std::collections::HashMap;
use std::time::Duration;

use bollard::models::EventMessage;
use bollard::query_parameters::EventsOptions;
use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use super::connection::{Docker, failure, held};
use super::dialect::Dialect;
use crate::facts::engine::Failure;
use crate::facts::naming::LABEL_KIND;

/// A hung engine is noticed within this and a call's limit; the only thing that wakes an idle agent without a master.
const PING: Duration = Duration::from_secs(10);
/// Between attempts to reach an absent engine: a start of dockerd takes about a second.
const RETRY: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Events that change a listing, as Docker and as Podman call them. The execs of probes do not.
const ACTIONS: [&str; 11] =
    ["create", "start", "die", "died", "destroy", "remove", "oom", "rename", "pause", "unpause", "update"];

impl Docker {
    /// Never ends. `wake` is notified whenever the world may have changed.
    pub async fn watch(&self, wake: &Notify) {
        let mut retry = RETRY;
        let mut reached = false;
        loop {
            match self.follow(wake, &mut reached).await {
                // The loop says so, once it has asked itself.
                Failure::Unavailable(text) => log::debug!("the engine at {} is lost: {text}", self.settings.host),
                other => log::warn!("the engine's events: {other}"),
            }
            retry = if reached { RETRY } else { (retry * 2).min(RETRY_MAX) };
            reached = false;
            self.forget();
            wake.notify_one();
            sleep(retry).await;
        }
    }

    async fn follow(&self, wake: &Notify, reached: &mut bool) -> Failure {
        let client = match self.client().await {
            Ok(client) => client,
            Err(failure) => return failure,
        };
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
        // Podman compares a label with its value, and so finds none by its name alone.
        let by_label = self.dialect() == Dialect::Docker;
        let mut filters =
            HashMap::from([("type".to_owned(), list(&["container"])), ("event".to_owned(), list(&ACTIONS))]);
        if by_label {
            filters.insert("label".to_owned(), list(&[LABEL_KIND]));
        }
        let mut events =
            std::pin::pin!(client.events(Some(EventsOptions { filters: Some(filters), ..Default::default() })));
        if let Err(failure) = self.ping().await {
            return failure;
        }
        *reached = true;
        // What happened before the stream stood is found by looking.
        held(&self.cache).clear();
        wake.notify_one();
        let mut pings = interval_at(Instant::now() + PING, PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) if !by_label && !is_ours(&event) => {}
                    Some(Ok(event)) => {
                        if let Some(id) = event.actor.and_then(|actor| actor.id) {
                            held(&self.cache).remove(&id);
                        }
                        wake.notify_one();
                    }
                    Some(Err(error)) => return failure("hear the engine's events", error),
                    None => return Failure::Unavailable("its event stream ended".to_owned()),
                },
                _ = pings.tick() => if let Err(failure) = self.ping().await {
                    return failure;
                },
            }
        }
    }
}

fn is_ours(event: &EventMessage) -> bool {
    let attributes = event.actor.as_ref().and_then(|actor| actor.attributes.as_ref());
    attributes.is_some_and(|attributes| attributes.contains_key(LABEL_KIND))
}
