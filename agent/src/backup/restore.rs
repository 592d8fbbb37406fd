//! Brings a backup back on a host where its programs are stopped and nothing stands in its places.
//!
//!     sums and places are judged -> every archive is unpacked in its directory, aside -> objects -> all is moved
//!
//! Until the move an error leaves nothing behind. A part that cannot be moved is named, with the parts that are done.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use coracle_http::client::Target;
use rustix::fs::statvfs;
use tokio::process::Command;

use super::archive;
use super::contents::{self, BYTES_MAX, Contents, Kind, NAME, Part};
use super::fits::{self, Found, STAGING};
use super::options::Options;
use super::surroundings::program;
use crate::config::Config;
use crate::host::tree;
use crate::runtime::docker::take_claim;

const MASTER_SOCKET: &str = "/run/coracle/master/api.sock";
const PACKAGES: [&str; 3] = ["coracle-agent", "coracle-master", "coracle-common"];

/// The backup, and what was done, a line each.
pub async fn restore(config: &Config, dir: &Path, options: &Options) -> Result<(Contents, Vec<String>), String> {
    let contents = read(dir)?;
    are_stopped(config)?;
    for part in &contents.parts {
        check_sum(dir, part)?;
    }
    let master = program("coracle-master");
    if contents.parts.iter().any(|part| part.kind == Kind::Objects) && master.is_none() {
        return Err("it has objects of the API: install coracle-master first".to_owned());
    }
    let places = check_places(&contents)?;
    let work = Work { dir, contents: &contents, options, places };
    let done = match work.stage(config).await {
        Ok(()) => work.finish(master.as_deref()).await,
        Err(why) => Err(why),
    };
    if done.is_err() {
        work.clear();
    }
    done.map(|done| (contents, done))
}

fn read(dir: &Path) -> Result<Contents, String> {
    let path = dir.join(NAME);
    let mut text = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("{}: there is no {NAME}, so it is no whole backup", dir.display()))
        }
        Err(error) => Err(format!("{}: {error}", path.display())),
        Ok(_) => contents::read(&text).map_err(|why| format!("{}: {why}", dir.display())),
    }
}

/// Programs that run would write into what is restored.
fn are_stopped(config: &Config) -> Result<(), String> {
    let sockets = config.socket.parent().map(fs::read_dir);
    let agents = sockets.and_then(Result::ok).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sockets: Vec<PathBuf> =
        agents.filter(|path| path.extension().is_some_and(|ending| ending == "sock")).collect();
    sockets.push(MASTER_SOCKET.into());
    if let Some(Target::Unix(path)) = &config.master {
        sockets.push(path.clone());
    }
    match sockets.iter().find(|path| UnixStream::connect(path).is_ok()) {
        Some(path) => Err(format!(
            "a program answers on {}: stop both first, `systemctl stop coracle-agent coracle-master`",
            path.display()
        )),
        None => Ok(()),
    }
}

fn check_sum(dir: &Path, part: &Part) -> Result<(), String> {
    let path = dir.join(&part.file);
    let (bytes, sha256) = archive::sum(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if (bytes, &sha256) == (part.bytes, &part.sha256) {
        return Ok(());
    }
    Err(format!("{}: it is damaged: it is not what was written ({} bytes, {})", path.display(), part.bytes, part.time))
}

/// The directories that were not there, and all reasons against a restore at once.
fn check_places(contents: &Contents) -> Result<Vec<PathBuf>, String> {
    let (mut why, mut made, mut needs) = (Vec::new(), Vec::new(), BTreeMap::new());
    let packaged = packaged();
    for part in contents.parts.iter().filter(|part| part.kind != Kind::Objects) {
        let directory = Path::new(&part.directory);
        let found = found(directory, |path| {
            packaged.iter().any(|one| one == path) || contents.left_out.iter().any(|left| path == Path::new(left))
        });
        why.extend(fits::place(&part.of, &part.directory, &found));
        made.extend(directory.ancestors().take_while(|path| !path.exists()).map(Path::to_owned));
        let above = directory.ancestors().find(|path| path.exists()).unwrap_or(directory);
        let (Ok(about), Ok(room)) = (fs::metadata(above), statvfs(above)) else { continue };
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        needs.entry(about.dev()).or_insert((0, free, above.display().to_string())).0 += part.bytes;
    }
    why.extend(fits::room(&needs));
    made.sort();
    made.dedup();
    if why.is_empty() { Ok(made) } else { Err(format!("nothing was done:\n{}", why.join("\n"))) }
}

/// `passes`: files that are no obstacle.
fn found(directory: &Path, passes: impl Fn(&Path) -> bool) -> Found {
    match fs::symlink_metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
        Err(error) => return Found::Unknown(error.to_string()),
        Ok(found) if !found.is_dir() => return Found::Other,
        Ok(_) => {}
    }
    let names = match fs::read_dir(directory) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()),
        Err(error) => return Found::Unknown(error.to_string()),
    };
    let is_empty = |path: &Path| path.is_dir() && fs::read_dir(path).is_ok_and(|mut names| names.next().is_none());
    let others = names.filter(|path| !is_empty(path) && !passes(path));
    Found::Directory(others.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
}

/// Files of the packages' configuration that are as they were installed.
fn packaged() -> Vec<PathBuf> {
    let listed = std::process::Command::new("dpkg-query").args(["-W", "-f=${Conffiles}\n"]).args(PACKAGES).output();
    let Ok(listed) = listed else { return Vec::new() };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let pairs = text.lines().filter_map(|line| line.trim().split_once(' '));
    let unchanged = pairs.filter(|(path, sum)| {
        let found = std::process::Command::new("md5sum").arg("--").arg(path).output();
        found.is_ok_and(|found| found.status.success() && found.stdout.starts_with(sum.as_bytes()))
    });
    unchanged.map(|(path, _)| path.into()).collect()
}

