//! PURE. When what a burst took goes back to the host: once much was done in a short time, and then a lull came.
//!
//! Work is counted in bytes, for nobody knows what the allocator keeps of them. Signs of life and the like come too
//! slowly to count: for their sake nothing is ever looked at.

use std::time::Duration;

/// Less than this in a stretch leaves nothing behind that is worth a look.
pub const WORTH_BYTES: u64 = 256 << 10;
/// Memory that is needed again in a moment is better kept.
pub const STRETCH: Duration = Duration::from_secs(30);

/// The recent work.
#[derive(Debug)]
pub struct Lull {
    /// In the stretch that began at this uptime.
    done: u64,
    began: Duration,
    awaits: Awaits,
    /// Successive waits: during each wait more memory has been let go without further work.
    later: &'static [Duration],
    /// The number of waits in `later` that are over.
    waited: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaits {
    Burst,
    Lull,
    /// The memory that is let go later.
    Rest,
}

/// The outcome of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub gives_back: bool,
    /// None: nothing is to be looked at before the next burst.
    pub again: Option<Duration>,
}

impl Lull {
    pub fn new(later: &'static [Duration]) -> Lull {
        Lull { done: 0, began: Duration::ZERO, awaits: Awaits::Burst, later, waited: 0 }
    }

    /// Something was done. Says after what time to look, in place of what was said before; None changes nothing.
    pub fn worked(&mut self, bytes: u64, uptime: Duration) -> Option<Duration> {
        // While a lull is awaited a look begins the next stretch.
        if self.awaits != Awaits::Lull && uptime >= self.began + STRETCH {
            (self.done, self.began) = (0, uptime);
        }
        self.done = self.done.saturating_add(bytes);
        if self.awaits == Awaits::Lull || self.done < WORTH_BYTES {
            return None;
        }
        (self.done, self.awaits, self.waited) = (0, Awaits::Lull, 0);
        Some(STRETCH)
    }

    /// The time has come.
    pub fn look(&mut self, uptime: Duration) -> Look {
        let done = std::mem::take(&mut self.done);
        self.began = uptime;
        let (awaits, look) = match self.awaits {
            Awaits::Lull if done >= WORTH_BYTES => (Awaits::Lull, Look { gives_back: false, again: Some(STRETCH) }),
            Awaits::Lull | Awaits::Rest => {
                let again = self.later.get(self.waited).copied();
                self.waited += 1;
                (if again.is_some() { Awaits::Rest } else { Awaits::Burst }, Look { gives_back: true, again })
            }
            Awaits::Burst => (Awaits::Burst, Look { gives_back: false, again: None }),
        };
        self.awaits = awaits;
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Duration = Duration::from_secs(300);
    const NEVER: &[Duration] = &[];
    const ONCE: &[Duration] = &[LATER];
    const TWICE: &[Duration] = &[LATER, STRETCH];

    /// What happens at a second, and what is said to it.
    enum Step {
        Worked(u64, u64, Option<Duration>),
        Looked(u64, bool, Option<Duration>),
    }
    use Step::{Looked, Worked};

    #[test]
    fn it_goes_back_once_there_was_a_burst_and_then_a_lull() {
        let (much, little) = (WORTH_BYTES, WORTH_BYTES - 1);
        let burst = |at| Worked(at, much, Some(STRETCH));
        for (what, later, steps) in [
            ("what is too little", NEVER, vec![Worked(0, little, None), Looked(30, false, None)]),
            (
                "what adds up",
                NEVER,
                vec![Worked(0, little, None), Worked(29, 1, Some(STRETCH)), Looked(59, true, None)],
            ),
            (
                "what comes slowly",
                NEVER,
                vec![Worked(0, little, None), Worked(30, little, None), Worked(60, little, None)],
            ),
            (
                "a burst",
                NEVER,
                vec![burst(0), Worked(9, much, None), Looked(30, false, Some(STRETCH)), Looked(60, true, None)],
            ),
            (
                "a little meanwhile",
                NEVER,
                vec![burst(0), Worked(9, little, None), Looked(30, true, None), Worked(31, little, None)],
            ),
            (
                "a late look",
                NEVER,
                vec![burst(0), Worked(9, little, None), Worked(31, 1, None), Looked(32, false, Some(STRETCH))],
            ),
            (
                "the next burst",
                NEVER,
                vec![burst(0), Looked(30, true, None), Worked(31, little, None), Worked(32, 1, Some(STRETCH))],
            ),
            (
                "once more",
                ONCE,
                vec![burst(0), Looked(30, true, Some(LATER)), Worked(31, little, None), Looked(330, true, None)],
            ),
            (
                "not for ever",
                ONCE,
                vec![burst(0), Looked(30, true, Some(LATER)), Looked(330, true, None), Looked(630, false, None)],
            ),
            (
                "twice more",
                TWICE,
                vec![
                    burst(0),
                    Looked(30, true, Some(LATER)),
                    Looked(330, true, Some(STRETCH)),
                    Looked(360, true, None),
                ],
            ),
            (
                "a burst before then",
                ONCE,
                vec![burst(0), Looked(30, true, Some(LATER)), burst(40), Looked(70, true, Some(LATER))],
            ),
        ] {
            let mut lull = Lull::new(later);
            for step in steps {
                match step {
                    Worked(at, bytes, said) => {
                        assert_eq!(lull.worked(bytes, Duration::from_secs(at)), said, "{what}, at {at}")
                    }
                    Looked(at, gives_back, again) => {
                        assert_eq!(lull.look(Duration::from_secs(at)), Look { gives_back, again }, "{what}, at {at}")
                    }
                }
            }
        }
    }
}
