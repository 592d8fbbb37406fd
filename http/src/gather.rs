//! Fetches whole answers from servers on this host, for a handler that combines them and may wait.
use crate::outbound::{Reached, forward};
use crate::{Forward, PathAndQuery, Server};
use bytes::{Bytes, BytesMut};
use std::io;
use std::time::Duration;

/// All are asked at once, and each has `patience`. The errors say who does not answer, and why.
pub fn gather(
    asked: Vec<(Server, PathAndQuery)>,
    patience: Duration,
    bytes_max: usize,
) -> io::Result<Vec<Result<Bytes, String>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    Ok(runtime.block_on(async {
        let asking: Vec<_> =
            asked.into_iter().map(|(server, target)| tokio::spawn(ask(server, target, patience, bytes_max))).collect();
        let mut answers = Vec::with_capacity(asking.len());
        for asked in asking {
            answers.push(asked.await.unwrap_or_else(|error| Err(error.to_string())));
        }
        answers
    }))
}

async fn ask(server: Server, target: PathAndQuery, patience: Duration, bytes_max: usize) -> Result<Bytes, String> {
    let whole = async {
        let answered =
            forward(&Forward::get(server.clone(), target, patience)).await.map_err(|refusal| refusal.to_string())?;
        let Reached::Answer(mut answered) = answered else {
            return Err(format!("{server} changes to another protocol"));
        };
        if !answered.status.is_success() {
            return Err(format!("{server} answers {}", answered.status));
        }
        let mut body = BytesMut::new();
        while let Some(piece) = answered.piece().await {
            body.extend_from_slice(&piece.map_err(|error| format!("{server}: {error}"))?);
            if body.len() > bytes_max {
                return Err(format!("{server} answers more than {bytes_max} bytes"));
            }
        }
        Ok(body.freeze())
    };
    tokio::time::timeout(patience, whole).await.unwrap_or_else(|_| Err(format!("{server} does not answer")))
}
