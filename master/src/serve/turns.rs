//! Few YAML bodies are read at a time: reading YAML takes more memory than its text, and aliases multiply it. The byte
//! limits count neither.

use crate::fault::Fault;
use coracle_api::status::Status;
use coracle_http::Limits;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// As many as a small host has processors: more would take more memory, and none of them would be read sooner.
const READERS_MAX: usize = 2;
const AGAIN_S: u32 = 1;

pub struct Turns {
    taken: Mutex<usize>,
    free: Condvar,
    wait: Duration,
}

/// Given back when it is dropped: by who has read the body, or, of what may be larger than its body, by who has
/// answered.
pub struct Turn(Arc<Turns>);

impl Default for Turns {
    /// The wait is that for a free handler.
    fn default() -> Turns {
        Turns { taken: Mutex::default(), free: Condvar::new(), wait: Limits::EDGE.slot }
    }
}

impl Turns {
    pub fn take(self: &Arc<Turns>) -> Result<Turn, Fault> {
        let free = self.free.wait_timeout_while(self.taken(), self.wait, |taken| *taken >= READERS_MAX);
        let (mut taken, waited) = free.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let why = "the YAML of others is being read: send it again, or as JSON";
            return Err(Status::too_many_requests(why, AGAIN_S).into());
        }
        *taken += 1;
        Ok(Turn(self.clone()))
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.taken() -= 1;
        self.0.free.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{self, Route};
    use crate::serve::{body, tests::serve};
    use coracle_http::{Caller, HeaderMap, HeaderValue, Method, Request, header};

    #[test]
    fn who_waits_gets_the_turn_of_who_is_done_and_at_last_a_refusal() {
        let turns = Arc::new(Turns { wait: Duration::ZERO, ..Turns::default() });
        let mut taken: Vec<Turn> = (0..READERS_MAX).map(|_| turns.take().expect("there is room")).collect();
        let Err(refused) = turns.take() else { panic!("it is one too many") };
        assert_eq!(
            (refused.status.code, refused.status.details.and_then(|details| details.retry_after_s)),
            (429, Some(AGAIN_S))
        );
        taken.pop();
        taken.push(turns.take().expect("one is done"));
        let patient = Arc::new(Turns { wait: Duration::MAX, taken: Mutex::new(READERS_MAX), ..Turns::default() });
        let waiting = patient.clone();
        let waits = std::thread::spawn(move || waiting.take().is_ok());
        drop(Turn(patient));
        assert!(waits.join().expect("no panic"));
    }

    fn request(method: Method, target: &str, content_type: &'static str, body: &'static str) -> Request {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        Request {
            method,
            target: target.parse().expect("a path"),
            headers,
            body: body.into(),
            caller: Caller::Local,
            identity: Arc::default(),
        }
    }

    #[test]
    fn yaml_waits_and_json_does_not() {
        let (mut serve, _) = serve();
        serve.turns = Arc::new(Turns { wait: Duration::ZERO, taken: Mutex::new(READERS_MAX), ..Turns::default() });
        let check = |method: Method, target: &str, content_type: &'static str, body: &'static str, code: u16| {
            let answer = serve.answer(&request(method, target, content_type, body));
            assert_eq!(answer.status.as_u16(), code, "{target} {content_type} {body}");
        };
        let (json, yaml, apply) = ("application/json", "application/yaml", "application/apply-patch+yaml");
        check(Method::POST, "/api/v1/namespaces", yaml, "metadata: {name: a}", 429);
        check(Method::POST, "/api/v1/namespaces", json, "{\"metadata\": {\"name\": \"a\"}}", 201);
        check(Method::PATCH, "/api/v1/namespaces/a?fieldManager=m", apply, "metadata: {labels: {a: b}}", 429);
        let object = "{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"a\"}}";
        check(Method::PATCH, "/api/v1/namespaces/a?fieldManager=m", apply, object, 200);
        check(Method::DELETE, "/api/v1/namespaces/a", yaml, "gracePeriodSeconds: 0", 429);
        check(Method::POST, "/api/v1beta1/services", "text/plain", "id: a", 429);
    }

    #[test]
    fn what_may_be_larger_than_its_body_keeps_its_turn() {
        let (serve, _) = serve();
        for (text, kept) in [("metadata: {name: a}", 0), ("metadata: &a {name: b}\ndata: *a", 1), ("metadata: [", 0)] {
            let kinds = serve.registry.kinds();
            let Ok(Route::Object(call)) = call::parse(&kinds, "POST", "/api/v1/namespaces", "") else {
                panic!("it is one")
            };
            let sent =
                body::object(&serve, &call, &request(Method::POST, "/api/v1/namespaces", "application/yaml", text));
            assert_eq!(*serve.turns.taken(), kept, "{text}");
            drop(sent);
            assert_eq!(*serve.turns.taken(), 0, "{text}");
        }
    }
}
