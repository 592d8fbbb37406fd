//! Parses the path, method and query of a request into a `Call`. PURE.
//!
//!     /api/v1[/watch][/namespaces/NS]/RESOURCE[/NAME[/SUBRESOURCE]]
//!     /apis/GROUP/VERSION[/watch][/namespaces/NS]/RESOURCE[/NAME[/SUBRESOURCE]]
//!     /api/v1beta1[/watch]/RESOURCE[/NAME[/SUBRESOURCE]]?namespace=NS     and v1beta2
//!     /api/v1beta3[/watch][/namespaces/NS]/RESOURCE[/NAME[/SUBRESOURCE]]
//!
//! Nothing behind this file knows paths. Percent-encodings are decoded here, once.

use crate::form::Form;
pub use crate::form::Version;
use crate::page::{self, ServerDocument, Task};
pub use crate::query::{FieldValidation, Options};
use crate::query::{decode, flag, options, parameters, timeout};
use crate::through::{self, ProxyRequest};
use coracle_api::kinds::{self, Kind, Kinds};
use coracle_api::old;
use coracle_api::strategy::Share;
use coracle_http::Identity;
use coracle_http::budget::Party;
use std::cell::RefCell;
use std::sync::Arc;

/// Where a request goes.
#[derive(Debug)]
pub enum Route<'k> {
    Object(Box<Call<'k>>),
    ProxyRequest(Box<ProxyRequest<'k>>),
    Page(ServerDocument),
    /// A request of the command line; on the local socket alone.
    Upkeep(Task),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    List,
    Watch,
    Get,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    GetStatus,
    UpdateStatus,
    PatchStatus,
    GetPart,
    UpdatePart,
    PatchPart,
    GetScale,
    UpdateScale,
    PatchScale,
    Evict,
    Bind,
    Token,
    Log,
    /// A conversation with what runs in a pod.
    Exec,
    Attach,
    PortForward,
}

#[derive(Debug)]
pub struct Call<'k> {
    pub version: Version,
    /// The table that contains `kind` and `shown`.
    pub kinds: &'k Kinds,
    /// The kind whose rules hold, and under whose resource the objects are stored.
    pub kind: &'k Kind,
    /// The kind as which documents are read and shown: mostly the same.
    pub shown: &'k Kind,
    pub verb: Verb,
    /// The subresource in the path, if the subresource is a part of the stored document beside the status.
    pub share: Option<&'static Share>,
    /// Empty: all namespaces, or a kind that has none.
    pub namespace: String,
    /// Empty where the path names no object.
    pub name: String,
    pub options: Options,
    /// How its answer looks; plain JSON until the Accept header is read.
    pub form: Form,
    /// The party whose shares of limits it uses; this host's root until the client is known.
    pub party: Party,
    /// The client's identity; nobody until it is known.
    pub identity: Arc<Identity>,
    /// Facts about the request for the audit log, known once the request is carried out.
    pub told: RefCell<Told>,
}

/// What the audit log hears of a call that was carried out.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The name of the object, which the path of a create does not have.
    pub name: String,
    /// Annotations of admission.
    pub notes: Vec<(&'static str, String)>,
    /// Something was, or was to be, written.
    pub writes: bool,
    /// Something was, or was to be, rehearsed.
    pub rehearses: bool,
}

impl Told {
    pub fn is_rehearsal(&self) -> bool {
        self.rehearses && !self.writes
    }
}

impl Call<'_> {
    /// Whether it gives access into a pod.
    pub fn enters(&self) -> bool {
        matches!(self.verb, Verb::Exec | Verb::Attach | Verb::PortForward)
    }
}

/// Why a request is no call.
#[derive(Debug, PartialEq)]
pub enum RouteError {
    /// Nothing is served at this path.
    NotFound,
    /// Something is, but not by this method.
    Method,
    Malformed(String),
}

/// The version in which a request is answered, mistakes too.
pub fn version(path: &str) -> Version {
    // Of 2014: `/proxy/minion/NAME`.
    if path.starts_with("/proxy/") {
        return Version::Old(old::Version::V1beta1);
    }
    let named = path.strip_prefix("/api/").and_then(|rest| old::Version::named(rest.split('/').next()?));
    named.map_or(Version::V1, Version::Old)
}

