use super::super::AdmissionOperation::{Create, Update};
use super::super::tests::{Objects, ask};
use super::super::{Refusal, judge};
use super::checks::violations;
use super::level::{Level, LevelVersion, Version};
use super::view::told;
use super::*;
use serde_json::json;

/// The words about a pod at a level and a minor version of Kubernetes 1; no version is the latest.
fn check(asked: (Level, Option<u32>), pod: Value, expected: &str) {
    let asked = LevelVersion { level: asked.0, version: asked.1.map_or(Version::Latest, Version::Minor) };
    assert_eq!(told(&violations(asked, view(&pod))), expected, "{asked} {pod}");
}

const BASELINE: (Level, Option<u32>) = (Level::Baseline, None);
const RESTRICTED: (Level, Option<u32>) = (Level::Restricted, None);

/// A pod of containers `a`, ... with these security contexts.
fn pod(contexts: &[Value]) -> Value {
    let containers = contexts.iter().zip("abc".chars());
    let containers: Vec<Value> =
        containers.map(|(context, name)| json!({"name": name.to_string(), "securityContext": context})).collect();
    json!({"metadata": {"name": "p"}, "spec": {"containers": containers}})
}

fn with(mut pod: Value, field: &str, value: Value) -> Value {
    pod["spec"][field] = value;
    pod
}

#[test]
fn what_baseline_refuses() {
    let none = || pod(&[json!({})]);
    check(BASELINE, none(), "");
    check(
        BASELINE,
        with(with(none(), "hostNetwork", json!(true)), "hostIPC", json!(true)),
        "host namespaces (hostNetwork=true, hostIPC=true)",
    );
    check(
        BASELINE,
        pod(&[json!({"privileged": true}), json!({"privileged": true})]),
        "privileged (containers \"a\", \"b\" must not set securityContext.privileged=true)",
    );
    check(
        BASELINE,
        pod(&[json!({"capabilities": {"add": ["NET_ADMIN", "CHOWN", "BPF"]}})]),
        "non-default capabilities (container \"a\" must not include \"BPF\", \"NET_ADMIN\" in \
         securityContext.capabilities.add)",
    );
    check(
        BASELINE,
        with(none(), "volumes", json!([{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}])),
        "hostPath volumes (volume \"v\")",
    );
    let mut ports = none();
    ports["spec"]["containers"][0]["ports"] = json!([{"hostPort": 9}, {"hostPort": 80}, {"hostPort": 0}]);
    check(BASELINE, ports, "hostPort (container \"a\" uses hostPorts 80, 9)");
}

