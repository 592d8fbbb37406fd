//! Secrets that are credentials: of a service account they are filled, and go with the account; bootstrap tokens go at
//! their end. PURE. The signature of a token has no chance in it.

use super::cluster::Cluster;
use super::controller::{Look, ObservedChange};
use super::intent::{Decision, Intent};
use super::settings::{Settings, TokenSubject};
use super::shelf::View;
use super::view::document;
use crate::store::Stored;
use coracle_api::meta::{Key, ObjectMeta, Resource, Revision, Time};
use coracle_api::strategy::namespace::CLUSTER;
use coracle_schema::base64;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

const SECRETS: Resource = Resource::core("secrets");
const ACCOUNTS: Resource = Resource::core("serviceaccounts");
const OF_ACCOUNT: &str = "kubernetes.io/service-account-token";
const OF_BOOTSTRAP: &str = "bootstrap.kubernetes.io/token";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// A Secret, as far as it is a credential.
pub struct SecretView {
    revision: Revision,
    credential: Credential,
}

enum Credential {
    /// Its content is somebody else's business.
    None,
    Account {
        name: String,
        uid: String,
        document: Stored,
    },
    /// `None`: no end. An end that cannot be read is over.
    Bootstrap {
        ends: Option<Option<Time>>,
    },
}

impl View for SecretView {
    const OF: &'static [Resource] = &[SECRETS];

    fn read(stored: &Stored, _: Option<&SecretView>, _: Duration) -> Option<SecretView> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Read {
            metadata: ObjectMeta,
            r#type: String,
        }
        let mut read: Read = serde_json::from_slice(&stored.json).ok()?;
        let mut said = |annotation: &str| read.metadata.annotations.remove(annotation).unwrap_or_default();
        let credential = match read.r#type.as_str() {
            _ if read.metadata.deletion_timestamp.is_some() => Credential::None,
            OF_ACCOUNT => {
                Credential::Account { name: said(ACCOUNT_NAME), uid: said(ACCOUNT_UID), document: stored.clone() }
            }
            OF_BOOTSTRAP if stored.key.namespace == CLUSTER => {
                Credential::Bootstrap { ends: ends(&document(stored)["data"]["expiration"]) }
            }
            _ => Credential::None,
        };
        Some(SecretView { revision: stored.revision, credential })
    }
}

/// The end that a bootstrap token names.
fn ends(expiration: &Value) -> Option<Option<Time>> {
    let bytes = base64::decode(expiration.as_str()?).ok().filter(|bytes| !bytes.is_empty())?;
    Some(std::str::from_utf8(&bytes).ok().and_then(Time::parse))
}

pub struct AccountView {
    uid: String,
}

impl View for AccountView {
    const OF: &'static [Resource] = &[ACCOUNTS];

    fn read(stored: &Stored, _: Option<&AccountView>, _: Duration) -> Option<AccountView> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Read {
            metadata: ObjectMeta,
        }
        let Read { metadata } = serde_json::from_slice(&stored.json).ok()?;
        Some(AccountView { uid: metadata.uid })
    }
}

/// The Secrets that are credentials.
pub fn all(cluster: &Cluster) -> Vec<Key> {
    let credentials = cluster.all::<SecretView>().filter(|(_, secret)| !matches!(secret.credential, Credential::None));
    credentials.map(|(key, _)| key.clone()).collect()
}

/// The Secrets of an account.
pub fn by_account(cluster: &Cluster, change: &ObservedChange<'_>) -> Vec<Key> {
    let named = |secret: &SecretView| match &secret.credential {
        Credential::Account { name, .. } => *name == change.key.name,
        _ => false,
    };
    let secrets = cluster.within::<SecretView>(&change.key.namespace);
    secrets.filter(|(_, secret)| named(secret)).map(|(key, _)| key.clone()).collect()
}