pub fn parse<'k>(kinds: &'k Kinds, method: &str, path: &str, query: &str) -> Result<Route<'k>, RouteError> {
    if let Some(task) = Task::of(method, path) {
        return Ok(Route::Upkeep(task));
    }
    // A slash at its end is the other server's business.
    if let Some(through) = through::parse(kinds, path, query) {
        return through.map(|through| Route::ProxyRequest(Box::new(through)));
    }
    let path = path.trim_end_matches('/');
    if let Some(page) = page::of(kinds, path, query) {
        let answered = method == "GET" || method == "HEAD" || page.any_method();
        return if answered { Ok(Route::Page(page)) } else { Err(RouteError::Method) };
    }
    let version = version(path);
    let (group, group_version, rest) = group(path, version)?;
    let mut segments = rest.split('/').map(|segment| decode(segment, false)).collect::<Result<Vec<String>, _>>()?;
    let parameters = parameters(query)?;
    let watch_path = segments.len() > 1 && segments[0] == "watch";
    if watch_path {
        segments.remove(0);
    }
    let place = match version {
        Version::V1 => place_v1(kinds, (group, group_version), segments)?,
        Version::Old(old) if old.is_flat() => place_flat(kinds, old, segments, &parameters)?,
        Version::Old(old) => place_v1beta3(kinds, old, segments)?,
    };
    let watch = watch_path || (place.name.is_empty() && flag(&parameters, "watch"));
    let options = options(version, watch || place.name.is_empty(), &parameters)?;
    let verb = verb(method, &place, watch, watch_path)?;
    // Nobody deleted collections before v1.
    if verb == Verb::DeleteCollection && version != Version::V1 {
        return Err(RouteError::Method);
    }
    // Of a create and of what is deleted as a whole the path names the namespace; in the flat versions there is a
    // default.
    let placed = matches!(verb, Verb::Create | Verb::Bind | Verb::DeleteCollection);
    if !version.is_flat() && place.kind.namespaced && place.namespace.is_none() && placed {
        return Err(RouteError::Method);
    }
    if version == Version::V1
        && !matches!(verb, Verb::Watch | Verb::Log | Verb::Exec | Verb::Attach | Verb::PortForward)
    {
        timeout(&parameters)?;
    }
    let share = share(&place);
    let mut namespace = place.namespace.unwrap_or_default();
    if version.is_flat()
        && place.kind.namespaced
        && namespace.is_empty()
        && (!place.name.is_empty() || verb == Verb::Create || verb == Verb::Bind)
    {
        namespace = "default".to_owned();
    }
    let mut call = Call {
        version,
        kinds,
        kind: kinds.stored_as(place.kind),
        shown: place.kind,
        verb,
        share,
        namespace,
        name: place.name,
        options,
        form: Form::json(version),
        party: Party::Local,
        identity: Arc::default(),
        told: RefCell::default(),
    };
    if matches!(verb, Verb::Log | Verb::Exec | Verb::Attach | Verb::PortForward) {
        call.options.of_node = parameters;
    }
    Ok(Route::Object(Box::new(call)))
}

/// The target of a path.
struct RequestPath<'k> {
    kind: &'k Kind,
    /// None: the path says nothing of a namespace.
    namespace: Option<String>,
    name: String,
    subresource: String,
}

/// The API group, its version and the path behind it: `/apis/apps/v1/deployments`. A version of old has the core group.
fn group(path: &str, version: Version) -> Result<(&str, &str, &str), RouteError> {
    let of_core = path.strip_prefix("/api/").and_then(|path| path.strip_prefix(version.name())?.strip_prefix('/'));
    if let Some(rest) = of_core {
        return Ok(("", "v1", rest));
    }
    let mut parts = path.strip_prefix("/apis/").ok_or(RouteError::NotFound)?.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(group), Some(version), Some(rest)) if !group.is_empty() => Ok((group, version, rest)),
        _ => Err(RouteError::NotFound),
    }
}

