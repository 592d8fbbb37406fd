//! What a request asks for: its path, method and query, once parsed into a `Call`. PURE.
//!
//!     /api/v1[/watch][/namespaces/NS]/RESOURCE[/NAME[/SUBRESOURCE]]
//!     /apis/GROUP/VERSION[/watch][/namespaces/NS]/RESOURCE[/NAME[/SUBRESOURCE]]
//!     /api/v1beta1[/watch]/RESOURCE[/NAME[/SUBRESOURCE]]?namespace=NS
//!
//! Nothing behind this file knows paths. Percent-encodings are decoded here, once.

use crate::page::{self, Page};
use crate::render::Form;
use coracle_api::kinds::{self, Kind, Kinds};
use std::num::{IntErrorKind, NonZeroUsize, ParseIntError};
use std::time::Duration;

/// Query parameters of one request; more are somebody's mistake.
const PARAMETERS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    #[default]
    V1,
    V1beta1,
}

/// Where a request goes.
#[derive(Debug)]
pub enum Route<'k> {
    Object(Box<Call<'k>>),
    Page(Page),
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
    GetStatus,
    UpdateStatus,
    PatchStatus,
    Bind,
    Log,
}

#[derive(Debug)]
pub struct Call<'k> {
    pub version: Version,
    /// Whose rules hold, and under whose resource the objects stand.
    pub kind: &'k Kind,
    /// As which kind documents are read and shown: mostly the same.
    pub shown: &'k Kind,
    pub verb: Verb,
    /// Empty: all namespaces, or a kind that has none.
    pub namespace: String,
    /// Empty where the path names no object.
    pub name: String,
    pub options: Options,
    /// How its answer looks; plain JSON until the Accept header is read.
    pub form: Form,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    pub labels: String,
    pub fields: String,
    pub resource_version: String,
    pub resource_version_match: String,
    pub timeout: Option<Duration>,
    pub field_validation: FieldValidation,
    pub grace_s: Option<i64>,
    pub propagation: Option<String>,
    /// At most so many objects in one answer.
    pub limit: Option<NonZeroUsize>,
    /// The token of the page before; empty: the first page.
    pub continues: String,
    /// Whether a watch wants the state first, if that was said.
    pub initial_events: Option<bool>,
    pub bookmarks: bool,
    /// As they came: only `All` means something.
    pub dry_run: Vec<String>,
    /// Who writes, as the client says it.
    pub field_manager: Option<String>,
    pub force: Option<bool>,
    pub pretty: Option<bool>,
    /// What rows of a table carry.
    pub include_object: String,
    /// What a log request asks of the node, as it came.
    pub log: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Why a request is no call.
#[derive(Debug, PartialEq)]
pub enum Misdirected {
    /// Nothing is served at this path.
    Nowhere,
    /// Something is, but not by this method.
    Method,
    Malformed(String),
}

/// The version in which a request is answered, mistakes too.
pub fn version(path: &str) -> Version {
    match path.strip_prefix("/api/v1beta1") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Version::V1beta1,
        _ => Version::V1,
    }
}

pub fn parse<'k>(kinds: &'k Kinds, method: &str, path: &str, query: &str) -> Result<Route<'k>, Misdirected> {
    let path = path.trim_end_matches('/');
    if let Some(page) = page::of(kinds, path, query) {
        let reads = method == "GET" || method == "HEAD" || page == Page::Nothing;
        return if reads { Ok(Route::Page(page)) } else { Err(Misdirected::Method) };
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
        Version::V1beta1 => place_v1beta1(kinds, segments, &parameters)?,
    };
    let watch = watch_path || (place.name.is_empty() && flag(&parameters, "watch"));
    let options = options(version, &parameters)?;
    let verb = verb(method, &place, watch, watch_path)?;
    if version == Version::V1beta1 && matches!(verb, Verb::Patch | Verb::PatchStatus) {
        return Err(Misdirected::Method);
    }
    // A v1 create names its namespace in the path; v1beta1 has a default.
    if version == Version::V1 && place.kind.namespaced && place.namespace.is_none() && matches!(verb, Verb::Create | Verb::Bind) {
        return Err(Misdirected::Method);
    }
    let mut namespace = place.namespace.unwrap_or_default();
    if version == Version::V1beta1
        && place.kind.namespaced
        && namespace.is_empty()
        && (!place.name.is_empty() || verb == Verb::Create || verb == Verb::Bind)
    {
        namespace = "default".to_owned();
    }
    let mut call = Call {
        version,
        kind: kinds.stored_as(place.kind),
        shown: place.kind,
        verb,
        namespace,
        name: place.name,
        options,
        form: Form::json(version),
    };
    if verb == Verb::Log {
        call.options.log = parameters;
    }
    Ok(Route::Object(Box::new(call)))
}

