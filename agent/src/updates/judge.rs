//! Which pods an update is about, what their containers run, and how far an update is. PURE.

use std::collections::BTreeSet;

use serde_json::Value;

use super::record::Record;
use crate::facts::members::MemberKind;
use crate::facts::naming::{SANDBOX, Source};
use crate::facts::seen::{self, Run};
use crate::facts::shown::Shown;
use crate::facts::wanted::Wanted;
use crate::plan::images::is_reference;

/// A container of a pod with the image that it runs, or ran last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub container: String,
    pub reference: String,
    /// The engine's id. None: no start of it is here.
    pub id: Option<String>,
    pub runs: bool,
    pub never_pulls: bool,
}

impl Running {
    /// A name that always means the same image.
    pub fn is_fixed(&self) -> bool {
        self.reference.contains('@') || self.reference.starts_with("sha256:")
    }
}

/// The uids of the pods that a name of the command line means, in the order of their names. `name`: a pod's, in the API
/// or in its file, or a workload's, with or without its kind.
pub fn pods(shown: &Shown, node_name: &str, namespace: &str, name: &str) -> Result<Vec<String>, String> {
    let (kind, plain) = match name.split_once('/') {
        Some((kind, plain)) => (Some(kind_of(kind)?), plain),
        None => (None, name),
    };
    let mut here: Vec<&Wanted> =
        shown.desired.pods.values().map(AsRef::as_ref).filter(|wanted| wanted.name.namespace == namespace).collect();
    here.sort_by(|one, other| one.name.cmp(&other.name));
    let mut found: Vec<&Wanted> = Vec::new();
    if kind.is_none_or(|kind| kind == "Pod") {
        let of_file = plain.strip_suffix(node_name).and_then(|rest| rest.strip_suffix('-'));
        let in_api = |wanted: &&Wanted| match wanted.name.source {
            Source::File => of_file == Some(wanted.name.name.as_str()),
            Source::Master => wanted.name.name == plain,
        };
        found = here.iter().copied().filter(in_api).collect();
        if found.is_empty() {
            found = here.iter().copied().filter(|wanted| wanted.name.name == plain).collect();
        }
    }
    if found.is_empty() && kind != Some("Pod") {
        found = here.iter().copied().filter(|wanted| is_of(wanted, kind, plain)).collect();
    }
    if found.is_empty() {
        return Err(format!("there is no pod of {name} in namespace {namespace} on this host"));
    }
    Ok(found.into_iter().map(|wanted| wanted.name.uid.clone()).collect())
}

fn kind_of(word: &str) -> Result<&'static str, String> {
    Ok(match word.to_lowercase().as_str() {
        "pod" | "pods" | "po" => "Pod",
        "deployment" | "deployments" | "deploy" => "Deployment",
        "replicaset" | "replicasets" | "rs" => "ReplicaSet",
        "statefulset" | "statefulsets" | "sts" => "StatefulSet",
        "daemonset" | "daemonsets" | "ds" => "DaemonSet",
        "job" | "jobs" | "cronjob" | "cronjobs" | "cj" => {
            return Err(format!(
                "{word}: each run of a Job starts anew, and takes the newest image of this host by itself"
            ));
        }
        _ => {
            return Err(format!(
                "{word}: only pods, deployments, replicasets, statefulsets and daemonsets are updated"
            ));
        }
    })
}

/// Whether a workload of that name made the pod. A pod of a file tells by its name alone.
fn is_of(wanted: &Wanted, kind: Option<&str>, workload: &str) -> bool {
    let numbered = |text: &str| text.strip_prefix(workload).and_then(|rest| rest.strip_prefix('-')).map(str::to_owned);
    if wanted.name.source == Source::File {
        let is_number = |rest: String| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        return numbered(&wanted.name.name).is_some_and(is_number) || kind.is_some() && wanted.name.name == workload;
    }
    let owners = wanted.document["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().filter(|owner| owner["controller"] == true).any(|owner| {
        let (of, name) = (owner["kind"].as_str().unwrap_or_default(), owner["name"].as_str().unwrap_or_default());
        let hash = wanted.document["metadata"]["labels"]["pod-template-hash"].as_str();
        let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
        match kind {
            Some("Deployment") => of == "ReplicaSet" && deployment == Some(workload),
            Some(kind) => of == kind && name == workload,
            None => of != "Job" && (name == workload || deployment == Some(workload)),
        }
    })
}

