//! The verdict on each field of a pod: acted on, harmless, or refused by name. Nothing asked for is silently ignored.
//! PURE.
//!
//! The agent goes by it, and the master says it to whoever writes a pod that no agent would start.
//!
//! A row covers its field and, where no row is longer, all below it. A test walks the types of the API and fails if a
//! field of a pod's spec has no row.

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The agent implements this field.
    Acted,
    /// Changes nothing about the containers, or is somebody else's to act on. The row says why.
    Harmless(&'static str),
    /// A pod that asks for it is not started. The row says why.
    Refused(&'static str),
    /// These values ask for what is done anyway; any other is refused, and the row says why.
    Only(&'static [&'static str], &'static str),
    /// Of a map, these keys are acted on; any other is refused.
    Keys(&'static [&'static str]),
}

use Verdict::{Acted, Harmless, Keys, Only, Refused};

const FOR_SCHEDULERS: Verdict = Harmless("the scheduler's to act on");
const ACCOUNTS: Verdict = Harmless("the master's to act on: it adds the volume of the token");

const NO_DRA: &str = "dynamic resource allocation needs drivers of devices, and none runs here";
const NO_WINDOWS: &str = "every host here runs Linux";
const NOT_EPHEMERAL: &str = "Kubernetes has it of no ephemeral container";

/// Of a container, for itself.
const AMOUNTS: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.hugepages-1Gi",
    "limits.hugepages-2Mi",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.hugepages-1Gi",
    "requests.hugepages-2Mi",
    "requests.memory",
];
const MEDIA: &[&str] = &["HugePages", "HugePages-1Gi", "HugePages-2Mi", "Memory"];

const EPHEMERAL: &str = "ephemeralContainers";
const INIT: &str = "initContainers";

/// Fields that a warning names; the others are counted.
const WARNED_MAX: usize = 8;

