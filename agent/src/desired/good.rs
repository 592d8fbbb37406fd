//! The good version of a manifest file, object by object: an object that is refused goes on as it was read last. PURE.
//!
//!     entries of the file, the good version so far -> `renewed` -> the new good version, and what is told
//!
//! On the disk a good version is a pod, or a List of all that pods need. Agents of before noted no objects beside the
//! items: an item is then of the object whose name fits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::manifest::{Entry, Fault, Given};
use crate::facts::naming::Source;
use crate::facts::objects::{Object, ObjectKind, Ref};
use crate::facts::wanted::Wanted;

/// The kind of the kept document for several objects.
const LIST: &str = "List";

/// The pods and objects that come from an object of a file.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// `Deployment default/web`
    pub key: String,
    pub pods: Vec<Arc<Wanted>>,
    pub objects: BTreeMap<Ref, Arc<Object>>,
    /// Documents of other kinds, such as CronJobs.
    pub others: Vec<Arc<Value>>,
    /// As `objects` stand on the disk.
    documents: Vec<Value>,
    /// The key is that of the one pod or object: nothing says which object asked for it.
    is_guessed: bool,
}

/// What is told on the disk is all that counts.
impl PartialEq for Unit {
    fn eq(&self, other: &Unit) -> bool {
        (&self.key, &self.pods, &self.documents, &self.others)
            == (&other.key, &other.pods, &other.documents, &other.others)
    }
}

impl Unit {
    fn new(key: String, given: Given) -> Result<Unit, String> {
        let (documents, others): (Vec<Value>, Vec<Value>) =
            given.objects.into_iter().partition(|object| object_kind(object).is_some());
        let read = |document: &Value| {
            let text = |field: &str| document["metadata"][field].as_str().unwrap_or_default().to_owned();
            let kind = object_kind(document)?;
            let place = Ref { kind, namespace: text("namespace"), name: text("name") };
            Some((place, Arc::new(Object::read(kind, document))))
        };
        let objects = documents.iter().filter_map(read).collect();
        let pods = given.pods.into_iter().map(|pod| Wanted::new(Source::File, pod).map(Arc::new));
        let pods = pods.collect::<Result<_, _>>()?;
        let others = others.into_iter().map(Arc::new).collect();
        Ok(Unit { key, pods, objects, others, documents, is_guessed: false })
    }

    fn guessed(item: Value) -> Result<Unit, String> {
        let key = key_of(&item);
        let given = match object_kind(&item) {
            Some(_) => Given { objects: vec![item], ..Given::default() },
            None => Given { pods: vec![item], ..Given::default() },
        };
        Ok(Unit { is_guessed: true, ..Unit::new(key, given)? })
    }

    /// Whether the object of this entry asked for it.
    fn is_of(&self, entry: &Entry) -> bool {
        self.key == entry.key() || self.is_guessed && fits(&self.key, entry)
    }
}

/// Whether a pod or claim may be of a workload: the names of `workload`.
fn fits(item: &str, entry: &Entry) -> bool {
    let Some((kind, place)) = item.split_once(' ') else { return false };
    let Some(name) = place.strip_prefix(&format!("{}/", entry.namespace)) else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let of_name = |rest: &str| rest.strip_prefix('-').is_some_and(is_number);
    match (entry.kind.as_str(), kind) {
        ("DaemonSet", "Pod") => name == entry.name,
        ("Deployment" | "ReplicaSet" | "StatefulSet" | "Job", "Pod") => {
            name.strip_prefix(entry.name.as_str()).is_some_and(of_name)
        }
        ("StatefulSet", "PersistentVolumeClaim") => {
            let member = name.rsplit_once('-').filter(|(_, number)| is_number(number)).map(|(member, _)| member);
            member.is_some_and(|member| member.ends_with(&format!("-{}", entry.name)))
        }
        _ => false,
    }
}

/// `Pod default/web-0`
fn key_of(item: &Value) -> String {
    let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
    let kind = item["kind"].as_str().filter(|kind| !kind.is_empty()).unwrap_or("Pod");
    format!("{kind} {}/{}", text("namespace"), text("name"))
}

fn object_kind(document: &Value) -> Option<ObjectKind> {
    [ObjectKind::ConfigMap, ObjectKind::Secret, ObjectKind::Claim]
        .into_iter()
        .find(|kind| document["kind"] == kind.name())
}

/// The content of a manifest file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Good {
    pub units: Vec<Unit>,
}

impl Good {
    pub fn pods(&self) -> impl Iterator<Item = &Arc<Wanted>> {
        self.units.iter().flat_map(|unit| &unit.pods)
    }

    pub fn objects(&self) -> impl Iterator<Item = (&Ref, &Arc<Object>)> {
        self.units.iter().flat_map(|unit| &unit.objects)
    }

