//! Tokens that a node asks for: of a pod that it runs, and for an audience that the pod names. PURE.

use super::super::{AdmissionRequest, Refusal};
use crate::authorize::Attributes;
use coracle_api::meta::{Key, Resource};
use coracle_api::strategy::doc::{list, text};
use serde_json::Value;

pub(super) fn requested(request: &AdmissionRequest<'_>, node: &str, token: &Value) -> Result<(), Refusal> {
    let bound = &token["spec"]["boundObjectRef"];
    if bound["apiVersion"] != "v1" || bound["kind"] != "Pod" || text(bound, "name").is_empty() {
        return Err("node requested token not bound to a pod".to_owned().into());
    }
    let uid = text(bound, "uid");
    if uid.is_empty() {
        return Err("node requested token with a pod binding without a uid".to_owned().into());
    }
    let key = named("pods", request.namespace, text(bound, "name"));
    let pod = request.view.get(&key)?.ok_or(Refusal::Missing(key))?;
    if pod["metadata"]["uid"] != uid {
        let words = "does not match the UID in record. The object might have been deleted and then recreated";
        return Err(format!("the UID in the bound object reference ({uid}) {words}").into());
    }
    if pod["spec"]["nodeName"] != *node {
        return Err("node requested token bound to a pod scheduled on a different node".to_owned().into());
    }
    let audience = match list(&token["spec"], "audiences") {
        [] => "",
        [audience] => audience.as_str().unwrap_or_default(),
        _ => return Err("node may only request 0 or 1 audiences".to_owned().into()),
    };
    if names(request, &pod, audience).map_err(|why| format!("error validating audience {audience:?}: {why}"))? {
        return Ok(());
    }
    // A right of its own, for what a pod's volumes do not name.
    let resource = Resource { group: "".into(), plural: audience.to_owned().into() };
    let place = (request.namespace, request.name);
    let asked = Attributes::resource("request-serviceaccounts-token-audience", &resource, "", place);
    if request.authorizer.authorize(&asked, request.identity).allows() {
        return Ok(());
    }
    let (user, words) = (&request.identity.user, "is not authorized to request tokens for this audience");
    Err(format!("audience {audience:?} not found in pod spec volume, {user} {words}").into())
}

/// Whether a volume of the pod is given tokens for this audience, by the kubelet or by a CSI driver.
fn names(request: &AdmissionRequest<'_>, pod: &Value, audience: &str) -> Result<bool, String> {
    for volume in list(&pod["spec"], "volumes") {
        let of_tokens = |source: &Value| {
            let token = &source["serviceAccountToken"];
            token.is_object() && text(token, "audience") == audience
        };
        if list(&volume["projected"], "sources").iter().any(of_tokens) {
            return Ok(true);
        }
        let driver = match driver(request, pod, volume)? {
            Some(driver) => request.view.get(&named_of("storage.k8s.io", "csidrivers", &driver))?,
            None => None,
        };
        let driver = driver.unwrap_or_default();
        if list(&driver["spec"], "tokenRequests").iter().any(|asked| text(asked, "audience") == audience) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The CSI driver that mounts a volume of a pod.
fn driver(request: &AdmissionRequest<'_>, pod: &Value, volume: &Value) -> Result<Option<String>, String> {
    let inline = text(&volume["csi"], "driver");
    if !inline.is_empty() {
        return Ok(Some(inline.to_owned()));
    }
    let claim = match text(&volume["persistentVolumeClaim"], "claimName") {
        "" if volume["ephemeral"].is_object() => format!("{}-{}", text(&pod["metadata"], "name"), text(volume, "name")),
        "" => return Ok(None),
        claim => claim.to_owned(),
    };
    let Some(claim) = request.view.get(&named("persistentvolumeclaims", request.namespace, &claim))? else {
        return Ok(None);
    };
    let volume = request.view.get(&named("persistentvolumes", "", text(&claim["spec"], "volumeName")))?;
    let driver = volume.map(|volume| text(&volume["spec"]["csi"], "driver").to_owned());
    Ok(driver.filter(|driver| !driver.is_empty()))
}

fn named(plural: &'static str, namespace: &str, name: &str) -> Key {
    Key { resource: Resource::core(plural), namespace: namespace.to_owned(), name: name.to_owned() }
}

fn named_of(group: &'static str, plural: &'static str, name: &str) -> Key {
    let resource = Resource { group: group.into(), plural: plural.into() };
    Key { resource, namespace: String::new(), name: name.to_owned() }
}