/// `[]` stands for each entry of a list.
pub const TABLE: &[(&str, Verdict)] = &[
    ("activeDeadlineSeconds", Acted),
    ("affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", FOR_SCHEDULERS),
    ("affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", Acted),
    ("affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution", FOR_SCHEDULERS),
    ("affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution", FOR_SCHEDULERS),
    ("affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution", FOR_SCHEDULERS),
    ("affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution", FOR_SCHEDULERS),
    ("automountServiceAccountToken", ACCOUNTS),
    ("containers[].args", Acted),
    ("containers[].command", Acted),
    ("containers[].envFrom", Acted),
    ("containers[].env[].name", Acted),
    ("containers[].env[].value", Acted),
    ("containers[].env[].valueFrom", Refused("no such source is known")),
    ("containers[].env[].valueFrom.configMapKeyRef", Acted),
    ("containers[].env[].valueFrom.fieldRef", Acted),
    ("containers[].env[].valueFrom.fileKeyRef", Acted),
    ("containers[].env[].valueFrom.resourceFieldRef", Acted),
    ("containers[].env[].valueFrom.resourceFieldRef.resource", Only(AMOUNTS, "no such amount is known of a container")),
    ("containers[].env[].valueFrom.secretKeyRef", Acted),
    ("containers[].image", Acted),
    ("containers[].imagePullPolicy", Acted),
    ("containers[].lifecycle.postStart.exec", Acted),
    ("containers[].lifecycle.postStart.httpGet", Acted),
    ("containers[].lifecycle.postStart.sleep", Acted),
    ("containers[].lifecycle.postStart.tcpSocket", Acted),
    ("containers[].lifecycle.preStop.exec", Acted),
    ("containers[].lifecycle.preStop.httpGet", Acted),
    ("containers[].lifecycle.preStop.sleep", Acted),
    ("containers[].lifecycle.preStop.tcpSocket", Acted),
    ("containers[].lifecycle.stopSignal", Acted),
    ("containers[].livenessProbe", Acted),
    ("containers[].name", Acted),
    ("containers[].ports[].containerPort", Acted),
    ("containers[].ports[].hostIP", Acted),
    ("containers[].ports[].hostPort", Acted),
    ("containers[].ports[].name", Acted),
    ("containers[].ports[].protocol", Only(&["TCP", "UDP"], "no rule for SCTP leads to pods")),
    ("containers[].readinessProbe", Acted),
    ("containers[].resizePolicy", Acted),
    ("containers[].resources.claims", Refused(NO_DRA)),
    ("containers[].resources.limits", Acted),
    ("containers[].resources.requests", Acted),
    ("containers[].restartPolicy", Acted),
    ("containers[].restartPolicyRules", Acted),
    (
        "containers[].restartPolicyRules[].action",
        Only(&["Restart", "RestartAllContainers"], "there is no other action"),
    ),
    ("containers[].securityContext.allowPrivilegeEscalation", Acted),
    ("containers[].securityContext.appArmorProfile", Acted),
    ("containers[].securityContext.capabilities.add", Acted),
    ("containers[].securityContext.capabilities.drop", Acted),
    ("containers[].securityContext.privileged", Acted),
    ("containers[].securityContext.procMount", Acted),
    ("containers[].securityContext.readOnlyRootFilesystem", Acted),
    ("containers[].securityContext.runAsGroup", Acted),
    ("containers[].securityContext.runAsNonRoot", Acted),
    ("containers[].securityContext.runAsUser", Acted),
    ("containers[].securityContext.seLinuxOptions", Acted),
    ("containers[].securityContext.seccompProfile", Acted),
    ("containers[].securityContext.windowsOptions", Refused(NO_WINDOWS)),
    ("containers[].startupProbe", Acted),
    ("containers[].stdin", Acted),
    ("containers[].stdinOnce", Acted),
    ("containers[].terminationMessagePath", Acted),
    ("containers[].terminationMessagePolicy", Acted),
    ("containers[].tty", Acted),
    ("containers[].volumeDevices", Refused("claims are bound to directories and exports, never to raw devices")),
    ("containers[].volumeMounts[].mountPath", Acted),
    ("containers[].volumeMounts[].mountPropagation", Acted),
    ("containers[].volumeMounts[].name", Acted),
    ("containers[].volumeMounts[].readOnly", Acted),
    ("containers[].volumeMounts[].recursiveReadOnly", Acted),
    ("containers[].volumeMounts[].subPath", Acted),
    ("containers[].volumeMounts[].subPathExpr", Acted),
    ("containers[].workingDir", Acted),
    ("dnsConfig", Acted),
    ("dnsPolicy", Acted),
    ("enableServiceLinks", Acted),
    // Fields of ephemeral containers follow the rows of `containers`, except the rows below. A refused field stops only
    // the ephemeral container.
    ("ephemeralContainers", Acted),
    ("ephemeralContainers[].lifecycle", Refused(NOT_EPHEMERAL)),
    ("ephemeralContainers[].livenessProbe", Refused(NOT_EPHEMERAL)),
    ("ephemeralContainers[].ports", Refused(NOT_EPHEMERAL)),
    ("ephemeralContainers[].readinessProbe", Refused(NOT_EPHEMERAL)),
    ("ephemeralContainers[].resizePolicy", Refused(NOT_EPHEMERAL)),
    ("ephemeralContainers[].resources", Refused(NOT_EPHEMERAL)),
    ("ephemeralContainers[].startupProbe", Refused(NOT_EPHEMERAL)),
    ("ephemeralContainers[].targetContainerName", Acted),
    ("hostAliases", Acted),
    ("hostIPC", Acted),
    ("hostNetwork", Acted),
    ("hostPID", Acted),
    ("hostUsers", Only(&["true"], "the engine maps users for all containers or for none")),
    ("hostname", Acted),
    ("hostnameOverride", Acted),
    ("imagePullSecrets", Acted),
    // The rows of `containers` hold for the fields of init containers too.
    ("initContainers", Acted),
    ("nodeName", FOR_SCHEDULERS),
    ("nodeSelector", Acted),
    ("os.name", Acted),
    ("overhead", Acted),
    ("preemptionPolicy", FOR_SCHEDULERS),
    ("priority", Acted),
    ("priorityClassName", FOR_SCHEDULERS),
    ("readinessGates", Acted),
    ("resourceClaims", Refused(NO_DRA)),
    ("resources.claims", Refused(NO_DRA)),
    ("resources.limits", Acted),
    ("resources.requests", Acted),
    ("restartPolicy", Acted),
    ("runtimeClassName", Acted),
    ("schedulerName", FOR_SCHEDULERS),
    ("schedulingGates", FOR_SCHEDULERS),
    ("schedulingGroup", Refused("its gate is off in Kubernetes 1.36: no group is scheduled as one")),
    ("securityContext.appArmorProfile", Acted),
    ("securityContext.fsGroup", Acted),
    ("securityContext.fsGroupChangePolicy", Acted),
    ("securityContext.runAsGroup", Acted),
    ("securityContext.runAsNonRoot", Acted),
    ("securityContext.runAsUser", Acted),
    ("securityContext.seLinuxChangePolicy", Harmless("says how volumes get labels, and none are relabelled")),
    ("securityContext.seLinuxOptions", Acted),
    ("securityContext.seccompProfile", Acted),
    ("securityContext.supplementalGroups", Acted),
    ("securityContext.supplementalGroupsPolicy", Acted),
    ("securityContext.sysctls", Acted),
    ("securityContext.windowsOptions", Refused(NO_WINDOWS)),
    ("serviceAccount", ACCOUNTS),
    ("serviceAccountName", Acted),
    ("setHostnameAsFQDN", Acted),
    ("shareProcessNamespace", Acted),
    ("subdomain", Acted),
    ("terminationGracePeriodSeconds", Acted),
    ("tolerations", Acted),
    ("topologySpreadConstraints", FOR_SCHEDULERS),
    ("volumes[]", Refused("its driver is of a cloud, of CSI or gone from Kubernetes, and none of them runs here")),
    ("volumes[].configMap", Acted),
    ("volumes[].downwardAPI", Acted),
    ("volumes[].emptyDir.medium", Only(MEDIA, "no such medium is known")),
    ("volumes[].emptyDir.sizeLimit", Acted),
    ("volumes[].ephemeral", Acted),
    ("volumes[].hostPath.path", Acted),
    ("volumes[].hostPath.type", Acted),
    ("volumes[].image", Refused("Docker mounts images from 28 on, and Debian's is older")),
    ("volumes[].name", Acted),
    ("volumes[].nfs", Acted),
    ("volumes[].persistentVolumeClaim", Acted),
    ("volumes[].projected", Acted),
    ("volumes[].projected.sources[].clusterTrustBundle", Refused("its API is not served")),
    ("volumes[].projected.sources[].podCertificate", Refused("nobody here signs certificates of pods")),
    ("volumes[].secret", Acted),
];

