//! The images of containers in plain words, from the answer of the agent. PURE.

use serde_json::Value;

use super::report::Report;

const HEAD: [&str; 5] = ["POD", "CONTAINER", "IMAGE", "RUNS", "NEWER"];

/// `images`: the answer of `/images`. Nothing is cut: the last column is the longest.
pub fn report(images: &Value) -> Report {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rows = vec![HEAD.map(str::to_owned)];
    for one in images["images"].as_array().into_iter().flatten() {
        let file = if one["source"] == "file" { " (file)" } else { "" };
        // The digest is what a registry shows; an image that never was in one has the engine's id alone.
        let runs = one["digest"].as_str().or_else(|| one["id"].as_str()).map_or_else(|| "-".to_owned(), short);
        rows.push([
            format!("{}/{}{file}", text(&one["namespace"]), text(&one["pod"])),
            text(&one["container"]),
            text(&one["image"]),
            runs,
            text(&one["words"]),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |row: &[String; 5]| {
        let [pod, container, image, runs, newer] = row;
        let [a, b, c, d] = widths;
        format!("{pod:a$}  {container:b$}  {image:c$}  {runs:d$}  {newer}").trim_end().to_owned()
    };
    let lines = if rows.len() == 1 { vec!["no pods".to_owned()] } else { rows.iter().map(line).collect() };
    Report { lines, document: images.clone(), well: true }
}

fn short(id: &str) -> String {
    match id.split_once(':') {
        Some((kind, hex)) => format!("{kind}:{}", hex.get(..12).unwrap_or(hex)),
        None => id.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_for_each_container() {
        let document = json!({"images": [
            {"namespace": "default", "pod": "web", "source": "file", "container": "c", "image": "nginx:1",
                "id": "sha256:0123456789abcdef", "digest": "sha256:fedcba9876543210", "words": "the newest"},
            {"namespace": "default", "pod": "b", "source": "api", "container": "long-name", "image": "b:1",
                "id": "sha256:0123456789abcdef", "digest": null, "words": "registry not known: no route to host"},
            {"namespace": "default", "pod": "c", "source": "api", "container": "c", "image": "c:1", "id": null,
                "digest": null, "words": "not started yet"},
        ]});
        let expected = [
            "POD                 CONTAINER  IMAGE    RUNS                 NEWER",
            "default/web (file)  c          nginx:1  sha256:fedcba987654  the newest",
            "default/b           long-name  b:1      sha256:0123456789ab  registry not known: no route to host",
            "default/c           c          c:1      -                    not started yet",
        ];
        let report = report(&document);
        assert_eq!(report.lines, expected);
        assert!(report.well && report.document == document);
        assert_eq!(super::report(&json!({"images": []})).lines, ["no pods"]);
    }
}
