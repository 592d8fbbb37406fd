//! Paths that are about the server, and not about objects. PURE.

use coracle_api::kinds::Kinds;
use coracle_api::old::Version;

/// Names in one `exclude`; there are fewer checks.
const EXCLUDED_MAX: usize = 16;

/// The paths of a backup and of a flush, which the command line asks of a running master.
pub const BACKUP: &str = "/coracle/store/backup";
pub const FLUSH: &str = "/coracle/store/flush";
/// The path of the request to seal everything by the key that the key file names first.
pub const RESEAL: &str = "/coracle/store/reseal";
/// The paths of a look at the files of the keys, which a command has changed, and of new certificates of this host.
pub const KEYS: &str = "/coracle/keys/look";
pub const RENEW_KEYS: &str = "/coracle/keys/renew";
/// The path of what was applied from `apply-dir`, of a confirmation that what waits is removed, and of the request to
/// apply everything again.
pub const APPLIED: &str = "/coracle/apply";
pub const APPLY_CONFIRM: &str = "/coracle/apply/confirm";
pub const APPLY_AGAIN: &str = "/coracle/apply/again";
/// The path of the bindings that do not count, and of the request that they shall.
pub const ADOPTION: &str = "/coracle/rbac/adoption";
/// The path of the problems of this cluster. It changes nothing, and whoever asks need not know the data directory.
pub const PROBLEMS: &str = "/coracle/problems";

/// A request of the command line to a running master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Backup,
    Flush,
    Reseal,
    Unadopted,
    Adopt,
    LookAtKeys,
    RenewKeys,
    Applied,
    ApplyConfirm,
    ApplyAgain,
    Problems,
}

impl Task {
    pub fn of(method: &str, path: &str) -> Option<Task> {
        match (method, path) {
            ("GET", BACKUP) => Some(Task::Backup),
            ("POST", FLUSH) => Some(Task::Flush),
            ("POST", RESEAL) => Some(Task::Reseal),
            ("GET", ADOPTION) => Some(Task::Unadopted),
            ("POST", ADOPTION) => Some(Task::Adopt),
            ("POST", KEYS) => Some(Task::LookAtKeys),
            ("POST", RENEW_KEYS) => Some(Task::RenewKeys),
            ("GET", APPLIED) => Some(Task::Applied),
            ("POST", APPLY_CONFIRM) => Some(Task::ApplyConfirm),
            ("POST", APPLY_AGAIN) => Some(Task::ApplyAgain),
            ("GET", PROBLEMS) => Some(Task::Problems),
            _ => None,
        }
    }
}

/// Documents that are about the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerDocument {
    /// `/`: the paths that there are.
    Root,
    Health(HealthQuestion),
    Metrics,
    /// `/metrics/state`: gauges of the objects.
    Gauges,
    Version,
    /// `/api`: the versions of the core group.
    Versions,
    /// `/apis`: all other groups.
    Groups,
    /// `/apis/G`.
    Group {
        group: String,
    },
    /// `/api/v1`, `/apis/G/V`.
    Resources {
        group: String,
        version: String,
    },
    /// `/api/v1beta1` and the like.
    OldResources(Version),
    /// `/api/v1beta1/operations`: what writes of 2014 that were not done at once became. Here they are.
    Operations(Version),
    /// One operation, by number.
    Operation(Version),
    /// `/openapi/v2`.
    Swagger,
    /// `/openapi/v3`: where each group's document is.
    OpenApiIndex,
    /// `/openapi/v3/apis/G/V`; the hash of what the client expects to find.
    OpenApi {
        group: String,
        version: String,
        hash: Option<String>,
    },
    /// `/.well-known/openid-configuration`: the issuer of this cluster's tokens.
    Issuer,
    /// `/openid/v1/jwks`: the keys that verify them.
    KeySet,
    /// No group is served there: not even a Status says so.
    Nothing,
}

