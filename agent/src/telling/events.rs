//! Happenings -> events of the API: repeats raise a count, floods are cut, and a silent master loses them with one line
//! in the log.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coracle_api::meta::Time;
use coracle_http::Method;
use coracle_http::client::Client;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::desired::refusals::{Refusals, refusal};
use crate::facts::clock::now;
use crate::facts::desired::Desired;
use crate::facts::happening::{Happening, Subject};
use crate::facts::hash::hash_text;
use crate::facts::members::MemberKind;
use crate::facts::naming::{Source, mirror_name};
use crate::facts::shown::Shown;

/// Different events that are remembered for their counts, oldest out first.
const KNOWN_MAX: usize = 512;
/// An event without a repeat for this time starts a new count. Repeats come sooner: back-off waits for five minutes at
/// most.
const KNOWN_FOR: Duration = Duration::from_secs(600);
/// Memory of removed pods is dropped this long after the last happening.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// The limit for one pod, as in a kubelet: so many at once, then one in this time.
const BURST: u32 = 25;
const REFILL_S: i64 = 300;
/// The limit of one message: an engine's text may be long.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The key of an event: happenings with the same key are repeats.
type Same = (String, Option<String>, bool, Cow<'static, str>, String);

struct Known {
    name: String,
    count: u64,
    first: Time,
    /// When it was seen last.
    at: Instant,
}

/// The events that were sent, to recognize repeats.
#[derive(Default)]
struct SentEvents {
    known: BTreeMap<Same, Known>,
    shares: Shares,
}

impl SentEvents {
    fn keep(&mut self, same: Same, known: Known) {
        if self.known.len() >= KNOWN_MAX
            && let Some(oldest) = self.known.iter().min_by_key(|(_, known)| known.at).map(|(same, _)| same.clone())
        {
            self.known.remove(&oldest);
        }
        self.known.insert(same, known);
    }

    /// `is_here`: by uid. Says when to forget again, though nothing happens until then.
    fn forget(&mut self, is_here: impl Fn(&str) -> bool, now: Instant, now_s: i64) -> Option<Instant> {
        self.known.retain(|(uid, ..), known| is_here(uid) && now < known.at + KNOWN_FOR);
        self.shares.retain(|uid, share| is_here(uid) && left(*share, now_s) < BURST);
        let known = self.known.values().map(|known| known.at + KNOWN_FOR).max();
        known.or((!self.shares.is_empty()).then(|| now + KNOWN_FOR))
    }
}

/// The name of an event, with the count and the times of its repeats.
#[derive(Clone, Copy)]
pub struct Counted<'a> {
    pub name: &'a str,
    pub count: u64,
    pub first: Time,
    pub last: Time,
}

/// Pods' shares of attention: tokens left, and when they were counted.
type Shares = BTreeMap<String, (u32, i64)>;

/// Never ends while somebody can send.
pub async fn run(
    (client, refusals): (Client, Refusals),
    node_name: &str,
    mut happenings: mpsc::Receiver<Happening>,
    shown: watch::Receiver<Arc<Shown>>,
) {
    let mut sent = SentEvents::default();
    let mut silent = false;
    let mut forget_at: Option<Instant> = None;
    loop {
        let happening = tokio::select! {
            happening = happenings.recv() => happening,
            () = sleep_until(forget_at.unwrap_or_else(Instant::now)), if forget_at.is_some() => {
                let shown = shown.borrow();
                forget_at = sent.forget(|uid| uid == node_name || is_here(&shown, uid), Instant::now(),
                    now().seconds());
                continue;
            }
        };
        let Some(happening) = happening else { return };
        let soon = Instant::now() + FORGET_AFTER;
        forget_at = Some(forget_at.map_or(soon, |at| at.min(soon)));
        let now = now();
        if !take_share(&mut sent.shares, &happening.uid, now.seconds()) {
            continue;
        }
        let same = (
            happening.uid.clone(),
            happening.container.clone(),
            happening.warning,
            happening.reason.clone(),
            happening.message.clone(),
        );
        let (name, count, first) = match sent.known.get_mut(&same) {
            Some(known) => {
                (known.count, known.at) = (known.count + 1, Instant::now());
                (known.name.clone(), known.count, known.first)
            }
            None => (event_name(&happening, now), 1, now),
        };
        let event = event(&happening, &shown.borrow(), node_name, Counted { name: &name, count, first, last: now });
        let path = format!("/api/v1/namespaces/{}/events", happening.namespace);
        let outcome = if count == 1 {
            client.call(Method::POST, &path, Some(event.to_string().into())).await
        } else {
            client.call(Method::PUT, &format!("{path}/{name}"), Some(event.to_string().into())).await
        };
        if let Ok(reply) = &outcome {
            refusals.note(&format!("write events in namespace {}", happening.namespace), refusal(reply));
        }
        match outcome {
            Ok(reply) if reply.status.is_success() => {
                silent = false;
                if count == 1 {
                    sent.keep(same, Known { name, count, first, at: Instant::now() });
                }
            }
            // The event was forgotten there: the next repeat makes a new one.
            Ok(reply) if reply.status.as_u16() == 404 && count > 1 => drop(sent.known.remove(&same)),
            Ok(reply) => log::debug!(
                "event {} of {}/{}: {}",
                happening.reason,
                happening.namespace,
                happening.name,
                reply.status
            ),
            Err(error) if !silent => {
                silent = true;
                log::warn!("events are lost while the master does not take them: {error}");
            }
            Err(_) => {}
        }
    }
}

