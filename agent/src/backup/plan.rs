//! What a backup copies, which hooks run around each copy, and what is asked for and cannot be had. PURE.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::asked::{self, OfPod, annotations, of_claim, of_pod};
use super::offered::{Offered, OfferedPod, OfferedVolume};

/// A directory that is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copy {
    /// The name of the archive, without its ending.
    pub file: String,
    /// In words: `claim shop/data`.
    pub of: String,
    pub directory: String,
    /// Its files may change meanwhile.
    pub live: bool,
}

/// The hooks of one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    pub namespace: String,
    pub pod: String,
    pub called: String,
    pub container: String,
    pub before: Option<Vec<String>>,
    pub after: Option<Vec<String>>,
    pub timeout: Duration,
}

/// Copies between the hooks of the pods that use their directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub hooks: Vec<Hooks>,
    pub copies: Vec<Copy>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub groups: Vec<Group>,
    /// Asked for, and not to be had: the backup is not whole.
    pub missing: Vec<String>,
    pub notes: Vec<String>,
}

/// `stored`: the claims and volumes of the API, from the backup of the objects. They name the claims that no pod uses.
pub fn plan(offered: &Offered, stored: &[Value]) -> Plan {
    let mut drawn = Drawn::default();
    for pod in &offered.pods {
        drawn.pod(pod);
    }
    drawn.unused_claims(stored, &offered.node);
    drawn.plan()
}

#[derive(Default)]
struct Drawn {
    /// By directory.
    copies: BTreeMap<String, Copy>,
    /// With the directories that each pod uses.
    hooks: Vec<(Hooks, BTreeSet<String>)>,
    /// Claims that were judged: of several pods' claim one word is enough.
    claims: BTreeSet<(String, String)>,
    missing: Vec<String>,
    notes: Vec<String>,
}

impl Drawn {
    fn pod(&mut self, pod: &OfferedPod) {
        let shown = format!("pod {}/{}", pod.namespace, pod.name);
        let asked = match of_pod(&pod.annotations) {
            Ok(asked) => asked,
            Err(why) => return self.missing.push(format!("{shown}: {why}")),
        };
        for name in asked.volumes.iter().filter(|name| !pod.volumes.iter().any(|volume| volume.name == **name)) {
            let names: Vec<&str> = pod.volumes.iter().map(|volume| volume.name.as_str()).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            self.missing.push(format!("{shown}: it has no volume {name:?}; there are: {there}"));
        }
        let mut used = BTreeSet::new();
        for volume in &pod.volumes {
            if self.volume(pod, volume, &asked)
                && let Ok(directory) = &volume.directory
            {
                used.insert(directory.clone());
            }
        }
        if !asked.has_hooks() {
            return;
        }
        if used.is_empty() {
            let why = "its hooks are around no copy: annotate its claim, or name a volume in the pod's";
            return self.missing.push(format!("{shown}: {why} {}", asked::BACKUP));
        }
        if matches!(pod.phase.as_str(), "Succeeded" | "Failed") {
            return self.notes.push(format!("{shown} has ended: its hooks do not run"));
        }
        let container = asked.container.unwrap_or_else(|| pod.container.clone());
        let OfPod { before, after, timeout, .. } = asked;
        let (namespace, called, pod) = (pod.namespace.clone(), pod.called.clone(), pod.name.clone());
        self.hooks.push((Hooks { namespace, pod, called, container, before, after, timeout }, used));
    }

    /// Whether it is asked for.
    fn volume(&mut self, pod: &OfferedPod, volume: &OfferedVolume, asked: &OfPod) -> bool {
        let named = asked.volumes.contains(&volume.name);
        let mut live = asked.live;
        let mut by_claim = false;
        let mut shown = format!("volume {} of pod {}/{}", volume.name, pod.namespace, pod.name);
        let mut file = format!("{}_{}_{}", pod.namespace, pod.name, volume.name);
        if let Some(claim) = &volume.claim {
            shown = format!("claim {}/{}", pod.namespace, claim.name);
            file = format!("{}_{}", pod.namespace, claim.name);
            let is_new = self.claims.insert((pod.namespace.clone(), claim.name.clone()));
            match of_claim(&claim.annotations) {
                Ok(of_claim) => {
                    by_claim = of_claim.asked;
                    live |= of_claim.live;
                }
                Err(why) if is_new => self.missing.push(format!("{shown}: {why}")),
                Err(_) => {}
            }
        }
        if !named && !by_claim {
            return false;
        }
        match &volume.directory {
            Ok(directory) => self.copy(Copy { file, of: shown, directory: directory.clone(), live }),
            Err(why) => {
                let text = format!("{shown}: {why}");
                if !self.missing.contains(&text) {
                    self.missing.push(text);
                }
            }
        }
        true
    }

