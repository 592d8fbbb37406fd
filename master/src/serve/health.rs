//! `/healthz`: whether this master serves, and with `?verbose` what it could not read.

use crate::store::Store;
use coracle_http::{Answer, StatusCode};

/// Damaged objects do not make a master unhealthy: it serves all others, and a restart would not mend them. A disk that
/// takes nothing does.
pub fn answer(store: &Store, verbose: bool) -> Answer {
    let health = store.health();
    let code = if health.degraded.is_none() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    if !verbose && code == StatusCode::OK {
        return Answer::text(code, "ok");
    }
    let mut text = match &health.degraded {
        None => "[+]store can be written to\n".to_owned(),
        Some(why) => format!("[-]store cannot be written to: {why}\n"),
    };
    for damage in &health.damaged {
        text.push_str(&format!("[-]damaged file: {damage}\n"));
    }
    text.push_str(if code == StatusCode::OK { "healthz check passed\n" } else { "healthz check failed\n" });
    Answer::text(code, text)
}
