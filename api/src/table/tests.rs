use super::*;
use crate::kinds::Kinds;

/// Cells that kube-apiserver 1.36 gave for these documents, and the edges that its printers have besides. An object was
/// made an hour and five minutes before now.
const CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/tables.jsonl"));
const NOW: &str = "2020-01-02T01:05:00Z";

fn cells_for(document: &Value, now: Time) -> Vec<Value> {
    let text = document.to_string();
    row(&Document::read(&text).unwrap().reading, now)
}

#[test]
fn cells() {
    let now = Time::parse(NOW).unwrap();
    let mut tried = 0;
    for line in CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let case: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let mut document = case["object"].clone();
        document["metadata"]["creationTimestamp"] = json!("2020-01-02T00:00:00Z");
        assert_eq!(Value::from(cells_for(&document, now)), case["cells"], "{line}");
        tried += 1;
    }
    assert!(tried > 60, "{tried} tried");
}

#[test]
fn every_kind_has_a_cell_for_each_column() {
    let now = Time::parse(NOW).unwrap();
    let kinds = Kinds::builtin();
    let mut own = 0;
    for kind in kinds.iter().filter(|kind| kind.alias.is_none()) {
        let document = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"name": "a"}});
        let (columns, cells) = (columns(&kind.api_version(), &kind.kind), cells_for(&document, now));
        assert_eq!(columns.len(), cells.len(), "{}", kind.kind);
        let place = columns.iter().position(|column| column["format"] == "name").expect("one column is the name");
        assert_eq!(cells[place], "a", "{}", kind.kind);
        own += usize::from(columns[1]["name"] != "Created At");
    }
    assert!(own > 35, "{own} kinds have columns of their own");
}

#[test]
fn columns_are_read() {
    let pod = columns("v1", "Pod");
    assert_eq!(
        pod[1],
        json!({
            "name": "Ready", "type": "string", "format": "", "priority": 0,
            "description": "The aggregate readiness state of this pod for accepting traffic.",
        })
    );
    assert_eq!((&pod[5]["name"], &pod[5]["priority"]), (&json!("IP"), &json!(1)));
    assert!(pod[0]["description"].as_str().unwrap().starts_with("Name must be unique"));
    let plain = columns("example.com/v1", "Thing");
    assert_eq!((&plain[1]["name"], &plain[1]["type"]), (&json!("Created At"), &json!("date")));
    assert!(plain[1]["description"].as_str().unwrap().contains("UTC.\n\nPopulated"));
}

#[test]
fn nothing_in_a_document_is_taken_for_granted() {
    let now = Time::parse(NOW).unwrap();
    for kind in Kinds::builtin().iter() {
        for wrong in [json!(null), json!("x"), json!(5), json!([]), json!([null, 5, "x"]), json!({"a": 5})] {
            let document = json!({
                "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": wrong, "spec": wrong, "status": wrong,
                "data": wrong,
                "subsets": wrong, "subjects": wrong, "roleRef": wrong, "endpoints": wrong, "ports": wrong,
                "template": wrong,
            });
            assert!(!cells_for(&document, now).is_empty());
        }
    }
}
