//! The system that a pod's containers are made for: fields that only the other system knows are forbidden.

use super::annotated::containers;
use super::checks::{PROBLEMS_MAX, full, one_of};
use super::doc::{has, is_empty, text, yes};
use coracle_schema::{Path, Problem};
use serde_json::Value;

/// Fields of a pod's spec and security context that Windows does not have.
const NOT_OF_WINDOWS: [&str; 4] = ["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"];
const NOT_OF_WINDOWS_CONTEXT: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
/// Fields of a container's security context that Windows does not have.
const NOT_OF_WINDOWS_CONTAINER: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];
const SIGNALS_OF_WINDOWS: [&str; 2] = ["SIGKILL", "SIGTERM"];
const SIGNALS_OF_LINUX: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// Checks the operating system of a pod, and refuses fields of a different system.
pub fn validate(spec: &Value, path: &Path) -> Vec<Problem> {
    let at = path.field("os");
    match text(&spec["os"], "name") {
        _ if !has(spec, "os") => Vec::new(),
        "" => vec![Problem::required(&at.field("name"), "")],
        "windows" => no_linux(spec, path),
        "linux" => no_windows(spec, path),
        other => one_of(other, &["linux", "windows"], &at).into_iter().collect(),
    }
}

/// Checks the stop signal of a container: the pod's operating system decides which signals exist.
pub fn stop_signal(signal: &str, system: &str, path: &Path) -> Option<Problem> {
    match system {
        "" => Some(Problem::forbidden(path, "may not be set for containers with empty `spec.os.name`")),
        "windows" => one_of(signal, &SIGNALS_OF_WINDOWS, path),
        _ => one_of(signal, &SIGNALS_OF_LINUX, path),
    }
}

fn no_windows(spec: &Value, path: &Path) -> Vec<Problem> {
    let all = std::iter::once((path.clone(), spec)).chain(containers(spec, path));
    let wrong = all.filter(|(_, of)| has(&of["securityContext"], "windowsOptions"));
    let words = "windows options cannot be set for a linux pod";
    let found =
        wrong.map(|(path, _)| Problem::forbidden(&path.field("securityContext").field("windowsOptions"), words));
    found.take(PROBLEMS_MAX).collect()
}

fn no_linux(spec: &Value, path: &Path) -> Vec<Problem> {
    const WORDS: &str = "cannot be set for a windows pod";
    let (context, at) = (&spec["securityContext"], path.field("securityContext"));
    // What shares something with the host is asked for only where it is true.
    let asked = |field: &str| {
        if field.starts_with("host") && field != "hostUsers" { yes(spec, field) } else { has(spec, field) }
    };
    let said = |field: &str| if field == "sysctls" { !is_empty(&context[field]) } else { has(context, field) };
    let of_pod = NOT_OF_WINDOWS.iter().filter(|field| asked(field)).map(|field| path.field(field));
    let of_context = NOT_OF_WINDOWS_CONTEXT.iter().filter(|field| said(field)).map(|field| at.field(field));
    let of_containers = containers(spec, path).flat_map(|(path, container)| {
        let said = NOT_OF_WINDOWS_CONTAINER.iter().filter(|field| has(&container["securityContext"], field));
        said.map(move |field| path.field("securityContext").field(field))
    });
    let all = of_pod.chain(of_context).chain(of_containers).take(PROBLEMS_MAX);
    all.map(|path| Problem::forbidden(&path, WORDS)).collect()
}

