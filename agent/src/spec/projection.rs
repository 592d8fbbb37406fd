//! Volumes that are made of ConfigMaps, Secrets, fields of the pod and tokens: (volume, pod, what is known) -> files.
//! PURE.
//!
//! Each has a stamp, by which a look tells whether what a pod mounts is what it should be. It is worked out without a
//! look at the content, and stands in the name of the directory that the content is in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use coracle_api::pod::{
    ConfigMapProjection, DownwardApiFile, DownwardApiProjection, KeyToPath, PodSpec, SecretVolumeSource,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};

use crate::facts::content::{Content, FILE_BYTES_MIN, STAMP_LENGTH, VOLUME_BYTES_MAX, VolumeFile};
use crate::facts::desired::Desired;
use crate::facts::hash::hash_text;
use crate::facts::objects::{Object, ObjectKind, ObjectState, Token, TokenRef};
use crate::facts::wanted::Wanted;
use crate::facts::world::Node;
use crate::spec::downward;
use crate::spec::environment::{not_found, unsynced};

const MODE_DEFAULT: i32 = 0o644;
/// A token that is somebody's own.
const OWN_MODE: u32 = 0o600;
/// The mode of files whose volume a group owns.
const GROUP_MODE: u32 = 0o440;
/// The kernel's limits.
const PATH_LENGTH_MAX: usize = 4096;
const NAME_LENGTH_MAX: usize = 255;

/// Why there is no content now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The master has been asked.
    Asked,
    Failed(String),
}

/// The wanted content of a volume, as far as it is known.
pub struct Projection<'a> {
    pub stamp: String,
    /// Made from the master's last known objects: good enough for a start, but no reason to change existing content.
    pub kept: bool,
    /// Of all files; the smallest count as `FILE_BYTES_MIN`.
    pub bytes: usize,
    parts: Vec<Part<'a>>,
    default_mode: i32,
    volume: &'a str,
    spec: &'a PodSpec,
}

enum Part<'a> {
    /// None: the object is optional and absent.
    Object(Option<&'a Object>, &'a [KeyToPath]),
    Text {
        path: &'a str,
        mode: Option<i32>,
        text: Arc<str>,
    },
    Token {
        path: &'a str,
        text: &'a str,
    },
}

/// Whether the agent itself fills this volume.
pub fn is_one(volume: &Volume) -> bool {
    volume.config_map.is_some()
        || volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.is_some()
}

/// Whether it stands on no disk. Scripts of ConfigMaps can be run: where /run is, nothing can.
pub fn is_volatile(volume: &Volume) -> bool {
    let secret = |source: &VolumeProjection| source.config_map.is_none() && source.downward_api.is_none();
    volume.secret.is_some()
        || volume.downward_api.is_some()
        || volume.projected.as_ref().is_some_and(|all| all.sources.iter().any(secret))
}

/// The wanted content of this volume; empty if the agent does not fill it.
pub fn look<'a>(
    volume: &'a Volume,
    wanted: &'a Wanted,
    desired: &'a Desired,
    node: &Node,
) -> Result<Projection<'a>, Missing> {
    let (parts, errors) = (Vec::new(), Vec::new());
    let mut gathered = Gathered { wanted, desired, node, parts, errors, asked: false, kept: false, bytes: 0 };
    let default_mode = if let Some(map) = &volume.config_map {
        gathered.object(ObjectKind::ConfigMap, &map.name, &map.items, map.optional);
        map.default_mode
    } else if let Some(SecretVolumeSource { secret_name, items, optional, default_mode }) = &volume.secret {
        gathered.object(ObjectKind::Secret, secret_name, items, *optional);
        *default_mode
    } else if let Some(DownwardApiProjection { items, default_mode }) = &volume.downward_api {
        items.iter().for_each(|item| gathered.downward(item));
        *default_mode
    } else if let Some(projected) = &volume.projected {
        for source in &projected.sources {
            let objects = [(ObjectKind::ConfigMap, &source.config_map), (ObjectKind::Secret, &source.secret)];
            for (kind, object) in objects.into_iter().filter_map(|(kind, object)| Some((kind, object.as_ref()?))) {
                let ConfigMapProjection { name, items, optional, .. } = object;
                gathered.object(kind, name, items, *optional);
            }
            source.downward_api.iter().flat_map(|part| &part.items).for_each(|item| gathered.downward(item));
            source.service_account_token.iter().for_each(|part| gathered.token(part));
        }
        projected.default_mode
    } else {
        None
    };
    if let Some(text) = aggregate(&gathered.errors) {
        return Err(Missing::Failed(text));
    }
    if gathered.is_full() {
        return Err(Missing::Failed(too_large("its files come to", VOLUME_BYTES_MAX)));
    }
    if gathered.asked {
        return Err(Missing::Asked);
    }
    let (parts, kept, bytes) = (gathered.parts, gathered.kept, gathered.bytes);
    let stamp = stamp(&parts, &wanted.sandbox_hash);
    Ok(Projection {
        stamp,
        kept,
        bytes,
        parts,
        default_mode: default_mode.unwrap_or(MODE_DEFAULT),
        volume: &volume.name,
        spec: &wanted.pod.spec,
    })
}

