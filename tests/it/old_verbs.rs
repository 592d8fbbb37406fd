//! Every verb of every kind in v1beta1, v1beta2 and v1beta3, one after the other as their clients did: made, made
//! again, read, listed, watched, put as read, put stale, patched in two languages, deleted, gone.

use crate::transcript::{Bed, Reply, ask};
use coracle_api::old::{self, Version};
use serde_json::{Value, json};

/// The smallest object of each kind, in v1, and the plural in the flat versions. Empty: they do not have it.
fn kinds() -> Vec<(Value, &'static str, &'static str)> {
    let pod = json!({"containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod});
    let of = |kind: &str, rest: Value| {
        let mut object = json!({"kind": kind, "apiVersion": "v1", "metadata": {"name": "x"}});
        if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
            object.extend(rest);
        }
        object
    };
    let event = json!({
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "r",
        "source": {"component": "me"},
    });
    let volume =
        json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    let claim = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    vec![
        (of("Pod", json!({"spec": pod})), "pods", "pods"),
        (
            of("ReplicationController", json!({"spec": {"replicas": 1, "template": template}})),
            "replicationControllers",
            "replicationcontrollers",
        ),
        (of("Service", json!({"spec": {"ports": [{"port": 80}]}})), "services", "services"),
        (
            of("Endpoints", json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]})),
            "endpoints",
            "endpoints",
        ),
        (of("Node", json!({})), "minions", "nodes"),
        (of("Event", event), "events", "events"),
        (of("Namespace", json!({})), "namespaces", "namespaces"),
        (of("Secret", json!({"data": {"k": "dg=="}})), "secrets", "secrets"),
        (of("ServiceAccount", json!({})), "serviceAccounts", "serviceaccounts"),
        (
            of("LimitRange", json!({"spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}}]}})),
            "limitRanges",
            "limitranges",
        ),
        (of("ResourceQuota", json!({"spec": {"hard": {"pods": "100"}}})), "resourceQuotas", "resourcequotas"),
        (of("PersistentVolume", volume), "persistentVolumes", "persistentvolumes"),
        (of("PersistentVolumeClaim", claim), "persistentVolumeClaims", "persistentvolumeclaims"),
        (of("PodTemplate", json!({"template": template})), "", "podtemplates"),
    ]
}

/// One kind in one version.
struct Talk<'b> {
    bed: &'b Bed,
    version: Version,
    kind: String,
    plural: &'static str,
    /// None: the kind has none.
    namespace: Option<&'static str>,
}

