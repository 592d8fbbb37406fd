//! The body of an answer that has no limit and no form, as it comes.
use crate::client::{CallError, Target, chain};
use crate::outbound::{Driven, Fetched};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::sync::Arc;

pub struct Pieces {
    target: Arc<Target>,
    body: Incoming,
    _connection: Driven,
}

impl Pieces {
    pub(crate) fn new(target: Arc<Target>, fetched: Fetched) -> Pieces {
        Pieces { target, body: fetched.body, _connection: fetched.connection }
    }

    /// None: that was all. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<Result<Bytes, CallError>> {
        loop {
            match self.body.frame().await? {
                Err(e) => return Some(Err(CallError::Broken(self.target.clone(), chain(&e)))),
                Ok(frame) => {
                    if let Some(data) = frame.into_data().ok().filter(|data| !data.is_empty()) {
                        return Some(Ok(data));
                    }
                }
            }
        }
    }
}
