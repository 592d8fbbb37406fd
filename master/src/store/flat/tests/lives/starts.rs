//! The starts of a master in the random lives: cut, on a disk that takes no write, and again.

use super::*;

impl Host {
    /// Starts until a start is not cut.
    pub fn start(&mut self, cuts: bool) -> Result<Life, String> {
        if cuts && self.faulty && self.disk.steps().is_multiple_of(3) {
            self.start_in_vain()?;
        }
        loop {
            if cuts && self.dice.one_in(3) {
                let steps = 1 + self.dice.below(40);
                self.disk.cut_in(steps);
            }
            let opened = open(&self.disk, &self.tmpfs, self.boot, (self.setup, self.sealed));
            if self.disk.is_cut() {
                drop(opened);
                self.tally.cuts_in_starts += 1;
                // It was read, and what it told can be told again only if the start came to its end.
                self.oracle.memory_lost();
                self.judge_images()?;
                self.stop();
                continue;
            }
            self.disk.spare();
            let store = opened.map_err(|error| format!("it does not start: {error}"))?;
            self.oracle.opened(&store)?;
            self.look_for_edits()?;
            return self.follow(store);
        }
    }

    /// A start on a disk that takes no write: what it shows under a revision is never anything else.
    fn start_in_vain(&mut self) -> Result<(), String> {
        self.disk.fail(0..u64::MAX, EROFS);
        let ids = Ids { fresh_store: format!("vain-{}", self.disk.steps()), boot: self.boot.to_string() };
        let (disk, tmpfs) = (Arc::new(self.disk.clone()), Box::new(self.tmpfs.clone()));
        let opened = FlatStore::open_on(disk, Some(tmpfs), None, ids, &rules_after(self.boot, self.sealed), self.setup);
        self.disk.heal();
        self.oracle.memory_lost();
        let Ok(Opened { store, .. }) = opened else { return Ok(()) };
        let now = all(&store);
        self.oracle.look(&store, &now).map(drop).map_err(|broken| format!("a start in vain: {broken}"))
    }

    /// Starts where something fails: it may not be able to say what there is, or say that it cannot write. It gets over
    /// it, or the next start does.
    pub fn start_again(&mut self) -> Result<Life, String> {
        for _ in 0..3 {
            let Ok(store) = open(&self.disk, &self.tmpfs, self.boot, (self.setup, self.sealed)) else { continue };
            store.tend();
            let health = store.health();
            if health.degraded.is_none() && health.damaged.is_empty() {
                self.oracle.memory_lost();
                self.oracle.opened(&store)?;
                return self.follow(store);
            }
        }
        Err("it does not start, or not well, time after time".to_owned())
    }
}