fn place_v1<'k>(
    kinds: &'k Kinds,
    (group, version): (&str, &str),
    segments: Vec<String>,
) -> Result<RequestPath<'k>, RouteError> {
    let place = upright(kinds, group.is_empty(), segments, |plural| kinds.by_path(group, version, plural))?;
    let (kind, named) = (place.kind, !place.name.is_empty());
    // What is only made has no path of its own, and none without its namespace.
    let by_name = [kinds::Verb::Get, kinds::Verb::Update, kinds::Verb::Patch, kinds::Verb::Delete]
        .iter()
        .any(|verb| kind.offers(*verb));
    let everywhere = kind.offers(kinds::Verb::List) || !kind.namespaced || place.namespace.is_some();
    if named && place.subresource.is_empty() && !by_name || !named && !everywhere {
        Err(RouteError::NotFound)
    } else {
        Ok(place)
    }
}

fn place_v1beta3(kinds: &Kinds, version: old::Version, segments: Vec<String>) -> Result<RequestPath<'_>, RouteError> {
    upright(kinds, true, segments, |plural| kinds.by_old_path(version, plural))
}

/// With the namespace in the path.
fn upright<'k>(
    kinds: &'k Kinds,
    of_core: bool,
    mut segments: Vec<String>,
    called: impl Fn(&str) -> Option<&'k Kind>,
) -> Result<RequestPath<'k>, RouteError> {
    let mut namespace = None;
    // `/namespaces/NS/status` is the namespace's own subresource, not a resource inside it.
    let own = |name: &str| of_core && subresource_of(kinds, "namespaces", name);
    let inside = segments.len() >= 3 && segments[0] == "namespaces" && !own(&segments[2]);
    if inside {
        namespace = Some(segments.remove(1));
        segments.remove(0);
    }
    let kind = called(&segments[0]).ok_or(RouteError::NotFound)?;
    if inside && (!kind.namespaced || namespace.as_ref().is_some_and(String::is_empty)) {
        return Err(RouteError::NotFound);
    }
    let place = rest(kind, namespace, segments)?;
    // An object of a namespaced kind has no path outside a namespace; only old `watch` paths have such a form.
    if kind.namespaced && !inside && !place.name.is_empty() { Err(RouteError::NotFound) } else { Ok(place) }
}

fn subresource_of(kinds: &Kinds, plural: &str, name: &str) -> bool {
    kinds.by_path("", "v1", plural).is_some_and(|kind| kind.subresource(name).is_some())
}

fn place_flat<'k>(
    kinds: &'k Kinds,
    version: old::Version,
    mut segments: Vec<String>,
    parameters: &[(String, String)],
) -> Result<RequestPath<'k>, RouteError> {
    // Some versions of 2014 had the namespace in the path.
    if segments.len() >= 3 && segments[0] == "ns" {
        let namespace = segments.remove(1);
        segments.remove(0);
        let kind = kinds.by_old_path(version, &segments[0]).filter(|kind| kind.namespaced && !namespace.is_empty());
        return rest(kind.ok_or(RouteError::NotFound)?, Some(namespace), segments);
    }
    let kind = kinds.by_old_path(version, &segments[0]).ok_or(RouteError::NotFound)?;
    let namespace = parameters
        .iter()
        .find(|(name, value)| name == "namespace" && !value.is_empty())
        .map(|(_, value)| value.clone());
    rest(kind, namespace.filter(|_| kind.namespaced), segments)
}

fn rest<'k>(kind: &'k Kind, namespace: Option<String>, segments: Vec<String>) -> Result<RequestPath<'k>, RouteError> {
    let mut segments = segments.into_iter().skip(1);
    let name = segments.next();
    let subresource = segments.next();
    let empty = |segment: &Option<String>| segment.as_ref().is_some_and(String::is_empty);
    if segments.next().is_some() || empty(&name) || empty(&subresource) {
        return Err(RouteError::NotFound);
    }
    let name = name.unwrap_or_default();
    if name.contains('/') {
        return Err(RouteError::Malformed(format!("the name {name:?} contains a slash")));
    }
    let fault = match name.as_str() {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ => name.contains('%').then(|| "may not contain '%'".to_owned()),
    };
    if let Some(fault) = fault {
        return Err(RouteError::Malformed(format!("Name parameter invalid: {name:?}: {fault}")));
    }
    let subresource = subresource.unwrap_or_default();
    if !subresource.is_empty() && kind.subresource(&subresource).is_none() {
        return Err(RouteError::NotFound);
    }
    Ok(RequestPath { kind, namespace, name, subresource })
}

