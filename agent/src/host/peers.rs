//! Who may ask over the agent's socket: root, and the user that a packaged master runs as. An agent that is not root,
//! as in development, lets in its own user as well.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coracle_http::network::Admits;
use nix::unistd::{User, geteuid};

/// Made by the master's package.
const MASTER_USER: &str = "coracle-master";
/// A master that is installed after this agent is let in from then on, and who is not let in cannot have the users read
/// all the time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The uid behind a user name, at the time of the last look-up.
struct Known {
    uid: Option<u32>,
    looked: Instant,
}

impl Known {
    fn is(&mut self, uid: u32, now: Instant, look: impl FnOnce() -> Option<u32>) -> bool {
        if self.uid != Some(uid) && now.duration_since(self.looked) >= LOOK_AGAIN {
            *self = Known { uid: look(), looked: now };
        }
        self.uid == Some(uid)
    }
}

pub fn admits() -> Admits {
    let own = geteuid().as_raw();
    let master = Mutex::new(Known { uid: look_up(), looked: Instant::now() });
    let is_master = move |uid| master.lock().unwrap_or_else(PoisonError::into_inner).is(uid, Instant::now(), look_up);
    Arc::new(move |uid| is_own_or_root(uid, own) || is_master(uid))
}

/// `own`: the user that this agent runs as. An agent that runs as root accepts root alone.
fn is_own_or_root(uid: u32, own: u32) -> bool {
    uid == 0 || own != 0 && uid == own
}

/// None: there is no such user, or nobody can say.
fn look_up() -> Option<u32> {
    match User::from_name(MASTER_USER) {
        Ok(user) => user.map(|user| user.uid.as_raw()),
        Err(error) => {
            log::warn!("look for the user {MASTER_USER}, who may read logs: {error}; only root is let in");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_is_made_later_is_let_in() {
        let start = Instant::now();
        let mut known = Known { uid: None, looked: start };
        assert!(!known.is(997, start, || panic!("it was looked for a moment ago")));
        assert!(!known.is(998, start + LOOK_AGAIN, || Some(997)));
        assert!(known.is(997, start + LOOK_AGAIN, || panic!("he is known")));
        assert!(!known.is(998, start + LOOK_AGAIN, || panic!("it was looked for a moment ago")));
        assert!(known.is(997, start + 3 * LOOK_AGAIN, || panic!("he is known")));
    }

    #[test]
    fn an_agent_that_is_root_lets_in_no_other_user() {
        for (uid, own, let_in) in [
            (0, 0, true),
            (997, 0, false),
            (1000, 0, false),
            (u32::MAX, 0, false),
            (0, 1000, true),
            (1000, 1000, true),
            (1001, 1000, false),
            (65534, 1000, false),
        ] {
            assert_eq!(is_own_or_root(uid, own), let_in, "{uid} of an agent that runs as {own}");
        }
    }

    #[test]
    fn nobody_is_not_let_in() {
        let admits = admits();
        let own = geteuid().as_raw();
        assert!(admits(0) && admits(own));
        for uid in [65534, u32::MAX].into_iter().filter(|uid| *uid != own) {
            assert!(!admits(uid), "{uid}");
        }
    }
}