impl Talk<'_> {
    fn path(&self, lead: &str, name: &str, query: &str) -> String {
        let (version, plural) = (self.version.name(), self.plural);
        let name = if name.is_empty() { String::new() } else { format!("/{name}") };
        match (self.version.is_flat(), self.namespace) {
            (true, Some(namespace)) => format!("/api/{version}/{lead}{plural}{name}?namespace={namespace}&{query}"),
            (false, Some(namespace)) => format!("/api/{version}/{lead}namespaces/{namespace}/{plural}{name}?{query}"),
            (_, None) => format!("/api/{version}/{lead}{plural}{name}?{query}"),
        }
    }

    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        // Clients of those years name neither what they send nor what they take.
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ask(self.bed.network(), method, path, &headers, body)
    }

    fn must(&self, code: u16, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Value {
        let reply = self.ask(method, path, headers, body);
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.code, code, "{method} {path} {body}: {text}");
        let document: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{method} {path}: {error}: {text}"));
        assert_eq!(document["apiVersion"], self.version.name(), "{method} {path}: {text}");
        document
    }

    fn refused(&self, code: u16, reason: &str, method: &str, path: &str, body: &str) {
        let status = self.must(code, method, path, &[], body);
        assert_eq!(
            (&status["kind"], &status["status"], &status["reason"]),
            (&json!("Status"), &json!("Failure"), &json!(reason)),
            "{path}"
        );
        // The word of their time for the name.
        assert_eq!(status["details"]["id"], "x", "{method} {path}: {status}");
    }

    fn meta<'v>(&self, object: &'v Value, flat: &str, upright: &str) -> &'v Value {
        if self.version.is_flat() { &object[flat] } else { &object["metadata"][upright] }
    }

    fn annotated(&self, value: &str) -> Value {
        let annotations = json!({"annotations": {"k": value}});
        if self.version.is_flat() { annotations } else { json!({ "metadata": annotations }) }
    }

    fn annotation<'v>(&self, object: &'v Value) -> &'v Value {
        &self.meta(object, "annotations", "annotations")["k"]
    }

    fn run(&self, v1: &Value) {
        let object = old::encode(self.version, v1);
        let (all, one) = (self.path("", "", ""), self.path("", "x", ""));
        let made = self.must(201, "POST", &all, &[], &object.to_string());
        assert_eq!(made["kind"], *self.kind, "{all}");
        self.refused(409, "AlreadyExists", "POST", &all, &object.to_string());
        let read = self.must(200, "GET", &one, &[], "");
        assert_eq!(
            (self.meta(&read, "id", "name"), self.meta(&read, "uid", "uid")),
            (&json!("x"), self.meta(&made, "uid", "uid"))
        );

        let list = self.must(200, "GET", &all, &[], "");
        assert_eq!(list["kind"], format!("{}List", self.kind), "{all}");
        let named = |list: &Value| {
            list["items"].as_array().into_iter().flatten().filter(|item| self.meta(item, "id", "name") == "x").count()
        };
        assert_eq!(named(&list), 1, "{all}: {list}");
        let fields = if self.version.is_flat() { "fields=name%3Dx" } else { "field-selector=metadata.name%3Dx" };
        assert_eq!(named(&self.must(200, "GET", &self.path("", "", fields), &[], "")), 1);
        let none = if self.version.is_flat() { "labels=no%3Dsuch" } else { "label-selector=no%3Dsuch" };
        assert_eq!(named(&self.must(200, "GET", &self.path("", "", none), &[], "")), 0);

        // Put as it was read, changed; then once more, which is stale.
        let mut changed = read.clone();
        changed.as_object_mut().expect("an object").extend(match self.annotated("put") {
            Value::Object(map) if self.version.is_flat() => map,
            _ => Default::default(),
        });
        if !self.version.is_flat() {
            changed["metadata"]["annotations"] = json!({"k": "put"});
        }
        // Somebody may have written between: the controllers have their say about some kinds.
        let put = loop {
            match self.ask("PUT", &one, &[], &changed.to_string()).code {
                200 => break self.must(200, "GET", &one, &[], ""),
                409 => {
                    let now = self.must(200, "GET", &one, &[], "");
                    let revision = self.meta(&now, "resourceVersion", "resourceVersion").clone();
                    if self.version.is_flat() {
                        changed["resourceVersion"] = revision
                    } else {
                        changed["metadata"]["resourceVersion"] = revision
                    }
                }
                code => panic!("PUT {one}: {code}"),
            }
        };
        assert_eq!(self.annotation(&put), "put", "{one}: {put}");
        self.refused(409, "Conflict", "PUT", &one, &stale(&read, self.version).to_string());

        for (language, value) in
            [("merge-patch", "merged"), ("merge-json-patch", "again"), ("strategic-merge-patch", "strategic")]
        {
            let headers = [("Content-Type", format!("application/{language}+json"))];
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let patched = self.must(200, "PATCH", &one, &headers, &self.annotated(value).to_string());
            assert_eq!(self.annotation(&patched), value, "{one}: {patched}");
        }
        let path = if self.version.is_flat() { "/annotations/k" } else { "/metadata/annotations/k" };
        let patch = json!([{"op": "replace", "path": path, "value": "json"}]).to_string();
        let patched = self.must(200, "PATCH", &one, &[("Content-Type", "application/json-patch+json")], &patch);
        assert_eq!(self.annotation(&patched), "json");

        // The state first, in both forms of a watch.
        for path in [self.path("watch/", "", "timeoutSeconds=1"), self.path("", "", "watch=true&timeoutSeconds=1")] {
            let reply = self.ask("GET", &path, &[], "");
            let events: Vec<Value> = serde_json::Deserializer::from_slice(&reply.body)
                .into_iter()
                .collect::<Result<_, _>>()
                .expect("JSON documents");
            let first = events
                .iter()
                .find(|event| self.meta(&event["object"], "id", "name") == "x")
                .unwrap_or_else(|| panic!("{path}"));
            assert_eq!(
                (&first["type"], &first["object"]["apiVersion"]),
                (&json!("ADDED"), &json!(self.version.name())),
                "{path}"
            );
        }

        self.must(200, "DELETE", &one, &[], r#"{"gracePeriodSeconds": 0}"#);
        if self.kind == "Namespace" || self.kind.starts_with("PersistentVolume") {
            return; // These end in their own time.
        }
        self.refused(404, "NotFound", "GET", &one, "");
        self.refused(404, "NotFound", "DELETE", &one, "");
        self.refused(404, "NotFound", "PUT", &one, &read.to_string());
    }
}

/// With a revision that is long past.
fn stale(read: &Value, version: Version) -> Value {
    let mut stale = read.clone();
    if version.is_flat() {
        stale["resourceVersion"] = json!(1)
    } else {
        stale["metadata"]["resourceVersion"] = json!("1")
    }
    stale
}

fn every_verb(version: Version) {
    let bed = Bed::without_workloads();
    std::thread::scope(|scope| {
        for (object, flat, upright) in kinds() {
            let plural = if version.is_flat() { flat } else { upright };
            if plural.is_empty() {
                continue;
            }
            let v1_kind = object["kind"].as_str().expect("a kind");
            let kind = if version.is_flat() && v1_kind == "Node" { "Minion" } else { v1_kind }.to_owned();
            // All kinds talk at the same time, and a limit would forbid the pod that has none.
            let namespace = match v1_kind {
                "Node" | "Namespace" | "PersistentVolume" => None,
                "LimitRange" => Some("kube-system"),
                _ => Some("default"),
            };
            let talk = Talk { bed: &bed, version, kind, plural, namespace };
            scope.spawn(move || talk.run(&object));
        }
    });
}

#[test]
fn of_v1beta1() {
    every_verb(Version::V1beta1);
}

#[test]
fn of_v1beta2() {
    every_verb(Version::V1beta2);
}

#[test]
fn of_v1beta3() {
    every_verb(Version::V1beta3);
}
