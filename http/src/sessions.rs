//! The requests in progress of all ports that share this: watches, logs and upgraded connections may be so for weeks,
//! and have to end when their user may no longer ask.
//!
//!     identify -> open -> the answer, the stream, the upgraded connection -> the entry is dropped
//!                  \-- end_where: the task that carries it is ended, and its client sees the connection break
use crate::{Caller, ClientCertificate, HeaderMap, Identity, Method, PathAndQuery};
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
    asked: Arc<InProgress>,
    task: AbortHandle,
}

/// A request in progress: who asked for what.
#[derive(Debug)]
pub struct InProgress {
    pub identity: Arc<Identity>,
    pub certificate: Option<Arc<ClientCertificate>>,
    pub caller: Caller,
    pub method: Method,
    pub target: PathAndQuery,
    /// Those by which a client acts as another user.
    pub impersonation: HeaderMap,
}

/// How the names of these headers begin.
const IMPERSONATION: &str = "impersonate-";

/// A request in progress; forgotten when dropped.
pub(crate) struct Session {
    of: Sessions,
    number: u64,
}

impl Sessions {
    /// Ends each request in progress that is to end, and says how many there were. A request that was identified before
    /// a user was revoked and is entered after this call is not among them: whoever revokes calls this again some
    /// seconds later.
    pub fn end_where(&self, is_over: impl Fn(&InProgress) -> bool) -> usize {
        // Asked without the lock: connections take it for each request.
        let mut open: Vec<Entry> = self.lock().entries.values().cloned().collect();
        open.retain(|entry| is_over(&entry.asked));
        open.iter().for_each(|entry| entry.task.abort());
        open.len()
    }

    /// The task carries the request: an HTTP/2 stream has one, every other connection has one.
    pub(crate) fn open(&self, asked: InProgress, task: AbortHandle) -> Session {
        let mut open = self.lock();
        let number = open.next;
        open.next += 1;
        open.entries.insert(number, Entry { asked: Arc::new(asked), task });
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

impl InProgress {
    /// The headers of a request by which its client acts as another user; mostly none.
    pub(crate) fn impersonation(headers: &HeaderMap) -> HeaderMap {
        let named = headers.iter().filter(|(name, _)| name.as_str().starts_with(IMPERSONATION));
        let mut kept = HeaderMap::new();
        for (name, value) in named {
            kept.append(name.clone(), value.clone());
        }
        kept
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
            let of = |user: &str| InProgress {
                identity: Arc::new(Identity { user: user.to_owned(), ..Identity::none() }),
                certificate: None,
                caller: Caller::Local,
                method: Method::GET,
                target: PathAndQuery::from_static("/api/v1/pods?watch=1"),
                impersonation: HeaderMap::new(),
            };
            let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(std::future::pending::<()>())).collect();
            let mut open: Vec<Session> = ["ann", "bob", "ann"]
                .iter()
                .zip(&tasks)
                .map(|(user, task)| sessions.open(of(user), task.abort_handle()))
                .collect();
            drop(open.pop());
            assert_eq!(sessions.end_where(|asked| asked.identity.user == "ann"), 1);
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