/// `what`: with its verb.
pub fn too_large(what: &str, bytes_max: usize) -> String {
    format!("{what} more than {} MiB, which stand in this host's memory", bytes_max >> 20)
}

/// As Kubernetes joins errors: each once.
fn aggregate(errors: &[String]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let errors: Vec<&str> = errors.iter().map(String::as_str).filter(|text| seen.insert(*text)).collect();
    match errors.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        more => Some(format!("[{}]", more.join(", "))),
    }
}

struct Gathered<'a, 'n> {
    wanted: &'a Wanted,
    desired: &'a Desired,
    node: &'n Node,
    parts: Vec<Part<'a>>,
    errors: Vec<String>,
    asked: bool,
    kept: bool,
    bytes: usize,
}

impl<'a> Gathered<'a, '_> {
    fn count(&mut self, length: usize) {
        self.bytes = self.bytes.saturating_add(length.max(FILE_BYTES_MIN));
    }

    /// Nothing more is gathered: one field or key may be asked for ten thousand times.
    fn is_full(&self) -> bool {
        self.bytes > VOLUME_BYTES_MAX
    }

    fn object(&mut self, kind: ObjectKind, name: &str, items: &'a [KeyToPath], optional: Option<bool>) {
        if self.is_full() {
            return;
        }
        let optional = optional == Some(true);
        let desired: &'a Desired = self.desired;
        let object: Option<&'a Arc<Object>> = match desired.objects.find(&self.wanted.name, kind, name) {
            ObjectState::There(object) => Some(object),
            ObjectState::Kept(object) => {
                self.kept = true;
                Some(object)
            }
            ObjectState::Absent if optional => None,
            ObjectState::Absent => return self.errors.push(not_found(kind, name)),
            ObjectState::Unknown { silent: false } => return self.asked = true,
            ObjectState::Unknown { silent: true } => return self.errors.push(unsynced(kind)),
        };
        match (object, items) {
            (None, _) => {}
            (Some(object), []) => {
                object.data.values().chain(object.binary.values()).for_each(|one| self.count(one.len()))
            }
            (Some(object), items) => {
                items.iter().filter_map(|item| object.file(&item.key)).for_each(|one| self.count(one.len()))
            }
        }
        let lacks = |item: &&KeyToPath| object.is_none_or(|object| object.file(&item.key).is_none());
        if let Some(item) = items.iter().find(lacks).filter(|_| !optional) {
            return self.errors.push(match kind {
                ObjectKind::Secret => format!("references non-existent secret key: {}", item.key),
                _ => format!("configmap references non-existent config key: {}", item.key),
            });
        }
        self.parts.push(Part::Object(object.map(Arc::as_ref), items));
    }

    fn downward(&mut self, item: &'a DownwardApiFile) {
        let DownwardApiFile { path, field_ref, resource_field_ref, mode } = item;
        if self.is_full() {
            return;
        }
        let text = match (field_ref, resource_field_ref) {
            (Some(field), _) => downward::field(field, self.wanted, self.node, ""),
            (None, Some(resource)) => downward::resource(resource, self.wanted, &Default::default(), self.node),
            (None, None) => Ok(String::new()),
        };
        match text {
            Ok(text) => {
                self.count(text.len());
                self.parts.push(Part::Text { path, mode: *mode, text: text.into() });
            }
            Err(text) => self.errors.push(text),
        }
    }

    fn token(&mut self, source: &'a ServiceAccountTokenProjection) {
        let wanted = TokenRef::new(&self.wanted.pod, source);
        let desired: &'a Desired = self.desired;
        let found = desired.objects.token(&self.wanted.name, &wanted);
        match found {
            Token::There(text) | Token::Kept(text) => {
                self.kept |= matches!(found, Token::Kept(_));
                self.count(text.len());
                self.parts.push(Part::Token { path: &source.path, text });
            }
            Token::Failed(why) => self.errors.push(format!("failed to fetch token: {why}")),
            Token::Asked => self.asked = true,
        }
    }
}