/// Whether more may happen to a pod or a service.
fn is_here(shown: &Shown, uid: &str) -> bool {
    let Desired { pods, services, .. } = &*shown.desired;
    pods.contains_key(uid) || services.iter().any(|service| service.metadata.uid == uid)
}

fn take_share(shares: &mut Shares, uid: &str, now_s: i64) -> bool {
    if shares.len() > KNOWN_MAX && !shares.contains_key(uid) {
        shares.clear();
    }
    let share = shares.entry(uid.to_owned()).or_insert((BURST, now_s));
    let has = left(*share, now_s);
    if now_s - share.1 >= REFILL_S {
        share.1 = now_s;
    }
    share.0 = has.saturating_sub(1);
    has > 0
}

fn left((left, counted): (u32, i64), now_s: i64) -> u32 {
    let earned = u32::try_from((now_s - counted).max(0) / REFILL_S).unwrap_or(u32::MAX);
    left.saturating_add(earned).min(BURST)
}

/// Unlike any other: the pod's name, and a number from what happened when.
fn event_name(happening: &Happening, now: Time) -> String {
    let text = format!("{happening:?}{}", now.0.as_nanosecond());
    let name: String = happening.name.chars().take(200).collect();
    format!("{name}.{}", &hash_text(&text)[..16])
}

/// The object as the API has it. For a pod from a file this is the mirror; clients take the mirror's uid from an
/// annotation.
fn involved(happening: &Happening, shown: &Shown, node_name: &str) -> Value {
    let Happening { subject, namespace, name, uid, .. } = happening;
    let (kind, name, uid) = match subject {
        Subject::Pod(Source::File) => {
            let wanted = shown.desired.pods.get(uid);
            ("Pod", mirror_name(name, node_name), wanted.map_or(uid, |wanted| &wanted.manifest_hash).clone())
        }
        Subject::Pod(Source::Master) => ("Pod", name.clone(), uid.clone()),
        Subject::Service => ("Service", name.clone(), uid.clone()),
        Subject::Node => return json!({ "kind": "Node", "apiVersion": "v1", "name": name, "uid": uid }),
    };
    let mut involved = json!({ "kind": kind, "apiVersion": "v1", "namespace": namespace, "name": name, "uid": uid });
    if let Some(container) = &happening.container {
        let member = shown.desired.pods.get(&happening.uid).and_then(|wanted| wanted.member(container));
        let kind = member.map_or(MemberKind::Main, |member| member.kind);
        involved["fieldPath"] = format!("spec.{}{{{container}}}", kind.list()).into();
    }
    involved
}