/// The reason why this pod is not started, which names each field; None if there is none.
pub fn refused(document: &Value) -> Option<String> {
    not_supported(&of_pod(&document["spec"], "spec"))
}

/// The reason why an ephemeral container is not started. Its pod runs on.
pub fn refused_ephemeral(document: &Value, container: &str) -> Option<String> {
    let all = document["spec"][EPHEMERAL].as_array()?;
    let (index, one) = all.iter().enumerate().find(|(_, one)| one["name"] == container)?;
    not_supported(&of_container(EPHEMERAL, one, &format!("spec.{EPHEMERAL}[{index}]")))
}

/// The warnings for a pod, or a template of pods, that no agent will start as it is. `path`: that of the spec.
pub fn warnings(spec: &Value, path: &str) -> Vec<String> {
    let what = if path == "spec" { "this pod" } else { "a pod of this template" };
    let mut said: Vec<String> = warned(what, of_pod(spec, path)).into_iter().collect();
    for (index, one) in spec[EPHEMERAL].as_array().into_iter().flatten().enumerate() {
        said.extend(warned(
            "this ephemeral container",
            of_container(EPHEMERAL, one, &format!("{path}.{EPHEMERAL}[{index}]")),
        ));
    }
    said
}

fn warned(what: &str, mut found: Vec<String>) -> Option<String> {
    let more = found.len().saturating_sub(WARNED_MAX);
    found.truncate(WARNED_MAX);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    not_supported(&found).map(|text| format!("no agent will start {what}: {text}"))
}

fn of_pod(spec: &Value, path: &str) -> Vec<String> {
    let mut walk = Walk::default();
    for (name, value) in
        spec.as_object().into_iter().flatten().filter(|(name, _)| ![EPHEMERAL, INIT].contains(&name.as_str()))
    {
        walk.begin(name, &[path, ".", name], value);
    }
    for (index, one) in spec[INIT].as_array().into_iter().flatten().enumerate() {
        walk.found.extend(of_container(INIT, one, &format!("{path}.{INIT}[{index}]")));
    }
    walk.found
}

/// Checks a container of a list other than `containers`: a row of that list decides, otherwise the row of `containers`.
fn of_container(list: &str, container: &Value, path: &str) -> Vec<String> {
    let mut walk = Walk::default();
    for (name, value) in container.as_object().into_iter().flatten() {
        let own = format!("{list}[].{name}");
        let row = if exact(&own).is_some() { own } else { format!("containers[].{name}") };
        walk.begin(&row, &[path, ".", name], value);
    }
    walk.found
}

