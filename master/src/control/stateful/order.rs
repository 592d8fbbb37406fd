//! What is done next about the pods of a StatefulSet, and in which order. PURE.
//!
//!     in order     the first pod that is not there, or not available, holds up all that comes after it
//!     Parallel     all at once; an update alone goes one by one

use super::super::intent::{Decision, Doing, Intent, Refusal};
use super::super::replicas::{BURST_MAX, Pod, delete_silently};
use super::super::rules::ControlRule;
use super::super::view::PODS;
use super::seen::Seen;
use super::view::CLAIMS;
use super::{identity, retention, status};
use coracle_api::meta::Key;

/// What is to be done, and why not more.
#[derive(Default)]
struct PodPlan {
    intents: Vec<Intent>,
    trouble: Option<Refusal>,
    /// A pod of the current revision that is deleted to be updated does not count any more.
    less_current: i32,
}

/// Whether the next pod may be looked at.
#[derive(PartialEq)]
enum Onward {
    GoOn,
    Wait,
}

pub fn next(seen: &Seen<'_>) -> Decision {
    let mut plan = PodPlan::default();
    if !seen.set.template.deleting {
        plan.pods(seen);
    }
    let (status, wake_at) = status::written(seen, plan.less_current);
    plan.intents.extend(status);
    Decision { wake_at, trouble: plan.trouble, ..Decision::of(plan.intents) }
}

impl PodPlan {
    fn pods(&mut self, seen: &Seen<'_>) {
        if self.keep(seen) == Onward::Wait {
            return;
        }
        let first_bad = seen.pods().find(|pod| seen.unavailable(*pod)).map(|(key, _)| key);
        for (nth, pod) in seen.condemned.iter().rev() {
            self.intents.extend(retention::corrected(seen, *nth, *pod));
        }
        for pod in seen.condemned.values().rev() {
            if self.condemned(seen, *pod, first_bad) == Onward::Wait && !seen.set.parallel {
                return;
            }
        }
        self.update(seen);
    }

    /// The pods that are to be there, the lowest number first.
    fn keep(&mut self, seen: &Seen<'_>) -> Onward {
        let mut made = 0;
        let end = seen.set.start + i64::from(seen.set.replicas);
        for nth in seen.set.start..end {
            let then = match seen.kept.get(&nth) {
                Some(pod) => self.kept(seen, nth, *pod),
                None => {
                    made += 1;
                    self.make(seen, nth)
                }
            };
            let waits = then == Onward::Wait && !seen.set.parallel && seen.cluster.holds(ControlRule::OrderIsKept);
            if self.trouble.is_some() || waits || made == BURST_MAX {
                return Onward::Wait;
            }
        }
        Onward::GoOn
    }

    fn make(&mut self, seen: &Seen<'_>, nth: i64) -> Onward {
        if retention::is_stale(seen, nth) {
            return Onward::Wait;
        }
        // Of a file that cannot be read the name is taken, and what it was may run.
        let name = identity::name(seen.key, nth);
        let key = Key { resource: PODS, namespace: seen.key.namespace.clone(), name: name.clone() };
        if seen.cluster.damaged.contains(&key) {
            return Onward::Wait;
        }
        self.claims(seen, nth);
        if self.trouble.is_none() && seen.cluster.pod(&key).is_some() {
            // The pod belongs to a foreign owner. When the pod goes, this set is looked at again.
            return Onward::Wait;
        }
        if self.trouble.is_none() {
            self.intents.push(Intent::Create {
                resource: PODS,
                namespace: key.namespace,
                object: identity::pod(seen, nth),
            });
            self.intents.push(tale(
                seen,
                "SuccessfulCreate",
                format!("Create Pod {name} in StatefulSet {} successful", seen.key.name),
            ));
        }
        Onward::Wait
    }

