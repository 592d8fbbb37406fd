use super::kinds::name_of_file;
use super::*;
use serde_json::json;

const NOW: i64 = 1_767_225_600;

fn origin(file_name: &str) -> Origin<'_> {
    Origin { file_name, node_name: "n1", written: Time::from_seconds(NOW).unwrap(), allow_unknown: false }
}

/// All that a file gives, and its warnings; or what is wrong with it.
fn whole(text: &str, origin: Origin<'_>) -> Result<(Given, Vec<String>), String> {
    let words = |faults: Vec<Fault>| faults.iter().map(Fault::words).collect::<Vec<_>>().join("; ");
    let (mut all, mut warnings, mut faults) = (Given::default(), Vec::new(), Vec::new());
    for entry in read(text, origin).map_err(words)? {
        faults.extend(entry.fault());
        let given = entry.result.unwrap_or_default();
        all.pods.extend(given.pods);
        all.objects.extend(given.objects);
        warnings.extend(entry.warnings);
    }
    if faults.is_empty() { Ok((all, warnings)) } else { Err(words(faults)) }
}

fn read_as(text: &str, file: &str) -> Result<Value, String> {
    whole(text, origin(file)).map(|(given, _)| given.pods.into_iter().next().unwrap_or_default())
}

fn refused(text: &str, words: &[&str]) {
    let error = read_as(text, "f.yaml").unwrap_err();
    assert!(words.iter().all(|word| error.contains(word)) && !error.contains('\n'), "{error}");
}

#[test]
fn yaml_and_json_give_the_same_pod() {
    let yaml = read_as("version: v1beta2\nid: web\ncontainers:\n  - name: c\n    image: busybox\n", "a").unwrap();
    let json =
        read_as(r#"{"version": "v1beta2", "id": "web", "containers": [{"name": "c", "image": "busybox"}]}"#, "b")
            .unwrap();
    assert_eq!(yaml, json);
    assert_eq!(yaml["metadata"]["name"], "web");
    assert_eq!(yaml["metadata"]["namespace"], "default");
    assert_eq!(yaml["spec"]["restartPolicy"], "Always");
}

#[test]
fn a_uid_stays_over_edits_and_differs_by_name() {
    let uid = |text: &str, file: &str| read_as(text, file).unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let v1 = |name: &str, image: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
                 spec: {{containers: [{{name: c, image: {image}}}]}}"
        )
    };
    assert_eq!(uid(&v1("a", "x"), "1.yaml"), uid(&v1("a", "z"), "2.yaml"));
    assert_ne!(uid(&v1("a", "x"), "1.yaml"), uid(&v1("b", "x"), "1.yaml"));
    assert_eq!(uid("version: v1beta2\nuuid: u-1\ncontainers: [{name: c, image: x}]", "1"), "u-1");
    assert_eq!(uid(&v1("a", "x"), "1").len(), 36);
}

#[test]
fn names_come_from_files() {
    for (file, name) in [("web.yaml", "web"), ("Web Server.v1.manifest", "web-server-v1"), ("hello", "hello")] {
        assert_eq!(name_of_file(file), name);
    }
    assert!(name_of_file("___").starts_with("pod-"));
}

#[test]
fn scalars_are_those_of_a_body() {
    let yaml = "version: v1beta2\nid: web\ncontainers: [{name: c, image: x, env: [{name: a, value: oN}, \
                    {name: b, value: 7e99999}]}]";
    let pod = read_as(yaml, "a").unwrap();
    assert_eq!(
        pod["spec"]["containers"][0]["env"],
        json!([{"name": "a", "value": "oN"}, {"name": "b", "value": "7e99999"}])
    );
    let grace = |text: &str| {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nspec: {{terminationGracePeriodSeconds: {text}, containers: [{{name: c, \
                 image: x}}]}}"
        );
        read_as(&pod, "a").unwrap()["spec"]["terminationGracePeriodSeconds"].clone()
    };
    assert_eq!(["0777", "1_0", "1__0", "0x10"].map(grace), [511, 10, 10, 16].map(Value::from));
}