struct Work<'a> {
    dir: &'a Path,
    contents: &'a Contents,
    options: &'a Options,
    /// Directories that this restore makes.
    places: Vec<PathBuf>,
}

impl Work<'_> {
    fn archives(&self) -> impl Iterator<Item = (&Part, &Path)> {
        let archives = self.contents.parts.iter().filter(|part| part.kind != Kind::Objects);
        archives.map(|part| (part, Path::new(&part.directory)))
    }

    /// Unpacks everything aside.
    async fn stage(&self, config: &Config) -> Result<(), String> {
        for (part, directory) in self.archives() {
            let staging = directory.join(STAGING);
            let failed =
                |why: &dyn std::fmt::Display| format!("nothing was done: {}: {}: {why}", part.of, staging.display());
            make(directory, part.kind).map_err(|error| failed(&error))?;
            DirBuilder::new().mode(0o700).create(&staging).map_err(|error| failed(&error))?;
            let told = archive::unpack(&self.dir.join(&part.file), &staging, None).await.map_err(|why| failed(&why))?;
            if let Some(why) = told.failed {
                return Err(failed(&why));
            }
            File::open(&staging)
                .and_then(|folder| Ok(nix::unistd::syncfs(&folder)?))
                .map_err(|error| failed(&error))?;
        }
        let of_files = self.staged("agent.conf").and_then(|path| fs::read_to_string(path).ok());
        let named = of_files.and_then(|text| fits::value_of(&text, "node-name"));
        let here = named.as_ref().unwrap_or(&config.node_name);
        match fits::node(&self.contents.node, here, self.options.named) {
            Some(why) => Err(format!("nothing was done: {why}")),
            None => Ok(()),
        }
    }

    /// A file of the configuration that was unpacked.
    fn staged(&self, name: &str) -> Option<PathBuf> {
        let mut files = self.archives().filter(|(part, _)| part.kind == Kind::Files);
        files.find_map(|(_, directory)| Some(directory.join(STAGING).join(name)).filter(|path| path.is_file()))
    }

    async fn finish(&self, master: Option<&Path>) -> Result<Vec<String>, String> {
        let mut done = Vec::new();
        if let Some(part) = self.contents.parts.iter().find(|part| part.kind == Kind::Objects)
            && let Some(master) = master
        {
            done.push(self.objects(part, master).await.map_err(|why| format!("nothing was done: {why}"))?);
        }
        for (part, directory) in self.archives() {
            self.settle(part, directory).await.map_err(|why| {
                let so_far = if done.is_empty() { "nothing".to_owned() } else { done.join("; ") };
                format!(
                    "{}: {why}\ndone before: {so_far}\nnot done: {} and what follows it in {NAME}",
                    part.of, part.of
                )
            })?;
            done.push(format!("{}: {} of {}", part.directory, part.of, part.time));
        }
        Ok(done)
    }

    async fn objects(&self, part: &Part, master: &Path) -> Result<String, String> {
        let mut command = Command::new(master);
        command.arg("restore").arg(self.dir.join(&part.file)).stdin(Stdio::null());
        let staged = self.staged("master.conf").map(PathBuf::into_os_string);
        if let Some(config) = self.options.master_config.clone().map(Into::into).or(staged) {
            command.arg("--config").arg(config);
        }
        let output = command.output().await.map_err(|error| format!("run coracle-master: {error}"))?;
        let said = String::from_utf8_lossy(if output.stdout.is_empty() { &output.stderr } else { &output.stdout });
        let said = said.trim().trim_start_matches("coracle-master: ").to_owned();
        // 3: done, but for objects that were damaged when the backup was made.
        if output.status.success() || output.status.code() == Some(3) { Ok(said) } else { Err(said) }
    }

    /// Moves what was unpacked to its place.
    async fn settle(&self, part: &Part, directory: &Path) -> Result<(), String> {
        let staging = directory.join(STAGING);
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        for entry in fs::read_dir(&staging).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            fs::rename(entry.path(), directory.join(entry.file_name())).map_err(failed)?;
        }
        fs::remove_dir(&staging).map_err(failed)?;
        // The directory's own owner, mode and attributes.
        let told = archive::unpack(&self.dir.join(&part.file), directory, Some("./")).await?;
        if let Some(why) = told.failed {
            return Err(why);
        }
        File::open(directory).and_then(|folder| folder.sync_all()).map_err(failed)?;
        if part.kind == Kind::Volume { take_claim(&self.contents.data_dir, directory) } else { Ok(()) }
    }

    /// After an error nothing is left of what was only unpacked.
    fn clear(&self) {
        for (_, directory) in self.archives() {
            let _ = tree::remove(&directory.join(STAGING));
        }
        // Innermost first; a directory that holds something stays.
        for directory in self.places.iter().rev() {
            let _ = fs::remove_dir(directory);
        }
    }
}

/// What a volume lies in is for root alone.
fn make(directory: &Path, kind: Kind) -> io::Result<()> {
    let above = directory.parent().unwrap_or(directory);
    let mode = if kind == Kind::Volume { 0o700 } else { 0o755 };
    above.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    builder.mode(mode).create(above)?;
    builder.mode(0o700).create(directory)
}