fn not_supported(found: &[String]) -> Option<String> {
    let text = match found {
        [] => return None,
        [one] => format!("{one} is not supported by this version of the agent"),
        more => format!("{} are not supported by this version of the agent", more.join(", ")),
    };
    Some(text)
}

/// On its way through a pod: both paths grow and shrink where they are, for every pod that is written is looked
/// through.
#[derive(Default)]
struct Walk {
    /// The path as in the table.
    row: String,
    /// The same with indexes.
    shown: String,
    found: Vec<String>,
}

impl Walk {
    fn begin(&mut self, row: &str, shown: &[&str], value: &Value) {
        self.row.clear();
        self.shown.clear();
        self.below(&[row], shown, value);
    }

    /// Looks at a value one level deeper.
    fn below(&mut self, row: &[&str], shown: &[&str], value: &Value) {
        let before = (self.row.len(), self.shown.len());
        row.iter().for_each(|part| self.row.push_str(part));
        shown.iter().for_each(|part| self.shown.push_str(part));
        self.look(value);
        self.row.truncate(before.0);
        self.shown.truncate(before.1);
    }

    fn look(&mut self, value: &Value) {
        if is_empty(value) {
            return;
        }
        match exact(&self.row) {
            Some(Only(values, _)) => {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                if !values.contains(&text.as_str()) {
                    self.found.push(format!("{} ({text})", self.shown));
                }
                return;
            }
            Some(Keys(keys)) => {
                let others = value.as_object().into_iter().flatten().filter(|(key, _)| !keys.contains(&key.as_str()));
                self.found.extend(others.map(|(key, _)| format!("{}[{key}]", self.shown)));
                return;
            }
            Some(Harmless(_)) => return,
            // `false` asks for nothing that is not so anyway.
            Some(Refused(_)) if *value == Value::Bool(false) => return,
            Some(Refused(_)) if !has_rows_below(&mut self.row) => return self.found.push(self.shown.clone()),
            Some(Acted) if !has_rows_below(&mut self.row) => return,
            Some(Acted | Refused(_)) | None => {}
        }
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    self.below(&[".", name], &[".", name], value);
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    self.below(&["[]"], &["[", &index.to_string(), "]"], value);
                }
            }
            // The field has no row, and no row stands below the field: the nearest row above decides.
            _ if !is_acted(&self.row) => self.found.push(self.shown.clone()),
            _ => {}
        }
    }
}

/// The nearest row at or above says so. What the table has never heard of is refused.
fn is_acted(row: &str) -> bool {
    matches!(nearest(row), Some(Acted | Harmless(_)))
}

/// The row that decides over a field.
pub fn nearest(row: &str) -> Option<Verdict> {
    let covers = |path: &str| row == path || row.strip_prefix(path).is_some_and(|rest| rest.starts_with(['.', '[']));
    TABLE.iter().filter(|(path, _)| covers(path)).max_by_key(|(path, _)| path.len()).map(|(_, verdict)| *verdict)
}

/// The row of this very field. The rows are sorted: every creation of a pod looks here.
fn exact(row: &str) -> Option<Verdict> {
    TABLE.binary_search_by(|(path, _)| (*path).cmp(row)).ok().map(|at| TABLE[at].1)
}

/// `row` is as it was when this returns.
fn has_rows_below(row: &mut String) -> bool {
    ['.', '['].into_iter().any(|next| {
        row.push(next);
        let first = TABLE.partition_point(|(path, _)| *path < row.as_str());
        let below = TABLE.get(first).is_some_and(|(path, _)| path.starts_with(row.as_str()));
        row.pop();
        below
    })
}

