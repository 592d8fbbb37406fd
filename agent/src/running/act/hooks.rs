//! Hooks of containers: waited for in the lane of their pod, as long as nothing else is to be done there.

use std::rc::Rc;
use std::time::Duration;

use tokio::sync::Notify;

use super::Executor;
use crate::facts::engine::{Check, CheckOutcome, Failure, Purpose};
use crate::facts::happening::Event;
use crate::facts::naming::PodName;
use crate::facts::seen;
use crate::runtime::Runtime;

/// A postStart hook that takes longer has failed, because the hook holds up its pod.
const POST_START_S_MAX: u64 = 300;

impl<R: Runtime> Executor<'_, R> {
    pub(crate) async fn post_start(
        &self,
        pod: &PodName,
        container: &str,
        id: &str,
        check: Check,
    ) -> Result<(), String> {
        if let Check::Broken { why } = check {
            return Err(why);
        }
        let check = if check.is_for_pod() { check.at(&self.address(pod).await) } else { check };
        let at_most = Duration::from_secs(POST_START_S_MAX);
        let Some(outcome) = self.hook(id, &check, at_most).await else {
            self.given_up.borrow_mut().insert(pod.uid.clone());
            return Err("context canceled".to_owned());
        };
        match outcome {
            Ok(CheckOutcome { passed: true, note, .. }) => {
                if let Some(text) = note {
                    self.happen(pod, container, Event::HookFellBack { text });
                }
                Ok(())
            }
            Ok(CheckOutcome { exit_code, output, .. }) => Err(match (&check, exit_code) {
                (Check::Exec { command }, Some(code)) => {
                    format!("command '{}' exited with {code}: , message: {output:?}", command.join(" "))
                }
                _ => output,
            }),
            // The engine did not answer. Nobody knows whether the hook ran, and a container is not killed on a guess.
            Err(failure) => {
                log::warn!("{}/{}: its postStart hook: {failure}", pod.namespace, pod.name);
                Ok(())
            }
        }
    }

    /// None: it was given up.
    pub(crate) async fn hook(
        &self,
        id: &str,
        check: &Check,
        at_most: Duration,
    ) -> Option<Result<CheckOutcome, Failure>> {
        let given_up = Rc::new(Notify::new());
        self.hooks.borrow_mut().insert(id.to_owned(), given_up.clone());
        let outcome = tokio::select! {
            // No chance in it: a seed of the simulation replays its history.
            biased;
            outcome = self.runtime.check(id, check, Purpose::Hook, at_most) => Some(outcome),
            () = given_up.notified() => None,
        };
        self.hooks.borrow_mut().remove(id);
        outcome
    }

    /// The hook of this container is in the way of what is to be done now.
    pub(crate) fn give_up_hook(&self, id: &str) {
        if let Some(hook) = self.hooks.borrow().get(id) {
            log::info!("the hook of container {id:.12} is given up: it is to end, or has ended");
            hook.notify_one();
        }
    }

    /// The address of a pod whose sandbox came up in this round, so that no plan has seen it yet.
    async fn address(&self, pod: &PodName) -> String {
        let listed = self.runtime.list().await.unwrap_or_default();
        let pods = seen::group(&listed);
        let ip = pods.get(&pod.uid).and_then(|pod| seen::ip(&pod.runs));
        ip.map(str::to_owned).unwrap_or_default()
    }
}
