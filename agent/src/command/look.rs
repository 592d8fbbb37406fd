//! Reads everything that an agent starting now would find: files, the copy of the master's objects, the engine. Writes
//! nothing.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use coracle_http::client::Target;

use super::check::CheckedFile;
use crate::config::Config;
use crate::desired::assigned::Assigned;
use crate::desired::directory::Directory;
use crate::desired::ended::EndedPods;
use crate::desired::file;
use crate::desired::file_services::address_file::AddressFile;
use crate::desired::known::Known;
use crate::desired::last::LastAssignment;
use crate::desired::manifest::Fault;
use crate::desired::objects::kept::{Kept, UsedRef};
use crate::desired::restarts;
use crate::desired::together::{AllSources, NameSettings, together};
use crate::desired::unkept::Unkept;
use crate::facts::backoff::Now;
use crate::facts::clock::{Clock, wall_ms};
use crate::facts::desired::Desired;
use crate::facts::objects::Objects;
use crate::facts::pod_cidr;
use crate::facts::resolv::ClusterNames;
use crate::facts::round::Round;
use crate::facts::source_state::SourceState;
use crate::facts::view::ClusterView;
use crate::facts::world::World;
use crate::host::machine;
use crate::plan::{self, Case, Rules};
use crate::runtime::Runtime;
use crate::runtime::docker::Docker;
use crate::updates;

pub struct Snapshot {
    pub desired: Desired,
    pub world: World,
    pub now: Now,
    /// The problems of reading, and the facts that are unknown here.
    pub notes: Vec<String>,
}

impl Snapshot {
    pub fn round(&self) -> Round {
        plan::plan(self.case())
    }

    fn case(&self) -> Case<'_> {
        Case { desired: &self.desired, world: &self.world, now: self.now, rules: Rules::default() }
    }
}

/// Each as the agent would read it; a directory stands for the files in it.
pub fn files(paths: &[PathBuf], config: &Config) -> Vec<CheckedFile> {
    let mut files = Vec::new();
    for path in paths {
        let names = if path.is_dir() { file::names(path) } else { Ok([path.clone().into_os_string()].into()) };
        match names {
            Ok(names) => files.extend(names.iter().map(|name| {
                let one = if path.is_dir() { path.join(name) } else { path.clone() };
                CheckedFile { path: one.display().to_string(), read: file::look(&one, config.reading()) }
            })),
            Err(error) => {
                let read = Err(vec![Fault::of_file(error.to_string())]);
                files.push(CheckedFile { path: path.display().to_string(), read });
            }
        }
    }
    files
}

/// An engine for read requests only.
pub fn engine(config: &Config) -> Docker {
    Docker::new(crate::engine(config, pod_cidr::given(Some(config.pod_cidr)), true))
}

pub async fn world(config: &Config) -> Result<Snapshot, String> {
    let mut notes = Vec::new();
    let desired = desired(config, &mut notes);
    let docker = engine(config);
    let clock = Clock::start(Rc::new(wall_ms));
    let asked = |failure: crate::facts::engine::Failure| format!("the engine at {}: {failure}", config.docker_host);
    let mut world = World {
        node: crate::node(config, &machine::look(&config.data_dir, config.node_ip, Some(config.pod_cidr))),
        ..World::default()
    };
    world.containers = docker.list().await.map_err(asked)?;
    let belongings = docker.volumes().await.map_err(asked)?;
    (world.volumes, world.held_volumes) = (belongings.all, belongings.volumes);
    world.contents = docker.contents(&plan::contents::paths(&desired, &world.node)).await.map_err(asked)?;
    let now = clock.now();
    world.restarts = Arc::new(restarts::read(&config.data_dir));
    world.memory.up_ms = world.node.up_ms;
    world.memory.look(&world.containers, now);
    world.memory.correct(&mut world.containers);
    plan::pods::hear(&mut world.memory, &desired, &world.containers, now);
    let mut seen = Snapshot { desired, world, now, notes };
    for name in plan::images_needed(seen.case()) {
        let image = docker.image(&name).await.map_err(asked)?;
        seen.world.images.insert(name, image);
    }
    Ok(seen)
}

/// What files say, and what the master said last.
pub fn desired(config: &Config, notes: &mut Vec<String>) -> Desired {
    let (files, trouble) =
        Directory::look(&config.manifest_dir, &config.data_dir, config.reading(), config.manifest_url.is_some());
    notes.extend(trouble.map(|why| format!("{}: {why}", config.manifest_dir)));
    let remarks = super::check::all(&self::files(&[PathBuf::from(&config.manifest_dir)], config));
    if Path::new(&config.manifest_dir).is_dir() {
        notes.extend(remarks.iter().map(super::check::Remark::line));
    }
    let mut view = ClusterView::default();
    if let Some(master) = &config.master {
        let master_said = Assigned::new(LastAssignment::new(&config.data_dir).read(), &config.node_name)
            .take_unsaid()
            .unwrap_or_default();
        view.objects = Some(Arc::new(kept(config, &master_said)));
        view.assigned = Some(Arc::new(master_said));
        view.services = Known::new(&config.data_dir, Unkept::default()).read().map(Arc::new);
        let target = match master {
            Target::Unix(path) => path.display().to_string(),
            Target::Tcp { host, port } => format!("{host}:{port}"),
            Target::Tls(target) => target.to_string(),
        };
        notes.push(format!("of the master at {target} it is known what it said last"));
    }
    let names = ClusterNames::new(config.cluster_domain.clone(), config.cluster_dns, config.master.is_some());
    let settings = NameSettings { names, range: config.file_service_cidr.clone() };
    let book = AddressFile::new(&config.data_dir, Unkept::default()).read();
    let ended = Arc::new(EndedPods::read(&config.data_dir, &config.node_name));
    let updates = Arc::new(updates::kept(&config.data_dir));
    let merged = together(AllSources { files: Some(files), ended, view, book, updates }, &settings);
    notes.extend(merged.dropped);
    let waiting = merged.desired.file_services.iter().flat_map(|of_files| &of_files.waiting);
    notes.extend(waiting.map(ToString::to_string));
    merged.desired
}

/// As after a start while the master is silent.
fn kept(config: &Config, master: &SourceState) -> Objects {
    let mut objects = Objects { silent: true, foreign: master.foreign.clone(), ..Objects::default() };
    for ((cluster, what), object) in Kept::look(&config.data_dir) {
        match what {
            UsedRef::Object(place) if cluster == master.cluster => drop(objects.kept.insert(place, object)),
            UsedRef::Object(place) => drop(objects.others.insert(place, object)),
            UsedRef::Token(token) => drop(objects.kept_tokens.insert(token, object.token())),
        }
    }
    objects
}
