//! DenyServiceExternalIPs: to every pod, an address in `externalIPs` of a service is the service, whoever has the
//! address. PURE.

use coracle_api::strategy::doc::list;
use serde_json::Value;

/// Refuses external addresses that the service did not have.
pub(super) fn judge(service: &Value, old: Option<&Value>) -> Result<(), String> {
    let had = old.map(|old| list(&old["spec"], "externalIPs")).unwrap_or_default();
    match list(&service["spec"], "externalIPs").iter().all(|address| had.contains(address)) {
        true => Ok(()),
        false => Err("Use of external IPs is denied by admission control".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_address_is_taken() {
        for (new, old, fine) in [
            (json!([]), None, true),
            (json!(["192.0.2.1"]), None, false),
            (json!(["192.0.2.1"]), Some(json!([])), false),
            (json!(["192.0.2.1"]), Some(json!(["192.0.2.2", "192.0.2.1"])), true),
            (json!(["192.0.2.1", "192.0.2.3"]), Some(json!(["192.0.2.1"])), false),
        ] {
            let service = |addresses: &Value| json!({"spec": {"externalIPs": addresses}});
            let judged = judge(&service(&new), old.as_ref().map(service).as_ref());
            assert_eq!(judged.is_ok(), fine, "{new} {old:?}");
        }
    }
}
