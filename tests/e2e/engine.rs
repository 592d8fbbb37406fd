//! The container engine that all tests of a run share, in a network namespace of its own: Docker, or Podman
//! (CORACLE_ENGINE=podman).

use crate::images;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An engine that takes longer to answer is broken.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Open files of a container, and its processes: enough for any test, and less than each host grants.
const PODMAN_FILES_MAX: u64 = 1 << 20;
const PROCESSES: u64 = 4096;

/// Of the network namespace, and of the folder in /var/tmp: CORACLE_E2E names another one, for runs beside each other.
pub fn called() -> String {
    std::env::var("CORACLE_E2E").unwrap_or_else(|_| "coracle-e2e".to_owned())
}

/// Where everything of this run is.
pub fn place() -> PathBuf {
    Path::new("/var/tmp").join(called())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    Docker,
    Podman,
}

impl Brand {
    pub fn asked() -> Brand {
        match std::env::var("CORACLE_ENGINE").as_deref() {
            Ok("podman") => Brand::Podman,
            Ok("docker") | Err(_) => Brand::Docker,
            Ok(other) => panic!("CORACLE_ENGINE={other}: neither docker nor podman"),
        }
    }

    fn program(self) -> &'static str {
        match self {
            Brand::Docker => "dockerd",
            Brand::Podman => "podman",
        }
    }
}

/// An engine in a network namespace without a way out: like a box on a LAN that has no router.
pub struct Engine {
    pub brand: Brand,
    pub folder: PathBuf,
    process: RefCell<Option<Child>>,
}

impl Engine {
    pub fn start() -> Result<Engine, String> {
        if !nix::unistd::geteuid().is_root() {
            return Err("needs root (network namespaces, an engine); run `make e2e`".to_owned());
        }
        let engine = Engine { brand: Brand::asked(), folder: place(), process: None.into() };
        engine.remove_leftovers();
        let namespace = called();
        for line in [format!("netns add {namespace}"), format!("-n {namespace} link set lo up")] {
            run(Command::new("ip").args(line.split(' ')))?;
        }
        let namespace = fs::File::open(format!("/run/netns/{namespace}"))
            .map_err(|e| format!("open the network namespace: {e}"))?;
        nix::sched::setns(namespace, CloneFlags::CLONE_NEWNET)
            .map_err(|e| format!("enter the network namespace: {e}"))?;
        own_mounts(&engine.folder, engine.brand).map_err(|error| format!("mounts of its own: {error}"))?;
        engine.launch()?;
        images::load(&engine)?;
        Ok(engine)
    }

    pub fn socket(&self) -> String {
        format!("unix://{}/docker.sock", self.folder.display())
    }

    /// Starts the engine (again) and waits until it answers.
    pub fn launch(&self) -> Result<(), String> {
        self.launch_with(&[])
    }

    /// `flags` after the usual ones.
    pub fn launch_with(&self, flags: &[&str]) -> Result<(), String> {
        for stale in ["docker.pid", "exec/containerd/containerd.pid", "docker.sock"] {
            let _ = fs::remove_file(self.folder.join(stale));
        }
        fs::create_dir_all(&self.folder).map_err(|e| format!("{}: {e}", self.folder.display()))?;
        let log = self.folder.join("engine.log");
        let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let program = self.brand.program();
        let mut command = Command::new(program);
        match self.brand {
            Brand::Docker => command.args(self.dockerd_arguments()),
            Brand::Podman => {
                let settings = self.podman_settings()?;
                command.env("CONTAINERS_CONF", settings);
                command.args(self.podman_arguments()).args(["system", "service", "--time", "0", &self.socket()])
            }
        };
        let err = file.try_clone().map_err(|e| e.to_string())?;
        let child = command.args(flags).stdin(Stdio::null()).stdout(file).stderr(err).spawn();
        *self.process.borrow_mut() =
            Some(child.map_err(|e| format!("start {program}: {e}; apt-get install docker.io podman"))?);
        let begun = Instant::now();
        while self.docker(&["version"]).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("{program} does not answer; its log: {}", log.display()));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    fn dockerd_arguments(&self) -> Vec<String> {
        let folder = self.folder.display();
        let paths = [("data-root", "data"), ("exec-root", "exec"), ("pidfile", "docker.pid")];
        let paths = paths.iter().flat_map(|(name, path)| [format!("--{name}"), format!("{folder}/{path}")]);
        paths.chain(["--host".to_owned(), self.socket(), "--bip".to_owned(), "172.31.255.1/24".to_owned()]).collect()
    }