/// What a path names.
struct Place<'k> {
    kind: &'k Kind,
    /// None: the path says nothing of a namespace.
    namespace: Option<String>,
    name: String,
    subresource: String,
}

/// The API group, its version and the path behind it: `/apis/apps/v1/deployments`. A version of old has the core group.
fn group(path: &str, version: Version) -> Result<(&str, &str, &str), Misdirected> {
    let of_core = if version == Version::V1 { "/api/v1/" } else { "/api/v1beta1/" };
    if let Some(rest) = path.strip_prefix(of_core) {
        return Ok(("", "v1", rest));
    }
    let mut parts = path.strip_prefix("/apis/").ok_or(Misdirected::Nowhere)?.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(group), Some(version), Some(rest)) if !group.is_empty() => Ok((group, version, rest)),
        _ => Err(Misdirected::Nowhere),
    }
}

fn place_v1<'k>(kinds: &'k Kinds, (group, version): (&str, &str), mut segments: Vec<String>) -> Result<Place<'k>, Misdirected> {
    let mut namespace = None;
    // `/namespaces/NS/status` is the namespace's own subresource, not a resource inside it.
    let own = |name: &str| group.is_empty() && subresource_of(kinds, "namespaces", name);
    let inside = segments.len() >= 3 && segments[0] == "namespaces" && !own(&segments[2]);
    if inside {
        namespace = Some(segments.remove(1));
        segments.remove(0);
    }
    let kind = kinds.by_path(group, version, &segments[0]).ok_or(Misdirected::Nowhere)?;
    if inside && (!kind.namespaced || namespace.as_ref().is_some_and(String::is_empty)) {
        return Err(Misdirected::Nowhere);
    }
    let place = rest(kind, namespace, segments)?;
    // An object of a namespaced kind has no path outside its namespace; only `watch` of old names one there.
    if kind.namespaced && !inside && !place.name.is_empty() { Err(Misdirected::Nowhere) } else { Ok(place) }
}

fn subresource_of(kinds: &Kinds, plural: &str, name: &str) -> bool {
    kinds.by_path("", "v1", plural).is_some_and(|kind| kind.subresource(name).is_some())
}

fn place_v1beta1<'k>(kinds: &'k Kinds, segments: Vec<String>, parameters: &[(String, String)]) -> Result<Place<'k>, Misdirected> {
    let kind = kinds.by_old_path(&segments[0]).ok_or(Misdirected::Nowhere)?;
    let namespace = parameters.iter().find(|(name, value)| name == "namespace" && !value.is_empty()).map(|(_, value)| value.clone());
    rest(kind, namespace.filter(|_| kind.namespaced), segments)
}

fn rest<'k>(kind: &'k Kind, namespace: Option<String>, segments: Vec<String>) -> Result<Place<'k>, Misdirected> {
    let mut segments = segments.into_iter().skip(1);
    let name = segments.next();
    let subresource = segments.next();
    let empty = |segment: &Option<String>| segment.as_ref().is_some_and(String::is_empty);
    if segments.next().is_some() || empty(&name) || empty(&subresource) {
        return Err(Misdirected::Nowhere);
    }
    let name = name.unwrap_or_default();
    if name.contains('/') {
        return Err(Misdirected::Malformed(format!("the name {name:?} contains a slash")));
    }
    let subresource = subresource.unwrap_or_default();
    if !subresource.is_empty() && kind.subresource(&subresource).is_none() {
        return Err(Misdirected::Nowhere);
    }
    Ok(Place { kind, namespace, name, subresource })
}

fn verb(method: &str, place: &Place, watch: bool, watch_path: bool) -> Result<Verb, Misdirected> {
    let named = !place.name.is_empty();
    let verb = match (method, place.subresource.as_str()) {
        ("GET", "") if watch && (watch_path || !named) => Verb::Watch,
        _ if watch_path => return Err(Misdirected::Method),
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
        ("GET", "status") => Verb::GetStatus,
        ("PUT", "status") => Verb::UpdateStatus,
        ("PATCH", "status") => Verb::PatchStatus,
        ("POST", "binding") => Verb::Bind,
        ("GET", "log") => Verb::Log,
        _ => return Err(Misdirected::Method),
    };
    if offered(place.kind, verb) { Ok(verb) } else { Err(Misdirected::Method) }
}

/// Subresources have been looked up by their names.
fn offered(kind: &Kind, verb: Verb) -> bool {
    match verb {
        Verb::List => kind.offers(kinds::Verb::List),
        Verb::Watch => kind.offers(kinds::Verb::Watch),
        Verb::Get => kind.offers(kinds::Verb::Get),
        Verb::Create => kind.offers(kinds::Verb::Create),
        Verb::Update => kind.offers(kinds::Verb::Update),
        Verb::Patch => kind.offers(kinds::Verb::Patch),
        Verb::Delete => kind.offers(kinds::Verb::Delete),
        Verb::GetStatus | Verb::UpdateStatus | Verb::PatchStatus | Verb::Bind | Verb::Log => true,
    }
}