impl ServerDocument {
    /// Whether it is answered whatever the method is: most that are no resources are, as in Kubernetes.
    pub fn any_method(&self) -> bool {
        match self {
            ServerDocument::Root
            | ServerDocument::Health(_)
            | ServerDocument::Metrics
            | ServerDocument::Gauges
            | ServerDocument::Groups
            | ServerDocument::Group { .. }
            | ServerDocument::Nothing => true,
            ServerDocument::Swagger | ServerDocument::OpenApiIndex | ServerDocument::OpenApi { .. } => true,
            ServerDocument::Version | ServerDocument::Versions | ServerDocument::Resources { .. } => false,
            ServerDocument::OldResources(_) | ServerDocument::Operations(_) | ServerDocument::Operation(_) => false,
            ServerDocument::Issuer | ServerDocument::KeySet => false,
        }
    }
}

/// A question after the health of this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthQuestion {
    /// `healthz`, `livez`, `readyz`.
    pub endpoint: &'static str,
    /// One check alone.
    pub check: Option<String>,
    pub verbose: bool,
    pub exclude: Vec<String>,
}

/// The page at a path without a slash at its end; None: an object's path, or one below a group.
pub fn of(kinds: &Kinds, path: &str, query: &str) -> Option<ServerDocument> {
    let mut parts = path.split('/').skip(1);
    let (first, second, third, fourth) = (parts.next().unwrap_or_default(), parts.next(), parts.next(), parts.next());
    let more = fourth.is_some();
    match (first, second, third) {
        ("", None, _) => Some(ServerDocument::Root),
        ("version", None, _) => Some(ServerDocument::Version),
        ("metrics", None, _) => Some(ServerDocument::Metrics),
        ("metrics", Some("state"), None) => Some(ServerDocument::Gauges),
        ("healthz" | "livez" | "readyz", check, None) => Some(ServerDocument::Health(health(first, check, query))),
        ("api", None, _) => Some(ServerDocument::Versions),
        ("api", Some("v1"), None) => Some(ServerDocument::Resources { group: String::new(), version: "v1".to_owned() }),
        // Clients between the old and the new discovery look for it there.
        ("api" | "apis", Some(version), None) if let Some(version) = Version::named(version) => {
            Some(ServerDocument::OldResources(version))
        }
        ("api", Some(version), Some("operations")) => {
            operations(Version::named(version)?, fourth, parts.next().is_some())
        }
        ("api", _, _) => None,
        ("apis", None, _) => Some(ServerDocument::Groups),
        ("apis", Some(group), None) if serves(kinds, group, None) => {
            Some(ServerDocument::Group { group: group.to_owned() })
        }
        ("apis", Some(group), Some(version)) if !more && serves(kinds, group, Some(version)) => {
            Some(ServerDocument::Resources { group: group.to_owned(), version: version.to_owned() })
        }
        ("apis", Some(group), _) if serves(kinds, group, None) => None,
        (".well-known", Some("openid-configuration"), None) => Some(ServerDocument::Issuer),
        ("openid", Some("v1"), Some("jwks")) if !more => Some(ServerDocument::KeySet),
        ("openapi", Some("v2"), None) => Some(ServerDocument::Swagger),
        ("openapi", Some("v3"), None) => Some(ServerDocument::OpenApiIndex),
        ("openapi", Some("v3"), Some(_)) => Some(open_api(kinds, path, query).unwrap_or(ServerDocument::Nothing)),
        _ => Some(ServerDocument::Nothing),
    }
}

fn operations(version: Version, number: Option<&str>, more: bool) -> Option<ServerDocument> {
    match number {
        None => Some(ServerDocument::Operations(version)),
        Some(number) if !more && number.parse::<u64>().is_ok() => Some(ServerDocument::Operation(version)),
        Some(_) => None,
    }
    .filter(|_| version.is_flat())
}

fn open_api(kinds: &Kinds, path: &str, query: &str) -> Option<ServerDocument> {
    let (group, version) = match path.strip_prefix("/openapi/v3/")? {
        "api/v1" => ("", "v1"),
        rest => rest.strip_prefix("apis/")?.split_once('/')?,
    };
    let hash = query.split('&').find_map(|pair| pair.strip_prefix("hash=")).map(str::to_owned);
    serves(kinds, group, Some(version)).then(|| ServerDocument::OpenApi {
        group: group.to_owned(),
        version: version.to_owned(),
        hash,
    })
}

