//! The state that all watches share.

use super::bookmarks::Bookmarks;
use super::replay::Replays;
use super::timer::Timer;
use super::watcher::Views;
use std::sync::Arc;

#[derive(Default)]
pub struct Watches {
    pub timer: Arc<Timer>,
    pub bookmarks: Arc<Bookmarks>,
    pub replays: Replays,
    pub views: Arc<Views>,
}