pub fn decide(look: &Look<'_>) -> Decision {
    let (key, now) = (look.key, look.now);
    let Some(secret) = look.cluster.get::<SecretView>(key) else { return Decision::default() };
    let delete = || Decision::of(vec![Intent::Delete { key: key.clone(), seen: secret.revision, at_once: false }]);
    match &secret.credential {
        Credential::None | Credential::Bootstrap { ends: None } => Decision::default(),
        Credential::Bootstrap { ends: Some(None) } => delete(),
        Credential::Bootstrap { ends: Some(Some(at)) } => {
            let left_s = at.seconds().saturating_sub(now.wall.seconds());
            match u64::try_from(left_s) {
                Ok(left_s @ 1..) => Decision::later(now.uptime.saturating_add(Duration::from_secs(left_s))),
                _ => delete(),
            }
        }
        Credential::Account { name, uid, document: stored } => {
            let account = Key { resource: ACCOUNTS, namespace: key.namespace.clone(), name: name.clone() };
            match look.cluster.get::<AccountView>(&account) {
                // Unknown is not absent.
                None if look.cluster.damaged.contains(&account) => Decision::default(),
                None => delete(),
                Some(account) if !uid.is_empty() && *uid != account.uid => delete(),
                Some(account) => {
                    let filled = filled(&look.cluster.settings, key, (name, &account.uid), &document(stored));
                    let update = |object| Intent::Update { key: key.clone(), seen: secret.revision, object };
                    Decision::of(filled.into_iter().map(update).collect())
                }
            }
        }
    }
}

/// The Secret with all that it lacks. `None`: it lacks nothing, or there is no key to sign with.
fn filled(settings: &Settings, key: &Key, (account, uid): (&str, &str), secret: &Value) -> Option<Value> {
    let signer = settings.signer.as_ref()?;
    let mut object = secret.clone();
    if !object["data"].is_object() {
        object["data"] = json!({});
    }
    let lacks = |name: &str| secret["data"][name].as_str().is_none_or(str::is_empty);
    if let Some(trust) = &settings.trust {
        object["data"]["ca.crt"] = base64::encode(trust.root.as_bytes()).into();
    }
    if lacks("namespace") {
        object["data"]["namespace"] = base64::encode(key.namespace.as_bytes()).into();
    }
    if lacks("token") {
        let subject = TokenSubject { namespace: &key.namespace, secret: &key.name, account, uid };
        object["data"]["token"] = base64::encode((signer.0)(&subject).as_bytes()).into();
    }
    object["metadata"]["annotations"][ACCOUNT_NAME] = account.into();
    object["metadata"]["annotations"][ACCOUNT_UID] = uid.into();
    (object != *secret).then_some(object)
}

#[cfg(test)]
mod tests {
    use super::super::controller::Now;
    use super::super::settings::TokenSigner;
    use super::super::table::Controllers;
    use super::*;
    use crate::store::Event;
    use coracle_api::kinds::Kinds;
    use coracle_api::strategy::furniture::Trust;
    use std::sync::Arc;

    fn cluster(objects: &[(Key, Value)]) -> Cluster {
        let sign = |subject: &TokenSubject<'_>| format!("{}/{}", subject.account, subject.uid);
        let signer = Some(TokenSigner(Arc::new(sign)));
        let trust = Some(Arc::new(Trust { root: "PEM".into(), ..Trust::default() }));
        let settings = Settings { trust, signer, ..Settings::default() };
        let mut cluster = Controllers::builtin().cluster(&Kinds::builtin(), settings);
        for (key, object) in objects {
            let key = Arc::new(key.clone());
            let new = Stored::new(key.clone(), Revision(3), object.to_string().into_bytes().into(), Default::default());
            cluster.apply(
                &Event { key, revision: Revision(3), old: None, new: Some(new), renewed: false },
                Duration::ZERO,
            );
        }
        cluster
    }

    fn key(resource: &Resource, namespace: &str, name: &str) -> Key {
        Key { resource: resource.clone(), namespace: namespace.into(), name: name.into() }
    }

    fn decided(cluster: &Cluster, key: &Key) -> Decision {
        let now = Now { wall: Time::parse("2026-01-01T00:00:00Z").expect("a time"), uptime: Duration::from_secs(7) };
        decide(&Look { cluster, key, now, refusal: None, contents: None, memory: None, memo: None })
    }

    fn secret(annotations: Value, data: Value) -> Value {
        let encoded = data.as_object().into_iter().flatten();
        let data: serde_json::Map<String, Value> = encoded
            .map(|(key, value)| (key.clone(), base64::encode(value.as_str().unwrap_or_default().as_bytes()).into()))
            .collect();
        json!({"type": OF_ACCOUNT, "metadata": {"name": "s", "annotations": annotations}, "data": data})
    }