    /// Makes the missing claims of a pod; a claim that is being deleted must go first.
    fn claims(&mut self, seen: &Seen<'_>, nth: i64) {
        let pod = identity::name(seen.key, nth);
        for (key, claim) in identity::claims(seen, nth) {
            match claim {
                None if seen.cluster.damaged.contains(&key) => {}
                None => {
                    let words = format!("Create Claim {} Pod {pod} in StatefulSet {} success", key.name, seen.key.name);
                    let object = identity::new_claim(seen, &key);
                    self.intents.push(Intent::Create { resource: CLAIMS, namespace: key.namespace.clone(), object });
                    self.intents.push(tale(seen, "SuccessfulCreate", words));
                }
                Some(claim) if claim.deleting => {
                    let why = format!("pvc {} is being deleted", key.name);
                    self.trouble = Some(Refusal { doing: Doing::Making(PODS, pod.clone()), ..Refusal::from(why) });
                }
                Some(_) => {}
            }
        }
    }

    fn kept(&mut self, seen: &Seen<'_>, nth: i64, pod: Pod<'_>) -> Onward {
        let (key, view) = pod;
        if view.terminal() {
            if !view.deleting && seen.cluster.holds(ControlRule::EndedPodsAreReplaced) {
                self.delete(seen, pod);
            }
            return Onward::Wait;
        }
        if view.phase == "Pending" {
            self.claims(seen, nth);
            if self.trouble.is_some() {
                return Onward::Wait;
            }
            self.intents.extend(retention::corrected(seen, nth, pod));
        }
        let held_up = view.deleting || view.phase != "Running" || !seen.available(pod);
        if held_up && !seen.set.parallel {
            return Onward::Wait;
        }
        if view.phase == "Pending" || view.deleting {
            return Onward::GoOn;
        }
        let owners = retention::corrected(seen, nth, pod);
        if let Some(object) = identity::repaired(seen, nth, pod) {
            self.claims(seen, nth);
            self.intents.extend(owners);
            self.intents.push(Intent::Update { key: key.clone(), seen: view.revision, object });
            self.intents.push(updated(seen, key));
        } else if !owners.is_empty() {
            self.intents.extend(owners);
            self.intents.push(updated(seen, key));
        }
        Onward::GoOn
    }

    /// A pod beyond the wanted number. Unless pods are managed in parallel, an unavailable pod goes only if it is the
    /// first unavailable pod.
    fn condemned(&mut self, seen: &Seen<'_>, pod: Pod<'_>, first_bad: Option<&Key>) -> Onward {
        if pod.1.deleting {
            return Onward::Wait;
        }
        let bad = pod.1.phase != "Running" || !seen.available(pod);
        if bad && !seen.set.parallel && Some(pod.0) != first_bad {
            return Onward::Wait;
        }
        self.delete(seen, pod);
        Onward::Wait
    }

    /// From the highest number down, each after the one before it is available.
    fn update(&mut self, seen: &Seen<'_>) {
        let set = seen.set;
        // A pod whose state is lost may be missing already: no pod is updated.
        if set.on_delete || seen.pods().any(|(_, pod)| pod.untold()) {
            return;
        }
        let first = set.start + set.partition.unwrap_or_default();
        for nth in (first..set.start + i64::from(set.replicas)).rev() {
            let Some(pod) = seen.kept.get(&nth).copied() else { return };
            let is_old = pod.1.labels().get(identity::REVISION) != Some(&seen.update.0.name);
            if is_old && !pod.1.deleting {
                if !pod.1.terminal() {
                    self.delete(seen, pod);
                    self.less_current = 1;
                }
                return;
            }
            if seen.unavailable(pod) && seen.cluster.holds(ControlRule::UpdatesGoOneByOne) {
                return;
            }
        }
    }

    fn delete(&mut self, seen: &Seen<'_>, pod: Pod<'_>) {
        self.intents.push(delete_silently(pod));
        let words = format!("Delete Pod {} in StatefulSet {} successful", pod.0.name, seen.key.name);
        self.intents.push(tale(seen, "SuccessfulDelete", words));
    }
}

fn tale(seen: &Seen<'_>, reason: &'static str, words: String) -> Intent {
    seen.set.template.tell(seen.key, reason, words)
}

fn updated(seen: &Seen<'_>, pod: &Key) -> Intent {
    tale(seen, "SuccessfulUpdate", format!("Update Pod {} in StatefulSet {} successful", pod.name, seen.key.name))
}