    fn copy(&mut self, copy: Copy) {
        let live = copy.live;
        self.copies.entry(copy.directory.clone()).or_insert(copy).live |= live;
    }

    /// Claims of the API that no pod of this host has said anything of.
    fn unused_claims(&mut self, stored: &[Value], node: &str) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let volumes: BTreeMap<String, &Value> = stored
            .iter()
            .filter(|one| one["kind"] == "PersistentVolume")
            .map(|one| (text(&one["metadata"]["name"]), &one["spec"]))
            .collect();
        for claim in stored.iter().filter(|one| one["kind"] == "PersistentVolumeClaim") {
            let (namespace, name) = (text(&claim["metadata"]["namespace"]), text(&claim["metadata"]["name"]));
            if !self.claims.insert((namespace.clone(), name.clone())) {
                continue;
            }
            let shown = format!("claim {namespace}/{name}");
            let asked = match of_claim(&annotations(&claim["metadata"])) {
                Ok(asked) => asked,
                Err(why) => {
                    self.missing.push(format!("{shown}: {why}"));
                    continue;
                }
            };
            if !asked.asked {
                continue;
            }
            let bound = text(&claim["spec"]["volumeName"]);
            match volumes.get(&bound) {
                None if bound.is_empty() => {
                    self.notes.push(format!("{shown} has no volume yet: there is nothing to copy"))
                }
                None => self.missing.push(format!("{shown}: its volume {bound} is not among the objects")),
                Some(spec) => match place(spec, node) {
                    Place::Here(directory) => {
                        self.copy(Copy { file: format!("{namespace}_{name}"), of: shown, directory, live: asked.live });
                    }
                    Place::On(other) => self.notes.push(format!("{shown} lies on node {other}: copy it there")),
                    Place::NoDirectory => {
                        self.missing.push(format!("{shown}: its volume {bound} is no directory of a host"))
                    }
                },
            }
        }
    }

    fn plan(mut self) -> Plan {
        let directories: Vec<String> = self.copies.keys().cloned().collect();
        for own in &directories {
            let outer = directories.iter().find(|other| *other != own && Path::new(own).starts_with(other));
            if let Some(outer) = outer
                && let (Some(inner), Some(outer)) = (self.copies.get(own), self.copies.get(outer))
            {
                self.missing.push(format!("{}: it lies in {}, ask for one of them", inner.of, outer.of));
                self.copies.remove(own);
            }
        }
        let mut groups: Vec<(BTreeSet<String>, Vec<Hooks>)> = Vec::new();
        for (hooks, mut used) in self.hooks {
            let mut all = Vec::new();
            // One that shares a directory with several brings them together.
            groups.retain_mut(|(others, theirs)| {
                let shares = !others.is_disjoint(&used);
                if shares {
                    used.append(others);
                    all.append(theirs);
                }
                !shares
            });
            all.push(hooks);
            groups.push((used, all));
        }
        let mut copies = self.copies;
        let mut made: Vec<Group> = groups
            .into_iter()
            .map(|(used, hooks)| Group {
                hooks,
                copies: used.iter().filter_map(|directory| copies.remove(directory)).collect(),
            })
            .collect();
        made.extend(copies.into_values().map(|copy| Group { hooks: Vec::new(), copies: vec![copy] }));
        Plan { groups: made, missing: self.missing, notes: self.notes }
    }
}

enum Place {
    Here(String),
    On(String),
    NoDirectory,
}

