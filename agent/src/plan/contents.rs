//! The volumes that the agent fills itself: written before the sandbox starts, and again when the content changes.
//! PURE.

use std::collections::BTreeSet;
use std::sync::Arc;

use coracle_api::pod::Volume as PodVolume;

use super::rules::Rule;
use crate::facts::content::POD_BYTES_MAX;
use crate::facts::desired::Desired;
use crate::facts::engine::{NamedVolume, Volume};
use crate::facts::round::{ActionKind, PodPlan};
use crate::facts::waiting::{WaitReason, Waiting};
use crate::facts::world::Node;
use crate::plan::case::PodCase;
use crate::spec::claims;
use crate::spec::projection::{self, Missing, Nested, too_large};
use crate::spec::volumes::{Home, content_dir};

/// The paths that a look has to tell of.
pub fn paths(desired: &Desired, node: &Node) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for wanted in desired.pods.values() {
        let home = Home::of(node, wanted);
        let filled = wanted.pod.spec.volumes.iter().filter(|volume| projection::is_one(volume));
        paths.extend(filled.map(|volume| content_dir(volume, &home)));
    }
    paths
}

/// The pod's volumes, each claim with what it is bound to; None while one is not.
pub fn claimed(pod: PodCase<'_>, part: &mut PodPlan) -> Option<Vec<PodVolume>> {
    match claims::resolve_all(pod.wanted, pod.case.desired) {
        Ok(volumes) => Some(volumes),
        Err(Missing::Asked) => None,
        Err(Missing::Failed(text)) => {
            // A single note covers all claims, as in a kubelet.
            part.waits.notes.insert("claims".to_owned(), Waiting::new(WaitReason::FailedMount, text));
            None
        }
    }
}

/// The volumes to write before the sandbox starts; None while something is missing.
pub fn all(pod: PodCase<'_>, part: &mut PodPlan) -> Option<Vec<NamedVolume>> {
    fill(pod, part, true)
}

/// Brings what a running pod mounts up to date. What is missing by now stays as it is.
pub fn refresh(pod: PodCase<'_>, part: &mut PodPlan) {
    if !pod.case.rules.hold(Rule::ContentsFollow) {
        return;
    }
    let volumes = fill(pod, part, false).unwrap_or_default();
    if !volumes.is_empty() {
        part.act(ActionKind::MakeVolumes { volumes }, "what it mounts has changed");
    }
}

const OF_POD: &str = "with it the pod's volumes of ConfigMaps, Secrets, tokens and fields come to";