#[test]
fn mistakes_say_where_and_what_to_do() {
    refused("version: v1beta2\nid: a\ncontainers: [{name: c, image: x}]\n---\nversion: v1beta2\nid: [\n", &["line 6"]);
    refused(
        "version: v1beta2\nid: a\ncontainers: [{name: c, image: x}]\n---\nversion: v1beta9\n",
        &["line 5", "v1beta9"],
    );
    refused("version: v1beta2\nid: a\n--- {id: b}\n", &["a second document begins"]);
    refused("apiVersion: batch/v1\nkind: CronJob\n", &["CronJob"]);
    refused("apiVersion: v1\nkind: Service\n", &["spec.selector"]);
    refused("# nothing\n---\n", &["empty"]);
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    refused(&format!("{twice}---\n{twice}"), &["ConfigMap default/a", "twice"]);
    refused(
        "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c, image: y}]}",
        &["spec.containers[0].image", "quotes"],
    );
    refused("a: 1\nb: [1\nc", &["line 2"]);
    refused("", &["empty"]);
    refused("version: v1beta2\ncontainers:\n- name: c\n  imagee: x\n", &["image: Required", "imagee"]);
    refused(&"[".repeat(10_000), &["limit"]);
    let bomb = format!("a: &a [x{}]\n", ",x".repeat(99))
        + &["b", "c", "d", "e"]
            .iter()
            .zip(["a", "b", "c", "d"])
            .map(|(n, o)| format!("{n}: &{n} [*{o}{}]\n", format!(",*{o}").repeat(99)))
            .collect::<String>();
    refused(&bomb, &["come to", "nodes"]);
}

#[test]
fn of_two_keys_the_last_one_counts() {
    let check = |text: &str, image: &str, warnings: &[&str]| {
        let lenient = Origin { allow_unknown: true, ..origin("f") };
        let (given, said) = whole(text, lenient).unwrap();
        assert_eq!(given.pods[0]["spec"]["containers"][0]["image"], image, "{text}");
        assert_eq!(said, warnings, "{text}");
    };
    let head = "# a pod\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n";
    check(&format!("{head}  containers: [{{name: c, image: x}}]\n"), "x", &[]);
    check(
        &format!("{head}  containers:\n  - name: c\n    image: x\n    image: w\n"),
        "w",
        &["spec.containers[0].image (line 10): it stands there twice: the last one counts"],
    );
    check(
        &format!("{head}  containers: [{{name: c, image: x}}]\n  containers:\n  - {{name: c, image: v, image: z}}\n"),
        "z",
        &[
            "spec.containers[0].image (line 9): it stands there twice: the last one counts",
            "spec.containers (line 8): it stands there twice: the last one counts",
        ],
    );
    check(
        r#"{"version": "v1beta2", "id": "a", "id": "b", "containers": [{"name": "c", "image": "x"}]}"#,
        "x",
        &["id (line 1): it stands there twice: the last one counts"],
    );
    check("version: v1beta2\r\nid: a\r\ncontainers:\r\n- name: c\r\n  image: x\r\n---\r\n", "x", &[]);
}

/// A file of a megabyte costs what a megabyte costs: each of these took minutes and gigabytes.
#[test]
fn what_a_file_comes_to_is_bounded() {
    refused(&"---\n".repeat(260_000), &["empty"]);
    refused(&"---\na\n".repeat(170_000), &["170000 documents", "at most 200"]);
    let list = format!("kind: List\nitems: [{}]\n", "{a: b},".repeat(300));
    refused(&list, &["300 documents"]);
    let far = format!("{}id: [\n", "---\n".repeat(200_000));
    refused(&far, &["line 20000"]);
    let letters = "x".repeat(50_000);
    let repeats = format!("- &a {letters}\n{}", "- *a\n".repeat(60));
    refused(&format!("---\n{repeats}").repeat(8), &["more than 16 MiB"]);
    let large = "x".repeat(250_000);
    let replicas = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: w}}\nspec:\n  replicas: 100\n  selector: \
             {{matchLabels: {{a: b}}}}\n  template:\n    metadata: {{labels: {{a: b}}, annotations: {{k: \
             {large}}}}}\n    spec: {{containers: [{{name: c, image: x}}]}}\n"
    );
    refused(&replicas, &["more than 16 MiB", "replicas"]);
    let unknown: String = (0..1000).map(|at| format!("u{at}: 1\n")).collect();
    let pod = format!("apiVersion: v1\nkind: Pod\nspec: {{containers: [{{name: c, image: x}}]}}\n{unknown}");
    let (_, warnings) = whole(&pod, Origin { allow_unknown: true, ..origin("f") }).unwrap();
    assert_eq!((warnings.len(), warnings.last().map(String::as_str)), (TOLD_MAX + 1, Some("and 150 more")));
}

