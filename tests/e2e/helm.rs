//! Helm's starter chart through its life, with a claim, hooks and a test: `helm` waits for what the controllers and the
//! agent do.

use crate::Test;
use crate::bed::{Bed, MASTER, Said, place};
use crate::images::WEB;
use coracle_tests::stock::helms;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

pub const TESTS: &[Test] = &[("helm_starter_chart", starter_chart)];

/// Run before what the chart holds, and after it.
const HOOK: &str = "
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .Release.Name }}-WHEN
  annotations: {helm.sh/hook: WHEN-install, helm.sh/hook-delete-policy: before-hook-creation}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: \"IMAGE\", command: [\"true\"]}]
";
const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: {{ .Release.Name }}-data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 10Mi}}
";
/// Laid over the chart's own values.
const VALUES: &str = "
volumes: [{name: data, persistentVolumeClaim: {claimName: web-data}}]
volumeMounts: [{name: data, mountPath: /data}]
podLabels: {edition: one}
";

struct Helm {
    path: PathBuf,
    folder: PathBuf,
}

impl Helm {
    fn run(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "5", "240"])
            .arg(&self.path)
            .args(arguments)
            .args(["--kube-apiserver", &format!("http://{MASTER}")]);
        command.env_remove("KUBECONFIG").env("HOME", place()).current_dir(&self.folder);
        Said::of(&mut command, b"")
    }

    fn must(&self, arguments: &[&str]) -> String {
        let said = self.run(arguments);
        assert_eq!(said.code, 0, "{} {arguments:?}: {said:?}", self.path.display());
        said.text()
    }
}

/// As `helm create` makes it, with the images that are here.
fn chart(helm: &Helm) {
    let _ = fs::remove_dir_all(&helm.folder);
    fs::create_dir_all(&helm.folder).expect("a folder");
    let made = Command::new(&helm.path)
        .args(["create", "web"])
        .current_dir(&helm.folder)
        .env("HOME", place())
        .output()
        .expect("helm runs");
    assert!(made.status.success(), "{made:?}");
    let folder = helm.folder.join("web/templates");
    for when in ["pre", "post"] {
        fs::write(folder.join(format!("{when}.yaml")), HOOK.replace("WHEN", when).replace("IMAGE", WEB))
            .expect("a hook");
    }
    fs::write(folder.join("claim.yaml"), CLAIM).expect("a claim");
    let test = folder.join("tests/test-connection.yaml");
    let text = fs::read_to_string(&test).expect("the chart's test");
    fs::write(&test, text.replace("image: busybox", &format!("image: {WEB}"))).expect("the chart's test");
    fs::write(helm.folder.join("values.yaml"), VALUES).expect("values");
}

fn edition(bed: &Bed) -> String {
    bed.get("/apis/apps/v1/namespaces/default/deployments/web")["spec"]["template"]["metadata"]["labels"]["edition"]
        .to_string()
}

fn starter_chart(bed: &mut Bed) {
    bed.start();
    let helms = helms();
    if helms.is_empty() {
        println!("left out: there is no helm on this machine");
    }
    let (repository, tag) = WEB.split_once(':').expect("an image with a tag");
    let image = format!("image.repository={repository},image.tag={tag},fullnameOverride=web");
    for (n, path) in helms.into_iter().enumerate() {
        let helm = Helm { path, folder: bed.path(&format!("helm-{n}")) };
        chart(&helm);
        let set = ["--set", &image, "-f", "values.yaml", "--wait", "--timeout", "200s"];
        let said = helm.must(&[&["install", "web", "web"][..], &set].concat());
        assert!(said.contains("STATUS: deployed"), "{said}");
        let claim = bed.get("/api/v1/namespaces/default/persistentvolumeclaims/web-data");
        assert_eq!(claim["status"]["phase"], "Bound", "{claim}");
        for when in ["pre", "post"] {
            assert_eq!(
                bed.get(&format!("/apis/batch/v1/namespaces/default/jobs/web-{when}"))["status"]["succeeded"],
                1,
                "{when}"
            );
        }
        let said = helm.must(&["test", "web", "--timeout", "100s"]);
        assert!(said.contains("Succeeded"), "{said}");
        helm.must(&[&["upgrade", "web", "web", "--set", "podLabels.edition=two,replicaCount=2"][..], &set].concat());
        assert_eq!(edition(bed), "\"two\"");
        // What cannot become ready is undone.
        let broken = ["upgrade", "web", "web", "--set", "podLabels.edition=three,readinessProbe.httpGet.path=/none"];
        let said = helm.run(&[&broken[..], &set[..4], &["--wait", "--timeout", "5s"]].concat());
        assert_ne!(said.code, 0, "{said:?}");
        helm.must(&["rollback", "web", "2", "--wait", "--timeout", "200s"]);
        assert_eq!(edition(bed), "\"two\"");
        helm.must(&["uninstall", "web", "--wait", "--timeout", "100s"]);
        assert_eq!(bed.send("GET", "/apis/apps/v1/namespaces/default/deployments/web", "").0, 404);
        for job in ["pre", "post"] {
            bed.send(
                "DELETE",
                &format!("/apis/batch/v1/namespaces/default/jobs/web-{job}?propagationPolicy=Background"),
                "",
            );
        }
        bed.send("DELETE", "/api/v1/namespaces/default/pods/web-test-connection", "");
        bed.until("everything is gone", |bed| bed.running_of("web").is_empty().then_some(()));
        let left = |bed: &Bed| {
            bed.get("/api/v1/namespaces/default/pods")["items"].as_array().is_some_and(Vec::is_empty).then_some(())
        };
        bed.until("no pod is left", left);
    }
}
