//! The secure port: a pod asks the API with its own token, and users with certificates do what their roles say.

use crate::Test;
use crate::bed::{Bed, Said, run};
use crate::images::BUSYBOX;
use serde_json::{Value, json};
use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};

pub const TESTS: &[Test] =
    &[("secure_pod_asks_the_api", pod_asks_the_api), ("secure_users_and_roles", users_and_roles)];

const PORT: &str = "0.0.0.0:6443";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

fn start(bed: &mut Bed) {
    bed.start_master_with(&["--secure-listen", PORT]);
    bed.start_agent();
}

fn sleeper(bed: &Bed, name: &str) -> String {
    let spec = json!({
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": name, "image": BUSYBOX, "command": ["sleep", "3600"]}],
    });
    bed.post("/api/v1/namespaces/default/pods", &json!({"metadata": {"name": name}, "spec": spec}).to_string());
    bed.until("the pod runs", |bed| bed.running_of(name).pop())
}

fn bind(bed: &Bed, name: &str, role: &str, subject: Value) {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role});
    let binding = json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]});
    bed.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding.to_string());
}

/// The status code and the body of a request from the pod's network, as a client library in the pod sends it.
fn from_pod(bed: &Bed, pid: &str, token: &str, path: &str) -> (u16, String) {
    let mut command = Command::new("nsenter");
    command.args(["-t", pid, "-n", "curl", "-sS", "-m", "10", "-w", "\n%{http_code}", "--cacert"]);
    command.arg(bed.path("pod-ca.crt")).args(["-H", &format!("Authorization: Bearer {token}")]);
    command.arg(format!("https://10.96.0.1{path}"));
    let text = run(&mut command).unwrap_or_else(|error| format!("{error}\n0"));
    let (body, code) = text.rsplit_once('\n').expect("curl prints the code last");
    (code.parse().unwrap_or_default(), body.to_owned())
}

fn pod_asks_the_api(bed: &mut Bed) {
    start(bed);
    let id = sleeper(bed, "asks");
    let pid = bed.docker(&["inspect", "-f", "{{.State.Pid}}", &id]).trim().to_owned();
    let read = |file: &str| bed.exec(&id, &format!("cat {ACCOUNT}/{file}")).unwrap_or_else(|e| panic!("{file}: {e}"));
    let token = read("token");
    assert_eq!(read("namespace"), "default");
    fs::write(bed.path("pod-ca.crt"), read("ca.crt")).expect("a file");
    let pods = "/api/v1/namespaces/default/pods";
    let forbidden = bed.until("the API answers at the address of service kubernetes", |bed| {
        Some(from_pod(bed, &pid, &token, pods)).filter(|(code, _)| *code != 0)
    });
    let words = "User \\\"system:serviceaccount:default:default\\\" cannot list resource \\\"pods\\\" \
                 in API group \\\"\\\" in the namespace \\\"default\\\"";
    assert!(forbidden.0 == 403 && forbidden.1.contains(words), "{forbidden:?}");
    bind(bed, "pods-view", "view", json!({"kind": "ServiceAccount", "name": "default", "namespace": "default"}));
    let (code, list) = from_pod(bed, &pid, &token, pods);
    assert!(code == 200 && list.contains("\"asks\""), "{code} {list}");
    // Secrets are not for whoever may view.
    assert_eq!(from_pod(bed, &pid, &token, "/api/v1/namespaces/default/secrets").0, 403);
    assert_eq!(from_pod(bed, &pid, "no.such.token", pods).0, 401);
    assert_eq!(from_pod(bed, &pid, "no.such.token", "/healthz").0, 401);

    // The token ends with the pod.
    let other = sleeper(bed, "other");
    let other = bed.docker(&["inspect", "-f", "{{.State.Pid}}", &other]).trim().to_owned();
    assert_eq!(from_pod(bed, &other, &token, pods).0, 200);
    bed.send("DELETE", &format!("{pods}/asks"), "");
    bed.until("the token counts no more", |bed| (from_pod(bed, &other, &token, pods).0 == 401).then_some(()));
}

fn kubectl(bed: &Bed, kubeconfig: &str, arguments: &[&str]) -> Said {
    let mut command = Command::new("timeout");
    command.args(["60", "kubectl", "--kubeconfig"]).arg(bed.path(kubeconfig)).args(arguments);
    command.env("HOME", bed.path("home"));
    Said::of(&mut command, &[])
}

fn kubeconfig(bed: &Bed, file: &str, user: &[&str]) {
    let said = bed.ask_master(&[&["kubeconfig"], user].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    fs::write(bed.path(file), said.text()).expect("a file");
}

/// A watch of pods that ends by itself only if the server ends it.
fn watch(bed: &Bed, kubeconfig: &str) -> Child {
    let mut command = Command::new("kubectl");
    command.args(["--kubeconfig"]).arg(bed.path(kubeconfig)).args([
        "get",
        "--raw",
        "/api/v1/namespaces/default/pods?watch=1",
    ]);
    command.env("HOME", bed.path("home")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("kubectl starts");
    let mut first = [0];
    child.stdout.as_mut().expect("it is piped").read_exact(&mut first).expect("the first event");
    child
}

fn users_and_roles(bed: &mut Bed) {
    start(bed);
    sleeper(bed, "seen");
    kubeconfig(bed, "admin.kubeconfig", &[]);
    kubeconfig(bed, "ann.kubeconfig", &["--user", "ann", "--group", "team"]);
    let said = kubectl(bed, "admin.kubeconfig", &["get", "pods", "-o", "name"]);
    assert_eq!((said.code, said.text().as_str()), (0, "pod/seen\n"), "{}", said.err);
    let said = kubectl(bed, "ann.kubeconfig", &["get", "pods"]);
    let words =
        "pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"";
    assert!(said.code != 0 && said.err.contains(words), "{}", said.err);
    let said = kubectl(bed, "ann.kubeconfig", &["auth", "can-i", "list", "pods"]);
    assert_eq!(said.text(), "no\n", "{}", said.err);

    bind(bed, "team-edits", "edit", json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team"}));
    let said = kubectl(bed, "ann.kubeconfig", &["auth", "can-i", "list", "pods"]);
    assert_eq!(said.text(), "yes\n", "{}", said.err);
    let said = kubectl(bed, "ann.kubeconfig", &["exec", "seen", "--", "echo", "over TLS"]);
    assert_eq!((said.code, said.text().as_str()), (0, "over TLS\n"), "{}", said.err);
    let said = kubectl(bed, "ann.kubeconfig", &["get", "nodes"]);
    assert!(said.code != 0 && said.err.contains("forbidden"), "{}", said.err);

    let mut open = watch(bed, "ann.kubeconfig");
    let revoked = bed.ask_master(&["user", "revoke", "ann"]);
    assert_eq!(revoked.code, 0, "{}", revoked.err);
    let said = kubectl(bed, "ann.kubeconfig", &["get", "pods"]);
    assert!(said.code != 0 && !said.err.is_empty() && said.out.is_empty(), "{}", said.err);
    bed.until("the open watch ends", |_| open.try_wait().expect("kubectl is ours"));
    // Others go on.
    assert_eq!(kubectl(bed, "admin.kubeconfig", &["get", "pods", "-o", "name"]).code, 0);
}
