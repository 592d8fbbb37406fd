//! Prometheus' text form, up to a number of lines. PURE.

use coracle_api::meta::{ObjectMeta, Time};
use std::fmt::Write;

/// A label and its value.
pub type Label<'l> = (&'l str, &'l str);

pub struct Text {
    out: String,
    name: &'static str,
    series: usize,
    series_max: usize,
    left_out: usize,
}

impl Text {
    pub fn new(series_max: usize) -> Text {
        Text { out: String::with_capacity(64 << 10), name: "", series: 0, series_max, left_out: 0 }
    }

    /// Begins a family; all its lines follow.
    pub fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.name = name;
        // Writing to a String cannot fail; the results are dropped.
        let _ = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub fn line(&mut self, labels: &[Label<'_>], value: f64) {
        if self.series >= self.series_max {
            self.left_out += 1;
            return;
        }
        self.series += 1;
        self.out.push_str(self.name);
        for (at, (label, text)) in labels.iter().enumerate() {
            self.out.push(if at == 0 { '{' } else { ',' });
            self.out.push_str(label);
            self.out.push_str("=\"");
            escape(text, &mut self.out);
            self.out.push('"');
        }
        if !labels.is_empty() {
            self.out.push('}');
        }
        let _ = writeln!(self.out, " {value}");
    }

    /// A line whose value is known only where the object says it.
    pub fn known(&mut self, labels: &[Label<'_>], value: Option<f64>) {
        if let Some(value) = value {
            self.line(labels, value);
        }
    }

    /// Three lines of a condition: each status with 1 where it holds. The labels come before the status.
    pub fn condition(&mut self, labels: &[Label<'_>], (label, status): (&str, &str)) {
        for (shown, said) in [("true", "True"), ("false", "False"), ("unknown", "Unknown")] {
            let labels: Vec<Label<'_>> = labels.iter().copied().chain([(label, shown)]).collect();
            self.line(&labels, truth(status == said));
        }
    }

    /// A line for each phase, with 1 at the one that holds.
    pub fn phases(&mut self, labels: &[Label<'_>], phases: &[&str], phase: &str) {
        for one in phases {
            let labels: Vec<Label<'_>> = labels.iter().copied().chain([("phase", *one)]).collect();
            self.line(&labels, truth(*one == phase));
        }
    }

    /// A line for each owner; one with empty labels where there is none.
    pub fn owners(&mut self, labels: &[Label<'_>], metadata: &ObjectMeta) {
        let mut line = |kind: &str, name: &str, controls: &str| {
            let owner = [("owner_kind", kind), ("owner_name", name), ("owner_is_controller", controls)];
            let labels: Vec<Label<'_>> = labels.iter().copied().chain(owner).collect();
            self.line(&labels, 1.0);
        };
        if metadata.owner_references.is_empty() {
            line("", "", "");
        }
        for owner in &metadata.owner_references {
            line(&owner.kind, &owner.name, if owner.controller { "true" } else { "false" });
        }
    }

    pub fn end(mut self) -> String {
        let (left_out, name) = (self.left_out, "coracle_state_left_out");
        let _ = writeln!(
            self.out,
            "# HELP {name} Lines beyond the limit of this page.\n# TYPE {name} gauge\n{name} {left_out}"
        );
        self.out
    }
}

fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

pub fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

pub fn seconds(time: Option<Time>) -> Option<f64> {
    time.map(|time| time.seconds() as f64)
}

/// The labels of an object in a namespace; `kind` is the label that has its name.
pub fn named<'o>(metadata: &'o ObjectMeta, kind: &'static str) -> [Label<'o>; 2] {
    [("namespace", metadata.namespace.as_str()), (kind, metadata.name.as_str())]
}

/// The name of a resource as a label's value has it: `ephemeral_storage`.
pub fn sanitized(resource: &str) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '_' };
    resource.chars().map(letter).collect()
}

/// The unit of a resource. None: kube-state-metrics does not tell the resource.
pub fn unit(resource: &str) -> Option<&'static str> {
    match resource {
        "cpu" => Some("core"),
        "memory" | "storage" | "ephemeral-storage" => Some("byte"),
        "pods" => Some("integer"),
        other if other.starts_with("hugepages-") || other.starts_with("attachable-volumes-") => Some("byte"),
        other if other.contains('/') => Some("integer"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_an_end_and_their_values_are_escaped() {
        let mut text = Text::new(2);
        text.family("a", "gauge", "b");
        text.line(&[("c", "d\"\\\n")], 1.5);
        text.line(&[], 2.0);
        text.line(&[], 3.0);
        let end = "# HELP coracle_state_left_out Lines beyond the limit of this page.\n\
                   # TYPE coracle_state_left_out gauge\n\
                   coracle_state_left_out 1\n";
        assert_eq!(text.end(), format!("# HELP a b\n# TYPE a gauge\na{{c=\"d\\\"\\\\\\n\"}} 1.5\na 2\n{end}"));
    }

    #[test]
    fn resources_as_kube_state_metrics_names_them() {
        for (resource, name, expected) in [
            ("cpu", "cpu", Some("core")),
            ("ephemeral-storage", "ephemeral_storage", Some("byte")),
            ("hugepages-2Mi", "hugepages_2Mi", Some("byte")),
            ("nvidia.com/gpu", "nvidia_com_gpu", Some("integer")),
            ("pods", "pods", Some("integer")),
            ("other", "other", None),
        ] {
            assert_eq!((sanitized(resource).as_str(), unit(resource)), (name, expected), "{resource}");
        }
    }
}
