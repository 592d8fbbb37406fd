//! The requests in progress of all ports that share this: watches, logs and upgraded connections may be so for weeks,
//! and have to end when their user may no longer ask.
//!
//!     identify -> open -> the answer, the stream, the upgraded connection -> the entry is dropped
//!                  \-- end_where: the task that carries it is ended, and its client sees the connection break
use crate::{ClientCertificate, Identity};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

#[derive(Clone, Default)]
pub struct Sessions(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    /// The number of the next entry.
    next: u64,
    entries: HashMap<u64, Entry>,
}

#[derive(Clone)]
struct Entry {
    identity: Arc<Identity>,
    certificate: Option<Arc<ClientCertificate>>,
    task: AbortHandle,
}

/// A request in progress; forgotten when dropped.
pub(crate) struct Session {
    of: Sessions,
    number: u64,
}

impl Sessions {
    /// Ends each request in progress whose identity and certificate are to end, and says how many there were. A request
    /// that was identified before a user was revoked and is entered after this call is not among them: whoever revokes
    /// calls this again some seconds later.
    pub fn end_where(&self, is_over: impl Fn(&Identity, Option<&ClientCertificate>) -> bool) -> usize {
        // Asked without the lock: connections take it for each request.
        let mut open: Vec<Entry> = self.lock().entries.values().cloned().collect();
        open.retain(|entry| is_over(&entry.identity, entry.certificate.as_deref()));
        open.iter().for_each(|entry| entry.task.abort());
        open.len()
    }

    /// The task carries the request: an HTTP/2 stream has one, every other connection has one.
    pub(crate) fn open(
        &self,
        identity: Arc<Identity>,
        certificate: Option<Arc<ClientCertificate>>,
        task: AbortHandle,
    ) -> Session {
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        open.entries.insert(number, Entry { identity, certificate, task });
        Session { of: self.clone(), number }
    }

    /// The number of requests in progress.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let gone = self.of.lock().entries.remove(&self.number);
        // Unlocked first: an identity may be large.
        drop(gone);
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("open", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_one_user_end_and_no_others() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let sessions = Sessions::default();
            let of = |user: &str| Arc::new(Identity { user: user.to_owned(), ..Identity::none() });
            let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(std::future::pending::<()>())).collect();
            let mut open: Vec<Session> = ["ann", "bob", "ann"]
                .iter()
                .zip(&tasks)
                .map(|(user, task)| sessions.open(of(user), None, task.abort_handle()))
                .collect();
            drop(open.pop());
            assert_eq!(sessions.end_where(|identity, _| identity.user == "ann"), 1);
            let ended: Vec<bool> = {
                tokio::task::yield_now().await;
                tasks.iter().map(tokio::task::JoinHandle::is_finished).collect()
            };
            assert_eq!(ended, [true, false, false]);
            drop(open);
            assert!(sessions.is_empty());
        });
    }
}
