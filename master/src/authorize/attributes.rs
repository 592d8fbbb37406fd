//! The attributes of a request, on which an authorizer decides. PURE.

use super::request_path;
use crate::call::{Call, Route, RouteError, Verb};
use crate::page::ServerDocument;
use crate::through::ProxyRequest;
use coracle_api::meta::Resource;
use coracle_api::selector::{self, FieldTerm, Grammar, LabelSelector};
use coracle_api::status::Status;
use coracle_api::strategy::rbac;
use coracle_http::Identity;
use serde_json::Value;

const NAMESPACES: Resource = Resource::core("namespaces");
const NAME: &str = "metadata.name";

/// The attributes of a request, in the words of RBAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    Resource {
        verb: String,
        resource: Resource,
        subresource: String,
        /// Empty: all namespaces, or a kind that has none. A namespace lies in itself.
        namespace: String,
        /// Empty: no single object. The field selector of a list or a watch may name the object.
        name: String,
        /// The field selector of a list, a watch, or a deletion of many. Empty: none, or nobody can read it.
        fields: Vec<FieldTerm>,
    },
    /// A path that is not an object's.
    Path { verb: String, path: String },
}

impl Attributes {
    /// A question about one object, or about a kind where the name is empty.
    pub fn resource(verb: &str, resource: &Resource, subresource: &str, (namespace, name): (&str, &str)) -> Attributes {
        Attributes::Resource {
            verb: verb.to_owned(),
            resource: resource.clone(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            fields: Vec::new(),
        }
    }

    /// The attributes of a request, also if the path of the request leads nowhere.
    pub fn of(route: &Result<Route<'_>, RouteError>, method: &str, path: &str) -> Attributes {
        match route {
            Ok(Route::Object(call)) => Attributes::of_call(call, method),
            Ok(Route::ProxyRequest(through)) => Attributes::of_through(through, method),
            Ok(Route::Page(ServerDocument::Nothing)) | Err(_) => request_path::read(method, path),
            Ok(Route::Page(_) | Route::Upkeep(_)) => {
                Attributes::Path { verb: method.to_ascii_lowercase(), path: path.to_owned() }
            }
        }
    }

    fn of_call(call: &Call, method: &str) -> Attributes {
        let (verb, subresource) = words(call, method);
        let of_many = matches!(call.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        let fields = if of_many { selector::field_terms(&call.options.fields).unwrap_or_default() } else { Vec::new() };
        // A deletion of many has no name, whatever it selects.
        let named = fields.iter().find(|term| term.equal && term.field == NAME && call.verb != Verb::DeleteCollection);
        let named = named.map(|term| &term.value).filter(|name| rbac::segment(name).is_empty());
        let name = if call.name.is_empty() { named.unwrap_or(&call.name) } else { &call.name };
        let namespace = if call.kind.resource == NAMESPACES { &call.name } else { &call.namespace };
        Attributes::Resource {
            verb: verb.to_owned(),
            resource: call.shown.resource.clone(),
            subresource: subresource.to_owned(),
            namespace: namespace.clone(),
            name: name.clone(),
            fields,
        }
    }

    /// The additional attributes of a call that gives access into a pod: even a GET may change the running processes.
    pub fn of_entry(call: &Call) -> Attributes {
        Attributes::of_call(call, "POST")
    }

    fn of_through(through: &ProxyRequest, method: &str) -> Attributes {
        let verb = match method {
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" => "delete",
            "GET" | "HEAD" => "get",
            // No rule names such a method; `*` alone allows it.
            _ => "",
        };
        Attributes::Resource {
            verb: verb.to_owned(),
            resource: through.kind.resource.clone(),
            subresource: "proxy".to_owned(),
            namespace: through.namespace.clone(),
            name: through.named.text.clone(),
            fields: Vec::new(),
        }
    }

    /// The attributes in the `spec` of an access review. None: it asks about nothing.
    pub fn of_review(spec: &Value) -> Option<Attributes> {
        let said = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
        let (object, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
        if path.is_object() {
            return Some(Attributes::Path { verb: said(path, "verb"), path: said(path, "path") });
        }
        object.is_object().then(|| Attributes::Resource {
            verb: said(object, "verb"),
            resource: Resource { group: said(object, "group").into(), plural: said(object, "resource").into() },
            subresource: said(object, "subresource"),
            namespace: said(object, "namespace"),
            name: said(object, "name"),
            fields: reviewed(&object["fieldSelector"]).0,
        })
    }

    /// The selectors in the `spec` of an access review that no authorizer can read.
    pub fn ignored_in_review(spec: &Value) -> Vec<String> {
        let object = &spec["resourceAttributes"];
        let (terms, of_fields) = reviewed(&object["fieldSelector"]);
        let (of_labels, has_labels) = reviewed_labels(&object["labelSelector"]);
        let selectors = [("fieldSelector", of_fields, !terms.is_empty()), ("labelSelector", of_labels, has_labels)];
        let ignored = selectors.iter().filter(|(_, is_ignored, _)| *is_ignored);
        let words = ignored.map(|(field, _, has_rest)| {
            let partially = if *has_rest { "partially " } else { "" };
            format!("spec.resourceAttributes.{field} {partially}ignored due to parse error")
        });
        words.collect()
    }

    /// The refusal, as Kubernetes words it.
    pub fn refusal(&self, identity: &Identity, why: &str) -> Status {
        let words = self.cannot(identity, why);
        match self {
            Attributes::Path { .. } => {
                let of = Resource { group: "".into(), plural: "".into() };
                Status { message: format!("forbidden: {words}"), ..Status::forbidden(&of, "", "") }
            }
            Attributes::Resource { resource, name, .. } => Status::forbidden(resource, name, &words),
        }
    }

    /// What the identity may not do, in a sentence.
    pub fn cannot(&self, identity: &Identity, why: &str) -> String {
        let user = &identity.user;
        let more = if why.is_empty() { String::new() } else { format!(": {why}") };
        match self {
            Attributes::Path { verb, path } => format!("User {user:?} cannot {verb} path {path:?}{more}"),
            Attributes::Resource { verb, resource, subresource, namespace, .. } => {
                let Resource { group, plural } = resource;
                let part = if subresource.is_empty() { plural.to_string() } else { format!("{plural}/{subresource}") };
                let place = match namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                format!("User {user:?} cannot {verb} resource {part:?} in API group {group:?} {place}{more}")
            }
        }
    }
}

/// The field selector of an access review, and whether a part of it says nothing. Field selectors compare with one
/// value.
fn reviewed(selector: &Value) -> (Vec<FieldTerm>, bool) {
    if let Some(raw) = selector["rawSelector"].as_str().filter(|raw| !raw.is_empty()) {
        return selector::field_terms(raw).map_or((Vec::new(), true), |terms| (terms, false));
    }
    let term = |rule: &Value| {
        let [value] = rule["values"].as_array()?.as_slice() else { return None };
        let equal = match rule["operator"].as_str()? {
            "In" => true,
            "NotIn" => false,
            _ => return None,
        };
        Some(FieldTerm { field: rule["key"].as_str()?.to_owned(), equal, value: value.as_str()?.to_owned() })
    };
    let rules = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    let terms: Vec<FieldTerm> = rules.iter().filter_map(term).collect();
    let is_partial = terms.len() < rules.len();
    (terms, is_partial)
}

/// Whether a part of the label selector of an access review says nothing, and whether another part does. No authorizer
/// looks at labels.
fn reviewed_labels(selector: &Value) -> (bool, bool) {
    if let Some(raw) = selector["rawSelector"].as_str().filter(|raw| !raw.is_empty()) {
        return (LabelSelector::parse(raw, Grammar::V1).is_err(), false);
    }
    let rules = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
    let known = |rule: &&Value| matches!(rule["operator"].as_str(), Some("In" | "NotIn" | "Exists" | "DoesNotExist"));
    let count = rules.iter().filter(known).count();
    (count < rules.len(), count > 0)
}

/// The verb and the subresource of a call.
fn words(call: &Call, method: &str) -> (&'static str, &'static str) {
    let connect = if method == "POST" { "create" } else { "get" };
    let part = call.share.map(|share| share.name).unwrap_or_default();
    match call.verb {
        Verb::List => ("list", ""),
        Verb::Watch => ("watch", ""),
        Verb::Get => ("get", ""),
        Verb::Create => ("create", ""),
        Verb::Update => ("update", ""),
        Verb::Patch => ("patch", ""),
        Verb::Delete => ("delete", ""),
        Verb::DeleteCollection => ("deletecollection", ""),
        Verb::GetStatus => ("get", "status"),
        Verb::UpdateStatus => ("update", "status"),
        Verb::PatchStatus => ("patch", "status"),
        Verb::GetPart => ("get", part),
        Verb::UpdatePart => ("update", part),
        Verb::PatchPart => ("patch", part),
        Verb::GetScale => ("get", "scale"),
        Verb::UpdateScale => ("update", "scale"),
        Verb::PatchScale => ("patch", "scale"),
        Verb::Evict => ("create", "eviction"),
        Verb::Bind if call.shown.resource.plural == "bindings" => ("create", ""),
        Verb::Bind => ("create", "binding"),
        Verb::Token => ("create", "token"),
        Verb::Log => ("get", "log"),
        Verb::Exec => (connect, "exec"),
        Verb::Attach => (connect, "attach"),
        Verb::PortForward => (connect, "portforward"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call;
    use coracle_api::kinds::Kinds;

    #[test]
    fn what_a_rule_may_look_at() {
        let kinds = Kinds::builtin();
        let shown = |method: &str, target: &str| {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            match Attributes::of(&call::parse(&kinds, method, path, query), method, path) {
                Attributes::Path { verb, path } => format!("{verb} {path}"),
                Attributes::Resource { verb, resource, subresource, namespace, name, .. } => {
                    format!("{verb} {}.{}/{subresource} {namespace}/{name}", resource.plural, resource.group)
                }
            }
        };
        for (method, target, expected) in [
            ("GET", "/api/v1/pods", "list pods./ /"),
            ("GET", "/api/v1/namespaces/a/pods?watch=1", "watch pods./ a/"),
            ("GET", "/api/v1/namespaces/a/pods/b", "get pods./ a/b"),
            ("GET", "/api/v1/namespaces/a", "get namespaces./ a/a"),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db", "list pods./ a/b"),
            ("GET", "/api/v1/namespaces/a/pods?watch=1&fieldSelector=metadata.name%3Db", "watch pods./ a/b"),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name!%3Db", "list pods./ a/"),
            ("GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3D..", "list pods./ a/"),
            ("DELETE", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name%3Db", "deletecollection pods./ a/"),
            ("POST", "/api/v1/namespaces/a/pods", "create pods./ a/"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection pods./ a/"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/b/scale", "patch deployments.apps/scale a/b"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update namespaces./finalize a/a"),
            ("POST", "/api/v1/namespaces/a/pods/b/eviction", "create pods./eviction a/b"),
            ("POST", "/api/v1/namespaces/a/bindings", "create bindings./ a/"),
            ("POST", "/api/v1/namespaces/a/pods/b/binding", "create pods./binding a/b"),
            ("GET", "/api/v1/namespaces/a/pods/b/log", "get pods./log a/b"),
            ("GET", "/api/v1/namespaces/a/pods/b/exec?command=c", "get pods./exec a/b"),
            ("POST", "/api/v1/namespaces/a/pods/b/exec", "create pods./exec a/b"),
            ("POST", "/api/v1/namespaces/a/pods/b/attach", "create pods./attach a/b"),
            ("GET", "/api/v1/namespaces/a/pods/b/portforward", "get pods./portforward a/b"),
            ("POST", "/api/v1/namespaces/a/services/b:80/proxy/c", "create services./proxy a/b:80"),
            ("HEAD", "/api/v1/namespaces/a/services/b:80/proxy/c", "get services./proxy a/b:80"),
            ("PURGE", "/api/v1/namespaces/a/services/b:80/proxy/c", " services./proxy a/b:80"),
            ("GET", "/api/v1beta1/minions/m", "get nodes./ /m"),
            ("POST", "/api/v1beta1/pods", "create pods./ default/"),
            ("GET", "/version", "get /version"),
            ("POST", "/coracle/store/flush", "post /coracle/store/flush"),
            ("GET", "/nowhere", "get /nowhere"),
            ("POST", "/api/v1/pods", "create pods./ /"),
            ("HEAD", "/api/v1/namespaces/a/pods/b", "get pods./ a/b"),
            ("GET", "/apis/example.com/v1/things", "list things.example.com/ /"),
            ("GET", "/apis/example.com/v1/namespaces/a/things/b", "get things.example.com/ a/b"),
            ("GET", "/api/v1/nodes/n/stats/summary", "get nodes./stats /n"),
            ("PATCH", "/api/v1/namespaces/a/finalize", "patch namespaces./finalize a/a"),
            ("GET", "/api/v1/watch/things/b", "watch things./ /b"),
            ("DELETE", "/api/v1/namespaces/a/things", "deletecollection things./ a/"),
            ("GET", "/api/v1/namespaces/a/things/%zz", "get /api/v1/namespaces/a/things/%zz"),
            ("GET", "/apis/apps/nowhere", "get /apis/apps/nowhere"),
            ("GET", "/logs/", "get /logs/"),
        ] {
            assert_eq!(shown(method, target), expected, "{method} {target}");
        }
    }

    #[test]
    fn a_refusal_says_who_and_what() {
        let identity = Identity { user: "eve".to_owned(), ..Identity::none() };
        let resource = Resource { group: "apps".into(), plural: "deployments".into() };
        let object = Attributes::resource("get", &resource, "scale", ("a", "b"));
        let of_object = object.refusal(&identity, "");
        let words =
            "User \"eve\" cannot get resource \"deployments/scale\" in API group \"apps\" in the namespace \"a\"";
        assert_eq!((of_object.code, of_object.message), (403, format!("deployments.apps \"b\" is forbidden: {words}")));
        let of_path =
            Attributes::Path { verb: "get".to_owned(), path: "/metrics".to_owned() }.refusal(&identity, "no rule");
        assert_eq!(of_path.message, "forbidden: User \"eve\" cannot get path \"/metrics\": no rule");
    }
}