    /// The form on the disk: the pod itself if the file has one pod and nothing else, otherwise a list, with the number
    /// of the object (in `units`) that asked for each item. `others` is a list of its own: agents of before know
    /// neither its kinds nor the list.
    pub fn document(&self) -> Value {
        if let [Unit { key, pods, documents, others, .. }] = self.units.as_slice()
            && let ([pod], [], []) = (pods.as_slice(), documents.as_slice(), others.as_slice())
            && *key == key_of(&pod.document)
        {
            return pod.document.clone();
        }
        let (mut items, mut of, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (number, unit) in self.units.iter().enumerate() {
            items.extend(unit.pods.iter().map(|pod| &pod.document).chain(&unit.documents));
            of.resize(items.len(), number);
            others.extend(unit.others.iter().map(|document| json!({"of": number, "document": **document})));
        }
        let units: Vec<&String> = self.units.iter().map(|unit| &unit.key).collect();
        json!({"kind": LIST, "items": items, "of": of, "units": units, "others": others})
    }

    pub fn kept(mut document: Value) -> Result<Good, String> {
        let mut take = |field: &str| document.get_mut(field).and_then(Value::as_array_mut).map(std::mem::take);
        let (items, of, units, others) = (take("items"), take("of"), take("units"), take("others"));
        if document["kind"] != LIST {
            return Ok(Good { units: vec![Unit::guessed(document)?] });
        }
        let items = items.unwrap_or_default();
        let (Some(of), Some(units)) = (of, units) else {
            return Ok(Good { units: items.into_iter().map(Unit::guessed).collect::<Result<_, _>>()? });
        };
        let mut given: Vec<Given> = units.iter().map(|_| Given::default()).collect();
        let number = |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok());
        for (item, of) in items.into_iter().zip(&of) {
            let Some(unit) = number(of).and_then(|of| given.get_mut(of)) else { continue };
            if object_kind(&item).is_some() { unit.objects.push(item) } else { unit.pods.push(item) }
        }
        for mut other in others.into_iter().flatten() {
            let unit = number(&other["of"]).and_then(|of| given.get_mut(of));
            unit.into_iter().for_each(|unit| unit.objects.push(other["document"].take()));
        }
        let key = |key: &Value| key.as_str().unwrap_or_default().to_owned();
        let units = units.iter().zip(given).map(|(name, given)| Unit::new(key(name), given));
        Ok(Good { units: units.collect::<Result<_, _>>()? })
    }
}

/// What a reading of a file has come to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Renewed {
    pub good: Good,
    /// Objects that are refused, and whether the last good version of each goes on.
    pub refused: Vec<(Fault, bool)>,
    pub warnings: Vec<Fault>,
    /// An object that may ask for pods is refused, and was never read well.
    pub lacks: bool,
}

/// The objects of a file. A refused object keeps its last good version.
pub(super) fn renewed(entries: Vec<Entry>, old: Option<&Good>) -> Renewed {
    let mut renewed = Renewed::default();
    let mut refused = Vec::new();
    for mut entry in entries {
        let fault = |text: String| Fault { line: Some(entry.line), object: Some(entry.key()), text };
        renewed.warnings.extend(entry.warnings.iter().cloned().map(fault));
        let given = std::mem::replace(&mut entry.result, Ok(Given::default()));
        match given.and_then(|given| Unit::new(entry.key(), given)) {
            Ok(unit) => renewed.good.units.push(unit),
            Err(why) => refused.push((Fault { line: Some(entry.line), object: Some(entry.key()), text: why }, entry)),
        }
    }
    let mut taken: BTreeSet<String> = renewed.good.pods().map(|pod| pod.name.uid.clone()).collect();
    let mut left: Vec<&Unit> = old.iter().flat_map(|old| &old.units).collect();
    for (fault, entry) in refused {
        let (kept, rest): (Vec<&Unit>, Vec<&Unit>) = left.into_iter().partition(|unit| unit.is_of(&entry));
        left = rest;
        let was_good = !kept.is_empty();
        if was_good {
            renewed.good.units.push(together(entry.key(), kept, &mut taken));
        }
        renewed.lacks |= !was_good && entry.may_ask_for_pods();
        renewed.refused.push((fault, was_good));
    }
    renewed
}

