//! A master of its own: a folder, a free port, the binary that was built last.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// Nothing that is awaited here takes longer unless it is broken; how long it takes is never judged.
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub struct Bed {
    pub folder: PathBuf,
    pub address: String,
    master: Child,
}

impl Bed {
    pub fn start(name: &str) -> Result<Bed, String> {
        Bed::start_with(name, &[])
    }

    /// With more flags.
    pub fn start_with(name: &str, flags: &[&str]) -> Result<Bed, String> {
        let folder = std::env::temp_dir().join(format!("coracle-clients-{}", std::process::id())).join(name);
        fs::create_dir_all(folder.join("run")).map_err(|e| format!("{}: {e}", folder.display()))?;
        fs::set_permissions(folder.join("run"), fs::Permissions::from_mode(0o700)).map_err(|e| e.to_string())?;
        let address = free_address()?;
        let log = fs::File::create(folder.join("master.log")).map_err(|e| e.to_string())?;
        let program = master()?;
        let child = Command::new(&program)
            .args(["--data-dir".as_ref(), folder.join("data").as_os_str()])
            .args(["--admin-socket".as_ref(), folder.join("run/api.sock").as_os_str()])
            .args(["--listen", &address])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(|e| e.to_string())?)
            .stderr(log)
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let mut bed = Bed { folder, address, master: child };
        let begun = Instant::now();
        while std::net::TcpStream::connect(&bed.address).is_err() {
            let ended = bed.master.try_wait().map_err(|e| e.to_string())?;
            if ended.is_some() || begun.elapsed() > PATIENCE {
                return Err(format!("coracle-master does not answer: {}", bed.log()));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(bed)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.folder.join("master.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// A folder with only this client in it, under its own name, to stand first in PATH.
    pub fn tool(&self, name: &str, program: &Path) -> Result<PathBuf, String> {
        let bin = self.folder.join("bin");
        fs::create_dir_all(&bin).map_err(|e| e.to_string())?;
        symlink(program, bin.join(name)).map_err(|e| format!("{}: {e}", program.display()))?;
        Ok(bin)
    }
}

/// What the test started ends with it, also when it fails half-way.
impl Drop for Bed {
    fn drop(&mut self) {
        let _ = self.master.kill();
        let _ = self.master.wait();
        let _ = fs::remove_dir_all(&self.folder);
        // The folder of this run goes with its last bed.
        if let Some(above) = self.folder.parent() {
            let _ = fs::remove_dir(above);
        }
    }
}

fn free_address() -> Result<String, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| format!("no free port: {e}"))?;
    Ok(listener.local_addr().map_err(|e| e.to_string())?.to_string())
}

/// CORACLE_BINARIES names the folder; else it is whichever of the release and the debug binary was built last.
fn master() -> Result<PathBuf, String> {
    const NAME: &str = "coracle-master";
    if let Some(folder) = std::env::var_os("CORACLE_BINARIES") {
        let path = PathBuf::from(folder).join(NAME);
        return if path.exists() { Ok(path) } else { Err(format!("CORACLE_BINARIES: {} is missing", path.display())) };
    }
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let built = |profile: &str| -> Option<(SystemTime, PathBuf)> {
        let path = target.join(profile).join(NAME);
        Some((path.metadata().ok()?.modified().ok()?, path))
    };
    let newest = ["release", "debug"].iter().filter_map(|profile| built(profile)).max();
    newest.map(|(_, path)| path).ok_or_else(|| "coracle-master is not built; run `make test-clients`".to_owned())
}
