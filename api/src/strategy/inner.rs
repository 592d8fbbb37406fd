//! Renders a refused value or change as Kubernetes does, in the form of Go's types. PURE.
//!
//! Go's types have all fields of v1 under Go's names, set or not; a few fields stand in a different order or place.

use super::{diff, doc};
use crate::types;
use coracle_schema::types::{Container, Element, Field, Type, Types};
use coracle_schema::{Path, Problem};
use serde_json::{Value, json};

/// Only the rules of built-in kinds show values in this form, and these rules use types of the static table.
static TYPES: Types = types::builtin();

/// Fields in the order of Kubernetes' own types, for types with a different order in v1. `name:value`: v1 has the field
/// elsewhere; `value` is shown when it is unset.
const OWN: [(&str, &str); 7] = [
    (
        "SecurityContext",
        "capabilities privileged seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot \
         readOnlyRootFilesystem allowPrivilegeEscalation procMount seccompProfile appArmorProfile",
    ),
    (
        "PodSpec",
        "volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds \
         activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName automountServiceAccountToken nodeName \
         securityContext imagePullSecrets hostname subdomain setHostnameAsFQDN affinity schedulerName tolerations \
         hostAliases priorityClassName priority preemptionPolicy dnsConfig readinessGates runtimeClassName overhead \
         enableServiceLinks topologySpreadConstraints os schedulingGates resourceClaims resources hostnameOverride \
         schedulingGroup",
    ),
    (
        "PodSecurityContext",
        "hostNetwork:false hostPID:false hostIPC:false shareProcessNamespace:null hostUsers:null seLinuxOptions \
         windowsOptions runAsUser runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup \
         fsGroupChangePolicy sysctls seccompProfile appArmorProfile seLinuxChangePolicy",
    ),
    (
        "Container",
        "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy restartPolicyRules \
         volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath \
         terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty",
    ),
    (
        "EphemeralContainer",
        "name image command args workingDir ports envFrom env resources resizePolicy restartPolicy restartPolicyRules \
         volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath \
         terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty targetContainerName",
    ),
    (
        "PersistentVolumeClaimSpec",
        "accessModes selector resources volumeName storageClassName volumeMode dataSource dataSourceRef \
         volumeAttributesClassName",
    ),
    (
        // Its sources alone.
        "PersistentVolumeSpec",
        "gcePersistentDisk awsElasticBlockStore hostPath glusterfs nfs rbd quobyte iscsi flexVolume cinder cephfs fc \
         flocker azureFile vsphereVolume azureDisk photonPersistentDisk portworxVolume scaleIO local storageos csi",
    ),
];
/// Beginnings of field names that Go writes in capitals, and the spelling in Go.
const CAPITALS: [(&str, &str); 22] = [
    ("api", "API"),
    ("aws", "AWS"),
    ("cephfs", "CephFS"),
    ("chap", "CHAP"),
    ("csi", "CSI"),
    ("dns", "DNS"),
    ("fc", "FC"),
    ("fs", "FS"),
    ("gce", "GCE"),
    ("grpc", "GRPC"),
    ("http", "HTTP"),
    ("ip", "IP"),
    ("iscsi", "ISCSI"),
    ("nfs", "NFS"),
    ("os", "OS"),
    ("rbd", "RBD"),
    ("se", "SE"),
    ("storageos", "StorageOS"),
    ("tcp", "TCP"),
    ("tty", "TTY"),
    ("uid", "UID"),
    ("wwids", "WWIDs"),
];

/// Types that Kubernetes' own types share with v1, by the names in v1, and the fields of each type that are shown even
/// when unset.
const SHARED: [(&str, &[&str]); 2] = [("LabelSelector", &[]), ("LabelSelectorRequirement", &["key", "operator"])];

/// A value of a type on a single line. A missing value is shown as in Go.
pub fn shown(type_name: &str, value: &Value) -> String {
    let (mut text, mut is_text, mut escaped) = (String::new(), false, false);
    if value.is_null() || TYPES.get(type_name).is_none() {
        debug_assert!(value.is_null(), "no type {type_name}");
        return value.to_string();
    }
    // Outside of texts blanks and ends of lines are for the eye alone.
    for c in lines(type_name, value).chars() {
        if is_text || !c.is_ascii_whitespace() {
            text.push(c);
        }
        is_text ^= c == '"' && !escaped;
        escaped = is_text && c == '\\' && !escaped;
    }
    text
}

/// The changes between two documents of a type. None: too many to be shown.
pub fn change(type_name: &str, old: &Value, new: &Value) -> Option<String> {
    diff::unified(&lines(type_name, old), &lines(type_name, new))
}