fn verb(method: &str, place: &RequestPath, watch: bool, watch_path: bool) -> Result<Verb, RouteError> {
    let named = !place.name.is_empty();
    let verb = match (method, place.subresource.as_str()) {
        ("GET", "") if watch && (watch_path || !named) => Verb::Watch,
        _ if watch_path => return Err(RouteError::Method),
        ("GET", "") => {
            if named {
                Verb::Get
            } else {
                Verb::List
            }
        }
        ("POST", "") if !named && place.kind.resource.plural == "bindings" => Verb::Bind,
        ("POST", "") if !named => Verb::Create,
        ("PUT", "") if named => Verb::Update,
        ("PATCH", "") if named => Verb::Patch,
        ("DELETE", "") if named => Verb::Delete,
        ("DELETE", "") => Verb::DeleteCollection,
        ("GET", "status") => Verb::GetStatus,
        ("PUT", "status") => Verb::UpdateStatus,
        ("PATCH", "status") => Verb::PatchStatus,
        ("GET", "scale") => Verb::GetScale,
        ("PUT", "scale") => Verb::UpdateScale,
        ("PATCH", "scale") => Verb::PatchScale,
        ("POST", "eviction") => Verb::Evict,
        ("GET", _) if share(place).is_some() => Verb::GetPart,
        ("PUT", _) if share(place).is_some() => Verb::UpdatePart,
        ("PATCH", _) if share(place).is_some() => Verb::PatchPart,
        ("POST", "binding") => Verb::Bind,
        ("POST", "token") => Verb::Token,
        ("GET", "log") => Verb::Log,
        ("GET" | "POST", "exec") => Verb::Exec,
        ("GET" | "POST", "attach") => Verb::Attach,
        ("GET" | "POST", "portforward") => Verb::PortForward,
        _ => return Err(RouteError::Method),
    };
    if offered(place, verb) { Ok(verb) } else { Err(RouteError::Method) }
}

fn share(place: &RequestPath) -> Option<&'static Share> {
    place.kind.subresource(&place.subresource)?.share
}