    /// Podman gives containers the limits of a whole host; where these tests run they may not be granted.
    fn podman_settings(&self) -> Result<PathBuf, String> {
        use nix::sys::resource::{Resource, getrlimit};
        let (_, files) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|e| format!("limit of files: {e}"))?;
        let path = self.folder.join("containers.conf");
        let files = files.min(PODMAN_FILES_MAX);
        let text = format!(
            "[containers]\ndefault_ulimits = [\"nofile={files}:{files}\", \"nproc={PROCESSES}:{PROCESSES}\"]\n"
        );
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }

    fn podman_arguments(&self) -> Vec<String> {
        let folder = self.folder.display();
        let paths = [("root", "data"), ("runroot", "exec"), ("tmpdir", "tmp")];
        let paths = paths.iter().flat_map(|(name, path)| [format!("--{name}"), format!("{folder}/{path}")]);
        paths.chain(["--cgroup-manager".to_owned(), "cgroupfs".to_owned()]).collect()
    }

    /// The engine's process gets a signal: STOP hangs it, CONT wakes it, KILL and TERM end it.
    pub fn signal(&self, signal: &str) {
        let child = self.process.borrow();
        let pid = child.as_ref().expect("the engine was started").id().to_string();
        run(Command::new("kill").args([&format!("-{signal}"), &pid])).expect("the engine is there");
    }

    /// Waits for the engine's end after KILL or TERM.
    pub fn ended(&self) {
        if let Some(mut child) = self.process.borrow_mut().take() {
            child.wait().expect("the engine is our child");
        }
    }

    /// The engine ends, and so do its containers: Podman's only do when they are told.
    pub fn stop_with_containers(&self) {
        self.signal("TERM");
        self.ended();
        if self.brand == Brand::Podman {
            run(Command::new("podman").args(self.podman_arguments()).args(["stop", "--all", "--time", "1"]))
                .expect("they are stopped");
        }
    }

    pub fn docker(&self, arguments: &[&str]) -> Result<String, String> {
        run(Command::new("docker").args(["--host", &self.socket()]).args(arguments))
    }

    /// What a run that was killed has left: its engine, what holds its containers, mounts, namespace.
    fn remove_leftovers(&self) {
        let folder = self.folder.to_string_lossy().into_owned();
        for pid in ours(&folder) {
            // Podman's containers outlive the process that holds them.
            let held = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            let held = held.split_whitespace().filter_map(|child| child.parse().ok()).map(nix::unistd::Pid::from_raw);
            for pid in held.chain([pid]) {
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        for mounted in mounts.lines().filter_map(|l| l.split(' ').nth(1)).filter(|m| m.starts_with(&folder)) {
            let _ = umount2(mounted, MntFlags::MNT_DETACH);
        }
        let _ = run(Command::new("ip").args(["netns", "delete", &called()]));
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Of this thread and all that it starts, so that engine and agent see the same: /sys, where the bridges are those of
/// the network namespace, with the host's control groups; and /run/coracle, where two runs beside each other do not
/// meet; nor do two Podmans, whose locks are in /dev/shm.
fn own_mounts(folder: &Path, brand: Brand) -> Result<(), String> {
    fn at(path: &Path) -> impl Fn(nix::Error) -> String {
        move |error| format!("{}: {error}", path.display())
    }
    let nothing = None::<&str>;
    let (sys, groups, aside, run) =
        (Path::new("/sys"), Path::new("/sys/fs/cgroup"), folder.join("cgroup"), Path::new("/run/coracle"));
    for folder in [&aside, run] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    unshare(CloneFlags::CLONE_NEWNS).map_err(at(Path::new("/")))?;
    mount(nothing, "/", nothing, MsFlags::MS_SLAVE | MsFlags::MS_REC, nothing).map_err(at(Path::new("/")))?;
    mount(Some(groups), &aside, nothing, MsFlags::MS_BIND | MsFlags::MS_REC, nothing).map_err(at(groups))?;
    umount2(sys, MntFlags::MNT_DETACH).map_err(at(sys))?;
    mount(Some("sysfs"), sys, Some("sysfs"), MsFlags::empty(), nothing).map_err(at(sys))?;
    mount(Some(&aside), groups, nothing, MsFlags::MS_MOVE, nothing).map_err(at(groups))?;
    mount(Some("tmpfs"), run, Some("tmpfs"), MsFlags::empty(), Some("mode=0755")).map_err(at(run))?;
    let shm = Path::new("/dev/shm");
    if brand == Brand::Podman {
        mount(Some("tmpfs"), shm, Some("tmpfs"), MsFlags::empty(), Some("mode=1777")).map_err(at(shm))?;
    }
    Ok(())
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Some(mut child) = self.process.borrow_mut().take() {
            let _ = run(Command::new("kill").arg(child.id().to_string()));
            let _ = child.wait();
        }
        self.remove_leftovers();
    }
}

/// Programs of an engine or of ours that were started with a path in this folder; nobody else who only names it.
fn ours(folder: &str) -> Vec<nix::unistd::Pid> {
    const NAMES: [&str; 8] = [
        "dockerd",
        "containerd",
        "containerd-shim",
        "docker-proxy",
        "podman",
        "conmon",
        "coracle-master",
        "coracle-agent",
    ];
    let is_ours = |line: &[u8]| {
        let text = String::from_utf8_lossy(line);
        let mut words = text.split('\0');
        let name = words.next().and_then(|program| program.rsplit('/').next()).unwrap_or_default().to_owned();
        NAMES.iter().any(|known| name.starts_with(known)) && words.any(|word| word.contains(&format!("{folder}/")))
    };
    let pids = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let ours = pids.filter(|pid| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_ours(&line)));
    ours.map(nix::unistd::Pid::from_raw).collect()
}

/// A program that must succeed; its output.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!(
            "{command:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}
