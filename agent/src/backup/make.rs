//! Makes a backup: objects, files, the agent's facts, and the directories that are asked for, between their hooks.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use coracle_http::client::{Client, Target};
use coracle_http::{Method, StatusCode};
use rustix::fs::statvfs;
use serde_json::Value;
use tokio::process::Command;
use tokio::sync::watch;

use super::archive::{self, Written};
use super::contents::{Contents, FORM, Kind, OBJECTS, Part, size};
use super::hook;
use super::offered::Offered;
use super::options::Options;
use super::place::Place;
use super::plan::{Copy, Group, Hooks, Plan, plan};
use super::surroundings::{MASTER_DATA, program, stopped};
use crate::config::Config;
use crate::facts::clock;
use crate::facts::disk::mounted_below;
use crate::host::{machine, tree};

/// Files of the agent that are made anew: by the engine, by the master, or by a restore. Claims are asked for one by
/// one.
const MADE_ANEW: [&str; 8] = [
    "pods",
    "claims",
    "claims-made",
    "claims-disks",
    "objects",
    "images.json",
    "last-assignment.json",
    "last-services.json",
];
/// Tries until no file changes while it is read.
const TRIES_MAX: usize = 3;
/// Of an archive, beside the content of the files.
const OF_EACH_FILE_BYTES: u64 = 1536;
/// Room for the objects and what is small.
const SPARE_BYTES: u64 = 16 << 20;
/// A line of the objects' backup: an object has at most some megabytes.
const LINE_BYTES_MAX: u64 = 8 << 20;
const MOUNTS: &str = "/proc/self/mountinfo";

/// The backup, and the name that it has. Whatever is asked for and cannot be had is named in it.
pub async fn make(config: &Config, dir: &Path, options: &Options) -> Result<(PathBuf, Contents), String> {
    let place = Place::take(dir)?;
    let stop = stopped()?;
    let mut work = Work { config, options, place, stop, contents: Contents::default() };
    match work.fill().await {
        Ok(()) => {
            let Work { place, contents, .. } = work;
            Ok((place.keep(&contents)?, contents))
        }
        Err(why) => {
            work.place.give_up();
            Err(why)
        }
    }
}

struct Work<'a> {
    config: &'a Config,
    options: &'a Options,
    place: Place,
    stop: watch::Receiver<bool>,
    contents: Contents,
}

