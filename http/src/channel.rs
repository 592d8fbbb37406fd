//! The channel of a stream: one side publishes, the other side carries. A thousand watches have a thousand channels,
//! and each event touches every channel: a channel holds waiting items and little else.
//!
//!     try_send                a watch: no place, and the reader was too slow
//!     send, blocking_send     a log, a backup: at the reader's pace

use crate::pull;
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Memory for so many items is kept by a channel that is empty: a watcher who keeps up has one or two.
const KEPT_ITEMS: usize = 4;

/// Nobody reads any more, or what was to be sent without waiting found no place.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsent;

pub struct Sender(Arc<Shared>);

pub struct Receiver(Arc<Shared>);

struct Shared(Mutex<Waiting>);

struct Waiting {
    items: VecDeque<Bytes>,
    places: usize,
    /// Either side has gone.
    closed: bool,
    /// Waits for an item.
    reader: Option<Waker>,
    /// Waits for a place, or until nobody reads.
    publisher: Option<Waker>,
}

/// For so many items that have not been taken.
pub fn channel(places: usize) -> (Sender, Receiver) {
    let waiting = Waiting { items: VecDeque::new(), places, closed: false, reader: None, publisher: None };
    let shared = Arc::new(Shared(Mutex::new(waiting)));
    (Sender(shared.clone()), Receiver(shared))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(mut waiting: MutexGuard<'_, Waiting>) -> Result<Bytes, MutexGuard<'_, Waiting>> {
        let Some(item) = waiting.items.pop_front() else { return Err(waiting) };
        if waiting.items.is_empty() && waiting.items.capacity() > KEPT_ITEMS {
            waiting.items = VecDeque::new();
        }
        Shared::wake(waiting, |waiting| &mut waiting.publisher);
        Ok(item)
    }

    /// Unlocked first: the woken side may take a lock under which other threads use this channel.
    fn wake(mut waiting: MutexGuard<'_, Waiting>, which: impl FnOnce(&mut Waiting) -> &mut Option<Waker>) {
        let waker = which(&mut waiting).take();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Sender {
    /// Never waits.
    pub fn try_send(&self, item: Bytes) -> Result<(), Unsent> {
        self.try_send_before(0, item)
    }

    /// The same, where so many places are free after it.
    pub fn try_send_before(&self, free: usize, item: Bytes) -> Result<(), Unsent> {
        let mut waiting = self.0.lock();
        if waiting.closed || waiting.items.len() + free >= waiting.places {
            return Err(Unsent);
        }
        waiting.items.push_back(item);
        Shared::wake(waiting, |waiting| &mut waiting.reader);
        Ok(())
    }

    /// Waits for a place.
    pub async fn send(&self, item: Bytes) -> Result<(), Unsent> {
        poll_fn(|cx| self.poll_place(cx)).await?;
        self.try_send(item)
    }

    /// The same on a plain thread.
    pub fn blocking_send(&self, item: Bytes) -> Result<(), Unsent> {
        pull::wait(|cx| self.poll_place(cx))?;
        self.try_send(item)
    }

    /// Until nobody reads any more.
    pub async fn closed(&self) {
        poll_fn(|cx| {
            let mut waiting = self.0.lock();
            if waiting.closed {
                return Poll::Ready(());
            }
            waiting.publisher = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn poll_place(&self, cx: &mut Context<'_>) -> Poll<Result<(), Unsent>> {
        let mut waiting = self.0.lock();
        if waiting.closed {
            return Poll::Ready(Err(Unsent));
        }
        if waiting.items.len() < waiting.places {
            return Poll::Ready(Ok(()));
        }
        waiting.publisher = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sender {
    /// Items that were sent can still be read.
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.closed = true;
        Shared::wake(waiting, |waiting| &mut waiting.reader);
    }
}

impl Receiver {
    /// None: there is none now.
    pub fn try_recv(&mut self) -> Option<Bytes> {
        Shared::take(self.0.lock()).ok()
    }

    /// None: there is none, and there will be none.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match Shared::take(self.0.lock()) {
            Ok(item) => Poll::Ready(Some(item)),
            Err(waiting) if waiting.closed => Poll::Ready(None),
            Err(mut waiting) => {
                waiting.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The same for a task.
    pub async fn recv(&mut self) -> Option<Bytes> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Nothing more is sent.
    pub fn is_closed(&self) -> bool {
        self.0.lock().closed
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut waiting = self.0.lock();
        waiting.closed = true;
        let unread = (std::mem::take(&mut waiting.items), waiting.reader.take());
        Shared::wake(waiting, |waiting| &mut waiting.publisher);
        drop(unread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn item(number: usize) -> Bytes {
        Bytes::from(number.to_string())
    }

    #[test]
    fn what_is_sent_comes_in_its_order_and_then_the_end() {
        let (sender, mut receiver) = channel(3);
        for number in 0..3 {
            assert_eq!(sender.try_send(item(number)), Ok(()));
        }
        assert_eq!(sender.try_send(item(3)), Err(Unsent), "there is no place");
        assert_eq!(receiver.try_recv(), Some(item(0)));
        assert_eq!(sender.try_send_before(1, item(3)), Err(Unsent), "one place is kept free");
        assert_eq!(sender.try_send(item(3)), Ok(()));
        drop(sender);
        assert!(receiver.is_closed());
        assert_eq!(std::iter::from_fn(|| receiver.try_recv()).collect::<Vec<_>>(), [item(1), item(2), item(3)]);
        assert_eq!(receiver.poll_recv(&mut Context::from_waker(Waker::noop())), Poll::Ready(None));
    }

    #[test]
    fn nothing_is_sent_to_who_has_left() {
        let (sender, receiver) = channel(1);
        assert_eq!(sender.try_send(item(0)), Ok(()));
        let waits = thread::spawn(move || sender.blocking_send(item(1)));
        drop(receiver);
        assert_eq!(waits.join().expect("no panic"), Err(Unsent));
    }

    #[test]
    fn who_publishes_at_the_readers_pace_is_woken_for_each_place() {
        let (sender, mut receiver) = channel(1);
        let publishes = thread::spawn(move || (0..100).all(|number| sender.blocking_send(item(number)).is_ok()));
        for number in 0..100 {
            assert_eq!(pull::wait(|cx| receiver.poll_recv(cx)), Some(item(number)));
        }
        assert_eq!(pull::wait(|cx| receiver.poll_recv(cx)), None);
        assert!(publishes.join().expect("no panic"));
    }

    #[test]
    fn a_burst_leaves_no_memory_behind() {
        let (sender, mut receiver) = channel(64);
        (0..64).for_each(|number| sender.try_send(item(number)).expect("there is a place"));
        while receiver.try_recv().is_some() {}
        assert!(receiver.0.lock().items.capacity() <= KEPT_ITEMS);
    }
}