fn place(spec: &Value, node: &str) -> Place {
    let Some(path) = spec["hostPath"]["path"].as_str().or_else(|| spec["local"]["path"].as_str()) else {
        return Place::NoDirectory;
    };
    let terms = spec["nodeAffinity"]["required"]["nodeSelectorTerms"].as_array().into_iter().flatten();
    let rules = terms.flat_map(|term| term["matchExpressions"].as_array().into_iter().flatten());
    let hosts: Vec<&str> = rules
        .filter(|rule| rule["key"] == "kubernetes.io/hostname" && rule["operator"] == "In")
        .flat_map(|rule| rule["values"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    match hosts.first() {
        Some(other) if !hosts.contains(&node) => Place::On((*other).to_owned()),
        _ => Place::Here(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::asked::Annotations;
    use super::super::offered::OfferedClaim;
    use super::*;
    use serde_json::json;

    fn notes(text: &str) -> Annotations {
        let pairs = text.split(';').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(key, value)| (format!("{}{key}", asked::BACKUP), value.into()))
            .collect()
    }

    /// `VOLUME` or `VOLUME:CLAIM`, `@` and the annotations of the claim.
    fn pod(name: &str, annotations: &str, volumes: &[&str]) -> OfferedPod {
        let volumes = volumes.iter().map(|text| {
            let (text, of_claim) = text.split_once('@').unwrap_or((text, ""));
            let (name, claim) = text.split_once(':').map_or((text, None), |(name, claim)| (name, Some(claim)));
            let directory = Ok(format!("/v/{}", claim.unwrap_or(name)));
            let claim = claim.map(|name| OfferedClaim { name: name.into(), annotations: notes(of_claim) });
            OfferedVolume { name: name.into(), claim, directory }
        });
        OfferedPod {
            namespace: "n".into(),
            name: name.into(),
            called: format!("{name}-n1"),
            phase: "Running".into(),
            container: "main".into(),
            annotations: notes(annotations),
            volumes: volumes.collect(),
        }
    }

    /// Groups as `hooks:copies`, and a word of each thing that is missing.
    fn check(why: &str, pods: Vec<OfferedPod>, stored: &[Value], groups: &[&str], missing: &[&str]) -> Plan {
        let found = plan(&Offered { node: "n1".into(), pods }, stored);
        let shown: Vec<String> = found
            .groups
            .iter()
            .map(|group| {
                let hooks: Vec<&str> = group.hooks.iter().map(|hooks| hooks.pod.as_str()).collect();
                let copies: Vec<&str> = group.copies.iter().map(|copy| copy.file.as_str()).collect();
                format!("{}:{}", hooks.join("+"), copies.join("+"))
            })
            .collect();
        assert_eq!(shown, groups, "{why}");
        assert_eq!(found.missing.len(), missing.len(), "{why}: {:?}", found.missing);
        for (text, word) in found.missing.iter().zip(missing) {
            assert!(text.contains(word), "{why}: {text}");
        }
        found
    }

    #[test]
    fn what_pods_ask_for() {
        check("nothing", vec![pod("a", "", &["d:c", "e"])], &[], &[], &[]);
        check("a claim", vec![pod("a", "", &["d:c@=true", "e"])], &[], &[":n_c"], &[]);
        check("volumes by name", vec![pod("a", "=d, e", &["d:c", "e", "f"])], &[], &[":n_c", ":n_a_e"], &[]);
        check("by both", vec![pod("a", "=d", &["d:c@=true"])], &[], &[":n_c"], &[]);
        check("of a hook", vec![pod("a", "-before=x", &["d:c@=true"])], &[], &["a:n_c"], &[]);
        check("no such volume", vec![pod("a", "=x", &["d"])], &[], &[], &["it has no volume \"x\"; there are: d"]);
        check(
            "a bad pod",
            vec![pod("a", "-befor=x", &["d:c@=true"])],
            &[],
            &[],
            &["pod n/a: coracle.dev/backup-befor"],
        );
        check("a bad claim", vec![pod("a", "", &["d:c@=x"]), pod("b", "", &["d:c@=x"])], &[], &[], &["claim n/c: "]);
        check("a hook of nothing", vec![pod("a", "-after=x", &["d"])], &[], &[], &["around no copy"]);
        let mut emptied = pod("a", "=d;-before=x", &["d", "e:c@=true"]);
        emptied.volumes[0].directory = Err("it is an emptyDir".into());
        check("no directory", vec![emptied], &[], &["a:n_c"], &["volume d of pod n/a: it is an emptyDir"]);
    }

    #[test]
    fn pods_that_share_a_directory_are_stopped_together() {
        let hook = "-before=x";
        let shared = |name: &str, volumes: &[&str]| pod(name, hook, volumes);
        check("apart", vec![shared("a", &["d:c@=true"]), shared("b", &["d:k@=true"])], &[], &["a:n_c", "b:n_k"], &[]);
        check("together", vec![shared("a", &["d:c@=true"]), shared("b", &["d:c@=true"])], &[], &["a+b:n_c"], &[]);
        let chain =
            vec![shared("a", &["d:c@=true"]), shared("b", &["d:k@=true"]), shared("x", &["d:c@=true", "e:k@=true"])];
        check("a chain", chain, &[], &["a+b+x:n_c+n_k"], &[]);
        let without = vec![shared("a", &["d:c@=true"]), pod("b", "", &["d:c@=true"])];
        check("one has no hook", without, &[], &["a:n_c"], &[]);
        let mut ended = shared("a", &["d:c@=true"]);
        ended.phase = "Succeeded".into();
        let found = check("ended", vec![ended], &[], &[":n_c"], &[]);
        assert!(found.notes[0].contains("has ended"), "{:?}", found.notes);
    }

    #[test]
    fn files_that_may_change() {
        let live = |pods: Vec<OfferedPod>| {
            plan(&Offered { node: "n1".into(), pods }, &[])
                .groups
                .iter()
                .flat_map(|one| one.copies.clone())
                .map(|copy| copy.live)
                .collect::<Vec<_>>()
        };
        assert_eq!(live(vec![pod("a", "=e", &["d:c@=true", "e"])]), [false, false]);
        assert_eq!(live(vec![pod("a", "=e", &["d:c@=true;-live=true", "e"])]), [true, false]);
        assert_eq!(live(vec![pod("a", "=e;-live=true", &["e"])]), [true]);
    }

    fn stored(name: &str, annotations: &[(&str, &str)], node: &str) -> [Value; 2] {
        let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
        let rule = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        [
            json!({"kind": "PersistentVolumeClaim", 
                "metadata": {"namespace": "n", "name": name, "annotations": annotations},
                "spec": {"volumeName": format!("pv-{name}")}}),
            json!({"kind": "PersistentVolume", "metadata": {"name": format!("pv-{name}")}, "spec": {
                "hostPath": {"path": format!("/v/{name}")},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}}}),
        ]
    }

    #[test]
    fn claims_that_no_pod_uses() {
        let yes = [("coracle.dev/backup", "true")];
        check("asked", vec![], &stored("c", &yes, "n1"), &[":n_c"], &[]);
        check("not asked", vec![], &stored("c", &[], "n1"), &[], &[]);
        check("told by a pod", vec![pod("a", "", &["d:c@=true"])], &stored("c", &yes, "n1"), &[":n_c"], &[]);
        let far = check("elsewhere", vec![], &stored("c", &yes, "n2"), &[], &[]);
        assert!(far.notes[0].contains("lies on node n2"), "{:?}", far.notes);
        check("no volume", vec![], &stored("c", &yes, "n1")[..1], &[], &["its volume pv-c is not among the objects"]);
        let mut unbound = stored("c", &yes, "n1");
        unbound[0]["spec"] = json!({});
        assert_eq!(check("unbound", vec![], &unbound, &[], &[]).notes.len(), 1);
        let mut share = stored("c", &yes, "n1");
        share[1]["spec"] = json!({"nfs": {}});
        check("a share", vec![], &share, &[], &["is no directory of a host"]);
        check("a bad one", vec![], &stored("c", &[("coracle.dev/backup", "yes")], "n1"), &[], &["neither"]);
    }

    #[test]
    fn a_directory_in_another_is_copied_once() {
        let mut inner = pod("a", "=d,e", &["d", "e"]);
        inner.volumes[1].directory = Ok("/v/d/in".into());
        check("nested", vec![inner], &[], &[":n_a_d"], &["it lies in volume d of pod n/a"]);
    }
}