/// `anew`: writes all volumes again, because a power cut may have left half-written files.
fn fill(pod: PodCase<'_>, part: &mut PodPlan, anew: bool) -> Option<Vec<NamedVolume>> {
    let PodCase { case, wanted, .. } = pod;
    let node = &case.world.node;
    let home = Home::of(node, wanted);
    let (mut volumes, mut whole, mut bytes, mut nested) = (Vec::new(), true, 0_usize, None);
    for volume in wanted.pod.spec.volumes.iter().filter(|volume| projection::is_one(volume)) {
        let path = content_dir(volume, &home);
        let there = case.world.contents.get(&path);
        let found = projection::look(volume, wanted, case.desired, node).and_then(|found| {
            bytes = bytes.saturating_add(found.bytes);
            if bytes <= POD_BYTES_MAX { Ok(found) } else { Err(Missing::Failed(too_large(OF_POD, POD_BYTES_MAX))) }
        });
        let failed = match found {
            Ok(found) if !anew && there.is_some_and(|there| found.kept || *there == found.stamp) => continue,
            Ok(found) => match found.content(nested.get_or_insert_with(|| Nested::of(&wanted.pod.spec))) {
                Ok(content) => {
                    let content = Volume::Content { path, content: Arc::new(content) };
                    volumes.push(NamedVolume { name: volume.name.clone(), volume: content });
                    continue;
                }
                Err(text) => Some(text),
            },
            Err(Missing::Failed(text)) => Some(text),
            Err(Missing::Asked) => None,
        };
        whole = false;
        if let Some(text) = failed {
            let text = format!("MountVolume.SetUp failed for volume \"{}\" : {text}", volume.name);
            part.waits.notes.insert(format!("volume {}", volume.name), Waiting::new(WaitReason::FailedMount, text));
        }
    }
    (whole || !anew || !case.rules.hold(Rule::ContentsComeFirst)).then_some(volumes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::backoff::Now;
    use crate::facts::desired::Desired;
    use crate::facts::naming::Source;
    use crate::facts::objects::{Object, ObjectKind, Objects, Ref};
    use crate::facts::round::Round;
    use crate::facts::wanted::Wanted;
    use crate::facts::world::World;
    use crate::plan::{Case, Rules, plan};
    use serde_json::{Value, json};

    /// What a plan makes of a pod with these volumes, and what it waits for.
    fn planned(volumes: &Value) -> (Round, Vec<String>) {
        let mut objects = Objects::default();
        let secret = json!({"data": {"k": coracle_schema::base64::encode(&[7; 700_000])}});
        let map = json!({"data": {"small": "x"}});
        for (kind, document) in [(ObjectKind::Secret, secret), (ObjectKind::ConfigMap, map)] {
            let place = Ref { kind, namespace: "n".into(), name: "o".into() };
            objects.known.insert(place, Some(Arc::new(Object::read(kind, &document))));
        }
        let annotation = "x".repeat(200_000);
        let document = json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "u", "annotations": {"a": annotation}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes},
        });
        let wanted = Arc::new(Wanted::new(Source::Master, document).unwrap());
        let pods = [("u".to_owned(), wanted)].into();
        let desired = Desired { objects: Arc::new(objects), pods, ..Desired::default() };
        let (world, now) = (World::default(), Now { wall_ms: 0, mono_ms: 0 });
        let round = plan(Case { desired: &desired, world: &world, now, rules: Rules::default() });
        let notes = round.waits["u"].notes.values();
        let said = notes.filter(|waiting| waiting.reason == WaitReason::FailedMount);
        let said = said.map(|waiting| waiting.message.clone()).collect();
        (round, said)
    }

    fn check(volumes: Value, expected: &[&str]) {
        let (round, said) = planned(&volumes);
        assert_eq!(said.len(), expected.len(), "{said:?}");
        for (text, words) in said.iter().zip(expected) {
            assert!(text.contains(words), "{text}");
        }
        let made = round
            .pods
            .get("u")
            .into_iter()
            .flatten()
            .any(|action| matches!(action.what, ActionKind::MakeVolumes { .. }));
        assert_eq!(made, expected.is_empty(), "its volumes are made all or not at all");
    }

    #[test]
    fn volumes_have_a_budget_each_and_together() {
        let items = |key: &str, count: usize| {
            (0..count).map(|at| json!({"key": key, "path": format!("f{at}")})).collect::<Vec<_>>()
        };
        let secret =
            |name: &str, count: usize| json!({"name": name, "secret": {"secretName": "o", "items": items("k", count)}});
        check(json!([secret("s", 5)]), &[]);
        let large = "MountVolume.SetUp failed for volume \"s\" : its files come to more than 4 MiB";
        check(json!([secret("s", 6)]), &[large]);
        check(json!([secret("s", 12_000)]), &[large]);
        let maps = |count: usize| json!([{"name": "s", "configMap": {"name": "o", "items": items("small", count)}}]);
        check(maps(4096), &[]);
        check(maps(4097), &[large]);
        let sources = vec![json!({"secret": {"name": "o"}}); 6];
        check(json!([{"name": "s", "projected": {"sources": sources}}]), &[large]);
        let field = |at: usize| json!({"path": format!("f{at}"), "fieldRef": {"fieldPath": "metadata.annotations"}});
        let fields =
            |count: usize| json!([{"name": "s", "downwardAPI": {"items": (0..count).map(field).collect::<Vec<_>>()}}]);
        check(fields(20), &[]);
        check(fields(10_000), &[large]);
        let many = |count: usize| (0..count).map(|at| secret(&format!("s{at}"), 5)).collect::<Vec<_>>();
        check(json!(many(4)), &[]);
        let together =
            "volume \"s4\" : with it the pod's volumes of ConfigMaps, Secrets, tokens and fields come to more than 16";
        check(json!(many(5)), &[together]);
    }

    #[test]
    fn the_bytes_of_a_key_are_there_once() {
        let items: Vec<Value> = (0..5).map(|at| json!({"key": "k", "path": format!("f{at}")})).collect();
        let (round, _) = planned(&json!([{"name": "s", "secret": {"secretName": "o", "items": items}}]));
        let volumes = round.pods["u"].iter().find_map(|action| match &action.what {
            ActionKind::MakeVolumes { volumes } => Some(volumes),
            _ => None,
        });
        let contents = volumes.into_iter().flatten().filter_map(|named| match &named.volume {
            Volume::Content { content, .. } => Some(content),
            _ => None,
        });
        let files: Vec<_> = contents.flat_map(|content| &content.files).collect();
        assert_eq!(files.len(), 5);
        assert!(files.iter().all(|file| Arc::ptr_eq(&file.bytes, &files[0].bytes)));
    }

    #[test]
    fn folders_for_what_is_mounted_below() {
        let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
        let document = json!({
            "metadata": {"namespace": "n", "name": "p", "uid": "u"},
            "spec": {
                "containers": [
                    {"name": "c", "volumeMounts": [
                        mount("a", "/a/"), mount("b", "/a/x/y"), mount("c", "/ab"), mount("a", "/a/self"),
                    ]},
                    {"name": "d", "volumeMounts": [mount("a", "/z"), mount("c", "/z/w"), mount("b", "/other")]},
                ],
            },
        });
        let wanted = Wanted::new(Source::Master, document).unwrap();
        assert_eq!(Nested::of(&wanted.pod.spec).below("a"), ["w", "x/y"]);
        assert_eq!(Nested::of(&wanted.pod.spec).below("b"), Vec::<String>::new());
    }
}
