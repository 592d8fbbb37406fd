//! Gives memory back to the host after a burst of requests, and again when more of it has been let go. See `Lull`.
//!
//! One appointment, and none where nothing happened.

use super::timer::{Appointment, Timer};
use crate::store::Store;
use crate::store::locked;
use coracle_http::{Answer, Body, Method, Request};
use coracle_program::lull::{Lull, WORTH_BYTES};
use coracle_program::resident;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The store forgets its events after five minutes: some seconds later its keeper has done so. After ten it brings the
/// files up to the journal, and the threads of a crowd have ended, which keep some free memory to themselves.
const LATER: &[Duration] = &[Duration::from_secs(310), Duration::from_secs(330)];
/// The weight of a request beside body and answer, and the weight of a commit.
const EACH_BYTES: u64 = 1 << 10;

pub struct Giving {
    started: Instant,
    given: Mutex<Given>,
}

struct Given {
    lull: Lull,
    /// The revision of the store when the controllers' part was last counted.
    revision: u64,
    next: Option<Appointment>,
}

impl Default for Giving {
    fn default() -> Giving {
        let given = Given { lull: Lull::new(LATER), revision: 0, next: None };
        Giving { started: Instant::now(), given: Mutex::new(given) }
    }
}

impl Giving {
    pub fn worked(self: &Arc<Self>, timer: &Arc<Timer>, store: &Arc<dyn Store>, bytes: u64) {
        let mut given = locked(&self.given);
        if let Some(wait) = given.lull.worked(bytes, self.started.elapsed()) {
            given.revision = store.revision().0;
            given.next = Some(self.appoint(timer, store, wait));
        }
    }

    fn appoint(self: &Arc<Self>, timer: &Arc<Timer>, store: &Arc<dyn Store>, wait: Duration) -> Appointment {
        // The timer keeps alive what it will call, and that must not keep the timer.
        let (giving, again, store) = (Arc::downgrade(self), Arc::downgrade(timer), store.clone());
        let due = move || {
            let (Some(giving), Some(timer)) = (giving.upgrade(), again.upgrade()) else { return };
            if giving.look(&timer, &store) {
                resident::give_back();
            }
        };
        timer.after(wait, Box::new(due))
    }

    /// Whether memory is to go back now.
    fn look(self: &Arc<Self>, timer: &Arc<Timer>, store: &Arc<dyn Store>) -> bool {
        let mut given = locked(&self.given);
        // Controllers write, too, and nobody asked them to.
        let revision = store.revision().0;
        let commits = revision.saturating_sub(std::mem::replace(&mut given.revision, revision));
        let sooner = given.lull.worked(commits.saturating_mul(EACH_BYTES), self.started.elapsed());
        if let Some(wait) = sooner {
            given.next = Some(self.appoint(timer, store, wait));
            return false;
        }
        let look = given.lull.look(self.started.elapsed());
        given.next = look.again.map(|wait| self.appoint(timer, store, wait));
        look.gives_back
    }
}

/// The weight of an answer. A deletion's is unknown yet: it may remove a whole namespace.
pub fn cost(request: &Request, answer: &Answer) -> u64 {
    let least = if request.method == Method::DELETE && answer.status.is_success() { WORTH_BYTES } else { EACH_BYTES };
    let answered = match &answer.body {
        Body::Whole(whole) => whole.len(),
        Body::Long(long) => long.bytes,
        // Both pass by piece by piece.
        Body::Stream(_) | Body::Forward(_) | Body::Upgrade(_) => 0,
    };
    least.saturating_add(request.body.len() as u64).saturating_add(answered as u64)
}

#[cfg(test)]
mod tests {
    use crate::serve::tests::serve;
    use coracle_http::{Caller, HeaderMap, Method, Request};

    #[test]
    fn a_burst_has_an_appointment_and_who_does_little_has_none() {
        let body = |bytes: usize| {
            let data = "x".repeat(bytes);
            format!(r#"{{"metadata": {{"name": "a", "namespace": "default"}}, "data": {{"x": "{data}"}}}}"#)
        };
        let maps = "/api/v1/namespaces/default/configmaps";
        for (what, requests, expected) in [
            ("one small", vec![(Method::POST, maps, body(10))], 0),
            ("many small", (0..300).map(|_| (Method::GET, maps, String::new())).collect(), 1),
            ("one large, though it is refused", vec![(Method::POST, "/api/v1/nothing", body(300_000))], 1),
            (
                "a deletion",
                vec![
                    (Method::POST, maps, body(10)),
                    (Method::DELETE, "/api/v1/namespaces/default/configmaps/a", String::new()),
                ],
                1,
            ),
            (
                "a deletion of nothing",
                vec![(Method::DELETE, "/api/v1/namespaces/default/configmaps/a", String::new())],
                0,
            ),
        ] {
            let (serve, _) = serve();
            serve.registry.ensure_namespace("default").expect("it is new");
            for (method, path, body) in requests {
                let target = path.parse().expect("a path");
                serve.answer(&Request {
                    method,
                    target,
                    headers: HeaderMap::new(),
                    body: body.into(),
                    caller: Caller::Local,
                    identity: std::sync::Arc::default(),
                });
            }
            assert_eq!(serve.watches.timer.len(), expected, "{what}");
        }
    }
}
