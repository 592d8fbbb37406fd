//! A program in a pod uses the API as it would on Kubernetes: kubectl, whose client-go finds server, token, authority
//! and namespace by the pod's environment and files alone.

use crate::Test;
use crate::bed::{Bed, Said};
use crate::images;
use crate::kubectl::{Client, newest};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

pub const TESTS: &[Test] = &[("secure_client_in_a_pod", client_in_a_pod)];

const IMAGE: &str = "coracle/kubectl:1";
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const WORKER: &str = "system:serviceaccount:shop:worker";

/// Says what a shell line in a container prints, and how it ends.
fn inside(bed: &Bed, id: &str, line: &str) -> Said {
    let mut command = Command::new("docker");
    command.args(["--host", &bed.engine.socket(), "exec", id, "timeout", "60", "sh", "-c", line]);
    Said::of(&mut command, &[])
}

fn must(bed: &Bed, id: &str, line: &str) -> String {
    let said = inside(bed, id, line);
    assert_eq!(said.code, 0, "{line}: {said:?}");
    said.text()
}

/// The command is refused, and says why.
fn refused(bed: &Bed, id: &str, line: &str, why: &str) {
    let said = inside(bed, id, line);
    assert!(said.code != 0 && said.out.is_empty() && said.err.contains(why), "{line}: {said:?}");
}

fn pod(bed: &Bed, name: &str) -> String {
    let spec = json!({
        "serviceAccountName": "worker",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": name, "image": IMAGE, "command": ["sleep", "3600"]}],
    });
    bed.post("/api/v1/namespaces/shop/pods", &json!({"metadata": {"name": name}, "spec": spec}).to_string());
    bed.until("the pod runs", |bed| bed.running_of(name).pop())
}

/// A watch in a container, and its lines.
struct Watch {
    process: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn start(bed: &Bed, id: &str, line: &str) -> Watch {
        let mut command = Command::new("docker");
        command.args(["--host", &bed.engine.socket(), "exec", id, "timeout", "120", "sh", "-c", line]);
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("docker starts");
        let lines = BufReader::new(process.stdout.take().expect("it is piped"));
        Watch { process, lines }
    }

    /// Empty at the end.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("the watch prints text");
        line.trim().to_owned()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The process in the container ends with the container.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn client_in_a_pod(bed: &mut Bed) {
    let admin = newest();
    images::kubectl(bed.engine, IMAGE, admin.path()).unwrap_or_else(|error| panic!("{error}"));
    bed.start_master_with(&["--secure-listen", "0.0.0.0:6443"]);
    bed.start_agent();
    admin.must(&["create", "namespace", "shop"]);
    admin.must(&["-n", "shop", "create", "serviceaccount", "worker"]);
    let id = pod(bed, "works");
    bed.until("the API answers in the pod", |bed| (inside(bed, &id, "kubectl version").code == 0).then_some(()));

    let authority = must(bed, &id, &format!("cat {ACCOUNT}/ca.crt"));
    let published = "jsonpath={.data.ca\\.crt}";
    let published = admin.must(&["-n", "shop", "get", "configmap", "kube-root-ca.crt", "-o", published]);
    assert_eq!(published, authority);
    assert_eq!(must(bed, &id, "kubectl auth whoami -o jsonpath={.status.userInfo.username}"), WORKER);
    roles(bed, &admin, &id);
    follows(bed, &admin, &id);
    ends_with_the_pod(bed, &admin, &id);
}

/// What no role gives is refused; what a binding gives counts at once, for the program that runs.
fn roles(bed: &Bed, admin: &Client, id: &str) {
    let why = format!(
        "Error from server (Forbidden): configmaps is forbidden: User \"{WORKER}\" cannot list resource \"configmaps\" \
         in API group \"\" in the namespace \"shop\""
    );
    refused(bed, id, "kubectl get configmaps", &why);
    let verbs = "--verb=get,list,watch,create,patch";
    admin.must(&["-n", "shop", "create", "role", "maps", verbs, "--resource=configmaps"]);
    admin.must(&["-n", "shop", "create", "rolebinding", "maps", "--role=maps", "--serviceaccount=shop:worker"]);
    assert_eq!(must(bed, id, "kubectl get configmaps -o name"), "configmap/kube-root-ca.crt\n");
    for (verb, resource) in [("list", "configmaps"), ("delete", "configmaps"), ("list", "secrets"), ("list", "nodes")] {
        // The exit code of can-i is its answer.
        let own = inside(bed, id, &format!("kubectl auth can-i {verb} {resource}")).text();
        let told = admin.run(&["-n", "shop", "auth", "can-i", verb, resource, "--as", WORKER], b"").text();
        let expected = if (verb, resource) == ("list", "configmaps") { "yes\n" } else { "no\n" };
        assert_eq!((own.as_str(), told.as_str()), (expected, expected), "{verb} {resource}");
    }
    let why =
        format!("User \"{WORKER}\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\"");
    refused(bed, id, "kubectl -n default get configmaps", &why);
}

/// It writes and patches, and a watch of its own tells it.
fn follows(bed: &Bed, admin: &Client, id: &str) {
    must(bed, id, "kubectl create configmap state --from-literal=step=one");
    let mut watch = Watch::start(bed, id, "kubectl get configmap state -w -o jsonpath='{.data.step}{\"\\n\"}'");
    assert_eq!(watch.line(), "one");
    must(bed, id, "kubectl patch configmap state -p '{\"data\":{\"step\":\"two\"}}'");
    assert_eq!(watch.line(), "two");
    admin.must(&["-n", "shop", "patch", "configmap", "state", "-p", r#"{"data":{"step":"three"}}"#]);
    assert_eq!(watch.line(), "three");
    let why = format!("configmaps \"state\" is forbidden: User \"{WORKER}\" cannot delete resource \"configmaps\"");
    refused(bed, id, "kubectl delete configmap state", &why);
}

/// A token that was copied out of a pod ends with the pod, and so does a watch that it has opened.
fn ends_with_the_pod(bed: &Bed, admin: &Client, id: &str) {
    let thief = pod(bed, "steals");
    let token = must(bed, id, &format!("cat {ACCOUNT}/token"));
    let kubectl = format!(
        "kubectl --kubeconfig /dev/null -n shop --server https://kubernetes.default.svc --certificate-authority \
         {ACCOUNT}/ca.crt --token {token}"
    );
    assert_eq!(must(bed, &thief, &format!("{kubectl} get configmap state -o name")), "configmap/state\n");
    let mut watch =
        Watch::start(bed, &thief, &format!("{kubectl} get --raw '/api/v1/namespaces/shop/configmaps?watch=1'"));
    assert!(watch.line().contains("ADDED"));
    admin.must(&["-n", "shop", "delete", "pod", "works"]);
    refused(bed, &thief, &format!("{kubectl} get configmaps"), "You must be logged in to the server");
    bed.until("the open watch ends", |_| watch.process.try_wait().expect("docker is ours"));
    // The other pod's own token is another.
    assert_eq!(must(bed, &thief, "kubectl get configmap state -o name"), "configmap/state\n");
}