/// A fault of such a document.
pub fn invalid(type_name: &str, path: &Path, value: &Value, words: &str) -> Problem {
    Problem::invalid(path, value.clone(), words).showing(shown(type_name, value))
}

/// The same for a list of documents.
pub fn invalid_list(type_name: &str, path: &Path, values: &[Value], words: &str) -> Problem {
    let all: Vec<String> = values.iter().map(|value| shown(type_name, value)).collect();
    Problem::invalid(path, values.to_vec(), words).showing(format!("[{}]", all.join(",")))
}

/// The same for two pod specs.
pub fn change_of_pod(old: &Value, new: &Value) -> Option<String> {
    change("PodSpec", &own_pod(old), &own_pod(new))
}

pub fn shown_pod(spec: &Value) -> String {
    shown("PodSpec", &own_pod(spec))
}

/// Kubernetes keeps a pod's namespaces with what concerns security.
fn own_pod(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let security = doc::map_at(&mut spec, "securityContext").clone();
    let mut security = Value::Object(security);
    for field in ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"] {
        doc::copy(&mut security, &spec, field);
    }
    spec["securityContext"] = security;
    spec
}

fn lines(type_name: &str, value: &Value) -> String {
    let mut text = String::new();
    if let Some(row) = TYPES.get(type_name) {
        object(row, value, 0, &mut text);
    }
    text
}

fn object(row: &Type, value: &Value, depth: usize, text: &mut String) {
    if depth > coracle_schema::DEPTH_MAX {
        return text.push_str("{}");
    }
    let mut parts: Vec<(String, String)> = Vec::new();
    let mut part = |name: &str, write: &dyn Fn(&mut String)| {
        let mut text = String::new();
        write(&mut text);
        parts.push((go_name(name), text));
    };
    if let Some((_, always)) = SHARED.iter().find(|(name, _)| *name == row.name) {
        return shared(row, always, value, depth, text);
    }
    match OWN.iter().find(|(name, _)| *name == row.name) {
        Some((_, names)) => {
            for name in names.split_whitespace() {
                match (name.split_once(':'), row.field(name)) {
                    (Some((name, unsaid)), _) => {
                        let said = &value[name];
                        part(name, &|text| {
                            text.push_str(&if said.is_null() { unsaid.to_owned() } else { said.to_string() })
                        });
                    }
                    (None, Some(field)) => part(name, &|text| of_field(field, &value[name], depth + 1, text)),
                    (None, None) => {}
                }
            }
        }
        None => {
            let mut fields: Vec<&Field> = row.fields.iter().collect();
            fields.sort_by_key(|field| field.way());
            for field in fields {
                part(&field.name, &|text| of_field(field, &value[&*field.name], depth + 1, text));
            }
        }
    }
    braced(('{', '}'), parts.into_iter().map(|(name, value)| format!("{}: {value}", json!(name))), depth, text);
}

/// In the names of v1, and only what was said.
fn shared(row: &Type, always: &[&str], value: &Value, depth: usize, text: &mut String) {
    let mut fields: Vec<&Field> = row
        .fields
        .iter()
        .filter(|field| always.contains(&&*field.name) || !doc::is_empty(&value[&*field.name]))
        .collect();
    fields.sort_by_key(|field| field.number);
    let parts = fields.into_iter().map(|field| {
        let mut text = format!("{}: ", json!(field.name));
        of_field(field, &value[&*field.name], depth + 1, &mut text);
        text
    });
    braced(('{', '}'), parts, depth, text);
}

fn of_field(field: &Field, value: &Value, depth: usize, text: &mut String) {
    match (field.container, value) {
        (_, Value::Null) if field.container != Container::One => text.push_str("null"),
        (Container::List, Value::Array(entries)) => {
            let entries = entries.iter().map(|entry| {
                let mut text = String::new();
                element(&field.element, entry, depth + 1, &mut text);
                text
            });
            braced(('[', ']'), entries, depth, text);
        }
        (Container::Map, Value::Object(map)) => {
            let entries = map.iter().map(|(key, entry)| {
                let mut text = format!("{}: ", json!(key));
                element(&field.element, entry, depth + 1, &mut text);
                text
            });
            braced(('{', '}'), entries, depth, text);
        }
        (_, Value::Null) => text.push_str(&unsaid(field, depth)),
        _ => element(&field.element, value, depth, text),
    }
}