/// The happening as an Event of the API.
pub fn event(happening: &Happening, shown: &Shown, node_name: &str, counted: Counted<'_>) -> Value {
    let Counted { name, count, first, last } = counted;
    let cut = (0..=MESSAGE_BYTES_MAX.min(happening.message.len()))
        .rev()
        .find(|at| happening.message.is_char_boundary(*at))
        .unwrap_or(0);
    json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": { "name": name, "namespace": happening.namespace },
        "involvedObject": involved(happening, shown, node_name),
        "reason": happening.reason,
        "message": &happening.message[..cut],
        "type": if happening.warning { "Warning" } else { "Normal" },
        "source": { "component": "kubelet", "host": node_name },
        "reportingComponent": "kubelet",
        "reportingInstance": node_name,
        "firstTimestamp": first.to_string(),
        "lastTimestamp": last.to_string(),
        "count": count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::hash::manifest_hash;
    use crate::facts::wanted::Wanted;

    #[test]
    fn events_are_about_what_the_api_shows() {
        let document = json!({"metadata": {"namespace": "d", "name": "web", "uid": "u"}, "spec": {"containers": []}});
        let hash = manifest_hash(&document);
        let mut shown = Shown::default();
        let desired = Arc::make_mut(&mut shown.desired);
        desired.pods.insert("u".to_owned(), Arc::new(Wanted::new(Source::File, document).unwrap()));
        let check = |subject: Subject, shown: &Shown, expected: (&str, &str, &str)| {
            let happening = Happening {
                subject,
                namespace: "d".to_owned(),
                name: "web".to_owned(),
                uid: "u".to_owned(),
                container: None,
                warning: false,
                reason: "Killing".into(),
                message: String::new(),
            };
            let found = involved(&happening, shown, "n1");
            assert_eq!(
                found,
                json!({"kind": expected.0, "apiVersion": "v1", "namespace": "d", "name": expected.1, "uid": expected.2})
            );
        };
        check(Subject::Pod(Source::File), &shown, ("Pod", "web-n1", &hash));
        // Its file is gone, and it is still being stopped.
        check(Subject::Pod(Source::File), &Shown::default(), ("Pod", "web-n1", "u"));
        check(Subject::Pod(Source::Master), &shown, ("Pod", "web", "u"));
        check(Subject::Service, &shown, ("Service", "web", "u"));
        let of_node = Happening::of_node("n1", "DNSUnavailable", "53 is taken".to_owned());
        let counted = Counted { name: "n1.0", count: 1, first: now(), last: now() };
        let document = event(&of_node, &shown, "n1", counted);
        assert_eq!(document["metadata"]["namespace"], "default");
        assert_eq!(document["involvedObject"], json!({"kind": "Node", "apiVersion": "v1", "name": "n1", "uid": "n1"}));
    }

    #[test]
    fn what_is_gone_or_old_is_forgotten() {
        let begun = Instant::now();
        let same = |uid: &str| (uid.to_owned(), None, false, "Started".into(), String::new());
        let mut sent = SentEvents::default();
        for (uid, after_s) in [("here", 0), ("gone", 0), ("later", 100)] {
            let at = begun + Duration::from_secs(after_s);
            sent.keep(same(uid), Known { name: String::new(), count: 1, first: now(), at });
            take_share(&mut sent.shares, uid, 1000);
        }
        let mut check = |after_s: u64, known: &[&str], shares: &[&str], again_s: Option<u64>| {
            let now_s = 1000 + i64::try_from(after_s).unwrap();
            let again = sent.forget(|uid| uid != "gone", begun + Duration::from_secs(after_s), now_s);
            assert_eq!(sent.known.keys().map(|same| same.0.as_str()).collect::<Vec<_>>(), known, "after {after_s} s");
            assert_eq!(sent.shares.keys().collect::<Vec<_>>(), shares, "after {after_s} s");
            assert_eq!(again, again_s.map(|s| begun + Duration::from_secs(s)), "after {after_s} s");
        };
        check(60, &["here", "later"], &["here", "later"], Some(700));
        check(300, &["here", "later"], &[], Some(700));
        check(600, &["later"], &[], Some(700));
        check(700, &[], &[], None);
        for number in 0..KNOWN_MAX as u64 + 10 {
            let at = begun + Duration::from_secs(number);
            sent.keep(same(&format!("{number}")), Known { name: String::new(), count: 1, first: now(), at });
        }
        assert_eq!(sent.known.len(), KNOWN_MAX);
        assert!(!sent.known.contains_key(&same("9")) && sent.known.contains_key(&same("10")), "the oldest goes first");
    }

    #[test]
    fn a_flood_of_one_pod_is_cut_and_refilled() {
        let mut shares = Shares::new();
        let allowed = (0..40).filter(|_| take_share(&mut shares, "a", 1000)).count();
        assert_eq!(allowed, BURST as usize);
        assert!(take_share(&mut shares, "b", 1000));
        assert!(take_share(&mut shares, "a", 1000 + REFILL_S));
        assert!(!take_share(&mut shares, "a", 1001 + REFILL_S));
    }
}