fn options(version: Version, parameters: &[(String, String)]) -> Result<Options, Misdirected> {
    let mut options = Options::default();
    for (name, value) in parameters {
        let (name, value) = (name.as_str(), value.as_str());
        match (version, name) {
            (_, "labelSelector") | (Version::V1beta1, "labels") if !value.is_empty() => options.labels = value.to_owned(),
            (_, "fieldSelector") | (Version::V1beta1, "fields") if !value.is_empty() => options.fields = value.to_owned(),
            (_, "resourceVersion") => options.resource_version = value.to_owned(),
            (_, "resourceVersionMatch") => options.resource_version_match = value.to_owned(),
            // Zero is no limit, and what is below it is over at once.
            (_, "timeoutSeconds") if !value.is_empty() => {
                options.timeout =
                    Some(whole(value)?).filter(|seconds| *seconds != 0).map(|seconds| Duration::from_secs(seconds.try_into().unwrap_or(0)))
            }
            (_, "fieldValidation") if !value.is_empty() => options.field_validation = field_validation(value)?,
            (_, "gracePeriodSeconds") if !value.is_empty() => options.grace_s = Some(number(name, value)?),
            (_, "propagationPolicy") if !value.is_empty() => options.propagation = Some(value.to_owned()),
            // Clients of 2014 know no pages, and would take the first for all.
            (Version::V1, "continue") => options.continues = value.to_owned(),
            (Version::V1, "limit") if !value.is_empty() => options.limit = NonZeroUsize::new(whole(value)?.try_into().unwrap_or(0)),
            (_, "sendInitialEvents") => options.initial_events = Some(truth(value)),
            (_, "allowWatchBookmarks") => options.bookmarks = truth(value),
            (_, "includeObject") => options.include_object = value.to_owned(),
            (_, "dryRun") => options.dry_run.push(value.to_owned()),
            (_, "fieldManager") => options.field_manager = Some(value.to_owned()),
            (_, "force") => options.force = Some(truth(value)),
            (_, "pretty") => options.pretty = Some(truth(value)),
            _ => {}
        }
    }
    Ok(options)
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, Misdirected> {
    value.parse().map_err(|_| Misdirected::Malformed(format!("{name}={value} is no number that fits")))
}

/// A count, or what Kubernetes says of it.
fn whole(value: &str) -> Result<i64, Misdirected> {
    value.parse().map_err(|error: ParseIntError| {
        let range = matches!(error.kind(), IntErrorKind::PosOverflow | IntErrorKind::NegOverflow);
        let why = if range { "value out of range" } else { "invalid syntax" };
        Misdirected::Malformed(format!("strconv.ParseInt: parsing {value:?}: {why}"))
    })
}

fn field_validation(value: &str) -> Result<FieldValidation, Misdirected> {
    match value {
        "Ignore" => Ok(FieldValidation::Ignore),
        "Warn" => Ok(FieldValidation::Warn),
        "Strict" => Ok(FieldValidation::Strict),
        _ => Err(Misdirected::Malformed(format!("fieldValidation={value}: supported values are Ignore, Warn, Strict"))),
    }
}

fn flag(parameters: &[(String, String)], name: &str) -> bool {
    parameters.iter().rev().find(|(parameter, _)| parameter == name).is_some_and(|(_, value)| truth(value))
}

/// As Kubernetes reads it: all but 0 and false is true, the bare name too.
fn truth(value: &str) -> bool {
    value != "0" && !value.eq_ignore_ascii_case("false")
}

fn parameters(query: &str) -> Result<Vec<(String, String)>, Misdirected> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs: Vec<(String, String)> = pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name, true)?, decode(value, true)?))
        })
        .collect::<Result<_, Misdirected>>()?;
    if pairs.len() > PARAMETERS_MAX {
        return Err(Misdirected::Malformed(format!("{} query parameters, at most {PARAMETERS_MAX}", pairs.len())));
    }
    Ok(pairs)
}