/// The zero value of Go's type.
fn unsaid(field: &Field, depth: usize) -> String {
    if field.rules.pointer {
        return "null".to_owned();
    }
    match &field.element {
        Element::Text | Element::Bytes => "\"\"".to_owned(),
        Element::Bool => "false".to_owned(),
        Element::Int32 | Element::Int64 | Element::Float | Element::IntOrText => "0".to_owned(),
        Element::Quantity => "\"0\"".to_owned(),
        Element::Named(name) if field.rules.default.is_some() => {
            let mut text = String::new();
            if let Some(row) = TYPES.get(name) {
                object(row, &Value::Null, depth, &mut text);
            }
            text
        }
        Element::Named(_) | Element::Time | Element::MicroTime | Element::Any => "null".to_owned(),
    }
}

fn element(element: &Element, value: &Value, depth: usize, text: &mut String) {
    match element {
        Element::Named(name) => match TYPES.get(name) {
            Some(row) => object(row, value, depth, text),
            None => text.push_str(&value.to_string()),
        },
        _ => text.push_str(&value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")),
    }
}

fn braced((open, close): (char, char), parts: impl Iterator<Item = String>, depth: usize, text: &mut String) {
    text.push(open);
    let mut some = false;
    for part in parts {
        text.push_str(if some { ",\n" } else { "\n" });
        text.push_str(&" ".repeat(depth + 1));
        text.push_str(&part);
        some = true;
    }
    if some {
        text.push('\n');
        text.push_str(&" ".repeat(depth));
    }
    text.push(close);
}

/// `dnsPolicy` is `DNSPolicy`.
fn go_name(name: &str) -> String {
    let end = |rest: &str| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_uppercase());
    let capital = CAPITALS
        .iter()
        .find_map(|(small, capital)| Some((capital, name.strip_prefix(small).filter(|rest| end(rest))?)));
    match capital {
        Some((capital, rest)) => format!("{capital}{rest}"),
        None => name[..1].to_ascii_uppercase() + &name[1..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes() {
        let claim = json!({
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem",
        });
        let mut larger = claim.clone();
        larger["resources"]["requests"]["storage"] = "2Gi".into();
        let expected = "@@ -6,7 +6,7 @@\n  \"Resources\": {\n   \"Limits\": null,\n   \"Requests\": {\n\
                        -   \"storage\": \"1Gi\"\n+   \"storage\": \"2Gi\"\n   }\n  },\n  \"VolumeName\": \"\",\n";
        assert_eq!(change("PersistentVolumeClaimSpec", &claim, &larger).as_deref(), Some(expected));
        let reference = json!({"kind": "Pod", "name": "a: b", "apiVersion": "v1"});
        let expected = r#"{"Kind":"Pod","Namespace":"","Name":"a: b","UID":"","APIVersion":"v1","ResourceVersion":"","FieldPath":""}"#;
        assert_eq!(shown("ObjectReference", &reference), expected);
        let pod = json!({"containers": [{"name": "a<b"}], "hostNetwork": false});
        let shared = json!({"containers": [{"name": "a<b"}], "hostNetwork": true, "seLinuxOptions": {}});
        let change = change_of_pod(&pod, &shared).unwrap();
        assert!(
            change.contains("-  \"HostNetwork\": false,\n+  \"HostNetwork\": true,\n   \"HostPID\": false,\n"),
            "{change}"
        );
    }

    #[test]
    fn values() {
        for (name, value, expected) in [
            (
                "LabelSelector",
                json!({"matchLabels": {"a": "b c"}, "matchExpressions": [{}]}),
                r#"{"matchLabels":{"a":"b c"},"matchExpressions":[{"key":"","operator":""}]}"#,
            ),
            (
                "apps.v1.StatefulSetUpdateStrategy",
                json!({"type": "x \\\" y", "rollingUpdate": {"partition": 1}}),
                r#"{"Type":"x \\\" y","RollingUpdate":{"Partition":1,"MaxUnavailable":null}}"#,
            ),
            ("LabelSelector", Value::Null, "null"),
            ("LabelSelector", json!({}), "{}"),
        ] {
            assert_eq!(shown(name, &value), expected);
        }
    }

    #[test]
    fn fields_are_named_once_and_exist() {
        for (name, fields) in OWN {
            let row = TYPES.get(name).expect("a type");
            for field in fields.split_whitespace().filter(|field| !field.contains(':')) {
                assert!(row.field(field).is_some(), "{name}.{field}");
                assert_eq!(fields.split_whitespace().filter(|other| *other == field).count(), 1, "{name}.{field}");
            }
        }
        for (json, go) in [
            ("dnsPolicy", "DNSPolicy"),
            ("seLinuxOptions", "SELinuxOptions"),
            ("secret", "Secret"),
            ("hostIP", "HostIP"),
        ] {
            assert_eq!(go_name(json), go);
        }
    }
}
