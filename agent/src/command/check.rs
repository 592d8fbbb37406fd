//! The problems of manifest files, one line each. PURE.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use super::report::Report;
use crate::facts::ports::{TakenPorts, host_ports};
use crate::facts::wanted::Wanted;

/// One file: its pods and warnings, or why it cannot be read.
pub struct CheckedFile {
    pub path: String,
    pub read: Result<(Vec<Arc<Wanted>>, Vec<String>), String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    pub path: String,
    /// It starts all the same, or may have to wait for another. Problems turn the exit code, and are in `status` and
    /// `doctor`; warnings are told by `check` alone.
    pub warning: bool,
    pub text: String,
}

impl Remark {
    pub fn line(&self) -> String {
        let word = if self.warning { "warning: " } else { "" };
        format!("{}: {word}{}", self.path, self.text)
    }
}

pub fn all(files: &[CheckedFile]) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    let mut ports = TakenPorts::default();
    for CheckedFile { path, read } in files {
        let mut remark = |warning: bool, text: String| remarks.push(Remark { path: path.clone(), warning, text });
        let (pods, warnings) = match read {
            Ok(read) => read,
            Err(why) => {
                remark(false, why.clone());
                continue;
            }
        };
        for warning in warnings {
            remark(true, warning.clone());
        }
        for wanted in pods {
            let pod = format!("pod {}/{}", wanted.name.namespace, wanted.name.name);
            if let Some(refused) = &wanted.refused {
                remark(false, format!("{pod} is not started: {refused}"));
            }
            let first = *owners.entry(&wanted.name.uid).or_insert(path);
            if first != path {
                remark(
                    false,
                    format!("{first} asks for the same {pod} and comes first: give one of them another name"),
                );
            } else if wanted.refused.is_none() {
                // The other may end, as a job does: a warning.
                let wants = host_ports(&wanted.pod.spec);
                match ports.clash(&wanted.name, &wants) {
                    Some(clash) => {
                        let clash = clash.in_full();
                        remark(true, format!("{pod} waits beside another: {clash}; give one of them another hostPort"))
                    }
                    None => ports.take(&wanted.name, &wants),
                }
            }
        }
    }
    remarks
}

pub fn report(remarks: &[Remark]) -> Report {
    let items =
        remarks.iter().map(|remark| json!({"file": remark.path, "warning": remark.warning, "message": remark.text}));
    Report {
        lines: remarks.iter().map(Remark::line).collect(),
        document: json!({"remarks": items.collect::<Vec<_>>()}),
        well: remarks.iter().all(|remark| remark.warning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::naming::Source;
    use serde_json::Value;

    fn file(path: &str, spec: Value, warnings: &[&str]) -> CheckedFile {
        file_of("web", path, spec, warnings)
    }

    fn file_of(name: &str, path: &str, spec: Value, warnings: &[&str]) -> CheckedFile {
        let pod = json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec});
        let pods = vec![Arc::new(Wanted::new(Source::File, pod).unwrap())];
        CheckedFile {
            path: path.to_owned(),
            read: Ok((pods, warnings.iter().map(|text| (*text).to_owned()).collect())),
        }
    }

    fn check(files: &[CheckedFile], expected: &[&str], well: bool) {
        let report = report(&all(files));
        assert_eq!((report.lines.len(), report.well), (expected.len(), well), "{:?}", report.lines);
        for (line, words) in report.lines.iter().zip(expected) {
            assert!(words.split('|').all(|word| line.contains(word)), "{line}");
        }
    }

    #[test]
    fn a_line_a_problem() {
        let plain = || json!({"containers": [{"name": "c", "image": "x"}]});
        check(&[file("a", plain(), &[])], &[], true);
        check(&[file("a", plain(), &["spec.colour is left out"])], &["a: warning: |spec.colour"], true);
        check(&[file("a", plain(), &[]), file("b", plain(), &[])], &["b: a asks for the same pod default/web"], false);
        check(&[CheckedFile { path: "a".to_owned(), read: Err("line 3: no".to_owned()) }], &["a: line 3: no"], false);
        let refused = json!({"containers": [{"name": "c", "image": "x"}], "hostUsers": false});
        check(&[file("a", refused, &[])], &["a: pod default/web is not started|hostUsers"], false);
        let mut exported = plain();
        exported["volumes"] = json!([{"name": "kube-api-access-x2k9d", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token"}}, {"configMap": {"name": "kube-root-ca.crt"}}]}}]);
        let says = "a: pod default/web is not started|kube-api-access-x2k9d|token|volumeMounts|a master";
        check(&[file("a", exported, &[])], &[says], false);
    }

    #[test]
    fn one_host_port_for_two_pods() {
        let at = |port: u16, more: Value| {
            let mut spec = json!({"containers": [{"name": "c", "image": "x",
                "ports": [{"containerPort": 80, "hostPort": port}]}]});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        let plain = |port| at(port, json!({}));
        let two = |first, second| [file_of("web", "a", first, &[]), file_of("db", "b", second, &[])];
        let clash = "b: warning: pod default/db waits|host port 80/TCP is taken by pod default/web|another hostPort";
        check(&two(plain(80), plain(80)), &[clash], true);
        check(&two(plain(80), plain(81)), &[], true);
        let own_network = json!({"hostNetwork": true, "containers": [{"name": "c", "image": "x",
            "ports": [{"containerPort": 80}]}]});
        check(&two(plain(80), own_network), &[clash], true);
        let refused = at(80, json!({"hostUsers": false}));
        check(&two(refused.clone(), plain(80)), &["a: pod default/web is not started"], false);
        check(&two(plain(80), refused), &["b: pod default/db is not started"], false);
        check(&[file("a", plain(80), &[]), file("b", plain(80), &[])], &["b: a asks for the same pod"], false);
    }
}