impl Work<'_> {
    async fn fill(&mut self) -> Result<(), String> {
        let Config { node_name, data_dir, .. } = self.config;
        self.contents = Contents {
            form: FORM,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: machine::name(),
            node: node_name.clone(),
            began: clock::now().to_string(),
            data_dir: data_dir.clone(),
            ..Contents::default()
        };
        let stored = self.objects().await?;
        let client =
            Client::new(Target::Unix(self.config.socket.clone()), concat!("coracle-agent/", env!("CARGO_PKG_VERSION")));
        let plan = match offered(&client, &self.config.node_name).await {
            Ok(offered) => plan(&offered, &stored),
            Err(why) => {
                self.miss(format!("volumes of pods: {why}, so it is not known which ones are asked for"));
                plan(&Offered { node: node_name.clone(), ..Offered::default() }, &stored)
            }
        };
        self.contents.missing.extend(plan.missing.iter().cloned());
        self.contents.notes.extend(plan.notes.iter().cloned());
        self.check_room(&plan)?;
        self.files().await?;
        for group in &plan.groups {
            self.group(&client, group).await?;
        }
        self.contents.ended = clock::now().to_string();
        Ok(())
    }

    fn miss(&mut self, what: String) {
        self.contents.missing.push(what);
    }

    /// Saves the objects of the API, where a master runs on this host. Gives the claims and volumes among them.
    async fn objects(&mut self) -> Result<Vec<Value>, String> {
        let is_here = self.options.master_config.is_some()
            || matches!(self.config.master, Some(Target::Unix(_))) && Path::new(MASTER_DATA).exists();
        let Some(master) = program("coracle-master") else {
            if is_here {
                self.miss("objects of the API: there is no program coracle-master".to_owned());
            }
            return Ok(Vec::new());
        };
        if !is_here {
            self.contents.notes.push("no master runs on this host, so there are no objects of the API".to_owned());
            return Ok(Vec::new());
        }
        let file = self.place.path(OBJECTS);
        let mut command = Command::new(master);
        command.arg("backup").arg(&file).stdin(Stdio::null()).kill_on_drop(true);
        if let Some(config) = &self.options.master_config {
            command.arg("--config").arg(config);
        }
        let output = tokio::select! {
            output = command.output() => output.map_err(|error| format!("run coracle-master: {error}"))?,
            () = is_stopped(&mut self.stop) => return Err(STOPPED.to_owned()),
        };
        let said = String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr })
            .into_owned();
        if !output.status.success() {
            let lines =
                said.lines().map(|line| format!("objects of the API: {}", line.trim_start_matches("coracle-master: ")));
            self.contents.missing.extend(lines);
        }
        if !file.exists() {
            return Ok(Vec::new());
        }
        let (bytes, sha256) = archive::sum(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let of = "objects of the API".to_owned();
        let time = clock::now().to_string();
        self.contents.parts.push(Part {
            kind: Kind::Objects,
            of,
            file: OBJECTS.to_owned(),
            bytes,
            sha256,
            time,
            ..Part::default()
        });
        claims_of(&file).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The configuration, manifests, and what the agent alone knows.
    async fn files(&mut self) -> Result<(), String> {
        let etc = self.options.etc.clone();
        let key = key_file(&etc).filter(|key| etc.join(key).exists());
        let without: Vec<String> = key.into_iter().collect();
        for left in &without {
            let path = etc.join(left).display().to_string();
            self.contents
                .notes
                .push(format!("{path}, which opens the Secrets, is left out: keep a copy of it elsewhere"));
            self.contents.left_out.push(path);
        }
        let mut directories = vec![(Kind::Files, "configuration", "files.tar", etc.clone(), without)];
        let manifests = PathBuf::from(&self.config.manifest_dir);
        if !manifests.starts_with(&etc) {
            directories.push((Kind::Files, "manifests", "manifests.tar", manifests, Vec::new()));
        }
        let anew = MADE_ANEW.map(str::to_owned).to_vec();
        directories.push((Kind::Facts, "what the agent keeps", "agent.tar", self.config.data_dir.clone().into(), anew));
        for (kind, of, file, directory, without) in directories {
            if !directory.is_dir() {
                self.contents.notes.push(format!("{of}: there is no {}", directory.display()));
                continue;
            }
            let part = Part { kind, of: of.to_owned(), file: file.to_owned(), ..Part::default() };
            self.copy(part, &directory, &without, false).await?;
        }
        Ok(())
    }

    /// The hooks after run in any case.
    async fn group(&mut self, client: &Client, group: &Group) -> Result<(), String> {
        let mut done = Ok(());
        let mut failed = None;
        for hooks in &group.hooks {
            let Some(command) = &hooks.before else { continue };
            let ran = tokio::select! {
                ran = hook::run(client, hooks, command) => ran,
                () = is_stopped(&mut self.stop) => Err(STOPPED.to_owned()),
            };
            if let Err(why) = ran {
                failed = Some(named("before", hooks, &why));
                break;
            }
        }
        match failed {
            Some(why) => self.contents.missing.extend(group.copies.iter().map(|copy| format!("{}: {why}", copy.of))),
            None => {
                for copy in &group.copies {
                    done = done.and(self.volume(copy).await);
                }
            }
        }
        for hooks in group.hooks.iter().rev() {
            let Some(command) = &hooks.after else { continue };
            if let Err(why) = hook::run(client, hooks, command).await {
                self.miss(named("after", hooks, &why));
            }
        }
        if *self.stop.borrow() { Err(self.with_missing(STOPPED)) } else { done }
    }

    /// Who stops a backup is told which hooks failed, too.
    fn with_missing(&self, why: &str) -> String {
        let missing: String = self.contents.missing.iter().map(|what| format!("\nnot in it: {what}")).collect();
        format!("{why}{missing}")
    }

    async fn volume(&mut self, copy: &Copy) -> Result<(), String> {
        let directory = Path::new(&copy.directory);
        if !directory.is_dir() {
            self.miss(format!("{}: {} is not there: is its disk mounted?", copy.of, copy.directory));
            return Ok(());
        }
        let mounts = fs::read_to_string(MOUNTS).unwrap_or_default();
        for mount in mounted_below(&mounts, &copy.directory) {
            self.miss(format!("{}: {mount} is mounted in it, and is not copied", copy.of));
        }
        let file = format!("volumes/{}.tar", copy.file);
        let part = Part { kind: Kind::Volume, of: copy.of.clone(), file, ..Part::default() };
        self.copy(part, directory, &[], copy.live).await
    }

    /// An error is of the backup as a whole, such as a full disk.
    async fn copy(&mut self, part: Part, directory: &Path, without: &[String], live: bool) -> Result<(), String> {
        let file = self.place.path(&part.file);
        for turn in 1.. {
            let written = tokio::select! {
                written = archive::create(directory, without, &file) => written?,
                () = is_stopped(&mut self.stop) => return Err(STOPPED.to_owned()),
            };
            if written.told.changed.is_empty() || live || turn == TRIES_MAX || written.told.failed.is_some() {
                self.take(part, directory, written, live);
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, part: Part, directory: &Path, written: Written, live: bool) {
        let Written { bytes, sha256, told } = written;
        if let Some(why) = &told.failed {
            self.miss(format!("{}: {why}", part.of));
        }
        if !told.changed.is_empty() && !live {
            self.miss(format!(
                "{}: files changed while they were copied ({}): give the pod a hook that stops its writes, or dump \
                 into a volume of its own; coracle.dev/backup-live: \"true\" lets them change",
                part.of,
                told.changed[..told.changed.len().min(3)].join("; ")
            ));
        }
        let notes = [told.changed, told.notes].concat();
        self.contents.notes.extend(notes.iter().map(|note| format!("{}: {note}", part.of)));
        let (directory, time) = (directory.display().to_string(), clock::now().to_string());
        self.contents.parts.push(Part { directory, bytes, sha256, time, notes, ..part });
    }

    /// Before a hook runs.
    fn check_room(&self, plan: &Plan) -> Result<(), String> {
        let copies = plan.groups.iter().flat_map(|group| &group.copies).map(|copy| PathBuf::from(&copy.directory));
        let mut needed = SPARE_BYTES;
        for directory in copies.chain([self.options.etc.clone(), PathBuf::from(&self.config.manifest_dir)]) {
            let tree = tree::measure(&directory);
            if tree.bytes == u64::MAX {
                // Too large to be measured: the disk says when it is full.
                continue;
            }
            needed = needed.saturating_add(tree.bytes).saturating_add(tree.files.saturating_mul(OF_EACH_FILE_BYTES));
            let partial = self.place.path("");
            if partial
                .canonicalize()
                .is_ok_and(|partial| directory.canonicalize().is_ok_and(|own| partial.starts_with(own)))
            {
                return Err(format!(
                    "the backup lies in {}, which is to be in it: name another place",
                    directory.display()
                ));
            }
        }
        let free = statvfs(&self.place.path("")).map(|found| found.f_bavail.saturating_mul(found.f_frsize));
        let free = free.map_err(|error| format!("see what room there is: {error}"))?;
        if needed > free {
            return Err(format!(
                "there is no room for it: it needs about {}, and {} are free",
                size(needed),
                size(free)
            ));
        }
        Ok(())
    }
}

const STOPPED: &str = "it was stopped, and nothing is left of it";

async fn is_stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending().await
    }
}

