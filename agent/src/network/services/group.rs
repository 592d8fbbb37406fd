//! Groups services with their slices. The result made from a group is kept until its service or a slice is a new
//! object. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_api::service::{EndpointSlice, Service};

/// A service and its slices.
#[derive(Clone, Debug)]
pub struct Group {
    pub service: Arc<Service>,
    pub slices: Vec<Arc<EndpointSlice>>,
}

/// By namespace and name.
pub fn grouped(services: &[Arc<Service>], slices: &[Arc<EndpointSlice>]) -> Vec<Group> {
    let mut by_service: BTreeMap<(&str, &str), Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in slices {
        by_service.entry((&slice.metadata.namespace, slice.service())).or_default().push(slice.clone());
    }
    let of = |service: &Arc<Service>| {
        let slices = by_service.get(&(service.metadata.namespace.as_str(), service.metadata.name.as_str())).cloned();
        Group { service: service.clone(), slices: slices.unwrap_or_default() }
    };
    let mut groups: Vec<Group> = services.iter().map(of).collect();
    groups.sort_by(|one, other| one.key().cmp(&other.key()));
    groups
}

impl Group {
    fn key(&self) -> (&str, &str) {
        (&self.service.metadata.namespace, &self.service.metadata.name)
    }

    /// Whether both groups hold the same objects: the results are then the same, too.
    fn is(&self, other: &Group) -> bool {
        let same = |(one, other): (&Arc<EndpointSlice>, &Arc<EndpointSlice>)| Arc::ptr_eq(one, other);
        Arc::ptr_eq(&self.service, &other.service)
            && self.slices.len() == other.slices.len()
            && self.slices.iter().zip(&other.slices).all(same)
    }
}

/// A value for each service.
#[derive(Debug)]
pub struct Made<T>(Vec<(Group, T)>);

impl<T> Default for Made<T> {
    fn default() -> Made<T> {
        Made(Vec::new())
    }
}

impl<T: Clone + PartialEq> Made<T> {
    /// The values of these services, in their order, and whether anything is another than before.
    pub fn take(&mut self, groups: &[Group], mut make: impl FnMut(&Group) -> T) -> (Vec<T>, bool) {
        let mut old = std::mem::take(&mut self.0).into_iter().peekable();
        let mut differs = false;
        for group in groups {
            while old.next_if(|(before, _)| before.key() < group.key()).is_some() {
                differs = true;
            }
            let before = old.next_if(|(before, _)| before.key() == group.key());
            let value = match before {
                Some((before, value)) if before.is(group) => value,
                before => {
                    let now = make(group);
                    // Equal ones stay the same object.
                    let same = before.map(|(_, value)| value).filter(|value| *value == now);
                    differs |= same.is_none();
                    same.unwrap_or(now)
                }
            };
            self.0.push((group.clone(), value));
        }
        differs |= old.next().is_some();
        (self.0.iter().map(|(_, value)| value.clone()).collect(), differs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(name: &str, address: &str) -> Arc<Service> {
        let document = json!({"metadata": {"namespace": "n", "name": name}, "spec": {"clusterIP": address}});
        Arc::new(Service::read(&document).unwrap())
    }

    fn slice(of: &str) -> Arc<EndpointSlice> {
        let labels = json!({"kubernetes.io/service-name": of});
        Arc::new(EndpointSlice::read(&json!({"metadata": {"namespace": "n", "name": "x", "labels": labels}})).unwrap())
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_what_is_another_is_made_anew() {
        let mut made = Made::default();
        let mut check = |services: &[Arc<Service>],
                         slices: &[Arc<EndpointSlice>],
                         values: &[&str],
                         anew: &[&str],
                         differs: bool| {
            let mut names = Vec::new();
            let taken = made.take(&grouped(services, slices), |group| {
                names.push(group.service.metadata.name.clone());
                format!("{}{}", group.service.spec.cluster_ip, group.slices.len())
            });
            assert_eq!((taken.0, names, taken.1), (texts(values), texts(anew), differs));
        };
        let (a, b, c, of_b) = (service("a", "1."), service("b", "2."), service("c", "3."), slice("b"));
        check(&[], &[], &[], &[], false);
        check(&[c.clone(), b.clone()], &[], &["2.0", "3.0"], &["b", "c"], true);
        check(&[b.clone(), c.clone()], &[], &["2.0", "3.0"], &[], false);
        check(&[b.clone(), c.clone()], std::slice::from_ref(&of_b), &["2.1", "3.0"], &["b"], true);
        // A new object with the same content.
        check(&[b.clone(), c.clone()], &[slice("b")], &["2.1", "3.0"], &["b"], false);
        check(&[a.clone(), c.clone()], &[], &["1.0", "3.0"], &["a"], true);
        check(&[a], &[], &["1.0"], &[], true);
    }
}
