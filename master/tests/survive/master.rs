//! A master of this test's own: its folder, its port, its end.

use std::fs::{self, DirBuilder};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// It takes no longer to start unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(5);

/// Gone when the test is, unless it failed.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    pub fn new(test: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("survive-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder { path }
    }

    /// One that everybody may come to: the folder of the build may be root's alone.
    pub fn for_all(test: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("coracle-survive-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder { path }
    }

    /// What a master has said so far.
    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path.join(format!("{name}.log"))).unwrap()
    }

    pub fn path(&self, name: &str) -> String {
        self.path.join(name).to_string_lossy().into_owned()
    }

    pub fn make(&self, name: &str) -> String {
        // The master takes no folder that is open to others.
        DirBuilder::new().recursive(true).mode(0o700).create(self.path.join(name)).unwrap();
        self.path(name)
    }

    /// What a data directory has set aside.
    pub fn quarantined(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path.join(name).join("quarantine")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path().to_string_lossy().into_owned()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("what the test saw lies in {}", self.path.display());
        } else {
            fs::remove_dir_all(&self.path).ok();
        }
    }
}

pub struct Master {
    pub address: SocketAddr,
    child: Mutex<Child>,
}

impl Master {
    /// Serving when this returns.
    pub fn start(folder: &Folder, name: &str) -> Master {
        let log = folder.path.join(format!("{name}.log"));
        let file = fs::OpenOptions::new().append(true).create(true).open(&log).unwrap();
        let said_before = file.metadata().unwrap().len();
        folder.make("run");
        // Paths may be relative.
        let child = Command::new(env!("CARGO_BIN_EXE_coracle-master"))
            .current_dir(&folder.path)
            .args(["--data-dir", name, "--listen", "127.0.0.1:0", "--admin-socket", &format!("run/{name}.sock")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        let child = Mutex::new(child);
        let begun = Instant::now();
        loop {
            let said = fs::read(&log).unwrap();
            let said = String::from_utf8_lossy(&said[said_before as usize..]).into_owned();
            // A port that the kernel chose is taken by nobody else.
            if let Some((_, rest)) = said.split_once(" and http://")
                && let Some((address, _)) = rest.split_once('\n')
            {
                return Master { address: address.parse().unwrap(), child };
            }
            let ended = child.lock().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the master ended ({ended:?}):\n{said}");
            assert!(begun.elapsed() < PATIENCE, "the master does not say where it serves:\n{said}");
            std::thread::sleep(AGAIN);
        }
    }

    /// SIGKILL.
    pub fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.kill();
    }
}