/// The containers of a pod but for ephemeral ones.
pub fn running(shown: &Shown, wanted: &Wanted) -> Vec<Running> {
    let pods = seen::group(&shown.world.containers);
    let runs: &[Run<'_>] = pods.get(&wanted.name.uid).map_or(&[], |pod| &pod.runs);
    let own = wanted.members().filter(|member| member.kind != MemberKind::Ephemeral);
    own.map(|member| {
        let newest = seen::of(runs, &member.spec.name).next();
        Running {
            container: member.spec.name.clone(),
            reference: member.spec.image.clone(),
            id: newest.map(|run| run.seen.image_id.clone()).filter(|id| !id.is_empty()),
            runs: newest.is_some_and(|run| run.seen.lives()),
            never_pulls: member.spec.image_pull_policy == "Never",
        }
    })
    .collect()
}

/// Why the pod cannot be updated now.
pub fn refusal(shown: &Shown, wanted: &Wanted) -> Option<String> {
    let status = shown.statuses.get(&wanted.name.uid).unwrap_or(&Value::Null);
    let ended = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")) || shown.world.has_ended(wanted);
    if wanted.pod.metadata.deletion_timestamp.is_some() {
        return Some("it is being deleted".to_owned());
    }
    if ended {
        return Some("it has ended, and does not start again".to_owned());
    }
    if wanted.refused.is_some() {
        return Some(
            "it is not started, because it asks for something that is not supported: coracle status".to_owned(),
        );
    }
    let wrong = wanted.members().find(|member| !is_reference(&member.spec.image));
    wrong.map(|member| format!("{:?} is no name of an image", member.spec.image))
}

/// The newest attempt number of the pod's sandboxes.
pub fn sandbox(shown: &Shown, uid: &str) -> Option<u32> {
    let pods = seen::group(&shown.world.containers);
    pods.get(uid)?.runs.iter().map(|run| run.tag.sandbox).max()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The pod is gone, or asks for other images by now.
    Over(String),
    /// With the engine's ids of its containers: the same for a while, it is ready.
    Ready(BTreeSet<String>),
    Not(String),
}

pub fn progress(record: &Record, uid: &str, shown: &Shown) -> Progress {
    let Some(wanted) = shown.desired.pods.get(uid) else {
        // Unknown is not absent.
        let is_unknown = record.source().is_none_or(|source| shown.desired.unknown.contains(&source));
        let text =
            if is_unknown { "it is not known yet whether the pod is wanted" } else { "the pod is gone" }.to_owned();
        return if is_unknown { Progress::Not(text) } else { Progress::Over(text) };
    };
    if !record.fits(wanted) {
        return Progress::Over("the pod was edited meanwhile".to_owned());
    }
    let pods = seen::group(&shown.world.containers);
    let runs: &[Run<'_>] = pods.get(uid).map_or(&[], |pod| &pod.runs);
    let mut ids = BTreeSet::new();
    for member in wanted.members().filter(|member| matches!(member.kind, MemberKind::Main | MemberKind::Sidecar)) {
        let name = &member.spec.name;
        let run = seen::of(runs, name).next().filter(|run| run.tag.sandbox >= record.sandbox && run.seen.lives());
        let Some(run) = run else { return Progress::Not(why(shown, uid, name, record.sandbox)) };
        if let Some(exchange) = record.containers.get(name)
            && run.seen.image_id != record.id_of(exchange)
        {
            return Progress::Not(format!("container {name} runs from another image"));
        }
        ids.insert(run.seen.id.clone());
    }
    let status = shown.statuses.get(uid).unwrap_or(&Value::Null);
    let conditions = status["conditions"].as_array();
    let ready = conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True");
    if !ready {
        let unready = status["containerStatuses"].as_array().into_iter().flatten().find(|one| one["ready"] != true);
        let name = unready.and_then(|one| one["name"].as_str()).unwrap_or(SANDBOX);
        return Progress::Not(why(shown, uid, name, record.sandbox));
    }
    Progress::Ready(ids)
}

/// Why a container is not ready, in words. `sandbox`: what ended in an earlier one was ended by the update itself.
fn why(shown: &Shown, uid: &str, container: &str, sandbox: u32) -> String {
    let pods = seen::group(&shown.world.containers);
    let runs: &[Run<'_>] = pods.get(uid).map_or(&[], |pod| &pod.runs);
    let again = seen::of(runs, container).filter(|run| run.tag.sandbox >= sandbox).nth(1).is_some();
    let status = shown.statuses.get(uid).unwrap_or(&Value::Null);
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists.iter().flat_map(|list| status[list].as_array().into_iter().flatten());
    let own = all.find(|one| one["name"] == container).unwrap_or(&Value::Null);
    let failed = |part: &Value| {
        let code = part["terminated"]["exitCode"].as_i64().filter(|code| *code != 0)?;
        let words = [part["terminated"]["reason"].as_str(), part["terminated"]["message"].as_str()];
        let words: Vec<&str> = words.into_iter().flatten().filter(|word| !word.is_empty()).collect();
        Some(format!("container {container} ended with exit code {code} ({})", words.join(": ")))
    };
    let waits = own["state"]["waiting"]["message"].as_str().filter(|text| !text.is_empty());
    let note = shown.waits.get(uid).and_then(|waits| waits.pod.as_ref()).map(|waiting| waiting.message.clone());
    failed(&own["state"])
        .or_else(|| failed(&own["lastState"]).filter(|_| again))
        .or_else(|| waits.map(|text| format!("container {container} waits: {text}")))
        .or(note.filter(|note| !note.is_empty()))
        .unwrap_or_else(|| format!("container {container} is not ready"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn shown(pods: &[(Source, &str, Value)]) -> Shown {
        let mut shown = Shown::default();
        for (source, name, more) in pods {
            let mut document = json!({"metadata": {"namespace": "default", "name": name, "uid": name},
                "spec": {"containers": [{"name": "c", "image": "x:1"}]}});
            for (key, value) in more.as_object().into_iter().flatten() {
                document["metadata"][key] = value.clone();
            }
            let wanted = Wanted::new(*source, document).unwrap();
            Arc::make_mut(&mut shown.desired).pods.insert((*name).to_owned(), Arc::new(wanted));
        }
        shown
    }

    #[test]
    fn pods_and_workloads_by_name() {
        let owned = |kind: &str, name: &str| {
            json!({"ownerReferences": [{"kind": kind, "name": name, "controller": true}],
                "labels": {"pod-template-hash": "5d4"}})
        };
        let shown = shown(&[
            (Source::File, "web", json!({})),
            (Source::File, "shop-0", json!({})),
            (Source::File, "shop-1", json!({})),
            (Source::File, "shop-db", json!({})),
            (Source::Master, "api-5d4-abc", owned("ReplicaSet", "api-5d4")),
            (Source::Master, "api-5d4-abd", owned("ReplicaSet", "api-5d4")),
            (Source::Master, "db-0", owned("StatefulSet", "db")),
            (Source::Master, "run-x", owned("Job", "run")),
        ]);
        let check = |name: &str, expected: &[&str]| {
            let found = pods(&shown, "n1", "default", name);
            assert_eq!(found, Ok(expected.iter().map(|uid| (*uid).to_owned()).collect()), "{name}");
        };
        check("web", &["web"]);
        check("web-n1", &["web"]);
        check("pod/web", &["web"]);
        check("shop", &["shop-0", "shop-1"]);
        check("deployment/shop", &["shop-0", "shop-1"]);
        check("api", &["api-5d4-abc", "api-5d4-abd"]);
        check("deploy/api", &["api-5d4-abc", "api-5d4-abd"]);
        check("rs/api-5d4", &["api-5d4-abc", "api-5d4-abd"]);
        check("sts/db", &["db-0"]);
        check("db", &["db-0"]);
        check("api-5d4-abc", &["api-5d4-abc"]);
        for (name, why) in [
            ("sts/api", "no pod of sts/api"),
            ("run", "no pod of run"),
            ("cronjob/run", "each run of a Job"),
            ("service/web", "only pods, deployments"),
            ("pod/shop", "no pod of pod/shop"),
        ] {
            let said = pods(&shown, "n1", "default", name).unwrap_err();
            assert!(said.contains(why), "{name}: {said}");
        }
        assert!(pods(&shown, "n1", "other", "web").unwrap_err().contains("in namespace other"));
    }

    #[test]
    fn what_cannot_be_updated() {
        let mut shown = shown(&[(Source::File, "web", json!({}))]);
        let wanted = shown.desired.pods["web"].clone();
        assert_eq!(refusal(&shown, &wanted), None);
        shown.statuses.insert("web".to_owned(), json!({"phase": "Succeeded"}));
        assert!(refusal(&shown, &wanted).unwrap().contains("has ended"));
    }
}
