//! Ranges that service addresses come from, and addresses that are taken. PURE.

use super::checks::immutable_as;
use super::doc::{has, list, text};
use super::meta::{self, Scope};
use super::rules::{BuiltinStrategy, Rules, without_status};
use super::{Cidr, general, names, rbac};
use crate::meta::{Durable, Resource};
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::net::IpAddr;

pub const RANGES: Resource =
    Resource { group: Cow::Borrowed("networking.k8s.io"), plural: Cow::Borrowed("servicecidrs") };
pub const ADDRESSES: Resource =
    Resource { group: Cow::Borrowed("networking.k8s.io"), plural: Cow::Borrowed("ipaddresses") };
/// Labels of an IPAddress: the address family, and the manager of the object.
pub const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
pub const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
pub const KEPT_BY_US: &str = "ipallocator.k8s.io";
/// The range that the cluster was begun with, and the service of the API, as Kubernetes calls both.
pub const OWN: &str = "kubernetes";
/// The finalizer of a range object while addresses of the range are in use.
pub const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
/// The maximum number of ranges in one range object: a range of each family.
const RANGES_MAX: usize = 2;

pub static IP_ADDRESS: BuiltinStrategy = BuiltinStrategy {
    validate: address,
    validate_update: |new, old, rules| {
        let mut found = general::changed(new, old, rules, address);
        found.extend(immutable_as("ParentReference", &new["spec"], &old["spec"], "parentRef", &Path::new("spec")));
        found
    },
    // IPAddress objects of services are derived again from the services.
    durable: |address| {
        if address["metadata"]["labels"][MANAGED_BY] == KEPT_BY_US { Durable::Nothing } else { Durable::Whole }
    },
    ..general::strategy::<true, false>()
};

pub static SERVICE_RANGE: BuiltinStrategy = BuiltinStrategy {
    validate: range,
    validate_update: range_update,
    durable: without_status,
    ..general::strategy::<true, false>()
};

/// The range object of the cluster itself.
pub fn own_range(range: &str) -> Value {
    json!({"metadata": {"name": OWN}, "spec": {"cidrs": [range]}})
}

/// The ranges of a range object that addresses are given from here.
pub fn cidrs(range: &Value) -> impl Iterator<Item = Cidr> {
    list(&range["spec"], "cidrs").iter().filter_map(|text| Cidr::parse(text.as_str()?))
}

/// Whether addresses are given from it.
pub fn is_ready(range: &Value) -> bool {
    let ready =
        list(&range["status"], "conditions").iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    ready && range["metadata"]["deletionTimestamp"].is_null()
}

/// An address has one name.
fn canonical(name: &str) -> names::Faults {
    let faults = names::ip(name);
    let plain = name
        .parse::<IpAddr>()
        .ok()
        .map(|address| address.to_string())
        .filter(|plain| plain != name && faults.is_empty());
    faults.into_iter().chain(plain.map(|plain| format!("must be in canonical form ({plain:?})"))).collect()
}

fn address(address: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(address, Scope::Cluster, canonical, rules);
    let (parent, path) = (&address["spec"]["parentRef"], Path::new("spec.parentRef"));
    if !has(&address["spec"], "parentRef") {
        found.push(Problem::required(&path, ""));
        return found;
    }
    let group = text(parent, "group");
    if !group.is_empty() {
        found.extend(names::problems(&path.field("group"), group, names::subdomain(group)));
    }
    for (field, needed) in [("resource", true), ("name", true), ("namespace", false)] {
        match text(parent, field) {
            "" if needed => found.push(Problem::required(&path.field(field), "")),
            "" => {}
            said => found.extend(names::problems(&path.field(field), said, rbac::segment(said))),
        }
    }
    found
}

fn range(range: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = meta::validate(range, Scope::Cluster, names::subdomain, rules);
    found.extend(ranges(range));
    found
}

