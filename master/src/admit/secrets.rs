//! Accounts that say which secrets their pods may use, and no others. PURE.

use coracle_api::strategy::doc::{list, text};
use serde_json::Value;
use std::collections::HashSet;

const ENFORCED: &str = "kubernetes.io/enforce-mountable-secrets";

/// Whether a pod keeps to the secrets of its account.
pub fn judge(account: &Value, pod: &Value) -> Result<(), String> {
    // What Go reads as true.
    if !matches!(text(&account["metadata"]["annotations"], ENFORCED), "1" | "t" | "T" | "TRUE" | "true" | "True") {
        return Ok(());
    }
    let name = text(&account["metadata"], "name");
    let named = |field: &str| list(account, field).iter().map(|secret| text(secret, "name")).collect::<HashSet<_>>();
    let (secrets, pulls, spec) = (named("secrets"), named("imagePullSecrets"), &pod["spec"]);
    let denied = |what: String| {
        Err(format!("{what} is not allowed because service account {name} does not reference that secret"))
    };
    for secret in
        list(spec, "volumes").iter().map(|volume| text(&volume["secret"], "secretName")).filter(|name| !name.is_empty())
    {
        if !secrets.contains(secret) {
            return denied(format!("volume with secret.secretName={secret:?}"));
        }
    }
    for (field, word) in [
        ("initContainers", "init container"),
        ("containers", "container"),
        ("ephemeralContainers", "ephemeral container"),
    ] {
        for container in list(spec, field) {
            let own = text(container, "name");
            for variable in list(container, "env") {
                let (secret, variable) = (text(&variable["valueFrom"]["secretKeyRef"], "name"), text(variable, "name"));
                if !secret.is_empty() && !secrets.contains(secret) {
                    return denied(format!(
                        "{word} {own} with envVar {variable} referencing secret.secretName={secret:?}"
                    ));
                }
            }
            for secret in list(container, "envFrom")
                .iter()
                .map(|one| text(&one["secretRef"], "name"))
                .filter(|name| !name.is_empty())
            {
                if !secrets.contains(secret) {
                    return denied(format!("{word} {own} with envFrom referencing secret.secretName={secret:?}"));
                }
            }
        }
    }
    let foreign = list(spec, "imagePullSecrets").iter().map(|secret| text(secret, "name")).enumerate();
    let foreign = foreign.into_iter().find(|(_, secret)| !pulls.contains(secret));
    foreign.map_or(Ok(()), |(at, secret)| {
        let words = "is not allowed because service account";
        Err(format!("imagePullSecrets[{at}].name={secret:?} {words} {name} does not reference that imagePullSecret"))
    })
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
        let variable = json!({"name": "V", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}});
        check(
            json!({"containers": [{"name": "c", "env": [variable]}]}),
            "container c with envVar V referencing secret.secretName=\"x\"",
        );
        let all = json!([{"name": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]);
        check(json!({"initContainers": all}), "init container i with envFrom referencing secret.secretName=\"x\"");
        check(json!({"imagePullSecrets": [{"name": "own"}]}), "imagePullSecrets[0].name=\"own\" is not allowed");
    }
}