/// Asks for nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(spec: Value, wanted: &[&str]) {
        let text = refused(&json!({"spec": spec})).unwrap_or_default();
        assert_eq!(text.is_empty(), wanted.is_empty(), "{text}");
        for field in wanted {
            assert!(text.contains(field), "{text:?} does not name {field}");
        }
    }

    #[test]
    fn refused_by_name() {
        check(json!({}), &[]);
        check(json!({"resources": {"limits": {"cpu": "1"}}}), &[]);
        check(json!({"resources": {"claims": [{"name": "x"}]}}), &["spec.resources.claims"]);
        check(json!({"hostPID": true, "hostIPC": true, "shareProcessNamespace": true}), &[]);
        check(json!({"hostPID": false, "hostUsers": true, "initContainers": []}), &[]);
        check(json!({"hostUsers": false}), &["spec.hostUsers (false)"]);
        check(json!({"initContainers": [{"name": "x", "restartPolicy": "Always", "startupProbe": {"exec": {}}}]}), &[]);
        check(json!({"initContainers": [{"name": "x", "restartPolicy": "Never"}]}), &[]);
        let rules = |action: &str| {
            json!({
                "containers": [{"restartPolicy": "Never", "restartPolicyRules": [{"action": action}]}],
            })
        };
        check(rules("Restart"), &[]);
        check(rules("RestartAllContainers"), &[]);
        check(rules("Stop"), &["spec.containers[0].restartPolicyRules[0].action (Stop)"]);
        check(
            json!({"initContainers": [{"volumeDevices": [{"name": "x"}]}]}),
            &["spec.initContainers[0].volumeDevices"],
        );
        check(
            json!({"containers": [{"resources": {"claims": [{"name": "x"}]}}]}),
            &["spec.containers[0].resources.claims"],
        );
        check(json!({"containers": [{"livenessProbe": {"httpGet": {"port": 1, "scheme": "HTTPS"}}}]}), &[]);
        check(
            json!({"containers": [{"livenessProbe": {"httpGet": {"port": 1, "scheme": "HTTP"}, "periodSeconds": 3}}]}),
            &[],
        );
        check(json!({"containers": [{"livenessProbe": {"grpc": {"port": 1}}}]}), &[]);
        check(json!({"containers": [{"lifecycle": {"preStop": {"exec": {"command": ["a"]}}}}]}), &[]);
        check(json!({"containers": [{"resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}}]}), &[]);
        check(
            json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "hostPath": {"path": "/x", "type": ""}}]}),
            &[],
        );
        check(
            json!({
                "volumes": [
                    {"name": "v", "secret": {"secretName": "x", "items": [{"key": "k", "path": "p", "mode": 256}]}},
                ],
            }),
            &[],
        );
        check(
            json!({
                "volumes": [
                    {
                        "name": "v",
                        "projected": {
                            "sources": [{"configMap": {"name": "x"}}, {"podCertificate": {"keyType": "RSA"}}],
                        },
                    },
                ],
            }),
            &["spec.volumes[0].projected.sources[1].podCertificate"],
        );
        check(json!({"volumes": [{"name": "v", "image": {"reference": "x:1"}}]}), &["spec.volumes[0].image"]);
        check(
            json!({"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "x"}}]}),
            &["spec.volumes[0].gcePersistentDisk"],
        );
        check(
            json!({
                "volumes": [
                    {"name": "v", "emptyDir": {"sizeLimit": "1Mi"}},
                    {"name": "h", "emptyDir": {"medium": "HugePages-2Mi"}},
                ],
            }),
            &[],
        );
        check(
            json!({"volumes": [{"name": "v", "emptyDir": {"medium": "Tape"}}]}),
            &["spec.volumes[0].emptyDir.medium (Tape)"],
        );
        check(json!({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi", "medium": "Memory"}}]}), &[]);
        check(
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                [{"topologyKey": "x"}]},
                "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}),
            &[],
        );
        check(json!({"ephemeralContainers": [{"name": "e", "volumeDevices": [{"name": "x"}]}]}), &[]);
        check(json!({"somethingNew": 1}), &["spec.somethingNew"]);
        check(json!({"containers": [{"somethingNew": {"deep": "x"}}]}), &["spec.containers[0].somethingNew.deep"]);
    }

    #[test]
    fn an_ephemeral_container_is_refused_alone() {
        let check = |container: Value, wanted: &[&str]| {
            let document = json!({"spec": {"ephemeralContainers": [{"name": "first"}, container]}});
            assert_eq!(refused(&document), None);
            let text = refused_ephemeral(&document, "e").unwrap_or_default();
            assert_eq!(text.is_empty(), wanted.is_empty(), "{text}");
            for field in wanted {
                assert!(
                    text.contains(&format!("spec.ephemeralContainers[1].{field}")),
                    "{text:?} does not name {field}"
                );
            }
        };
        check(
            json!({
                "name": "e", "image": "i", "targetContainerName": "c", "stdin": true, "resources": {},
                "command": ["sh"],
            }),
            &[],
        );
        check(
            json!({
                "name": "e",
                "securityContext": {
                    "capabilities": {"add": ["SYS_PTRACE"]}, "seccompProfile": {"type": "RuntimeDefault"},
                },
            }),
            &[],
        );
        check(
            json!({
                "name": "e",
                "securityContext": {"seccompProfile": {"type": "Unconfined"}, "windowsOptions": {"hostProcess": true}},
            }),
            &["securityContext.windowsOptions"],
        );
        check(json!({"name": "e", "volumeDevices": [{"name": "x"}]}), &["volumeDevices"]);
        check(
            json!({"name": "e", "ports": [{"containerPort": 1}], "livenessProbe": {"exec": {}}}),
            &["ports", "livenessProbe"],
        );
        check(json!({"name": "e", "somethingNew": 1}), &["somethingNew"]);
    }

    #[test]
    fn whoever_writes_it_is_told() {
        let check = |spec: Value, path: &str, expected: &[&str]| assert_eq!(warnings(&spec, path), expected);
        check(json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}), "spec", &[]);
        check(
            json!({
                "resourceClaims": [{"name": "x"}], "ephemeralContainers": [{"name": "e"}, {"name": "f", "ports": [{}]}],
            }),
            "spec",
            &[
                "no agent will start this pod: spec.resourceClaims is not supported by this version of the agent",
                "no agent will start this ephemeral container: spec.ephemeralContainers[1].ports is not supported by \
                 this version of the agent",
            ],
        );
        check(
            json!({
                "resourceClaims": [{"name": "x"}],
                "volumes": [{"name": "v", "secret": {}}, {"name": "w", "flexVolume": {"driver": "d"}}],
            }),
            "spec.template.spec",
            &["no agent will start a pod of this template: spec.template.spec.resourceClaims, \
               spec.template.spec.volumes[1].flexVolume.driver are not supported by this version of the agent"],
        );
        let env: Vec<Value> =
            (0..20).map(|_| json!({"name": "A", "valueFrom": {"unheardRef": {"name": "x"}}})).collect();
        let said = warnings(&json!({"containers": [{"env": env}]}), "spec").remove(0);
        assert!(
            said.contains("env[7].valueFrom.unheardRef.name, and 12 more are not") && !said.contains("env[8]"),
            "{said}"
        );
    }

    /// Every field that the types of the API know has a row, and every row is about a field that they know.
    #[test]
    fn the_table_is_whole() {
        use coracle_schema::types::{Container, Element};
        let types = crate::types::builtin();
        let mut paths: Vec<String> = Vec::new();
        let mut rowless: Vec<String> = Vec::new();
        let mut todo = vec![("PodSpec".to_owned(), String::new())];
        while let Some((name, prefix)) = todo.pop() {
            for field in types.get(&name).unwrap().fields.iter() {
                let path = if prefix.is_empty() { field.name.to_string() } else { format!("{prefix}.{}", field.name) };
                let exact = TABLE.iter().any(|(row, _)| *row == path);
                paths.push(path.clone());
                let inner = if field.container == Container::List { format!("{path}[]") } else { path.clone() };
                paths.push(inner.clone());
                match &field.element {
                    // Ephemeral containers have the fields of containers.
                    Element::Named(of) if of == "EphemeralContainer" => {
                        let known = |path: &str| {
                            TABLE.iter().any(|(row, _)| *row == path) || {
                                let mut same = path.replace(EPHEMERAL, "containers");
                                nearest(&same).is_some() || has_rows_below(&mut same)
                            }
                        };
                        let fields =
                            types.get(of).unwrap().fields.iter().map(|field| format!("{inner}.{}", field.name));
                        paths.extend(fields.clone());
                        rowless.extend(fields.filter(|path| !known(path)));
                    }
                    Element::Named(of) if !exact || has_rows_below(&mut path.clone()) => {
                        todo.push((of.to_string(), inner))
                    }
                    _ if nearest(&path).is_none() => rowless.push(path),
                    _ => {}
                }
            }
        }
        assert_eq!(rowless, Vec::<String>::new());
        let unknown: Vec<&str> =
            TABLE.iter().map(|(row, _)| *row).filter(|row| !paths.iter().any(|path| path == row)).collect();
        assert_eq!(unknown, Vec::<&str>::new());
    }

    #[test]
    fn rows_are_sorted_and_said_once() {
        let paths: Vec<&str> = TABLE.iter().map(|(path, _)| *path).collect();
        let mut sorted = paths.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(paths, sorted);
    }
}
