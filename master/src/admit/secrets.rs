//! Accounts that say which secrets their pods may use, and no others. PURE.

use coracle_api::strategy::doc::{list, text};
use serde_json::Value;
use std::collections::HashSet;

const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";

/// Whether a pod keeps to the secrets of its account.
pub fn judge(account: &Value, pod: &Value) -> Result<(), String> {
    if !is_enforced(account) {
        return Ok(());
    }
    let name = text(&account["metadata"], "name");
    let (secrets, pulls, spec) = (named(account, "secrets"), named(account, "imagePullSecrets"), &pod["spec"]);
    let volumes = list(spec, "volumes").iter().map(|volume| text(&volume["secret"], "secretName"));
    for secret in volumes.filter(|name| !name.is_empty() && !secrets.contains(name)) {
        return Err(denied(account, &format!("volume with secret.secretName={secret:?}")));
    }
    for (field, word) in [("initContainers", "init container"), ("containers", "container")] {
        list(spec, field).iter().try_for_each(|container| container_keeps(account, &secrets, container, word))?;
    }
    let foreign = list(spec, "imagePullSecrets").iter().map(|secret| text(secret, "name")).enumerate();
    let foreign = foreign.into_iter().find(|(_, secret)| !pulls.contains(secret));
    foreign.map_or(Ok(()), |(at, secret)| {
        let words = "is not allowed because service account";
        Err(format!("imagePullSecrets[{at}].name={secret:?} {words} {name} does not reference that imagePullSecret"))
    })
}

/// Whether the containers that are added to a running pod keep to the secrets of its account.
pub fn judge_added(account: &Value, pod: &Value) -> Result<(), String> {
    let secrets = named(account, "secrets");
    let mut added = list(&pod["spec"], "ephemeralContainers").iter().filter(|_| is_enforced(account));
    added.try_for_each(|container| container_keeps(account, &secrets, container, "ephemeral container"))
}

fn container_keeps(account: &Value, secrets: &HashSet<&str>, container: &Value, word: &str) -> Result<(), String> {
    let own = text(container, "name");
    let foreign = |secret: &str| !secret.is_empty() && !secrets.contains(secret);
    for variable in list(container, "env") {
        let (secret, variable) = (text(&variable["valueFrom"]["secretKeyRef"], "name"), text(variable, "name"));
        if foreign(secret) {
            let what = format!("{word} {own} with envVar {variable} referencing secret.secretName={secret:?}");
            return Err(denied(account, &what));
        }
    }
    let mut all = list(container, "envFrom").iter().map(|source| text(&source["secretRef"], "name"));
    match all.find(|secret| foreign(secret)) {
        None => Ok(()),
        Some(secret) => {
            Err(denied(account, &format!("{word} {own} with envFrom referencing secret.secretName={secret:?}")))
        }
    }
}

/// By the values that Go reads as true.
fn is_enforced(account: &Value) -> bool {
    matches!(text(&account["metadata"]["annotations"], ENFORCED), "1" | "t" | "T" | "TRUE" | "true" | "True")
}

fn named<'a>(account: &'a Value, field: &str) -> HashSet<&'a str> {
    list(account, field).iter().map(|secret| text(secret, "name")).collect()
}

fn denied(account: &Value, what: &str) -> String {
    let name = text(&account["metadata"], "name");
    format!("{what} is not allowed because service account {name} does not reference that secret")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_of_an_account() {
        let account = |enforced: &str| {
            json!({
                "metadata": {"name": "a", "annotations": {ENFORCED: enforced}}, "secrets": [{"name": "own"}],
                "imagePullSecrets": [{"name": "pull"}],
            })
        };
        let check = |spec: Value, expected: &str| {
            let pod = json!({"spec": spec});
            let why = judge(&account("true"), &pod).err().unwrap_or_default();
            assert!(why.starts_with(expected) && why.is_empty() == expected.is_empty(), "{pod}: {why}");
            assert_eq!(judge(&account("false"), &pod), Ok(()));
        };
        let volume =
            |name: &str| json!({"volumes": [{"secret": {"secretName": name}}], "imagePullSecrets": [{"name": "pull"}]});
        check(volume("own"), "");
        check(
            volume("other"),
            "volume with secret.secretName=\"other\" is not allowed because service account a does not reference",
        );
        let variable_of = |name: &str| json!({"name": "V", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}});
        check(
            json!({"containers": [{"name": "c", "env": [variable_of("x")]}]}),
            "container c with envVar V referencing secret.secretName=\"x\"",
        );
        let all = json!([{"name": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]);
        check(json!({"initContainers": all}), "init container i with envFrom referencing secret.secretName=\"x\"");
        let added = json!({"spec": {"ephemeralContainers": [{"name": "e", "env": [variable_of("x")]}]}});
        let why = "ephemeral container e with envVar V referencing secret.secretName=\"x\" is not allowed because \
                   service account a does not reference that secret";
        assert_eq!(judge_added(&account("true"), &added), Err(why.to_owned()));
        assert_eq!(judge_added(&account("false"), &added), Ok(()));
        check(json!({"imagePullSecrets": [{"name": "own"}]}), "imagePullSecrets[0].name=\"own\" is not allowed");
    }
}