#[test]
fn wrong_words_are_told_with_the_right_ones() {
    for (text, words) in [
        ("apiVersion: v1\nkind: pod\n", "kind: Unsupported value: \"pod\": did you mean Pod?"),
        ("apiVersion: v1\nkind: Pods\n", "did you mean Pod?"),
        ("apiVersion: apps/v1\nkind: deployment\n", "did you mean Deployment?"),
        (
            "apiVersion: extensions/v1beta1\nkind: Deployment\n",
            "apiVersion: Unsupported value: \"extensions/v1beta1\": a Deployment starts with apiVersion: apps/v1",
        ),
        ("apiVersion: v1\nkind: DaemonSet\n", "apiVersion: Unsupported value: \"v1\": a DaemonSet starts with"),
        ("kind: Job\n", "apiVersion: Required value: a Job starts with apiVersion: batch/v1"),
        ("apiVersion: batch/v1beta1\nkind: CronJob\n", "a CronJob starts with apiVersion: batch/v1"),
        ("apiVersion: v1beta3\nkind: Secret\n", "a Secret starts with apiVersion: v1"),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n", "kubectl apply -f"),
        ("apiVersion: cert-manager.io/v1\nkind: Certificate\n", "kind Certificate: this directory takes Pod, "),
        ("apiVersion: apps/v1\nkind: Deploymet\n", "did you mean Deployment?"),
        ("apiVersion: networking.k8s.io/v1\nkind: Ingress\n", "put it into /etc/coracle/apply"),
        ("services:\n  web: {image: nginx}\n", "coracle import"),
        ("version: '3.8'\nservices:\n  web: {build: .}\nvolumes: {d: }\n", "coracle import"),
        ("web:\n  image: nginx\n  ports: ['80:80']\n", "coracle import"),
    ] {
        refused(text, &[words]);
    }
}

#[test]
fn files_hold_all_that_pods_need() {
    let text = "
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: '1'}
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Secret
  metadata: {name: password, namespace: home}
  stringData: {p: x}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata: {name: files}
  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
--- # the database
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: c, image: x, volumeMounts: [{name: data, mountPath: /d}]}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: x}]}
";
    let (given, warnings) = whole(text, origin("app.yaml")).unwrap();
    let names = |items: &[Value]| {
        let name =
            |item: &Value| format!("{}/{}", item["metadata"]["namespace"], item["metadata"]["name"]).replace('"', "");
        items.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(&given.pods), ["default/db-0", "default/db-1", "default/once-0"]);
    let objects = ["default/settings", "home/password", "default/files", "default/data-db-0", "default/data-db-1"];
    assert_eq!(names(&given.objects), objects);
    assert_eq!(given.objects[1]["data"]["p"], "eA==");
    assert_eq!(given.objects[2]["directory"], "claims/default/files");
    assert_eq!(warnings, Vec::<String>::new());
    assert_ne!(given.pods[0]["metadata"]["uid"], given.pods[1]["metadata"]["uid"]);
}

/// As people run them at home and in small works.
#[test]
fn every_field_of_usual_pods_is_acted_on() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/v1/templates/pods.yaml");
    let text = std::fs::read_to_string(path).unwrap().replace("metadata: {", "apiVersion: v1\nkind: Pod\nmetadata: {");
    let (given, warnings) = whole(&text, origin("pods.yaml")).unwrap();
    assert_eq!((given.pods.len(), warnings), (12, Vec::<String>::new()));
    for pod in &given.pods {
        assert_eq!(coracle_api::fields::refused(pod), None, "{}", pod["metadata"]["name"]);
    }
}