#[test]
fn what_baseline_refuses_of_profiles() {
    let none = || pod(&[json!({})]);
    check(
        BASELINE,
        pod(&[json!({"appArmorProfile": {"type": "Unconfined"}})]),
        "forbidden AppArmor profile (container \"a\" must not set AppArmor profile type to \"Unconfined\")",
    );
    let mut annotated = with(none(), "securityContext", json!({"appArmorProfile": {"type": "Unconfined"}}));
    annotated["metadata"]["annotations"] = json!({"container.apparmor.security.beta.kubernetes.io/a": "unconfined"});
    check(
        BASELINE,
        annotated,
        "forbidden AppArmor profiles (pod and annotation must not set AppArmor profile type to \"Unconfined\", \
         \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\")",
    );
    check(
        BASELINE,
        with(
            pod(&[json!({"seLinuxOptions": {"role": "r"}})]),
            "securityContext",
            json!({"seLinuxOptions": {"type": "t"}}),
        ),
        "seLinuxOptions (pod and container \"a\" set forbidden securityContext.seLinuxOptions: type \"t\"; role may \
         not be set)",
    );
    check(
        BASELINE,
        pod(&[json!({"procMount": "Unmasked"})]),
        "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")",
    );
    check(
        BASELINE,
        with(
            pod(&[json!({"seccompProfile": {"type": "Unconfined"}})]),
            "securityContext",
            json!({"seccompProfile": {"type": "Unconfined"}}),
        ),
        "seccompProfile (pod and container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
    );
    check(
        BASELINE,
        with(none(), "securityContext", json!({"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]})),
        "forbidden sysctls (kernel.msgmax)",
    );
    check(
        BASELINE,
        with(none(), "securityContext", json!({"windowsOptions": {"hostProcess": true}})),
        "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
    );
    let mut probes = pod(&[json!({}), json!({})]);
    probes["spec"]["containers"][1]["livenessProbe"] = json!({"httpGet": {"host": "192.0.2.1"}});
    probes["spec"]["containers"][1]["lifecycle"] = json!({"preStop": {"tcpSocket": {"host": "10.0.0.1"}}});
    check(
        BASELINE,
        probes.clone(),
        "probe or lifecycle host (container \"b\" uses probe or lifecycle hosts \"10.0.0.1\", \"192.0.2.1\")",
    );
    check((Level::Baseline, Some(33)), probes, "");
}

#[test]
fn what_restricted_refuses() {
    let fine = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    check(RESTRICTED, pod(&[fine.clone()]), "");
    let all = "allowPrivilegeEscalation != false (container \"a\" must set \
               securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"a\" must set \
               securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"a\" must set \
               securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must set \
               securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";
    check(RESTRICTED, pod(&[json!({})]), all);
    let changed = |field: &str, value: Value| {
        let mut context = fine.clone();
        context[field] = value;
        pod(&[context])
    };
    check(
        RESTRICTED,
        changed("capabilities", json!({"add": ["CHOWN"]})),
        "unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]; container \
         \"a\" must not include \"CHOWN\" in securityContext.capabilities.add)",
    );
    check(
        RESTRICTED,
        changed("runAsNonRoot", json!(false)),
        "runAsNonRoot != true (container \"a\" must not set securityContext.runAsNonRoot=false)",
    );
    check(RESTRICTED, changed("runAsUser", json!(0)), "runAsUser=0 (container \"a\" must not set runAsUser=0)");
    check(RESTRICTED, with(changed("runAsUser", json!(0)), "hostUsers", json!(false)), "");
    check(
        (Level::Restricted, Some(34)),
        with(changed("runAsUser", json!(0)), "hostUsers", json!(false)),
        "runAsUser=0 (container \"a\" must not set runAsUser=0)",
    );
    check(
        RESTRICTED,
        with(changed("procMount", json!("Unmasked")), "hostUsers", json!(false)),
        "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")",
    );
    check(BASELINE, with(changed("procMount", json!("Unmasked")), "hostUsers", json!(false)), "");
    check(
        RESTRICTED,
        changed("seccompProfile", json!({"type": "Unconfined"})),
        "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
    );
    check(
        RESTRICTED,
        with(
            pod(&[fine.clone()]),
            "volumes",
            json!([{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {}}, {"name": "x", "csi": {}}]),
        ),
        "restricted volume types (volumes \"v\", \"w\" use restricted volume types \"hostPath\", \"nfs\")",
    );
    // The users of Windows have other rights.
    check(RESTRICTED, with(pod(&[json!({"runAsNonRoot": true})]), "os", json!({"name": "windows"})), "");
}

#[test]
fn versions_of_the_standards() {
    let bare = || pod(&[json!({})]);
    for (minor, expected) in [
        (0, "runAsNonRoot != true"),
        (7, "runAsNonRoot != true"),
        (8, "allowPrivilegeEscalation != false, runAsNonRoot != true"),
        (19, "allowPrivilegeEscalation != false, runAsNonRoot != true, seccompProfile"),
        (22, "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"),
        (99, "allowPrivilegeEscalation != false, unrestricted capabilities, runAsNonRoot != true, seccompProfile"),
    ] {
        let asked = LevelVersion { level: Level::Restricted, version: Version::Minor(minor) };
        let reasons: Vec<String> =
            violations(asked, view(&bare())).into_iter().map(|violation| violation.reason).collect();
        assert_eq!(reasons.join(", "), expected, "v1.{minor}");
    }
    let sysctl = |name: &str| with(bare(), "securityContext", json!({"sysctls": [{"name": name}]}));
    for (name, since) in
        [("net.ipv4.ip_local_reserved_ports", 27), ("net.ipv4.tcp_fin_timeout", 29), ("net.ipv4.tcp_wmem", 32)]
    {
        check((Level::Baseline, Some(since - 1)), sysctl(name), &format!("forbidden sysctls ({name})"));
        check((Level::Baseline, Some(since)), sysctl(name), "");
    }
    let engine = || with(bare(), "securityContext", json!({"seLinuxOptions": {"type": "container_engine_t"}}));
    check((Level::Baseline, Some(31)), engine(), "");
    check(
        (Level::Baseline, Some(30)),
        engine(),
        "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")",
    );
    let mut annotated = bare();
    annotated["metadata"]["annotations"] = json!({"seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        "container.seccomp.security.alpha.kubernetes.io/a": "unconfined"});
    check(
        (Level::Baseline, Some(18)),
        annotated.clone(),
        "seccompProfile (forbidden annotations container.seccomp.security.alpha.kubernetes.io/a=\"unconfined\", \
         seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")",
    );
    check((Level::Baseline, Some(19)), annotated, "");
}

fn namespace(labels: &[(&str, &str)]) -> Value {
    let labels: Value =
        labels.iter().map(|(mode, level)| (format!("pod-security.kubernetes.io/{mode}"), json!(level))).collect();
    json!({"metadata": {"name": "ns", "labels": labels}})
}

fn cluster(labels: &[(&str, &str)]) -> Objects {
    Objects::default().with(Resource::core("namespaces"), namespace(labels))
}

/// The judgement of a write, and the warnings.
fn judged(
    objects: &Objects,
    (resource, part): (&Resource, &'static str),
    old: Option<&Value>,
    object: &Value,
) -> (Result<(), Refusal>, Vec<String>) {
    let operation = if old.is_some() { Update } else { Create };
    ask(objects, (resource, part), (operation, "p", old), |request| {
        let judged = judge(request, object);
        (judged, request.remarks.warnings())
    })
}

#[test]
fn pods_of_a_namespace() {
    let pods = Resource::core("pods");
    let bad = pod(&[json!({"privileged": true})]);
    let refused = "violates PodSecurity \"baseline:latest\": privileged (container \"a\" must not set \
                   securityContext.privileged=true)";
    let enforced = cluster(&[("enforce", "baseline")]);
    assert_eq!(judged(&cluster(&[]), (&pods, ""), None, &bad), (Ok(()), Vec::new()));
    assert_eq!(judged(&enforced, (&pods, ""), None, &bad).0, Err(refused.to_owned().into()));
    let warned = cluster(&[("warn", "baseline")]);
    let warning = refused.replace("violates", "would violate");
    assert_eq!(judged(&warned, (&pods, ""), None, &bad), (Ok(()), vec![warning]));
    // An update of anything else changes nothing about it.
    assert_eq!(judged(&enforced, (&pods, ""), Some(&bad), &bad), (Ok(()), Vec::new()));
    assert_eq!(judged(&enforced, (&pods, "resize"), Some(&bad), &bad), (Ok(()), Vec::new()));
    assert_eq!(judged(&enforced, (&pods, "status"), Some(&bad), &bad), (Ok(()), Vec::new()));
    let mut other_image = bad.clone();
    other_image["spec"]["containers"][0]["image"] = json!("b");
    assert_eq!(judged(&enforced, (&pods, ""), Some(&bad), &other_image).0, Err(refused.to_owned().into()));
    let account = json!({"metadata": {"name": "default", "namespace": "ns"}});
    let enforced = enforced.with(Resource::core("serviceaccounts"), account);
    let good = with(pod(&[json!({})]), "serviceAccountName", json!("default"));
    let debugged =
        with(good.clone(), "ephemeralContainers", json!([{"name": "d", "securityContext": {"privileged": true}}]));
    let why = refused.replace("\"a\"", "\"d\"");
    assert_eq!(judged(&enforced, (&pods, "ephemeralcontainers"), Some(&good), &debugged).0, Err(why.into()));
}

#[test]
fn workloads_are_warned_of() {
    let bad = pod(&[json!({"privileged": true})]);
    let warning = "would violate PodSecurity \"baseline:latest\": privileged (container \"a\" must not set \
                   securityContext.privileged=true)";
    let of = |group: &'static str, plural: &'static str| Resource { group: group.into(), plural: plural.into() };
    let template = || json!({"spec": {"template": bad}});
    for (resource, object) in [
        (of("apps", "deployments"), template()),
        (of("apps", "daemonsets"), template()),
        (of("apps", "statefulsets"), template()),
        (of("apps", "replicasets"), template()),
        (of("", "replicationcontrollers"), template()),
        (of("batch", "jobs"), template()),
        (of("batch", "cronjobs"), json!({"spec": {"jobTemplate": {"spec": {"template": bad}}}})),
        (of("", "podtemplates"), json!({"template": bad})),
    ] {
        let enforced = cluster(&[("enforce", "baseline")]);
        assert_eq!(
            judged(&enforced, (&resource, ""), None, &object),
            (Ok(()), vec![warning.to_owned()]),
            "{resource:?}"
        );
        assert_eq!(judged(&cluster(&[]), (&resource, ""), None, &object), (Ok(()), Vec::new()), "{resource:?}");
        let silent = cluster(&[("enforce", "baseline"), ("warn", "privileged")]);
        assert_eq!(judged(&silent, (&resource, ""), None, &object), (Ok(()), Vec::new()), "{resource:?}");
    }
}

#[test]
fn labels_of_namespaces_are_checked() {
    let namespaces = Resource::core("namespaces");
    let (plain, wrong) = (namespace(&[]), namespace(&[("enforce", "nope")]));
    let refused = |old: Option<&Value>, new: &Value| judged(&Objects::default(), (&namespaces, ""), old, new).0;
    let why = "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"nope\": must be one of \
               privileged, baseline, restricted";
    for old in [None, Some(&plain)] {
        let Err(Refusal::Invalid(problems)) = refused(old, &wrong) else { panic!("let pass: {old:?}") };
        assert_eq!(problems.iter().map(ToString::to_string).collect::<Vec<_>>(), [why]);
    }
    assert_eq!(refused(Some(&wrong), &wrong), Ok(()), "the label stood there before");
    assert_eq!(refused(Some(&wrong), &plain), Ok(()));
}

#[test]
fn pods_that_do_not_meet_a_new_level_are_told() {
    let namespaces = Resource::core("namespaces");
    let mut cluster = Objects::default();
    for (name, context) in [
        ("c", json!({"privileged": true})),
        ("b", json!({"privileged": true})),
        ("d", json!({"privileged": true})),
        ("e", json!({"procMount": "Unmasked"})),
        ("f", json!({})),
    ] {
        let mut pod = pod(&[context]);
        pod["metadata"] = json!({"name": name, "namespace": "ns"});
        cluster = cluster.with(Resource::core("pods"), pod);
    }
    let told = |old: &[(&str, &str)], new: &[(&str, &str)]| {
        judged(&cluster, (&namespaces, ""), Some(&namespace(old)), &namespace(new)).1
    };
    let expected = [
        "existing pods in namespace \"ns\" violate the new PodSecurity enforce level \"baseline:latest\"",
        "b (and 2 other pods): privileged",
        "e: procMount",
    ];
    assert_eq!(told(&[], &[("enforce", "baseline")]), expected);
    let none: [&str; 0] = [];
    assert_eq!(told(&[("enforce", "restricted")], &[("enforce", "baseline")]), none, "it became easier");
    assert_eq!(told(&[("enforce", "baseline")], &[("enforce", "baseline"), ("warn", "restricted")]), none);
    assert_eq!(told(&[("enforce", "baseline")], &[]), none);
}

#[test]
fn a_level_that_nobody_can_read_lets_no_pod_pass() {
    struct Torn;
    impl super::super::ClusterView for Torn {
        fn get(&self, _: &Key) -> Result<Option<Value>, String> {
            Err("torn".to_owned())
        }

        fn list(&self, _: &Resource, _: Option<&str>) -> Result<std::sync::Arc<Vec<Value>>, String> {
            Ok(std::sync::Arc::default())
        }
    }
    let why = "nobody knows the Pod Security level of namespace \"ns\", whose file is damaged: torn";
    let judged = ask(&Torn, (&Resource::core("pods"), ""), (Create, "p", None), |request| {
        super::pod(request, &pod(&[json!({})]))
    });
    assert_eq!(judged, Err(why.to_owned().into()));
}