/// The stamp of the parts and of the pod's wishes.
fn stamp(parts: &[Part<'_>], asked: &str) -> String {
    let mut text = asked.to_owned();
    for part in parts {
        text.push('\n');
        match part {
            Part::Object(None, _) => text.push('-'),
            Part::Object(Some(object), _) => text.push_str(&object.stamp),
            Part::Text { text: value, .. } => text.push_str(value),
            Part::Token { text: value, .. } => text.push_str(value),
        }
    }
    let mut stamp = hash_text(&text);
    stamp.truncate(STAMP_LENGTH);
    stamp
}

impl Projection<'_> {
    /// The error says what cannot be a file.
    pub fn content(&self, nested: &Nested) -> Result<Content, String> {
        let group = self.spec.security_context.fs_group.and_then(|group| u32::try_from(group).ok());
        let mut files: BTreeMap<String, VolumeFile> = BTreeMap::new();
        let mode = |mode: Option<i32>| u32::try_from(mode.unwrap_or(self.default_mode)).unwrap_or(0) & 0o777;
        let mut add = |path: &str, bytes: Arc<[u8]>, mode: u32, user: Option<u32>| -> Result<(), String> {
            let path = clean(path)?;
            let mode = if group.is_some() { mode | GROUP_MODE } else { mode };
            files.insert(path.clone(), VolumeFile { path, bytes, mode, user });
            Ok(())
        };
        for part in &self.parts {
            match part {
                Part::Object(None, _) => {}
                Part::Object(Some(object), []) => {
                    for (key, bytes) in object.data.iter().chain(&object.binary) {
                        add(key, bytes.clone(), mode(None), None)?;
                    }
                }
                Part::Object(Some(object), items) => {
                    for item in *items {
                        if let Some(bytes) = object.file(&item.key) {
                            add(&item.path, bytes.clone(), mode(item.mode), None)?;
                        }
                    }
                }
                Part::Text { path, mode: own, text } => add(path, text.clone().into(), mode(*own), None)?,
                Part::Token { path, text } => {
                    let user = one_user(self.spec);
                    let mode = if user.is_some() || group.is_some() { OWN_MODE } else { mode(None) };
                    add(path, text.as_bytes().into(), mode, user)?;
                }
            }
        }
        let folders = nested.below(self.volume);
        Ok(Content { stamp: self.stamp.clone(), files: files.into_values().collect(), folders, group })
    }
}

/// `a//b/./c` -> `a/b/c`; nothing leads out of the volume.
fn clean(path: &str) -> Result<String, String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.is_empty() {
        return Err(format!("invalid path: must not be empty: {path:?}"));
    }
    if path.starts_with('/') {
        return Err(format!("invalid path: must be relative path: {path}"));
    }
    if path.len() > PATH_LENGTH_MAX {
        return Err(format!("invalid path: must be less than or equal to {PATH_LENGTH_MAX} characters"));
    }
    if parts.contains(&"..") {
        return Err(format!("invalid path: must not contain '..': {path}"));
    }
    if parts.iter().any(|part| part.len() > NAME_LENGTH_MAX) {
        return Err(format!("invalid path: filenames must be less than or equal to {NAME_LENGTH_MAX} characters"));
    }
    if parts[0].starts_with("..") {
        return Err(format!("invalid path: must not start with '..': {path}"));
    }
    Ok(parts.join("/"))
}

/// The user as whom all containers of the pod run, where they say it.
fn one_user(spec: &PodSpec) -> Option<u32> {
    let users = crate::facts::members::members(spec)
        .map(|member| member.spec.security_context.run_as_user.or(spec.security_context.run_as_user));
    let users: BTreeSet<Option<i64>> = users.collect();
    match users.into_iter().collect::<Vec<_>>().as_slice() {
        [Some(user)] => u32::try_from(*user).ok(),
        _ => None,
    }
}

/// For each volume, the mount points of other volumes below the volume. The agent makes these directories, because the
/// volume is mounted read-only and the engine cannot make a directory in a read-only volume.
#[derive(Debug, Default)]
pub struct Nested(HashMap<String, BTreeSet<String>>);

impl Nested {
    pub fn of(spec: &PodSpec) -> Nested {
        let mut nested = Nested::default();
        for container in crate::facts::members::members(spec).map(|member| member.spec) {
            let mounts = &container.volume_mounts;
            let targets: BTreeMap<&str, &str> =
                mounts.iter().map(|mount| (mount.mount_path.as_str(), mount.name.as_str())).collect();
            let whole = |mount: &&VolumeMount| mount.sub_path.is_empty() && mount.sub_path_expr.is_empty();
            for own in mounts.iter().filter(whole) {
                let above = format!("{}/", own.mount_path.trim_end_matches('/'));
                let below = targets
                    .range(above.as_str()..)
                    .map_while(|(path, name)| Some((path.strip_prefix(above.as_str())?, *name)));
                let below = below.filter(|(_, name)| *name != own.name).filter_map(|(path, _)| clean(path).ok());
                nested.0.entry(own.name.clone()).or_default().extend(below);
            }
        }
        nested
    }

    pub fn below(&self, volume: &str) -> Vec<String> {
        self.0.get(volume).into_iter().flatten().cloned().collect()
    }
}
