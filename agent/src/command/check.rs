//! The problems of manifest files, one line each. PURE.

use std::collections::BTreeMap;

use serde_json::json;

use super::report::Report;
use crate::desired::file::Looked;
use crate::desired::manifest::Fault;
use crate::facts::ports::{TakenPorts, host_ports};

/// One file: its pods, refused objects and warnings, or why it is unknown which objects it has.
pub struct CheckedFile {
    pub path: String,
    pub read: Result<Looked, Vec<Fault>>,
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
        let Looked { pods, refused, warnings } = match read {
            Ok(read) => read,
            Err(faults) => {
                faults.iter().for_each(|fault| remark(false, fault.words()));
                continue;
            }
        };
        refused.iter().for_each(|fault| remark(false, fault.words()));
        warnings.iter().for_each(|fault| remark(true, fault.words()));
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
    use crate::facts::wanted::Wanted;
    use serde_json::Value;
    use std::sync::Arc;

    fn file(path: &str, spec: Value, warnings: &[&str]) -> CheckedFile {
        file_of("web", path, spec, warnings)
    }

    fn file_of(name: &str, path: &str, spec: Value, warnings: &[&str]) -> CheckedFile {
        let pod = json!({"metadata": {"namespace": "default", "name": name, "uid": name}, "spec": spec});
        let pods = vec![Arc::new(Wanted::new(Source::File, pod).unwrap())];
        let warnings = warnings.iter().map(|text| Fault::of_file(*text)).collect();
        CheckedFile { path: path.to_owned(), read: Ok(Looked { pods, warnings, refused: Vec::new() }) }
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
        let broken = vec![Fault::of_file("line 3: no"), Fault::of_file("line 5: nor this")];
        let broken = CheckedFile { path: "a".to_owned(), read: Err(broken) };
        check(&[broken], &["a: line 3: no", "a: line 5: nor this"], false);
        let mut one_refused = file("a", plain(), &[]);
        let fault = Fault { line: Some(3), object: Some("Pod d/p".to_owned()), text: "no".to_owned() };
        one_refused.read.as_mut().unwrap().refused.push(fault);
        check(&[one_refused], &["a: Pod d/p (line 3): no"], false);
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