/// The units of one object as one, without the pods that another object asks for now.
fn together(key: String, kept: Vec<&Unit>, taken: &mut BTreeSet<String>) -> Unit {
    let mut whole = Unit {
        key,
        pods: Vec::new(),
        objects: BTreeMap::new(),
        others: Vec::new(),
        documents: Vec::new(),
        is_guessed: false,
    };
    for unit in kept {
        whole.pods.extend(unit.pods.iter().filter(|pod| taken.insert(pod.name.uid.clone())).cloned());
        whole.objects.extend(unit.objects.iter().map(|(place, object)| (place.clone(), object.clone())));
        whole.others.extend(unit.others.iter().cloned());
        whole.documents.extend(unit.documents.iter().cloned());
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Value {
        json!({"kind": "Pod", "metadata": {"namespace": "d", "name": name, "uid": name}, "spec": {}})
    }

    fn map(name: &str) -> Value {
        json!({"kind": "ConfigMap", "metadata": {"namespace": "d", "name": name}, "data": {"a": "b"}})
    }

    fn entry(key: &str, result: Result<(Vec<Value>, Vec<Value>), &str>) -> Entry {
        let (kind, name) = key.split_once(' ').unwrap();
        let result = result.map(|(pods, objects)| Given { pods, objects }).map_err(str::to_owned);
        let (kind, namespace, name) = (kind.to_owned(), "d".to_owned(), name.to_owned());
        Entry { kind, namespace, name, line: 1, warnings: Vec::new(), result }
    }

    fn names(good: &Good) -> Vec<&str> {
        good.pods().map(|pod| pod.name.name.as_str()).collect()
    }

    fn of_entries(entries: Vec<Entry>) -> Good {
        renewed(entries, None).good
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let job = json!({"kind": "CronJob", "metadata": {"namespace": "d", "name": "j"}});
        let check = |entries: Vec<Entry>, form: &str| {
            let good = of_entries(entries);
            assert_eq!(good.document()["kind"], form);
            assert_eq!(Good::kept(good.document()).unwrap(), good);
        };
        check(vec![entry("Pod a", Ok((vec![pod("a")], vec![])))], "Pod");
        check(vec![entry("Deployment a", Ok((vec![pod("a-0")], vec![])))], LIST);
        check(vec![entry("Deployment a", Ok((vec![], vec![])))], LIST);
        check(
            vec![
                entry("Deployment a", Ok((vec![pod("a-0"), pod("a-1")], vec![]))),
                entry("ConfigMap m", Ok((vec![], vec![map("m")]))),
                entry("CronJob j", Ok((vec![], vec![job]))),
            ],
            LIST,
        );
    }

    #[test]
    fn a_refused_object_goes_on_and_the_others_are_taken() {
        let of = |name: &str, count: usize| {
            let pods = (0..count).map(|number| pod(&format!("{name}-{number}"))).collect();
            entry(&format!("Deployment {name}"), Ok((pods, vec![])))
        };
        let old = of_entries(vec![of("a", 2), of("b", 1), of("c", 1)]);
        let refused = |key: &str| entry(key, Err("no"));
        let check = |entries: Vec<Entry>, expected: &[&str], goes_on: &[bool], lacks: bool| {
            let new = renewed(entries, Some(&old));
            assert_eq!(names(&new.good), expected);
            assert_eq!(new.refused.iter().map(|(_, goes_on)| *goes_on).collect::<Vec<_>>(), goes_on);
            assert_eq!(new.lacks, lacks);
        };
        check(
            vec![refused("Deployment a"), of("b", 2), of("c", 1)],
            &["b-0", "b-1", "c-0", "a-0", "a-1"],
            &[true],
            false,
        );
        // One that is gone from a file that parses is absent; one that is refused is not.
        check(vec![refused("Deployment a"), refused("Deployment b")], &["a-0", "a-1", "b-0"], &[true, true], false);
        check(vec![refused("Deployment x"), of("b", 1)], &["b-0"], &[false], true);
        check(vec![refused("Ingress a"), of("b", 1)], &["b-0"], &[false], false);
        let twice = vec![refused("Deployment a"), refused("Deployment a")];
        check(twice, &["a-0", "a-1"], &[true, false], true);
        // Nobody runs one pod twice.
        let mut other = of("x", 0);
        other.result = Ok(Given { pods: vec![pod("a-1")], objects: vec![] });
        check(vec![refused("Deployment a"), other], &["a-1", "a-0"], &[true], false);
    }

    #[test]
    fn what_an_older_agent_kept_is_of_the_object_whose_name_fits() {
        let claim = |name: &str| {
            let meta = json!({"namespace": "d", "name": name});
            json!({"kind": "PersistentVolumeClaim", "metadata": meta, "directory": "x"})
        };
        let items =
            vec![pod("web-0"), pod("web-1"), pod("web-x"), pod("db-0"), pod("one"), claim("data-db-0"), map("m")];
        let old = Good::kept(json!({"kind": LIST, "items": items})).unwrap();
        let check = |keys: &[&str], pods: &[&str], objects: usize| {
            let entries = keys.iter().map(|key| entry(key, Err("spec.x: unknown"))).collect();
            let new = renewed(entries, Some(&old));
            assert_eq!((names(&new.good), new.good.objects().count()), (pods.to_vec(), objects), "{keys:?}");
            assert!(new.refused.iter().all(|(_, goes_on)| *goes_on) && !new.lacks, "{keys:?}");
            let again = Good::kept(new.good.document()).unwrap();
            assert_eq!(again, new.good);
        };
        check(&["Deployment web"], &["web-0", "web-1"], 0);
        check(&["Job web", "Pod web-x"], &["web-0", "web-1", "web-x"], 0);
        check(&["StatefulSet db", "ConfigMap m"], &["db-0"], 2);
        check(&["DaemonSet one"], &["one"], 0);
        let alone = Good::kept(pod("web-0")).unwrap();
        let new = renewed(vec![entry("Deployment web", Err("no"))], Some(&alone));
        assert_eq!(names(&new.good), ["web-0"]);
    }
}