fn ranges(range: &Value) -> Vec<Problem> {
    let (ranges, path) = (list(&range["spec"], "cidrs"), Path::new("spec.cidrs"));
    if ranges.is_empty() {
        return vec![Problem::required(&path, "at least one CIDR required")];
    }
    if ranges.len() > RANGES_MAX {
        let shown = json!({"CIDRs": ranges});
        return vec![Problem::invalid(&path, shown, format!("may only hold up to {RANGES_MAX} values"))];
    }
    let texts: Vec<&str> = ranges.iter().filter_map(Value::as_str).collect();
    let mut found: Vec<Problem> = texts
        .iter()
        .enumerate()
        .flat_map(|(n, text)| names::problems(&path.index(n), *text, names::cidr(text)))
        .collect();
    let family = |text: &str| text.contains(':');
    if found.is_empty() && texts.len() == RANGES_MAX && family(texts[0]) == family(texts[1]) {
        let words = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        found.push(Problem::invalid(&path, ranges.to_vec(), words));
    }
    found
}

/// A second family may come; what is there stays.
fn range_update(new: &Value, old: &Value, rules: Rules) -> Vec<Problem> {
    let mut found = general::changed(new, old, rules, range);
    let (now, was, path) = (list(&new["spec"], "cidrs"), list(&old["spec"], "cidrs"), Path::new("spec.cidrs"));
    if now.len() != was.len() && (was.len(), now.len()) != (1, RANGES_MAX) {
        found.push(Problem::invalid(&path, now.to_vec(), "field is immutable"));
        return found;
    }
    let changed = now.iter().zip(was).enumerate().filter(|(_, (now, was))| now != was);
    found.extend(changed.map(|(n, (now, _))| Problem::invalid(&path.index(n), now.clone(), "field is immutable")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::tests::assert_problems;

    #[test]
    fn addresses() {
        fn check(name: &str, spec: Value, expected: &[&str]) {
            assert_problems(address(&json!({"metadata": {"name": name}, "spec": spec}), Rules::default()), expected);
        }
        let parent = json!({"parentRef": {"group": "", "resource": "services", "namespace": "default", "name": "web"}});
        check("10.96.0.7", parent.clone(), &[]);
        check("fe80::42:1dff:fe84:f9e2", parent.clone(), &[]);
        check(
            "FE80::1",
            parent.clone(),
            &["metadata.name: Invalid value: \"FE80::1\": must be in canonical form (\"fe80::1\")"],
        );
        check("web", parent, &["metadata.name: Invalid value: \"web\": must be a valid IP address"]);
        check("10.96.0.7", json!({}), &["spec.parentRef: Required"]);
        let expected =
            ["spec.parentRef.resource: Required", "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'"];
        check("10.96.0.7", json!({"parentRef": {"name": "a/b"}}), &expected);
    }

    #[test]
    fn ranges_of_services() {
        fn check(old: &[&str], new: &[&str], expected: &[&str]) {
            let of =
                |ranges: &[&str]| json!({"metadata": {"name": "r", "resourceVersion": "1"}, "spec": {"cidrs": ranges}});
            let found = if old.is_empty() {
                range(&of(new), Rules::default())
            } else {
                range_update(&of(new), &of(old), Rules::default())
            };
            assert_problems(found, expected);
        }
        check(&[], &["10.96.0.0/16"], &[]);
        check(&[], &["10.96.0.0/16", "2001:db8::/64"], &[]);
        check(&[], &[], &["spec.cidrs: Required"]);
        check(&[], &["10.96.0.0/16", "10.97.0.0/16"], &["spec.cidrs: Invalid"]);
        check(&[], &["10.96.0.1/16"], &["spec.cidrs[0]: Invalid"]);
        check(&["10.96.0.0/16"], &["10.96.0.0/16", "2001:db8::/64"], &[]);
        check(
            &["10.96.0.0/16"],
            &["10.97.0.0/16"],
            &["spec.cidrs[0]: Invalid value: \"10.97.0.0/16\": field is immutable"],
        );
        check(&["10.96.0.0/16", "2001:db8::/64"], &["10.96.0.0/16"], &["spec.cidrs: Invalid"]);
        assert_problems(range(&own_range("10.96.0.0/16"), Rules::default()), &[]);
    }
}