/// Subresources have been looked up by their names.
fn offered(place: &RequestPath, verb: Verb) -> bool {
    let kind = place.kind;
    let part = |verb: kinds::Verb| kind.subresource(&place.subresource).is_some_and(|part| part.verbs.contains(&verb));
    match verb {
        Verb::List => kind.offers(kinds::Verb::List),
        Verb::Watch => kind.offers(kinds::Verb::Watch),
        Verb::Get => kind.offers(kinds::Verb::Get),
        Verb::Create => kind.offers(kinds::Verb::Create),
        Verb::Update => kind.offers(kinds::Verb::Update),
        Verb::Patch => kind.offers(kinds::Verb::Patch),
        Verb::Delete => kind.offers(kinds::Verb::Delete),
        Verb::DeleteCollection => kind.offers(kinds::Verb::DeleteCollection),
        Verb::GetPart | Verb::GetScale => part(kinds::Verb::Get),
        Verb::UpdatePart | Verb::UpdateScale => part(kinds::Verb::Update),
        Verb::PatchPart | Verb::PatchScale => part(kinds::Verb::Patch),
        Verb::Evict => part(kinds::Verb::Create),
        Verb::GetStatus | Verb::UpdateStatus | Verb::PatchStatus | Verb::Bind | Verb::Token | Verb::Log => true,
        Verb::Exec | Verb::Attach | Verb::PortForward => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::PARAMETERS_MAX;
    use std::num::NonZeroUsize;
    use std::time::Duration;

    /// A request in one line: version verb namespace/kind/name.
    fn shown(method: &str, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let kinds = Kinds::builtin();
        match parse(&kinds, method, path, query) {
            Ok(Route::Page(page)) => format!("{page:?}"),
            Ok(Route::Upkeep(task)) => format!("{task:?}"),
            Ok(Route::ProxyRequest(through)) => format!("{through:?}"),
            Ok(Route::Object(call)) => {
                let version = match call.version {
                    Version::V1 => "V1".to_owned(),
                    Version::Old(version) => format!("{version:?}"),
                };
                format!("{version} {:?} {}/{}/{}", call.verb, call.namespace, call.kind.resource.plural, call.name)
            }
            Err(misdirected) => format!("{misdirected:?}"),
        }
    }

    fn check(rows: &[(&str, &str, &str)]) {
        for (method, target, expected) in rows {
            assert_eq!(shown(method, target), *expected, "{method} {target}");
        }
    }

    #[test]
    fn paths_of_v1() {
        check(&[
            ("GET", "/api/v1/pods", "V1 List /pods/"),
            ("GET", "/api/v1/namespaces/a/pods/", "V1 List a/pods/"),
            ("GET", "/api/v1/namespaces/a/pods/b", "V1 Get a/pods/b"),
            ("GET", "/api/v1/namespaces/a/pods/b?watch=true", "V1 Get a/pods/b"),
            ("GET", "/api/v1/namespaces/a/pods?watch", "V1 Watch a/pods/"),
            ("GET", "/api/v1/namespaces/a/pods?watch=0", "V1 List a/pods/"),
            ("GET", "/api/v1/namespaces/a/pods?watch=false&watch=true", "V1 List a/pods/"),
            ("GET", "/api/v1/namespaces/a/pods?watch=true&watch=false", "V1 Watch a/pods/"),
            ("GET", "/api/v1/watch/namespaces/a/pods/b", "V1 Watch a/pods/b"),
            ("GET", "/api/v1/watch/pods", "V1 Watch /pods/"),
            ("POST", "/api/v1/namespaces/a/pods", "V1 Create a/pods/"),
            ("POST", "/api/v1/pods", "Method"),
            ("PUT", "/api/v1/namespaces/a/pods/b", "V1 Update a/pods/b"),
            ("PUT", "/api/v1/namespaces/a/pods", "Method"),
            ("PUT", "/api/v1/namespaces/a/pods/b/status", "V1 UpdateStatus a/pods/b"),
            ("GET", "/api/v1/namespaces/a/pods/b/status", "V1 GetStatus a/pods/b"),
            ("POST", "/api/v1/namespaces/a/pods/b/status", "Method"),
            ("DELETE", "/api/v1/namespaces/a/pods/b", "V1 Delete a/pods/b"),
            ("DELETE", "/api/v1/namespaces/a/pods", "V1 DeleteCollection a/pods/"),
            ("DELETE", "/api/v1/pods", "Method"),
            ("DELETE", "/api/v1/nodes", "V1 DeleteCollection /nodes/"),
            ("DELETE", "/api/v1/namespaces", "Method"),
            ("DELETE", "/api/v1beta1/pods", "Method"),
            ("PATCH", "/api/v1/namespaces/a/pods/b", "V1 Patch a/pods/b"),
            ("PATCH", "/api/v1beta1/pods/b", "V1beta1 Patch default/pods/b"),
            ("POST", "/api/v1/namespaces/a/pods/b/binding", "V1 Bind a/pods/b"),
            ("POST", "/api/v1/namespaces/a/bindings", "V1 Bind a/bindings/"),
            ("GET", "/apis/apps/v1/namespaces/a/deployments/b/scale", "V1 GetScale a/deployments/b"),
            ("POST", "/apis/apps/v1/namespaces/a/deployments/b/scale", "Method"),
            ("GET", "/apis/apps/v1/namespaces/a/daemonsets/b/scale", "NotFound"),
            ("POST", "/api/v1/namespaces/a/pods/b/eviction", "V1 Evict a/pods/b"),
            ("GET", "/api/v1/namespaces/a/pods/b/eviction", "Method"),
            ("PUT", "/api/v1/namespaces/a/finalize", "V1 UpdatePart /namespaces/a"),
            ("GET", "/api/v1/namespaces/a/finalize", "Method"),
            (
                "PATCH",
                "/apis/certificates.k8s.io/v1/certificatesigningrequests/a/approval",
                "V1 PatchPart /certificatesigningrequests/a",
            ),
            ("GET", "/api/v1/namespaces/a/bindings", "Method"),
            ("GET", "/api/v1/namespaces/a/bindings/b", "NotFound"),
            ("GET", "/api/v1/bindings", "NotFound"),
            ("GET", "/apis/authentication.k8s.io/v1/tokenreviews/a", "NotFound"),
            ("GET", "/api/v1/namespaces/a/pods/..", r#"Malformed("Name parameter invalid: \"..\": may not be '..'")"#),
            (
                "GET",
                "/api/v1/pods?timeout=5",
                r#"Malformed("invalid timeout specified in the request URL - time: missing unit in duration \"5\"")"#,
            ),
            ("GET", "/api/v1/pods?limit=", r#"Malformed("strconv.ParseInt: parsing \"\": invalid syntax")"#),
            ("GET", "/api/v1/namespaces/a/pods/b/log", "V1 Log a/pods/b"),
            ("GET", "/api/v1/namespaces/a/services/b/log", "NotFound"),
            ("GET", "/api/v1/namespaces/a", "V1 Get /namespaces/a"),
            ("PUT", "/api/v1/namespaces/a/status", "V1 UpdateStatus /namespaces/a"),
            ("GET", "/api/v1/nodes/n", "V1 Get /nodes/n"),
            ("GET", "/api/v1/namespaces/a/nodes/n", "NotFound"),
            ("GET", "/api/v1/pods/b", "NotFound"),
            ("GET", "/api/v1/namespaces//pods", "NotFound"),
            ("GET", "/api/v1/minions", "NotFound"),
            ("GET", "/api/v1/namespaces/a/pods//status", "NotFound"),
            ("GET", "/api/v1/namespaces/a/pods/b/c/d", "NotFound"),
            ("GET", "/api/v1/namespaces/a%2Fb/pods/c%20d", "V1 Get a/b/pods/c d"),
            ("GET", "/api/v1/namespaces/a/pods/b%2Fc", "Malformed(\"the name \\\"b/c\\\" contains a slash\")"),
        ]);
    }

    #[test]
    fn paths_of_v1beta1() {
        check(&[
            ("GET", "/api/v1beta1/pods", "V1beta1 List /pods/"),
            ("GET", "/api/v1beta1/pods?namespace=a", "V1beta1 List a/pods/"),
            ("GET", "/api/v1beta1/pods/b", "V1beta1 Get default/pods/b"),
            ("GET", "/api/v1beta1/pods/b?namespace=a", "V1beta1 Get a/pods/b"),
            ("POST", "/api/v1beta1/replicationControllers", "V1beta1 Create default/replicationcontrollers/"),
            ("POST", "/api/v1beta1/replicationcontrollers", "NotFound"),
            ("GET", "/api/v1beta1/watch/pods", "V1beta1 Watch /pods/"),
            ("GET", "/api/v1beta1/watch/pods/b", "V1beta1 Watch default/pods/b"),
            ("POST", "/api/v1beta1/watch/pods", "Method"),
            ("GET", "/api/v1beta1/minions/m", "V1beta1 Get /nodes/m"),
            ("GET", "/api/v1beta1/nodes?namespace=a", "V1beta1 List /nodes/"),
            ("POST", "/api/v1beta1/bindings?namespace=a", "V1beta1 Bind a/bindings/"),
            ("POST", "/api/v1beta1/bindings", "V1beta1 Bind default/bindings/"),
            ("GET", "/api/v1beta1/ns/a/pods", "V1beta1 List a/pods/"),
            ("GET", "/api/v1beta1/watch/ns/a/pods", "V1beta1 Watch a/pods/"),
            ("GET", "/api/v1beta1/ns/a/minions", "NotFound"),
            ("GET", "/api/v1beta1/ns//pods", "NotFound"),
            ("GET", "/api/v1beta1/namespaces/a/pods", "NotFound"),
            ("GET", "/api/v1beta1/configMaps", "NotFound"),
            ("GET", "/api/v1beta1/boundPods", "NotFound"),
            ("GET", "/api/v1beta1/persistentVolumeClaims/c", "V1beta1 Get default/persistentvolumeclaims/c"),
            ("GET", "/api/v1beta1/pods?watch=true", "V1beta1 Watch /pods/"),
            ("GET", "/api/v1beta2/pods", "V1beta2 List /pods/"),
            ("GET", "/api/v1beta4/pods", "NotFound"),
        ]);
    }

    #[test]
    fn paths_of_v1beta3() {
        check(&[
            ("GET", "/api/v1beta3/pods", "V1beta3 List /pods/"),
            ("POST", "/api/v1beta3/pods", "Method"),
            ("POST", "/api/v1beta3/namespaces/a/pods", "V1beta3 Create a/pods/"),
            ("GET", "/api/v1beta3/namespaces/a/replicationcontrollers/b", "V1beta3 Get a/replicationcontrollers/b"),
            ("GET", "/api/v1beta3/namespaces/a/replicationControllers/b", "NotFound"),
            ("GET", "/api/v1beta3/watch/namespaces/a/pods", "V1beta3 Watch a/pods/"),
            ("GET", "/api/v1beta3/nodes/n", "V1beta3 Get /nodes/n"),
            ("GET", "/api/v1beta3/minions/n", "NotFound"),
            ("GET", "/api/v1beta3/namespaces/a", "V1beta3 Get /namespaces/a"),
            ("PATCH", "/api/v1beta3/namespaces/a/services/b", "V1beta3 Patch a/services/b"),
            ("PUT", "/api/v1beta3/namespaces/a/pods/b/status", "V1beta3 UpdateStatus a/pods/b"),
            ("GET", "/api/v1beta3/namespaces/a/podtemplates", "V1beta3 List a/podtemplates/"),
            ("GET", "/api/v1beta3/namespaces/a/configmaps", "NotFound"),
        ]);
    }

    #[test]
    fn pages() {
        check(&[
            ("GET", "/", "Root"),
            ("GET", "/coracle/store/backup", "Backup"),
            ("POST", "/coracle/store/flush", "Flush"),
            ("GET", "/coracle/store/flush", "Nothing"),
            ("POST", "/coracle/store/reseal", "Reseal"),
            ("GET", "/coracle/store/reseal", "Nothing"),
            ("HEAD", "/version", "Version"),
            ("GET", "/version/", "Version"),
            ("POST", "/version", "Method"),
            ("DELETE", "/apis/apps", "Group { group: \"apps\" }"),
            ("POST", "/metrics", "Metrics"),
            ("GET", "/api", "Versions"),
            ("GET", "/api/v1beta1/", "OldResources(V1beta1)"),
            ("GET", "/apis", "Groups"),
            ("GET", "/apis/nope.io/v1", "Nothing"),
            ("POST", "/nope", "Nothing"),
        ]);
    }

    #[test]
    fn queries() {
        let kinds = Kinds::builtin();
        let options = |path: &str, query: &str| match parse(&kinds, "GET", path, query) {
            Ok(Route::Object(call)) => Ok(call.options),
            Ok(other) => panic!("{other:?}"),
            Err(misdirected) => Err(misdirected),
        };
        let read = options("/api/v1/pods", "&labelSelector=a%3Db+c&timeoutSeconds=7&&labels=no&unknown=%2C&limit=500")
            .unwrap();
        let expected = Options {
            labels: "a=b c".into(),
            timeout: Some(Duration::from_secs(7)),
            limit: NonZeroUsize::new(500),
            ..Options::default()
        };
        assert_eq!(read, expected);
        let read = options("/api/v1/pods", "limit=-1&timeoutSeconds=-1&continue=a%2F&sendInitialEvents=0").unwrap();
        let (continues, timeout) = ("a/".to_owned(), Some(Duration::ZERO));
        assert_eq!(read, Options { continues, timeout, initial_events: Some(false), ..Options::default() });
        let read = options("/api/v1beta1/pods", "labels=&fields=ID%3Dx&limit=1&continue=x").unwrap();
        assert_eq!(read, Options { fields: "ID=x".into(), ..Options::default() });
        for bad in ["timeoutSeconds=x", "limit=many", "a=%f", "gracePeriodSeconds=1.5", "a=%00"] {
            assert!(matches!(options("/api/v1/pods", bad), Err(RouteError::Malformed(_))), "{bad}");
        }
        assert_eq!(options("/api/v1/pods", "%zz=1&a%f"), Ok(Options::default()));
        assert_eq!(options("/api/v1/nodes/n", "timeoutSeconds=x&limit=y"), Ok(Options::default()));
        let wrong = options("/api/v1/pods", "fieldValidation=strict").unwrap();
        assert_eq!(wrong, Options { field_validation_wrong: Some("strict".into()), ..Options::default() });
        let many: String = (0..=PARAMETERS_MAX).map(|n| format!("a{n}&")).collect();
        assert!(options("/api/v1/pods", &many).is_err());
    }
}