/// None: in any version.
fn serves(kinds: &Kinds, group: &str, version: Option<&str>) -> bool {
    kinds.iter().any(|kind| kind.resource.group == group && version.is_none_or(|version| kind.version == version))
}

fn health(endpoint: &str, check: Option<&str>, query: &str) -> HealthQuestion {
    let values = |name: &'static str| {
        query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).filter(move |(known, _)| *known == name)
    };
    HealthQuestion {
        endpoint: ["healthz", "livez", "readyz"].into_iter().find(|known| *known == endpoint).unwrap_or("healthz"),
        check: check.map(str::to_owned),
        verbose: values("verbose").next().is_some(),
        exclude: values("exclude").take(EXCLUDED_MAX).map(|(_, name)| name.to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let kinds = Kinds::builtin();
        let health = |check: Option<&str>, verbose, exclude: &[&str]| {
            let exclude = exclude.iter().map(|name| (*name).to_owned()).collect();
            Some(ServerDocument::Health(HealthQuestion {
                endpoint: "readyz",
                check: check.map(str::to_owned),
                verbose,
                exclude,
            }))
        };
        let core = |hash: Option<&str>| {
            Some(ServerDocument::OpenApi { group: String::new(), version: "v1".into(), hash: hash.map(str::to_owned) })
        };
        for (path, query, expected) in [
            ("", "", Some(ServerDocument::Root)),
            ("/version", "timeout=32s", Some(ServerDocument::Version)),
            ("/readyz", "", health(None, false, &[])),
            ("/readyz", "verbose", health(None, true, &[])),
            ("/readyz/store", "verbose=1&exclude=a&exclude=b,c", health(Some("store"), true, &["a", "b,c"])),
            ("/readyz/a/b", "", Some(ServerDocument::Nothing)),
            ("/api", "", Some(ServerDocument::Versions)),
            ("/api/v1", "", Some(ServerDocument::Resources { group: String::new(), version: "v1".into() })),
            ("/api/v1beta1", "", Some(ServerDocument::OldResources(Version::V1beta1))),
            ("/apis/v1beta3", "", Some(ServerDocument::OldResources(Version::V1beta3))),
            ("/api/v1beta1/operations", "", Some(ServerDocument::Operations(Version::V1beta1))),
            ("/api/v1beta2/operations/17", "", Some(ServerDocument::Operation(Version::V1beta2))),
            ("/api/v1beta1/operations/x", "", None),
            ("/api/v1beta1/operations/17/x", "", None),
            ("/api/v1beta3/operations", "", None),
            ("/api/v2", "", None),
            ("/api/v1/pods", "", None),
            ("/apis", "", Some(ServerDocument::Groups)),
            ("/apis/nope.io", "", Some(ServerDocument::Nothing)),
            ("/apis/nope.io/v1/things", "", Some(ServerDocument::Nothing)),
            ("/nope", "", Some(ServerDocument::Nothing)),
            ("/metrics", "", Some(ServerDocument::Metrics)),
            ("/metrics/state", "", Some(ServerDocument::Gauges)),
            ("/metrics/state/x", "", Some(ServerDocument::Nothing)),
            ("/metrics/x", "", Some(ServerDocument::Nothing)),
            ("/.well-known/openid-configuration", "", Some(ServerDocument::Issuer)),
            ("/.well-known", "", Some(ServerDocument::Nothing)),
            ("/openid/v1/jwks", "", Some(ServerDocument::KeySet)),
            ("/openid/v1/jwks/x", "", Some(ServerDocument::Nothing)),
            ("/openapi/v2", "", Some(ServerDocument::Swagger)),
            ("/openapi/v3", "", Some(ServerDocument::OpenApiIndex)),
            ("/openapi/v3/api/v1", "hash=AB", core(Some("AB"))),
            ("/openapi/v3/api/v1", "", core(None)),
            ("/openapi/v3/api/v2", "", Some(ServerDocument::Nothing)),
        ] {
            assert_eq!(of(&kinds, path, query), expected, "{path}?{query}");
        }
    }
}