    #[test]
    fn secrets_of_accounts() {
        let of = key(&SECRETS, "ns", "s");
        let account = || (key(&ACCOUNTS, "ns", "sa"), json!({"metadata": {"uid": "u"}}));
        let named = json!({ACCOUNT_NAME: "sa"});
        let whole = json!({ACCOUNT_NAME: "sa", ACCOUNT_UID: "u"});
        let check = |account: Option<(Key, Value)>, object: Value, expected: Result<Value, &str>| {
            let mut objects = vec![(of.clone(), object.clone())];
            objects.extend(account);
            let found = match decided(&cluster(&objects), &of).intents.as_slice() {
                [] => Err("nothing"),
                [Intent::Delete { .. }] => Err("delete"),
                [Intent::Update { object, .. }] => Ok(object.clone()),
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected, "{object}");
        };
        let full = || secret(whole.clone(), json!({"ca.crt": "PEM", "namespace": "ns", "token": "sa/u"}));
        check(Some(account()), secret(named.clone(), json!({})), Ok(full()));
        check(Some(account()), full(), Err("nothing"));
        let kept = json!({"ca.crt": "PEM", "namespace": "ns", "token": "old", "more": "x"});
        let stale = json!({"ca.crt": "OLD", "namespace": "ns", "token": "old", "more": "x"});
        check(Some(account()), secret(whole.clone(), stale), Ok(secret(whole.clone(), kept)));
        check(None, secret(named.clone(), json!({})), Err("delete"));
        check(Some(account()), secret(json!({ACCOUNT_NAME: "sa", ACCOUNT_UID: "v"}), json!({})), Err("delete"));
        check(None, json!({"type": "Opaque", "metadata": {"annotations": named}}), Err("nothing"));
        let mut ending = secret(named.clone(), json!({}));
        ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        check(None, ending, Err("nothing"));
        // An account that cannot be read may exist.
        let mut damaged = cluster(&[(of.clone(), secret(named, json!({})))]);
        damaged.damaged.insert(account().0);
        assert_eq!(decided(&damaged, &of), Decision::default());
    }

    #[test]
    fn a_change_of_an_account_concerns_its_secrets() {
        let other = secret(json!({ACCOUNT_NAME: "other"}), json!({}));
        let objects = [
            (key(&SECRETS, "ns", "s"), secret(json!({ACCOUNT_NAME: "sa"}), json!({}))),
            (key(&SECRETS, "ns", "t"), other),
            (key(&SECRETS, "else", "s"), secret(json!({ACCOUNT_NAME: "sa"}), json!({}))),
        ];
        let cluster = cluster(&objects);
        let (account, before) = (key(&ACCOUNTS, "ns", "sa"), Default::default());
        let change = ObservedChange { key: &account, gone: true, before: &before };
        assert_eq!(by_account(&cluster, &change), [key(&SECRETS, "ns", "s")]);
        assert_eq!(all(&cluster).len(), 3);
    }

    #[test]
    fn bootstrap_tokens_end() {
        let later = |seconds: u64| Decision::later(Duration::from_secs(7 + seconds));
        let check = |namespace: &str, expiration: &str, expected: Option<Decision>| {
            let of = key(&SECRETS, namespace, "bootstrap-token-abcdef");
            let data = json!({"expiration": base64::encode(expiration.as_bytes())});
            let cluster = cluster(&[(of.clone(), json!({"type": OF_BOOTSTRAP, "data": data}))]);
            let delete = Intent::Delete { key: of.clone(), seen: Revision(3), at_once: false };
            let expected = expected.unwrap_or_else(|| Decision::of(vec![delete]));
            assert_eq!(decided(&cluster, &of), expected, "{namespace} {expiration}");
        };
        check("kube-system", "", Some(Decision::default()));
        check("kube-system", "2026-01-01T00:01:00Z", Some(later(60)));
        check("kube-system", "2026-01-01T00:00:00Z", None);
        check("kube-system", "2025-12-31T23:00:00Z", None);
        check("kube-system", "soon", None);
        check("default", "2025-12-31T23:00:00Z", Some(Decision::default()));
    }
}
