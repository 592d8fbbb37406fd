//! Asks the master for the tokens that pods mount, and again before they end.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use coracle_http::Method;
use coracle_http::client::Client;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::room::{KnownObjects, RequestedToken, SharedObjects};
use crate::facts::hash::hash_text;
use crate::facts::objects::{Got, TokenRef};

/// After a request that failed, doubling.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// No token gets older than this.
const AGE_MAX: Duration = Duration::from_secs(86_400);
/// Tokens of pods that started together are not renewed all at once.
const SPREAD_S: u64 = 10;
/// While nothing is due.
const LONG: Duration = Duration::from_secs(86_400);

/// Never ends.
pub async fn run(client: Client, room: Rc<SharedObjects>) {
    loop {
        let (due, next) = due(&room.state.borrow(), Instant::now());
        for wanted in due {
            let answer = request(&client, &wanted).await;
            take(&mut room.state.borrow_mut(), wanted, answer, Instant::now());
            room.publish();
        }
        let now = Instant::now();
        if next.is_some_and(|next| next <= now) {
            continue;
        }
        tokio::select! {
            () = room.tokens_wanted.notified() => {}
            () = sleep_until(self::due(&room.state.borrow(), now).1.unwrap_or(now + LONG)) => {}
        }
    }
}

/// The tokens to request now, and the time of the next request.
fn due(state: &KnownObjects, now: Instant) -> (Vec<TokenRef>, Option<Instant>) {
    let wanted = state.wanted_tokens();
    let next = wanted.iter().filter_map(|token| Some(state.tokens.get(token)?.due)).filter(|due| *due > now).min();
    let is_due = |token: &TokenRef| state.tokens.get(token).is_none_or(|held| held.due <= now);
    (wanted.into_iter().filter(is_due).collect(), next)
}

fn take(state: &mut KnownObjects, wanted: TokenRef, answer: Result<(String, i64), String>, now: Instant) {
    let before = state.tokens.remove(&wanted);
    let held = match answer {
        Ok((token, life_s)) => {
            let life = Duration::from_secs(u64::try_from(life_s).unwrap_or(0));
            RequestedToken {
                got: Got::Token(token.into()),
                due: now + (life * 4 / 5).min(AGE_MAX) - spread(&wanted),
                failures: 0,
            }
        }
        Err(why) => {
            let failures = before.as_ref().map_or(0, |before| before.failures).saturating_add(1);
            let due = now + RETRY.saturating_mul(1 << (failures - 1).min(10)).min(RETRY_MAX);
            // The old token may still be valid for a while.
            let got = match before.map(|before| before.got) {
                Some(Got::Token(token)) => {
                    log::warn!(
                        "renew the token of {} for pod {}/{}: {why}",
                        wanted.account,
                        wanted.namespace,
                        wanted.pod
                    );
                    Got::Token(token)
                }
                _ => Got::Failed(why),
            };
            RequestedToken { got, due, failures }
        }
    };
    state.tokens.insert(wanted, held);
}

fn spread(wanted: &TokenRef) -> Duration {
    let hash = hash_text(&wanted.uid);
    Duration::from_secs(u64::from_str_radix(&hash[..8], 16).unwrap_or(0) % SPREAD_S)
}

/// The token, and how long it lives.
async fn request(client: &Client, wanted: &TokenRef) -> Result<(String, i64), String> {
    let TokenRef { uid, pod, namespace, account, audience, expiration_s } = wanted;
    let mut body = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": expiration_s,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}},
    });
    if !audience.is_empty() {
        body["spec"]["audiences"] = json!([audience]);
    }
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let reply = client
        .call(Method::POST, &path, Some(Bytes::from(body.to_string())))
        .await
        .map_err(|error| error.to_string())?;
    let answer: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    if !reply.status.is_success() {
        return Err(answer["message"].as_str().map_or_else(|| reply.status.to_string(), str::to_owned));
    }
    let token = answer["status"]["token"].as_str().filter(|token| !token.is_empty());
    let token = token.ok_or_else(|| "the answer has no token".to_owned())?;
    Ok((token.to_owned(), answer["spec"]["expirationSeconds"].as_i64().unwrap_or(*expiration_s)))
}

#[cfg(test)]
mod tests {
    use super::super::kept::Kept;
    use super::*;
    use crate::desired::unkept::Unkept;
    use crate::facts::naming::Source;
    use crate::facts::source_state::SourceState;
    use crate::facts::wanted::Wanted;
    use std::sync::Arc;

    #[test]
    fn a_token_is_renewed_in_time_and_kept_while_that_fails() {
        let document = json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "u"},
            "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "t", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "expirationSeconds": 1000}}]}}]},
        });
        let pod = Arc::new(Wanted::new(Source::Master, document).unwrap());
        let mut state = KnownObjects::new(Kept::open("/nonexistent", false, Unkept::default()));
        let now = Instant::now();
        assert_eq!(due(&state, now), (Vec::new(), None));
        state.use_for(&SourceState { pods: vec![pod], cluster: "c".into(), ..SourceState::default() });
        let wanted = due(&state, now).0.remove(0);
        assert_eq!((wanted.account.as_str(), wanted.expiration_s), ("default", 1000));
        let failed = || Err("serviceaccounts \"default\" not found".to_owned());
        take(&mut state, wanted.clone(), failed(), now);
        assert_eq!(due(&state, now), (Vec::new(), Some(now + RETRY)));
        take(&mut state, wanted.clone(), failed(), now);
        assert_eq!(due(&state, now).1, Some(now + RETRY * 2));
        take(&mut state, wanted.clone(), Ok(("first".into(), 1000)), now);
        let at = due(&state, now).1.unwrap();
        assert!(at <= now + Duration::from_secs(800) && at > now + Duration::from_secs(790), "at 80 % of its life");
        assert_eq!(due(&state, at).0, std::slice::from_ref(&wanted));
        take(&mut state, wanted.clone(), failed(), at);
        assert_eq!(state.tokens[&wanted].got, Got::Token("first".into()), "it is good for a while");
    }
}
