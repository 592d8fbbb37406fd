//! Futures that make progress side by side on one thread, and end when their owner is dropped: no task outlives the
//! loop.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

pub struct Lanes<'a, T> {
    futures: Vec<Pin<Box<dyn Future<Output = T> + 'a>>>,
}

impl<'a, T> Lanes<'a, T> {
    pub fn new() -> Lanes<'a, T> {
        Lanes { futures: Vec::new() }
    }

    pub fn add(&mut self, future: impl Future<Output = T> + 'a) {
        self.futures.push(Box::pin(future));
    }

    pub fn is_empty(&self) -> bool {
        self.futures.is_empty()
    }

    /// The next that ends; never, while there is none. Dropping this future loses nothing.
    pub async fn next(&mut self) -> T {
        poll_fn(|context| {
            for index in 0..self.futures.len() {
                if let Poll::Ready(value) = self.futures[index].as_mut().poll(context) {
                    drop(self.futures.swap_remove(index));
                    return Poll::Ready(value);
                }
            }
            Poll::Pending
        })
        .await
    }

    pub async fn all(mut self) -> Vec<T> {
        let mut values = Vec::new();
        while !self.is_empty() {
            values.push(self.next().await);
        }
        values
    }
}

impl<T> Default for Lanes<'_, T> {
    fn default() -> Self {
        Lanes::new()
    }
}
