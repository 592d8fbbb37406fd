//! For tests outside of this crate, behind the feature `trial` that no package is built with: stores of other sizes, or with a rule off.

pub use super::protocol::Protocol;
pub use super::setup::Setup;
use super::{DiskError, FlatStore, OpenError, Opened, Rules};
use std::path::Path;

impl FlatStore {
    pub fn open_as(dir: &Path, volatile: Option<&Path>, rules: &Rules, setup: Setup) -> Result<Opened, OpenError> {
        FlatStore::open_in(dir, volatile, rules, setup)
    }

    /// What the keeper does when it is time.
    pub fn checkpoint_now(&self) -> Result<(), DiskError> {
        self.checkpoint()
    }
}