/// Host process containers of Windows: either all containers of a pod or none, and only in the host's network.
pub fn host_processes(spec: &Value, path: &Path) -> Vec<Problem> {
    let own = |of: &Value| of["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let of_pod = own(spec);
    let mut found = Vec::new();
    let (mut all, mut processes) = (0, 0);
    for (path, container) in containers(spec, path) {
        let said = own(container);
        all += 1;
        processes += usize::from(said.or(of_pod) == Some(true));
        if let (Some(pod), Some(said)) = (of_pod, said)
            && pod != said
            && !full(&found)
        {
            let words = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            found.push(Problem::invalid(
                &path.field("securityContext").field("windowsOptions").field("hostProcess"),
                said,
                words,
            ));
        }
    }
    if processes > 0 && processes != all {
        let words = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        found.push(Problem::invalid(path, "", words));
    }
    if processes > 0 && !yes(spec, "hostNetwork") {
        let words = "hostNetwork must be true if pod contains any hostProcess containers";
        found.push(Problem::invalid(&path.field("hostNetwork"), false, words));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::tests::assert_problems;
    use serde_json::json;

    #[test]
    fn systems() {
        let of = |spec: Value, expected: &[&str]| assert_problems(validate(&spec, &Path::new("spec")), expected);
        of(json!({}), &[]);
        of(json!({"os": {}}), &["spec.os.name: Required value"]);
        of(
            json!({"os": {"name": "bad"}}),
            &["spec.os: Unsupported value: \"bad\": supported values: \"linux\", \"windows\""],
        );
        of(
            json!({"os": {"name": "linux"}, "containers": [{"securityContext": {"windowsOptions": {}}}]}),
            &["spec.containers[0].securityContext.windowsOptions: Forbidden: windows options cannot be set for a \
                 linux pod"],
        );
        of(
            json!({"os": {"name": "windows"}, "hostPID": false, "hostNetwork": true,
                "securityContext": {"sysctls": [], "runAsNonRoot": true,
                "windowsOptions": {}}, "containers": [{"securityContext": {"runAsNonRoot": true}}]}),
            &[],
        );
        of(
            json!({"os": {"name": "windows"}, "hostUsers": true, "hostPID": true, "shareProcessNamespace": false,
                "securityContext": {"runAsUser": 1, "sysctls": [{"name": "a"}]},
                "containers": [{"securityContext": {"privileged": false}}],
                "initContainers": [{"securityContext": {"capabilities": {}}}]}),
            &[
                "spec.hostUsers: Forbidden: cannot be set for a windows pod",
                "spec.hostPID: Forbidden",
                "spec.shareProcessNamespace: Forbidden",
                "spec.securityContext.sysctls: Forbidden",
                "spec.securityContext.runAsUser: Forbidden",
                "spec.initContainers[0].securityContext.capabilities: Forbidden",
                "spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
            ],
        );
    }

    #[test]
    fn signals() {
        let of = |signal: &str, system: &str, expected: &[&str]| {
            assert_problems(stop_signal(signal, system, &Path::new("s")).into_iter().collect(), expected)
        };
        of("SIGRTMIN+3", "linux", &[]);
        of("SIGTERM", "windows", &[]);
        of("SIGHUP", "windows", &["s: Unsupported value: \"SIGHUP\": supported values: \"SIGKILL\", \"SIGTERM\""]);
        of("TERM", "linux", &["s: Unsupported value: \"TERM\": supported values: \"SIGABRT\", "]);
        of("SIGTERM", "", &["s: Forbidden: may not be set for containers with empty `spec.os.name`"]);
    }

    #[test]
    fn processes_of_the_host() {
        let options = |said: Value| json!({"securityContext": {"windowsOptions": {"hostProcess": said}}});
        let of = |pod: Value, containers: &[Value], network: bool, expected: &[&str]| {
            let mut spec = options(pod);
            spec["containers"] = containers.iter().map(|said| options(said.clone())).collect();
            spec["hostNetwork"] = network.into();
            assert_problems(host_processes(&spec, &Path::new("spec")), expected);
        };
        of(json!(null), &[json!(null)], false, &[]);
        of(json!(true), &[json!(null), json!(true)], true, &[]);
        let place = "spec.containers[0].securityContext.windowsOptions.hostProcess";
        of(
            json!(true),
            &[json!(false)],
            true,
            &[&format!("{place}: Invalid value: false: pod hostProcess value must be identical")],
        );
        of(
            json!(null),
            &[json!(true), json!(null)],
            false,
            &[
                "spec: Invalid value: \"\": If pod contains any",
                "spec.hostNetwork: Invalid value: false: hostNetwork must be true",
            ],
        );
    }
}