/// Percent-encodings to text; in a query a plus is a space.
fn decode(text: &str, plus: bool) -> Result<String, Misdirected> {
    let sent = text;
    let bad = || Misdirected::Malformed(format!("{sent:?} has a percent-encoding that is no UTF-8 text"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|byte| (byte as char).to_digit(16)).ok_or_else(bad);
                bytes.push((digit()? * 16 + digit()?) as u8);
            }
            b'+' if plus => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    let text = String::from_utf8(bytes).map_err(|_| bad())?;
    if text.contains('\0') { Err(bad()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a request is, in one line: version verb namespace/kind/name.
    fn shown(method: &str, target: &str) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let kinds = Kinds::builtin();
        match parse(&kinds, method, path, query) {
            Ok(Route::Page(page)) => format!("{page:?}"),
            Ok(Route::Object(call)) => {
                format!("{:?} {:?} {}/{}/{}", call.version, call.verb, call.namespace, call.kind.resource.plural, call.name)
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
            ("DELETE", "/api/v1/namespaces/a/pods", "Method"),
            ("PATCH", "/api/v1/namespaces/a/pods/b", "V1 Patch a/pods/b"),
            ("PATCH", "/api/v1beta1/pods/b", "Method"),
            ("POST", "/api/v1/namespaces/a/pods/b/binding", "V1 Bind a/pods/b"),
            ("POST", "/api/v1/namespaces/a/bindings", "V1 Bind a/bindings/"),
            ("GET", "/api/v1/namespaces/a/bindings", "Method"),
            ("GET", "/api/v1/namespaces/a/pods/b/log", "V1 Log a/pods/b"),
            ("GET", "/api/v1/namespaces/a/services/b/log", "Nowhere"),
            ("GET", "/api/v1/namespaces/a", "V1 Get /namespaces/a"),
            ("PUT", "/api/v1/namespaces/a/status", "V1 UpdateStatus /namespaces/a"),
            ("GET", "/api/v1/nodes/n", "V1 Get /nodes/n"),
            ("GET", "/api/v1/namespaces/a/nodes/n", "Nowhere"),
            ("GET", "/api/v1/pods/b", "Nowhere"),
            ("GET", "/api/v1/namespaces//pods", "Nowhere"),
            ("GET", "/api/v1/minions", "Nowhere"),
            ("GET", "/api/v1/namespaces/a/pods//status", "Nowhere"),
            ("GET", "/api/v1/namespaces/a/pods/b/c/d", "Nowhere"),
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
            ("POST", "/api/v1beta1/replicationcontrollers", "Nowhere"),
            ("GET", "/api/v1beta1/watch/pods", "V1beta1 Watch /pods/"),
            ("GET", "/api/v1beta1/watch/pods/b", "V1beta1 Watch default/pods/b"),
            ("POST", "/api/v1beta1/watch/pods", "Method"),
            ("GET", "/api/v1beta1/minions/m", "V1beta1 Get /nodes/m"),
            ("GET", "/api/v1beta1/nodes?namespace=a", "V1beta1 List /nodes/"),
            ("POST", "/api/v1beta1/bindings?namespace=a", "V1beta1 Bind a/bindings/"),
            ("POST", "/api/v1beta1/bindings", "V1beta1 Bind default/bindings/"),
            ("GET", "/api/v1beta1/ns/a/pods", "Nowhere"),
            ("GET", "/api/v1beta2/pods", "Nowhere"),
        ]);
    }

    #[test]
    fn pages() {
        check(&[
            ("GET", "/", "Root"),
            ("HEAD", "/version", "Version"),
            ("GET", "/version/", "Version"),
            ("POST", "/version", "Method"),
            ("GET", "/api", "Versions"),
            ("GET", "/api/v1beta1/", "OldResources"),
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
            Ok(Route::Page(page)) => panic!("{page:?}"),
            Err(misdirected) => Err(misdirected),
        };
        let read = options("/api/v1/pods", "&labelSelector=a%3Db+c&timeoutSeconds=7&&labels=no&unknown=%2C&limit=500").unwrap();
        let expected =
            Options { labels: "a=b c".into(), timeout: Some(Duration::from_secs(7)), limit: NonZeroUsize::new(500), ..Options::default() };
        assert_eq!(read, expected);
        let read = options("/api/v1/pods", "limit=-1&timeoutSeconds=-1&continue=a%2F&sendInitialEvents=0").unwrap();
        let (continues, timeout) = ("a/".to_owned(), Some(Duration::ZERO));
        assert_eq!(read, Options { continues, timeout, initial_events: Some(false), ..Options::default() });
        let read = options("/api/v1beta1/pods", "labels=&fields=ID%3Dx&limit=1&continue=x").unwrap();
        assert_eq!(read, Options { fields: "ID=x".into(), ..Options::default() });
        for bad in ["timeoutSeconds=x", "limit=many", "fieldValidation=strict", "a=%f", "%zz", "gracePeriodSeconds=1.5", "a=%00"] {
            assert!(matches!(options("/api/v1/pods", bad), Err(Misdirected::Malformed(_))), "{bad}");
        }
        let many: String = (0..=PARAMETERS_MAX).map(|n| format!("a{n}&")).collect();
        assert!(options("/api/v1/pods", &many).is_err());
    }
}