#[test]
fn a_field_that_is_unknown_is_refused_with_its_line_and_the_one_that_was_meant() {
    let head = "# a pod\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n";
    refused(
        &format!("{head}  - name: c\n    image: x\n    comand: [a]\n"),
        &["Pod default/a (line 3): spec.containers[0].comand (line 10): unknown; did you mean command?"],
    );
    refused(
        &format!("{head}  - name: c\n    image: x\n    image: w\n"),
        &["Pod default/a (line 3): spec.containers[0].image (line 10): it stands there twice"],
    );
    refused(&format!("{head}  - {{name: c, image: x, colour: red}}\n"), &["colour (line 8): unknown: no field"]);
    let deployment = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n  \
                      metadata: {name: w}\n  spec:\n    replica: 2\n    selector: {matchLabels: {a: b}}\n    \
                      template:\n      metadata: {labels: {a: b}}\n      spec:\n        containers:\n        \
                      - name: c\n          image: x\n          port: []\n";
    refused(
        deployment,
        &[
            "Deployment default/w (line 4): spec.replica (line 8): unknown; did you mean replicas?",
            "spec.template.spec.containers[0].port (line 16): unknown; did you mean ports?",
        ],
    );
    refused("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndatta: {a: b}\n", &["did you mean data?"]);
}

#[test]
fn the_forms_of_2014_are_warned_of() {
    let (given, warnings) =
        whole("version: v1beta2\nid: a\ncontainers:\n- name: c\n  image: x\n  colour: y\n", origin("f")).unwrap();
    assert_eq!(given.pods.len(), 1);
    assert_eq!(warnings, ["containers[0].colour (line 6): unknown: no field of this format; it is left out"]);
}

#[test]
fn an_object_that_is_refused_hides_no_other() {
    let pod = |name: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n\
             spec: {{containers: [{{name: c, image: x{more}}}]}}\n"
        )
    };
    let of = |text: &str| -> Vec<(String, usize, bool)> {
        read(text, origin("f")).unwrap().iter().map(|one| (one.key(), one.line, one.result.is_ok())).collect()
    };
    let entry = |key: &str, line: usize, taken: bool| (key.to_owned(), line, taken);
    let text = format!(
        "{}---\n{}---\nkind: Ingress\napiVersion: networking.k8s.io/v1\nmetadata: {{name: i, namespace: shop}}\n",
        pod("a", ""),
        pod("b", ", comand: [x]")
    );
    assert_eq!(
        of(&text),
        [entry("Pod default/a", 1, true), entry("Pod default/b", 6, false), entry("Ingress shop/i", 11, false)]
    );
    let twice = format!("{0}---\n{0}---\n{1}", pod("a", ""), pod("b", ""));
    assert_eq!(
        of(&twice),
        [entry("Pod default/a", 1, false), entry("Pod default/a", 6, false), entry("Pod default/b", 11, true)]
    );
}

/// An object whose name is not sure may be any of the file.
#[test]
fn where_it_is_unknown_which_object_is_meant_nothing_of_the_file_counts() {
    let good = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: x}]}\n---\n";
    let check = |text: &str, words: &str| {
        let faults = read(&format!("{good}{text}"), origin("f")).unwrap_err();
        assert!(faults.len() == 1 && faults[0].words().contains(words), "{faults:?}");
    };
    let spec = "spec: {containers: [{name: c, image: x}]}\n";
    check(&format!("apiVersion: v1\nkind: Pod\nmetdata: {{name: b}}\n{spec}"), "did you mean metadata?");
    check(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{nmae: b}}\n{spec}"), "did you mean name?");
    check(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: b, namspace: x}}\n{spec}"), "namespace?");
    check(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: b, name: d}}\n{spec}"), "twice");
    check(&format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: 5}}\n{spec}"), "line 6: metadata.name");
    check(&format!("apiVersion: v1\nkind: pod\nmetadata: {{name: b}}\n{spec}"), "did you mean Pod?");
    check("apiVersion: v1\nkind: [x]\n", "kind");
    check("just a text\n", "map");
    check("a: [\n", "line 6");
}