fn named(which: &str, hooks: &Hooks, why: &str) -> String {
    format!("hook backup-{which} of pod {}/{} (container {}): {why}", hooks.namespace, hooks.pod, hooks.container)
}

async fn offered(client: &Client, node: &str) -> Result<Offered, String> {
    let reply = client.call(Method::GET, "/backup", None).await;
    let reply = reply.map_err(|error| format!("no agent answers as node {node}: {error}"))?;
    if reply.status == StatusCode::NOT_FOUND {
        return Err("the agent that runs is an older one: systemctl restart coracle-agent".to_owned());
    }
    serde_json::from_slice(&reply.body).map_err(|error| format!("the agent's answer cannot be read: {error}"))
}

/// The claims and volumes in a backup of objects, a line each.
fn claims_of(file: &Path) -> io::Result<Vec<Value>> {
    let mut lines = BufReader::new(fs::File::open(file)?);
    let (mut found, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(found);
        }
        let kinds = [
            ("core/persistentvolumeclaims/", "PersistentVolumeClaim"),
            ("core/persistentvolumes/", "PersistentVolume"),
        ];
        for (folder, kind) in kinds {
            if line.starts_with(format!("{{\"path\":\"{folder}").as_bytes()) {
                let mut object = serde_json::from_slice::<Value>(&line)?["object"].take();
                object["kind"] = kind.into();
                found.push(object);
            }
        }
    }
}

/// The path, below the configuration, of the file that opens sealed Secrets: beside them it would seal nothing.
fn key_file(etc: &Path) -> Option<String> {
    let text = fs::read_to_string(etc.join("master.conf")).ok()?;
    let values = text.lines().filter_map(|line| line.split_once('='));
    let path = values.filter(|(key, _)| key.trim() == "encryption-key").map(|(_, value)| value.trim()).next_back()?;
    Path::new(path).strip_prefix(etc).ok()?.to_str().map(str::to_owned)
}
